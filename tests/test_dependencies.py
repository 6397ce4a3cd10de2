"""What the program imports: the packages that pyproject.toml asks for, and of itself only what does not import back."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("binlog_merge", "snapshot_store")
IMPORT = re.compile(r"^\s*(?:import|from) (\w+)", re.M)
NOT_DECLARED = {"llvmlite"}
"""numba's own, which says of what version."""
NOT_IMPORTED = {"pandas"}
"""pyspark's own, which does not say that it needs it."""


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(text for extra in extras for text in extra)]
    declared = {_name(re.split(r"[\[<>=~!; ]", text)[0]) for text in wanted}
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    roots = {root for path in files for root in IMPORT.findall(path.read_text())} - set(PACKAGES)
    known = packages_distributions()
    imported = set[str]()
    for root in roots & known.keys():
        names = [_name(name) for name in known[root]]  # several of a namespace, as opentelemetry is
        imported |= {name for name in names if name in declared} or {names[0]}
    assert imported - NOT_DECLARED == declared - NOT_IMPORTED


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a part of a module imports when it runs, each also with the names that are taken of it."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield str(node.module)
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def test_no_module_imports_one_that_imports_it_not_even_within_a_function() -> None:
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    # A package's own names are there when its module is imported: what is taken of it is a module of it, or these.
    imported = {
        module: {name for name in _imports(ast.parse(path.read_text())) if name in files and name != module}
        for module, path in files.items()
        if path.name != "__init__.py"
    }
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' <- '.join(error.args[1])}") from None
