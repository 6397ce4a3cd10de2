"""The merge without Spark: tasks run one after the other in this process, as frozen values that pickle."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.manifest import Manifest, ManifestState
from binlog_merge.pipeline.base.blocks import Held, InProcess, Pieces, Read, holding, reads_of
from binlog_merge.pipeline.base.pieces import extent_of, needed
from binlog_merge.pipeline.base.runner import Exchange, Files
from binlog_merge.pipeline.run import run_merge
from binlog_merge.pipeline.values import MergeResult

Task = TypeVar("Task")
Result = TypeVar("Result")


class LocalRunner:
    """A `Runner` that makes every task and every result cross a process boundary, but for the process."""

    slots = 2
    exchange: Exchange = Files()

    def start(self, progress: object) -> None:
        pass

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = []
        for task in tasks:
            result = function(pickle.loads(pickle.dumps(task)))
            results.append(pickle.loads(pickle.dumps(result)))
        return results


class HeldRunner(LocalRunner):
    """A `Runner` whose tasks share nothing but what they say that they read."""

    def __init__(self) -> None:
        self.carried = InProcess()
        self.exchange = self.carried

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = []
        for task in tasks:
            own = Held(self._brought(reads_of(task)))
            with holding(own):
                results += super().run(name, function, [task])
            self.carried.written |= own.written
        return results

    def _brought(self, reads: Sequence[Read]) -> dict[str, Pieces]:
        wanted: dict[str, set[int]] = {}
        for path, part in reads:
            extents = [extent_of(piece) for piece in self.carried.written[path]]
            wanted.setdefault(path, set()).update(needed(extents, part))
        return {path: [self.carried.written[path][piece] for piece in sorted(found)] for path, found in wanted.items()}


def merge(
    config: MergeConfig | Path,
    out: Path,
    *,
    end_of_input: bool = True,
    runner: LocalRunner | None = None,
    **options: Any,
) -> MergeResult:
    """Merge a configuration, or a file of one, into `out`."""
    if isinstance(config, Path):
        config = MergeConfig.load(config)
    return run_merge(runner or LocalRunner(), config, out, end_of_input=end_of_input, **options)


def written(out: Path) -> dict[str, bytes]:
    """Return the merged files of an output directory, by name."""
    return {p.name: p.read_bytes() for p in sorted(out.glob("binlog.*")) if p.suffix != ".index"}


def state_of(out: Path) -> ManifestState:
    """Return what an output's manifest says."""
    return Manifest.load(out).state


def with_nodes_reversed(config: MergeConfig) -> MergeConfig:
    """Return the same cluster, listed in another order."""
    return config.model_copy(update={"nodes": tuple(reversed(config.nodes))})
