"""Indexes, checks and foreign keys of a table: the names the server gives them, and what it makes or drops by itself.

Source: `mysql_prepare_create_table`, `make_unique_key_name` and `generate_fk_name` in mysql-server `sql/sql_table.cc`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from snapshot_store.ddl.cursor import Cursor
from snapshot_store.ddl.keys import parse_constraint
from snapshot_store.ddl.session import DdlSession
from snapshot_store.ddl.statements import CheckSpec, ForeignKeySpec, KeySpec
from snapshot_store.ddl.types import BLOBS, SPATIAL_TYPES, TEXTS
from snapshot_store.errors import AlreadyExists, UnknownColumn
from snapshot_store.model import Column, Index, IndexPart

_SIZED = frozenset({"char", "varchar", "binary", "varbinary"})
_PREFIXED = _SIZED | set(TEXTS) | set(BLOBS) | SPATIAL_TYPES
# Engines that keep hash indexes; the others take USING HASH and build a B-tree.
_HASH_ENGINES = {"MEMORY": "hash", "NDBCLUSTER": "btree"}


def add_index(
    indexes: Sequence[Index], spec: KeySpec, columns: Sequence[Column], table: str, engine: str
) -> tuple[Index, ...]:
    """Return the indexes with one more, named by the rules if it has no name; a primary key goes first."""
    by_name = {c.name.lower(): c for c in columns}
    parts = tuple(_resolve_part(part, by_name, table) for part in spec.parts)
    name = "PRIMARY" if spec.kind == "primary" else spec.name or _free_name(_stem(parts), indexes)
    if any(i.name.lower() == name.lower() for i in indexes):
        raise AlreadyExists(f"table {table} has an index {name} already")
    unique = spec.kind in ("primary", "unique")
    index = Index(name, parts, unique, _structure(spec, engine), spec.visible)
    return (index, *indexes) if name == "PRIMARY" else (*indexes, index)


def _resolve_part(part: IndexPart, columns: dict[str, Column], table: str) -> IndexPart:
    if part.column is None:
        return part
    column = columns.get(part.column.lower())
    if column is None:
        raise UnknownColumn(f"table {table} has no column {part.column} to index")
    return fit_part(replace(part, column=column.name), column)


def fit_part(part: IndexPart, column: Column) -> IndexPart:
    """Return a key part without its prefix length where the whole column is no longer than that."""
    if part.length is None:
        return part
    whole = column.type.name not in _PREFIXED or (
        column.type.name in _SIZED and part.length >= (column.type.length or 0)
    )
    return replace(part, length=None) if whole else part


def _structure(spec: KeySpec, engine: str) -> Literal["btree", "hash", "fulltext", "spatial"]:
    if spec.kind == "fulltext":
        return "fulltext"
    if spec.kind == "spatial":
        return "spatial"
    default = _HASH_ENGINES.get(engine.upper())
    if default is not None and (spec.algorithm or default) == "hash":
        return "hash"
    return "btree"


def _stem(parts: Sequence[IndexPart]) -> str:
    return next((p.column for p in parts[:1] if p.column is not None), "functional_index")


def _free_name(stem: str, indexes: Sequence[Index]) -> str:
    """Return `stem`, or `stem_2`, `stem_3`… if it is taken by then; later names do not count."""
    taken = {i.name.lower() for i in indexes}
    if stem.lower() not in taken and stem.upper() != "PRIMARY":
        return stem
    number = 2
    while f"{stem}_{number}".lower() in taken:
        number += 1
    return f"{stem}_{number}"


def with_primary_key(columns: Sequence[Column], indexes: Sequence[Index]) -> tuple[Column, ...]:
    """Return the columns with those of the primary key NOT NULL."""
    key = next((i for i in indexes if i.name == "PRIMARY"), None)
    names = {p.column.lower() for p in key.parts if p.column is not None} if key else set()
    return tuple(_required(c) if c.name.lower() in names else c for c in columns)


def _required(column: Column) -> Column:
    default = column.default
    if default is not None and default.kind == "null":
        default = None
    return replace(column, nullable=False, default=default)


def add_checks(
    checks: Sequence[tuple[str, str]], added: Iterable[CheckSpec], table: str
) -> tuple[tuple[str, str], ...]:
    """Return the checks with these added, the unnamed ones called `table_chk_1` and so on."""
    result = list(checks)
    for check in added:
        name = check.name or _numbered_name(table, "chk", [n for n, _ in result])
        if any(name.lower() == known.lower() for known, _ in result):
            raise AlreadyExists(f"table {table} has a check {name} already")
        result.append((name, check.expression))
    return tuple(result)


def _numbered_name(table: str, suffix: str, names: Iterable[str]) -> str:
    """Return the name one behind the greatest generated one."""
    pattern = re.compile(rf"{re.escape(table)}_{suffix}_(\d{{1,9}})", re.IGNORECASE)
    numbers = [int(found[1]) for name in names if (found := pattern.fullmatch(name))]
    return f"{table}_{suffix}_{max(numbers, default=0) + 1}"


def renamed_generated(name: str, old_table: str, new_table: str, suffix: str) -> str:
    """Return what a generated constraint name becomes when its table is renamed; other names stay."""
    if re.fullmatch(rf"{re.escape(old_table)}_{suffix}_\d+", name):
        return new_table + name[len(old_table) :]
    return name


# Foreign keys are kept as text in one spelling, which this module alone writes and reads.


def foreign_key_text(key: ForeignKeySpec) -> str:
    """Return a foreign key as SHOW CREATE TABLE writes it."""
    table = ".".join(quoted(part) for part in key.table if part is not None)
    referenced = f" ({', '.join(map(quoted, key.referenced))})" if key.referenced else ""
    columns = ", ".join(map(quoted, key.columns))
    name = f"CONSTRAINT {quoted(key.name)} " if key.name else ""
    return f"{name}FOREIGN KEY ({columns}) REFERENCES {table}{referenced} {key.actions}".rstrip()


def foreign_key_of(text: str) -> ForeignKeySpec:
    """Read what `foreign_key_text` wrote."""
    key = parse_constraint(Cursor.of(text, DdlSession()))
    if not isinstance(key, ForeignKeySpec):
        raise ValueError(f"not a foreign key: {text!r}")
    return key


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def add_foreign_keys(keys: Sequence[str], added: Iterable[ForeignKeySpec], table: str) -> tuple[str, ...]:
    """Return the foreign keys with these added, the unnamed ones called `table_ibfk_1` and so on."""
    result = list(keys)
    names = [foreign_key_of(text).name or "" for text in keys]
    for key in added:
        name = key.name or _numbered_name(table, "ibfk", names)
        if any(name.lower() == known.lower() for known in names):
            raise AlreadyExists(f"table {table} has a foreign key {name} already")
        names.append(name)
        result.append(foreign_key_text(replace(key, name=name)))
    return tuple(result)


def with_supporting_indexes(
    indexes: Sequence[Index], keys: Iterable[ForeignKeySpec], columns: Sequence[Column]
) -> tuple[Index, ...]:
    """Return the indexes with those the server makes for foreign keys that none serves, and without the superfluous."""
    result = list(indexes)
    names = {c.name.lower(): c.name for c in columns}
    for key in keys:
        parts = tuple(IndexPart(names.get(c.lower(), c)) for c in key.columns)
        if not any(_serves(index, parts) for index in result):
            name = key.name or key.index_name or _free_name(_stem(parts), result)
            result.append(Index(name, parts, implicit=True))
    return tuple(i for i in result if not (i.implicit and any(_serves(o, i.parts) for o in result if o is not i)))


def _serves(index: Index, parts: Sequence[IndexPart]) -> bool:
    """Tell whether an index begins with these whole columns."""
    if index.kind not in ("btree", "hash"):
        return False
    first = index.parts[: len(parts)]
    return [(p.column or "").lower() for p in first] == [(p.column or "").lower() for p in parts] and all(
        p.length is None for p in first
    )
