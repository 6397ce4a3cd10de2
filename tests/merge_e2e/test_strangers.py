"""Programs we did not write read the merged files: mysqlbinlog, a real server, mysql-replication's GTID notion."""

import json
import re
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from tests.effort import keeping
from tests.merge_e2e.cases import CASES, case_named, copy_case, max_size, whole
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import MySqlServer, mysqlbinlog

pytestmark = pytest.mark.mysql

# Each kind of event and header, and of rows that are reshaped. Of all cases the bytes are the oracle's, which a server
# takes in tests/oracle_selftest.
KEPT = [
    case_named(name)
    for name in (
        *("all-types", "statements", "partial-json", "compressed", "large-blobs", "tagged-gtid", "gtid-off"),
        *("checksum-none", "row-image-minimal", "reshape-others", "reshape-charsets", "hidden-columns"),
        *("three-nodes-online-ddl", "shards-optimistic", "strange-names"),
    )
]


def _merged(case: Path, out: Path) -> list[Path]:
    """Merge a case into about four files."""
    total = sum(map(len, whole(case / "cluster.yaml").values()))
    config = copy_case(case, out / "case", max_size(max(500, total // 4)))
    merge(config, out / "out")
    return [out / "out" / name for name in written(out / "out")]


def _check_gtids(case: Path, files: list[Path]) -> None:
    """Let mysqlbinlog look at every file, and count the GTIDs that it shows."""
    numbers: list[int] = []
    for file in files:
        text = mysqlbinlog([file], "--verify-binlog-checksum", "--base64-output=decode-rows", "-v").decode(
            "utf-8", "replace"
        )
        gtids = re.findall(r"^SET @@SESSION\.GTID_NEXT= '([0-9a-f-]{36}):(\d+)'", text, re.MULTILINE)
        assert {uuid for uuid, _ in gtids} <= {MergeConfig.load(case / "cluster.yaml").cluster_uuid()}
        numbers += [int(number) for _, number in gtids]
    anonymous = MergeConfig.load(case / "cluster.yaml").output.gtid == "anonymous"
    assert anonymous or numbers == list(range(1, len(numbers) + 1))
    assert anonymous or numbers


@pytest.mark.parametrize("case", keeping(KEPT, CASES), ids=lambda case: str(case.name))
def test_mysqlbinlog_and_a_server_accept_them_and_it_holds_the_clusters_tables(
    case: Path, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    files = _merged(case, tmp_path)
    _check_gtids(case, files)
    begin_as(case, mysql_server)
    mysql_server.apply(mysqlbinlog(files, "--verify-binlog-checksum"))
    assert held(case, mysql_server) == expected(case)
    assert _executed(mysql_server) == _uuid_and_count(case)


def _executed(server: MySqlServer) -> str:
    return str(server.query("SELECT @@GLOBAL.gtid_executed")[0][0])


def _uuid_and_count(case: Path) -> str:
    config = MergeConfig.load(case / "cluster.yaml")
    count = len(json.loads((case / "expected" / "transactions.json").read_text()))
    return f"{config.cluster_uuid()}:{f'1-{count}' if count > 1 else '1'}"
