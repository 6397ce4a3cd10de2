"""Where in a log the rows of a table are known by which columns: their key through renames of table and columns."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from binlog_merge.ask.selection import select
from binlog_merge.errors import UnknownTable
from binlog_merge.log.names import Named, Said, Tenure
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.log.versions import versions_between
from binlog_merge.values.value import BINARY_TYPES, INTEGER_BYTES, TEXT_TYPES
from snapshot_store.ddl import actions as act
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.specs import ColumnSpec, Constraint, KeySpec
from snapshot_store.diff import same_type
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.render_sql import type_sql


@dataclass(frozen=True, slots=True)
class Span:
    """Transactions in which the table has one name and its key these columns, which have these types at the end."""

    named: Named
    columns: tuple[str, ...]
    types: tuple[ColumnType, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the names of the types."""
        return tuple(kind.name for kind in self.types)


def primary_key(table: Table) -> list[str]:
    """Return the columns of a table's primary key, none if it has no such key."""
    index = table.primary_key
    return [] if index is None else [part.column for part in index.parts if part.column is not None]


def spans_of(
    binlog: MergedBinlog, tenure: Tenure, columns: tuple[str, ...], first: int
) -> tuple[list[Span], list[str]]:
    """Return where the key of a table was what these columns are at the end of its tenure, and in words where not.

    Only transactions from `first` on matter.
    """
    changes = [one for one in tenure.said if _may_change_key(one.statement)]
    cuts = sorted({one.at.begin.rank for one in changes})
    spans, left_out = list[Span](), list[str]()
    for named in tenure.names:
        begins = [named.first, *(cut for cut in cuts if named.first < cut <= named.last)]
        for begin, after in zip(begins, [*begins[1:], named.last + 1], strict=True):
            part = replace(named, first=begin, last=after - 1)
            if part.last < first:
                continue
            here = _names_before(columns, [one for one in changes if one.at.begin.rank > part.last])
            found, other = _span(binlog, part, here)
            spans += found
            left_out += other
    return spans, left_out


def _span(binlog: MergedBinlog, named: Named, columns: tuple[str, ...]) -> tuple[list[Span], list[str]]:
    """Return the part of a table's time if its key has these columns there, else what to say about it."""
    try:
        versions = versions_between(binlog, named.schema, named.name, named.first, named.last)
    except UnknownTable:
        return [], []
    tables = versions.tables()
    keys = {tuple(name.lower() for name in primary_key(table)) for table in tables}
    wanted = tuple(name.lower() for name in columns)
    if tables and all(sorted(key) == sorted(wanted) for key in keys):
        table = tables[-1]
        places = [place for column in columns if (place := table.index_of(column)) is not None]
        return [Span(named, columns, tuple(table.columns[place].type for place in places))], []
    if not _has_rows(binlog, named):
        return [], []
    others = " or ".join(", ".join(key) or "none" for key in sorted(keys - {wanted}))
    uuid = binlog.cluster_uuid
    return [], [
        f"the primary key of {named.schema}.{named.name} is {others} from {uuid}:{named.first} to "
        f"{uuid}:{named.last}: changes there are left out; ask for them with --stop {uuid}:{named.last}"
    ]


def rewritten(before: Span, after: Span) -> str:
    """Return which of the key's columns has other values from one span to the next, in words; "" if none has."""
    return ", ".join(
        f"{name} from {type_sql(old)} to {type_sql(new)}"
        for name, old, new in zip(after.columns, before.types, after.types, strict=True)
        if not _keeps_text(old, new)
    )


def _keeps_text(old: ColumnType, new: ColumnType) -> bool:
    """Return whether every value of a type that fits another is shown as the same there."""
    families = (frozenset(INTEGER_BYTES), TEXT_TYPES, BINARY_TYPES - {"binary"})
    return same_type(old, new) or any({old.name, new.name} <= family for family in families)


def _has_rows(binlog: MergedBinlog, named: Named) -> bool:
    selection = select(binlog, (named.schema, named.name), fields=("op",))
    return any(len(batch) for batch in selection.between(named.first, named.last).batches())


def _may_change_key(statement: st.Statement) -> bool:
    return isinstance(statement, st.AlterTable) and any(map(_of_key, statement.actions))


def _of_key(action: act.Action) -> bool:
    match action:
        case act.AddConstraint(constraint=added):
            return _is_primary((added,))
        case act.AddColumn(column=ColumnSpec(constraints=constraints)):
            return _is_primary(constraints)
    return isinstance(action, act.RenameColumn | act.ChangeColumn | act.DropColumn | act.DropConstraint | act.Convert)


def _is_primary(constraints: Iterable[Constraint]) -> bool:
    return any(isinstance(one, KeySpec) and one.kind == "primary" for one in constraints)


def _names_before(columns: tuple[str, ...], later: list[Said]) -> tuple[str, ...]:
    """Return what columns were called before some statements, which are in order."""
    for one in reversed(later):
        assert isinstance(one.statement, st.AlterTable)
        # The actions of one statement all take the names from before it.
        old = {}
        for action in one.statement.actions:
            if isinstance(action, act.RenameColumn):
                old[action.new.lower()] = action.old
            elif isinstance(action, act.ChangeColumn):
                old[action.column.name.lower()] = action.old
        columns = tuple(old.get(name.lower(), name) for name in columns)
    return columns
