"""Parsing an expression, and the text that the server prints for it.

    a+1 > 2 AND NOT b           ((`a` + 1) > 2) and (0 = `b`), in an additional pair of parentheses

The server does not store the text of a generated column, a default, a check or a functional key part as written: it
prints its own tree. To compare such text with a server's, or between servers, it must be printed the same way. The
columns that an expression depends on are found in the tree.

Source: rules `expr`, `bool_pri`, `predicate`, `bit_expr` and `simple_expr` of mysql-server `sql/sql_yacc.yy`, and the
`Item::print` functions; what 9.7 prints is recorded in fixtures/ddl/expressions.json.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.expr.conditions import is_boolean
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.expr.reader import ExpressionReader
from snapshot_store.mysql.expr.text import printed
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.lexer import tokenize
from snapshot_store.mysql.sql.session import DdlSession


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression: the server's text of it, and what it depends on.

    `columns` are in lower case, `functions` are the server's names. `forbidden` names a part that no expression of a
    table may have ("a subquery", "a variable"), "" if there is none.
    """

    text: str
    columns: frozenset[str]
    functions: frozenset[str]
    forbidden: str
    boolean: bool
    array: bool
    node: Node


def read_expression(source: str, session: DdlSession) -> Expression:
    """Parse an expression. Raises DdlNotUnderstood if it does not follow the grammar."""
    cursor = Cursor(source, source, tokenize(source, session), session)
    node = ExpressionReader(cursor).expression()
    if cursor.peek().kind != "end":
        raise cursor.error("something follows the expression")
    nodes = list(_walk(node))
    return Expression(
        printed(node),
        frozenset(n.text.lower() for n in nodes if n.kind == "column"),
        frozenset(n.text for n in nodes if n.kind == "call"),
        next((n.text for n in nodes if n.kind == "forbidden"), ""),
        is_boolean(node),
        any(n.kind == "cast" and n.text.endswith(" array") for n in nodes),
        node,
    )


def canonical(source: str, session: DdlSession) -> str:
    """Return the server's text of an expression, or the source text if it is not understood.

    Raises DdlNotUnderstood instead in a session with `validate`.
    """
    try:
        return read_expression(source, session).text
    except DdlNotUnderstood:
        if session.validate:
            raise
        return source


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for arg in node.args:
        yield from _walk(arg)
