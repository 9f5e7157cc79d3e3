"""What an attempt may cost and what it came to when it was taken back; the checksum of a stored verdict."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"


def _text(length: int | None = None) -> sa.String:
    return sa.String(length).with_variant(postgresql.VARCHAR(length, collation="C"), "postgresql")


def upgrade() -> None:
    for column in (
        sa.Column("reserved_usd", _text(), nullable=True),
        sa.Column("taken_back", _text(), nullable=True),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.Column("latency_s", sa.Float(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", _text(), nullable=True),
        sa.Column("output_sha256", _text(64), nullable=True),
        sa.Column("output", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=True),
    ):
        op.add_column("attempt", column)
    op.add_column("experiment", sa.Column("verdict_sha256", _text(64), nullable=True))
