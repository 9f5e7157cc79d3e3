"""What the trial loop writes, in the order that makes every crash recoverable.

Attempt before the call, a large output before the row that names it, the answer before its grades. A crash between any
two of these repeats at most the call that was in flight.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Engine

from fairtrial.errors import StoreError
from fairtrial.hashing import sha256_hex
from fairtrial.records.trial import COUNT_OF, Answer, Grade, Outcome, TrialKey
from fairtrial.store.objects import ObjectStore
from fairtrial.store.quarantine import Damaged, said, set_aside
from fairtrial.store.trials import Progressed, output_of, progress_of, results_of, stored_answer
from fairtrial.store.writer import Write, Writer

INLINE_BYTES: Final = 8192
"""Outputs up to this size lie in the row, longer ones in the object store."""

REASON_BYTES: Final = 8192
"""Reasons and error texts are cut here."""

_NO_OUTPUT: Final = sha256_hex(b"")


class Journal:
    """The journal of one experiment, written through its one writer."""

    def __init__(self, engine: Engine, objects: ObjectStore, writer: Writer, *, experiment: str, fence: int):
        self._engine = engine
        self._objects = objects
        self._writer = writer
        self._experiment = experiment
        self._fence = fence

    async def begin(
        self, key: TrialKey, *, attempt: int, started_at: float, reserved_usd: Decimal | None = None
    ) -> None:
        """Record that a call is about to start, and the most it can cost; the call waits for this one commit.

        The reservation ends with the result: what is reserved and has none is what a crash may have spent.
        """
        reserved = None if reserved_usd is None else str(reserved_usd)
        row = {
            **_key_columns(key),
            "attempt": attempt,
            "fence": self._fence,
            "started_at": started_at,
            "reserved_usd": reserved,
        }
        await self._writer.write(Write({"attempt": [{**row, "outcome": None, "error_kind": None}]}))

    async def keep_answer(self, key: TrialKey, answer: Answer, *, attempt: int, started_at: float) -> None:
        """Keep an answer that is not graded yet: from here on the call is never made again."""
        digest = sha256_hex(answer.output)
        inline: bytes | None = answer.output
        unplaced: StoreError | None = None
        if len(answer.output) > INLINE_BYTES:
            try:
                await asyncio.to_thread(self._objects.put_blob, answer.output)
                inline = None
            except StoreError as error:
                # The call was made: its answer is kept in the row, and the run stops after that.
                unplaced = error
        row = self._trial_row(key, answer, attempt=attempt, started_at=started_at, finished_at=None)
        output = {
            **_key_columns(key),
            "sha256": digest,
            "size": len(answer.output),
            "cut": answer.cut,
            "inline": inline,
            "error": answer.error[:REASON_BYTES],
        }
        await self._writer.write(Write({"trial": [row], "trial_output": [output]}))
        if unplaced is not None:
            raise unplaced

    async def finish(
        self,
        key: TrialKey,
        answer: Answer,
        *,
        outcome: Outcome,
        value: float | None,
        grades: Sequence[Grade],
        attempt: int,
        started_at: float,
        finished_at: float,
    ) -> None:
        """Close a trial: its grades, outcome and value, and the arm's totals, in one commit."""
        row = self._trial_row(key, answer, attempt=attempt, started_at=started_at, finished_at=finished_at)
        row |= {"state": "done", "outcome": outcome, "value": value}
        rows: dict[str, list[dict[str, Any]]] = {"trial": [row]}
        if outcome == "infra_loss" and not grades:
            # No answer was kept for this one; its error text still has a place.
            rows["trial_output"] = [
                {
                    **_key_columns(key),
                    "sha256": _NO_OUTPUT,
                    "size": 0,
                    "cut": False,
                    "inline": b"",
                    "error": answer.error[:REASON_BYTES],
                }
            ]
        if grades:
            rows["grade"] = [
                {
                    **_key_columns(key),
                    "try_no": 1,
                    "grader": grade.grader,
                    "version": grade.version,
                    "state": grade.state,
                    "score": grade.score,
                    "reason": grade.reason[:REASON_BYTES],
                }
                for grade in grades
            ]
        counts = Counter({(key.arm, "n_done"): 1, (key.arm, COUNT_OF[outcome]): 1})
        if value == 1.0:
            counts[key.arm, "n_passed"] = 1
        await self._writer.write(Write(rows, counts))

    async def progress(self, *, arms: Sequence[str], cases: Sequence[str]) -> dict[tuple[str, str, int], Progressed]:
        """Return what is known of the trials of these cases."""
        return await asyncio.to_thread(self._progress, arms, cases)

    async def results(
        self, *, arms: Sequence[str], cases: Sequence[str]
    ) -> list[tuple[str, str, int, str, float | None]]:
        """Return (arm, case id, repetition, outcome, value) of the finished trials of these cases."""
        return await asyncio.to_thread(self._results, arms, cases)

    async def answer(self, key: TrialKey) -> Answer:
        """Return a stored answer, checked against its checksum."""
        return await asyncio.to_thread(self._answer, key)

    async def set_answer_aside(self, key: TrialKey) -> str:
        """Move a stored answer that cannot be read into the quarantine, and say in a line for people what was done."""
        return await asyncio.to_thread(self._set_answer_aside, key)

    def _set_answer_aside(self, key: TrialKey) -> str:
        with self._engine.connect() as connection:
            output = output_of(connection, key)
        damaged = Damaged(output, missing=output.inline is None and self._objects.get(f"blobs/{output.sha256}") is None)
        set_aside(self._engine, self._objects, self._experiment, self._fence, [damaged])
        return said(damaged)

    def _progress(self, arms: Sequence[str], cases: Sequence[str]) -> dict[tuple[str, str, int], Progressed]:
        with self._engine.connect() as connection:
            return progress_of(connection, self._experiment, arms=arms, cases=cases)

    def _results(self, arms: Sequence[str], cases: Sequence[str]) -> list[tuple[str, str, int, str, float | None]]:
        with self._engine.connect() as connection:
            return results_of(connection, self._experiment, arms=arms, cases=cases)

    def _answer(self, key: TrialKey) -> Answer:
        with self._engine.connect() as connection:
            return stored_answer(connection, self._objects, key)

    def _trial_row(
        self, key: TrialKey, answer: Answer, *, attempt: int, started_at: float, finished_at: float | None
    ) -> dict[str, Any]:
        cost = answer.usage.cost_usd
        return {
            **_key_columns(key),
            "state": "answered",
            "outcome": None,
            "value": None,
            "error_kind": answer.error_kind,
            "attempt": attempt,
            "fence": self._fence,
            "latency_s": answer.latency_s,
            "input_tokens": answer.usage.input_tokens,
            "output_tokens": answer.usage.output_tokens,
            "cost_usd": None if cost is None else str(cost),
            "started_at": started_at,
            "finished_at": finished_at,
        }


def _key_columns(key: TrialKey) -> dict[str, Any]:
    return {"experiment": key.experiment, "arm": key.arm, "case_id": key.case, "repetition": key.repetition}
