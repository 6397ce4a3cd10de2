"""What real servers do with GTIDs and sequence numbers: what is legal goes through, what doubles or loses stops."""

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.errors import TransactionMissing, TransactionTwice
from tests.effort import keeping
from tests.merge_e2e.editing import GTIDS, Log
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

WORK = """
CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(200));
INSERT INTO d.t (b) VALUES ('a'), ('b'); FLUSH BINARY LOGS;
SET gtid_next = 'AUTOMATIC:tag'; INSERT INTO d.t (b) VALUES ('tagged'); SET gtid_next = 'AUTOMATIC';
XA START 'x'; INSERT INTO d.t (b) VALUES ('xa'); XA END 'x'; XA PREPARE 'x';
BEGIN; INSERT INTO d.t (b) VALUES ('back'); ROLLBACK;
XA COMMIT 'x'; FLUSH BINARY LOGS;
SET binlog_transaction_compression = ON; INSERT INTO d.t (b) VALUES (REPEAT('c', 200));
SET binlog_transaction_compression = OFF;
XA START 'y'; INSERT INTO d.t (b) VALUES ('xa'); XA END 'y'; XA PREPARE 'y'; XA ROLLBACK 'y';
CREATE TEMPORARY TABLE d.tmp (a INT); INSERT INTO d.tmp VALUES (1); DROP TEMPORARY TABLE d.tmp;
CREATE TABLE d.copied SELECT * FROM d.t; CREATE USER 'u'@'localhost'; ANALYZE TABLE d.t
"""


def config_of(folder: Path, **nodes: Path) -> Path:
    folder.mkdir(exist_ok=True)
    values: dict[str, Any] = {
        "version": 1, "name": "numbers", "shard-mode": "pessimistic", "commit-tso": {"carrier": "gtid-time"},
        "nodes": [{"source-id": name, "files": f"{files}/binlog.[0-9]*"} for name, files in nodes.items()],
    }  # fmt: skip
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.extended  # the same twice: test_groups_moved; another replica leads: test_failed_over
def test_a_primary_and_its_replica(tmp_path: Path) -> None:
    """Each alone is a sound log, the replica's too, whose appliers overtake each other; together they are one twice."""
    port = free_port()
    options = ("--replica-preserve-commit-order=OFF", "--replica-parallel-workers=4", "--max-binlog-size=4096")
    with (
        MySqlServer(tmp_path / "primary", 1, port=port) as primary,
        MySqlServer(tmp_path / "replica", 2, options) as replica,
    ):
        primary.execute("CREATE USER r IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO r")
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='r', "
            "SOURCE_PASSWORD='r', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
        )
        primary.execute(WORK)
        for number in range(40):
            primary.execute(f"INSERT INTO d.t (b) VALUES ('{number}'), (REPEAT('x', {number}))")
        executed = primary.query("SELECT @@GLOBAL.gtid_executed")[0][0]
        assert replica.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60)")[0][0] == 0
    for name, server in (("primary", primary), ("replica", replica)):
        result = merge(config_of(tmp_path / name / "c", **{name: server.data}), tmp_path / name / "out")
        assert result.transactions > 40 and not result.warnings
    both = config_of(tmp_path / "both", replica=replica.data, primary=primary.data)
    with pytest.raises(TransactionTwice, match="is in the log of node primary too") as caught:
        merge(both, tmp_path / "both" / "out")
    assert caught.value.node == "replica" and not written(tmp_path / "both" / "out")
    assert "replica of the other" in caught.value.remedy and ", as are " in caught.value.message

    # The replica joins an output that has the primary already.
    later = tmp_path / "later"
    merge(config_of(later, primary=primary.data), later / "out", end_of_input=False)
    with pytest.raises(TransactionTwice) as caught:
        merge(config_of(later, primary=primary.data, replica=replica.data), later / "out")
    assert caught.value.node == "replica"


def test_numbers_that_are_skipped_and_numbers_from_elsewhere(tmp_path: Path) -> None:
    foreign = "aaaaaaaa-0000-0000-0000-000000000001"
    with MySqlServer(tmp_path / "server", 3) as server:
        server.execute(f"SET GLOBAL gtid_purged = '{foreign}:1-100'; FLUSH BINARY LOGS")
        server.execute(f"{WORK}; FLUSH BINARY LOGS; SET GLOBAL gtid_purged = '+{foreign}:150-160'; FLUSH BINARY LOGS")
        empty = "BEGIN; COMMIT; SET gtid_next = 'AUTOMATIC'"
        server.execute(f"SET gtid_next = '{foreign}:200'; {empty}; SET gtid_next = '{foreign}:203'; {empty}")
        server.execute("INSERT INTO d.t (b) VALUES ('z'); FLUSH BINARY LOGS; INSERT INTO d.t (b) VALUES ('z')")
        server.restart()
        server.execute("INSERT INTO d.t (b) VALUES ('z')")
    out = tmp_path / "out"
    config = config_of(tmp_path, dn=server.data)
    result = merge(config, out, end_of_input=False)
    assert [w for w in result.warnings if f"its logs have no {foreign}:201-202," in w and "gtid_next" in w]
    assert not merge(config, out).warnings, "a gap is told once"


def test_numbers_that_begin_anew(tmp_path: Path) -> None:
    """RESET BINARY LOGS AND GTIDS, which may go on with the file's number: the numbers of transactions come again."""
    kept = tmp_path / "kept"
    kept.mkdir()
    with MySqlServer(tmp_path / "server", 4) as server:
        server.execute(f"{WORK}; FLUSH BINARY LOGS")
        files = sorted(server.data.glob("binlog.0*"))
        for path in files[:-1]:
            shutil.copy(path, kept)
        server.execute(f"RESET BINARY LOGS AND GTIDS TO {len(files)}; INSERT INTO d.t (b) VALUES ('anew')")
    shutil.copy(server.data / files[-1].name, kept)
    with pytest.raises(TransactionTwice, match="comes again") as caught:
        merge(config_of(tmp_path, dn=kept), tmp_path / "out")
    assert caught.value.file == str(kept / files[-1].name) and "RESET BINARY LOGS AND GTIDS" in caught.value.remedy
    assert written(tmp_path / "out")


@pytest.mark.parametrize("gtids", keeping(["ON"], ["ON", "OFF"]))
def test_each_transaction_taken_out_in_turn(gtids: str, tmp_path: Path) -> None:
    """Every group of a server's files but its very last: with GTIDs the next file tells of the last of each file."""
    options = (f"--gtid-mode={gtids}", f"--enforce-gtid-consistency={gtids}")
    with MySqlServer(tmp_path / "server", 5, options) as server:
        work = WORK if gtids == "ON" else WORK.replace("SET gtid_next = 'AUTOMATIC:tag';", "")
        server.execute(work.replace("SET gtid_next = 'AUTOMATIC';", "") if gtids == "OFF" else work)
    source = sorted(server.data.glob("binlog.0*"))
    merge(config_of(tmp_path, dn=server.data), tmp_path / "whole")
    for index, path in enumerate(source):
        log = Log.load(path)
        starts = [i for i, e in enumerate(log.events) if e.type in GTIDS]
        groups = list(log.groups())
        for number, (first, end) in enumerate(groups):
            last = number == len(groups) - 1
            if last and (gtids == "OFF" or index == len(source) - 1):
                continue
            folder = tmp_path / f"{index}-{number}"
            (folder / "node").mkdir(parents=True)
            for one in source:
                shutil.copy(one, folder / "node")
            log.without(*range(first, end)).save(folder / "node" / path.name)
            with pytest.raises(TransactionMissing) as caught:
                merge(config_of(folder, dn=folder / "node"), folder / "out")
            assert caught.value.file == str(folder / "node" / path.name)
            if not last:
                assert caught.value.position == log.events[starts[number]].at
