"""A fake provider on loopback. Its ledger is the truth about what was paid.

A request is on the disk as one line before it is answered, and the answer is a pure function of what is asked, so a
repeated call costs a second line and changes nothing else. This file also runs alone: standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

LONG_BYTES: Final = 12_000
"""Length of a long answer: above what a row of the store holds inline (8,192 bytes)."""

ASK: Final = """\
# Asks the meter for one answer and prints it. In bash, because starting it costs 2 ms.
exec 3<>"/dev/tcp/127.0.0.1/$RIG_PORT" || exit 75
printf 'POST /%s/%s/%s/%s HTTP/1.0\\r\\nIdempotency-Key: %s\\r\\nCaller: %s\\r\\n\\r\\n' \\
    "$RIG_EXPERIMENT" "$1" "$FAIRTRIAL_CASE_ID" "$FAIRTRIAL_REPETITION" "$FAIRTRIAL_SEED" "$$" >&3
read -r _ status _ <&3
while IFS= read -r line <&3 && [ -n "${line%$'\\r'}" ]; do :; done
IFS= read -r -d '' body <&3
printf '%s' "$body"
[ "$status" = 200 ]
"""
"""The command task that asks: `bash ask.sh ARM`, with RIG_PORT and RIG_EXPERIMENT in its environment."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """How the meter answers.

    delay_s         seconds between the line in the ledger and the answer
    together        answer nobody until this many calls wait, then all of them after delay_s
    long_share      share of keys whose answer has LONG_BYTES
    fail_share      share of keys whose answer is a 500, every time they ask
    statuses        call number (from 1) -> HTTP status instead of 200
    retry_after     value of that header on every status from 400 on; None leaves it out
    usage           shape of the usage block: openai, anthropic, or none
    cuts            call numbers whose connection is cut after they were billed
    plan_seed       with a seed, plan_share of all calls go wrong in a way that is drawn from it
    """

    delay_s: float = 0.0
    together: int = 0
    long_share: float = 0.0
    fail_share: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    retry_after: str | None = None
    usage: str = "openai"
    cuts: tuple[int, ...] = ()
    plan_seed: int | None = None
    plan_share: float = 0.1


@dataclass(frozen=True, slots=True)
class Call:
    """One line of the ledger. at: monotonic seconds, the same clock in all processes of this machine."""

    n: int
    at: float
    experiment: str
    key: str
    idempotency: str
    tokens: int
    pid: int
    status: int


def answer_to(key: str, knobs: Knobs) -> tuple[int, str]:
    """Return (status, text) for a key: right ("x…") or wrong ("y…"), long or short, or a failure, by its hash alone."""
    digest = hashlib.sha256(key.encode()).digest()
    if digest[0] / 256 < knobs.fail_share:
        return 500, "no answer"
    text = f"{'x' if digest[1] % 3 else 'y'} {digest.hex()}"
    return 200, text.ljust(LONG_BYTES, "-") if digest[2] / 256 < knobs.long_share else text


def planned_fault(n: int, knobs: Knobs) -> str | None:
    """Return what the seeded plan does to call n: an HTTP status, "cut", "slow", or None."""
    if knobs.plan_seed is None:
        return None
    drawn = random.Random(f"{knobs.plan_seed} {n}")
    return drawn.choice(["429", "500", "503", "cut", "slow"]) if drawn.random() < knobs.plan_share else None


class Meter:
    """The running provider, a process of its own. Use it as a context manager."""

    def __init__(self, folder: Path, knobs: Knobs | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.ledger = folder / "ledger.jsonl"
        self._read = 0
        self._calls: list[Call] = []
        config = json.dumps([str(self.ledger), dataclasses.asdict(knobs or Knobs())])
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, config], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def calls(self, experiment: str | None = None) -> list[Call]:
        """Return what was paid so far, oldest first."""
        if self.ledger.exists():
            with self.ledger.open("rb") as ledger:
                ledger.seek(self._read)
                whole = ledger.read().rpartition(b"\n")
            self._read += len(whole[0]) + len(whole[1])
            self._calls += [Call(**json.loads(line)) for line in whole[0].splitlines()]
        return [call for call in self._calls if experiment in (None, call.experiment)]

    def wait_for(self, n: int, *, experiment: str | None = None, timeout_s: float = 20.0) -> list[Call]:
        """Return the calls once there are at least n of them. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while len(found := self.calls(experiment)) < n:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {n} calls after {timeout_s} s")
            time.sleep(0.005)
        return found

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_error: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Server:
    def __init__(self, ledger: str, knobs: Knobs):
        self._knobs = knobs
        self._file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._n = 0
        self._together = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            await self._answer(head, writer)
        writer.close()

    async def _answer(self, head: list[str], writer: asyncio.StreamWriter) -> None:
        knobs = self._knobs
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        _, experiment, key = head[0].split(" ")[1].split("/", 2)
        self._n += 1
        n = self._n
        status, text = answer_to(key, knobs)
        fault = planned_fault(n, knobs)
        status = knobs.statuses.get(n, status)
        if fault is not None and fault.isdigit():
            status = int(fault)
        call = Call(
            n, time.monotonic(), experiment, key, headers.get("idempotency-key", ""), len(text) // 4,
            int(headers.get("caller", "0")), status,
        )  # fmt: skip
        os.write(self._file, json.dumps(dataclasses.asdict(call)).encode() + b"\n")
        os.fsync(self._file)
        if n in knobs.cuts or fault == "cut":
            writer.transport.abort()
            return
        if n >= knobs.together:
            self._together.set()
        await self._together.wait()
        await asyncio.sleep(knobs.delay_s * (5 if fault == "slow" else 1))
        wait = f"Retry-After: {knobs.retry_after}\r\n" if knobs.retry_after is not None and status >= 400 else ""
        if headers.get("accept") == "application/json":
            text = json.dumps({"output": text, **_usage(knobs.usage, call.tokens)})
        writer.write(f"HTTP/1.0 {status} -\r\n{wait}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        await writer.drain()


def _usage(shape: str, tokens: int) -> dict[str, Any]:
    if shape == "openai":
        return {"usage": {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens}}
    if shape == "anthropic":
        return {"usage": {"input_tokens": 7, "output_tokens": tokens}}
    return {}


async def _main(ledger: str, config: dict[str, Any]) -> None:
    config["statuses"] = {int(n): status for n, status in config["statuses"].items()}
    server = await asyncio.start_server(
        _Server(ledger, Knobs(**config)).serve, "127.0.0.1", 0, backlog=512, limit=1 << 20
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    # The end of stdin is the end of whoever started us, however it ended.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_main(*json.loads(sys.argv[1])))
