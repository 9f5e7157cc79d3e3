"""The room of the tests keeps the starter's settings out and lets no process stay behind.

The claims about the room are checked twice: in this session, and in a session started from a hostile environment.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]

HOSTILE = {
    "PREFECT_API_URL": "http://127.0.0.1:9/api",
    "PREFECT_PROFILE": "theirs",
    "PREFECT_PROFILES_PATH": "/nowhere/profiles.toml",
    "PREFECT_TASKS_REFRESH_CACHE": "1",
    "FAIRTRIAL_HOME": "/nowhere/home",
    "FAIRTRIAL_STATE_DIR": "/nowhere/state",
    "FAIRTRIAL_DATABASE_URL": "postgresql://somebody@db.example/theirs",
    "DATABASE_URL": "postgresql://somebody@db.example/theirs",
    "PGHOST": "db.example",
    "XDG_STATE_HOME": "/nowhere/xdg",
    "OPENAI_API_KEY": "canary-key",
}
KEPT = {"FAIRTRIAL_DATA": "/somewhere/data", "FAIRTRIAL_REFERENCE": "/somewhere/reference", "FAIRTRIAL_TEST_X": "kept"}


class TestRoom:
    def test_no_setting_of_the_starter_is_left(self) -> None:
        set_here = {"PREFECT_HOME", "FAIRTRIAL_STATE_DIR"}
        kept = {"FAIRTRIAL_DATA", "FAIRTRIAL_REFERENCE"}
        ours = {n for n in os.environ if n.startswith(("PREFECT_", "FAIRTRIAL_"))}
        assert {n for n in ours - set_here - kept if not n.startswith("FAIRTRIAL_TEST_")} == set()
        assert set(HOSTILE) & set(os.environ) == {"FAIRTRIAL_STATE_DIR"}

    def test_home_and_state_are_folders_of_this_session(self) -> None:
        places = [Path(os.environ[name]) for name in ("HOME", "PREFECT_HOME", "FAIRTRIAL_STATE_DIR")]
        assert len({place.parent for place in places}) == 1
        assert places[0].parent.name.startswith("fairtrial-tests-")
        assert Path.home() == places[0]
        assert not (Path.home() / ".prefect" / "profiles.toml").exists()

    def test_prefect_sees_no_server_and_no_profile_of_the_starter(self) -> None:
        # In a process of its own: Prefect reads its settings once, and another test may have imported it.
        look = (
            "from prefect.settings import get_current_settings as s, load_current_profile as p;"
            "print(s().api.url, s().tasks.refresh_cache, s().home, p().name)"
        )
        told = subprocess.run(
            [sys.executable, "-c", look], capture_output=True, check=True, cwd=Path.home(), timeout=120
        )
        assert told.stdout.decode().split() == ["None", "False", os.environ["PREFECT_HOME"], "ephemeral"]

    def test_prefect_was_not_imported_before_the_room_was_made(self) -> None:
        from prefect.settings import get_current_settings

        assert str(get_current_settings().home) == os.environ["PREFECT_HOME"]

    def test_data_and_reference_folders_are_kept(self) -> None:
        # What this process was born with; the hostile session below is born with all three.
        born = dict(pair.split("=", 1) for pair in Path("/proc/self/environ").read_text().split("\0") if "=" in pair)
        assert {name: os.environ.get(name) for name in KEPT} == {name: born.get(name) for name in KEPT}


def test_a_hostile_environment_does_not_reach_the_tests(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".prefect").mkdir(parents=True)
    (home / ".prefect" / "profiles.toml").write_text(
        'active = "theirs"\n[profiles.theirs]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
        'PREFECT_TASKS_REFRESH_CACHE = "true"\n',
        encoding="utf-8",
    )
    done = _pytest(ROOT, str(HERE), "-k", "TestRoom", "-p", "no:cacheprovider", HOME=str(home), **HOSTILE, **KEPT)
    # By hand: the five tests of TestRoom.
    assert "5 passed" in done, done


@pytest.mark.slow
class TestLedger:
    """Each in a session of its own with the same conftest, because the point is that the session fails."""

    @pytest.fixture
    def session(self, tmp_path: Path) -> Iterator[Callable[[str], str]]:
        (tmp_path / "tests" / "group").mkdir(parents=True)
        shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")

        def run(code: str) -> str:
            (tmp_path / "tests" / "group" / "test_inner.py").write_text(textwrap.dedent(code), encoding="utf-8")
            return _pytest(tmp_path, "-c", os.devnull, f"--rootdir={tmp_path}", "--import-mode=importlib", "tests")

        yield run
        for file in tmp_path.glob("pid*"):
            if _lives(int(file.read_text(encoding="ascii"))):
                os.kill(int(file.read_text(encoding="ascii")), signal.SIGKILL)

    def test_a_process_left_behind_is_ended_and_fails_the_session(
        self, session: Callable[[str], str], tmp_path: Path
    ) -> None:
        told = session(f"""
            import subprocess, sys, pathlib
            def test_leaves_one():
                child = subprocess.Popen(["sleep", "300"], start_new_session=True)
                pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(child.pid))
                child.returncode = 0  # nobody waits for it
        """)
        assert "exit status 1" in told, told
        assert "processes left behind" in told
        assert "sleep 300" in told
        assert not _lives(int((tmp_path / "pid").read_text(encoding="ascii")))

    def test_a_process_that_exp_left_behind_fails_its_own_test(
        self, session: Callable[[str], str], tmp_path: Path
    ) -> None:
        _stand_in(
            tmp_path / "project",
            "import subprocess, pathlib, sys\n"
            "child = subprocess.Popen(['sleep', '301'], start_new_session=True)\n"
            f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
            "print('{\"left\": 1}')\n",
        )
        told = session(f"""
            import pathlib
            def test_leaves_one(exp):
                assert exp("run", cwd=pathlib.Path({str(tmp_path / "project")!r})).json == {{"left": 1}}
            def test_is_not_blamed(exp):
                pass
        """)
        assert "2 passed, 1 error" in told, told
        assert "sleep 301" in told
        assert not _lives(int((tmp_path / "pid").read_text(encoding="ascii")))

    def test_a_command_that_hangs_is_ended_with_its_tree(self, session: Callable[[str], str], tmp_path: Path) -> None:
        _stand_in(
            tmp_path / "project",
            "import subprocess, pathlib, time\n"
            "child = subprocess.Popen(['sleep', '302'], start_new_session=True)\n"
            f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
            "print('so far', flush=True)\n"
            "time.sleep(302)\n",
        )
        told = session(f"""
            import pathlib
            def test_hangs(exp):
                exp("run", cwd=pathlib.Path({str(tmp_path / "project")!r}), timeout_s=3)
        """)
        assert "did not end within 3 s" in told, told
        assert "so far" in told
        assert "1 failed" in told
        assert not _lives(int((tmp_path / "pid").read_text(encoding="ascii")))

    def test_the_summary_names_groups_and_every_skip_with_its_reason(self, session: Callable[[str], str]) -> None:
        told = session("""
            import pytest
            @pytest.mark.parametrize("n", range(3))
            def test_skips(n):
                pytest.skip(f"no device {n}")
            def test_passes():
                pass
        """)
        assert "exit status 0" in told, told
        assert all(f"test_skips[{n}]: no device {n}" in told for n in range(3))
        assert [line for line in told.splitlines() if line.endswith(" 4 tests  group")], told


def _stand_in(project: Path, code: str) -> None:
    """Lay a command of our own where `python -m faces.cli.main` finds it first."""
    package = project / "faces" / "cli"
    package.mkdir(parents=True)
    for name, text in {"../__init__.py": "", "__init__.py": "", "main.py": code}.items():
        (package / name).write_text(text, encoding="utf-8")


def _pytest(folder: Path, *arguments: str, **environment: str) -> str:
    """Return what a pytest session printed, and its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace") + f"\nexit status {done.returncode}"


def _lives(pid: int) -> bool:
    """Return whether the process runs; one that has ended may take an instant to go."""
    for _ in range(40):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True
