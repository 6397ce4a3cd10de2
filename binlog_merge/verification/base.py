"""The rows of tables from before a log, read from a server or from a replay's DuckDB file, or none.

Rows are read as the texts that a server prints (`compare_sides`) and inserted into the log's first tables. A base may
be of a later moment of the log if it has its position, or its executed GTIDs. (Dumps are in `base_dump`.)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from binlog_merge.errors import ConfigError, ReplayStopped
from binlog_merge.log.statement import StatementSession
from binlog_merge.tables.alter import Alteration
from binlog_merge.tables.target import META_SCHEMA, DuckdbTarget, check_bootstrapped
from binlog_merge.tables.types import (
    duckdb_type,
    listed,
    moment_text,
    of_text,
    qualified,
    quoted,
    text_array,
    time_text,
)
from binlog_merge.verification.compare_sides import Compared, ServerSide, Texts
from snapshot_store.model import Column, Table
from snapshot_store.mysql.sql.names import quote_plainly

Name = tuple[str, str]
_BATCH: Final = 50_000


def is_duckdb(path: Path) -> bool:
    """Return whether a file is a DuckDB database."""
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:
        return False


class Empty:
    """A base in which every table is empty."""

    rank = 0

    def fill(self, target: DuckdbTarget, tables: Mapping[Name, Table]) -> set[Name]:
        """Return all tables."""
        return set(tables)


@dataclass(frozen=True)
class ServerBase:
    """The tables of a server, at transaction `rank` of the log."""

    server: ServerSide
    rank: int = 0

    def fill(self, target: DuckdbTarget, tables: Mapping[Name, Table]) -> set[Name]:
        """Insert the rows of the tables that the server has; return these tables."""
        given = set()
        for name, table in sorted(tables.items()):
            kept = target.as_kept(table)
            if not kept.columns or not self.server.has(table):
                continue
            _all_there(kept, self.server.columns(table), f"{self.server.addresses[0]}")
            insert(target, kept, self.server.all_rows(Compared.of(kept)), kept.columns)
            given.add(name)
        return given


@dataclass(frozen=True)
class DuckdbBase:
    """The tables of a DuckDB file, of a replay or otherwise made, at transaction `rank` of the log."""

    path: Path
    rank: int = 0

    @classmethod
    def of(cls, path: Path, cluster: str) -> "DuckdbBase":
        """Read a file's position. Raises ConfigError for another cluster's file, or one that is not DuckDB's."""
        try:
            with duckdb.connect(str(path), read_only=True) as connection:
                known = connection.execute(
                    "SELECT 1 FROM duckdb_tables() WHERE schema_name = ? AND table_name = 'replay_position'",
                    [META_SCHEMA],
                ).fetchall()
                check_bootstrapped(connection, path)
                asked = f'SELECT cluster, "rank" FROM {META_SCHEMA}.replay_position'
                rows = connection.execute(asked).fetchall() if known else []
        except duckdb.Error as error:
            raise ConfigError(f"--base: DuckDB cannot open it: {str(error).splitlines()[0]}", file=str(path)) from None
        others = [of for of, _ in rows if of != cluster]
        if others:
            raise ConfigError(f"--base: the file has the tables of cluster {others[0]}", file=str(path))
        return cls(path, max((int(rank) for _, rank in rows), default=0))

    def fill(self, target: DuckdbTarget, tables: Mapping[Name, Table]) -> set[Name]:
        """Insert the rows of the tables that the file has; return these tables."""
        connection, given = target.connection, set()
        file = quote_plainly(str(self.path))
        connection.execute(f"ATTACH IF NOT EXISTS {file} AS {quoted(_BASE)} (READ_ONLY)")
        for name, table in sorted(tables.items()):
            kept = target.as_kept(table)
            types = dict(
                connection.execute(
                    "SELECT lower(column_name), data_type FROM duckdb_columns() WHERE database_name = ? AND "
                    "schema_name = ? AND table_name = ?",
                    [_BASE, *name],
                ).fetchall()
            )
            if not types or not kept.columns:
                continue
            _all_there(kept, types, str(self.path))
            columns = ", ".join(_retyped(column, str(types[column.name.lower()])) for column in kept.columns)
            connection.execute(f"INSERT INTO {qualified(*name)} SELECT {columns} FROM {quoted(_BASE, *name)}")
            given.add(name)
        return given


_BASE: Final = "verify base"


def _all_there(table: Table, columns: Iterable[str], where: str) -> None:
    missing = [column.name for column in table.columns if column.name.lower() not in columns]
    if missing:
        raise ConfigError(
            f"--base: {table.schema}.{table.name} has no column {', '.join(missing)} in {where}",
            remedy="a base has the tables as they were where the log begins, or says where in the log it is",
        )


def _retyped(column: Column, kind: str) -> str:
    """Return SQL that converts a date or time column of DuckDB's types to MySQL's text."""
    name, fsp = quoted(column.name), column.type.fsp
    if kind == "INTERVAL":
        return time_text(name, fsp)
    if kind.startswith("TIMESTAMP"):
        return moment_text(name, fsp)
    return f"CAST({name} AS {duckdb_type(column.type, True)})"


def insert(target: DuckdbTarget, table: Table, rows: Iterable[Texts], given: Sequence[Column]) -> None:
    """Insert rows, as texts of the `given` columns, into a table."""
    into = f"INSERT INTO {qualified(table.schema, table.name)} ({listed([c.name for c in given])})"
    chosen = ", ".join(of_text(column, f"c{i}", True) for i, column in enumerate(given))
    for batch in _batches(rows):
        arrays = {f"c{i}": text_array(column, [row[i] for row in batch]) for i, column in enumerate(given)}
        target.connection.register("base_rows", pa.table(arrays))
        try:
            target.connection.execute(f"{into} SELECT {chosen} FROM base_rows")
        except duckdb.Error as error:
            raise ReplayStopped(
                f"--base: rows of {table.schema}.{table.name} are not as the table is: {str(error).splitlines()[0]}"
            ) from None


def compute_others(target: DuckdbTarget, table: Table, given: Sequence[Column]) -> None:
    """Compute the columns that are not `given` in the rows."""
    pairs, text = tuple((column, column) for column in table.columns), target.temporal_text
    work = Alteration(target.connection, table, table, pairs, table.columns, StatementSession(0), 1, text)
    for column in table.columns:
        if column not in given:
            work.compute(qualified(table.schema, table.name), column)


def _batches(rows: Iterable[Texts]) -> Iterator[list[Texts]]:
    batch: list[Texts] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
