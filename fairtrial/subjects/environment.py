"""The environment of a user's program: what exp was started with, what the spec adds, and the secrets in it.

A value taken by `from_env` is read here and nowhere else; it goes to the program and to the redactor, not into a
version, a message or a record.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairtrial.errors import SpecError
from fairtrial.redact import Redactor
from fairtrial.spec.models import FromEnv


def check_env(env: Mapping[str, str | FromEnv], environ: Mapping[str, str], *, place: str) -> None:
    """Raise SpecError for a `from_env` that is not set."""
    for name, value in env.items():
        if isinstance(value, FromEnv) and value.from_env not in environ:
            raise SpecError(
                f"the environment variable {value.from_env} is not set.",
                hint=f"Set it before the start: export {value.from_env}=…",
                place=f"{place}.{name}",
            )


def resolve_env(env: Mapping[str, str | FromEnv], environ: Mapping[str, str]) -> dict[str, str | bytes]:
    """Return `environ` with `env` on top. A `from_env` that is not set is left out; check_env refuses it earlier."""
    resolved: dict[str, str | bytes] = dict(environ)
    for name, value in env.items():
        if isinstance(value, str):
            resolved[name] = value
        elif value.from_env in environ:
            resolved[name] = environ[value.from_env]
    return resolved


def redactor_for(env: Mapping[str, str | FromEnv], environ: Mapping[str, str]) -> Redactor:
    """Return the redactor of the values that `env` takes by `from_env`."""
    names = [value.from_env for value in env.values() if isinstance(value, FromEnv)]
    return Redactor({name: environ[name] for name in names if name in environ})
