"""Three shards on real servers, and the session's server as the target."""

from collections.abc import Iterator

import pytest

from tests.merge_e2e.shards.stage import Stage
from tests.mysql_server import MySqlServer


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MySqlServer]]:
    """Three shards, whose AUTO_INCREMENT counts as docs/how-to/plain-shards-from-servers.md says."""
    folder = tmp_path_factory.mktemp("shards")
    counting = "--auto-increment-increment=3"
    with (
        MySqlServer(folder / "n1", 301, (counting, "--auto-increment-offset=1")) as one,
        MySqlServer(folder / "n2", 302, (counting, "--auto-increment-offset=2")) as two,
        MySqlServer(folder / "n3", 303, (counting, "--auto-increment-offset=3")) as three,
    ):
        yield {"n1": one, "n2": two, "n3": three}


@pytest.fixture(scope="module")
def stage(
    nodes: dict[str, MySqlServer], _shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    """The shards and the target, which is cleared."""
    made = Stage(nodes, _shared_mysql_server, tmp_path_factory.mktemp("merged"))
    made.clear()
    return made
