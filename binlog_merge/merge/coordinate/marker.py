"""Coordination by markers: a logical DDL stands where its marker transaction stands, found alike on every node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binlog_merge.errors import MarkerDisagreement, MarkerIncomplete, MergeError
from binlog_merge.merge.coordinate import Coordinated
from binlog_merge.merge.markers import PUBLIC, MarkerCopy
from binlog_merge.merge.render import LogicalDdl
from binlog_merge.merge.statements import is_schema_ddl
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


def coordinate(sightings: Iterable[Sighting], nodes: Sequence[tuple[int, str]]) -> Coordinated:
    """Return the logical DDLs of all markers, in order; stops at the first marker that is incomplete or disagrees.

    Give only sightings below the watermark: there every node has shown everything it has.
    """
    by_key: dict[OrderKey, list[Sighting]] = {}
    for sighting in sightings:
        by_key.setdefault(sighting.key, []).append(sighting)
    ddl: list[LogicalDdl] = []
    swallowed = 0
    for key in sorted(by_key):
        copies = sorted(by_key[key], key=lambda s: (s.node, s.file, s.position))
        error = _fault(copies, nodes)
        if error is not None:
            return Coordinated(tuple(ddl), swallowed=swallowed, stopped=key, error=error)
        if copies[0].copy.marker.visibility == PUBLIC:
            ddl.append(_logical(key, copies[0].copy))
        else:
            swallowed += 1
    return Coordinated(tuple(ddl), swallowed=swallowed)


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


def _logical(key: OrderKey, copy: MarkerCopy) -> LogicalDdl:
    marker, session = copy.marker, copy.session
    mode = marker.extension.get("sqlMode")
    if isinstance(mode, str) and mode.isdigit():
        mode = int(mode)
    return LogicalDdl(
        key,
        marker.schema,
        marker.sql,
        session.flags2,
        mode if isinstance(mode, int) and not isinstance(mode, bool) else session.sql_mode,
        session.server_collation,
        session.utf8mb4_collation,
        is_schema_ddl(marker.sql),
    )
