"""ALTER TABLE: a list of actions, each with its own small grammar.

Source: rules `alter_list_item` and `standalone_alter_commands` of mysql-server `sql/sql_yacc.yy`.
"""

from snapshot_store.ddl.actions import (
    Action,
    AddColumn,
    AddConstraint,
    ChangeColumn,
    ColumnPosition,
    Convert,
    DropColumn,
    DropConstraint,
    PartitionWork,
    Rebuild,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    SetEnforced,
    SetOptions,
    SetPartitioning,
    SetVisible,
    TableFile,
)
from snapshot_store.ddl.parse.columns import parse_column, parse_default
from snapshot_store.ddl.parse.keys import at_constraint, parse_constraint
from snapshot_store.ddl.parse.options import (
    at_placement,
    at_table_option,
    parse_table_option,
    skip_lock_option,
    skip_move,
)
from snapshot_store.ddl.parse.partitions import at_partition_work, parse_partition_work, parse_tail
from snapshot_store.ddl.specs import Options
from snapshot_store.ddl.statements import AlterTable
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.types import accept_charset, charset_name

_IF_EXISTS = ("IF", "EXISTS")
_IF_NOT_EXISTS = ("IF", "NOT", "EXISTS")


def parse_alter_table(cursor: Cursor) -> AlterTable:
    """Parse what follows ALTER TABLE."""
    exists = cursor.accept_condition("IF", "EXISTS")
    table = cursor.table_name()
    actions: list[Action] = []
    while not cursor.done:
        if actions and at_partition_work(cursor) and cursor.session.validate:
            raise cursor.error("an action on partitions stands alone")
        options = at_table_option(cursor)
        actions += _item(cursor)
        if cursor.accept_symbol(","):
            if cursor.done or (actions and isinstance(actions[-1], PartitionWork | SetPartitioning)):
                raise cursor.error("expected an action")
        # Only options may follow each other without a comma; partitioning may follow anything.
        elif not (
            cursor.done
            or at_placement(cursor)
            or cursor.at("REMOVE", "PARTITIONING")
            or (options and at_table_option(cursor))
        ):
            raise cursor.error("expected a comma")
    return AlterTable(table, tuple(actions), if_exists=exists)


def _item(cursor: Cursor) -> list[Action]:
    """Parse one item of the list, and note where it stands."""
    begin, noted = cursor.place, len(cursor.actions)
    actions = _actions(cursor)
    if len(cursor.actions) == noted:
        cursor.actions += [(begin, cursor.place)] * len(actions)
    cursor.items.append((begin, cursor.place, len(actions)))
    return actions


def _actions(cursor: Cursor) -> list[Action]:
    """Parse one item of the list. ADD (…) is several actions; an item that does not change the definition is none."""
    if at_partition_work(cursor):
        return _partition_work(cursor)
    if word := cursor.accept_one("DISCARD", "IMPORT"):
        cursor.expect("TABLESPACE")
        return [TableFile(word)]
    if cursor.at("FORCE") or cursor.at("ORDER") or cursor.at("ALGORITHM"):
        return _rebuild(cursor)
    if skip_move(cursor) or _skip_inert(cursor):
        return []
    if cursor.accept("REMOVE", "PARTITIONING"):
        return [SetPartitioning(None)]
    if at_placement(cursor):
        spec = parse_tail(cursor)
        return [] if spec is None else [SetPartitioning(spec)]
    options = parse_table_option(cursor, Options())
    if options is not None:
        return [SetOptions(options)]
    if cursor.accept("ADD"):
        return _add(cursor)
    if cursor.accept("DROP"):
        return [_drop(cursor)]
    if word := cursor.accept_one("CHANGE", "MODIFY"):
        cursor.accept("COLUMN")
        return [_change(cursor, word)]
    if cursor.accept("ALTER"):
        return _alter(cursor)
    if cursor.accept("RENAME"):
        return [_rename(cursor)]
    if cursor.accept("CONVERT", "TO"):
        return [_convert(cursor)]
    raise cursor.error("unknown ALTER TABLE action")


def _skip_inert(cursor: Cursor) -> bool:
    """Skip an action that does not change the table's definition, if the next words are one."""
    if cursor.accept("LOCK"):
        skip_lock_option(cursor, "LOCK")
        return True
    if cursor.accept_one("ENABLE", "DISABLE"):
        cursor.expect("KEYS")
        return True
    if cursor.accept_one("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")
        return True
    if cursor.session.server_version < 80000 and cursor.accept("UPGRADE", "PARTITIONING"):
        return True
    return cursor.accept_one("SECONDARY_LOAD", "SECONDARY_UNLOAD") is not None


def _rebuild(cursor: Cursor) -> list[Action]:
    if cursor.accept("FORCE"):
        return [Rebuild()]
    if cursor.accept("ALGORITHM"):
        return [Rebuild()] if skip_lock_option(cursor, "ALGORITHM") == "COPY" else []
    cursor.expect("ORDER", "BY")
    return [Rebuild(_order_by(cursor))]


def _partition_work(cursor: Cursor) -> list[Action]:
    """Parse an action on partitions. If it is not MySQL's syntax, the rest of the statement is skipped."""
    place = cursor.place
    try:
        work = parse_partition_work(cursor)
        if not cursor.done:
            raise cursor.error("an action on partitions stands alone")
    except DdlNotUnderstood:
        if cursor.session.validate:
            raise
        cursor.place = place
        cursor.skip_rest()
        return []
    return [work]


def _order_by(cursor: Cursor) -> tuple[str, ...]:
    names = []
    while True:
        names.append(cursor.name())
        cursor.accept_one("ASC", "DESC")
        if not cursor.accept_symbol(","):
            return tuple(names)


def _add(cursor: Cursor) -> list[Action]:
    if at_constraint(cursor):
        return [_constraint(cursor)]
    cursor.accept("COLUMN")
    conditional = cursor.accept_condition(*_IF_NOT_EXISTS)
    if not cursor.accept_symbol("("):
        column = parse_column(cursor)
        return [AddColumn(column, _position(cursor), conditional)]
    actions: list[Action] = []
    while True:
        begin = cursor.place
        if at_constraint(cursor):
            actions.append(_constraint(cursor))
        else:
            actions.append(AddColumn(parse_column(cursor), conditional=conditional))
        cursor.actions.append((begin, cursor.place))
        if not cursor.accept_symbol(","):
            cursor.expect_symbol(")")
            return actions


def _constraint(cursor: Cursor) -> AddConstraint:
    conditions = len(cursor.conditions)
    constraint = parse_constraint(cursor)
    return AddConstraint(constraint, len(cursor.conditions) > conditions)


def _drop(cursor: Cursor) -> Action:
    if cursor.accept("PRIMARY", "KEY"):
        return DropConstraint("index", "PRIMARY")
    kind = ""
    if cursor.accept("FOREIGN", "KEY"):
        kind = "foreign key"
    elif cursor.accept_one("INDEX", "KEY"):
        kind = "index"
    elif word := cursor.accept_one("CHECK", "CONSTRAINT"):
        kind = "check" if word == "CHECK" else "any"
    else:
        cursor.accept("COLUMN")
    conditional = cursor.accept_condition(*_IF_EXISTS)
    if kind:
        return DropConstraint(kind, cursor.name(), conditional)
    action = DropColumn(cursor.name(), conditional)
    cursor.accept_one("RESTRICT", "CASCADE")
    return action


def _change(cursor: Cursor, verb: str) -> Action:
    conditional = cursor.accept_condition(*_IF_EXISTS)
    old = cursor.name() if verb == "CHANGE" else None
    if old is not None and cursor.session.server_version < 80000 and cursor.accept_symbol("."):
        old = cursor.after_dot()
    column = parse_column(cursor, changed=True)
    return ChangeColumn(old or column.name, column, _position(cursor), conditional)


def _position(cursor: Cursor) -> ColumnPosition | None:
    if cursor.accept("FIRST"):
        return ColumnPosition(None)
    return ColumnPosition(cursor.name()) if cursor.accept("AFTER") else None


def _alter(cursor: Cursor) -> list[Action]:
    if cursor.accept("INDEX"):
        conditional = cursor.accept_condition(*_IF_EXISTS)
        return [SetVisible("index", cursor.name(), _visible(cursor), conditional)]
    if cursor.accept_one("CHECK", "CONSTRAINT"):
        name = cursor.name()
        enforced = not cursor.accept("NOT")
        cursor.expect("ENFORCED")
        return [SetEnforced(name, enforced)]
    cursor.accept("COLUMN")
    conditional = cursor.accept_condition(*_IF_EXISTS)
    name = cursor.name()
    if cursor.accept("SET", "DEFAULT"):
        return [SetDefault(name, parse_default(cursor), conditional)]
    if cursor.accept("DROP", "DEFAULT"):
        return [SetDefault(name, None, conditional)]
    cursor.expect("SET")
    return [SetVisible("column", name, _visible(cursor), conditional)]


def _visible(cursor: Cursor) -> bool:
    word = cursor.accept_one("VISIBLE", "INVISIBLE")
    if word is None:
        raise cursor.error("expected VISIBLE or INVISIBLE")
    return word == "VISIBLE"


def _rename(cursor: Cursor) -> Action:
    if word := cursor.accept_one("COLUMN", "INDEX", "KEY"):
        conditional = cursor.accept_condition(*_IF_EXISTS)
        old = cursor.name()
        cursor.expect("TO")
        return (RenameColumn if word == "COLUMN" else RenameIndex)(old, cursor.name(), conditional)
    if not cursor.accept_one("TO", "AS"):
        cursor.accept_symbol("=")
    return RenameTo(cursor.table_name())


def _convert(cursor: Cursor) -> Action:
    charset = accept_charset(cursor)
    if charset is None:
        raise cursor.error("expected CHARACTER SET")
    collation = charset_name(cursor) if cursor.accept("COLLATE") else None
    return Convert("" if charset.upper() == "DEFAULT" else charset, collation)
