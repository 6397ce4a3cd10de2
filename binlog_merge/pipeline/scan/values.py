"""The input and result of a scan task: frozen values, shared by the driver and the executors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.node_file import KnownFile
from binlog_merge.pipeline.base.blocks import read_block, read_brought, write_block
from binlog_merge.pipeline.base.branches import Hash, LateCommit, OpenBranch
from binlog_merge.pipeline.base.clock import Clocked
from binlog_merge.pipeline.base.logged import Logged
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.polardbx.names import MarkerTables
from snapshot_store.topology import Topology


@dataclass(frozen=True, slots=True)
class PieceBlock:
    """The block of a scanned piece: up to three blocks whose paths begin with `path`."""

    path: str

    def timed(self) -> dict[str, Column]:
        """Return the branches whose commit TSO is known, by TSO and transaction."""
        return read_block(self.timed_path)

    def local(self) -> dict[str, Column]:
        """Return the transactions without a commit TSO and the DDL, in file order."""
        return read_block(self.local_path)

    def local_part(self) -> tuple[int, dict[str, Column]]:
        """Return what a task has of `local`, and the number of the first row."""
        return read_brought(self.local_path)

    def used_rows(self) -> dict[str, Column]:
        """Return the commit rows that the piece's own branches used. The block exists only if there are any."""
        return read_block(self._path("rows"))

    def write(self, timed: Mapping[str, Column], local: Mapping[str, Column], used_rows: Mapping[str, Column]) -> None:
        """Write the blocks."""
        write_block(self.timed_path, timed)
        write_block(self.local_path, local)
        if any(len(column) for column in used_rows.values()):
            write_block(self._path("rows"), used_rows)

    @property
    def timed_path(self) -> str:
        """Return the path of `timed`."""
        return self._path("timed")

    @property
    def local_path(self) -> str:
        """Return the path of `local`."""
        return self._path("local")

    def _path(self, name: str) -> str:
        return f"{self.path}.{name}.arrow"


@dataclass(frozen=True, slots=True)
class ScanTask:
    """One piece of one file, and the settings needed to read it. `exact`: at `start` a group begins, or the file."""

    piece: int
    node: str
    file_index: int
    file: KnownFile
    start: int
    stop: int
    checksum: bool
    carrier: int
    use_own_tso: bool
    commit_table: tuple[str, str]
    markers: MarkerTables
    block: PieceBlock
    exact: bool = False
    lenient: bool = False  # gaps in sequence numbers are recorded and do not stop the walk
    seen: int = -1  # commits before this offset were seen by an earlier run; -1: none of this file
    elsewhere: GtidSet = GtidSet()  # noqa: RUF009 - frozen; groups with these GTIDs are left out
    decided: GtidSet = GtidSet()  # noqa: RUF009 - frozen; somebody decided to leave out these groups
    decided_at: tuple[int, ...] = ()  # and those that begin at these offsets
    awaited: tuple[Hash, ...] = ()  # branches whose prepare comes again: the node went over to another server
    topology: Topology = Topology()  # noqa: RUF009 - frozen; statements in statement format may write what it ignores

    @property
    def size(self) -> int:
        """Return how many bytes of the file are read."""
        return self.file.size

    @property
    def length(self) -> int:
        """Return how many bytes the piece has."""
        return min(self.stop, self.size) - self.start


@dataclass(frozen=True, slots=True)
class Passed:
    """Statements or transactions that are left out: their kind, the reason, how many, and (position, text) of the
    first.
    """

    kind: str
    why: str
    count: int
    first: tuple[tuple[int, str], ...]


class TsoSpan(NamedTuple):
    """From the least TSO to the greatest, both included."""

    least: int
    greatest: int

    def meets(self, low: int, high: int) -> bool:
        """Return whether a TSO of the span may be in low <= tso < high."""
        return self.least < high and low <= self.greatest


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The summary of a scanned piece that the driver gets; rows stay in the block."""

    piece: int
    node: str
    file_index: int
    first: int  # where its first group may begin; -1: no group begins in it
    end: int  # offset after its last complete group
    reached: int  # where the walk stopped: the next piece's first group, the file's end, or damage
    clean_end: bool
    truncated: int | None  # offset of an event that goes beyond the file
    timed: int
    local: int
    groups: int
    events: int
    ignored: int
    max_tso: int
    max_transaction: int
    locals_after_max: int
    least_new: tuple[int, int] | None  # least (tso, transaction) committed after the offset an earlier run had read to
    quantiles: tuple[tuple[int, int], ...]  # (tso, bytes up to it since the last)
    sets: tuple[tuple[tuple[str, str], ...], ...]
    late: tuple[LateCommit, ...]
    open: tuple[OpenBranch, ...]
    commit_rows: tuple[tuple[int, int, int], ...]  # (gtrid hash, gtrid hash, tso) that later pieces may need
    used_rows: int  # commit rows used here, in the block: later pieces may need those of branches prepared earlier
    ddl: tuple[int, ...]  # indexes of DDL among the locals
    markers: tuple[tuple[int, int, int, int], ...]  # (tso, transaction, start, end) of marker branches
    local_markers: tuple[int, ...]  # indexes of locals that touch the marker table
    unfinished: int | None  # where the group begins that is open at the end of the walk
    logged: Logged = Logged()  # noqa: RUF009 - frozen
    clock: Clocked | None = None  # where the node's clock gives the order
    timed_span: TsoSpan | None = None  # of the branches whose commit TSO is known
    last_timed: tuple[int, int, int] | None = None  # (tso, transaction, flags) of the last of these
    passed: tuple[Passed, ...] = ()
    again: tuple[Hash, ...] = ()  # the awaited branches that are prepared in it, whether they end in it or not
    error: dict[str, Any] | None = None


class Piece(NamedTuple):
    """A scanned piece: its task and its result."""

    task: ScanTask
    result: ScanResult
