"""The ALTER TABLE statement that turns one table into another.

As many shared columns as possible stay where they are. Every other column is placed AFTER its left neighbour, from left
to right, so that the neighbour is already there. Definitions are complete (MODIFY, not ALTER COLUMN), and give the
character set if the table's default changes in the same statement. The result is equivalent to the target
(`diff.equivalent`); the server decides the order of indexes.
"""

from bisect import bisect_left
from dataclasses import replace
from typing import Final

from snapshot_store.diff import ColumnChanged, IndexChanged, diff_tables
from snapshot_store.model import Column, ForeignKey, Index, Table, attributes_sql, default_of
from snapshot_store.mysql.sql.names import quote_name, quote_string
from snapshot_store.render_sql import column_sql, index_sql, make_sql, partitions_sql, without_defaults_sql

_PARSER: Final = "WITH PARSER"


def alter_sql(a: Table, b: Table, whole: bool = False) -> tuple[str, ...]:
    """Return the statements that turn `a` into `b`, without semicolons: none if nothing differs, usually one.

    A changed foreign key is dropped by a separate statement, since MySQL cannot drop and add it in one. `whole`: also
    for what says nothing of rows, namely attributes of tables, columns and indexes, and for the partitioning, which has
    a statement of its own. A partitioning that is not completely known is left alone.
    """
    actions = [*_options(a, b), *_drops(a, b), *_columns(a, b, whole), *_indexes(a, b, whole), *_constraints(a, b)]
    if whole:
        actions += table_attributes(a, b)
    name = f"{quote_name(a.schema)}.{quote_name(a.name)}"
    if (a.schema, a.name) != (b.schema, b.name):
        actions.append(f"RENAME TO {quote_name(b.schema)}.{quote_name(b.name)}")
    statements = [f"ALTER TABLE {name}\n  " + ",\n  ".join(actions)] if actions else []
    if whole:
        bare = without_defaults_sql(b) if statements else ()
        before = (*_partitions_before(a, b), *_unnoticed(a, b))
        statements = [*before, *statements, *bare, *_partitions_after(a, b)]
    old, new = _named(a.foreign_keys), _named(b.foreign_keys)
    first = [f"DROP FOREIGN KEY {quote_name(key)}" for key in old if key in new and old[key] != new[key]]
    return (*([f"ALTER TABLE {name}\n  " + ",\n  ".join(first)] if first else []), *statements)


def change_sql(a: Table | None, b: Table | None) -> tuple[str, ...]:
    """Return the statements that turn `a` into `b`, where None means that the table does not exist."""
    if a is None:
        return () if b is None else make_sql(b)
    if b is None:
        return (f"DROP TABLE {quote_name(a.schema)}.{quote_name(a.name)}",)
    return alter_sql(a, b, whole=True)


def table_attributes(a: Table, b: Table) -> list[str]:
    """Return the options that give `a` the attributes of `b`; those that `b` has not get their default."""
    old, new = dict(a.attributes), dict(b.attributes)
    gone = tuple((name, default_of(name)) for name in old if name not in new)
    changed = tuple((name, value) for name, value in new.items() if old.get(name) != value)
    return attributes_sql((*gone, *changed))


def _unnoticed(a: Table, b: Table) -> list[str]:
    """Return the statement that gives indexes another comment for a moment, so that the next one makes them anew.

    A server (9.7) takes an index that is dropped and added for the same one if only its parser differs.
    """
    after, actions = {i.name.lower(): i for i in b.indexes}, list[str]()
    for old in a.indexes:
        new = after.get(old.name.lower())
        if new is None or replace(old, visible=new.visible) != new or _told(old) == _told(new):
            continue
        if {**_told(old), _PARSER: ""} == {**_told(new), _PARSER: ""}:
            marked = replace(new, attributes=tuple({**dict(new.attributes), "COMMENT": "'made anew'"}.items()))
            actions += f"DROP {_key_name(old)}", f"ADD {index_sql(marked, a)}"
    name = f"{quote_name(a.schema)}.{quote_name(a.name)}"
    return [f"ALTER TABLE {name}\n  " + ",\n  ".join(actions)] if actions else []


def _told(index: Index) -> dict[str, str]:
    """Return the attributes that ALTER TABLE can give an index: KEY_BLOCK_SIZE it does not (9.7)."""
    return {name: value for name, value in index.attributes if name != "KEY_BLOCK_SIZE"}


def _partitions_before(a: Table, b: Table) -> list[str]:
    """Return the statement that takes the partitions away, which other columns or keys may not suit."""
    gone = bool(a.partitioning) and a.partitioning != b.partitioning and partitions_known(b)
    return [f"ALTER TABLE {quote_name(a.schema)}.{quote_name(a.name)}\n  REMOVE PARTITIONING"] if gone else []


def _partitions_after(a: Table, b: Table) -> list[str]:
    made = bool(b.partitioning) and a.partitioning != b.partitioning and partitions_known(b)
    return [f"ALTER TABLE {quote_name(b.schema)}.{quote_name(b.name)}{partitions_sql(b)}"] if made else []


def partitions_known(table: Table) -> bool:
    """Return whether the table has no partitions, or its partitioning is completely known."""
    return not table.partitioning or bool(partitions_sql(table))


def _options(a: Table, b: Table) -> list[str]:
    actions = []
    if a.engine != b.engine:
        actions.append(f"ENGINE={b.engine}")
    if (a.charset, a.collation) != (b.charset, b.collation):
        actions.append(f"DEFAULT CHARACTER SET {b.charset} COLLATE {b.collation}")
    if a.comment != b.comment:
        actions.append(f"COMMENT={quote_string(b.comment)}")
    return actions


def _drops(a: Table, b: Table) -> list[str]:
    gone = [c for c in a.columns if b.index_of(c.name) is None]
    return [f"DROP COLUMN {quote_name(c.name)}" for c in [*gone, *_remade(a, b)]]


def _remade(a: Table, b: Table) -> list[Column]:
    """Return the columns that must be dropped and added again: MySQL cannot change to or from a virtual column."""
    pairs = [c for c in diff_tables(a, b) if isinstance(c, ColumnChanged)]
    kinds = [(p.before, {_kind(p.before), _kind(p.after)}) for p in pairs]
    return [column for column, both in kinds if len(both) > 1 and "virtual" in both]


def _kind(column: Column) -> str:
    if column.generated is None:
        return "plain"
    return "stored" if column.generated.stored else "virtual"


def _columns(a: Table, b: Table, whole: bool) -> list[str]:
    remade = {c.name.lower() for c in _remade(a, b)}
    before = {c.name.lower(): c for c in a.columns if c.name.lower() not in remade}
    stay = _in_order(list(before), [c.name.lower() for c in b.columns])
    same = (a.charset, a.collation) == (b.charset, b.collation)
    spelt_out = b if same else replace(b, charset="", collation="")
    actions = []
    previous: str | None = None
    for column in b.columns:
        name = column.name.lower()
        old = before.get(name)
        place = "" if name in stay else " FIRST" if previous is None else f" AFTER {quote_name(previous)}"
        definition = column_sql(column, spelt_out)
        if old is None:
            actions.append(f"ADD COLUMN {definition}{place}")
        elif old.name != column.name:
            actions.append(f"CHANGE COLUMN {quote_name(old.name)} {definition}{place}")
        elif old != column or place or (whole and old.attributes != column.attributes):
            actions.append(f"MODIFY COLUMN {definition}{place}")
        previous = column.name
    return actions


def _in_order(a: list[str], b: list[str]) -> set[str]:
    """Return a longest common subsequence of two lists of names."""
    place = {name: i for i, name in enumerate(a)}
    shared = [name for name in b if name in place]
    ends: list[int] = []  # ends[n]: the least place at which a run of n + 1 names can end
    length: list[int] = []
    for name in shared:
        at = bisect_left(ends, place[name])
        ends[at : at + 1] = [place[name]]
        length.append(at)
    stay: set[str] = set()
    wanted, bound = len(ends) - 1, len(a)
    for name, at in zip(reversed(shared), reversed(length), strict=True):
        if at == wanted and place[name] < bound:
            stay.add(name)
            wanted, bound = wanted - 1, place[name]
    return stay


def _indexes(a: Table, b: Table, whole: bool) -> list[str]:
    before = {i.name.lower(): i for i in a.indexes}
    after = {i.name.lower(): i for i in b.indexes}
    changed = [c for c in diff_tables(a, b) if isinstance(c, IndexChanged)]
    hidden = {c.after.name.lower() for c in changed if replace(c.before, visible=c.after.visible) == c.after}
    remade = {c.after.name.lower() for c in changed} - hidden
    # Dropping a column removes it from its indexes, even if it is added again.
    columns = {column.name.lower() for column in _remade(a, b)}
    remade |= {n for n, i in before.items() if n in after and any((p.column or "").lower() in columns for p in i.parts)}
    if whole:
        remade |= {n for n, i in before.items() if n in after and _told(i) != _told(after[n])}
    hidden -= remade
    actions = [f"DROP {_key_name(i)}" for name, i in before.items() if name not in after or name in remade]
    actions += [f"ADD {index_sql(i, b)}" for name, i in after.items() if name not in before or name in remade]
    for name in sorted(hidden):
        actions.append(f"ALTER INDEX {quote_name(after[name].name)} {'' if after[name].visible else 'IN'}VISIBLE")
    return actions


def _key_name(index: Index) -> str:
    return "PRIMARY KEY" if index.name == "PRIMARY" else f"INDEX {quote_name(index.name)}"


def _constraints(a: Table, b: Table) -> list[str]:
    before, after = dict(a.checks), dict(b.checks)
    actions = [f"DROP CHECK {quote_name(n)}" for n, expression in before.items() if after.get(n) != expression]
    actions += [
        f"ADD CONSTRAINT {quote_name(n)} CHECK ({expression})"
        for n, expression in after.items()
        if before.get(n) != expression
    ]
    actions += [
        f"ALTER CHECK {quote_name(n)} {'NOT ' if n in _unenforced(b) else ''}ENFORCED"
        for n, expression in after.items()
        if (n in _unenforced(b)) != (n in _unenforced(a) and before.get(n) == expression)
    ]
    old, new = _named(a.foreign_keys), _named(b.foreign_keys)
    actions += [f"DROP FOREIGN KEY {quote_name(n)}" for n in old if n not in new]
    return actions + [f"ADD {key.sql}" for n, key in new.items() if old.get(n) != key]


def _unenforced(table: Table) -> tuple[str, ...]:
    return getattr(table, "unenforced", ())


def _named(foreign_keys: tuple[ForeignKey, ...]) -> dict[str, ForeignKey]:
    return {key.name: key for key in foreign_keys}
