"""A MySQL server as the target of a bootstrap.

Rows are inserted as SQL; the log is then applied by a replay that overwrites. Until the end of a round the unique keys
of its tables, but for the one by which rows are told apart, are plain ones, and foreign keys are left out: rows of
different moments may contradict them. What still contradicts them at the end is an error.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from binlog_merge.bootstrap.duckdb_file import TAKEN
from binlog_merge.bootstrap.plan import found_sql
from binlog_merge.bootstrap.values import EXACT, SHARDS, Chunk, Name, Progress, Record, Shard, Stage, Texts
from binlog_merge.errors import ConfigError, ReplayStopped
from binlog_merge.files.failpoint import failpoint
from binlog_merge.log.checkpoint import checkpoints_of
from binlog_merge.log.log import Log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.ledger import Ledger
from binlog_merge.targets.server.mysql import META_SCHEMA, MysqlTarget, Session
from binlog_merge.targets.server.overwriting import inserts
from binlog_merge.targets.server.run import replay
from binlog_merge.values.sql import literal_of_written
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Catalog, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.render_sql import create_schema_sql, index_sql, make_sql
from snapshot_store.server import message_of

_DUPLICATE: Final = 1062
_MOST_KEYS: Final = 100
_SESSION: Final = (
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0, "
    "sql_quote_show_create = 1"
)


@dataclass
class MysqlServer:
    """A server that is being filled; use it as a context manager. Raises what a replay to it raises."""

    target: MysqlTarget
    workers: int = 1
    retry_seconds: float = 60.0
    as_text: bool = field(default=False, init=False)

    def __enter__(self) -> "MysqlServer":
        self._open()
        return self

    def __exit__(self, *error: object) -> None:
        self._session.close()

    @property
    def address(self) -> str:
        """Return the target's name for people."""
        return str(self.target.address)

    def rank_there(self) -> int | None:
        """Return the transaction of the log at which a bootstrap, and replays after it, have brought the server.

        None: nothing has begun there. Raises ConfigError for a server that only replays have written to.
        """
        if not self.begun():
            return None
        rows = self._session.ask(
            f"SELECT `rank` FROM {META_SCHEMA}.replay_position WHERE cluster = %s", (self.target.cluster,)
        )
        if self._recorded() is None:
            raise ConfigError(
                f"{self.address} has transactions of the log up to {rows[0][0]} by a replay, and no bootstrap",
                remedy=f"{TAKEN}, and its rows in {META_SCHEMA}",
            )
        return int(rows[0][0])

    def stage(self) -> Stage | None:
        """Return how far an earlier run came; None: not yet begun, or over."""
        stage = self._recorded()
        return None if stage is None or stage.phase == EXACT else stage

    def begin(self, stage: Stage, catalog: Catalog, binlog: Log, wanted: Sequence[Name]) -> None:
        """Create the tables as they are in the log, without rows. Raises ConfigError for one that exists."""
        there = [name for name in wanted if self._has(*name)]
        if there:
            raise ConfigError(
                f"{self.address} has {'.'.join(there[0])} already",
                remedy=TAKEN,
            )
        self._record.create()
        # From here on the tables are ours: a run that finds no position begins with dropping them.
        self._record.write(replace(stage, tables=tuple(wanted)))
        failpoint("bootstrap-tables")
        self.begin_again(stage, catalog, binlog, wanted)

    def begin_again(self, stage: Stage, catalog: Catalog, binlog: Log, wanted: Sequence[Name]) -> None:
        """Create the tables, whatever an earlier run has left of them, and record the position."""
        for schema in sorted({*catalog.schemas, *(schema for schema, _ in wanted)}):
            if not self._session.ask("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (schema,)):
                made = catalog.schemas.get(schema)
                self._session.run(create_schema_sql(made) if made else f"CREATE DATABASE {quote_name(schema)}")
        for name in wanted:
            self._session.run(f"DROP TABLE IF EXISTS {_place(name)}")
            for sql in make_sql(loose(catalog.table(*name))):
                self._session.run(sql)
        self._session.close()
        ledger = Ledger(self.target, unfinished=True)
        try:
            ledger.begin(self.retry_seconds)
            ledger.take_over(RankSet.upto(stage.low), checkpoints_of(binlog, {stage.low})[stage.low], 0)
            ledger.finish()
        finally:
            ledger.close()
        self._open()

    def begun(self) -> bool:
        """Return whether the tables and the position are there."""
        return self._has(META_SCHEMA, "replay_position") and bool(
            self._session.ask(f"SELECT 1 FROM {META_SCHEMA}.replay_position WHERE cluster = %s", (self.target.cluster,))
        )

    def progress(self) -> dict[Shard, Progress]:
        """Return how far the shards are copied."""
        return self._record.progress()

    def begin_round(self, stage: Stage, catalog: Catalog) -> None:
        """Empty the round's tables; nothing of them is copied then."""
        self._record.forget()  # first, at once: the stage that is recorded may be one that goes on with what is copied
        for name in stage.tables:
            self._session.run(f"TRUNCATE TABLE {_place(name)}")
            self._alter(name, loosening(self._table(name)))
        failpoint("bootstrap-tables")
        self._session.run("BEGIN")
        self._record.write(stage)
        self._session.run("COMMIT")

    def insert(self, chunk: Chunk, progress: Progress, replace: bool) -> list[Texts]:
        """Insert a chunk's rows, and record the progress.

        Return the keys that are there already, as far as they are few: then nothing is inserted, unless `replace`.
        """
        import pymysql

        self._session.run("BEGIN")
        try:
            for statement in _inserts(chunk, replace):
                self._session.send(statement)
                self._check_warnings(chunk)
        except pymysql.MySQLError as error:
            self._session.run("ROLLBACK")
            if not replace and error.args and error.args[0] == _DUPLICATE and (double := self._double(chunk)):
                return double
            raise ReplayStopped(f"{self.address} refuses rows of {chunk.shard}: {message_of(error)}") from None
        self._record.copied(chunk.shard, progress)
        failpoint("bootstrap-before-commit")
        self._session.run("COMMIT")
        failpoint("bootstrap-committed")
        return []

    def begin_catching_up(self, stage: Stage) -> None:
        """Record up to where the log is to be applied."""
        self._session.run("BEGIN")
        self._record.write(stage)
        self._session.run("COMMIT")

    def catch_up(self, stage: Stage, binlog: Log) -> None:
        """Empty the tables that are to be copied again, and apply the log up to the end of the round.

        Rows become what the log says, whatever was read.
        """
        if not self._applied_something(stage):
            # Statements of the log are to find these tables as they were made.
            for name in stage.again:
                if self._has(*name):
                    self._session.run(f"TRUNCATE TABLE {_place(name)}")
                    self._alter(name, unique_again(self._table(name), self._known(name)))
                    self._alter(name, tied_again(self._table(name), self._known(name)))
        failpoint("bootstrap-emptied")
        self._session.close()
        options = ReplayOptions(
            last_rank=stage.high,
            overwrite=True,
            without=frozenset(stage.again),
            workers=self.workers,
            retry_seconds=self.retry_seconds,
        )
        replay(binlog, self.target, options)
        self._open()

    def know(self, catalog: Catalog) -> None:
        """Take the tables of the log as they were when the round began."""
        self._catalog = catalog

    def end_round(self, stage: Stage, catalog: Catalog) -> None:
        """Make unique and foreign keys what they are in the log. Raises ReplayStopped where rows contradict them."""
        import pymysql

        for clauses in (unique_again, tied_again):
            for name in dict.fromkeys((*stage.tables, *stage.again)):
                table = catalog.get(*name)
                if table is None or not self._has(*name):
                    continue
                try:
                    self._alter(name, clauses(self._table(name), table))
                except pymysql.MySQLError as error:
                    raise ReplayStopped(
                        f"the rows of {'.'.join(name)} contradict its keys: {message_of(error)}",
                        remedy="rows of different shards have the same key: correct them in the cluster; begin anew, "
                        f"without the tables and the schema {META_SCHEMA} there",
                    ) from None

    def finish(self, stage: Stage) -> None:
        """Record that the server is exact."""
        self._session.run("BEGIN")
        self._record.forget()
        self._record.write(stage)
        self._session.run("COMMIT")

    @property
    def _record(self) -> Record:
        session = self._session
        return Record(session.run, session.ask, META_SCHEMA, self.target.cluster, "LONGTEXT", "VARCHAR(64)")

    def _open(self) -> None:
        import pymysql

        self._session = Session(self.target)
        self._session.open()
        self._session.run(_SESSION)
        generated = self._session.ask("SHOW VARIABLES LIKE 'sql_generate_invisible_primary_key'")
        if any(value == "ON" for _, value in generated):
            self._session.run("SET SESSION sql_generate_invisible_primary_key = OFF")
        # A foreign key may refer to a key that is not unique again yet; older servers let it.
        with suppress(pymysql.MySQLError):
            self._session.run("SET SESSION restrict_fk_on_non_standard_key = OFF")
        if not self._session.lock(0, 1.0):
            self._session.close()
            raise _busy(self.address)

    def _recorded(self) -> Stage | None:
        return self._record.stage() if self._has(META_SCHEMA, SHARDS) else None

    def _has(self, schema: str, table: str) -> bool:
        return bool(
            self._session.ask(
                "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", (schema, table)
            )
        )

    def _table(self, name: Name) -> Table:
        text = str(self._session.ask(f"SHOW CREATE TABLE {_place(name)}")[0][1])
        return parse_dump(f"{text};", name[0]).table(*name)

    def _known(self, name: Name) -> Table:
        table = self._catalog.get(*name)
        return table if table is not None else self._table(name)

    def _alter(self, name: Name, clauses: Iterable[str]) -> None:
        if listed := list(clauses):
            self._session.run(f"ALTER TABLE {_place(name)} {', '.join(listed)}")

    def _applied_something(self, stage: Stage) -> bool:
        sql = f"SELECT ranks FROM {META_SCHEMA}.replay_worker WHERE cluster = %s"
        position = f"SELECT `rank` FROM {META_SCHEMA}.replay_position WHERE cluster = %s"
        cluster = (self.target.cluster,)
        begun = self._session.ask(f"SELECT 1 FROM {META_SCHEMA}.replay_ddl WHERE cluster = %s", cluster)
        applied = RankSet.upto(int(self._session.ask(position, cluster)[0][0]))
        for (ranks,) in self._session.ask(sql, cluster):
            applied |= RankSet.parse(ranks)
        return bool(begun) or applied != RankSet.upto(stage.low)

    def _check_warnings(self, chunk: Chunk) -> None:
        for level, _, text in self._session.ask("SHOW WARNINGS"):
            if level != "Note":
                raise ReplayStopped(f"{self.address} changes rows of {chunk.shard}: {text}")

    def _double(self, chunk: Chunk) -> list[Texts]:
        width = len(chunk.reading.columns)
        keys = [row[width:] for row in chunk.rows]
        own = replace(chunk.reading, constants={})
        there = Shard("", *chunk.reading.name)
        rows: list[Texts] = []
        for begin in range(0, len(keys), _MOST_KEYS):
            rows += self._session.ask(found_sql(there, own, keys[begin : begin + _MOST_KEYS]))
        return rows[:_MOST_KEYS]


def _busy(address: str) -> Exception:
    from binlog_merge.errors import TargetBusy

    return TargetBusy(f"a replay or a bootstrap of this cluster is writing to {address}")


def _place(name: Name) -> str:
    return f"{quote_name(name[0])}.{quote_name(name[1])}"


def _inserts(chunk: Chunk, replace: bool) -> Iterator[bytes]:
    """Yield the statements that insert a chunk's rows; generated columns are the server's own work."""
    columns = chunk.reading.columns
    given = [i for i, column in enumerate(columns) if column.generated is None]
    names = ", ".join(quote_name(columns[i].name) for i in given)
    head = f"{'REPLACE' if replace else 'INSERT'} INTO {_place(chunk.reading.name)} ({names}) VALUES "
    rows = ("(" + ", ".join(literal_of_written(columns[i], row[i]) for i in given) + ")" for row in chunk.rows)
    yield from inserts(head, rows)


def _deferred(table: Table) -> list[str]:
    kept = {"PRIMARY", *(key.name for key in table.row_keys[:1])}
    return [i.name for i in table.indexes if i.unique and i.name not in kept]


def loose(table: Table) -> Table:
    """Return a table without what rows of different moments may contradict."""
    later = _deferred(table)
    indexes = tuple(replace(i, unique=False) if i.name in later else i for i in table.indexes)
    return replace(table, indexes=indexes, foreign_keys=())


def loosening(table: Table) -> Iterator[str]:
    """Yield the clauses that make a table loose."""
    for key in table.foreign_keys:
        yield f"DROP FOREIGN KEY {quote_name(key.name)}"
    for index in loose(table).indexes:
        if index.name in _deferred(table):
            yield f"DROP INDEX {quote_name(index.name)}, ADD {index_sql(index, table)}"


def unique_again(there: Table, wanted: Table) -> Iterator[str]:
    """Yield the clauses that make a loose table's keys unique again."""
    known = {index.name.lower(): index for index in there.indexes}
    for index in wanted.indexes:
        own = known.get(index.name.lower())
        if own is not None and index.unique and not own.unique and own.name != "PRIMARY":
            yield f"DROP INDEX {quote_name(own.name)}, ADD {index_sql(index, wanted)}"


def tied_again(there: Table, wanted: Table) -> Iterator[str]:
    """Yield the clauses that give a loose table its foreign keys."""
    have = {key.name for key in there.foreign_keys}
    yield from (f"ADD {key.sql}" for key in wanted.foreign_keys if key.name not in have)
