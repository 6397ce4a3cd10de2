"""What must hold when a running system has been broken again and again, and the load has ended."""

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pymysql

from tests.merge_e2e.local import merge
from tests.soak.sturdy_bank import TABLES, SturdyBank
from tools.demo_live.cluster import LiveCluster
from tools.mysql_server import MySqlServer, mysqlbinlog

_GTID: Final = re.compile(rb"SET @@SESSION.GTID_NEXT= '([0-9a-f-]{36}):(\d+)'")
DRAINED_WITHIN: Final = 240.0


def drained(bank: SturdyBank, replica: MySqlServer, check: Callable[[], None]) -> None:
    """Wait until the replica has every row that the nodes have, and no other; `check` raises what has gone wrong."""
    end = time.monotonic() + DRAINED_WITHIN
    assert not any(server.prepared_branches() for server in bank.servers)
    wanted = {table: _rows_of(bank.servers, table) for table in TABLES}
    lost = bank.committed - {int(row[0]) for row in wanted["ledger"]}
    assert not lost, f"the servers themselves have lost {sorted(lost)[:9]}"
    while True:
        bank.heartbeat()
        check()
        found = {table: _rows_there(replica, table) for table in wanted}
        if found == wanted:
            return
        differ = {table: len(set(found[table]) ^ set(wanted[table])) for table in wanted}
        assert time.monotonic() < end, f"rows that differ, {DRAINED_WITHIN:.0f} s after the load: {differ}"
        time.sleep(0.5)


def _rows_of(servers: list[MySqlServer], table: str) -> list[tuple[Any, ...]]:
    return sorted(
        row for i, server in enumerate(servers) for row in server.query(f"SELECT * FROM bank_{i}.{table}_{i}")
    )


def _rows_there(replica: MySqlServer, table: str) -> list[tuple[Any, ...]]:
    try:
        return sorted(replica.query(f"SELECT * FROM bank.{table}"))
    except pymysql.err.MySQLError as error:
        assert error.args[0] in (1049, 1146), error
        return []


def as_one_merge(live: LiveCluster) -> str:
    """Compare the output with that of `merge`, run once on what is captured, and look at every GTID from end to end.

    Returns what was compared. mysqlbinlog verifies the checksums of all files.
    """
    config, merged = live.home / "cluster.yaml", live.home / "merged"
    merge(config, merged, end_of_input=False)  # what was captured last need not have been merged
    command = [sys.executable, "-m", "binlog_merge.cli.main", "merge", "--config", str(config)]
    once = live.home / "once"
    done = subprocess.run([*command, "--out", str(once)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sums(merged) == sums(once)
    published = gtids(merged)
    (uuid,) = {uuid for uuid, _ in published}
    assert [number for _, number in published] == list(range(1, len(published) + 1))
    executed = str(live.replica.query("SELECT @@global.gtid_executed")[0][0]).replace("\n", "")
    (ours,) = [part for part in executed.split(",") if part.startswith(uuid)]
    assert re.fullmatch(rf"{uuid}:1-\d+", ours), executed
    captured = [_captured(path, server) for path, server in zip(_folders(live), live.bank.servers, strict=True)]
    return f"{len(sums(once))} files, {len(published)} transactions of {' + '.join(map(str, captured))} captured"


def _folders(live: LiveCluster) -> list[Path]:
    return sorted(path for path in (live.home / "captured").iterdir() if path.is_dir())


def _captured(folder: Path, server: MySqlServer) -> int:
    """Return how many transactions of a node are captured: all of its server's, each once in a server's files."""
    every: set[str] = set()
    for files in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        found = [f"{uuid}:{number}" for uuid, number in gtids(files)]
        assert len(found) == len(set(found)), f"{files} has a transaction twice"
        every.update(found)
    executed = str(server.query("SELECT @@global.gtid_executed")[0][0]).replace("\n", "")
    ((lacking,),) = server.query(f"SELECT GTID_SUBTRACT('{executed}', '{','.join(every)}')")
    assert lacking == "", f"{folder} lacks {lacking}"
    return len(every)


def sums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a folder's binlog files, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("binlog.0*"))}


def gtids(folder: Path) -> list[tuple[str, int]]:
    """Return the GTIDs of a folder's binlog files, in order, as mysqlbinlog prints them."""
    # A capture that is killed may leave an empty file.
    files = [path for path in sorted(folder.glob("binlog.0*")) if path.stat().st_size]
    if not files:
        return []
    printed = mysqlbinlog(files, "--verify-binlog-checksum", "--base64-output=decode-rows")
    return [(uuid.decode(), int(number)) for uuid, number in _GTID.findall(printed)]
