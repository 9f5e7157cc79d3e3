"""What opening a large run reads: one or three columns of every row, a piece at a time.

Hundreds of thousands of rows pass here, so nothing is made of a row but the tuple it comes as.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, select

from fairtrial.store.database import PIECE
from fairtrial.store.tables import CaseRow, TrialRow, table_of

_CASE = table_of(CaseRow)
_TRIAL = table_of(TrialRow)

_IN_PIECES: Final = {"yield_per": PIECE}


def case_ids_of(connection: Connection, experiment: str) -> list[str]:
    """Return the ids of an experiment's cases, in plan order."""
    query = select(_CASE.c.case_id).where(_CASE.c.experiment == experiment).order_by(_CASE.c.position)
    return [case_id for (case_id,) in connection.execute(query, execution_options=_IN_PIECES)]


def iter_done(connection: Connection, experiment: str) -> Iterator[tuple[str, str, int]]:
    """Yield (arm, case id, repetition) of every finished trial, in no order; the connection is busy until the last."""
    query = select(_TRIAL.c.arm, _TRIAL.c.case_id, _TRIAL.c.repetition).where(
        _TRIAL.c.experiment == experiment, _TRIAL.c.state == "done"
    )
    yield from connection.execute(query, execution_options=_IN_PIECES)
