"""One tree of errors, by the boundary that was crossed, and the one table of what each means outside.

A message says what, which one, and what to do; it never holds a secret or a stack frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True)
class Status:
    """What an error code means to a shell and to an HTTP client."""

    exit: int
    http: int
    about: str


# The documentation page of errors (docs/errors.md) is checked against this table.
CODES: Final[dict[str, Status]] = {
    "bad_usage": Status(64, 400, "a flag or an argument is wrong"),
    "bad_spec": Status(64, 422, "the spec cannot run as written"),
    "bad_input": Status(64, 422, "a file or a text from outside could not be read"),
    "bad_dataset": Status(64, 422, "the dataset has a record that cannot be used"),
    "unknown_experiment": Status(64, 404, "no stored experiment has that id"),
    "unknown_dataset": Status(64, 404, "no registered dataset has that name or version"),
    "nothing_selected": Status(64, 422, "the selection leaves no case to run"),
    "arms_disagree": Status(64, 422, "arms of one experiment differ where they must agree"),
    "changed_inputs": Status(64, 409, "resume was refused because something measured has changed"),
    "run_owned": Status(64, 409, "another process runs this experiment"),
    "not_comparable": Status(64, 422, "the two runs cannot be compared"),
    "store_newer": Status(64, 500, "the store was written by a newer version"),
    "store_unavailable": Status(4, 503, "the store did not answer"),
    "no_space": Status(4, 507, "the disk is full"),
    "server_unreachable": Status(4, 503, "the Prefect server did not answer"),
    "not_complete": Status(4, 409, "the run ended before every trial was done"),
    "nothing_graded": Status(4, 422, "no trial has a score"),
    "missing_object": Status(70, 500, "a stored object that a record names is not there"),
    "damaged_record": Status(70, 500, "a stored record does not match its checksum"),
    "internal": Status(70, 500, "a fault of ours"),
}


class FairtrialError(Exception):
    """Base of every error that leaves this package.

    `code` is a key of CODES, `hint` says what to do next, `place` is file:line:column or a key path.
    """

    default_code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None, place: str | None = None):
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint
        self.place = place
        if self.code not in CODES:
            raise ValueError(f"error code {self.code!r} is not in the table")

    @property
    def exit_status(self) -> int:
        """Return the process exit status of this error."""
        return CODES[self.code].exit

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class SpecError(FairtrialError):
    """What was asked cannot run; nothing was started."""

    default_code = "bad_spec"


class InputError(SpecError):
    """A file or text from outside could not be read; names the place, never the content of a secret."""

    default_code = "bad_input"


class ChangedInputs(SpecError):
    """Resume refused; names what changed."""

    default_code = "changed_inputs"


class ConflictError(FairtrialError):
    """The world moved: another owner, an outdated experiment."""

    default_code = "run_owned"


class InfraError(FairtrialError):
    """Rate limit, 5xx, network, lost worker: worth another try. Retries look at this type and at nothing else.

    `kind` is a short word that reports count by, such as `rate_limit`, `server_error`, `network`, `recording`.
    """

    default_code = "not_complete"

    def __init__(self, message: str, *, kind: str, retryable: bool = True, retry_after_s: float | None = None):
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class StoreError(FairtrialError):
    """The record itself cannot be read or written; the run stops."""

    default_code = "store_unavailable"
