"""The reaper against the end that nobody can handle: kill -9 of the process that started everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.subjects.reaper import MARK_PREFIX, Reaper, find_marked, mark_pairs, new_mark, signal_marked

ROOT = Path(__file__).parents[2]

DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(sys.argv[1] + ".new", "w") as out:
            out.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        while True:
            with open(sys.argv[1] + ".beat", "a") as beat:
                beat.write(".")
            time.sleep(0.1)
    os._exit(0)
time.sleep(300)
"""

PARENT = """
import asyncio, json, os, sys
from pathlib import Path
from fairtrial.spec.case import Case
from fairtrial.spec.models import CommandTask
from fairtrial.subjects.base import TrialRequest
from fairtrial.subjects.build import build_subject
from fairtrial.subjects.reaper import Reaper
daemon, pid_file, extra = sys.argv[1:4]
reaper = Reaper()
task = CommandTask(kind="command", command=[sys.executable, "-c", daemon, pid_file])
subject = build_subject(task, folder=Path("."), environ=dict(os.environ), reaper=reaper)
async def main():
    request = TrialRequest("exp", "main", Case(id="c", input="x"), 1, 1, None, reaper.mark)
    answer = asyncio.create_task(subject.answer(request))
    while not Path(pid_file).exists():
        await asyncio.sleep(0.02)
    if extra == "forkhold" and os.fork() == 0:
        # A fork without exec holds a copy of the pipe to the reaper.
        import time
        time.sleep(20)
        os._exit(0)
    (pair,) = reaper.mark
    print(json.dumps({"mark": pair, "reaper": reaper.pid}), flush=True)
    await answer
asyncio.run(main())
"""


def until(question: Callable[[], bool], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if question():
            return True
        time.sleep(0.02)
    return False


def start_parent(tmp_path: Path, extra: str = "") -> tuple[subprocess.Popen[bytes], bytes, int]:
    import json

    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, DAEMON, str(tmp_path / "pid"), extra],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    process.stdout.close()
    return process, f"{said['mark']}=1".encode(), said["reaper"]


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]


@pytest.mark.fire
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("extra", ["", "forkhold"])
def test_k68_after_the_end_of_the_parent_nothing_is_left_within_5_s(
    tmp_path: Path, number: signal.Signals, extra: str
) -> None:
    process, pair, reaper = start_parent(tmp_path, extra)
    forked = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    try:
        assert len(find_marked(pair)) == 2
        process.send_signal(number)
        process.wait()
        assert until(lambda: find_marked(pair) == [], within_s=5)
        # R31: the whole tree is gone, the reaper with it.
        assert until(lambda: not exists(reaper), within_s=2)
        size = (tmp_path / "pid.beat").stat().st_size
        time.sleep(0.4)
        assert (tmp_path / "pid.beat").stat().st_size == size
    finally:
        for pid in forked:
            if exists(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.fire
def test_r31_a_signal_to_our_whole_group_does_not_end_the_reaper_first(tmp_path: Path) -> None:
    process, pair, _ = start_parent(tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert until(lambda: find_marked(pair) == [], within_s=5)


def test_the_reaper_does_not_bear_the_mark_and_lives_in_a_session_of_its_own() -> None:
    reaper = Reaper()
    assert reaper.pid is None
    reaper.start()
    try:
        (pair,) = mark_pairs(reaper.mark)
        assert reaper.pid is not None
        assert find_marked(pair) == []
        assert until(lambda: os.getsid(reaper.pid or 0) == reaper.pid, within_s=2)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Ignored from the moment its first lines have run.
            assert until(lambda n=number: ignores(reaper.pid or 0, n), within_s=5)
            os.kill(reaper.pid, number)
        time.sleep(0.1)
        assert reaper.pid is not None
    finally:
        reaper.close()


def ignores(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(status.split("SigIgn:")[1].split()[0], 16)
    return bool(mask >> (number - 1) & 1)


def test_closing_ends_what_bears_the_mark_and_nothing_else() -> None:
    reaper = Reaper()
    reaper.start()
    own = subprocess.Popen(["sleep", "60"], env={**os.environ, **reaper.mark})
    stranger = subprocess.Popen(["sleep", "60"], env={**os.environ, **new_mark()})
    (pair,) = mark_pairs(reaper.mark)
    assert until(lambda: find_marked(pair) == [own.pid], within_s=2)
    began = time.monotonic()
    reaper.close()
    reaper.close()
    assert time.monotonic() - began < 3
    assert own.wait(1) == -signal.SIGTERM
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_closing_with_nothing_left_is_quick() -> None:
    reaper = Reaper()
    reaper.start()
    assert until(lambda: ignores(reaper.pid or 0, signal.SIGTERM), within_s=5)
    began = time.monotonic()
    reaper.close()
    assert time.monotonic() - began < 0.5
    assert reaper.pid is None


def test_it_starts_once_and_again_after_it_was_killed() -> None:
    reaper = Reaper()
    reaper.start()
    first = reaper.pid
    reaper.start()
    assert reaper.pid == first
    os.kill(first or 0, signal.SIGKILL)
    assert until(lambda: reaper.pid is None, within_s=2)
    reaper.start()
    assert reaper.pid not in (None, first)
    reaper.close()


def test_a_reaper_that_was_never_started_has_nothing_to_close() -> None:
    reaper = Reaper()
    reaper.close()
    assert reaper.mark == reaper.mark
    assert next(iter(reaper.mark)).startswith(MARK_PREFIX)
    assert Reaper().mark != reaper.mark


def test_a_signal_reaches_only_a_process_that_still_bears_the_mark() -> None:
    (pair,) = mark_pairs(new_mark())
    stranger = subprocess.Popen(["sleep", "60"])
    signal_marked([stranger.pid, 2**22 - 1], pair, signal.SIGKILL)
    time.sleep(0.05)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
