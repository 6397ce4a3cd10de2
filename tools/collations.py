"""Write `snapshot_store/mysql/text/collations.txt` from a real server: `.venv/bin/python -m tools.collations`.

Asks a MySQL under build/mysql, started for this alone, for information_schema.COLLATIONS and CHARACTER_SETS. A test
asks too, and compares.
"""

import tempfile
from collections.abc import Iterable
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


def main() -> None:
    """Start a server, ask it, write the file."""
    from tests.mysql_server import MySqlServer, mysql_version

    with tempfile.TemporaryDirectory() as folder, MySqlServer(Path(folder), server_id=1) as server:
        listed = [Listed(*row) for row in server.query(QUERY)]
    TABLE.write_text(table_text(mysql_version().split("-")[0], listed))


if __name__ == "__main__":
    main()
