"""What of a transaction comes out of a stream: its filter's rows and statements, and its part of a hash.

    Rows_query  Table_map a  Table_map b  Rows a  Rows b  Rows a      a statement: it ends with STMT_END_F
                Table_map a                Rows a  Rows a             b is not chosen; the last one gets the flag

A transaction of which nothing is left does not come out at all, unless the stream leaves nothing out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import RowsQuery
from binlog_merge.binlog.header import EventHeader, RawEvent
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.query_session import with_databases
from binlog_merge.binlog.rows import ABSENT, RowImage, RowsEvent, iter_rows, join_rows, present_columns, row_padding
from binlog_merge.binlog.table_map import TableMap, column_names
from binlog_merge.errors import ConfigError, DdlNotUnderstoodError
from binlog_merge.filters.ddl import DdlEvent
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import Filter
from binlog_merge.filters.tables import ColumnFilter
from binlog_merge.log.reader import Rows, order_key
from binlog_merge.log.rows import RowSelector, TableShapes, op_of
from binlog_merge.log.statement import Statement
from binlog_merge.streams.hashing import Hashing, Routed, key_columns
from binlog_merge.streams.spec import StreamSpec
from binlog_merge.streams.transaction import Piece, Transaction
from snapshot_store.ddl import DdlSession
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.tso import carries_time, tso_millis

Fate = Literal["all", "some", "none"]
"""What comes out of an event's rows: `some` if their values decide, or are changed."""
_FRAME: Final = RawEvent(EventHeader(0, 0, 0, 0, 0, 0), b"")


@dataclass(frozen=True, slots=True)
class Common:
    """A rows event, what the filter leaves of it, and which stream of a hash has which row."""

    source: RowsEvent
    chosen: RowsEvent | None
    routed: Sequence[Routed]


Shared = dict[int, Common]
"""What the parts of a hash have in common, by the id of the piece: only for pieces that live as long as it is used."""


class Chooser:
    """Chooses for one stream. `shapes` are the columns of tables, None if the log has no schema store.

    The choosers of a hash's parts may be given one `shared`, which is to be cleared before its pieces are forgotten.
    """

    def __init__(self, spec: StreamSpec, shapes: TableShapes | None, shared: Shared | None = None) -> None:
        self._spec = spec
        self._shared = shared
        self._filter = None if spec.settings is None else Filter(spec.settings)
        self._selector = RowSelector(self._filter, shapes)
        self._hashing = None if spec.hash is None else Hashing(spec.hash, spec.part, spec.parts, shapes)
        self._statements = StatementChooser(spec, self._filter, self._hashing)
        self._shapes = shapes
        self._fates: dict[tuple[str, str, Op], Fate] = {}
        self._passes = self._filter is None and self._hashing is None and spec.ddl == "all" and spec.rows_query

    def choose(self, transaction: Transaction) -> Transaction | None:
        """Return what comes out of a transaction, None if nothing does. Raises MergeError where it cannot be told."""
        if self._passes:
            return transaction
        if transaction.statement is not None:
            return self._statements.choose(transaction, transaction.statement)
        if not any(piece.is_rows for piece in transaction.pieces):
            whole = self._filter is None and self._hashing is None
            return replace(transaction, pieces=tuple(self._commented(transaction.pieces))) if whole else None
        pieces = tuple(self._rows_pieces(transaction))
        return replace(transaction, pieces=pieces) if any(piece.is_rows for piece in pieces) else None

    # Rows

    def _commented(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            if self._spec.rows_query or piece.type_code != EventType.ROWS_QUERY_LOG_EVENT:
                yield piece

    def _rows_pieces(self, transaction: Transaction) -> Iterator[Piece]:
        owed: Piece | None = None  # the order key, if the statement that it stood in does not come out
        for group in _groups(transaction.pieces):
            if not any(piece.is_rows for piece in group):
                yield from self._commented(group)
                continue
            chosen = self._chosen(group, transaction)
            key = _key_piece(group)
            if not chosen:
                owed = owed or key
                continue
            if owed is not None and self._spec.rows_query:
                yield owed
            owed = None
            yield from self._commented(chosen)

    def _chosen(self, group: Sequence[Piece], transaction: Transaction) -> list[Piece]:
        """Return what comes out of a statement; nothing if no row does."""
        tables = {piece.value.table_id: piece.value for piece in group if piece.value is not None}
        made: list[Piece] = []
        used: set[int] = set()
        for piece in group:
            if not piece.is_rows:
                made.append(piece)
                continue
            table = tables.get(piece.table_id)
            if table is None or self._fate(table, piece.type_code) == "all":
                made.append(piece)
                used.add(piece.table_id)
            elif self._fate(table, piece.type_code) == "some":
                common = self._common(piece, table, transaction)
                for kept in self._own(common, table):
                    made.append(piece if kept is common.source else piece.with_rows(kept))
                    used.add(kept.table_id)
        if not any(piece.is_rows for piece in made):
            return []
        made = [piece for piece in made if piece.value is None or piece.value.table_id in used]
        return _ended(made)

    def _fate(self, table: TableMap, type_code: int) -> Fate:
        """Return what comes out of a table's rows of a kind, as far as their values do not matter."""
        rows = table.schema, table.table, op_of(type_code)
        found = self._fates.get(rows)
        if found is None:
            found = self._fates[rows] = self._judged(*rows)
        return found

    def _judged(self, schema: str, table: str, op: Op) -> Fate:
        fate: Fate = "all"
        if self._filter is not None:
            decision = self._filter.rows(schema, table, op)
            if decision.ignored:
                return "none"
            by_value = self._filter.expressions.concerns(schema, table) or self._filter.settings.ignore_commit_tso
            if decision.action == "Error" or by_value or self._filter.columns(schema, table) is not None:
                fate = "some"
        if self._hashing is not None:
            if self._hashing.by_key:
                return "some"
            return fate if self._hashing.has_table(schema, table) else "none"
        return fate

    def _common(self, piece: Piece, table: TableMap, transaction: Transaction) -> Common:
        """Return what the parts of a hash have in common of a rows event; worked out by the first that asks."""
        known = None if self._shared is None else self._shared.get(id(piece))
        if known is not None:
            return known
        event = piece.rows()
        chosen = self._filtered(event, table, transaction)
        routed: Sequence[Routed] = ()
        if chosen is not None and self._hashing is not None:
            routed = self._hashing.routed(chosen, table, transaction.key)
        common = Common(event, chosen, routed)
        if self._shared is not None:
            self._shared[id(piece)] = common
        return common

    def _own(self, common: Common, table: TableMap) -> Iterator[RowsEvent]:
        if common.chosen is not None and self._hashing is not None:
            yield from self._hashing.chosen(common.chosen, table, common.routed)
        elif common.chosen is not None:
            yield common.chosen

    def _filtered(self, event: RowsEvent, table: TableMap, transaction: Transaction) -> RowsEvent | None:
        if self._filter is None:
            return event
        chosen = self._selector.select(Rows(table, event, _FRAME, _FRAME), transaction.key)
        columns = self._filter.columns(table.schema, table.table)
        if chosen is None or columns is None:
            return chosen
        return self._narrowed(chosen, table, columns, transaction)

    def _narrowed(
        self, event: RowsEvent, table: TableMap, columns: ColumnFilter, transaction: Transaction
    ) -> RowsEvent:
        """Return the event without the columns that are not chosen: absent from the images, as in MINIMAL ones."""
        names = column_names(table)
        if names[:1] == ("@1",):
            version = None
            if self._shapes is not None and transaction.key is not None:
                version = self._shapes.at(table.schema, table.table, transaction.key)
            if version is None or version.table is None or len(version.table.columns) != len(names):
                raise ConfigError(f"the names of the columns of {table.schema}.{table.table} are not known")
            names = tuple(column.name for column in version.table.columns)
        out = {i for i, name in enumerate(names) if not columns.matches(name)}
        keyed = key_columns(table, self._shapes, transaction.key) or ()
        if hidden := sorted(names[i] for i in out if i in keyed):
            raise ConfigError(
                f"the stream leaves out {', '.join(hidden)} of {table.schema}.{table.table}, which is in its key",
                remedy=REMEDY,
            )
        return without_columns(event, table, out) if out else event


def without_columns(event: RowsEvent, table: TableMap, out: set[int]) -> RowsEvent:
    """Return a rows event whose images do not hold some columns. Raises ConfigError if they would hold none."""

    def narrow(image: RowImage | None) -> RowImage | None:
        return None if image is None else tuple(ABSENT if i in out else cell for i, cell in enumerate(image))

    rows = [(narrow(before), narrow(after)) for before, after in iter_rows(event, table)]
    sides = [
        None if present is None else _cleared(present, out, event.column_count)
        for present in (event.present_before, event.present_after)
    ]
    for side in sides:
        if side is not None and not present_columns(side, event.column_count):
            raise ConfigError(f"the stream leaves no column of {table.schema}.{table.table}", remedy=REMEDY)
    padding = row_padding(event)
    return join_rows(replace(event, present_before=sides[0], present_after=sides[1]), rows, table, padding)


def _cleared(present: bytes, out: set[int], count: int) -> bytes:
    bits = bytearray(present)
    for i in out:
        if i < count:
            bits[i >> 3] &= ~(1 << (i & 7)) & 0xFF
    return bytes(bits)


def _groups(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield the statements of a transaction; BEGIN and the commit are groups of their own."""
    group: list[Piece] = []
    for piece in pieces:
        if piece.type_code in (EventType.QUERY_EVENT, EventType.XID_EVENT):
            if group:
                yield group
            yield [piece]
            group = []
            continue
        group.append(piece)
        if piece.is_rows and piece.ends_statement:
            yield group
            group = []
    if group:
        yield group


def _ended(pieces: list[Piece]) -> list[Piece]:
    """Return a statement's pieces with STMT_END_F on the last rows event alone."""
    last = max(i for i, piece in enumerate(pieces) if piece.is_rows)
    return [piece.ending(i == last) if piece.is_rows else piece for i, piece in enumerate(pieces)]


def _key_piece(group: Sequence[Piece]) -> Piece | None:
    """Return a rows-query event with nothing but the order key of the group's first, None if that has none."""
    first = group[0]
    if first.type_code != EventType.ROWS_QUERY_LOG_EVENT:
        return None
    text = RowsQuery.parse(first.body)
    return None if order_key(text) is None else replace(first, body=RowsQuery(text.query.partition(b"\n")[0]).pack())


REMEDY: Final = "correct the stream's filter; under another name, as what is written of a stream does not change"
_RESHAPES: Final = frozenset(
    {
        "ActionAddColumn", "ActionAddColumns", "ActionDropColumn", "ActionDropColumns", "ActionModifyColumn",
        "ActionMultiSchemaChange", "ActionModifyTableCharsetAndCollate", "ActionRenameTable", "ActionRenameTables",
        "ActionAlterTable",
    }
)  # fmt: skip
"""Actions behind which a table's rows have, or may have, another shape or name."""


class StatementChooser:
    """Chooses the statements of one stream. `chosen` and `hashing` are None if it has no filter, or is of no hash."""

    def __init__(self, spec: StreamSpec, chosen: Filter | None, hashing: Hashing | None) -> None:
        self._spec = spec
        self._filter = chosen
        self._hashing = hashing

    def choose(self, transaction: Transaction, statement: Statement) -> Transaction | None:
        """Return what comes out of a statement's transaction, None if nothing does.

        Raises ConfigError and DdlNotUnderstoodError where the filter forbids it, or cannot tell.
        """
        if self._spec.ddl == "none":
            return None
        if self._filter is None and self._hashing is None:
            return transaction
        events, query = self._events(statement), statement.query
        chosen = [event for event in events if self._applies(event, transaction)]
        if self._filter is not None and not chosen:
            return None
        once = self._spec.ddl == "once"
        if once and events and events[0].action == "ActionCreateSchema":
            # The tables of a database are in several streams: whichever comes first makes it.
            return _with_text(transaction, query, if_not_exists(statement.text, statement.session))
        if self._hashing is not None:
            chosen = self._of_part(self._hashing, chosen, once)
            if not chosen and (events or not self._hashing.has_statement((), once)):
                return None
        if chosen and self._leaves_out(statement.schema):
            # Whoever runs it may not have the session's database.
            query = replace(query, schema=chosen[0].schema.encode("utf-8", "surrogateescape"))
            transaction = _with_text(transaction, query, statement.text)
        if len(chosen) in (0, len(events)):
            return transaction
        head = events[0].query[: events[0].head]
        changed = {schema for event in chosen for schema, _ in event.effects.changed}
        query = with_databases(query, changed)
        return _with_text(transaction, query, head + ", ".join(event.text[len(head) :] for event in chosen))

    def _leaves_out(self, database: str) -> bool:
        return self._filter is not None and bool(database) and self._filter.schema(database).action != "Do"

    @staticmethod
    def _of_part(hashing: Hashing, events: list[DdlEvent], once: bool) -> list[DdlEvent]:
        """Return the parts of a statement that are in this stream; of renames all, as names may be swapped."""
        statements = [event for event in events if hashing.has_statement(event.effects.changed or event.tables, once)]
        if statements and any(event.effects.moves for event in events):
            names = [name for event in events for name in event.effects.changed]
            return events if hashing.has_statement(names, once) else []
        return statements

    def _events(self, statement: Statement) -> Sequence[DdlEvent]:
        """Return the parts of a statement; none of one that is not understood, which only a filter needs to be."""
        try:
            return statement.parts
        except DdlNotUnderstood as error:
            if self._filter is None:
                return ()
            raise DdlNotUnderstoodError(f"what the statement is about is not understood: {error.reason}") from None

    def _applies(self, event: DdlEvent, transaction: Transaction) -> bool:
        """Return whether a part comes out. One that does not must not change the shape of rows that do."""
        if self._filter is None:
            return True
        self._check_tso(self._filter, transaction)
        decision = self._filter.ddl(event)
        if decision.outcome in ("error", "restate"):
            raise ConfigError(f"{event.text}: {decision.rule}", remedy=REMEDY)
        if decision.outcome == "apply":
            return True
        if event.action in _RESHAPES and self._filter.table(event.schema, event.table).action == "Do":
            raise ConfigError(
                f"the filter leaves out {event.text!r} ({decision.rule}), and rows of {event.schema}.{event.table}, "
                "which come out, may have another shape from there on",
                remedy=f"let the statement pass, or leave the table out: {REMEDY}",
            )
        return False

    def _check_tso(self, chosen: Filter, transaction: Transaction) -> None:
        """Raise ConfigError if the filter leaves out a commit TSO that may be this statement's."""
        millis = (transaction.gtid.immediate_commit_timestamp or 0) // 1000
        if any(tso_millis(tso) == millis or not carries_time(tso) for tso in chosen.settings.ignore_commit_tso):
            raise ConfigError(
                "the filter leaves out a commit TSO that may be this statement's; the log does not say", remedy=REMEDY
            )


def _with_text(transaction: Transaction, query: Query, text: str) -> Transaction:
    body = query.with_text(text).pack()
    return replace(transaction, pieces=(replace(transaction.pieces[0], body=body),))


def if_not_exists(sql: str, session: DdlSession) -> str:
    """Return a CREATE DATABASE with IF NOT EXISTS."""
    cursor = Cursor.of(sql, session)
    cursor.expect("CREATE")
    end = cursor.next().end
    return sql if cursor.at("IF") else f"{sql[:end]} IF NOT EXISTS{sql[end:]}"
