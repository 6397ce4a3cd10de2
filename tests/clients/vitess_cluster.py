"""A small Vitess: etcd, vtctld, a vttablet beside each of some MySQL servers, and vtgate, in processes of their own.

The tablets are unmanaged: the servers are those of the tests, and each is its shard's primary. The programs are put
there by `tools/get-vitess.sh`, which takes long, so it is not part of `make check-clients` as a rule.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from tests.clients.served import until
from tests.mysql_server import ROOT, MySqlServer
from tests.patience import Patience
from tools.demo_live.cluster import free_ports

CELL, USER, PASSWORD = "zone", "vitess", "vitess"
HOME = Path(os.environ.get("BINLOG_MERGE_VITESS", ROOT / "build" / "clients" / "vitess"))
PROGRAMS = ("etcd", "vttablet", "vtgate", "vtctld", "vtctldclient")
_LOCAL = "127.0.0.1"
SETTINGS = ("--performance-schema=ON", "--max-connections=200", "--log-replica-updates=ON", "--read-only=OFF")
"""What vttablet wants of a MySQL server beside the usual."""


def available() -> bool:
    """Return whether all programs are there."""
    return all((HOME / name).exists() for name in PROGRAMS)


class Vitess:
    """A cluster without keyspaces at first; `folder` is for the logs of its processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = Path(tempfile.mkdtemp(prefix="bm-vitess-"))
        self._root.chmod(0o777)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._etcd, peer, self.port, self._gate, self._control, *self._free = free_ports(24)
        self._topology = [
            "--topo-implementation=etcd2",
            f"--topo-global-server-address={_LOCAL}:{self._etcd}",
            "--topo-global-root=/vitess/global",
        ]
        urls = {"client": self._etcd, "peer": peer}
        own = [f"--listen-{kind}-urls=http://{_LOCAL}:{port}" for kind, port in urls.items()]
        own += [f"--advertise-client-urls=http://{_LOCAL}:{self._etcd}"]
        own += [f"--initial-advertise-peer-urls=http://{_LOCAL}:{peer}"]
        own += [f"--initial-cluster=default=http://{_LOCAL}:{peer}"]
        self._start("etcd", f"--data-dir={folder / 'etcd'}", *own)
        self._tablets = 0
        self._start(
            "vtctld", *self._topology, f"--cell={CELL}", f"--port={self._free.pop()}", f"--grpc-port={self._control}",
            "--service-map=grpc-vtctld",
        )  # fmt: skip
        until(lambda: self._is_there(CELL), self._said("vtctld"))

    def _is_there(self, cell: str) -> bool:
        address = f"--server-address={_LOCAL}:{self._etcd}"
        return self._ctl("AddCellInfo", f"--root=/vitess/{cell}", address, cell).returncode == 0

    def keyspace(self, name: str, vschema: dict[str, Any]) -> None:
        """Make a keyspace."""
        self.ctl("CreateKeyspace", "--durability-policy=none", name)
        self.vschema(name, vschema)

    def vschema(self, name: str, vschema: dict[str, Any]) -> None:
        """Say which tables a keyspace has, and how they are sharded."""
        self.ctl("ApplyVSchema", f"--vschema={json.dumps(vschema)}", name)

    def shard(self, keyspace: str, shard: str, server: MySqlServer) -> None:
        """Let a server be the primary of a shard."""
        server.execute(f"CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{PASSWORD}'")
        server.execute(f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION")
        server.execute(f"CREATE DATABASE IF NOT EXISTS vt_{keyspace}")
        self._tablets += 1
        alias = f"{CELL}-{100 + self._tablets:010}"
        web, grpc = self._free.pop(), self._free.pop()
        users = ("app", "dba", "repl", "filtered", "allprivs", "appdebug")
        own = [
            f"--db-{one}-{what}={value}" for one in users for what, value in (("user", USER), ("password", PASSWORD))
        ]
        self._start(
            "vttablet", *self._topology, *own,
            f"--tablet-path={alias}", f"--tablet-hostname={_LOCAL}", f"--init-keyspace={keyspace}",
            f"--init-shard={shard}", "--init-tablet-type=replica", f"--port={web}", f"--grpc-port={grpc}",
            "--service-map=grpc-queryservice,grpc-tabletmanager,grpc-updatestream", "--unmanaged",
            f"--db-host={_LOCAL}", f"--db-port={server.port}", "--db-ssl-mode=preferred",
            f"--init-db-name-override=vt_{keyspace}",
            "--migration-check-interval=2s", "--retain-online-ddl-tables=5s", "--gc-check-interval=5s",
            "--gc-purge-check-interval=5s", "--health-check-interval=1s",
            log=f"vttablet-{alias}",
        )  # fmt: skip
        said = self._said(f"vttablet-{alias}")
        until(lambda: self._ctl("TabletExternallyReparented", alias).returncode == 0, said)
        until(lambda: b'"type": "PRIMARY"' in _plain(self._ctl("GetTablet", alias).stdout), said)

    def serve(self) -> None:
        """Start vtgate, when there are keyspaces with a primary for each shard."""
        self._start(
            "vtgate", *self._topology, f"--port={self._free.pop()}", f"--grpc-port={self._gate}",
            f"--mysql-server-port={self.port}", f"--mysql-server-bind-address={_LOCAL}",
            "--mysql-auth-server-impl=none", f"--cell={CELL}", f"--cells-to-watch={CELL}",
            "--tablet-types-to-wait=PRIMARY", "--tablet-refresh-interval=1s", "--enable-buffer",
            "--service-map=grpc-vtgateservice",
        )  # fmt: skip
        until(self._answers, self._said("vtgate"))

    def _answers(self) -> bool:
        with contextlib.suppress(pymysql.err.Error), self.session() as cursor:
            cursor.execute("SHOW KEYSPACES")
            return True
        return False

    @contextmanager
    def session(self, database: str = "") -> Iterator[Any]:
        """Give a session of an application at vtgate."""
        connection = pymysql.connect(
            host=_LOCAL, port=self.port, user="app", database=database or None, autocommit=True, charset="utf8mb4"
        )
        try:
            with connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()

    def online_ddl(self, keyspace: str, sql: str, strategy: str = "vitess") -> None:
        """Run a statement as online DDL, and wait for all shards."""
        with self.session(keyspace) as cursor:
            cursor.execute(f"SET @@ddl_strategy = '{strategy}'")
            cursor.execute(sql)
            ((uuid,),) = cursor.fetchall()
            until(lambda: _all_complete(cursor, str(uuid)), lambda: _migrations(cursor, str(uuid)))

    def ctl(self, *arguments: str) -> str:
        """Run a command of vtctldclient; fails with what it says if it does not succeed.

        It waits for tablets that are their shards' primaries already, but have not opened VReplication yet.
        """
        answer = self._ctl(*arguments)
        patience = Patience(60)
        while b"vreplication engine is closed" in answer.stderr and patience.lasts():
            time.sleep(0.5)
            answer = self._ctl(*arguments)
        assert answer.returncode == 0, (arguments, answer.stdout, answer.stderr.decode(errors="replace")[-4000:])
        return answer.stdout.decode()

    def wait_for_copy(self, kind: str, workflow: str, keyspace: str) -> None:
        """Wait until VReplication follows, and copies no more."""
        named = (kind, f"--workflow={workflow}", f"--target-keyspace={keyspace}")

        def told() -> str:
            return self.ctl(*named, "show", "--include-logs=false")

        until(lambda: '"state": "Running"' in told() and '"state": "Copying"' not in told(), told)

    def _ctl(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        command = [str(HOME / "vtctldclient"), f"--server={_LOCAL}:{self._control}", *arguments]
        return subprocess.run(command, capture_output=True, check=False, cwd=self._folder, env=self._environment())

    def _start(self, program: str, *arguments: str, log: str = "") -> None:
        path = self._folder / f"{log or program}.log"
        with path.open("ab") as out:
            command = [str(HOME / program), *arguments]
            own = {"stdout": out, "stderr": out, "cwd": "/", "start_new_session": True}
            own |= {"user": "nobody"} if os.geteuid() == 0 and program != "etcd" else {}  # they refuse to run as root
            self._processes.append(subprocess.Popen(command, env=self._environment(), **own))  # type: ignore[call-overload]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "VTDATAROOT": str(self._root), "GOMAXPROCS": "2"}

    def _said(self, program: str) -> Callable[[], str]:
        return lambda: (self._folder / f"{program}.log").read_text(errors="replace")[-6000:]

    def stop(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self._root, ignore_errors=True)


def _plain(text: bytes) -> bytes:
    return b" ".join(text.split())


def _migrations(cursor: Any, uuid: str) -> list[dict[str, Any]]:
    cursor.execute(f"SHOW VITESS_MIGRATIONS LIKE '{uuid}'")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _all_complete(cursor: Any, uuid: str) -> bool:
    found = _migrations(cursor, uuid)
    failed: Sequence[Any] = [row for row in found if row["migration_status"] in ("failed", "cancelled")]
    assert not failed, failed
    return bool(found) and all(row["migration_status"] == "complete" for row in found)
