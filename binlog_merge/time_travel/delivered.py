"""A table that was made, delivered: as a DuckDB file, as Parquet, to a MySQL server, or as lines."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from binlog_merge.errors import CHECK_PATH, ConfigError, ConversionFailed, IoError, ReplayStopped
from binlog_merge.log.checkpoint import Checkpoint
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.tables.types import duckdb_type, in_duckdb, listed, qualified, quoted
from binlog_merge.targets.server.mysql import MysqlTarget, Session
from binlog_merge.targets.server.overwriting import inserts
from binlog_merge.time_travel.bases import Made
from binlog_merge.time_travel.statements import key_of
from binlog_merge.values.sql import literal_of_text
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import DATES, TEMPORAL, Family
from snapshot_store.mysql.sql.names import quote_name, quote_plainly
from snapshot_store.render_sql import create_schema_sql, make_sql
from snapshot_store.server import message_of

_IN_PARQUET: Final = DATES
"""Parquet's intervals are not negative, and end with milliseconds: a TIME is text there."""
_SESSION: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0"
)


def query_of(table: Table, typed: Collection[Family]) -> str:
    """Return the SELECT of a table's rows; dates and times of the families in `typed` have DuckDB's types."""
    shown = ", ".join(f"{_typed(column, typed)} AS {quoted(column.name)}" for column in table.columns)
    key = key_of(table)
    order = "" if key is None else f" ORDER BY {', '.join(quoted(table.columns[i].name) for i in key)}"
    return f"SELECT {shown} FROM {qualified(table.schema, table.name)}{order}"


def _typed(column: Column, typed: Collection[Family]) -> str:
    name = quoted(column.name)
    if column.type.family not in typed:
        return name
    text = f"{name} || '+00'" if column.type.name == "timestamp" else name
    return f"CAST({text} AS {duckdb_type(column.type, False)})"


def rows_of(made: Made, temporal_text: bool, limit: int | None = None) -> Any:
    """Return the rows as an Arrow table. Raises ConversionFailed for what is no date."""
    sql = query_of(made.table, () if temporal_text else TEMPORAL) + ("" if limit is None else f" LIMIT {limit}")
    return _converted(made, lambda: made.target.connection.sql(sql).to_arrow_table())


def to_parquet(made: Made, path: Path, temporal_text: bool) -> None:
    """Write a Parquet file. Raises ConversionFailed for what is no date."""
    query = query_of(made.table, () if temporal_text else _IN_PARQUET)
    sql = f"COPY ({query}) TO {quote_plainly(str(path))} (FORMAT parquet)"
    _converted(made, lambda: made.target.connection.execute(sql))


def to_duckdb(made: Made, path: Path, temporal_text: bool, place_then: Checkpoint) -> None:
    """Write a DuckDB file with the table and its position in the log, which a replay of the log goes on from.

    Raises ConversionFailed for what is no date.
    """
    name = (made.table.schema, made.table.name)
    with DuckdbTarget(path, made.target.cluster, temporal_text) as file:
        file.start_at(made.rank, made.target.catalog, lambda *each: each == name)
        file.has_only(name)
        file.begin()
        file.commit(made.rank, place_then.gtid or "", place_then.key)
    connection = made.target.connection
    connection.execute(f"ATTACH {quote_plainly(str(path))} AS made")
    try:
        typed = () if temporal_text else TEMPORAL
        names = listed([column.name for column in made.table.columns])
        rows = f"INSERT INTO {quoted('made', *name)} ({names}) {query_of(made.table, typed)}"
        _converted(made, lambda: connection.execute(rows))
        connection.execute("CHECKPOINT made")
    finally:
        connection.execute("DETACH made")


def _converted(made: Made, act: Any) -> Any:
    try:
        return act()
    except duckdb.ConversionException as error:
        raise ConversionFailed(
            f"{made.table.schema}.{made.table.name}: {str(error).splitlines()[0]}",
            remedy="--temporal text keeps every date as MySQL's text",
        ) from None
    except duckdb.IOException as error:
        raise IoError(str(error).splitlines()[0], remedy=CHECK_PATH) from None


def to_server(made: Made, server: MysqlTarget) -> None:
    """Create the table on a server and insert its rows. Raises ConfigError if it is there, and ReplayStopped."""
    import pymysql

    table = made.table
    session = Session(server)
    session.open()
    try:
        session.run(_SESSION)
        if session.ask(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (table.schema, table.name),
        ):
            raise ConfigError(
                f"{server.address} has {table.schema}.{table.name} already", remedy="drop it, or name another server"
            )
        if not session.ask("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (table.schema,)):
            schema = made.target.catalog.schemas.get(table.schema)
            session.run(create_schema_sql(schema) if schema else f"CREATE DATABASE {quote_name(table.schema)}")
        for sql in make_sql(table):
            session.run(sql)
        session.run("BEGIN")
        for statement in _inserts(made):
            session.send(statement)
        session.run("COMMIT")
    except pymysql.MySQLError as error:
        raise ReplayStopped(
            f"{server.address} refuses rows of {table.schema}.{table.name}: {message_of(error)}"
        ) from None
    finally:
        session.close()


def _inserts(made: Made) -> Iterator[bytes]:
    table = made.table
    columns = [column for column in table.columns if column.generated is None]
    names = ", ".join(quote_name(column.name) for column in columns)
    head = f"INSERT INTO {quote_name(table.schema)}.{quote_name(table.name)} ({names}) VALUES "
    shown = ", ".join(_shown(column) for column in columns)
    found = made.target.connection.execute(f"SELECT {shown} FROM {qualified(table.schema, table.name)}")
    rows = (row for batch in iter(lambda: found.fetchmany(10_000), []) for row in batch)
    yield from inserts(head, ("(" + ", ".join(map(_literal, columns, row)) + ")" for row in rows))


def _shown(column: Column) -> str:
    return quoted(column.name) if column.type.family in (Family.BIT, Family.VECTOR) else in_duckdb(column)


def _literal(column: Column, value: Any) -> str:
    if value is not None and column.type.family is Family.VECTOR:
        value = np.asarray(value, "<f4").tobytes().hex()
    elif isinstance(value, float):
        value = repr(value)
    return literal_of_text(column, None if value is None else str(value))
