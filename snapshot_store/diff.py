"""The difference between two tables: for row images (`column_map`), for people (`diff_tables`), and whether it matters.

Columns are matched by name, as MySQL matches them: case-insensitively. A column that was *renamed* on one side only
cannot be matched by name: it shows up as one column trimmed and one padded. Nothing here can distinguish a rename from
a drop and an add. A caller that knows of a rename in flight must hold those transactions until both sides agree.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from snapshot_store.model import Column, ForeignKey, Index, Table
from snapshot_store.mysql.column_type import NUMERIC, ColumnType, Family

# The row images of these types do not depend on the display width or on (M,D).
_WIDTH_IS_COSMETIC = NUMERIC - {Family.DECIMAL}


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """A logical column and the physical column its values come from, or None if the physical table lacks it."""

    logical_index: int
    physical_index: int | None
    same_type: bool


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """How a physical row image becomes a logical one: an entry for each logical column, in logical order.

    `trimmed` are the physical columns that the logical table lacks. `identity`: row images need no change.
    """

    entries: tuple[MappedColumn, ...]
    trimmed: tuple[int, ...]
    identity: bool


def column_map(physical: Table, logical: Table) -> ColumnMap:
    """Return the map from a physical table's columns to a logical table's, by name."""
    unmatched = {column.name.lower(): i for i, column in enumerate(physical.columns)}
    entries = []
    for i, column in enumerate(logical.columns):
        index = unmatched.pop(column.name.lower(), None)
        same = index is not None and same_type(physical.columns[index].type, column.type)
        entries.append(MappedColumn(i, index, same))
    trimmed = tuple(sorted(unmatched.values()))
    identity = not trimmed and all(e.same_type and e.physical_index == e.logical_index for e in entries)
    return ColumnMap(tuple(entries), trimmed, identity)


def same_type(a: ColumnType, b: ColumnType) -> bool:
    """Return whether both types store a value as the same bytes in a row image.

    Collation, ZEROFILL and the display width of a number are ignored.
    """
    return _stored(a) == _stored(b)


def _stored(type: ColumnType) -> ColumnType:
    if type.family in _WIDTH_IS_COSMETIC:
        type = replace(type, length=None, decimals=None)
    return replace(type, collation=None, zerofill=False)


@dataclass(frozen=True, slots=True)
class ColumnAdded:
    """A column that only the second table has."""

    column: Column
    after: str | None


@dataclass(frozen=True, slots=True)
class ColumnDropped:
    """A column that only the first table has."""

    column: Column


@dataclass(frozen=True, slots=True)
class ColumnChanged:
    """A column whose definition differs."""

    before: Column
    after: Column


@dataclass(frozen=True, slots=True)
class ColumnMoved:
    """A column that follows another column than before, counting only the columns that both tables have."""

    name: str
    after: str | None


@dataclass(frozen=True, slots=True)
class IndexAdded:
    """An index that only the second table has."""

    index: Index


@dataclass(frozen=True, slots=True)
class IndexDropped:
    """An index that only the first table has."""

    index: Index


@dataclass(frozen=True, slots=True)
class IndexChanged:
    """An index whose definition differs under the same name."""

    before: Index
    after: Index


@dataclass(frozen=True, slots=True)
class OptionChanged:
    """A property of the table itself: its name, character set, engine, comment, checks or foreign keys."""

    option: str
    before: Any
    after: Any


TableChange = (
    ColumnAdded | ColumnDropped | ColumnChanged | ColumnMoved | IndexAdded | IndexDropped | IndexChanged | OptionChanged
)

_OPTIONS = ("schema", "name", "charset", "collation", "engine", "comment", "checks", "foreign_keys", "unenforced")


def diff_tables(a: Table, b: Table, whole: bool = False) -> tuple[TableChange, ...]:
    """Return the changes from `a` to `b`: options, columns in order, indexes. Empty exactly when `equals(a, b)`.

    Two tables that list the same indexes in another order yield an OptionChanged "index_order". `whole`: also changes
    of what == ignores, attributes and the partitioning.
    """
    changes: list[TableChange] = [
        OptionChanged(option, _shown(a, option), _shown(b, option))
        for option in _OPTIONS
        if getattr(a, option) != getattr(b, option)
    ]
    if whole:
        changes += _ignored_changes(a, b)
    changes += _column_changes(a, b, whole)
    changes += _index_changes(a, b, whole)
    return tuple(changes)


def _shown(table: Table, option: str) -> Any:
    """Return a property as text where it is a value of its own."""
    if option == "partitioning":
        return "" if table.partitioning is None else table.partitioning.text()
    return tuple(key.sql for key in table.foreign_keys) if option == "foreign_keys" else getattr(table, option)


def plain_key(key: ForeignKey) -> str:
    """Return what a foreign key says, whatever it is called, as `plain_text` does."""
    return plain_text(key.unnamed)


def _ignored_changes(a: Table, b: Table) -> Iterator[TableChange]:
    """Yield the changes of the table's attributes, each by its name, and of its partitioning."""
    old, new = dict(a.attributes), dict(b.attributes)
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield OptionChanged(name, old.get(name), new.get(name))
    if a.partitioning != b.partitioning:
        yield OptionChanged("partitioning", _shown(a, "partitioning"), _shown(b, "partitioning"))


def _column_changes(a: Table, b: Table, whole: bool) -> list[TableChange]:
    before = {c.name.lower(): c for c in a.columns}
    after = {c.name.lower(): c for c in b.columns}
    changes: list[TableChange] = [ColumnDropped(c) for name, c in before.items() if name not in after]
    shared_before = _neighbours([c for c in a.columns if c.name.lower() in after])
    shared_after = _neighbours([c for c in b.columns if c.name.lower() in before])
    previous: str | None = None
    for name, column in after.items():
        if name not in before:
            changes.append(ColumnAdded(column, previous))
        else:
            if before[name] != column or (whole and before[name].attributes != column.attributes):
                changes.append(ColumnChanged(before[name], column))
            if shared_before[name] != shared_after[name]:
                changes.append(ColumnMoved(column.name, previous))
        previous = column.name
    return changes


def _neighbours(columns: list[Column]) -> dict[str, str | None]:
    names = [c.name.lower() for c in columns]
    return dict(zip(names, [None, *names], strict=False))


def _index_changes(a: Table, b: Table, whole: bool) -> list[TableChange]:
    before = {i.name.lower(): i for i in a.indexes}
    after = {i.name.lower(): i for i in b.indexes}
    changes: list[TableChange] = [IndexDropped(i) for name, i in before.items() if name not in after]
    for name, index in after.items():
        if name not in before:
            changes.append(IndexAdded(index))
        elif before[name] != index or (whole and before[name].attributes != index.attributes):
            changes.append(IndexChanged(before[name], index))
    if not changes and list(before) != list(after):
        changes.append(OptionChanged("index_order", tuple(before), tuple(after)))
    return changes


def equals(a: Table, b: Table) -> bool:
    """Return whether two tables are identical, names and comments included."""
    return a == b


def equivalent(a: Table, b: Table) -> bool:
    """Return whether two tables accept the same rows under the same rules, whatever their names.

    Ignored: the table's name, comments, the case of names, the order of indexes, checks and foreign keys and the
    names of the latter two, display widths, engine, and how expressions are spelt (case, blanks, backticks, outer
    parentheses).
    """
    return _plain(a) == _plain(b)


def _plain(table: Table) -> object:
    return (
        table.charset,
        table.collation,
        tuple(_plain_column(c) for c in table.columns),
        frozenset(_plain_index(i) for i in table.indexes),
        frozenset(plain_text(expression) for _, expression in table.checks),
        frozenset(map(plain_key, table.foreign_keys)),
    )


def _plain_column(column: Column) -> Column:
    type = column.type
    if type.family in _WIDTH_IS_COSMETIC and not type.zerofill:
        type = replace(type, length=None if type.decimals is None else type.length)
    default = column.default
    if default is not None and default.kind == "expression":
        default = replace(default, text=plain_text(default.text))
    if default is not None and default.kind == "null":
        default = None
    if default is not None and default.kind == "literal" and type.family in NUMERIC:
        default = replace(default, text=_plain_number(default.text))
    generated = column.generated
    if generated is not None:
        generated = replace(generated, expression=plain_text(generated.expression))
    return replace(column, name=column.name.lower(), type=type, default=default, generated=generated, comment="")


def _plain_number(text: str) -> str:
    try:
        return str(Decimal(text).normalize())
    except InvalidOperation:
        return text


def _plain_index(index: Index) -> Index:
    parts = tuple(
        replace(
            part,
            column=None if part.column is None else part.column.lower(),
            expression=None if part.expression is None else plain_text(part.expression),
        )
        for part in index.parts
    )
    return replace(index, name=index.name.lower(), parts=parts)


def plain_text(text: str) -> str:
    """Return an expression in lower case without blanks, backticks, introducers and outer parentheses.

    String literals stay as they are.
    """
    pieces = _split(text)
    for i in range(0, len(pieces), 2):
        pieces[i] = "".join(pieces[i].replace("`", "").lower().split())
        if i + 1 < len(pieces):
            pieces[i] = _INTRODUCER.sub("", pieces[i])
    plain = "".join(pieces)
    while plain.startswith("(") and plain.endswith(")") and _closes_at(plain) == len(plain) - 1:
        plain = plain[1:-1]
    return plain


# The server writes _utf8mb4'x' where the user wrote 'x'.
_INTRODUCER = re.compile(r"(?<!\w)_[a-z0-9]+$")


def _split(text: str) -> list[str]:
    """Split an expression into alternating parts: outside and inside string literals."""
    pieces, start, i = [], 0, 0
    while i < len(text):
        if text[i] in "'\"":
            end = i + 1
            while end < len(text) and text[end] != text[i]:
                end += 2 if text[end] == "\\" else 1
            pieces += [text[start:i], text[i : end + 1]]
            start = i = end + 1
        else:
            i += 1
    return [*pieces, text[start:]]


def _closes_at(text: str) -> int:
    depth = 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return i
    return -1
