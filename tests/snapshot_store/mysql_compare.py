"""Our catalog and a real server's information_schema, brought into one shape to be compared."""

from typing import Any

from snapshot_store.model import Catalog, Column, Table
from snapshot_store.render_sql import type_sql
from tests.mysql_server import MySqlServer

Rows = dict[str, list[tuple[Any, ...]]]


def server_shape(server: MySqlServer, schema: str) -> Rows:
    """Return what the server says of a schema's tables."""
    where = f"WHERE table_schema = '{schema}'"
    return {
        "tables": server.query(
            f"SELECT table_name, engine, table_collation, table_comment FROM information_schema.tables {where} "
            "AND table_type = 'BASE TABLE' ORDER BY table_name"
        ),
        "columns": server.query(
            "SELECT table_name, column_name, ordinal_position, data_type, column_type, is_nullable, "
            "character_set_name, collation_name, COALESCE(datetime_precision, 0), srs_id, "
            "extra LIKE '%auto_increment%', "
            "extra LIKE '%on update%', extra LIKE '%INVISIBLE%', extra LIKE '%VIRTUAL GENERATED%', "
            "extra LIKE '%STORED GENERATED%', column_comment, column_default IS NOT NULL "
            f"FROM information_schema.columns {where} AND table_name NOT IN (SELECT table_name FROM "
            f"information_schema.views {where}) ORDER BY table_name, ordinal_position"
        ),
        "indexes": server.query(
            "SELECT table_name, index_name, seq_in_index, non_unique, column_name, sub_part, collation = 'D', "
            f"index_type, is_visible, expression IS NOT NULL FROM information_schema.statistics {where} "
            "ORDER BY table_name, LOWER(index_name), seq_in_index"
        ),
        "constraints": server.query(
            f"SELECT table_name, constraint_type, constraint_name FROM information_schema.table_constraints {where} "
            "AND constraint_type IN ('CHECK', 'FOREIGN KEY') "
            "ORDER BY table_name, constraint_type, LOWER(constraint_name)"
        ),
    }


def our_shape(catalog: Catalog, schema: str) -> Rows:
    """Return what the catalog says, in the server's words."""
    tables = sorted((t for t in catalog.tables.values() if t.schema == schema), key=lambda t: t.name)
    return {
        "tables": [(t.name, t.engine, t.collation, t.comment) for t in tables],
        "columns": [_column(t, c, i + 1) for t in tables for i, c in enumerate(t.columns)],
        "indexes": [row for t in tables for row in _indexes(t)],
        "constraints": [row for t in tables for row in _constraints(t)],
    }


def _column(table: Table, column: Column, place: int) -> tuple[Any, ...]:
    type, generated = column.type, column.generated
    return (
        table.name,
        column.name,
        place,
        type.name,
        type_sql(type),
        "YES" if column.nullable else "NO",
        None if type.charset == "binary" else type.charset,  # of an ENUM; information_schema does not show it
        None if type.charset == "binary" else type.collation,
        type.fsp,
        type.srid,
        int(column.auto_increment),
        int(column.on_update_now),
        int(column.invisible),
        int(generated is not None and not generated.stored),
        int(generated is not None and generated.stored),
        column.comment,
        int(column.default is not None and column.default.kind != "null"),
    )


def _indexes(table: Table) -> list[tuple[Any, ...]]:
    rows = []
    for index in sorted(table.indexes, key=lambda i: i.name.lower()):
        for number, part in enumerate(index.parts, 1):
            spatial = index.kind == "spatial"
            rows.append(
                (
                    table.name,
                    index.name,
                    number,
                    int(not index.unique),
                    part.column,
                    32 if spatial else part.length,
                    None if index.kind in ("fulltext", "hash") else int(part.descending),
                    index.kind.upper(),
                    "YES" if index.visible else "NO",
                    int(part.column is None),
                )
            )
    return rows


def _constraints(table: Table) -> list[tuple[str, str, str]]:
    checks = [(table.name, "CHECK", name) for name, _ in table.checks]
    keys = [(table.name, "FOREIGN KEY", text.split("`")[1]) for text in table.foreign_keys]
    return sorted(checks + keys, key=lambda row: (row[1], row[2].lower()))
