"""DM's block-allow-list: do-dbs, do-tables, ignore-dbs, ignore-tables; also the older rules of TiCDC.

An entry is a name, a pattern with `*`, `?`, `[a-z]`, `[!a-z]`, or `~` and an RE2 expression. If a level has a "do"
list, its "ignore" list is not used. Source: pingcap/tidb `pkg/util/filter`, `pkg/util/table-filter/compat.go` and
`pkg/util/table-rule-selector`, which agree except for odd patterns: those that only one of them rejects (an unclosed
set, an empty one) are rejected here.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binlog_merge.errors import ConfigError
from binlog_merge.filters.patterns import NamePattern, PatternError, Regex


@dataclass(frozen=True, slots=True)
class _Entry:
    schema: NamePattern
    table: NamePattern | None
    text: str

    def matches(self, schema: str, table: str) -> bool:
        return self.schema.matches(schema) and (self.table is None or self.table.matches(table))


class BlockAllowList:
    """Decides which tables pass. Raises ConfigError for an entry that is empty or an invalid expression."""

    def __init__(
        self,
        do_dbs: Sequence[str] = (),
        do_tables: Iterable[tuple[str, str]] = (),
        ignore_dbs: Sequence[str] = (),
        ignore_tables: Iterable[tuple[str, str]] = (),
        case_sensitive: bool = False,
        name: str = "block-allow-list",
    ) -> None:
        fold = not case_sensitive

        def schemas(key: str, patterns: Sequence[str]) -> tuple[_Entry, ...]:
            return tuple(_Entry(_pattern(p, fold, f"{name}.{key}"), None, f"{key}: {p}") for p in patterns)

        def tables(key: str, pairs: Iterable[tuple[str, str]]) -> tuple[_Entry, ...]:
            place = f"{name}.{key}"
            return tuple(
                _Entry(_pattern(s, fold, place), _pattern(t, fold, place), f"{key}: {s}.{t}") for s, t in pairs
            )

        self._do_dbs = schemas("do-dbs", do_dbs)
        self._ignore_dbs = schemas("ignore-dbs", ignore_dbs)
        self._do_tables = tables("do-tables", do_tables)
        self._ignore_tables = tables("ignore-tables", ignore_tables)

    def matches(self, schema: str, table: str) -> bool:
        """Return whether a table passes, or the schema itself if `table` is ""."""
        return self.decide(schema, table)[0]

    def decide(self, schema: str, table: str) -> tuple[bool, str]:
        """Return whether a table passes, and the entry that decides ("" if none matches)."""
        if self._do_dbs:
            if not (found := _first(self._do_dbs, schema, table)):
                return False, "do-dbs: none matches"
        elif found := _first(self._ignore_dbs, schema, table):
            return False, found
        if not table:
            return True, found
        if chosen := _first(self._do_tables, schema, table):
            return True, chosen
        if self._do_tables:
            return False, "do-tables: none matches"
        if blocked := _first(self._ignore_tables, schema, table):
            return False, blocked
        return True, found


def _first(entries: Iterable[_Entry], schema: str, table: str) -> str:
    return next((entry.text for entry in entries if entry.matches(schema, table)), "")


def _pattern(text: str, fold: bool, place: str) -> NamePattern:
    if not text:
        raise ConfigError(f"{place}: pattern cannot be empty", remedy="correct the filter; nothing was run")
    try:
        return selector_pattern(text, fold) if text[0] != "~" else NamePattern(None, Regex(text[1:], fold), fold)
    except PatternError as error:
        raise ConfigError(f"{place}: {text!r}: {error}", remedy="correct the filter; nothing was run") from None


_WILD = re.compile(r"\*|\?|\[!?[^\]]*\]?")


def selector_pattern(text: str, fold: bool) -> NamePattern:
    """Return a pattern of DM's selector: `*`, `?` and sets; every other character is literal.

    Raises PatternError for an invalid set.
    """
    if not _WILD.search(text):
        return NamePattern(text, None, fold)
    pattern, end = "", 0
    for match in _WILD.finditer(text):
        pattern += re.escape(text[end : match.start()]) + _wild(match[0])
        end = match.end()
    return NamePattern(None, Regex(f"(?s)^{pattern}{re.escape(text[end:])}$", fold), fold)


def _wild(text: str) -> str:
    if text in "*?":
        return ".*" if text == "*" else "."
    if not text.endswith("]"):
        raise PatternError(f"error parsing regexp: missing closing ]: `{text}`")
    negated, members = text[1] == "!" and len(text) > 3, text[1:-1]
    members = members[1:] if negated else members
    if not members:
        raise PatternError("error parsing regexp: missing closing ]: `[]`")
    escaped = re.sub(r"([\\\[\]^&~|!])", r"\\\1", members)
    return f"[{'^' if negated else ''}{escaped}]"
