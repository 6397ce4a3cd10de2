"""Changes as the statements that do the same to a table: -o sql of `changes`, by the writer of flashback --forward.

A DDL on the table does not stop it: a comment says where it was.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final

from binlog_merge.ask.selection import Selection
from binlog_merge.errors import ConfigError
from binlog_merge.log.places_in_log import time_text
from binlog_merge.log.reader import Begin
from binlog_merge.log.segments import Segment, StatementAt, segments
from binlog_merge.log.walk import text_of
from binlog_merge.undo.blocks import Entry
from binlog_merge.undo.selection import Chosen, Reader, Selected, touched_by
from binlog_merge.undo.sql_script import SETTINGS, SqlWriter
from binlog_merge.undo.statements import RowStatement, key_of

_WRITER: Final = SqlWriter(do_again=True)


def pieces(selection: Selection) -> Iterator[bytes]:
    """Yield the statements, a transaction of the log as a transaction.

    Raises ConfigError for columns without the key's, UndoRefused for rows of which the log does not hold enough, and
    what reading the rows does.
    """
    yield from (text.encode("utf-8", "surrogateescape") for text in _texts(selection))


def _texts(selection: Selection) -> Iterator[str]:
    asked = selection.asked
    only = None if asked.whole else frozenset(name.lower() for name in asked.shape.names)
    selected = Selected((asked.versions,), selection.first, selection.last, asked.where, asked.ops)
    reader, left, rank = Reader(selection.binlog, selected), selection.limit, 0
    yield SETTINGS
    for piece in segments(selection.binlog, selection.first, selection.last):
        if isinstance(piece, StatementAt):
            if touched_by(piece, selected.tables):
                yield from _ended(rank)
                rank = 0
                text = " ".join(text_of(piece.statement.query.query).split())
                yield f"-- {_name(piece.begin)}: not carried out here: {text}\n"
            continue
        for segment, chosen in reader.chosen_in(piece):
            entries = _entries(segment, chosen, only)[:left]
            for number, of in groupby(entries, key=itemgetter(0)):
                begin = segment.begin(number)
                if begin.rank != rank:
                    yield from _ended(rank)
                    yield f"-- {_name(begin)}\nBEGIN;\n"
                    rank = begin.rank
                yield _WRITER.joined([entry[3] for entry in of])[0]
            if left is not None:
                left -= len(entries)
        if left == 0:
            break
    yield from _ended(rank)


def _ended(rank: int) -> Iterator[str]:
    if rank:
        yield "COMMIT;\n"


def _entries(segment: Segment, chosen: list[Chosen], only: frozenset[str] | None) -> list[Entry[RowStatement]]:
    """Return the statements of a segment's rows in the order of the log."""
    for each in chosen:
        lacking = [each.table.columns[i].name for i in key_of(each.table) or ()]
        if only is not None and not only.issuperset(name.lower() for name in lacking):
            raise ConfigError(
                f"--columns: -o sql needs the columns of the key ({', '.join(lacking)})", remedy="leave --columns out"
            )
    entries = [entry for each in chosen for entry in _WRITER.rows(segment, replace(each, only=only))]
    return sorted(entries, key=itemgetter(0, 1, 2))


def _name(begin: Begin) -> str:
    gtid = begin.gtid if ":" in begin.gtid else f"transaction {begin.rank}"
    return f"{gtid}, committed {time_text(begin.commit_us)}"
