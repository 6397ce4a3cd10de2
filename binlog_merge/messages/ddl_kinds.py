"""What kind of statement a DDL is, in the words of canal and TiCDC's simple protocol, and as TiDB's number."""

from typing import Final

from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl import statements as st
from snapshot_store.errors import SnapshotStoreError

_NUMBERS: Final = {
    "create-schema": 1, "drop-schema": 2, "create-table": 3, "drop-table": 4, "add-column": 5, "drop-column": 6,
    "add-index": 7, "drop-index": 8, "truncate": 11, "modify-column": 12, "rename": 14, "alter": 54, "none": 0,
}  # fmt: skip
"""pingcap/tidb's ActionType; an ALTER of several actions is MultiSchemaChange."""
_CANAL: Final = {
    "create-table": "CREATE", "drop-table": "ERASE", "truncate": "TRUNCATE", "rename": "RENAME", "add-index": "CINDEX",
    "drop-index": "DINDEX", "add-column": "ALTER", "drop-column": "ALTER", "modify-column": "ALTER", "alter": "ALTER",
}  # fmt: skip
_ACTIONS: Final = {
    "AddColumn": "add-column", "DropColumn": "drop-column", "ChangeColumn": "modify-column",
    "AddConstraint": "add-index", "DropConstraint": "drop-index",
}  # fmt: skip


def kind_of_ddl(ddl: ParsedDdl) -> str:
    """Return what a statement does: create-table, add-column, …; `none` for what is not understood."""
    try:
        statement = ddl.statement
    except SnapshotStoreError:
        return "none"
    if isinstance(statement, st.RenameTables):
        return "rename"
    if isinstance(statement, st.CreateTable | st.CreateTableLike):
        return "create-table"
    if isinstance(statement, st.DropTables):
        return "drop-table"
    if isinstance(statement, st.TruncateTable):
        return "truncate"
    if isinstance(statement, st.AlterTable):
        return _alter(statement)
    return {st.CreateSchema: "create-schema", st.DropSchema: "drop-schema"}.get(type(statement), "none")


def _alter(statement: "st.AlterTable") -> str:
    kinds = {type(action).__name__ for action in statement.actions}
    if kinds == {"RenameTo"}:
        return "rename"
    return _ACTIONS.get(kinds.pop(), "alter") if len(kinds) == 1 else "alter"


def canal_kind(ddl: ParsedDdl) -> str:
    """Return canal's event type of a statement; QUERY for what is none of a table."""
    return _CANAL.get(kind_of_ddl(ddl), "QUERY")


def tidb_number(ddl: ParsedDdl) -> int:
    """Return TiDB's number of what a statement does, 0 if it has none."""
    return _NUMBERS[kind_of_ddl(ddl)]
