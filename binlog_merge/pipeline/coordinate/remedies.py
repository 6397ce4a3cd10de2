"""What helps where a DDL is not understood, or where a table's shape is wrong: what people say of it.

    operator   `schema set`: from a key on the table is this. At the key of a statement it stands for what that does
    base       an introspected snapshot: at the statement's key as above; a later one says what the tables it has were
               like from the statement on, as long as table maps agree
    opaque     the policy: the shape is not known, table maps say what it is

What people say wins over a statement at the same key, and later statements go on from it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from binlog_merge.pipeline.coordinate.statements import Subject
from snapshot_store.ask.alter import alter_sql
from snapshot_store.ddl import DdlEffect, apply_ddl
from snapshot_store.ddl.effects import Name
from snapshot_store.history import OPAQUE, SchemaVersion, TableVersion
from snapshot_store.model import Catalog, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.render_sql import create_sql
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Remedies:
    """What people said of one line of history from where it goes on, and the policy; versions sorted by key."""

    tables: tuple[TableVersion, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()
    opaque: bool = False

    @classmethod
    def of(
        cls, node: str | None, tables: Iterable[TableVersion], schemas: Iterable[SchemaVersion], opaque: bool
    ) -> "Remedies":
        """Return those of one line."""
        return cls(
            tuple(sorted((v for v in tables if v.node == node), key=lambda v: v.key)),
            tuple(sorted((v for v in schemas if v.node == node), key=lambda v: v.key)),
            opaque,
        )


class Line:
    """One line of history on its way through the statements: what its tables are, and of which only table maps know."""

    def __init__(self, catalog: Catalog, opaque: Iterable[Name], remedies: Remedies) -> None:
        self.catalog = catalog
        self._opaque = set(opaque)
        self._remedies = remedies
        self._tables = self._schemas = 0

    def reach(self, key: OrderKey) -> None:
        """Take in what people said of moments before a key."""
        given = self._remedies
        tables, schemas = self._tables, self._schemas
        while self._tables < len(given.tables) and given.tables[self._tables].key < key:
            self._tables += 1
        while self._schemas < len(given.schemas) and given.schemas[self._schemas].key < key:
            self._schemas += 1
        if (tables, schemas) == (self._tables, self._schemas):
            return
        shapes, databases = dict(self.catalog.tables), dict(self.catalog.schemas)
        for version in given.tables[tables : self._tables]:
            name = (version.schema, version.name)
            self._opaque.discard(name)
            shapes.pop(name, None)
            if version.table is not None:
                shapes[name] = version.table
        for change in given.schemas[schemas : self._schemas]:
            databases.pop(change.name, None)
            if change.value is not None:
                databases[change.name] = change.value
        self.catalog = replace(self.catalog, schemas=databases, tables=shapes)

    def given_at(self, key: OrderKey) -> frozenset[Name]:
        """Return the tables of which people said what they are from exactly this key on; call `reach` before."""
        here = []
        for version in self._remedies.tables[self._tables :]:
            if version.key != key:
                break
            here.append((version.schema, version.name))
        return frozenset(here)

    def applied(self, key: OrderKey, subject: Subject) -> list[tuple[str, Catalog, DdlEffect]]:
        """Return what people said that a statement did, as statements, each with the tables before it and its effect.

        Call `reach` before; what they say comes into force behind the key.
        """
        found: list[tuple[str, Catalog, DdlEffect]] = []
        catalog = self.catalog
        for version in self._remedies.tables[self._tables :]:
            if version.key != key:
                break
            before = catalog.get(version.schema, version.name)
            for sql in _statements(before, version.table):
                effect = apply_ddl(catalog, sql, version.schema)
                found.append((sql, catalog, effect))
                catalog = effect.catalog
        return found

    def take(self, effect: DdlEffect) -> frozenset[Name]:
        """Take in what a statement did; returns the tables, among those it made or changed, that are opaque now."""
        made = {name for name in effect.tables if effect.kind == "CREATE TABLE" and name not in self.catalog.tables}
        unknown = any(name in self._opaque for name in effect.tables if name not in made)
        there = {name for name in effect.changed if effect.catalog.get(*name) is not None}
        self._opaque -= set(effect.changed)
        opaque = frozenset(there if unknown else ())
        self._opaque |= opaque
        self.catalog = effect.catalog
        return opaque

    def without_understanding(self, key: OrderKey, subject: Subject) -> dict[Name, TableVersion | None] | None:
        """Return the tables that a statement nobody understands makes opaque, each with the version that says what it
        is likely to be; nothing if people said what the statement does; None if there is no remedy.
        """
        if self.given_at(key):
            return {}
        later: dict[Name, TableVersion | None] = {}
        for version in self._remedies.tables[self._tables :]:
            if version.origin == "base" and (not subject.changed or (version.schema, version.name) in subject.changed):
                later.setdefault((version.schema, version.name), version)
        if not later and self._remedies.opaque:
            later = dict.fromkeys(subject.changed)
        self._opaque |= set(later)
        return later or None


def _statements(before: Table | None, after: Table | None) -> tuple[str, ...]:
    """Return the statements between two definitions of a table."""
    if after is None:
        return () if before is None else (f"DROP TABLE {quote_name(before.schema)}.{quote_name(before.name)}",)
    return (create_sql(after, qualified=True),) if before is None else alter_sql(before, after)


def opaque_versions(
    names: dict[Name, TableVersion | None], catalog: Catalog, like: TableVersion
) -> Sequence[TableVersion]:
    """Return the versions that say of tables that only table maps know them; `like` says by which statement, where."""
    found = []
    for (schema, name), later in sorted(names.items()):
        table = catalog.get(schema, name) if later is None else later.table
        found.append(replace(like, schema=schema, name=name, table=table, origin=OPAQUE))
    return found
