"""Indexes, checks and foreign keys: the names the server generates, and the indexes it creates; and expressions, which
it parses and prints again whenever their table is altered or copied.

Source: `mysql_prepare_create_table`, `make_unique_key_name` and `generate_fk_name` in mysql-server `sql/sql_table.cc`.

    CREATE TABLE t (A VARCHAR(9) CHARSET latin1, CHECK (a > 'x'))      (`a` > _utf8mb4'x')
    ALTER TABLE t COMMENT 'c'                                          (`A` > _latin1'x')

Columns get the case of their definition, and literals the character set of what they are compared or combined with
(refman, "Collation Coercibility in Expressions"; `agg_item_charsets` of mysql-server `sql/item.cc`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from snapshot_store.ddl.specs import CheckSpec, ForeignKeySpec, KeySpec
from snapshot_store.errors import AlreadyExists, DdlNotUnderstood, UnknownColumn
from snapshot_store.model import Column, ForeignKey, Index, IndexPart, Table
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.expr.nodes import Node, column, literal
from snapshot_store.mysql.expr.read import printed, read_expression
from snapshot_store.mysql.sql.functions import function
from snapshot_store.mysql.sql.session import STORED
from snapshot_store.mysql.text.charsets import max_bytes

# The model has expressions as the server prints them: sql_mode does not affect how these are parsed.
_COMPARED = frozenset({"compare", "in", "between", "like"})
_UNICODE = ("utf8mb4", "utf8mb3")


def rewritten(table: Table) -> Table:
    """Return the table with its expressions rewritten as by ALTER TABLE or CREATE TABLE … LIKE."""
    by_name = {c.name.lower(): c for c in table.columns}
    return replace(
        table,
        columns=tuple(_column(c, by_name) for c in table.columns),
        indexes=tuple(
            replace(
                i,
                parts=tuple(
                    part if part.expression is None else replace(part, expression=rewrite(part.expression, by_name))
                    for part in i.parts
                ),
            )
            for i in table.indexes
        ),
        checks=tuple((name, rewrite(text, by_name)) for name, text in table.checks),
    )


def _column(column: Column, columns: Mapping[str, Column]) -> Column:
    if column.generated is not None:
        text = rewrite(column.generated.expression, columns)
        return replace(column, generated=replace(column.generated, expression=text))
    if column.default is not None and column.default.kind == "expression":
        return replace(column, default=replace(column.default, text=rewrite(column.default.text, columns)))
    return column


def rewrite(text: str, columns: Mapping[str, Column], names: bool = True) -> str:
    """Return an expression rewritten. `columns` are by lower-case name; `names`: rewrite the case of names too."""
    try:
        node = read_expression(text, STORED).node
    except DdlNotUnderstood:
        return text
    return printed(_rewrite(node, columns if names else {n: replace(c, name="") for n, c in columns.items()})[0])


def _rewrite(node: Node, columns: Mapping[str, Column]) -> tuple[Node, str | None]:
    """Return a rewritten node, and the character set that its value gets from columns."""
    if node.kind == "column":
        known = columns.get(node.text.lower())
        if known is None:
            return node, None
        return column(known.name or node.text), "binary" if known.type.family is Family.BYTES else known.type.charset
    if node.kind in ("string", "moment") or not node.args:
        return node, None
    pairs = [_rewrite(arg, columns) for arg in node.args]
    args, charsets = [n for n, _ in pairs], [c for _, c in pairs]
    if node.kind in _COMPARED:
        return replace(node, args=_agreed(args, charsets)[0]), None
    if node.kind == "case":
        return _case(node, args, charsets)
    if node.kind == "collate":
        return replace(node, args=tuple(args)), charsets[0]
    if node.kind == "using":
        return replace(node, args=tuple(args)), node.text
    called = function(node.text) if node.kind == "call" else None
    if called is not None and called.same_charset is not None:
        indexes = range(len(args))[called.same_charset]
        agreed, charset = _agreed([args[i] for i in indexes], [charsets[i] for i in indexes])
        for i, arg in zip(indexes, agreed, strict=True):
            args[i] = arg
        return replace(node, args=tuple(args)), None if called.gives == "int" else charset
    return replace(node, args=tuple(args)), charsets[-1] if node.kind == "trim" else None


def _case(node: Node, args: list[Node], charsets: list[str | None]) -> tuple[Node, str | None]:
    """Rewrite CASE: its compared values get a common character set, and so do its results."""
    operand = node.text.startswith("operand")
    body = range(operand, len(args) - node.text.endswith("else"))
    compared = [0, *body[::2]] if operand else []
    results = [*body[1::2], *range(body.stop, len(args))]
    charset = None
    for indexes in (compared, results):
        agreed, charset = _agreed([args[i] for i in indexes], [charsets[i] for i in indexes])
        for i, arg in zip(indexes, agreed, strict=True):
            args[i] = arg
    return replace(node, args=tuple(args)), charset


def _agreed(args: Sequence[Node], charsets: Sequence[str | None]) -> tuple[tuple[Node, ...], str | None]:
    """Return the arguments with their literals in the character set of the others, and that character set."""
    known = {charset for charset in charsets if charset is not None}
    charset = next((c for c in ("binary", *_UNICODE) if c in known), min(known, default=None))
    if charset is None:
        return tuple(args), None
    return tuple(
        replace(arg, args=(literal(charset),)) if arg.kind == "string" and arg.args else arg for arg in args
    ), charset


_LONGEST_STEM = 61
# Engines that have hash indexes; the others accept USING HASH and build a B-tree.
_HASH_ENGINES = {"MEMORY": "hash", "NDBCLUSTER": "btree"}


def build_indexes(
    existing: Sequence[Index],
    added: Sequence[KeySpec | ForeignKeySpec],
    columns: Sequence[Column],
    table: str,
    engine: str,
    strict: bool = True,
) -> tuple[Index, ...]:
    """Return the indexes after keys are added: superfluous ones are dropped, then the new ones are named, in order.

    A foreign key adds an index on its columns unless another index begins with them. This implicit index is dropped
    when a better one is added later.
    """
    specs = [key if isinstance(key, KeySpec) else supporting_key(key) for key in added]
    keys = [(i.parts, i.implicit) for i in existing]
    keys += [(spec.parts, isinstance(key, ForeignKeySpec)) for spec, key in zip(specs, added, strict=True)]
    superfluous = _superfluous(keys)
    indexes = tuple(index for i, index in enumerate(existing) if i not in superfluous)
    for i, spec in enumerate(specs, len(existing)):
        if i not in superfluous:
            spec = spec if strict or spec.kind != "index" else _shortened(spec, columns)
            indexes = _add_index(indexes, spec, columns, table, engine, implicit=keys[i][1])
    return indexes


_LONGEST_PART = 3072


def _shortened(spec: KeySpec, columns: Sequence[Column]) -> KeySpec:
    """Return a key with parts that are too long reduced to prefixes, as a server without strict mode does."""
    by_name = {c.name.lower(): c for c in columns}
    parts = []
    for part in spec.parts:
        column = by_name.get((part.column or "").lower())
        if column is not None and column.type.is_sized and part.length is None:
            width = max_bytes(column.type.charset)
            if (column.type.length or 0) * width > _LONGEST_PART:
                part = replace(part, length=_LONGEST_PART // width)
        parts.append(part)
    return replace(spec, parts=tuple(parts))


def supporting_key(key: ForeignKeySpec) -> KeySpec:
    """Return the key that a foreign key needs."""
    return KeySpec("index", key.name or key.index_name, tuple(IndexPart(column) for column in key.columns))


def _superfluous(keys: Sequence[tuple[Sequence[IndexPart], bool]]) -> set[int]:
    """Return the indexes into `keys` of generated keys that another key makes superfluous."""
    ignored: set[int] = set()
    for i, (parts, generated) in enumerate(keys):
        for other in range(i):
            other_parts, other_generated = keys[other]
            if other in ignored or not _covers(parts, generated, other_parts, other_generated):
                continue
            keep_other = not other_generated or (generated and len(parts) < len(other_parts))
            ignored.add(i if keep_other else other)
            break
    return ignored


def _covers(a: Sequence[IndexPart], a_generated: bool, b: Sequence[IndexPart], b_generated: bool) -> bool:
    """Return whether one of two keys is generated and is a prefix of the other."""
    if not (a_generated or b_generated):
        return False
    short, long = (a, b) if a_generated and (not b_generated or len(a) <= len(b)) else (b, a)
    begins = [((p.column or "").lower(), p.length) for p in long[: len(short)]]
    return begins == [((p.column or "").lower(), p.length) for p in short]


def _add_index(
    indexes: Sequence[Index], spec: KeySpec, columns: Sequence[Column], table: str, engine: str, implicit: bool
) -> tuple[Index, ...]:
    """Return the indexes with one added, with a generated name if it has none; a primary key comes first."""
    by_name = {c.name.lower(): c for c in columns}
    parts = tuple(_resolve_part(part, by_name, table) for part in spec.parts)
    if spec.kind == "fulltext":
        parts = tuple(replace(part, length=None) for part in parts)
    name = "PRIMARY" if spec.kind == "primary" else spec.name or _free_name(_stem(parts), indexes)
    if any(i.name.lower() == name.lower() for i in indexes):
        raise AlreadyExists(f"table {table} has an index {name} already")
    unique = spec.kind in ("primary", "unique")
    structure = _structure(spec, engine)
    if spec.kind == "index" and any(
        p.column and by_name[p.column.lower()].type.family is Family.GEOMETRY for p in parts
    ):
        structure = "spatial"
    # Another one is ignored, and ARCHIVE has none.
    using = (("USING", structure.upper()),) if spec.algorithm == structure and engine != "ARCHIVE" else ()
    index = Index(name, parts, unique, structure, spec.visible, implicit, (*using, *spec.attributes))
    return (index, *indexes) if name == "PRIMARY" else (*indexes, index)


def _resolve_part(part: IndexPart, columns: dict[str, Column], table: str) -> IndexPart:
    if part.column is None:
        # It becomes a hidden generated column, whose expression the server rewrites at once.
        return replace(part, expression=rewrite(part.expression or "", columns, names=False))
    column = columns.get(part.column.lower())
    if column is None:
        raise UnknownColumn(f"table {table} has no column {part.column} to index")
    return fit_part(replace(part, column=column.name), column)


def fit_part(part: IndexPart, column: Column) -> IndexPart:
    """Return a key part without its prefix length if the column is not longer than that."""
    if part.length is None:
        return part
    prefixed = column.type.family in (Family.TEXT, Family.BYTES, Family.GEOMETRY)
    whole = not prefixed or (column.type.is_sized and part.length >= (column.type.length or 0))
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


def for_engine(indexes: Sequence[Index], engine: str) -> tuple[Index, ...]:
    """Return a table's indexes after it changes its engine; an explicit USING HASH is forgotten, by ARCHIVE any."""
    default: Literal["hash", "btree"] = "hash" if _HASH_ENGINES.get(engine.upper()) == "hash" else "btree"
    return tuple(
        i
        if i.kind in ("fulltext", "spatial") or (("USING", "BTREE") in i.attributes and engine != "ARCHIVE")
        else replace(i, kind=default, attributes=tuple(a for a in i.attributes if a[0] != "USING"))
        for i in indexes
    )


def with_block_sizes(table: Table) -> Table:
    """Return the table without its indexes' KEY_BLOCK_SIZE, if it is InnoDB and neither compressed nor partitioned."""
    said = dict(table.attributes)
    if (
        table.engine != "InnoDB"
        or table.partitioning
        or said.get("ROW_FORMAT", "").upper() == "COMPRESSED"
        or "KEY_BLOCK_SIZE" in said
    ):
        return table
    indexes = (replace(i, attributes=tuple(a for a in i.attributes if a[0] != "KEY_BLOCK_SIZE")) for i in table.indexes)
    return replace(table, indexes=tuple(indexes))


def _stem(parts: Sequence[IndexPart]) -> str:
    names = [part.column for part in parts]
    return "functional_index" if None in names else str(names[0])


def _free_name(stem: str, indexes: Sequence[Index]) -> str:
    """Return `stem`, or `stem_2`, `stem_3`… if an index has that name already."""
    taken = {i.name.lower() for i in indexes}
    if stem.lower() not in taken and stem.upper() != "PRIMARY":
        return stem
    number, stem = 2, stem[:_LONGEST_STEM]
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


def add_checks(table: Table, added: Iterable[CheckSpec]) -> Table:
    """Return the table with these checks added, the unnamed ones called `table_chk_1` and so on."""
    checks, unenforced = list(table.checks), list(table.unenforced)
    for check in added:
        name = check.name or _numbered_name(table.name, "chk", [n for n, _ in checks])
        if any(name.lower() == known.lower() for known, _ in checks):
            raise AlreadyExists(f"table {table.name} has a check {name} already")
        checks.append((name, check.expression))
        unenforced += [] if check.enforced else [name]
    return replace(table, checks=tuple(checks), unenforced=tuple(unenforced))


def _numbered_name(table: str, suffix: str, names: Iterable[str]) -> str:
    """Return the generated name with the next free number."""
    pattern = re.compile(rf"{re.escape(table)}_{suffix}_(\d{{1,9}})", re.IGNORECASE)
    numbers = [int(match[1]) for name in names if (match := pattern.fullmatch(name))]
    return f"{table}_{suffix}_{max(numbers, default=0) + 1}"


def renamed_generated(name: str, old_table: str, new_table: str, suffix: str) -> str:
    """Return a constraint's name after its table is renamed: a generated name changes, others stay."""
    if re.fullmatch(rf"{re.escape(old_table)}_{suffix}_\d+", name):
        return new_table + name[len(old_table) :]
    return name


def add_foreign_keys(keys: Sequence[ForeignKey], added: Iterable[ForeignKeySpec], table: str) -> tuple[ForeignKey, ...]:
    """Return the foreign keys with these added, the unnamed ones called `table_ibfk_1` and so on."""
    result = list(keys)
    for key in added:
        names = [known.name for known in result]
        name = key.name or _numbered_name(table, "ibfk", names)
        if any(name.lower() == known.lower() for known in names):
            raise AlreadyExists(f"table {table} has a foreign key {name} already")
        result.append(ForeignKey(name, key.columns, key.table, key.referenced, key.on_delete, key.on_update))
    return tuple(result)
