"""The object store: large texts, plans, datasets, verdicts and reports, in a folder or in an S3 bucket.

Objects with a content address are written once and checked on every read. *Missing* and *unavailable* are two answers:
the second stops the run, so that a store that is away is never taken for an empty one.

An object is named by a row only after `put` returned, and by then its folders are on the disk too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fairtrial.errors import SpecError, StoreError
from fairtrial.hashing import sha256_hex
from fairtrial.store.s3 import PATIENCE_S, Bucket

KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")

_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_][A-Za-z0-9._=-]*)*")

_AGAIN_S: Final = (0.2, 0.5, 1.0)
"""Pauses before a bucket is asked again for a blob that a record names: it may not have heard of its own put yet."""

_AGAIN_IN_ALL_S: Final = 30.0
"""What these pauses come to at most in one process: a bucket that lost much is not waited for at every loss."""


class ObjectStore:
    """Objects below one URL: a folder (path or file://), or a bucket (s3://bucket/prefix).

    patience_s  longest time for one operation on a bucket, beside what its bytes take

    Raises SpecError for a URL of any other kind, without repeating it: it may hold a password.
    """

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S):
        self._folder: Path | None = None
        if "://" not in url or url.startswith("file://"):
            self.url = url
            self._folder = Path(url.removeprefix("file://"))
        else:
            self.url = _bucket_url(url)
            self._bucket = Bucket(self.url, patience_s=patience_s)
            self._again_left_s = _AGAIN_IN_ALL_S

    @property
    def folder(self) -> Path | None:
        """Return the folder objects lie in, or None for a remote store."""
        return self._folder

    def put(self, key: str, data: bytes) -> None:
        """Write one object whole: readers see the old one or the new one, and it survives a power cut.

        Raises StoreError (no_space, store_unavailable).
        """
        _check(key)
        with self._answering(key, needed=len(data)):
            if self._folder is not None:
                _write_durably(self._folder / key, data)
            else:
                self._bucket.put(key, data)

    def get(self, key: str) -> bytes | None:
        """Return an object's bytes, None when there is no such object.

        Raises StoreError when the store does not answer: that is never the same as missing.
        """
        _check(key)
        with self._answering(key):
            if self._folder is None:
                data = self._bucket.get(key)
                # Ours are JSON and Markdown; the page of a proxy or an error that came as an answer begins like this.
                if data is not None and not key.startswith("blobs/") and _is_markup(data):
                    raise OSError("a page came in its place")
                return data
            try:
                return (self._folder / key).read_bytes()
            except IsADirectoryError:
                raise StoreError(
                    f"object {key} is a folder.", code="damaged_record", hint="Restore it from a copy of the store."
                ) from None
            except FileNotFoundError:
                # A folder that is not there at all was never made, or is a disk that is not mounted.
                if not self._folder.is_dir():
                    raise
                return None

    def put_blob(self, data: bytes) -> str:
        """Store `data` under its own hash and return that hash; a blob that is whole is not written again.

        Raises StoreError (no_space, store_unavailable).
        """
        digest = sha256_hex(data)
        key = f"blobs/{digest}"
        if self._folder is None:
            self._bucket.put_once(key, data)
            return digest
        with self._answering(key):
            whole = _is_whole(self._folder / key, data)
        if not whole:
            self.put(key, data)
        return digest

    def get_blob(self, digest: str) -> bytes:
        """Return the blob with that hash, checked.

        Raises StoreError: missing_object when it is not there, damaged_record when its bytes have another hash.
        """
        key = f"blobs/{digest}"
        data = self.get(key)
        if self._folder is None:
            for pause in _AGAIN_S:
                if data is not None and sha256_hex(data) == digest:
                    return data
                if self._again_left_s < pause:
                    break
                self._again_left_s -= pause
                time.sleep(pause)
                data = self.get(key)
        if data is None:
            raise StoreError(
                f"object {key} is named by a record and is not in {self.url}.",
                code="missing_object",
                hint="Restore it from a copy of the store.",
            )
        if sha256_hex(data) != digest:
            if self._folder is None and _is_markup(data):
                raise StoreError(
                    f"the object store {self.url} did not answer for {key}: a page came in its place.",
                    hint="Check AWS_ENDPOINT_URL and the network, then resume the run.",
                )
            raise StoreError(
                f"object {key} does not match its checksum.",
                code="damaged_record",
                hint="Restore it from a copy, or delete it and run again.",
            )
        return data

    def set_aside(self, key: str) -> str:
        """Move an object out of the way and return its new key, below quarantine/; a folder in its place moves too.

        Raises StoreError: missing_object when nothing is there, store_unavailable when it cannot be moved.
        """
        _check(key)
        new = f"quarantine/{key.replace('/', '-')[-200:].lstrip('.-')}-{uuid.uuid4().hex[:12]}"
        if self._folder is None:
            self._bucket.move(key, new)
            return new
        with self._answering(key):
            path = self._folder / key
            if not os.path.lexists(path):
                raise StoreError(f"object {key} is not in {self.url}.", code="missing_object")
            _make_folder(self._folder / "quarantine")
            path.rename(self._folder / new)
            _sync_folder(self._folder / "quarantine")
            _sync_folder(path.parent)
        return new

    def local_path(self, key: str) -> str:
        """Return where a person finds the object: a path, or the URL on a remote store."""
        _check(key)
        return str(self._folder / key) if self._folder is not None else f"{self.url}/{key}"

    @contextlib.contextmanager
    def _answering(self, key: str, *, needed: int = 0) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(
                    f"no space left in {self.url} for {needed:,} bytes.",
                    code="no_space",
                    hint="Make room, then resume the run.",
                ) from error
            raise StoreError(
                f"the object store {self.url} did not answer for {key}: {error.strerror or error}.",
                hint="Mend it, then resume the run.",
            ) from error


def _bucket_url(url: str) -> str:
    if not _BUCKET.fullmatch(url.rstrip("/")) or ".." in url:
        raise SpecError(
            "that is neither a folder nor a bucket.",
            code="bad_usage",
            hint="Write a folder, or s3://bucket/prefix; credentials come by environment (AWS_ACCESS_KEY_ID, …).",
            place="FAIRTRIAL_STORAGE_URL",
        )
    if find_spec("s3fs") is None:
        raise SpecError(
            "objects in a bucket need s3fs, which is not installed.",
            code="bad_usage",
            hint="pip install s3fs",
            place="FAIRTRIAL_STORAGE_URL",
        )
    return url.rstrip("/")


def _check(key: str) -> None:
    if len(key) > 300 or not KEY.fullmatch(key) or ".." in key:
        raise ValueError(f"not a key of the object store: {key!r}")


def _is_markup(data: bytes) -> bool:
    return data.lstrip()[:1] == b"<"


def _is_whole(path: Path, data: bytes) -> bool:
    try:
        if path.read_bytes() != data:
            return False
    except (FileNotFoundError, IsADirectoryError):
        return False
    # Another thread may have given it its name a moment ago and not come to this yet.
    _sync_folder(path.parent)
    return True


def _write_durably(path: Path, data: bytes) -> None:
    _make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=".part-", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _make_folder(path: Path) -> None:
    """Make a folder and those above it; each is on the disk before anything is put into it."""
    if path.is_dir():
        return
    _make_folder(path.parent)
    path.mkdir(exist_ok=True)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
