"""The object store: large texts, plans, datasets, verdicts and reports under one fsspec URL.

Objects with a content address are written once and checked on every read. *Missing* and *unavailable* are two answers:
the second stops the run, so that a store that is away is never taken for an empty one.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
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
        try:
            if self._folder is not None:
                _write_durably(self._folder / key, data)
            else:
                self._file_system().pipe_file(self._remote_path(key), data)
        except OSError as error:
            raise _unavailable(error, self.url) from error

    def get(self, key: str) -> bytes | None:
        """Return an object's bytes, None when there is no such object.

        Raises StoreError when the store does not answer: that is never the same as missing.
        """
        _check(key)
        try:
            if self._folder is not None:
                return (self._folder / key).read_bytes()
            data: bytes = self._file_system().cat_file(self._remote_path(key))
            return data
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(error, self.url) from error

    def put_blob(self, data: bytes) -> str:
        """Store `data` under its own hash and return that hash; a blob that is there is not written again."""
        digest = sha256_hex(data)
        key = f"blobs/{digest}"
        # The length tells a blob from one that was damaged after it was written.
        if self._size(key) != len(data):
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

    def _size(self, key: str) -> int | None:
        try:
            if self._folder is not None:
                return (self._folder / key).stat().st_size
            size: int = self._file_system().info(self._remote_path(key))["size"]
            return size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(error, self.url) from error

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
    path.parent.mkdir(parents=True, exist_ok=True)
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
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unavailable(error: OSError, url: str) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"no space left in {url}.", code="no_space", hint="Make room, then resume the run.")
    return StoreError(f"the object store {url} did not answer: {error.strerror or error}.", hint="Then resume the run.")
