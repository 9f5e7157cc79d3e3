"""The process runner against real programs that behave badly."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.process import ProcessResult, run_process
from fairtrial.subjects.reaper import find_marked, mark_pairs, new_mark

PYTHON = sys.executable


def run(
    *argv: str | bytes,
    stdin: bytes = b"",
    timeout_s: float | None = 30.0,
    env: dict[str, str | bytes] | None = None,
    cwd: Path | None = None,
    **limits: Any,
) -> ProcessResult:
    command = ProcessCommand(argv, env if env is not None else dict(os.environ), None if cwd is None else str(cwd))
    return asyncio.run(run_process(command, stdin=stdin, timeout_s=timeout_s, **limits))


def python(code: str, *arguments: str, **options: Any) -> ProcessResult:
    return run(PYTHON, "-c", code, *arguments, **options)


def until(question: Any, *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if question():
            return True
        time.sleep(0.02)
    return False


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_output_error_and_exit_code_come_back() -> None:
    result = run("/bin/sh", "-c", "cat; echo bad >&2; exit 3", stdin=b"in")
    assert (result.stdout, result.stderr, result.exit_code, result.signal) == (b"in", b"bad\n", 3, None)
    assert (result.timed_out, result.stdout_cut, result.stderr_cut, result.leftovers) == (False, False, False, 0)
    assert 0 < result.duration_s < 5


def test_a_program_reads_no_terminal_and_gets_a_session_of_its_own() -> None:
    code = "import os,sys; print(os.getsid(0)==os.getpid(), sys.stdin.read()=='')"
    assert python(code).stdout == b"True True\n"


def test_r33_every_byte_value_survives_in_both_directions() -> None:
    everything = bytes(range(256)) + "é".encode()[:1] + "𝒳".encode("utf-16") + b"\r" + b"\0" + b"x" * 1_000_000
    assert run("cat", stdin=everything).stdout == everything


def test_r35_every_exit_code_is_reported() -> None:
    async def all_codes() -> list[int | None]:
        env: dict[str, str | bytes] = dict(os.environ)
        results = []
        for code in range(256):
            command = ProcessCommand(("/bin/sh", "-c", f"exit {code}"), env)
            results.append((await run_process(command, stdin=b"", timeout_s=30)).exit_code)
        return results

    assert asyncio.run(all_codes()) == list(range(256))


def test_r35_every_signal_that_ends_a_program_is_reported() -> None:
    # By signal(7): these four stop or are ignored by default, and would end nothing.
    harmless = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
    stopping = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    deadly = [number for number in range(1, 32) if number not in harmless | stopping]
    code = (
        "import os,signal,sys,resource; resource.setrlimit(resource.RLIMIT_CORE,(0,0)); n=int(sys.argv[1])\n"
        "n in (9,19) or signal.signal(n, signal.SIG_DFL); os.kill(os.getpid(), n)"
    )
    assert [python(code, str(number)).signal for number in deadly] == deadly


def test_r35_a_stopped_program_ends_at_its_deadline() -> None:
    result = python("import os,signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout_s=0.5)
    assert result.timed_out
    # TERM waits while the program is stopped; KILL does not.
    assert result.signal == signal.SIGKILL


def test_r35_a_program_that_cannot_start_has_a_named_kind(tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("no program")
    lost_interpreter = tmp_path / "lost.sh"
    lost_interpreter.write_text("#!/does/not/exist\n")
    lost_interpreter.chmod(0o755)
    no_format = tmp_path / "no_format"
    no_format.write_bytes(b"\x01\x02\x03")
    no_format.chmod(0o755)
    kinds = {
        run("no-such-program-of-anybody").start_error: "missing",
        run(str(tmp_path / "gone")).start_error: "missing",
        run(str(plain / "below")).start_error: "missing",
        run(str(plain)).start_error: "not_executable",
        run(str(tmp_path)).start_error: "not_executable",
        run(str(lost_interpreter)).start_error: "no_interpreter",
        run(str(no_format)).start_error: "bad_format",
        run("true", cwd=tmp_path / "nowhere").start_error: "no_folder",
        run("echo", "a\0b").start_error: "nul_byte",
        run("echo", "\ud835").start_error: "not_text",
    }
    assert {kind: kind for kind in kinds.values()} == kinds


def test_r35_a_program_open_for_writing_is_busy(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    with program.open("ab"):
        result = run(str(program))
    assert (result.start_error, result.exit_code, result.signal) == ("busy", None, None)
    assert "text file busy" in result.start_message


def test_r57_an_argument_of_200_kb_is_refused_by_name_and_passes_by_stdin() -> None:
    text = "x" * 200_000
    refused = run("echo", text)
    assert refused.start_error == "too_long"
    assert "stdin" in refused.start_message
    assert text not in refused.start_message
    assert run("cat", stdin=text.encode()).stdout == text.encode()


def test_a_machine_without_processes_left_is_named_apart_from_a_bad_program() -> None:
    # A limit of processes does not bind root, so the child drops its rights; after a first run, which loads modules.
    code = """
import asyncio, os, resource
from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.process import run_process
async def main():
    command = ProcessCommand(("/bin/true",), {})
    print((await run_process(command, stdin=b"", timeout_s=5)).exit_code)
    if os.getuid() == 0:
        os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    print((await run_process(command, stdin=b"", timeout_s=5)).start_error)
    resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))
    print((await run_process(command, stdin=b"", timeout_s=5)).start_error)
asyncio.run(main())
"""
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[2])
    assert found.stdout.split() == [b"0", b"no_resources", b"no_resources"]


def test_r35_a_program_that_ends_before_it_reads_is_no_error() -> None:
    result = run("/bin/sh", "-c", "exec <&-; echo done", stdin=b"x" * 5_000_000)
    assert (result.stdout, result.exit_code) == (b"done\n", 0)


def test_a_program_that_writes_before_it_reads_does_not_lock_up() -> None:
    # More than both pipes hold, in both directions at once.
    code = "import sys; sys.stdout.write('o'*3_000_000); sys.stdout.flush(); print(len(sys.stdin.read()))"
    result = python(code, stdin=b"i" * 3_000_000)
    assert result.stdout.endswith(b"o3000000\n")


def test_r30_a_grandchild_that_keeps_the_pipe_does_not_hold_the_trial() -> None:
    began = time.monotonic()
    result = run("/bin/sh", "-c", "sleep 300 & echo $!", timeout_s=None)
    assert time.monotonic() - began < 2
    assert (result.exit_code, result.leftovers) == (0, 1)
    assert not is_alive(int(result.stdout))


def test_r30_a_timeout_ends_program_and_grandchild_with_the_open_pipe() -> None:
    began = time.monotonic()
    result = run("/bin/sh", "-c", "sleep 300 & echo $!; sleep 300", timeout_s=1)
    assert time.monotonic() - began < 2
    assert (result.timed_out, result.signal) == (True, signal.SIGTERM)
    assert not is_alive(int(result.stdout))


def test_r30_what_a_filter_behind_the_program_still_writes_is_kept() -> None:
    result = run("bash", "-c", "exec > >(sleep 0.1; cat); echo late")
    assert (result.stdout, result.leftovers) == (b"late\n", 0)


def test_r34_partial_output_of_a_timeout_is_kept() -> None:
    result = run("/bin/sh", "-c", "echo half; echo why >&2; sleep 300", timeout_s=0.5)
    assert (result.timed_out, result.stdout, result.stderr) == (True, b"half\n", b"why\n")
    assert 0.5 <= result.duration_s < 1.5


def test_c85_a_program_that_ignores_term_is_killed_within_a_second() -> None:
    code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(300)"
    began = time.monotonic()
    result = python(code, timeout_s=1)
    assert time.monotonic() - began < 2
    assert (result.timed_out, result.signal, result.stdout) == (True, signal.SIGKILL, b"on\n")


def test_a_program_may_tidy_up_on_term_once() -> None:
    code = (
        "import signal,sys,time\n"
        "def tidy(*_): print('tidy', flush=True); time.sleep(0.2); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, tidy); print('on', flush=True); time.sleep(300)"
    )
    result = python(code, timeout_s=1)
    assert (result.timed_out, result.exit_code, result.stdout) == (True, 0, b"on\ntidy\n")


def test_no_time_left_starts_nothing(tmp_path: Path) -> None:
    result = run("touch", str(tmp_path / "started"), timeout_s=0)
    assert result == ProcessResult(timed_out=True)
    assert not (tmp_path / "started").exists()


ESCAPE = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for fd in (0, 1, 2):
            os.close(fd)
        with open(sys.argv[1], "w") as out:
            out.write(str(os.getpid()))
        os.rename(sys.argv[1], sys.argv[1] + ".pid")
        time.sleep(300)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1] + ".pid"):
    time.sleep(0.01)
time.sleep(float(sys.argv[2]))
print("done")
"""


@pytest.mark.parametrize(("linger_s", "timeout_s"), [("0", None), ("300", 1.0)])
def test_r31_a_daemon_that_ignores_term_is_found_and_ended(
    tmp_path: Path, linger_s: str, timeout_s: float | None
) -> None:
    began = time.monotonic()
    result = python(ESCAPE, str(tmp_path / "daemon"), linger_s, timeout_s=timeout_s)
    assert time.monotonic() - began < 3
    assert result.timed_out is (timeout_s is not None)
    assert result.leftovers == 1
    assert not is_alive(int((tmp_path / "daemon.pid").read_text()))


def test_r31_a_child_that_cleared_its_environment_and_left_the_group_ends_with_the_timeout(tmp_path: Path) -> None:
    line = f"env -i /usr/bin/setsid /bin/sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; exec sleep 300'"
    result = run("/bin/sh", "-c", line, timeout_s=0.7)
    assert result.timed_out
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_r31_a_child_that_cleared_its_environment_ends_with_its_group(tmp_path: Path) -> None:
    result = run("/bin/sh", "-c", "env -i sleep 300 >/dev/null 2>&1 & echo $!")
    assert until(lambda: not is_alive(int(result.stdout)), within_s=1)


def test_r31_only_our_own_children_are_ended() -> None:
    mark = new_mark()
    (pair,) = mark_pairs(mark)
    name = next(iter(mark))
    # Nearly the same: the pair as a value, the name with another value, the name longer by one.
    strangers = [{"X": f"{name}=1"}, {name: "11"}, {f"{name}0": "1"}, {f"A{name}": "1"}]
    processes = [subprocess.Popen(["sleep", "60"], env={**os.environ, **extra}) for extra in strangers]
    own = subprocess.Popen(["sleep", "60"], env={**os.environ, **mark})
    try:
        # Until exec is over, a child shows the environment of its parent.
        assert until(lambda: find_marked(pair) == [own.pid], within_s=2)
        run("/bin/sh", "-c", "sleep 300 & sleep 300", timeout_s=0.3)
        assert all(process.poll() is None for process in [*processes, own])
    finally:
        for process in [*processes, own]:
            process.kill()
            process.wait()


def test_r31_trials_side_by_side_do_not_end_each_others_children() -> None:
    async def both() -> list[ProcessResult]:
        env: dict[str, str | bytes] = dict(os.environ)
        short = ProcessCommand(("/bin/sh", "-c", "sleep 300 & echo short"), env)
        long = ProcessCommand(("/bin/sh", "-c", "setsid sleep 0.8 & wait; echo long"), env)
        return await asyncio.gather(*(run_process(c, stdin=b"", timeout_s=20) for c in (short, long)))

    short, long = asyncio.run(both())
    assert (short.stdout, short.leftovers) == (b"short\n", 1)
    assert (long.stdout, long.leftovers, long.exit_code) == (b"long\n", 0, 0)
    assert long.duration_s >= 0.8


BOMB = """
import os, resource, sys, time
resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
if os.getuid() == 0:
    os.setuid(65534)
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
"""


@pytest.mark.fire
def test_r36_a_fork_bomb_under_a_process_limit_ends_and_the_next_trial_runs() -> None:
    began = time.monotonic()
    result = python(BOMB, timeout_s=1.0)
    assert time.monotonic() - began < 4
    assert result.timed_out
    assert run("/bin/echo", "next").stdout == b"next\n"
    left = [pid for pid in find_pids(BOMB) if is_alive(pid)]
    assert left == []


def find_pids(code: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if code.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_r31_processes_that_start_each_other_anew_are_ended(tmp_path: Path) -> None:
    # Each restarts itself on TERM in a new session: one round of signals would never be enough.
    code = """
import os, signal, sys, time
def again(*_):
    if os.fork() == 0:
        os.setsid()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    os._exit(0)
signal.signal(signal.SIGTERM, again)
print("up", flush=True)
time.sleep(300)
"""
    result = python(code, timeout_s=1.0)
    assert result.timed_out
    assert find_pids("again(*_)") == []


HOPPERS = """
import os, signal, time
for _ in range(3):
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.01)
            if os.fork():
                os._exit(0)
            os.setsid()
        os._exit(0)
print("hop", flush=True)
time.sleep(300)
"""


@pytest.mark.fire
def test_r31_processes_that_keep_changing_their_id_are_ended() -> None:
    result = python(HOPPERS, timeout_s=1.0)
    assert (result.timed_out, result.stdout) == (True, b"hop\n")
    assert find_pids(HOPPERS) == []


@pytest.mark.parametrize("cancels", [1, 2])
def test_k68_a_cancellation_ends_the_whole_tree(tmp_path: Path, cancels: int) -> None:
    async def cancelled() -> float:
        code = ["-c", ESCAPE, str(tmp_path / "daemon"), "300"]
        running = asyncio.create_task(
            run_process(ProcessCommand((PYTHON, *code), dict(os.environ)), stdin=b"", timeout_s=None)
        )
        while not (tmp_path / "daemon.pid").exists():
            await asyncio.sleep(0.02)
        began = time.monotonic()
        for _ in range(cancels):
            running.cancel()
            await asyncio.sleep(0.1)
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.monotonic() - began

    assert asyncio.run(cancelled()) < 2
    assert until(lambda: not is_alive(int((tmp_path / "daemon.pid").read_text())), within_s=1)
    assert find_pids("os.rename(sys.argv[1]") == []


@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_k68_the_heartbeat_of_a_sleeper_stops_within_a_second(tmp_path: Path, how: str) -> None:
    beat = tmp_path / "beat"
    beat.touch()
    line = f"(while true; do echo . >> {beat}; sleep 0.2; done) & sleep 60"

    async def sleeper() -> None:
        command = ProcessCommand(("/bin/sh", "-c", line), dict(os.environ))
        running = asyncio.create_task(run_process(command, stdin=b"", timeout_s=1.0 if how == "deadline" else None))
        await asyncio.sleep(1.0)
        if how == "cancel":
            running.cancel()
        await asyncio.wait({running})

    asyncio.run(sleeper())
    size = beat.stat().st_size
    assert size >= 3
    time.sleep(0.6)
    assert beat.stat().st_size == size


def test_it_works_in_an_event_loop_of_another_thread() -> None:
    results = []
    threads = [threading.Thread(target=lambda: results.append(run("echo", "hi").stdout)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"hi\n"] * 4


def test_many_at_once_leave_no_descriptor_and_no_zombie() -> None:
    async def many() -> set[int | None]:
        env: dict[str, str | bytes] = dict(os.environ)
        jobs: list[Coroutine[Any, Any, ProcessResult]] = [
            run_process(ProcessCommand(("/bin/sh", "-c", "cat; exit 7"), env), stdin=b"x", timeout_s=30)
            for _ in range(60)
        ]
        return {result.exit_code for result in await asyncio.gather(*jobs)}

    before = len(list(Path("/proc/self/fd").iterdir()))
    assert asyncio.run(many()) == {7}
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    assert not [pid for pid in children if "(sh)" in Path(f"/proc/{pid}/stat").read_text()]


def test_without_process_descriptors_the_end_is_still_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems other than Linux, and old kernels, have no pidfd_open."""
    monkeypatch.delattr(os, "pidfd_open")
    assert run("/bin/sh", "-c", "sleep 0.1; exit 4").exit_code == 4
    assert run("/bin/sh", "-c", "sleep 60", timeout_s=0.3).timed_out


def test_the_file_mode_of_a_program_is_not_changed(tmp_path: Path) -> None:
    program = tmp_path / "p"
    program.write_text("#!/bin/sh\necho ok\n")
    assert run(str(program)).start_error == "not_executable"
    assert stat.S_IMODE(program.stat().st_mode) & 0o111 == 0


def test_limits_of_ours_are_passed_on_unchanged() -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    assert python(code).stdout.decode().strip() == str(resource.getrlimit(resource.RLIMIT_NOFILE))
