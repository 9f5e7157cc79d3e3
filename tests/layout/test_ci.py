"""What `.ci/run` makes of the outcome of `make test`: a session in which no test ran is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the script and a Makefile whose `test` says what `answer` holds and ends with `status`."""
    folder = tmp_path / "clone"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "Makefile").write_text(
        "setup:\n\t@echo much chatter of an installer; test ! -e broken\n"
        "test:\n\t@cat answer; echo data=$$FAIRTRIAL_DATA reference=$$FAIRTRIAL_REFERENCE; exit `cat status`\n",
        encoding="utf-8",
    )
    return folder


def run(clone: Path, answer: str, status: int = 0, **environment: str) -> tuple[int, str]:
    (clone / "answer").write_text(answer + "\n", encoding="utf-8")
    (clone / "status").write_text(str(status), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRTRIAL_", "MAKE", "MFLAGS"))}
    done = subprocess.run(
        [str(clone / ".ci" / "run")],
        cwd=clone.parent,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.decode()


def test_tests_that_passed_are_a_success_and_the_installer_is_not_heard(clone: Path) -> None:
    code, told = run(clone, "skipped, and why\na.py::b: no device\n=== 10 passed, 1 skipped in 1.2s ===")
    assert (code, "no device" in told, "chatter" in told) == (0, True, False)


@pytest.mark.parametrize(
    "answer", ["=== 4 skipped in 0.1s ===", "=== 0 passed in 0.1s ===", "=== 3 deselected in 0.1s ===", "nothing"]
)
def test_a_session_in_which_no_test_ran_is_a_failure(clone: Path, answer: str) -> None:
    code, told = run(clone, answer)
    assert (code, "no test ran" in told) == (1, True)


# 5 is pytest's own status for "no tests collected"; make turns any into 2.
@pytest.mark.parametrize("status", [1, 2, 5])
def test_a_failing_make_test_is_a_failure_whatever_it_printed(clone: Path, status: int) -> None:
    code, told = run(clone, "=== 1 failed, 10 passed in 1.2s ===", status)
    assert (code, "1 failed" in told, "make test failed" in told) == (1, True, True)


def test_a_broken_set_up_shows_what_the_installer_said(clone: Path) -> None:
    (clone / "broken").touch()
    code, told = run(clone, "=== 10 passed in 1.2s ===")
    assert (code, "chatter" in told, "10 passed" in told) == (1, True, False)


def program(path: Path, script: str) -> None:
    path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
    path.chmod(0o700)


def test_a_python_that_cannot_make_environments_is_completed_by_apt(clone: Path) -> None:
    # As Debian ships it: venv is there, ensurepip is not until python3.X-venv is installed.
    tools = clone.parent / "tools"
    tools.mkdir()
    program(tools / "python", f'case "$2" in *ensurepip*) test -e installed;; *) exec {sys.executable} "$@";; esac\n')
    program(
        tools / "apt-get", 'echo "$@" >>asked; case "$*" in *install*) touch installed;; esac; echo chatter of apt\n'
    )
    program(tools / "sudo", 'shift; exec "$@"\n')
    path = f"{tools}:{os.environ['PATH']}"
    code, told = run(clone, "=== 10 passed in 1.2s ===", PATH=path, PYTHON="python")
    assert (code, "chatter" in told) == (0, False), told
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    asked = (clone / "asked").read_text(encoding="utf-8").splitlines()
    assert [line.split()[-1] for line in asked] == ["update", package]
    run(clone, "=== 10 passed in 1.2s ===", PATH=path, PYTHON="python")
    # It is asked once: the second time nothing is missing.
    assert (clone / "asked").read_text(encoding="utf-8").splitlines() == asked


def test_an_apt_that_fails_shows_what_it_said(clone: Path) -> None:
    tools = clone.parent / "tools"
    tools.mkdir()
    program(tools / "python", f'case "$2" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac\n')
    program(tools / "apt-get", "echo no such package; exit 100\n")
    program(tools / "sudo", 'shift; exec "$@"\n')
    code, told = run(clone, "=== 10 passed in 1.2s ===", PATH=f"{tools}:{os.environ['PATH']}", PYTHON="python")
    assert (code, "no such package" in told, "could not be installed" in told, "10 passed" in told) == (
        1,
        True,
        True,
        False,
    )


def test_recorded_data_beside_the_clone_is_passed_on_and_a_set_variable_wins(clone: Path) -> None:
    assert "data= reference=" in run(clone, "1 passed")[1]
    for name in ("data", "reference"):
        (clone.parent / "shared" / name).mkdir(parents=True)
    shared = clone.parent / "shared"
    assert f"data={shared / 'data'} reference={shared / 'reference'}" in run(clone, "1 passed")[1]
    assert f"data=/else reference={shared / 'reference'}" in run(clone, "1 passed", FAIRTRIAL_DATA="/else")[1]
