"""A real HAProxy before two `serve`s of one log: readers go from one to the other, and lose and double nothing."""

import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest
import yaml

from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget
from tests.binlog_server.growing import Growing
from tests.binlog_server.running import PASSWORD, USER, caught_up, replica_of, replica_status
from tests.clients.haproxy import PAGE, SERVE, balanced
from tests.clients.rows import Seen, held_rows, told
from tests.clients.served import Served, served, until
from tests.merge_e2e.local import written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import ROOT, MySqlServer
from tools.demo_live.cluster import free_ports

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
HERE: Final = Path(__file__).resolve().parent
AT: Final = "127.0.0.9"
"""The address from which HAProxy comes to `serve`."""
LOST: Final = (0, 1927, 2003, 2006, 2013)
"""What a client is told whose connection is gone: it comes again."""
GTIDS: Final = "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0, SOURCE_RETRY_COUNT=0"
POSITION: Final = "SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4, SOURCE_SSL=0, SOURCE_RETRY_COUNT=0"


class Follower:
    """mysql-replication in a process that is started again when it ends, as a supervisor does."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port, self._lines, self._log = port, folder / "lines", folder / "follower.log"
        self._process: subprocess.Popen[bytes] | None = None

    def seen(self) -> Seen:
        """Return what it has told."""
        self._keep()
        seen = Seen()
        for line in self._told():
            for change in line["changes"]:
                seen.change(change["before"], change["after"])
        return seen

    def said(self) -> str:
        return self._log.read_text()[-2000:]

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _keep(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if self._lines.exists():
            whole = self._lines.read_bytes()
            self._lines.write_bytes(whole[: whole.rfind(b"\n") + 1])
        told = self._told()
        place = json.dumps(told[-1]["place"] if told else {})
        program = HERE / "life" / "programs" / "mysql_replication.py"
        with self._log.open("ab") as log:
            command = [sys.executable, str(program), str(self._port), str(self._lines), place]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def _told(self) -> list[dict[str, Any]]:
        if not self._lines.exists():
            return []
        whole = self._lines.read_bytes().splitlines(keepends=True)
        return [json.loads(line) for line in whole if line.endswith(b"\n")]


class Asking:
    """A client that asks for rows again and again, and comes again when its connection is lost."""

    def __init__(self, port: int) -> None:
        self.answers, self.lost = 0, 0
        self._port = port
        self._end = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def answered(self) -> None:
        """Wait until it has been answered again; raises what it was told otherwise."""
        before = self.answers
        until(lambda: self.answers > before + 1 or bool(self._failed), lambda: (self.answers, self.lost))
        if self._failed:
            raise self._failed[0]

    def _work(self) -> None:
        while not self._end.is_set():
            try:
                with contextlib.closing(connected(self._port)) as connection, connection.cursor() as cursor:
                    while not self._end.wait(0.1):
                        cursor.execute("SELECT id FROM shop.orders")
                        ids = cursor.fetchall()
                        assert len(ids) == len(set(ids))
                        self.answers += 1
            except pymysql.err.OperationalError as error:
                if error.args[0] not in LOST:
                    self._failed.append(error)
                    return
                self.lost += 1
                time.sleep(0.2)
            except BaseException as error:  # a thread's exception would be printed and forgotten
                self._failed.append(error)
                return


def connected(port: int) -> "pymysql.Connection[Any]":
    settings = {"user": USER, "password": PASSWORD, "ssl_disabled": True, "read_timeout": 60}
    return pymysql.connect(host="127.0.0.1", port=port, **settings)


def refusal(port: int) -> tuple[Any, ...]:
    """Return the error with which a login ends."""
    with pytest.raises(pymysql.err.OperationalError) as raised:
        connected(port).close()
    return raised.value.args


def dumps(source: Served) -> dict[str, int]:
    """Return the numbers of the connections to which a server sends the log, by the address of the client."""
    rows = source.query("SHOW PROCESSLIST")
    return {str(host): int(number) for number, _, host, _, command, *_ in rows if "Dump" in str(command)}


def connects(replica: MySqlServer) -> None:
    """Wait until a replica has found its source again."""
    until(lambda: not replica_status(replica)["Last_IO_Error"], lambda: replica_status(replica))


def tables_of(growing: Growing, file: Path) -> Path:
    """Make a file for `--tables`: as the log begins, they are empty."""
    log = Log(growing.out)
    with DuckdbTarget(file, log.cluster_uuid, True) as target:
        load(log, target, history_of(growing.out), ReplayOptions(last_rank=1))
    return file


def users_of(folder: Path) -> Path:
    """Write the one user, who may come from the proxy alone, or for a look from here."""
    hashed = subprocess.run(
        [sys.executable, "-m", "binlog_merge.cli.main", "password"],
        input=f"{PASSWORD}\n", capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout.strip()  # fmt: skip
    path = folder / "users.yaml"
    path.write_text(yaml.safe_dump({"users": [{"name": USER, "password": hashed, "hosts": [AT]}]}))
    return path


@contextlib.contextmanager
def two_serves(growing: Growing, folder: Path) -> Iterator[tuple[Served, Served]]:
    """Two servers of one log with its tables, neither started yet."""
    made = []
    for name, port in zip("ab", free_ports(2), strict=True):
        home = folder / name
        home.mkdir()
        made.append(Served(growing.out, home, f"--tables={tables_of(growing, home / 'tables.db')}"))
        made[-1].port = port
    try:
        yield made[0], made[1]
        for server in made:
            assert "internal error" not in server.said() and "Traceback" not in server.said(), server.said()
    finally:
        for server in made:
            if server.running():
                server.kill()


def test_readers_go_from_one_to_the_other(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """One is killed, comes back, is drained, and ends: two replicas, mysql-replication and a client of the tables."""
    growing = Growing.of(tmp_path)
    growing.publish(0.2)
    out = growing.out
    second = MySqlServer(tmp_path / "second", 77)
    with contextlib.ExitStack() as stack:
        first, other = stack.enter_context(two_serves(growing, tmp_path))
        replicas = (mysql_server, stack.enter_context(second))
        for replica in replicas:
            begin_as(growing.case, replica)
        first.start()
        proxy = stack.enter_context(balanced(tmp_path, (first, other), changed={"inter 1s": f"inter 1s source {AT}"}))
        proxy.is_up("a")
        proxy.is_up("b", up=False)
        for replica, place, workers in zip(replicas, (GTIDS, POSITION), (4, 1), strict=True):
            stack.enter_context(replica_of(replica, proxy, place, workers))
        follower = Follower(proxy.port, tmp_path)
        stack.callback(follower.end)
        asking = stack.enter_context(Asking(proxy.port))

        def all_have(part: float, at: Served) -> None:
            growing.publish(part)
            told_of = told([out / name for name in written(out)])
            for replica in replicas:
                connects(replica)
                caught_up(replica, out)
            until(lambda: follower.seen().counts == told_of, lambda: (follower.seen().counts, told_of, follower.said()))
            asking.answered()
            until(lambda: len(dumps(at)) == 3, lambda: dumps(at))

        all_have(0.4, first)
        assert {host.partition(":")[0] for host in dumps(first)} == {AT}, "readers come from the proxy's address"
        other.start()
        proxy.is_up("b")
        first.kill()
        all_have(0.5, other)
        first.start()
        proxy.is_up("a")
        assert len(dumps(other)) == 3, "who is served stays"
        proxy.drain("b")
        all_have(0.6, first)
        assert dumps(other) == {}
        proxy.tell("set server readers/b state ready")
        proxy.is_up("b")
        other.restart()
        all_have(0.8, first)
        proxy.is_up("b")
        assert first.stop() == 128 + 15
        all_have(1, other)
        first.start()
        proxy.is_up("a")
        for replica in replicas:
            assert held(growing.case, replica) == expected(growing.case)
        ((executed,),) = mysql_server.query("SELECT REPLACE(@@gtid_executed, '\n', '')")
        assert executed == str(PublishedLog(out).view().executed)
        seen = follower.seen()
        assert seen.wrong(growing.case) == [] and seen.whole(growing.case)
        assert asking.lost > 2
        for _ in range(4):  # one after the other
            with contextlib.closing(connected(proxy.port)) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT id FROM shop.orders")
                assert {str(row[0]) for row in cursor.fetchall()} == set(held_rows(growing.case))


@pytest.mark.parametrize("how", ["send-proxy", "send-proxy-v2"])
def test_the_proxy_protocol_is_refused_with_what_to_do(how: str, tmp_path: Path) -> None:
    growing = Growing.of(tmp_path)
    growing.publish(0.2)
    with served(growing.out, tmp_path) as source:
        changed = {"inter 1s": f"inter 1s {how}"}
        with balanced(tmp_path, (source,), "option tcp-check", changed=changed) as proxy:
            proxy.is_up("a")
            code, text = refusal(proxy.port)
            assert code == 1043 and "HAProxy: no send-proxy" in text
            assert "this is a header of the PROXY protocol" in source.said()
        with balanced(tmp_path, (source,)) as proxy:
            proxy.is_up("a")
            connected(proxy.port).close()


def test_heartbeats_keep_an_idle_reader_behind_short_timeouts(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Who asks for none is cut off when nothing comes, as at a MySQL, comes again and lacks nothing."""
    growing = Growing.of(tmp_path)
    growing.publish(0.2)
    begin_as(growing.case, mysql_server)
    short = {"timeout client 1h": "timeout client 2s", "timeout server 1h": "timeout server 2s"}
    with served(growing.out, tmp_path) as source, balanced(tmp_path, (source,), changed=short) as proxy:
        proxy.is_up("a")
        with replica_of(mysql_server, proxy, GTIDS):
            caught_up(mysql_server, growing.out)
            before = dumps(source)
            time.sleep(7)
            assert dumps(source) == before and len(before) == 1, "a heartbeat every 0.1 s"
            mysql_server.execute("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD=30; START REPLICA")
            until(lambda: len(dumps(source)) == 1 and dumps(source) != before)
            idle = dumps(source)
            until(lambda: len(dumps(source)) == 1 and dumps(source) != idle, lambda: dumps(source))
            growing.publish(1)
            connects(mysql_server)
            caught_up(mysql_server, growing.out)
            assert held(growing.case, mysql_server) == expected(growing.case)


def test_the_page_says_who_may_be_read(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """As deployed: a host that is not healthy is left at once, though its `serve` goes on."""
    growing = Growing.of(tmp_path)
    growing.publish(1)
    begin_as(growing.case, mysql_server)
    (page,) = free_ports(1)
    command = [sys.executable, "-m", "binlog_merge.cli.main", "status", "--config", str(growing.config)]
    command += ["--merged", str(growing.out), "--max-lag=1e9", f"--listen={page}"]
    nodes = growing.config.parent / "nodes"
    with (
        served(growing.out, tmp_path) as source,
        (tmp_path / "status.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT) as status,
        balanced(tmp_path, (source,), PAGE, (page,)) as proxy,
    ):
        try:
            proxy.is_up("a")
            assert proxy.check("a").startswith("L7OK")
            with replica_of(mysql_server, proxy, GTIDS):
                caught_up(mysql_server, growing.out)
                assert len(dumps(source)) == 1
                shutil.move(nodes, tmp_path / "away")
                proxy.is_up("a", up=False)
                assert proxy.check("a").startswith("L7STS"), proxy.check("a")
                until(lambda: dumps(source) == {}, lambda: dumps(source))
                assert refusal(proxy.port)[0] in LOST
                shutil.move(tmp_path / "away", nodes)
                proxy.is_up("a")
                until(lambda: len(dumps(source)) == 1, lambda: (proxy.said(), replica_status(mysql_server)))
        finally:
            status.terminate()


@pytest.mark.parametrize("check", [SERVE, f"{SERVE} user haproxy"])
def test_checks_of_serve_itself(check: str, tmp_path: Path) -> None:
    """`option mysql-check`, also as a user that there is not. Users may come from the proxy alone."""
    growing = Growing.of(tmp_path)
    growing.publish(0.2)
    with served(growing.out, tmp_path, f"--users={users_of(tmp_path)}") as source:
        with balanced(tmp_path, (source,), check, changed={"inter 1s": f"inter 1s source {AT}"}) as proxy:
            proxy.is_up("a")
            time.sleep(3)
            assert proxy.check("a").startswith("L7OK"), proxy.check("a")
            assert source.said() == "", "a check is nothing that an operator must know of"
            connected(proxy.port).close()
            source.kill()
            proxy.is_up("a", up=False)
            source.start()
            proxy.is_up("a")
        assert refusal(source.port)[0] == 1045, "from here nobody may come"
