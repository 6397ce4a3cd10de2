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
        places = [None if part.column is None else self.index_of(part.column) for part in index.parts]
        return None if None in places else tuple(place for place in places if place is not None)

    @property
    def unique_keys(self) -> tuple[Index, ...]:
        """Return the primary key, then each unique one."""
        keys = (index for index in self.indexes if index.unique or index.name == "PRIMARY")
        return tuple(sorted(keys, key=lambda index: index.name != "PRIMARY"))

    @property
    def whole_keys(self) -> tuple[tuple[Index, tuple[int, ...]], ...]:
        """Return the unique keys whose parts are whole columns, each with the ordinals of these."""
        keys = (index for index in self.unique_keys if not any(part.length for part in index.parts))
        return tuple((index, places) for index in keys if (places := self.places(index)) is not None)

    @property
    def row_keys(self) -> tuple[Index, ...]:
        """Return the keys that tell rows apart: the primary key, then each unique one whose columns are never NULL.

        Of a key's prefix parts, the whole columns do so, too.
        """
        return tuple(filter(self._tells_apart, self.unique_keys))

    def _tells_apart(self, index: Index) -> bool:
        places = self.places(index)
        if places is None:
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


_NOTHING = frozenset({"", "''"})
_COUNTS = frozenset(
    {"AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "DELAY_KEY_WRITE", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS"}
)
_DEFAULTS = {
    **dict.fromkeys(("COMPRESSION", "CONNECTION", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"), "''"),
    "ENCRYPTION": "'N'",
    "INSERT_METHOD": "NO",
    "SECONDARY_ENGINE": "NULL",
    "UNION": "()",
}
"""Values that take an option away; of others it is DEFAULT, of counts 0."""
_SINCE = {
    "AUTOEXTEND_SIZE": 80023,
    "COLUMN_FORMAT": 50606,
    "ENCRYPTION": 80016,
    "ENGINE_ATTRIBUTE": 80021,
    "NOT SECONDARY": 80013,
    "SECONDARY_ENGINE": 80013,
    "SECONDARY_ENGINE_ATTRIBUTE": 80021,
    "STORAGE": 50606,
    "WITH PARSER": 50100,
}
"""The version that knows an attribute; for others it is a comment, as in SHOW CREATE TABLE."""
_APART = frozenset({"COLUMN_FORMAT", "COMMENT", "STORAGE", "USING", "WITH PARSER"})
"""Names that no = follows in definitions of columns and indexes."""


def with_attributes(known: Attributes, new: Attributes) -> Attributes:
    """Return attributes after others are written behind them; a value that means the default takes one away."""
    attributes = {**dict(known), **dict(new)}
    return tuple((name, value) for name, value in attributes.items() if not _is_default(name, value))


def default_of(name: str) -> str:
    """Return the value that means the default of a table's option, as ALTER TABLE takes it."""
    return "0" if name in _COUNTS else _DEFAULTS.get(name, "DEFAULT")


def _is_default(name: str, value: str) -> bool:
    if name in _COUNTS:
        return value in ("0", "DEFAULT")
    return value.upper() == "DEFAULT" or (value in _NOTHING and name != "NOT SECONDARY")


def attributes_sql(attributes: Attributes) -> list[str]:
    """Return each attribute as a clause of a definition."""
    return [_in_comment(name, _clause(name, value)) for name, value in attributes]


def _clause(name: str, value: str) -> str:
    if not value:
        return name
    return f"{name} {value}" if name in _APART else f"{name}={value}"


def _in_comment(name: str, clause: str) -> str:
    since = _SINCE.get(name)
    return clause if since is None else f"/*!{since} {clause} */"
