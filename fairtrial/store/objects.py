"""The object store: large texts, plans, datasets, verdicts and reports under one fsspec URL.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fairtrial.errors import StoreError
from fairtrial.hashing import sha256_hex

KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


class ObjectStore:
    """Objects below one URL: a folder (path or file://) or any other fsspec file system such as s3://bucket/prefix."""

    def __init__(self, url: str):
        self.url = url
        self._folder = Path(url.removeprefix("file://")) if "://" not in url or url.startswith("file://") else None
        self._remote: Any = None

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
                self._file_system().pipe_file(self._remote_path(key), data)

    def get(self, key: str) -> bytes | None:
        """Return an object's bytes, None when there is no such object.

        Raises StoreError when the store does not answer: that is never the same as missing.
        """
        _check(key)
        with self._answering(key):
            try:
                if self._folder is not None:
                    return (self._folder / key).read_bytes()
                data: bytes = self._file_system().cat_file(self._remote_path(key))
                return data
            except FileNotFoundError:
                # A folder that is not there at all was never made, or is a disk that is not mounted.
                if self._folder is not None and not self._folder.is_dir():
                    raise
                return None

    def put_blob(self, data: bytes) -> str:
        """Store `data` under its own hash and return that hash; a blob that is whole is not written again.

        Raises StoreError (no_space, store_unavailable).
        """
        digest = sha256_hex(data)
        key = f"blobs/{digest}"
        with self._answering(key):
            whole = self._is_whole(key, data)
        if not whole:
            self.put(key, data)
        return digest

    def get_blob(self, digest: str) -> bytes:
        """Return the blob with that hash, checked.

        Raises StoreError: missing_object when it is not there, damaged_record when its bytes have another hash.
        """
        data = self.get(f"blobs/{digest}")
        if data is None:
            raise StoreError(
                f"object blobs/{digest} is named by a record and is not in {self.url}.",
                code="missing_object",
                hint="Restore the objects folder from a copy.",
            )
        if sha256_hex(data) != digest:
            raise StoreError(
                f"object blobs/{digest} does not match its checksum.",
                code="damaged_record",
                hint="Restore it from a copy, or delete it and run again.",
            )
        return data

    def local_path(self, key: str) -> str:
        """Return where a person finds the object: a path, or the URL on a remote store."""
        _check(key)
        return str(self._folder / key) if self._folder is not None else f"{self.url.rstrip('/')}/{key}"

    def _is_whole(self, key: str, data: bytes) -> bool:
        try:
            if self._folder is None:
                # A remote store keeps checksums of its own; to compare the bytes would cost a download.
                return bool(self._file_system().info(self._remote_path(key))["size"] == len(data))
            path = self._folder / key
            if path.read_bytes() != data:
                return False
            # Another thread may have given it its name a moment ago and not come to this yet.
            _sync_folder(path.parent)
            return True
        except (FileNotFoundError, IsADirectoryError):
            return False

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
        except (ImportError, ValueError) as error:
            hint = "FAIRTRIAL_STORAGE_URL is a folder or s3://bucket/prefix."
            raise StoreError(f"{self.url} cannot be opened: {error}.", hint=hint) from error

    def _file_system(self) -> Any:
        if self._remote is None:
            import fsspec

            self._remote, _ = fsspec.url_to_fs(self.url)
        return self._remote

    def _remote_path(self, key: str) -> str:
        return f"{self.url.split('://', 1)[1].rstrip('/')}/{key}"


def _check(key: str) -> None:
    if len(key) > 300 or not KEY.fullmatch(key) or ".." in key:
        raise ValueError(f"not a key of the object store: {key!r}")


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
