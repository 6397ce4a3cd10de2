"""A real orchestrator recovers from a dead primary: the capture goes on at the server that it has promoted."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from binlog_merge.files.servers import read_servers
from tests.clients.conftest import client
from tests.clients.served import until
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import capture_now, cluster, url_of
from tests.node_capture.pairs import SEMI_SYNC, kill, replicate
from tests.node_capture.test_failover import Writing, applied, bring_what_it_lacks, captured_beyond, following, rows
from tests.patience import ended
from tools.demo_live.cluster import free_ports

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
_USERS: Final = (
    "SET sql_log_bin=0; CREATE USER orchestrator@'%' IDENTIFIED BY 'o'; GRANT ALL ON *.* TO orchestrator@'%'; "
    "CREATE USER repl@'%' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'"
)


class Orchestrator:
    """One that runs, with SQLite, and recovers whatever it finds dead."""

    def __init__(self, port: int, log: Path) -> None:
        self._port, self._log = port, log

    def ask(self, path: str) -> Any:
        """Return what its API answers, None if it does not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/{path}", timeout=60) as answer:
                return json.loads(answer.read())
        except OSError:
            return None

    def knows(self, primary: MySqlServer, replica: MySqlServer) -> bool:
        """Return whether it has seen both, and which of them follows the other."""
        found = self.ask("all-instances") or []
        seen = {one["Key"]["Port"]: one["MasterKey"]["Port"] for one in found if one["IsLastCheckValid"]}
        return seen == {primary.port: 0, replica.port: primary.port}

    def recoveries(self) -> list[tuple[str, int, bool]]:
        """Return what it has recovered from, with the port of the server that it has promoted."""
        found = self.ask("audit-recovery") or []
        return [
            (one["AnalysisEntry"]["Analysis"], one["SuccessorKey"]["Port"], one["IsSuccessful"])
            for one in found
            if one["SuccessorKey"]
        ]

    def said(self) -> str:
        return self._log.read_text()[-3000:]


@contextmanager
def orchestrated(folder: Path) -> Iterator[Orchestrator]:
    """Run it for as long as the context lasts."""
    (port,) = free_ports(1)
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "BackendDB": "sqlite",
        "SQLite3DataFile": str(folder / "orchestrator.db"),
        "MySQLTopologyUser": "orchestrator",
        "MySQLTopologyPassword": "o",
        "MySQLTopologySSLSkipVerify": True,
        "DiscoverByShowSlaveHosts": True,
        "HostnameResolveMethod": "none",
        "MySQLHostnameResolveMethod": "",
        "InstancePollSeconds": 1,
        "RecoverMasterClusterFilters": ["*"],
        "ApplyMySQLPromotionAfterMasterFailover": True,
    }
    (folder / "orchestrator.json").write_text(json.dumps(settings))
    log = folder / "orchestrator.log"
    command = [client("orchestrator", "orchestrator"), "-config", str(folder / "orchestrator.json"), "http"]
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=client("orchestrator"))
    try:
        yield Orchestrator(port, log)
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.terminate()
        ended(process, 60)


def test_it_promotes_a_replica_and_the_capture_goes_on(tmp_path: Path, mysql_server: MySqlServer) -> None:
    """Clients write to the primary until it is killed, and to the other one from then on: each row is there, once."""
    lines: list[str] = []
    ports = free_ports(2)
    options = ["--report-host=127.0.0.1", "--performance-schema=ON", "--max-connections=100", *SEMI_SYNC]
    a, b = (
        MySqlServer(tmp_path / f"server-{number}", 11 + number, [*options, f"--report-port={port}"], port=port)
        for number, port in enumerate(ports)
    )
    with a, b, orchestrated(tmp_path) as orchestrator:
        for server in (a, b):
            server.execute(_USERS)
        a.execute("SET GLOBAL rpl_semi_sync_source_enabled=1")
        replicate(b, a)
        until(lambda: a.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'")[0][1] == "1")
        a.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(99))")
        until(lambda: orchestrator.ask(f"discover/127.0.0.1/{a.port}"), orchestrator.said)
        until(lambda: orchestrator.knows(a, b), lambda: (orchestrator.ask("all-instances"), orchestrator.said()))
        config = cluster(tmp_path, {"dn-1": [url_of(a), url_of(b)]}, capture={"lost-after": "200ms"})
        folder, out = tmp_path / "captured" / "dn-1", tmp_path / "out"
        with following(config, lines):
            first = Writing(a)
            first.start()
            until(lambda: len(first.told) > 50 and captured_beyond(folder / "binlog.000001", 5000))
            kill(a)
            first.join()
            until(lambda: b.query("SELECT @@read_only, @@super_read_only") == [(0, 0)], orchestrator.said)
            second = Writing(b)
            second.start()
            until(lambda: bring_what_it_lacks(lines, folder, b) or bool(read_servers(folder)), lambda: lines)
            until(lambda: len(second.told) > 50)
            b.execute("FLUSH BINARY LOGS; ALTER TABLE d.t ADD c INT; SET GLOBAL super_read_only=1")
            second.join()
        recovered = orchestrator.recoveries()
        assert [(analysis, port) for analysis, port, _ in recovered] == [("DeadMaster", b.port)], recovered
        (server,) = read_servers(folder)
        assert [line for line in lines if "takes over from" in line and server.folder in line]
        capture_now(config)
        merge(config, out)
        assert {row[1] for row in rows(b)} >= {*first.told, *second.told}
        assert applied(mysql_server, out) == rows(b)
        kill(b)
