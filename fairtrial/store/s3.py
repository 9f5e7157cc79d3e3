"""Objects in an S3 bucket, through s3fs.

*Missing* is only what the store itself says of one key in a bucket that is there (NoSuchKey). Whatever else goes wrong,
silence, a refusal or an answer that is no answer, is StoreError: a store that is away must never look empty.

Credentials and the endpoint come by environment, as every S3 program takes them; no URL, message or record holds them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from fairtrial.errors import StoreError

T = TypeVar("T")

PATIENCE_S: Final = 60.0
"""Longest time for one operation, all its tries together, beside what its bytes take."""

SLOWEST_BYTES_S: Final = 100_000
"""A large object may take longer, as long as it comes this fast."""

# A store that is restarted or asks for less is back within seconds; after these the run ends and can be resumed.
_PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0)
_CONNECT_S: Final = 5
_SILENCE_S: Final = 15
_PASSING_STATUS: Final = (429, 500, 502, 503, 504)
_PASSING_CODES: Final = ("SlowDown", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict")
_FULL: Final = ("QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "507")
_LOOK_FIRST_BYTES: Final = 1_000_000
"""From this size on it is cheaper to ask whether an object is there than to send it and hear that it is."""

_Call = Callable[[Any, asyncio.Timeout], Awaitable[T]]


class Bucket:
    """The objects below s3://bucket/prefix. Every call is bounded, may come from any thread, and raises StoreError."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S):
        self._url = url
        self._patience_s = patience_s
        self._name, _, self._prefix = url.removeprefix("s3://").partition("/")
        self._systems: dict[int, Any] = {}

    def put(self, key: str, data: bytes) -> None:
        """Write one object whole, over whatever is there."""

        async def put(system: Any, _limit: asyncio.Timeout) -> None:
            await self._send(system, key, data, mode="overwrite")

        self._ask(key, put, size=len(data))

    def put_once(self, key: str, data: bytes) -> None:
        """Write an object whose key says what its bytes are: one that is there and whole is left alone."""

        async def put(system: Any, _limit: asyncio.Timeout) -> None:
            if len(data) >= _LOOK_FIRST_BYTES and await self._is_whole(system, key, data):
                return
            try:
                await self._send(system, key, data, mode="create")
            except OSError as error:
                if not _is_there_already(error):
                    raise
                # Somebody was first, now or long ago; what lies there may have been cut.
                if not await self._is_whole(system, key, data):
                    await self._send(system, key, data, mode="overwrite")

        self._ask(key, put, size=3 * len(data))

    def get(self, key: str) -> bytes | None:
        """Return an object's bytes, None when the store says that there is none."""

        async def get(system: Any, limit: asyncio.Timeout) -> bytes | None:
            return await self._fetch(system, key, limit)

        return self._ask(key, get)

    def move(self, key: str, to: str) -> None:
        """Give an object another key; when there is none, whatever lies below `key` as if that were a folder."""

        async def move(system: Any, _limit: asyncio.Timeout) -> bool:
            pairs = [(key, to)]
            if not await self._there(system, key):
                pairs = [(below, to + below.removeprefix(key)) for below in await self._below(system, key)]
            for old, new in pairs:
                source = {"Bucket": self._name, "Key": self._path(old)}
                await system._call_s3("copy_object", Bucket=self._name, Key=self._path(new), CopySource=source)
                await system._call_s3("delete_object", Bucket=self._name, Key=self._path(old))
            return bool(pairs)

        if not self._ask(key, move):
            raise StoreError(f"object {key} is not in {self._url}.", code="missing_object")

    async def _send(self, system: Any, key: str, data: bytes, *, mode: str) -> None:
        path = f"{self._name}/{self._path(key)}"
        try:
            said = await system._pipe_file(path, data, mode=mode)
        except OSError as error:
            # A store that knows no conditions: what lies under the key is the same bytes or damaged.
            if mode != "create" or _reply(error)[0] != "NotImplemented":
                raise
            said = await system._pipe_file(path, data)
        tag = str((said or {}).get("ETag", "")).strip('"')
        # Not every store's tag is the checksum, so another one is a reason to look, not an error.
        if tag and tag != _md5(data) and not await self._is_whole(system, key, data):
            raise OSError(f"the store kept other bytes than the {len(data):,} it was sent")

    async def _fetch(self, system: Any, key: str, limit: asyncio.Timeout) -> bytes | None:
        try:
            answer = await system._call_s3("get_object", Bucket=self._name, Key=self._path(key))
        except FileNotFoundError as error:
            if _reply(error)[0] == "NoSuchKey":
                return None
            raise
        try:
            if not {"content-length", "transfer-encoding"} & answer["ResponseMetadata"]["HTTPHeaders"].keys():
                # The end of the connection would be the end of the body, cut or not.
                raise OSError("the answer does not say how long it is")
            deadline = limit.when()
            if deadline is not None:
                limit.reschedule(deadline + answer.get("ContentLength", 0) / SLOWEST_BYTES_S)
            data: bytes = await answer["Body"].read()
            return data
        finally:
            answer["Body"].close()

    async def _is_whole(self, system: Any, key: str, data: bytes) -> bool:
        try:
            found = await system._call_s3("head_object", Bucket=self._name, Key=self._path(key))
        except FileNotFoundError:
            return False
        if found["ContentLength"] != len(data):
            return False
        if found.get("ETag", "").strip('"') == _md5(data):
            return True
        async with asyncio.timeout(None) as limit:
            return await self._fetch(system, key, limit) == data

    async def _there(self, system: Any, key: str) -> bool:
        try:
            await system._call_s3("head_object", Bucket=self._name, Key=self._path(key))
        except FileNotFoundError:
            return False
        return True

    async def _below(self, system: Any, key: str) -> list[str]:
        prefix = self._path(key) + "/"
        found = await system._call_s3("list_objects_v2", Bucket=self._name, Prefix=prefix)
        return [key + "/" + entry["Key"].removeprefix(prefix) for entry in found.get("Contents", ())]

    def _ask(self, key: str, call: _Call[T], *, size: int = 0) -> T:
        from fsspec.asyn import sync

        try:
            system = self._system()
            answer = sync(system.loop, self._in_time, system, call, self._patience_s + size / SLOWEST_BYTES_S)
        except _trouble() as error:
            raise self._told(error, key) from error
        # fsspec turns a call that was cancelled into None, which must not pass for "not there".
        if answer is None:
            raise StoreError(f"the call to {self._url} for {key} was broken off.", hint=_RESUME)
        found: T = answer[0]
        return found

    async def _in_time(self, system: Any, call: _Call[T], patience_s: float) -> tuple[T]:
        async with asyncio.timeout(patience_s) as limit:
            for pause in _PAUSES_S:
                try:
                    return (await call(system, limit),)
                except _trouble() as error:
                    if not _passes(error):
                        raise
                await asyncio.sleep(pause)
            return (await call(system, limit),)

    def _system(self) -> Any:
        # A client holds sockets and a thread, which do not survive a fork: each process makes its own.
        pid = os.getpid()
        if pid not in self._systems:
            from s3fs import S3FileSystem

            once = {"mode": "standard", "total_max_attempts": 1}
            system = S3FileSystem(
                skip_instance_cache=True,
                use_listings_cache=False,
                config_kwargs={"connect_timeout": _CONNECT_S, "read_timeout": _SILENCE_S, "retries": once},
            )
            # Tries multiply: those of botocore, of s3fs and ours. One layer counts them, ours.
            system.retries = 1
            self._systems.setdefault(pid, system)
        return self._systems[pid]

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def _told(self, error: BaseException, key: str) -> StoreError:
        """Return what a failure means to a user; the texts of others may hold an address or a key, so none is used."""
        code, status = _reply(error)
        name = type(error).__name__
        if code in _FULL or status == 507:
            return StoreError(f"no space left in {self._url} for {key}.", code="no_space", hint=_MAKE_ROOM)
        if code == "NoSuchBucket":
            return StoreError(
                f"there is no bucket {self._name}.", hint="Make it, or mend FAIRTRIAL_STORAGE_URL or AWS_ENDPOINT_URL."
            )
        if name in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
            return StoreError(f"there are no credentials for {self._url}.", hint=_CREDENTIALS)
        if isinstance(error, PermissionError):
            return StoreError(f"{self._url} refused access to {key} ({code}).", hint=_CREDENTIALS)
        if isinstance(error, TimeoutError):
            return StoreError(
                f"the object store {self._url} did not answer for {key} within {self._patience_s:.0f} s.", hint=_RESUME
            )
        if not code and isinstance(error, ValueError):
            return StoreError(f"{self._url} cannot be opened ({name}).", hint="Check AWS_ENDPOINT_URL: it is a URL.")
        said = code or (str(error) if type(error) is OSError and error.errno is None else name)
        return StoreError(f"the object store {self._url} did not answer for {key}: {said}.", hint=_RESUME)


_RESUME: Final = "Check AWS_ENDPOINT_URL and the network, then resume the run."
_CREDENTIALS: Final = "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what the bucket allows, then resume the run."
_MAKE_ROOM: Final = "Make room, then resume the run."


def _trouble() -> tuple[type[BaseException], ...]:
    from aiohttp import ClientError as ConnectionTrouble
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return OSError, ValueError, ClientError, BotoCoreError, ResponseParserError, ConnectionTrouble


def _reply(error: BaseException) -> tuple[str, int]:
    """Return the error code and HTTP status that the store answered with; ("", 0) when it did not answer."""
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return str(response.get("Error", {}).get("Code", "")), int(status)
    return "", 0


def _is_there_already(error: OSError) -> bool:
    # s3fs says FileExistsError where the store names the condition that failed, else "invalid argument".
    return isinstance(error, FileExistsError) or _reply(error)[0] in ("PreconditionFailed", "412")


def _passes(error: BaseException) -> bool:
    """Return whether another try may get an answer: an overloaded store, or a connection that broke."""
    code, status = _reply(error)
    if code or status:
        return status in _PASSING_STATUS or code in _PASSING_CODES
    from aiohttp import ClientError as ConnectionTrouble
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import HTTPClientError, IncompleteReadError
    from botocore.parsers import ResponseParserError

    broken = NoConnection, HTTPClientError, IncompleteReadError, ResponseParserError, ConnectionTrouble, OSError
    return isinstance(error, broken)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
