"""The fixture cases as tests use them: parameters, copies that may be changed, and what must come of each."""

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.effort import effort, keeping
from tests.merge_e2e.local import merge, written
from tests.oracle import OracleError, OracleResult, merge_case

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CASES = sorted(path.parent for path in FIXTURES.glob("*/cluster.yaml") if (path.parent / "case.py").exists())
OTHERS = [path.parent for name in ("polardbx", "shards") for path in FIXTURES.glob(f"{name}-*/cluster.yaml")]
INPUTS = CASES + sorted(OTHERS)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
# Where a part says as much as the whole: the cases differ in what rows and events they have, not in how runs are cut.
_PARTS = effort(4, 2)
# Kept are a node that is idle, DDL between rows, rows without a second image, several files, three nodes, compressed
# transactions, branches in doubt, and one of PolarDB-X each.
_KEPT = [
    FIXTURES / name
    for name in (
        *("idle-node", "modify-in-flight", "rotation", "polardbx-scale-out"),
        *("compressed", "in-doubt", "online-drop-column", "polardbx-seed-article"),
    )
]


def _some(cases: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", keeping(_KEPT, cases), ids=lambda case: str(case.name))


some_cases = _some(CASES[::_PARTS])
other_cases = _some(CASES[1::_PARTS])
some_inputs = _some(INPUTS[::_PARTS])
other_inputs = _some(INPUTS[1::_PARTS])
every_input = pytest.mark.parametrize("case", INPUTS, ids=lambda case: str(case.name))
"""For what can be told without the oracle, which does not judge PolarDB-X's cases: tests/polardbx does; nor those of
shards without markers: tests/merge_e2e/shards does.
"""


def case_named(name: str) -> Path:
    """Return the folder of a case."""
    return FIXTURES / name


@cache
def _oracle(case: Path, end_of_input: bool) -> OracleResult | OracleError:
    try:
        return merge_case(case / "cluster.yaml", end_of_input)
    except OracleError as error:
        return error


def oracle(case: Path, end_of_input: bool = True) -> OracleResult:
    """Return what must come of a case; skips the test where the oracle does not model it."""
    result = _oracle(case, end_of_input)
    if isinstance(result, OracleError):
        pytest.skip(f"the oracle does not judge {case.name}: {result}")
    return result


@cache
def whole(path: Path) -> dict[str, bytes]:
    """Return the merged files of a configuration by one run of the product.

    Not `oracle`: that many runs, killed runs and damaged input come to the same can be told of every case.
    """
    with tempfile.TemporaryDirectory() as folder:
        merge(path, Path(folder))
        return written(Path(folder))


def copy_case(case: Path, folder: Path, change: Callable[[dict[str, Any]], None] | None = None) -> Path:
    """Copy a case's inputs to a folder, its configuration changed by `change`; returns the configuration's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("base", "nodes"):
        if (case / name).exists():
            shutil.copytree(case / name, folder / name)
    values = yaml.safe_load((case / "cluster.yaml").read_text())
    if change is not None:
        change(values)
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def max_size(size: int) -> Callable[[dict[str, Any]], None]:
    """Return a change of the size at which output files are cut."""

    def change(values: dict[str, Any]) -> None:
        values["output"]["max-size"] = size

    return change
