"""Which parts of an expression the engine leaves out though a server computes them, and stops where one is too great.

What is NULL whatever a part is, or true, or false, the engine never computes the part for; a server ends such a
statement with *out of range* (1690).
"""

from collections.abc import Sequence
from typing import Final

from binlog_merge.values.duckdb.functions import OWN_NULLS
from binlog_merge.values.duckdb.piece import ExpressionError, Sql
from binlog_merge.values.duckdb.stopped import OUT_OF_RANGE
from snapshot_store.mysql.expr.nodes import Node

_WITHOUT_NULLS: Final = ("+", "-", "*")
_DIVISIONS: Final = ("/", "%", "DIV")
_CHOOSING: Final = ("case", "null", "truth")


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
