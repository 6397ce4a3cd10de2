"""Dumps of a MariaDB's tables, as MySQL would print them."""

import re
from collections.abc import Callable
from typing import Final

from binlog_merge.binlog.constants import version_number
from binlog_merge.errors import UnsupportedInput
from binlog_merge.mariadb_nodes.ddl import Meaning, mysql_ddl
from snapshot_store.ddl import split_statements
from snapshot_store.mysql.sql.session import DdlSession

_VERSION: Final = re.compile(r"^-- Server version\s+(\d+\.\d+\.\d+-MariaDB)", re.MULTILINE)
_HEAD: Final = 4096
_SETS_MODE: Final = re.compile(r"^\W*(?:M?!\d*\s*)?SET\b[^;']*\bsql_mode\b", re.IGNORECASE)
"""The modes of the session that a trigger was made in: MySQL does not know all of them."""


def mysql_dump(text: str, note: Callable[[str], None]) -> str:
    """Return what `mariadb-dump --no-data` printed as statements of MySQL, translated as those of a node's log are.

    `note` is told what is lost. Raises UnsupportedInput, DdlNotUnderstood.
    """
    found = _VERSION.search(text[:_HEAD])
    if found is None:
        raise UnsupportedInput(
            "its first lines do not name the server version of a MariaDB",
            remedy="give what `mariadb-dump --no-data --databases …` prints, with its comments",
        )
    session, meaning = DdlSession(), Meaning(version_number(found[1]), {})
    translated: list[str] = []
    for statement in split_statements(text, session):
        if _SETS_MODE.search(statement):
            continue
        made = mysql_ddl(statement, session, meaning)
        translated += map(_ended, made.statements)
        for lost in made.notes:
            note(lost)
    return "".join(translated)


def _ended(statement: str) -> str:
    """Return a statement with an end that is not within it: a trigger has statements of its own."""
    return f"DELIMITER ;;\n{statement} ;;\nDELIMITER ;\n" if ";" in statement else f"{statement};\n"
