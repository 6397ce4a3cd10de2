"""Random histories of PolarDB-X clusters: what comes out is what they mean, and a real MySQL agrees after every one.

`make soak` plays them for longer.
"""

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.effort import effort
from tests.mysql_server import MySqlServer
from tests.polardbx.checks import check_real, check_whole
from tests.polardbx.kinds import WANTED, kinds
from tests.polardbx.simulate import simulate

SEEDS = 40


@pytest.mark.mysql
# Every fourth seed: what must be met is met by all 40 below, and merged by tests/soak.
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.extended) for part in range(1, 4))])
def test_a_real_mysql_agrees_after_every_transaction(part: int, mysql_server: MySqlServer, tmp_path: Path) -> None:
    for seed in range(part, SEEDS, effort(12, 8)):
        check_whole(seed, tmp_path / str(seed), mysql_server, ways=1)
        shutil.rmtree(tmp_path / str(seed))


def test_every_kind_of_thing_is_in_some_history(tmp_path: Path) -> None:
    """The seeds above have every dialect, event, change and oddity between them."""
    met: set[str] = set()
    for seed in range(SEEDS):
        met |= kinds(simulate(seed, tmp_path / str(seed)))
    assert not WANTED - met


@pytest.mark.mysql
def test_nodes_that_are_real_servers(mysql_server: MySqlServer, tmp_path: Path) -> None:
    nodes = {f"dn-{i}": MySqlServer(tmp_path / f"dn-{i}", 200 + i) for i in (1, 2)}
    try:
        for node in nodes.values():
            node.start()
        for seed in range(2):
            check_real(seed, tmp_path / str(seed), nodes, mysql_server)
    finally:
        for node in nodes.values():
            node.stop()


@pytest.mark.soak
def test_for_as_long_as_wanted(mysql_server: MySqlServer, tmp_path: Path) -> None:
    end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600"))
    seed = int(time.time() * 10)
    while time.monotonic() < end:
        seed += 1
        print(f"seed {seed}")  # shown when it fails
        check_whole(seed, tmp_path / str(seed), mysql_server if seed % 8 == 0 else None)
        shutil.rmtree(tmp_path / str(seed))
