"""How strings compare under MySQL's collations, as SQL of the engine that evaluates expressions.

| collation | strings are equal when these are |
|---|---|
| `binary` | the bytes |
| `*_0900_bin`, `*_bin` | the code points; other than 0900_bin, without trailing spaces |
| `*_0900_ai_ci`, `_as_ci`, `_as_cs` | the sort keys of the Unicode collation algorithm, to one, two, three levels |
| `*_unicode_ci`, `*_unicode_520_ci` | the same to one level, without trailing spaces |
| `*_general_ci` of Unicode, `latin1_swedish_ci` | the characters' weights (`collation_tables`), likewise |

The sort keys are ICU's. Where these differ from a server's (`icu_differences`), a character is given as another one
first. A few thousand that sort elsewhere, most of them symbols and rare ideographs, are refused when a row has one and
less or greater is asked. A collation that is not listed is refused: a filter that guesses would lose rows.
"""

import re
from functools import lru_cache
from typing import Final

from binlog_merge.values.duckdb.icu_differences import DISORDERED, STAND_INS
from snapshot_store.mysql.text.collation_tables import folding

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
    if rules == "bin":
        return whole
    if rules in ("0900_ai_ci", "0900_as_ci", "0900_as_cs"):
        return _levels(sql, rules, ordered)
    if rules in ("unicode_ci", "unicode_520_ci") and charset in _UNICODE:
        if ordered:
            raise UnknownCollation(f"the order of {collation} is not known; order with COLLATE utf8mb4_0900_ai_ci")
        return _levels(whole, rules, False)
    return _characters(whole, collation)


def sought_and_there(sought: str, there: str, collation: str) -> tuple[str, str]:
    """Return SQL of a text to look for within another, and of that other, so that their characters can be compared.

    A server compares as many bytes: in UTF-8 a letter is found under another form only if both are ASCII. What is
    looked for must be of ASCII or CJK, else the engine stops.
    """
    charset, _, rules = collation.partition("_")
    if collation == "binary" or rules in ("bin", "0900_bin"):
        return sought, there
    if charset not in _UNICODE:
        return _characters(sought, collation), _characters(there, collation)
    message = f"it is not looked for under {collation}, but for ASCII and CJK; add COLLATE utf8mb4_bin: "
    plain = _once(
        sought,
        f"CASE WHEN regexp_full_match(t, '{_PLAIN}*') THEN t "
        f"WHEN t IS NOT NULL THEN error('{message}' || t)::VARCHAR END",
    )
    if rules == "0900_as_cs":
        return plain, there
    return _ascii_folded(plain), _ascii_folded(there)


def like(text: str, pattern: str, escape: str, collation: str) -> str:
    """Return SQL of whether a text is LIKE a pattern; `escape` is one character, or none."""
    charset, _, rules = collation.partition("_")
    if rules not in _LEVELS or charset not in _UNICODE:
        exact = collation == "binary" or rules in ("bin", "0900_bin")
        if not exact and escape.upper() != escape.lower():
            raise UnknownCollation(f"ESCAPE {escape!r} under {collation}: take a character that has no case")
        sides = (text, pattern) if exact else (_characters(text, collation), _characters(pattern, collation))
        return f"({_engine_like(*sides, escape)})"
    # Character by character, as <KEY>: 'ß' is not LIKE 'ss', though it is equal.
    one, many = "<[0-9A-F]*>", "(?:<[0-9A-F]*>)*"
    weight = _levels("right(c, 1)", rules, False)
    if rules == "unicode_ci":  # equal weights, but LIKE takes those beyond the basic plane for what they are
        weight = f"CASE WHEN unicode(right(c, 1)) > 65535 THEN 'FF' || hex(right(c, 1)) ELSE {weight} END"
    key = f"'<' || {weight} || '>'"
    itself = f"WHEN {_quoted(escape)} THEN {key} " if escape in ("%", "_") else ""
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
    whole = _once(pattern, f"CASE WHEN regexp_full_match(t, '{alone}') THEN t || {_quoted(escape)} ELSE t END")
    return f"{text} LIKE {whole} ESCAPE {_quoted(escape)}"


_LEVELS: Final = {"0900_ai_ci": 1, "0900_as_ci": 2, "0900_as_cs": 3, "unicode_ci": 1, "unicode_520_ci": 1}
_PLAIN: Final = "[ -~\\t\\n\\r\\x{4e00}-\\x{9fa5}\\x{ac00}-\\x{d7a3}]"
"""Characters of which no two weigh the same but for the case of letters."""
_PLAIN_LITERAL: Final = re.compile(r"'[ -&(-~]*'")
_QUOTES: Final = {"'": "\u2018\u2019\u201a\u201b", '"': "\u201c\u201d\u201e\u201f\u301d\u301e\u301f"}
"""ICU has these at the primary weight of the ASCII ones, MySQL right behind these."""
_BEHIND: Final = 0x10FF00
_HAN, _HAN_MOVED = (0x4E00, 0x9FD5), 0x100000


def shaped(sql: str) -> str:
    """Return SQL of a text that ICU takes as MySQL does: typographic quotes, and ideographs by their code points."""
    low, high = _HAN
    replaced = "t"
    for plain, ones in _QUOTES.items():
        for number, one in enumerate(ones):
            replaced = f"replace({replaced}, '{one}', {_quoted(plain + chr(_BEHIND + number))})"
    moved = (
        f"array_to_string(list_transform(regexp_extract_all({replaced}, '(?s).'), lambda h: CASE WHEN unicode(h) "
        f"BETWEEN {low} AND {high} THEN chr(unicode(h) + {_HAN_MOVED}) ELSE h END), '')"
    )
    special = f"[{''.join(_QUOTES.values())}\\x{{{low:x}}}-\\x{{{high:x}}}]"
    return _once(sql, f"CASE WHEN regexp_matches(t, '{special}') THEN {moved} ELSE t END")


def _once(sql: str, body: str) -> str:
    """Return SQL that computes a text once and uses it many times, as `t`."""
    return f"list_transform([{sql}], lambda t: {body})[1]"


def _levels(sql: str, rules: str, ordered: bool) -> str:
    """Return the first levels of a sort key; 01 parts the levels."""
    plain = _PLAIN_LITERAL.fullmatch(sql) is not None
    if rules == "unicode_ci":
        sql = _basic(sql)
    if ordered and not plain:
        message = f"less and greater are not known under utf8mb4_{rules} for this text; add COLLATE utf8mb4_bin: "
        disordered = (
            f"CASE WHEN regexp_matches(t, '{_disordered(rules)}') THEN error('{message}' || t)::VARCHAR ELSE t END"
        )
        sql = _once(sql, disordered)
    rare, source, target = _stand_ins(rules)
    stood = _once(sql, f"CASE WHEN regexp_matches(t, '{rare}') THEN translate(t, '{source}', '{target}') ELSE t END")
    key, levels = f"icu_sort_key({sql if plain else shaped(stood)}, 'und')", _LEVELS[rules]
    return key if levels == 3 else f"regexp_extract({key}, '^((?:..)*?{'01(?:..)*?' * (levels - 1)})01', 1)"


@lru_cache
def _stand_ins(rules: str) -> tuple[str, str, str]:
    """Return the class of characters that are compared as others, these characters, and those others."""
    source, target, ranges = [], [], []
    for run in STAND_INS[rules].split():
        pair, _, repeat = run.partition("*")
        start, to = (int(part, 16) for part in pair.split("="))
        count = int(repeat or 1)
        source += [chr(start + i) for i in range(count)]
        target += [chr(to + i) for i in range(count)]
        ranges.append(f"\\x{{{start:x}}}-\\x{{{start + count - 1:x}}}")
    return f"[{''.join(ranges)}]", "".join(source), "".join(target)


@lru_cache
def _disordered(rules: str) -> str:
    ends = (run.split("-") for run in DISORDERED[rules].split())
    return "[" + "".join(f"\\x{{{pair[0]}}}-\\x{{{pair[-1]}}}" for pair in ends) + "]"


def _regex(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _basic(sql: str) -> str:
    """Return SQL of a text in which all characters beyond the basic plane are one: they weigh the same."""
    return f"regexp_replace({sql}, '[\\x{{10000}}-\\x{{10FFFF}}]', '\ufffd', 'g')"


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
    source, target = (text.replace("'", "''") for text in folding(table))
    return f"translate({sql}, '{source}', '{target}')"
