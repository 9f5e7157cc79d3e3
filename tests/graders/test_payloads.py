"""R50: what an answer says is never carried out, on its way through a subject and through every grader.

Each payload would touch a canary file or call a canary port if any reader on the way evaluated, unpickled, rendered,
resolved or ran it. It has to come back byte for byte, and both canaries have to stay untouched.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairtrial.errors import SpecError
from fairtrial.records.trial import Answer
from fairtrial.spec.case import Case
from fairtrial.spec.models import CommandTask, RecordedTask
from fairtrial.subjects.base import TrialRequest
from fairtrial.subjects.build import build_subject
from fairtrial.subjects.reaper import Reaper

# CANARY stands for the path of a file that is not there, PORT for a port of this machine that listens.
TEMPLATES = [
    '{"__class__": "subprocess.getoutput", "data": {"cmd": "touch CANARY"}}',
    '{"__class__": "os.system", "data": "touch CANARY"}',
    '{"a": [{"b": {"__class__": "builtins.eval", "data": "open(\'CANARY\', \'w\')"}}]}',
    '{"__class__": "pathlib.Path"}',
    '{"__exc_type__": "SystemExit", "message": ""}',
    '{"__exc_type__": "builtins.KeyboardInterrupt", "message": "x"}',
    '{"py/object": "subprocess.Popen", "py/reduce": [{"py/type": "subprocess.Popen"}, {"py/tuple": ["touch CANARY"]}]}',
    '{"__reduce__": ["os.system", ["touch CANARY"]]}',
    '{"__type__": "os.system", "__args__": ["touch CANARY"]}',
    '{"$ref": "http://127.0.0.1:PORT/schema.json"}',
    '{"$ref": "file://CANARY"}',
    '{"$schema": "http://127.0.0.1:PORT/", "type": "object"}',
    '{"__prefect_kind": "jinja", "template": "{{ 7 * 7 }}"}',
    '{"from_env": "HOME"}',
    "!!python/object/apply:os.system ['touch CANARY']",
    "!!python/object/new:subprocess.Popen [['touch', 'CANARY']]",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "cos\nsystem\n(S'touch CANARY'\ntR.",
    "\x80\x04\x95\x1c\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x01x\x94\x85\x94R\x94.",
    "{{7*7}} {{input}} {{id}} {{fields.x}} {% import os %}{{ os.system('touch CANARY') }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "${7*7} #{7*7} <%= 7*7 %> ${HOME} $HOME $(touch CANARY) `touch CANARY`",
    "${jndi:ldap://127.0.0.1:PORT/a}",
    "%n%n%s%x %(x)s {0.__class__.__init__.__globals__} {}",
    "'; touch CANARY; '\"; touch CANARY; \"\n; touch CANARY\n| touch CANARY && touch CANARY",
    "__import__('os').system('touch CANARY')",
    "exec(\"open('CANARY', 'w')\")",
    "<!DOCTYPE x [<!ENTITY e SYSTEM \"http://127.0.0.1:PORT/e\">]><x>&e;</x>",
    "<script>fetch('http://127.0.0.1:PORT/')</script><img src=http://127.0.0.1:PORT/ onerror=alert(1)>",
    "@CANARY",
    "file://CANARY ../../../../CANARY",
    "--output=CANARY -rf / \x1b]0;title\x07\x1b[2J\r\b",
]  # fmt: skip


@dataclass(frozen=True)
class Canaries:
    """A file that must not appear and a port that nobody must call."""

    path: Path
    server: socket.socket

    def payloads(self) -> list[str]:
        port = str(self.server.getsockname()[1])
        return [text.replace("CANARY", str(self.path)).replace("PORT", port) for text in TEMPLATES]


@pytest.fixture
def canaries(tmp_path: Path) -> Iterator[Canaries]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        found = Canaries(tmp_path / "canary", server)
        yield found
        assert not found.path.exists()
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.fixture
def answers(tmp_path: Path, reaper: Reaper) -> Callable[..., list[Answer]]:
    """Return a function that asks one subject about cases in turn."""

    def ask(task: CommandTask | RecordedTask, cases: list[Case]) -> list[Answer]:
        subject = build_subject(task, folder=tmp_path, environ=dict(os.environ), reaper=reaper)

        async def in_turn() -> list[Answer]:
            subject.check_cases(cases)
            return [await subject.answer(TrialRequest("e", "a", case, 1, 1, 30.0, {})) for case in cases]

        return asyncio.run(in_turn())

    return ask


def test_there_are_thirty_of_them_and_the_canaries_would_notice(tmp_path: Path) -> None:
    assert len(set(TEMPLATES)) >= 30
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        texts = Canaries(tmp_path / "canary", server).payloads()
        # A careless reader does what the text says.
        eval(next(text for text in texts if text.startswith("__import__")))
        assert (tmp_path / "canary").exists()
        socket.create_connection(server.getsockname()).close()
        server.accept()[0].close()


@pytest.mark.parametrize("stdin", ["text", "json"])
def test_r50_a_command_gets_and_gives_it_unchanged(answers: Any, canaries: Canaries, stdin: str) -> None:
    texts = canaries.payloads()
    cases = [Case(id=f"c{n}", input=text, fields={"x": text}) for n, text in enumerate(texts)]
    task = CommandTask.model_validate({"kind": "command", "command": ["cat"], "stdin": stdin})
    outputs = [answer.output.decode() for answer in answers(task, cases)]
    assert [text if stdin == "text" else json.loads(text)["input"] for text in outputs] == texts


def test_r50_an_argument_and_the_id_carry_it_unchanged(answers: Any, canaries: Canaries) -> None:
    texts = [text for text in canaries.payloads() if "\0" not in text]
    cases = [Case(id=text, input=text, fields={"x": text}) for text in texts]
    line = 'printf "%s\\0%s\\0%s" "$1" "$2" "$FAIRTRIAL_CASE_ID"'
    task = CommandTask(kind="command", command=["/bin/sh", "-c", line, "sh", "{{input}}", "{{fields.x}}"])
    assert [answer.output.decode().split("\0") for answer in answers(task, cases)] == [[text] * 3 for text in texts]


def test_r50_a_recording_gives_it_unchanged_as_text_and_as_json(
    answers: Any, canaries: Canaries, tmp_path: Path
) -> None:
    texts = canaries.payloads()
    cases = [Case(id=f"c{n}", input="") for n in range(len(texts))]
    task = RecordedTask(kind="recorded", path="a.jsonl")

    def recorded(values: list[Any]) -> list[bytes]:
        lines = [json.dumps({"id": f"c{n}", "output": value}) + "\n" for n, value in enumerate(values)]
        (tmp_path / "a.jsonl").write_text("".join(lines))
        return [answer.output for answer in answers(task, cases[: len(values)])]

    assert recorded(texts) == [text.encode() for text in texts]
    objects = [json.loads(text) for text in texts if text.startswith('{"')]
    assert len(objects) > 10
    assert [json.loads(output) for output in recorded(objects)] == objects


@pytest.mark.parametrize("kind", ["exact", "iexact", "contains", "icontains"])
def test_r50_it_equals_itself_and_nothing_else(grade: Any, canaries: Canaries, kind: str) -> None:
    texts = canaries.payloads()
    for text, other in zip(texts, [*texts[1:], texts[0]], strict=True):
        assert grade(text, expected=text, kind=kind).score == 1
        assert grade(text, kind=kind, value="never there").score == 0
        assert grade(other, expected=text, kind="exact").score == 0
    for text in texts:
        if text.startswith('{"') and kind in ("exact", "iexact"):
            assert grade(text, expected=json.loads(text), kind=kind).score == 1


@pytest.mark.parametrize("spec", [{"kind": "regex", "pattern": "^never$"}, {"kind": "number", "value": 123456789}])
def test_r50_a_search_in_it_finds_what_is_not_there_nowhere(
    grade: Any, canaries: Canaries, spec: dict[str, Any]
) -> None:
    assert {grade(text, **spec).score for text in canaries.payloads()} == {0.0}


@pytest.mark.parametrize("kind", ["json", "similarity", "bleu", "chrf", "length", "values"])
def test_r50_it_is_compared_measured_and_counted_as_the_text_it_is(grade: Any, canaries: Canaries, kind: str) -> None:
    for text in canaries.payloads():
        if kind == "length":
            assert grade(text, kind=kind, min=len(text), max=len(text), strip=False).score == 1
        elif kind == "json":
            assert grade(json.dumps(text), expected=text, kind=kind).score == 1
            if text.startswith('{"'):
                assert grade(text, expected=json.loads(text), kind=kind).score == 1
                assert grade(text, expected=json.loads(text), kind=kind, match="subset", unordered=True).score == 1
        elif kind == "values":
            assert grade(json.dumps({text: [text]}), expected={text: text}, kind=kind).score == 1
            assert grade(text, expected={text: text}, kind=kind).score == 0
        else:
            assert grade(text, expected=[text, "never there"], kind=kind).score == pytest.approx(1)


def test_r50_a_schema_is_held_against_it_and_nothing_is_fetched(build: Any, canaries: Canaries) -> None:
    grader = build(kind="json_schema", schema={"anyOf": [{"type": "string"}, {"minProperties": 1}]})
    texts = canaries.payloads()
    answers = [json.dumps(text) for text in texts] + [text for text in texts if text.startswith('{"')]

    async def in_turn() -> list[Any]:
        try:
            return [await grader.grade(text.encode(), case=Case(id="c", input=""), mark={}) for text in answers]
        finally:
            await grader.close()

    assert [each.score for each in asyncio.run(in_turn())] == [1.0] * len(answers)
    assert len(answers) > len(texts) + 10


def test_r50_as_a_schema_it_is_refused_or_kept_to_itself(build: Any, canaries: Canaries) -> None:
    schemas = [json.loads(text) for text in canaries.payloads() if text.startswith('{"')]
    foreign = [schema for schema in schemas if {"$ref", "$schema"} & schema.keys()]
    assert (len(schemas), len(foreign)) == (14, 3)
    for schema in schemas:
        if schema not in foreign:
            build(kind="json_schema", schema=schema)
            continue
        with pytest.raises(SpecError, match=r"refers to|no published dialect"):
            build(kind="json_schema", schema=schema)


ECHO = "def grade(output, case):\n    assert output == case['input']\n    return {'score': 1, 'reason': output}\n"
ECHO_PROGRAM = (
    "import json,sys; asked = json.load(sys.stdin); print(json.dumps({'score': 1, 'reason': asked['output']}))"
)
# What the answer says becomes what the grader says: a careless grader, and an answer that knows it.
PARROT = "import json\ndef grade(output, case):\n    return json.loads(output) if output[:1] == '{' else output\n"
PARROT_PROGRAM = "import json,sys; print(json.load(sys.stdin)['output'])"


@pytest.mark.parametrize("careless", [False, True])
@pytest.mark.parametrize("kind", ["python", "command"])
def test_r50_a_grader_of_the_users_gets_and_gives_it_unchanged(
    build: Any, canaries: Canaries, tmp_path: Path, kind: str, careless: bool
) -> None:
    (tmp_path / "g.py").write_text(PARROT if careless else ECHO)
    program = [sys.executable, "-I", "-S", "-c", PARROT_PROGRAM if careless else ECHO_PROGRAM]
    settings = {"path": "g.py"} if kind == "python" else {"command": program}
    grader = build(kind=kind, **settings)
    texts = canaries.payloads()

    async def in_turn() -> list[Any]:
        try:
            cases = [Case(id="c", input=text) for text in texts]
            return [await grader.grade(c.input.encode(), case=c, mark={}) for c in cases if isinstance(c.input, str)]
        finally:
            await grader.close()

    found = asyncio.run(in_turn())
    if careless:
        assert {(each.state, each.score) for each in found} == {("error", None)}
    else:
        assert [(each.score, each.reason.decode()) for each in found] == [(1.0, text) for text in texts]
