"""The columns that a route fills in on the logical table (the table, schema and node that a row comes from), and a
shard's statement, written for keys that have them.

    extract-table:  {table-regexp: "t_(.*)", target-column: "c_table"}     a row of t_7 has c_table '7'

The groups that a regular expression captures are concatenated; without a match the column is empty. Source:
pingcap/tidb `pkg/util/table-router`, `FetchExtendColumn` and `extractVal`.

With `key: true` the column is the last of the primary key and of every unique one (DM's users change their targets so
by hand), so that shards may give out equal keys. An AUTO_INCREMENT column stays the first of its key.

    ALTER TABLE t ADD UNIQUE KEY mail (mail)     with a key column c_shard is
    ALTER TABLE t ADD UNIQUE KEY mail (mail, `c_shard`)

    ALTER TABLE t ADD COLUMN mail INT UNIQUE     takes a clause of its own:
    ALTER TABLE t ADD COLUMN mail INT, ADD UNIQUE KEY `mail` (`mail`, `c_shard`)

    ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES parents (id)     refers to the parent of the same shard:
    ALTER TABLE t ADD FOREIGN KEY (p, `c_shard`) REFERENCES parents (id, `c_shard`)

    ALTER TABLE t DROP COLUMN mail               leaves no key that has nothing but c_shard:
    ALTER TABLE t DROP COLUMN mail, DROP KEY `mail`

Names are inserted and attributes cut out by offset; the rest of the user's text stays. What comes out is carried out on
the table, and must give it the keys that it is to have.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from binlog_merge.config.modes import Extract
from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.coordinate.shards.clauses import applied
from binlog_merge.pipeline.coordinate.shards.values import Step
from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError
from snapshot_store.model import Column, Default, ForeignKey, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.sql.cursor import Cursor, depths_of
from snapshot_store.mysql.sql.edits import Edits
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import DdlSession

LONGEST = 255
"""The length in characters of an extracted column, if no logical table defines it."""
LONGEST_IN_KEY = 64
"""The length of one that is part of keys: that of MySQL's names, as an index is not longer than 3,072 bytes."""


KeyColumns = Callable[[tuple[str, str]], tuple[str, ...]]
"""Returns the extracted columns that are part of the keys of a logical table."""


def with_columns(
    table: Table, extract: Extract, like: Table | None = None, key_columns: KeyColumns = lambda name: ()
) -> Table:
    """Return a shard's table with the extracted columns, as coordination compares it.

    They are defined as in `like`, the logical table, if it has them, otherwise as VARCHAR. They follow the shard's own
    columns; a shard's own column of the same name is kept. Those that are part of keys follow the columns of each, and
    those of a table that a foreign key refers to are part of it, too. Raises ConfigError if they cannot be.
    """
    lengths = {name: LONGEST_IN_KEY if name in extract.keys else LONGEST for name in extract.columns}
    added = [_column(name, n, table, like) for name, n in lengths.items() if table.index_of(name) is None]
    indexes = tuple(_with_parts(index, extract.keys) if index.unique else index for index in table.indexes)
    extended = replace(table, columns=(*table.columns, *added), indexes=indexes)
    for key in table.foreign_keys:
        extended = _with_parent_keys(extended, key, key_columns)
    return extended


def check_keys(shard: object, name: tuple[str, str], own: Sequence[str], key_columns: KeyColumns) -> None:
    """Raise ConfigError if a shard's route has not the columns that are part of the keys of its logical table."""
    wanted = key_columns(name)
    if set(own) != set(wanted):
        raise ConfigError(
            f"{shard} is a shard of {'.'.join(name)}, whose keys have {', '.join(wanted)} by another route, and "
            f"its own has {', '.join(own) or 'none'}",
            remedy="give all shards of the table a route with the same columns with `key: true`, and merge into an "
            "empty directory",
        )


def check_parents(table: Table, key_columns: KeyColumns) -> None:
    """Raise ConfigError if a table without extracted columns refers to one whose keys have some."""
    for key in table.foreign_keys:
        _with_parent_keys(table, key, key_columns)


def _with_parent_keys(table: Table, key: ForeignKey, key_columns: KeyColumns) -> Table:
    """Return a table with a foreign key, and the index that it needs, extended by the key columns of its parent."""
    parent = key.target(table.schema)
    added = tuple(name for name in key_columns(parent) if name.lower() not in {c.lower() for c in key.columns})
    if not added:
        return table
    child, names = f"{table.schema}.{table.name}", ", ".join(added)
    said = f"foreign key {key.name} of {child} refers to {'.'.join(parent)}, whose keys have {names}"
    if any(table.index_of(name) is None for name in added):
        raise ConfigError(
            f"{said}, which {child} lacks",
            remedy=f"give the route of {child} the same extracted columns (they need no key: true), and merge into an "
            "empty directory",
        )
    if key.sets_null:
        raise ConfigError(
            f"{said}, and SET NULL would empty them, which are not NULL",
            remedy="let its shards be tables of their own (`source-pattern`), or change the foreign key",
        )
    columns = (*key.columns, *added)
    longer = replace(key, columns=columns, referenced=(*key.referenced, *added))
    own = [name.lower() for name in key.columns]
    indexes = tuple(
        _with_parts(index, added) if [(part.column or "").lower() for part in index.parts] == own else index
        for index in table.indexes
    )
    if not any(_begins(index, columns) for index in indexes):
        taken = {index.name.lower() for index in indexes}
        name = key.name or columns[0]
        name = name if name.lower() not in taken else f"{name}_{len(indexes)}"
        indexes += (Index(name, tuple(map(IndexPart, columns)), implicit=True),)
    keys = tuple(longer if other == key else other for other in table.foreign_keys)
    return replace(table, indexes=indexes, foreign_keys=keys)


def _begins(index: Index, columns: Sequence[str]) -> bool:
    return [(p.column or "").lower() for p in index.parts[: len(columns)]] == [name.lower() for name in columns]


def _with_parts(index: Index, columns: Sequence[str]) -> Index:
    has = {part.column.lower() for part in index.parts if part.column is not None}
    parts = (IndexPart(name) for name in columns if name.lower() not in has)
    return replace(index, parts=(*index.parts, *parts))


def filled(logical: Table, extract: Extract, node: str, schema: str, table: str) -> Table:
    """Return the logical table with a shard's values as DEFAULT of the extracted columns."""
    values = {name.lower(): value for name, value in extract.values(node, schema, table)}
    columns = tuple(
        replace(c, default=Default("literal", values[c.name.lower()])) if c.name.lower() in values else c
        for c in logical.columns
    )
    return replace(logical, columns=columns)


def _column(name: str, length: int, table: Table, like: Table | None) -> Column:
    i = None if like is None else like.index_of(name)
    if like is not None and i is not None:
        return like.columns[i]
    type = ColumnType("varchar", length, charset=table.charset, collation=table.collation)
    return Column(name, type, nullable=False, default=Default("literal", ""))


_Piece = tuple[int, int, str]  # what stands between two offsets instead


def extended(step: Step, before: Table, extract: Extract, session: DdlSession, key_columns: KeyColumns) -> Step:
    """Return a shard's clause on `before`, the table with the extracted columns, which change as others do: their
    character set with CONVERT TO.

    Raises DdlNotUnderstood if the keys of the table cannot be changed so.
    """
    try:
        like = applied(before, step.sql, session)
    except SnapshotStoreError:
        like = before
    after = with_columns(step.after, extract, like, key_columns)
    return replace(step, sql=keyed_sql(step.sql, session, before, after, extract.keys), after=after)


def keyed_sql(sql: str, session: DdlSession, before: Table, after: Table, columns: Sequence[str]) -> str:
    """Return a statement that gives `before` the keys of `after`, which have extracted columns: `columns` in the
    unique ones, those of its parent in a foreign one.

    Raises DdlNotUnderstood if that cannot be written.
    """
    if _has_keys(sql, session, before, after):
        return sql
    cursor = Cursor.of(sql, session)
    edits = Edits(cursor)
    for piece in sorted(_pieces(cursor, before, after, columns)):
        edits.replace(*piece)
    sql = edits.applied()
    dropped = "".join(f", DROP {_key(index)}" for index in _emptied(before, after, columns))
    end = len(sql.rstrip().rstrip(";").rstrip())
    sql = sql[:end] + dropped + sql[end:]
    if not _has_keys(sql, session, before, after):
        raise DdlNotUnderstood(sql, "the keys of the logical table have extracted columns, and cannot be changed so")
    return sql


def _has_keys(sql: str, session: DdlSession, before: Table, after: Table) -> bool:
    """Return whether a statement on `before` makes the keys of `after`."""
    try:
        return _keys(applied(before, sql, session)) == _keys(after)
    except SnapshotStoreError:
        return False


def _keys(table: Table) -> tuple[set[tuple[str, Index]], set[ForeignKey]]:
    indexes = {(index.name.lower(), index) for index in table.indexes}
    return indexes, {replace(key, table=key.target(table.schema)) for key in table.foreign_keys}


def _key(index: Index) -> str:
    return "PRIMARY KEY" if index.name == "PRIMARY" else f"KEY {quote_name(index.name)}"


def _emptied(before: Table, after: Table, columns: Sequence[str]) -> Iterator[Index]:
    """Yield the keys whose own columns are all dropped: only the key columns would be left of them."""
    added = {name.lower() for name in columns}
    kept = {index.name.lower() for index in after.indexes}
    for index in before.indexes:
        own = [part.column for part in index.parts if part.column is None or part.column.lower() not in added]
        gone = all(name is not None and after.index_of(name) is None for name in own)
        if len(own) < len(index.parts) and gone and index.name.lower() not in kept:
            yield index


def _pieces(cursor: Cursor, before: Table, after: Table, columns: Sequence[str]) -> Iterator[_Piece]:
    """Yield the edits that add the columns to the keys that a statement adds."""
    depths = [depth for _, _, depth in depths_of(cursor.tokens)]
    clause, ends = 0, []  # `ends`: what stands at the end of the present clause
    added = ", ".join(map(quote_name, columns))
    there = {index.name.lower() for index in before.indexes}
    new = [index for index in after.indexes if index.name == "PRIMARY" or index.name.lower() not in there]
    while not cursor.done:
        token, place = cursor.peek(), cursor.place
        if depths[place] == 0 and cursor.word(-1) != "DROP" and cursor.word() in ("PRIMARY", "UNIQUE"):
            cursor.next()
            kind = "PRIMARY KEY" if token.text.upper() == "PRIMARY" else "UNIQUE KEY"
            word_end = cursor.peek(-1).end
            if cursor.accept_one("KEY", "INDEX"):
                word_end = cursor.peek(-1).end
            in_column = not _begins_key(cursor, place, clause)
            if in_column:
                yield token.start, word_end, ""
                ends.append((kind, clause))
                continue
            yield from _into_list(cursor, added)
            continue
        if depths[place] == 0 and cursor.at("FOREIGN", "KEY") and cursor.word(-1) != "DROP":
            yield from _into_foreign_key(cursor, after)
            continue
        cursor.next()
        if token.kind == "symbol" and token.text == "," and depths[place] == 0:
            yield from _own_clauses(cursor, token.start, ends, new, added)
            clause, ends = cursor.place, []
    yield from _own_clauses(cursor, cursor.peek(-1).end, ends, new, added)


def _begins_key(cursor: Cursor, place: int, clause: int) -> bool:
    """Return whether PRIMARY or UNIQUE at `place` begins the definition of a key, not an attribute of a column."""
    here, cursor.place = cursor.place, place
    word, other = cursor.word(-1), cursor.word(-2)
    cursor.place = here
    return word in ("ADD", "CREATE", "CONSTRAINT") or other == "CONSTRAINT"


def _into_list(cursor: Cursor, added: str) -> Iterator[_Piece]:
    """Move past the next list in parentheses; yield the columns added at its end."""
    while not cursor.done and not cursor.at_symbol("("):
        cursor.next()
    cursor.parenthesized()
    close = cursor.peek(-1).start
    if added:
        yield close, close, f", {added}"


def _into_foreign_key(cursor: Cursor, after: Table) -> Iterator[_Piece]:
    """Move past a foreign key; yield the columns that the table's has more than the statement's, in both lists."""
    here = cursor.place
    while not cursor.done and not cursor.at_symbol("("):
        cursor.next()
    own = [name.lower() for name in cursor.names()]
    cursor.place = here
    longer = (key for key in after.foreign_keys if len(key.columns) > len(own))
    matching = (key.columns for key in longer if [name.lower() for name in key.columns[: len(own)]] == own)
    added = ", ".join(map(quote_name, next(matching, ())[len(own) :]))
    yield from _into_list(cursor, added)
    yield from _into_list(cursor, added)


def _own_clauses(
    cursor: Cursor, at: int, ends: Sequence[tuple[str, int]], new: Sequence[Index], added: str
) -> Iterator[_Piece]:
    """Yield the keys of a clause's column as clauses of their own, after it; `new` are the keys that are made."""
    for kind, clause in ends:
        column = _column_of(cursor, clause)
        index = next((i for i in new if _is_of(i, column, kind)), None)
        name = f" {quote_name(index.name)}" if index is not None and kind == "UNIQUE KEY" else ""
        yield at, at, f", ADD {kind}{name} ({quote_name(column)}, {added})"


def _is_of(index: Index, column: str, kind: str) -> bool:
    first = index.parts[0].column or ""
    return index.unique and (index.name == "PRIMARY") == (kind == "PRIMARY KEY") and first.lower() == column.lower()


def _column_of(cursor: Cursor, clause: int) -> str:
    """Return the name that an ADD, MODIFY or CHANGE of a column gives it; `clause` is where the clause begins."""
    here, cursor.place = cursor.place, clause
    try:
        while not cursor.done:
            word = cursor.accept_one("ADD", "MODIFY", "CHANGE")
            if word is None:
                cursor.next()
                continue
            cursor.accept("COLUMN")
            name = cursor.word_or_name()
            return cursor.word_or_name() if word == "CHANGE" else name
        raise cursor.error("no column has this key")
    finally:
        cursor.place = here
