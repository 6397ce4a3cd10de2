"""The packages that pyproject.toml asks for are those that the program imports."""

import re
import tomllib
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
    imported = {_name(known[root][0]) for root in roots if root in known}
    assert imported - NOT_DECLARED == declared - NOT_IMPORTED
