"""The nodes of an expression's tree: a few kinds, each named by a word; and which of them are conditions."""

from dataclasses import dataclass, replace

from snapshot_store.mysql.sql.functions import function
from snapshot_store.mysql.sql.session import DdlSession


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an expression: its kind, its text (an operator, a name, a value), and its operands."""

    kind: str
    text: str = ""
    args: tuple["Node", ...] = ()
    negated: bool = False


def literal(text: str) -> Node:
    """Return a value that prints as `text`."""
    return Node("literal", text)


def text_literal(value: str, charset: str | None, session: DdlSession) -> Node:
    """Return a string; without an introducer it has the connection's character set."""
    return Node("string", value, (literal(charset or session.charset_connection),))


def column(name: str) -> Node:
    """Return a column reference, with its name as written."""
    return Node("column", name)


def call(name: str, *args: Node) -> Node:
    """Return a call of a function by its canonical name."""
    return Node("call", name, args)


def compare(symbol: str, left: Node, right: Node) -> Node:
    """Return a comparison."""
    return Node("compare", symbol, (left, right))


_CONDITIONS = frozenset({"compare", "and", "or", "xor", "not", "null", "truth", "between", "in", "like", "member"})
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_ZERO = literal("0")


def is_boolean(node: Node) -> bool:
    """Return whether the server accepts a node as a condition unchanged."""
    if node.kind == "call":
        return function(node.text).boolean
    return node.kind in _CONDITIONS or (node.kind == "literal" and node.text in ("true", "false"))


def condition(node: Node) -> Node:
    """Return a node as a condition: `a` becomes 0 <> `a`."""
    return node if is_boolean(node) else compare("<>", _ZERO, node)


def negated(node: Node) -> Node:
    """Return NOT of a node, as the server rewrites it."""
    if node.kind == "compare" and node.text in _NEGATED:
        return replace(node, text=_NEGATED[node.text])
    if node.kind in ("and", "or"):
        return Node("or" if node.kind == "and" else "and", node.text, tuple(negated(arg) for arg in node.args))
    if node.kind == "xor":
        return replace(node, args=(negated(node.args[0]), *node.args[1:]))
    if node.kind in ("null", "truth", "between", "in"):
        return replace(node, negated=not node.negated)
    if node.kind == "not":
        return node.args[0]
    return Node("not", "", (node,)) if is_boolean(node) else compare("=", _ZERO, node)


def compared(symbol: str, left: Node, right: Node) -> Node:
    rows = left.kind == right.kind == "row" and len(left.args) == len(right.args)
    if rows and symbol in ("=", "<=>", "<>"):
        pairs = zip(left.args, right.args, strict=True)
        return Node("or" if symbol == "<>" else "and", "rows", tuple(compared(symbol, a, b) for a, b in pairs))
    return compare(symbol, left, right)
