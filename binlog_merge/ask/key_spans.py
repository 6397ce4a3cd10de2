"""Where in a log the rows of a table are known by which columns: their key through renames of table and columns."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from binlog_merge.ask.formats import plain_of
from binlog_merge.binlog.arrow import cell_value
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.errors import MergeError, UnknownTable
from binlog_merge.log.altered_cells import altered_cells
from binlog_merge.log.log import Log
from binlog_merge.log.names import Named, Said, Tenure
from binlog_merge.log.question import Question, select
from binlog_merge.log.read import batches
from binlog_merge.log.statement import StatementSession
from binlog_merge.log.versions import versions_between
from binlog_merge.store_errors import as_merge_errors
from binlog_merge.values.types import column_facts_of
from binlog_merge.values.value import ConversionError
from snapshot_store.ddl import actions as act
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.specs import ColumnSpec, Constraint, KeySpec
from snapshot_store.diff import same_type
from snapshot_store.history import TableVersion
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.sql.session import STRICT_ALL_TABLES, STRICT_TRANS_TABLES
from snapshot_store.render_sql import type_sql
from snapshot_store.store.db import Store


@dataclass(frozen=True, slots=True)
class Span:
    """Transactions in which the table has one name and its key these columns, `parts` at their end."""

    named: Named
    columns: tuple[str, ...]
    parts: tuple[Column, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the names of the columns' types."""
        return tuple(part.type.name for part in self.parts)


def primary_key(table: Table) -> list[str]:
    """Return the columns of a table's primary key, none if it has no such key."""
    index = table.primary_key
    return [] if index is None else [part.column for part in index.parts if part.column is not None]


def spans_of(binlog: Log, tenure: Tenure, columns: tuple[str, ...], first: int) -> tuple[list[Span], list[str]]:
    """Return where the key of a table was what these columns are at the end of its tenure, and in words where not.

    Only transactions from `first` on matter.
    """
    changes = [one for one in tenure.said if _may_change_key(one.statement)]
    versions = {one.at.begin.rank: made for one, made in zip(changes, versions_made(binlog, changes), strict=True)}
    cuts = sorted(versions)
    spans, left_out = list[Span](), list[str]()
    for named in tenure.names:
        begins = [named.first, *(cut for cut in cuts if named.first < cut <= named.last)]
        for begin, after in zip(begins, [*begins[1:], named.last + 1], strict=True):
            part = replace(named, first=begin, last=after - 1)
            if part.last < first:
                continue
            here = _names_before(columns, [one for one in changes if one.at.begin.rank > part.last])
            found, other = _span(binlog, part, here, versions.get(begin))
            spans += found
            left_out += other
    return spans, left_out


def _span(
    binlog: Log, named: Named, columns: tuple[str, ...], made: TableVersion | None
) -> tuple[list[Span], list[str]]:
    """Return the part of a table's time if its key has these columns there, else what to say about it.

    `made` is the definition that the statement made with which the part begins.
    """
    if made is not None and made.table is not None:
        tables: tuple[Table, ...] = (made.table,)
    else:
        try:
            tables = versions_between(binlog, named.schema, named.name, named.first, named.last).tables()
        except UnknownTable:
            return [], []
    keys = {tuple(name.lower() for name in primary_key(table)) for table in tables}
    wanted = tuple(name.lower() for name in columns)
    if tables and all(sorted(key) == sorted(wanted) for key in keys):
        table = tables[-1]
        places = [place for column in columns if (place := table.index_of(column)) is not None]
        return [Span(named, columns, tuple(table.columns[place] for place in places))], []
    if not _has_rows(binlog, named):
        return [], []
    others = " or ".join(", ".join(key) or "none" for key in sorted(keys - {wanted}))
    uuid = binlog.cluster_uuid
    return [], [
        f"the primary key of {named.schema}.{named.name} is {others} from {uuid}:{named.first} to "
        f"{uuid}:{named.last}: changes there are left out; ask for them with --stop {uuid}:{named.last}"
    ]


def versions_made(binlog: Log, said: Sequence[Said]) -> list[TableVersion | None]:
    """Return the definitions that statements made, which only the schema store has; None where it is not certain."""
    with binlog.folder.schema_store() as (path, _):
        if not path.exists():
            return [None] * len(said)
        with as_merge_errors(path), Store.open(path, True) as store:
            versions = store.history_of([(None, *name) for name in dict.fromkeys(one.name for one in said)]).versions
    known: dict[tuple[str, str, str], list[TableVersion]] = {}
    for version in versions:
        known.setdefault((version.schema, version.name, version.ddl), []).append(version)
    same = [(*one.name, one.at.statement.body) for one in said]
    counts, seen = Counter(same), Counter[tuple[str, str, str]]()
    found: list[TableVersion | None] = []
    for one in same:
        made = known.get(one, [])
        found.append(made[seen[one]] if len(made) == counts[one] else None)
        seen[one] += 1
    return found


def rewritten(before: Span, after: Span) -> str:
    """Return which of the key's columns has other values from one span to the next, in words; "" if none has."""
    return ", ".join(
        f"{name} from {type_sql(old.type)} to {type_sql(new.type)}"
        for name, old, new in zip(after.columns, before.parts, after.parts, strict=True)
        if not _keeps_text(old.type, new.type)
    )


def _keeps_text(old: ColumnType, new: ColumnType) -> bool:
    """Return whether every value of a type that fits another is shown as the same there."""
    alike = old.family is new.family and old.family in (Family.INTEGER, Family.TEXT, Family.BYTES)
    return same_type(old, new) or (alike and "binary" not in (old.name, new.name))


def _has_rows(binlog: Log, named: Named) -> bool:
    selection = select(binlog, Question((named.schema, named.name), fields="op"))
    return any(len(batch) for batch in batches(binlog, replace(selection, first=named.first, last=named.last)))


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


Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AlteredKey:
    """A statement that gives a key other values, and the key before and after it."""

    said: Said
    before: Span
    after: Span

    def made_of(self, values: Values) -> Values | None:
        """Return what the statement makes of a key."""
        return _converted(self.before.parts, self.after.parts, values, self._session, self._alone)

    def source_of(self, values: Values) -> Values | None:
        """Return a key of which the statement makes this one; there may be others."""
        session = self._session
        lenient = replace(session.ddl, sql_mode=session.ddl.sql_mode & ~(STRICT_TRANS_TABLES | STRICT_ALL_TABLES))
        session = replace(session, ddl=lenient)
        found = _converted(self.after.parts, self.before.parts, values, session, self._alone)
        return found if found is not None and self.made_of(found) == values else None

    @property
    def _session(self) -> StatementSession:
        return StatementSession.of(self.said.at.statement)

    @property
    def _alone(self) -> bool:
        statement = self.said.statement
        actions = statement.actions if isinstance(statement, st.AlterTable) else ()
        return len(actions) == 1 and isinstance(actions[0], act.ChangeColumn)


def _converted(
    old: Sequence[Column], new: Sequence[Column], values: Values, session: StatementSession, alone: bool
) -> Values | None:
    try:
        return tuple(
            _shown(after, altered_cells(before, after, [_cell(before, value)], session, alone)[0])
            for before, after, value in zip(old, new, values, strict=True)
        )
    except (ConversionError, CellValueError, BinlogFormatError, MergeError):
        return None


def _cell(column: Column, shown: Any) -> bytes:
    facts = column_facts_of(column, True)
    value = bytes.fromhex(shown[2:]) if pa.types.is_binary(facts.type) else shown
    if column.type.name == "binary":
        value = value.rstrip(b"\0")  # which its cells leave out
    return encode_cell(facts.code, facts.meta, value, facts.unsigned, facts.charset, facts.members)


def _shown(column: Column, cell: bytes | None) -> Any:
    facts = column_facts_of(column, True)
    value = cell_value(cell, facts.code, facts.meta, facts.unsigned, facts.charset, facts.members, facts.kind, True)
    return plain_of(facts.type)(value)
