"""ALTER TABLE: all actions of a statement are applied together, in the server's order instead of the statement's.

The server builds the new column list in two passes (`prepare_fields_and_keys`, mysql-server `sql/sql_table.cc`):

1. Old columns in their order: dropped ones are left out, changed and renamed ones keep their position.
   Every action names the *old* columns, so `CHANGE a b …, CHANGE b a …` swaps two names.
2. Added columns, and changed ones with FIRST or AFTER, in the statement's order; AFTER names one of the *new* list.

Then old keys (without dropped columns, with new names), then new keys; the name of an unnamed key depends on those
before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from snapshot_store.ddl.actions import (
    Action,
    AddColumn,
    AddConstraint,
    ChangeColumn,
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
)
from snapshot_store.ddl.apply.create import (
    check_generated_key,
    check_key_left,
    check_names,
    check_nulls,
    chosen_engine,
    with_constraints,
    with_implicit_timestamps,
    with_key_first,
)
from snapshot_store.ddl.conditions import check_is_certain, without_conditions
from snapshot_store.ddl.indexes import fit_part, for_engine, rewritten, with_block_sizes
from snapshot_store.ddl.resolve import (
    Charset,
    Context,
    choose_charset,
    converted_column,
    default_conversion,
    resolve_column,
    resolve_default,
    resolve_options,
)
from snapshot_store.ddl.specs import Constraint, KeySpec
from snapshot_store.ddl.validate.alter import check_actions
from snapshot_store.ddl.validate.columns import column_bytes
from snapshot_store.ddl.validate.partitions import check_partitioned, partitioned, worked_on
from snapshot_store.errors import AlreadyExists, UnknownColumn, UnknownIndex
from snapshot_store.model import Column, Index, IndexPart, Schema, Table, with_attributes
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.sql.cursor import names_in


def alter_table(
    context: Context, table: Table, actions: Sequence[Action], schema: Schema, session_schema: Schema | None
) -> Table:
    """Return the table after all actions but RENAME TO. Raises UnknownColumn, UnknownIndex or AlreadyExists.

    `session_schema` is the session's database, which CONVERT TO CHARACTER SET DEFAULT means.
    """
    if all(isinstance(action, RenameTo) for action in actions):
        return table
    table = rewritten(table)
    actions = without_conditions(table, actions)
    work = _Work(context, table, actions)
    for name in (name for rebuild in _only(actions, Rebuild) for name in rebuild.order):
        work.known(name)
    if context.session.validate:
        check_actions(context, table, actions)
        check_generated_key(context, table, actions)
    conversion = _conversion(
        context,
        actions,
        default_conversion(context.session, session_schema),
    )
    table = _with_options(context, table, actions, (schema.charset, schema.collation), conversion)
    columns = _arranged(work, table, _changed_columns(work, table))
    columns = with_key_first(work.table, table.engine, work.table.columns[0].name.lower() in work.dropped, columns)
    if conversion is not None:
        columns = [converted_column(context, c, conversion) for c in columns]
    check_names(tuple(columns), table.name)
    if not context.session.explicit_defaults_for_timestamp:
        columns = list(with_implicit_timestamps(context, tuple(columns)))
    table = replace(table, columns=tuple(columns))
    table = _without_constraints(work, table)
    table = replace(table, indexes=_carried_indexes(work, table))
    if context.session.validate:
        specs = [a.column for a in actions if isinstance(a, AddColumn | ChangeColumn)]
        check_nulls(context, specs, [*work.constraints(), *_primary_key(table)])
    table = with_constraints(context, table, work.constraints())
    table = _with_partitions(context, table, actions)
    check_key_left(context, work.table, table)
    return with_block_sizes(table)


def _primary_key(table: Table) -> list[Constraint]:
    key = table.primary_key
    return [] if key is None else [KeySpec("primary", None, key.parts)]


def _with_partitions(context: Context, table: Table, actions: Sequence[Action]) -> Table:
    for action in actions:
        if isinstance(action, PartitionWork):
            table = worked_on(context, table, action)
        elif isinstance(action, SetPartitioning) and action.spec is not None:
            table = partitioned(context, table, action.spec)
        elif isinstance(action, SetPartitioning):
            context.limit(bool(table.partitioning), f"table {table.name} is not partitioned")
            table = replace(table, partitioning=None)
    if context.session.validate:
        check_partitioned(context, table)
    return table


@dataclass(slots=True)
class _Work:
    """The actions of a statement, indexed by column: names are those of the old table, in lower case."""

    context: Context
    table: Table
    actions: Sequence[Action]
    dropped: set[str] = field(init=False)
    changed: dict[str, ChangeColumn] = field(init=False)
    new_names: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.dropped = {self.known(a.name) for a in _only(self.actions, DropColumn)}
        self.changed = {self.known(a.old): a for a in _only(self.actions, ChangeColumn)}
        renames = {self.known(a.old): a.new for a in _only(self.actions, RenameColumn)}
        self.new_names = {**renames, **{old: a.column.name for old, a in self.changed.items()}}

    def known(self, column: str) -> str:
        """Return the lower-case name of an old column; raises UnknownColumn."""
        if self.table.index_of(column) is None:
            raise UnknownColumn(f"table {self.table.schema}.{self.table.name} has no column {column}")
        return column.lower()

    def constraints(self) -> list[Constraint]:
        """Return the new keys, checks and foreign keys in the order written."""
        constraints: list[Constraint] = []
        for action in self.actions:
            if isinstance(action, AddConstraint):
                constraints.append(action.constraint)
            elif isinstance(action, AddColumn | ChangeColumn):
                constraints += action.column.constraints
        return constraints


_A = TypeVar("_A")


def _only(actions: Iterable[object], kind: type[_A]) -> list[_A]:
    return [action for action in actions if isinstance(action, kind)]


def _with_options(
    context: Context, table: Table, actions: Sequence[Action], inherited: Charset, conversion: Charset | None
) -> Table:
    charset: Charset = conversion or (table.charset, table.collation)
    chosen = conversion is not None
    for action in actions:
        if isinstance(action, SetOptions):
            options = action.options
            new = resolve_options(context, options, charset if chosen else (table.charset, table.collation))
            if options.charset is not None and options.charset.upper() == "DEFAULT":
                new = inherited
            if chosen and options.charset is not None:
                context.limit(new[0] == charset[0], f"two character sets, {charset[0]} and {new[0]}")
                new = charset
            if chosen and options.collation is not None:
                context.limit(new[0] == charset[0], f"{new[1]} is not of character set {charset[0]}")
            chosen = chosen or options.charset is not None or options.collation is not None
            charset = new
            if options.engine is not None:
                engine = chosen_engine(context, options.engine)
                context.limit(engine == table.engine or not table.foreign_keys, "foreign keys need engine InnoDB")
                kept = table.indexes if engine == table.engine else for_engine(table.indexes, engine)
                table = replace(table, engine=engine, indexes=kept)
            if options.comment is not None:
                table = replace(table, comment=options.comment)
            table = replace(table, attributes=with_attributes(table.attributes, options.attributes))
    return replace(table, charset=charset[0], collation=charset[1])


def _conversion(context: Context, actions: Sequence[Action], inherited: Charset) -> Charset | None:
    chosen = None
    for action in _only(actions, Convert):
        chosen = choose_charset(context, action.charset or None, action.collation, inherited)
    return chosen


def _changed_columns(work: _Work, table: Table) -> list[Column]:
    """Return the old columns that are not dropped, each with its changes, in the old order."""
    columns = []
    for column in work.table.columns:
        name = column.name.lower()
        if name in work.dropped:
            continue
        if name in work.changed:
            charset = (table.charset, table.collation)
            column = resolve_column(work.context, work.changed[name].column, charset)
        elif name in work.new_names:
            column = replace(column, name=work.new_names[name])
        columns.append(_adjusted(work, column, name))
    return columns


def _adjusted(work: _Work, column: Column, name: str) -> Column:
    for action in work.actions:
        if isinstance(action, SetDefault) and work.known(action.name) == name:
            default = resolve_default(work.context, action.default, column.type, column.name)
            null = default is not None and default.kind == "null"
            lob = not column.type.defaults_to_literal
            work.context.limit(not (null and lob), f"column {column.name} of its type takes no default")
            work.context.limit(column.nullable or not null, f"column {column.name} is NOT NULL, with the default NULL")
            column = replace(column, default=default)
        if isinstance(action, SetVisible) and action.what == "column" and work.known(action.name) == name:
            column = replace(column, invisible=not action.visible)
    return column


def _arranged(work: _Work, table: Table, columns: list[Column]) -> list[Column]:
    """Return the columns with new ones inserted and changed ones moved."""
    for action in work.actions:
        if isinstance(action, AddColumn):
            new = resolve_column(work.context, action.column, (table.charset, table.collation))
        elif isinstance(action, ChangeColumn) and action.position is not None:
            found = next((c for c in columns if c.same_name(action.column.name)), None)
            if found is None:  # dropped or changed again by the same statement: servers refuse that
                raise UnknownColumn(f"table {table.schema}.{table.name} has no column {action.old} to move")
            new, columns = found, [c for c in columns if c is not found]
        else:
            continue
        index = len(columns)
        if action.position is not None:
            index = 0 if action.position.after is None else _index_after(columns, action.position.after, work.table)
        columns = [*columns[:index], new, *columns[index:]]
    return columns


def _index_after(columns: Sequence[Column], name: str, table: Table) -> int:
    for i, column in enumerate(columns):
        if column.same_name(name):
            return i + 1
    raise UnknownColumn(f"table {table.schema}.{table.name} has no column {name} to stand AFTER")


def _without_constraints(work: _Work, table: Table) -> Table:
    """Return the table without dropped keys, foreign keys and checks, nor checks of dropped columns."""
    for drop in _only(work.actions, DropConstraint):
        table = _drop_constraint(table, drop)
    for action in _only(work.actions, SetEnforced):
        table = _enforced(table, action)
    if not work.dropped or not table.checks:
        return table
    session = work.context.session
    kept = tuple(c for c in table.checks if not names_in(c[1], session) & work.dropped)
    return replace(table, checks=kept, unenforced=tuple(n for n in table.unenforced if n in dict(kept)))


def _drop_constraint(table: Table, drop: DropConstraint) -> Table:
    name = drop.name.lower()
    indexes = tuple(i for i in table.indexes if i.name.lower() != name)
    keys = tuple(k for k in table.foreign_keys if k.name.lower() != name)
    checks = tuple(c for c in table.checks if c[0].lower() != name)
    if drop.kind in ("index", "any") and len(indexes) < len(table.indexes):
        return replace(table, indexes=indexes)
    if drop.kind in ("foreign key", "any") and len(keys) < len(table.foreign_keys):
        return replace(table, foreign_keys=keys)
    if drop.kind in ("check", "any") and len(checks) < len(table.checks):
        return replace(table, checks=checks, unenforced=tuple(n for n in table.unenforced if n.lower() != name))
    if drop.kind == "foreign key" and table.engine not in ("InnoDB", "ndbcluster"):
        return table  # An engine that does not store foreign keys accepts dropping any.
    if drop.kind in ("check", "any"):
        check_is_certain(table, drop.name)
    what = "constraint" if drop.kind == "any" else drop.kind
    raise UnknownIndex(f"table {table.schema}.{table.name} has no {what} {drop.name}")


def _enforced(table: Table, action: SetEnforced) -> Table:
    name = next((name for name, _ in table.checks if name.lower() == action.name.lower()), None)
    if name is None:
        raise UnknownIndex(f"table {table.schema}.{table.name} has no check {action.name}")
    others = tuple(n for n in table.unenforced if n != name)
    return replace(table, unenforced=others if action.enforced else (*others, name))


def _carried_indexes(work: _Work, table: Table) -> tuple[Index, ...]:
    """Return the old indexes that are not dropped, with their new names and without dropped columns."""
    indexes = list(table.indexes)
    for rename in _only(work.actions, RenameIndex):
        place = _index_place(work.table, table.indexes, rename.old)
        indexes[place] = replace(indexes[place], name=rename.new)
    for change in _only(work.actions, SetVisible):
        if change.what == "index":
            place = _index_place(work.table, indexes, change.name)
            indexes[place] = replace(indexes[place], visible=change.visible)
    names = [i.name.lower() for i in indexes]
    if len(set(names)) < len(names):
        raise AlreadyExists(f"table {table.schema}.{table.name} would have two indexes of one name")
    columns = {c.name.lower(): c for c in table.columns}
    carried = [replace(i, parts=_carried_parts(work, i.parts, columns)) for i in indexes]
    return tuple(i for i in carried if i.parts)


def _index_place(table: Table, indexes: Sequence[Index], name: str) -> int:
    for i, index in enumerate(indexes):
        if index.name.lower() == name.lower():
            return i
    raise UnknownIndex(f"table {table.schema}.{table.name} has no index {name}")


def _carried_parts(work: _Work, parts: Sequence[IndexPart], columns: Mapping[str, Column]) -> tuple[IndexPart, ...]:
    carried = []
    for part in parts:
        if part.column is None:
            carried.append(part)
        elif part.column.lower() in work.dropped and part.column.lower() in columns:
            carried.append(_inherited_part(work, part, columns[part.column.lower()]))
        elif part.column.lower() not in work.dropped:
            name = work.new_names.get(part.column.lower(), part.column)
            carried.append(fit_part(replace(part, column=name), columns[name.lower()]))
    return tuple(carried)


def _inherited_part(work: _Work, part: IndexPart, new: Column) -> IndexPart:
    """Return a key part whose column was dropped and added again: the key stays, with the length it had."""
    place = work.table.index_of(part.column or "")
    old = work.table.columns[place or 0]
    sized = old.type.length if old.type.charset or old.type.is_sized else column_bytes(old.type)
    length = part.length or sized
    whole = new.type.charset or new.type.family is Family.BYTES
    longest = new.type.length if whole else None
    fitting = (longest is None or (length or 0) <= longest) if whole else length == column_bytes(new.type)
    work.context.limit(fitting, f"the key of {new.name} is of another length")
    return fit_part(replace(part, length=length), new)
