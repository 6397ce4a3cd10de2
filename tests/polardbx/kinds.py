"""What a simulated history has in it, read from its bytes and steps, so that a test tells that nothing is left out."""

import json
import re
from collections.abc import Iterator

from tests.merge_e2e.editing import QUERY, ROWS, XA_PREPARE, Log
from tests.polardbx.cluster import BROADCAST, SHARDED, SINGLE
from tests.polardbx.columns import Keyless
from tests.polardbx.simulate import Simulation
from tests.polardbx.splice import GCN, SEQUENCE
from tests.polardbx.steps import Ddl, Local, OnePhase, Prepare, Rotate, Write

_KIND = {SINGLE: "single", SHARDED: "sharded", BROADCAST: "broadcast"}
CHANGES = (
    "add_column", "drop_column", "modify_column", "move_column", "local_index", "global_index", "truncate",
    "create_table", "drop_table", "rename_table", "repartition", "move_group", "scale_out", "scale_in",
    "create_database", "table_group", "internal", "again", "if_not_exists", "meta_snapshot", "other_instruction",
    "flush_logs", "sync_point", "local_in_window",
)  # fmt: skip
WANTED = frozenset(
    [f"change {name}" for name in CHANGES]
    + [f"dialect {name}" for name in ("gcn", "query", "sequence", "log", "mixed", "mixed with log")]
    + [f"event {number}" for number in (2, 3, 4, 15, 16, 19, 29, 30, 31, 32, 33, 34, 35, 38, 80, 101, 102, 105)]
    + [f"gcn flag {flag}" for flag in (0, 1, 2, 4, 8, 16, 32)]
    + ["gcn behind its GTID", "sequence 1", "sequence 2", "sequence 3", "variable 200", "variable 201"]
    + [f"xid format {number}" for number in (1, 2, 3, 4)]
    + ["one read view", "several read views", "group without read view", "hashed group", "the cluster's own group"]
    + ["recovery task", "one phase", "rolled back", "in doubt", "without TSO", "two of one TSO", "archive"]
    + ["local", "local with a TSO", "primary in the transaction log", "server id", "part of a statement"]
    + [f"table {name}" for name in ("single", "sharded", "broadcast", "listed broadcast", "index", "shadow")]
    + ["table with the cluster's key", "table with the node's key", "machinery", "internal statement", "new file"]
    + [f"image {name}" for name in ("FULL", "MINIMAL", "NOBLOB")]
    + [f"visibility {number}" for number in (0, 1, 2)]
    + [f"instruction {k}" for k in ("CdcStart", "MetaSnapshot", "StorageInstChange", "CdcEnvConfigChange", "FlushLogs")]
    + ["original DDL", "server id of a DDL", "begins with MetaSnapshot", "heartbeat", "without traces", "two copies"]
    + ["names in upper case", "heartbeat that comes out"]
)  # fmt: skip


def kinds(simulation: Simulation) -> set[str]:
    """Return what there is, in the words of `WANTED`."""
    found = {f"change {name}" for name in simulation.world.did}
    names = {d.name for d in simulation.world.dialects.values()}
    found |= {f"dialect {name}" for name in names}
    if len(names) > 1:
        found.add("dialect mixed with log" if "log" in names else "dialect mixed")
    for files in simulation.files.values():
        for data in files.values():
            found |= set(_of_events(Log.load(data)))
    return found | set(_of_steps(simulation)) | set(_of_truth(simulation)) | set(_of_tables(simulation))


def _of_events(log: Log) -> Iterator[str]:
    before = 0
    for event in log.events:
        yield f"event {event.type}"
        if event.type == GCN:
            yield from (f"gcn flag {1 << bit}" for bit in range(6) if event.body[0] >> bit & 1)
            yield from ["gcn flag 0"] * (event.body[0] == 0)
            yield from ["gcn behind its GTID"] * (before in (33, 34))
        elif event.type == SEQUENCE:
            yield f"sequence {event.body[0]}"
        elif event.type == QUERY:
            end = 13 + int.from_bytes(event.body[11:13], "little")
            if end >= 22 and event.body[end - 9] in (200, 201):
                yield f"variable {event.body[end - 9]}"
        elif event.type == XA_PREPARE and event.body[0]:
            yield "one phase"
        before = event.type
        if event.type in ROWS:
            before = 0


def _of_steps(simulation: Simulation) -> Iterator[str]:
    views: dict[tuple[str, bytes, bytes], int] = {}
    for step in simulation.world.steps:
        if isinstance(step, Prepare | OnePhase):
            gtrid, (group, at, _) = step.xid.gtrid, step.xid.bqual.partition(b"@")
            yield f"xid format {step.xid.format_id}"
            yield from ["recovery task"] * gtrid.startswith(b"POLARDB-X-RECOVER-TASK")
            yield from ["the cluster's own group"] * (group == b"__CDC___SINGLE_GROUP")
            yield from ["hashed group"] * bool(re.fullmatch(rb"[0-9a-f]{10,16}", group))
            yield "one read view" if at else "group without read view"
            views[step.node, gtrid, group] = views.get((step.node, gtrid, group), 0) + 1
            yield from ["several read views"] * (views[step.node, gtrid, group] > 1)
        elif isinstance(step, Local):
            yield "local" if step.tso is None else "local with a TSO"
            logged = [w.name == "__drds_global_tx_log" for w in step.writes]
            yield from ["primary in the transaction log"] * (any(logged) and not all(logged))
        elif isinstance(step, Ddl):
            yield from ["internal statement"] * step.sql.startswith("/* rds internal mark */")
        elif isinstance(step, Rotate):
            yield "new file"
        for write in step.writes if isinstance(step, Prepare | OnePhase | Local) else ():
            yield from _of_write(write)


def _of_write(write: Write) -> Iterator[str]:
    yield from [f"image {write.image}"] * (write.kind != "insert")
    yield from ["server id"] * (write.server is not None)
    yield from ["part of a statement"] * (write.sub > 0)
    yield from ["machinery"] * (write.name in ("__drds_redo_log", "polarx_global_trx_log"))
    yield from ["table shadow"] * write.name.startswith("__test_")
    values = write.after or {}
    if write.name.startswith("__cdc_instruction__"):
        yield f"instruction {values['INSTRUCTION_TYPE']!s}"
    elif write.name.startswith("__cdc_ddl_record__"):
        yield f"visibility {values['VISIBILITY']!s}"
        yield from ["names in upper case"] * str(values["TABLE_NAME"]).isupper()
        ext = json.loads(str(values["EXT"]))
        yield from ["original DDL"] * ("originalDdl" in ext)
        yield from ["server id of a DDL"] * ("serverId" in ext)
    elif write.name.startswith("__cdc_heartbeat__"):
        yield from ["heartbeat"] * (write.kind == "update")


def _of_truth(simulation: Simulation) -> Iterator[str]:
    world = simulation.world
    yield from ["archive"] * any(t.archive for t in simulation.truth)
    yield from ["heartbeat that comes out"] * any(t.beat for t in simulation.truth)
    yield from ["without traces"] * (not world.knobs.hints)
    yield from ["rolled back"] * any(type(s).__name__ == "Rollback" for s in world.steps)
    yield from ["in doubt"] * any(b.state == "prepared" for r in world.running for b in r.branches)
    yield from ["two copies"] * any(len(schemas) > 1 for schemas in world.cdc.values())
    commits = {s.xid.gtrid for s in world.steps if type(s).__name__ == "Commit"}  # type: ignore[attr-defined]
    yield from ["without TSO"] * any(g.startswith(b"drds-") and g not in world.stamps for g in commits)
    tsos = [stamp.commit for stamp in world.stamps.values()]
    yield from ["two of one TSO"] * (len(tsos) != len(set(tsos)))
    first = next(
        w.after["INSTRUCTION_TYPE"]
        for s in world.steps
        if isinstance(s, Prepare)
        for w in s.writes
        if w.after and w.name.startswith("__cdc_instruction__")
    )
    yield from ["begins with MetaSnapshot"] * (first == "MetaSnapshot")


def _of_tables(simulation: Simulation) -> Iterator[str]:
    for table in simulation.world.tables:
        yield f"table {_KIND[table.kind]}"
        yield from ["table listed broadcast"] * (table.listed and table.kind == BROADCAST)
        yield from ["table index"] * bool(table.index)
        if isinstance(table.table, Keyless):
            yield f"table with the {'cluster' if table.table.implicit else 'node'}'s key"
