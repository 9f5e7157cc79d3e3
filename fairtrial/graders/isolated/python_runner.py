"""Runs a user's `grade(output, case)` in the user's own interpreter; started as a program, never imported.

It must run on any Python from 3.8 on with the standard library alone. Requests and replies go over private copies of
stdin and stdout, so a print in the grader's code ends up on stderr and cannot be taken for a reply.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Optional, Tuple  # noqa: UP035 - the forms that Python 3.8 has

Json = Dict[str, Any]  # noqa: UP006

# More than is kept of any reason; a longer text would make a reply that is refused whole, its score with it.
TEXT_CAP = 10_000


def main(path: str, name: str) -> int:
    """Load the function, say so, and answer requests until stdin ends."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    # The grader's own folder takes the place of ours, as if it were run directly. PYTHONSAFEPATH leaves ours out.
    if sys.path[:1] == [str(Path(__file__).resolve().parent)]:
        del sys.path[0]
    sys.path.insert(0, str(Path(path).parent))
    try:
        function = load(path, name)
    except BaseException as error:
        write(replies, b"0", {"error": describe(error, path)})
        return 1
    write(replies, b"0", {"ready": True})
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    while True:
        found = read(requests)
        if found is None:
            return 0
        number, request = found
        write(replies, number, answer(function, request, loop, path))


def answer(function: Callable[..., Any], request: Json, loop: asyncio.AbstractEventLoop, path: str) -> Json:
    """Return the reply to one request. Whatever the function raises is its error, sys.exit included."""
    try:
        value = function(request["output"], request["case"])
        if inspect.isawaitable(value):
            value = loop.run_until_complete(value)
        return {"value": plain(value)}
    except BaseException as error:
        return {"error": describe(error, path)}


def load(path: str, name: str) -> Callable[..., Any]:
    """Return the function `name` of the file `path`."""
    spec = importlib.util.spec_from_file_location("grader", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{Path(path).name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # As import does it: dataclasses and the like look their own module up.
    sys.modules["grader"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"there is no function {name!r} in {Path(path).name}")
    found: Callable[..., Any] = function
    return found


def plain(value: Any) -> Any:
    """Return what JSON can carry; for all else a text that says what it was, which no reader takes for a score."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value[:TEXT_CAP]
    if isinstance(value, int):
        return int(value) if value.bit_length() < 1024 else "a huge integer"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, dict):
        reply = {"score": plain(value["score"])} if "score" in value else {}
        if value.get("reason") is not None:
            reply["reason"] = str(value["reason"])[:TEXT_CAP]
        return reply
    return type(value).__name__


def describe(error: BaseException, path: str) -> str:
    """Return one line: what went wrong, and the line of the grader's file it went wrong on."""
    text = str(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if isinstance(error, SyntaxError) and error.filename == path:
        # Its text ends with the same file and line.
        text, lines = error.msg, [error.lineno]
    where = f" ({Path(path).name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {text}"[:TEXT_CAP] + where


def read(stream: BinaryIO) -> Optional[Tuple[bytes, Json]]:  # noqa: UP006, UP045
    """Return the next request with its number: "LENGTH NUMBER", a newline, that many bytes of JSON. None at the end."""
    header = stream.readline()
    if not header.endswith(b"\n"):
        return None
    length, number = header.split()
    data = stream.read(int(length))
    return (number, json.loads(data)) if len(data) == int(length) else None


def write(stream: BinaryIO, number: bytes, reply: Json) -> None:
    """Send the reply to one request, in the same form and under the same number."""
    data = json.dumps(reply).encode("ascii")
    stream.write(str(len(data)).encode("ascii") + b" " + number + b"\n" + data)
    stream.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
