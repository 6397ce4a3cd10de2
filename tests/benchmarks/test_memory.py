"""Giant transactions take bounded memory, the driver's and all workers' together."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.memory import GIANTS, KINDS, LIMIT_MIB, run_giant, scaled
from tests.effort import THOROUGH

pytestmark = pytest.mark.spark


@pytest.mark.extended  # pieces of giant transactions: pipeline/gather/test_giant
@pytest.mark.parametrize("kind", KINDS if THOROUGH else ["pad"])
def test_a_64_mib_transaction(tmp_path: Path, spark: Any, kind: str) -> None:
    found = run_giant(spark, scaled(GIANTS["small-events"], 1 / 16), tmp_path / "giant", pad=kind == "pad")
    assert found["transactions"] == 3
    assert found["rows_reshaped"] == (8192 + 6 if kind == "pad" else 0)
    assert found["checksums"] in ("ok", "not checked")
    assert found["python_pss_mib"] < LIMIT_MIB


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GIANTS)
def test_giants(tmp_path: Path, spark: Any, name: str, kind: str) -> None:
    found = run_giant(spark, GIANTS[name], tmp_path / "giant", pad=kind == "pad")
    assert found["checksums"] in ("ok", "not checked")
    assert found["python_rss_mib"] < LIMIT_MIB
