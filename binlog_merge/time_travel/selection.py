"""The rows to undo: those of some tables in a range of a merged log that satisfy a condition, segment by segment.

Rows come in the order of the log. A DDL on one of the tables stops the reader, unless it leaves every row and every
column that the rows name as they are (`across`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import UndoRefused
from binlog_merge.filters.ddl import DdlEvent
from binlog_merge.filters.expressions import Op
from binlog_merge.log.changes import OPS
from binlog_merge.log.log import Log
from binlog_merge.log.read import RowReader
from binlog_merge.log.segments import Segment, StatementAt, segments
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.log.versions import TableVersions
from binlog_merge.log.where import Where
from binlog_merge.reshape.witness import check_witness
from binlog_merge.time_travel.passable_ddl import Definitions, Written, after_ddl
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Selected:
    """What is to be undone: rows of transactions `first` to `last` of these tables, with a condition for each of them.

    With `across_ddl` a DDL that leaves the rows as they are is passed over; that depends on how they are `written`.
    """

    tables: tuple[TableVersions, ...]
    first: int
    last: int
    where: Where | None = None
    ops: tuple[Op, ...] = OPS
    across_ddl: bool = False
    written: Written = Written.NAMED

    def versions(self, schema: str, table: str) -> TableVersions | None:
        """Return the versions of a table, None if it is not one of those."""
        return next((t for t in self.tables if (t.schema, t.name) == (schema, table)), None)


@dataclass
class Reader:
    """Reads what is selected. `passed` are the DDL that were passed over."""

    binlog: Log
    selected: Selected
    passed: list[str] = field(default_factory=list)
    _known: dict[Name, Definitions] = field(default_factory=dict)

    def format_description(self) -> RawEvent | None:
        """Return the format description of a binlog of these rows."""
        return self.binlog.format_description()

    def pieces(self) -> Iterator[list[TableChanges]]:
        """Yield the selected rows of each segment that has some, table by table.

        Raises UndoRefused for a DDL, ConfigError for rows of which it is not known whether they match, and what reading
        the log does.
        """
        selected = self.selected
        if selected.first > selected.last:
            return
        for piece in segments(self.binlog, selected.first, selected.last):
            if isinstance(piece, StatementAt):
                self.pass_over(piece)
            else:
                yield from self.chosen_in(piece)

    def chosen_in(self, segment: Segment) -> Iterator[list[TableChanges]]:
        """Yield the selected rows of a segment, if it has some. Raises as `pieces` does."""
        selected = self.selected
        reader = RowReader(
            self.binlog, lambda *name: selected.versions(*name) is not None, self._definition, selected.ops,
            selected.where, lenient=False,
        )  # fmt: skip
        for found in reader.parts(segment, None):
            if chosen := [changes for changes in found if len(changes)]:
                for changes in chosen:
                    self._note(changes)
                yield chosen

    def _definition(self, witness: TableMap, key: OrderKey | None) -> tuple[Table, None]:
        versions = self.selected.versions(witness.schema, witness.table)
        assert versions is not None
        return definition(versions, witness, key), None

    def _note(self, changes: TableChanges) -> None:
        """Note the definition of selected rows; what a table map alone says is not all of it."""
        witness = changes.changes.table
        name = (witness.schema, witness.table)
        versions = self.selected.versions(*name)
        assert versions is not None
        fitting = {table for table in _certain(versions) if check_witness(table, witness) is None}
        certain = changes.commit_tsos[0] >= 0 or len(fitting) == 1
        noted = changes.table if certain and changes.table in fitting else None
        self._known[name] = self._known.get(name, frozenset()) | {noted}

    def pass_over(self, piece: StatementAt) -> None:
        """Pass over a statement that is not about the tables, or does nothing to their rows. Raises UndoRefused."""
        touched = touched_by(piece, self.selected.tables)
        if not touched:
            return
        selected = self.selected
        text = piece.statement.line
        exact = self._exact(piece, touched, selected.written)
        if selected.across_ddl and exact is not None:
            self.passed.append(f"{piece.begin.gtid}: {text}")
            self._known.update(exact)
            return
        begin, name = piece.begin, _named(piece, touched[0])
        across = "--across-ddl does not help: rows before it differ"
        if exact is not None:
            across = "--across-ddl passes over this one"
        elif selected.written is Written.PLACED and self._exact(piece, touched, Written.NAMED) is not None:
            across = "-o sql with --across-ddl passes over this one"
        before = f", or end before it with --stop {self._gtid(begin.rank - 1)}" if begin.rank > 1 else ""
        raise UndoRefused(
            f"{name} is in the range: {text[:300]}",
            remedy=f"begin after it with --start {self._gtid(begin.rank + 1)}{before}; {across}",
        ).located(file=begin.file, position=begin.position, order_key=piece.statement.key)

    def _exact(
        self, piece: StatementAt, touched: Sequence[TableVersions], written: Written
    ) -> dict[Name, Definitions] | None:
        """Return what the tables are after a statement that leaves their rows as they are; None if it does not."""
        key = piece.statement.key
        unique = {i.name.lower() for each in touched for table in each.tables() for i in table.indexes if i.unique}
        found: dict[Name, Definitions] = {}
        for versions in touched:
            name = (versions.schema, versions.name)
            before = self._known.get(name, frozenset())
            if key is not None:
                table = versions.at(key)
                before |= {table if table in _certain(versions) else None}
            after = after_ddl(piece.statement.ddl, before, written, unique)
            if after is None:
                return None
            found[name] = after
        return found

    def _gtid(self, rank: int) -> str:
        return f"{self.binlog.cluster_uuid}:{rank}"


def definition(versions: TableVersions, witness: TableMap, key: OrderKey | None) -> Table:
    """Return the definition of rows: where the log has no order keys, the latest one that fits their table map.

    A table map alone does not say which columns are generated. Raises UnknownTableSchema.
    """
    if key is None:
        fitting = [v.table for v in versions.versions if v.table and check_witness(v.table, witness) is None]
        if fitting:
            return fitting[-1]
    return versions.of_rows(witness, key)


def _certain(versions: TableVersions) -> frozenset[Table]:
    """Return the definitions that statements made."""
    return frozenset(v.table for v in versions.versions if v.table is not None and not v.opaque)


def touched_by(piece: StatementAt, tables: Sequence[TableVersions]) -> list[TableVersions]:
    """Return those of the tables that a statement may change; of one that is not understood, those that it may mean."""
    statement = piece.statement
    if statement.is_comment:
        return []  # a cluster's own statement, which changes no logical row
    try:
        names = _names(statement.parts)
    except DdlNotUnderstood:
        text = statement.text.lower()
        return [t for t in tables if statement.schema in ("", t.schema) or t.name.lower() in text]
    return [t for t in tables if not names.isdisjoint(((t.schema.lower(), t.name.lower()), (t.schema.lower(), "")))]


def _names(events: Sequence[DdlEvent]) -> set[tuple[str, str]]:
    """Return the tables that events are about, in lower case; a whole database is a table without a name."""
    return {(s.lower(), t.lower()) for event in events for s, t in (*event.tables, *event.effects.tables)}


def _named(piece: StatementAt, table: TableVersions) -> str:
    """Return what a statement that touches a table is, for people: one on its database names no table."""
    try:
        named = _names(piece.statement.parts)
    except DdlNotUnderstood:
        return f"a statement that is not understood, and may be about {table.schema}.{table.name},"
    if (table.schema.lower(), table.name.lower()) in named:
        return f"a DDL on {table.schema}.{table.name}"
    return f"a statement on the database of {table.schema}.{table.name}"
