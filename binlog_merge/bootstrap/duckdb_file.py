"""A DuckDB file as the target of a bootstrap: made beside the file, under its name with `.bootstrap`, and then renamed.

So a file of that name never exists before it is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from binlog_merge.bootstrap.values import Chunk, Name, Progress, Record, Shard, Stage, Texts
from binlog_merge.errors import ConfigError, ConversionFailed, ReplayStopped
from binlog_merge.files.disk import sync_directory
from binlog_merge.files.failpoint import failpoint
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.load import load
from binlog_merge.tables.target import META_SCHEMA, DuckdbTarget
from binlog_merge.tables.types import listed, of_text, qualified, quoted, text_array
from snapshot_store.model import Catalog

SUFFIX: Final = ".bootstrap"
TAKEN: Final = "a bootstrap makes the tables: name a target that has none of them, or remove them there"
_MOST_KEYS: Final = 100


@dataclass
class DuckdbFile:
    """A DuckDB file that is being made; use it as a context manager. Raises what `DuckdbTarget` raises."""

    path: Path
    cluster: str
    temporal_text: bool = False
    system_zone: str | None = None
    as_text: bool = field(default=True, init=False)

    def __enter__(self) -> "DuckdbFile":
        self._work = self.path.with_name(self.path.name + SUFFIX)
        self._begun = False
        self._target = self._opened()
        return self

    def __exit__(self, *error: object) -> None:
        self._target.__exit__()
        if not self._begun:
            self._remove()

    @property
    def address(self) -> str:
        """Return the target's name for people."""
        return str(self.path)

    def rank_there(self) -> int | None:
        """Return the transaction of the log at which the file is already; None: it does not exist.

        Raises ConfigError for a file that no bootstrap has made.
        """
        if not self.path.exists():
            return None
        with DuckdbTarget(self.path, self.cluster, self.temporal_text) as there:
            if there.rank is None or not there.columns_of(META_SCHEMA, "bootstrap"):
                raise ConfigError("the file exists, and no bootstrap has made it", file=str(self.path), remedy=TAKEN)
            return there.rank

    def stage(self) -> Stage | None:
        """Return how far an earlier run came; what stopped before its first record is begun anew."""
        if self._target.columns_of(META_SCHEMA, "bootstrap"):
            stage = self._record.stage()
            if stage is not None:
                self._begun = True
                self._check_name()
                return stage
        self._target.__exit__()
        self._remove()
        self._target = self._opened()
        return None

    def begun(self) -> bool:
        """Return whether the tables are there: they are what the file begins with."""
        return True

    def begin_again(self, stage: Stage, catalog: Catalog, binlog: Log, wanted: Sequence[Name]) -> None:
        """Nothing is left to do."""

    def know(self, catalog: Catalog) -> None:
        """Nothing is left to do: the file has the log's tables."""

    def begin(self, stage: Stage, catalog: Catalog, binlog: Log, wanted: Sequence[Name]) -> None:
        """Create the tables as they are in the log, without rows."""
        chosen, self._begun = frozenset(wanted), True
        self._target.start_at(stage.low, catalog, lambda schema, table: (schema, table) in chosen)
        failpoint("bootstrap-tables")
        self._target.begin()
        self._record.create()
        self._record.write(stage)
        self._commit()

    def progress(self) -> dict[Shard, Progress]:
        """Return how far the shards are copied."""
        return self._record.progress()

    def begin_round(self, stage: Stage, catalog: Catalog) -> None:
        """Empty the round's tables; nothing of them is copied then."""
        self._target.begin()
        self._empty(stage.tables)
        self._record.forget()
        self._record.write(stage)
        self._commit()

    def insert(self, chunk: Chunk, progress: Progress, replace: bool) -> list[Texts]:
        """Insert a chunk's rows, and record the progress.

        Return the keys that are there already, as far as they are few: then nothing is inserted, unless `replace`.
        """
        self._target.begin()
        try:
            if chunk.rows:
                self._register(chunk)
                if double := [] if replace else self._double(chunk):
                    self._target.connection.execute("ROLLBACK")
                    return double
                self._write(chunk, replace)
            self._record.copied(chunk.shard, progress)
            failpoint("bootstrap-before-commit")
        except duckdb.Error as error:
            self._target.connection.execute("ROLLBACK")
            text = str(error).splitlines()[0]
            if isinstance(error, duckdb.ConversionException):
                raise ConversionFailed(
                    f"{chunk.shard}: {text}", remedy="--temporal text keeps every date as MySQL's text"
                ) from None
            raise ReplayStopped(f"DuckDB refuses rows of {chunk.shard}: {text}", file=str(self._work)) from None
        self._commit()
        failpoint("bootstrap-committed")
        return []

    def begin_catching_up(self, stage: Stage) -> None:
        """Empty the tables that are to be copied again, and record up to where the log is to be applied."""
        self._target.begin()
        self._empty(stage.again)
        self._record.write(stage)
        self._commit()

    def catch_up(self, stage: Stage, binlog: Log) -> None:
        """Apply the log up to the end of the round; rows become what the log says, whatever was read."""
        if self._target.rank == stage.high:
            return
        options = ReplayOptions(
            last_rank=stage.high, overwrite=True, without=frozenset(stage.again), system_zone=self.system_zone
        )
        load(binlog, self._target, history_of(binlog.directory), options)

    def end_round(self, stage: Stage, catalog: Catalog) -> None:
        """Nothing is left to do: DuckDB has no keys."""

    def finish(self, stage: Stage) -> None:
        """Record that the file is exact, and give it its name."""
        self._target.begin()
        self._record.write(stage)
        self._commit()
        failpoint("bootstrap-exact")
        self._check_name()
        # Closing does it, too, but says nothing of a disk that is full, and leaves the rows in the write-ahead log.
        self._target.connection.execute("CHECKPOINT")
        self._target.__exit__()
        self._work.rename(self.path)
        sync_directory(self.path.parent)

    @property
    def _record(self) -> Record:
        def ask(sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = self._target.connection.execute(
                sql.replace("%s", "?"), list(arguments)
            ).fetchall()
            return rows

        return Record(ask, ask, qualified(META_SCHEMA), self.cluster, "VARCHAR", "VARCHAR", False)

    def _opened(self) -> DuckdbTarget:
        target = DuckdbTarget(self._work, self.cluster, self.temporal_text, unfinished=True)
        return target.__enter__()

    def _remove(self) -> None:
        for path in (self._work, self._work.with_name(self._work.name + ".wal")):
            path.unlink(missing_ok=True)

    def _check_name(self) -> None:
        if self.path.exists():
            raise ConfigError(
                f"the file exists, and what the bootstrap makes of {self._work.name} is to get its name",
                file=str(self.path),
                remedy=f"move one of the two away ({self._work.name}: begin anew), and run the bootstrap again",
            )

    def _commit(self) -> None:
        self._target.connection.execute("COMMIT")

    def _empty(self, tables: Sequence[Name]) -> None:
        for name in tables:
            if self._target.columns_of(*name):
                self._target.connection.execute(f"DELETE FROM {qualified(*name)}")

    def _register(self, chunk: Chunk) -> None:
        columns = chunk.reading.columns
        arrays = {f"c{i}": text_array(column, [row[i] for row in chunk.rows]) for i, column in enumerate(columns)}
        width = len(columns)
        arrays |= {f"k{i}": pa.array([row[width + i] for row in chunk.rows]) for i in range(len(chunk.reading.key))}
        self._target.connection.register("bootstrap_texts", pa.table(arrays))
        values = ", ".join(
            f"{of_text(column, f'c{i}', self.temporal_text)} AS {quoted(column.name)}"
            for i, column in enumerate(columns)
        )
        keys = ", ".join(f'k{i} AS "bootstrap {i}"' for i in range(len(chunk.reading.key)))
        self._target.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE bootstrap_rows AS SELECT {values}, {keys} FROM bootstrap_texts"
        )

    def _double(self, chunk: Chunk) -> list[Texts]:
        keys = ", ".join(f'k."bootstrap {i}"' for i in range(len(chunk.reading.key)))
        rows = self._target.connection.execute(
            f"SELECT {keys} FROM bootstrap_rows k SEMI JOIN {qualified(*chunk.reading.name)} t ON {_match(chunk)} "
            f"LIMIT {_MOST_KEYS}"
        ).fetchall()
        return [tuple(row) for row in rows]

    def _write(self, chunk: Chunk, replace: bool) -> None:
        name = qualified(*chunk.reading.name)
        if replace:
            self._target.connection.execute(f"DELETE FROM {name} t USING bootstrap_rows k WHERE {_match(chunk)}")
        names = listed([column.name for column in chunk.reading.columns])
        self._target.connection.execute(f"INSERT INTO {name} ({names}) SELECT {names} FROM bootstrap_rows")


def _match(chunk: Chunk) -> str:
    names = [quoted(chunk.reading.columns[i].name) for i in chunk.reading.key]
    return " AND ".join(f"t.{name} = k.{name}" for name in names)
