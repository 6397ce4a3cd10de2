"""The rows of a cluster whose binlogs are not merged: from the nodes' files, as of the log that a merge would write."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from binlog_merge.ask.changes import file_batches
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, MergeError, UnknownTable, UnknownTableSchema
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import Header, ManifestState, OutputFile, Publish
from binlog_merge.files.scratch import scratch_folder
from binlog_merge.log.log import Log
from binlog_merge.log.place import Place
from binlog_merge.log.question import AnySelection, Question
from binlog_merge.log.versions import TableVersions, in_force_between, like
from binlog_merge.pipeline.base.blocks import Held, InProcess, Pieces, holding
from binlog_merge.pipeline.base.pieces import extent_of, needed
from binlog_merge.pipeline.base.runner import InDriver
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.task import render
from binlog_merge.pipeline.gather.values import GatherTask, doubted_orders
from binlog_merge.pipeline.order.ordered import at_least
from binlog_merge.pipeline.transactions import found_files
from binlog_merge.pipeline.values import MergeResult
from snapshot_store.history import TableVersion
from snapshot_store.names import NamePattern
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
                chosen = wanted(rows)[np.flatnonzero(rows.first)]
                if chosen.any():
                    return rank + int(np.argmax(chosen))
                rank += len(chosen)
        return self.last_rank + 1


def plan(config: MergeConfig, end_of_input: bool = False) -> Unmerged:
    """Return a cluster's transactions in order. Raises MergeError as a merge does: nothing is read up to a stop."""
    exchange = InProcess()
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


def _file(task: GatherTask, last_rank: int, exchange: InProcess) -> UnmergedFile:
    blocks = {}
    for path, part in task.reads:
        pieces = exchange.written[path]
        wanted = set(needed([extent_of(piece) for piece in pieces], part))
        blocks[path] = tuple(piece for number, piece in enumerate(pieces) if number in wanted)
    return UnmergedFile(task.name, task.next_name, task.rank, last_rank, task.runs, blocks)


_LOG = logging.getLogger(__name__)


def files_of(unmerged: Unmerged, selection: AnySelection) -> Iterator[UnmergedFile]:
    """Yield the files that have such transactions."""
    for file in unmerged.files:
        if file.last_rank >= selection.first and file.first_rank <= selection.last:
            yield file


def unmerged_batches(unmerged: Unmerged, selection: AnySelection) -> Iterator[Any]:
    """Yield the changes as record batches, in order; one file is rendered at a time."""
    for file in files_of(unmerged, selection):
        assert unmerged.common is not None
        with rendered(file, unmerged.common, unmerged.header) as (binlog, output):
            yield from file_batches(binlog, selection, output)


@contextmanager
def rendered(file: UnmergedFile, common: GatherTask, header: Header) -> Iterator[tuple[Log, OutputFile]]:
    """Yield a log that has this file alone. It takes its size in the folder for temporary files (TMPDIR).

    Logs what a merge warns of when it writes. Raises what a merge does at rows that are wrong.
    """
    task = replace(common, name=file.name, next_name=file.next_name, rank=file.first_rank, runs=file.runs)
    with scratch_folder() as folder:
        with holding(Held(file.blocks)):
            made = render(task, folder)
        if made.error is not None:
            raise MergeError.from_dict(made.error)
        for text in made.believed:
            _LOG.warning("the table map is believed, not the schema history: %s", text)
        for text in doubted_orders(made.doubted):
            _LOG.warning("%s", text)
        first, last = ("" if key is None else key.text() for key in (made.first_key, made.last_key))
        output = OutputFile(
            file.name, made.size, True, first, last, file.first_rank, file.last_rank, made.input_bytes,
            made.transactions, made.sequence,
        )  # fmt: skip
        yield Log(LogAsFound(folder, ManifestState(header, None, (output,)))), output


def select_unmerged(unmerged: Unmerged, question: Question) -> AnySelection:
    """Return what a question selects of a cluster that is not merged, as `log.question.select_any` does of a log."""
    found = question.range_in(unmerged.log)
    between = _keys_between(unmerged, *found)
    if (patterns := question.patterns) is not None:
        known = {name: of for name, of in unmerged.versions.items() if any(p.matches(*name) for p in patterns)}
        _check_there(unmerged, patterns)
        return question.of_many(in_force_between(known, between), found)
    name = question.name
    _check_there(unmerged, [NamePattern.exact(*name)])
    (versions,) = in_force_between({name: unmerged.versions[name]}, between).values()
    _check_known(versions)
    return question.of_table(versions, TableVersions(*name, tuple(unmerged.versions[name])), found)


def _check_there(unmerged: Unmerged, patterns: Sequence[NamePattern]) -> None:
    for pattern in patterns:
        if not all(pattern.wild) and not any(pattern.matches(*name) for name in unmerged.versions):
            near = like(sorted(unmerged.versions), pattern.schema, pattern.table)
            raise UnknownTable(f"the cluster has no table {pattern}{near}")


def _check_known(versions: TableVersions) -> None:
    """Raise UnknownTableSchema where only the rows themselves say the columns: the types must be known before."""
    if any(version.opaque for version in versions.versions):
        raise UnknownTableSchema(
            f"what {versions.schema}.{versions.name} is here is not known before its rows are read: a DDL was not "
            "understood",
            remedy="merge, and read the merged log; or read all tables, whose rows are JSON text",
        )


def _keys_between(unmerged: Unmerged, first: int, last: int) -> tuple[OrderKey, OrderKey] | None:
    """Return the keys of the first transaction of rows between two ranks and of the last one, None if there is none."""
    low: OrderKey | None = None
    high: OrderKey | None = None
    for file in unmerged.files:
        if file.last_rank < first or file.first_rank > last:
            continue
        rank = file.first_rank
        for rows in file.rows():
            begins = np.flatnonzero(rows.first)
            ranks = np.arange(rank, rank + len(begins))
            of_rows = (rows.flags[begins] & (ks.MARKER | ks.HEARTBEAT)) == 0
            inside = begins[of_rows & (ranks >= first) & (ranks <= last)]
            if len(inside):
                low = low or rows.key(int(inside[0]))
                high = rows.key(int(inside[-1]))
            if file.last_rank <= last and len(rows) and low is not None:
                high = rows.key(len(rows) - 1)  # of a DDL, too: the manifest of a merged log has it
            rank += len(begins)
    return None if low is None or high is None else (low, high)
