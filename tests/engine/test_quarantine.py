"""Damaged records: each is found, named and moved aside; its one trial runs again, and all the others stay."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairtrial.engine.create import plan_key
from fairtrial.engine.loop import run_slice
from fairtrial.engine.mend import check_stored, mend
from fairtrial.errors import StoreError
from fairtrial.hashing import sha256_hex
from fairtrial.store.quarantine import find_damaged
from fairtrial.store.verdicts import stored_run, verdict_key
from tasks.publish import publish_run, read_run

# Odd cases answer with more than fits into a row, so those lie in the object store.
TASK = """
    import os
    case = os.environ["FAIRTRIAL_CASE_ID"]
    with open("ledger", "a") as ledger:
        ledger.write(case + "\\n")
    print(case * (6_000 if int(case[1:]) % 2 else 1))
"""


def made(lab: Any, n: int = 6) -> Any:
    lab.cases([{"id": f"k{i}", "input": f"q{i}", "expected": "x"} for i in range(n)])
    (lab.folder / "task.py").write_text(textwrap.dedent(TASK))
    return lab.make({"main": {"kind": "command", "command": [sys.executable, "-S", "-E", "task.py"]}})


def resume(lab: Any, experiment: str) -> list[str]:
    """Resume as the flow does, without Prefect, and return the lines for people."""
    said: list[str] = []
    run = lab.open(experiment, concurrency=4, say=said.append)

    async def main() -> None:
        try:
            for number in run.unfinished:
                await run_slice(run.loop, number)
            for number in await mend(run, await check_stored(run)):
                assert (await run_slice(run.loop, number)).complete
        finally:
            await run.close()

    asyncio.run(main())
    progress = run.loop.context.progress
    assert (progress.n_done, progress.n_planned) == (len(lab.rows("select * from trial")),) * 2
    return said


def blob_of(lab: Any, case: str) -> Path:
    ((digest,),) = lab.rows("select sha256 from trial_output where case_id = :c and inline is null", c=case)
    return Path(lab.folder / "home" / "objects" / "blobs" / digest)


def calls(lab: Any) -> list[str]:
    ledger = lab.folder / "ledger"
    return sorted(ledger.read_text().split()) if ledger.exists() else []


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").write_text("else")


def _huge(path: Path) -> None:
    os.truncate(path, 64_000_000)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: path.write_bytes(b"") and None,
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "torn by 7 bytes": lambda path: os.truncate(path, path.stat().st_size - 7),
    "one bit": _flip,
    "another object": lambda path: path.write_bytes(b"k5" * 6_000 + b"\n") and None,
    "another version": lambda path: path.write_bytes(b'{"format": 99}') and None,
    "NUL": lambda path: path.write_bytes(b"\0" * path.stat().st_size) and None,
    "huge": _huge,
    "a folder": _folder,
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_k02_r13_a_damaged_answer_is_named_set_aside_and_asked_for_once_more(lab: Any, damage: str) -> None:
    record = made(lab)
    lab.run(record.id)
    whole = lab.bytes(record.id)
    others = lab.rows("select * from trial where case_id != 'k3' order by case_id")
    path = blob_of(lab, "k3")
    DAMAGES[damage](path)
    (lab.folder / "ledger").unlink()
    (said,) = resume(lab, record.id)
    assert said.startswith("damaged: the answer to case k3 in main (trial 1) ")
    assert ("is not in the object store" if damage == "gone" else "does not match its checksum") in said
    assert calls(lab) == ["k3"]
    assert lab.bytes(record.id) == whole
    assert lab.rows("select * from trial where case_id != 'k3' order by case_id") == others
    assert sha256_hex(path.read_bytes()) == path.name
    aside = list((lab.folder / "home" / "objects" / "quarantine").glob("*")) if damage != "gone" else []
    assert len(aside) == (damage != "gone")
    assert lab.rows("select case_id, attempt, taken_back from attempt where taken_back is not null") == [
        ("k3", 1, "damaged")
    ]
    assert lab.rows("select n_done, n_graded from summary") == [(6, 6)]
    # Once is enough.
    (lab.folder / "ledger").unlink()
    assert resume(lab, record.id) == []
    assert calls(lab) == []


def test_k02_a_torn_answer_inside_a_row_is_found_and_its_bytes_are_kept(lab: Any) -> None:
    record = made(lab)
    lab.run(record.id)
    whole = lab.bytes(record.id)
    with lab.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.exec_driver_sql("update trial_output set inline = X'6B' where case_id = 'k4'")
    (lab.folder / "ledger").unlink()
    (said,) = resume(lab, record.id)
    assert "case k4 in main" in said
    assert calls(lab) == ["k4"]
    assert lab.bytes(record.id) == whole
    (aside,) = (lab.folder / "home" / "objects" / "quarantine").iterdir()
    assert aside.read_bytes() == b"k"


def test_k02_several_damaged_answers_are_found_in_one_resume_beside_what_was_left(lab: Any) -> None:
    record = made(lab, 12)
    lab.run(record.id)
    whole = lab.bytes(record.id)
    for case in ("k1", "k7", "k11"):
        DAMAGES["half"](blob_of(lab, case))
    with lab.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.exec_driver_sql("delete from trial where case_id in ('k0', 'k2')")
        connection.exec_driver_sql("update summary set n_done = 10, n_graded = 10")
    (lab.folder / "ledger").unlink()
    assert len(resume(lab, record.id)) == 3
    assert calls(lab) == ["k0", "k1", "k11", "k2", "k7"]
    assert lab.bytes(record.id) == whole


def test_r05_an_answer_that_waits_for_its_grade_and_is_damaged_is_asked_for_again(lab: Any) -> None:
    record = made(lab)
    lab.run(record.id)
    whole = lab.bytes(record.id)
    with lab.engine.connect().execution_options(writes=True) as connection, connection.begin():
        # What a crash between answer and grade leaves behind.
        connection.exec_driver_sql("update trial set state = 'answered', outcome = null where case_id in ('k3', 'k5')")
        connection.exec_driver_sql("delete from grade where case_id in ('k3', 'k5')")
        connection.exec_driver_sql("update summary set n_done = 4, n_graded = 4")
    DAMAGES["half"](blob_of(lab, "k3"))
    (lab.folder / "ledger").unlink()
    (said,) = resume(lab, record.id)
    assert "case k3 in main" in said
    assert calls(lab) == ["k3"]
    assert lab.bytes(record.id) == whole


def test_p09_an_object_store_that_is_away_is_no_damage(lab: Any) -> None:
    record = made(lab)
    lab.run(record.id)
    before = lab.rows("select * from trial")
    objects = lab.folder / "home" / "objects"
    shutil.move(objects, lab.folder / "away")
    with pytest.raises(StoreError) as refused:
        find_damaged(lab.engine, lab.objects, record.id)
    assert refused.value.code == "store_unavailable"
    assert lab.rows("select * from trial") == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_r13_a_damaged_plan_is_drawn_again_to_the_same_hash(lab: Any, damage: str) -> None:
    record = made(lab)
    path = lab.folder / "home" / "objects" / plan_key(record.id)
    before = path.read_bytes()
    DAMAGES[damage](path)
    (said,) = resume(lab, record.id)
    assert "the stored plan could not be read" in said
    assert path.read_bytes() == before
    assert calls(lab) == [f"k{i}" for i in range(6)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_r13_a_damaged_dataset_is_refused_with_the_way_out_and_nothing_is_called(lab: Any, damage: str) -> None:
    record = made(lab)
    path = lab.folder / "home" / "objects" / "blobs" / record.dataset.hash
    content = path.read_bytes()
    DAMAGES[damage](path)
    with pytest.raises(StoreError) as refused:
        lab.open(record.id)
    assert refused.value.code in ("damaged_record", "missing_object")
    assert f"--resume {record.id}" in (refused.value.hint or "")
    assert calls(lab) == []
    assert lab.rows("select * from lease") == []
    if path.is_dir():
        shutil.rmtree(path)
    lab.objects.put_blob(content)
    assert resume(lab, record.id) == []


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "another version"])
def test_r13_a_damaged_verdict_is_made_again_from_the_journal(lab: Any, damage: str) -> None:
    record = made(lab)
    run = lab.open(record.id)
    asyncio.run(_finish(run))
    document = publish_run(lab.engine, lab.objects, record.id, fence=run.lease.fence)
    path = lab.folder / "home" / "objects" / verdict_key(record.id)
    assert read_run(lab.engine, lab.objects, record.id) == document
    DAMAGES[damage](path)
    with lab.engine.connect() as connection:
        from fairtrial.store.experiments import get_experiment

        assert stored_run(lab.objects, get_experiment(connection, record.id)) is None
    assert read_run(lab.engine, lab.objects, record.id).body == document.body


async def _finish(run: Any) -> None:
    for number in run.unfinished:
        await run_slice(run.loop, number)
    await run.close()
