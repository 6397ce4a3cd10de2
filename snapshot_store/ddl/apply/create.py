"""CREATE TABLE: building a table from its definition, as a copy of another, or from a query; with the generated
invisible primary key, my_row_id, which a server adds to a table of InnoDB without a key.

It is known by its looks alone (mysql-server `sql/sql_gipk.cc`): a table that was created with such a column by hand
has one too, in any session. While it is one, it stays the first column, whatever is put FIRST.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from snapshot_store.ddl.actions import (
    Action,
    ChangeColumn,
    DropColumn,
    DropConstraint,
    RenameColumn,
    SetDefault,
    SetPartitioning,
)
from snapshot_store.ddl.indexes import (
    add_checks,
    add_foreign_keys,
    build_indexes,
    rewritten,
    supporting_key,
    with_block_sizes,
    with_primary_key,
)
from snapshot_store.ddl.resolve import Context, resolve_column, resolve_options
from snapshot_store.ddl.specs import (
    CheckSpec,
    ColumnSpec,
    Constraint,
    ForeignKeySpec,
    KeySpec,
    PartitionSpec,
    Query,
    QuerySource,
    SelectItem,
)
from snapshot_store.ddl.statements import CreateTable
from snapshot_store.ddl.validate.columns import check_columns
from snapshot_store.ddl.validate.keys import check_checks, check_indexes, check_key_spec, row_key
from snapshot_store.ddl.validate.partitions import check_partitioned, partitioned
from snapshot_store.errors import AlreadyExists, UnknownColumn
from snapshot_store.model import Column, Default, IndexPart, Schema, Table, with_attributes
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.sql.cursor import TableName
from snapshot_store.mysql.sql.session import NO_ZERO_DATE, SQL_MODES

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


def query_columns(context: Context, query: Query, tables: Sequence[Table]) -> tuple[Column, ...]:
    """Return the columns of a query's result, given the tables of its sources in order."""
    columns = []
    for item in query.items:
        for table, column, outer in _meant(context, query, tables, item):
            columns.append(_as_result(column, outer, item.alias or column.name, table))
    return tuple(columns)


def _meant(
    context: Context, query: Query, tables: Sequence[Table], item: SelectItem
) -> Iterator[tuple[Table, Column, bool]]:
    pairs = list(zip(query.sources, tables, strict=True))
    if item.table is not None:
        pairs = [(s, t) for s, t in pairs if _is_called(s, t, item.table)]
    if item.column is None:
        if query.merged and item.table is None:
            raise context.error("* of a join that makes one column of two")
        for source, table in pairs:
            for column in table.columns:
                if not column.invisible:
                    yield table, column, source.outer
        return
    hits = [(t, t.columns[index], s.outer) for s, t in pairs if (index := t.index_of(item.column)) is not None]
    if not hits:
        raise UnknownColumn(f"the query names a column {item.column} that none of its tables has")
    if len(hits) > 1:
        context.limit(query.merged, f"column {item.column} is in two tables of the query")
        raise context.error(f"column {item.column} is in two tables of the query")
    yield hits[0]


def _is_called(source: QuerySource, table: Table, name: TableName) -> bool:
    if source.alias is not None:
        return name == (None, source.alias)
    return table.name == name[1] and name[0] in (None, table.schema)


def _as_result(column: Column, outer: bool, name: str, table: Table) -> Column:
    """Return the column of the new table for a column that the query selects."""
    default = column.default
    nullable = column.nullable or outer
    if column.auto_increment:
        default = Default("literal", "0")
    if column.generated is not None or (outer and not column.nullable):
        default = None
    if default is None and nullable:
        default = Default("null")
    return replace(
        column,
        name=name,
        nullable=nullable,
        default=default,
        auto_increment=False,
        generated=None,
        invisible=False,
        on_update_now=column.on_update_now,
    )


_ENGINES = {
    "innodb": "InnoDB",
    "memory": "MEMORY",
    "heap": "MEMORY",
    "myisam": "MyISAM",
    "csv": "CSV",
    "archive": "ARCHIVE",
    "blackhole": "BLACKHOLE",
    "federated": "FEDERATED",
    "merge": "MRG_MYISAM",
    "mrg_myisam": "MRG_MYISAM",
    "ndb": "ndbcluster",
    "ndbcluster": "ndbcluster",
}


def canonical_engine(name: str) -> str:
    """Return an engine's name as the server prints it; an unknown name is returned as written."""
    return _ENGINES.get(name.lower(), name)


def chosen_engine(context: Context, name: str) -> str:
    """Return the engine of a new table. Without NO_ENGINE_SUBSTITUTION, an unknown one is replaced by the default."""
    known = name.lower() in _ENGINES
    session = context.session
    if session.validate and not known and not session.sql_mode & SQL_MODES["NO_ENGINE_SUBSTITUTION"]:
        return canonical_engine(session.default_storage_engine)
    context.limit(known, f"unknown storage engine {name}")
    return canonical_engine(name)


def build_table(context: Context, statement: CreateTable, schema: Schema, selected: tuple[Column, ...] = ()) -> Table:
    """Return the table that a CREATE TABLE makes in a schema, with the columns that its query selects."""
    name, options = statement.table[1], statement.options
    inherited = (schema.charset, schema.collation)
    charset = resolve_options(context, options, inherited)
    specs = [item for item in statement.items if isinstance(item, ColumnSpec)]
    columns = tuple(resolve_column(context, spec, charset) for spec in specs)
    if selected and context.session.strict:
        _check_left_out(context, columns, selected)
    columns = _with_selected(columns, selected)
    if not columns:
        raise context.error("a table without columns")
    check_names(columns, name)
    if not context.session.explicit_defaults_for_timestamp:
        columns = with_implicit_timestamps(context, columns)
    table = Table(
        schema.name,
        name,
        columns,
        charset=charset[0],
        collation=charset[1],
        engine=chosen_engine(context, options.engine or context.session.default_storage_engine),
        comment=options.comment or "",
        attributes=with_attributes((), options.attributes),
    )
    constraints = constraints_of(statement.items)
    if context.session.validate:
        check_nulls(context, specs, constraints)
    made = _completed(context, table, constraints, statement.partitioning)
    if not generates_key(context, made):
        return made
    return _completed(context, replace(table, columns=(ROW_ID, *columns)), [ROW_ID_KEY, *constraints], None)


def _completed(
    context: Context, table: Table, constraints: list[Constraint], partitioning: PartitionSpec | None
) -> Table:
    """Return a table of columns with its keys, checks, foreign keys and partitions."""
    table = with_constraints(context, table, constraints)
    if partitioning is not None:
        table = partitioned(context, table, partitioning)
    check_partitioned(context, table)
    return with_block_sizes(table)


def _with_selected(columns: tuple[Column, ...], selected: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the written columns, then the selected ones; one that is both is listed with the selected, as written."""
    written = {column.name.lower(): column for column in columns}
    names = {column.name.lower() for column in selected}
    merged = []
    for column in selected:
        own = written.get(column.name.lower())
        merged.append(column if own is None else replace(own, name=column.name, comment=own.comment or column.comment))
    return (*(c for c in columns if c.name.lower() not in names), *merged)


def _check_left_out(context: Context, columns: tuple[Column, ...], selected: tuple[Column, ...]) -> None:
    """Raise DdlRejected for a column that the query does not select and that has no default."""
    names = {column.name.lower() for column in selected}
    for column in columns:
        given = column.name.lower() in names or column.nullable or column.default is not None or column.auto_increment
        given = given or column.generated is not None or column.type.family is Family.ENUM
        context.limit(given, f"column {column.name} is not selected, and has no default")


def check_nulls(context: Context, specs: list[ColumnSpec], constraints: list[Constraint]) -> None:
    """Raise DdlRejected if a column written as NULL, or with the default NULL, is in the primary key."""
    for key in constraints:
        if isinstance(key, KeySpec) and key.kind == "primary":
            names = {(part.column or "").lower() for part in key.parts}
            for spec in specs:
                null = isinstance(spec.default, Default) and spec.default.kind == "null"
                wrong = spec.name.lower() in names and (null or (spec.nullable is True and spec.generated is None))
                context.limit(not wrong, f"column {spec.name} of the primary key may be NULL")


def check_names(columns: tuple[Column, ...], table: str) -> None:
    """Raise AlreadyExists if two columns have one name."""
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise AlreadyExists(f"table {table} has a column {column.name} already")
        seen.add(column.name.lower())


def constraints_of(items: tuple[ColumnSpec | Constraint, ...]) -> list[Constraint]:
    """Return all constraints in the order written, including those inside column definitions."""
    constraints: list[Constraint] = []
    for item in items:
        constraints += item.constraints if isinstance(item, ColumnSpec) else [item]
    return constraints


def with_constraints(context: Context, table: Table, constraints: list[Constraint]) -> Table:
    """Return the table with keys, checks and foreign keys added, and the NOT NULL and indexes they imply."""
    keys = [c for c in constraints if isinstance(c, KeySpec | ForeignKeySpec)]
    added = [c for c in constraints if isinstance(c, CheckSpec)]
    if context.session.validate:
        columns = {column.name.lower(): column for column in table.columns}
        for key in keys:
            check_key_spec(context, key if isinstance(key, KeySpec) else supporting_key(key), columns)
    indexes = build_indexes(table.indexes, keys, table.columns, table.name, table.engine, context.session.strict)
    table = add_checks(table, added)
    foreign = [c for c in constraints if isinstance(c, ForeignKeySpec)]
    if table.engine not in ("InnoDB", "ndbcluster"):
        # Other engines accept a foreign key and create its index, but do not store the key.
        foreign = []
    table = replace(
        table,
        columns=with_primary_key(table.columns, indexes),
        indexes=indexes,
        foreign_keys=add_foreign_keys(table.foreign_keys, foreign, table.name),
    )
    if context.session.validate:
        check_columns(context, table)
        check_indexes(context, table)
        check_checks(context, table, added)
    return table


def _zero(context: Context, column: Column) -> str:
    refused = context.session.strict and context.session.sql_mode & NO_ZERO_DATE
    context.limit(not refused, f"invalid default for column {column.name}: NO_ZERO_DATE refuses zero")
    fsp = column.type.fsp
    return "0000-00-00 00:00:00" + (f".{'0' * fsp}" if fsp else "")


def with_implicit_timestamps(context: Context, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Apply explicit_defaults_for_timestamp=OFF: the first TIMESTAMP follows the clock, others default to zero."""
    result, first = [], True
    for column in columns:
        given = column.default is not None or column.on_update_now or column.generated is not None
        if column.type.name == "timestamp" and not column.nullable and not given:
            default = Default("now") if first else Default("literal", _zero(context, column))
            column = replace(column, default=default, on_update_now=first)
        first = first and column.type.name != "timestamp"
        result.append(column)
    return tuple(result)


def copy_table(source: Table, schema: str, name: str) -> Table:
    """Return the table that CREATE TABLE … LIKE creates: without foreign keys, and with new names for checks."""
    source = rewritten(source)
    checks = [CheckSpec(None, text, name not in source.unenforced) for name, text in sorted(source.checks)]
    indexes = tuple(replace(i, implicit=False) for i in source.indexes)
    copy = replace(source, schema=schema, name=name, indexes=indexes, checks=(), unenforced=(), foreign_keys=())
    return add_checks(copy, checks)
