"""A filter in the merge: which tables, rows and statements come out.

    a table that is not chosen      none of its rows: they are passed over, as those of tables that never come out
    kinds of rows, expressions      row by row, in the logical shape, for the tables that such rules take
    statements                      whole, in part (DROP TABLE a, b), or not at all

Every transaction keeps its place and its GTID, if nothing is left of it too: it is then an empty one, as a replica that
filters writes it. So the filtered log has the GTIDs and order keys of the whole one, without gaps, however it was cut.

A statement that is left out must not change the shape of rows that come out: whoever reads them would not know it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from binlog_merge.binlog.rows import PartialJson, Row, RowsEvent, iter_rows, join_rows, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.values import rows_to_batch
from binlog_merge.errors import ConfigError, DdlNotUnderstoodError
from binlog_merge.filters.ddl import DdlEvent, ddl_events
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import Filter, FilterSettings
from binlog_merge.merge.render import LogicalDdl
from binlog_merge.merge.reshape_plan import ReshapePlan
from snapshot_store.ddl import DdlSession
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.history import SchemaHistory
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

_OPS: dict[int, Op] = {23: "insert", 30: "insert", 24: "update", 31: "update", 39: "update", 25: "delete", 32: "delete"}
LEFT_OUT = "# LEFT OUT BY FILTER"
"""What stands in the place of a statement."""


class OutputFilter:
    """The filter of one gather task. Raises ConfigError for what is wrong in it."""

    def __init__(self, settings: FilterSettings, history: SchemaHistory) -> None:
        self._filter = Filter(settings)
        self._history = history
        self._by_tso = bool(settings.ignore_commit_tso)

    def chooses(self, schema: str, table: str) -> bool:
        """Tell whether anything of a table comes out."""
        return self._filter.table(schema, table).action == "Do"

    def asks_rows(self, schema: str, table: str) -> bool:
        """Tell whether rows of a table must be looked at: by their kind, their values or their transaction."""
        ops: tuple[Op, ...] = ("insert", "update", "delete")
        return (
            self._by_tso
            or self._filter.expressions.concerns(schema, table)
            or any(self._filter.rows(schema, table, op).action != "Do" for op in ops)
        )

    def keep(self, plan: ReshapePlan, table: Table, type_code: int, body: bytes, key: OrderKey) -> bytes | None:
        """Return the body of a rows event, in the logical shape, without what the filter leaves out; None: nothing."""
        op = _OPS[type_code]
        if self._filter.transaction(commit_tso=key.commit_tso).ignored:
            return None
        decision = self._filter.rows(table.schema, table.name, op)
        if decision.action == "Error":
            raise ConfigError(f"{op} of {table.schema}.{table.name} is an error by {decision.rule}", remedy=_REMEDY)
        if decision.ignored:
            return None
        if not self._filter.expressions.concerns(table.schema, table.name):
            return body
        event = RowsEvent.parse(type_code, body)
        told = TableMap.parse(plan.out_table_map_body)
        rows = list(iter_rows(event, told))
        ignored = self._filter.ignored_rows(table, op, *self._sides(rows, told, table)).to_pylist()
        if not any(ignored):
            return body
        kept = [row for row, out in zip(rows, ignored, strict=True) if not out]
        return join_rows(event, kept, told, row_padding(event)).pack() if kept else None

    def _sides(self, rows: Sequence[Row], told: TableMap, table: Table) -> list[Any]:
        from binlog_merge.replay.changes import whole_row

        if any(isinstance(cell, PartialJson) for cell in rows[0][1] or ()):
            rows = [whole_row(row, told) for row in rows]
        names = [column.name for column in table.columns]
        charsets = [column.type.charset or "binary" for column in table.columns]
        return [
            None
            if rows[0][side] is None
            else rows_to_batch([row[side] or () for row in rows], told, names, charsets, temporal_text=True)
            for side in (0, 1)
        ]

    def statement(self, ddl: LogicalDdl) -> LogicalDdl:
        """Return a statement as it comes out; one that does not is a transaction of nothing in its place.

        Raises ConfigError where the filter makes it an error, or would leave readers with rows of unknown shape.
        """
        sql = ddl.sql or ddl.text or ""
        if not ddl.sql:
            return ddl
        try:
            events = ddl_events(sql, ddl.schema, DdlSession(sql_mode=ddl.sql_mode))
        except DdlNotUnderstood as error:
            raise DdlNotUnderstoodError(f"the filter cannot tell what a statement is about: {error.reason}") from None
        if not events:
            return ddl
        kept = [event for event in events if self._applies(event, ddl.key)]
        if len(kept) == len(events):
            return ddl
        if kept:
            text = _put_together(events, kept)
            return replace(ddl, sql=text, text=None)
        return LogicalDdl(ddl.key, "", "", 0, 0, 255, None, text=LEFT_OUT, server_id=ddl.server_id, rows_query=True)

    def _applies(self, event: DdlEvent, key: OrderKey) -> bool:
        decision = self._filter.ddl(event, commit_tso=key.commit_tso)
        if decision.outcome == "error":
            raise ConfigError(f"{event.text}: {decision.rule}", remedy=_REMEDY)
        if decision.outcome == "apply":
            return True
        for schema, table in event.tables:
            if table and self.chooses(schema, table) and self._changes_rows(schema, table, key):
                raise ConfigError(
                    f"the filter leaves out {event.text!r} ({decision.rule}), and rows of {schema}.{table}, which "
                    "come out, have another shape from there on",
                    remedy="let the statement pass, or leave the table out",
                )
        return False

    def _changes_rows(self, schema: str, table: str, key: OrderKey) -> bool:
        after = next((v for v in self._history.versions_for(schema, table) if v.key == key), None)
        if after is None or after.table is None:
            return False
        before = self._history.at(schema, table, key)
        if before is None or before.table is None:
            return True
        one, two = (tuple((c.name, c.type) for c in v.columns) for v in (before.table, after.table))
        return one != two


_REMEDY = "correct the filter, and merge again"


def _put_together(events: Sequence[DdlEvent], kept: Sequence[DdlEvent]) -> str:
    """Return a statement with some items of its list: each event's text is the statement's head and its item."""
    first = events[0]
    head = first.query[: first.head]
    return head + ", ".join(event.text[len(head) :] for event in kept)
