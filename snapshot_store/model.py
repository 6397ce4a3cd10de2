"""Schemas as plain frozen values: what a table is, not where its definition was read.

Types keep MySQL's own vocabulary (`information_schema.COLUMNS.DATA_TYPE`), one canonical spelling each: `int`, not
`integer`; `double`, not `real`; `decimal`, not `numeric`; `tinyint(1)` for BOOL. Character set and collation are always
resolved (never "inherited"), so two tables compare by value. Values are sent to executors, so none holds a handle.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from snapshot_store.errors import UnknownTable
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.partitioning import Partitioning

Attributes = tuple[tuple[str, str], ...]
"""What a definition says of how it is stored, indexed or explained, as (name, value in SQL): no row depends on it, so
== ignores it. ("ROW_FORMAT", "COMPRESSED"), ("WITH PARSER", "`ngram`"), ("ENGINE_ATTRIBUTE", "'{}'")."""


@dataclass(frozen=True, slots=True)
class Default:
    """A column's DEFAULT: a literal, NULL, CURRENT_TIMESTAMP, or an expression.

    `text` is the literal's value without quotes, or the expression's source text. A bit column's literal is written
    `b'101'`, a binary column's `0xff` unless it is UTF-8 text (that does not itself begin with 0x).
    A nullable column without a DEFAULT has the default NULL; None is what ALTER COLUMN … DROP DEFAULT leaves.
    """

    kind: Literal["literal", "null", "now", "expression"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Generated:
    """A generated column: its expression's source text, and whether it is stored."""

    expression: str
    stored: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: Default | None = None
    on_update_now: bool = False
    auto_increment: bool = False
    generated: Generated | None = None
    invisible: bool = False
    comment: str = ""
    attributes: Attributes = field(default=(), compare=False)

    def same_name(self, name: str) -> bool:
        """Return whether the column has this name, compared case-insensitively as MySQL does."""
        return self.name.lower() == name.lower()


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One key part: a column with optional prefix length, or an expression."""

    column: str | None
    length: int | None = None
    descending: bool = False
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """An index; the primary key is the index named PRIMARY.

    `implicit`: the server made it for a foreign key, and drops it when another index can serve.
    """

    name: str
    parts: tuple[IndexPart, ...]
    unique: bool = False
    kind: Literal["btree", "hash", "fulltext", "spatial"] = "btree"
    visible: bool = True
    implicit: bool = field(default=False, compare=False)
    attributes: Attributes = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key. `table` is the one that it refers to: its schema, None for the key's own, and its name.

    `on_delete` and `on_update` are CASCADE, SET NULL and so on, "" where the definition does not say.
    """

    name: str
    columns: tuple[str, ...]
    table: tuple[str | None, str]
    referenced: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""

    def target(self, own_schema: str) -> tuple[str, str]:
        """Return schema and name of the table that it refers to."""
        return (self.table[0] or own_schema, self.table[1])

    @property
    def acts(self) -> bool:
        """Return whether a change of the other table may remove or change rows of this one."""
        return any(action.startswith(("CASCADE", "SET")) for action in (self.on_delete, self.on_update))

    @property
    def sets_null(self) -> bool:
        """Return whether a change of the other table may empty its columns."""
        return "SET NULL" in (self.on_delete, self.on_update)

    @property
    def sql(self) -> str:
        """Return it as SHOW CREATE TABLE writes it."""
        return f"CONSTRAINT {quote_name(self.name)} {self.unnamed}" if self.name else self.unnamed

    @property
    def unnamed(self) -> str:
        """Return its SQL without its name."""
        table = ".".join(quote_name(part) for part in self.table if part is not None)
        referenced = f" ({', '.join(map(quote_name, self.referenced))})" if self.referenced else ""
        text = f"FOREIGN KEY ({', '.join(map(quote_name, self.columns))}) REFERENCES {table}{referenced}"
        actions = (("DELETE", self.on_delete), ("UPDATE", self.on_update))
        return text + "".join(f" ON {event} {action}" for event, action in actions if action)


@dataclass(frozen=True, slots=True)
class Table:
    """A table's definition at one time.

    `checks` are (name, expression); `unenforced` are the names of those that are NOT ENFORCED. `partitioning`
    decides which statements a server refuses, and which rows go when a partition is dropped.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    charset: str = "utf8mb4"
    collation: str = "utf8mb4_0900_ai_ci"
    engine: str = "InnoDB"
    comment: str = ""
    checks: tuple[tuple[str, str], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    unenforced: tuple[str, ...] = ()
    partitioning: Partitioning | None = field(default=None, compare=False)
    attributes: Attributes = field(default=(), compare=False)

    def index_of(self, column: str) -> int | None:
        """Return the ordinal of a column by name, or None."""
        wanted = column.lower()
        return next((i for i, c in enumerate(self.columns) if c.name.lower() == wanted), None)

    @property
    def cascades(self) -> bool:
        """Return whether a change of another table may remove or change rows of this one, of which no binlog tells."""
        return any(key.acts for key in self.foreign_keys)

    @property
    def primary_key(self) -> Index | None:
        """Return the primary key, or None."""
        return next((i for i in self.indexes if i.name == "PRIMARY"), None)

    def places(self, index: Index) -> tuple[int, ...] | None:
        """Return the ordinals of an index's columns; None if a part is an expression, or a column that is not here."""
        found = [None if part.column is None else self.index_of(part.column) for part in index.parts]
        return None if None in found else tuple(place for place in found if place is not None)

    @property
    def row_keys(self) -> tuple[Index, ...]:
        """Return the keys that tell rows apart: the primary key, then each unique one whose columns are never NULL.

        Of a key's prefix parts, the whole columns do so, too.
        """
        return tuple(sorted(filter(self._tells_apart, self.indexes), key=lambda index: index.name != "PRIMARY"))

    def _tells_apart(self, index: Index) -> bool:
        places = self.places(index)
        if places is None or not (index.unique or index.name == "PRIMARY"):
            return False
        return index.name == "PRIMARY" or not any(self.columns[place].nullable for place in places)

    @property
    def whole(self) -> Hashable:
        """Return a key of everything in the definition, also of what == ignores."""
        columns = tuple(column.attributes for column in self.columns)
        indexes = tuple((index.implicit, index.attributes) for index in self.indexes)
        return self, self.partitioning, self.attributes, columns, indexes

    def renamed(self, schema: str, name: str) -> "Table":
        """Return the same table under another name."""
        return replace(self, schema=schema, name=name)


@dataclass(frozen=True, slots=True)
class Schema:
    """A database and its defaults."""

    name: str
    charset: str = "utf8mb4"
    collation: str = "utf8mb4_0900_ai_ci"


@dataclass(frozen=True)
class Catalog:
    """All schemas and tables of one server, or of the cluster's logical view, at one time.

    `views` are the names of views, which share one namespace with tables.
    """

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    tables: Mapping[tuple[str, str], Table] = field(default_factory=dict)
    views: frozenset[tuple[str, str]] = frozenset()

    def get(self, schema: str, name: str) -> Table | None:
        """Return a table, or None."""
        return self.tables.get((schema, name))

    def table(self, schema: str, name: str) -> Table:
        """Return a table. Raises UnknownTable where `get` returns None."""
        found = self.tables.get((schema, name))
        if found is None:
            raise UnknownTable(
                f"table {schema}.{name} is not known at this point; import a snapshot of it, or its CREATE TABLE"
            )
        return found

    def with_table(self, table: Table) -> "Catalog":
        """Return a catalog that has this table, replacing one of the same name."""
        return replace(self, tables={**self.tables, (table.schema, table.name): table})

    def without_table(self, schema: str, name: str) -> "Catalog":
        """Return a catalog without this table."""
        return replace(self, tables={k: v for k, v in self.tables.items() if k != (schema, name)})

    def with_schema(self, schema: Schema) -> "Catalog":
        """Return a catalog that has this schema."""
        return replace(self, schemas={**self.schemas, schema.name: schema})

    def without_schema(self, name: str) -> "Catalog":
        """Return a catalog without this schema, its tables and its views."""
        return Catalog(
            {k: v for k, v in self.schemas.items() if k != name},
            {k: v for k, v in self.tables.items() if k[0] != name},
            frozenset(v for v in self.views if v[0] != name),
        )

    def with_view(self, schema: str, name: str) -> "Catalog":
        """Return a catalog that has this view."""
        return replace(self, views=self.views | {(schema, name)})

    def without_view(self, schema: str, name: str) -> "Catalog":
        """Return a catalog without this view."""
        return replace(self, views=self.views - {(schema, name)})
