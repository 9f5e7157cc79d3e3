"""Looks: how often two runs were compared while they grew.

Comparing again without new trials is the same look; each look at new ones makes a wrong verdict likelier than stated.
"""

from __future__ import annotations

import time

from sqlalchemy import Engine, func, insert, select

from fairtrial.store.database import lock_alone
from fairtrial.store.tables import LookRow, table_of

_LOOK = table_of(LookRow)


def take_look(engine: Engine, comparison: str, *, data_hash: str, n_pairs: int) -> int:
    """Store a look and return its number, from 1. Raises StoreError when the store cannot be written.

    comparison  hash of the two sides and the options
    data_hash   hash of what was compared
    """
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        lock_alone(connection)
        same = connection.execute(
            select(_LOOK.c.number).where(_LOOK.c.comparison == comparison, _LOOK.c.data_hash == data_hash)
        ).scalar()
        if same is not None:
            return int(same)
        newest = connection.execute(select(func.max(_LOOK.c.number)).where(_LOOK.c.comparison == comparison)).scalar()
        number = (newest or 0) + 1
        connection.execute(
            insert(_LOOK).values(
                comparison=comparison, number=number, data_hash=data_hash, n_pairs=n_pairs, at=time.time()
            )
        )
        return number
