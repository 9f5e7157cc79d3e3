"""Providers by name: which wire shape they speak, where, and which variable their key is in.

Any other server that speaks one of the shapes is reached by the name of its shape's provider and a base_url.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairtrial.providers.shape import Shape


@dataclass(frozen=True, slots=True)
class Known:
    """What a provider's name stands for. api_key_env is the variable its own library reads the key from."""

    shape: Shape
    base_url: str
    api_key_env: str


PROVIDERS: Final[dict[str, Known]] = {
    "openai": Known("openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-responses": Known("openai-responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": Known("anthropic-messages", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}
"""The names a spec may use."""
