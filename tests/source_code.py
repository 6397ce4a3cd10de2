"""The syntax of the product's modules, for tests that look at all of them."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


@cache
def nodes_of_modules() -> dict[str, list[ast.AST]]:
    """Return all nodes of each module, by its path from the root; the fixture `source_code` forgets them again."""
    paths = [path for room in ("binlog_merge", "snapshot_store") for path in sorted((ROOT / room).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): [*ast.walk(ast.parse(path.read_text()))] for path in paths}
