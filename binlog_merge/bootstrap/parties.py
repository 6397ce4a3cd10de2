"""What takes part in a bootstrap: the target, the nodes, what the user chooses, and what comes out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from binlog_merge.bootstrap.nodes import NodeReader
from binlog_merge.bootstrap.values import Chunk, End, Identity, Name, Progress, Shard, Stage, Texts
from binlog_merge.log.checkpoint import Checkpoint
from binlog_merge.log.log import Log
from snapshot_store.model import Catalog


class Target(Protocol):
    """What is filled; `as_text`: it takes values as their texts."""

    @property
    def as_text(self) -> bool: ...
    @property
    def address(self) -> str: ...
    def rank_there(self) -> int | None: ...
    def stage(self) -> Stage | None: ...
    def begin(self, stage: Stage, catalog: Catalog, binlog: Log, wanted: Sequence[Name]) -> None: ...
    def begun(self) -> bool: ...
    def begin_again(self, stage: Stage, catalog: Catalog, binlog: Log, wanted: Sequence[Name]) -> None: ...
    def know(self, catalog: Catalog) -> None: ...
    def progress(self) -> dict[Shard, Progress]: ...
    def begin_round(self, stage: Stage, catalog: Catalog) -> None: ...
    def insert(self, chunk: Chunk, progress: Progress, replace: bool) -> list[Texts]: ...
    def begin_catching_up(self, stage: Stage) -> None: ...
    def catch_up(self, stage: Stage, binlog: Log) -> None: ...
    def end_round(self, stage: Stage, catalog: Catalog) -> None: ...
    def finish(self, stage: Stage) -> None: ...


class Node(Protocol):
    """A node as its capture knows it."""

    @property
    def name(self) -> str: ...
    def reader(self, identity: Identity | None) -> NodeReader:
        """Return a reader of the server that is captured now."""

    def captured(self) -> str:
        """Return the GTIDs of all that is captured, or was executed before."""

    def place(self, end: tuple[str, int]) -> End:
        """Return a place of the server as the capture names it."""


@dataclass(frozen=True)
class Options:
    """The options of a bootstrap: rows of a chunk, and how many seconds it waits for what does not come on."""

    chunk_rows: int = 10_000
    wait_seconds: float = 600.0
    system_zone: str | None = None


@dataclass
class Result:
    """What a bootstrap did: the place at which the target is exact, and what it has not carried."""

    place: Checkpoint
    rounds: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    doubted: list[str] = field(default_factory=list)
    not_in_log: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `-o json` prints them."""
        return {
            "rank": self.place.rank,
            "gtid": self.place.gtid,
            "order_key": self.place.key,
            "rounds": self.rounds,
            "rows": self.rows,
            "copied_again": self.again,
            "doubted": self.doubted,
            "not_in_log": self.not_in_log,
            "views": self.views,
        }
