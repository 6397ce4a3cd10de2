"""What a bootstrap reads, and how far it is."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from binlog_merge.errors import ManifestError
from binlog_merge.targets.server.ledger import BOOTSTRAP
from binlog_merge.whole_files import NoteKind
from snapshot_store.model import Column, Table

Name = tuple[str, str]
"""Schema and table of a logical table."""
Texts = tuple[str | None, ...]


class Shard(NamedTuple):
    """A physical table on a node."""

    node: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table} of node {self.node}"


class End(NamedTuple):
    """A place in a node's captured log: a file, as the capture names it, and an offset."""

    file: str
    position: int


class Identity(NamedTuple):
    """Which server a node's rows are read from, and since when it runs (seconds since 1970).

    `started` is 0 for a server that loses nothing when it is started again.
    """

    server_uuid: str
    started: int

    def same(self, other: "Identity") -> bool:
        """Return whether it is the same run of the same server; the start is known to a few seconds."""
        return self.server_uuid == other.server_uuid and abs(self.started - other.started) <= _STARTED_WITHIN


_STARTED_WITHIN = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """How a shard's rows are read as rows of a logical table.

    `columns` are those of the logical table that the target takes, `key` the indexes of those that identify a row.
    `constants` are the values, by column in lower case, that the route fills in.
    """

    table: Table
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> Name:
        """Return the name of the logical table."""
        return self.table.schema, self.table.name


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a shard, in the order of the key, up to the key `last`; `done`: nothing comes behind them.

    A row has the texts of all columns, then those of the key's columns as `asking.literal` takes them.
    """

    shard: Shard
    reading: Reading
    rows: list[Texts]
    last: Texts | None
    done: bool


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A shard that cannot be read as the logical table now: a DDL is under way. The whole table is read again later."""

    name: Name
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a shard is copied: up to the key `after`, so many rows."""

    after: Texts | None = None
    done: bool = False
    rows: int = 0


COPYING, CATCHING_UP, EXACT = "copying", "catching up", "exact"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a bootstrap stands, as its target records it.

    Round `number` copies `tables`. Their rows have all transactions of the log up to `low`, and none behind `high`,
    which is known from CATCHING_UP on: then the target is made what the log says there, but for the tables `again`,
    which are empty and copied in the next round. `servers` are those that the rows are read from; `rows` are how many
    were read, by table, in this round and those before, `repeated` the tables that were copied more than once,
    `doubted` those of which `window` doubts a row.
    """

    phase: str
    number: int
    low: int
    tables: tuple[Name, ...]
    servers: Mapping[str, Identity]
    high: int | None = None
    again: tuple[Name, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    doubted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.phase not in (COPYING, CATCHING_UP, EXACT):
            raise ValueError(f"phase {self.phase!r} is not known")


_STAGE: Final = NoteKind(Stage, version=None)
_PROGRESS: Final = NoteKind(Progress, version=None)
SHARDS: Final = f"{BOOTSTRAP}_shard"


@dataclass(frozen=True)
class Record:
    """The two tables in a target; `run` and `ask` take SQL with %s, `meta` is the quoted name of their schema."""

    run: Callable[[str, Sequence[Any]], object]
    ask: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
    meta: str
    cluster: str
    text: str
    name: str
    """The type of long texts, and of names."""
    keyed: bool = True
    """DuckDB does not take a key that is removed and inserted in one transaction."""

    def create(self) -> None:
        """Create the tables if they do not exist."""
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self.meta}", ())
        self.run(
            f"CREATE TABLE IF NOT EXISTS {self.meta}.{BOOTSTRAP} (cluster {self.name} NOT NULL, "
            f"exact BOOLEAN NOT NULL, stage {self.text} NOT NULL{', PRIMARY KEY (cluster)' if self.keyed else ''})",
            (),
        )
        key = ", PRIMARY KEY (cluster, node, db, tbl)" if self.keyed else ""
        names = ", ".join(f"{column} {self.name} NOT NULL" for column in ("cluster", "node", "db", "tbl"))
        self.run(
            f"CREATE TABLE IF NOT EXISTS {self.meta}.{SHARDS} ({names}, copied {self.text}, done BOOLEAN NOT NULL, "
            f"copied_rows BIGINT NOT NULL{key})",
            (),
        )

    def stage(self) -> Stage | None:
        """Return the stage, None if nothing was begun."""
        rows = self.ask(f"SELECT stage FROM {self.meta}.{BOOTSTRAP} WHERE cluster = %s", (self.cluster,))
        with self._damage_told(BOOTSTRAP):
            return _STAGE.parse(rows[0][0]) if rows else None

    def write(self, stage: Stage) -> None:
        """Record a stage, in the open transaction."""
        self.run(f"DELETE FROM {self.meta}.{BOOTSTRAP} WHERE cluster = %s", (self.cluster,))
        self.run(
            f"INSERT INTO {self.meta}.{BOOTSTRAP} (cluster, exact, stage) VALUES (%s, %s, %s)",
            (self.cluster, stage.phase == EXACT, json.dumps(_STAGE.values(stage))),
        )

    def progress(self) -> dict[Shard, Progress]:
        """Return how far the shards are copied."""
        rows = self.ask(
            f"SELECT node, db, tbl, copied, done, copied_rows FROM {self.meta}.{SHARDS} WHERE cluster = %s",
            (self.cluster,),
        )
        with self._damage_told(SHARDS):
            return {
                Shard(node, schema, table): _PROGRESS.read(
                    {"after": None if after is None else json.loads(after), "done": bool(done), "rows": count}
                )
                for node, schema, table, after, done, count in rows
            }

    @contextmanager
    def _damage_told(self, table: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, RecursionError) as error:
            raise ManifestError(
                f"what the target records of the bootstrap, in {self.meta}.{table}, is damaged: {error}",
                remedy="empty the target, with the tables of that schema, and begin the bootstrap anew",
            ) from None

    def copied(self, shard: Shard, progress: Progress) -> None:
        """Record how far a shard is copied, in the open transaction."""
        key = (self.cluster, *shard)
        self.run(
            f"DELETE FROM {self.meta}.{SHARDS} WHERE cluster = %s AND node = %s AND db = %s AND tbl = %s",
            key,
        )
        after = None if progress.after is None else json.dumps(progress.after)
        self.run(
            f"INSERT INTO {self.meta}.{SHARDS} (cluster, node, db, tbl, copied, done, copied_rows) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (*key, after, progress.done, progress.rows),
        )

    def forget(self) -> None:
        """Forget how far shards are copied, in the open transaction: a new round begins."""
        self.run(f"DELETE FROM {self.meta}.{SHARDS} WHERE cluster = %s", (self.cluster,))
