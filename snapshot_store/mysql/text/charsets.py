"""Character sets and collations of MySQL, by name and by number.

All functions use one table, generated from a server (`collations.txt`). Encoding and decoding are in `codecs`. The
weights of the simple collations (`weights.json`) are from WEIGHT_STRING() of a 9.7 server, for every character of the
basic plane.
"""

import json
from functools import lru_cache
from pkgutil import get_data  # importlib.resources takes 30 ms to load
from typing import Final

BINARY_COLLATION: Final = 63
UTF8MB4_0900: Final = 255
"""The first id that MariaDB does not have under the same name as MySQL."""
_ALIASES: Final = {"utf8": "utf8mb3"}
"""Names in older servers and dumps; 8.0.30 renamed the collations too."""
_MARIADB: Final = (
    ("utf8mb3", 576, 607), ("utf8mb4", 608, 639), ("ucs2", 640, 671), ("utf16", 672, 703), ("utf32", 736, 767),
    ("utf8mb3", 2048, 2303), ("utf8mb4", 2304, 2559), ("ucs2", 2560, 2815), ("utf16", 2816, 3071),
    ("utf32", 3072, 3327),
)  # fmt: skip
"""Ids, first and last, of collations that only MariaDB has: their character set is known, their rules are not."""


def _data(name: str) -> str:
    return (get_data("snapshot_store.mysql.text", name) or b"").decode()


def _table() -> dict[str, tuple[int, list[str]]]:
    rows = (line.split() for line in _data("collations.txt").splitlines() if not line.startswith("#"))
    return {charset: (int(length), entries) for charset, length, *entries in rows}


def _listed() -> tuple[dict[int, tuple[str, str]], dict[str, int], dict[str, int]]:
    by_id: dict[int, tuple[str, str]] = {}
    by_name: dict[str, int] = {}
    default: dict[str, int] = {}
    for charset, (_, entries) in _TABLE.items():
        for entry in entries:
            number, _, suffix = entry.partition(":")
            name = f"{charset}_{suffix}" if suffix else charset
            by_id[int(number)] = (name, charset)
            by_name[name] = int(number)
            default.setdefault(charset, int(number))
    return by_id, by_name, default


_TABLE: Final = _table()
_BY_ID, _BY_NAME, _DEFAULT = _listed()
_NO_PAD: Final = 1024
"""What MariaDB adds to a collation's id for that without padding."""
_OF_MARIADB: Final = {number: name for name, first, last in _MARIADB for number in range(first, last + 1)} | {
    number + _NO_PAD: charset for number, (_, charset) in _BY_ID.items() if number <= UTF8MB4_0900 - 1
}


def canonical_charset(name: str) -> str | None:
    """Return a character set's name as MySQL 8 prints it, or None if there is no such character set."""
    lower = name.lower()
    lower = _ALIASES.get(lower, lower)
    return lower if lower in _TABLE else None


def canonical_collation(name: str) -> str | None:
    """Return a collation's name as MySQL 8 prints it, or None if its prefix is not a known character set.

    MySQL 9.7 need not have the collation itself: see `is_collation`.
    """
    lower = name.lower()
    if lower.startswith("utf8_"):
        lower = f"utf8mb3_{lower[5:]}"
    charset = charset_named_by(lower)
    return lower if charset in _TABLE and (charset != lower or lower == "binary") else None


def is_collation(name: str) -> bool:
    """Return whether MySQL 9.7 has a collation of this canonical name."""
    return name in _BY_NAME


def charset_named_by(collation: str) -> str:
    """Return the character set of a canonical collation, which is its prefix."""
    return collation.split("_")[0]


def default_collation(charset: str) -> str:
    """Return the default collation of a character set; for utf8mb4 a session may have another."""
    return _BY_ID[_DEFAULT[charset]][0]


def binary_collation(charset: str) -> str:
    """Return the collation that the attribute BINARY chooses."""
    return "binary" if charset == "binary" else f"{charset}_bin"


def max_bytes(charset: str | None) -> int:
    """Return the maximum bytes of a character; 1 for byte strings (None).

    Raises LookupError if MySQL 9.7 has no such character set.
    """
    if not charset:
        return 1
    known = canonical_charset(charset)
    if known is None:
        raise LookupError(f"{charset} is not one of MySQL 9.7's")
    return _TABLE[known][0]


def charset_of(collation_id: int) -> str | None:
    """Return the name of the character set of a collation id, including MariaDB's; None if the id is not known."""
    found = _BY_ID.get(collation_id)
    return found[1] if found else _OF_MARIADB.get(collation_id)


def collation_name(collation_id: int) -> str | None:
    """Return a collation's name, or None if MySQL 9.7 has no such collation."""
    found = _BY_ID.get(collation_id)
    return found[0] if found else None


def collation_id(charset: str | None, collation: str | None) -> int | None:
    """Return the id of a collation or, without one, of the character set's default collation.

    Byte strings (no character set) have `binary`. Returns None if MySQL 9.7 has no such name.
    """
    if collation:
        return _BY_NAME.get(canonical_collation(collation) or "")
    return _DEFAULT.get(canonical_charset(charset) or "") if charset else BINARY_COLLATION


def all_collations() -> dict[int, tuple[str, str]]:
    """Return every collation of MySQL 9.7: id to (name, character set)."""
    return dict(_BY_ID)


@lru_cache
def folding(name: str) -> tuple[str, str]:
    """Return two strings of equal length: characters, and the character that each sorts like in a simple collation.

    A run of the table is `from>to`, hexadecimal code points; `*n/sd` repeats it n times, s characters further and to d
    characters further.
    """
    source, target = [], []
    for run in " ".join(json.loads(_data("weights.json"))[name]).split():
        pair, _, repeat = run.partition("*")
        start, to = (int(part, 16) for part in pair.split(">"))
        count, steps = repeat.split("/") if repeat else ("1", "00")
        for i in range(int(count)):
            source.append(chr(start + i * int(steps[0])))
            target.append(chr(to + i * int(steps[1])))
    return "".join(source), "".join(target)
