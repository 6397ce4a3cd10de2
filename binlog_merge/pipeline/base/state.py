"""The state of one run: its options, its filter, its inputs, and its bound: the key below which its input is
understood, and the error that stops it there.
"""

import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.files.as_of import AsOf
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.manifest import Header, Manifest
from binlog_merge.files.node_file import Discovery, IgnoredFile
from binlog_merge.files.output import WORK_FOLDER
from binlog_merge.pipeline.base.decided import Skipped
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.render_values import FileHead
from binlog_merge.pipeline.base.runner import InDriver, Progress, Runner, Sized
from binlog_merge.tracing import Step, now
from snapshot_store.tso import ORIGIN, OrderKey

if TYPE_CHECKING:
    from binlog_merge.filters.filter import FilterSettings


GREATEST_KEY = OrderKey((1 << 63) - 1, (1 << 63) - 1, (1 << 62), 1 << 30)


@dataclass(frozen=True, slots=True)
class Bound:
    """A key below which everything is understood, and the error that stops the run there, if any.

    `tables` are the tables that the statement at the key names, if a statement was not understood. Of several bounds
    the lowest wins: `min` finds it, and among bounds with equal keys takes the first.
    """

    key: OrderKey = GREATEST_KEY
    error: MergeError | None = None
    tables: tuple[tuple[str, str], ...] = ()

    def __lt__(self, other: "Bound") -> bool:
        return self.key < other.key

    @classmethod
    def of(cls, error: MergeError | None) -> "Bound":
        """Return the bound at an error's order key; no bound if there is no error, or it has no key."""
        return cls() if error is None or error.order_key is None else cls(OrderKey.parse(error.order_key), error)

    @classmethod
    def at(cls, key: OrderKey | None, error: MergeError | None, tables: tuple[tuple[str, str], ...] = ()) -> "Bound":
        """Return the bound at a key; no bound if the key is None."""
        return cls() if key is None else cls(key, error, tables)


NO_BOUND = Bound()
"""The whole input is understood."""


_LOG = logging.getLogger(__name__)


@dataclass
class Job:
    """One run: its options, and the warnings and timings collected so far; `steps` are its stages that have ended.

    `following`: it is one of many rounds, so that what is not whole yet at the end of a file is no warning. Tasks that
    read at most `in_driver` bytes in all run in the driver, the others on the engine. `store` is the URI of an output
    in an object store, of which the directory is the driver's copy.
    """

    engine: Runner
    config: MergeConfig
    directory: Path
    start_tso: int | None
    stop_tso: int | None
    end_of_input: bool
    partitions: int | None
    progress: Progress
    following: bool = False
    in_driver: int = 0
    store: str | None = None
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.filter = filter_settings(self.config.filter)
        if self.config.output.cts != "begin":
            self.warnings.append(
                f"output.cts: {self.config.output.cts} is for readers of PolarDB-X's global binlog; MySQL 9.7 as a "
                "replica crashes on the event after XID (mysqlbinlog takes it): cts: begin is for replicas"
            )

    @property
    def work(self) -> Path:
        return self.directory / WORK_FOLDER

    def scratch(self, kind: str) -> str:
        """Return the beginning of the paths of this run's blocks of a kind.

        No other run has it: executors of a driver that was killed may go on for a while, and write what they were to.
        """
        return f"{self.engine.exchange.prefix(self.work)}{kind}-{self.attempt}"

    @property
    def written(self) -> str:
        """Return the beginning of the paths of what this run's tasks write for the output.

        It goes with the work folder: an attempt that begins when the run is over finds no place to write to.
        """
        return f"{self.work}/gather-{self.attempt}"

    def runner(self, size: int) -> Runner:
        """Return what runs tasks that read so many bytes in all."""
        return self.engine if size > self.in_driver else InDriver(self.engine.exchange)

    def clear_work(self, kept: frozenset[str] = frozenset()) -> None:
        """Remove what runs left, this one or a killed one, but for the blocks whose paths begin as those `kept`."""
        self.engine.exchange.clear(self.work, kept)

    @contextmanager
    def stage(self, name: str, total: int = 1, size: int = 0, branches: int = 0) -> Iterator[None]:
        """Time a stage and report its beginning and end. `size`: how many bytes it reads, if that says anything, and of
        how many branches, if that is known.
        """
        begun, begun_at = time.perf_counter(), now()
        for told in (self.progress, self.engine):
            if (size or branches) and isinstance(told, Sized):
                told.size_is(name, size, branches)
        self.progress(name, 0, total)
        _LOG.debug("stage begins", extra={"stage": name, "tasks": total})
        yield
        self.progress(name, total, total)
        seconds = self.seconds[name] = round(time.perf_counter() - begun, 3)
        self.steps.append(Step(name, begun_at, now()))
        _LOG.info("stage done", extra={"stage": name, "tasks": total, "seconds": seconds})
        failpoint(f"after-{name}")


@dataclass(frozen=True)
class Inputs:
    """The nodes' files, and the manifest, header and carrier of the output.

    `discovery` is what was found of the files, `notes` those of the capture about nodes whose clocks give the order.
    """

    manifest: Manifest
    header: Header
    head: FileHead
    nodes: list[NodeInput]
    carrier: str
    left_out: tuple[IgnoredFile, ...] = ()
    read_again: tuple[str, ...] = ()
    skipped: Skipped = Skipped()  # noqa: RUF009 - frozen
    discovery: Discovery | None = None
    notes: Mapping[str, tuple[AsOf, ...]] = field(default_factory=dict)


def key_after(key: OrderKey | None) -> OrderKey:
    """Return the least key above `key`; ORIGIN if `key` is None."""
    return ORIGIN if key is None else key._replace(node_seq=key.node_seq + 1)


def filter_settings(path: str | None) -> "FilterSettings | None":
    """Return the settings of a filter file, None if `path` is None.

    Raises ConfigError for settings that a merge cannot apply.
    """
    if path is None:
        return None
    from binlog_merge.filters.config import load_filter
    from binlog_merge.filters.filter import verify

    settings = load_filter(Path(path))
    if settings.ignore_start_ts:
        raise ConfigError(
            "ignore-txn-start-ts: the merge does not know when a transaction began",
            file=path,
            remedy="name commit TSOs in ignore-commit-tso",
        )
    if settings.column_selectors:
        raise ConfigError(
            "column-selectors: a merged binlog has whole rows", file=path, remedy="leave the selectors out"
        )
    verify(settings)
    return settings
