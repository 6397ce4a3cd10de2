"""A cluster of two machines, as far as Spark knows, for all tests that break one."""

from collections.abc import Iterator

import pytest

from tests.spark.cluster import Cluster


@pytest.fixture(scope="session")
def two_machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers of one core; who kills one says so in `workers`."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        for host in ("127.0.0.1", "127.0.0.2"):
            started.add_worker(cores=1, host=host)
        yield started
