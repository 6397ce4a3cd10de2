"""The store: all schema versions in one DuckDB file. The only module that knows DuckDB.

DuckDB lets one process write, and no other read meanwhile, so a store is opened, used and closed at once; whoever needs
schemas for longer takes the history, which is a value. Each append is one transaction: killed at any moment, the store
holds it whole or not at all.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from snapshot_store.errors import HistoryConflict, StoreError
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion, versions_of
from snapshot_store.migrations import migrate
from snapshot_store.model import Catalog
from snapshot_store.model_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from snapshot_store.tso import ORIGIN, OrderKey

# Small work on small tables; extensions would be fetched from the network.
_CONFIG = {"threads": "1", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}

Row = tuple[Any, ...]


class Store:
    """An open store; get one from `Store.open`."""

    def __init__(self, path: Path, connection: Any) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, path: Path, read_only: bool = False, wait_seconds: float = 10.0) -> Iterator["Store"]:
        """Open the store, making it if it is not there, for the length of a `with` block.

        Waits up to `wait_seconds` for another process to close it; raises StoreError if it does not, or if the file is
        no store, or a newer program's.
        """
        connection = _connect(path, read_only, wait_seconds)
        try:
            migrate(connection, read_only)
            yield cls(path, connection)
        except duckdb.Error as error:
            raise StoreError(f"{path}: {error}") from error
        finally:
            connection.close()

    def append_base(self, catalog: Catalog, node: str | None = None, file: str = "", position: int = 0) -> int:
        """Append a snapshot of all schemas and tables at the origin; return how many versions are new."""
        tables, schemas = versions_of(
            catalog, catalog.tables, catalog.schemas, ORIGIN, node=node, file=file, position=position, origin="base"
        )
        return self.append_versions(tables, schemas)

    def append_versions(self, versions: Iterable[TableVersion], schemas: Iterable[SchemaVersion] = ()) -> int:
        """Append versions in one transaction; return how many are new.

        A version the store has already is passed over. Raises HistoryConflict, with nothing appended, if the store has
        another definition of the same table at the same order key.
        """
        given = SchemaHistory().with_versions(versions, schemas)
        self._connection.execute("BEGIN TRANSACTION")
        try:
            new_tables = self._new("table_versions", [_table_row(v) for v in given.versions], 4)
            new_schemas = self._new("schema_versions", [_schema_row(v) for v in given.schema_versions], 3)
            self._insert("table_versions", new_tables)
            self._insert("schema_versions", new_schemas)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        return len(new_tables) + len(new_schemas)

    def load_history(self) -> SchemaHistory:
        """Return everything in the store."""
        tables = self._connection.execute("SELECT *, 0 FROM table_versions").fetchall()
        schemas = self._connection.execute("SELECT * FROM schema_versions").fetchall()
        return SchemaHistory().with_versions(map(_table_version, tables), map(_schema_version, schemas))

    def lookup(self, names: Sequence[tuple[str, str, OrderKey, str | None]]) -> list[TableVersion | None]:
        """Return, for each (schema, name, key, node), what `SchemaHistory.at` returns, without loading the history."""
        if not names:
            return []
        columns = [list(column) for column in zip(*names, strict=True)]
        keys = [key.text() for key in columns[2]]
        nodes = [node or "" for node in columns[3]]
        rows = self._connection.execute(_LOOKUP, [columns[0], columns[1], keys, nodes]).fetchall()
        return [None if row[1] is None else _table_version(row) for row in rows]

    def _new(self, table: str, rows: list[Row], width: int) -> list[Row]:
        """Return the rows that are not in the table; `width` columns are the key, the next is the definition."""
        known = self._known(table, rows, width)
        new = []
        for row in rows:
            if row[:width] not in known:
                new.append(row)
            elif _decoded(table, known[row[:width]]) != _decoded(table, row[width]):
                node, key, *name = row[:width]
                where = f"node {node}" if node else "the logical history"
                raise HistoryConflict(
                    f"{self.path} has another definition of {'.'.join(name)} at order key {key} in {where}; "
                    f"the new one comes from {row[-3]}:{row[-2]}, {row[-4]!r}: find out which is wrong, or start anew"
                )
        return new

    def _known(self, table: str, rows: list[Row], width: int) -> dict[Row, str | None]:
        if not rows:
            return {}
        names = ["node", "order_key", "schema_name", "table_name"][:width]
        given = ", ".join(f"unnest(${i + 1}::VARCHAR[]) AS {name}" for i, name in enumerate(names))
        found = self._connection.execute(
            f"SELECT {', '.join(names)}, definition FROM {table} JOIN (SELECT {given}) USING ({', '.join(names)})",
            [[row[i] for row in rows] for i in range(width)],
        ).fetchall()
        return {tuple(row[:width]): row[width] for row in found}

    def _insert(self, table: str, rows: list[Row]) -> None:
        if not rows:
            return
        width = len(rows[0])
        # The place before the last is the position, the only number.
        types = ["VARCHAR[]"] * (width - 2) + ["UBIGINT[]", "VARCHAR[]"]
        values = ", ".join(f"unnest(${i + 1}::{type})" for i, type in enumerate(types))
        columns = [[row[i] for row in rows] for i in range(width)]
        self._connection.execute(f"INSERT INTO {table} SELECT {values}", columns)


# ASOF with a strict comparison: the latest version before the key.
_LOOKUP = """
    WITH wanted AS (
        SELECT unnest($1::VARCHAR[]) AS schema_name, unnest($2::VARCHAR[]) AS table_name,
               unnest($3::VARCHAR[]) AS wanted_key, unnest($4::VARCHAR[]) AS node,
               generate_subscripts($1::VARCHAR[], 1) AS place)
    SELECT v.node, v.order_key, v.schema_name, v.table_name, v.definition, v.ddl, v.file, v.position, v.origin,
           v.version_id
    FROM wanted AS w ASOF LEFT JOIN numbered_versions AS v
      ON w.node = v.node AND w.schema_name = v.schema_name AND w.table_name = v.table_name
      AND w.wanted_key > v.order_key
    ORDER BY w.place
"""


def _connect(path: Path, read_only: bool, wait_seconds: float) -> Any:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=_CONFIG)
        except duckdb.IOException as error:
            if "lock" not in str(error):
                raise StoreError(f"{path} cannot be opened: {error}") from error
            if time.monotonic() >= deadline:
                raise StoreError(f"{path} is in use by another process: wait for it to end ({error})") from error
            time.sleep(0.05)


def _decoded(table: str, definition: str | None) -> object:
    """Return a definition as a value: what does not count in a comparison of values must not count in text."""
    if definition is None:
        return None
    return table_from_json(definition) if table == "table_versions" else schema_from_json(definition)


def _table_row(version: TableVersion) -> Row:
    definition = None if version.table is None else table_to_json(version.table)
    names = (version.node or "", version.key.text(), version.schema, version.name)
    return (*names, definition, version.ddl, version.file, version.position, version.origin)


def _schema_row(version: SchemaVersion) -> Row:
    definition = None if version.value is None else schema_to_json(version.value)
    names = (version.node or "", version.key.text(), version.name)
    return (*names, definition, version.ddl, version.file, version.position, version.origin)


def _table_version(row: Row) -> TableVersion:
    node, key, schema, name, definition, ddl, file, position, origin, number = row
    table = None if definition is None else table_from_json(definition)
    return TableVersion(OrderKey.parse(key), number, schema, name, table, ddl, node or None, file, position, origin)


def _schema_version(row: Row) -> SchemaVersion:
    node, key, name, definition, ddl, file, position, origin = row
    value = None if definition is None else schema_from_json(definition)
    return SchemaVersion(OrderKey.parse(key), name, value, ddl, node or None, file, position, origin)
