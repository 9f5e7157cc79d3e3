"""Programs whose output has no end: capped, with flat memory, and the deadline kept."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.process import ERROR_CAP, ProcessResult, run_process

PYTHON = sys.executable


def run(*argv: str, output_cap: int) -> ProcessResult:
    command = ProcessCommand(argv, dict(os.environ))
    return asyncio.run(run_process(command, stdin=b"", timeout_s=30, output_cap=output_cap))


def peak_rss_kb(line: str, timeout_s: float) -> tuple[int, ProcessResult]:
    """Run in a process of its own, so that the peak is this run's; its base is measured before."""
    code = """
import asyncio, json, os, resource, sys
from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.process import run_process
async def main():
    await run_process(ProcessCommand(("/bin/true",), dict(os.environ)), stdin=b"", timeout_s=5)
    import psutil
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    r = await run_process(ProcessCommand(("/bin/sh", "-c", sys.argv[1]), dict(os.environ)), stdin=b"",
                          timeout_s=float(sys.argv[2]))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
    print(json.dumps([grown, r.timed_out, len(r.stdout), len(r.stderr), r.stdout_cut, r.stderr_cut, r.duration_s]))
asyncio.run(main())
"""
    found = subprocess.run(
        [PYTHON, "-c", code, line, str(timeout_s)], capture_output=True, check=True, cwd=Path(__file__).parents[2]
    )
    grown, timed_out, n_out, n_err, out_cut, err_cut, duration_s = json.loads(found.stdout)
    result = ProcessResult(
        timed_out=timed_out,
        stdout=b"x" * n_out,
        stderr=b"x" * n_err,
        stdout_cut=out_cut,
        stderr_cut=err_cut,
        duration_s=duration_s,
    )
    return grown, result


@pytest.mark.parametrize(
    ("line", "n_out", "n_err"),
    [
        ("yes", 10_000_000, 0),
        ("yes >&2", 0, ERROR_CAP),
        ("yes >&2 & yes", 10_000_000, ERROR_CAP),
    ],
)
def test_r32_endless_output_is_cut_with_flat_memory_at_the_deadline(line: str, n_out: int, n_err: int) -> None:
    grown_kb, result = peak_rss_kb(line, 2.0)
    assert result.timed_out
    assert 2.0 <= result.duration_s < 3.0
    assert (len(result.stdout), len(result.stderr)) == (n_out, n_err)
    assert (result.stdout_cut, result.stderr_cut) == (n_out > 0, n_err > 0)
    # faults.md, R32: +32 MB at most.
    assert grown_kb < 32_000


@pytest.mark.slow
def test_r32_ten_gigabytes_on_stdout_end_by_themselves() -> None:
    grown_kb, result = peak_rss_kb("head -c 10000000000 /dev/zero", 120.0)
    assert (result.timed_out, len(result.stdout), result.stdout_cut) == (False, 10_000_000, True)
    assert grown_kb < 32_000


def test_r32_the_first_bytes_of_stdout_and_the_last_of_stderr_are_kept() -> None:
    code = "import sys; n=100_000; [print(i, file=f) for f in (sys.stdout, sys.stderr) for i in range(n)]"
    result = run(PYTHON, "-c", code, output_cap=100)
    assert result.stdout == b"".join(b"%d\n" % i for i in range(100))[:100]
    assert result.stderr.endswith(b"99998\n99999\n")
    assert len(result.stderr) == ERROR_CAP


def test_output_of_exactly_the_cap_is_not_cut() -> None:
    result = run("head", "-c", "1000", "/dev/zero", output_cap=1000)
    assert (len(result.stdout), result.stdout_cut) == (1000, False)
    assert run("head", "-c", "1001", "/dev/zero", output_cap=1000).stdout_cut
