"""Statements of nodes that are not part of the output: counted by kind and reason, the first of each listed in full."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl import statements as st
from snapshot_store.errors import SnapshotStoreError

LEFT_OUT_DATABASES: Final = "of databases that do not come out"
PARTLY_LEFT_OUT: Final = "in part: tables of databases that do not come out"
NO_TABLE: Final = "changes no table"
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
