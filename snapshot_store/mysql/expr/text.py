"""Printing expressions as the server does, with a function for each kind of node."""

from collections.abc import Callable

from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.sql.names import quote_name, quote_string


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
