"""What reaches a file, a pipe or a simple terminal: no control codes, no bar, and the same figures everywhere."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COMMAND = [sys.executable, "-m", "faces.cli.main"]


@pytest.fixture(scope="module")
def stored(make_fire: Any) -> Any:
    """A project whose first run, with --json and its chatter in a file, is `first`."""
    fire = make_fire()
    fire.write(12, pause_s=0.0)
    fire.first = fire.start("run", *fire.arms, "--json")
    assert fire.first.wait() == 0, fire.first.err
    fire.one = fire.experiment
    fire.variables = {**os.environ, **fire.environ}
    return fire


def on_terminal(stored: Any, arguments: list[str], **more: str) -> str:
    """Run `exp` on a terminal of its own and return all that was written to it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=stored.folder,
        env={**stored.variables, "TERM": "xterm-256color", **more},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    written = b""
    # Linux answers EIO when the other side is closed.
    with contextlib.suppress(OSError):
        while select.select([ours], [], [], 60)[0] and (piece := os.read(ours, 65536)):
            written += piece
    os.close(ours)
    assert process.wait(30) == 0, written
    return written.decode().replace("\r\n", "\n")


def test_k46_every_way_of_showing_a_comparison_has_the_same_figures_and_no_codes(stored: Any) -> None:
    compare = ["compare", stored.one]
    with (stored.folder / "out.txt").open("wb") as out:
        subprocess.run([*COMMAND, *compare], cwd=stored.folder, env=stored.variables, stdout=out, check=True)
    in_file = (stored.folder / "out.txt").read_text()
    assert "\x1b" not in in_file
    # By hand: right on 4 of 12 against all 12.
    assert "pass 33.3%" in in_file
    assert "pass 100.0%" in in_file
    shown = {
        "terminal": on_terminal(stored, compare),
        "NO_COLOR": on_terminal(stored, compare, NO_COLOR="1"),
        "dumb": on_terminal(stored, compare, TERM="dumb"),
    }
    assert not COLOUR.search(shown["NO_COLOR"])
    assert "\x1b" not in shown["dumb"]
    for where, text in shown.items():
        assert COLOUR.sub("", text).split() == in_file.split(), where


def test_k46_the_bar_of_a_run_is_for_a_terminal_only(stored: Any) -> None:
    # Without a terminal: JSON and nothing else on stdout, and what is said meanwhile holds no codes.
    assert stored.first.json["schema"] == "fairtrial/run/1"
    assert "\x1b" not in stored.first.out + stored.first.err
    # Runs of a time in which a bar is drawn several times. Nothing of these is compared: they are other experiments.
    stored.pause(0.1)
    arguments = ["run", "base.json", "--first-n", "6"]
    assert "\x1b" not in on_terminal(stored, arguments, TERM="dumb")
    simple = on_terminal(stored, arguments, NO_COLOR="1")
    assert "6/6" in simple
    assert not COLOUR.search(simple)


def test_k46_a_reader_that_goes_away_ends_it_quietly(stored: Any) -> None:
    where = {"cwd": stored.folder, "env": stored.variables}
    one = stored.one
    for arguments in (["list"], ["list", "--json"], ["show", one], ["trials", one], ["compare", one]):
        ours, theirs = os.pipe()
        # Closed before the first byte: whatever is written meets a closed pipe.
        os.close(ours)
        done = subprocess.run([*COMMAND, *arguments], **where, stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        assert (done.returncode, done.stderr) == (0, b""), arguments
    line = " ".join([*COMMAND, "list"])
    done = subprocess.run(["/bin/sh", "-c", f"{line} | head -1"], **where, capture_output=True)
    assert done.stdout.startswith(b"experiment ")
    assert (done.stdout.count(b"\n"), done.stderr) == (1, b"")
