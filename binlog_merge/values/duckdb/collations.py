"""How strings compare under MySQL's collations, as SQL of the engine that evaluates expressions.

| collation | strings are equal when these are |
|---|---|
| `binary` | the bytes |
| `*_0900_bin`, `*_bin` | the code points; other than 0900_bin, without trailing spaces |
| `*_0900_ai_ci`, `_as_ci`, `_as_cs` | the sort keys of the Unicode collation algorithm, to one, two, three levels |
| `*_unicode_ci`, `*_unicode_520_ci` | the same to one level, without trailing spaces |
| `*_general_ci` of Unicode, `latin1_swedish_ci` | the characters' weights (`collation_tables`), likewise |

The sort keys are ICU's; on the basic plane they tell the same characters apart as a 9.7 server's 0900 collations, but
for some characters of Unicode versions after 9.0, and Hebrew punctuation. The older unicode_ci knows less of letters
with strokes. A collation that is not listed is refused: a filter that guesses would lose rows.
"""

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


class UnknownCollation(ValueError):  # noqa: N818 (what was found, as in binlog_merge.errors)
    """A collation whose rules are not known here."""


def sort_key(sql: str, collation: str, ordered: bool) -> str:
    """Return SQL of a value that compares as the string does; `ordered` where less and greater matter too."""
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
    padded = f"rtrim({sql}, ' ')"
    if rules == "bin":
        return padded
    if rules in ("0900_ai_ci", "0900_as_ci", "0900_as_cs"):
        return _levels(sql, {"0900_ai_ci": 1, "0900_as_ci": 2, "0900_as_cs": 3}[rules])
    if rules in ("unicode_ci", "unicode_520_ci") and charset in _UNICODE:
        return _levels(padded, 1)
    return _characters(padded, collation)


def likeness(sql: str, collation: str) -> str:
    """Return SQL of a string that LIKE can compare character by character."""
    charset, _, rules = collation.partition("_")
    if collation == "binary" or rules in ("bin", "0900_bin", "0900_as_cs"):
        return sql
    if rules == "0900_as_ci":
        return f"upper({sql})"
    if rules in ("0900_ai_ci", "unicode_ci", "unicode_520_ci") and charset in _UNICODE:
        return f"upper(strip_accents({sql}))"
    return _characters(sql, collation)


def _levels(sql: str, levels: int) -> str:
    """Return SQL of the first levels of a sort key; 01 parts the levels."""
    key = f"icu_sort_key({sql}, 'und')"
    if levels == 3:
        return key
    return f"regexp_extract({key}, '^((?:..)*?{'01(?:..)*?' * (levels - 1)})01', 1)"


def _characters(sql: str, collation: str) -> str:
    charset, _, rules = collation.partition("_")
    if rules == "general_ci" and charset in _UNICODE:
        # Beyond the basic plane all characters weigh the same.
        basic = f"regexp_replace({sql}, '[\\x{{10000}}-\\x{{10FFFF}}]', '\ufffd', 'g')"
        return _translated(basic, "general_ci")
    if collation == "latin1_swedish_ci":
        return _translated(sql, "latin1_swedish_ci")
    if collation in _ASCII_FOLDED:
        return f"translate({sql}, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')"
    raise UnknownCollation(
        f"the rules of the collation {collation} are not known here; write the comparison with COLLATE, "
        f"utf8mb4_bin or utf8mb4_0900_ai_ci"
    )


def _translated(sql: str, table: str) -> str:
    source, target = (text.replace("'", "''") for text in folding(table))
    return f"translate({sql}, '{source}', '{target}')"
