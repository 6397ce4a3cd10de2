"""The statements of fixtures/ddl, and the session they run in.

A file is what the mysql client takes, with two simplifications: a statement ends where a line ends with the delimiter,
and comment lines before a statement are not part of it. A line `-- refused: …` says that a server refuses the next
statement, and with which words; `-- not followed: …`, that the server takes it and we say that we do not understand it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from snapshot_store.ddl import DdlSession
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE, SQL_MODES
from snapshot_store.mysql.text.charsets import charset_named_by

ROOT = Path(__file__).resolve().parents[3] / "fixtures" / "ddl"
FILES = sorted(path.stem for path in ROOT.glob("*.sql"))
DEFAULTS = DdlSession(sql_mode=DEFAULT_SQL_MODE, validate=True)


@dataclass(frozen=True, slots=True)
class CorpusStatement:
    """One statement, what is said of it, and the session it runs in."""

    sql: str
    line: int
    refused: str
    not_followed: str
    database: str | None
    session: DdlSession

    @property
    def is_session_setting(self) -> bool:
        """Tell whether the statement only changes the session."""
        return bool(_SET.match(self.sql) or _USE.match(self.sql))


def statements(name: str) -> Iterator[CorpusStatement]:
    """Yield the statements of a file."""
    session, database = DEFAULTS, None
    for sql, line, remarks in _cut((ROOT / f"{name}.sql").read_text()):
        refused = remarks.get("refused", "")
        if not refused and (used := _USE.match(sql)):
            database = used[1]
        yield CorpusStatement(sql, line, refused, remarks.get("not followed", ""), database, session)
        if not refused:
            session = _after_set(sql, session)
        if (dropped := _DROP_DATABASE.match(sql)) and not refused and dropped[1] == database:
            database = None


_USE = re.compile(r"USE (\w+)$")
_SET = re.compile(r"SET (?:SESSION )?(\w+) = ([^;]*)$")
_DROP_DATABASE = re.compile(r"DROP (?:DATABASE|SCHEMA) (?:IF EXISTS )?(\w+)$")
_REMARK = re.compile(r"-- (refused|not followed): (.*)")


def _cut(text: str) -> Iterator[tuple[str, int, dict[str, str]]]:
    delimiter, lines, start = ";", list[str](), 0
    remarks: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not lines:
            if line.startswith("DELIMITER "):
                delimiter = line.split()[1]
                continue
            if remark := _REMARK.fullmatch(line):
                remarks[remark[1]] = remark[2]
            if not line.strip() or line.startswith("-- ") or line.strip() == delimiter:
                continue
            start = number
        lines.append(line)
        if line.endswith(delimiter):
            yield "\n".join(lines)[: -len(delimiter)], start, remarks
            lines, remarks = [], {}
    assert not lines, f"no delimiter after {lines}"


def _after_set(sql: str, session: DdlSession) -> DdlSession:
    found = _SET.match(sql)
    if found is None:
        return session
    for assignment in re.split(r", (?=\w+ = )", sql[found.start(1) :]):
        name, _, value = assignment.partition(" = ")
        session = _with(session, name.lower(), value.strip("'"))
    return session


def _with(session: DdlSession, name: str, value: str) -> DdlSession:
    default = value == "DEFAULT"
    on = value in ("1", "ON")
    if name == "sql_mode":
        names = [mode for mode in value.split(",") if mode]
        return replace(session, sql_mode=DEFAULT_SQL_MODE if default else sum(SQL_MODES[mode] for mode in names))
    if name == "foreign_key_checks":
        return replace(session, foreign_key_checks=default or on)
    if name == "explicit_defaults_for_timestamp":
        return replace(session, explicit_defaults_for_timestamp=default or on)
    if name == "sql_generate_invisible_primary_key":
        return replace(session, generate_invisible_primary_key=on)
    if name == "default_storage_engine":
        return replace(session, default_storage_engine=DEFAULTS.default_storage_engine if default else value)
    if name == "default_collation_for_utf8mb4":
        collation = DEFAULTS.default_collation_for_utf8mb4 if default else value
        return replace(session, default_collation_for_utf8mb4=collation)
    if name == "collation_server":
        collation = DEFAULTS.collation_server if default else value
        return replace(session, collation_server=collation, charset_server=charset_named_by(collation))
    return session
