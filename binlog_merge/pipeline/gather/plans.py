"""Finds the plan for each table map: its physical shape, the logical shape in force, and how to reshape rows.

Plans are found by node and the bytes of the table map, and hold as long as no schema changes: the gather stage begins a
new *epoch* at every version of either history. Plans keep their numbers; a new epoch only forgets which plan is in
force.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.kernels.exchanges import NO_KEYS
from binlog_merge.binlog.kernels.render import plan_hash
from binlog_merge.binlog.table_map import TableMap, row_steps
from binlog_merge.errors import SchemaMismatch, UnknownTableSchema
from binlog_merge.pipeline.coordinate.histories import logical_base
from binlog_merge.pipeline.coordinate.shards.extracted import filled
from binlog_merge.pipeline.coordinate.shards.values import Shard
from binlog_merge.pipeline.gather.keyed import KeyedTable, keyed_table
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.values import Schemas
from binlog_merge.pipeline.order.waits import Moving, Renames, renamed
from binlog_merge.polardbx.row_id import with_row_id
from binlog_merge.reshape.plan_of import ReshapePlan, make_plan
from binlog_merge.reshape.witness import check_witness, remedy_of, shape_from_table_map
from binlog_merge.values.from_table_map import table_from_table_map
from snapshot_store.history import TableVersion
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.filtering import Shape
    from binlog_merge.reshape.writesets import Writesets

_Known = tuple[int, bytes, int, int, Renames]  # node, table map, physical and logical version, columns renamed


class PlanTable:
    """The plans of one gather task, as arrays for the kernel. It learns each table map that is new in the current
    epoch.

    `writesets` takes the rows that come out, if transactions depend on those whose rows they touch.
    """

    def __init__(self, schemas: Schemas, nodes: Mapping[int, str], writesets: "Writesets | None" = None) -> None:
        self._schemas, self._writesets = schemas, writesets
        self._nodes = nodes
        self._known: dict[_Known, int] = {}
        self._moving = None if schemas.holds is None else Moving(schemas.holds, schemas.history)
        self.filter = schemas.filter
        self.asked_shapes: list[Shape] = []  # whose rows the filter examines; plans refer to them by number, from 1
        self.keyed: list[KeyedTable] = []  # the keys of tables that come out; plans refer to them likewise
        self._tables: dict[tuple[str, str], int] = {}
        self._verdicts = np.zeros(1, np.uint8)
        self.believed: set[str] = set()  # warnings about table maps that contradict the history
        self.reshape: list[ReshapePlan | None] = []
        self.shards: list[Shard] = []  # the physical table of each plan
        self._index = np.zeros((256, 5), np.int64)
        self._keys = np.zeros(1 << 14, np.uint8)
        self._keys_end = 0
        self._entries: list[tuple[int, int, int, int, int]] = []
        self._plans = np.zeros((64, k.PLAN_COLUMNS), np.int64)
        self._bytes = np.zeros(1 << 14, np.uint8)
        self._bytes_end = 0
        self._shapes = np.zeros(1 << 10, np.int64)
        self._shapes_end = 0
        self._maps = np.zeros((k.MAX_MAPS, 2), np.int64)
        self._cells = np.zeros((k.MAX_COLUMNS + 2, 2), np.int64)
        self.arrays = self._arrays()

    def _arrays(self) -> k.Plans:
        return k.Plans(
            self._index, self._keys, self._plans, self._bytes, self._shapes, self._maps, self._cells, self._verdicts
        )

    def take(self, verdicts: npt.NDArray[np.uint8]) -> None:
        """Pass verdicts on the rows events of a buffer to the kernel."""
        self._verdicts = verdicts
        self.arrays = self._arrays()

    def shape_of(self, number: int) -> "Shape | None":
        """Return the shape whose rows the filter examines for a plan, None if it examines none."""
        asked = int(self._plans[number, k.ASKED])
        return self.asked_shapes[asked - 1] if asked else None

    def begin_epoch(self) -> None:
        """Forget which plan is in force for each table map, because a schema changed."""
        self._index[:] = 0
        self._entries.clear()
        self._keys_end = 0
        if self._writesets is not None:
            self._writesets.begin_epoch()

    def learn_row(self, body: bytes, rows: Rows, row: int) -> None:
        """Add the plan for a TABLE_MAP body of a row's branch to the kernel's index."""
        own = bool(rows.flags[row] & ks.FLAG_CREATE_SELECT)
        key = rows.key(row)
        moved_to = key if rows.is_moved(row) else None
        plan = self.learn(int(rows.node[row]), body, rows.own_key(row), own, moved_to)
        made = self.reshape[plan]
        if self._writesets is not None and made is not None:
            number = self._writesets.learn(TableMap.parse(made.out_table_map_body), key)
            self._plans[plan, k.WRITESET] = number + 1

    def learn(self, node: int, body: bytes, key: OrderKey, own: bool = False, moved_to: OrderKey | None = None) -> int:
        """Add the plan for a TABLE_MAP body to the kernel's index, and return its number.

        Raises UnknownTableSchema or SchemaMismatch.

        `own`: the transaction created its table itself (CREATE TABLE ... SELECT). `moved_to` is the key of the place at
        which the transaction comes out, None if that is its own key.
        """
        plan = self._plan(node, body, key, own, moved_to)
        name = np.frombuffer(body, np.uint8)[8:].copy()
        if (len(self._entries) + 1) * 2 > len(self._index):
            self._index = np.zeros((len(self._index) * 2, 5), np.int64)
            for entry in self._entries:
                self._place(entry)
        self._keys = _room(self._keys, self._keys_end + len(name))
        self._keys[self._keys_end : self._keys_end + len(name)] = name
        entry = (int(plan_hash(name, node)), self._keys_end, len(name), plan + 1, node)
        self._entries.append(entry)
        self._place(entry)
        self._keys_end += len(name)
        self.arrays = self._arrays()
        return plan

    def _place(self, entry: tuple[int, int, int, int, int]) -> None:
        slot = entry[0] & (len(self._index) - 1)
        while self._index[slot, 3]:
            slot = (slot + 1) & (len(self._index) - 1)
        self._index[slot] = entry

    def _named(self, source_id: str, table_map: TableMap) -> TableMap:
        """Return a table map with the names by which its node knows the table."""
        schema, table = self._schemas.topology.named(source_id, table_map.schema, table_map.table)
        if (schema, table) == (table_map.schema, table_map.table):
            return table_map
        return replace(table_map, schema=schema, table=table)

    def _plan(self, node: int, body: bytes, key: OrderKey, own: bool, moved_to: OrderKey | None) -> int:
        table_map = TableMap.parse(body)
        source_id = self._nodes[node]
        table_map = self._named(source_id, table_map)
        name = self._schemas.logical_name(source_id, table_map.schema, table_map.table, key)
        shard = Shard(source_id, table_map.schema, table_map.table)
        if name is not None and self._moving is not None:
            gone = self._moving.gone(shard, key, moved_to)
            name = None if gone else self._moving.name(shard, key, moved_to) or name
        if name is None or (self.filter is not None and not self.filter.chooses(*name)):
            return self._number((node, body[8:], 0, 0, ()), shard, None)
        history = self._schemas.history
        seen = key._replace(node_seq=key.node_seq + 1) if own else key
        logical = history.at(*name, key) if self._moving is None else self._moving.logical(name, seen, moved_to)
        if logical is None or (logical.table is None and not logical.opaque):
            state = "is not known" if logical is None else "has been dropped"
            raise UnknownTableSchema(
                f"rows of {table_map.schema}.{table_map.table}, "
                f"but the logical table {name[0]}.{name[1]} {state} at this point",
                remedy=remedy_of(key, None, name),
            )
        version = history.at(table_map.schema, table_map.table, seen, source_id)
        renames: Renames = ()
        if self._moving is not None:
            renames = self._moving.renames(shard, key, moved_to)
        known = (node, body[8:], 0 if version is None else version.version_id, logical.version_id, renames)
        if known in self._known:
            return self._known[known]
        physical = renamed(self._physical(table_map, version, logical, seen, source_id), renames)
        # Rows of a logical table that only table maps describe pass unchanged.
        target = physical.renamed(*name) if logical.opaque or logical.table is None else logical.table
        modes = self._schemas.modes
        extract = None if modes is None else modes.extract(source_id, table_map.schema, table_map.table)
        if extract is not None:
            target = filled(target, extract, source_id, table_map.schema, table_map.table)
        plan = make_plan(table_map, physical, target, logical.version_id, self._schemas.reshape)
        certain = logical.table is not None and not logical.opaque
        return self._number(known, shard, plan, target, row_steps(table_map), certain)

    def _physical(
        self, table_map: TableMap, version: TableVersion | None, logical: TableVersion, key: OrderKey, node: str
    ) -> Table:
        """Return the physical shape, which agrees with the table map.

        It is taken from the node's history, else from the table map's own names, else from the logical base.
        """
        opaque = version is not None and version.opaque
        if not opaque:
            try:
                return self._remembered(table_map, None if version is None else version.table, logical)
            except (SchemaMismatch, UnknownTableSchema) as error:
                if not self._schemas.opaque:
                    error.remedy = remedy_of(key, node, (table_map.schema, table_map.table))
                    raise
                self.believed.add(f"node {node}: {error.message}")
        history = self._schemas.history
        likely = [None if version is None else version.table, logical_base(history, (logical.schema, logical.name))]
        found = shape_from_table_map(table_map, [t for t in (*likely, logical.table) if t is not None], logical.opaque)
        if isinstance(found, Table):
            return found
        raise SchemaMismatch(
            f"{table_map.schema}.{table_map.table}: {found}",
            remedy=remedy_of(key, node, (table_map.schema, table_map.table), self._schemas.opaque),
        )

    def _remembered(self, table_map: TableMap, known: Table | None, logical: TableVersion) -> Table:
        table = known or table_from_table_map(table_map)
        if table is None:
            base = logical_base(self._schemas.history, (logical.schema, logical.name))
            if base is None:
                raise UnknownTableSchema(
                    f"the shape of the physical table {table_map.schema}.{table_map.table} is not known: "
                    "no base schema has it, and its table map carries no column names"
                )
            table = base.renamed(table_map.schema, table_map.table)
        if self._schemas.polardbx:
            table = with_row_id(table, table_map)
        difference = check_witness(table, table_map)
        if difference is not None:
            raise SchemaMismatch(f"{table_map.schema}.{table_map.table}: {difference}")
        return table

    def _number(
        self,
        known: _Known,
        shard: Shard,
        plan: ReshapePlan | None,
        target: Table | None = None,
        steps: Sequence[int] = (),
        certain: bool = True,
    ) -> int:
        if known in self._known:
            return self._known[known]
        number = len(self.reshape)
        self.reshape.append(plan)
        self.shards.append(shard)
        if number >= len(self._plans):
            self._plans = np.concatenate([self._plans, np.zeros_like(self._plans)])
        row = self._plans[number]
        row[k.KIND] = k.DROP
        if plan is not None:
            body = plan.out_table_map_body
            row[k.KIND] = k.IDENTITY if plan.identity else (k.SLOWLY if plan.needs_slow_path else k.RESHAPE)
            if self.filter is not None and target is not None and self.filter.asks_rows(target.schema, target.name):
                row[k.ASKED] = self._asked(target, body)
            if target is not None:
                row[k.KEYED] = self._keyed(target, body, certain)
                row[k.WATCHED] = self._numbers(_watched(plan, self.keyed[int(row[k.KEYED]) - 1]))
            row[k.TABLE_ID] = int.from_bytes(body[:6], "little")
            row[k.BODY], row[k.BODY_LENGTH] = self._store(body[8:]), len(body) - 8
            row[k.STEPS] = self._numbers(steps)
            if not plan.identity and not plan.needs_slow_path:
                self._shape(row, plan)
        self._known[known] = number
        return number

    def _asked(self, table: Table, body: bytes) -> int:
        from binlog_merge.pipeline.gather.filtering import Shape

        shape = Shape(table, TableMap.parse(body))
        for number, known in enumerate(self.asked_shapes, 1):
            if known.table == table and known.table_map.pack()[8:] == body[8:]:
                return number
        self.asked_shapes.append(shape)
        return len(self.asked_shapes)

    def _keyed(self, table: Table, body: bytes, certain: bool) -> int:
        number = self._tables.setdefault((table.schema, table.name), len(self._tables) + 1)
        keyed = keyed_table(number, table, TableMap.parse(body), certain)
        if keyed not in self.keyed:
            self.keyed.append(keyed)
        return self.keyed.index(keyed) + 1

    def _shape(self, row: npt.NDArray[np.int64], plan: ReshapePlan) -> None:
        numbers: list[int] = []
        for column_type, meta in zip(plan.column_types, plan.column_metas, strict=True):
            numbers += (column_type, meta)
        for i, (source, pad) in enumerate(zip(plan.source, plan.pads, strict=True)):
            if source >= 0:
                numbers += (source, 0, -1)
            else:
                kind = k.TELLS if i in plan.tells else k.PAD
                numbers += (kind, 0 if pad is None else self._store(pad), -1 if pad is None else len(pad))
        row[k.PHYSICAL], row[k.LOGICAL] = len(plan.column_types), len(plan.source)
        row[k.SHAPE] = self._numbers(numbers)
        row[k.PADS_LENGTH] = sum(len(p) for s, p in zip(plan.source, plan.pads, strict=True) if s < 0 and p is not None)

    def _numbers(self, numbers: Sequence[int]) -> int:
        start = self._shapes_end
        while start + len(numbers) > len(self._shapes):
            self._shapes = np.concatenate([self._shapes, np.zeros_like(self._shapes)])
        self._shapes[start : start + len(numbers)] = numbers
        self._shapes_end += len(numbers)
        return start

    def _store(self, data: bytes) -> int:
        start = self._bytes_end
        self._bytes = _room(self._bytes, start + len(data))
        self._bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self._bytes_end += len(data)
        return start


def _watched(plan: ReshapePlan, keyed: KeyedTable) -> list[int]:
    """Return what `kernels.exchanges` asks of a plan: the physical columns of which the keys of its table are made.

    A pad is the same in both images of an update. With a conversion, all columns count.
    """
    if not keyed.keys:
        return [NO_KEYS if keyed.known else 0, 0]
    wanted = {column for key in keyed.keys for column in key.columns}
    if plan.needs_slow_path:
        return [len(keyed.keys), len(plan.column_types), *range(len(plan.column_types))]
    columns = sorted({column if plan.identity else plan.source[column] for column in wanted} - {k.PAD})
    return [len(keyed.keys), len(columns), *columns]


def _room(buffer: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    if size <= len(buffer):
        return buffer
    bigger = np.zeros(max(size, 2 * len(buffer)), np.uint8)
    bigger[: len(buffer)] = buffer
    return bigger
