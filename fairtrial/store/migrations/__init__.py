"""Alembic migrations of the store; an older store is brought up when it is opened for writing."""
