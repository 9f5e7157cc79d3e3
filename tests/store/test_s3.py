"""Objects in a bucket: a real S3 server for what works and what is refused, a stand-in for answers that are wrong."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairtrial.errors import SpecError, StoreError
from fairtrial.hashing import sha256_hex
from fairtrial.store.objects import ObjectStore
from tests.servers import S3Server, s3_environment
from tests.store.s3_standin import StandIn, stand_in

pytest.importorskip("s3fs")

DATA = bytes(range(256)) * 400
PATIENCE_S = 3.0


@pytest.fixture
def bucket(s3_url: str) -> ObjectStore:
    return ObjectStore(s3_url)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The stand-in, which the environment names; it does nothing wrong until it is told to."""
    with stand_in() as state:
        set_environment(monkeypatch, state.environ)
        yield state


@pytest.fixture
def store(faulty: StandIn) -> ObjectStore:
    return ObjectStore("s3://exp/team", patience_s=PATIENCE_S)


def set_environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def in_threads(n: int, work: Callable[[int], object]) -> list[object]:
    """Return what `work` came to in each of n threads that begin at once: a value, or the error."""
    begin = threading.Barrier(n)
    results: list[object] = [None] * n

    def one(number: int) -> None:
        begin.wait(30)
        try:
            results[number] = work(number)
        except StoreError as error:
            results[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


# --- a server that behaves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 8192, 8193, 12 * 1024 * 1024])
def test_a_blob_of_any_size_comes_back_and_is_kept_once(bucket: ObjectStore, size: int) -> None:
    data = os.urandom(size)
    digest = bucket.put_blob(data)
    assert digest == sha256_hex(data)
    assert bucket.put_blob(data) == digest
    assert bucket.get_blob(digest) == data


def test_a_named_object_is_replaced_whole_and_another_process_sees_it_at_once(bucket: ObjectStore, s3_url: str) -> None:
    other = ObjectStore(s3_url)
    assert other.get("experiments/exp_1/verdict.json") is None
    bucket.put("experiments/exp_1/verdict.json", b'{"a": 1}')
    assert other.get("experiments/exp_1/verdict.json") == b'{"a": 1}'
    bucket.put("experiments/exp_1/verdict.json", b"{}")
    # What was asked for before is not remembered: neither the object nor that there was none.
    assert other.get("experiments/exp_1/verdict.json") == b"{}"
    assert bucket.local_path("experiments/exp_1/verdict.json") == f"{s3_url}/experiments/exp_1/verdict.json"


def test_sixteen_threads_that_store_one_blob_all_succeed(bucket: ObjectStore) -> None:
    assert in_threads(16, lambda _n: bucket.put_blob(DATA)) == [sha256_hex(DATA)] * 16
    assert bucket.get_blob(sha256_hex(DATA)) == DATA


def test_sixteen_threads_each_with_a_blob_of_their_own(bucket: ObjectStore) -> None:
    def own(number: int) -> bool:
        data = DATA + bytes([number])
        return bucket.get_blob(bucket.put_blob(data)) == data

    assert in_threads(16, own) == [True] * 16


def test_r13_a_damaged_blob_is_named_and_running_again_mends_it(bucket: ObjectStore) -> None:
    for damage in (b"", DATA[: len(DATA) // 2], DATA[:-1] + b"\0"):
        digest = bucket.put_blob(DATA)
        bucket.put(f"blobs/{digest}", damage)
        with pytest.raises(StoreError) as refused:
            bucket.get_blob(digest)
        assert (refused.value.code, digest in refused.value.message) == ("damaged_record", True)
        bucket.put_blob(DATA)
        assert bucket.get_blob(digest) == DATA


def test_r13_what_is_set_aside_is_under_another_key_and_no_longer_under_its_own(bucket: ObjectStore) -> None:
    bucket.put("experiments/exp_1/plan.json", b"{")
    aside = bucket.set_aside("experiments/exp_1/plan.json")
    assert aside.startswith("quarantine/experiments-exp_1-plan.json-")
    assert (bucket.get("experiments/exp_1/plan.json"), bucket.get(aside)) == (None, b"{")
    # Twice in one place: each keeps a name of its own.
    bucket.put("experiments/exp_1/plan.json", b"[")
    assert bucket.set_aside("experiments/exp_1/plan.json") != aside
    # A "folder" in the place of an object.
    bucket.put("blobs/abc/within", b"x")
    aside = bucket.set_aside("blobs/abc")
    assert (bucket.get("blobs/abc/within"), bucket.get(f"{aside}/within")) == (None, b"x")
    with pytest.raises(StoreError) as refused:
        bucket.set_aside("blobs/abc")
    assert refused.value.code == "missing_object"


FORKED = """
    import os, sys
    from fairtrial.store.objects import ObjectStore
    objects = ObjectStore(sys.argv[1])
    digest = objects.put_blob(b"of the parent")
    child = os.fork()
    if not child:
        # A client does not survive a fork; the child makes its own.
        os._exit(0 if objects.get_blob(digest) == b"of the parent" and objects.put_blob(b"of the child") else 1)
    print(os.waitpid(child, 0)[1], objects.get_blob(digest), flush=True)
"""


def test_a_process_that_was_forked_reads_and_writes_too(child: Any, s3_url: str) -> None:
    assert child(FORKED, s3_url).line() == "0 b'of the parent'"


def test_missing_and_unavailable_are_two_answers(
    bucket: ObjectStore, s3_url: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = bucket.put_blob(DATA)
    assert bucket.get("a/not-there") is None
    with pytest.raises(StoreError) as missing:
        bucket.get_blob("0" * 64)
    assert (missing.value.code, missing.value.exit_status) == ("missing_object", 70)
    away = {
        "credentials": (s3_environment(s3_server.endpoint, secret="another-secret-0000"), s3_url, "refused access"),
        "key": (s3_environment(s3_server.endpoint, key="keyofnobody"), s3_url, "refused access"),
        "bucket": (s3_server.environ, "s3://no-such-bucket/x", "there is no bucket no-such-bucket"),
        "server": (s3_environment("http://127.0.0.1:1"), s3_url, "did not answer"),
        "endpoint": (s3_environment("nonsense"), s3_url, "AWS_ENDPOINT_URL"),
    }
    for variables, url, named in away.values():
        set_environment(monkeypatch, variables)
        store = ObjectStore(url, patience_s=6.0)
        calls: list[Callable[[ObjectStore], object]] = [
            lambda store: store.get("a/not-there"),
            lambda store: store.get_blob(digest),
            lambda store: store.put_blob(DATA),
            lambda store: store.put_blob(b"x" * 2_000_000),
            lambda store: store.put("a/b", b"x"),
            lambda store: store.set_aside("a/b"),
        ]
        # A server that is away is tried again for some seconds, so two calls tell enough.
        for call in calls[:3:2] if named == "did not answer" else calls:
            began = time.monotonic()
            with pytest.raises(StoreError) as refused:
                call(store)
            assert (refused.value.code, refused.value.exit_status) == ("store_unavailable", 4)
            assert named in str(refused.value)
            assert "secret" not in str(refused.value)
            assert time.monotonic() - began < 30


def test_without_credentials_the_error_names_the_variables(
    bucket: ObjectStore, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(StoreError, match=r"no credentials.*AWS_ACCESS_KEY_ID") as refused:
        ObjectStore(s3_url).put_blob(b"")
    assert refused.value.code == "store_unavailable"


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3://b",
        "s3:///x",
        "s3://Bucket/x",
        "s3://key:hunter2@bucket/x",
        "s3://bucket/a/../b",
        "s3://bucket//a",
        "s3://bucket/a?hunter2",
        "s3a://bucket/x",
        "memory://bucket/hunter2",
        "https://user:hunter2@host/x",
        "simplecache::s3://bucket/x",
    ],
)
def test_a_storage_url_nobody_can_use_is_refused_at_once_and_not_repeated(url: str) -> None:
    with pytest.raises(SpecError) as refused:
        ObjectStore(url)
    assert (refused.value.code, refused.value.place) == ("bad_usage", "FAIRTRIAL_STORAGE_URL")
    assert "hunter2" not in str(refused.value)


# --- R12: a server that does not behave -------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_both_spellings_of_a_condition_that_failed_mean_that_it_is_there(
    store: ObjectStore, faulty: StandIn, named: bool
) -> None:
    # s3fs: FileExistsError where the answer names the condition, as AWS does, else OSError "invalid argument".
    faulty.names_the_condition = named
    digest = store.put_blob(DATA)
    assert store.put_blob(DATA) == digest
    key = f"team/blobs/{digest}"
    assert faulty.calls == [("PUT", key), ("PUT", key), ("HEAD", key)]
    faulty.objects[key] = DATA[:-1]
    store.put_blob(DATA)
    assert faulty.objects[key] == DATA


def test_a_large_blob_that_is_there_is_not_sent_again(store: ObjectStore, faulty: StandIn) -> None:
    data = b"x" * 1_000_000
    for _ in range(2):
        store.put_blob(data)
    assert [method for method, _ in faulty.calls] == ["HEAD", "PUT", "HEAD"]


def test_a_store_without_conditions_still_takes_blobs(store: ObjectStore, faulty: StandIn) -> None:
    faulty.fail("PUT", "501", 1)
    assert store.get_blob(store.put_blob(DATA)) == DATA


READS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("experiments/exp_1/plan.json"),
    "get_blob": lambda store: store.get_blob(sha256_hex(DATA)),
}
WRITES: dict[str, Callable[[ObjectStore], object]] = {
    "put": lambda store: store.put("experiments/exp_1/plan.json", DATA),
    "put_blob": lambda store: store.put_blob(DATA + b"new"),
}


@pytest.mark.fire
@pytest.mark.parametrize("call", READS)
@pytest.mark.parametrize(
    "fault", ["drip", "500", "503", "reset", "short", "error in 200", "page", "not found page", "silent"]
)
def test_r12_a_read_that_goes_wrong_is_unavailable_in_bounded_time_and_never_missing(
    store: ObjectStore, faulty: StandIn, fault: str, call: str
) -> None:
    faulty.objects["team/experiments/exp_1/plan.json"] = b"[" + DATA
    faulty.objects[f"team/blobs/{sha256_hex(DATA)}"] = DATA
    faulty.fail("GET", fault)
    began = time.monotonic()
    with pytest.raises(StoreError) as refused:
        READS[call](store)
    # 3 s of patience, 1 s more for the 100 kB that were promised, and the pause between two looks of the caller.
    assert time.monotonic() - began < PATIENCE_S + 5
    assert (refused.value.code, refused.value.exit_status) == ("store_unavailable", 4)
    assert len(faulty.calls) <= 6
    faulty.heal()
    assert READS[call](store) in (DATA, b"[" + DATA)


@pytest.mark.fire
@pytest.mark.parametrize("call", WRITES)
@pytest.mark.parametrize("fault", ["500", "503", "error in 200", "silent", "cut"])
def test_r12_a_write_that_goes_wrong_is_never_taken_for_done(
    store: ObjectStore, faulty: StandIn, fault: str, call: str
) -> None:
    faulty.fail("PUT", fault)
    began = time.monotonic()
    with pytest.raises(StoreError) as refused:
        WRITES[call](store)
    assert time.monotonic() - began < PATIENCE_S + 10
    assert refused.value.code == "store_unavailable"
    faulty.heal()
    WRITES[call](store)
    assert store.get_blob(sha256_hex(DATA + b"new")) if call == "put_blob" else store.get("experiments/exp_1/plan.json")


@pytest.mark.parametrize("fault", ["500", "503", "reset", "short"])
def test_r12_what_passes_is_tried_again_and_not_told(store: ObjectStore, faulty: StandIn, fault: str) -> None:
    faulty.fail("PUT", fault if fault.isdecimal() else "500", 2)
    digest = store.put_blob(DATA)
    faulty.fail("GET", fault, 2)
    assert store.get_blob(digest) == DATA


def test_r12_a_wrong_etag_is_looked_into_and_right_bytes_are_right(store: ObjectStore, faulty: StandIn) -> None:
    faulty.fail("*", "wrong etag")
    digest = store.put_blob(DATA)
    assert store.get_blob(digest) == DATA
    # The look was one question: its answer carried the checksum of what is there.
    assert [method for method, _ in faulty.calls] == ["PUT", "HEAD", "GET"]


def test_r12_a_blob_that_its_store_does_not_know_yet_is_asked_for_again(store: ObjectStore, faulty: StandIn) -> None:
    digest = store.put_blob(DATA)
    faulty.fail("GET", "late", 3)
    assert store.get_blob(digest) == DATA
    faulty.fail("GET", "late")
    with pytest.raises(StoreError) as refused:
        store.get_blob(digest)
    assert refused.value.code == "missing_object"
    # A bounded number of looks: 4 that found it late, and 4 that did not.
    assert [method for method, _ in faulty.calls] == ["PUT"] + ["GET"] * 8


def test_a_full_store_is_called_that(store: ObjectStore, faulty: StandIn) -> None:
    faulty.fail("PUT", "507")
    with pytest.raises(StoreError) as refused:
        store.put_blob(DATA)
    assert (refused.value.code, refused.value.exit_status) == ("no_space", 4)
