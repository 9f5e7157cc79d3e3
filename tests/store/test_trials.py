"""Trials read back: the exact bytes, page by page, in one order everywhere, and damage named instead of shown."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from fairtrial.engine.journal import INLINE_BYTES, Journal
from fairtrial.errors import StoreError
from fairtrial.hashing import sha256_hex
from fairtrial.records.experiment import CaseRef, ExperimentRecord
from fairtrial.records.trial import Answer, Grade, GradeState, Outcome, TrialKey, Usage
from fairtrial.store.done import iter_done
from fairtrial.store.lease import acquire, this_process
from fairtrial.store.objects import ObjectStore
from fairtrial.store.trials import (
    cost_of,
    count_cut_off,
    errors_of,
    page_of_trials,
    parts_of,
    progress_of,
    reserved_of,
    results_of,
    scores_of,
    stored_answer,
    values_of,
)
from fairtrial.store.writer import Writer

# One of everything that breaks a column of text somewhere.
ODD_BYTES = [
    b"",
    b"\0",
    bytes(range(256)),
    "\ud835".encode("utf-8", "surrogatepass"),
    "\U0001f600".encode()[:2],
    b"\r\n\x85\x1c\xe2\x80\xa8",
    b"x" * INLINE_BYTES,
    b"x" * (INLINE_BYTES + 1),
]

# Sorted by code point, as Python and SQLite do: upper before lower case, "-" before "_", é behind z, 10 before 9.
IDS = ["10", "9", "A", "Z", "a", "a b", "a-b", "a_b", "b", "z", "é", "Ω", "日本", "\U0001f600"]


class Bench:
    """An experiment whose trials are written the way a run writes them."""

    def __init__(self, engine: Engine, objects: ObjectStore, record: ExperimentRecord):
        self.engine, self.objects, self.record = engine, objects, record
        self.fence = fence = acquire(engine, record.id, this_process()).fence
        self.writer = Writer(engine, record.id, fence)
        self.journal = Journal(engine, objects, self.writer, experiment=record.id, fence=fence)

    def key(self, case: str, *, arm: str = "base", repetition: int = 1) -> TrialKey:
        return TrialKey(self.record.id, arm, case, repetition)

    async def finish(
        self,
        key: TrialKey,
        answer: Answer,
        *,
        outcome: Outcome = "graded",
        value: float | None = 1.0,
        grades: tuple[Grade, ...] = (),
        attempt: int = 1,
    ) -> None:
        await self.journal.begin(key, attempt=attempt, started_at=100.5)
        if outcome != "infra_loss" or grades:
            await self.journal.keep_answer(key, answer, attempt=attempt, started_at=100.5)
        await self.journal.finish(
            key,
            answer,
            outcome=outcome,
            value=value,
            grades=grades,
            attempt=attempt,
            started_at=100.5,
            finished_at=101.75,
        )


@pytest.fixture
def bench(engine: Engine, objects: ObjectStore, make: Any) -> Iterator[Bench]:
    cases = [CaseRef(n, case, "", "", "ordinary") for n, case in enumerate(IDS)]
    bench = Bench(engine, objects, make(arms=("base", "cand"), cases=cases, n_cases=len(IDS)))
    yield bench
    bench.writer.close()


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        yield connection


def write(bench: Bench, *writes: tuple[TrialKey, Answer, dict[str, Any]]) -> None:
    async def main() -> None:
        await asyncio.gather(*(bench.finish(key, answer, **rest) for key, answer, rest in writes))

    asyncio.run(main())


@pytest.mark.parametrize("output", ODD_BYTES, ids=range(len(ODD_BYTES)))
def test_k85_a_trial_comes_back_with_every_byte_and_every_field(
    bench: Bench, engine: Engine, objects: ObjectStore, output: bytes
) -> None:
    answer = Answer(
        output=output,
        error_kind=None,
        error=output[:100],
        cut=True,
        latency_s=0.1,
        usage=Usage(2**63 - 1, 0, Decimal("0.1000000000000000000000000001")),
    )
    grades = (
        Grade("aaa", "1" * 64, "scored", 0.1 + 0.2, reason=output[:100]),
        Grade("b", "2" * 64, "no_score", None, reason=b""),
    )
    key = bench.key("日本", arm="cand", repetition=1)
    write(bench, (key, answer, {"grades": grades, "value": 0.0}))
    with engine.connect() as connection:
        (trial,) = page_of_trials(connection, objects, bench.record.id)
        assert stored_answer(connection, objects, key) == answer
    assert (trial.key, trial.outcome, trial.value, trial.attempt) == (key, "graded", 0.0, 1)
    assert trial.answer == answer
    assert trial.grades == grades
    assert (trial.started_at.timestamp(), trial.finished_at.timestamp()) == (100.5, 101.75)
    assert trial.started_at.utcoffset() is not None


def test_ten_megabytes_come_back_through_the_object_store_and_equal_ones_are_kept_once(
    bench: Bench, engine: Engine, objects: ObjectStore, ask: Any
) -> None:
    output = bytes(range(256)) * 40_960
    assert len(output) == 10 * 1024 * 1024
    write(bench, *((bench.key(case), Answer(output), {}) for case in ("a", "b")))
    assert ask("select inline, size from trial_output") == [(None, len(output))] * 2
    if objects.folder is not None:
        assert len(list((objects.folder / "blobs").iterdir())) == 1
    with engine.connect() as connection:
        assert [trial.answer.output for trial in page_of_trials(connection, objects, bench.record.id)] == [output] * 2


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_any_output_comes_back(bench: Bench, engine: Engine, objects: ObjectStore, output: bytes) -> None:
    key = bench.key("a")
    write(bench, (key, Answer(output, error=output[::-1]), {}))
    with engine.connect() as connection:
        assert stored_answer(connection, objects, key) == Answer(output, error=output[::-1])


def test_pages_in_key_order_meet_every_trial_once(bench: Bench, connection: Connection, objects: ObjectStore) -> None:
    keys = [bench.key(case, arm=arm, repetition=n) for arm in ("base", "cand") for case in IDS for n in (1, 2, 10)]
    shuffled = random.Random(1).sample(keys, len(keys))
    write(bench, *((key, Answer(b"x"), {}) for key in shuffled))
    for limit in (1, 5, 7, 1000):
        found: list[TrialKey] = []
        after: tuple[str, str, int] | None = None
        while page := page_of_trials(connection, objects, bench.record.id, after=after, limit=limit):
            assert len(page) <= limit
            found += [trial.key for trial in page]
            after = (found[-1].arm, found[-1].case, found[-1].repetition)
        assert found == keys


def test_pages_hold_what_was_asked_for(bench: Bench, connection: Connection, objects: ObjectStore) -> None:
    outcomes: list[Outcome] = ["graded", "agent_failure", "infra_loss", "ungraded"]
    write(
        bench,
        *(
            (bench.key(case, arm=arm), Answer(b"x", error_kind="k"), {"outcome": outcome, "value": None})
            for arm in ("base", "cand")
            for case, outcome in zip("abzA", outcomes, strict=True)
        ),
    )
    asyncio.run(bench.journal.begin(bench.key("Z"), attempt=1, started_at=1.0))
    asyncio.run(bench.journal.keep_answer(bench.key("Ω"), Answer(b"y"), attempt=1, started_at=1.0))

    def shown(**asked: Any) -> list[tuple[str, str]]:
        return [(t.key.arm, t.key.case) for t in page_of_trials(connection, objects, bench.record.id, **asked)]

    assert shown() == [(arm, case) for arm in ("base", "cand") for case in "Aabz"]
    assert shown(arm="cand", outcome="infra_loss") == [("cand", "z")]
    assert shown(case="a") == [("base", "a"), ("cand", "a")]
    assert shown(arm="none") == shown(case="%") == shown(after=("cand", "z", 1)) == []


@pytest.mark.parametrize("changed", ["inline = :nul", "inline = :empty", "sha256 = 'z'", "sha256 = upper(sha256)"])
def test_r13_damage_to_an_answer_in_the_row_is_named_and_never_shown(
    bench: Bench, engine: Engine, objects: ObjectStore, changed: str
) -> None:
    write(bench, (bench.key("a"), Answer(b"the answer"), {}))
    with engine.begin() as connection:
        connection.execute(text(f"update trial_output set {changed}"), {"nul": b"\0", "empty": b""})
    with engine.connect() as connection, pytest.raises(StoreError, match="answer of a in base") as refused:
        page_of_trials(connection, objects, bench.record.id)
    assert refused.value.code == "damaged_record"
    with engine.connect() as connection, pytest.raises(StoreError):
        stored_answer(connection, objects, bench.key("a"))


def test_an_answer_whose_row_or_object_is_gone_is_missing_and_not_empty(
    bench: Bench, engine: Engine, objects: ObjectStore
) -> None:
    write(bench, (bench.key("a"), Answer(b"small"), {}), (bench.key("b"), Answer(b"x" * 9000), {}))
    with engine.begin() as connection:
        connection.exec_driver_sql("delete from trial_output where case_id = 'a'")
    objects.set_aside(f"blobs/{sha256_hex(b'x' * 9000)}")
    for case in "ab":
        with engine.connect() as connection, pytest.raises(StoreError) as refused:
            page_of_trials(connection, objects, bench.record.id, case=case)
        assert refused.value.code == "missing_object"
        with engine.connect() as connection, pytest.raises(StoreError) as refused:
            stored_answer(connection, objects, bench.key(case))
        assert refused.value.code == "missing_object"


def test_what_a_resume_asks_about_is_the_last_attempt_and_the_state(bench: Bench, connection: Connection) -> None:
    async def main() -> None:
        for attempt in (1, 2, 3):
            await bench.journal.begin(bench.key("a"), attempt=attempt, started_at=1.0)
        await bench.journal.begin(bench.key("b"), attempt=1, started_at=1.0)
        await bench.journal.keep_answer(bench.key("b"), Answer(b"x"), attempt=1, started_at=1.0)
        await bench.finish(bench.key("z"), Answer(b"x"), attempt=2)
        await bench.finish(bench.key("z", arm="cand", repetition=2), Answer(b"x"))

    asyncio.run(main())
    found = progress_of(connection, bench.record.id, arms=["base", "cand"], cases=IDS)
    assert {key: (each.state, each.attempt) for key, each in found.items()} == {
        ("base", "a", 1): ("started", 3),
        ("base", "b", 1): ("answered", 1),
        ("base", "z", 1): ("done", 2),
        ("cand", "z", 2): ("done", 1),
    }
    assert set(progress_of(connection, bench.record.id, arms=["cand"], cases=["z", "a"])) == {("cand", "z", 2)}
    assert progress_of(connection, "exp_other", arms=["base"], cases=IDS) == {}
    assert sorted(iter_done(connection, bench.record.id)) == [("base", "z", 1), ("cand", "z", 2)]
    assert sorted(results_of(connection, bench.record.id, arms=["base", "cand"], cases=IDS)) == [
        ("base", "z", 1, "graded", 1.0),
        ("cand", "z", 2, "graded", 1.0),
    ]
    # Three calls of `a` that nothing came of and one of `b` that is kept: 6 marks of attempts, 3 trials with a row.
    assert count_cut_off(connection, bench.record.id) == 3
    (part,) = parts_of(connection, bench.record.id)
    assert (part.fence, part.started_at, part.finished_at) == (bench.fence, 1.0, 101.75)


@pytest.mark.parametrize("backend", ["sqlite"])
def test_a_slice_of_a_hundred_thousand_cases_fits_into_the_queries(bench: Bench, engine: Engine) -> None:
    write(bench, (bench.key("a"), Answer(b"x"), {}), (bench.key("日本", arm="cand"), Answer(b"x"), {}))
    cases = sorted({*(f"other{n}" for n in range(100_000)), *IDS})
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        # sqlite.org/limits.html: the default; some systems build it with more.
        driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)
        found = progress_of(connection, bench.record.id, arms=["base", "cand"], cases=cases)
        results = results_of(connection, bench.record.id, arms=["base", "cand"], cases=cases)
    assert set(found) == {("base", "a", 1), ("cand", "日本", 1)} == {row[:3] for row in results}


def test_values_come_in_the_order_of_code_points(bench: Bench, connection: Connection) -> None:
    write(bench, *((bench.key(case), Answer(b"x"), {"value": float(n % 2)}) for n, case in enumerate(reversed(IDS))))
    assert [case for case, *_ in values_of(connection, bench.record.id, "base")] == IDS
    assert values_of(connection, bench.record.id, "cand") == []


def test_errors_are_counted_most_frequent_first_and_equal_ones_in_one_order(bench: Bench, engine: Engine) -> None:
    kinds: list[tuple[Outcome, str]] = [
        ("infra_loss", "timeout"),
        ("agent_failure", "timeout"),
        ("infra_loss", "a_b"),
        ("infra_loss", "a-b"),
        ("infra_loss", "network"),
        ("infra_loss", "network"),
    ]
    orders = set()
    for arm, order in (("base", kinds), ("cand", kinds[::-1])):
        for case, (outcome, kind) in zip(IDS, order, strict=False):
            write(bench, (bench.key(case, arm=arm), Answer(error_kind=kind), {"outcome": outcome, "value": None}))
        with engine.connect() as connection:
            orders.add(tuple((e.outcome, e.error_kind, e.n) for e in errors_of(connection, bench.record.id, arm)))
    assert orders == {
        (
            ("infra_loss", "network", 2),
            ("infra_loss", "a-b", 1),
            ("infra_loss", "a_b", 1),
            ("agent_failure", "timeout", 1),
            ("infra_loss", "timeout", 1),
        )
    }


def test_c56_money_is_summed_exactly_and_what_nobody_reported_is_not_zero(bench: Bench, engine: Engine) -> None:
    with engine.connect() as connection:
        assert cost_of(connection, bench.record.id) == (Decimal(0), 0)
    prices = [None, Decimal("0.1"), Decimal("0.2"), Decimal("1e20"), Decimal("1e-40"), Decimal(0)]
    for case, price in zip(IDS, prices, strict=False):
        write(bench, (bench.key(case), Answer(b"x", usage=Usage(cost_usd=price)), {}))
    with engine.connect() as connection:
        total, reported = cost_of(connection, bench.record.id)
    # By hand; the usual 28 digits would end before the last one.
    assert (f"{total:f}", reported) == ("100000000000000000000.3000000000000000000000000000000000000001", 5)


def test_r65_what_is_reserved_counts_until_there_is_a_result(bench: Bench, engine: Engine) -> None:
    def reserved() -> Decimal | None:
        with engine.connect() as connection:
            return reserved_of(connection, bench.record.id)

    async def main() -> None:
        for case, most in (("a", "0.1"), ("b", "0.2"), ("z", None)):
            amount = None if most is None else Decimal(most)
            await bench.journal.begin(bench.key(case), attempt=1, started_at=1.0, reserved_usd=amount)

    assert reserved() is None
    asyncio.run(main())
    # By hand: 0.1 + 0.2, exactly; then `a` has its answer, and `b` is what a crash may have cost.
    assert reserved() == Decimal("0.3")
    asyncio.run(bench.journal.keep_answer(bench.key("a"), Answer(b"x"), attempt=1, started_at=1.0))
    assert reserved() == Decimal("0.2")
    asyncio.run(bench.journal.begin(bench.key("b"), attempt=2, started_at=2.0, reserved_usd=Decimal("0.2")))
    assert reserved() == Decimal("0.4")


def test_k16_a_mean_score_leaves_out_what_has_no_score(bench: Bench, engine: Engine) -> None:
    scores: list[tuple[GradeState, float | None]] = [
        ("scored", 0.1),
        ("scored", 0.2),
        ("scored", 0.3),
        ("no_score", None),
        ("error", None),
    ]
    digits = set()
    for order in (scores, scores[::-1]):
        for case, (state, score) in zip(IDS, order, strict=False):
            write(bench, (bench.key(case), Answer(b"x"), {"grades": (Grade("exact", "1" * 64, state, score),)}))
        with engine.connect() as connection:
            (found,) = scores_of(connection, bench.record.id, "base")
            assert scores_of(connection, bench.record.id, "cand") == []
        assert (found.grader, found.n_scored, found.n_no_score, found.n_errors) == ("exact", 3, 1, 1)
        digits.add(found.mean)
    # 0.6 / 3 to the last digit in whatever order they come; added up one by one they can be 0.6000000000000001.
    assert digits == {0.6 / 3}
