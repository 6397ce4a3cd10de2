"""Remedies for a DDL that is not understood or a table shape that is wrong: definitions given by an operator, or a
policy.

    operator   `schema set`: the table's definition from a key on. At the key of a statement it replaces the statement
    base       an introspected snapshot: at the statement's key as above; a later one describes the tables it has from
               the statement on, as long as table maps agree
    opaque     the policy: the shape is unknown, table maps describe it

A given definition takes precedence over a statement at the same key; later statements are applied on top of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from binlog_merge.pipeline.coordinate.statements import Subject
from snapshot_store.ask.alter import alter_sql
from snapshot_store.ddl import DdlEffect, apply_ddl
from snapshot_store.ddl.effects import Name
from snapshot_store.history import OPAQUE, SchemaVersion, TableVersion
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.render_sql import make_sql
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Remedies:
    """The definitions given for one node's history or the logical one, sorted by key, and the policy (`opaque`)."""

    tables: tuple[TableVersion, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()
    opaque: bool = False

    @classmethod
    def of(
        cls, node: str | None, tables: Iterable[TableVersion], schemas: Iterable[SchemaVersion], opaque: bool
    ) -> "Remedies":
        """Return the remedies of a node's history, or of the logical one if `node` is None."""
        return cls(
            tuple(sorted((v for v in tables if v.node == node), key=lambda v: v.key)),
            tuple(sorted((v for v in schemas if v.node == node), key=lambda v: v.key)),
            opaque,
        )


class HistoryCursor:
    """The catalog of one history, a node's or the logical one, while statements are applied to it in order.

    It also knows which of its tables are opaque: described by table maps only.
    """

    def __init__(self, catalog: Catalog, opaque: Iterable[Name], remedies: Remedies) -> None:
        self.catalog = catalog
        self._opaque = set(opaque)
        self._remedies = remedies
        self._tables = self._schemas = 0

    def reach(self, key: OrderKey) -> None:
        """Apply the definitions given for keys below `key`."""
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
        """Return the tables with a definition given at exactly this key. Call `reach` first."""
        here = []
        for version in self._remedies.tables[self._tables :]:
            if version.key != key:
                break
            here.append((version.schema, version.name))
        return frozenset(here)

    def applied(self, key: OrderKey, subject: Subject) -> list[tuple[str, Catalog, DdlEffect]]:
        """Return the given definitions at a key as statements, each with the catalog before it and its effect.

        Call `reach` first; the definitions are applied later, when the key has been passed.
        """
        found: list[tuple[str, Catalog, DdlEffect]] = []
        catalog = self.catalog
        for version in self._remedies.tables[self._tables :]:
            if version.key != key:
                break
            if version.schema not in catalog.schemas:  # its CREATE DATABASE stands before the log's beginning
                catalog = catalog.with_schema(Schema(version.schema))
            before = catalog.get(version.schema, version.name)
            for sql in _statements(before, version.table):
                effect = apply_ddl(catalog, sql, version.schema)
                found.append((sql, catalog, effect))
                catalog = effect.catalog
        return found

    def take(self, effect: DdlEffect) -> frozenset[Name]:
        """Apply a statement's effect. Returns those of the tables it made or changed that are opaque now."""
        made = {name for name in effect.tables if effect.kind == "CREATE TABLE" and name not in self.catalog.tables}
        unknown = any(name in self._opaque for name in effect.tables if name not in made)
        there = {name for name in effect.changed if effect.catalog.get(*name) is not None}
        self._opaque -= set(effect.changed)
        opaque = frozenset(there if unknown else ())
        self._opaque |= opaque
        self.catalog = effect.catalog
        return opaque

    def without_understanding(self, key: OrderKey, subject: Subject) -> dict[Name, TableVersion | None] | None:
        """Return the tables that become opaque by a statement that is not understood, each with its likely version.

        An empty dict if a definition was given at the key, None if there is no remedy.
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
    """Return the statements that turn one definition of a table into another."""
    if after is None:
        return () if before is None else (f"DROP TABLE {quote_name(before.schema)}.{quote_name(before.name)}",)
    return make_sql(after) if before is None else alter_sql(before, after)


def opaque_versions(
    names: dict[Name, TableVersion | None], catalog: Catalog, like: TableVersion
) -> Sequence[TableVersion]:
    """Return versions that mark tables as opaque. `like` has the key and position of the statement."""
    versions = []
    for (schema, name), later in sorted(names.items()):
        table = catalog.get(schema, name) if later is None else later.table
        versions.append(replace(like, schema=schema, name=name, table=table, origin=OPAQUE))
    return versions
