"""Counts the rows that a node's log changes in some tables, by reading it again."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from binlog_merge.binlog.columnar import rows_of_events
from binlog_merge.binlog.constants import ROWS_TYPES, EventType
from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.read_group import read_group
from binlog_merge.pipeline.base.runner import Runner
from binlog_merge.pipeline.base.transaction_events import transaction_events
from binlog_merge.pipeline.coordinate.read_again import groups_touching
from snapshot_store.topology import Hidden, Topology
from snapshot_store.tso import OrderKey

Name = tuple[str, str]

_TASK_BYTES = 64 << 20


def changed_rows(events: Iterable[RawEvent], tables: Collection[Name] | None = None) -> Iterator[tuple[Name, int, int]]:
    """Yield (table, event type, number of rows) for the rows events of a transaction; `tables` None: of all tables."""
    maps: dict[int, TableMap] = {}
    for event in events:
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table = TableMap.parse(event.body)
            maps[table.table_id] = table
        elif event.type_code in ROWS_TYPES:
            body = np.frombuffer(event.body, np.uint8)
            found = maps.get(int.from_bytes(event.body[:6], "little"))
            if found is None or (tables is not None and (found.schema, found.table) not in tables):
                continue
            at = np.array([[0, len(body), event.type_code]], np.int64)
            yield (found.schema, found.table), event.type_code, int(rows_of_events(body, at, found)[0])


@dataclass(frozen=True, slots=True)
class CountTask:
    """Groups of a node's files, as (file index, start, end), and the tables whose rows are counted."""

    node: NodeInput
    groups: tuple[tuple[int, int, int], ...]
    tables: frozenset[Name]


def count_rows(task: CountTask) -> Counter[Name]:
    """Return how many rows of each table the groups of a task change."""
    counts: Counter[Name] = Counter()
    for file_index, start, end in task.groups:
        checksum = task.node.files[file_index].checksum_alg == 1
        events = transaction_events(read_group(task.node, file_index, start, end), checksum)
        for name, _, rows in changed_rows(events, task.tables):
            counts[name] += rows
    return counts


def rows_hidden(
    runner: Runner,
    scanned: Sequence[ScannedNode],
    hidden: Collection[Hidden],
    floor: OrderKey,
    limit: OrderKey,
    topology: Topology,
) -> Counter[Hidden]:
    """Return how many rows with floor <= key < limit are left out because their table is hidden."""
    tasks: list[CountTask] = []
    owners: list[dict[Name, Hidden]] = []
    for node in scanned:
        for one in (one for one in hidden if one.node == node.source_id):
            called = partial(topology.named, node.source_id)
            names = {raw for raw in _tables_of(node) if called(*raw) == (one.schema, one.table)}
            found = [
                (file_index, start, end)
                for key, file_index, start, end, _ in groups_touching(node, names)
                if floor <= key < limit and one.holds(key)
            ]
            for groups in _shared(found):
                tasks.append(CountTask(node.input, groups, frozenset(names)))
                owners.append(dict.fromkeys(names, one))
    counts: Counter[Hidden] = Counter()
    if tasks:
        for found_rows, owner in zip(runner.run("count rows left out", count_rows, tasks), owners, strict=True):
            for name, rows in found_rows.items():
                counts[owner[name]] += rows
    return counts


def _tables_of(node: ScannedNode) -> set[Name]:
    """Return the tables that a node's row events name."""
    found = {name for edge in node.edges for name in edge.tables}
    for block in node.blocks:
        found |= {name for branch in block.patch.kept for name in branch.tables}
        found |= {name for names in block.sets for name in names}
    return found


def _shared(groups: Sequence[tuple[int, int, int]]) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Yield groups in portions for one task each."""
    portion: list[tuple[int, int, int]] = []
    size = 0
    for group in sorted(groups):
        portion.append(group)
        size += group[2] - group[1]
        if size >= _TASK_BYTES:
            yield tuple(portion)
            portion, size = [], 0
    if portion:
        yield tuple(portion)
