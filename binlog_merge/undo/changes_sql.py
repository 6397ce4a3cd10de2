"""Changes as the statements that do the same to a table: -o sql of `changes`, by the writer of flashback --forward.

A DDL on the table does not stop it: a comment says where it was.
"""

from collections.abc import Iterator

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import ConfigError
from binlog_merge.log.log import Log
from binlog_merge.log.place import time_text
from binlog_merge.log.question import Selection
from binlog_merge.log.reader import Begin
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.undo.blocks import Entries, by_transaction
from binlog_merge.undo.selection import Reader, Selected, touched_by
from binlog_merge.undo.sql_script import SETTINGS, lines, names
from binlog_merge.undo.statements import RowStatement, forward, key_of


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
