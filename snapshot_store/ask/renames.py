"""What statements rename between two moments: no comparison of two definitions can tell a rename from DROP and ADD.

    ALTER TABLE t RENAME COLUMN a TO b     a's values are in b from there on
    RENAME TABLE t TO u                    t's versions end, and go on as u's by the same statement

The statements are those of the history's versions, in order. A version without one, such as an operator's or what
folding has left, or one whose statement is not understood, says nothing: if a column disappears there, its values may
be in another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from snapshot_store.ddl.actions import AddColumn, ChangeColumn, DropColumn, RenameColumn, RenameIndex
from snapshot_store.ddl.apply.statement import apply_parsed
from snapshot_store.ddl.effects import Name, effects_of
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.statements import AlterTable, Statement
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import ANSI_QUOTES, STORED, DdlSession
from snapshot_store.tso import OrderKey

_SESSIONS = (STORED, DdlSession(sql_mode=ANSI_QUOTES))
"""The store does not have a statement's session: the first in which it is understood."""


@dataclass(frozen=True, slots=True)
class Renames:
    """The columns and indexes that have another name, as (old, new), and what no statement tells.

    `untold` are columns that disappear where no statement says how.
    """

    columns: tuple[tuple[str, str], ...] = ()
    indexes: tuple[tuple[str, str], ...] = ()
    untold: tuple[str, ...] = ()

    def applied(self, table: Table, kept: Table) -> tuple[Table, str]:
        """Return the table with its new names, and the statement that gives them; ("", unchanged) if there is none.

        A column that is not in `kept`, and whose name another one gets, is dropped by the same statement.
        """
        taken = {new.lower() for old, new in self.columns if old.lower() != new.lower()}
        moved = {old.lower() for old, _ in self.columns}
        actions = [f"DROP COLUMN {quote_name(c.name)}" for c in table.columns if c.name.lower() in taken - moved]
        actions += [f"RENAME COLUMN {quote_name(old)} TO {quote_name(new)}" for old, new in self.columns]
        actions += [f"RENAME INDEX {quote_name(old)} TO {quote_name(new)}" for old, new in self.indexes]
        if not actions:
            return table, ""
        sql = f"ALTER TABLE {quote_name(table.schema)}.{quote_name(table.name)}\n  " + ",\n  ".join(actions)
        catalog = Catalog(
            {table.schema: Schema(table.schema, table.charset, table.collation)}, {(table.schema, table.name): table}
        )
        effect = apply_parsed(catalog, ParsedDdl.of(sql, STORED), table.schema)
        return effect.catalog.table(table.schema, table.name), sql


def lineage(history: SchemaHistory, table: HistoryKey, begin: OrderKey, end: OrderKey) -> Iterator[TableVersion]:
    """Yield a table's versions after `begin` and before `end`, under whatever name it has."""
    node, schema, name = table
    after = begin
    while True:
        moved: Name | None = None
        for version in history.versions_for(schema, name, node):
            if after <= version.key < end:
                yield version
                moved = _moved(version, (schema, name)) if version.table is None else None
                if moved is not None:
                    after = version.key
                    break
        if moved is None:
            return
        schema, name = moved


def taken_over(versions: Sequence[TableVersion]) -> Iterator[tuple[TableVersion, Name]]:
    """Yield the versions from which on a name has belonged to another table, with that table's name before."""
    for version in versions:
        origin = _origin(version)
        if origin is not None:
            yield version, origin


def origin_of(history: SchemaHistory, table: HistoryKey, begin: OrderKey, end: OrderKey) -> HistoryKey:
    """Return the name at `begin` of the table that has a name at `end`."""
    node, schema, name = table
    before = end
    while True:
        versions = [v for v in history.versions_for(schema, name, node) if begin <= v.key < before]
        made = next((v for v in reversed(versions) if _origin(v) is not None), None)
        if made is None:
            return (node, schema, name)
        before, (schema, name) = made.key, _origin(made) or (schema, name)


def named_by(versions: Sequence[TableVersion]) -> set[Name]:
    """Return the tables that renames of these versions' statements name."""
    found: set[Name] = set()
    for version in versions:
        statement = _statement(version)
        effects = None if statement is None else effects_of(statement, version.schema)
        found |= set() if effects is None else {name for pair in effects.moves for name in pair}
    return found


def renames_of(before: Table, versions: Sequence[TableVersion]) -> Renames:
    """Return what the statements of later versions rename, for a table that existed before them."""
    columns = {c.name.lower(): c.name for c in before.columns}  # the present name by the first
    indexes = {i.name.lower(): i.name for i in before.indexes}
    untold: list[str] = []
    table = before
    for version in versions:
        if version.table is None:
            continue
        statement = _statement(version)
        step = _Step.of(statement)
        if statement is None or not step.fits(table, version.table):
            gone = [name for name in columns.values() if version.table.index_of(name) is None]
            come = [c for c in version.table.columns if table.index_of(c.name) is None]
            untold += gone if come else []
            step = _Step(drops=frozenset(name.lower() for name in gone))
        columns = _followed(columns, step.columns, step.drops)
        indexes = _followed(indexes, step.indexes, frozenset())
        table = version.table
    left = {i.name.lower() for i in table.indexes}
    return Renames(
        tuple(
            (c.name, columns[c.name.lower()]) for c in before.columns if columns.get(c.name.lower(), c.name) != c.name
        ),
        tuple(
            (i.name, new) for i in before.indexes if (new := indexes[i.name.lower()]) != i.name and new.lower() in left
        ),
        tuple(untold),
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """What one statement does to names, all at once; names in lower case lead to new ones."""

    columns: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, str] = field(default_factory=dict)
    drops: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()

    @classmethod
    def of(cls, statement: Statement | None) -> "_Step":
        actions = statement.actions if isinstance(statement, AlterTable) else ()
        columns = {a.old.lower(): a.new for a in actions if isinstance(a, RenameColumn)}
        columns |= {a.old.lower(): a.column.name for a in actions if isinstance(a, ChangeColumn)}
        return cls(
            columns,
            {a.old.lower(): a.new for a in actions if isinstance(a, RenameIndex)},
            frozenset(a.name.lower() for a in actions if isinstance(a, DropColumn)),
            frozenset(a.column.name.lower() for a in actions if isinstance(a, AddColumn)),
        )

    def fits(self, before: Table, after: Table) -> bool:
        """Return whether the columns that come and go are those that the statement names."""
        there = [
            self.columns.get(c.name.lower(), c.name).lower() for c in before.columns if c.name.lower() not in self.drops
        ]
        return {*there, *self.adds} == {c.name.lower() for c in after.columns}


def _followed(names: Mapping[str, str], renames: Mapping[str, str], drops: frozenset[str]) -> dict[str, str]:
    return {first: renames.get(now.lower(), now) for first, now in names.items() if now.lower() not in drops}


def _statement(version: TableVersion) -> Statement | None:
    """Return a version's statement, None if there is none that is understood."""
    for session in _SESSIONS if version.ddl else ():
        parsed = ParsedDdl.of(version.ddl, session)
        if not isinstance(parsed.result, SnapshotStoreError):
            return parsed.result
    return None


def _moved(version: TableVersion, name: Name) -> Name | None:
    """Return the name that a table has after the statement that ends its version, None if it is dropped."""
    statement = _statement(version)
    return None if statement is None else dict(effects_of(statement, version.schema).paths).get(name)


def _origin(version: TableVersion) -> Name | None:
    """Return the name that a table had before the statement that makes its version, None if it had no other."""
    statement = _statement(version)
    if statement is None or version.table is None:
        return None
    return effects_of(statement, version.schema).origins.get((version.schema, version.name))
