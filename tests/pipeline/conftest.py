"""What every test of the pipeline's rooms may read: the blocks of made-up pieces."""

from collections.abc import Iterator

import pytest

from binlog_merge.pipeline.base.blocks import holding
from tests.pipeline.logs import BLOCKS


@pytest.fixture(autouse=True)
def _blocks() -> Iterator[None]:
    with holding(BLOCKS):
        yield
