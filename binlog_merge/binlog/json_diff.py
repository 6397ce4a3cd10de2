"""JSON differences, which PARTIAL_UPDATE_ROWS_EVENT has instead of a whole document.

    difference = operation 1 | path length packed, path | unless REMOVE: length packed, binary JSON value

A path is MySQL's text, `$.a."b c"[3]`. Applied in order to the before image's document, they yield the after image's.
Source: mysql-server `sql-common/json_diff.h` (enum_json_diff_operation), `json_diff.cc` (write_binary,
apply_json_diffs).

`whole_rows` applies them in rows of partial updates.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import MAX_DEPTH, JsonValue, decode_json, encode_json
from binlog_merge.binlog.rows import Cell, PartialJson, Row
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.wire import Buffer, Reader, pack_packed_bytes
from binlog_merge.errors import ConversionFailed


class JsonOperation(IntEnum):
    """`enum_json_diff_operation`."""

    REPLACE = 0
    INSERT = 1
    REMOVE = 2


@dataclass(frozen=True, slots=True)
class JsonDiff:
    """A difference; `data` is the binary JSON value, empty for REMOVE."""

    operation: JsonOperation
    path: str
    data: bytes = b""


Leg = str | int
"""A step of a path: a member name, or an array position."""

_LEG: Final = re.compile(
    r"""\s*(?: \.\s*("(?:[^"\\]|\\.)*") | \.\s*([^\s.\["]+) | \[\s*(\d{1,10})\s*\] )\s*""", re.VERBOSE | re.DOTALL
)


def parse_diffs(data: Buffer) -> tuple[JsonDiff, ...]:
    """Parse the bytes after the length prefix of a partial JSON cell."""
    r = Reader(data, "JSON differences")
    diffs: list[JsonDiff] = []
    while r.left():
        code = r.u8("operation")
        if code > JsonOperation.REMOVE:
            raise r.fail(f"operation {code} is not known")
        operation = JsonOperation(code)
        raw = r.packed_bytes("path")
        value = b"" if operation == JsonOperation.REMOVE else r.packed_bytes("value")
        try:
            diffs.append(JsonDiff(operation, raw.decode("utf-8"), value))
        except UnicodeDecodeError:
            raise r.fail("a path is not utf8") from None
    return tuple(diffs)


def pack_diffs(diffs: Sequence[JsonDiff]) -> bytes:
    """Return the bytes, without the cell's length prefix."""
    return b"".join(
        bytes([diff.operation])
        + pack_packed_bytes(diff.path.encode())
        + (b"" if diff.operation == JsonOperation.REMOVE else pack_packed_bytes(diff.data))
        for diff in diffs
    )


def path_legs(path: str) -> list[Leg]:
    """Return the steps of a path. Raises for wildcards and ranges, which differences never have."""
    text = path.lstrip()
    if not text.startswith("$"):
        raise BinlogFormatError(f"JSON path {path!r} does not begin with $")
    legs: list[Leg] = []
    pos = 1
    while pos < len(text):
        match = _LEG.match(text, pos)
        if match is None or len(legs) >= MAX_DEPTH:
            raise BinlogFormatError(f"JSON path {path!r} cannot be read")
        if match[1] is not None:
            try:
                legs.append(str(json.loads(match[1], strict=False)))
            except ValueError:
                raise BinlogFormatError(f"JSON path {path!r} cannot be read") from None
        else:
            legs.append(int(match[3]) if match[3] is not None else match[2])
        pos = match.end()
    return legs


def apply_diffs(document: JsonValue, diffs: Sequence[JsonDiff]) -> JsonValue:
    """Apply differences to `document`, in place, and return the result. Raises if a path does not exist."""
    for diff in diffs:
        legs = path_legs(diff.path)
        value = None if diff.operation == JsonOperation.REMOVE else decode_json(diff.data)
        if not legs:
            if diff.operation != JsonOperation.REPLACE:
                raise BinlogFormatError(f"JSON difference: {diff.operation.name} of the whole document")
            document = value
            continue
        parent = document
        for leg in legs[:-1]:
            parent = _step(parent, leg, diff)
        _change(parent, legs[-1], diff, value)
    return document


def _step(parent: Any, leg: Leg, diff: JsonDiff) -> Any:
    try:
        if isinstance(parent, dict) and isinstance(leg, str):
            return parent[leg]
        if isinstance(parent, list) and isinstance(leg, int):
            return parent[leg]
        if leg == 0 and isinstance(leg, int):
            return parent  # in MySQL, `[0]` of a value that is not an array is the value itself
    except (KeyError, IndexError):
        pass
    raise BinlogFormatError(f"JSON difference: {diff.path} is not in the document")


def _change(parent: Any, leg: Leg, diff: JsonDiff, value: JsonValue) -> None:
    exists = (isinstance(parent, dict) and leg in parent) or (
        isinstance(parent, list) and isinstance(leg, int) and leg < len(parent)
    )
    if isinstance(parent, dict) and isinstance(leg, str) and exists != (diff.operation == JsonOperation.INSERT):
        if diff.operation == JsonOperation.REMOVE:
            del parent[leg]
        else:
            parent[leg] = value
    elif isinstance(parent, list) and isinstance(leg, int) and diff.operation == JsonOperation.INSERT:
        parent.insert(leg, value)  # a position after the end appends
    elif isinstance(parent, list) and isinstance(leg, int) and exists:
        if diff.operation == JsonOperation.REMOVE:
            del parent[leg]
        else:
            parent[leg] = value
    else:
        raise BinlogFormatError(f"JSON difference: {diff.operation.name} of {diff.path} does not apply")


def apply_to_cell(before: Buffer, diffs: Buffer, length_bytes: int = 4) -> bytes:
    """Return the complete JSON cell after differences; both arguments and the result have their length prefix."""
    document = decode_json(memoryview(before)[length_bytes:])
    packed = encode_json(apply_diffs(document, parse_diffs(memoryview(diffs)[length_bytes:])))
    return len(packed).to_bytes(length_bytes, "little") + packed


def whole_row(row: Row, table: TableMap) -> Row:
    """Return a row with JSON differences applied to the documents of its before image."""
    before, after = row
    if before is None or after is None or not any(isinstance(cell, PartialJson) for cell in after):
        return row
    return before, tuple(_patched(table, i, before[i], cell) for i, cell in enumerate(after))


def _patched(table: TableMap, column: int, old: Cell, new: Cell) -> Cell:
    if not isinstance(new, PartialJson):
        return new
    if not isinstance(old, bytes | memoryview):
        raise no_document(table, column)
    return apply_to_cell(old, new.cell, table.metas[column])


class NoDocument(ConversionFailed):
    """A JSON difference to an unknown document; `name` is the table's."""

    name: tuple[str, str] = ("", "")


def no_document(table: TableMap, column: int) -> NoDocument:
    """Return the error for a JSON difference to an unknown document."""
    error = NoDocument(
        f"{table.schema}.{table.table}, column {column + 1}: JSON differences, and the value before is not there",
        remedy="the nodes must write binlog_row_image=FULL where they write partial JSON",
    )
    error.name = (table.schema, table.table)
    return error
