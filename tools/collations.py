"""Write `collations.txt` and `unicode_weights.txt` in `snapshot_store/mysql/text` from a real server:
`.venv/bin/python -m tools.collations`.

Asks a MySQL under build/mysql, started for this alone, for information_schema.COLLATIONS and CHARACTER_SETS, and for
WEIGHT_STRING() of characters. Tests ask too, and compare.
"""

import tempfile
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "snapshot_store" / "mysql" / "text" / "collations.txt"
QUERY = """
SELECT id, collation_name, character_set_name, is_default = 'Yes', maxlen
FROM information_schema.collations JOIN information_schema.character_sets USING (character_set_name)
"""
_HEAD = """\
# The character sets and collations of MySQL {version}, made by `python -m tools.collations`: character set, greatest
# length of a character in bytes, then id:collation without the character set's own name, the default collation first.
"""
WEIGHTS = TABLE.with_name("unicode_weights.txt")
_WEIGHTS_HEAD = """\
# The weights of characters under the collations of utf8mb4, by WEIGHT_STRING() of MySQL {version}, made by
# `python -m tools.collations`: from a code point on, one word a character: its weights, of four digits each. `-`: none;
# `?`: not in this table; `*n`: n times.
"""
UCA = ("0900_ai_ci", "unicode_520_ci", "unicode_ci")
RANGES = (
    (0x0, 0x3FF), (0x400, 0x52F), (0x531, 0x58A), (0x591, 0x5F4), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE5B),
    (0x10A0, 0x10FF), (0x1E00, 0x206F), (0x20A0, 0x20BF), (0x2100, 0x214F), (0x2150, 0x21FF), (0x2460, 0x26FF),
    (0x3000, 0x30FF), (0xFB00, 0xFB06), (0xFF01, 0xFF9F), (0xFFE0, 0xFFE6),
)  # fmt: skip
"""The characters whose weights are written down."""
_MOST_DIGITS = 12


class Listed(NamedTuple):
    """A collation as a server lists it."""

    id: int
    name: str
    charset: str
    default: bool
    max_bytes: int


def table_text(version: str, listed: Iterable[Listed]) -> str:
    """Return the file that holds these collations."""
    charsets: dict[str, list[Listed]] = {}
    for one in sorted(listed, key=lambda c: (c.charset, not c.default, c.id)):
        charsets.setdefault(one.charset, []).append(one)
    return _HEAD.format(version=version) + "".join(_line(name, found) for name, found in charsets.items())


def _line(charset: str, found: list[Listed]) -> str:
    words = (f"{one.id}:{one.name.removeprefix(charset).removeprefix('_')}" for one in found)
    return f"{charset} {found[0].max_bytes} {' '.join(words)}\n"


def weights_query(collation: str, first: int = 0, last: int = 0xFFFF) -> str:
    """Return a query for code points and their characters' weights under a collation of utf8mb4."""
    character = "CONVERT(CONVERT(UNHEX(LPAD(HEX(i), 8, '0')) USING utf32) USING utf8mb4)"
    return (
        f"WITH RECURSIVE n AS (SELECT {first} AS i UNION ALL SELECT i + 1 FROM n WHERE i < {last}) "
        f"SELECT /*+ SET_VAR(cte_max_recursion_depth=70000) */ i, HEX(WEIGHT_STRING({character} "
        f"COLLATE utf8mb4_{collation})) FROM n WHERE i NOT BETWEEN 0xD800 AND 0xDFFF"
    )


def weights_text(version: str, found: Mapping[str, Mapping[int, str]]) -> str:
    """Return the file that holds characters' weights, by collation."""
    blocks = ["\n".join([name, *(_weights_line(first, last, found[name]) for first, last in RANGES)]) for name in UCA]
    return _WEIGHTS_HEAD.format(version=version) + "\n" + "\n\n".join(blocks) + "\n"


def _weights_line(first: int, last: int, found: Mapping[int, str]) -> str:
    words = [found[code] or "-" for code in range(first, last + 1)]
    runs = [(word if len(word) <= _MOST_DIGITS else "?", len(list(same))) for word, same in groupby(words)]
    return f"{first:x}: " + " ".join(word if times == 1 else f"{word}*{times}" for word, times in runs)


def main() -> None:
    """Start a server, ask it, write the files."""
    from tests.mysql_server import MySqlServer, mysql_version

    with tempfile.TemporaryDirectory() as folder, MySqlServer(Path(folder), server_id=1) as server:
        listed = [Listed(*row) for row in server.query(QUERY)]
        found = {name: dict[int, str](server.query(weights_query(name))) for name in UCA}
    WEIGHTS.write_text(weights_text(mysql_version().split("-")[0], found))
    TABLE.write_text(table_text(mysql_version().split("-")[0], listed))


if __name__ == "__main__":
    main()
