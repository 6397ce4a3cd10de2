"""The input and result of a gather task: frozen values, shared by the driver and the executors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from binlog_merge.config.modes import Modes
from binlog_merge.files.node_file import KnownFile
from binlog_merge.files.parts import Away, Sent
from binlog_merge.pipeline.base.blocks import Read
from binlog_merge.pipeline.base.pieces import Span
from binlog_merge.pipeline.base.render_values import FileHead, LogicalDdl
from binlog_merge.pipeline.coordinate.shards.values import Holds
from binlog_merge.polardbx.names import is_system_table
from binlog_merge.polardbx.table_mapping import Places
from binlog_merge.reshape.target_keys import TargetKeys
from binlog_merge.values.convert.cells import ReshapeOptions
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.collisions import KeysSeen
    from binlog_merge.pipeline.gather.filtering import OutputFilter
    from binlog_merge.reshape.writesets import Dependencies, History


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of a gather task: both histories and the topology.

    `opaque`: if a table map contradicts the history, the table map is believed. `places` map physical tables to logical
    ones; without them the topology does. `polardbx`: tables without a primary key may have a hidden column
    (`polardbx.names.ROW_ID`), and the tables of the transaction machinery never come out. `modes` have the columns that
    routes fill in for physical tables that lack them. With `holds`, rows may come out later than their own key.
    `filter` decides which of all this comes out. `target` has the tables of which a target may hold other keys.
    """

    history: SchemaHistory
    topology: Topology
    opaque: bool = False
    reshape: ReshapeOptions = field(default_factory=ReshapeOptions)
    places: Places | None = None
    polardbx: bool = False
    modes: Modes | None = None
    holds: Holds | None = None
    filter: "OutputFilter | None" = None
    target: TargetKeys = field(default_factory=TargetKeys)

    def logical_name(self, node: str, schema: str, table: str, key: OrderKey) -> tuple[str, str] | None:
        """Return the logical name of a physical table for a transaction, None if its rows do not come out."""
        if self.polardbx and is_system_table(table):
            return None
        if self.places is not None:
            return self.places.logical_name(node, schema, table, key)
        return self.topology.logical_name(node, schema, table, key)

    def boundaries(self) -> tuple[OrderKey, ...]:
        """Return the keys after which a table may have another shape or belong to another logical table."""
        moved = () if self.places is None else self.places.boundaries()
        held = () if self.holds is None else self.holds.effects
        released = (e.place.key for e in held if e.place is not None)
        times = ((hidden.since, hidden.until) for hidden in self.topology.hidden)
        hidden = (key for pair in times for key in pair if key is not None)
        return tuple(sorted({*self.history.boundaries(), *moved, *hidden, *(effect.key for effect in held), *released}))


@dataclass(frozen=True, slots=True)
class DoubtedTable:
    """A table with transactions whose rows may be in no order that keeps its keys unique. `certain`: there is none."""

    table: tuple[str, str]
    certain: bool
    transactions: int
    first: OrderKey


def doubted_orders(found: Iterable[DoubtedTable]) -> list[str]:
    """Return warnings about distributed transactions whose rows may be in no order that keeps unique keys unique."""
    warnings = []
    in_order = sorted(found, key=lambda doubted: (doubted.table, doubted.certain, doubted.first))
    for (table, certain), group in groupby(in_order, key=lambda doubted: (doubted.table, doubted.certain)):
        parts = list(group)
        number = sum(doubted.transactions for doubted in parts)
        why = "no order keeps its keys unique" if certain else "the values of its keys do not tell the right one"
        warnings.append(
            f"rows of {'.'.join(table)} came out node by node in {number} distributed "
            f"transaction{'s' if number > 1 else ''}, the first at order key {parts[0].first.text()}: {why}"
        )
    return warnings


@dataclass(frozen=True, slots=True)
class InputFile:
    """A node's file that gather reads; `checksum`: its events have checksums."""

    known: KnownFile
    checksum: bool

    @property
    def path(self) -> str:
        """Return the file's path."""
        return self.known.path


@dataclass(frozen=True, slots=True)
class GatherTask:
    """One output file: its rows, and everything its bytes depend on.

    `runs` are (order file, from row, to row). `begins` is the published size of a file that is continued, of which only
    what follows is written; 0 for a new file, which gets a head. `path` is the beginning of the paths that attempts
    write to, each to one of its own: the result says which, since an engine may run two at once. `rank` and `sequence`
    are those of the next transaction. `next_name` is the following file, with which a ROTATE closes this one. `ddl` are
    the logical DDL by the key of their rows.
    """

    name: str
    path: str
    begins: int
    head: FileHead
    runs: tuple[tuple[str, int, int], ...]
    rank: int
    sequence: int
    last_timestamp: int
    next_name: str | None
    nodes: Mapping[int, str]
    files: Mapping[tuple[int, int], InputFile]
    schemas: Schemas
    ddl: Mapping[OrderKey, LogicalDdl]
    hints: bool = False  # statements have trace hints: see `pipeline.gather.traces`
    check_rows: bool = False  # also walk the rows of events that have a checksum
    key_doubts: bool = False  # a transaction whose rows no order keeps unique is a warning, not an error
    writesets: bool = False  # transactions depend on those whose rows they touch, not on the one before
    history: "History | None" = None  # of a continued file, if `writesets`
    away: Away | None = None  # where the file is sent, or what an open one grows by, if the driver shares no folder

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return the runs."""
        return tuple(Read(path, Span(start, stop)) for path, start, stop in self.runs)


@dataclass(frozen=True, slots=True)
class GatherResult:
    """What was written; after an error, the valid prefix. `rank` and `sequence` are those of the next transaction.

    `path` has what this attempt wrote: of a continued file what follows. `crc` is the CRC-32 of that.
    """

    name: str
    path: str
    size: int
    crc: int
    rank: int
    sequence: int
    first_key: OrderKey | None
    last_key: OrderKey | None
    last_timestamp: int
    input_bytes: int
    transactions: int
    branches: int
    events: int
    row_events: int
    reshaped: int
    ddl: int
    closed: bool
    error: dict[str, Any] | None = None
    believed: tuple[str, ...] = ()  # warnings about table maps that contradict the schema history
    doubted: tuple[DoubtedTable, ...] = ()  # tables whose rows may be in no order that keeps their keys unique
    failed: OrderKey | None = None  # the key of the transaction that failed
    keys: "KeysSeen | None" = None  # what the file does to the keys of tables that several shards make
    dependencies: "Dependencies | None" = None  # what the transactions depend on, if `writesets`
    history: "History | None" = None  # and what those to come may depend on, if the file is open
    sent: Sent | None = None  # where the file is, if it is not at `path`
    part: str | None = None  # and the name of the object that has what an open file grows by
