"""What went wrong with a model call, in one table: its kind, and what is done about it.

Exact error codes decide before the status does, because a 429 can mean "wait" and "out of money". A provider's own
words are shown redacted, cut and printable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fairtrial.errors import InfraError
from fairtrial.hashing import JsonValue
from fairtrial.spec.text import shown

Action: TypeAlias = Literal["retry", "lose", "stop", "fail"]

N_SHOWN: Final = 300
"""Characters of a provider's own words in a message."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a kind of fault means.

    retry   an infra loss unless another try succeeds
    lose    an infra loss; another try would end the same
    stop    an infra loss, and every further call would be one: the run stops
    fail    the agent's failure: it counts as a fail
    """

    action: Action
    about: str


# docs/providers.md is checked against this table.
FAULTS: Final[dict[str, Fault]] = {
    "rate_limit": Fault("retry", "the provider asks to wait"),
    "overloaded": Fault("retry", "the provider has no capacity at the moment"),
    "server_error": Fault("retry", "the provider failed"),
    "network": Fault("retry", "no connection, one that broke before an answer began, or one that speaks no HTTP"),
    "cut": Fault("retry", "the answer ended before its end"),
    "silent": Fault("retry", "nothing more came for the idle limit"),
    "bad_answer": Fault(
        "retry", "status 200, but no answer: an HTML page, nothing, or something that is not the shape"
    ),
    "error_in_answer": Fault("retry", "status 200 with an error object of no known kind"),
    "timeout": Fault("lose", "no whole answer within the time that the call had"),
    "too_large": Fault("lose", "the answer is longer than the cap, packed or unpacked"),
    "redirect": Fault("lose", "the address answers with another address, which is not followed"),
    "bad_request": Fault("lose", "the provider does not accept the request"),
    "not_authorised": Fault("stop", "the key is missing, wrong or expired"),
    "not_allowed": Fault("stop", "the key may not do this"),
    "not_found": Fault("stop", "the model or the address does not exist, or no longer"),
    "out_of_money": Fault("stop", "the account has no credit left, or its spending limit is reached"),
    "tls": Fault("stop", "the provider's certificate is not accepted, or the address speaks no TLS"),
    "refused": Fault("fail", "the provider's filter refused the input"),
    "too_long": Fault("fail", "the input is longer than the model can read"),
}

STATUSES: Final[dict[int, str]] = {
    401: "not_authorised",
    402: "out_of_money",
    403: "not_allowed",
    404: "not_found",
    405: "not_found",
    408: "server_error",
    409: "server_error",
    410: "not_found",
    413: "too_long",
    421: "server_error",
    423: "server_error",
    425: "server_error",
    429: "rate_limit",
    499: "server_error",
    501: "bad_request",
    503: "overloaded",
    505: "bad_request",
    529: "overloaded",
}
"""Statuses with a kind of their own; else 3xx is redirect, 4xx bad_request, 5xx server_error."""

CODES: Final[dict[str, str]] = {
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "overloaded_error": "overloaded",
    "slow_down": "rate_limit",
    "server_is_overloaded": "overloaded",
    "service_unavailable_error": "overloaded",
    "api_error": "server_error",
    "server_error": "server_error",
    "internal_error": "server_error",
    "internal_server_error": "server_error",
    "timeout_error": "server_error",
    "conflict_error": "server_error",
    "vector_store_timeout": "server_error",
    "authentication_error": "not_authorised",
    "invalid_api_key": "not_authorised",
    "permission_error": "not_allowed",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "DeploymentNotFound": "not_found",
    "insufficient_quota": "out_of_money",
    "billing_error": "out_of_money",
    "billing_not_active": "out_of_money",
    "billing_hard_limit_reached": "out_of_money",
    "credit_balance_exhausted": "out_of_money",
    "credit_balance_too_low": "out_of_money",
    "organization_spend_limit_exceeded": "out_of_money",
    "organization_usage_limit_exceeded": "out_of_money",
    "project_spend_limit_exceeded": "out_of_money",
    "context_length_exceeded": "too_long",
    "string_above_max_length": "too_long",
    "request_too_large": "too_long",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "ResponsibleAIPolicyViolation": "refused",
    "moderation_blocked": "refused",
    "invalid_prompt": "refused",
    "bio_policy": "refused",
    "cyber_policy": "refused",
    "misalignment_policy_violation": "refused",
    "invalid_request_error": "bad_request",
}
"""Values of an error's `code` or `type`."""

# Some faults are told apart by their words alone. Looked for only where the status is 400, 403 or 413.
_WORDS: Final = (
    ("credit balance is too low", "out_of_money"),
    ("reached your specified api usage limits", "out_of_money"),
    ("prompt is too long", "too_long"),
    ("maximum context length", "too_long"),
    ("exceeds the context window", "too_long"),
    ("input was flagged", "refused"),
)
# What a status of the server's own trouble may be narrowed to, but never turned into: a failure of the agent.
_WAITS: Final = ("rate_limit", "overloaded", "server_error", "out_of_money")


class StopTheRun(InfraError):
    """A fault that every further call would meet.

    scope   "model" when only calls of this model would, "key" when all calls with this key and address would
    """

    def __init__(self, message: str, *, kind: str, scope: Literal["key", "model"]):
        super().__init__(message, kind=kind, retryable=False)
        self.scope = scope


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """What a provider says went wrong, in its own words. codes are its `code` and `type`, the nearer one first."""

    codes: tuple[str, ...]
    message: str


def error_object(value: JsonValue, *, is_error: bool = False) -> ErrorObject | None:
    """Return the error that a body is or holds, None when it is none.

    is_error   the status says already that the body is one, so other spellings count too
    """
    if not isinstance(value, dict):
        return ErrorObject((), _text(value)) if is_error and value else None
    inner = value.get("error")
    if isinstance(inner, dict):
        nested = inner.get("innererror")
        deeper = [nested.get("code")] if isinstance(nested, dict) else []
        words = inner.get("message") or inner.get("metadata")
        return ErrorObject(_codes(*deeper, inner.get("code"), inner.get("type")), _text(words))
    if inner:
        return ErrorObject(_codes(value.get("code")), _text(inner))
    if value.get("type") == "error" or value.get("object") == "error" or is_error:
        words = value.get("message") or value.get("detail") or value.get("msg")
        return ErrorObject(_codes(value.get("code"), value.get("type")), _text(words))
    return None


def kind_of(status: int, error: ErrorObject | None) -> str:
    """Return the kind of fault that a status and an error object are; status 200 is an answer that holds an error."""
    by_status = _kind_of_status(status)
    if error is None:
        return by_status
    for code in error.codes:
        kind = CODES.get(code) or (_kind_of_status(int(code)) if code.isdecimal() and 400 <= int(code) < 600 else None)
        # "invalid_request_error" is what providers say of nearly everything; the status or the words know more.
        if kind == "bad_request" and by_status not in ("bad_request", "error_in_answer"):
            continue
        if kind == "bad_request" and (worded := _kind_of_words(error.message)):
            return worded
        if kind is not None and (status < 500 or kind in _WAITS):
            return kind
    if status in (200, 400, 403, 413) and (worded := _kind_of_words(error.message)):
        return worded
    return by_status


def infra_error(
    kind: str, message: str, *, retry_after_s: float | None = None, again: bool | None = None
) -> InfraError:
    """Return the exception for a fault that is not the agent's.

    again   the provider's own word on whether another try makes sense, None when it has none; it does not lift a stop
    """
    fault = FAULTS[kind]
    if fault.action == "stop":
        return StopTheRun(message, kind=kind, scope="model" if kind == "not_found" else "key")
    retryable = fault.action == "retry" if again is None or kind == "timeout" else again
    return InfraError(message, kind=kind, retryable=retryable, retry_after_s=retry_after_s)


def words_of(error: ErrorObject | None, *, redact: Callable[[str], str] = str) -> str:
    """Return what the provider said, printable and short, to end a message with; nothing when it said nothing.

    redact   takes secrets out; it comes before the cut, which could leave half of one
    """
    if error is None or not (error.codes or error.message):
        return ""
    codes = f" ({', '.join(shown(redact(code))[1:-1] for code in error.codes)})" if error.codes else ""
    return f"{codes}: {shown(redact(error.message), limit=N_SHOWN)}" if error.message else codes


def _kind_of_status(status: int) -> str:
    if status in STATUSES:
        return STATUSES[status]
    if 200 <= status < 300:
        return "error_in_answer"
    if 300 <= status < 400:
        return "redirect"
    if 400 <= status < 500:
        return "bad_request"
    return "server_error" if 500 <= status < 600 else "bad_answer"


def _kind_of_words(message: str) -> str | None:
    lowered = message.casefold()
    return next((kind for words, kind in _WORDS if words in lowered), None)


def _codes(*values: JsonValue) -> tuple[str, ...]:
    found = [str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool) and value]
    return tuple(dict.fromkeys(code for code in found if code != "error"))


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return _text(value[0])
    if isinstance(value, Mapping):
        return _text(value.get("message") or value.get("msg") or value.get("raw"))
    return ""
