"""A DuckDB file as the target: the cluster's tables, typed, at the position recorded in the file.

    binlog_merge.replay_position    the position, and the cluster
    binlog_merge.replay_catalog     the log's tables at that position, in the format of the schema store
    binlog_merge.replay_skipped     transactions that the user asked to skip
    binlog_merge.replay_filtered    from where a filter has left something out
    binlog_merge.replay_tables      the only tables of which it has rows, if it was made of some (`table-at --to`)

Everything between two commits is a transaction of DuckDB, including DDL and the position; a killed process leaves what
was committed. DuckDB admits one process at a time, and so one replay.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import duckdb

from binlog_merge.errors import ConfigError, IoError, ReplayStopped, TargetBusy
from binlog_merge.files.failpoint import failpoint
from binlog_merge.log.checkpoint import Checkpoint
from binlog_merge.tables.ddl import DdlTarget
from binlog_merge.tables.types import CATALOG, qualified, quoted
from binlog_merge.targets.server.ledger import BOOTSTRAP
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.model_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from snapshot_store.mysql.sql.names import quote_plainly

META_SCHEMA: Final = "binlog_merge"
_VIEW: Final = '"view"'
_META_PLACE: Final = qualified(META_SCHEMA)
_FILTERED: Final = f"CREATE TABLE IF NOT EXISTS {_META_PLACE}.replay_filtered (since UBIGINT)"
_TABLES: Final = f'CREATE TABLE IF NOT EXISTS {_META_PLACE}.replay_tables ("schema" VARCHAR, "table" VARCHAR)'
_META: Final = (
    f"CREATE SCHEMA IF NOT EXISTS {_META_PLACE}",
    f"""CREATE TABLE IF NOT EXISTS {_META_PLACE}.replay_position (
  cluster VARCHAR NOT NULL, "rank" UBIGINT NOT NULL, gtid VARCHAR, order_key VARCHAR, temporal VARCHAR NOT NULL)""",
    f'CREATE TABLE IF NOT EXISTS {_META_PLACE}.replay_catalog ("schema" VARCHAR, "table" VARCHAR, definition VARCHAR)',
    f"""CREATE TABLE IF NOT EXISTS {_META_PLACE}.replay_skipped (
  cluster VARCHAR, "rank" UBIGINT, gtid VARCHAR, skipped_at TIMESTAMP DEFAULT current_timestamp::TIMESTAMP)""",
    _FILTERED,
)


class DuckdbTarget:
    """A DuckDB file; use it as a context manager. Raises TargetBusy, ConfigError and IoError.

    `rank` is the number of transactions in it, None for a file without a position; `place` is the position when it was
    opened. `catalog` are the log's tables. Without `temporal_text`, dates and times are kept as in the file already;
    in a new one as text. `unfinished`: also a file that a bootstrap has not made exact is opened. `read_only`: a file
    that is there is read, and never written to.
    """

    def __init__(
        self,
        path: Path,
        cluster: str,
        temporal_text: bool | None = False,
        chosen: Callable[[str, str], Any] = lambda schema, table: None,
        unfinished: bool = False,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self._mode = " (READ_ONLY)" if read_only else ""
        self._unfinished = unfinished
        self.cluster = cluster
        self._given = temporal_text
        self.temporal_text = temporal_text is not False
        self._chosen = chosen
        self.rank: int | None = None
        self.place: Checkpoint | None = None
        self.catalog = Catalog()
        self._columns: dict[tuple[str, str], tuple[str, ...]] = {}
        self._only: frozenset[tuple[str, str]] = frozenset()

    def __enter__(self) -> "DuckdbTarget":
        self.connection = duckdb.connect()
        try:
            path = quote_plainly(str(self.path))
            self.connection.execute(f"ATTACH {path} AS {quoted(CATALOG)}{self._mode}; USE {quoted(CATALOG)}")
        except duckdb.Error as error:
            self.connection.close()
            text = str(error).splitlines()[0]
            if "lock" in text.lower():
                raise TargetBusy(f"another process has it open: {text}", file=str(self.path)) from None
            raise IoError(
                f"DuckDB cannot open it: {text}",
                file=str(self.path),
                remedy="give a DuckDB file, or a new one's name in a folder that is there and can be written to",
            ) from None
        try:
            self.connection.execute("SET TimeZone = 'UTC'")
            self._load()
            self.ddl = DdlTarget(self.connection, self._present, self.temporal_text, self._chosen)
        except BaseException:
            self.connection.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def begin(self) -> None:
        """Begin a transaction."""
        self.connection.execute("BEGIN")

    def commit(self, rank: int, gtid: str, key: str | None) -> None:
        """Commit the changes since `begin`, with the position."""
        self.connection.execute(
            f'UPDATE {_META_PLACE}.replay_position SET "rank" = ?, gtid = ?, order_key = ? WHERE cluster = ?',
            [rank, gtid, key, self.cluster],
        )
        failpoint("replay-before-commit")
        self.connection.execute("COMMIT")
        self.rank = rank
        failpoint("replay-committed")

    def roll_back(self) -> None:
        """Give up what was done since `begin`, if anything was begun."""
        with contextlib.suppress(duckdb.Error):
            self.connection.execute("ROLLBACK")
        self._columns.clear()
        self._load()

    def checkpoint(self) -> None:
        """Bring everything that is committed into the file itself, so that it is whole without its write-ahead log."""
        self.connection.execute(f"CHECKPOINT {quoted(CATALOG)}")

    def start_at(self, rank: int, catalog: Catalog, wanted: Callable[[str, str], bool]) -> None:
        """Record the first position, and create the `wanted` tables that do not exist."""
        self.connection.execute("BEGIN")
        for statement in _META:
            self.connection.execute(statement)
        self.connection.execute(
            f"INSERT INTO {_META_PLACE}.replay_position VALUES (?, ?, NULL, NULL, ?)",
            [self.cluster, rank, self._temporal],
        )
        for name, table in sorted(catalog.tables.items()):
            if wanted(*name) and not self.columns_of(*name):
                self.ddl.create(table)
        self.know(catalog)
        self.connection.execute("COMMIT")
        self.rank = rank

    def know(self, catalog: Catalog) -> None:
        """Record the log's tables in the open transaction."""
        before, self.catalog = self.catalog, catalog
        self._columns.clear()
        lines: list[tuple[str, str, str | None]] = []
        for name in {*before.tables, *catalog.tables}:
            table = catalog.tables.get(name)
            was = before.tables.get(name)
            # Equal tables may be partitioned otherwise.
            if was != table or (was and table and was.partitioning != table.partitioning):
                lines.append((*name, None if table is None else table_to_json(table)))
        for schema in {*before.schemas, *catalog.schemas}:
            value = catalog.schemas.get(schema)
            if before.schemas.get(schema) != value:
                lines.append((schema, "", None if value is None else schema_to_json(value)))
        for view in before.views ^ catalog.views:
            lines.append((*view, _VIEW if view in catalog.views else None))
        for schema, table_name, text in lines:
            self.connection.execute(
                f'DELETE FROM {_META_PLACE}.replay_catalog WHERE "schema" = ? AND "table" = ?', [schema, table_name]
            )
            if text is not None:
                self.connection.execute(
                    f"INSERT INTO {_META_PLACE}.replay_catalog VALUES (?, ?, ?)", [schema, table_name, text]
                )

    def skipped(self, rank: int, gtid: str) -> None:
        """Record, in the open transaction, that the user asked to skip a transaction."""
        self.connection.execute(
            f'INSERT INTO {_META_PLACE}.replay_skipped (cluster, "rank", gtid) VALUES (?, ?, ?)',
            [self.cluster, rank, gtid],
        )

    def leaves_out(self) -> None:
        """Record that what follows leaves something of the log out."""
        if self.filtered():
            return
        self.connection.execute(_FILTERED)  # files of before this was recorded do not have it
        self.connection.execute(f"INSERT INTO {_META_PLACE}.replay_filtered VALUES (?)", [self.rank])

    def has_only(self, *names: tuple[str, str]) -> None:
        """Record that these are the only tables of which the file has rows, beside those that it has so already."""
        self.connection.execute(_TABLES)
        self.connection.executemany(f"INSERT INTO {_META_PLACE}.replay_tables VALUES (?, ?)", [list(n) for n in names])
        self.leaves_out()
        self._only |= frozenset(names)

    def only(self) -> frozenset[tuple[str, str]]:
        """Return the only tables of which the file has rows; none: it has those of all."""
        return self._only

    def filtered(self) -> bool:
        """Return whether a filter has left something out."""
        return bool(self._numbers("replay_filtered", "since"))

    def skipped_ranks(self) -> list[int]:
        """Return the transactions that were skipped."""
        return self._numbers("replay_skipped", '"rank"')

    def _numbers(self, table: str, column: str) -> list[int]:
        if not self._present(META_SCHEMA, table):
            return []
        rows = self.connection.execute(f"SELECT {column} FROM {_META_PLACE}.{table} ORDER BY 1").fetchall()
        return [int(number) for (number,) in rows]

    def position_sql(self) -> str:
        """Return the query for the number of transactions that the file has."""
        return f'SELECT "rank" FROM {_META_PLACE}.replay_position'

    def columns_of(self, schema: str, table: str) -> tuple[str, ...]:
        """Return a table's columns in the file, none if it does not exist; cached until the next DDL."""
        found = self._columns.get((schema, table))
        if found is None:
            found = self._columns[schema, table] = self._present(schema, table)
        return found

    def _present(self, schema: str, table: str) -> tuple[str, ...]:
        rows = self.connection.execute(
            "SELECT column_name FROM duckdb_columns() WHERE database_name = ? AND schema_name = ? AND table_name = ? "
            "ORDER BY column_index",
            [CATALOG, schema, table],
        ).fetchall()
        return tuple(name for (name,) in rows)

    def as_kept(self, table: Table) -> Table:
        """Return a table with those of its columns that the file has."""
        here = {name.lower() for name in self.columns_of(table.schema, table.name)}
        return replace(table, columns=tuple(c for c in self.ddl.columns(table) if c.name.lower() in here))

    @property
    def _temporal(self) -> str:
        return "text" if self.temporal_text else "typed"

    def _load(self) -> None:
        if self.columns_of("main", "table_versions") and self.columns_of("main", "schema_versions"):
            raise ConfigError("the file is a schema store", file=str(self.path), remedy="name a file of its own")
        if not self.columns_of(META_SCHEMA, "replay_position"):
            return
        if not self._unfinished:
            check_bootstrapped(self.connection, self.path)
        rows = self.connection.execute(
            f'SELECT cluster, "rank", gtid, order_key, temporal FROM {_META_PLACE}.replay_position'
        ).fetchall()
        for cluster, rank, gtid, key, temporal in rows:
            if cluster != self.cluster:
                raise ConfigError(
                    f"the file has the tables of cluster {cluster}",
                    file=str(self.path),
                    remedy=f"give the file of this log's cluster, {self.cluster}, or the name of a new one",
                )
            if self._given is None:
                self.temporal_text = temporal == "text"
            if temporal != self._temporal:
                raise ConfigError(f"the file was begun with --temporal {temporal}", file=str(self.path))
            self.rank, self.place = int(rank), Checkpoint(int(rank), gtid, key)
        tables: dict[tuple[str, str], Table] = {}
        schemas: dict[str, Schema] = {}
        views: list[tuple[str, str]] = []
        for schema, name, text in self.connection.execute(f"FROM {_META_PLACE}.replay_catalog").fetchall():
            if name and text == _VIEW:
                views.append((schema, name))
            elif name:
                tables[schema, name] = table_from_json(text)
            else:
                schemas[schema] = schema_from_json(text)
        self.catalog = Catalog(schemas, tables, frozenset(views))
        if self._present(META_SCHEMA, "replay_tables"):
            self._only = frozenset(self.connection.execute(f"FROM {_META_PLACE}.replay_tables").fetchall())


def check_bootstrapped(connection: Any, path: Path) -> None:
    """Raise ReplayStopped for a file that a bootstrap has not made exact yet: its rows are of different moments."""
    known = connection.execute(
        "SELECT database_name FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = ? AND "
        "table_name = ?",
        [META_SCHEMA, BOOTSTRAP],
    ).fetchall()
    places = [quoted(database, META_SCHEMA, BOOTSTRAP) for (database,) in known]
    if any(connection.execute(f"SELECT 1 FROM {one} WHERE NOT exact").fetchall() for one in places):
        raise ReplayStopped(
            "the file is being bootstrapped: its rows are of different moments",
            file=str(path),
            remedy="run `binlog-merge bootstrap` again, until it has come to its end",
        )
