"""The function that checks JSON against a schema, run by python_runner.py in a process that can be ended.

A schema's patterns go to `re`, which has no time limit, and some keywords take time that grows with the square of the
answer: only the process around this bounds them.
"""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

from jsonschema import exceptions, validators
from jsonschema_specifications import REGISTRY

MOST_ERRORS = 100
"""Errors looked at for the one that is named."""

MESSAGE_CAP = 400
"""Characters of a message; it may hold a part of the answer."""


def check(answer: str, schema: str) -> dict[str, Any]:
    """Return the score and reason of an answer that is JSON, by the text of a schema."""
    validator = compiled(schema)
    error = exceptions.best_match(itertools.islice(validator.iter_errors(json.loads(answer)), MOST_ERRORS))
    if error is None:
        return {"score": 1}
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in error.absolute_path)
    path = "".join(f"/{part}" for part in parts) or "the value"
    message = error.message if len(error.message) <= MESSAGE_CAP else f"{error.message[:MESSAGE_CAP]}…"
    return {"score": 0, "reason": f"{path}: {message}"}


@functools.lru_cache(maxsize=4)
def compiled(schema: str) -> Any:
    """Return the validator of a schema. Its registry knows the published dialects and fetches nothing."""
    document = json.loads(schema)
    kind = validators.validator_for(document, default=validators.Draft202012Validator)
    return kind(document, registry=REGISTRY)
