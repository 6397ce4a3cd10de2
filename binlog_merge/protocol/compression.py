"""The compressed protocol: packets of the usual one, in frames.

    | length 3 | sequence 1 | length when expanded 3, or 0: not compressed | frame ... |

A frame may hold many packets, or a part of one. Compression begins behind the OK that ends the login, and frames have
sequence numbers of their own. Source:
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression.html.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, Self

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Buffer, Reader, pack_uint

FRAME_HEADER_LEN: Final = 7
LEAST_COMPRESSED: Final = 50
"""Bytes: what is less is sent as it is, as MySQL does."""
USUAL_ZSTD_LEVEL: Final = 3
_ZSTD_LEVELS: Final = range(1, 23)
_LARGEST_WINDOW: Final = 1 << 24
_PIECE: Final = 1 << 20
_ZLIB_LEVEL: Final = 3
"""Twice as fast as MySQL's 6, and no larger: MySQL compresses pieces of 16 KiB, and here they are larger."""


class Algorithm(Enum):
    """The two algorithms of the protocol."""

    ZLIB = "zlib"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The header of a frame; `expanded` is 0 if its bytes are not compressed."""

    length: int
    sequence: int
    expanded: int

    @classmethod
    def parse(cls, data: Buffer) -> Self:
        r = Reader(data, "header of a compressed packet")
        header = cls(r.uint(3, "length"), r.u8("sequence"), r.uint(3, "length when expanded"))
        r.done()
        return header

    def pack(self) -> bytes:
        return pack_uint(self.length, 3) + pack_uint(self.sequence, 1) + pack_uint(self.expanded, 3)


class _Codec(Protocol):
    def compress(self, data: Buffer) -> bytes: ...

    def expand(self, data: Buffer, size: int) -> bytes:
        """Return at most one byte more than `size`. Raises BinlogFormatError."""


class _Zlib:
    def compress(self, data: Buffer) -> bytes:
        return zlib.compress(data, _ZLIB_LEVEL)

    def expand(self, data: Buffer, size: int) -> bytes:
        try:
            return zlib.decompressobj().decompress(data, size + 1)
        except zlib.error as error:
            raise BinlogFormatError(f"a compressed packet cannot be expanded: {error}") from None


class _Zstd:
    def __init__(self, level: int) -> None:
        import zstandard

        self._failed = zstandard.ZstdError
        self._compressor = zstandard.ZstdCompressor(level=level)
        self._expander = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)

    def compress(self, data: Buffer) -> bytes:
        return bytes(self._compressor.compress(data))

    def expand(self, data: Buffer, size: int) -> bytes:
        # Not `decompress`: that makes room for as many bytes as the frame claims to have.
        try:
            with self._expander.stream_reader(data) as reader:
                return bytes(reader.read(size + 1))
        except self._failed as error:
            raise BinlogFormatError(f"a compressed packet cannot be expanded: {error}") from None


class Compression:
    """One side of a compressed connection. `level` is zstd's; one that zstd does not have is replaced by the usual."""

    def __init__(self, algorithm: Algorithm, level: int = USUAL_ZSTD_LEVEL) -> None:
        known = level if level in _ZSTD_LEVELS else USUAL_ZSTD_LEVEL
        self._codec: _Codec = _Zlib() if algorithm is Algorithm.ZLIB else _Zstd(known)

    def frames(self, data: memoryview, sequence: int) -> Iterator[bytes]:
        """Yield the frames of bytes; `sequence` is the first one's number, mod 256."""
        for number, at in enumerate(range(0, len(data), _PIECE), sequence):
            piece = data[at : at + _PIECE]
            packed = self._codec.compress(piece) if len(piece) >= LEAST_COMPRESSED else None
            if packed is None or len(packed) >= len(piece):
                yield FrameHeader(len(piece), number & 0xFF, 0).pack() + bytes(piece)
            else:
                yield FrameHeader(len(packed), number & 0xFF, len(piece)).pack() + packed

    def expand(self, header: FrameHeader, frame: Buffer) -> bytes:
        """Return the bytes of a frame. Raises BinlogFormatError unless they are as many as its header says."""
        if not header.expanded:
            return bytes(frame)
        data = self._codec.expand(frame, header.expanded)
        if len(data) != header.expanded:
            raise BinlogFormatError(f"a compressed packet has not the {header.expanded} bytes that it announces")
        return data
