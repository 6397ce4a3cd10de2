"""Regular expressions as in TiCDC and DM: RE2 syntax, not anchored.

RE2 has no look-around and no back references, so matching takes time linear in the text. Arrow includes the library
that Go's `regexp` is modelled on.
"""

import re
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
