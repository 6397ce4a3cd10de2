"""Write `snapshot_store/mysql/text/collation_table.py` from a real server: `.venv/bin/python -m tools.collations`.

Asks a MySQL under build/mysql, started for this alone, for information_schema.COLLATIONS and CHARACTER_SETS. A test
asks too, and compares.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "snapshot_store" / "mysql" / "text" / "collation_table.py"
QUERY = """
SELECT id, collation_name, character_set_name, is_default = 'Yes', maxlen
FROM information_schema.collations JOIN information_schema.character_sets USING (character_set_name)
"""
_HEAD = '''"""The character sets and collations of MySQL {version}. Made from a server by `python -m tools.collations`.

Character set: greatest length of a character in bytes, then `id:collation` without the character set's own name, the
default collation first.
"""

from typing import Final

COLLATION_TABLE: Final[dict[str, tuple[int, str]]] = {{
'''
_WIDTH = 108


class Listed(NamedTuple):
    """A collation as a server lists it."""

    id: int
    name: str
    charset: str
    default: bool
    max_bytes: int


def table_text(version: str, listed: Iterable[Listed]) -> str:
    """Return the module that holds these collations."""
    charsets: dict[str, list[Listed]] = {}
    for one in sorted(listed, key=lambda c: (c.charset, not c.default, c.id)):
        charsets.setdefault(one.charset, []).append(one)
    lines = [line for name, found in charsets.items() for line in _entry(name, found)]
    return _HEAD.format(version=version) + "\n".join(lines) + "\n}\n"


def _entry(charset: str, found: list[Listed]) -> Iterator[str]:
    words = [f"{one.id}:{one.name.removeprefix(charset).removeprefix('_')}" for one in found]
    whole = f'    "{charset}": ({found[0].max_bytes}, "{" ".join(words)}"),'
    if len(whole) <= 120:
        yield whole
        return
    yield f'    "{charset}": ('
    yield f"        {found[0].max_bytes},"
    rows = [""]
    for word in words:
        if len(rows[-1]) + len(word) > _WIDTH:
            rows.append("")
        rows[-1] += f"{word} "
    rows[-1] = rows[-1].rstrip()
    yield from (f'        "{row}"' for row in rows[:-1])
    yield f'        "{rows[-1]}",'
    yield "    ),"


def main() -> None:
    """Start a server, ask it, write the module."""
    from tests.mysql_server import MySqlServer, mysql_version

    with tempfile.TemporaryDirectory() as folder, MySqlServer(Path(folder), server_id=1) as server:
        listed = [Listed(*row) for row in server.query(QUERY)]
    TABLE.write_text(table_text(mysql_version().split("-")[0], listed))
    subprocess.run([Path(sys.executable).with_name("ruff"), "check", TABLE], check=True)


if __name__ == "__main__":
    main()
