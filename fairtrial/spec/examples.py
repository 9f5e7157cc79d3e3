"""One example for every kind of task and grader, for docs/spec.md. A test validates each, and that none is missing."""

from __future__ import annotations

from typing import Final

from fairtrial.hashing import JsonValue

TASKS: Final[dict[str, dict[str, JsonValue]]] = {
    "command": {
        "kind": "command",
        "command": ["python3", "agent.py", "--question", "{{input}}"],
        "env": {"MODEL": "small", "API_KEY": {"from_env": "MY_API_KEY"}},
        "stdin": "none",
    },
    "recorded": {
        "kind": "recorded",
        "path": "answers.jsonl",
        "id": "question_id",
        "output": "/response/text",
        "latency_s": "seconds",
    },
}

GRADERS: Final[dict[str, dict[str, JsonValue]]] = {
    "exact": {"kind": "exact"},
    "iexact": {"kind": "iexact", "extract": "ANSWER: (.*)"},
    "contains": {"kind": "contains", "value": ["refund", "14 days"], "match": "all"},
    "icontains": {"kind": "icontains"},
    "regex": {"kind": "regex", "pattern": "^[A-Z]+$"},
    "number": {"kind": "number", "tolerance": 0.01},
    "json": {"kind": "json", "match": "subset", "pointer": "/order"},
    "json_schema": {
        "kind": "json_schema",
        "schema": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    },
    "similarity": {"kind": "similarity", "method": "token_sort", "threshold": 0.9},
    "bleu": {"kind": "bleu", "lowercase": True},
    "chrf": {"kind": "chrf", "word_order": 2, "threshold": 0.6},
    "length": {"kind": "length", "unit": "words", "max": 50},
    "latency": {"kind": "latency", "max_s": 2.5},
    "cost": {"kind": "cost", "max_usd": "0.002"},
    "values": {"kind": "values", "no_value": ["n/a"]},
    "python": {"kind": "python", "path": "graders/tone.py", "name": "tone"},
    "command": {"kind": "command", "command": ["node", "grade.mjs"], "timeout_s": 20},
}

SPEC: Final[dict[str, JsonValue]] = {
    "name": "smoke",
    "dataset": "smoke.jsonl",
    "task": {"kind": "command", "command": ["python3", "agent.py"], "env": {"MODEL": "small"}},
    "graders": [{"kind": "exact"}],
    "trials": 3,
    "seed": 7,
    "limits": {"trial_timeout_s": 60, "max_cost_usd": "2.50"},
    "tags": ["nightly"],
}

SPEC_YAML: Final = """\
name: smoke
dataset: smoke.jsonl
task:
  kind: command
  command: [python3, agent.py]
  env:
    MODEL: small      # no, on and 2024-01-01 are text here; 1 and true are not
graders:
  - kind: exact
trials: 3
seed: 7
limits:
  trial_timeout_s: 60
  max_cost_usd: "2.50"
tags: [nightly]
"""

SPEC_TOML: Final = """\
name = "smoke"
dataset = "smoke.jsonl"
trials = 3
seed = 7
tags = ["nightly"]

[task]
kind = "command"
command = ["python3", "agent.py"]
env = { MODEL = "small" }

[[graders]]
kind = "exact"

[limits]
trial_timeout_s = 60
max_cost_usd = "2.50"
"""
