"""Applies the messages of a PolarDB-X cluster in order: the placement of tables, the jobs announced, and the
snapshots.

    CREATE / RENAME / repartition / move    the table's record, or the database's groups
    DROP                                    the table or database is gone
    CdcStart, MetaSnapshot                  everything there is; shapes too, for tables of which none is known

The nodes that belong to the cluster at each key: scale-out and scale-in according to the cluster's instructions.

A StorageInstChange lists all nodes from its key on. Nodes in the cluster must show every marker. Nodes that have not
joined yet, or have left, cannot hold anything back.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from binlog_merge.errors import ClusterTopology
from binlog_merge.pipeline.coordinate.marker.markers import Instruction, Marker, MarkerCopy, Message, SyncPoint
from binlog_merge.polardbx.meta import (
    DatabaseMeta,
    Extension,
    MetaError,
    MetaInfo,
    parse_meta_info,
    parse_snapshot,
    parse_storage_list,
)
from binlog_merge.polardbx.names import is_cdc_schema
from binlog_merge.polardbx.table_mapping import PlacesBuilder
from binlog_merge.polardbx.topology import PlacementError
from snapshot_store.tso import ORIGIN, OrderKey

JobKey = tuple[int, int, int]
_COMMENTS = re.compile(r"\s*(/\*.*?\*/|/!.*?\*/|--[^\n]*(\n|$)|#[^\n]*(\n|$))", re.DOTALL)
_CONDITIONAL = re.compile(r"(CREATE|DROP)\s[^(]*?\bIF\s+(NOT\s+)?EXISTS\b", re.IGNORECASE | re.DOTALL)

KEPT_JOBS = 1000  # how many are kept from run to run: a job is only repeated soon after


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """The outcome of a message: a DDL `marker` to write, with its parsed META_INFO and EXT, or nothing.

    `applies` is False for a statement that had nothing to do, such as CREATE IF NOT EXISTS of an existing table.
    """

    marker: Marker | None = None
    meta: MetaInfo = field(default_factory=MetaInfo)
    ext: Extension = field(default_factory=Extension)
    applies: bool = True
    sync_point: bool = False


@dataclass
class Cluster:
    """The state of one PolarDB-X cluster while its messages are applied.

    `jobs` are those announced already, with the key of the announcement. `places` is None if only routes map tables.
    `nodes` maps storage instances to nodes.
    """

    places: PlacesBuilder | None
    jobs: dict[JobKey, OrderKey] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    snapshots: list[tuple[OrderKey, tuple[DatabaseMeta, ...]]] = field(default_factory=list)
    outcomes: dict[OrderKey, tuple[MessageOutcome, MarkerCopy]] = field(default_factory=dict)

    def take(self, key: OrderKey, message: Message) -> MessageOutcome:
        """Apply a message and return its outcome. Raises ClusterTopology, without applying anything."""
        try:
            if isinstance(message, SyncPoint):
                return MessageOutcome(sync_point=True)
            if isinstance(message, Instruction):
                self._instruction(key, message)
                return MessageOutcome()
            return self._ddl(key, message)
        except MetaError as error:
            raise ClusterTopology(f"the marker of {message.sql[:200]!r} cannot be read: {error}") from None
        except PlacementError as error:
            raise ClusterTopology(f"the marker of {message.sql[:200]!r}: {error}") from None

    def _instruction(self, key: OrderKey, instruction: Instruction) -> None:
        if instruction.type == "StorageInstChange":
            strange = [name for name in parse_storage_list(instruction.content) if name not in self.nodes]
            if strange:
                raise PlacementError(
                    f"storage instance {', '.join(strange)} joins the cluster, but is no node of it here"
                )
        if instruction.type not in ("CdcStart", "MetaSnapshot") or self.places is None:
            return
        if not instruction.content.strip():
            return
        databases = parse_snapshot(instruction.content)
        self.places.advance(key, self.places.state.with_snapshot(databases))
        self.snapshots.append((key, tuple(d for d in databases if not is_cdc_schema(d.name))))

    def _ddl(self, key: OrderKey, marker: Marker) -> MessageOutcome:
        try:
            ext = Extension.parse(marker.ext)
        except ValueError as error:
            raise MetaError(f"EXT: {error}") from None
        meta = parse_meta_info(marker.meta_info)
        if marker.job_id is None and is_conditional(marker.sql):
            # The cluster ran no job, as the table existed already, or did not exist.
            return MessageOutcome(marker if ext.task_id is not None else None, meta, ext, applies=False)
        job = None
        if marker.job_id is not None and ext.task_id is not None:
            job = (marker.job_id, ext.task_id, ext.task_sub_seq or 0)
            if job in self.jobs:
                return MessageOutcome()
        if self.places is not None and not is_cdc_schema(marker.schema):
            _follow(self.places, key, marker, meta)
        if job is not None:
            self.jobs[job] = key
        return MessageOutcome(marker, meta, ext)

    def jobs_before(self, key: OrderKey) -> list[JobKey]:
        """Return the jobs announced below a key that are to be kept, oldest first."""
        return [job for job, when in self.jobs.items() if when < key][-KEPT_JOBS:]


def _follow(places: PlacesBuilder, key: OrderKey, marker: Marker, meta: MetaInfo) -> None:
    state, kind = places.state, marker.kind.upper()
    schema, table = marker.schema.lower(), (marker.table or "").lower()
    if kind.startswith("DROP_DATABASE"):
        state = state.without_database(schema)
    elif kind.startswith("DROP_TABLE"):
        state = state.without_table(schema, table)
    else:
        if meta.database is not None:
            state = state.with_database(meta.database)
        if meta.table is not None:
            state = state.with_table(schema, meta.table, table if "RENAME" in kind else None)
    if state is not places.state:
        places.advance(key, state)


def is_conditional(sql: str) -> bool:
    """Return whether a statement is CREATE … IF NOT EXISTS or DROP … IF EXISTS."""
    at = 0
    while (comment := _COMMENTS.match(sql, at)) is not None:
        at = comment.end()
    return _CONDITIONAL.match(sql[at:].lstrip()) is not None


def collation_of(meta: MetaInfo) -> str | None:
    """Return the table's collation, None if META_INFO does not have it."""
    return None if meta.table is None else meta.table.collation


def charset_of_database(meta: MetaInfo, databases: Mapping[str, DatabaseMeta], schema: str) -> str | None:
    """Return the database's character set, from META_INFO or else from the known databases."""
    if meta.database is not None and meta.database.charset:
        return meta.database.charset
    known = databases.get(schema.lower())
    return None if known is None else known.charset


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes at the beginning, and every change: (key, all nodes from then on). Nodes are named by source-id.

    `undecided` are nodes that a change names but whose own logs show nothing yet: they may join there, or may have been
    in the cluster from the beginning and be late. `shown` is the key of the first marker that any node shows.
    """

    first: frozenset[str]
    changes: tuple[tuple[OrderKey, frozenset[str]], ...] = ()
    undecided: frozenset[str] = frozenset()
    shown: OrderKey | None = None

    def at(self, key: OrderKey) -> frozenset[str]:
        """Return the nodes that must show a marker at `key`. At a change's own key these are the nodes that stay."""
        here = self.first
        for when, nodes in self.changes:
            if when > key:
                break
            here = here & nodes if when == key else nodes
        return here

    def before(self, key: OrderKey) -> frozenset[str]:
        """Return the nodes in the cluster after everything below `key`."""
        return next((nodes for when, nodes in reversed(self.changes) if when < key), self.first)

    def joined(self, node: str) -> OrderKey | None:
        """Return the key from which a node is in the cluster: ORIGIN if from the beginning, None if it never is."""
        if node in self.first:
            return ORIGIN
        return next((when for when, nodes in self.changes if node in nodes), None)

    def left(self, node: str) -> OrderKey | None:
        """Return the key after which a node is no longer in the cluster, None if it stays or never joined."""
        if not self.changes or node in self.changes[-1][1] or self.joined(node) is None:
            return None
        out = [when for when, nodes in self.changes if node not in nodes and when > (self.joined(node) or ORIGIN)]
        return next((when for when in out if all(node not in n for w, n in self.changes if w >= when)), None)


def members_of(
    nodes: Iterable[str],
    changes: Sequence[tuple[OrderKey, frozenset[str]]],
    known: frozenset[str] | None,
    shown: Mapping[str, OrderKey],
) -> Members:
    """Return which nodes were in the cluster at which key.

    `known` are the nodes at the beginning, if recorded. Otherwise a node was in the cluster if it shows a marker
    (`shown`: its first one) before the first change, or if no change names it.
    """
    nodes, changes = tuple(nodes), tuple(sorted(changes))
    least = min(shown.values(), default=None)
    if known is not None or not changes:
        return Members(frozenset(nodes) if known is None else known, changes, shown=least)
    when, named = changes[0]
    first = {n for n in nodes if (n in shown and shown[n] < when) or not any(n in s for _, s in changes)}
    undecided = frozenset(n for n in nodes if n not in shown and n not in first)
    return Members(frozenset(first or named), changes, undecided, least)


def bounds(members: Members, node: str, watermark: OrderKey | None) -> OrderKey | None:
    """Return the key below which nothing more comes from a node; None if it holds nothing back.

    `watermark` is the least key that its log may still bring, None before its first commit TSO.
    """
    if watermark is None and node in members.undecided:
        return ORIGIN
    joined = members.joined(node)
    if joined is None:
        return None
    left = members.left(node)
    least = max(joined, watermark or ORIGIN)
    return None if left is not None and least > left else least
