"""How row images are decoded: the steps of the kernels, from what determines the values of each column."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlog_merge.binlog.arrow import padded_length
from binlog_merge.binlog.cell_length import DIGITS_TO_BYTES
from binlog_merge.binlog.cell_steps import CellSize, cell_size
from binlog_merge.binlog.columnar import Bytes, ColumnFacts
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import image_cells as k
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
    found = [number for count in digits if count for number in (DIGITS_TO_BYTES[count], 10**count)]
    return [*found, *[0] * (6 - len(found))]


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
