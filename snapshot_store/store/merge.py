"""The store as a merge uses it: reading the tables it touches, and writing the versions it derives.

A merge continues from its *floor*, the key below which everything is published. Versions below the floor are final.
Each run derives those at or above it again: versions that people provided since may change how the binlogs are read.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapshot_store.history import GIVEN, HistoryKey, SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.store.append import append, new_rows, renumber
from snapshot_store.store.select import (
    SCHEMA_COLUMNS,
    TABLE_COLUMNS,
    Row,
    history_of,
    schema_row,
    schema_version,
    table_version,
)
from snapshot_store.store.select import table_row as row_of
from snapshot_store.store.settings import (
    Stop,
    read_setting,
    remove_setting,
    stop_to_json,
    topology_to_json,
    write_setting,
)
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

_BEHIND_BASE = OrderKey(0, 0, 1, 0)
_GIVEN = ", ".join(f"'{origin}'" for origin in GIVEN)


@dataclass(frozen=True, slots=True)
class StoredSchemas:
    """The versions of some tables below a floor, and the versions of all tables that people provided from there on.

    `numbers` maps each node (None: logical) to the number of its last version below the floor.
    """

    history: SchemaHistory
    numbers: Mapping[str | None, int]
    given_tables: tuple[TableVersion, ...] = ()
    given_schemas: tuple[SchemaVersion, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreEnd:
    """How a store ends: the greatest key of its versions, the number of its last logical version (None if folded), its
    topology as JSON, and whether it notes a stop.
    """

    last: OrderKey
    number: int | None
    topology: str | None
    stop: bool


class MergeStore:
    """An open store as a merge uses it; get one from `Store.merging`."""

    def __init__(self, path: Path, connection: Any, transaction: Callable[[], AbstractContextManager[None]]) -> None:
        self._path = path
        self._connection = connection
        self._transaction = transaction

    def part(self, wanted: Iterable[HistoryKey], floor: OrderKey) -> StoredSchemas:
        """Return what a merge that continues at a floor needs; the name of a table may be "" for its database alone."""
        return part(self._connection, wanted, floor)

    def provided(self, everything: bool) -> tuple[list[TableVersion], list[SchemaVersion]]:
        """Return the versions that people provided, those at ORIGIN only with `everything`."""
        where = f"origin IN ({_GIVEN})" + ("" if everything else f" AND order_key <> '{ORIGIN.text()}'")
        tables = self._connection.execute(f"SELECT {TABLE_COLUMNS} FROM table_versions WHERE {where}").fetchall()
        schemas = self._connection.execute(f"SELECT {SCHEMA_COLUMNS} FROM schema_versions WHERE {where}").fetchall()
        return list(map(table_version, tables)), list(map(schema_version, schemas))

    def not_stored(
        self, tables: Iterable[TableVersion], schemas: Iterable[SchemaVersion]
    ) -> tuple[list[TableVersion], list[SchemaVersion]]:
        """Return those of the versions that the store lacks. Raises HistoryConflict like `append_versions`."""
        new_tables = new_rows(self._connection, self._path, "table_versions", [row_of(v) for v in tables])
        new_schemas = new_rows(self._connection, self._path, "schema_versions", [schema_row(v) for v in schemas])
        return list(map(table_version, new_tables)), list(map(schema_version, new_schemas))

    def forget_derived(self) -> None:
        """Remove all versions that merges derived, in one transaction; those that people provided are kept."""
        made = f"origin NOT IN ({_GIVEN})"
        with self._transaction():
            self._connection.execute("DELETE FROM settings WHERE name IN ('stop', 'beginning')")
            nodes = self._connection.execute(f"SELECT DISTINCT node FROM table_versions WHERE {made}").fetchall()
            if not nodes:
                return
            for table in ("table_versions", "schema_versions"):
                self._connection.execute(f"DELETE FROM {table} WHERE {made}")
            self._connection.execute(
                """UPDATE table_versions SET version_id = 0
                   WHERE order_key > $1 AND node IN (SELECT unnest($2::VARCHAR[]))""",
                [ORIGIN.text(), [node for (node,) in nodes]],
            )
            renumber(self._connection)

    def names_in(self, node: str | None, schema: str) -> list[HistoryKey]:
        """Return all tables that a database ever had."""
        rows = self._connection.execute(
            "SELECT DISTINCT table_name FROM table_versions WHERE node = ? AND schema_name = ?", [node or "", schema]
        ).fetchall()
        return [(node, schema, name) for (name,) in rows]

    def names(self) -> list[HistoryKey]:
        """Return all tables that nodes ever had and, with the name "", all their databases."""
        rows = self._connection.execute(
            """SELECT DISTINCT node, schema_name, table_name FROM table_versions WHERE node <> ''
               UNION SELECT DISTINCT node, schema_name, '' FROM schema_versions WHERE node <> ''"""
        ).fetchall()
        return [(node, schema, name) for node, schema, name in rows]

    def physical_tables(self, below: OrderKey) -> list[tuple[str, tuple[str, str]]]:
        """Return (node, table) for each physical table that exists after everything below a key."""
        rows = self._connection.execute(
            """SELECT node, schema_name, table_name FROM table_versions WHERE node <> '' AND order_key < $1
               GROUP BY ALL HAVING arg_max(definition IS NOT NULL, order_key) ORDER BY ALL""",
            [max(below, _BEHIND_BASE).text()],
        ).fetchall()
        return [(node, (schema, table)) for node, schema, table in rows]

    def referencing(self, node: str | None, tables: Iterable[str]) -> list[HistoryKey]:
        """Return the tables whose foreign keys may name one of these: a rename changes them too."""
        rows = self._connection.execute(
            """SELECT DISTINCT schema_name, table_name FROM table_versions
               WHERE node = $1 AND contains(definition, '"foreign_keys":')
                 AND list_bool_or([contains(definition, name) FOR name IN $2::VARCHAR[]])""",
            [node or "", [json.dumps(table)[1:-1] for table in tables]],
        ).fetchall()
        return [(node, schema, name) for schema, name in rows]

    def with_foreign_keys(self) -> list[HistoryKey]:
        """Return the logical tables that ever had foreign keys."""
        rows = self._connection.execute(
            """SELECT DISTINCT schema_name, table_name FROM table_versions
               WHERE node = '' AND contains(definition, '"foreign_keys":')"""
        ).fetchall()
        return [(None, schema, name) for schema, name in rows]

    def changed_between(self, first: OrderKey, last: OrderKey, all_of_them: bool = False) -> list[OrderKey]:
        """Return the keys from `first` to `last` at which logical tables change, in order.

        Without `all_of_them`, those at which people have given a definition, so that no log needs to say so.
        """
        rows = self._connection.execute(
            f"""SELECT DISTINCT order_key FROM table_versions WHERE node = '' AND order_key BETWEEN $1 AND $2
                AND ($3 OR origin IN ({_GIVEN})) ORDER BY ALL""",
            [first.text(), last.text(), all_of_them],
        ).fetchall()
        return [OrderKey.parse(key) for (key,) in rows]

    def last_number(self, below: OrderKey) -> int | None:
        """Return the number of the last logical version below a key; None if that history is folded."""
        number, folded = self._connection.execute(
            "SELECT max(version_id), bool_or(folded) FROM table_versions WHERE node = '' AND order_key < ?",
            [below.text()],
        ).fetchone()
        return None if folded else int(number or 0)

    def end(self) -> StoreEnd:
        """Return how the store ends."""
        (last,) = self._connection.execute(
            """SELECT max(order_key) FROM (
                   SELECT order_key FROM table_versions UNION ALL SELECT order_key FROM schema_versions)"""
        ).fetchone()
        key = ORIGIN if last is None else OrderKey.parse(last)
        topology, stop = (read_setting(self._connection, name) for name in ("topology", "stop"))
        return StoreEnd(key, self.last_number(key._replace(node_seq=key.node_seq + 1)), topology, stop is not None)

    def save(
        self,
        floor: OrderKey,
        tables: Iterable[TableVersion],
        schemas: Iterable[SchemaVersion],
        topology: Topology,
        stop: Stop | None,
        beginning: OrderKey | None = None,
    ) -> None:
        """Store the result of a run, in one transaction.

        Versions that an earlier run derived from `floor` on, and this one did not, are removed. Versions that exist
        already, and those that people provided, stay as they are.
        """
        with self._transaction():
            replace_derived(self._connection, self._path, floor, tables, schemas)
            write_setting(self._connection, "topology", topology_to_json(topology))
            if beginning is not None:
                write_setting(self._connection, "beginning", beginning.text())
            if stop is None:
                remove_setting(self._connection, "stop")
            else:
                write_setting(self._connection, "stop", stop_to_json(stop))


def part(connection: Any, wanted: Iterable[HistoryKey], floor: OrderKey) -> StoredSchemas:
    """Return what a merge that continues at a floor needs; the name of a table may be "" for its database alone."""
    final = [floor.text(), ORIGIN.text()]
    numbers = connection.execute(
        "SELECT node, max(version_id) FROM table_versions WHERE order_key < $1 OR order_key = $2 GROUP BY node", final
    ).fetchall()
    tables, schemas = (
        connection.execute(
            f"SELECT {columns} FROM {table} WHERE order_key >= $1 AND order_key <> $2 AND origin IN ({_GIVEN})", final
        ).fetchall()
        for table, columns in (("table_versions", TABLE_COLUMNS), ("schema_versions", SCHEMA_COLUMNS))
    )
    return StoredSchemas(
        history_of(connection, wanted, floor),
        {node or None: number for node, number in numbers},
        tuple(map(table_version, tables)),
        tuple(map(schema_version, schemas)),
    )


def replace_derived(
    connection: Any, path: Path, floor: OrderKey, tables: Iterable[TableVersion], schemas: Iterable[SchemaVersion]
) -> None:
    """Replace the versions that an earlier run derived from the floor on by this run's, within the open transaction.

    Versions that both runs derived, and those that people provided, stay as they are.
    """
    tables, schemas = list(tables), list(schemas)
    _keep_only(connection, "table_versions", TABLE_COLUMNS, 4, floor, [_unnumbered(row_of(v)) for v in tables])
    _keep_only(connection, "schema_versions", SCHEMA_COLUMNS, 3, floor, [schema_row(v) for v in schemas])
    append(connection, path, tables, schemas)


def _keep_only(connection: Any, table: str, columns: str, width: int, floor: OrderKey, rows: list[Row]) -> None:
    """Remove the versions derived from the floor on that are not among the rows."""
    found = connection.execute(
        f"SELECT {columns} FROM {table} WHERE order_key >= $1 AND order_key <> $2 AND origin NOT IN ({_GIVEN})",
        [floor.text(), ORIGIN.text()],
    ).fetchall()
    kept = set(rows)
    gone = [r for r in found if (_unnumbered(r) if width == 4 else r) not in kept]
    if not gone:
        return
    names = ["node", "order_key", "schema_name", "table_name"][:width]
    wanted = ", ".join(f"unnest(${i + 1}::VARCHAR[]) AS {name}" for i, name in enumerate(names))
    same = " AND ".join(f"t.{name} = g.{name}" for name in names)
    connection.execute(
        f"DELETE FROM {table} AS t WHERE EXISTS (SELECT 1 FROM (SELECT {wanted}) AS g WHERE {same})",
        [[row[i] for row in gone] for i in range(width)],
    )
    if width == 4:
        # The versions after removed ones are renumbered; `append` renumbers where a number is 0.
        connection.execute(
            """UPDATE table_versions SET version_id = 0
               WHERE order_key >= $1 AND NOT folded AND node IN (SELECT unnest($2::VARCHAR[]))""",
            [floor.text(), sorted({row[0] for row in gone})],
        )


def _unnumbered(row: Row) -> Row:
    return (*row[:9], 0, row[10])
