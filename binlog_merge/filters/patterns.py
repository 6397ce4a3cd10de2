"""Name patterns in the grammar of TiDB's table filter.

| pattern | matches |
|---|---|
| `name`, `"name"`, `` `name` `` | the name itself; in quotes any character, a quote doubled |
| `*` `?` `[a-z]` `[!a-z]` | any characters, one character, one in a set, one not in a set |
| `/regexp/` | names in which the RE2 expression is found |
| `\\x` | x itself, if x is not a letter or digit |

Source: pingcap/tidb `pkg/util/table-filter` (parser, matchers) and its documentation.

Regular expressions are those of TiCDC and DM: RE2 syntax, not anchored. RE2 has no look-around and no back references,
so matching takes time linear in the text. Arrow includes the library that Go's `regexp` is modelled on.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

_SURROGATE = re.compile("[\ud800-\udfff]")


class PatternError(ValueError):
    """A pattern that RE2 rejects; the message is the reason."""


class Regex:
    """A compiled pattern; `ignore_case` is as `(?i)` in front of it."""

    def __init__(self, pattern: str, ignore_case: bool = False) -> None:
        if _SURROGATE.search(pattern):
            raise PatternError(f"error parsing regexp: invalid UTF-8: `{_SURROGATE.sub('?', pattern)}`")
        self.pattern = pattern
        self._options = pc.MatchSubstringOptions(pattern, ignore_case=ignore_case)
        self._searched = lru_cache(4096)(self._search)
        try:
            self._search("")
        except pa.ArrowInvalid as error:
            raise PatternError(_reason(str(error))) from None

    def search(self, text: str) -> bool:
        """Return whether the pattern occurs in the text; a byte that is not UTF-8 counts as U+FFFD, as in Go."""
        return self._searched(text)

    def _search(self, text: str) -> bool:
        values = pa.array([_SURROGATE.sub("\ufffd", text)], pa.string())
        found = pc.call_function("match_substring_regex", [values], self._options)
        return bool(found[0].as_py())


def _reason(text: str) -> str:
    """Translate RE2's error message to that of Go's regexp, which users of these rules know."""
    reason = text.removeprefix("Invalid regular expression: ")
    what, _, where = reason.partition(": ")
    words = {"missing ]": "missing closing ]", "missing )": "missing closing )"}
    return f"error parsing regexp: {words.get(what, what)}: `{where}`"


class PatternSyntaxError(ValueError):
    """A pattern that does not follow the grammar."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern: a literal name or an expression; `*`, which matches every name, is neither.

    With `fold` names are compared ignoring case.
    """

    literal: str | None
    regex: Regex | None
    fold: bool

    @property
    def matches_all(self) -> bool:
        """Return whether this is `*`."""
        return self.literal is None and self.regex is None

    def matches(self, name: str) -> bool:
        """Return whether a name matches."""
        if self.literal is not None:
            return self.literal.lower() == name.lower() if self.fold else self.literal == name
        return self.regex is None or self.regex.search(name.lower() if self.fold else name)


ANY_NAME = NamePattern(None, None, False)

_REGEXP = re.compile(r"/(?:\\.|[^/])+/", re.DOTALL)
_QUOTED = {'"': re.compile(r'"(?:""|[^"])+"'), "`": re.compile(r"`(?:``|[^`])+`")}
_RANGE = re.compile(r"\[!?(?:\\[^0-9a-zA-Z]|[^\\\]])+\]")
_PLAIN = re.compile(r"[$_0-9A-Za-z\x80-\U0010ffff]")


def parse_pattern(text: str, fold: bool, dotted: bool) -> tuple[NamePattern, str]:
    """Return the pattern at the beginning of a text, and the rest of the text.

    A `dotted` pattern ends at a dot; otherwise a dot must be escaped. Raises PatternSyntaxError.
    """
    if not text:
        raise PatternSyntaxError("syntax error: missing pattern")
    if text[0] == "/":
        match = _REGEXP.match(text)
        if match is None:
            raise PatternSyntaxError("syntax error: incomplete regexp")
        return _expression(match[0][1:-1], fold), text[match.end() :]
    if quoted := _QUOTED.get(text[0]):
        match = quoted.match(text)
        if match is None:
            raise PatternSyntaxError("syntax error: incomplete quoted identifier")
        return NamePattern(match[0][1:-1].replace(text[0] * 2, text[0]), None, fold), text[match.end() :]
    return _wildcard(text, fold, dotted)


def _expression(pattern: str, fold: bool) -> NamePattern:
    try:
        return NamePattern(None, Regex(pattern, ignore_case=fold), fold)
    except PatternError as error:
        raise PatternSyntaxError(f"invalid pattern: {error}") from None


def _wildcard(text: str, fold: bool, dotted: bool) -> tuple[NamePattern, str]:
    literal, pattern, plain, place = "", "", True, 0
    while place < len(text):
        char = text[place]
        if char == "." and dotted:
            break
        if char == "\\":
            escaped = _escaped(text, place)
            literal, pattern, place = literal + escaped, pattern + re.escape(escaped), place + 2
        elif char in "*?":
            plain, pattern, place = False, pattern + (".*" if char == "*" else "."), place + 1
        elif char == "[":
            match = _RANGE.match(text, place)
            if match is None:
                raise PatternSyntaxError("syntax error: failed to parse character class")
            plain, pattern, place = False, pattern + _range(match[0]), match.end()
        elif _PLAIN.match(char):
            literal, pattern, place = literal + char, pattern + re.escape(char), place + 1
        else:
            raise PatternSyntaxError(f"unexpected special character '{char}'")
    rest = text[place:]
    if plain:
        return NamePattern(literal, None, fold), rest
    return (ANY_NAME if pattern == ".*" else _expression(f"(?s)^{pattern}$", fold)), rest


def _escaped(text: str, place: int) -> str:
    if place + 1 == len(text):
        raise PatternSyntaxError("syntax error: cannot place \\ at end of line")
    char = text[place + 1]
    if char.isascii() and char.isalnum():
        raise PatternSyntaxError(f"cannot escape a letter or number (\\{char}), it is reserved for future extension")
    return char


def _range(text: str) -> str:
    """Translate a character set to RE2's syntax: `!` negates, `^` is an ordinary character."""
    if text[1] == "!":
        return f"[^{text[2:]}"
    return f"[\\^{text[2:]}" if text[1] == "^" else text
