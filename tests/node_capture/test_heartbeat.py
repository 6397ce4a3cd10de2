"""Heartbeats of a capture: they let an idle node show a TSO, and what fails in them ends no capture."""

from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import capture_now, cluster, url_of
from tests.node_capture.test_as_of import capturing, until

pytestmark = pytest.mark.mysql

CLOCK = "(CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS UNSIGNED) << 22)"
"""Stands for the cluster's clock: all servers of this machine have it."""

BEGIN = [
    "XA START '{id}'",
    "REPLACE INTO idle.heartbeat (id, beats) VALUES (1, UUID())",
    "XA END '{id}'",
    "XA PREPARE '{id}'",
]
UUID = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
BY_CARRIER = {
    "commit-table": [
        *BEGIN,
        f"INSERT INTO __cdc__.__commit_ts__ (gtrid, tso) VALUES ('{{id}}', {CLOCK})",
        "XA COMMIT '{id}'",
    ],
    "original-commit-timestamp": [
        *BEGIN,
        f"SET SESSION original_commit_timestamp = {CLOCK} >> 9",
        "XA COMMIT '{id}'",
    ],
    "original-commit-timestamp-us": [
        *BEGIN,
        "SET SESSION original_commit_timestamp = CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)",
        "XA COMMIT '{id}'",
    ],
    "gtid": [
        *BEGIN,
        f"SET gtid_next = CONCAT('{UUID}:', {CLOCK})",
        "XA COMMIT '{id}'",
        "SET gtid_next = 'AUTOMATIC'",
    ],
}


def prepare(server: MySqlServer) -> None:
    server.execute(
        "CREATE DATABASE idle; CREATE TABLE idle.heartbeat (id INT PRIMARY KEY, beats VARCHAR(40)); "
        "CREATE DATABASE __cdc__; CREATE TABLE __cdc__.__commit_ts__ (gtrid VARCHAR(64), tso BIGINT UNSIGNED)"
    )


def configured(folder: Path, server: MySqlServer, carrier: str, statement: Any) -> Path:
    return cluster(
        folder, {"dn-1": url_of(server)},
        **{
            "commit-tso": {"carrier": carrier}, "ignore-schemas": ["idle"],
            "heartbeat": {"interval": "50ms", "statement": statement},
        },
    )  # fmt: skip


def beats(server: MySqlServer) -> str | None:
    rows = server.query("SELECT beats FROM idle.heartbeat")
    return str(rows[0][0]) if rows else None


@pytest.mark.parametrize("carrier", list(BY_CARRIER))
def test_an_idle_node_shows_a_tso(carrier: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    prepare(mysql_server)
    config = configured(tmp_path, mysql_server, carrier, BY_CARRIER[carrier])
    lines: list[str] = []
    watermarks = []
    for turn in range(2):
        with capturing(config, lines):
            until(lambda: (beats(mysql_server) or "") != (watermarks[-1][0] if watermarks else ""))
        capture_now(config)
        result = merge(config, tmp_path / "out", end_of_input=False)
        mark = result.nodes["dn-1"].watermark
        assert mark is not None and not result.in_doubt and result.transactions == 0, turn
        watermarks.append((beats(mysql_server), mark))
    assert watermarks[0][1] < watermarks[1][1]
    assert not [line for line in lines if "failed" in line]


def test_what_fails_is_named_and_rolled_back(mysql_server: MySqlServer, tmp_path: Path) -> None:
    prepare(mysql_server)
    statement = [
        *BEGIN,
        "INSERT INTO __cdc__.__commit_ts__ (gtrid, tso) VALUES ('{id}', idle.none())",
        "XA COMMIT '{id}'",
    ]
    config = configured(tmp_path, mysql_server, "commit-table", statement)
    lines: list[str] = []
    with capturing(config, lines):
        until(lambda: any("the heartbeat failed: FUNCTION idle.none does not exist" in line for line in lines))
        mysql_server.execute("CREATE DATABASE later")
        size = mysql_server.binlog_files()[-1].stat().st_size
        until(lambda: (tmp_path / "captured/dn-1/binlog.000001").stat().st_size >= size)
        mysql_server.execute(f"CREATE FUNCTION idle.none() RETURNS BIGINT UNSIGNED NO SQL RETURN {CLOCK}")
        until(lambda: beats(mysql_server) is not None)
    assert not mysql_server.prepared_branches()
    assert len([line for line in lines if "the heartbeat failed" in line]) == 1


def test_there_is_no_heartbeat_unless_it_is_configured(mysql_server: MySqlServer, tmp_path: Path) -> None:
    prepare(mysql_server)
    config = configured(tmp_path, mysql_server, "commit-table", "REPLACE INTO idle.heartbeat VALUES (1, 'x')")
    capture_now(config)  # ends at once
    assert beats(mysql_server) is None
    assert MergeConfig.load(cluster(tmp_path, {"dn-1": url_of(mysql_server)})).heartbeat is None


@pytest.mark.parametrize(
    "heartbeat", [{}, {"statement": []}, {"statement": "x", "interval": "1ms"}, {"statement": "x", "intervall": "1s"}]
)
def test_a_heartbeat_that_says_too_little(heartbeat: dict[str, Any], tmp_path: Path) -> None:
    config = cluster(tmp_path, {"dn-1": "mysql://root@localhost"}, heartbeat=heartbeat)
    with pytest.raises(ConfigError, match="heartbeat"):
        MergeConfig.load(config)
