"""The tables, as SQLModel classes; they stay inside fairtrial/store.

Whatever came from outside (outputs, reasons, errors, specs) is in bytes columns, so NUL and half surrogates survive on
every database. Times are seconds since the epoch in UTC; money is the text of an exact decimal. Text sorts by code
point on every database, as it does in Python, so that pages, cursors and verdicts are the same everywhere.

Answers have a table of their own: reading the scores of a run must not read its texts.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from sqlalchemy import BigInteger, Column, LargeBinary, String, Table
from sqlalchemy.dialects import postgresql
from sqlmodel import AutoString, Field, SQLModel

FORMAT = 1
"""Version of what the rows mean; a stored experiment carries the one it was written with."""


def table_of(model: type[SQLModel]) -> Table:
    """Return the Core table of a model, for bulk reads and writes."""
    return model.metadata.tables[str(model.__tablename__)]


def as_column(text: str) -> str:
    """Return a text as a column can hold it: the name of a file may hold bytes that are no text.

    In Python those are half surrogates, which no database takes.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _bytes(*, nullable: bool = False) -> Any:
    return Field(default=None if nullable else b"", sa_column=Column(LargeBinary, nullable=nullable))


class ExperimentRow(SQLModel, table=True):
    """One experiment; `document` is the canonical JSON of everything it was asked to do."""

    __tablename__: ClassVar[str] = "experiment"

    id: str = Field(primary_key=True, max_length=30)
    name: str = Field(index=True)
    kind: str
    state: str = Field(index=True)
    format: int = FORMAT
    created_at: float
    finished_at: float | None = None
    seed: int = Field(sa_type=BigInteger)
    trials: int
    n_cases: int
    n_blocks: int
    slice_blocks: int
    result_version: int = 1
    dataset_name: str
    dataset_hash: str = Field(max_length=64)
    plan_hash: str = Field(max_length=64)
    resume_key: str = Field(max_length=64, index=True)
    document: bytes = _bytes()
    verdict_sha256: str | None = Field(default=None, max_length=64)


class ArmRow(SQLModel, table=True):
    """One arm; `document` holds its task, limits, task version and grader versions."""

    __tablename__: ClassVar[str] = "arm"

    experiment: str = Field(primary_key=True, max_length=30)
    name: str = Field(primary_key=True, max_length=60)
    position: int
    task_hash: str = Field(max_length=64)
    document: bytes = _bytes()


class CaseRow(SQLModel, table=True):
    """One case of one experiment, without its texts: those are in the dataset's object."""

    __tablename__: ClassVar[str] = "experiment_case"
    __table_args__: ClassVar[dict[str, Any]] = {"sqlite_with_rowid": False}

    experiment: str = Field(primary_key=True, max_length=30)
    position: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    case_id: str
    input_hash: str = Field(max_length=64)
    label_hash: str = Field(max_length=64)
    kind: str


class TrialRow(SQLModel, table=True):
    """One trial's result. `state` is answered (not graded yet) or done."""

    __tablename__: ClassVar[str] = "trial"
    __table_args__: ClassVar[dict[str, Any]] = {"sqlite_with_rowid": False}

    experiment: str = Field(primary_key=True, max_length=30)
    arm: str = Field(primary_key=True, max_length=60)
    case_id: str = Field(primary_key=True)
    repetition: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    state: str
    outcome: str | None = None
    value: float | None = None
    error_kind: str | None = None
    attempt: int
    fence: int
    latency_s: float | None = None
    input_tokens: int | None = Field(default=None, sa_type=BigInteger)
    output_tokens: int | None = Field(default=None, sa_type=BigInteger)
    cost_usd: str | None = None
    started_at: float
    finished_at: float | None = None


class OutputRow(SQLModel, table=True):
    """The answer of one trial: inline up to 8 KB, else in blobs/<sha256>. The checksum is of the whole output."""

    __tablename__: ClassVar[str] = "trial_output"

    experiment: str = Field(primary_key=True, max_length=30)
    arm: str = Field(primary_key=True, max_length=60)
    case_id: str = Field(primary_key=True)
    repetition: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    sha256: str = Field(max_length=64)
    size: int = Field(sa_type=BigInteger)
    cut: bool = False
    inline: bytes | None = _bytes(nullable=True)
    error: bytes = _bytes()


class AttemptRow(SQLModel, table=True):
    """The mark that a call was about to start. An attempt that no trial names was cut off by a crash, or taken back.

    reserved_usd is the most its call can cost, an exact decimal; it counts until the attempt has a result. The columns
    from `outcome` on are filled when that result is taken back: the history of a trial that was run again.
    """

    __tablename__: ClassVar[str] = "attempt"
    __table_args__: ClassVar[dict[str, Any]] = {"sqlite_with_rowid": False}

    experiment: str = Field(primary_key=True, max_length=30)
    arm: str = Field(primary_key=True, max_length=60)
    case_id: str = Field(primary_key=True)
    repetition: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    attempt: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    fence: int
    started_at: float
    reserved_usd: str | None = None
    outcome: str | None = None
    error_kind: str | None = None
    taken_back: str | None = None
    finished_at: float | None = None
    latency_s: float | None = None
    input_tokens: int | None = Field(default=None, sa_type=BigInteger)
    output_tokens: int | None = Field(default=None, sa_type=BigInteger)
    cost_usd: str | None = None
    output_sha256: str | None = Field(default=None, max_length=64)
    output: bytes | None = _bytes(nullable=True)
    error: bytes | None = _bytes(nullable=True)


class GradeRow(SQLModel, table=True):
    """One grader's reading of one try of one trial."""

    __tablename__: ClassVar[str] = "grade"
    __table_args__: ClassVar[dict[str, Any]] = {"sqlite_with_rowid": False}

    experiment: str = Field(primary_key=True, max_length=30)
    arm: str = Field(primary_key=True, max_length=60)
    case_id: str = Field(primary_key=True)
    repetition: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    try_no: int = Field(default=1, primary_key=True, sa_column_kwargs={"autoincrement": False})
    grader: str = Field(primary_key=True)
    version: str = Field(primary_key=True, max_length=64)
    state: str
    score: float | None = None
    reason: bytes = _bytes()


class LeaseRow(SQLModel, table=True):
    """Who runs an experiment. The fencing number rises with every owner and is checked in every write."""

    __tablename__: ClassVar[str] = "lease"

    experiment: str = Field(primary_key=True, max_length=30)
    fence: int
    owner: str
    host: str
    pid: int
    process_started: float
    boot_id: str
    acquired_at: float
    heartbeat_at: float
    released: bool = False


SUMMARY_COUNTS: Final = ("n_done", "n_graded", "n_passed", "n_agent_failures", "n_infra_losses", "n_ungraded")
"""What the summary of an arm counts, in the order of its columns."""


class SummaryRow(SQLModel, table=True):
    """Running totals of one arm, kept in the same commit as the trials they count; lists read nothing else."""

    __tablename__: ClassVar[str] = "summary"

    experiment: str = Field(primary_key=True, max_length=30)
    arm: str = Field(primary_key=True, max_length=60)
    n_planned: int
    n_done: int = 0
    n_graded: int = 0
    n_passed: int = 0
    n_agent_failures: int = 0
    n_infra_losses: int = 0
    n_ungraded: int = 0


class DatasetRow(SQLModel, table=True):
    """A registered dataset version; its content is in blobs/<hash>."""

    __tablename__: ClassVar[str] = "dataset"

    name: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    hash: str = Field(max_length=64)
    n_cases: int
    source: str
    created_at: float


class LookRow(SQLModel, table=True):
    """One look at a comparison. The same two runs looked at while they grow no longer hold the stated level."""

    __tablename__: ClassVar[str] = "look"

    comparison: str = Field(primary_key=True, max_length=64)
    number: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    data_hash: str = Field(max_length=64)
    n_pairs: int
    at: float


def _by_code_point(length: int | None) -> String:
    # Postgres would sort by the language of its host.
    return String(length).with_variant(postgresql.VARCHAR(length, collation="C"), "postgresql")


for _table in SQLModel.metadata.tables.values():
    for _column in _table.columns:
        if isinstance(_column.type, AutoString):
            _column.type = _by_code_point(cast("String", _column.type.impl).length)
