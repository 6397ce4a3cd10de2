"""The store: all schema versions in one DuckDB file.

DuckDB lets one process write, and no other read at the same time. So the file never changes: a writer changes a copy,
which then takes its place (`store.file`). Readers have what was there when they came, and nobody waits for them. Each
change is one transaction, and there for others when the block ends that opened the store: if the process is killed, the
store has all of it or nothing. Opening reads next to nothing, however long the history is; `history_of` and
`lookup` read only the tables asked for. Only this package and `snapshot_store.ask` know DuckDB.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from snapshot_store.errors import (
    QueryFailed,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreIoFailed,
    StoreMissing,
    StoreTooNew,
    StoreUnavailable,
)
from snapshot_store.history import HistoryKey, SchemaHistory, SchemaVersion, TableVersion, folded_away
from snapshot_store.mysql.sql.names import quote_plainly
from snapshot_store.names import NamePattern
from snapshot_store.store import append as store_append
from snapshot_store.store import file as store_file
from snapshot_store.store import select as store_select
from snapshot_store.store.append import append
from snapshot_store.store.file import (
    Stamp,
    copy_beside,
    copy_whole,
    held,
    only_writer,
    put_in_place,
    stamp_of,
    wal_of,
)
from snapshot_store.store.merge import MergeStore
from snapshot_store.store.migrations import TABLES_AT, VIEWS, migrate, outdated
from snapshot_store.store.select import SCHEMA_COLUMNS, TABLE_COLUMNS, Row, schema_version, table_version
from snapshot_store.store.settings import (
    Stop,
    read_setting,
    stop_from_json,
    topology_from_json,
    topology_to_json,
    write_setting,
)
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

# The tables are small, so one thread is enough. Extensions would be downloaded.
_CONFIG = {"threads": "1", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of an SQL query."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Store:
    """An open store; get one from `Store.open`."""

    def __init__(self, path: Path, connection: Any) -> None:
        self.path = path
        self._connection = connection
        self._is_locked_for_queries = False

    @classmethod
    @contextmanager
    def open(cls, path: Path, read_only: bool = False, wait_seconds: float = 10.0) -> Iterator["Store"]:
        """Open the store for the duration of a `with` block; create it if it does not exist.

        With `read_only` it is the store as it is now, whoever writes to it meanwhile; nobody waits for a reader. Else
        what the block changes is there for others when it ends; waits up to `wait_seconds` for another writer to end,
        then raises StoreBusy. Raises StoreTooNew if a newer program wrote it, StoreMissing if `read_only` and it does
        not exist, StoreIoFailed for what may pass, StoreError if the file is not a store. A store of an older program
        is migrated first, even if `read_only`.
        """
        if "?" in str(path.resolve()):
            raise StoreUnavailable(f"{path} cannot be opened: DuckDB takes what follows a ? in a path for options")
        with cls._reading(path, wait_seconds) if read_only else cls._writing(path, wait_seconds) as store:
            yield store

    @classmethod
    @contextmanager
    def _reading(cls, path: Path, wait_seconds: float) -> Iterator["Store"]:
        connection = _attached(path)
        try:
            if outdated(connection):
                connection.close()
                with cls._writing(path, wait_seconds):
                    pass
                connection = _attached(path)
            migrate(connection, True)
            yield cls(path, connection)
        except duckdb.Error as error:
            raise _failed(path, error) from error
        finally:
            connection.close()

    @classmethod
    @contextmanager
    def _writing(cls, path: Path, wait_seconds: float) -> Iterator["Store"]:
        file = path.resolve()
        copy = copy_beside(file)
        with ExitStack() as stack:
            with _may_pass(path):
                stack.enter_context(only_writer(file, wait_seconds))
                if wal_of(file).exists():
                    _connect(file, wait_seconds).close()  # takes in what a program has left that writes in place
                copy_whole(file, copy)
                before = stamp_of(copy)
                if before is None:
                    copy.write_bytes(_new_store())
            connection = _connect(copy, wait_seconds)
            try:
                migrate(connection, False)
                yield cls(path, connection)
            except duckdb.Error as error:
                raise _failed(path, error) from error
            finally:
                _end(connection, copy, file, before)

    def append_versions(self, versions: Iterable[TableVersion], schemas: Iterable[SchemaVersion] = ()) -> int:
        """Append versions in one transaction; return how many are new.

        Versions that the store has already are skipped. Raises HistoryConflict, with nothing appended, if the store has
        a different definition of the same table at the same order key, or is folded above it.
        """
        with self._transaction():
            return append(self._connection, self.path, versions, schemas)

    def load_history(self) -> SchemaHistory:
        """Return everything in the store."""
        tables = self._connection.execute(f"SELECT {TABLE_COLUMNS} FROM table_versions").fetchall()
        schemas = self._connection.execute(f"SELECT {SCHEMA_COLUMNS} FROM schema_versions").fetchall()
        return SchemaHistory().with_versions(map(table_version, tables), map(schema_version, schemas))

    def find(
        self,
        patterns: Sequence[NamePattern],
        node: str | None = None,
        physical: bool = False,
        topology: Topology | None = None,
    ) -> tuple[HistoryKey, ...]:
        """Return the tables that the patterns match, sorted. Raises UnknownTable for a pattern that matches none.

        The patterns are matched with logical tables, or with `node` with that node's tables. With `physical` they are
        matched with logical tables, and the result is the physical tables of these, of all nodes or of `node`.
        """
        return store_select.find(self._connection, patterns, node, physical, topology or self.topology())

    def history_of(self, tables: Iterable[HistoryKey]) -> SchemaHistory:
        """Return all versions of some tables: a part of the history, to which none may be added."""
        return store_select.history_of(self._connection, tables)

    def history_at(self, key: OrderKey) -> SchemaHistory:
        """Return the versions of all tables in force at a key: a part of the history, to which none may be added.

        Raises BeforeBase if the logical history or a node's is folded above the key.
        """
        for node, floor in sorted(self._floors().items()):
            if key.text() <= floor:
                raise folded_away("all tables", key, OrderKey.parse(floor), node or None)
        return store_select.history_at(self._connection, key)

    def logical_at(self, key: OrderKey) -> SchemaHistory:
        """Return the logical versions in force at a key: a part of the history, to which none may be added.

        Tables that had been dropped by then are left out; below `floor`, also those that have changed since.
        """
        return store_select.history_at(self._connection, key, logical=True)

    def logical_changes(self, after: OrderKey, most: int) -> tuple[TableVersion, ...]:
        """Return the first `most` logical versions after a key, in order, and any others with the key of the last."""
        return store_select.logical_changes(self._connection, after, most)

    def floor(self) -> OrderKey:
        """Return the key up to which the logical history is folded, ORIGIN if it is not."""
        floor = self._floors().get("")
        return ORIGIN if floor is None else OrderKey.parse(floor)

    def lookup(self, names: Sequence[tuple[str, str, OrderKey, str | None]]) -> list[TableVersion | None]:
        """Return for each (schema, name, key, node) what `SchemaHistory.at` would, without loading the history."""
        if not names:
            return []
        columns = [list(column) for column in zip(*names, strict=True)]
        keys = [key.text() for key in columns[2]]
        nodes = [node or "" for node in columns[3]]
        rows = self._connection.execute(_LOOKUP, [columns[0], columns[1], keys, nodes]).fetchall()
        floors = self._floors() if any(row[1] is None for row in rows) else {}
        for row, (schema, name, key, node) in zip(rows, names, strict=True):
            if row[1] is None and (node or "") in floors and key.text() <= floors[node or ""]:
                raise folded_away(f"{schema}.{name}", key, OrderKey.parse(floors[node or ""]), node)
        return [None if row[1] is None else table_version(row) for row in rows]

    def last_key(self) -> OrderKey:
        """Return the greatest key at which anything changed."""
        (text,) = self._connection.execute("SELECT max(order_key) FROM table_versions").fetchone()
        return ORIGIN if text is None else OrderKey.parse(text)

    def fold(self, checkpoint: OrderKey) -> int:
        """Remove the versions that are only needed below `checkpoint`; return how many were removed.

        Lookups at keys from the checkpoint on return what they returned, with the same numbers. This cannot be undone:
        keep a copy if lookups at older keys may be needed. Fold below the floor from which a merge continues.
        """
        with self._transaction():
            removed = store_append.fold(self._connection, checkpoint)
        self._connection.execute("CHECKPOINT")
        return removed

    def export_parquet(self, folder: Path) -> None:
        """Write everything into a new folder, a Parquet file per table."""
        store_file.export_parquet(self._connection, folder)

    def import_parquet(self, folder: Path) -> int:
        """Fill this empty store from a folder that `export_parquet` wrote; return how many versions it has."""
        with self._transaction():
            return store_file.import_parquet(self._connection, folder)

    def topology(self) -> Topology:
        """Return the routes as last set; without any, every table keeps its name."""
        text = read_setting(self._connection, "topology")
        return Topology() if text is None else topology_from_json(text)

    def set_topology(self, topology: Topology) -> None:
        """Store the routes."""
        write_setting(self._connection, "topology", topology_to_json(topology))

    def note(self, name: str) -> str | None:
        """Return the note with this name, or None."""
        return read_setting(self._connection, f"note {name}")

    def set_note(self, name: str, text: str) -> None:
        """Store a note: text under a name, of which the store knows nothing else."""
        write_setting(self._connection, f"note {name}", text)

    def beginning(self) -> OrderKey:
        """Return the key at which the binlogs begin, from which bases at ORIGIN are valid; ORIGIN if it is unknown."""
        text = read_setting(self._connection, "beginning")
        return ORIGIN if text is None else OrderKey.parse(text)

    def stop(self) -> Stop | None:
        """Return where the last merge stopped because a table's definition was unknown, or None."""
        text = read_setting(self._connection, "stop")
        return None if text is None else stop_from_json(text)

    def merging(self) -> MergeStore:
        """Return this open store as a merge uses it."""
        return MergeStore(self.path, self._connection, self._transaction)

    def query(self, sql: str) -> QueryResult:
        """Run a query in DuckDB's SQL over the views of `migrations.VIEWS`; it can access nothing outside the store.

        Raises QueryFailed. Open the store with `read_only`: nothing else prevents a statement from writing.
        """
        if not self._is_locked_for_queries:
            self._lock_for_queries()
        try:
            answer = self._connection.execute(sql)
            if answer is None:  # what DuckDB returns for text without a statement
                raise QueryFailed("there is no statement")
            columns = tuple(column[0] for column in answer.description or ())
            return QueryResult(columns, tuple(answer.fetchall()) if columns else ())
        except duckdb.Error as error:
            failed = _failed(self.path, error)
            if isinstance(failed, StoreDamaged) and "Extension " not in str(error):
                raise failed from None
            raise QueryFailed(str(error)) from None

    def _lock_for_queries(self) -> None:
        for name, view in VIEWS.items():
            self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {view}")
        self._connection.execute(TABLES_AT)
        if isinstance(self._connection, _Reading):
            self._connection.keep_engine_from_others()
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")  # for good: no later SET is taken
        self._is_locked_for_queries = True

    def _floors(self) -> dict[str, str]:
        rows = self._connection.execute(
            "SELECT node, max(order_key) FROM table_versions WHERE folded GROUP BY node"
        ).fetchall()
        return dict(rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN TRANSACTION")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # what it cannot write, on a full disk, DuckDB has rolled back itself
                self._connection.execute("ROLLBACK")
            raise


# ASOF with a strict comparison: the latest version before the key. The semi join keeps other tables out of the sort.
_LOOKUP = f"""
    WITH wanted AS MATERIALIZED (
        SELECT unnest($1::VARCHAR[]) AS schema_name, unnest($2::VARCHAR[]) AS table_name,
               unnest($3::VARCHAR[]) AS wanted_key, unnest($4::VARCHAR[]) AS node,
               generate_subscripts($1::VARCHAR[], 1) AS ordinal)
    SELECT {", ".join(f"v.{name}" for name in TABLE_COLUMNS.split(", "))}
    FROM wanted AS w
    ASOF LEFT JOIN (SELECT * FROM table_versions SEMI JOIN wanted USING (node, schema_name, table_name)) AS v
      ON w.node = v.node AND w.schema_name = v.schema_name AND w.table_name = v.table_name
      AND w.wanted_key > v.order_key
    ORDER BY w.ordinal
"""


_DAMAGE = (
    "Corrupt",
    "not a valid DuckDB",
    "not enough bytes",
    "read enough bytes",
    "Serialization Error",
    "Extension ",
)


_MAY_PASS = ("No space left", "Input/output error", "Too many open files", "Cannot allocate", "Disk quota")


def _failed(path: Path, error: Exception) -> StoreError:
    """Return the error of the store for an error of DuckDB."""
    text = (str(error).splitlines() or [""])[0]
    if "database file with version number" in text:
        return StoreTooNew(f"{path} was written by another version of DuckDB: {text}")
    if any(word in str(error) for word in _MAY_PASS):  # first: where it cannot write, DuckDB may give up as if damaged
        return StoreIoFailed(f"{path} cannot be used: {text}")
    if isinstance(error, duckdb.InternalException | duckdb.FatalException) or any(word in text for word in _DAMAGE):
        return StoreDamaged(f"{path} is damaged, or no schema store: {text}")
    return StoreUnavailable(f"{path} cannot be used: {text}")


_engines: dict[int, Any] = {}
"""DuckDB as each process has started it, by process id: a process that is forked does not use its parent's."""
_idle: dict[int, list[Any]] = {}
"""Each process's for readers, of those in which nothing is attached now."""
_MOST_IDLE = 2
_numbers = count(1)


def _engine() -> Any:
    """Return this process's DuckDB, in which writers attach stores: to start one takes longer than to write a store."""
    started = _engines.get(os.getpid())
    return started or _engines.setdefault(os.getpid(), _started())


def _started() -> Any:
    return duckdb.connect(config=_CONFIG)


class _Attached:
    """A connection to one store that is attached to this process's DuckDB, for its only writer."""

    def __init__(self, path: Path) -> None:
        self._attach(_engine(), f"store_{next(_numbers)}", path)

    def _attach(self, engine: Any, name: str, path: Path, options: str = "") -> None:
        self._engine, self._name = engine, name
        self._connection = self._engine.cursor()
        try:
            _attach_as(self._name, self._connection, path, options)
        except duckdb.Error as error:
            self._connection.close()
            self._part_with_engine(error)
            raise

    def execute(self, query: str, parameters: Any = None) -> Any:
        """Run a statement, as a connection of DuckDB does."""
        try:
            return self._connection.execute(query, parameters)
        except duckdb.Error as error:
            self._part_with_engine(error)
            raise

    def close(self) -> None:
        """Roll back what is not committed, and let the store go."""
        self._connection.close()
        with closing(self._engine.cursor()) as connection:
            connection.execute(f"DETACH {self._name}")

    def _part_with_engine(self, error: Exception) -> None:
        """Leave an engine that has failed to those that have it: after such an error it does nothing more."""
        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            _engines.pop(os.getpid(), None)


class _Reading(_Attached):
    """A connection to a store for a reader, in a DuckDB that nobody else has meanwhile.

    One that has a path open keeps that file, and another reader's may be an older one of the same path.
    """

    def __init__(self, path: Path) -> None:
        try:
            engine = _idle.setdefault(os.getpid(), []).pop()
        except IndexError:  # also if another thread has just taken the last one
            engine = _started()
        self._is_kept, self._is_closed = True, False
        try:
            self._attach(engine, "schema_store", path, "(READ_ONLY)")
        except duckdb.Error:
            engine.close()
            raise

    def keep_engine_from_others(self) -> None:
        """Have the engine end with this reader, who changes its settings."""
        self._is_kept = False

    def close(self) -> None:
        """Let the store go; the engine is there for the next reader, who attaches one in a tenth of the time.

        Safe to call twice.
        """
        if self._is_closed:
            return
        self._is_closed = True
        idle = _idle.setdefault(os.getpid(), [])
        if self._is_kept and len(idle) < _MOST_IDLE:
            super().close()
            idle.append(self._engine)
        else:
            self._connection.close()
            self._engine.close()

    def _part_with_engine(self, error: Exception) -> None:
        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            self._is_kept = False


def _connect(path: Path, wait_seconds: float) -> _Attached:
    """Return a connection that writes to a file in place; no other program may have it open then."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return _Attached(path)
        except duckdb.IOException as error:
            if not _is_locked(error):
                raise _failed(path, error) from error
            if time.monotonic() >= deadline:
                raise StoreBusy(f"{path} is in use by another process: wait for it to end ({error})") from error
            time.sleep(0.05)
        except duckdb.Error as error:
            raise _failed(path, error) from error


@cache
def _new_store() -> bytes:
    """Return the file of a store without any history."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with closing(_Attached(path)) as connection:
            migrate(connection, False)
        return path.read_bytes()


def _attached(path: Path) -> Any:
    """Return a connection that reads a store as it is now.

    Attached, not connected to: DuckDB gives what connects to a path the file that this process has open there already,
    which may be an older one.
    """
    if not path.exists():
        raise StoreMissing(
            f"{path} cannot be opened: it is not there; a merge makes schema.duckdb in its output directory, "
            "and `schema import` makes one"
        )
    with _may_pass(path):
        return _attached_in_place(path.resolve()) or _attached_copy(path.resolve())


def _attached_in_place(path: Path) -> Any:
    """Return a connection to the file itself; None while a shell of DuckDB has it open to write to it, or if another
    file took its place meanwhile: then DuckDB may have the headers of one and the rest of the other.
    """
    with held(path) as still_there:
        try:
            connection = _attach(path)
        except StoreError as error:
            if not _is_locked(error) and still_there():
                raise
            return None
        if still_there():
            return connection
    connection.close()
    return None


def _attached_copy(path: Path) -> Any:
    with TemporaryDirectory() as folder:
        copy_whole(path, Path(folder) / "copy")
        return _attach(Path(folder) / "copy")


def _attach(path: Path) -> _Reading:
    try:
        return _Reading(path)
    except duckdb.Error as error:
        raise _failed(path, error) from error


def _attach_as(name: str, connection: Any, path: Path, options: str = "") -> None:
    """Attach a store to a connection under a name, as what its statements are about."""
    connection.execute(f"ATTACH {quote_plainly(str(path))} AS {name} {options}")
    connection.execute(f"USE {name}")


def _is_locked(error: Exception) -> bool:
    return "Could not set lock" in str(error)


def _end(connection: Any, copy: Path, file: Path, before: Stamp | None) -> None:
    """Close a writer's copy; what it has committed takes the place of the store. Raises StoreError."""
    with _may_pass(file):
        try:
            if wal_of(copy).exists():
                connection.execute("CHECKPOINT")
        except duckdb.Error as error:
            raise _failed(file, error) from error
        finally:
            connection.close()
        if stamp_of(copy) == before:
            copy.unlink(missing_ok=True)
        else:
            put_in_place(copy, file)


@contextmanager
def _may_pass(path: Path) -> Iterator[None]:
    """Raise StoreIoFailed for what the system refuses."""
    try:
        yield
    except FileNotFoundError as error:
        raise StoreUnavailable(f"{path} cannot be used: {error.strerror}") from error
    except OSError as error:
        raise StoreIoFailed(f"{path} cannot be used: {error.strerror or error}") from error
