"""Tables ordered by the rows they accept: `compare` two tables, or `join` them into the least that accepts all rows.

    CREATE TABLE t (a INT)                accepts less than (is less than)
    CREATE TABLE t (a BIGINT)             which is less than
    CREATE TABLE t (a BIGINT, b INT)      and
    CREATE TABLE t (a BIGINT, UNIQUE(a))  is less than the second, but incomparable with the first.

An added column, a wider type, NULL instead of NOT NULL, an added default, a dropped index: each makes a table greater.
The rules are those of DM's schemacmp (`pingcap/tidb` pkg/util/schemacmp, and its table_test.go), so shards' DDL is
coordinated as in DM. As there, these are ignored: the order of columns, names of tables, comments, engines, checks,
foreign keys and visibility.

`join` is commutative, to the last byte. It is associative wherever both results are defined, up to `compare` returning
0, with one exception that follows from DM's rules: a column NOT NULL without DEFAULT that another table lacks gets its
type's zero as DEFAULT. If a third table has the column nullable without a DEFAULT, the zero is kept only if the first
two are joined first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from snapshot_store.diff import plain_key, plain_text
from snapshot_store.lattice.columns import (
    Comparison,
    Incomparable,
    Ordering,
    combine,
    compare_columns,
    filled,
    join_columns,
    missing,
    order_charsets,
    part_of,
    same,
    sign_of,
)
from snapshot_store.model import Column, Index, Table

__all__ = ["Incomparable", "compare", "join"]


def compare(a: Table, b: Table) -> int:
    """Return -1 if `b` accepts every row that `a` accepts, 1 if `a` accepts every row of `b`, and 0 if both hold.

    Raises Incomparable if neither holds.
    """
    return combine(_findings(a, b))


def _findings(a: Table, b: Table) -> Iterator[Comparison]:
    yield Comparison("table", "character set", order_charsets((a.charset, a.collation), (b.charset, b.collation)))
    mine, other = _by_name(a.columns), _by_name(b.columns)
    keys, other_keys = _keyed(a), _keyed(b)
    for name, column in (other | mine).items():
        if name in mine and name in other:
            yield from compare_columns(mine[name], other[name])
            # Follows from the indexes too, but an error about the column is clearer than "k(a) against k(b)".
            yield Comparison(part_of(column), "key", sign_of(name in other_keys, name in keys))
        else:
            lacking = missing(column)
            yield Comparison(part_of(column), "", lacking if name in mine or isinstance(lacking, str) else -lacking)
    yield from _index_findings(_indexes_by_name(a), _indexes_by_name(b))


def _index_findings(mine: dict[str, Index], other: dict[str, Index]) -> Iterator[Comparison]:
    for name, index in (other | mine).items():
        part = f'index "{index.name}"'
        if name in mine and name in other:
            for aspect, verdict in _order_indexes(mine[name], other[name]).items():
                yield Comparison(part, aspect, verdict)
        else:
            # The table that has the index rejects rows that the other accepts.
            yield Comparison(part, "", -1 if name in mine else 1)


def join(a: Table, b: Table) -> Table:
    """Return the least table that accepts the rows of both. Raises Incomparable if there is none.

    What the order ignores, such as name and engine, is taken from the table whose text sorts first, so that the result
    does not depend on the order of the arguments. Checks and foreign keys are kept if both tables have them.
    """
    a, b = sorted((a, b), key=repr)
    verdict = order_charsets((a.charset, a.collation), (b.charset, b.collation))
    larger = b if Comparison("table", "character set", verdict).sign < 0 else a
    expressions, keys = {plain_text(expression) for _, expression in b.checks}, set(map(plain_key, b.foreign_keys))
    joined = replace(
        a,
        charset=larger.charset,
        collation=larger.collation,
        columns=_join_columns(a, b),
        indexes=_join_indexes(a, b),
        checks=tuple(check for check in a.checks if plain_text(check[1]) in expressions),
        foreign_keys=tuple(key for key in a.foreign_keys if plain_key(key) in keys),
    )
    joined = replace(joined, unenforced=_unenforced(joined, a, b))
    keyed = _keyed(joined)
    for column in joined.columns:
        if column.auto_increment and column.name.lower() not in keyed:
            raise Incomparable(part_of(column), "auto type but not defined as a key that both tables have")
    return joined


def _unenforced(joined: Table, *tables: Table) -> tuple[str, ...]:
    """Return the names of the checks that one of the tables does not enforce."""
    texts = {plain_text(text) for table in tables for name, text in table.checks if name in table.unenforced}
    return tuple(name for name, text in joined.checks if plain_text(text) in texts)


def _join_columns(a: Table, b: Table) -> tuple[Column, ...]:
    mine, other = _by_name(a.columns), _by_name(b.columns)
    return tuple(
        join_columns(mine[name], other[name])
        if name in mine and name in other
        else filled(mine.get(name) or other[name])
        for name in _merge_orders(list(mine), list(other))
    )


def _merge_orders(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Return all names in an order that agrees with both lists as far as possible; the lists can be exchanged.

    If one list has all names of the other, in the same order, the result is that list.
    """
    merged: list[str] = []
    while a and b:
        heads = [head for head, rest in ((a[0], b[1:]), (b[0], a[1:])) if head not in rest]
        chosen = min(heads or (a[0], b[0]))
        merged.append(chosen)
        a, b = ([name for name in names if name != chosen] for names in (a, b))
    return [*merged, *a, *b]


def _join_indexes(a: Table, b: Table) -> tuple[Index, ...]:
    """Return the indexes that both tables have, without those of the same name that cannot be joined."""
    other = _indexes_by_name(b)
    joined = []
    for name, index in _indexes_by_name(a).items():
        if name not in other or any(isinstance(v, str) for v in _order_indexes(index, other[name]).values()):
            continue
        joined.append(replace(index, unique=index.unique and other[name].unique))
    order = [name for name in other if name in {i.name.lower() for i in joined}]
    if [i.name.lower() for i in joined] != order:
        joined.sort(key=lambda i: (i.name != "PRIMARY", i.name.lower()))
    return tuple(joined)


def _order_indexes(a: Index, b: Index) -> dict[str, Ordering]:
    return {
        "columns": same(_parts_text(a), _parts_text(b)),
        "unique": sign_of(not a.unique, not b.unique),
        "kind": same(a.kind, b.kind),
    }


def _parts_text(index: Index) -> str:
    texts = []
    for part in index.parts:
        name = f"({plain_text(part.expression or '')})" if part.column is None else part.column.lower()
        texts.append(name if part.length is None else f"{name}({part.length})")
    return ", ".join(texts)


def _keyed(table: Table) -> set[str]:
    """Return the columns with a Key in SHOW COLUMNS: those of the primary key, and the first of any other index."""
    parts = [part for i in table.indexes for part in (i.parts if i.name.upper() == "PRIMARY" else i.parts[:1])]
    return {part.column.lower() for part in parts if part.column is not None}


def _by_name(columns: tuple[Column, ...]) -> dict[str, Column]:
    return {column.name.lower(): column for column in columns}


def _indexes_by_name(table: Table) -> dict[str, Index]:
    return {index.name.lower(): index for index in table.indexes}
