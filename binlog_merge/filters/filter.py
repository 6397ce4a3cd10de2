"""Combines all filters of a configuration, and decides about each event, in TiCDC's order.

    rows        ignored by transaction, table, kind of event or expression; any of these is enough
    statements  discarded: as if it never was (transaction, not on the allow-list, table or database not chosen)
                ignored:   not executed, but later rows have the changed columns (event filters)
                restated:  CREATE TABLE chosen LIKE one not chosen becomes a CREATE TABLE with all columns
                an error:  rows enter the chosen tables from others, or leave for where no rule applies

A CREATE TABLE that is ignored leaves a table whose rows still pass; one that is discarded leaves none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from binlog_merge.errors import ConfigError
from binlog_merge.filters.block_allow import BlockAllowList
from binlog_merge.filters.ddl import DdlEvent, split_alter
from binlog_merge.filters.events import DO, BinlogEventFilter, BinlogEventRule, Decision, EventFilter, EventRule
from binlog_merge.filters.expressions import ExpressionFilter, ExpressionRule, Op
from binlog_merge.filters.incompatible import event_type
from binlog_merge.filters.tables import ColumnFilter, TableFilter, TableRule, is_system_schema
from snapshot_store.ddl.effects import Name, Verb
from snapshot_store.model import Table

_CONTROL = "".join(map(chr, (*range(32), 127)))
"""The characters that DM strips from both ends of a statement."""
Outcome = Literal["apply", "restate", "ignore", "discard", "error"]


class DdlDecision(NamedTuple):
    """The outcome for a part of a statement, and the rule that decides; `mixed`: only some of its tables are chosen."""

    outcome: Outcome
    rule: str = ""
    mixed: bool = False


@dataclass(frozen=True)
class ColumnSelector:
    """The columns that are kept of the tables that `matcher` matches."""

    matcher: Sequence[str]
    columns: Sequence[str]


@dataclass(frozen=True)
class FilterSettings:
    """The settings of a filter file, in either product's format. With the defaults everything passes."""

    case_sensitive: bool = False
    rules: Sequence[str] = ("*.*",)
    block_allow: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ignore_start_ts: frozenset[int] = frozenset()
    ignore_commit_tso: frozenset[int] = frozenset()
    event_rules: Sequence[EventRule] = ()
    binlog_rules: Sequence[BinlogEventRule] = ()
    expression_rules: Sequence[ExpressionRule] = ()
    column_selectors: Sequence[ColumnSelector] = ()
    time_zone: str = "UTC"
    folder: Path = Path()
    name: str = "filter"


class Filter:
    """The filters of a configuration. Raises ConfigError for any error in it; not thread-safe."""

    def __init__(self, settings: FilterSettings | None = None) -> None:
        self.settings = settings or FilterSettings()
        try:
            self._make(self.settings)
        except ConfigError as error:
            raise error.located(file=self.settings.name) from None

    def _make(self, settings: FilterSettings) -> None:
        self.tables = TableFilter(
            settings.rules, settings.case_sensitive, name=f"{settings.name}: rules", folder=settings.folder
        )
        self.block_allow = BlockAllowList(
            **settings.block_allow, case_sensitive=settings.case_sensitive, name=f"{settings.name}: block-allow-list"
        )
        self.events = EventFilter(settings.event_rules)
        self.binlog_events = BinlogEventFilter(settings.binlog_rules, settings.case_sensitive)
        self.expressions = ExpressionFilter(settings.expression_rules, settings.time_zone)
        self._selectors = [
            (TableFilter(selector.matcher, name=f"column-selectors[{i}].matcher"), ColumnFilter(selector.columns))
            for i, selector in enumerate(settings.column_selectors)
        ]

    def transaction(self, start_ts: int | None = None, commit_tso: int | None = None) -> Decision:
        """Decide whether a whole transaction is ignored, including its statements."""
        if start_ts is not None and start_ts in self.settings.ignore_start_ts:
            return Decision("Ignore", f"ignore-txn-start-ts {start_ts}")
        if commit_tso is not None and commit_tso in self.settings.ignore_commit_tso:
            return Decision("Ignore", f"ignore-commit-tso {commit_tso}")
        return DO

    def schema(self, schema: str) -> Decision:
        """Decide whether a database is chosen."""
        return self._chosen(schema, "", self.tables.deciding_schema(schema))

    def table(self, schema: str, table: str) -> Decision:
        """Decide whether a table is chosen."""
        return self._chosen(schema, table, self.tables.deciding(schema, table))

    def _chosen(self, schema: str, table: str, rule: TableRule | None) -> Decision:
        if is_system_schema(schema):
            return Decision("Ignore", "a system schema")
        if rule is None or not rule.positive:
            return Decision("Ignore", "rules: none matches" if rule is None else f"{rule.place}: {rule.text}")
        allowed, why = self.block_allow.decide(schema, table)
        return Decision("Do", why or f"{rule.place}: {rule.text}") if allowed else Decision("Ignore", why)

    def rows(self, schema: str, table: str, op: Op) -> Decision:
        """Decide whether rows of an operation pass, apart from their values."""
        decision = self.table(schema, table)
        if decision.action != "Do":
            return decision
        for asked in (self.events, self.binlog_events):
            if (found := asked.decide(schema, table, op)).action != "Do":
                return found
        return decision

    def ignored_rows(self, table: Table, op: Op, before: Any = None, after: Any = None) -> Any:
        """Return which rows of a batch are ignored by their values; see `ExpressionFilter.mask`."""
        return self.expressions.mask(table, op, before, after)

    def columns(self, schema: str, table: str) -> ColumnFilter | None:
        """Return which columns of a table are kept: the first selector that matches decides; None keeps all."""
        return next((columns for tables, columns in self._selectors if tables.matches(schema, table)), None)

    def ddl(
        self,
        event: DdlEvent,
        start_ts: int | None = None,
        commit_tso: int | None = None,
        table: Table | None = None,
    ) -> DdlDecision:
        """Decide about a part of a statement.

        `table` is the table before it, if known: DM's event types for a MODIFY that narrows a column depend on it.
        """
        if (found := self.transaction(start_ts, commit_tso)).ignored:
            return DdlDecision("discard", found.rule)
        if not event.allowed:
            return DdlDecision("discard", f"{event.kind} is not on the allow-list")
        chosen = self._ddl_tables(event)
        if chosen.outcome == "discard":
            return chosen
        # A rule that leaves the statement out also answers what tables that are not chosen ask.
        name = "" if event.is_schema else event.table
        decision = self.events.decide(event.schema, name, event.kind, event.query)
        if decision.action == "Do":
            decision = self._as_dm(event, table)
        if decision.action != "Do":
            return DdlDecision("error" if decision.action == "Error" else "ignore", decision.rule)
        return chosen

    def _as_dm(self, event: DdlEvent, table: Table | None) -> Decision:
        """Apply DM's rules to every table named, and to each action of an ALTER TABLE separately.

        Source: pingcap/tiflow `dm/syncer/ddl.go` (processOneDDL, skipQueryEvent).
        """
        if not self.settings.binlog_rules:
            return DO
        query = event.query.strip(_CONTROL)
        kinds = dict.fromkeys(event_type(part, table, event.schema) for part in split_alter(event.own))
        stopped = [
            next(
                (d for name in event.tables if (d := self.binlog_events.decide(*name, kind, query)).action != "Do"), DO
            )
            for kind in kinds
        ]
        first = next((d for d in stopped if d.action == "Error"), next((d for d in stopped if d.ignored), DO))
        if first.ignored and not all(d.ignored for d in stopped):
            return Decision("Error", f"{first.rule}, which leaves out a part of the statement: its actions go together")
        return first

    def _ddl_tables(self, event: DdlEvent) -> DdlDecision:
        if event.is_schema:
            named = self.schema(event.schema)
            return DdlDecision("apply" if named.action == "Do" else "discard", named.rule)
        moved = event.together.paths[event.item] if event.effects.moves else None
        subject = moved[0] if moved is not None else (event.schema, event.table)
        named = self.table(*subject)
        if (mixed := self._mixed(event, moved)) is not None:
            return mixed
        return DdlDecision("apply" if named.action == "Do" else "discard", named.rule)

    def _mixed(self, event: DdlEvent, moved: tuple[Name, Name] | None) -> DdlDecision | None:
        """Decide about a statement on tables of which some are chosen; None if that does not apply."""
        if moved is not None:
            return self._moved(*moved)
        effects = event.effects
        for other in effects.others(Verb.EXCHANGE):
            if self._chooses((event.schema, event.table)) != self._chooses(other):
                own = (event.schema, event.table)
                pair = (other, own) if self._chooses(other) else (own, other)
                return _error(*pair, "whose rows change places with those of a partition: those that come")
        if not self._chooses((event.schema, event.table)):
            return None
        for other in effects.others(Verb.COPY_ROWS):
            if not self._chooses(other):
                return _error((event.schema, event.table), other, "of which its query takes rows: those")
        for other in effects.others(Verb.REFER):
            if self._chooses(other):
                continue
            if event.action == "ActionCreateView":
                return DdlDecision("discard", f"the view reads {_dotted(other)}, which is not chosen")
            return DdlDecision(
                "error",
                f"{_dotted((event.schema, event.table))} is chosen, but {_dotted(other)}, which its foreign key refers "
                "to, is not: the target refuses it",
                True,
            )
        for other in effects.others(Verb.COPY_SHAPE):
            if not self._chooses(other):
                return DdlDecision("restate", f"{_dotted(other)}, whose shape it takes, is not chosen")
        return None

    def _moved(self, old: Name, new: Name) -> DdlDecision | None:
        """Decide about a rename, as the net effect of all renames in its statement; None if it has no effect here."""
        if self._chooses(new) and not self._chooses(old):
            return _error(new, old, "which it was until then: its rows")
        allowed, why = self.block_allow.decide(*new)
        if self._chooses(old) and not allowed:
            # DM leaves such a statement out: the target would keep the table, which the source has no more.
            return DdlDecision(
                "error",
                f"{_dotted(old)} is chosen, but {_dotted(new)}, as it is called from there on, must not be written "
                f"({why}): the target would keep {_dotted(old)} with all its rows",
                True,
            )
        return None

    def _chooses(self, name: Name) -> bool:
        return self.table(*name).action == "Do"


def _error(chosen: Name, other: Name, what: str) -> DdlDecision:
    return DdlDecision(
        "error", f"{_dotted(chosen)} is chosen, but {_dotted(other)} is not, {what} are not at the target", True
    )


def _dotted(name: Name) -> str:
    return ".".join(name)


MIXED_REMEDY = (
    "choose both tables or none of them; or leave the statement out, by an event filter on its kind, and bring the "
    "target's rows to what the source has by hand"
)
"""The remedy for a statement on tables of which only some are chosen."""


def verify(settings: FilterSettings, tables: Iterable[Table] = ()) -> Filter:
    """Return the filter for some settings after checking all of it, with its expressions on these tables."""
    made = Filter(settings)
    made.expressions.verify(tables)
    return made
