"""Table and column rules in the syntax of TiDB's table filter; the last rule that matches decides.

db*.*        all tables of schemas that begin with db
!db1.cfg*    but not these
db1.cfg_new  but this one
@rules.txt   rules from a file, one per line
# comment
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from binlog_merge.errors import ConfigError
from binlog_merge.filters.patterns import ANY_NAME, NamePattern, PatternSyntaxError, parse_pattern

SYSTEM_SCHEMAS = frozenset(
    {
        "information_schema",
        "performance_schema",
        "mysql",
        "sys",
        "metrics_schema",
        "inspection_schema",
        "dm_heartbeat",
        "tidb_cdc",
        "lightning_task_info",
        "workload_schema",
    }
)
"""Schemas of the server or of tools, which are never user data (pingcap/tidb `pkg/util/filter`)."""


def is_system_schema(schema: str) -> bool:
    """Return whether a schema's tables are never user data."""
    return schema.lower() in SYSTEM_SCHEMAS


@dataclass(frozen=True, slots=True)
class TableRule:
    """A rule: `text` as written, `place` where it is written."""

    schema: NamePattern
    table: NamePattern
    positive: bool
    text: str
    place: str

    def matches(self, schema: str, table: str) -> bool:
        """Return whether the rule matches this table."""
        return self.schema.matches(schema) and self.table.matches(table)

    def decides_schema(self, schema: str) -> bool:
        """Return whether the rule decides about a schema: a `!` rule does so only if it excludes all its tables."""
        return self.schema.matches(schema) and (self.positive or self.table.matches_all)


class TableFilter:
    """Table rules. A table that no rule matches is not chosen; without rules none is.

    `@file` rules are relative to `folder`. Raises ConfigError with the rule, its location and the reason.
    """

    def __init__(
        self, rules: Sequence[str], case_sensitive: bool = False, *, name: str = "rules", folder: Path | None = None
    ) -> None:
        fold = not case_sensitive
        parse = _Lines(lambda text, place: _table_rule(text, place, fold), folder or Path())
        self.rules: tuple[TableRule, ...] = tuple(parse.all(rules, name))
        self._deciding = lru_cache(65536)(self._find)

    def matches(self, schema: str, table: str) -> bool:
        """Return whether a table is chosen."""
        rule = self._deciding(schema, table)
        return rule is not None and rule.positive

    def matches_schema(self, schema: str) -> bool:
        """Return whether a schema is chosen, which is so if some of its tables may be."""
        rule = self.deciding_schema(schema)
        return rule is not None and rule.positive

    def deciding(self, schema: str, table: str) -> TableRule | None:
        """Return the rule that decides about a table, or None."""
        return self._deciding(schema, table)

    def deciding_schema(self, schema: str) -> TableRule | None:
        """Return the rule that decides about a schema, or None."""
        return next((rule for rule in reversed(self.rules) if rule.decides_schema(schema)), None)

    def _find(self, schema: str, table: str) -> TableRule | None:
        return next((rule for rule in reversed(self.rules) if rule.matches(schema, table)), None)


class ColumnFilter:
    """Column rules: the same syntax without a schema; column names are never case-sensitive."""

    def __init__(self, rules: Sequence[str], *, name: str = "columns", folder: Path | None = None) -> None:
        parse = _Lines(_column_rule, folder or Path())
        self.rules: tuple[TableRule, ...] = tuple(parse.all(rules, name))

    def matches(self, column: str) -> bool:
        """Return whether a column is chosen."""
        rule = next((rule for rule in reversed(self.rules) if rule.table.matches(column)), None)
        return rule is not None and rule.positive


def _table_rule(text: str, place: str, fold: bool) -> TableRule:
    positive, body = not text.startswith("!"), text.removeprefix("!")
    schema, rest = parse_pattern(body, fold, dotted=True)
    if not rest:
        raise PatternSyntaxError("wrong table pattern: it must be schema.table")
    if rest[0] != ".":
        raise PatternSyntaxError("syntax error: missing '.' between schema and table patterns")
    table, rest = parse_pattern(rest[1:], fold, dotted=True)
    if rest:
        raise PatternSyntaxError("syntax error: stray characters after table pattern")
    return TableRule(schema, table, positive, text, place)


def _column_rule(text: str, place: str) -> TableRule:
    column, rest = parse_pattern(text.removeprefix("!"), True, dotted=False)
    if rest:
        raise PatternSyntaxError("syntax error: stray characters after column pattern")
    return TableRule(ANY_NAME, column, not text.startswith("!"), text, place)


class _Lines:
    """Parses rules from a list and from the files it names; these must not name other files."""

    def __init__(self, rule: Callable[[str, str], TableRule], folder: Path) -> None:
        self.rule = rule
        self.folder = folder

    def all(self, rules: Sequence[str], name: str) -> list[TableRule]:
        found: list[TableRule] = []
        for i, text in enumerate(rules):
            line = text.strip(" \t")
            if line.startswith("@"):
                found += self._file(line[1:], f"{name}:{i + 1}")
            else:
                found += self._line(line, f"{name}:{i + 1}")
        return found

    def _file(self, name: str, place: str) -> list[TableRule]:
        path = self.folder / name
        try:
            if path.exists() and not path.is_file():  # a pipe or a device may never end
                raise _error(f"cannot open filter file: open {path}: not a regular file", place)
            lines = path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise _error(f"cannot open filter file: open {path}: {error.strerror}", place) from None
        except UnicodeDecodeError:
            raise _error(f"cannot read filter file: {path} is not UTF-8", place) from None
        except ValueError:
            raise _error(f"cannot open filter file: open {str(path)!r}: not the name of a file", place) from None
        found: list[TableRule] = []
        for i, text in enumerate(lines):
            line, where = text.strip(" \t\r"), f"{path}:{i + 1}"
            if line.startswith("@"):
                raise _error("importing filter files recursively is not allowed", where)
            found += self._line(line, where)
        return found

    def _line(self, line: str, place: str) -> list[TableRule]:
        if not line or line.startswith("#"):
            return []
        try:
            return [self.rule(line, place)]
        except PatternSyntaxError as error:
            raise _error(f"rule {line!r}: {error}", place) from None


def _error(message: str, place: str) -> ConfigError:
    return ConfigError(f"at {place}: {message}", file=place, remedy="correct the filter; nothing was run")
