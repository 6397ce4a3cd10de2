"""Applies a filter in the merge: decides which tables, rows and statements come out.

    a table that is not chosen    none of its rows: they are skipped, like those of tables that never come out
    kinds of rows, expressions    on rows in the logical shape, for tables that have such rules: see `gather.judge`
    statements                    whole, in part (DROP TABLE a, b), or not at all

Every transaction keeps its position and its GTID, even if nothing of it is left: it then comes out empty, as a replica
that filters writes it. So the filtered log has the GTIDs and order keys of the whole one, without gaps, however the
input was divided. A statement that is left out must not change the shape of rows that come out, as readers would not
know the new shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, CutRows, column_facts, cut_rows, decode_held
from binlog_merge.binlog.constants import DELETE_TYPES, UPDATE_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.errors import CellValueError
from binlog_merge.binlog.query_session import ddl_session
from binlog_merge.binlog.rows import RowsEvent, iter_rows, join_rows, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ConfigError, ConversionFailed, DdlNotUnderstoodError, MergeError
from binlog_merge.filters.ddl import DdlEvent, events_of
from binlog_merge.filters.events import Decision
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import MIXED_REMEDY, Filter, FilterSettings, Outcome
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.gather.whole_json import with_whole_json
from binlog_merge.reshape.target_keys import KeysApart, TargetKeys, apart_by, table_of
from snapshot_store.ddl.parse.statement import ParsedDdl, qualified_tables
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.history import SchemaHistory
from snapshot_store.model import Table
from snapshot_store.render_sql import create_sql, in_session, without_defaults_sql
from snapshot_store.tso import OrderKey

LEFT_OUT = "# LEFT OUT BY FILTER"
"""The text written in place of a statement that is left out."""
_PARTIAL: Final = int(EventType.PARTIAL_UPDATE_ROWS_EVENT)


@dataclass(frozen=True)
class Shape:
    """A logical table whose rows the filter examines, and the table map that is written before them."""

    table: Table
    table_map: TableMap

    @cached_property
    def facts(self) -> dict[str, tuple[int, ColumnFacts]]:
        """Return the columns by name: the index of each, and what is needed to decode its values."""
        names = [column.name for column in self.table.columns]
        charsets = [column.type.charset or "binary" for column in self.table.columns]
        found = column_facts(self.table_map, names, charsets, temporal_text=True)
        return {fact.name: (i, fact) for i, fact in enumerate(found)}


class OutputFilter:
    """The filter of a merge. Raises ConfigError for an invalid filter. Pickles as its settings, for the executors."""

    KINDS: Final[dict[Op, list[int]]] = {
        "insert": sorted(map(int, WRITE_TYPES)),
        "update": sorted(map(int, UPDATE_TYPES)),
        "delete": sorted(map(int, DELETE_TYPES)),
    }
    """Types of rows events, by operation."""

    def __init__(self, settings: FilterSettings, history: SchemaHistory) -> None:
        self._filter = Filter(settings)
        self._history = history
        self._ignored_tsos = np.array([t for t in settings.ignore_commit_tso if t < 1 << 63], np.int64)
        self.asks = bool(
            settings.ignore_commit_tso or settings.event_rules or settings.binlog_rules or settings.expression_rules
        )

    def __reduce__(self) -> tuple[type["OutputFilter"], tuple[FilterSettings, SchemaHistory]]:
        return OutputFilter, (self._filter.settings, self._history)

    def chooses(self, schema: str, table: str) -> bool:
        """Return whether anything of a table comes out."""
        return self._filter.table(schema, table).action == "Do"

    def asks_rows(self, schema: str, table: str) -> bool:
        """Return whether rows of a table must be examined: for their kind, their values or their transaction."""
        return (
            bool(len(self._ignored_tsos))
            or self._filter.expressions.concerns(schema, table)
            or any(self._filter.rows(schema, table, op).action != "Do" for op in self.KINDS)
        )

    def leaves_out(self, tsos: Any) -> Any:
        """Return a mask of the commit TSOs whose transactions are left out entirely."""
        return np.isin(tsos, self._ignored_tsos)

    def of_kind(self, shape: Shape, op: Op) -> Decision:
        """Return the decision on all rows of a kind, before their values are examined."""
        return self._filter.rows(shape.table.schema, shape.table.name, op)

    def concerns(self, shape: Shape) -> bool:
        """Return whether any expression applies to a table."""
        return self._filter.expressions.concerns(shape.table.schema, shape.table.name)

    def keep(self, shape: Shape, type_code: int, body: bytes, key: OrderKey) -> bytes | None:
        """Return the body of one rows event, in the logical shape, without the rows left out; None if no row is left.

        Raises ConfigError if the filter makes the event an error, ConversionFailed for values that cannot be decoded.
        """
        op = next(op for op, kinds in self.KINDS.items() if type_code in kinds)
        if self.leaves_out(np.array([key.commit_tso])).any():
            return None
        decision = self.of_kind(shape, op)
        if decision.action == "Error":
            name = f"{shape.table.schema}.{shape.table.name}"
            raise ConfigError(f"{op} of {name} is an error by {decision.rule}", remedy=_REMEDY)
        if decision.ignored:
            return None
        if not self.concerns(shape):
            return body
        places = np.array([[0, len(body), type_code]], np.int64)
        ignored, _ = self.ignored(shape, op, np.frombuffer(body, np.uint8), places)
        if not ignored.any():
            return body
        return None if ignored.all() else self.without(shape, type_code, body, ~ignored)

    def without(self, shape: Shape, type_code: int, body: bytes, kept: Any) -> bytes:
        """Return the body of a rows event with only the rows that the mask `kept` selects."""
        event = RowsEvent.parse(type_code, body)
        rows = [row for row, stays in zip(iter_rows(event, shape.table_map), kept.tolist(), strict=True) if stays]
        return join_rows(event, rows, shape.table_map, row_padding(event)).pack()

    def ignored(self, shape: Shape, op: Op, source: Any, places: Any) -> tuple[Any, CutRows]:
        """Return a mask of the rows that are left out for their values, and the rows as they were cut.

        `places` are (begin, end, type) of the events' bodies in `source`, in the logical shape. Only columns that
        expressions need are decoded. Raises BinlogFormatError for malformed events, otherwise as `keep` does.
        """
        needed = self._filter.expressions.columns(shape.table, op, shape.facts)
        if (places[:, 2] == _PARTIAL).any():
            wanted = frozenset(shape.facts[name][0] for name in needed[1])
            source, places = with_whole_json(shape.table_map, source, places, wanted)
        rows = cut_rows(source, places, shape.table_map)
        before = None if op == "insert" else _side(shape, rows, BEFORE, needed[0])
        after = None if op == "delete" else _side(shape, rows, AFTER, needed[1])
        mask = self._filter.ignored_rows(shape.table, op, before, after)
        return mask.to_numpy(zero_copy_only=False), rows

    def statement(self, ddl: LogicalDdl) -> LogicalDdl:
        """Return a statement as it comes out. One that is left out entirely becomes an empty transaction at the same
        key.

        Raises ConfigError if the filter makes it an error, or if readers would get rows of unknown shape without it.
        """
        parts = self._parts(ddl)
        if not parts:
            return ddl
        sql, session = ddl.sql, ddl_session(ddl.session)
        if parts[0][1] == "restate":
            schema, table = parts[0][0].tables[0]
            made = next((v.table for v in self._history.versions_for(schema, table) if v.key == ddl.key), None)
            if made is None:  # IF NOT EXISTS, of a table that exists
                return self._nothing(ddl)
            if without_defaults_sql(made):
                raise ConfigError(
                    f"{sql!r}: from a table that the filter leaves out it takes columns that have no DEFAULT, not even "
                    "NULL, and one CREATE TABLE cannot say that",
                    remedy="let the filter take in the table that it is like, or leave the new one out; merge again",
                )
            says = {name for name, _ in qualified_tables(sql, session)}
            return ddl.saying(in_session(create_sql(made, qualified=schema in says), session))
        kept = [event for event, outcome in parts if outcome == "apply"]
        if kept and ddl.schema and not ddl.suppress_use and self._filter.schema(ddl.schema).action != "Do":
            ddl = replace(ddl, schema=kept[0].schema)  # whoever runs it may not have the session's database
        if len(kept) == len(parts):
            return ddl
        if kept:
            return ddl.saying(_put_together([event for event, _ in parts], kept))
        return self._nothing(ddl)

    def apart(self, ddl: LogicalDdl, known: TargetKeys) -> list[KeysApart]:
        """Return of which tables a target may hold other keys than the history behind a statement; none behind one at
        which the merge stops. `known` is what was known before it.
        """
        try:
            parts = self._parts(ddl)
        except MergeError:
            return []
        made = {(v.schema, v.name): v for v in self._history.versions if v.node is None and v.key == ddl.key}
        found: list[KeysApart] = []
        for event, outcome in parts:
            names = (
                [n for n in made if n[0] == event.schema] if event.is_schema else [n for n in event.tables if n in made]
            )
            why = "" if outcome in ("apply", "restate") else f"the filter leaves out {event.text!r}"
            if event.effects.moves and not why:
                old, new = event.together.paths[event.item]
                found += [KeysApart(ddl.key, *new, known.why(*old, ddl.key)), KeysApart(ddl.key, *old, "")]
            for name in names:
                before, after = table_of(self._history.at(*name, ddl.key)), table_of(made[name])
                if why:
                    found += apart_by(ddl.key, name, before, after, why)
                elif after is None and not event.effects.moves:
                    found.append(KeysApart(ddl.key, *name, ""))
        return [one for one in found if one.why or known.why(one.schema, one.table, ddl.key)]

    def _parts(self, ddl: LogicalDdl) -> list[tuple[DdlEvent, Outcome]]:
        """Return the parts of a statement with what becomes of each; none of one that changes no table."""
        if not ddl.sql:
            return []
        try:
            events = events_of(ParsedDdl.of(ddl.sql, ddl_session(ddl.session)), ddl.schema)
        except DdlNotUnderstood as error:
            raise DdlNotUnderstoodError(f"the filter cannot tell what a statement is about: {error.reason}") from None
        return [(event, self._decided(event, ddl.key)) for event in events]

    def _nothing(self, ddl: LogicalDdl) -> LogicalDdl:
        """Return the empty transaction that replaces a statement that does not come out."""
        return LogicalDdl(ddl.key, "", "", text=LEFT_OUT, server_id=ddl.server_id, rows_query=True)

    def _decided(self, event: DdlEvent, key: OrderKey) -> Outcome:
        before = self._history.at(event.schema, event.table, key)
        known = None if before is None else before.table
        decision = self._filter.ddl(event, commit_tso=key.commit_tso, table=known)
        if decision.outcome == "error":
            raise ConfigError(f"{event.text}: {decision.rule}", remedy=MIXED_REMEDY if decision.mixed else _REMEDY)
        if decision.outcome in ("apply", "restate"):
            return decision.outcome
        for schema, table in event.tables:
            if table and self.chooses(schema, table) and self._changes_rows(schema, table, key):
                raise ConfigError(
                    f"the filter leaves out {event.text!r} ({decision.rule}), and rows of {schema}.{table}, which "
                    "come out, have another shape from there on",
                    remedy="let the statement pass, or leave the table out",
                )
        return decision.outcome

    def _changes_rows(self, schema: str, table: str, key: OrderKey) -> bool:
        after = next((v for v in self._history.versions_for(schema, table) if v.key == key), None)
        if after is None or after.table is None:
            return False
        before = self._history.at(schema, table, key)
        if before is None or before.table is None:
            return True
        old, new = (tuple((c.name, c.type) for c in v.columns) for v in (before.table, after.table))
        return old != new


_REMEDY = "correct the filter, and merge again"


def _side(shape: Shape, rows: CutRows, side: int, needed: frozenset[str]) -> Any:
    """Return the needed columns of one side (before or after) of some rows; columns that no row holds are missing."""
    try:
        return decode_held(rows, side, [facts for _, facts in shape.facts.values()], needed)
    except CellValueError as error:
        raise ConversionFailed(f"{shape.table.schema}.{shape.table.name}: {error}, for the filter") from None


def _put_together(events: Sequence[DdlEvent], kept: Sequence[DdlEvent]) -> str:
    """Return a statement with only some items of its list. Each event's text is the statement's head and its
    own item.
    """
    first = events[0]
    head = first.query[: first.head]
    return head + ", ".join(event.text[len(head) :] for event in kept)
