"""Coordination by markers: a logical DDL gets the order key of its marker, which every node must show alike."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from binlog_merge.binlog.query_session import ddl_session
from binlog_merge.errors import DdlNotUnderstoodError, MarkerDisagreement, MarkerIncomplete, MergeError
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.coordinate.marker.cluster import Cluster, MessageOutcome
from binlog_merge.pipeline.coordinate.marker.markers import PUBLIC, Marker, MarkerCopy
from binlog_merge.pipeline.coordinate.statements import is_schema_ddl
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.parse.statement import with_folded_names
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.names import folded
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Sighting:
    """A marker branch on one node: its order key, position and content."""

    key: OrderKey
    node: int
    source_id: str
    file: str
    position: int
    copy: MarkerCopy


@dataclass(frozen=True, slots=True)
class CoordinatedMarkers:
    """The logical DDLs in order, and the number of messages without one.

    If coordination stopped, `stopped` is the key below which everything is understood, and `error` the reason.
    """

    ddl: tuple[LogicalDdl, ...]
    swallowed: int = 0
    stopped: OrderKey | None = None
    error: MergeError | None = None


Required = Callable[[OrderKey], Sequence[tuple[int, str]]]
"""The nodes, as (number, source-id), that must show a marker at a key."""

Convert = Callable[[OrderKey, MessageOutcome, MarkerCopy], LogicalDdl | None]
"""Converts a DDL marker to the DDL that comes out, None if none does. Raises DdlNotUnderstood."""


def coordinate(
    sightings: Iterable[Sighting],
    nodes: Sequence[tuple[int, str]] | Required,
    cluster: Cluster | None = None,
    convert: Convert | None = None,
) -> CoordinatedMarkers:
    """Return the logical DDLs of all markers, in order; stops at the first marker that is incomplete, differs or is
    invalid.

    Pass only sightings below the watermark, where every node has shown everything. `cluster` and `convert` are for
    PolarDB-X: `cluster` applies every message, `convert` turns the cluster's DDL into MySQL's.
    """
    required: Required = nodes if callable(nodes) else lambda key: nodes
    convert = convert or plain
    by_key: dict[OrderKey, list[Sighting]] = {}
    for sighting in sightings:
        by_key.setdefault(sighting.key, []).append(sighting)
    ddl: list[LogicalDdl] = []
    swallowed = 0
    for key in sorted(by_key):
        copies = sorted(by_key[key], key=lambda s: (s.node, s.file, s.position))
        first = copies[0]
        error = _fault(copies, required(key))
        made = None
        if error is None:
            try:
                made = convert(key, _outcome(key, first.copy, cluster), first.copy)
            except MergeError as raised:
                error = raised
            except DdlNotUnderstood as raised:
                error = DdlNotUnderstoodError(f"logical DDL {first.copy.marker.sql[:300]!r}: {raised}")
        if error is not None:
            error = error.located(node=first.source_id, file=first.file, position=first.position, order_key=key)
            return CoordinatedMarkers(tuple(ddl), swallowed=swallowed, stopped=key, error=error)
        if made is None:
            swallowed += 1
        else:
            ddl.append(made)
    return CoordinatedMarkers(tuple(ddl), swallowed=swallowed)


def _outcome(key: OrderKey, copy: MarkerCopy, cluster: Cluster | None) -> MessageOutcome:
    message = copy.marker
    if cluster is None:
        return MessageOutcome(message) if isinstance(message, Marker) else MessageOutcome()
    outcome = cluster.take(key, message)
    cluster.outcomes[key] = (outcome, copy)
    return outcome


def plain(key: OrderKey, outcome: MessageOutcome, copy: MarkerCopy, server_version: int = 90700) -> LogicalDdl | None:
    """Return a public DDL as its marker has it; None for any other message."""
    marker = outcome.marker
    if marker is None or marker.visibility != PUBLIC or not outcome.applies:
        return None
    variables = replace(copy.session, sql_mode=sql_mode_of(marker.extension.get("sqlMode"), copy))
    parsed = ParsedDdl.of(marker.sql, ddl_session(variables, server_version))
    return LogicalDdl(key, marker.schema, marker.sql, variables, is_schema_ddl(parsed), parsed=parsed)


def in_lower_case(convert: Convert) -> Convert:
    """Return a conversion whose DDL names tables and databases in lower case, as all nodes do."""

    def folding(key: OrderKey, outcome: MessageOutcome, copy: MarkerCopy) -> LogicalDdl | None:
        made = convert(key, outcome, copy)
        if made is None or not made.sql or made.parsed is None:
            return made
        parsed = with_folded_names(made.parsed)
        return replace(made, schema=folded(made.schema), sql=parsed.sql, parsed=parsed)

    return folding


def sql_mode_of(mode: object, copy: MarkerCopy) -> int:
    """Return a marker's sql_mode if it is a number, else that of the session that wrote the marker."""
    if isinstance(mode, str) and mode.isdigit():
        mode = int(mode)
    return mode if isinstance(mode, int) and not isinstance(mode, bool) else copy.session.sql_mode


def _fault(copies: Sequence[Sighting], nodes: Sequence[tuple[int, str]]) -> MergeError | None:
    first = copies[0]
    location = {"node": first.source_id, "file": first.file, "position": first.position, "order_key": first.key}
    seen = {s.node for s in copies}
    missing = [source_id for number, source_id in nodes if number not in seen]
    statement = first.copy.marker.sql[:200]
    if missing:
        return MarkerIncomplete(
            f"the marker of {statement!r} is not on node {', '.join(missing)}",
            **location,  # type: ignore[arg-type]
        )
    for other in copies[1:]:
        if other.copy.marker != first.copy.marker:
            return MarkerDisagreement(
                f"the marker is {first.copy.marker} on node {first.source_id}, "
                f"but {other.copy.marker} on node {other.source_id}",
                **location,  # type: ignore[arg-type]
            )
    return None
