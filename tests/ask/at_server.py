"""A merged log in stages that end before its statements, and what a server that has applied one says of its tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binlog_merge.ask.lists import ddl_batches, transaction_batches
from binlog_merge.log.log import Log
from tests.merge_e2e.local import written
from tests.mysql_server import MySqlServer, mysqlbinlog

BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
SHAPES = ("point", "linestring", "polygon", "geometry", "multipoint", "multilinestring", "multipolygon",
          "geomcollection")  # fmt: skip
Key = tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A column as the server has it now."""

    name: str
    kind: str
    virtual: bool


@dataclass(frozen=True)
class ServerTable:
    """A table as a server has it: its columns, its primary key, and its rows by that key.

    ENUMs and SETs are (text, number); floats exact; bytes, shapes and vectors their bytes.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: dict[Key, dict[str, Any]]

    @property
    def kinds(self) -> dict[str, str]:
        """Return the type of each column by name."""
        return {column.name: column.kind for column in self.columns}


def stages(merged: Path, server: MySqlServer) -> Iterator[tuple[int, int]]:
    """Apply a log of one file to a server in stages; yield a stage's first and last rank once it is applied."""
    binlog = Log(merged)
    (file,) = binlog.state.files
    ranks = {row["position"]: row["rank"] for batch in transaction_batches(binlog, file) for row in batch.to_pylist()}
    altered = [row["position"] for batch in ddl_batches(binlog) for row in batch.to_pylist()]
    ends = [*sorted(at for at in altered if ranks[at] > 1), file.size]
    begin, first = 4, 1
    for end in ends:
        options = [f"--start-position={begin}", *([f"--stop-position={end}"] if end < file.size else [])]
        server.apply(mysqlbinlog([merged / name for name in written(merged)], *options))
        last = ranks[end] - 1 if end in ranks else binlog.last_rank
        yield first, last
        begin, first = end, last + 1


def server_tables(server: MySqlServer) -> Iterator[ServerTable]:
    """Yield the user's tables that have a primary key."""
    for schema, table in server.query(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND "
        "table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')"
    ):
        where = f"table_schema = {_text(schema)} AND table_name = {_text(table)} ORDER BY ordinal_position"
        columns = tuple(
            Column(*row)
            for row in server.query(
                "SELECT column_name, data_type, extra LIKE '%%VIRTUAL%%' FROM information_schema.columns WHERE " + where
            )
        )
        key = tuple(
            name
            for (name,) in server.query(
                "SELECT column_name FROM information_schema.key_column_usage WHERE constraint_name = 'PRIMARY' AND "
                + where
            )
        )
        if not key:
            continue
        shown = ", ".join(_shown(column) for column in columns)
        rows: dict[Key, dict[str, Any]] = {}
        for found in server.query(f"SELECT {shown} FROM {_quoted(schema)}.{_quoted(table)}"):
            left, values = iter(found), {}
            for column in columns:
                value = next(left)
                if column.kind in ("enum", "set"):
                    number = next(left)
                    value = None if number is None else (_members(value), int(number))
                elif column.kind in (*BYTES, *SHAPES, "vector") and value is not None:
                    value = bytes.fromhex(value)
                values[column.name] = value
            rows[key_of(values, key)] = values
        yield ServerTable(schema, table, columns, key, rows)


def key_of(values: dict[str, Any], key: tuple[str, ...]) -> Key:
    """Return the values of a row's primary key as texts."""
    return tuple(v.hex() if isinstance(v := values[name], bytes) else str(v) for name in key)


def _members(value: Any) -> str:
    return ",".join(sorted(value if isinstance(value, set) else value.split(",")))


def _shown(column: Column) -> str:
    name = _quoted(column.name)
    if column.kind in ("json", "date", "datetime", "timestamp", "time"):
        return f"CAST({name} AS CHAR)"
    if column.kind == "bit":
        return f"{name} + 0"
    if column.kind in ("enum", "set"):
        return f"{name}, CAST({name} AS UNSIGNED)"
    if column.kind == "float":
        return f"CAST({name} AS DOUBLE)"
    if column.kind in (*BYTES, *SHAPES, "vector"):
        return f"HEX({name})"
    return name


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
