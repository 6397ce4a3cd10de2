"""Writes the statements that turn the logical table into the join of the shards' tables.

A shard's own statement is used if it does exactly that: the whole statement, else some of its clauses. If it does not
(a NOT NULL column that needs a DEFAULT while other shards lack it, or the last shard that needed a column), an ALTER
TABLE is generated from the difference of the tables. A renamed column is renamed, never dropped and added, so that its
values stay.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from binlog_merge.pipeline.coordinate.shards.clauses import applied, applied_parsed, columns_named
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import order
from binlog_merge.pipeline.coordinate.shards.optimistic.unseen import no_tighter, tightens
from binlog_merge.pipeline.coordinate.shards.values import ShardDdl
from snapshot_store.ask.alter import alter_sql
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.lattice.columns import compare_columns
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import NO_ZERO_DATE, NO_ZERO_IN_DATE, DdlSession
from snapshot_store.render_sql import column_sql, in_session

Renames = Sequence[tuple[str, str]]
Candidate = tuple[ShardDdl, Sequence[str]]
"""Statements that may be written, and the shard's DDL that they are from."""


@dataclass(frozen=True, slots=True)
class WrittenDdl:
    """Statements, the table after them, and the DDL that they are from, None if they are generated; no statement if
    only display widths change.
    """

    statements: tuple[str, ...]
    table: Table
    author: ShardDdl | None = None

    @property
    def own(self) -> bool:
        """Return whether they are a user's own."""
        return self.author is not None


def write(
    logical: Table,
    joined: Table,
    own: Iterable[Candidate],
    renames: Renames,
    origin: Table,
    session: DdlSession,
    alone: bool = False,
) -> WrittenDdl | None:
    """Return the statements that turn the logical table into `joined`; None if no statement does.

    `own` are candidate statements of users, the likeliest first; unless `alone`, they must not empty a column, as other
    shards may have kept it. New columns get their position from `origin`. `session` is that of generated statements.
    """
    for author, statements in own:
        done = _carried_out(logical, joined, statements, writing_session(author.session or session), alone)
        if done is not None:
            return WrittenDdl(*done, author)
    made = _made(logical, joined, renames, origin, writing_session(session))
    return None if made is None else WrittenDdl(*made)


def writing_session(session: DdlSession) -> DdlSession:
    """Return the session for which statements are written: a zero date may be a DEFAULT while shards differ.

    Tables that foreign keys reference are not checked.
    """
    mode = session.sql_mode & ~(NO_ZERO_DATE | NO_ZERO_IN_DATE)
    return replace(session, sql_mode=mode, validate=True, foreign_key_checks=False)


def _carried_out(
    logical: Table, joined: Table, statements: Sequence[str], session: DdlSession, alone: bool
) -> tuple[tuple[str, ...], Table] | None:
    """Return the statements and the table after them, which is `joined`; None if it is not.

    Of several that neither drop nor rename columns, those are left out that cannot be run, as another shard has brought
    the same, or that bring a check or a foreign key that not all shards have.
    """
    table, run = logical, list[str]()
    try:
        parsed = [ParsedDdl.of(sql, session) for sql in statements]
    except SnapshotStoreError:
        return None
    named = [columns_named(ddl.statement) for ddl in parsed]
    if not alone and any({n.lower() for n in adds} & {n.lower() for n in drops} for adds, drops, _ in named):
        return None
    strict = len(parsed) == 1 or any(drops or renames for _, drops, renames in named)
    for ddl in parsed:
        try:
            after = applied_parsed(table, ddl)
        except SnapshotStoreError:
            if strict:
                return None
            continue
        if alone or not tightens(table, after, joined):
            run.append(ddl.sql)
            table = after
        elif strict:
            return None
    return (tuple(run), table) if run and order(table, joined) == 0 else None


def _made(
    logical: Table, joined: Table, renames: Renames, origin: Table, session: DdlSession
) -> tuple[tuple[str, ...], Table] | None:
    statements: list[str] = []
    table = logical
    try:
        for sql in (in_session(sql, session) for sql in _renaming(table, joined, renames)):
            statements.append(sql)
            table = applied(table, sql, session)
        for make in (alter_sql, _without_default):
            for sql in (in_session(sql, session) for sql in make(table, target(table, joined, origin))):
                statements.append(sql)
                table = applied(table, sql, session)
    except SnapshotStoreError:
        return None
    table = _as_wide(table, joined)
    return (tuple(statements), table) if order(table, joined) == 0 else None


def _as_wide(table: Table, joined: Table) -> Table:
    """Return the table with the display widths of `joined`: no statement sets them, since servers forget them."""
    widths = {column.name.lower(): column.type.display_width for column in joined.columns}
    columns = (replace(c, type=replace(c.type, display_width=widths.get(c.name.lower()))) for c in table.columns)
    return replace(table, columns=tuple(columns))


def _without_default(table: Table, wanted: Table) -> tuple[str, ...]:
    """Return statements that remove the DEFAULT NULL that a column definition implies."""
    name = f"{quote_name(table.schema)}.{quote_name(table.name)}"
    return tuple(
        f"ALTER TABLE {name} ALTER COLUMN {quote_name(column.name)} DROP DEFAULT"
        for column in wanted.columns
        if column.default is None
        and column.nullable
        and column.generated is None
        and (i := table.index_of(column.name)) is not None
        and table.columns[i].default is not None
    )


def _renaming(logical: Table, joined: Table, renames: Renames) -> list[str]:
    """Return a statement for each rename that applies: the old name goes, and the new one does not exist yet."""
    found = {}
    for old, new in renames:
        i = logical.index_of(old)
        if i is not None and joined.index_of(old) is None and joined.index_of(new) is not None:
            found[old.lower()] = (logical.columns[i], new)
    taken = {c.name.lower() for c in logical.columns} - set(found)
    table = f"{quote_name(logical.schema)}.{quote_name(logical.name)}"
    return [
        # CHANGE also works on servers before 8.0.
        f"ALTER TABLE {table} CHANGE COLUMN {quote_name(c.name)} {column_sql(replace(c, name=new), logical)}"
        for c, new in found.values()
        if new.lower() not in taken
    ]


def target(logical: Table, joined: Table, origin: Table) -> Table:
    """Return `joined` as a minimal change of the logical table: attributes that need not change stay."""
    columns = [
        _kept(column, joined.columns[place])
        for column in logical.columns
        if (place := joined.index_of(column.name)) is not None
    ]
    for column in joined.columns:
        if logical.index_of(column.name) is None:
            columns.insert(_insert_index(column.name, origin, columns), column)
    return replace(
        no_tighter(logical, joined),
        columns=tuple(columns),
        indexes=_indexes(logical, joined),
        charset=joined.charset,
        collation=joined.collation,
    )


def _kept(mine: Column, joined: Column) -> Column:
    if all(finding.verdict == 0 for finding in compare_columns(mine, joined)):
        return mine
    return replace(joined, name=mine.name, comment=mine.comment, invisible=mine.invisible)


def _insert_index(name: str, origin: Table, columns: Sequence[Column]) -> int:
    """Return the index of a new column: after the nearest existing one of the columns before it in `origin`."""
    i = origin.index_of(name)
    if i is None:
        return len(columns)
    names = [c.name.lower() for c in columns]
    before = [c.name.lower() for c in origin.columns[:i]]
    return next((names.index(n) + 1 for n in reversed(before) if n in names), 0)


def _indexes(logical: Table, joined: Table) -> tuple[Index, ...]:
    wanted = {index.name.lower(): index for index in joined.indexes}
    mine = {index.name.lower(): index for index in logical.indexes}
    kept = [_same_or(mine[name], wanted[name]) for name in mine if name in wanted]
    return (*kept, *(index for name, index in wanted.items() if name not in mine))


def _same_or(mine: Index, joined: Index) -> Index:
    alike = replace(joined, name=mine.name, visible=mine.visible) == mine
    return mine if alike else replace(joined, visible=mine.visible)
