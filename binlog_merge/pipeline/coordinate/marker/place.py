"""Coordination by markers: a logical DDL stands where its marker transaction stands, found alike on every node."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from binlog_merge.binlog.query_session import ddl_session
from binlog_merge.errors import DdlNotUnderstoodError, MarkerDisagreement, MarkerIncomplete, MergeError
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.coordinate.marker.cluster import Cluster, Said
from binlog_merge.pipeline.coordinate.marker.markers import PUBLIC, Marker, MarkerCopy
from binlog_merge.pipeline.coordinate.statements import is_schema_ddl
from snapshot_store.ddl import ParsedDdl
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Sighting:
    """A marker branch on one node: where it stands, and what it holds."""

    key: OrderKey
    node: int
    source_id: str
    file: str
    position: int
    copy: MarkerCopy


@dataclass(frozen=True, slots=True)
class Coordinated:
    """The logical DDLs in order, how many messages none came of, and, where coordination stopped, the key before which
    all is well and why.
    """

    ddl: tuple[LogicalDdl, ...]
    swallowed: int = 0
    stopped: OrderKey | None = None
    error: MergeError | None = None


Required = Callable[[OrderKey], Sequence[tuple[int, str]]]
"""The nodes, as (number, source-id), that must show a marker at a key."""

Convert = Callable[[OrderKey, Said, MarkerCopy], LogicalDdl | None]
"""Makes a DDL marker the DDL that comes out, None for nothing. Raises DdlNotUnderstood."""


def coordinate(
    sightings: Iterable[Sighting],
    nodes: Sequence[tuple[int, str]] | Required,
    cluster: Cluster | None = None,
    convert: Convert | None = None,
) -> Coordinated:
    """Return the logical DDLs of all markers, in order; stops at the first marker that is incomplete, disagrees or says
    what cannot be.

    Give only sightings below the watermark: there every node has shown everything it has. `cluster` and `convert` are
    for PolarDB-X: the one takes every message in, the other makes MySQL's DDL of the cluster's.
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
                made = convert(key, _said(key, first.copy, cluster), first.copy)
            except MergeError as raised:
                error = raised
            except DdlNotUnderstood as raised:
                error = DdlNotUnderstoodError(f"logical DDL {first.copy.marker.sql[:300]!r}: {raised}")
        if error is not None:
            error = error.located(node=first.source_id, file=first.file, position=first.position, order_key=key)
            return Coordinated(tuple(ddl), swallowed=swallowed, stopped=key, error=error)
        if made is None:
            swallowed += 1
        else:
            ddl.append(made)
    return Coordinated(tuple(ddl), swallowed=swallowed)


def _said(key: OrderKey, copy: MarkerCopy, cluster: Cluster | None) -> Said:
    message = copy.marker
    if cluster is None:
        return Said(message) if isinstance(message, Marker) else Said()
    said = cluster.take(key, message)
    cluster.said[key] = (said, copy)
    return said


def plain(key: OrderKey, said: Said, copy: MarkerCopy, server_version: int = 90700) -> LogicalDdl | None:
    """Return a public DDL as it stands in its marker; nothing of any other message."""
    marker = said.marker
    if marker is None or marker.visibility != PUBLIC or not said.applies:
        return None
    variables = replace(copy.session, sql_mode=sql_mode_of(marker.extension.get("sqlMode"), copy))
    parsed = ParsedDdl.of(marker.sql, ddl_session(variables, server_version))
    return LogicalDdl(key, marker.schema, marker.sql, variables, is_schema_ddl(parsed), parsed=parsed)


def sql_mode_of(mode: object, copy: MarkerCopy) -> int:
    """Return a marker's sql_mode where it is a number, else that of the session that wrote it."""
    if isinstance(mode, str) and mode.isdigit():
        mode = int(mode)
    return mode if isinstance(mode, int) and not isinstance(mode, bool) else copy.session.sql_mode


def _fault(copies: Sequence[Sighting], nodes: Sequence[tuple[int, str]]) -> MergeError | None:
    first = copies[0]
    place = {"node": first.source_id, "file": first.file, "position": first.position, "order_key": first.key}
    seen = {s.node for s in copies}
    missing = [source_id for number, source_id in nodes if number not in seen]
    statement = first.copy.marker.sql[:200]
    if missing:
        return MarkerIncomplete(
            f"the marker of {statement!r} is not on node {', '.join(missing)}",
            **place,  # type: ignore[arg-type]
        )
    for other in copies[1:]:
        if other.copy.marker != first.copy.marker:
            return MarkerDisagreement(
                f"the marker is {first.copy.marker} on node {first.source_id}, "
                f"but {other.copy.marker} on node {other.source_id}",
                **place,  # type: ignore[arg-type]
            )
    return None
