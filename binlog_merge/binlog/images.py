"""Row images of many events as Arrow arrays, decoded in one pass where every image has every column.

The values are those of `columnar.decode_column`, which decodes what this does not: images that lack columns, cells of
rare types and rare values. A side's arrays share one block of memory. A `Plan` holds the steps of the kernels, which
follow from what determines the values of each column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlog_merge.binlog.arrow import padded_length
from binlog_merge.binlog.cell_length import DIGITS_TO_BYTES
from binlog_merge.binlog.columnar import Bytes, ColumnFacts, decode_column, texts_of_members
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import image_cells as k
from binlog_merge.binlog.kernels.images import decode, finish_texts, measure
from binlog_merge.binlog.table_map import CellSize, cell_size
from snapshot_store.mysql.text.codecs import is_ascii_compatible, is_utf8

Numbers = npt.NDArray[np.int64]

_COPIED: Final = frozenset((T.TINY, T.SHORT, T.LONG, T.LONGLONG, T.FLOAT, T.DOUBLE))
_TEMPORAL: Final = frozenset((T.DATE, T.NEWDATE, T.TIME, T.TIME2, T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2))
_NUMBERS: Final = _TEMPORAL | {T.INT24, T.YEAR, T.BIT, T.ENUM, T.SET}
_TEXTS: Final = frozenset(
    (T.VARCHAR, T.VAR_STRING, T.STRING, T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.GEOMETRY)
)
MEMBERS: Final = frozenset((T.ENUM, T.SET))
_MOST_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Plan:
    """What the kernels do with each column, by side; `widths`: the bytes of a value in an array."""

    facts: tuple[ColumnFacts, ...]
    columns: tuple[int, ...]
    ops: tuple[int, ...]
    widths: tuple[int, ...]
    steps: Bytes
    measured: Numbers
    programs: Numbers

    def holds(self, column: int, text: int) -> bool:
        """Return whether the bytes of a column's texts, which are not ASCII, are what its array has."""
        facts = self.facts[column]
        return pa.types.is_binary(facts.type) or (text == k.UTF8 and is_utf8(facts.charset))


def plan_of(facts: tuple[ColumnFacts, ...], columns: tuple[int, ...], sides: tuple[int, ...]) -> Plan | None:
    """Return how to decode `columns` of some sides, None if there is a type whose cells have no known length."""
    try:
        sizes = [cell_size(one.code, one.meta) for one in facts]
    except BinlogFormatError:
        return None
    wanted = [_step(one, size) for one, size in zip(facts, sizes, strict=True)]
    passed = [
        _passed(number, size, step[k.S_PAD]) for number, (size, step) in enumerate(zip(sizes, wanted, strict=True))
    ]
    for number in range(len(facts)):
        wanted[number][k.S_COLUMN] = number
        if number not in columns:
            wanted[number] = passed[number]
    steps: list[list[int]] = []
    spans = []
    for some in (passed, wanted):
        for one in (list(_merged(some)), [*some, _end(0)]):
            spans.append((len(steps), len(steps) + len(one)))
            steps += one
    measured, decoded = (*spans[0], *spans[1]), (*spans[2], *spans[3])
    programs = [decoded if side in sides else measured for side in range(2)]
    ops, widths = ([wanted[i][which] for i in range(len(facts))] for which in (k.S_OP, k.S_WIDTH))
    records = np.array(steps, np.int64).view(np.uint8).reshape(-1)
    return Plan(
        facts, columns, tuple(ops), tuple(widths), records, np.array(measured, np.int64),
        np.array(programs, np.int64),
    )  # fmt: skip


def _step(facts: ColumnFacts, size: CellSize) -> list[int]:
    """Return how to decode a column."""
    step = [0] * k.STEP
    step[k.S_SIZE], step[k.S_PREFIX], step[k.S_MOST] = size
    step[k.S_KIND], step[k.S_META], step[k.S_SIGNED] = facts.kind, facts.meta, not facts.unsigned
    step[k.S_OP] = _op(facts)
    if step[k.S_OP] == k.TEXT:
        binary = pa.types.is_binary(facts.type)
        step[k.S_PAD], step[k.S_META] = padded_length(facts.code, facts.meta, facts.charset), not binary
    elif step[k.S_OP] == k.DECIMAL:
        step[k.S_WIDTH] = 16
        step[k.S_GROUPS :] = _groups(facts.meta & 0xFF, facts.meta >> 8)
    elif step[k.S_OP] == k.CELL:
        step[k.S_WIDTH] = 4
    else:
        member = facts.kind in MEMBERS
        step[k.S_WIDTH] = 8 if member else facts.type.bit_width // 8
        step[k.S_SIGNED] = not (facts.unsigned or member)
    return step


def _op(facts: ColumnFacts) -> int:
    kind = facts.kind
    if kind in _COPIED:
        return k.COPY
    if kind in _NUMBERS and not (facts.temporal_text and kind in _TEMPORAL):
        return k.DATETIME if kind == T.DATETIME2 else k.NUMBER
    if kind == T.NEWDECIMAL and facts.meta & 0xFF <= _MOST_DIGITS:
        return k.DECIMAL
    if kind in _TEXTS and (
        pa.types.is_binary(facts.type) or is_utf8(facts.charset) or is_ascii_compatible(facts.charset)
    ):
        return k.TEXT
    return k.CELL


def _groups(precision: int, scale: int) -> list[int]:
    """Return the bytes and the power of ten of each group of digits; nine digits are a group."""
    whole = precision - scale
    digits = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    groups = [number for count in digits if count for number in (DIGITS_TO_BYTES[count], 10**count)]
    return [*groups, *[0] * (6 - len(groups))]


def _passed(number: int, size: CellSize, pad: int) -> list[int]:
    """Return how to pass over a column."""
    step = [0] * k.STEP
    step[k.S_COLUMN], step[k.S_PAD] = number, pad
    step[k.S_SIZE], step[k.S_PREFIX], step[k.S_MOST] = size
    return step


def _end(before: int) -> list[int]:
    step = [0] * k.STEP
    step[k.S_BEFORE], step[k.S_COLUMN] = before, -1
    return step


def _merged(steps: Sequence[list[int]]) -> Iterator[list[int]]:
    """Yield the steps of images without NULLs: cells of a fixed length that are passed over are no steps."""
    before = 0
    for step in steps:
        if step[k.S_OP] == k.SKIP and not step[k.S_PREFIX]:
            before += step[k.S_SIZE]
            continue
        yield [before, *step[1:]]
        before = 0
    yield _end(before)


_MOST_BYTES: Final = (1 << 31) - 1
"""Offsets have 31 bits."""
_MOST_ALIKE: Final = 2
"""How many times as many bytes, or rows, the events before are a measure of: small rows tell nothing of large ones."""


@dataclass(frozen=True, slots=True)
class Images:
    """The decoded images of `rows` rows; `counts` are the rows of each event, `missing` how many rows lack a side."""

    buffer: Bytes
    rows: int
    counts: Numbers
    missing: Sequence[int]
    plan: Plan
    out: Bytes
    memory: Any
    there: Sequence[int]
    places: Sequence[Sequence[Sequence[int]]]

    def mask(self, side: int) -> Any:
        """Return the validity bitmap of the rows that have a side, None if all have it."""
        width = (self.rows + 7) // 8
        return self.memory.slice(self.there[side], width) if self.missing[side] else None

    def array(self, side: int, column: int) -> Any:
        """Return the values of a column, of `facts.type`; None if it has a rare one.

        Raises what `decode_column` raises for types that it decodes cell by cell.
        """
        facts, op, rows = self.plan.facts[column], self.plan.ops[column], self.rows
        values, offsets, nulls, _, some, odd, text, size = self.places[side][column]
        if op == k.CELL:
            starts, sizes = (self.out[at : at + 4 * rows].view(np.int32) for at in (values, offsets))
            return decode_column(facts, self.buffer, starts, sizes)
        if odd or (text != k.ASCII and not self.plan.holds(column, text)):
            return None
        mask, missing = self._mask(side, nulls, some), some + self.missing[side]
        data = self.memory.slice(values, size if op == k.TEXT else rows * self.plan.widths[column])
        if op == k.TEXT:
            buffers = [mask, self.memory.slice(offsets, 4 * rows + 4), data]
            return pa.Array.from_buffers(facts.type, rows, buffers, missing)
        if facts.kind not in MEMBERS or facts.members is None:
            return pa.Array.from_buffers(facts.type, rows, [mask, data], missing)
        return texts_of_members(facts, pa.Array.from_buffers(pa.uint64(), rows, [mask, data], missing))

    def _mask(self, side: int, nulls: int, some: int) -> Any:
        """Return the validity bitmap of a column that is NULL in `some` rows; None if it has a value in all rows."""
        if not some:
            return self.mask(side)
        width = (self.rows + 7) // 8
        if not self.missing[side]:
            return self.memory.slice(nulls, width)
        there = self.there[side]
        return pa.py_buffer(self.out[nulls : nulls + width] & self.out[there : there + width])


class ImageDecoder:
    """Decodes some columns of some sides of a table's rows; events that follow each other need similar room."""

    def __init__(self, facts: Sequence[ColumnFacts], columns: Sequence[int], sides: Sequence[int]) -> None:
        self._sides = tuple(sides)
        self._plan = plan_of(tuple(facts), tuple(columns), self._sides) if facts else None
        self._days = np.full(2 * k.DAYS, -(1 << 62), np.int64).view(np.uint8)
        self._before: tuple[int, int, Numbers] | None = None

    def decode(self, buffer: Bytes, events: Numbers) -> Images | None:
        """Decode the rows of events (columns: begin of the body, end of the body, type).

        None if a row image does not have all columns, or does not fit the table's columns: `columnar.cut_rows` tells.
        """
        plan = self._plan
        if plan is None or len(buffer) > _MOST_BYTES:
            return None
        size = int((events[:, 1] - events[:, 0]).sum())
        guess = self._guessed(size)
        found = None if guess is None else self._decoded(plan, buffer, events, *guess)
        if found is None or guess is None or guess[0] > _MOST_ALIKE * found.rows + 128:  # room that nobody needs
            texts = np.zeros((2, len(plan.facts)), np.int64)
            rows = int(measure(buffer, events, len(plan.facts), plan.steps, plan.measured, texts))
            if rows < 0 or texts.max() > _MOST_BYTES:
                return None
            found = self._decoded(plan, buffer, events, rows, texts)
        if found is not None:
            self._before = size, found.rows, np.array(found.places)[:, :, k.F_BYTES]
        return found

    def _guessed(self, size: int) -> tuple[int, Numbers] | None:
        """Return the rows of so many bytes, and the bytes of their texts, and a tenth; None if nothing is known."""
        if self._before is None or not 0 < size <= _MOST_ALIKE * self._before[0]:
            return None
        known, rows, texts = self._before
        share = 1.1 * size / known
        texts = (texts * share).astype(np.int64) + 4096
        return (int(rows * share) + 64, texts) if texts.max() <= _MOST_BYTES else None

    def _decoded(self, plan: Plan, buffer: Bytes, events: Numbers, room: int, texts: Numbers) -> Images | None:
        """Decode the rows, if there is room for them."""
        places, ones, zeros, size = _places(plan, self._sides, room, texts.tolist())
        out = np.empty(size, np.uint8)
        out[:ones], out[ones:zeros] = 0xFF, 0
        columns, counts, missing = len(plan.facts), np.empty(len(events), np.int64), np.zeros(2, np.int64)
        there, found = _there(room), np.array(places, np.int64)
        of_columns = found.view(np.uint8).reshape(-1)
        arguments = plan.steps, plan.programs, of_columns, room, there, out, counts, missing, self._days
        rows = int(decode(buffer, events, columns, *arguments))
        if rows < 0:
            return None
        finish_texts(columns, plan.steps, plan.programs, of_columns, rows, missing, out)
        lacking, masks = missing.tolist(), there.tolist()
        return Images(buffer, rows, counts, lacking, plan, out, pa.py_buffer(out), masks, found.tolist())


def _places(
    plan: Plan, sides: Sequence[int], rows: int, texts: Sequence[Sequence[int]]
) -> tuple[list[list[list[int]]], int, int, int]:
    """Return where the buffers of the columns are, behind the sides' bitmaps.

    Bitmaps and the lengths of cells come first, then values and offsets, then texts: the ends of each are returned.
    """
    places = [[[0] * k.PLACE for _ in plan.facts] for _ in range(2)]
    chosen = [(places[side][column], plan.ops[column], side, column) for side in sides for column in plan.columns]
    width, four = _aligned((rows + 7) // 8), _aligned(4 * rows + 4)
    at = 2 * width  # of rows that have a side
    for place, op, _, _ in chosen:
        place[k.O_NULLS] = at
        at += width
        if op == k.CELL:
            place[k.O_OFFSETS] = at
            at += four
    ones = at
    for place, op, _, column in chosen:
        place[k.O_OFFSETS if op == k.TEXT else k.O_VALUES] = at
        at += four if op == k.TEXT else _aligned(rows * plan.widths[column])
    zeros = at
    for place, op, side, column in chosen:
        if op == k.TEXT:
            place[k.O_VALUES], place[k.O_END] = at, at + texts[side][column]
            at += _aligned(texts[side][column] + k.SLACK)
    return places, ones, zeros, at


def _there(room: int) -> Numbers:
    """Return where the bitmaps of the rows that have a side are."""
    return np.array([0, _aligned((room + 7) // 8)], np.int64)


def _aligned(size: int) -> int:
    return (size + 63) & ~63
