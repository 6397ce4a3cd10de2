"""Puts the statements of distributed transactions in order, where no trace ids tell it: see `gather.arrange`.

Most transactions need little for it. They have one branch; or no table of which one branch frees values and another
takes some, as the types of their rows events tell; or their updates leave the keys alone, as a kernel finds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import DELETE_TYPES, WRITE_TYPES
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import trace as t
from binlog_merge.binlog.kernels.exchanges import E_FIELDS, NEAR, PASSED, may_exchange
from binlog_merge.errors import ChecksumMismatch, KeysInDoubt
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.gather.arrange import Statement, arranged
from binlog_merge.pipeline.gather.key_changes import (
    FREES,
    NO_CHANGES,
    TAKES,
    Changes,
    key_changes,
    may_free,
    may_take,
)
from binlog_merge.pipeline.gather.keyed import KEYS_OF_A_TABLE
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.rows_events import Bytes, rows_in_window
from binlog_merge.pipeline.gather.traces import Window

Ints = npt.NDArray[np.int64]
MOST_CHANGES: Final = 1 << 19
"""Changes of a transaction's keys that are held, of about a kilobyte each while they are put in order."""
_DELETES: Final = sorted(map(int, DELETE_TYPES))
_WRITES: Final = sorted(map(int, WRITE_TYPES))


@dataclass(frozen=True, slots=True)
class Doubt:
    """A transaction whose rows may be in no order that keeps a table's keys unique. `certain`: there is none."""

    row: int  # of its first branch
    table: tuple[str, str]
    certain: bool


def no_order(doubts: Sequence[Doubt], row: int) -> KeysInDoubt:
    """Return the error about a transaction that begins at a row, and whose rows no order keeps unique."""
    names = ", ".join(".".join(doubt.table) for doubt in doubts if doubt.row == row and doubt.certain)
    return KeysInDoubt(
        f"a distributed transaction exchanges values of a unique key of {names} between its branches, and no order of "
        "its rows keeps them unique"
    )


def window_in_order(
    plans: PlanTable, buffer: Bytes, read: Window, rows: Rows, start: int
) -> tuple[Window, tuple[Doubt, ...]]:
    """Return a window with the statements of its transactions in order, and what is in doubt."""
    concerned = _of_many_branches(read)
    if plans.filter is not None:
        concerned &= ~plans.filter.leaves_out(read.keys[:, k.K_TSO])
    chosen = np.flatnonzero(concerned)
    if not len(chosen):
        return read, ()
    segments, commit_us = read.segments[chosen], read.keys[chosen, k.K_COMMIT_US]
    found = rows_in_window(plans, buffer, segments, read.row[chosen], rows, start, k.KEYED)
    of = read.begins[chosen][found[:, k.F_SEGMENT]]  # the transaction of each event
    suspected = suspects(plans, buffer, found, of)
    left = suspected != PASSED
    if not left.any():
        return read, ()
    found, of, near = found[left], of[left], suspected[left] == NEAR
    changes = key_changes(plans, buffer, commit_us, found[near], touched=False)
    crowded = np.flatnonzero(np.bincount(of[near][changes.event]) > MOST_CHANGES)
    exchange = transactions_that_exchange(of[near], found[near, k.F_SEGMENT], changes)
    doubts: list[Doubt] = []
    orders: dict[int, Ints] = {}
    for begin in np.union1d(crowded, exchange).tolist():
        own = found[of == begin]
        branches = np.flatnonzero(read.begins[chosen] == begin)
        changes = NO_CHANGES if begin in crowded else key_changes(plans, buffer, commit_us, own, touched=True)
        if begin in crowded or len(changes) > MOST_CHANGES:
            order, doubted = by_branch(plans, branches.tolist(), found[near & (of == begin)], start + begin)
            orders[begin] = np.column_stack([chosen[order], segments[order][:, [k.S_POS, k.S_END]]])
        else:
            pieces = _pieces(buffer, segments, branches)
            order, doubted = in_order(plans, pieces, own, changes, start + begin)
            orders[begin] = np.column_stack([chosen[pieces[order, t.P_SEGMENT]], pieces[order][:, [t.P_POS, t.P_END]]])
        doubts += doubted
    return _put_together(read, orders) if orders else read, tuple(doubts)


def _of_many_branches(read: Window) -> npt.NDArray[np.bool_]:
    """Return which segments are of transactions with several branches whose order no hint gives."""
    segments, number = read.segments, np.cumsum(read.segments[:, k.S_FIRST] != 0) - 1
    count = np.bincount(number)
    settled = np.bincount(number, segments[:, k.S_HINTED] | segments[:, k.S_DDL]) > 0
    many: npt.NDArray[np.bool_] = ((count > 1) & ~settled)[number]
    return many


def suspects(plans: PlanTable, buffer: Bytes, found: Ints, of: Ints, most: int | None = None) -> Bytes:
    """Return what each rows event is, of transactions whose branches may exchange values: see `kernels.exchanges`.

    `of` is the transaction of each. A transaction with more changes than `most`, MOST_CHANGES by default, is judged by
    the types of its events alone, which need not be in the buffer.
    """
    table_of: Ints = np.array([0, *(keyed.number for keyed in plans.keyed)], np.int64)
    tables, out = np.zeros((int(table_of.max()) + 1, E_FIELDS), np.int64), np.zeros(len(found), np.uint8)
    may_exchange(buffer, plans.arrays, found, of, table_of, MOST_CHANGES if most is None else most, tables, out)
    return out


def transactions_that_exchange(of: Ints, branch: Ints, changes: Changes) -> Ints:
    """Return the transactions in which one branch frees a value that another takes, or may do so.

    `of` and `branch` are those of each event.
    """
    transaction, own = of[changes.event], branch[changes.event]
    frees, takes, clear = changes.sign == FREES, changes.sign == TAKES, changes.clear != 0
    found = []
    for values, freeing, taking in (
        (changes.value, frees & clear, takes & clear),
        (0 * changes.value, frees & ~clear, takes),
        (0 * changes.value, frees, takes & ~clear),
    ):
        if not (freeing.any() and taking.any()):
            continue
        which = np.flatnonzero(freeing | taking)
        groups, examples = _groups(transaction[which], changes.key[which], values[which])
        between = _between_branches(groups, own[which], freeing[which], taking[which])
        found.append(transaction[which][examples[between]])
    return np.unique(np.concatenate(found)) if found else of[:0]


def _groups(*columns: Ints) -> tuple[Ints, Ints]:
    """Number the distinct rows of some columns; return the number of each row, and a row of each number."""
    order = np.lexsort(columns)
    new = np.ones(len(order), np.bool_)
    new[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(new) - 1
    return groups, order[new]


def _between_branches(
    groups: Ints, branch: Ints, frees: npt.NDArray[np.bool_], takes: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return the groups in which one branch frees and another one takes."""
    count = int(groups.max()) + 1 if len(groups) else 0
    least, most = np.full((2, count), np.iinfo(np.int64).max), np.full((2, count), -1)
    for side, mask in enumerate((frees, takes)):
        np.minimum.at(least[side], groups[mask], branch[mask])
        np.maximum.at(most[side], groups[mask], branch[mask])
    both = (most >= 0).all(axis=0)
    one = (least.min(axis=0) == most.max(axis=0)) & both
    return both & ~one


def in_order(
    plans: PlanTable, pieces: Ints, found: Ints, changes: Changes, row: int
) -> tuple[Sequence[int], tuple[Doubt, ...]]:
    """Return the order of the pieces (P_*) of the transaction that begins at a row, and what is in doubt, from its rows
    events and changes.

    `found` has their places in the same buffer, or file, as the pieces of their segment.
    """
    piece_of = np.empty(len(found), np.int64)
    for segment in np.unique(pieces[:, t.P_SEGMENT]).tolist():
        own, events = np.flatnonzero(pieces[:, t.P_SEGMENT] == segment), found[:, k.F_SEGMENT] == segment
        piece_of[events] = own[np.searchsorted(pieces[own, t.P_POS], found[events, k.F_EVENT], "right") - 1]
    tables = plans.arrays.plans[found[:, k.F_PLAN], k.KEYED] - 1
    arrangement = arranged(
        list(_statements(pieces, piece_of, found[:, k.F_KIND], changes)),
        any(plans.keyed[table].refers for table in np.unique(tables).tolist()),
    )
    names = {keyed.number: keyed.name for keyed in plans.keyed}
    doubts = {(names[key // KEYS_OF_A_TABLE], False) for key in arrangement.doubted}
    doubts |= {(names[key // KEYS_OF_A_TABLE], True) for key in arrangement.excluded}
    return arrangement.order, tuple(Doubt(row, *doubt) for doubt in sorted(doubts))


def by_branch(
    plans: PlanTable, branches: Sequence[int], found: Ints, row: int
) -> tuple[Sequence[int], tuple[Doubt, ...]]:
    """Return the branches of a transaction with more changes than are held, in order, and what is in doubt.

    Those that only free values come first, and those that only take some last. It is in doubt if one does both. `found`
    are the rows events of tables of which one branch may free what another takes.
    """
    frees = set(found[may_free(found[:, k.F_KIND]), k.F_SEGMENT].tolist())
    takes = set(found[may_take(found[:, k.F_KIND]), k.F_SEGMENT].tolist())
    order = sorted(branches, key=lambda branch: (branch in takes) - (branch in frees))
    tables = np.unique(plans.arrays.plans[found[:, k.F_PLAN], k.KEYED] - 1).tolist() if frees & takes else []
    doubted = sorted({plans.keyed[table].name for table in tables})
    return order, tuple(Doubt(row, name, False) for name in doubted)


def _statements(pieces: Ints, piece_of: Ints, kinds: Ints, changes: Changes) -> Iterator[Statement]:
    of = piece_of[changes.event]
    in_pieces = np.argsort(of, kind="stable")
    ends = np.searchsorted(of[in_pieces], np.arange(len(pieces) + 1))
    deletes, others, updates = (np.zeros(len(pieces), np.bool_) for _ in range(3))
    deletes[piece_of[np.isin(kinds, _DELETES)]] = True
    others[piece_of[~np.isin(kinds, _DELETES)]] = True
    updates[piece_of[~np.isin(kinds, _WRITES)]] = True
    columns = (changes.key, changes.value, changes.sign, changes.clear != 0)
    for number in range(len(pieces)):
        own = in_pieces[ends[number] : ends[number + 1]]
        listed = list(zip(*(column[own].tolist() for column in columns), strict=True))
        only_deletes = bool(deletes[number] and not others[number])
        yield Statement(int(pieces[number, t.P_SEGMENT]), listed, only_deletes, not updates[number])


def _pieces(buffer: Bytes, segments: Ints, branches: Column) -> Ints:
    """Cut branches into statements: from ROWS_QUERY event or first table map to the last rows event."""
    pieces: Ints = np.zeros((64, t.P_COLUMNS), np.int64)
    found, count = np.zeros(4, np.int64), 0
    for branch in branches.tolist():
        at, end, crc = (int(segments[branch, column]) for column in (k.S_POS, k.S_END, k.S_CRC))
        while True:
            now = int(t.cut_pieces(buffer, at, end, crc, branch, pieces, count, found))
            if now == -2:
                raise ChecksumMismatch("an event's length is impossible; it was right when the file was scanned")
            if now >= 0:
                break
            pieces = np.concatenate([pieces, np.zeros_like(pieces)])
        count = now
    return pieces[:count]


def _put_together(read: Window, orders: dict[int, Ints]) -> Window:
    """Return a window in which some transactions have their pieces (segment, begin, end) in another order."""
    whole = np.column_stack([np.arange(len(read.segments)), read.segments[:, [k.S_POS, k.S_END]]])
    parts, done = [], 0
    for begin, order in sorted(orders.items()):
        start, stop = np.searchsorted(read.begins, [begin, begin + 1]).tolist()
        parts += [whole[done:start], order]
        done = stop
    whole = np.concatenate([*parts, whole[done:]])
    of = whole[:, 0]
    segments, begins = read.segments[of], read.begins[of]
    segments[:, k.S_POS], segments[:, k.S_END] = whole[:, 1], whole[:, 2]
    new = np.ones(len(of), np.int64)
    new[1:] = begins[1:] != begins[:-1]
    segments[:, k.S_FIRST] = new
    segments[:-1, k.S_LAST], segments[-1, k.S_LAST] = new[1:], 1
    firsts = np.flatnonzero(read.segments[:, k.S_FIRST])[np.cumsum(new) - 1]
    segments[:, k.S_BYTES] = np.where(new != 0, read.segments[firsts, k.S_BYTES], 0)
    return Window(segments, read.keys[firsts], read.row[of], begins)
