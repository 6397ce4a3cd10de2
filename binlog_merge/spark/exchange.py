"""The exchange through Spark: blocks stay where they were written, and are shuffled to the tasks that read them.

Retries, lost executors, spilling and locality are Spark's. Driver and executors need share nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import dropwhile
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.base.blocks import HELD, Pieces, Read, holding
from binlog_merge.pipeline.base.pieces import Extent, extent_of, needed
from binlog_merge.pipeline.base.runner import Files
from binlog_merge.spark.engine import finishing, parallelism
from binlog_merge.spark.master import is_elsewhere
from binlog_merge.spark.tasks import (
    ROWS_IN,
    TOGETHER,
    Inputs,
    Numbered,
    PieceOf,
    Work,
    apart,
    blocks_of,
    brought,
    columns_only,
    columns_out,
    result_of,
    together,
)

OPTION: Final = "spark.binlogmerge.exchange"
_FETCHED_BYTES: Final = 64 << 20
_AHEAD_ROWS: Final = 1 << 20
_TOLD_BYTES: Final = 1 << 20
"""Larger tasks, all together, are shuffled to where they run: else each of them would load all."""
_TARGETS: Final = (
    "explode(cast(split(nullif(get(split(get(split('{}', '/'), number), ';'), place), ''), ',') as array<int>))"
    " as target"
)
"""The targets of a piece that is far, in SQL. A literal says them, and no table to join with: that would be a job of
its own.
"""

Rows = list[tuple[int, bytes]]


class _Far(NamedTuple):
    """A block that is far: the frame that has its pieces, which task wrote it, the place of the first piece, and what
    rows the pieces have.
    """

    frame: Any
    task: int
    place: int
    pieces: tuple[Extent, ...]

    @property
    def rows(self) -> int:
        """Return how many rows the block has."""
        return self.pieces[-1].first + self.pieces[-1].rows


class ShuffleExchange:
    """Blocks by path: those that are near, in the driver, and where those are that are far."""

    shared = False

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._near: dict[str, Pieces] = {}
        self._far: dict[str, _Far] = {}
        self._fetched: dict[tuple[str, tuple[str, ...] | None], Pieces] = {}

    def prefix(self, work: Path) -> str:
        """Return what marks the path of a carried block."""
        return HELD

    def opened(self) -> AbstractContextManager[None]:
        """Let this process read and write the blocks."""
        return holding(self)

    def clear(self, work: Path, kept: frozenset[str]) -> None:
        """Forget all blocks but those `kept`, and remove the files that runs with the other form have left."""
        Files().clear(work, frozenset())
        self.forget(kept)

    def forget(self, kept: frozenset[str]) -> None:
        """Forget all blocks but those whose paths up to the first dot are `kept`."""
        frames = {id(far.frame): far.frame for far in self._far.values()}
        self._near = {path: block for path, block in self._near.items() if path.partition(".")[0] in kept}
        self._far = {path: far for path, far in self._far.items() if path.partition(".")[0] in kept}
        self._fetched.clear()
        still = {id(far.frame) for far in self._far.values()}
        for frame in (frame for number, frame in frames.items() if number not in still):
            frame.unpersist()

    def put(self, path: str, block: Pieces) -> None:
        """Keep a block that this process wrote."""
        self._near[path] = block

    def get(self, paths: Sequence[str], names: Sequence[str] | None) -> Mapping[str, Pieces]:
        """Return blocks, of those that are far only the columns `names`: a job for each stage that wrote some.

        Those that are far come with what is likely to be asked for next, which is kept. Raises KeyError, EngineFailed.
        """
        wanted = None if names is None else tuple(names)
        found = {path: self._near[path] for path in paths if path in self._near}
        found |= {path: self._fetched[path, wanted] for path in paths if (path, wanted) in self._fetched}
        for frame, missing in self._by_frame(path for path in paths if path not in found):
            fetched = self._fetch(frame, [*missing, *self._after(missing)], wanted)
            found |= {path: fetched[path] for path in missing}
            self._keep({(path, wanted): block for path, block in fetched.items()})
        return found

    def _after(self, asked: Sequence[str]) -> Iterator[str]:
        """Yield the blocks of the same kind that were written after those that are asked for, as long as there are few
        rows.
        """
        frame, kind = self._far[asked[-1]].frame, _kind(asked[-1])
        room = _AHEAD_ROWS - sum(self._far[path].rows for path in asked)
        for path in dropwhile(asked[-1].__ne__, self._far):
            far = self._far[path]
            if path not in asked and far.frame is frame and _kind(path) == kind:
                room -= far.rows
                if room < 0:
                    break
                yield path

    def _keep(self, fetched: Mapping[tuple[str, tuple[str, ...] | None], Pieces]) -> None:
        """Keep blocks instead of those that were fetched longest ago, if all are not too large."""
        size = sum(map(_size, fetched.values()))
        if size > _FETCHED_BYTES:
            return
        size += sum(map(_size, self._fetched.values()))
        while size > _FETCHED_BYTES:
            size -= _size(self._fetched.pop(next(iter(self._fetched))))
        self._fetched |= fetched

    def _fetch(self, frame: Any, paths: Sequence[str], names: Sequence[str] | None) -> dict[str, Pieces]:
        listed = ", ".join(f"'{path}'" for path in paths)
        rows = frame.where("data is not null").where(f"path in ({listed})")
        with finishing(self._spark, "fetch"):
            table = (rows if names is None else rows.mapInArrow(columns_only(names), columns_out())).toArrow()
        return blocks_of(zip(*(table[name].to_pylist() for name in ("path", "piece", "data")), strict=True))

    def run(self, work: Callable[[Inputs], Work], tasks: Sequence[bytes], reads: Sequence[Sequence[Read]]) -> Rows:
        """Run a stage: `work(inputs)` is its body. Returns the number and the result of each task."""
        from pyspark import StorageLevel

        if any(reads) or sum(map(len, tasks)) > _TOLD_BYTES:
            rows = self.inputs(tasks, reads)
            body = work(brought)
        else:
            rows = self._spark.range(0, len(tasks), 1, numPartitions=len(tasks))
            body = work(Numbered(tasks))
        frame = rows.mapInArrow(body, columns_out()).persist(StorageLevel.DISK_ONLY)
        try:
            table = frame.select("number", "path", "piece", "near").toArrow()
        except BaseException:
            frame.unpersist()
            raise
        near = table.filter(pc.is_valid(table["near"]))
        return self._taken(frame, sorted(zip(*(column.to_pylist() for column in near.columns), strict=True)))

    def inputs(self, tasks: Sequence[bytes], reads: Sequence[Sequence[Read]]) -> Any:
        """Return the frame that has a partition for each task, with the task and all that it reads."""
        return self._inputs(tasks, reads).repartitionById(len(tasks), "target")

    def _taken(self, frame: Any, rows: Sequence[tuple[int, str, int, bytes]]) -> Rows:
        """Keep the blocks of a stage that has run. `rows` are sorted."""
        results = [(number, data) for number, path, _, data in rows if not path]
        self._near |= blocks_of(apart((path, piece, data) for _, path, piece, data in rows if path))
        far: dict[str, _Far] = {}
        for number, data in results:
            place = 0
            for path, pieces in result_of(data).far.items():
                far[path] = _Far(frame, number, place, pieces)
                place += len(pieces)
        self._far |= far
        if not far:
            frame.unpersist()
        return results

    def _inputs(self, tasks: Sequence[bytes], reads: Sequence[Sequence[Read]]) -> Any:
        """Return the frame with the tasks and all that they read, in as many partitions as tasks run at once."""
        routes = [(number, path, piece) for number, wanted in enumerate(reads) for path, piece in self._pieces(wanted)]
        pieces = Counter(number for number, _, _ in routes)
        rows = [(number, "", pieces[number], task) for number, task in enumerate(tasks)]
        near = defaultdict[int, list[PieceOf]](list)
        for number, path, piece in routes:
            if path in self._near:
                near[number].append((path, piece, self._near[path][piece]))
        rows += [
            (number, TOGETHER, row, data) for number, own in near.items() for row, data in enumerate(together(own))
        ]
        frame = self._spark.createDataFrame(_table(rows, ROWS_IN))
        far = [route for route in routes if route[1] not in self._near]
        for written, paths in self._by_frame(path for _, path, _ in far):
            known = frozenset(paths)
            sent = _TARGETS.format(self._targets([route for route in far if route[1] in known]))
            frame = frame.union(written.selectExpr(sent, "path", "piece", "data"))
        at_once = parallelism(self._spark)
        return frame if at_once is None else frame.coalesce(at_once)

    def _targets(self, routes: Sequence[tuple[int, str, int]]) -> str:
        """Return the targets of each piece, with commas; the pieces by place, with semicolons; the tasks that wrote
        them, with slashes. Short, as each task gets it: "1,2;2/;;2".
        """
        found = defaultdict[int, dict[int, list[int]]](dict)
        for target, path, piece in routes:
            far = self._far[path]
            found[far.task].setdefault(far.place + piece, []).append(target)
        return "/".join(
            ";".join(",".join(map(str, of_task.get(place, ()))) for place in range(max(of_task, default=-1) + 1))
            for of_task in (found[task] for task in range(max(found) + 1))
        )

    def _pieces(self, reads: Sequence[Read]) -> Iterator[tuple[str, int]]:
        """Yield the pieces that a task needs, each once."""
        wanted: dict[tuple[str, int], None] = {}
        for path, part in reads:
            extents = [extent_of(piece) for piece in self._near[path]] if path in self._near else self._far[path].pieces
            wanted |= dict.fromkeys((path, piece) for piece in needed(extents, part))
        yield from wanted

    def _by_frame(self, paths: Iterable[str]) -> list[tuple[Any, list[str]]]:
        found: dict[int, tuple[Any, list[str]]] = {}
        for path in dict.fromkeys(paths):
            frame = self._far[path].frame
            found.setdefault(id(frame), (frame, []))[1].append(path)
        return list(found.values())


def _kind(path: str) -> str:
    """Return what a block's path ends with: which of a task's blocks it is."""
    return path.partition(".")[2]


def _size(block: Pieces) -> int:
    return sum(map(len, block))


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.Table.from_pydict(dict(zip(schema.names, columns, strict=True)), schema=schema)


def carries_blocks(spark: Any) -> bool:
    """Return whether blocks go through Spark: as the option says, else where executors may be on other machines.

    On one machine files are faster (`make bench`). Raises ConfigError for another value of the option.
    """
    chosen = spark.conf.get(OPTION, None)
    if chosen not in (None, "spark", "files"):
        raise ConfigError(f"{OPTION} is {chosen!r}", remedy="write spark or files, or leave it out")
    return is_elsewhere(spark) if chosen is None else bool(chosen == "spark")
