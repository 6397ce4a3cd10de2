"""Versions as rows of the store's tables, and the queries for them; only what is asked for is read."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from snapshot_store.history import OPAQUE, HistoryKey, SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from snapshot_store.names import NamePattern, unknown_table
from snapshot_store.surrogates import shown
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

Row = tuple[Any, ...]

TABLE_COLUMNS = "node, order_key, schema_name, table_name, definition, ddl, file, position, origin, version_id, folded"
SCHEMA_COLUMNS = "node, order_key, schema_name, definition, ddl, file, position, origin, folded"


def _text(text: str | None) -> str | None:
    """Return text without lone surrogates, which a column cannot hold."""
    return None if text is None else shown(text)


def table_row(version: TableVersion) -> Row:
    """Return a row with the columns of TABLE_COLUMNS."""
    definition = None if version.table is None else table_to_json(version.table)
    names = (version.node or "", version.key.text(), _text(version.schema), _text(version.name))
    who = (_text(version.ddl), version.file, version.position, version.origin)
    return (*names, definition, *who, version.version_id, version.folded)


def schema_row(version: SchemaVersion) -> Row:
    """Return a row with the columns of SCHEMA_COLUMNS."""
    definition = None if version.value is None else schema_to_json(version.value)
    names = (version.node or "", version.key.text(), _text(version.name))
    return (*names, definition, _text(version.ddl), version.file, version.position, version.origin, version.folded)


def table_version(row: Row) -> TableVersion:
    """Return the version of a row with the columns of TABLE_COLUMNS."""
    node, key, schema, name, definition, ddl, file, position, origin, number, folded = row
    table = None if definition is None else table_from_json(definition)
    return TableVersion(
        OrderKey.parse(key), number, schema, name, table, ddl, node or None, file, position, origin, folded
    )


def schema_version(row: Row) -> SchemaVersion:
    """Return the version of a row with the columns of SCHEMA_COLUMNS."""
    node, key, name, definition, ddl, file, position, origin, folded = row
    value = None if definition is None else schema_from_json(definition)
    return SchemaVersion(OrderKey.parse(key), name, value, ddl, node or None, file, position, origin, folded)


def find(
    connection: Any, patterns: Sequence[NamePattern], node: str | None, physical: bool, topology: Topology
) -> tuple[HistoryKey, ...]:
    """Return the tables that the patterns match, sorted. Raises UnknownTable for a pattern that matches none.

    `physical`: the patterns are matched with logical tables, and the result is the physical tables of these, of all
    nodes or of `node`. Otherwise they are matched with tables of the node, or with logical ones.
    """
    found: set[HistoryKey] = set()
    for pattern in patterns:
        if physical:
            tables = _physical(connection, pattern, node, topology)
        else:
            tables = [(table[0] or None, *table[1:]) for table in _named(connection, [pattern.likes()], [node or ""])]
        if not tables:
            raise unknown_table(pattern, _near(connection, pattern, node, physical), node, physical)
        found.update(tables)
    return tuple(sorted(found, key=lambda table: (table[0] or "", *table[1:])))


def _named(
    connection: Any, likes: Sequence[tuple[str, str]], nodes: Sequence[str] | None
) -> list[tuple[str, str, str]]:
    """Return the tables whose schema and name match one of the LIKE pairs; of all nodes if `nodes` is None."""
    where = " OR ".join(r"(schema_name LIKE ? ESCAPE '\' AND table_name LIKE ? ESCAPE '\')" for _ in likes)
    parameters: list[Any] = [part for like in likes for part in like]
    if nodes is None:
        of_nodes = "node <> ''"
    else:
        of_nodes, parameters = "node IN (SELECT unnest(?::VARCHAR[]))", [list(nodes), *parameters]
    rows = connection.execute(
        f"SELECT DISTINCT node, schema_name, table_name FROM table_versions WHERE {of_nodes} AND ({where}) "
        "ORDER BY ALL",
        parameters,
    ).fetchall()
    return [(row[0], row[1], row[2]) for row in rows]


def _physical(connection: Any, pattern: NamePattern, node: str | None, topology: Topology) -> list[HistoryKey]:
    own_schema, own_table = pattern.likes()
    likes = [(own_schema, own_table)]
    for route in topology.routes:
        to_schema = not route.target_schema or pattern.matches_schema(route.target_schema)
        to_table = not route.target_table or pattern.matches_table(route.target_table)
        if to_schema and to_table:
            # If the route gives no target name, the table keeps its own, which must then match the pattern.
            schema = _route_like(route.schema_pattern) if route.target_schema else own_schema
            likes.append((schema, _route_like(route.table_pattern or "*") if route.target_table else own_table))
    tables = _named(connection, likes, None if node is None else [node])
    kept: list[HistoryKey] = []
    for table in tables:
        logical = topology.logical_name(*table)
        if logical is not None and pattern.matches(*logical):
            kept.append(table)
    return kept


def _route_like(pattern: str) -> str:
    """Return a LIKE pattern that matches at least what a route's pattern matches."""
    plain = re.sub(r"\[.[^\]]*\]", "?", pattern)
    return re.sub(r"([\\%_])", r"\\\1", plain).replace("*", "%").replace("?", "_")


def _near(connection: Any, pattern: NamePattern, node: str | None, physical: bool) -> list[str]:
    rows = connection.execute(
        """SELECT schema_name || '.' || table_name AS name
           FROM (SELECT DISTINCT schema_name, table_name FROM table_versions WHERE node = $2)
           WHERE jaro_winkler_similarity(name, $1) > 0.8 OR jaro_winkler_similarity(table_name, $3) > 0.8
           ORDER BY greatest(jaro_winkler_similarity(name, $1), jaro_winkler_similarity(table_name, $3)) DESC, name
           LIMIT 3""",
        [str(pattern), "" if physical else node or "", pattern.table],
    ).fetchall()
    return [row[0] for row in rows]


def history_of(connection: Any, tables: Iterable[HistoryKey], below: OrderKey | None = None) -> SchemaHistory:
    """Return all versions of some tables and of their databases; with `below`, only those below it or at ORIGIN."""
    wanted = list(tables)
    until = "" if below is None else f"WHERE order_key < '{below.text()}' OR order_key = '{ORIGIN.text()}'"
    nodes, schemas, names = ([(table[i] or "") for table in wanted] for i in range(3))
    rows = connection.execute(
        f"""SELECT {_of("v", TABLE_COLUMNS)} FROM table_versions AS v
            SEMI JOIN (SELECT unnest($1::VARCHAR[]) AS node, unnest($2::VARCHAR[]) AS schema_name,
                              unnest($3::VARCHAR[]) AS table_name) USING (node, schema_name, table_name) {until}""",
        [nodes, schemas, names],
    ).fetchall()
    databases = connection.execute(
        f"""SELECT {_of("v", SCHEMA_COLUMNS)} FROM schema_versions AS v
            SEMI JOIN (SELECT unnest($1::VARCHAR[]) AS node, unnest($2::VARCHAR[]) AS schema_name)
            USING (node, schema_name) {until}""",
        [nodes, schemas],
    ).fetchall()
    return _part(rows, databases)


def history_at(connection: Any, key: OrderKey, logical: bool = False) -> SchemaHistory:
    """Return only the versions in force at a key, of all tables or the logical ones, without dropped tables."""
    parts = []
    only = "AND node = ''" if logical else ""
    for table, columns, names in (
        ("table_versions", TABLE_COLUMNS, "node, schema_name, table_name"),
        ("schema_versions", SCHEMA_COLUMNS, "node, schema_name"),
    ):
        opaque = f"OR v.origin = '{OPAQUE}'" if logical and table == "table_versions" else ""
        parts.append(
            connection.execute(
                f"""SELECT {_of("v", columns)} FROM {table} AS v
                    JOIN (SELECT {names}, max(order_key) AS order_key FROM {table} WHERE order_key < $1 {only}
                          GROUP BY {names}) USING ({names}, order_key)
                    WHERE definition IS NOT NULL {opaque}""",
                [key.text()],
            ).fetchall()
        )
    return _part(*parts)


def logical_changes(connection: Any, after: OrderKey, most: int) -> tuple[TableVersion, ...]:
    """Return the first `most` logical versions after a key, in order, and any others with the key of the last."""
    rows = connection.execute(
        f"""SELECT {TABLE_COLUMNS} FROM table_versions WHERE node = '' AND order_key > $1 AND order_key <= coalesce(
                (SELECT order_key FROM table_versions WHERE node = '' AND order_key > $1
                 ORDER BY order_key LIMIT 1 OFFSET $2), repeat('9', 54))
            ORDER BY order_key, schema_name, table_name""",
        [after.text(), most - 1],
    ).fetchall()
    return tuple(map(table_version, rows))


def _of(alias: str, columns: str) -> str:
    return ", ".join(f"{alias}.{name}" for name in columns.split(", "))


def _part(tables: list[Row], databases: list[Row]) -> SchemaHistory:
    versions = sorted(map(table_version, tables), key=lambda v: (v.node or "", v.key, v.schema, v.name))
    schemas = sorted(map(schema_version, databases), key=lambda v: (v.node or "", v.key, v.name))
    return SchemaHistory(tuple(versions), tuple(schemas))
