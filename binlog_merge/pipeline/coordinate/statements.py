"""The subject of a DDL statement, as far as the merge must know it before applying the statement; and statements that
are not part of the output: counted by kind and reason, the first of each listed in full.

Statements that name tables of databases that are left out, beside tables that come out: cut to what concerns us.

    DROP TABLE a.x, idle.z                        drops a.x
    RENAME TABLE a.x TO a.y, idle.z TO idle.w     renames a.x to a.y
    RENAME TABLE idle.z TO a.z                    stays, since a table comes into the output

A table of such a database is known if it came there by a statement that was applied (RENAME TABLE a.x TO idle.x). It is
then followed like any other, so that its name can be taken again and it can come back.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.effects import Effects, Name, Verb, effects_of, renamed_columns
from snapshot_store.ddl.statements import (
    AlterSchema,
    CreateSchema,
    DropSchema,
    DropTables,
    DropViews,
    RenameTables,
    Statement,
)
from snapshot_store.errors import SnapshotStoreError


def is_schema_ddl(ddl: ParsedDdl) -> bool:
    """Return whether a statement creates, alters or drops a database: it must not run with that database as default."""
    return isinstance(ddl.result, CreateSchema | AlterSchema | DropSchema)


@dataclass(frozen=True, slots=True)
class Subject:
    """The tables and databases of a statement.

    `changed` are the tables that it changes. `dropped` is the database that it drops with all its tables. `renamed` are
    tables that get another name, or whose columns do: foreign keys of other tables follow. `parsed`: the whole
    statement was parsed; otherwise only its beginning.
    """

    tables: tuple[Name, ...] = ()
    schemas: tuple[str, ...] = ()
    dropped: str | None = None
    renamed: tuple[Name, ...] = ()
    parsed: bool = True
    changed: tuple[Name, ...] = ()


def subject_of(ddl: ParsedDdl, schema: str | None) -> Subject:
    """Return the subject of a statement; `schema` is the database it runs in."""
    statement = ddl.result
    if isinstance(statement, SnapshotStoreError):
        found = _beginning(ddl.sql, schema)
        return Subject(found, parsed=False, changed=found)
    effects = effects_of(statement, schema or "")
    dropped = [name for name, table in effects.having(Verb.DROP) if not table]
    return Subject(
        tuple(name for name in effects.tables if name[1]),
        tuple(name for name, table in effects.tables if not table),
        dropped[0] if dropped else None,
        _renamed(statement, effects),
        changed=tuple(name for name in effects.changed if name[1]),
    )


def renamed_tables(ddl: ParsedDdl, schema: str | None) -> tuple[tuple[Name, Name], ...]:
    """Return the (old, new) names of the tables that a statement renames; empty if it cannot be parsed."""
    return () if isinstance(ddl.result, SnapshotStoreError) else effects_of(ddl.result, schema or "").moves


def _renamed(statement: Statement, effects: Effects) -> tuple[Name, ...]:
    moved = tuple(name for pair in effects.moves for name in pair)
    if renamed_columns(statement):
        moved += effects.having(Verb.CHANGE)
    return tuple(dict.fromkeys(moved))


_NAME = r"(?:`((?:[^`]|``)+)`|([\w$\u0080-\uffff]+))"
_QUALIFIED = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_SPACE = r"(?:\s|/\*(?!!).*?\*/)"
_ABOUT_A_TABLE = re.compile(
    rf"{_SPACE}*(?:(?:ALTER|CREATE|TRUNCATE){_SPACE}+(?:[A-Z_]+{_SPACE}+){{0,3}}?TABLE{_SPACE}+"
    rf"(?:IF{_SPACE}+(?:NOT{_SPACE}+)?EXISTS{_SPACE}+)?"
    rf"|(?:CREATE|DROP){_SPACE}+(?:[A-Z_]+{_SPACE}+)?INDEX{_SPACE}+{_NAME}{_SPACE}+(?:USING{_SPACE}+\w+{_SPACE}+)?ON{_SPACE}+)"
    + _QUALIFIED,
    re.IGNORECASE | re.DOTALL,
)


def _beginning(sql: str, schema: str | None) -> tuple[Name, ...]:
    """Return the table that an unparsable statement changes, from its first words; empty unless these name a single
    table.
    """
    match = _ABOUT_A_TABLE.match(sql)
    if match is None:
        return ()
    parts = [
        quoted.replace("``", "`") if quoted is not None else plain
        for quoted, plain in (match.groups()[i : i + 2] for i in (2, 4))
        if quoted is not None or plain is not None
    ]
    if len(parts) == 1:
        parts.insert(0, schema or "")
    return ((parts[0], parts[1]),) if all(parts) else ()


Item = TypeVar("Item")


def without_left_out(statement: Statement, effects: Effects, left_out: Callable[[Name], bool]) -> Statement:
    """Return a DROP or RENAME without the tables that are left out and unknown; any other statement as it is.

    `left_out` tells of a name before the statement.
    """
    match statement:
        case DropTables(tables=tables):
            return replace(statement, tables=_kept(tables, (i for i, e in enumerate(effects.all) if left_out(e.table))))
        case DropViews(views=views):
            return replace(statement, views=_kept(views, (i for i, e in enumerate(effects.all) if left_out(e.table))))
        case RenameTables(pairs=pairs):
            return replace(statement, pairs=_kept(pairs, _renamed_elsewhere(effects, left_out)))
    return statement


def _renamed_elsewhere(effects: Effects, left_out: Callable[[Name], bool]) -> Iterable[int]:
    """Return which renames are of tables that have none but left out names, from the first to the last."""
    renames: dict[Name, list[int]] = {}  # by current name
    names: dict[Name, list[Name]] = {}
    for i, (old, new) in enumerate(effects.moves):
        renames[new] = [*renames.pop(old, []), i]
        names[new] = [*names.pop(old, [old]), new]
    return [i for now, found in renames.items() if all(map(left_out, names[now])) for i in found]


def _kept(items: tuple[Item, ...], cut: Iterable[int]) -> tuple[Item, ...]:
    gone = frozenset(cut)
    return tuple(item for i, item in enumerate(items) if i not in gone)


LEFT_OUT_DATABASES: Final = "of databases that do not come out"
PARTLY_LEFT_OUT: Final = "in part: tables of databases that do not come out"
NO_TABLE: Final = "changes no table"
NO_EFFECT: Final = "does nothing: what it says IF EXISTS or IF NOT EXISTS of was not so"
VIEW: Final = "views do not come out: make them at the target"
UNKNOWN_TABLE: Final = "of a table that is not known"
ON_DISK: Final = "says where a server's files are"

LISTED: Final = 20
"""How many statements of each kind and reason are listed with their positions; all are counted."""
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class NotCarried:
    """A statement that is not part of the output: its position, its kind, and the reason."""

    node: str
    file: str
    position: int
    sql: str
    kind: str
    why: str


@dataclass
class Listing:
    """All such statements of a run. However many there are, only the first of each kind and reason stay in memory."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    listed: dict[tuple[str, str], list[NotCarried]] = field(default_factory=dict)

    def add(self, statements: Iterable[NotCarried]) -> None:
        """Add statements, in the order of each node."""
        for statement in statements:
            group = (statement.kind, statement.why)
            self.counts[group] = self.counts.get(group, 0) + 1
            if len(listed := self.listed.setdefault(group, [])) < LISTED:
                listed.append(statement)

    def count_more(self, kind: str, why: str, count: int) -> None:
        """Add statements that are counted only."""
        if count:
            self.counts[kind, why] = self.counts.get((kind, why), 0) + count

    @property
    def count(self) -> int:
        """Return the number of statements."""
        return sum(self.counts.values())

    def to_list(self) -> list[dict[str, Any]]:
        """Return plain values, one entry for each kind and reason."""
        return [
            {
                "kind": kind,
                "why": why,
                "count": count,
                "first": [
                    {"node": s.node, "file": s.file, "position": s.position, "sql": s.sql[:_LONGEST]}
                    for s in self.listed.get((kind, why), ())
                ],
            }
            for (kind, why), count in sorted(self.counts.items())
        ]


def kind_of(ddl: ParsedDdl) -> str:
    """Return the words that name a statement's kind, such as CREATE TABLE."""
    match ddl.result:
        case SnapshotStoreError():
            return " ".join(ddl.sql.split()[:2]).upper()
        case st.Ignored(what=what):
            return what
        case st.AlterTable(kind=kind):
            return kind
        case st.CreateView(must_exist=True):
            return "ALTER VIEW"
    return _KINDS[type(ddl.result)]


_KINDS: Final[dict[type, str]] = {
    st.CreateTable: "CREATE TABLE",
    st.CreateTableLike: "CREATE TABLE",
    st.DropTables: "DROP TABLE",
    st.RenameTables: "RENAME TABLE",
    st.TruncateTable: "TRUNCATE TABLE",
    st.CreateSchema: "CREATE DATABASE",
    st.AlterSchema: "ALTER DATABASE",
    st.DropSchema: "DROP DATABASE",
    st.CreateView: "CREATE VIEW",
    st.DropViews: "DROP VIEW",
}
