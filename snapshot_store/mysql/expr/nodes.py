"""The nodes of an expression's tree: a few kinds, each named by a word."""

from dataclasses import dataclass

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
