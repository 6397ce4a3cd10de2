"""Appending versions: find the new ones, refuse contradictions, and number what is new. Folding: of the versions below
a checkpoint, only those that a lookup at or above it can return are kept.

A version that is kept has the key, number and origin it had, and is marked as folded. The last version of the logical
history and of each node is always kept, since numbers continue from it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snapshot_store.errors import HistoryConflict
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion, history_name, older_than_fold
from snapshot_store.model_json import schema_from_json, table_from_json
from snapshot_store.store.select import SCHEMA_COLUMNS, TABLE_COLUMNS, Row, schema_row, table_row
from snapshot_store.tso import OrderKey

_KEY = {"table_versions": 4, "schema_versions": 3}


def append(connection: Any, path: Path, versions: Iterable[TableVersion], schemas: Iterable[SchemaVersion]) -> int:
    """Append versions within the open transaction; return how many are new."""
    given = SchemaHistory().with_versions(versions, schemas)
    new_tables = new_rows(connection, path, "table_versions", [table_row(v) for v in given.versions])
    new_schemas = new_rows(connection, path, "schema_versions", [schema_row(v) for v in given.schema_versions])
    _insert(connection, "table_versions", _numbered(connection, new_tables), ["UBIGINT", "BOOLEAN"])
    _insert(connection, "schema_versions", new_schemas, ["BOOLEAN"])
    renumber(connection)
    return len(new_tables) + len(new_schemas)


def new_rows(connection: Any, path: Path, table: str, rows: list[Row]) -> list[Row]:
    """Return the rows that are not in the table. Their first columns are the key, the next is the definition."""
    width = _KEY[table]
    known = _known(connection, table, rows, width)
    new = []
    for row in rows:
        if row[:width] not in known:
            new.append(row)
        elif _decoded(table, known[row[:width]]) != _decoded(table, row[width]):
            node, key, *name = row[:width]
            ddl, file, position = row[width + 1 : width + 4]
            raise HistoryConflict(
                f"{path} has another definition of {'.'.join(name)} at order key {key} in {history_name(node)}; "
                f"the new one comes from {file}:{position}, {ddl!r}: find out which is wrong, or start anew"
            )
    return new


def _known(connection: Any, table: str, rows: list[Row], width: int) -> dict[Row, str | None]:
    if not rows:
        return {}
    names = ["node", "order_key", "schema_name", "table_name"][:width]
    given = ", ".join(f"unnest(${i + 1}::VARCHAR[]) AS {name}" for i, name in enumerate(names))
    found = connection.execute(
        f"SELECT {', '.join(names)}, definition FROM {table} JOIN (SELECT {given}) USING ({', '.join(names)})",
        [[row[i] for row in rows] for i in range(width)],
    ).fetchall()
    return {tuple(row[:width]): row[width] for row in found}


def _decoded(table: str, definition: str | None) -> object:
    """Return a definition as a value: fields that equality of values ignores must be ignored here too."""
    if definition is None:
        return None
    return table_from_json(definition) if table == "table_versions" else schema_from_json(definition)


def _numbered(connection: Any, rows: list[Row]) -> list[Row]:
    """Number each row that comes after all others of its node; the rest get 0, for `renumber`."""
    last: dict[str, tuple[tuple[str, str, str], int]] = {}
    floors: dict[str, str] = {}
    for node in sorted({row[0] for row in rows}):
        found = connection.execute(
            """SELECT order_key, schema_name, table_name, version_id,
                      (SELECT max(order_key) FROM table_versions WHERE node = $1 AND folded)
               FROM table_versions WHERE node = $1 AND version_id =
                    (SELECT max(version_id) FROM table_versions WHERE node = $1)""",
            [node],
        ).fetchone()
        if found is not None:
            last[node] = ((found[0], found[1], found[2]), found[3])
            floors[node] = found[4] or ""
    numbered = []
    for row in rows:
        newest, number = last.get(row[0], (("", "", ""), 0))
        if row[1] < floors.get(row[0], ""):
            floor = OrderKey.parse(floors[row[0]])
            raise older_than_fold(f"{row[2]}.{row[3]}", OrderKey.parse(row[1]), floor, row[0] or None)
        number = number + 1 if newest < row[1:4] else 0
        if number:
            last[row[0]] = (row[1:4], number)
        numbered.append((*row[:9], number, row[10]))
    return numbered


def renumber(connection: Any) -> None:
    """Renumber the versions of each node that has an unnumbered one; folded versions come first and keep their numbers.

    The versions of other nodes, to which versions were only added at the end, are not touched.
    """
    nodes = connection.execute("SELECT DISTINCT node FROM table_versions WHERE version_id = 0").fetchall()
    for (node,) in nodes:
        connection.execute(
            """UPDATE table_versions AS t SET version_id = n.number
               FROM (SELECT order_key, schema_name, table_name,
                            row_number() OVER (ORDER BY order_key, schema_name, table_name)
                            + (SELECT coalesce(max(version_id), 0) FROM table_versions WHERE node = $1 AND folded)
                            AS number
                     FROM table_versions WHERE node = $1 AND NOT folded) AS n
               WHERE t.node = $1 AND t.order_key = n.order_key AND t.schema_name = n.schema_name
                 AND t.table_name = n.table_name AND t.version_id <> n.number""",
            [node],
        )


def _insert(connection: Any, table: str, rows: list[Row], last: list[str]) -> None:
    if not rows:
        return
    width = len(rows[0])
    # After the text columns: the position, the origin, and the columns that only this table has.
    types = ["VARCHAR"] * (width - 2 - len(last)) + ["UBIGINT", "VARCHAR", *last]
    values = ", ".join(f"unnest(${i + 1}::{type}[])" for i, type in enumerate(types))
    columns = [[row[i] for row in rows] for i in range(width)]
    names = TABLE_COLUMNS if table == "table_versions" else SCHEMA_COLUMNS
    connection.execute(f"INSERT INTO {table} ({names}) SELECT {values}", columns)


def fold(connection: Any, checkpoint: OrderKey) -> int:
    """Fold the logical history and all nodes' within the open transaction; return how many versions were removed."""
    removed = 0
    for table, names in (
        ("table_versions", ["node", "schema_name", "table_name"]),
        ("schema_versions", ["node", "schema_name"]),
    ):
        identity = ", ".join(names)
        last = "OR version_id = max(version_id) OVER (PARTITION BY node)" if table == "table_versions" else ""
        connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE kept AS SELECT {identity}, order_key FROM (
                    SELECT {identity}, order_key, (definition IS NOT NULL
                           AND order_key = max(order_key) OVER (PARTITION BY {identity})) {last} AS stays
                    FROM {table} WHERE order_key < $1)
                WHERE stays""",
            [checkpoint.text()],
        )
        of_kept = " AND ".join(f"t.{name} = k.{name}" for name in [*names, "order_key"])
        (count,) = connection.execute(
            f"DELETE FROM {table} AS t WHERE order_key < $1 AND NOT EXISTS (SELECT 1 FROM kept AS k WHERE {of_kept})",
            [checkpoint.text()],
        ).fetchone()
        connection.execute(f"UPDATE {table} SET folded = true WHERE order_key < $1 AND NOT folded", [checkpoint.text()])
        connection.execute("DROP TABLE kept")
        removed += count
    return removed
