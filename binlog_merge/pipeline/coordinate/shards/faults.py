"""The errors for shards without markers that stop a merge, with their locations and remedies."""

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from binlog_merge.config.modes import Modes
from binlog_merge.errors import (
    DdlNotUnderstoodError,
    MergeError,
    ShardDdlStopped,
    ShardsInDoubt,
    UnknownTableSchema,
    UnsupportedInput,
)
from binlog_merge.moved_keys import NODES
from binlog_merge.pipeline.base.decided import ways_out
from binlog_merge.pipeline.coordinate.histories import Extended, PhysicalDdl
from binlog_merge.pipeline.coordinate.shards.log import ShardLog, coordinated
from binlog_merge.pipeline.coordinate.shards.together import Together
from binlog_merge.pipeline.coordinate.shards.values import Decided, Doubt, Fault, Finding, Joins, Name, Shard, Stop
from binlog_merge.pipeline.coordinate.statements import subject_of
from snapshot_store.mysql.sql.names import folded
from snapshot_store.tso import OrderKey

_KNOW_ALL = (
    "without markers all shards must be known, or DDL would not wait for them: give `base.physical` of the node, or "
    "its binlogs from the CREATE TABLE on"
)

_ALIKE = (
    "if it drops the table later, merge again then; else begin where the shards are alike, with `base.logical` and "
    "each node's `base.physical` taken there; or give the table that does not fit a route of its own"
)

_AS_TOLD = "set `shard-doubts: warn` and merge again: the target will then hold what is said here"


def not_taken(node: str, extended: Extended, modes: Modes, known: Iterable[Name] = ()) -> Iterator[MergeError]:
    """Yield the errors for a node's DDL on shards that are unknown or opaque; `known` are tables that it has."""
    for ddl, missing in extended.passed:
        for name in _coordinated(node, ddl, modes)[:1]:
            shard = Shard(node, *(missing or name))
            error: MergeError = UnknownTableSchema(
                f"{ddl.sql[:200]!r}: {_unknown(shard, known)}", remedy=_know(shard, ddl.key, known)
            )
            yield _located(error, node, ddl)
    for ddl in extended.opaque:
        for name in _coordinated(node, ddl, modes)[:1]:
            error = DdlNotUnderstoodError(
                f"DDL {ddl.sql[:200]!r} of a shard: what is not understood cannot be coordinated",
                remedy=f"say what it does: `binlog-merge schema set {'.'.join(name)} --sql FILE --merged DIR "
                f"--node {node} --at-tso {ddl.key.text()}`",
            )
            yield _located(error, node, ddl)


def not_understood(node: str, ddl: PhysicalDdl, reason: Exception) -> MergeError:
    """Return the error for a shard's DDL that cannot be written for the logical table."""
    return _located(DdlNotUnderstoodError(f"DDL of a shard: {reason}"), node, ddl)


def unknown_rows(
    node: str, key: OrderKey, file: str, position: int, name: Name, known: Iterable[Name] = ()
) -> MergeError:
    """Return the error for rows of an unknown shard; `known` are tables that its node has."""
    shard = Shard(node, *name)
    way = ways_out(f"{node}/{PurePath(file).name}:{position}")
    remedy = f"{_know(shard, key.previous(), known)}; or {way}"
    error = UnknownTableSchema(f"rows of {_unknown(shard, known)}", remedy=remedy)
    return error.located(node=node, file=file, position=position, order_key=key)


def stopped(log: ShardLog, name: Name, stop: Stop) -> MergeError:
    """Return the error for shards or decisions that cannot be coordinated."""
    event, table = stop.event, ".".join(name)
    if isinstance(event, Decided):
        return ShardDdlStopped(
            f"{table}: what was decided about {event.id} cannot be done: {stop.detail}",
            order_key=stop.key,
            remedy=f"take it back, `binlog-merge ddl resolve {event.id} --withdraw`, and merge again",
        )
    ran = log.ran.get((event.shard.node, event.key))  # definitions given by operators have none
    return ShardDdlStopped(
        f"{table}: {stop.detail}",
        node=event.shard.node,
        file=None if ran is None else ran.file,
        position=None if ran is None else ran.position,
        order_key=stop.key,
        remedy=_remedy(stop),
    )


def _remedy(stop: Stop) -> str | None:
    """Return the remedy if a decision about DDL does not help, else None."""
    if stop.fault is Fault.UNKNOWN_SHARD:
        return _KNOW_ALL
    if stop.fault is Fault.STRANGE_TABLE and isinstance(stop.event, Joins):
        return _ALIKE
    return None


def in_doubt(log: ShardLog, doubt: Finding, *others: Finding) -> MergeError | None:
    """Return the error for a statement that makes data differ; None if the shard only counts as having run it.

    `others` are further doubts of the same kind at the same key.
    """
    ran = log.ran.get((doubt.shard.node, doubt.key))
    if ran is None:
        return None
    if doubt.doubt is Doubt.ROWS:
        about = list(dict.fromkeys([doubt, *(d for d in others if (d.shard.node, d.key) == (ran.node, ran.key))]))
        texts = [f"{doubt.shard}: {ran.sql[:200]!r}: {doubt.detail}", *(f"{d.shard}: {d.detail}" for d in about[1:])]
        remedies = [*dict.fromkeys(d.remedy for d in about if d.remedy), _AS_TOLD]
        error: MergeError = ShardDdlStopped("; ".join(texts), remedy="; or ".join(remedies))
        return error.located(node=ran.node, file=ran.file, position=ran.position, order_key=doubt.found)
    text = f"{doubt.shard}: {ran.sql[:200]!r}: {doubt.detail} ({doubt.doubt.value}, column {doubt.column})"
    return ShardsInDoubt(text, node=ran.node, file=ran.file, position=ran.position, order_key=doubt.found)


def too_many(log: ShardLog, together: Together, limit: OrderKey) -> MergeError | None:
    """Return the error for the first event below a limit that causes more statements than order keys can
    distinguish.
    """
    for placed in together.ddl:
        if placed.place.rank >= NODES - 1 and placed.place.key < limit:
            ran = None if placed.cause is None else log.ran.get(placed.cause)
            return UnsupportedInput(
                f"a statement from which more than {NODES - 1} logical statements follow",
                node=None if ran is None else ran.node,
                file=None if ran is None else ran.file,
                position=None if ran is None else ran.position,
                order_key=placed.place.key,
            )
    return None


def _coordinated(node: str, ddl: PhysicalDdl, modes: Modes) -> list[Name]:
    tables = subject_of(ddl.parsed, ddl.schema).tables
    return [name for name in tables if coordinated(modes, node, *name) is not None]


def _unknown(shard: Shard, known: Iterable[Name] = ()) -> str:
    alike = _in_another_case(shard, known)
    but = f", but of {shard.node}/{'/'.join(alike)}, whose name differs only in case" if alike else ""
    return f"{shard}, of which neither a base schema nor a CREATE TABLE is known{but}"


def _in_another_case(shard: Shard, known: Iterable[Name]) -> Name | None:
    wanted = (folded(shard.schema), folded(shard.table))
    return min((name for name in known if (folded(name[0]), folded(name[1])) == wanted), default=None)


def _know(shard: Shard, key: OrderKey, known: Iterable[Name] = ()) -> str:
    if _in_another_case(shard, known):
        return (
            f"if lower_case_table_names of the server of {shard.node} is 1 or 2, say so: `lower-case-table-names: 1` "
            "under the node, and merge again"
        )
    return (
        f"{_KNOW_ALL}; or say what it is, `binlog-merge schema set {shard.schema}.{shard.table} --sql FILE "
        f"--merged DIR --node {shard.node} --at-tso {key.text()}`, and merge again"
    )


def _located(error: MergeError, node: str, ddl: PhysicalDdl) -> MergeError:
    return error.located(node=node, file=ddl.file, position=ddl.position, order_key=ddl.key)
