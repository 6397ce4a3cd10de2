"""What expressions are refused with, read from the code that refuses them.

A message is what the constructor of an error, or `stop`, is given: a text, one put together, or a name or function
that stands for one in the same package. What a row or an expression puts into it is shown as `…`.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_VALUES: Final = Path(__file__).parents[1] / "binlog_merge" / "values"
_HEADINGS: Final = {
    ("duckdb", "ExpressionError"): "Conditions, before any row is read",
    ("duckdb", "stop"): "Conditions, at a row",
    ("evaluate", "NotComputableError"): "Computed columns, when the plan is made",
    ("evaluate", "ConversionError"): "Computed columns, at a row",
}
"""The package and what is called with a message, and where a user sees it."""


def refusals() -> str:
    """Return all messages, a list for each place where they are seen."""
    lines = []
    for (package, name), heading in _HEADINGS.items():
        lines += [f"{heading}:", "", *(f"- `{message}`" for message in sorted(messages(package, name))), ""]
    return "\n".join(lines)


def messages(package: str, name: str) -> set[str]:
    """Return what is said where `name` is called in a package; without what is said in another's words alone."""
    trees = [ast.parse(path.read_text()) for path in sorted((_VALUES / package).glob("*.py"))]
    known = dict(pair for tree in trees for pair in _known(tree))
    found = set()
    for tree in trees:
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            named = known | dict(pair for node in ast.walk(function) for pair in _assigned(node))
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == name
                    and node.args
                ):
                    found.add(_text(node.args[0], named))
    return {message.rstrip(" :,") for message in found if any(map(str.isalpha, message))}


def _known(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield constants of a module, and functions of one line that return a text."""
    for node in tree.body:
        yield from _assigned(node)
        match node:
            case ast.FunctionDef(name=name, body=[*_, ast.Return(value=ast.JoinedStr() | ast.Constant() as value)]):
                yield name, value


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value


def _text(node: ast.expr, named: Mapping[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value, named) for value in values)
        case ast.FormattedValue(value=ast.Name(id=name)) if isinstance(named.get(name), ast.Constant):
            return _text(named[name], named)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if name in named:
            return _text(named[name], {other: value for other, value in named.items() if other != name})
    return "…"
