"""Our catalog and a real server's information_schema, brought into one shape to be compared."""

import contextlib
import re
from collections.abc import Callable
from typing import Any

import pymysql

from snapshot_store.model import Catalog, Column, Table
from snapshot_store.render_sql import type_sql
from tests.mysql_server import MySqlServer

Rows = dict[str, list[tuple[Any, ...]]]
Query = Callable[[str], list[tuple[Any, ...]]]

SYSTEM = "('mysql', 'sys', 'information_schema', 'performance_schema')"


def connect(server: MySqlServer) -> "pymysql.Connection[Any]":
    """Return a session that takes one statement at a time, as a binlog holds them."""
    return pymysql.connect(unix_socket=server.socket, user="root", password="", charset="utf8mb4", autocommit=True)


def query(session: "pymysql.Connection[Any]", sql: str) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows."""
    with session.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


def server_shape(query: Query, schema: str | None = None) -> Rows:
    """Return what a server says of all schemas, or of one."""

    def of(column: str) -> str:
        return f"{column} = '{schema}'" if schema else f"{column} NOT IN {SYSTEM}"

    return {
        "schemas": sorted(
            query(
                "SELECT schema_name, default_character_set_name, default_collation_name "
                f"FROM information_schema.schemata WHERE {of('schema_name')}"
            )
        ),
        "views": sorted(
            query(f"SELECT table_schema, table_name FROM information_schema.views WHERE {of('table_schema')}")
        ),
        "tables": sorted(
            query(
                "SELECT table_schema, table_name, engine, table_collation, table_comment "
                f"FROM information_schema.tables t WHERE {of('table_schema')} AND table_type = 'BASE TABLE'"
            )
        ),
        "partitioned": sorted(
            query(
                "SELECT DISTINCT table_schema, table_name FROM information_schema.partitions "
                f"WHERE {of('table_schema')} AND partition_name IS NOT NULL"
            )
        ),
        "columns": [
            _server_column(row, query)
            for row in query(
                # Behind hidden columns of functional keys, ordinal_position has gaps.
                "SELECT c.table_schema, c.table_name, column_name, CAST(ROW_NUMBER() OVER (PARTITION BY "
                "c.table_schema, c.table_name ORDER BY ordinal_position) AS SIGNED), data_type, column_type, "
                "is_nullable, character_set_name, collation_name, COALESCE(datetime_precision, 0), srs_id, extra, "
                "column_default, generation_expression, column_comment "
                "FROM information_schema.columns c JOIN information_schema.tables t "
                "ON t.table_schema = c.table_schema AND t.table_name = c.table_name AND t.table_type = 'BASE TABLE' "
                f"WHERE {of('c.table_schema')} ORDER BY c.table_schema, c.table_name, ordinal_position"
            )
        ],
        "indexes": [
            (*row[:-1], None if row[-1] is None else unescaped(row[-1]))
            for row in query(
                "SELECT table_schema, table_name, index_name, seq_in_index, non_unique, column_name, sub_part, "
                "collation = 'D', index_type, is_visible, expression FROM information_schema.statistics "
                f"WHERE {of('table_schema')} ORDER BY table_schema, table_name, LOWER(index_name), seq_in_index"
            )
        ],
        "checks": sorted(
            (*row[:-1], unescaped(row[-1]))
            for row in query(
                "SELECT table_schema, table_name, constraint_name, enforced, check_clause "
                "FROM information_schema.table_constraints t JOIN information_schema.check_constraints c "
                f"USING (constraint_schema, constraint_name) WHERE {of('table_schema')} AND constraint_type = 'CHECK'"
            )
        ),
        "foreign keys": sorted(
            query(
                "SELECT constraint_schema, r.table_name, constraint_name, unique_constraint_schema, "
                "r.referenced_table_name, delete_rule, update_rule, (SELECT GROUP_CONCAT(CONCAT(column_name, '>', "
                "LOWER(referenced_column_name)) ORDER BY ordinal_position) FROM information_schema.key_column_usage k "
                "WHERE k.table_schema = r.constraint_schema AND k.table_name = r.table_name AND k.constraint_name = "
                f"r.constraint_name) FROM information_schema.referential_constraints r WHERE {of('constraint_schema')}"
            )
        ),
    }


_EXPRESSION_TYPES = frozenset({"binary", "varbinary"})


def _server_column(row: tuple[Any, ...], query: Query) -> tuple[Any, ...]:
    *head, extra, default, generation, comment = row
    if default is None and "DEFAULT_GENERATED" in extra:
        # After SET DEFAULT, information_schema keeps that of a BLOB to itself until the table is altered again.
        default = _shown_default(query, *head[:3])
    elif default is not None:
        default = unescaped(default) if "DEFAULT_GENERATED" in extra else default
        if head[4] == "binary" and "DEFAULT_GENERATED" not in extra:
            default = re.sub("(00)+$", "", default) if len(default) % 2 == 0 else default
    return (
        *head,
        "auto_increment" in extra,
        "on update" in extra,
        "INVISIBLE" in extra,
        "DEFAULT_GENERATED" in extra,
        default,
        "STORED GENERATED" in extra,
        unescaped(generation),
        comment,
    )


def _shown_default(query: Query, schema: str, table: str, column: str) -> str | None:
    shown = query(f"SHOW CREATE TABLE `{schema}`.`{table}`")[0][1]
    found = re.search(rf"^  `{re.escape(column)}` .* DEFAULT \((.*)\)(?: COMMENT '.*')?,?$", shown, re.MULTILINE)
    return found[1] if found else None


def unescaped(text: str) -> str:
    """Return an expression as SHOW CREATE TABLE prints it; information_schema escapes it once more."""
    with contextlib.suppress(UnicodeError):
        # It also takes each byte of UTF-8 for a character.
        text = text.encode("latin-1").decode()
    return re.sub(
        r"\\(.)", lambda m: {"n": "\n", "0": "\0", "r": "\r", "Z": "\x1a"}.get(m[1], m[1]), text, flags=re.DOTALL
    )


def our_shape(catalog: Catalog, schema: str | None = None) -> Rows:
    """Return what the catalog says, in the server's words."""
    tables = sorted(
        (t for t in catalog.tables.values() if schema in (None, t.schema)), key=lambda t: (t.schema, t.name)
    )
    return {
        "schemas": sorted(
            (s.name, s.charset, s.collation) for s in catalog.schemas.values() if schema in (None, s.name)
        ),
        "views": sorted(view for view in catalog.views if schema in (None, view[0])),
        "tables": [(t.schema, t.name, t.engine, t.collation, t.comment) for t in tables],
        "partitioned": [(t.schema, t.name) for t in tables if t.partitioning],
        "columns": [_column(t, c, i + 1) for t in tables for i, c in enumerate(t.columns)],
        "indexes": [row for t in tables for row in _indexes(t)],
        "checks": sorted(
            (t.schema, t.name, name, "NO" if name in t.unenforced else "YES", text)
            for t in tables
            for name, text in t.checks
        ),
        "foreign keys": sorted(row for t in tables for row in _foreign_keys(t)),
    }


def _column(table: Table, column: Column, place: int) -> tuple[Any, ...]:
    type, generated = column.type, column.generated
    return (
        table.schema,
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
        column.auto_increment,
        column.on_update_now,
        column.invisible,
        column.default is not None and column.default.kind in ("now", "expression"),
        _default(column),
        generated is not None and generated.stored,
        "" if generated is None else generated.expression,
        column.comment,
    )


def _default(column: Column) -> str | None:
    default, type = column.default, column.type
    if default is None or default.kind == "null":
        return None
    if default.kind == "now":
        return f"CURRENT_TIMESTAMP({type.fsp})" if type.fsp else "CURRENT_TIMESTAMP"
    if default.kind == "literal" and type.name in ("binary", "varbinary"):
        data = bytes.fromhex(default.text[2:]) if default.text.startswith("0x") else default.text.encode()
        data = data.rstrip(b"\0") if type.name == "binary" else data
        return f"0x{data.hex().upper()}" if data or type.name == "binary" else ""
    # information_schema has no characters beyond the first plane.
    return re.sub("[\U00010000-\U0010ffff]", "?", default.text)


def _indexes(table: Table) -> list[tuple[Any, ...]]:
    rows = []
    for index in sorted(table.indexes, key=lambda i: i.name.lower()):
        for number, part in enumerate(index.parts, 1):
            spatial = index.kind == "spatial"
            rows.append(
                (
                    table.schema,
                    table.name,
                    index.name,
                    number,
                    int(not index.unique),
                    part.column,
                    32 if spatial else part.length,
                    None if index.kind in ("fulltext", "hash") else int(part.descending),
                    index.kind.upper(),
                    "YES" if index.visible else "NO",
                    part.expression,
                )
            )
    return rows


def _foreign_keys(table: Table) -> list[tuple[Any, ...]]:
    rows = []
    for key in table.foreign_keys:
        pairs = ",".join(f"{a}>{b.lower()}" for a, b in zip(key.columns, key.referenced, strict=False))
        actions = (key.on_delete or "NO ACTION", key.on_update or "NO ACTION")
        rows.append((table.schema, table.name, key.name, *key.target(table.schema), *actions, pairs))
    return rows
