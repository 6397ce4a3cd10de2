"""Event filters: ignore events by kind or statement text, as TiCDC's event-filters and DM's binlog event filter do.

Both work on a kind of event (`insert`, `add column`, see `kinds`) and, for DDL, on the statement's text.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from binlog_merge.errors import ConfigError
from binlog_merge.filters.block_allow import selector_pattern
from binlog_merge.filters.kinds import ALTER_TABLE_KINDS, DML, IGNORE_EVENTS, canonical_kind, class_of, unknown_kind
from binlog_merge.filters.patterns import NamePattern, PatternError, Regex
from binlog_merge.filters.tables import TableFilter

Action = Literal["Do", "Ignore", "Error"]


class Decision(NamedTuple):
    """The action for an event, and the rule that decides; "" if no rule matches."""

    action: Action
    rule: str = ""

    @property
    def ignored(self) -> bool:
        """Return whether the event is ignored."""
        return self.action == "Ignore"


DO = Decision("Do")
_ACTIONS: dict[str, Action] = {"Do": "Do", "Ignore": "Ignore", "Error": "Error"}


@dataclass(frozen=True)
class EventRule:
    """A rule of TiCDC's `[[filter.event-filters]]`; expressions on rows are in `ExpressionRule`.

    `matcher` is case-sensitive, as in TiCDC; the texts of `ignore_sql` are RE2 expressions, in any case.
    """

    matcher: Sequence[str]
    ignore_event: Sequence[str] = ()
    ignore_sql: Sequence[str] = ()


class EventFilter:
    """TiCDC's event filters: an event is ignored if any rule that matches its table ignores it.

    Raises ConfigError for an unknown kind, or an invalid matcher or expression.
    """

    def __init__(self, rules: Iterable[EventRule]) -> None:
        self._rules = [_CompiledRule(rule, f"event-filters[{i}]") for i, rule in enumerate(rules)]

    def decide(self, schema: str, table: str, kind: str, query: str = "") -> Decision:
        """Return the decision about an event. For a RENAME give the old name; for a database "" as table."""
        if not kind:
            return DO
        for rule in self._rules:
            chosen = rule.tables.matches(schema, table) if table else rule.tables.matches_schema(schema)
            if chosen and (why := rule.ignores(kind, query)):
                return Decision("Ignore", why)
        return DO

    def ignores(self, schema: str, table: str, kind: str, query: str = "") -> bool:
        """Return whether an event is ignored."""
        return self.decide(schema, table, kind, query).ignored


class _CompiledRule:
    def __init__(self, rule: EventRule, name: str) -> None:
        self.name = name
        self.tables = TableFilter(rule.matcher, case_sensitive=True, name=f"{name}.matcher")
        for kind in rule.ignore_event:
            if kind not in IGNORE_EVENTS:
                raise unknown_kind(kind, IGNORE_EVENTS).located(file=f"{name}.ignore-event")
        self.kinds = [canonical_kind(kind) for kind in rule.ignore_event]
        self.sql = _any_of(rule.ignore_sql, f"{name}.ignore-sql")

    def ignores(self, kind: str, query: str) -> str:
        dml = kind in DML
        for word in self.kinds:
            if word == kind or word == ("all dml" if dml else "all ddl"):
                return f"{self.name}: ignore-event {word}"
            if word == "alter table" and kind in ALTER_TABLE_KINDS:
                return f"{self.name}: ignore-event {word}"
        if not dml and self.sql is not None and self.sql.search(query):
            return f"{self.name}: ignore-sql {self.sql.pattern}"
        return ""


def _any_of(patterns: Sequence[str], place: str) -> Regex | None:
    """Return an expression that matches any pattern; each is compiled alone first, so that an error can name it."""
    if not patterns:
        return None
    for pattern in patterns:
        try:
            Regex(pattern, ignore_case=True)
        except PatternError as error:
            raise ConfigError(
                f"{place}: {pattern!r}: {error}", file=place, remedy="correct the filter; nothing was run"
            ) from None
    return Regex("|".join(patterns), ignore_case=True)


@dataclass(frozen=True)
class BinlogEventRule:
    """A rule of DM's `filters`; without `table_pattern` it is for a schema and everything in it."""

    schema_pattern: str
    table_pattern: str = ""
    events: Sequence[str] = ()
    sql_pattern: Sequence[str] = ()
    action: str = "Do"


class BinlogEventFilter:
    """DM's binlog event filter: `Do` rules pass only their own events, `Ignore` and `Error` rules stop theirs.

    Rules for schemas come before rules for tables, in the order in which DM's selector finds them: where two patterns
    first differ, `*` before `?` before a set before a character. The first rule that stops an event decides. Raises
    ConfigError for an invalid rule (DM logs it and continues without it) or a duplicate.
    """

    def __init__(self, rules: Iterable[BinlogEventRule], case_sensitive: bool = False) -> None:
        compiled = [_BinlogRule(rule, f"filters[{i}]", case_sensitive) for i, rule in enumerate(rules)]
        seen: dict[tuple[str, str], str] = {}
        for rule in compiled:
            other = seen.setdefault(rule.patterns, rule.name)
            if other != rule.name:
                raise ConfigError(
                    f"{rule.name}: {other} has the same patterns {'.'.join(rule.patterns)}",
                    remedy="make one rule of the two; nothing was run",
                )
        self._rules = sorted(compiled, key=lambda rule: (rule.table is not None, *map(_breadth, rule.patterns)))

    def decide(self, schema: str, table: str, kind: str, query: str = "") -> Decision:
        """Return the decision about an event; without a kind only the statement's text counts."""
        group = class_of(kind)
        for rule in self._rules:
            if rule.speaks_of(schema, table) and (decision := rule.decide(kind, group, query)):
                return decision
        return DO


class _BinlogRule:
    def __init__(self, rule: BinlogEventRule, name: str, case_sensitive: bool) -> None:
        self.name = name
        fold = not case_sensitive
        if rule.action not in _ACTIONS:
            raise ConfigError(f"{name}: action {rule.action!r} must be Do, Ignore or Error")
        if not rule.schema_pattern:
            raise ConfigError(f"{name}: schema-pattern is empty")
        self.action: Action = _ACTIONS[rule.action]
        self.patterns = (
            (rule.schema_pattern.lower(), rule.table_pattern.lower())
            if fold
            else (rule.schema_pattern, rule.table_pattern)
        )
        self.schema = _selector(rule.schema_pattern, fold, f"{name}.schema-pattern")
        self.table = _selector(rule.table_pattern, fold, f"{name}.table-pattern") if rule.table_pattern else None
        self.events = [canonical_kind(event) for event in rule.events]
        self.sql = _any_of(rule.sql_pattern, f"{name}.sql-pattern")

    def speaks_of(self, schema: str, table: str) -> bool:
        return self.schema.matches(schema) and (self.table is None or self.table.matches(table))

    def decide(self, kind: str, group: str, query: str) -> Decision | None:
        if group and (stopped := self._stopped(self._listed(kind, group))):
            return Decision(stopped, f"{self.name}: events")
        if query and self.sql is not None and (stopped := self._stopped(self.sql.search(query))):
            return Decision(stopped, f"{self.name}: sql-pattern")
        return None

    def _stopped(self, matched: bool) -> Action | None:
        if self.action == "Do":
            return None if matched else "Ignore"
        return self.action if matched else None

    def _listed(self, kind: str, group: str) -> bool:
        """Return whether the list of events includes a kind: the first word that matches it decides."""
        broad = "dml" if group == "dml" else "ddl"
        for word in self.events:
            if word in ("all", f"all {broad}", kind):
                return True
            if word in ("none", f"none {broad}"):
                return False
            if word == "incompatible ddl changes" and group == "incompatible DDL":
                return True
        return False


_ELEMENT = re.compile(r"\*|\?|\[[^\]]*\]|.", re.DOTALL)


def _breadth(pattern: str) -> list[int]:
    """Return a sort key for the order in which DM's trie finds patterns (`pkg/util/table-rule-selector`)."""
    return [{"*": 1, "?": 2}.get(part, 3 if len(part) > 1 else 4) for part in _ELEMENT.findall(pattern)]


def _selector(text: str, fold: bool, place: str) -> NamePattern:
    try:
        return selector_pattern(text, fold)
    except PatternError as error:
        raise ConfigError(f"{place}: {text!r}: {error}", remedy="correct the filter; nothing was run") from None
