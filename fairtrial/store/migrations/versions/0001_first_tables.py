"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None


def _text(length: int | None = None) -> sa.String:
    return sa.String(length).with_variant(postgresql.VARCHAR(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "arm",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("name", _text(60), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("task_hash", _text(64), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("experiment", "name"),
    )
    op.create_table(
        "attempt",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("arm", _text(60), nullable=False),
        sa.Column("case_id", _text(), nullable=False),
        sa.Column("repetition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("outcome", _text(), nullable=True),
        sa.Column("error_kind", _text(), nullable=True),
        sa.PrimaryKeyConstraint("experiment", "arm", "case_id", "repetition", "attempt"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "dataset",
        sa.Column("name", _text(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("hash", _text(64), nullable=False),
        sa.Column("n_cases", sa.Integer(), nullable=False),
        sa.Column("source", _text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_table(
        "experiment",
        sa.Column("id", _text(30), nullable=False),
        sa.Column("name", _text(), nullable=False),
        sa.Column("kind", _text(), nullable=False),
        sa.Column("state", _text(), nullable=False),
        sa.Column("format", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("n_cases", sa.Integer(), nullable=False),
        sa.Column("n_blocks", sa.Integer(), nullable=False),
        sa.Column("slice_blocks", sa.Integer(), nullable=False),
        sa.Column("result_version", sa.Integer(), nullable=False),
        sa.Column("dataset_name", _text(), nullable=False),
        sa.Column("dataset_hash", _text(64), nullable=False),
        sa.Column("plan_hash", _text(64), nullable=False),
        sa.Column("resume_key", _text(64), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_experiment_name", "experiment", ["name"], unique=False)
    op.create_index("ix_experiment_resume_key", "experiment", ["resume_key"], unique=False)
    op.create_index("ix_experiment_state", "experiment", ["state"], unique=False)
    op.create_table(
        "experiment_case",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("case_id", _text(), nullable=False),
        sa.Column("input_hash", _text(64), nullable=False),
        sa.Column("label_hash", _text(64), nullable=False),
        sa.Column("kind", _text(), nullable=False),
        sa.PrimaryKeyConstraint("experiment", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "grade",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("arm", _text(60), nullable=False),
        sa.Column("case_id", _text(), nullable=False),
        sa.Column("repetition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("try_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("grader", _text(), nullable=False),
        sa.Column("version", _text(64), nullable=False),
        sa.Column("state", _text(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("reason", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("experiment", "arm", "case_id", "repetition", "try_no", "grader", "version"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "lease",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("owner", _text(), nullable=False),
        sa.Column("host", _text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_started", sa.Float(), nullable=False),
        sa.Column("boot_id", _text(), nullable=False),
        sa.Column("acquired_at", sa.Float(), nullable=False),
        sa.Column("heartbeat_at", sa.Float(), nullable=False),
        sa.Column("released", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("experiment"),
    )
    op.create_table(
        "look",
        sa.Column("comparison", _text(64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data_hash", _text(64), nullable=False),
        sa.Column("n_pairs", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("comparison", "number"),
    )
    op.create_table(
        "summary",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("arm", _text(60), nullable=False),
        sa.Column("n_planned", sa.Integer(), nullable=False),
        sa.Column("n_done", sa.Integer(), nullable=False),
        sa.Column("n_graded", sa.Integer(), nullable=False),
        sa.Column("n_passed", sa.Integer(), nullable=False),
        sa.Column("n_agent_failures", sa.Integer(), nullable=False),
        sa.Column("n_infra_losses", sa.Integer(), nullable=False),
        sa.Column("n_ungraded", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("experiment", "arm"),
    )
    op.create_table(
        "trial",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("arm", _text(60), nullable=False),
        sa.Column("case_id", _text(), nullable=False),
        sa.Column("repetition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", _text(), nullable=False),
        sa.Column("outcome", _text(), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("error_kind", _text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("latency_s", sa.Float(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", _text(), nullable=True),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("experiment", "arm", "case_id", "repetition"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "trial_output",
        sa.Column("experiment", _text(30), nullable=False),
        sa.Column("arm", _text(60), nullable=False),
        sa.Column("case_id", _text(), nullable=False),
        sa.Column("repetition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sha256", _text(64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("inline", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("experiment", "arm", "case_id", "repetition"),
    )
