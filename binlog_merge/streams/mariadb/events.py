"""A transaction for MariaDB: its table maps, rows and statements rewritten, what it does not know left out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from binlog_merge.binlog.constants import EventFlag, EventType
from binlog_merge.binlog.query import Query, StatusVar, parse_status_vars, status_spans
from binlog_merge.streams.mariadb.ddl import mariadb_ddl
from binlog_merge.streams.mariadb.rows import Translation, mariadb_id, translated_rows, translation
from binlog_merge.streams.transaction import Piece, Transaction

ANNOUNCED_VERSION: Final = "5.7.44"
"""MariaDB's tools refuse a server of 8.0 and later; its replicas take either."""
_LAST_SHARED: Final = StatusVar.Q_MICROSECONDS
"""Status variables up to here mean the same in both, but for those that MariaDB does not know."""
_IDS: Final = {StatusVar.Q_CHARSET_CODE: 3, StatusVar.Q_CHARSET_DATABASE_CODE: 1}
"""Status variables that hold collation ids, of two bytes each, and how many."""
Note = Callable[[str], None]


def for_mariadb(transaction: Transaction, note: Note) -> Transaction | None:
    """Return a transaction as MariaDB takes it, None if nothing of it is left. `note` gets what is lost, and where."""
    maps: dict[int, Translation] = {}
    pieces = tuple(_pieces(transaction, maps, note))
    return replace(transaction, pieces=pieces) if pieces else None


def _pieces(transaction: Transaction, maps: dict[int, Translation], note: Note) -> Iterator[Piece]:
    for piece in transaction.pieces:
        if piece.value is not None:
            made = maps[piece.value.table_id] = translation(piece.value)
            if made.target == piece.value:
                yield piece
            else:
                yield replace(piece, body=made.target.pack(), value=made.target)
        elif piece.is_rows:
            event = piece.rows()
            found = maps.get(event.table_id)
            changed = event if found is None else translated_rows(event, found)
            yield piece if changed is event else piece.with_rows(changed)
        elif piece.type_code == EventType.QUERY_EVENT:
            if (query := _query(piece, transaction, note)) is not None:
                yield query
        elif piece.type_code == EventType.ROWS_QUERY_LOG_EVENT:
            yield replace(piece, flags=piece.flags | EventFlag.LOG_EVENT_IGNORABLE_F)
        else:
            yield piece


def _query(piece: Piece, transaction: Transaction, note: Note) -> Piece | None:
    query = Query.parse(piece.body)
    made = replace(query, status_raw=clamped(query.status_raw))
    if (statement := transaction.statement) is not None:
        ddl = mariadb_ddl(query.text, statement.session)
        for text in ddl.notes:
            note(f"{transaction.file}:{transaction.position}: {' '.join(query.text.split())[:120]}: {text}")
        if ddl.sql is None:
            return None
        made = made.with_text(ddl.sql)
    return piece if made == query else replace(piece, body=made.pack())


def clamped(raw: bytes) -> bytes:
    """Return status variables with collation ids that MariaDB has, and without those that only MySQL knows."""
    parse_status_vars(raw)  # raises for what is cut
    parts = []
    for code, start, end in status_spans(raw):
        if code > _LAST_SHARED:
            break
        if code == StatusVar.Q_UPDATED_DB_NAMES:  # MariaDB reads nothing behind it
            continue
        value = raw[start:end]
        if code in _IDS:
            ids = [int.from_bytes(value[i : i + 2], "little") for i in range(1, 1 + 2 * _IDS[StatusVar(code)], 2)]
            value = value[:1] + b"".join(mariadb_id(number).to_bytes(2, "little") for number in ids)
        parts.append(value)
    return b"".join(parts)
