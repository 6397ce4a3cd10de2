"""A history that is told step by step rather than made up: for cases that show one thing."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.polardbx.announce import PRIVATE, PUBLIC, untouched
from tests.polardbx.cluster import SHARDED, Group, Key, Logical, Shard, settled, snapshot, table_meta
from tests.polardbx.knobs import Knobs
from tests.polardbx.placement import copy_rows
from tests.polardbx.splice import Stamp
from tests.polardbx.steps import Commit, Local, Prepare, Rollback
from tests.polardbx.transactions import begin_with, writes
from tests.polardbx.under_way import hold, release
from tests.polardbx.world import Announced, Effect, Running, State, World
from tests.simulator.columns import Table, Value

Row = tuple[Logical, int, Mapping[str, Value] | None]  # what a row becomes; None: it goes


class Script(World):
    """Plays the compute node: every transaction has the TSO and the order of commits that it is told."""

    def __init__(self, *nodes: str) -> None:
        super().__init__(random.Random(7), Knobs(hints=True))
        self.suffix = "89vr"
        for node in nodes:
            self.join(node)

    def join(self, node: str) -> None:
        """Make a node with the cluster's own tables."""
        number = len(self.numbers) + 1
        assert node == f"dn-{number}"
        self.rng = random.Random(number)
        self.nodes.append(self.add_node())

    def server(self) -> int | None:
        return None

    # -- tables

    def group(self, schema: str, node: str, physical: str) -> Group:
        return self.new_group(schema, node, f"{physical.upper()}_GROUP", physical)

    def table(self, schema: str, name: str, table: Table, shards: Sequence[tuple[Group, str]]) -> Logical:
        """Make the physical tables of a logical one that nobody has been told of."""
        logical = Logical(schema, name, SHARDED, table, [Shard(group, physical, table) for group, physical in shards])
        for shard in logical.shards:
            self.create_shard(shard)
        self.tables.append(logical)
        return logical

    def begin_at(self, tso: int) -> None:
        """Tell of everything there is, by CdcStart."""
        for table in self.tables:
            table.versions.append(((0, 0, 0, 0), table.name, table.table))
            for shard in table.shards:
                shard.joins(table, (0, 0, 0, 0))
        self.base = [(f"{t.schema}.{t.name}", t.table) for t in self.tables]
        self.instruction(tso, "CdcStart", snapshot(self.schemas, self.tables))

    # -- transactions

    def prepare(self, *rows: Row) -> Running:
        """Write rows, one statement each, by a branch for every group, and prepare them in that order."""
        gtrid = self.gtrid()
        running = self._branches(gtrid, rows)
        for branch in running.branches:
            branch.state = "prepared"
            branch.place = self.do(Prepare(branch.node, branch.xid, tuple(w for w, _ in branch.writes)))
        return running

    def _branches(self, gtrid: bytes, rows: Sequence[Row]) -> Running:
        self.rng = random.Random(3)  # one branch for a group, whatever was drawn before
        self.serial += 1
        running = begin_with(self, list(rows))
        self.running.remove(running)
        return running

    def commit(self, running: Running, tso: int, *nodes: str) -> Key:
        """Commit on these nodes, in this order, or on all that remain."""
        running.tso = tso
        self.stamps[running.gtrid] = Stamp(tso, max(tso - 1, 0))
        for node in nodes or dict.fromkeys(b.node for b in running.branches):
            for branch in [b for b in running.branches if b.node == node and b.state == "prepared"]:
                branch.state = "ended"
                self.do(Commit(node, branch.xid))
                self.saw(node, running.key)
                self.effects += [Effect(running.key, branch.place, w, s) for w, s in branch.writes if s is not None]
        if all(b.state == "ended" for b in running.branches):
            release(running)
        return running.key

    def rollback(self, running: Running) -> None:
        for branch in running.branches:
            branch.state = "ended"
            self.do(Rollback(branch.node, branch.xid))
        for undo in reversed(running.undo):
            undo()
        release(running)

    def distributed(self, tso: int, *rows: Row, nodes: Sequence[str] = ()) -> Key:
        return self.commit(self.prepare(*rows), tso, *nodes)

    def local(self, node: str, *rows: Row) -> None:
        """Write rows by a transaction of one node alone."""
        found = writes(self, list(rows))
        assert {s.node for _, s in found} == {node}
        holder = Running(b"", [])
        hold(holder, found)
        key = self.follow(node)
        place = self.do(Local(node, tuple(w for w, _ in found)))
        self.effects += [Effect(key, place, w, s) for w, s in found]
        release(holder)

    # -- what the cluster announces

    def instruction(self, tso: int, kind: str, content: str, nodes: Sequence[str] = ()) -> Key:
        self.instruct(kind, content, lambda key: None, nodes)
        return self._announced(tso)

    def storage(self, tso: int, nodes: Sequence[str]) -> Key:
        """Tell which nodes there are from now on."""
        key = self.instruction(tso, "StorageInstChange", json.dumps({"storageInstList": list(nodes)}), self.nodes)
        self.nodes = list(nodes)
        return key

    def beat(self, tso: int) -> Key:
        self.heartbeat()
        return self._announced(tso)

    def marker(
        self, tso: int, kind: str, schema: str, table: str | None, sql: str, meta: Mapping[str, Any] | None = None,
        visibility: int = PUBLIC, apply: Callable[[dict[str, State]], None] = untouched, nodes: Sequence[str] = (),
        ext: Mapping[str, Any] | None = None,
    ) -> Key:  # fmt: skip
        """Write a marker on every node."""
        self.job += 1
        values: dict[str, Value] = {
            "ID": self.job, "JOB_ID": self.job * 1009, "SQL_KIND": kind, "SCHEMA_NAME": schema, "TABLE_NAME": table,
            "GMT_CREATED": (2026, 9, 21, 1, 2, 3, 0), "DDL_SQL": sql, "META_INFO": json.dumps(meta) if meta else None,
            "VISIBILITY": visibility, "EXT": json.dumps(ext or {"taskId": self.job}),
        }  # fmt: skip
        self.everywhere("__cdc_ddl_record__", values, nodes)
        key = self._announced(tso)
        if visibility != PRIVATE:
            self.announced.append(Announced(key, sql, visibility, apply))
        return key

    def _announced(self, tso: int) -> Key:
        running = self.running.pop()
        for branch in running.branches:
            branch.state = "prepared"
            branch.place = self.do(Prepare(branch.node, branch.xid, tuple(w for w, _ in branch.writes)))
        return self.commit(running, tso)

    # -- DDL on one physical table, and what a marker changes

    def alter(self, shard: Shard, clause: str, table: Table, row: Callable[[dict[str, Value]], None]) -> None:
        self.ddl(shard.node, shard.group.schema, f"ALTER TABLE `{shard.name}` {clause}")
        shard.table = table
        for values in shard.rows.values():
            row(values)

    def copied(self, old: Shard, new: Shard) -> None:
        """Fill a physical table that does not count yet."""
        copy_rows(self, old, new)

    def rename(self, shard: Shard, name: str) -> None:
        self.ddl(shard.node, shard.group.schema, f"RENAME TABLE `{shard.name}` TO `{name}`")
        shard.name = name

    def reshaped(self, table: Logical, key: Key, shape: Table) -> None:
        table.table = settled(shape)
        table.versions.append((key, table.name, table.table))

    def renamed(self, table: Logical, key: Key, name: str) -> None:
        table.name = name
        table.versions.append((key, name, table.table))

    def switched(self, table: Logical, key: Key, shards: list[Shard]) -> None:
        """Let other physical tables count from `key` on; the old ones go on being written."""
        for shard in table.shards:
            if shard not in shards:
                shard.leaves(key)
        for shard in shards:
            if shard not in table.shards:
                shard.joins(table, key)
        table.shards, table.mirror = shards, table.shards


def meta_of(table: Logical, shards: Sequence[Shard] | None = None, name: str | None = None) -> dict[str, Any]:
    """Return META_INFO of a table."""
    return {"logicTableMeta": table_meta(table, shards, name)}
