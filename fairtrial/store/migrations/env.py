"""Alembic's entry: runs on the connection that fairtrial.store.database hands over."""

from __future__ import annotations

from alembic import context
from sqlmodel import SQLModel

import fairtrial.store.tables  # noqa: F401  fills SQLModel.metadata

# batch mode: SQLite cannot alter a column in place
context.configure(
    connection=context.config.attributes["connection"], target_metadata=SQLModel.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
