"""The object store: whole or not at all, checked when read, and "not there" never said of a store that is away."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import StoreError
from fairtrial.hashing import sha256_hex
from fairtrial.store.objects import ObjectStore

BIG = bytes(range(256)) * 40_000


@pytest.fixture
def backend() -> str:
    """These are about the folder; the bucket has tests of its own."""
    return "sqlite"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_is_put_comes_back_byte_for_byte(objects: ObjectStore) -> None:
    for number, data in enumerate((b"", b"\0", b"\r\n", bytes(range(256)), BIG)):
        objects.put(f"experiments/exp_1/{number}.bin", data)
        assert objects.get(f"experiments/exp_1/{number}.bin") == data


def test_a_put_replaces_the_whole_object_and_leaves_no_other_file(objects: ObjectStore, tmp_path: Path) -> None:
    objects.put("a/verdict.json", BIG)
    objects.put("a/verdict.json", b"{}")
    assert objects.get("a/verdict.json") == b"{}"
    assert files(tmp_path / "objects") == ["a/verdict.json"]


def test_the_bytes_are_synced_before_the_name_and_the_folders_after(
    objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        done.append("bytes" if path.name.startswith(".part-") else f"folder {path.relative_to(tmp_path)}")
        fsync(handle)

    def renamed(part: Path, target: Path) -> Path:
        done.append("name")
        return replace(part, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    objects.put("a/b/c.json", b"1")
    # A new folder is in its parent's list on the disk before anything lies in it.
    assert done == ["folder .", "folder objects", "folder objects/a", "bytes", "name", "folder objects/a/b"]
    done.clear()
    objects.put_blob(BIG)
    objects.put_blob(BIG)
    # The second is not written again, but may not be believed before its name is on the disk.
    assert done == ["folder objects", "bytes", "name", "folder objects/blobs", "folder objects/blobs"]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_r10_any_sync_that_fails_is_told_and_the_old_object_or_the_new_one_is_there(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: int
) -> None:
    objects.put("a/x", b"old")
    calls = 0
    fsync = os.fsync

    def fails(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(5, "Input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fails)
    # A second new object goes the longer way, through a folder that has to be made.
    for key in ("a/x", "b/x"):
        with contextlib.suppress(StoreError):
            objects.put(key, b"new")
    assert calls >= failing
    assert objects.get("a/x") in (b"old", b"new")
    assert objects.get("b/x") in (None, b"new")
    assert not [name for name in files(tmp_path / "objects") if ".part-" in name]


PUTTER = """
    import sys
    from fairtrial.store.objects import ObjectStore
    objects = ObjectStore(sys.argv[1])
    print("ready", flush=True)
    number = 0
    while True:
        number = (number + 1) % 256
        data = bytes([number]) * (1_000_000 + number)
        objects.put("runs/verdict.json", data)
        objects.put_blob(data)
"""


@pytest.mark.fire
def test_r13_killed_in_the_middle_of_a_put_the_object_is_the_old_one_or_the_new_one(child: Any, tmp_path: Path) -> None:
    objects = ObjectStore(str(tmp_path / "objects"))
    chance = random.Random(7)
    cut = 0
    for _ in range(15):
        putter = child(PUTTER, tmp_path / "objects")
        assert putter.line() == "ready"
        time.sleep(chance.uniform(0.0, 0.12))
        putter.process.kill()
        putter.process.wait()
        data = objects.get("runs/verdict.json")
        if data is not None:
            assert data == bytes([data[0]]) * (1_000_000 + data[0])
        for path in (tmp_path / "objects" / "blobs").glob("[0-9a-f]*"):
            objects.get_blob(path.name)
        cut += len(list((tmp_path / "objects").rglob(".part-*")))
    # Some of the kills did fall into a write; what they leave is under no key.
    assert cut
    with pytest.raises(ValueError, match="not a key"):
        objects.get("runs/.part-x")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[: len(BIG) // 2]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x00"),
        lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
        lambda path: path.write_bytes(b"another run's object"),
        lambda path: path.write_bytes(b"\0" * len(BIG)),
        lambda path: path.write_bytes(path.read_bytes() * 2),
    ],
    ids=["empty", "half", "last byte", "one bit", "another object", "NUL", "twice"],
)
def test_r13_a_damaged_blob_is_named_and_running_again_mends_it(
    objects: ObjectStore, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    digest = objects.put_blob(BIG)
    damage(tmp_path / "objects" / "blobs" / digest)
    with pytest.raises(StoreError) as refused:
        objects.get_blob(digest)
    assert refused.value.code == "damaged_record"
    assert digest in refused.value.message
    assert objects.put_blob(BIG) == digest
    assert objects.get_blob(digest) == BIG


def test_r13_a_folder_in_the_place_of_an_object_is_named(objects: ObjectStore, tmp_path: Path) -> None:
    digest = sha256_hex(BIG)
    (tmp_path / "objects" / "blobs" / digest).mkdir(parents=True)
    with pytest.raises(StoreError, match=f"blobs/{digest} is a folder") as refused:
        objects.get_blob(digest)
    assert refused.value.code == "damaged_record"
    with pytest.raises(StoreError, match=f"blobs/{digest}.*[Ii]s a directory") as refused:
        objects.put_blob(BIG)
    assert refused.value.code == "store_unavailable"


def test_a_blob_is_written_once(objects: ObjectStore, tmp_path: Path) -> None:
    digest = objects.put_blob(BIG)
    path = tmp_path / "objects" / "blobs" / digest
    before = path.stat()
    assert objects.put_blob(BIG) == digest
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/",
        "a/./b",
        "a\0b",
        "a\nb",
        "a\n",
        "a\\b",
        "a b",
        "é",
        "~/x",
        "a/.hidden",
        "a%2e%2e/b",
        "a?b",
        "a#b",
        "x" * 301,
    ],
)
def test_r54_a_key_that_could_be_another_place_is_refused_by_every_call(
    objects: ObjectStore, tmp_path: Path, key: str
) -> None:
    with pytest.raises(ValueError, match="not a key"):
        objects.put(key, b"x")
    with pytest.raises(ValueError, match="not a key"):
        objects.get(key)
    with pytest.raises(ValueError, match="not a key"):
        objects.local_path(key)
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=30))
def test_r54_whatever_key_is_taken_stays_below_the_folder(key: str) -> None:
    objects = ObjectStore("/nowhere/objects")
    try:
        path = objects.local_path(key)
    except ValueError:
        return
    assert Path(os.path.normpath(path)).is_relative_to("/nowhere/objects")
    assert os.path.normpath(path) == path


def test_missing_and_unavailable_are_two_answers(objects: ObjectStore, tmp_path: Path) -> None:
    objects.put("a/there", b"1")
    assert objects.get("a/not-there") is None
    with pytest.raises(StoreError) as missing:
        objects.get_blob("0" * 64)
    assert missing.value.code == "missing_object"
    # The folder is gone as a whole: a disk that is not mounted is no empty store.
    (tmp_path / "objects").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as away:
        objects.get("a/there")
    assert (away.value.code, away.value.exit_status) == ("store_unavailable", 4)
    with pytest.raises(StoreError) as away:
        objects.get_blob("0" * 64)
    assert away.value.code == "store_unavailable"
    (tmp_path / "objects").write_text("a file in its place")
    with pytest.raises(StoreError) as away:
        objects.get("a/there")
    assert away.value.code == "store_unavailable"


def test_r10_a_full_disk_is_named_with_what_is_needed_and_the_old_object_stays(
    small_disk: Callable[..., Path],
) -> None:
    disk = small_disk(mb=1)
    objects = ObjectStore(str(disk / "objects"))
    objects.put("a/verdict.json", b"old")
    for call in (lambda: objects.put("a/verdict.json", BIG), lambda: objects.put_blob(BIG)):
        with pytest.raises(StoreError) as refused:
            call()
        assert (refused.value.code, refused.value.exit_status) == ("no_space", 4)
        # 256 * 40,000 by hand.
        assert "10,240,000 bytes" in refused.value.message
        assert str(disk) in refused.value.message
    assert objects.get("a/verdict.json") == b"old"
    assert files(disk) == ["objects/a/verdict.json"]
    objects.put("a/verdict.json", b"new")
    assert objects.get("a/verdict.json") == b"new"


def test_a_read_only_folder_is_read_and_refuses_to_be_written(small_disk: Callable[..., Path]) -> None:
    disk = small_disk(mb=1)
    objects = ObjectStore(str(disk))
    digest = objects.put_blob(b"there")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert objects.get_blob(digest) == b"there"
    assert objects.put_blob(b"there") == digest
    with pytest.raises(StoreError, match="Read-only file system"):
        objects.put_blob(b"new")


def test_a_folder_may_be_named_as_a_url(tmp_path: Path) -> None:
    ObjectStore(f"file://{tmp_path}/o").put("a", b"1")
    assert ObjectStore(str(tmp_path / "o")).get("a") == b"1"


def test_r13_whatever_lies_under_a_key_can_be_set_aside(objects: ObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    objects.put("blobs/a", b"damaged")
    aside = objects.set_aside("blobs/a")
    assert aside.startswith("quarantine/blobs-a-")
    assert (objects.get("blobs/a"), objects.get(aside)) == (None, b"damaged")
    # A folder in its place, one that nobody may read, and a link to nowhere.
    (folder / "blobs" / "a" / "deep").mkdir(parents=True)
    (folder / "blobs" / "b").write_bytes(b"x")
    (folder / "blobs" / "b").chmod(0)
    (folder / "blobs" / "c").symlink_to("nowhere")
    for key in ("blobs/a", "blobs/b", "blobs/c"):
        aside = objects.set_aside(key)
        assert os.path.lexists(folder / aside)
        assert not os.path.lexists(folder / key)
        with pytest.raises(StoreError) as refused:
            objects.set_aside(key)
        assert refused.value.code == "missing_object"


def test_r13_the_move_is_on_the_disk_before_it_is_told(
    objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("blobs/a", b"damaged")
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(handle: int) -> None:
        done.append(str(Path(f"/proc/self/fd/{handle}").readlink().relative_to(tmp_path)))
        fsync(handle)

    def renamed(path: Path, target: Path) -> Path:
        done.append("name")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    objects.set_aside("blobs/a")
    assert done == ["objects", "name", "objects/quarantine", "objects/blobs"]


def test_what_cannot_be_set_aside_is_told(objects: ObjectStore, tmp_path: Path) -> None:
    objects.put("blobs/a", b"x")
    (tmp_path / "objects" / "quarantine").write_text("a file in its place")
    with pytest.raises(StoreError) as refused:
        objects.set_aside("blobs/a")
    assert refused.value.code == "store_unavailable"
    assert objects.get("blobs/a") == b"x"
