"""The parts of a DDL statement as filters and barriers see them: event kind, TiDB's job name, tables.

DROP TABLE a, b                   two events, ActionDropTable `drop table`
RENAME TABLE a TO b, c TO d       two events, ActionRenameTables `rename table`, of a and of c
ALTER TABLE t ADD x INT           ActionAddColumn `add column`
ALTER TABLE t ADD x INT, DROP y   ActionMultiSchemaChange `multi schema change`
"""

from dataclasses import dataclass, replace

from binlog_merge.filters.kinds import ACTIONS, MYSQL_ACTIONS, SCHEMA_KINDS, TABLE_BARRIER_ACTIONS
from snapshot_store.ddl import DdlSession
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.effects import NONE, Change, Effects, Name, changes_of, effects_of
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.mysql.sql.cursor import Cursor, items_of
from snapshot_store.mysql.sql.edits import parts_of

ASKED = DdlSession()
"""The session of a statement that somebody asks about; one of a log has its own."""


@dataclass(frozen=True, slots=True)
class DdlEvent:
    """A part of a statement: what it does to one table or database.

    `tables` are all tables that this part names: for RENAME the old name, then the new one; for CREATE TABLE LIKE also
    the model. `text` is the statement with this part alone, in the user's text; `ddl` the whole statement. `effects`
    is what this part does to those tables and to others, `together` what the whole statement does. `frees`: it may drop
    a foreign key, and with it a connection to another table. `head` is the length of the statement before its list of
    tables, 0 if it has no list; `item` is the index of the part in the list.
    """

    action: str
    kind: str
    tables: tuple[Name, ...]
    text: str
    ddl: ParsedDdl
    effects: Effects = NONE
    together: Effects = NONE
    frees: bool = False
    head: int = 0
    item: int = 0

    @property
    def query(self) -> str:
        """Return the text of the whole statement."""
        return self.ddl.sql

    @property
    def own(self) -> ParsedDdl:
        """Return this part as a statement of its own."""
        return self.ddl if self.text == self.ddl.sql else ParsedDdl.of(self.text, self.ddl.session)

    @property
    def schema(self) -> str:
        """Return the schema that filters match: for RENAME the old one."""
        return self.tables[0][0]

    @property
    def table(self) -> str:
        """Return the table that filters match, "" for a database."""
        return self.tables[0][1]

    @property
    def allowed(self) -> bool:
        """Return whether its action is on the DDL allow-list."""
        return self.action in ACTIONS or self.action in MYSQL_ACTIONS

    @property
    def is_schema(self) -> bool:
        """Return whether it is about a whole database."""
        return self.kind in SCHEMA_KINDS

    @property
    def is_global(self) -> bool:
        """Return whether every table must wait for it."""
        return is_global(self.action) or self.frees or len({*self.tables, *self.effects.tables}) > 1


def is_global(action: str) -> bool:
    """Return whether DDL of this action blocks every table: it concerns several, or one that does not exist yet."""
    return action not in TABLE_BARRIER_ACTIONS and action not in MYSQL_ACTIONS


def ddl_events(sql: str, schema: str = "") -> tuple[DdlEvent, ...]:
    """Return the parts of a statement that somebody asks about; see `events_of`."""
    return events_of(ParsedDdl.of(sql, ASKED), schema)


def events_of(ddl: ParsedDdl, schema: str = "") -> tuple[DdlEvent, ...]:
    """Return the parts of a statement; none if it changes no table.

    `schema` is the default database. Raises DdlNotUnderstood.
    """
    statement = ddl.statement
    effects = effects_of(statement, schema)
    if not effects.all and not isinstance(statement, st.AlterTable):
        return ()
    event = _event(ddl, effects)
    if not isinstance(statement, st.DropTables | st.DropViews | st.RenameTables):
        return (event,)
    head, texts = _listed(ddl.sql, ddl.session)
    parts = [effects.of_item(item) for item in range(len(texts))]
    return tuple(
        replace(event, tables=part.tables, text=text, effects=part, head=head, item=item)
        for item, (part, text) in enumerate(zip(parts, texts, strict=True))
    )


def split_alter(ddl: ParsedDdl) -> tuple[ParsedDdl, ...]:
    """Split an ALTER TABLE with several actions into a statement for each, in the user's text.

    Any other statement is returned unchanged. DM coordinates shards action by action.
    """
    statement = ddl.statement
    if not isinstance(statement, st.AlterTable) or statement.kind != "ALTER TABLE":
        return (ddl,)
    cursor = Cursor.of(ddl.sql, ddl.session)
    cursor.expect("ALTER", "TABLE")
    cursor.table_name()
    texts = _cut(cursor)
    return (ddl,) if len(texts) == 1 else tuple(ParsedDdl.of(text, ddl.session) for text in texts)


def _listed(sql: str, session: DdlSession) -> tuple[int, tuple[str, ...]]:
    """Return the offset of a statement's list of tables, and a statement for each item of the list."""
    cursor = Cursor.of(sql, session)
    while cursor.word() not in ("TABLE", "TABLES", "VIEW"):
        cursor.next()
    cursor.next()
    cursor.accept("IF", "EXISTS")
    return cursor.peek().start, _cut(cursor)


def _cut(cursor: Cursor) -> tuple[str, ...]:
    """Return a statement for each item of the list that begins at the cursor."""
    sql, tokens, start, begin = cursor.sql, cursor.tokens, cursor.peek().start, cursor.place
    while not cursor.done:
        cursor.next()
    texts = []
    for first, stop in items_of(tokens, begin, cursor.place):
        opens = start if first == begin else tokens[first - 1].end
        ends = tokens[stop].start if stop < len(tokens) else len(sql)
        blanks = ends - opens - len(sql[opens:ends].lstrip())
        texts.append(parts_of(cursor, (0, start), (opens + blanks, ends)).strip())
    return tuple(texts)


_STATEMENTS: dict[type, str] = {
    st.CreateTable: "ActionCreateTable",
    st.CreateTableLike: "ActionCreateTable",
    st.CreateView: "ActionCreateView",
    st.TruncateTable: "ActionTruncateTable",
    st.DropTables: "ActionDropTable",
    st.DropViews: "ActionDropView",
    st.CreateSchema: "ActionCreateSchema",
    st.DropSchema: "ActionDropSchema",
    st.AlterSchema: "ActionModifySchemaCharsetAndCollate",
}
_CHANGES: dict[Change, str] = {
    Change.ADD_COLUMN: "ActionAddColumn",
    Change.DROP_COLUMN: "ActionDropColumn",
    Change.MODIFY_COLUMN: "ActionModifyColumn",
    Change.RENAME_COLUMN: "ActionModifyColumn",
    Change.SHOW_COLUMN: "ActionModifyColumn",
    Change.SET_DEFAULT: "ActionSetDefaultValue",
    Change.ADD_PRIMARY_KEY: "ActionAddPrimaryKey",
    Change.ADD_INDEX: "ActionAddIndex",
    Change.ADD_FOREIGN_KEY: "ActionAddForeignKey",
    Change.ADD_CHECK: "ActionAddCheckConstraint",
    Change.DROP_PRIMARY_KEY: "ActionDropPrimaryKey",
    Change.DROP_INDEX: "ActionDropIndex",
    Change.DROP_FOREIGN_KEY: "ActionDropForeignKey",
    Change.DROP_CONSTRAINT: "ActionDropForeignKey",  # it may be one: it then concerns another table too
    Change.DROP_CHECK: "ActionDropCheckConstraint",
    Change.ENFORCE_CHECK: "ActionAlterCheckConstraint",
    Change.RENAME_INDEX: "ActionRenameIndex",
    Change.SHOW_INDEX: "ActionAlterIndexVisibility",
    Change.RENAME_TABLE: "ActionRenameTable",
    Change.CONVERT: "ActionModifyTableCharsetAndCollate",
    Change.CHARSET: "ActionModifyTableCharsetAndCollate",
    Change.COLLATION: "ActionModifyTableCharsetAndCollate",
    Change.COMMENT: "ActionModifyTableComment",
    Change.AUTO_INCREMENT: "ActionRebaseAutoID",
    Change.PARTITION_BY: "ActionAlterTablePartitioning",
    Change.REMOVE_PARTITIONING: "ActionRemovePartitioning",
    Change.ADD_PARTITION: "ActionAddTablePartition",
    Change.DROP_PARTITION: "ActionDropTablePartition",
    Change.TRUNCATE_PARTITION: "ActionTruncateTablePartition",
    Change.EXCHANGE_PARTITION: "ActionExchangeTablePartition",
    Change.REORGANIZE_PARTITION: "ActionReorganizePartition",
}


def actions_of(statement: st.Statement) -> tuple[str, ...]:
    """Return TiDB's name of each action of an ALTER TABLE, of any other statement that of the whole; () if none."""
    if isinstance(statement, st.AlterTable):
        changes = changes_of(statement) or (Change.OPTION,)
        return tuple(_CHANGES.get(change, "ActionAlterTable") for change in changes)
    if isinstance(statement, st.RenameTables):
        return ("ActionRenameTables" if len(statement.pairs) > 1 else "ActionRenameTable",)
    action = _STATEMENTS.get(type(statement))
    return () if action is None else (action,)


def _event(ddl: ParsedDdl, effects: Effects) -> DdlEvent:
    """Return a whole statement as a single part."""
    actions = actions_of(ddl.statement)
    action = actions[0] if len(actions) == 1 else "ActionMultiSchemaChange"
    kind, frees = ACTIONS.get(action, "alter table"), "ActionDropForeignKey" in actions
    return DdlEvent(action, kind, effects.own, ddl.sql, ddl, effects, effects, frees)
