"""Unpacking an answer in small steps, so that a small body cannot become a large one in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

STEP_BYTES: Final = 64 * 1024
"""The most that one step gives."""

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class Damaged(Exception):
    """What came is no gzip."""


class Unpacker:
    """Unpacks gzip, also of several members, as it comes."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._started = False

    @property
    def is_whole(self) -> bool:
        """Return whether the packed data has come to its end; nothing at all counts as whole."""
        return self._member.eof or not self._started

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` unpacks to, at most STEP_BYTES at a time. Raises Damaged."""
        while data:
            if self._member.eof:
                if not data.strip(b"\0"):
                    return
                self._member = zlib.decompressobj(_GZIP_WINDOW)
            self._started = True
            yield from self._unpack(data)
            data = self._member.unused_data

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        more = True
        while more and not self._member.eof:
            try:
                piece = self._member.decompress(data, STEP_BYTES)
            except zlib.error:
                raise Damaged from None
            data = self._member.unconsumed_tail
            # A full step may have left more inside, even with nothing left to read.
            more = bool(data) or len(piece) == STEP_BYTES
            if piece:
                yield piece
