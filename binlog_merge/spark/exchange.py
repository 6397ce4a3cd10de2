"""The exchange through Spark: blocks stay where they were written, and are shuffled to the tasks that read them.

Retries, lost executors, spilling and locality are Spark's. Driver and executors need share nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.base.blocks import HELD, Read, Slice, holding
from binlog_merge.pipeline.base.runner import Files
from binlog_merge.spark.engine import finishing
from binlog_merge.spark.master import is_elsewhere
from binlog_merge.spark.tasks import (
    IN,
    OUT,
    ROWS_IN,
    Inputs,
    Numbered,
    Project,
    Send,
    Work,
    brought,
    part_of,
    result_of,
)

OPTION: Final = "spark.binlogmerge.exchange"
_FETCHED: Final = 64 << 20

Rows = list[tuple[int, str, bytes]]


class ShuffleExchange:
    """Blocks by path: those that are near, in the driver, and the frames that have those that are far."""

    shared = False

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._near: dict[str, bytes] = {}
        self._far: dict[str, Any] = {}
        self._fetched: dict[tuple[str, tuple[str, ...] | None], bytes] = {}

    def prefix(self, work: Path) -> str:
        """Return what marks the path of a carried block."""
        return HELD

    def opened(self) -> AbstractContextManager[None]:
        """Let this process read and write the blocks."""
        return holding(self)

    def clear(self, work: Path, kept: frozenset[str]) -> None:
        """Forget all blocks but those `kept`, and remove the files that runs with the other form have left."""
        Files().clear(work, frozenset())
        frames = {id(frame): frame for frame in self._far.values()}
        self._near = {path: block for path, block in self._near.items() if path.partition(".")[0] in kept}
        self._far = {path: frame for path, frame in self._far.items() if path.partition(".")[0] in kept}
        self._fetched.clear()
        needed = {id(frame) for frame in self._far.values()}
        for frame in (frame for number, frame in frames.items() if number not in needed):
            frame.unpersist()

    def put(self, path: str, block: bytes) -> None:
        """Keep a block that this process wrote."""
        self._near[path] = block

    def get(self, paths: Sequence[str], names: Sequence[str] | None) -> Mapping[str, bytes]:
        """Return blocks, of those that are far only the columns `names`: a job for each stage that wrote some.

        Raises KeyError, EngineFailed.
        """
        wanted = None if names is None else tuple(names)
        found = {path: self._near[path] for path in paths if path in self._near}
        found |= {path: self._fetched[path, wanted] for path in paths if (path, wanted) in self._fetched}
        for frame, missing in self._by_frame(path for path in paths if path not in found):
            with finishing(self._spark, "fetch"):
                table = frame.where("not near").mapInArrow(Project(missing, wanted), IN).toArrow()
            fetched = dict(zip(table["path"].to_pylist(), table["data"].to_pylist(), strict=True))
            found |= fetched
            if sum(map(len, self._fetched.values())) + sum(map(len, fetched.values())) <= _FETCHED:
                self._fetched |= {(path, wanted): block for path, block in fetched.items()}
        return found

    def run(self, work: Callable[[Inputs], Work], tasks: Sequence[bytes], reads: Sequence[Sequence[Read]]) -> Rows:
        """Run a stage: `work(inputs)` is its body. Returns what came near, results among it."""
        from pyspark import StorageLevel

        if any(reads):
            rows = self._inputs(tasks, reads).repartitionById(len(tasks), "target")
            body = work(brought)
        else:
            rows = self._spark.range(0, len(tasks), 1, numPartitions=len(tasks))
            body = work(Numbered(tasks))
        frame = rows.mapInArrow(body, OUT).persist(StorageLevel.DISK_ONLY)
        try:
            table = frame.where("near").select("number", "path", "data").toArrow()
        except BaseException:
            frame.unpersist()
            raise
        return self._taken(frame, list(zip(*(column.to_pylist() for column in table.columns), strict=True)))

    def _taken(self, frame: Any, rows: Rows) -> Rows:
        """Keep the blocks of a stage that has run."""
        self._near |= {path: block for _, path, block in rows if path}
        results = [row for row in rows if not row[1]]
        far = [path for _, _, data in results for path in result_of(data).far]
        self._far |= dict.fromkeys(far, frame)
        if not far:
            frame.unpersist()
        return results

    def _inputs(self, tasks: Sequence[bytes], reads: Sequence[Sequence[Read]]) -> Any:
        """Return the frame with the tasks and all that they read."""
        rows = [(number, "", task) for number, task in enumerate(tasks)]
        far: dict[str, list[tuple[int, Slice]]] = {}
        for number, wanted in enumerate(reads):
            for path, part in wanted:
                if path in self._near:
                    rows.append((number, path, part_of(self._near[path], part)))
                else:
                    far.setdefault(path, []).append((number, part))
        columns = [list(column) for column in zip(*rows, strict=True)]
        frame = self._spark.createDataFrame(
            pa.Table.from_pydict(dict(zip(ROWS_IN.names, columns, strict=True)), schema=ROWS_IN)
        )
        for written, paths in self._by_frame(far):
            frame = frame.union(written.where("not near").mapInArrow(Send({p: far[p] for p in paths}), IN))
        return frame

    def _by_frame(self, paths: Iterable[str]) -> list[tuple[Any, list[str]]]:
        found: dict[int, tuple[Any, list[str]]] = {}
        for path in paths:
            frame = self._far[path]
            found.setdefault(id(frame), (frame, []))[1].append(path)
        return list(found.values())


def carries_blocks(spark: Any) -> bool:
    """Return whether blocks go through Spark: as the option says, else where executors may be on other machines.

    On one machine files are faster (`make bench`). Raises ConfigError for another value of the option.
    """
    chosen = spark.conf.get(OPTION, None)
    if chosen not in (None, "spark", "files"):
        raise ConfigError(f"{OPTION} is {chosen!r}", remedy="write spark or files, or leave it out")
    return is_elsewhere(spark) if chosen is None else bool(chosen == "spark")
