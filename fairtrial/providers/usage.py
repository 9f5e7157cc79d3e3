"""What one model call used, in one normal form for every wire shape, each token counted once.

OpenAI's shapes count cached tokens inside the input and reasoning inside the output; Anthropic counts cached ones
beside the input. A count that was not reported is None, which is not 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairtrial.hashing import JsonValue

MAX_COUNT: Final = 2**63
"""What no count reaches, and no database column holds."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one call. None means the provider did not say.

    fresh_input        read anew; everything read when the provider does not tell cached ones apart
    cached_read        read from its cache
    cached_write       written to its cache, in all
    cached_write_1h    those of cached_write that are kept for an hour, which cost more
    output             written as an answer; everything written when reasoning is not told apart
    reasoning          written while thinking
    billed_apart       names what was used that is not billed by these tokens, such as a hosted tool; () for nothing
    """

    fresh_input: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None
    cached_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    billed_apart: tuple[str, ...] = ()

    @property
    def input_total(self) -> int | None:
        """Return all tokens that were read, None when that was not reported."""
        return None if self.fresh_input is None else _sum(self.fresh_input, self.cached_read, self.cached_write)

    @property
    def output_total(self) -> int | None:
        """Return all tokens that were written, None when that was not reported."""
        return None if self.output is None else _sum(self.output, self.reasoning)


NOT_REPORTED: Final = TokenUsage()


def from_openai(usage: JsonValue, *, hosted_tools: Iterable[str] = ()) -> TokenUsage:
    """Return the normal form of the `usage` of chat completions or responses.

    hosted_tools   tools that the provider itself ran, as the answer names them

    Parts that contradict their total are not believed: the total then counts as fresh input (or output) and the parts
    as not reported, except where the three totals show that reasoning stands beside the output, as some providers have
    it.
    """
    counts = _mapping(usage)
    read = _count(counts, "prompt_tokens", "input_tokens")
    written = _count(counts, "completion_tokens", "output_tokens")
    read_parts = _mapping(counts.get("prompt_tokens_details") or counts.get("input_tokens_details"))
    written_parts = _mapping(counts.get("completion_tokens_details") or counts.get("output_tokens_details"))
    cached = _count(read_parts, "cached_tokens")
    if cached is None:
        cached = _count(counts, "prompt_cache_hit_tokens")
    stored = _count(read_parts, "cache_write_tokens")
    if read is None or _sum(cached, stored) > read:
        cached = stored = None
    output, reasoning = _apart(read, written, _count(written_parts, "reasoning_tokens"), _count(counts, "total_tokens"))
    audio = _sum(_count(read_parts, "audio_tokens"), _count(written_parts, "audio_tokens"))
    return TokenUsage(
        fresh_input=None if read is None else read - _sum(cached, stored),
        cached_read=cached,
        cached_write=stored,
        output=output,
        reasoning=reasoning,
        billed_apart=(*(("audio",) if audio else ()), *sorted(set(hosted_tools))),
    )


def from_anthropic(usage: JsonValue) -> TokenUsage:
    """Return the normal form of the `usage` of messages; of a stream, all its usage objects laid over each other."""
    counts = _mapping(usage)
    stored = _count(counts, "cache_creation_input_tokens")
    for_an_hour = _count(_mapping(counts.get("cache_creation")), "ephemeral_1h_input_tokens")
    written = _count(counts, "output_tokens")
    reasoning = _count(_mapping(counts.get("output_tokens_details")), "thinking_tokens")
    if written is None or (reasoning or 0) > written:
        reasoning = None
    hosted = _mapping(counts.get("server_tool_use"))
    return TokenUsage(
        fresh_input=_count(counts, "input_tokens"),
        cached_read=_count(counts, "cache_read_input_tokens"),
        cached_write=stored,
        cached_write_1h=None if stored is None or (for_an_hour or 0) > stored else for_an_hour,
        output=None if written is None else written - (reasoning or 0),
        reasoning=reasoning,
        billed_apart=tuple(sorted(name.removesuffix("_requests") for name in hosted if _count(hosted, name))),
    )


def _apart(
    read: int | None, written: int | None, reasoning: int | None, total: int | None
) -> tuple[int | None, int | None]:
    """Return the tokens of the answer and those of the reasoning."""
    if written is None:
        return None, None
    if reasoning and read is not None and total == read + written + reasoning:
        return written, reasoning
    if reasoning is None or reasoning > written:
        return written, None
    return written - reasoning, reasoning


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _count(counts: Mapping[str, JsonValue], *names: str) -> int | None:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT:
            return value
    return None


def _sum(*counts: int | None) -> int:
    return sum(count or 0 for count in counts)
