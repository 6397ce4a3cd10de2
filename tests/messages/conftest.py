"""What the tests of messages share: merged logs of cases."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge


@pytest.fixture(scope="session")
def merged_case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def of(case: str) -> Path:
        out = tmp_path_factory.mktemp(case)
        merge(case_named(case) / "cluster.yaml", out)
        return out

    return of
