"""The effects of a statement on tables: on their rows and definitions, and which other tables it needs.

    CREATE TABLE a LIKE b                             make a; a gets the definition of b
    CREATE TABLE a SELECT … FROM b                    make a; a gets rows of b
    ALTER TABLE a ADD x INT, RENAME TO b              change a; a's rows move to b
    RENAME TABLE a TO x, b TO a, x TO b               move a → x, b → a, x → b: `origins` is a → b, b → a
    ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b   rows of a and b are exchanged
    CREATE TABLE a (… REFERENCES b), CREATE VIEW v    make a, v; they refer to tables that must exist
    TRUNCATE TABLE a, ALTER TABLE a DROP PARTITION p  rows of a are removed
    ALTER TABLE a IMPORT TABLESPACE                   rows of a come from a file

    ALTER TABLE a ADD x INT, RENAME TO b              changes: add column, rename table

Filters, routes, barriers, coordination, messages and undo all use this module, so that they agree on what a statement
does. The effects follow from the statement alone; which tables exist is not known here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from snapshot_store.ddl import actions as act
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.specs import CheckSpec, ColumnSpec, Constraint, ForeignKeySpec, KeySpec, Options, Query
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.mysql.sql.cursor import TableName

Name = tuple[str, str]
"""(schema, table); table "" for a database."""


class Verb(Enum):
    """A kind of effect on a table."""

    MAKE = "make"
    COPY_SHAPE = "copy shape"  # from other
    COPY_ROWS = "copy rows"  # from other, and its definition
    CHANGE = "change"  # its definition, or anything else that matters of it
    EMPTY = "empty"  # all its rows, or those of some partitions, are removed without a row event
    FILE = "file"  # its rows, or those of some partitions, are removed or added with a file, without a row event
    MOVE = "move"  # it is the table that was named other before
    EXCHANGE = "exchange"  # rows of a partition, with those of other
    REFER = "refer"  # to other, which must exist
    DROP = "drop"


class Change(Enum):
    """What one action of an ALTER TABLE, or of a statement that stands for one, does."""

    ADD_COLUMN = "add column"
    DROP_COLUMN = "drop column"
    MODIFY_COLUMN = "modify column"  # CHANGE, too
    RENAME_COLUMN = "rename column"
    SET_DEFAULT = "set default"
    SHOW_COLUMN = "column visibility"
    ADD_PRIMARY_KEY = "add primary key"
    ADD_INDEX = "add index"
    ADD_FOREIGN_KEY = "add foreign key"
    ADD_CHECK = "add check"
    DROP_PRIMARY_KEY = "drop primary key"
    DROP_INDEX = "drop index"
    DROP_FOREIGN_KEY = "drop foreign key"
    DROP_CHECK = "drop check"
    DROP_CONSTRAINT = "drop constraint"  # of any kind
    RENAME_INDEX = "rename index"
    SHOW_INDEX = "index visibility"
    ENFORCE_CHECK = "enforce check"
    RENAME_TABLE = "rename table"
    CONVERT = "convert to character set"
    CHARSET = "character set"
    COLLATION = "collation"
    ENGINE = "engine"
    COMMENT = "comment"
    AUTO_INCREMENT = "auto_increment"
    OPTION = "option"
    PARTITION_BY = "partition by"
    REMOVE_PARTITIONING = "remove partitioning"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    TRUNCATE_PARTITION = "truncate partition"
    EXCHANGE_PARTITION = "exchange partition"
    REORGANIZE_PARTITION = "reorganize partition"
    REBUILD_PARTITION = "rebuild partition"
    COALESCE_PARTITION = "coalesce partition"
    PARTITION_FILE = "partition file"  # DISCARD, IMPORT
    CHECK_PARTITION = "check partition"  # ANALYZE, CHECK, OPTIMIZE, REPAIR
    REBUILD = "rebuild"
    FILE = "file"  # DISCARD, IMPORT TABLESPACE


KEEPS_VALUES = frozenset(
    {
        Change.SET_DEFAULT, Change.SHOW_COLUMN, Change.ADD_PRIMARY_KEY, Change.ADD_INDEX, Change.ADD_FOREIGN_KEY,
        Change.ADD_CHECK, Change.DROP_PRIMARY_KEY, Change.DROP_INDEX, Change.DROP_FOREIGN_KEY, Change.DROP_CHECK,
        Change.DROP_CONSTRAINT, Change.RENAME_INDEX, Change.SHOW_INDEX, Change.ENFORCE_CHECK,
    }
)  # fmt: skip
"""The changes that leave all values of all rows as they are, and their columns."""

_TAKES_ROWS = frozenset(
    {
        Change.RENAME_TABLE, Change.FILE, Change.PARTITION_FILE, Change.DROP_PARTITION, Change.TRUNCATE_PARTITION,
        Change.EXCHANGE_PARTITION,
    }
)  # fmt: skip


_MADE_ELSEWHERE = frozenset({Verb.COPY_SHAPE, Verb.COPY_ROWS, Verb.REFER})


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect on a table, and the other table it involves. `item` is the index in the statement's list of tables."""

    verb: Verb
    table: Name
    other: Name | None = None
    item: int = 0


@dataclass(frozen=True, slots=True)
class Effects:
    """All effects of a statement on tables, in its order."""

    all: tuple[Effect, ...] = ()

    def of_item(self, item: int) -> "Effects":
        """Return the effects of one item of the statement's list."""
        return Effects(tuple(effect for effect in self.all if effect.item == item))

    @property
    def tables(self) -> tuple[Name, ...]:
        """Return all tables and databases involved, each once, in the order they are named."""
        return tuple(dict.fromkeys(name for effect in self.all for name in _in_order(effect)))

    @property
    def changed(self) -> tuple[Name, ...]:
        """Return those whose rows, definition or existence the statement changes."""
        found: dict[Name, None] = {}
        for effect in self.all:
            if effect.verb not in _MADE_ELSEWHERE:
                found |= dict.fromkeys(_in_order(effect))
        return tuple(found)

    @property
    def needed(self) -> tuple[Name, ...]:
        """Return those that must exist and stay unchanged: the tables of LIKE, SELECT and REFERENCES."""
        return tuple(name for name in self.tables if name not in self.changed)

    @property
    def moves(self) -> tuple[tuple[Name, Name], ...]:
        """Return (old, new) for each rename, in order."""
        return tuple((e.other, e.table) for e in self.all if e.verb is Verb.MOVE and e.other is not None)

    @property
    def origins(self) -> dict[Name, Name]:
        """Return, for each name that belongs to another table after all renames, that table's name before."""
        return {now: origin for origin, now in self.paths if origin != now}

    @property
    def paths(self) -> tuple[tuple[Name, Name], ...]:
        """Return, for each rename in order, the renamed table's name before and after the whole statement."""
        names: dict[Name, Name] = {}  # current name by original name
        renamed = []
        for old, new in self.moves:
            origin = next((origin for origin, now in names.items() if now == old), old)
            names[origin] = new
            renamed.append(origin)
        return tuple((origin, names[origin]) for origin in renamed)

    @property
    def rows(self) -> tuple[tuple[Name, Name], ...]:
        """Return (from, to) for tables between which rows move without row events."""
        rows = [(old, new) for new, old in self.origins.items()]
        for effect in self.all:
            if effect.other is not None and effect.verb in (Verb.EXCHANGE, Verb.COPY_ROWS):
                rows.append((effect.other, effect.table))
            if effect.other is not None and effect.verb is Verb.EXCHANGE:
                rows.append((effect.table, effect.other))
        return tuple(rows)

    @property
    def own(self) -> tuple[Name, ...]:
        """Return the tables the statement is about, and the table of LIKE, but not those of SELECT and REFERENCES."""
        about = Effects(tuple(e for e in self.all if e.verb not in (Verb.REFER, Verb.COPY_ROWS)))
        return about.tables

    def others(self, *verbs: Verb) -> tuple[Name, ...]:
        """Return the other table of each effect of these kinds, each once."""
        return tuple(dict.fromkeys(e.other for e in self.all if e.verb in verbs and e.other is not None))

    def having(self, *verbs: Verb) -> tuple[Name, ...]:
        """Return the table of each effect of these kinds, each once."""
        return tuple(dict.fromkeys(e.table for e in self.all if e.verb in verbs))


NONE = Effects()


def changes_of(statement: st.Statement) -> tuple[Change, ...]:
    """Return what each action of an ALTER TABLE does, in order; nothing for any other statement."""
    return tuple(map(change_of, statement.actions)) if isinstance(statement, st.AlterTable) else ()


def change_of(action: act.Action) -> Change:
    """Return what an action does."""
    match action:
        case act.SetVisible(what=what):
            return Change.SHOW_INDEX if what == "index" else Change.SHOW_COLUMN
        case act.AddConstraint(constraint=KeySpec(kind="primary")):
            return Change.ADD_PRIMARY_KEY
        case act.AddConstraint(constraint=constraint):
            return _ADDED[type(constraint)]
        case act.DropConstraint(kind="index", name=name):
            return Change.DROP_PRIMARY_KEY if name.upper() == "PRIMARY" else Change.DROP_INDEX
        case act.DropConstraint(kind=kind):
            return _DROPPED[kind]
        case act.SetPartitioning(spec=spec):
            return Change.REMOVE_PARTITIONING if spec is None else Change.PARTITION_BY
        case act.PartitionWork(kind=kind):
            return _PARTITION_WORK.get(kind.upper(), Change.CHECK_PARTITION)
        case act.SetOptions(options=options):
            return _option(options)
    return _CHANGES[type(action)]


_CHANGES: dict[type, Change] = {
    act.AddColumn: Change.ADD_COLUMN,
    act.DropColumn: Change.DROP_COLUMN,
    act.ChangeColumn: Change.MODIFY_COLUMN,
    act.RenameColumn: Change.RENAME_COLUMN,
    act.SetDefault: Change.SET_DEFAULT,
    act.RenameIndex: Change.RENAME_INDEX,
    act.RenameTo: Change.RENAME_TABLE,
    act.Convert: Change.CONVERT,
    act.SetEnforced: Change.ENFORCE_CHECK,
    act.Rebuild: Change.REBUILD,
    act.TableFile: Change.FILE,
}
_ADDED: dict[type, Change] = {
    KeySpec: Change.ADD_INDEX,
    ForeignKeySpec: Change.ADD_FOREIGN_KEY,
    CheckSpec: Change.ADD_CHECK,
}
_DROPPED = {
    "foreign key": Change.DROP_FOREIGN_KEY,
    "check": Change.DROP_CHECK,
    "any": Change.DROP_CONSTRAINT,
}
_PARTITION_WORK = {
    "ADD": Change.ADD_PARTITION,
    "DROP": Change.DROP_PARTITION,
    "TRUNCATE": Change.TRUNCATE_PARTITION,
    "EXCHANGE": Change.EXCHANGE_PARTITION,
    "REORGANIZE": Change.REORGANIZE_PARTITION,
    "REBUILD": Change.REBUILD_PARTITION,
    "COALESCE": Change.COALESCE_PARTITION,
    "DISCARD": Change.PARTITION_FILE,
    "IMPORT": Change.PARTITION_FILE,
}


def _option(options: Options) -> Change:
    """Return what a table option changes; each is an action of its own."""
    if options.charset:
        return Change.CHARSET
    if options.collation:
        return Change.COLLATION
    if options.comment is not None:
        return Change.COMMENT
    if options.engine:
        return Change.ENGINE
    return Change.OPTION if options.auto_increment is None else Change.AUTO_INCREMENT


def renamed_columns(statement: st.Statement) -> tuple[tuple[str, str], ...]:
    """Return (old, new) of each column that gets another name, if only in another case: first by RENAME COLUMN."""
    actions = statement.actions if isinstance(statement, st.AlterTable) else ()
    pairs = [(action.old, action.new) for action in actions if isinstance(action, act.RenameColumn)]
    pairs += [(action.old, action.column.name) for action in actions if isinstance(action, act.ChangeColumn)]
    return tuple((old, new) for old, new in pairs if old != new)


def keeps_rows(statement: st.Statement | SnapshotStoreError) -> bool:
    """Return whether all rows that there are are still there after a statement, whatever it does to their values.

    Not known of one that is not understood: False.
    """
    if isinstance(statement, st.CreateTable):
        return statement.query is None
    return isinstance(statement, st.AlterTable) and _TAKES_ROWS.isdisjoint(changes_of(statement))


def keeps_values(statement: st.Statement | SnapshotStoreError) -> bool:
    """Return whether a statement changes no value of any row that there is, nor a column that holds one; see above."""
    if isinstance(statement, st.CreateTable):
        return statement.query is None
    return isinstance(statement, st.AlterTable) and KEEPS_VALUES.issuperset(changes_of(statement))


def effects_of(statement: st.Statement, schema: str = "") -> Effects:
    """Return the effects of a statement on tables; `schema` is the default database."""
    return Effects(tuple(_effects(statement, schema)))


def databases_listed(statement: st.Statement, schema: str = "") -> frozenset[str]:
    """Return the databases that a server lists in the event of a statement: those whose tables it changes.

    None for the statements that 9.7 writes without a list (seen in its binlogs), which replicas apply alone, and for
    one whose tables are not known.
    """
    match statement:
        case st.CreateTableLike() | st.TruncateTable() | st.CreateTable(query=Query()):
            return frozenset()
        case st.AlterTable(actions=actions) if any(map(_of_partitions_alone, actions)):
            return frozenset()
    return frozenset(database for database, _ in effects_of(statement, schema).changed if database)


def _of_partitions_alone(action: act.Action) -> bool:
    return isinstance(action, act.PartitionWork) and action.kind.upper() in _LISTED_NOWHERE


_LISTED_NOWHERE = frozenset({"TRUNCATE", "EXCHANGE", "ANALYZE", "CHECK", "REPAIR"})


def _effects(statement: st.Statement, schema: str) -> Iterator[Effect]:
    def named(name: TableName) -> Name:
        return (name[0] or schema, name[1])

    match statement:
        case st.CreateTable(table=table, items=items, query=query):
            yield Effect(Verb.MAKE, named(table))
            for parent in _parents(items):
                yield Effect(Verb.REFER, named(table), named((parent[0] or table[0], parent[1])))
            for read in query.sources if query is not None else ():
                yield Effect(Verb.COPY_ROWS, named(table), named(read.table))
        case st.CreateTableLike(table=table, like=like):
            yield Effect(Verb.MAKE, named(table))
            yield Effect(Verb.COPY_SHAPE, named(table), named(like))
        case st.CreateView(view=view, sources=sources):
            yield Effect(Verb.MAKE, named(view))
            for source in sources:
                yield Effect(Verb.REFER, named(view), named(source))
        case st.AlterTable():
            yield from _altered(statement, named)
        case st.RenameTables(pairs=pairs):
            for i, (old, new) in enumerate(pairs):
                yield Effect(Verb.MOVE, named(new), named(old), i)
        case st.DropTables(tables=tables) | st.DropViews(views=tables):
            for i, gone in enumerate(tables):
                yield Effect(Verb.DROP, named(gone), item=i)
        case st.TruncateTable(table=table):
            yield Effect(Verb.EMPTY, named(table))
        case st.CreateSchema(name=name):
            yield Effect(Verb.MAKE, (name, ""))
        case st.AlterSchema(name=name):
            yield Effect(Verb.CHANGE, (name or schema, ""))
        case st.DropSchema(name=name):
            yield Effect(Verb.DROP, (name, ""))


def _altered(statement: st.AlterTable, named: Callable[[TableName], Name]) -> Iterator[Effect]:
    """Yield the effects of an ALTER TABLE on the table under its old name; the rename comes last."""
    table = named(statement.table)
    new = [named(action.table) for action in statement.actions if isinstance(action, act.RenameTo)]
    moved = new[-1] if new and new[-1] != table else None  # the last RENAME TO wins
    found: list[Effect] = []
    for action in statement.actions:
        match action:
            case act.PartitionWork(kind="EXCHANGE", table=other) if other is not None:
                found.append(Effect(Verb.EXCHANGE, table, named(other)))
            case act.TableFile() | act.PartitionWork(kind="DISCARD" | "IMPORT"):
                found.append(Effect(Verb.FILE, table))
            case act.PartitionWork(kind="TRUNCATE"):
                found.append(Effect(Verb.EMPTY, table))
            case act.PartitionWork(kind="DROP"):
                found += [Effect(Verb.EMPTY, table), Effect(Verb.CHANGE, table)]
            case act.AddConstraint(constraint=added) | act.AddColumn(column=added):
                parents = [named((parent[0] or table[0], parent[1])) for parent in _parents((added,))]
                found += [*(Effect(Verb.REFER, table, parent) for parent in parents), Effect(Verb.CHANGE, table)]
            case act.RenameTo():
                pass
            case _:
                found.append(Effect(Verb.CHANGE, table))
    yield from dict.fromkeys(found or ([Effect(Verb.CHANGE, table)] if moved is None else []))
    if moved is not None:
        yield Effect(Verb.MOVE, moved, table)


def _parents(items: Iterable[ColumnSpec | Constraint]) -> Iterator[TableName]:
    """Yield the tables that foreign keys point at."""
    for item in items:
        for constraint in item.constraints if isinstance(item, ColumnSpec) else (item,):
            if isinstance(constraint, ForeignKeySpec):
                yield constraint.table


def _in_order(effect: Effect) -> tuple[Name, ...]:
    """Return the tables of an effect in the order a statement names them: a rename's old name first."""
    if effect.other is None:
        return (effect.table,)
    return (effect.other, effect.table) if effect.verb is Verb.MOVE else (effect.table, effect.other)
