"""R50: nothing a model says is executed, decoded into an object, expanded or used as a path."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest


def payloads(canary: Path) -> list[str]:
    """Thirty texts that some decoder, template, shell, loader or spreadsheet somewhere would act on."""
    touch = f"touch {canary}"
    objects = [
        {"__class__": "subprocess.getoutput", "data": {"cmd": touch}},
        {"__class__": "os.system", "data": {"command": touch}},
        {"__class__": "builtins.eval", "data": {"source": f"open({str(canary)!r}, 'w')"}},
        {"__class__": "pathlib.Path.touch", "data": {"self": str(canary)}},
        {"__class__": "missing"},
        {"__exc_type__": "SystemExit", "message": "0"},
        {"__reduce__": ["os.system", [touch]]},
        {"py/object": "subprocess.Popen", "args": [touch]},
        {"py/reduce": [{"py/function": "os.system"}, {"py/tuple": [touch]}]},
        {"$ref": f"file://{canary}"},
        {
            "serializer": {"type": "pickle"},
            "result": "gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA10b3VjaCBjYW5hcnmUhZRSlC4=",
        },
        {"metadata": {"serializer": {"type": "json", "object_decoder": "builtins.print"}}, "result": "{}"},
    ]
    texts = [
        f"!!python/object/apply:os.system ['{touch}']",
        f"!!python/object/new:subprocess.Popen [{touch}]",
        "{{7*7}}",
        "{{input}}",
        "{{ cycler.__init__.__globals__.os.system('" + touch + "') }}",
        "${7*7}",
        f"$({touch})",
        f"`{touch}`",
        f"; {touch} #",
        f"| {touch}",
        "%n%n%s",
        "%(asctime)s",
        "../../../../etc/passwd",
        f"file://{canary}",
        f"=cmd|' /C {touch}'!A0",
        f"<img src=x onerror=\"fetch('file://{canary}')\">",
        "[/x][link=file:///etc/passwd]",
        "\x1b]52;c;dG91Y2g=\x07\x1b[2J",
    ]
    return [json.dumps(found) for found in objects] + texts


@pytest.mark.prefect
def test_r50_thirty_payloads_come_back_equal_and_touch_nothing(exp: Any, project: Path) -> None:
    canary = project / "canary"
    outputs = payloads(canary)
    assert len(outputs) == 30
    answers = [{"id": f"p{index:02d}", "output": text} for index, text in enumerate(outputs)]
    (project / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    # The label is the payload too, and so is the input: each goes through dataset, store and report.
    cases = [{"id": row["id"], "input": row["output"], "expected": row["output"]} for row in answers]
    (project / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cases))
    (project / "grade.py").write_text("def grade(output, case):\n    return {'score': 1, 'reason': output}\n")
    for arm in ("a", "b"):
        spec = {
            "name": "payloads",
            "dataset": "cases.jsonl",
            "task": {"kind": "recorded", "path": "answers.jsonl"},
            "graders": [{"kind": "exact"}, {"kind": "python", "path": "grade.py"}],
            "seed": 3,
        }
        (project / f"{arm}.json").write_text(json.dumps(spec))
    arms = ["--arm", "a=a.json", "--arm", "b=b.json", "--slice", "6"]
    assert exp("run", *arms, server=True).code == 0
    # What a crash leaves: one trial less. The resume reads the other slices' stored results back.
    store = sqlite3.connect(project / ".fairtrial" / "fairtrial.db")
    store.execute("delete from trial where case_id = 'p29' and arm = 'b'")
    store.execute("update summary set n_done = n_done - 1 where arm = 'b'")
    store.execute("update experiment set state = 'partial'")
    store.commit()
    store.close()
    resumed = exp("run", *arms, "--resume", "-o", "r.md", "-o", "r.txt", "-o", "r.json", server=True)
    assert resumed.code == 0, resumed.err
    shown = exp("trials", "latest", "--limit", "100")
    compared = exp("compare", "latest")
    found = exp("trials", "latest", "--limit", "100", "--json").json["trials"]
    assert [trial["output"] for trial in found] == outputs * 2
    assert all(trial["value"] == 1.0 for trial in found)
    assert [trial["grades"][1]["reason"] for trial in found] == outputs * 2
    # R53: no control character that is not ours reaches the terminal.
    for text in (resumed.out, resumed.err, shown.out, compared.out):
        assert "\x1b" not in text
        assert "\x07" not in text
    assert not canary.exists()
