"""Where Prefect keeps results: a server that is lost holds nobody up, and what is not ours is not shown to Prefect."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fairtrial.store.objects import ObjectStore

ROOT = Path(__file__).resolve().parents[2]

# In a process of its own: Prefect reads its settings once.
PLACE = """
    import asyncio, sys, time
    from types import SimpleNamespace
    from fairtrial.store.objects import ObjectStore
    from flows.slice_results import result_place
    run = SimpleNamespace(objects=ObjectStore(sys.argv[1]))
    began = time.monotonic()
    place = asyncio.run(result_place(run))
    print(place, round(time.monotonic() - began, 1))
"""


@pytest.mark.parametrize("lost", ["refuses", "is silent"])
def test_p19_a_server_that_is_lost_costs_seconds_and_no_result_is_kept(lost: str, tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if lost == "is silent":
            silent.listen(16)
        environ = {
            **os.environ,
            "PREFECT_API_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/api",
            # Without it Prefect would try for minutes; the limit has to be ours.
            "PREFECT_CLIENT_MAX_RETRIES": "50",
            "PREFECT_HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-c", textwrap.dedent(PLACE), "s3://bucket/team"]
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    place, seconds = ended.stdout.split()
    assert place == "None", ended.stderr
    # flows.slice_results.SAVE_S is 10 s; the rest is a loaded machine's.
    assert float(seconds) < 20


def parameters(number: int) -> dict[str, Any]:
    return {"experiment": "exp_1", "number": number, "plan_hash": "f" * 64, "result_version": 1, "label": "1/1"}


def record(**serializer: object) -> dict[str, Any]:
    """What Prefect 3.9 stores for a value, written by hand."""
    ours = {
        "type": "json",
        "jsonlib": "json",
        "object_encoder": None,
        "object_decoder": None,
        "dumps_kwargs": {},
        "loads_kwargs": {},
    }
    metadata = {"storage_key": "k", "expiration": None, "serializer": ours | serializer, "prefect_version": "3.9.1"}
    return {"metadata": metadata, "result": '"{}"'}


OURS = json.dumps(record())


@pytest.mark.parametrize(
    ("stored", "readable"),
    [
        (None, True),
        (OURS, True),
        (json.dumps(record(type="pickle")), False),
        (json.dumps(record(jsonlib="os")), False),
        (json.dumps(record(object_decoder="builtins.print")), False),
        (json.dumps(record(loads_kwargs={"cls": "x"})), False),
        (OURS[:-9], False),
        ("", False),
        ("[]", False),
        ('{"metadata": 1}', False),
        # Of two keys of one name one reader takes the first, another the last.
        (OURS.replace('"serializer"', '"serializer": {"type": "pickle"}, "serializer"'), False),
    ],
)
def test_p02_only_a_record_that_plain_json_decodes_is_shown_to_prefect(
    tmp_path: Path, stored: str | None, readable: bool
) -> None:
    import asyncio

    from flows.slice_results import FOLDER, may_be_read
    from tasks.slice import slice_key

    objects = ObjectStore(str(tmp_path))
    if stored is not None:
        objects.put(f"{FOLDER}/{slice_key(None, parameters(0))}", stored.encode())
    assert asyncio.run(may_be_read(objects, parameters(0))) is readable


def test_p09_a_store_that_does_not_answer_is_not_an_empty_one(tmp_path: Path) -> None:
    import asyncio

    from fairtrial.errors import StoreError
    from flows.slice_results import may_be_read

    with pytest.raises(StoreError):
        asyncio.run(may_be_read(ObjectStore(str(tmp_path / "not-mounted")), parameters(0)))


def test_a_block_is_named_by_its_url_alone() -> None:
    from flows.slice_results import block_name

    assert block_name("s3://a/b") == block_name("s3://a/b") != block_name("s3://a/c")
    # Prefect takes lower-case letters, digits and dashes.
    assert set(block_name("s3://a/b")) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
