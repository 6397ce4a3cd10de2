"""Shapes in MySQL's binary form as Well-Known Text, written as the Java Topology Suite does: POINT (1 2)."""

import struct
from typing import Final

import numpy as np

_NAMES: Final = (
    "",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
)
_MOST_DEPTH: Final = 64


def wkt_of(cell: bytes) -> str:
    """Return the text of a shape: four bytes of its SRID, which the text does not have, and Well-Known Binary.

    Raises ValueError for bytes that are no shape.
    """
    try:
        text, at = _shape(cell, 4, 0)
    except (struct.error, IndexError, RecursionError):
        raise ValueError("the bytes of a shape end too early") from None
    if at != len(cell):
        raise ValueError("a shape has more bytes than it needs")
    return text


def _shape(cell: bytes, at: int, depth: int) -> tuple[str, int]:
    order = "<" if cell[at] == 1 else ">"
    (kind,) = struct.unpack_from(f"{order}I", cell, at + 1)
    if not 1 <= kind <= 7 or depth > _MOST_DEPTH:
        raise ValueError(f"a shape of kind {kind}")
    body, at = _body(cell, at + 5, order, kind, depth)
    return f"{_NAMES[kind]} {body}", at


def _body(cell: bytes, at: int, order: str, kind: int, depth: int) -> tuple[str, int]:
    if kind == 1:
        text, at = _point(cell, at, order)
        return f"({text})", at
    (count,) = struct.unpack_from(f"{order}I", cell, at)
    at += 4
    parts = []
    for _ in range(count):
        if kind == 2:
            text, at = _point(cell, at, order)
        elif kind == 3:
            text, at = _body(cell, at, order, 2, depth)
        else:
            text, at = _shape(cell, at, depth + 1)
            text = text if kind == 7 else text.partition(" ")[2]
        parts.append(text)
    return (f"({', '.join(parts)})" if parts else "EMPTY"), at


def _point(cell: bytes, at: int, order: str) -> tuple[str, int]:
    x, y = struct.unpack_from(f"{order}2d", cell, at)
    return f"{_number(x)} {_number(y)}", at + 16


def _number(value: float) -> str:
    return str(np.format_float_positional(value, unique=True, trim="-"))
