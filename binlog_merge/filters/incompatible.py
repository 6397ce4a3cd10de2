"""DM's event types for an ALTER TABLE that loses something: the first action that does decides.

    MODIFY c SMALLINT            of a MEDIUMINT: value range decrease
    MODIFY c DECIMAL(7,1)        of a DECIMAL(7,2): precision decrease
    CHANGE a b INT               rename column

Source: pingcap/tiflow `dm/syncer/ddl.go` (AstToDDLEvent, handleModifyColumn, needChangeColumnData). Like it, a column
changed without repeating its UNIQUE or PRIMARY KEY counts as losing it, although MySQL keeps the key.
"""

from typing import Final

from binlog_merge.filters.ddl import events_of
from snapshot_store.ddl import DdlSession
from snapshot_store.ddl import actions as act
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.effects import Change, change_of
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.resolve import Context, resolve_column
from snapshot_store.ddl.specs import ColumnSpec, KeySpec
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import AS_CHARACTERS, MEMBERS, ColumnType, Family

_STRINGS: Final = frozenset({Family.TEXT, Family.BYTES})


def event_type(ddl: ParsedDdl, table: Table | None, schema: str = "") -> str:
    """Return DM's event type of a statement; `table` is the table before it, if known.

    "" for a statement that changes no table. Raises DdlNotUnderstood.
    """
    statement = ddl.statement
    if isinstance(statement, st.AlterTable) and statement.kind == "ALTER TABLE":
        return _alter(statement, table, ddl.session)
    events = events_of(ddl, schema)
    if not events:
        return ""
    kind = events[0].kind
    return "alter database" if kind == "modify schema charset and collate" else kind


def _alter(statement: st.AlterTable, table: Table | None, session: DdlSession) -> str:
    for action in statement.actions:
        if isinstance(action, act.ChangeColumn):
            return _changed(action, table, session)
        if found := _LOST.get(change_of(action)):
            return found
    return "alter table"


_LOST: Final = {
    Change.RENAME_COLUMN: "rename column",
    Change.RENAME_INDEX: "rename index",
    Change.RENAME_TABLE: "rename table",
    Change.DROP_COLUMN: "drop column",
    Change.DROP_PRIMARY_KEY: "drop primary key",
    Change.DROP_INDEX: "drop index",
    Change.SET_DEFAULT: "modify default value",
    Change.ADD_PRIMARY_KEY: "modify constraint",
    Change.ADD_INDEX: "modify constraint",
    Change.ADD_FOREIGN_KEY: "modify constraint",
    Change.ADD_CHECK: "modify constraint",
    Change.CHARSET: "modify charset",
    Change.COLLATION: "modify collation",
    Change.ENGINE: "modify storage engine",
    Change.DROP_PARTITION: "drop table partition",
    Change.TRUNCATE_PARTITION: "truncate table partition",
    Change.REORGANIZE_PARTITION: "reorganize table partition",
    Change.REBUILD_PARTITION: "rebuild table partition",
    Change.COALESCE_PARTITION: "coalesce table partition",
    Change.EXCHANGE_PARTITION: "exchange table partition",
}


def _changed(action: act.ChangeColumn, table: Table | None, session: DdlSession) -> str:
    old_place = None if table is None else table.index_of(action.old)
    if table is None or old_place is None:
        return "alter table"
    old, new = table.columns[old_place], _resolved(action.column, table, session)
    if new is None:
        return "alter table"
    if found := _narrowed(old, new):
        return found
    if old.auto_increment and not new.auto_increment:
        return "remove auto increment"
    keys = {c.kind for c in action.column.constraints if isinstance(c, KeySpec)}
    if _is_key(table, old, "PRIMARY") and "primary" not in keys:
        return "drop primary key"
    if _is_key(table, old, "") and "unique" not in keys:
        return "drop unique key"
    if old.default != new.default:
        return "modify default value"
    if (old.type.charset or "") != (new.type.charset or ""):
        return "modify charset"
    if (old.type.collation or "") != (new.type.collation or ""):
        return "modify collation"
    if action.position is not None:
        return "modify columns order"
    return "rename column" if old.name.lower() != new.name.lower() else "alter table"


def _resolved(spec: ColumnSpec, table: Table, session: DdlSession) -> Column | None:
    try:
        return resolve_column(Context("", session, table.schema), spec, (table.charset, table.collation))
    except SnapshotStoreError:
        return None


def _is_key(table: Table, column: Column, name: str) -> bool:
    """Return whether a column is in the primary key, or (no name) is a unique key of its own."""
    for index in table.indexes:
        own = [part.column for part in index.parts if part.column is not None and column.same_name(part.column)]
        if name and index.name == name and own:
            return True
        if not name and index.unique and index.name != "PRIMARY" and own and len(index.parts) == 1:
            return True
    return False


def _narrowed(old: Column, new: Column) -> str:
    """Return DM's event type for what a change of type loses, "" for nothing."""
    before, after = old.type, new.type
    sign = before.unsigned != after.unsigned
    shorter = _size(after) < _size(before) or after.fsp < before.fsp or sign
    if _code(before) == _code(after):
        if before.family is Family.DECIMAL:
            same = (before.length, before.decimals) == (after.length, after.decimals)
            return "" if same and not sign else "precision decrease"
        if before.family in MEMBERS:
            kept = after.members[: len(before.members)] == before.members
            return "" if kept else "value range decrease"
        if before.family is Family.INTEGER:
            return "precision decrease" if sign else ""
        if _code(before) == "char":
            binary = before.name == "binary" and before.length != after.length
            return "precision decrease" if binary else ""
        return "value range decrease" if shorter else ""
    if before.family is after.family is Family.INTEGER:
        return "value range decrease" if after.facts.size < before.facts.size or sign else ""
    strings = before.family in _STRINGS and after.family in _STRINGS
    if strings and not (before.is_sized and after.is_sized):
        return "modify column" if shorter else ""
    return "modify column"


def _code(type: ColumnType) -> str:
    """Return the storage type: byte and character types share one."""
    if type.is_lob:
        return f"text of {type.facts.counter}"
    return AS_CHARACTERS.get(type.name, type.name)


def _size(type: ColumnType) -> int:
    """Return the capacity of a type, comparable within a family of types."""
    if type.family is Family.FLOAT:
        return (type.length or 0) + (type.decimals or 0)
    return type.facts.most_bytes or type.length or 0
