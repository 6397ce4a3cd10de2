"""Skew: physical tables that differ from their logical table, and how a merge changes their rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from snapshot_store.ask.alter import alter_sql
from snapshot_store.ask.questions import check_beginning
from snapshot_store.diff import ColumnMap, TableChange, column_map, diff_tables, equivalent
from snapshot_store.errors import UnknownTable
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Column, Table
from snapshot_store.names import Moment, NamePattern
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey


@dataclass(frozen=True, slots=True)
class Skew:
    """A physical table that differs from its logical table at a moment, and how its rows are reshaped.

    `logical` and `columns` are None if the logical table does not exist then.
    """

    physical: TableVersion
    logical_name: tuple[str, str]
    logical: TableVersion | None
    columns: ColumnMap | None
    changes: tuple[TableChange, ...]
    statements: tuple[str, ...]

    @property
    def reshaped(self) -> bool:
        """Return whether the bytes of rows change; if not, only keys, defaults or the like differ."""
        return self.columns is None or not self.columns.identity

    @property
    def trimmed(self) -> tuple[Column, ...]:
        """Return the physical columns that the logical table lacks: their cells are removed."""
        table = self.physical.table
        return () if table is None or self.columns is None else tuple(table.columns[i] for i in self.columns.trimmed)

    @property
    def padded(self) -> tuple[Column, ...]:
        """Return the logical columns that the physical table lacks: their cells are made from their defaults."""
        if self.columns is None or self.logical is None or self.logical.table is None:
            return ()
        columns = self.logical.table.columns
        return tuple(columns[e.logical_index] for e in self.columns.entries if e.physical_index is None)

    @property
    def converted(self) -> tuple[tuple[Column, Column], ...]:
        """Return (physical, logical) columns of different types: their cells are converted."""
        a, b = self.physical.table, None if self.logical is None else self.logical.table
        if a is None or b is None or self.columns is None:
            return ()
        return tuple(
            (a.columns[e.physical_index], b.columns[e.logical_index])
            for e in self.columns.entries
            if e.physical_index is not None and not e.same_type
        )

    @property
    def reordered(self) -> bool:
        """Return whether the columns that both tables have are in another order."""
        indexes = (
            [e.physical_index for e in self.columns.entries if e.physical_index is not None] if self.columns else []
        )
        return indexes != sorted(indexes)


@dataclass(frozen=True, slots=True)
class SkewAt:
    """The result of `skew`: how many physical tables were compared, and those that differ."""

    moment: Moment
    compared: int
    skews: tuple[Skew, ...]


def skew(
    history: SchemaHistory,
    topology: Topology,
    moment: Moment,
    patterns: Sequence[NamePattern] = (),
    beginning: OrderKey = ORIGIN,
) -> SkewAt:
    """Return the physical tables that differ from their logical table at a moment.

    With `patterns`, only those of matching logical tables. `Store.history_at(moment.key)` is enough history.
    """
    check_beginning(moment, beginning)
    compared, skews = 0, []
    for node in history.nodes():
        for schema, name in history.tables(moment.key, node):
            logical_name = topology.logical_name(node, schema, name, moment.key)
            if logical_name is None or (patterns and not any(p.matches(*logical_name) for p in patterns)):
                continue
            compared += 1
            physical = history.at(schema, name, moment.key, node)
            found = None if physical is None else compare(physical, logical_name, history.at(*logical_name, moment.key))
            if found is not None:
                skews.append(found)
    if patterns and not compared:
        raise UnknownTable(
            f"no physical table makes {' or '.join(map(str, patterns))} at {moment.text}: "
            "check the name and the routes (--config)"
        )
    return SkewAt(moment, compared, tuple(skews))


def compare(physical: TableVersion, logical_name: tuple[str, str], logical: TableVersion | None) -> Skew | None:
    """Return how a physical table differs from its logical table, or None if it does not."""
    table = physical.table
    if table is None:
        return None
    target = None if logical is None or logical.table is None else logical.table
    if target is None:
        return Skew(physical, logical_name, None, None, (), ())
    wanted = target.renamed(table.schema, table.name)
    columns = column_map(table, target)
    if columns.identity and equivalent(table, wanted):
        return None
    return Skew(physical, logical_name, logical, columns, diff_tables(table, wanted), alter_sql(table, wanted))


def rows_pass(physical: Table, logical: Table) -> bool:
    """Return whether row images of the physical table need no change for the logical one."""
    return column_map(physical, logical).identity
