"""Partitions after a statement, and the checks for them.

Sources: `prep_alter_part_table` and `check_partition_info` of mysql-server `sql/sql_partition.cc` and
`sql/partition_info.cc`; refman, "Partitioning Keys, Primary Keys, and Unique Keys". Each rule is compared with a real
server by the statements of fixtures/ddl.
"""

from dataclasses import replace

from snapshot_store.ddl.actions import PartitionWork
from snapshot_store.ddl.parse.partitions import bound_of, partitioning_of
from snapshot_store.ddl.resolve import Context
from snapshot_store.ddl.specs import Partition, PartitionSpec
from snapshot_store.ddl.validate.keys import row_key
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.sql.lexer import tokenize
from snapshot_store.partitioning import Part, Partitioning

_WHOLE = frozenset({Family.INTEGER, Family.YEAR, Family.BIT})


def partitioned(context: Context, table: Table, spec: PartitionSpec) -> Table:
    """Return the table partitioned by a PARTITION BY clause."""
    key = row_key(table)
    columns = tuple(part.column or "" for part in key.parts) if key else ()
    found = partitioning_of(spec, columns)
    if context.session.validate:
        _check_spec(context, table, spec, found)
    return replace(table, partitioning=found)


def worked_on(context: Context, table: Table, work: PartitionWork) -> Table:
    """Return the table after an action on its partitions."""
    context.limit(bool(table.partitioning), f"table {table.name} is not partitioned")
    if table.partitioning is None:
        return table
    found = table.partitioning
    known = {name.lower() for name in (*found.names, *found.subpartitions)}
    if work.names != ("ALL",):
        for name in work.names:
            context.limit(name.lower() in known, f"there is no partition {name}")
    if work.kind == "DROP":
        found = _dropped(context, found, work)
    elif work.kind == "ADD":
        found = _added(context, found, work)
    elif work.kind == "COALESCE":
        context.limit(not found.by_value, "COALESCE is for HASH and KEY partitions")
        left = len(found.names) - (work.count or 0)
        context.limit(0 < left < len(found.names), f"COALESCE would leave {left} partitions")
        found = found.with_parts(found.parts[: max(left, 1)])
    elif work.kind == "REORGANIZE" and not work.names:
        # Without a list, a server makes as many partitions as its engine would choose: one.
        context.limit(not found.by_value, "partitions by value are reorganized by name")
        found = found if found.by_value else found.with_parts(found.parts[:1])
    elif work.kind == "REORGANIZE":
        found = _reorganized(context, found, work)
    return replace(table, partitioning=found)


def _dropped(context: Context, found: Partitioning, work: PartitionWork) -> Partitioning:
    context.limit(found.by_value, "DROP PARTITION is for RANGE and LIST partitions")
    gone = {name.lower() for name in work.names}
    left = [part for part in found.parts if part[0].lower() not in gone]
    context.limit(bool(left), "all partitions would be dropped")
    return found.with_parts(left)


def _added(context: Context, found: Partitioning, work: PartitionWork) -> Partitioning:
    context.limit(found.by_value == bool(work.partitions), f"partitions by {found.method} are not added like this")
    parts = found.parts
    if work.count is not None:
        parts += [(f"p{len(parts) + i}", "", ()) for i in range(work.count)]
    parts += [(p.name, bound_of(p), p.tuples) for p in work.partitions]
    _check_partitions(context, found.method, work.partitions)
    _check_parts(context, parts)
    return _with_new(found, parts, work)


def _with_new(found: Partitioning, parts: list[Part], work: PartitionWork) -> Partitioning:
    new = work.partitions
    return found.with_parts(parts, {p.name: p.subpartitions for p in new}, tuple(said for p in new for said in p.said))


def _reorganized(context: Context, found: Partitioning, work: PartitionWork) -> Partitioning:
    context.limit(found.by_value == bool(work.partitions), "REORGANIZE does not suit these partitions")
    gone = [name.lower() for name in work.names]
    parts = found.parts
    places = [i for i, part in enumerate(parts) if part[0].lower() in gone]
    if not places:
        return found
    context.limit(places[-1] - places[0] == len(places) - 1, "the partitions to reorganize are not neighbours")
    new = [(p.name, bound_of(p), p.tuples) for p in work.partitions]
    parts = [*parts[: places[0]], *new, *[p for i, p in enumerate(parts) if i > places[0] and i not in places]]
    _check_partitions(context, found.method, work.partitions)
    _check_parts(context, parts)
    return _with_new(found, parts, work)


def _check_parts(context: Context, parts: list[Part]) -> None:
    names = [name.lower() for name, _, _ in parts]
    context.limit(len(set(names)) == len(names), "two partitions have one name")
    context.limit(len(names) <= 8192, "too many partitions")
    last: float | None = None
    for name, bound, _ in parts:
        if not bound:
            last = None
            continue
        value = float("inf") if bound == "MAXVALUE" else float(int(bound))
        context.limit(last is None or last < value, f"the bound of partition {name} is not above the one before")
        last = value


def _check_partitions(context: Context, method: str, partitions: tuple[Partition, ...]) -> None:
    wanted = method.split()[0] if method.startswith(("RANGE", "LIST")) else ""
    seen: list[str] = []
    for partition in partitions:
        context.limit(partition.kind == wanted, f"partition {partition.name} does not suit {method}")
        if partition.kind == "LIST":
            seen += [value.upper() for value in partition.values]
    context.limit(len(set(seen)) == len(seen), "a value is in two partitions")


def _check_spec(context: Context, table: Table, spec: PartitionSpec, found: Partitioning) -> None:
    context.limit(table.engine in ("InnoDB", "ndbcluster"), f"engine {table.engine} has no partitions")
    context.limit(not table.foreign_keys, "a partitioned table has no foreign keys")
    context.limit(bool(spec.partitions) or not found.by_value, f"partitions by {spec.method} must be listed")
    listed = spec.count is None or not spec.partitions or spec.count == len(spec.partitions)
    context.limit(listed, f"{len(spec.partitions)} partitions are listed, {spec.count} announced")
    context.limit(bool(found.columns) or spec.method == "HASH", "KEY () needs a key")
    _check_values(context, table, spec)
    _check_partitions(context, spec.method, spec.partitions)
    _check_parts(context, found.parts)
    for name in found.columns:
        place = table.index_of(name)
        context.limit(place is not None, f"partitioning by {name}, which is no column")
        if place is not None:
            _check_type(context, table.columns[place].type, name, spec)


def _check_values(context: Context, table: Table, spec: PartitionSpec) -> None:
    """Check that values for RANGE COLUMNS and LIST COLUMNS fit the column's type; several columns are not checked."""
    if not spec.method.endswith("COLUMNS") or len(spec.columns) != 1:
        return
    index = table.index_of(spec.columns[0])
    number = index is not None and table.columns[index].type.family in _WHOLE
    for partition in spec.partitions:
        for text in partition.values:
            for token in tokenize(text, context.session)[:1]:
                wrong = token.kind == ("string" if number else "number")
                context.limit(not wrong, f"{text} is no value of column {spec.columns[0]}")


def _check_type(context: Context, type: ColumnType, name: str, spec: PartitionSpec) -> None:
    if spec.method == "KEY":
        context.limit(type.defaults_to_literal, f"column {name} of type {type.name} cannot tell partitions apart")
    elif spec.method.endswith("COLUMNS"):
        dated = type.family is Family.DATE or type.name == "datetime"
        fits = dated or type.family is Family.INTEGER or type.is_sized
        context.limit(fits, f"column {name} of type {type.name} cannot tell partitions apart")
    elif spec.column is not None and spec.column.lower() == name.lower():
        context.limit(type.family in _WHOLE, f"column {name} of type {type.name} is no whole number")


def check_partitioned(context: Context, table: Table) -> None:
    """Raise DdlRejected if a unique key lacks a partitioning column, or such a column is missing or cannot be one."""
    if not table.partitioning:
        return
    for column in table.columns:
        context.limit(column.type.family is not Family.GEOMETRY, f"a partitioned table has no geometry {column.name}")
    wanted = {name.lower() for name in table.partitioning.columns}
    for name in wanted:
        index = table.index_of(name)
        context.limit(index is not None, f"column {name} tells partitions apart: it must stay")
        type = table.columns[index].type if index is not None else None
        if type is not None:
            context.limit(type.defaults_to_literal, f"column {name} of type {type.name} cannot tell partitions apart")
    for key in table.indexes:
        if key.unique:
            columns = {(part.column or "").lower() for part in key.parts}
            context.limit(wanted <= columns, f"unique key {key.name} lacks a column that tells partitions apart")
    context.limit(not table.foreign_keys, "a partitioned table has no foreign keys")
    context.limit(table.engine in ("InnoDB", "ndbcluster"), f"engine {table.engine} has no partitions")
