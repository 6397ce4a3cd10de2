"""The servers of the stage: two nodes of its own, and the session's server as the target."""

from collections.abc import Iterator

import pytest

from tests.merge_e2e.shards.stage import Stage
from tests.mysql_server import MySqlServer


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MySqlServer]]:
    """Two real nodes, for all scenarios; the second's table maps name no columns, and its transactions have no GTID."""
    folder = tmp_path_factory.mktemp("nodes")
    plain = ("--binlog-row-metadata=MINIMAL", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    with MySqlServer(folder / "n1", 201) as one, MySqlServer(folder / "n2", 202, plain) as two:
        yield {"n1": one, "n2": two}


@pytest.fixture(scope="module")
def stage(
    nodes: dict[str, MySqlServer], _shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    """The nodes and the target, which is cleared."""
    made = Stage(nodes, _shared_mysql_server, tmp_path_factory.mktemp("merged"))
    made.clear()
    return made
