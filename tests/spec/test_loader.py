"""A spec file becomes a spec, or one error that says where and what to do."""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairtrial.errors import InputError, SpecError
from fairtrial.spec.examples import GRADERS, SPEC, SPEC_TOML, SPEC_YAML, TASKS
from fairtrial.spec.loader import load_spec, parse_grader, parse_spec
from fairtrial.spec.models import ExactGrader, FromEnv, NumberGrader, RegexGrader

MINIMAL: dict[str, Any] = {"task": {"kind": "command", "command": ["true"]}}

# The bar for any bad input is 2 s, and an idle machine holds it. Under tracing or load it takes several times as long;
# a walk that is quadratic takes minutes.
ENDS_WITHIN_S = 20


def write(folder: Path, name: str, content: str | bytes | dict[str, Any]) -> Path:
    path = folder / name
    if isinstance(content, dict):
        content = json.dumps(content, indent=1)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value)


def spec_refused(document: Any) -> str:
    with pytest.raises(SpecError) as caught:
        parse_spec(document, place="spec", folder=Path("/x"))
    assert caught.value.code == "bad_spec"
    return str(caught.value)


def test_c01_the_three_formats_give_the_same_spec(tmp_path: Path):
    loaded = [
        load_spec(write(tmp_path, "a.json", SPEC)),
        load_spec(write(tmp_path, "b.yaml", SPEC_YAML)),
        load_spec(write(tmp_path, "c.YML", SPEC_YAML)),
        load_spec(write(tmp_path, "d.toml", SPEC_TOML)),
    ]
    assert all(one.spec == loaded[0].spec for one in loaded)
    assert loaded[0].spec.limits.max_cost_usd == Decimal("2.50")
    assert loaded[0].folder == tmp_path
    assert loaded[3].path == tmp_path / "d.toml"


def test_c01_a_spec_without_a_name_is_named_by_its_file(tmp_path: Path):
    assert load_spec(write(tmp_path, "smoke.v2.json", MINIMAL)).spec.name == "smoke.v2"
    assert load_spec(write(tmp_path, "x.json", {**MINIMAL, "name": "own"})).spec.name == "own"
    assert parse_spec(MINIMAL, place="body", folder=Path("/x")).spec.name is None


def test_a_file_name_of_any_bytes_gives_a_name_that_can_be_stored(tmp_path: Path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\n.json"))
    path.write_text(json.dumps(MINIMAL))
    name = load_spec(path).spec.name
    assert name == "caf\ufffd\ufffd"
    assert load_spec(write(tmp_path, "   .json", MINIMAL)).spec.name == "experiment"


def test_k93_the_folder_is_absolute_and_that_of_the_name_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    write(real, "s.json", MINIMAL)
    link.mkdir()
    (link / "s.json").symlink_to(real / "s.json")
    monkeypatch.chdir(link)
    loaded = load_spec(Path("s.json"))
    assert loaded.folder == link
    assert loaded.path == Path("s.json")


@pytest.mark.parametrize("folder", ["eval data", "données", "📁", "x" * 200 + "/" + "y" * 200])
def test_k93_specs_in_folders_of_any_name_load(tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir(parents=True)
    path = write(tmp_path / folder, "s.json", MINIMAL)
    assert load_spec(path).folder == tmp_path / folder


def test_k93_a_windows_path_is_a_file_name_and_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in (r"C:\eval data\s.json", r"\\server\share\s.json", "c:s.json"):
        write(tmp_path, name, MINIMAL)
        assert load_spec(Path(name)).folder == tmp_path


# --- files


def test_k89_what_is_no_spec_file_is_refused_by_name(tmp_path: Path):
    write(tmp_path, "smoke.json", MINIMAL)
    assert 'there is no such spec. Did you mean "smoke.json"?' in refused(tmp_path / "smok.json")
    assert "there is no such spec." in refused(tmp_path / "nowhere" / "x.json")
    (tmp_path / "folder.json").mkdir()
    assert "this is a folder; a spec is a file." in refused(tmp_path / "folder.json")
    assert "ends in one of .json, .yaml, .yml, .toml" in refused(write(tmp_path, "spec.txt", "{}"))
    os.mkfifo(tmp_path / "pipe.json")
    assert "this is a pipe or a device" in refused(tmp_path / "pipe.json")
    assert "File name too long" in refused(tmp_path / ("x" * 300 + ".json"))
    assert "cannot be read" in refused(tmp_path / "x\0.json")
    assert "empty" in refused(write(tmp_path, "empty.json", ""))
    assert "longer than the limit of 1,048,576 bytes" in refused(write(tmp_path, "big.json", " " * 1_048_577))
    assert "UTF-16" in refused(write(tmp_path, "wide.json", json.dumps(MINIMAL).encode("utf-16")))
    (tmp_path / "mem.json").symlink_to("/proc/self/mem")
    assert "cannot be read: Input/output error" in refused(tmp_path / "mem.json")
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert "cannot be read" in refused(loop)


def test_r41_deep_specs_are_refused_in_every_format(tmp_path: Path):
    for name, content in [("a.json", "[" * 100_000), ("a.yaml", "[" * 100_000), ("a.toml", "a=" + "[" * 100_000)]:
        assert "nested deeper than 100 levels" in refused(write(tmp_path, name, content))
    assert "nested deeper" in refused(write(tmp_path, "b.json", '{"task":' * 50_000))


# --- what the error says


def test_r46_an_unknown_key_names_the_place_and_the_nearest_key(tmp_path: Path):
    document = {**MINIMAL, "graders": [{"kind": "regex", "pattern": "x", "ignorecase": True}]}
    path = write(tmp_path, "s.json", document)
    line = path.read_text().split("\n").index('   "ignorecase": true') + 1
    assert refused(path) == f'{path}:{line}:4: graders[0].ignorecase: unknown key. Did you mean "ignore_case"?'
    path = write(tmp_path, "s.yaml", "task:\n  kind: command\n  command: x\n  enviroment: {}\n")
    assert refused(path).startswith(f"{path}:4:3: task.enviroment: unknown key.")
    path = write(tmp_path, "s.toml", '[task]\nkind = "command"\ncommand = "x"\n[limits]\nretrys = 2\n')
    assert refused(path) == f'{path}:5:1: limits.retrys: unknown key. Did you mean "retries"?'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Name": "x"}, 'Name: unknown key. Did you mean "name"?'),
        ({"name": "x", "NAME": "x"}, 'NAME: unknown key. Did you mean "name"?'),
        ({"zzzz": 1}, "zzzz: unknown key. Known keys: name, description, dataset"),
        ({"trials": "3"}, "trials: needs a whole number, not text. Write it without quotes."),
        ({"trials": 3.0}, "trials: needs a whole number, not a decimal number."),
        ({"trials": True}, "trials: needs a whole number, not true or false."),
        ({"trials": 0}, "trials: must be greater than or equal to 1."),
        ({"name": 7}, "name: needs text, not a number. Put it in quotes."),
        ({"name": "a\nb"}, "name: the text holds a line break"),
        ({"name": " "}, "name: the text is blank."),
        ({"tags": ["a", None]}, "tags[1]: needs text, not null. Put it in quotes."),
        ({"seed": 2**63}, "seed: must be less than"),
        ({"graders": {"kind": "exact"}}, "graders: needs a list, not a mapping of keys."),
        ({"graders": [{"kind": "exat"}]}, 'graders[0].kind: unknown kind "exat". Did you mean "exact"? Known kinds: '),
        ({"graders": [{"pattern": "x"}]}, 'graders[0]: the key "kind" is missing. Known kinds: exact,'),
        ({"graders": [{"kind": 5}]}, "graders[0].kind: needs text, not a number. Known kinds:"),
        ({"graders": ["exact"]}, "graders[0]: needs a mapping of keys, not text."),
        ({"graders": [{"kind": "exact", "name": "a"}] * 2}, "graders: two graders have the same name."),
        ({"limits": {"max_cost_usd": "1e999999999"}}, "limits.max_cost_usd: a price is a plain decimal number"),
        ({"limits": {"max_cost_usd": True}}, "limits.max_cost_usd: a price is a plain decimal number"),
        ({"limits": {"trial_timeout_s": 10**400}}, "limits.trial_timeout_s: the number is too large."),
        ({"limits": {"trial_timeout_s": float("inf")}}, "limits.trial_timeout_s: must be a finite number."),
        ({"task": None}, "task: needs a mapping of keys, not null."),
        ({"task": {"kind": "command"}}, 'task: the key "command" is missing.'),
        ({"task": {"kind": "command", "comand": ["x"]}}, 'task.comand: unknown key. Did you mean "command"?'),
        ({"task": {"kind": "command", "command": 5}}, "task.command: needs a list or text, not a number."),
        ({"task": {"kind": "command", "command": ["x", 5]}}, "task.command[1]: needs text, not a number."),
        ({"task": {"kind": "command", "command": []}}, "task.command: the command is empty."),
        ({"task": {"kind": "command", "command": "echo {{input}}"}}, "task.command: a shell line takes no {{…}}"),
        ({"task": {"kind": "command", "command": "x\0"}}, "task.command: the text holds a NUL character"),
        ({"task": {"kind": "command", "command": ["\ud835"]}}, "task.command: the text holds a NUL character or half"),
        ({"task": {"kind": "command", "command": "x", "env": {"A=B": "x"}}}, "task.env: a variable needs a name"),
        ({"task": {"kind": "command", "command": "x", "env": {"A.B": 5}}}, 'task.env["A.B"]: needs text or a mapping'),
        ({"task": {"kind": "command", "command": "x", "env": {"kind": 5}}}, "task.env.kind: needs text or a mapping"),
        (
            {"task": {"kind": "command", "command": "x", "stdin": "xml"}},
            "task.stdin: must be 'json', 'text' or 'none'.",
        ),
        ({"task": {"kind": "recorded", "path": "x", "pth": 1}}, 'task.pth: unknown key. Did you mean "path"?'),
    ],
)
def test_r46_c01_each_mistake_is_said_in_words(change: dict[str, Any], message: str):
    assert spec_refused({**MINIMAL, **change}).startswith(f"spec: {message}")


@pytest.mark.parametrize("document", [None, 5, "x", [], [MINIMAL]])
def test_r46_a_document_that_is_no_mapping_is_refused(document: Any):
    assert "needs a mapping of keys, not" in spec_refused(document)


def test_r46_r47_several_mistakes_are_one_error_that_lists_the_first_five_by_line(tmp_path: Path):
    text = """{
  "nam": "x",
  "task": {"kind": "command", "comand": ["x"],
    "env": {"A": 5}},
  "graders": [{"kind": "regx"}, {"kind": "regex"}],
  "trials": "3",
  "limits": {"retries": -1}
}"""
    path = write(tmp_path, "s.json", text)
    assert refused(path) == (
        f"{path}: 7 problems:\n"
        '  line 2, nam: unknown key. Did you mean "name"?\n'
        '  line 3, task.comand: unknown key. Did you mean "command"?\n'
        "  line 4, task.env.A: needs text or a mapping of keys, not a number. Put it in quotes.\n"
        '  line 5, graders[0].kind: unknown kind "regx". Did you mean "regex"? Known kinds: exact, iexact, contains, '
        "icontains, regex, number, json, json_schema, similarity, bleu, chrf, length, latency, cost, values, python, "
        "command.\n"
        '  line 5, graders[1]: the key "pattern" is missing.\n'
        "  and 2 more."
    )


def test_r47_no_error_shows_a_value_of_env_or_any_other(tmp_path: Path):
    secret = "sk-1234567890"
    bad_values: list[Any] = [
        [secret],
        {"from_env": [secret]},
        {"from_env": secret, "x": secret},
        {secret + "x": 1},
        None,
    ]
    for value in bad_values[:3] + bad_values[4:]:
        env = {"TOKEN": value, "OTHER": secret, "THIRD": secret + "\0"}
        path = write(tmp_path, "s.json", {"task": {"kind": "command", "command": "x", "env": env}, "trials": secret})
        assert secret not in refused(path)
    for text in (f'{{"task": "{secret}" "x": 1}}', f'{{"task": "{secret}", "task": "{secret}"}}'):
        assert secret not in refused(write(tmp_path, "s.json", text))
    assert secret not in refused(write(tmp_path, "s.yaml", f"task: {secret}: {secret}\n"))
    assert secret not in refused(write(tmp_path, "s.toml", f"task = {secret}\n"))


def test_k88_yaml_words_and_numbers_are_not_turned_into_other_types(tmp_path: Path):
    text = "task:\n  kind: command\n  command: [x, no, 2024-01-01, 1:30]\n  env: {A: on, B: '007'}\n"
    task = load_spec(write(tmp_path, "s.yaml", text)).spec.task
    assert task.command == ["x", "no", "2024-01-01", "1:30"]
    assert task.env == {"A": "on", "B": "007"}
    path = write(tmp_path, "t.yaml", text + "graders: [{kind: exact, value: 007}]\n")
    assert refused(path) == f"{path}:5:25: graders[0].value: needs text, not a number. Put it in quotes."


def test_r46_a_doubled_key_is_refused_in_every_format(tmp_path: Path):
    assert "stands twice" in refused(write(tmp_path, "a.json", '{"trials": 1, "trials": 2}'))
    assert "stands twice" in refused(write(tmp_path, "a.yaml", "trials: 1\ntrials: 2\n"))
    assert "cannot overwrite" in refused(write(tmp_path, "a.toml", "trials = 1\ntrials = 2\n"))


def test_g05_a_spec_with_thirty_thousand_mistakes_is_answered_in_time(tmp_path: Path):
    env = {f"V{n}": n for n in range(30_000)}
    path = write(tmp_path, "s.json", {"task": {"kind": "command", "command": "x", "env": env}})
    start = time.process_time()
    message = refused(path)
    assert time.process_time() - start < ENDS_WITHIN_S
    assert message.count("\n") == 6
    assert message.endswith("and many more.")


def test_values_are_kept_as_written():
    env = {"KEY": {"from_env": "SECRET"}}
    document = {
        "task": {"kind": "command", "command": "a | b", "env": env},
        "graders": [{"kind": "number", "value": 10**30}, {"kind": "number", "value": 0.5}],
        "limits": {"max_cost_usd": 0.1},
    }
    spec = parse_spec(document, place="body", folder=Path("x")).spec
    assert spec.task.env == {"KEY": FromEnv(from_env="SECRET")}
    assert [grader.value for grader in spec.graders if isinstance(grader, NumberGrader)] == [10**30, 0.5]
    assert spec.limits.max_cost_usd == Decimal("0.1")
    # Flags are applied by checking the dumped spec anew.
    assert type(spec).model_validate(spec.model_dump()) == spec


# --- graders of -g


def test_c04_a_grader_is_given_as_json_as_at_file_or_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert parse_grader('{"kind":"exact"}', place="-g") == ExactGrader(kind="exact")
    assert parse_grader(' {"kind":"regex", "pattern":"^[A-Z]+$"}', place="-g") == RegexGrader(
        kind="regex", pattern="^[A-Z]+$"
    )
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "g.json", {"kind": "exact"})
    write(tmp_path, "g.yaml", "kind: exact\n")
    for text in ("@g.json", "g.json", "./g.json", f"{tmp_path}/g.json", "g.yaml", "@g.yaml"):
        assert parse_grader(text, place="-g") == ExactGrader(kind="exact")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exact", """-g: a grader is a JSON object. Write -g '{"kind": "exact"}'"""),
        ("", "-g: this is neither a JSON object nor a grader file."),
        ('[{"kind":"exact"}]', "-g: this is neither a JSON object nor a grader file."),
        ("{kind:exact}", "-g:1:2: not valid JSON"),
        ('{"kind":"regex"}', '-g: the key "pattern" is missing.'),
        ('{"kind":"rgex"}', '-g:1:2: kind: unknown kind "rgex". Did you mean "regex"?'),
        ('{"kind":"exact","valu":"x"}', '-g:1:17: valu: unknown key. Did you mean "value"?'),
        ('{"kind":"command","command":"command","commnd":1}', "-g:1:39: commnd: unknown key."),
        ("@nowhere.json", "nowhere.json: there is no such grader."),
        ("{}", '-g: the key "kind" is missing. Known kinds: exact'),
        ("[" * 100_000, "-g: this is neither"),
        ('{"kind":' * 100_000, "-g:1:801: objects and lists are nested deeper"),
    ],
)
def test_c04_a_grader_that_cannot_be_read_says_why(text: str, message: str):
    with pytest.raises(SpecError) as caught:
        parse_grader(text, place="-g")
    assert str(caught.value).startswith(message)


# --- mutations


SCALARS = [
    None,
    True,
    0,
    -1,
    10**400,
    1.5,
    float("inf"),
    float("nan"),
    "",
    " ",
    "x",
    "\0",
    "\ud835",
    "{{input}}",
    "command",
]
STRUCTURES = [
    [],
    [[]],
    {},
    {"kind": "command"},
    {"kind": ["x"]},
    {"from_env": ""},
    {"": ""},
    ["x", 1],
    {"kind": "task"},
]
MUTANTS = st.sampled_from([*SCALARS, *STRUCTURES])
KEYS = st.sampled_from(
    ["kind", "Kind", "task", "comand", "command", "", "\ud835", "\0", "env", "str", "list[str]", "é" * 90]
)


def _containers(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict | list) and value else []) + [
        c for item in inner for c in _containers(item)
    ]


@st.composite
def mutated_specs(draw: st.DrawFn) -> Any:
    task = draw(st.sampled_from(list(TASKS.values())))
    graders = draw(st.lists(st.sampled_from(list(GRADERS.values())), max_size=3))
    document: Any = copy.deepcopy({**SPEC, "task": task, "graders": graders})
    for _ in range(draw(st.integers(1, 4))):
        container = draw(st.sampled_from(_containers(document) or [document]))
        if isinstance(container, list):
            container[draw(st.integers(0, len(container) - 1))] = copy.deepcopy(draw(MUTANTS))
        elif isinstance(container, dict) and container:
            key = draw(st.sampled_from(sorted(container)))
            action = draw(st.sampled_from(["replace", "rename", "remove", "add", "case"]))
            value = container.pop(key) if action in ("rename", "remove", "case") else container[key]
            if action == "replace":
                container[key] = copy.deepcopy(draw(MUTANTS))
            elif action == "rename":
                container[draw(KEYS)] = value
            elif action == "case":
                container[key.upper()] = value
            elif action == "add":
                container[draw(KEYS)] = copy.deepcopy(draw(MUTANTS))
    return document


STARTS = (
    "subprocess.Popen",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.exec",
    "os.system",
    "os.spawn",
    "pty.spawn",
)
REACHES_OUT = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto")
_watching = False
_started: list[str] = []


def _note_start(event: str, arguments: tuple[object, ...]) -> None:
    # An audit hook stays for the life of the process, so it does nothing while nobody watches.
    if _watching and event in STARTS + REACHES_OUT:
        _started.append(event)


@contextmanager
def nothing_starts() -> Iterator[None]:
    """Fail when the block starts a process or reaches for the network. The interpreter itself says so (PEP 578)."""
    global _watching
    _started.clear()
    _watching = True
    try:
        yield
    finally:
        _watching = False
    assert _started == []


sys.addaudithook(_note_start)


def test_the_watch_sees_a_process_and_a_connection():
    with pytest.raises(AssertionError, match=r"subprocess\.Popen"), nothing_starts():
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(AssertionError, match=r"socket\.bind"), nothing_starts(), socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated_specs())
def test_r46_of_1000_mutated_specs_each_is_a_spec_or_our_error_and_none_starts_anything(document: Any):
    try:
        with nothing_starts():
            parse_spec(document, place="spec", folder=Path("/x"))
    except SpecError as error:
        message = str(error)
    else:
        return
    # What is said can be printed anywhere, and begins with the place.
    assert message.startswith("spec: ")
    assert message.encode()


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([("s.json", json.dumps(SPEC, indent=1)), ("s.yaml", SPEC_YAML), ("s.toml", SPEC_TOML)]),
    st.lists(
        st.tuples(
            st.integers(0, 400), st.integers(0, 3), st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"\n", b":"])
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_r46_of_1000_files_with_changed_bytes_each_loads_or_is_our_error_and_none_starts_anything(
    tmp_path: Path, file: tuple[str, str], edits: list[tuple[int, int, bytes]]
):
    name, text = file
    data = text.encode()
    for at, n_removed, added in edits:
        data = data[:at] + added + data[at + n_removed :]
    path = write(tmp_path, name, data)
    try:
        with nothing_starts():
            load_spec(path)
    except SpecError as error:
        message = str(error)
    else:
        return
    assert message.startswith(str(path))


def test_loading_a_json_spec_imports_neither_yaml_nor_rapidfuzz(tmp_path: Path):
    path = write(tmp_path, "s.json", MINIMAL)
    code = (
        "import sys, pathlib\nfrom fairtrial.spec.loader import load_spec\nload_spec(pathlib.Path(sys.argv[1]))\n"
        "print(sorted({'yaml', 'rapidfuzz', 'tomllib', 'numpy', 'sqlalchemy', 'httpx'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_input_errors_are_spec_errors_with_exit_status_64(tmp_path: Path):
    with pytest.raises(InputError) as caught:
        load_spec(tmp_path / "none.json")
    assert caught.value.exit_status == 64
