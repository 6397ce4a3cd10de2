"""What kind of statement a DDL is, in the words of canal and TiCDC's simple protocol, and as TiDB's number."""

from typing import Final

from binlog_merge.filters.ddl import actions_of
from snapshot_store.ddl import ParsedDdl
from snapshot_store.errors import SnapshotStoreError

MULTI: Final = "ActionMultiSchemaChange"
"""TiDB's name of an ALTER of several actions."""

_NUMBERS: Final = {
    "ActionCreateSchema": 1, "ActionDropSchema": 2, "ActionCreateTable": 3, "ActionDropTable": 4, "ActionAddColumn": 5,
    "ActionDropColumn": 6, "ActionAddIndex": 7, "ActionDropIndex": 8, "ActionAddForeignKey": 9,
    "ActionDropForeignKey": 10, "ActionTruncateTable": 11, "ActionModifyColumn": 12, "ActionRebaseAutoID": 13,
    "ActionRenameTable": 14, "ActionSetDefaultValue": 15, "ActionModifyTableComment": 17, "ActionRenameIndex": 18,
    "ActionAddTablePartition": 19, "ActionDropTablePartition": 20, "ActionCreateView": 21,
    "ActionModifyTableCharsetAndCollate": 22, "ActionTruncateTablePartition": 23, "ActionDropView": 24,
    "ActionModifySchemaCharsetAndCollate": 26, "ActionAddPrimaryKey": 32, "ActionDropPrimaryKey": 33,
    "ActionAlterIndexVisibility": 41, "ActionExchangeTablePartition": 42, "ActionAddCheckConstraint": 43,
    "ActionDropCheckConstraint": 44, "ActionAlterCheckConstraint": 45, "ActionRenameTables": 47, MULTI: 61,
    "ActionReorganizePartition": 64, "ActionAlterTablePartitioning": 71, "ActionRemovePartitioning": 72,
}  # fmt: skip
"""pingcap/tidb's ActionType (`pkg/parser/model/ddl.go`)."""

_CANAL: Final = {
    "ActionCreateTable": "CREATE", "ActionDropTable": "ERASE", "ActionTruncateTable": "TRUNCATE",
    "ActionRenameTable": "RENAME", "ActionRenameTables": "RENAME", "ActionAddIndex": "CINDEX",
    "ActionAddForeignKey": "CINDEX", "ActionAddPrimaryKey": "CINDEX", "ActionDropIndex": "DINDEX",
    "ActionDropForeignKey": "DINDEX", "ActionDropPrimaryKey": "DINDEX", "ActionCreateSchema": "QUERY",
    "ActionDropSchema": "QUERY", "ActionModifySchemaCharsetAndCollate": "QUERY", "ActionCreateView": "QUERY",
    "ActionDropView": "QUERY",
}  # fmt: skip
"""Where it is not ALTER: pingcap/tiflow, `convertDdlEventType` of canal-json, `getDDLType` of the simple protocol."""

CREATES: Final = ("ActionCreateTable",)
RENAMES: Final = ("ActionRenameTable", "ActionRenameTables")


def action_of(ddl: ParsedDdl) -> str:
    """Return TiDB's name of what a statement does, "" if it does nothing to tables or is not understood."""
    actions = _actions(ddl)
    return actions[0] if len(actions) == 1 else MULTI if actions else ""


def _actions(ddl: ParsedDdl) -> tuple[str, ...]:
    return () if isinstance(ddl.result, SnapshotStoreError) else actions_of(ddl.result)


def canal_kind(ddl: ParsedDdl) -> str:
    """Return canal's event type of a statement: what all its actions are, else ALTER; QUERY if it is about no table."""
    kinds = {_CANAL.get(action, "ALTER") for action in _actions(ddl)} or {"QUERY"}
    return kinds.pop() if len(kinds) == 1 else "ALTER"


def tidb_number(ddl: ParsedDdl) -> int:
    """Return TiDB's number of what a statement does, 0 if it has none."""
    return _NUMBERS.get(action_of(ddl), 0)
