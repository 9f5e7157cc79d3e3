"""The rig itself: a checker that lets a broken history pass, or a meter that forgets a call, would prove nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rig import clocks
from tests.rig.history import History, Part, Rejected, Takeover, check
from tests.rig.meter import LONG_BYTES, Call, Knobs, Meter, answer_to, planned_fault

KEYS = [(arm, case, 1) for arm in ("base", "cand") for case in ("c1", "c2", "c3")]


def good() -> History:
    """Three cases in two arms: the first part was killed with c2 of base in flight, the second ran to the end.

    By hand: base passes c1 alone, cand passes c1 and c2, c3 of cand was an agent failure; so one case improved.
    """
    passed = {("base", "c1"), ("cand", "c1"), ("cand", "c2")}
    trials: list[dict[str, Any]] = []
    attempts: list[dict[str, Any]] = []
    calls: list[Call] = []
    for arm, case, repetition in KEYS:
        again = (arm, case) == ("base", "c2")
        row = {"arm": arm, "case_id": case, "repetition": repetition}
        fence = 1 if case == "c1" else 2
        outcome = "agent_failure" if (arm, case) == ("cand", "c3") else "graded"
        value = float((arm, case) in passed)
        trials.append(
            {**row, "state": "done", "outcome": outcome, "value": value, "attempt": 1 + again, "fence": fence}
        )
        for n in range(1 + again):
            attempts.append({**row, "attempt": 1 + n, "fence": n + 1 if again else fence, "started_at": float(n)})
            key = f"{arm}/{case}/1"
            calls.append(Call(len(calls) + 1, 1.0, "exp", key, f"i{key}", 3, 7, 200))
    counts = {
        "base": {
            "n_done": 3,
            "n_passed": 1,
            "n_graded": 3,
            "n_agent_failures": 0,
            "n_infra_losses": 0,
            "n_ungraded": 0,
        },
        "cand": {
            "n_done": 3,
            "n_passed": 2,
            "n_graded": 2,
            "n_agent_failures": 1,
            "n_infra_losses": 0,
            "n_ungraded": 0,
        },
    }
    names = ("n_done", "n_graded", "n_agent_failures", "n_infra_losses", "n_ungraded")
    sides = [{"label": arm, **{name: row[name] for name in names}} for arm, row in counts.items()]
    return History(
        planned=frozenset(KEYS),
        concurrency=2,
        calls=calls,
        attempts=attempts,
        trials=trials,
        summaries=[{"arm": arm, **row} for arm, row in counts.items()],
        lease={"fence": 2},
        parts=[
            Part(1, 1.0, 2.0, (KEYS[0], KEYS[3]), -9, killed=True),
            Part(2, 3.0, 4.0, (KEYS[1], KEYS[2], KEYS[4], KEYS[5]), 0, killed=False),
        ],
        verdict={
            "arms": sides,
            "comparisons": [{"a": {"label": "base"}, "b": {"label": "cand"}, "flips": {"improved": 1, "regressed": 0}}],
        },
        takeovers=[Takeover(2, frozenset((r["arm"], r["case_id"], 1, 1, 1, 0.0) for r in attempts if r["fence"] == 1))],
    )


def _rows(name: str, change: Callable[[list[dict[str, Any]]], object]) -> Callable[[History], History]:
    def forge(history: History) -> History:
        rows = [dict(row) for row in getattr(history, name)]
        change(rows)
        changes: dict[str, Any] = {name: rows}
        return dataclasses.replace(history, **changes)

    return forge


def _part(index: int, **changes: Any) -> Callable[[History], History]:
    def forge(history: History) -> History:
        parts = list(history.parts)
        parts[index] = dataclasses.replace(parts[index], **changes)
        return dataclasses.replace(history, parts=parts)

    return forge


def _all(*forgers: Callable[[History], History]) -> Callable[[History], History]:
    def forge(history: History) -> History:
        for each in forgers:
            history = each(history)
        return history

    return forge


def _calls(**changes: Any) -> Callable[[History], History]:
    return lambda history: dataclasses.replace(
        history, calls=[*history.calls, dataclasses.replace(history.calls[0], **changes)]
    )


def _verdict(change: Callable[[Any], object]) -> Callable[[History], History]:
    def forge(history: History) -> History:
        verdict = json.loads(json.dumps(history.verdict))
        change(verdict)
        return dataclasses.replace(history, verdict=verdict)

    return forge


_REPEATED = [("base", "c3"), ("cand", "c2"), ("cand", "c3")]


def _repeat(rows: list[dict[str, Any]]) -> None:
    for arm, case in _REPEATED:
        rows.append({"arm": arm, "case_id": case, "repetition": 1, "attempt": 0, "fence": 1, "started_at": 0.0})


FORGED: dict[str, tuple[str, Callable[[History], History]]] = {
    "said finished, not stored": (
        "lost",
        _rows("trials", lambda rows: rows.pop(0)),
    ),
    "said finished, only answered": ("lost", _rows("trials", lambda rows: rows[0].update(state="answered"))),
    "two results of one trial": ("twice", _rows("trials", lambda rows: rows.append(dict(rows[1])))),
    "a result of no plan": (
        "unplanned",
        _rows("trials", lambda rows: rows.append({**rows[1], "case_id": "c9"})),
    ),
    "a planned trial without a result": (
        "missing",
        _all(_part(1, finished=(KEYS[1], KEYS[2], KEYS[4])), _rows("trials", lambda rows: rows.pop(5))),
    ),
    "an answer that was never graded": (
        "missing",
        _all(_part(1, finished=()), _rows("trials", lambda rows: rows[5].update(state="answered"))),
    ),
    "a finished trial run again": ("run again", _part(1, finished=(KEYS[0], *KEYS[1:3], *KEYS[4:]))),
    "more repeats than were in flight": (
        "repeats",
        _all(_rows("attempts", _repeat), lambda history: dataclasses.replace(history, takeovers=[])),
    ),
    "a repeat of a part that nobody killed": ("repeats", _part(0, killed=False, status=0)),
    "two owners at one time": (
        "two owners",
        _all(_part(0, ended_at=3.5), lambda history: dataclasses.replace(history, takeovers=[])),
    ),
    "one fence for two owners": ("fence", _part(1, fence=1)),
    "a lease that fell behind": ("fence", lambda history: dataclasses.replace(history, lease={"fence": 1})),
    "a write of an older owner after the takeover": (
        "stale",
        _rows("attempts", lambda rows: rows[3].update(fence=1)),
    ),
    "an older owner's attempt after a newer one's": (
        "stale",
        _all(
            _rows("attempts", lambda rows: (rows[1].update(fence=2), rows[2].update(fence=1))),
            _rows("trials", lambda rows: rows[1].update(attempt=1)),
        ),
    ),
    "a call without its mark": ("unmarked", _calls(n=99)),
    "one trial under two idempotency keys": (
        "idempotency",
        _all(
            _rows("attempts", lambda rows: None),
            lambda history: dataclasses.replace(
                history,
                calls=[
                    dataclasses.replace(call, idempotency=str(call.n)) if call.key == "base/c2/1" else call
                    for call in history.calls
                ],
            ),
        ),
    ),
    "totals that the rows do not have": ("totals", _rows("summaries", lambda rows: rows[0].update(n_passed=2))),
    "a verdict of other trials": ("verdict", _verdict(lambda verdict: verdict["arms"][1].update(n_graded=3))),
    "a verdict with other flips": (
        "verdict",
        _verdict(lambda verdict: verdict["comparisons"][0]["flips"].update(regressed=1)),
    ),
    "no verdict": ("verdict", lambda history: dataclasses.replace(history, verdict=None)),
    "an end that is nobody's": ("end", _part(1, status=70)),
}


def test_the_checker_accepts_a_good_history() -> None:
    check(good())


@pytest.mark.parametrize("forged", FORGED)
def test_the_checker_rejects_a_forged_history_for_its_own_reason(forged: str) -> None:
    reason, forge = FORGED[forged]
    with pytest.raises(Rejected) as caught:
        check(forge(good()))
    assert caught.value.reason == reason, str(caught.value)


def test_every_reason_of_the_checker_has_a_forged_history() -> None:
    source = (Path(__file__).parents[1] / "rig" / "history.py").read_text()
    raised = {piece.split('"', 1)[0] for piece in source.split('raise Rejected("')[1:]}
    assert raised == {reason for reason, _ in FORGED.values()}


def ask(meter: Meter, key: str, *headers: str) -> bytes:
    with socket.create_connection(("127.0.0.1", meter.port), timeout=10) as connection:
        head = "\r\n".join([f"POST /exp/{key} HTTP/1.0", "Idempotency-Key: i7", f"Caller: {os.getpid()}", *headers])
        connection.sendall(head.encode() + b"\r\n\r\n")
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    return answer


def test_the_meter_bills_every_call_before_it_answers_by_its_key_alone(tmp_path: Path) -> None:
    knobs = Knobs(long_share=0.3, fail_share=0.2)
    with Meter(tmp_path, knobs) as meter:
        keys = [f"main/c{n}/1" for n in range(40)]
        answers: dict[str, set[bytes]] = {key: set() for key in keys}
        threads = [threading.Thread(target=lambda key=key: answers[key].add(ask(meter, key))) for key in keys * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        calls = meter.calls("exp")
    assert sorted(call.key for call in calls) == sorted(keys * 3)
    assert sorted(call.n for call in calls) == list(range(1, 121))
    assert {(call.pid, call.idempotency) for call in calls} == {(os.getpid(), "i7")}
    for key in keys:
        status, text = answer_to(key, knobs)
        (answer,) = answers[key]
        assert answer.startswith(f"HTTP/1.0 {status} ".encode())
        assert answer.endswith(b"\r\n\r\n" + text.encode())
    kinds = {(status, len(text) == LONG_BYTES) for status, text in (answer_to(key, knobs) for key in keys)}
    assert kinds == {(200, False), (200, True), (500, False)}


def test_the_meter_s_knobs_statuses_retry_after_usage_and_a_cut_after_the_bill(tmp_path: Path) -> None:
    with Meter(tmp_path, Knobs(statuses={1: 429, 2: 503}, retry_after="7", cuts=(3,), usage="anthropic")) as meter:
        first, second, cut, fourth = (ask(meter, "main/c1/1", "Accept: application/json") for _ in range(4))
        assert first.startswith(b"HTTP/1.0 429 -\r\nRetry-After: 7\r\n")
        assert second.startswith(b"HTTP/1.0 503 ")
        assert cut == b""
        document = json.loads(fourth.partition(b"\r\n\r\n")[2])
        assert document["usage"] == {"input_tokens": 7, "output_tokens": meter.calls()[3].tokens}
        assert len(meter.calls()) == 4


def test_a_seeded_plan_of_faults_is_the_same_every_time_and_hits_its_share() -> None:
    plan = [planned_fault(n, Knobs(plan_seed=5, plan_share=0.1)) for n in range(1, 2001)]
    assert plan == [planned_fault(n, Knobs(plan_seed=5, plan_share=0.1)) for n in range(1, 2001)]
    assert plan != [planned_fault(n, Knobs(plan_seed=6, plan_share=0.1)) for n in range(1, 2001)]
    # 200 of 2,000 are expected; three standard errors are 3 * sqrt(2000 * 0.1 * 0.9) = 40.
    assert 160 <= sum(fault is not None for fault in plan) <= 240
    assert set(plan) == {None, "429", "500", "503", "cut", "slow"}


def test_there_are_twenty_clocks_and_each_of_them_jumps_soon() -> None:
    assert len(clocks.PATTERNS) == 20
    for name, offset in clocks.PATTERNS.items():
        assert any(abs(offset(since / 100) - offset(0.0)) >= 0.05 for since in range(60)), name
