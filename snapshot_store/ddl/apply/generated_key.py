"""The generated invisible primary key: my_row_id, which a server adds to a table of InnoDB without a key.

It is known by its looks alone (mysql-server `sql/sql_gipk.cc`): a table that was created with such a column by hand
has one too, in any session. While it is one, it stays the first column, whatever is put FIRST.
"""

from collections.abc import Sequence

from snapshot_store.ddl.actions import (
    Action,
    ChangeColumn,
    DropColumn,
    DropConstraint,
    RenameColumn,
    SetDefault,
    SetPartitioning,
)
from snapshot_store.ddl.resolve import Context
from snapshot_store.ddl.specs import KeySpec
from snapshot_store.ddl.validate.keys import row_key
from snapshot_store.model import Column, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType

_NAME = "my_row_id"
ROW_ID = Column(_NAME, ColumnType("bigint", unsigned=True), nullable=False, auto_increment=True, invisible=True)
ROW_ID_KEY = KeySpec("primary", "PRIMARY", (IndexPart(_NAME),))


def generates_key(context: Context, table: Table) -> bool:
    """Return whether a server adds the key to a new table. Raises DdlRejected where it would, and cannot."""
    if not context.session.generate_invisible_primary_key or table.engine != "InnoDB" or row_key(table) is not None:
        return False
    context.limit(not table.partitioning, "a partitioned table gets no invisible primary key")
    context.limit(table.index_of(_NAME) is None, f"column {_NAME} of the invisible primary key exists already")
    counted = any(column.auto_increment for column in table.columns)
    context.limit(not counted, "an invisible primary key beside an AUTO_INCREMENT column")
    return True


def has_generated_key(table: Table) -> bool:
    """Return whether the first column of a table is what a server takes for its generated key."""
    first, key = table.columns[0], table.primary_key
    if not first.same_name(_NAME) or key is None or [p.column for p in key.parts] != [first.name]:
        return False
    made = first.type.name == "bigint" and first.type.unsigned and not first.nullable
    return made and first.auto_increment and first.invisible and table.engine == "InnoDB" and not table.partitioning


def with_key_first(before: Table, engine: str, dropped: bool, columns: list[Column]) -> list[Column]:
    """Return a table's columns after an ALTER, with the generated key that it had, and keeps, in front."""
    if dropped or engine != "InnoDB" or not has_generated_key(before):
        return columns
    kept = [column for column in columns if column.same_name(_NAME)]
    return [*kept, *(column for column in columns if not column.same_name(_NAME))]


def check_generated_key(context: Context, table: Table, actions: Sequence[Action]) -> None:
    """Raise DdlRejected for what no statement may do to a generated key but to drop, show or hide it."""
    if not has_generated_key(table):
        return
    gone = any(isinstance(a, DropColumn) and a.name.lower() == _NAME for a in actions)
    for action in actions:
        wrong = isinstance(action, RenameColumn | ChangeColumn) and action.old.lower() == _NAME
        if isinstance(action, ChangeColumn):
            wrong = wrong and not _harmless(action)
        wrong = wrong or (isinstance(action, SetDefault) and action.name.lower() == _NAME)
        context.limit(not wrong, f"column {_NAME} is a generated invisible primary key, and is not to be altered")
        key = isinstance(action, DropConstraint) and action.kind == "index" and action.name.upper() == "PRIMARY"
        context.limit(not key or gone, f"the generated primary key goes only with its column {_NAME}")
        parted = isinstance(action, SetPartitioning) and action.spec is not None
        context.limit(not parted or gone, "a table with a generated invisible primary key is not to be partitioned")


def _harmless(change: ChangeColumn) -> bool:
    """Return whether MODIFY leaves the generated key what it is, and where it is, but for being invisible."""
    new, moved = change.column, change.position is not None and change.position.after is not None
    same = new.type.type.name == "bigint" and new.type.type.unsigned and new.auto_increment
    return same and not moved and new.name.lower() == _NAME


def check_key_left(context: Context, before: Table, table: Table) -> None:
    """Raise DdlRejected for an ALTER that takes a table's last key, in a session that would have generated one."""
    session = context.session
    wanted = session.generate_invisible_primary_key and table.engine == "InnoDB" and row_key(before) is not None
    context.limit(not wanted or row_key(table) is not None, f"table {table.name} would have no key for its rows")
