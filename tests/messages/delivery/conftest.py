"""What the tests of Kafka share: a merged log, and librdkafka's mock cluster."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.binlog_server.conftest import certificate
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge

__all__ = ["certificate"]


@pytest.fixture(scope="session")
def online_ddl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kafka")
    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", out)
    return out


@pytest.fixture
def brokers() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("broker.py")), "3"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
