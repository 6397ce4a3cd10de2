"""What a DDL statement is about, in the words of filters and barriers: kinds, TiDB's job names, tables.

DROP TABLE a, b                   two events, ActionDropTable `drop table`
RENAME TABLE a TO b, c TO d       two events, ActionRenameTables `rename table`, of a and of c
ALTER TABLE t ADD x INT           ActionAddColumn `add column`
ALTER TABLE t ADD x INT, DROP y   ActionMultiSchemaChange `multi schema change`
"""

from dataclasses import dataclass, replace

from binlog_merge.filters.kinds import ACTIONS, MYSQL_ACTIONS, REDO_BARRIER_ACTIONS, SCHEMA_KINDS, TABLE_BARRIER_ACTIONS
from snapshot_store.ddl import DdlSession
from snapshot_store.ddl import actions as act
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.cursor import Cursor, TableName
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.ddl.specs import CheckSpec, ForeignKeySpec, KeySpec
from snapshot_store.errors import DdlNotUnderstood

QualifiedName = tuple[str, str]
"""(schema, table); table "" for a database."""


@dataclass(frozen=True, slots=True)
class DdlEvent:
    """One thing that a statement does to one table or database.

    `tables` are all that this part of the statement names: for RENAME the old name, then the new one; for CREATE TABLE
    LIKE also the model. `text` is this part alone, in the user's own words; `query` the whole statement. `beyond`: it
    also concerns tables that it does not name as its own (a foreign key's). `head` is how long the
    statement is before its list of tables, 0 where it has no list.
    """

    action: str
    kind: str
    tables: tuple[QualifiedName, ...]
    text: str
    query: str
    beyond: bool = False
    head: int = 0

    @property
    def schema(self) -> str:
        """Return the schema by which filters choose: for RENAME the old one."""
        return self.tables[0][0]

    @property
    def table(self) -> str:
        """Return the table by which filters choose, "" for a database."""
        return self.tables[0][1]

    @property
    def allowed(self) -> bool:
        """Tell whether the allow-list has it."""
        return self.action in ACTIONS or self.action in MYSQL_ACTIONS

    @property
    def is_schema(self) -> bool:
        """Tell whether it is about a whole database."""
        return self.kind in SCHEMA_KINDS

    @property
    def is_global(self) -> bool:
        """Tell whether every table must wait for it."""
        return is_global(self.action) or len(self.tables) > 1 or self.beyond

    @property
    def makes_tables(self) -> bool:
        """Tell whether new physical tables come of it."""
        return self.action in REDO_BARRIER_ACTIONS


def is_global(action: str) -> bool:
    """Tell whether DDL of this name holds up every table: it concerns several, or one that is not there yet."""
    return action not in TABLE_BARRIER_ACTIONS and action not in MYSQL_ACTIONS


def ddl_events(sql: str, schema: str = "", session: DdlSession | None = None) -> tuple[DdlEvent, ...]:
    """Return what a statement does, part by part; nothing for one that changes no table.

    `schema` is the default database. Raises DdlNotUnderstood.
    """
    session = session or DdlSession()
    statement = parse_statement(sql, session)
    match statement:
        case st.Ignored():
            return ()
        case st.CreateTable(table=table):
            return (_event("ActionCreateTable", (table,), schema, sql),)
        case st.CreateTableLike(table=table, like=like):
            return (_event("ActionCreateTable", (table, like), schema, sql),)
        case st.CreateView(view=view):
            return (_event("ActionCreateView", (view,), schema, sql),)
        case st.TruncateTable(table=table):
            return (_event("ActionTruncateTable", (table,), schema, sql),)
        case st.DropTables(tables=tables):
            return _listed(sql, session, "ActionDropTable", [(table,) for table in tables], schema)
        case st.DropViews(views=views):
            return _listed(sql, session, "ActionDropView", [(view,) for view in views], schema)
        case st.RenameTables(pairs=pairs):
            action = "ActionRenameTables" if len(pairs) > 1 else "ActionRenameTable"
            return _listed(sql, session, action, list(pairs), schema)
        case st.CreateSchema(name=name):
            return (_database("ActionCreateSchema", name, sql),)
        case st.DropSchema(name=name):
            return (_database("ActionDropSchema", name, sql),)
        case st.AlterSchema(name=named):
            return (_database("ActionModifySchemaCharsetAndCollate", named or schema, sql),)
        case st.AlterTable():
            return (_alter(statement, sql, schema, session),)


def is_ddl(sql: str, session: DdlSession | None = None) -> bool:
    """Tell whether a text is a statement that changes tables, views or databases."""
    try:
        return bool(ddl_events(sql, "", session))
    except DdlNotUnderstood:
        return False


_NEVER_SKIPPED = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "START", "XA", "USE"})


def is_builtin_skipped(sql: str, session: DdlSession | None = None) -> bool:
    """Tell whether DM never carries a statement over: users, routines, views, FLUSH, temporary tables and the like."""
    try:
        statement = parse_statement(sql, session or DdlSession())
    except DdlNotUnderstood:
        return False
    if isinstance(statement, st.Ignored):
        return statement.what not in _NEVER_SKIPPED
    return isinstance(statement, st.CreateView | st.DropViews)


def split_alter(sql: str, session: DdlSession | None = None) -> tuple[str, ...]:
    """Return an ALTER TABLE of several actions as several statements, each in the user's own words.

    Any other statement comes back alone. DM coordinates shards action by action.
    """
    session = session or DdlSession()
    statement = parse_statement(sql, session)
    if not isinstance(statement, st.AlterTable) or statement.kind != "ALTER TABLE":
        return (sql,)
    cursor = Cursor.of(sql, session)
    cursor.expect("ALTER", "TABLE")
    cursor.table_name()
    return _cut(sql, cursor)


def _listed(
    sql: str, session: DdlSession, action: str, names: list[tuple[TableName, ...]], schema: str
) -> tuple[DdlEvent, ...]:
    """Return an event for each item of a statement's list of tables."""
    cursor = Cursor.of(sql, session)
    while cursor.word() not in ("TABLE", "TABLES", "VIEW"):
        cursor.next()
    cursor.next()
    cursor.accept("IF", "EXISTS")
    head = cursor.peek().start
    texts = _cut(sql, cursor)
    return tuple(
        replace(_event(action, tables, schema, text), query=sql, head=head)
        for tables, text in zip(names, texts, strict=True)
    )


def _cut(sql: str, cursor: Cursor) -> tuple[str, ...]:
    """Return the statement once for each item of the list that begins here."""
    start, depth, items = cursor.peek().start, 0, []
    head, begin = sql[:start], start
    while not cursor.done:
        token = cursor.next()
        if token.kind == "symbol":
            depth += (token.text == "(") - (token.text == ")")
            if token.text == "," and depth == 0:
                items.append(sql[begin : token.start].strip())
                begin = token.end
    items.append(sql[begin : cursor.peek().start].strip())
    return tuple(head + item for item in items)


def _event(action: str, tables: tuple[TableName, ...], schema: str, sql: str) -> DdlEvent:
    names = tuple((own or schema, name) for own, name in tables)
    return DdlEvent(action, ACTIONS.get(action, "alter table"), names, sql, sql)


def _database(action: str, name: str, sql: str) -> DdlEvent:
    return DdlEvent(action, ACTIONS[action], ((name, ""),), sql, sql)


def _alter(statement: st.AlterTable, sql: str, schema: str, session: DdlSession) -> DdlEvent:
    actions = statement.actions
    if len(actions) > 1:
        named = [_action(action) for action in actions]
        foreign = any(name in ("ActionAddForeignKey", "ActionDropForeignKey") for name in named)
        renamed = [action.table for action in actions if isinstance(action, act.RenameTo)]
        event = _event("ActionMultiSchemaChange", (statement.table, *renamed), schema, sql)
        return replace(event, beyond=foreign)
    name = _action(actions[0]) if actions else "ActionAlterTable"
    if name == "ActionAlterTable" and _names_auto_increment(sql, session):
        name = "ActionRebaseAutoID"
    others: tuple[TableName, ...] = ()
    if actions and isinstance(actions[0], act.RenameTo):
        others = (actions[0].table,)
    if actions and isinstance(actions[0], act.PartitionWork) and actions[0].table is not None:
        others = (actions[0].table,)
    return _event(name, (statement.table, *others), schema, sql)


_PLAIN_ACTIONS: dict[type, str] = {
    act.AddColumn: "ActionAddColumn",
    act.DropColumn: "ActionDropColumn",
    act.ChangeColumn: "ActionModifyColumn",
    act.RenameColumn: "ActionModifyColumn",
    act.SetDefault: "ActionSetDefaultValue",
    act.RenameIndex: "ActionRenameIndex",
    act.RenameTo: "ActionRenameTable",
    act.Convert: "ActionModifyTableCharsetAndCollate",
    act.SetEnforced: "ActionAlterCheckConstraint",
}
_PARTITION_ACTIONS = {
    "ADD": "ActionAddTablePartition",
    "DROP": "ActionDropTablePartition",
    "TRUNCATE": "ActionTruncateTablePartition",
    "EXCHANGE": "ActionExchangeTablePartition",
    "REORGANIZE": "ActionReorganizePartition",
}


def _action(action: act.Action) -> str:
    if plain := _PLAIN_ACTIONS.get(type(action)):
        return plain
    match action:
        case act.SetVisible(what=what):
            return "ActionAlterIndexVisibility" if what == "index" else "ActionModifyColumn"
        case act.AddConstraint(constraint=KeySpec(kind=kind)):
            return "ActionAddPrimaryKey" if kind == "primary" else "ActionAddIndex"
        case act.AddConstraint(constraint=ForeignKeySpec()):
            return "ActionAddForeignKey"
        case act.AddConstraint(constraint=CheckSpec()):
            return "ActionAddCheckConstraint"
        case act.DropConstraint(kind="index", name=name):
            return "ActionDropPrimaryKey" if name.upper() == "PRIMARY" else "ActionDropIndex"
        case act.DropConstraint(kind=kind):
            # DROP CONSTRAINT may mean a foreign key: it then concerns another table too.
            return "ActionDropCheckConstraint" if kind == "check" else "ActionDropForeignKey"
        case act.SetPartitioning(spec=spec):
            return "ActionRemovePartitioning" if spec is None else "ActionAlterTablePartitioning"
        case act.PartitionWork(kind=kind):
            return _PARTITION_ACTIONS.get(kind.upper(), "ActionAlterTable")
        case act.SetOptions(options=options):
            if options.charset or options.collation:
                return "ActionModifyTableCharsetAndCollate"
            return "ActionModifyTableComment" if options.comment is not None else "ActionAlterTable"
    return "ActionAlterTable"


def _names_auto_increment(sql: str, session: DdlSession) -> bool:
    """Tell whether a table option AUTO_INCREMENT stands in a statement that has no other action."""
    cursor = Cursor.of(sql, session)
    while not cursor.done:
        if cursor.word() == "AUTO_INCREMENT":
            return True
        cursor.next()
    return False
