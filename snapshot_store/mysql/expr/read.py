"""Parsing an expression, and the text that the server prints for it.

    a+1 > 2 AND NOT b           ((`a` + 1) > 2) and (0 = `b`), in an additional pair of parentheses

The server does not store the text of a generated column, a default, a check or a functional key part as written: it
prints its own tree. To compare such text with a server's, or between servers, it must be printed the same way. The
columns that an expression depends on are found in the tree.

Source: rules `expr`, `bool_pri`, `predicate`, `bit_expr` and `simple_expr` of mysql-server `sql/sql_yacc.yy`, and the
`Item::print` functions; what 9.7 prints is recorded in fixtures/ddl/expressions.json.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.expr.nodes import Node, is_boolean
from snapshot_store.mysql.expr.reader import ExpressionReader
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.lexer import tokenize
from snapshot_store.mysql.sql.names import quote_name, quote_string
from snapshot_store.mysql.sql.session import DdlSession


def printed(node: Node) -> str:
    """Return the server's text of a tree; strings have backslash escapes, whatever the session's sql_mode."""
    return _PRINT[node.kind](node, [printed(arg) for arg in node.args if node.kind != "string"])


def _string(node: Node, args: list[str]) -> str:
    charset = f"_{node.args[0].text}" if node.args else ""
    return f"{charset}{quote_string(node.text, expression=True)}"


def _column(node: Node, args: list[str]) -> str:
    return quote_name(node.text)


def _list(word: str) -> Callable[[Node, list[str]], str]:
    return lambda node, args: f"({f' {word} '.join(args)})"


def _between(node: Node, args: list[str]) -> str:
    return f"({args[0]} {'not ' if node.negated else ''}between {args[1]} and {args[2]})"


def _in(node: Node, args: list[str]) -> str:
    return f"({args[0]} {'not ' if node.negated else ''}in ({','.join(args[1:])}))"


def _like(node: Node, args: list[str]) -> str:
    escape = f" escape {args[2]}" if len(args) > 2 else ""
    return f"({args[0]} like {args[1]}{escape})"


def _interval(node: Node, args: list[str]) -> str:
    sign, unit = node.text.split(" ")
    return f"({args[0]} {sign} interval {args[1]} {unit})"


def _case(node: Node, args: list[str]) -> str:
    operand, otherwise = node.text.split(" ")
    words = ["case"]
    if operand:
        words.append(args.pop(0))
    last = args.pop() if otherwise else None
    for i in range(0, len(args), 2):
        words += ["when", args[i], "then", args[i + 1]]
    if last is not None:
        words += ["else", last]
    return f"({' '.join(words)} end)"


def _trim(node: Node, args: list[str]) -> str:
    side = f"{node.text} " if node.text else ""
    return f"trim({side}{args[0]} from {args[1]})"


def _json_value(node: Node, args: list[str]) -> str:
    words = node.text
    for given in args[2:]:
        words = words.replace("\0", given, 1)
    return f"json_value({args[0]}, {args[1]} {words})"


_PRINT: dict[str, Callable[[Node, list[str]], str]] = {
    "literal": lambda node, args: node.text,
    "string": _string,
    "column": _column,
    "forbidden": lambda node, args: node.text,
    "call": lambda node, args: f"{node.text}({','.join(args)})",
    "compare": lambda node, args: f"({args[0]} {node.text} {args[1]})",
    "binary": lambda node, args: f"({args[0]} {node.text} {args[1]})",
    "prefix": lambda node, args: f"{node.text}({args[0]})",
    "and": _list("and"),
    "or": _list("or"),
    "xor": _list("xor"),
    "not": lambda node, args: f"(not({args[0]}))",
    "null": lambda node, args: f"({args[0]} is {'not ' if node.negated else ''}null)",
    "truth": lambda node, args: f"({args[0]} is {'not ' if node.negated else ''}{node.text})",
    "between": _between,
    "in": _in,
    "like": _like,
    "member": lambda node, args: f"{args[0]} member of ({args[1]})",
    "row": lambda node, args: f"({','.join(args)})",
    "interval": _interval,
    "collate": lambda node, args: f"({args[0]} collate {node.text})",
    "case": _case,
    "cast": lambda node, args: f"cast({args[0]} as {node.text})",
    "using": lambda node, args: f"convert({args[0]} using {node.text})",
    "moment": lambda node, args: f"{node.text}{quote_string(node.args[0].text, expression=True)}",
    "trim": _trim,
    "extract": lambda node, args: f"extract({node.text} from {args[0]})",
    "get_format": lambda node, args: f"get_format({node.text}, {args[0]})",
    "timestampdiff": lambda node, args: f"timestampdiff({node.text},{args[0]},{args[1]})",
    "weight": lambda node, args: f"weight_string({args[0]} as {node.text.split(' ')[0]})",
    "json_value": _json_value,
}


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
