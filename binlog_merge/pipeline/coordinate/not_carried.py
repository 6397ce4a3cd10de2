"""Statements of nodes that do not come out, by kind and reason: counted, and the first of each kind with its place."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl import statements as st
from snapshot_store.errors import SnapshotStoreError

LEFT_OUT_DATABASES: Final = "of databases that do not come out"
NO_TABLE: Final = "changes no table"
VIEW: Final = "views do not come out: make them at the target"
UNKNOWN_TABLE: Final = "of a table that is not known"
ON_DISK: Final = "says where a server's files are"

LISTED: Final = 20
"""How many statements of a kind are listed with their places; all are counted."""
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class NotCarried:
    """One such statement, where it stands, what it is, and why it does not come out."""

    node: str
    file: str
    position: int
    sql: str
    kind: str
    why: str


@dataclass
class Listing:
    """All of a run's, as much of each kind as is told: however many there are, memory holds a few."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    listed: dict[tuple[str, str], list[NotCarried]] = field(default_factory=dict)

    def add(self, statements: Iterable[NotCarried]) -> None:
        """Take in statements, in the order of each node."""
        for one in statements:
            of = (one.kind, one.why)
            self.counts[of] = self.counts.get(of, 0) + 1
            if len(found := self.listed.setdefault(of, [])) < LISTED:
                found.append(one)

    @property
    def count(self) -> int:
        """Return how many there are."""
        return sum(self.counts.values())

    def to_list(self) -> list[dict[str, Any]]:
        """Return plain values, one for each kind and reason."""
        return [
            {
                "kind": kind,
                "why": why,
                "count": count,
                "first": [
                    {"node": one.node, "file": one.file, "position": one.position, "sql": one.sql[:_LONGEST]}
                    for one in self.listed[kind, why]
                ],
            }
            for (kind, why), count in sorted(self.counts.items())
        ]


def kind_of(ddl: ParsedDdl) -> str:
    """Return the words that say what a statement is."""
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
