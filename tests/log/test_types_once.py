"""What is known of MySQL's types stands in one table, and what quotes a string for MySQL in one function."""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from tests.source_code import nodes_of_modules

pytestmark = pytest.mark.usefixtures("source_code")

TABLES: Final = {"snapshot_store/mysql/column_type.py", "binlog_merge/values/types.py"}
"""The two halves of the table of types: what MySQL says of each, and how each is written elsewhere."""

GROUPS: Final = {
    "integers": {"tinyint", "smallint", "mediumint", "bigint"},
    "texts": {"varchar", "tinytext", "text", "mediumtext", "longtext"},
    "bytes": {"varbinary", "tinyblob", "blob", "mediumblob", "longblob"},
    "strings with a length": {"char", "varchar"},
    "bytes with a length": {"binary", "varbinary"},
    "shapes": {"point", "linestring", "polygon", "multipoint", "multipolygon", "geomcollection"},
    "floats": {"float", "double"},
    "members": {"enum", "set"},
    "times": {"datetime", "timestamp"},
}
"""Names that stand side by side only where somebody lists the types of a family."""

LISTS: Final = {
    "binlog_merge/binlog_server/in_memory.py": "the types of DuckDB",
    "binlog_merge/binlog_server/tables/query.py": "the words of CAST",
    "binlog_merge/messages/registry.py": "the types of Kafka Connect",
    "binlog_merge/messages/maxwell.py": "the words of Well-Known Text",
    "snapshot_store/mysql/sql/types.py": "the words of DDL for each, and those of CAST, which are others",
}
"""The other modules that write two such names side by side, and why."""

QUOTES: Final = {"snapshot_store/mysql/sql/names.py"}
"""The module that puts a string, or a name, in quotes for SQL."""

ESCAPES: Final = {
    "binlog_merge/log/inspection_text.py": "as mysqlbinlog shows a value in a comment",
    "binlog_merge/binlog_server/recorded.py": "an expression as information_schema shows it, without quotes around it",
}
"""The other modules that escape a quote, and for what."""


def listed(node: ast.AST) -> set[str]:
    """Return the texts that stand side by side in a list, a set, a tuple, or as the keys of a dictionary."""
    elements: list[ast.expr | None] = []
    if isinstance(node, ast.List | ast.Set | ast.Tuple):
        elements = [*node.elts]
    elif isinstance(node, ast.Dict):
        elements = [*node.keys]
    return {e.value.lower() for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)}


def groups(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        texts = listed(node)
        yield from (group for group, names in GROUPS.items() if len(names & texts) > 1)


def escapes_a_quote(node: ast.AST) -> bool:
    """Return whether a node replaces a quote, by a call or by a table of escapes."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return any(isinstance(k, ast.Constant) and k.value == "'" and "'" in ast.unparse(v)[1:-1] for k, v in pairs)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace"):
        return False
    if len(node.args) < 2:
        return False
    quote, by = (arg.value if isinstance(arg, ast.Constant) else None for arg in node.args[:2])
    return quote in ("'", "`") and bool(by)


def test_one_table_lists_the_types_of_a_family() -> None:
    found = {name: sorted(set(groups(nodes))) for name, nodes in nodes_of_modules().items()}
    assert {name: of for name, of in found.items() if of and name not in TABLES | LISTS.keys()} == {}


def test_no_exception_is_listed_in_vain() -> None:
    found = {name for name, nodes in nodes_of_modules().items() if any(True for _ in groups(nodes))}
    assert set(LISTS) <= found


def test_one_module_quotes_strings_and_names() -> None:
    found = {name for name, nodes in nodes_of_modules().items() if any(map(escapes_a_quote, nodes))}
    assert found == QUOTES | ESCAPES.keys()
