"""Rewriting expressions as a server does: it parses and prints them again whenever their table is altered or copied.

    CREATE TABLE t (A VARCHAR(9) CHARSET latin1, CHECK (a > 'x'))      (`a` > _utf8mb4'x')
    ALTER TABLE t COMMENT 'c'                                          (`A` > _latin1'x')

Columns get the case of their definition, and literals the character set of what they are compared or combined with
(refman, "Collation Coercibility in Expressions"; `agg_item_charsets` of mysql-server `sql/item.cc`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.expr.nodes import Node, column, literal
from snapshot_store.mysql.expr.read import printed, read_expression
from snapshot_store.mysql.sql.functions import function
from snapshot_store.mysql.sql.session import STORED

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
