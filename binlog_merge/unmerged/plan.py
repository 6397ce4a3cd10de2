"""Finds the files that a merge would write, in this process: which transactions each has, and where these stand.

The nodes' files are scanned and their transactions put in order, as `pipeline.transactions` does; no row is decoded.
What is found is a value: whoever has it can render each of the files by itself (`unmerged.selection`).
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import Header, ManifestState, Publish
from binlog_merge.log.log import Log
from binlog_merge.log.place import Place
from binlog_merge.pipeline.base.blocks import HELD, Held, Pieces, holding
from binlog_merge.pipeline.base.pieces import extent_of, needed
from binlog_merge.pipeline.base.runner import Files, InDriver
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.values import GatherTask
from binlog_merge.pipeline.order.ordered import at_least
from binlog_merge.pipeline.result import MergeResult
from binlog_merge.pipeline.transactions import found_files
from snapshot_store.history import TableVersion
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class UnmergedFile:
    """A file that a merge would write; `blocks` have where its transactions stand."""

    name: str
    next_name: str | None
    first_rank: int
    last_rank: int
    runs: tuple[tuple[str, int, int], ...]
    blocks: Mapping[str, Pieces]

    def rows(self) -> list[Rows]:
        """Return the branches of the file's transactions."""
        with holding(Held(self.blocks)):
            return [Rows.load(*run) for run in self.runs]


@dataclass(frozen=True, slots=True)
class Unmerged:
    """A cluster's transactions in order: by file, and what all files have in common.

    `versions` are those of the logical tables. `result` is what a merge would say, without files.
    """

    files: tuple[UnmergedFile, ...]
    common: GatherTask | None
    header: Header
    versions: Mapping[tuple[str, str], tuple[TableVersion, ...]]
    result: MergeResult

    @property
    def last_rank(self) -> int:
        """Return the rank of the last transaction, 0 if there is none."""
        return self.files[-1].last_rank if self.files else 0

    @property
    def log(self) -> "UnmergedLog":
        """Return the log that the merge would write, without its files."""
        return UnmergedLog(self)


class LogAsFound(LogFolder):
    """A folder of a log that has no manifest: what would be in it is known."""

    def __init__(self, directory: Path, state: ManifestState) -> None:
        super().__init__(directory)
        self._state = state

    def state(self) -> ManifestState:
        """Return what would be published."""
        return self._state

    def place(self, name: str = "") -> str:
        """Return what tells people that a merge would write this file, but has not."""
        return f"(not merged)/{name}"


class UnmergedLog(Log):
    """The log that a merge would write: places are found in the nodes' transactions."""

    def __init__(self, unmerged: Unmerged) -> None:
        published = Publish(1, (), None, unmerged.result.watermark, unmerged.last_rank, {}, {})
        super().__init__(LogAsFound(Path(), ManifestState(unmerged.header, published)))
        self._unmerged = unmerged

    @property
    def end_key(self) -> OrderKey | None:
        """Return the key of the last transaction, None if there is none."""
        runs = [rows for file in self._unmerged.files[-1:] for rows in file.rows() if len(rows)]
        return runs[-1].key(len(runs[-1]) - 1) if runs else None

    def _ended_by(self, place: Place) -> int:
        raise ConfigError(
            f"{place}: a file and a position are of a merged log", remedy="give a GTID, a TSO, an order key or a time"
        )

    def _at_key(self, key: OrderKey, place: Place) -> int:
        return self._first_of(lambda rows: at_least(rows.columns, key))

    def _committed_from(self, micros: int) -> int:
        return self._first_of(lambda rows: rows.commit_us >= micros)

    def _first_of(self, wanted: Callable[[Rows], Any]) -> int:
        """Return the rank of the first transaction that is `wanted`; last rank + 1 if there is none."""
        for file in self._unmerged.files:
            rank = file.first_rank
            for rows in file.rows():
                found = wanted(rows)[np.flatnonzero(rows.first)]
                if found.any():
                    return rank + int(np.argmax(found))
                rank += len(found)
        return self.last_rank + 1


def plan(config: MergeConfig, end_of_input: bool = False) -> Unmerged:
    """Return a cluster's transactions in order. Raises MergeError as a merge does: nothing is read up to a stop."""
    exchange = _Kept()
    with found_files(InDriver(exchange), config, end_of_input=end_of_input) as found:
        if found.error is not None:
            raise found.error
        files = tuple(_file(task, rank, exchange) for task, rank in _last_ranks(found.tasks, found.result.transactions))
    versions: dict[tuple[str, str], list[TableVersion]] = {}
    for version in found.history.versions:
        if version.node is None:
            versions.setdefault((version.schema, version.name), []).append(version)
    common = replace(found.tasks[0], runs=()) if found.tasks else None
    return Unmerged(files, common, found.header, {name: tuple(of) for name, of in versions.items()}, found.result)


def _last_ranks(tasks: tuple[GatherTask, ...], transactions: int) -> list[tuple[GatherTask, int]]:
    """Return each task with the rank of its last transaction."""
    ends = [*(task.rank - 1 for task in tasks[1:]), transactions]
    return list(zip(tasks, ends, strict=True)) if tasks else []


def _file(task: GatherTask, last_rank: int, exchange: "_Kept") -> UnmergedFile:
    blocks = {}
    for path, part in task.reads:
        pieces = exchange.written[path]
        wanted = set(needed([extent_of(piece) for piece in pieces], part))
        blocks[path] = tuple(piece for number, piece in enumerate(pieces) if number in wanted)
    return UnmergedFile(task.name, task.next_name, task.rank, last_rank, task.runs, blocks)


class _Kept(Held):
    """An exchange for tasks of this process: blocks are here, and stay."""

    shared = False

    def prefix(self, work: Path) -> str:
        """Return what marks the path of a carried block."""
        return HELD

    def opened(self) -> AbstractContextManager[None]:
        """Let this process read and write the blocks."""
        return holding(self)

    def clear(self, work: Path, kept: frozenset[str]) -> None:
        """Forget all blocks but those whose paths up to the first dot are `kept`."""
        Files().clear(work, frozenset())
        self.written = {path: block for path, block in self.written.items() if path.partition(".")[0] in kept}
