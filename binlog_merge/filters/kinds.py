"""The names of events: TiCDC's and DM's kinds of rows and statements, and TiDB's names of DDL jobs.

Source: pingcap/tiflow `pkg/binlog-filter`, `pkg/filter/filter.go`, `cdc/owner/ddl_manager.go`.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from binlog_merge.errors import ConfigError

DML: Final = frozenset({"insert", "update", "delete"})

ACTIONS: Final[dict[str, str]] = {
    "ActionCreateSchema": "create database",
    "ActionDropSchema": "drop database",
    "ActionModifySchemaCharsetAndCollate": "modify schema charset and collate",
    "ActionCreateTable": "create table",
    "ActionCreateTables": "create table",
    "ActionDropTable": "drop table",
    "ActionTruncateTable": "truncate table",
    "ActionRenameTable": "rename table",
    "ActionRenameTables": "rename table",
    "ActionRecoverTable": "recover table",
    "ActionModifyTableComment": "modify table comment",
    "ActionModifyTableCharsetAndCollate": "modify table charset and collate",
    "ActionCreateView": "create view",
    "ActionDropView": "drop view",
    "ActionAddTablePartition": "add table partition",
    "ActionDropTablePartition": "drop table partition",
    "ActionTruncateTablePartition": "truncate table partition",
    "ActionExchangeTablePartition": "exchange table partition",
    "ActionReorganizePartition": "reorganize table partition",
    "ActionAlterTablePartitioning": "alter table partitioning",
    "ActionRemovePartitioning": "remove table partitioning",
    "ActionAddColumn": "add column",
    "ActionAddColumns": "add column",
    "ActionDropColumn": "drop column",
    "ActionDropColumns": "drop column",
    "ActionModifyColumn": "modify column",
    "ActionSetDefaultValue": "set default value",
    "ActionRebaseAutoID": "rebase auto id",
    "ActionAddPrimaryKey": "add primary key",
    "ActionDropPrimaryKey": "drop primary key",
    "ActionAddIndex": "create index",
    "ActionDropIndex": "drop index",
    "ActionRenameIndex": "rename index",
    "ActionAlterIndexVisibility": "alter index visibility",
    "ActionAddForeignKey": "add foreign key",
    "ActionDropForeignKey": "drop foreign key",
    "ActionAlterTTLInfo": "alter ttl info",
    "ActionAlterTTLRemove": "alter ttl remove",
    "ActionMultiSchemaChange": "multi schema change",
}
"""The DDL allow-list: the actions that may reach a target, with their kinds. All others are discarded."""

MYSQL_ACTIONS: Final = frozenset(
    {"ActionAddCheckConstraint", "ActionDropCheckConstraint", "ActionAlterCheckConstraint", "ActionAlterTable"}
)
"""MySQL's table actions that TiCDC does not know: allowed here, with the kind `alter table`."""

SCHEMA_KINDS: Final = frozenset({"create database", "drop database", "modify schema charset and collate"})
"""Statements about a whole database."""

ALTER_TABLE_KINDS: Final = (
    frozenset(ACTIONS.values())
    - SCHEMA_KINDS
    - {
        "create table",
        "drop table",
        "truncate table",
        "recover table",
        "create view",
        "drop view",
        "add foreign key",
        "drop foreign key",
    }
)
"""What `alter table` in ignore-event stands for: not foreign keys (pingcap/tiflow `pkg/filter/utils.go`)."""

_ALIASES: Final = {"create schema": "create database", "drop schema": "drop database", "alter schema": "alter database"}

IGNORE_EVENTS: Final = frozenset(
    {"all dml", "all ddl", *DML, "alter table", "create schema", "drop schema", *ACTIONS.values()}
)
"""The words of TiCDC's ignore-event."""

_COMPATIBLE: Final = frozenset(
    {
        "create database",
        "alter database",
        "alter schema",
        "create table",
        "create index",
        "create view",
        "drop view",
        "alter table",
        "create schema",
        "add table partition",
    }
)
INCOMPATIBLE: Final = (frozenset(ACTIONS.values()) - _COMPATIBLE) | {
    "value range decrease",
    "precision decrease",
    "rename column",
    "drop unique key",
    "modify default value",
    "modify constraint",
    "modify columns order",
    "modify charset",
    "modify collation",
    "remove auto increment",
    "modify storage engine",
    "rebuild table partition",
    "coalesce table partition",
    "split table partition",
    "drop schema",
}
"""DM's `incompatible ddl changes`: after these, an older schema can no longer take the rows."""

_GROUPS: Final = frozenset(
    {"all", "all ddl", "all dml", "none", "none ddl", "none dml", "incompatible ddl changes", ""}
)

TABLE_BARRIER_ACTIONS: Final = frozenset(ACTIONS) - {
    "ActionCreateSchema",
    "ActionDropSchema",
    "ActionModifySchemaCharsetAndCollate",
    "ActionCreateTable",
    "ActionCreateTables",
    "ActionRenameTable",
    "ActionRenameTables",
    "ActionExchangeTablePartition",
    "ActionAddForeignKey",
    "ActionDropForeignKey",
    "ActionAddColumns",
    "ActionDropColumns",
}
"""DDL that blocks only its own table."""


def canonical_kind(text: str) -> str:
    """Return DM's event type for a word in any case, aliases resolved. Raises ConfigError for an unknown one."""
    word = text.lower()
    if word in _ALIASES:
        return _ALIASES[word]
    if word in _GROUPS or word in DML or word in _COMPATIBLE or word in INCOMPATIBLE:
        return word
    raise unknown_kind(text, _GROUPS | DML | _COMPATIBLE | INCOMPATIBLE)


def class_of(kind: str) -> str:
    """Return "dml", "ddl", "incompatible DDL" or "" for an event type. Raises ConfigError for an unknown one."""
    if kind == "":
        return ""
    if kind in DML:
        return "dml"
    if kind in INCOMPATIBLE:
        return "incompatible DDL"
    if kind in _COMPATIBLE:
        return "ddl"
    raise unknown_kind(kind, DML | _COMPATIBLE | INCOMPATIBLE)


def unknown_kind(text: str, known: Iterable[str]) -> ConfigError:
    """Return an error that names the nearest known word."""
    close = get_close_matches(text.lower(), sorted(word for word in known if word), n=1, cutoff=0.6)
    hint = f"did you mean '{close[0]}'?" if close else "see docs/how-to/filters.md for the event types"
    return ConfigError(f"unknown event type '{text}'; {hint}", remedy="correct the filter; nothing was run")
