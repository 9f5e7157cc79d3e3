"""Which server was named and what breaks a resume: our light reading agrees with Prefect's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fairtrial.errors import SpecError
from flows.prefect_env import named_server, settings_that_break_resume

ENVIRONMENT = {"PREFECT_API_URL": "http://env.example/api"}
FILES = {
    ".env": "PREFECT_API_URL=http://dotenv.example/api\nPREFECT_API_AUTH_STRING=dot:env\n",
    "prefect.toml": '[api]\nurl = "http://toml.example/api"\nauth_string = "to:ml"\n',
    "pyproject.toml": '[tool.prefect.api]\nurl = "http://pyproject.example/api"\nkey = "pnu_1"\n',
    "home/profiles.toml": (
        'active = "team"\n[profiles.team]\nPREFECT_API_URL = "http://profile.example/api"\n'
        '[profiles.other]\nPREFECT_API_URL = "http://other.example/api"\n'
    ),
}


def lay(folder: Path, *names: str) -> dict[str, str]:
    """Write the files of that name and return an environment whose PREFECT_HOME is there."""
    (folder / "home").mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(FILES[name], encoding="utf-8")
    return {"PREFECT_HOME": str(folder / "home"), "HOME": str(folder), "PATH": os.environ["PATH"]}


# name: the files that are there, what is in the environment besides, and what follows: address and place
CASES: dict[str, tuple[tuple[str, ...], dict[str, str], str | None, str | None]] = {
    "nothing": ((), {}, None, None),
    "empty": ((), {"PREFECT_API_URL": ""}, None, None),
    "environment": (tuple(FILES), ENVIRONMENT, "http://env.example/api", "PREFECT_API_URL"),
    "empty hides": (tuple(FILES), {"PREFECT_API_URL": ""}, None, None),
    "dotenv": (tuple(FILES), {}, "http://dotenv.example/api", "PREFECT_API_URL in .env"),
    "toml": (tuple(FILES)[1:], {}, "http://toml.example/api", "PREFECT_API_URL ([api] in prefect.toml)"),
    "pyproject": (tuple(FILES)[2:], {}, "http://pyproject.example/api", "PREFECT_API_URL ([api] in pyproject.toml)"),
    "profile": (tuple(FILES)[3:], {}, "http://profile.example/api", "PREFECT_API_URL in the Prefect profile 'team'"),
    "other profile": (
        tuple(FILES)[3:],
        {"PREFECT_PROFILE": "other"},
        "http://other.example/api",
        "PREFECT_API_URL in the Prefect profile 'other'",
    ),
    "lost profile": (tuple(FILES)[3:], {"PREFECT_PROFILE": "gone"}, None, None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_named_server_is_the_first_that_is_said(tmp_path: Path, case: str) -> None:
    names, changes, url, source = CASES[case]
    found = named_server(lay(tmp_path, *names) | changes, folder=tmp_path)
    assert (found and found.url, found and found.source) == (url, source)


def test_the_named_server_is_the_one_that_prefect_would_use(tmp_path: Path) -> None:
    asked = []
    for number, (names, changes, _, _) in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        asked.append((str(folder), lay(folder, *names) | changes))
    # Made anew in each folder, Prefect's settings are read anew; one process, because its import takes seconds.
    look = """
        import json, os, sys
        from prefect.settings import Settings
        for folder, environ in json.load(sys.stdin):
            os.chdir(folder); os.environ.clear(); os.environ.update(environ)
            api = Settings().api
            print(json.dumps([api.url, *(v and v.get_secret_value() for v in (api.auth_string, api.key))]))
    """
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(look)],
        input=json.dumps(asked).encode(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    for (folder, environ), line in zip(asked, told.stdout.splitlines(), strict=True):
        found = named_server(environ, folder=Path(folder))
        theirs = [value or None for value in json.loads(line)]
        assert ([found.url, found.auth, found.key] if found else None) == (theirs if theirs[0] else None), environ


def test_a_profiles_file_elsewhere_is_followed(tmp_path: Path) -> None:
    environ = lay(tmp_path, "home/profiles.toml")
    (tmp_path / "home" / "profiles.toml").rename(tmp_path / "mine.toml")
    assert named_server(environ, folder=tmp_path) is None
    found = named_server(environ | {"PREFECT_PROFILES_PATH": str(tmp_path / "mine.toml")}, folder=tmp_path)
    assert found is not None
    assert found.url == "http://profile.example/api"


def test_a_login_is_not_shown(tmp_path: Path) -> None:
    environ = lay(tmp_path, *FILES) | {"PREFECT_API_AUTH_STRING": "me:canary", "PREFECT_API_KEY": "canary"}
    assert "canary" not in repr(named_server(environ, folder=tmp_path))


@pytest.mark.parametrize("content", [b"[api\n", b"\xff\xfe"])
def test_a_settings_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    environ = lay(tmp_path)
    (tmp_path / "prefect.toml").write_bytes(content)
    with pytest.raises(SpecError, match=r"prefect\.toml"):
        named_server(environ, folder=tmp_path)


@pytest.mark.parametrize("content", ["api = 3\n", '[[api]]\nurl = "x"\n', "tool = 1\n"])
def test_a_settings_file_of_another_shape_names_no_server(tmp_path: Path, content: str) -> None:
    environ = lay(tmp_path)
    for name in ("prefect.toml", "pyproject.toml", "home/profiles.toml"):
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert named_server(environ, folder=tmp_path) is None


def test_p30_settings_that_switch_caching_off_are_named() -> None:
    assert settings_that_break_resume({}) == []
    assert settings_that_break_resume({"PREFECT_TASKS_REFRESH_CACHE": "0", "PREFECT_TASKS_DISABLE_CACHING": "no"}) == []
    both = {"PREFECT_TASKS_REFRESH_CACHE": "1", "PREFECT_TASKS_DISABLE_CACHING": "True"}
    assert settings_that_break_resume(both) == ["PREFECT_TASKS_DISABLE_CACHING", "PREFECT_TASKS_REFRESH_CACHE"]


def test_p30_a_setting_from_a_file_counts_and_the_environment_goes_before_it(tmp_path: Path) -> None:
    environ = lay(tmp_path)
    (tmp_path / "prefect.toml").write_text("[tasks]\nrefresh_cache = true\n", encoding="utf-8")
    look = "import os; from flows.prefect_env import settings_that_break_resume as s; print(s(os.environ))"

    def told(**changes: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", look],
            capture_output=True,
            check=True,
            cwd=tmp_path,
            env=environ | changes,
            timeout=120,
        )
        return done.stdout.decode().strip()

    assert told() == "['PREFECT_TASKS_REFRESH_CACHE']"
    assert told(PREFECT_TASKS_REFRESH_CACHE="false") == "[]"


def test_naming_a_server_needs_no_prefect() -> None:
    look = (
        "import sys, os; from pathlib import Path; from flows.prefect_env import named_server;"
        "named_server(os.environ, folder=Path.cwd()); print('prefect' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, check=True, timeout=60)
    assert told.stdout.strip() == b"False"


def test_preparing_after_prefect_was_imported_is_refused() -> None:
    look = (
        "import os, prefect; from pathlib import Path; from flows.local_server import Server;"
        "from flows.prefect_env import prepare;"
        "prepare(os.environ, Server(url='http://127.0.0.1:1/api', auth='a:b', pid=1, started=False, home=Path('.')))"
    )
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", look], capture_output=True, check=False, timeout=120)
    assert told.returncode == 1
    assert b"imported before" in told.stderr.splitlines()[-1]
