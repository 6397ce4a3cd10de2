"""Extracted columns in the keys of a logical table: a shard's statement, written for keys that have them.

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

from collections.abc import Iterator, Sequence
from dataclasses import replace

from binlog_merge.config.modes import Extract
from binlog_merge.pipeline.coordinate.shards.clauses import applied
from binlog_merge.pipeline.coordinate.shards.routes import KeyColumns, with_columns
from binlog_merge.pipeline.coordinate.shards.values import Step
from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError
from snapshot_store.model import ForeignKey, Index, Table
from snapshot_store.mysql.sql.cursor import Cursor, depths_of
from snapshot_store.mysql.sql.edits import Edits
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import DdlSession

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
