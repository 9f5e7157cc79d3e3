"""What our own code must not do (G24): run what it was given, forget what went wrong, read outside text loosely.

Read from the syntax tree, so a word in a comment is no offence. Every exemption names its reason, and one that is not
needed any more is an offence itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUARDED: Final = ("fairtrial", "stats", "tasks", "flows", "faces", "deployments")

# (rule, file) -> why this file may. `except Exception` stands where a trial is recorded, where a face prints, and where
# a user's function, a thread's end or Prefect must not decide the outcome. Our own JSON needs no strict reader.
ALLOWED: Final[dict[tuple[str, str], str]] = {
    ("json", "fairtrial/spec/strict_json.py"): "the strict loader itself",
    ("json", "fairtrial/hashing.py"): "reads what canonical_json wrote into the store",
    ("json", "fairtrial/graders/isolated/python_runner.py"): "its pipe carries what our own process wrote",
    ("json", "fairtrial/graders/isolated/schema_check.py"): "gets what our own process read strictly and wrote again",
    ("json", "flows/server_record.py"): "server.json is our own, and a damaged one counts as none",
    ("except", "fairtrial/engine/trial.py"): "where a trial is recorded",
    ("except", "faces/cli/main.py"): "where a face prints",
    (
        "except",
        "fairtrial/graders/isolated/python_runner.py",
    ): "a user's function may raise anything, and it is replied",
    ("except", "fairtrial/store/writer.py"): "the end of a thread: those who wait on it must hear of it",
    ("except", "flows/execute.py"): "Prefect's own trouble; the answer comes from the journal",
    ("except", "tasks/verdict.py"): "a page in the UI that fails must not cost the verdict",
}

_PICKLES: Final = ("pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib")
_YAML_LOADS: Final = ("load", "load_all", "unsafe_load", "full_load", "unsafe_load_all", "full_load_all")
_RUNNERS: Final = ("eval", "exec", "compile")
_SQL_CALLS: Final = ("text", "execute", "exec_driver_sql", "executemany", "executescript", "scalar", "scalars")
_SQL_WORDS: Final = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "DROP ", "ALTER ", "PRAGMA ", "BEGIN")


def offences(name: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield (rule, file:line) of every offence in one file."""
    tree = ast.parse(source, name)
    known = _imports(tree)
    for node in ast.walk(tree):
        for rule in _rules(node, known, name):
            yield rule, f"{name}:{getattr(node, 'lineno', 0)}"


def _imports(tree: ast.AST) -> dict[str, str]:
    """Return what each name of the file stands for: `from os import environ as e` makes e os.environ."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return known


def _full_name(node: ast.AST, known: Mapping[str, str]) -> str:
    """Return the dotted name that an expression stands for, or an empty text."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        inner = _full_name(node.value, known)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def _rules(node: ast.AST, known: Mapping[str, str], name: str) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _import_rules(node)
    elif isinstance(node, ast.Call):
        yield from _call_rules(node, known)
    elif isinstance(node, ast.ExceptHandler):
        if _catches_all(node, known) and not _raises_again(node):
            yield "except"
    elif isinstance(node, ast.Name | ast.Attribute) and not name.startswith("faces/"):
        if _full_name(node, known) in ("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv"):
            yield "environ"
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        _full_name(decorator, known) in ("prefect.task", "prefect.tasks.task") for decorator in node.decorator_list
    ):
        yield "task"


def _import_rules(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    if any(module.split(".")[0] in _PICKLES for module in modules):
        yield "pickle"


def _call_rules(node: ast.Call, known: Mapping[str, str]) -> Iterator[str]:
    called = _full_name(node.func, known)
    given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if called.startswith("yaml.") and called.split(".")[-1] in _YAML_LOADS:
        yield "yaml"
    if called in _RUNNERS or called in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"):
        yield "run"
    if "shell" in given and not (isinstance(given["shell"], ast.Constant) and given["shell"].value is False):
        yield "shell"
    if (
        ("text" in given or "universal_newlines" in given)
        and called.startswith("subprocess.")
        and "errors" not in given
    ):
        yield "decode"
    if called in ("json.loads", "json.load", "orjson.loads") or called.endswith("JSONDecoder"):
        yield "json"
    if called.split(".")[-1] in _SQL_CALLS and any(_is_built_sql(argument) for argument in node.args[:1]):
        yield "sql"
    if called in ("prefect.task", "prefect.tasks.task") and not _says_how_it_is_stored(given):
        yield "task"


def _is_built_sql(node: ast.expr) -> bool:
    """Return whether this is SQL put together from parts: f-string, +, %, .format, .join."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and called.id == "text" and node.args:
            return _is_built_sql(node.args[0])
        return isinstance(called, ast.Attribute) and called.attr in ("format", "join") and _holds_sql(called.value)
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values) and _holds_sql(node)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod) and _holds_sql(node)


def _holds_sql(node: ast.AST) -> bool:
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return any(word in text.upper() for text in texts for word in _SQL_WORDS)


def _catches_all(handler: ast.ExceptHandler, known: Mapping[str, str]) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_full_name(one, known) in ("Exception", "BaseException") for one in caught)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler ends by raising: it cleans up and hides nothing."""
    return isinstance(handler.body[-1], ast.Raise)


def _says_how_it_is_stored(given: Mapping[str, ast.expr]) -> bool:
    """A task says that it stores nothing, or its key (or cache policy) and a serializer that runs no code (P03)."""
    persists = given.get("persist_result")
    if isinstance(persists, ast.Constant) and persists.value is False:
        return True
    serializer = given.get("result_serializer")
    by_name = isinstance(serializer, ast.Constant)
    keyed = bool({"result_storage_key", "cache_policy", "cache_key_fn"} & set(given))
    return persists is not None and serializer is not None and not by_name and keyed


def guarded_files() -> dict[str, str]:
    """Return the sources of the product."""
    found = (path for package in GUARDED for path in (ROOT / package).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(found)}


def complaints(sources: Mapping[str, str], allowed: Iterable[tuple[str, str]]) -> list[str]:
    """Return the offences that no exemption covers, and the exemptions that cover none."""
    found = [(rule, place) for name, source in sources.items() for rule, place in offences(name, source)]
    used = {(rule, place.rpartition(":")[0]) for rule, place in found}
    return [
        *(f"{place}: {rule}" for rule, place in found if (rule, place.rpartition(":")[0]) not in allowed),
        *(f"{name}: is exempt from {rule} and needs it no more" for rule, name in sorted(set(allowed) - used)),
    ]


def test_g24_our_code_runs_nothing_it_was_given_and_hides_no_error() -> None:
    sources = guarded_files()
    assert len(sources) > 20
    assert complaints(sources, ALLOWED) == []


FORGED: Final = {
    "pickle": ["import pickle", "from cloudpickle import loads", "import marshal as m"],
    "yaml": [
        "import yaml\nyaml.load(t, Loader=L)",
        "from yaml import load\nload(t)",
        "import yaml as y\ny.unsafe_load(t)",
        "import yaml\nyaml.full_load(t)",
    ],
    "run": [
        "eval(t)",
        "exec(t)",
        "compile(t, '', 'exec')",
        "import os\nos.system(t)",
        "from os import popen\npopen(t)",
    ],
    "shell": ["run(t, shell=True)", "import subprocess\nsubprocess.Popen(t, shell=wanted)"],
    "decode": [
        "import subprocess\nsubprocess.run(a, text=True)",
        "from subprocess import Popen\nPopen(a, universal_newlines=True)",
    ],
    "json": ["import json\njson.loads(t)", "from json import load\nload(f)", "import orjson as o\no.loads(t)"],
    "sql": [
        "c.execute(f'SELECT * FROM {t}')",
        "c.execute('SELECT * FROM ' + t)",
        "c.execute('DELETE FROM %s' % t)",
        "c.execute('select {}'.format(t))",
        "c.execute(text(f'UPDATE {t} SET x = 1'))",
        "c.executescript('; '.join(['x']) + 'DROP TABLE ' + t)",
    ],
    "except": [
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    f()\nexcept:\n    x = 1",
        "try:\n    f()\nexcept (ValueError, BaseException) as e:\n    log(e)",
    ],
    "environ": ["import os\nos.environ['A']", "from os import environ as e\ne.get('A')", "import os\nos.getenv('A')"],
    "task": [
        "from prefect import task\n@task\ndef f(): ...",
        "from prefect import task as t\n@t(retries=2)\ndef f(): ...",
        "import prefect\n@prefect.task(persist_result=True, result_storage_key='k')\ndef f(): ...",
        "from prefect import task\n@task(persist_result=True, cache_policy=p, result_serializer='json')\ndef f(): ...",
        "from prefect import task\n@task(persist_result=True, result_serializer=s)\ndef f(): ...",
    ],
}


@pytest.mark.parametrize(("rule", "source"), [(rule, source) for rule, sources in FORGED.items() for source in sources])
def test_a_forged_offence_is_seen(rule: str, source: str) -> None:
    assert rule in [seen for seen, _ in offences("tasks/forged.py", source)]


HARMLESS: Final = [
    "import yaml\nyaml.safe_load(t)",
    "import re\nre.compile(t)",
    "import subprocess\nsubprocess.run(a, text=True, errors='replace')",
    "import subprocess\nsubprocess.run(['/bin/sh', '-c', line], shell=False)",
    "c.execute('SELECT * FROM t WHERE id = ?', (t,))",
    "c.execute(select(T).where(T.c.id == t))",
    "show(text(f'updated {t}'))",
    "try:\n    f()\nexcept BaseException:\n    undo()\n    raise",
    "try:\n    f()\nexcept Exception as e:\n    raise Lost('x') from e",
    "try:\n    f()\nexcept (ValueError, OSError):\n    pass",
    "# eval(t) and pickle.loads(t) are not done here\nx = 'os.environ'",
    "def f(environ, text): return environ.get(text)",
    "from prefect import task\n@task(persist_result=False)\ndef f(): ...",
    "from prefect import task\n@task(persist_result=True, result_storage_key=k, result_serializer=s)\ndef f(): ...",
    "from ours import task\n@task\ndef f(): ...",
]


@pytest.mark.parametrize("source", HARMLESS)
def test_what_is_right_is_not_complained_about(source: str) -> None:
    assert list(offences("tasks/right.py", source)) == []


def test_a_face_may_read_the_environment() -> None:
    source = "import os\nos.environ['A']"
    assert list(offences("faces/cli/settings.py", source)) == []
    assert list(offences("fairtrial/settings.py", source)) == [("environ", "fairtrial/settings.py:2")]


def test_an_exemption_holds_for_its_rule_and_file_alone_and_must_be_needed() -> None:
    sources = {"tasks/a.py": "import json\njson.loads(t)\neval(t)", "tasks/b.py": "import json\njson.loads(t)"}
    told = complaints(sources, [("json", "tasks/a.py"), ("yaml", "tasks/b.py")])
    assert told == ["tasks/a.py:3: run", "tasks/b.py:2: json", "tasks/b.py: is exempt from yaml and needs it no more"]
