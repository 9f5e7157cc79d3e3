"""Decides whether what happened keeps the promises. It reads the history, never the product's own opinion of it.

Input is what nobody can have made up: the meter's ledger, the rows of the journal past the product's code, the exit
statuses, the lines that were out, and when who was killed. Attempts are attributed to parts by their fencing number.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from tests.rig.bench import Bench
from tests.rig.meter import Call
from tests.rig.zygote import Running

Key = tuple[str, str, int]


class Rejected(Exception):
    """A history that breaks a promise; `reason` is one word for which."""

    def __init__(self, reason: str, text: str):
        super().__init__(f"{reason}: {text}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Part:
    """One process that ran the experiment. Times are monotonic seconds.

    fence       None when it ended before it owned the experiment; owned_at likewise
    finished    the trials it said were finished
    status      exit status, minus the signal
    killed      whether we killed it
    """

    fence: int | None
    owned_at: float | None
    ended_at: float
    finished: tuple[Key, ...]
    status: int
    killed: bool


@dataclass(frozen=True, slots=True)
class Takeover:
    """What the journal held of owners before `fence` at the moment when they could write no more."""

    fence: int
    attempts: frozenset[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class History:
    """Everything that is known of one experiment at its end.

    planned         every trial of the plan
    concurrency     trials in flight, the most that one kill may repeat
    calls           the ledger
    verdict         body of the stored verdict, parsed; None when none is stored
    refused         statuses with which a part may end without having been killed, besides 0
    """

    planned: frozenset[Key]
    concurrency: int
    calls: Sequence[Call]
    attempts: Sequence[Mapping[str, Any]]
    trials: Sequence[Mapping[str, Any]]
    summaries: Sequence[Mapping[str, Any]]
    lease: Mapping[str, Any]
    parts: Sequence[Part]
    verdict: Mapping[str, Any] | None
    takeovers: Sequence[Takeover] = ()
    refused: frozenset[int] = field(default_factory=frozenset)


def check(history: History) -> None:
    """Raise Rejected with the first promise that the history breaks; a history of a run to its end is complete."""
    _ends(history)
    _finished_is_stored(history)
    _one_result_each(history)
    _one_owner(history)
    _repeats(history)
    _calls_have_marks(history)
    _summaries(history)
    _verdict(history)


def part_of(running: Running) -> Part:
    """Return a run that has ended as a part of a history."""
    owner = running.said("owner ")
    words = owner.split() if owner is not None else []
    finished = [line.split()[1:] for line in running.lines if line.startswith("finished ")]
    assert running.status is not None
    return Part(
        fence=int(words[1]) if words else None,
        owned_at=float(words[2]) if words else None,
        ended_at=running.ended,
        finished=tuple((arm, case, int(repetition)) for arm, case, repetition in finished),
        status=running.status,
        killed=running.killed_at is not None and running.status == -9,
    )


def takeover(bench: Bench, experiment: str, fence: int) -> Takeover:
    """Return what is stored now of the owners before `fence`, who have ended or have been shut out."""
    return Takeover(fence, _older(bench.table("attempt", experiment), fence))


def history_of(bench: Bench, experiment: str, parts: Sequence[Part], **more: Any) -> History:
    """Collect the history of an experiment of a bench. `more` are the other fields of History."""
    arms = [row["name"] for row in bench.table("arm", experiment)]
    cases = [row["case_id"] for row in bench.table("experiment_case", experiment)]
    trials = bench.table("experiment", experiment)[0]["trials"]
    return History(
        planned=frozenset((arm, case, n + 1) for arm in arms for case in cases for n in range(trials)),
        calls=bench.meter.calls(experiment),
        attempts=bench.table("attempt", experiment),
        trials=bench.table("trial", experiment),
        summaries=bench.table("summary", experiment),
        lease=bench.table("lease", experiment)[0],
        parts=parts,
        verdict=json.loads(bench.body(experiment)),
        **more,
    )


def _ends(history: History) -> None:
    for part in history.parts:
        if not part.killed and part.status != 0 and part.status not in history.refused:
            raise Rejected("end", f"the part with fence {part.fence} ended with {part.status}")


def _finished_is_stored(history: History) -> None:
    done = {_key(row) for row in history.trials if row["state"] == "done"}
    for part in history.parts:
        for key in part.finished:
            if key not in done:
                raise Rejected("lost", f"{key} was said to be finished and is not stored")


def _one_result_each(history: History) -> None:
    found = Counter(_key(row) for row in history.trials)
    for key, n in found.items():
        if n > 1:
            raise Rejected("twice", f"{key} has {n} results")
        if key not in history.planned:
            raise Rejected("unplanned", f"{key} is in no plan")
    for key in sorted(history.planned):
        if key not in found or any(_key(row) == key and row["state"] != "done" for row in _open(history)):
            raise Rejected("missing", f"{key} has no result")
    said = Counter(key for part in history.parts for key in part.finished)
    for key, n in said.items():
        if n > 1:
            raise Rejected("run again", f"{key} was finished {n} times")


def _open(history: History) -> Iterator[Mapping[str, Any]]:
    return (row for row in history.trials if row["state"] != "done")


def _repeats(history: History) -> None:
    """Attempts that are no trial's own were cut off: by the end of a part that was killed, at most those in flight."""
    kept = {(*_key(row), row["attempt"]) for row in history.trials}
    cut_off = Counter(
        row["fence"]
        for row in history.attempts
        # A result that was taken back on purpose was no crash's repeat.
        if (*_key(row), row["attempt"]) not in kept and row.get("taken_back") is None
    )
    by_fence = {part.fence: part for part in history.parts if part.fence is not None}
    for fence, n in cut_off.items():
        part = by_fence.get(fence)
        allowed = history.concurrency if part is not None and (part.killed or part.status != 0) else 0
        if n > allowed:
            raise Rejected("repeats", f"{n} calls of the part with fence {fence} were repeated, {allowed} may be")


def _one_owner(history: History) -> None:
    owners = sorted((part for part in history.parts if part.fence is not None), key=lambda part: part.owned_at or 0.0)
    fences = [part.fence or 0 for part in owners]
    if fences != sorted(set(fences)) or history.lease["fence"] != fences[-1]:
        raise Rejected("fence", f"the fences do not rise: {fences}, the lease has {history.lease['fence']}")
    shut_out = {each.fence for each in history.takeovers}
    for earlier, later in pairwise(owners):
        # With a takeover on record the earlier one may live on, if it writes nothing; that is looked at below.
        if later.fence not in shut_out and earlier.ended_at > (later.owned_at or 0.0):
            raise Rejected("two owners", f"fence {later.fence} began while {earlier.fence} still ran")
    last: dict[Key, int] = defaultdict(int)
    for row in sorted(history.attempts, key=lambda row: int(row["attempt"])):
        if row["fence"] < last[_key(row)]:
            raise Rejected("stale", f"{_key(row)}: an older owner began attempt {row['attempt']} after a newer one")
        last[_key(row)] = row["fence"]
    for each in history.takeovers:
        if _older(history.attempts, each.fence) != each.attempts:
            raise Rejected("stale", f"an owner before fence {each.fence} wrote after that one began")


def _calls_have_marks(history: History) -> None:
    marks = Counter("/".join(map(str, _key(row))) for row in history.attempts)
    for key, n in Counter(call.key for call in history.calls).items():
        if n > marks[key]:
            raise Rejected("unmarked", f"{key} was called {n} times with {marks[key]} attempts in the journal")
    seeds: dict[str, str] = {}
    for call in history.calls:
        if seeds.setdefault(call.key, call.idempotency) != call.idempotency:
            raise Rejected("idempotency", f"{call.key} was asked with two idempotency keys")


_COUNTS: Final = {
    "graded": "n_graded",
    "agent_failure": "n_agent_failures",
    "infra_loss": "n_infra_losses",
    "ungraded": "n_ungraded",
}


def _counts(history: History) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {arm: Counter() for arm, _, _ in history.planned}
    for row in history.trials:
        counts[row["arm"]] += Counter({"n_done": 1, _COUNTS[row["outcome"]]: 1, "n_passed": int(row["value"] == 1.0)})
    return counts


def _summaries(history: History) -> None:
    counts = _counts(history)
    for row in history.summaries:
        for column in ("n_done", "n_passed", *_COUNTS.values()):
            counted = counts[row["arm"]][column]
            if row[column] != counted:
                raise Rejected("totals", f"{row['arm']}: {column} is {row[column]}, the rows say {counted}")


def _verdict(history: History) -> None:
    """The verdict says what the stored results say, counted here anew: outcomes by arm, and flips against the first."""
    if history.verdict is None:
        raise Rejected("verdict", "there is none")
    counts = _counts(history)
    sides = {side["label"]: side for side in history.verdict["arms"]}
    for arm, expected in counts.items():
        said = {name: sides.get(arm, {}).get(name) for name in ("n_done", *_COUNTS.values())}
        if said != {name: expected[name] for name in said}:
            raise Rejected("verdict", f"{arm}: it says {said}, the rows say {dict(expected)}")
    shares = _shares(history)
    for comparison in history.verdict["comparisons"]:
        a, b = shares[comparison["a"]["label"]], shares[comparison["b"]["label"]]
        improved = sum(a[case] < 0.5 <= b[case] for case in a.keys() & b.keys())
        regressed = sum(b[case] < 0.5 <= a[case] for case in a.keys() & b.keys())
        flips = comparison["flips"]
        if (flips["improved"], flips["regressed"]) != (improved, regressed):
            raise Rejected("verdict", f"flips {flips}, the rows say {improved} improved and {regressed} regressed")


def _shares(history: History) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in history.trials:
        if row["value"] is not None:
            values[row["arm"]][row["case_id"]].append(row["value"])
    return {arm: {case: sum(some) / len(some) for case, some in cases.items()} for arm, cases in values.items()}


def _key(row: Mapping[str, Any]) -> Key:
    return row["arm"], row["case_id"], row["repetition"]


def _older(attempts: Sequence[Mapping[str, Any]], fence: int) -> frozenset[tuple[Any, ...]]:
    older = (row for row in attempts if row["fence"] < fence)
    return frozenset((*_key(row), row["attempt"], row["fence"], row["started_at"]) for row in older)
