"""Decoding of cells to Python values, by column type: the mirror of `encode`."""

import struct
from collections.abc import Callable
from typing import Any, Final

from binlog_merge.binlog.cell_length import cell_length, real_type, string_max_length, type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decimals import decode_decimal
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import decode_json
from binlog_merge.binlog.temporal import decode_temporal
from binlog_merge.binlog.wire import Buffer
from snapshot_store.mysql.text.codecs import text_or_bytes


def decode_cell(type_code: int, meta: int, data: Buffer, unsigned: bool = False, charset: str = "utf8mb4") -> Any:
    """Return the value of a cell that `split_rows` cut, its length prefix included.

    int, float, Decimal; str, or bytes for `binary` and for bytes invalid in `charset`; date, datetime (UTC for
    TIMESTAMP), timedelta, or MySQL's text for dates that Python cannot represent; ENUM's index, SET's bits and BIT as
    int; JSON as from `json_binary.decode_json`; VECTOR as a tuple of floats; GEOMETRY as bytes (SRID, then WKB);
    MariaDB's compressed columns as the bytes that are stored.
    """
    if cell_length(type_code, meta, data, 0) != len(data):
        raise BinlogFormatError(f"{type_name(type_code)} cell of {len(data)} bytes is longer than its value")
    kind = real_type(type_code, meta)
    return _DECODE[kind](kind, meta, data, unsigned, charset)


_Decode = Callable[[int, int, Buffer, bool, str], Any]


def _int(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> int:
    return int.from_bytes(data, "little", signed=not unsigned)


def _year(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> int:
    return data[0] + 1900 if data[0] else 0


def _float(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> Any:
    return struct.unpack("<f" if kind == T.FLOAT else "<d", data)[0]


def _decimal(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> Any:
    return decode_decimal(data, meta & 0xFF, meta >> 8)


def _payload(kind: int, meta: int, data: Buffer) -> bytes:
    """Return a string's bytes without the length prefix."""
    if kind in (T.VARCHAR, T.VAR_STRING, T.VARCHAR_COMPRESSED):
        return bytes(data[1 if meta < 256 else 2 :])
    if kind == T.STRING:
        return bytes(data[1 if string_max_length(meta) < 256 else 2 :])
    return bytes(data[meta:])


def _text(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> str | bytes:
    return text_or_bytes(charset, _payload(kind, meta, data))


def _bytes(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> bytes:
    return _payload(kind, meta, data)


def _member(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> int:
    return int.from_bytes(data, "little")


def _bit(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> int:
    return int.from_bytes(data, "big")


def _json(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> Any:
    return decode_json(memoryview(data)[meta:])


def _vector(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> tuple[float, ...]:
    raw = _payload(kind, meta, data)
    if len(raw) % 4:
        raise BinlogFormatError(f"VECTOR of {len(raw)} bytes is no sequence of floats")
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def _temporal(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> Any:
    return decode_temporal(kind, meta if kind in (T.TIME2, T.DATETIME2, T.TIMESTAMP2) else 0, data)


def _null(kind: int, meta: int, data: Buffer, unsigned: bool, charset: str) -> None:
    return None


_DECODE: Final[dict[int, _Decode]] = {
    **dict.fromkeys((T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG), _int),
    **dict.fromkeys((T.FLOAT, T.DOUBLE), _float),
    **dict.fromkeys((T.VARCHAR, T.VAR_STRING, T.STRING, T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB), _text),
    **dict.fromkeys((T.ENUM, T.SET), _member),
    **dict.fromkeys(
        (T.DATE, T.NEWDATE, T.TIME, T.TIME2, T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2), _temporal
    ),
    T.NULL: _null,
    T.YEAR: _year,
    T.NEWDECIMAL: _decimal,
    T.GEOMETRY: _bytes,
    T.BLOB_COMPRESSED: _bytes,
    T.VARCHAR_COMPRESSED: _bytes,
    T.BIT: _bit,
    T.JSON: _json,
    T.VECTOR: _vector,
}
