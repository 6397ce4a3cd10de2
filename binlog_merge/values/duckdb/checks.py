"""What the engine computes otherwise than a server, which is refused: mixed IN and BETWEEN, and parts it leaves out.

A server finds one type for all values of an IN or BETWEEN: a number BETWEEN a string and a number is compared otherwise
than with each. And what is NULL whatever a part is, or true, or false, the engine never computes the part for; a server
ends such a statement with *out of range* (1690).
"""

import re
from collections.abc import Sequence
from typing import Final

from binlog_merge.values.duckdb.compare import common_collation
from binlog_merge.values.duckdb.functions import OWN_NULLS
from binlog_merge.values.duckdb.piece import COLUMN, OUT_OF_RANGE, ExpressionError, Sql
from snapshot_store.mysql.expr.nodes import Node

_FAMILIES: Final = {
    **dict.fromkeys(("int", "bool", "decimal", "double"), "number"),
    **dict.fromkeys(("date", "datetime"), "moment"),
}
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_WITHOUT_NULLS: Final = ("+", "-", "*")
_DIVISIONS: Final = ("/", "%", "DIV")
_CHOOSING: Final = ("case", "null", "truth")


def _family(piece: Sql) -> str:
    return _FAMILIES.get(piece.kind, piece.kind)


def check_between(value: Sql, low: Sql, high: Sql) -> None:
    """Raise ExpressionError unless BETWEEN compares as >= and <= do."""
    bounds = [piece for piece in (low, high) if piece.kind != "null"]
    own, others = _family(value), {_family(piece) for piece in bounds}
    if "json" in (own, *others):
        raise ExpressionError("BETWEEN with a JSON value; compare it with each")
    constants = all(piece.constant is not None for piece in bounds)
    as_constants = constants and own in ("moment", "time", "number") and value.constant is None and len(others) == 1
    if own != "null" and others - {own} and not as_constants:
        names = ", ".join(sorted({own, *others}))
        raise ExpressionError(f"BETWEEN of different types ({names}); compare with each")
    if own == "number" and not all(_NUMBER.fullmatch(piece.constant or "0") for piece in bounds):
        raise ExpressionError("BETWEEN of a number and a text that is none; compare with each")
    if own == "string":
        _check_collations(value, bounds)
    if own == "null" and len(bounds) > 1 and others == {"string"}:
        common_collation(*bounds)  # a server looks for it though the answer is NULL


def check_in(value: Sql, items: Sequence[Sql]) -> None:
    """Raise ExpressionError unless IN compares as = with each does."""
    known = [item for item in items if item.kind != "null"]
    families = {_family(item) for item in known}
    if "json" in families and _family(value) != "json":
        raise ExpressionError("a JSON value among those of IN; compare with each")
    if _family(value) == "json" and len(families) > 1:
        raise ExpressionError("a JSON value IN values of different types; compare with each")
    others = [item for item in known if _family(item) != _family(value)]
    if _family(value) == "number" and value.strength != COLUMN and others and len(known) > len(others):
        raise ExpressionError("what is computed IN numbers and texts at once; compare with each")
    if (others and value.constant is not None) or any(item.constant is None for item in others):
        raise ExpressionError("IN values of other types that are no constants; compare with each")
    strings = [piece for piece in (value, *known) if piece.kind == "string"]
    if len(strings) > 1:  # whatever is beside them: a server looks for a collation of all before it compares
        _check_collations(strings[0], strings[1:])


def check_signs(value: Sql, items: Sequence[Sql]) -> None:
    """Raise ExpressionError for whole numbers with a sign beside such without: to IN and CASE -1 is 2^64 - 1 then."""
    known = [item for item in items if item.kind == "int" and item.constant is None]
    if value.kind in ("int", "bool") and any(item.unsigned != _is_unsigned(value) for item in known):
        raise ExpressionError(
            "a number that is UNSIGNED and one that is not, among the values of IN or CASE; compare with each"
        )


def check_bits(value: Sql, items: Sequence[Sql]) -> None:
    """Raise ExpressionError for constants that CASE, and IN beside a column, take for a number of the other sign."""
    for item in items:
        if value.kind == item.kind == "int" and item.constant is not None:
            constant = int(item.constant)
            if (constant < 0 and value.unsigned is not False) or (constant >= 1 << 63 and value.unsigned is not True):
                raise ExpressionError(
                    f"{constant} in CASE or IN, which may take it for a number of the other sign; use ="
                )


def _is_unsigned(piece: Sql) -> bool | None:
    return False if piece.kind == "bool" else piece.unsigned


def _check_collations(value: Sql, others: Sequence[Sql]) -> None:
    rules = {common_collation(value, other).collation for other in others}
    if len(rules) > 1:
        raise ExpressionError(f"texts of different collations ({', '.join(sorted(rules))}) at once; compare with each")


def check_left_out(node: Node, made: Sql, pieces: Sequence[Sql]) -> None:
    """Raise ExpressionError where the engine may leave out a part of `node` that may be out of range.

    `made` is the node's SQL, and `pieces` that of its parts, as many as it has of its own.
    """
    if not any(map(_may_be_too_great, pieces)):
        return
    if not _may_be_too_great(made) or _is_known_anyway(node, pieces):
        raise ExpressionError(
            "a number that may be out of range, beside NULL or what is computed of constants alone; write its value"
        )


def _may_be_too_great(piece: Sql) -> bool:
    return OUT_OF_RANGE in piece.text


def _is_known_anyway(node: Node, pieces: Sequence[Sql]) -> bool:
    """Return whether the node's value may be known from its constants alone."""
    if node.kind in ("and", "or"):
        first = next(place for place, piece in enumerate(pieces) if _may_be_too_great(piece))
        return not all(map(has_column, node.args[first + 1 :]))
    if node.kind in _CHOOSING or (node.kind == "call" and node.text in OWN_NULLS):
        return False
    if node.kind == "binary" and node.text in _DIVISIONS and not has_column(node.args[1]):
        divisor = pieces[1]
        return divisor.kind not in ("int", "decimal", "double") or not float(divisor.constant or 0)
    return not all(has_column(arg) or _has_value(arg) for arg in node.args[: len(pieces)])


def _has_value(node: Node) -> bool:
    """Return whether what has no columns is certainly not NULL."""
    if node.kind == "prefix" or (node.kind == "binary" and node.text in _WITHOUT_NULLS):
        return all(map(_has_value, node.args))
    return node.kind in ("string", "moment") or (node.kind == "literal" and node.text != "NULL")


def has_column(node: Node) -> bool:
    """Return whether a column is among what a value is made of."""
    return node.kind == "column" or any(map(has_column, node.args))
