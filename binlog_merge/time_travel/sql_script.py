"""Undoing, or doing again, as a script for the mysql client: a transaction of the log becomes a transaction."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import ConfigError
from binlog_merge.log.log import Log
from binlog_merge.log.place import time_text
from binlog_merge.log.question import Selection
from binlog_merge.log.reader import Begin
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.log.table_changes import TableChanges, gtid_array
from binlog_merge.time_travel.blocks import Entries, blocks, by_transaction
from binlog_merge.time_travel.selection import Reader, Selected, touched_by
from binlog_merge.time_travel.statements import RowStatement, forward, inverse, key_of

SETTINGS: Final = (
    "SET NAMES utf8mb4;\n"
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00';\n"
)
_MOST_BYTES, _MOST_ROWS = 1 << 19, 1000
_OPS: Final = {"I": "insert", "U": "update", "D": "delete"}


@dataclass
class Counts:
    """How many rows a script changes, by the operations of its statements, and of how many transactions."""

    transactions: int = 0
    rows: Counter[str] = field(default_factory=Counter)


class Text(NamedTuple):
    """What comes of some transactions: `head` begins the first one, `rest` has all else but the last one's end.

    `first` and `last` are their ranks, in the order in which they come out; `rows` are counted by operation.
    """

    first: int
    last: int
    head: str
    rest: str
    transactions: int
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class SqlWriter:
    """Makes statements of rows: those that undo them, or `do_again`."""

    do_again: bool

    def block(self, chosen: list[TableChanges], backwards: bool) -> Text:
        """Return the text of a segment's transactions."""
        make = forward if self.do_again else inverse
        entries = [(each.events, each.rows, make(each)) for each in chosen]
        found = list(by_transaction(chosen[0].segment, entries, backwards))
        numbers = [number for number, _ in found]
        word = "does again" if self.do_again else "undoes"
        heads = [f"-- {word} {name}\nBEGIN;\n" for name in names(chosen[0], numbers, with_tso=True)]
        rest = [lines(found[0][1])]
        for head, (_, statements) in zip(heads[1:], found[1:], strict=True):
            rest += "COMMIT;\n", head, lines(statements)
        counts = Counter(statement.head[0] for _, _, made in entries for statement in made)
        first, last = chosen[0].transactions[[numbers[0], numbers[-1]], x.X_RANK].tolist()
        return Text(first, last, heads[0], "".join(rest), len(found), {_OPS[op]: n for op, n in counts.items()})


def script(reader: Reader, counts: Counts, do_again: bool = False) -> Iterator[str]:
    """Yield the text of the script. Raises what reading the rows does, before the first piece unless `do_again`."""
    rank = 0
    for text in blocks(reader, SqlWriter(do_again), backwards=not do_again):
        if text.first != rank:
            yield "COMMIT;\n" if rank else SETTINGS
            yield text.head
        counts.transactions += text.transactions - (text.first == rank)
        counts.rows.update(text.rows)
        yield text.rest
        rank = text.last
    if rank:
        yield "COMMIT;\n"


def names(changes: TableChanges, numbers: Sequence[int], with_tso: bool) -> Iterator[str]:
    """Yield what transactions of the segment of some rows are called in comments: GTID, TSO if wanted and known, time.

    `numbers` are their numbers in the segment.
    """
    facts = changes.transactions[numbers]
    gtids = gtid_array(np.arange(len(facts)), facts, changes.gtid_prefix).to_pylist()
    millis = (facts[:, x.X_COMMIT_US] // 1000).astype("datetime64[ms]")
    times = np.datetime_as_string(millis, unit="ms").tolist()
    for gtid, rank, tso, time in zip(gtids, *facts[:, [x.X_RANK, x.X_TSO]].T.tolist(), times, strict=True):
        name = gtid or f"transaction {rank}"
        yield f"{name}, TSO {tso}, committed {time}Z" if with_tso and tso >= 0 else f"{name}, committed {time}Z"


def lines(statements: Sequence[RowStatement]) -> str:
    """Return the lines of statements; neighbouring INSERTs with the same columns become one."""
    return "".join(line + ";\n" for line in _lines(statements))


def _lines(statements: Sequence[RowStatement]) -> Iterator[str]:
    waiting_head, rows, size = "", list[str](), 0
    for head, values in statements:
        if rows and (head != waiting_head or size > _MOST_BYTES or len(rows) >= _MOST_ROWS):
            yield waiting_head + ", ".join(rows)
            rows, size = [], 0
        if not values:
            yield head
            continue
        waiting_head = head
        rows.append(values)
        size += len(values)
    if rows:
        yield waiting_head + ", ".join(rows)


def pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield the statements, a transaction of the log as a transaction.

    Raises ConfigError for columns without the key's, UndoRefused for rows of which the log does not hold enough, and
    what reading the rows does.
    """
    yield from (text.encode("utf-8", "surrogateescape") for text in _texts(log, selection))


def _texts(log: Log, selection: Selection) -> Iterator[str]:
    only = None if selection.whole else frozenset(name.lower() for name in selection.shape.names)
    selected = Selected((selection.versions,), selection.first, selection.last, selection.where, selection.ops)
    reader, left, rank = Reader(log, selected), selection.limit, 0
    yield SETTINGS
    for piece in segments(log, selection.first, selection.last):
        if isinstance(piece, StatementAt):
            if touched_by(piece, selected.tables):
                yield from _ended(rank)
                rank = 0
                yield f"-- {_name(piece.begin)}: not carried out here: {piece.statement.line}\n"
            continue
        for chosen in reader.chosen_in(piece):
            segment = chosen[0].segment
            found = list(by_transaction(segment, _entries(chosen, only), backwards=False))
            called = names(chosen[0], [number for number, _ in found], with_tso=False)
            for (number, statements), name in zip(found, called, strict=True):
                if left == 0:
                    break
                if (now := int(segment.transactions[number, k.T_RANK])) != rank:
                    yield from _ended(rank)
                    yield f"-- {name}\nBEGIN;\n"
                    rank = now
                yield lines(statements[:left])
                left = None if left is None else max(0, left - len(statements))
        if left == 0:
            break
    yield from _ended(rank)


def _ended(rank: int) -> Iterator[str]:
    if rank:
        yield "COMMIT;\n"


def _entries(chosen: list[TableChanges], only: frozenset[str] | None) -> list[Entries[RowStatement]]:
    """Return the statements of a segment's rows, table by table."""
    for each in chosen:
        lacking = [each.table.columns[i].name for i in key_of(each.table) or ()]
        if only is not None and not only.issuperset(name.lower() for name in lacking):
            raise ConfigError(
                f"--columns: -o sql needs the columns of the key ({', '.join(lacking)})", remedy="leave --columns out"
            )
    return [(each.events, each.rows, forward(each, only)) for each in chosen]


def _name(begin: Begin) -> str:
    gtid = begin.gtid if ":" in begin.gtid else f"transaction {begin.rank}"
    return f"{gtid}, committed {time_text(begin.commit_us)}"
