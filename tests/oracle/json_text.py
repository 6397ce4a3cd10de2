"""MySQL's binary JSON as text, and text as binary JSON: small documents, read and written by the book.

Source: the layout comment of mysql-server sql-common/json_binary.h.
"""

import json
import struct
from typing import Any

from tests.oracle.binlog import OracleError

_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<d"}


def to_value(data: bytes) -> Any:
    """Return the Python value of a document."""
    return _read(data[0], data, 1) if data else None


def _read(kind: int, data: bytes, at: int) -> Any:
    if kind in (0, 1, 2, 3):
        form, wide = ("<I", 4) if kind in (1, 3) else ("<H", 2)
        (count,) = struct.unpack_from(form, data, at)
        entry = at + 2 * wide
        keys = []
        if kind < 2:
            for _ in range(count):
                (place,) = struct.unpack_from(form, data, entry)
                (size,) = struct.unpack_from("<H", data, entry + wide)
                keys.append(data[at + place : at + place + size].decode())
                entry += wide + 2
        values = []
        for i in range(count):
            where = entry + i * (1 + wide)
            inner = data[where]
            inline = inner in (4, 5, 6) or (wide == 4 and inner in (7, 8))
            (place,) = struct.unpack_from(form, data, where + 1)
            values.append(_read(inner, data, where + 1 if inline else at + place))
        return dict(zip(keys, values, strict=True)) if kind < 2 else values
    if kind == 4:
        return {0: None, 1: True, 2: False}[data[at]]
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], data, at)[0]
    if kind == 12:
        size, shift = 0, 0
        while True:
            byte = data[at]
            size, shift, at = size | (byte & 0x7F) << shift, shift + 7, at + 1
            if byte < 0x80:
                return data[at : at + size].decode()
    raise OracleError(f"JSON values of type {kind} are not modelled")


def to_text(value: Any) -> str:
    """Return the text MySQL prints of a value."""
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e+", "e")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_text(k)}: {to_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def from_text(text: str) -> bytes:
    """Return the document of a text."""
    try:
        kind, data = _write(json.loads(text))
    except ValueError as error:
        raise OracleError(f"{text!r} is no JSON document") from error
    return bytes([kind]) + data


def _write(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, int):
        for kind, low, high in (
            (5, -(2**15), 2**15), (6, 0, 2**16), (7, -(2**31), 2**31), (8, 0, 2**32), (9, -(2**63), 2**63),
            (10, 0, 2**64),
        ):  # fmt: skip
            if low <= value < high:
                return kind, struct.pack(_NUMBERS[kind], value)
    if isinstance(value, float | int):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        if len(data) > 127:
            raise OracleError("long JSON strings are not modelled")
        return 12, bytes([len(data)]) + data
    keys = sorted((k.encode() for k in value), key=lambda k: (len(k), k)) if isinstance(value, dict) else []
    members = [_write(value[k.decode()]) for k in keys] if isinstance(value, dict) else [_write(v) for v in value]
    place = 4 + 4 * len(keys) + 3 * len(members)
    head, entries, tail = b"", b"", b""
    for key in keys:
        head += struct.pack("<HH", place + len(tail), len(key))
        tail += key
    for kind, data in members:
        if kind in (4, 5, 6):
            entries += bytes([kind]) + data.ljust(2, b"\0")
        else:
            entries += bytes([kind]) + struct.pack("<H", place + len(tail))
            tail += data
    if place + len(tail) > 0xFFFF:
        raise OracleError("large JSON documents are not modelled")
    return (0 if isinstance(value, dict) else 2), struct.pack(
        "<HH", len(members), place + len(tail)
    ) + head + entries + tail
