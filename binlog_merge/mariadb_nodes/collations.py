"""MySQL's collations for MariaDB's. What is in both has one id; what MySQL has not:

    1024 + n     n without padding (utf8mb4_general_nopad_ci)          utf8mb4_0900_ai_ci, utf8mb4_0900_bin; else n
    2304 + …     UCA 14.0.0: 8 * language + 4 * no padding + strength  UCA 9.0.0 of utf8mb4; for others UCA 5.2.0
    576 …        languages that MySQL writes otherwise or lacks         unicode_520_ci, croatian_ci

A few characters may compare otherwise than on the node. Padding in utf8mb4 never makes a UNIQUE key of MySQL hold equal
what the node's holds different: 0900 has none.
"""

import re
from functools import cache
from typing import Final

from binlog_merge.streams.mariadb.rows import LANGUAGES, MYSQL_LANGUAGES
from snapshot_store.mysql.text.charsets import (
    canonical_collation,
    charset_named_by,
    charset_of,
    collation_id,
    collation_name,
    is_collation,
)

_NO_PAD: Final = 1024
_UCA: Final = {2048: "utf8mb3", 2304: "utf8mb4", 2560: "ucs2", 2816: "utf16", 3072: "utf32"}
_OF_EACH: Final = 256
_STRENGTHS: Final = ("ai_ci", "ai_cs", "as_ci", "as_cs")
_UCA_NAME: Final = re.compile(
    r"(?P<charset>\w+?)_uca1400_(?:(?P<language>[a-z]+2?)_)??(?:nopad_)?(?P<strength>a[is]_c[is])"
)
_LANGUAGE_OF: Final = {name: ours for ours, name in reversed(MYSQL_LANGUAGES.items())}


@cache
def mysql_collation(name: str) -> str | None:
    """Return MySQL's name for a collation of MariaDB; None if it is not known. Those that MySQL has stay."""
    known = canonical_collation(name)
    if known is None:
        return None
    known = known.replace("_croatian_mysql561_", "_croatian_")
    if (match := _UCA_NAME.fullmatch(known)) is not None:
        return _uca(match["charset"], match["language"] or "", match["strength"])
    if "_nopad_" in known:
        return _padless(known.replace("_nopad", ""))
    if is_collation(known):
        return known
    other = f"{charset_named_by(known)}_unicode_520_ci"
    return other if re.search("_(myanmar_ci|thai_520_w2|general1400_as_ci)$", known) and is_collation(other) else None


def _padless(padded: str) -> str | None:
    if padded.startswith("utf8mb4_"):
        return "utf8mb4_0900_bin" if padded.endswith("_bin") else "utf8mb4_0900_ai_ci"
    return padded if is_collation(padded) else None


def _uca(charset: str, language: str, strength: str) -> str | None:
    if charset != "utf8mb4":
        name = f"{charset}_{'bin' if strength != 'ai_ci' else 'unicode_520_ci'}"
        return name if is_collation(name) else None
    strength = "as_cs" if strength == "ai_cs" else strength
    own = f"{_LANGUAGE_OF[language]}_" if language in _LANGUAGE_OF else ""
    names = (f"utf8mb4_{own}0900_{strength}", f"utf8mb4_{own}0900_as_cs", f"utf8mb4_0900_{strength}")
    return next((name for name in names if is_collation(name)), None)


def mysql_id(number: int) -> int | None:
    """Return MySQL's id for a collation id of MariaDB; None if it is not known."""
    if collation_name(number) is not None:
        return number
    name = mariadb_name_of(number)
    found = None if name is None else mysql_collation(name)
    return None if found is None else collation_id(None, found)


@cache
def mariadb_name_of(number: int) -> str | None:
    """Return MariaDB's name of a collation id; None if it is not known."""
    if (same := collation_name(number)) is not None:
        return same
    base = number // _OF_EACH * _OF_EACH
    if base in _UCA:
        language, rest = divmod(number - base, 8)
        if language >= len(LANGUAGES) or (language and not LANGUAGES[language]):
            return None
        own = f"{LANGUAGES[language]}_" if language else ""
        return f"{_UCA[base]}_uca1400_{own}{'nopad_' if rest & 4 else ''}{_STRENGTHS[rest & 3]}"
    if _NO_PAD < number < 2 * _NO_PAD and (padded := collation_name(number - _NO_PAD)) is not None:
        head, _, last = padded.rpartition("_")
        return f"{head}_nopad_{last}"
    charset = charset_of(number)
    if charset is None:
        return None
    own_names = ("croatian_ci", "myanmar_ci", "thai_520_w2", "general1400_as_ci")
    return f"{charset}_{own_names[number % 32]}" if number % 32 < len(own_names) else None
