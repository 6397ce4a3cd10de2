"""How strings compare under MySQL's collations, as SQL of the engine that evaluates expressions.

| collation | strings are equal when these are |
|---|---|
| `binary` | the bytes |
| `*_0900_bin`, `*_bin` | the code points; other than 0900_bin, without trailing spaces |
| `*_0900_ai_ci`, `_as_ci`, `_as_cs` | the sort keys of the Unicode collation algorithm, to one, two, three levels |
| `*_unicode_ci`, `*_unicode_520_ci` | the same to one level, without trailing spaces |
| `*_general_ci` of Unicode, `latin1_swedish_ci` | the characters' weights (`charsets.folding`), likewise |

The sort keys are ICU's. It takes some sequences as one character (Thai vowels and their consonants, letters and their
marks); a server never does, so they are parted first. Where the characters themselves differ from a server's
(`icu_differences`), one is given as another one, or as several. A few thousand that sort elsewhere, most of them
symbols and rare ideographs, are refused when a row has one and less or greater is asked. A collation that is not listed
is refused: a filter that guesses would lose rows.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pkgutil import get_data
from typing import Final

from binlog_merge.values.duckdb.piece import stop
from snapshot_store.mysql.sql.names import quote_plainly
from snapshot_store.mysql.text.charsets import folding
from snapshot_store.mysql.text.codecs import decode_text

_UNICODE = ("utf8mb4", "utf8mb3", "utf8", "ucs2", "utf16", "utf16le", "utf32")
_ASCII_FOLDED = frozenset(
    {
        "gbk_chinese_ci",
        "gb2312_chinese_ci",
        "big5_chinese_ci",
        "ascii_general_ci",
        "sjis_japanese_ci",
        "euckr_korean_ci",
    }
)


_PADDING: Final = 64
"""More spaces than are found in a row within texts."""
_LATIN1_CONTROLS: Final = "".join(map(chr, range(0x80, 0xA0)))
_LATIN1_ELSEWHERE: Final = decode_text("latin1", bytes(range(0x80, 0xA0)))
"""What a server's latin1 has in the place of control characters, by which they sort: the euro sign, œ, quotes."""


class UnknownCollation(ValueError):  # noqa: N818 (what was found, as in binlog_merge.errors)
    """A collation whose rules are not known here."""


def sort_key(sql: str, collation: str, ordered: bool, padded: bool = True) -> str:
    """Return SQL of a value that compares as the string does; `ordered` where less and greater matter too.

    Unless `padded`, spaces at the end matter under all collations, as they do to FIND_IN_SET().
    """
    charset, _, rules = collation.partition("_")
    if collation == "binary":
        return sql
    if ordered and charset not in (*_UNICODE, "latin1", "ascii"):
        raise UnknownCollation(
            f"the order of {collation} is not known; only = and <> can be told, "
            f"or order as CONVERT(… USING utf8mb4) COLLATE utf8mb4_bin"
        )
    if collation == "utf8mb4_0900_bin":
        return sql
    # The shorter string goes on with spaces, before which tabs and line feeds sort.
    spaces = f"(rtrim({sql}, ' ') || '{' ' * _PADDING}')" if ordered else f"rtrim({sql}, ' ')"
    whole = spaces if padded else sql
    if ordered and charset == "latin1":
        whole = f"translate({whole}, '{_LATIN1_ELSEWHERE}', '{_LATIN1_CONTROLS}')"
    if rules == "bin":
        return whole
    if rules in ("0900_ai_ci", "0900_as_ci", "0900_as_cs"):
        return _levels(sql, rules, ordered)
    if rules in ("unicode_ci", "unicode_520_ci") and charset in _UNICODE:
        if ordered:
            raise UnknownCollation(f"the order of {collation} is not known; order with COLLATE utf8mb4_0900_ai_ci")
        return _levels(_without_blanks(sql, rules) if padded else sql, rules, False)
    return _characters(whole, collation)


def place_in(sought: str, there: str, collation: str) -> str:
    """Return SQL of the place where a text is in another, counted from 1; 0 if it is not there.

    A server finds it at the first character from which on the weights begin with those of what is looked for, so that
    s is found in ß, and a in ä. The engine stops at characters of which more than these weights may decide.
    """
    charset, _, rules = collation.partition("_")
    if collation == "binary" or rules in ("bin", "0900_bin"):
        return f"instr({there}, {sought})"
    if charset not in _UNICODE or rules == "general_ci":
        return f"instr({_characters(there, collation)}, {_characters(sought, collation)})"
    if rules not in _LEVELS:
        raise UnknownCollation(f"what is found under {collation} is not known; add COLLATE utf8mb4_bin")
    cased = ("p['t']", "p['s']") if rules == "0900_as_cs" else (_ascii_folded("p['t']"), _ascii_folded("p['s']"))
    message = f"what is found in a text is not known under {rules} for this one; add COLLATE utf8mb4_bin to it: "
    refused = stop(message, "BIGINT", "p['t']", "p['s']")
    by_weight = _by_weight(rules) if _LEVELS[rules] == 1 else "FALSE THEN NULL"
    body = (
        "CASE WHEN p['t'] IS NULL OR p['s'] IS NULL THEN NULL WHEN p['s'] = '' THEN 1 "
        f"WHEN regexp_full_match(p['t'] || p['s'], '{_ALONE}*') THEN instr({cased[0]}, {cased[1]}) "
        f"WHEN {by_weight} ELSE {refused} END"
    )
    return f"list_transform([{{'t': {there}, 's': {sought}}}], lambda p: {body})[1]"


def _by_weight(rules: str) -> str:
    """Return SQL of whether characters have known weights, and of the place by these, each written as |WEIGHT."""
    weight = _levels("c", rules, False)
    hay, needle = _each("p['t']", ".", f"'|' || {weight}"), _each("p['s']", ".", weight)
    pattern = "'[|]' || regexp_replace(q['n'], '(..)', '[|]*\\1', 'g')"
    before = f"regexp_extract(q['h'], '^(.*?)' || {pattern}, 1)"
    found = f"length({before}) - length(replace({before}, '|', '')) + 1"
    body = (
        f"CASE WHEN q['n'] = '' THEN {stop('what has no weight is looked for', 'BIGINT')} "
        f"WHEN regexp_matches(q['h'], {pattern}) THEN {found} ELSE 0 END"
    )
    return (
        f"regexp_full_match(p['t'] || p['s'], '{_WEIGHED}*') "
        f"THEN list_transform([{{'h': {hay}, 'n': {needle}}}], lambda q: {body})[1]"
    )


def like(text: str, pattern: str, escape: str, collation: str) -> str:
    """Return SQL of whether a text is LIKE a pattern; `escape` is one character, or none."""
    charset, _, rules = collation.partition("_")
    if rules not in _LEVELS or charset not in _UNICODE:
        exact = collation == "binary" or rules in ("bin", "0900_bin")
        if not escape.isascii() or (not exact and escape.isalpha()):
            raise UnknownCollation(f"ESCAPE {escape!r} under {collation}: take an ASCII character that is no letter")
        sides = (text, pattern) if exact else (_characters(text, collation), _characters(pattern, collation))
        return f"({_engine_like(*sides, escape)})"
    # Character by character, as <KEY>: 'ß' is not LIKE 'ss', though it is equal.
    one, many = "<[0-9A-F]*>", "(?:<[0-9A-F]*>)*"
    weight = _levels("right(c, 1)", rules, False)
    # LIKE takes those without a weight in the server's tables for what they are, though they may be equal to others.
    tableless = f"[{_TABLELESS}{_BEYOND if rules == 'unicode_ci' else ''}]"
    weight = f"CASE WHEN regexp_full_match(right(c, 1), '{tableless}') THEN 'FF' || hex(right(c, 1)) ELSE {weight} END"
    key = f"'<' || {weight} || '>'"
    itself = f"WHEN {quote_plainly(escape)} THEN {key} " if escape in ("%", "_") else ""
    wild = f"CASE c {itself}WHEN '%' THEN '{many}' WHEN '_' THEN '{one}' ELSE {key} END"
    escaped = f"{_regex(escape)}.|" if escape else ""
    there, sought = _each(text, ".", key), _each(pattern, f"{escaped}.", wild)
    found = f"regexp_full_match({there}, {sought})"
    if escape.isalpha() or not escape.isascii():
        return f"({found})"
    plain = " AND ".join(f"regexp_full_match({side}, '{_PLAIN}*')" for side in (text, pattern))
    sides = (text, pattern) if rules == "0900_as_cs" else (f"upper({text})", f"upper({pattern})")
    return f"(CASE WHEN {plain} THEN {_engine_like(*sides, escape)} ELSE {found} END)"


def _each(sql: str, regex: str, body: str) -> str:
    """Return SQL of a text of which each piece, as `c`, is replaced."""
    return f"array_to_string(list_transform(regexp_extract_all({sql}, '(?s){regex}'), lambda c: {body}), '')"


def _engine_like(text: str, pattern: str, escape: str) -> str:
    if not escape:
        return f"{text} LIKE {pattern}"
    # A last character that escapes nothing stands for itself.
    alone = f"(?s)(?:{_regex(escape)}.|[^{_regex(escape)}])*{_regex(escape)}"
    whole = _once(pattern, f"CASE WHEN regexp_full_match(t, '{alone}') THEN t || {quote_plainly(escape)} ELSE t END")
    return f"{text} LIKE {whole} ESCAPE {quote_plainly(escape)}"


_LEVELS: Final = {"0900_ai_ci": 1, "0900_as_ci": 2, "0900_as_cs": 3, "unicode_ci": 1, "unicode_520_ci": 1}
_PLAIN: Final = "[ -~\\t\\n\\r\\x{4e00}-\\x{9fa5}\\x{ac00}-\\x{d7a3}]"
"""Characters of which no two weigh the same but for the case of letters."""
_ALONE: Final = "[ -~\\t\\n\\r\\x{4e00}-\\x{9fa5}]"
"""Of these, no weight begins with another's."""
_WEIGHED: Final = (
    "[ -~\\t\\n\\r\\x{a0}-\\x{2ff}\\x{300}-\\x{36f}\\x{370}-\\x{3ff}\\x{400}-\\x{482}\\x{48a}-\\x{52f}\\x{5d0}-\\x{5ea}"
    "\\x{1e00}-\\x{1fff}\\x{2010}-\\x{2027}\\x{2030}-\\x{205e}\\x{20a0}-\\x{20bf}\\x{3041}-\\x{3098}\\x{309b}-\\x{30fe}"
    "\\x{4e00}-\\x{9fa5}\\x{fb00}-\\x{fb06}\\x{ff01}-\\x{ff65}]"
)
"""Characters whose weights the engine's keys have one behind the other, as a server does."""
_TABLELESS: Final = (
    "\\x{3400}-\\x{4cff}\\x{4e00}-\\x{9fff}\\x{ac00}-\\x{d6ff}\\x{20000}-\\x{2f7ff}\\x{30000}-\\x{3ffff}"
)
_BEYOND: Final = "\\x{10000}-\\x{10FFFF}"
_PLAIN_LITERAL: Final = re.compile(r"'[ -&(-~]*'")
QUOTES: Final = {"'": "\u2018\u2019\u201a\u201b", '"': "\u201c\u201d\u201e\u201f\u301d\u301e\u301f"}
"""ICU has these at the primary weight of the ASCII ones, MySQL right behind these."""
_BEHIND: Final = 0x5FF00
"""Here, from 54E00 and from 40000 (`icu_differences`) are code points that Unicode gives no character."""
_HAN, _HAN_MOVED = (0x4E00, 0x9FD5), 0x50000
_UNJOINED: Final = (
    "\\t-\\r -~\\x{a0}-\\x{b6}\\x{b8}-\\x{2ff}\\x{370}-\\x{386}\\x{388}-\\x{3ff}\\x{400}-\\x{482}\\x{48a}-\\x{52f}"
    "\\x{531}-\\x{58a}\\x{5d0}-\\x{5ea}\\x{620}-\\x{64a}\\x{660}-\\x{66f}\\x{671}-\\x{6d3}\\x{10a0}-\\x{10ff}"
    "\\x{1e00}-\\x{1fff}\\x{2010}-\\x{2027}\\x{2030}-\\x{205e}\\x{2070}-\\x{20bf}\\x{2100}-\\x{2bff}"
    "\\x{3000}-\\x{3029}\\x{3030}-\\x{3098}\\x{309b}-\\x{30ff}\\x{3200}-\\x{33ff}\\x{4e00}-\\x{9fd5}"
    "\\x{ac00}-\\x{d7a3}\\x{f900}-\\x{faff}\\x{ff01}-\\x{ff9d}\\x{ffe0}-\\x{ffe6}\\x{1f000}-\\x{1faff}"
)
"""Common characters that ICU takes one by one, whichever of them follow each other."""
_LATIN_END: Final = "\u0300"
_JOINER: Final = "\u034f"
_PARTED_SYLLABLES: Final = "\\x{1112}[\\x{1170}-\\x{1175}]"
"""The letters of the syllables from U+D700, which to a server are not equal to these under as_cs; all others are."""


def apart(sql: str) -> str:
    """Return SQL of a text whose characters ICU takes one by one: what has no weight and joins nothing is between."""
    return f"regexp_replace({sql}, '[^{_UNJOINED}]', '{_JOINER}\\0{_JOINER}', 'g')"


def shaped(sql: str) -> str:
    """Return SQL of a text that ICU takes as MySQL does: typographic quotes, and ideographs by their code points."""
    low, high = _HAN
    replaced = "t"
    for plain, ones in QUOTES.items():
        for number, one in enumerate(ones):
            replaced = f"replace({replaced}, '{one}', {quote_plainly(plain + chr(_BEHIND + number))})"
    moved = (
        f"array_to_string(list_transform(regexp_extract_all({replaced}, '(?s).'), lambda h: CASE WHEN unicode(h) "
        f"BETWEEN {low} AND {high} THEN chr(unicode(h) + {_HAN_MOVED}) ELSE h END), '')"
    )
    special = f"[{''.join(QUOTES.values())}\\x{{{low:x}}}-\\x{{{high:x}}}]"
    return _once(sql, f"CASE WHEN regexp_matches(t, '{special}') THEN {moved} ELSE t END")


def _once(sql: str, body: str) -> str:
    """Return SQL that computes a text once and uses it many times, as `t`."""
    return f"list_transform([{sql}], lambda t: {body})[1]"


def _without_blanks(sql: str, rules: str) -> str:
    """Return SQL of a text without spaces at its end, of any kind, and what weighs nothing among them."""
    blank = _class(icu_differences()["blank"][rules])
    return f"regexp_replace({sql}, '[{blank}]+$', '')"


@lru_cache
def icu_differences() -> dict[str, dict[str, str]]:
    """Return what ICU compares otherwise than MySQL's collations, as `tools.icu_differences` found it.

    By collation, `stand_ins` are compared as another, or several: `from=to` or `from=to+to`, hexadecimal code points;
    `*n` for n that follow each other. `disordered` are ranges of characters that sort elsewhere. `blank` are those that
    make no difference after a space at a text's end.
    """
    values = json.loads(get_data("binlog_merge.values.duckdb", "icu_differences.json") or b"{}")
    parts = ("stand_ins", "disordered", "blank")
    return {part: {rules: " ".join(lines) for rules, lines in values[part].items()} for part in parts}


@lru_cache
def _class(ranges: str) -> str:
    """Return what stands in the brackets of a regular expression for ranges of characters."""
    ends = (run.split("-") for run in ranges.split())
    return "".join(f"\\x{{{pair[0]}}}-\\x{{{pair[-1]}}}" for pair in ends)


def _levels(sql: str, rules: str, ordered: bool) -> str:
    """Return the first levels of a sort key; 01 parts the levels."""
    levels = _LEVELS[rules]
    if _PLAIN_LITERAL.fullmatch(sql) is not None:
        return _cut(f"icu_sort_key({sql}, 'und')", levels)
    if rules == "unicode_ci":
        sql = _basic(sql)
    if levels == 3:
        sql = _refused(sql, _PARTED_SYLLABLES, f"comparison is not known under utf8mb4_{rules}")
    if ordered:
        sql = _refused(sql, _disordered(rules), f"less and greater are not known under utf8mb4_{rules}")
    return _cut(f"icu_sort_key({shaped(apart(_stood_for(sql, rules)))}, 'und')", levels)


def _cut(key: str, levels: int) -> str:
    return key if levels == 3 else f"regexp_extract({key}, '^((?:..)*?{'01(?:..)*?' * (levels - 1)})01', 1)"


def _refused(sql: str, regex: str, what: str) -> str:
    message = f"{what} for this text; add COLLATE utf8mb4_bin: "
    return _where(regex, stop(message, "VARCHAR", "t"), sql)


def _stood_for(sql: str, rules: str) -> str:
    """Return SQL of a text with the characters that stand for others."""
    others, spelled = _stand_ins(rules)
    # Apart from Latin letters, which are not rare: translate() reads all that it may have to replace for each text.
    for latin in (True, False):
        pairs = {one: other for one, other in others.items() if (one < _LATIN_END) is latin}
        if pairs:
            source, target = (quote_plainly("".join(side)) for side in (pairs, pairs.values()))
            sql = _where(f"[{_ranges(pairs)}]", f"translate(t, {source}, {target})", sql)
    words = ", ".join(f"{quote_plainly(one)}: {quote_plainly(several)}" for one, several in spelled.items())
    return _where(f"[{_ranges(spelled)}]", _each("t", ".", f"coalesce((MAP {{{words}}})[c], c)"), sql)


def _where(regex: str, body: str, sql: str) -> str:
    """Return SQL of a text with `body` for it, as `t`, where it has what is looked for."""
    return _once(sql, f"CASE WHEN regexp_matches(t, '{regex}') THEN {body} ELSE t END")


@lru_cache
def _stand_ins(rules: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the characters that are compared as another, and those that are compared as several."""
    others, spelled = dict[str, str](), dict[str, str]()
    for run in icu_differences()["stand_ins"][rules].split():
        pair, _, repeat = run.partition("*")
        start, _, to = pair.partition("=")
        first, *rest = (int(part, 16) for part in to.split("+"))
        if rest:
            spelled[chr(int(start, 16))] = "".join(map(chr, (first, *rest)))
        else:
            others.update((chr(int(start, 16) + i), chr(first + i)) for i in range(int(repeat or 1)))
    return others, spelled


def _ranges(characters: Iterable[str]) -> str:
    """Return the ranges of a class of a regular expression."""
    ranges: list[list[int]] = []
    for number in sorted(map(ord, characters)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


@lru_cache
def _disordered(rules: str) -> str:
    ranges = icu_differences()["disordered"][rules]
    return f"[{_class(ranges)}]"


def _regex(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


def _basic(sql: str) -> str:
    """Return SQL of a text in which all characters beyond the basic plane are one: they weigh the same."""
    return f"regexp_replace({sql}, '[{_BEYOND}]', '\ufffd', 'g')"


def _characters(sql: str, collation: str) -> str:
    charset, _, rules = collation.partition("_")
    if rules == "general_ci" and charset in _UNICODE:
        return _translated(_basic(sql), "general_ci")
    if collation == "latin1_swedish_ci":
        return _translated(sql, "latin1_swedish_ci")
    if collation in _ASCII_FOLDED:
        return _ascii_folded(sql)
    raise UnknownCollation(
        f"the rules of the collation {collation} are not known here; write the comparison with COLLATE, "
        f"utf8mb4_bin or utf8mb4_0900_ai_ci"
    )


def _ascii_folded(sql: str) -> str:
    return f"translate({sql}, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')"


def _translated(sql: str, table: str) -> str:
    source, target = map(quote_plainly, folding(table))
    return f"translate({sql}, {source}, {target})"
