"""Undoing, or doing again, as a script for the mysql client: a transaction of the log becomes a transaction."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.log.places_in_log import time_text
from binlog_merge.log.segments import Segment
from binlog_merge.undo.blocks import Entry, Part, parts
from binlog_merge.undo.selection import Chosen, Reader
from binlog_merge.undo.statements import RowStatement, forward, inverse

SETTINGS: Final = (
    "SET NAMES utf8mb4;\n"
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00';\n"
)
_MOST_BYTES, _MOST_ROWS = 1 << 19, 1000
_OPS: Final = {"I": "insert", "U": "update", "D": "delete"}

Joined = tuple[str, dict[str, int]]
"""Lines of statements, and how many rows they have by operation."""


@dataclass
class Counts:
    """How many rows a script changes, by the operations of its statements, and of how many transactions."""

    transactions: int = 0
    rows: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class SqlWriter:
    """Makes statements of rows: those that undo them, or `do_again`."""

    do_again: bool

    def rows(self, segment: Segment, chosen: Chosen) -> list[Entry[RowStatement]]:
        """Return a statement for each row."""
        events = chosen.changes.events[chosen.changes.cut.events].tolist()
        of = segment.events[:, k.E_TRANSACTION].tolist()
        made = forward(chosen) if self.do_again else inverse(chosen)
        return [(of[events[row]], events[row], row, statement) for row, statement in made]

    def joined(self, rows: Sequence[RowStatement]) -> Joined:
        """Return the statements' lines; neighbouring INSERTs with the same columns become one."""
        counts = Counter(_OPS[head[0]] for head, _ in rows)
        return "".join(line + ";\n" for line in _lines(rows)), dict(counts)


def script(reader: Reader, counts: Counts, do_again: bool = False) -> Iterator[str]:
    """Yield the text of the script. Raises what reading the rows does, before the first piece unless `do_again`."""
    word = "does again" if do_again else "undoes"
    rank = 0
    for part in parts(reader, SqlWriter(do_again), backwards=not do_again):
        if rank == 0:
            yield SETTINGS
        if part.begin.rank != rank:
            if rank:
                yield "COMMIT;\n"
            rank = part.begin.rank
            counts.transactions += 1
            yield f"-- {word} {_name(part)}\nBEGIN;\n"
        lines, number = part.made
        counts.rows.update(number)
        yield lines
    if rank:
        yield "COMMIT;\n"


def _name(part: Part[Joined]) -> str:
    begin = part.begin
    tso = "" if part.key is None else f", TSO {part.key.commit_tso}"
    gtid = begin.gtid if ":" in begin.gtid else f"transaction {begin.rank}"
    return f"{gtid}{tso}, committed {time_text(begin.commit_us)}"


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
