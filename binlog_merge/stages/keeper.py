"""Which branches come out: those that touch a logical table."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.polardbx.places import Span
from binlog_merge.stages.assemble_values import Block, TableSet
from binlog_merge.stages.block import Column
from binlog_merge.stages.order_values import OrderTask
from binlog_merge.stages.ordered import KEY, at_least
from snapshot_store.tso import ORIGIN, OrderKey


class Keeper:
    """Decides which branches have a logical table: once per table set, where that is the same at all keys."""

    def __init__(self, task: OrderTask) -> None:
        self._topology = task.topology
        self._places = task.places
        self._ddl = np.array(sorted(task.ddl), np.int64).reshape(-1, 2)
        self._known: dict[tuple[str, str, str], bool] = {}
        self.shard_ddl = frozenset(() if task.holds is None else (place.key for place in task.holds.ddl))

    def tables(self, source_id: str, tables: TableSet, key: OrderKey) -> bool:
        """Tell whether one of the tables comes out for a transaction with this key."""
        if self._places is not None:
            return any(self._places.logical_name(source_id, *table, key) is not None for table in tables)
        return any(self._table(source_id, schema, table) for schema, table in tables)

    def _table(self, source_id: str, schema: str, table: str) -> bool:
        key = (source_id, schema, table)
        if key not in self._known:
            self._known[key] = self._topology.logical_name(source_id, schema, table) is not None
        return self._known[key]

    def rows(self, block: Block, sets: Column, keys: Sequence[Column]) -> Column:
        """Return 1 for each row, given by its set and its key's columns, that has a logical table, else 0."""
        if not len(sets):
            return np.empty(0, np.int64)
        places = self._places
        if places is None:
            always = np.array([self.tables(block.source_id, tables, ORIGIN) for tables in block.sets], np.int64)
            return always[sets]
        low, high = int(keys[0].min()), int(keys[0].max())
        always = np.zeros(len(block.sets), np.int64)
        changing: dict[int, list[Span]] = {}
        for number, tables in enumerate(block.sets):
            spans = [places.of(block.source_id, *table) for table in tables]
            always[number] = any(
                places.logical_name(block.source_id, *table, ORIGIN) is not None
                for table, known in zip(tables, spans, strict=True)
                if known is None
            ) or any(_covers(span, low, high) for known in spans for span in known or ())
            if not always[number]:
                changing[number] = [s for known in spans for s in known or () if _meets(s, low, high)]
        keep = always[sets]
        for number, found in changing.items():
            if found:
                at = np.flatnonzero(sets == number)
                part = {name: column[at] for name, column in zip(KEY, keys, strict=True)}
                for span in found:
                    inside = _above(part, span.after)
                    if span.until is not None:
                        inside &= ~_above(part, span.until)
                    keep[at[inside]] = 1
        return keep

    def markers(self, tso: Column, transaction: Column, flags: Column, keep: Column) -> Column:
        """A marker comes out where a logical DDL stands, and nowhere else; its own rows never do."""
        marked = np.flatnonzero(flags & k.MARKER)
        for i in marked.tolist():
            here = (self._ddl[:, 0] == tso[i]) & (self._ddl[:, 1] == transaction[i])
            keep[i] = int(here.any())
        return keep


def _covers(span: Span, low: int, high: int) -> bool:
    """Tell whether a span holds for every key with low <= tso <= high."""
    return span.after.commit_tso < low and (span.until is None or high < span.until.commit_tso)


def _meets(span: Span, low: int, high: int) -> bool:
    """Tell whether a span may hold for some key with low <= tso <= high."""
    return span.after.commit_tso <= high and (span.until is None or low <= span.until.commit_tso)


def _above(rows: Mapping[str, Column], key: OrderKey) -> npt.NDArray[np.bool_]:
    return at_least(rows, key._replace(node_seq=key.node_seq + 1))
