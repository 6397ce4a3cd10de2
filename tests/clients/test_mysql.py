"""MySQL's own clients on a log that grows and a server that is killed: replicas, and mysqlbinlog."""

import contextlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog_merge.binlog_server.log import PublishedLog
from tests.binlog_server.growing import Growing
from tests.binlog_server.running import PASSWORD, USER, remote_mysqlbinlog
from tests.binlog_server.test_replica import _caught_up, _replica, _status
from tests.clients.conftest import client
from tests.clients.rows import told
from tests.clients.served import Served, served, until
from tests.merge_e2e.local import written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import PREFIX, MySqlServer

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
MYSQLBINLOG = [str(PREFIX / "bin" / "mysqlbinlog"), "--no-defaults"]


GTIDS, POSITION = "SOURCE_AUTO_POSITION=1", "SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4"
ZLIB, ZSTD = "SOURCE_COMPRESSION_ALGORITHMS='zlib'", "SOURCE_COMPRESSION_ALGORITHMS='zstd'"


@contextlib.contextmanager
def semi_synchronous(server: MySqlServer) -> Iterator[None]:
    """Make a server ask its source for acknowledged transactions."""
    server.execute("INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'")
    server.execute("SET GLOBAL rpl_semi_sync_replica_enabled = 1")
    try:
        yield
    finally:
        server.execute("UNINSTALL PLUGIN rpl_semi_sync_replica")


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("place", [GTIDS, POSITION, f"{GTIDS}, {ZLIB}", f"{POSITION}, {ZSTD}"])
def test_a_replica(place: str, workers: int, mysql_server: MySqlServer, tmp_path: Path) -> None:
    _follow(place, workers, mysql_server, tmp_path)


@pytest.mark.parametrize("place", [GTIDS, f"{GTIDS}, {ZSTD}"])
def test_a_semi_synchronous_replica(place: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    with semi_synchronous(mysql_server):
        _follow(place, 4, mysql_server, tmp_path, acknowledges=True)


def _follow(place: str, workers: int, mysql_server: MySqlServer, folder: Path, acknowledges: bool = False) -> None:
    """Let a server follow a log that grows; both are stopped on the way, and the source is killed."""
    growing = Growing.of(folder)
    out = growing.out
    growing.publish(0.2)
    begin_as(growing.case, mysql_server)
    place += ", SOURCE_SSL=0, SOURCE_RETRY_COUNT=0"  # it never gives up, however long the source takes to come again
    with served(out, folder) as source, _replica(mysql_server, source, place, workers):
        growing.publish(0.4)
        _caught_up(mysql_server, out)
        mysql_server.execute("STOP REPLICA")
        growing.publish(0.6)
        mysql_server.execute("START REPLICA")
        _caught_up(mysql_server, out)
        source.kill()
        growing.publish(0.8)
        source.start()
        until(lambda: not _status(mysql_server)["Last_IO_Error"], lambda: _status(mysql_server))
        _caught_up(mysql_server, out)
        if acknowledges:
            file, position = PublishedLog(out).view().end
            shown = "SHOW FULL REPLICAS"
            until(lambda: source.query(shown)[0][8] == f"{file}:{position}", lambda: source.query(shown))
        mysql_server.stop()
        growing.publish(1)
        mysql_server.start()
        _caught_up(mysql_server, out)
        assert len(written(out)) > 2
        assert held(growing.case, mysql_server) == expected(growing.case)
        file, position = PublishedLog(out).view().end
        status = _status(mysql_server)
        assert (status["Source_Log_File"], status["Read_Source_Log_Pos"]) == (file, position)
        (row,) = source.query("SHOW FULL REPLICAS")
        assert ("zlib" in row, "zstd" in row) == ("'zlib'" in place, "'zstd'" in place), row


@contextlib.contextmanager
def fetching(command: list[str], source: Served, folder: Path, first: str) -> Iterator[None]:
    """Run a mysqlbinlog that writes files as they come, and stop it at the end, when it has not ended by itself."""
    command = [*command, "--read-from-remote-server", "--host=127.0.0.1", f"--port={source.port}", f"--user={USER}"]
    command += [f"--password={PASSWORD}", "--raw", "--stop-never", first]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield
            assert process.poll() is None, process.stderr and process.stderr.read()
        finally:
            process.terminate()


@pytest.mark.parametrize("maker", ["mysql", "mysql-zlib", "mysql-zstd", "mariadb"])
def test_mysqlbinlog_fetches_every_byte_as_it_comes(maker: str, tmp_path: Path) -> None:
    """Stopped, and started again at the last file that it had."""
    algorithm = maker.partition("-")[2]
    command = [*MYSQLBINLOG, *([f"--compression-algorithms={algorithm}"] if algorithm else [])]
    if maker == "mariadb":
        command = [client("debian", "bin", "mariadb-binlog"), "--no-defaults", "--skip-ssl"]
    growing = Growing.of(tmp_path)
    raw = tmp_path / "raw"
    raw.mkdir()

    def same() -> bool:
        return {path.name: path.read_bytes() for path in raw.iterdir()} == written(growing.out)

    growing.publish(0.2)
    with served(growing.out, tmp_path) as source:
        for first, last in ((0.4, 0.6), (0.8, 1.0)):
            begin = max((path.name for path in raw.iterdir()), default="binlog.000001")
            with fetching(command, source, raw, begin):
                growing.publish(first)
                until(same)
                growing.publish(last)
                until(same)
            source.restart()
        assert len(written(growing.out)) > 4


def test_mysqlbinlog_goes_on_by_gtids(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """What it prints makes a server's tables those of the nodes."""
    growing = Growing.of(tmp_path)
    begin_as(growing.case, mysql_server)
    with served_later(growing, tmp_path) as source:
        for part in (0.3, 0.6, 1):
            growing.publish(part)
            ((has,),) = mysql_server.query("SELECT REPLACE(@@gtid_executed, '\n', '')")
            options = ["--read-from-remote-source=BINLOG-DUMP-GTIDS", f"--exclude-gtids={has}", "--to-last-log"]
            options += ["--verify-binlog-checksum"]
            mysql_server.apply(remote_mysqlbinlog(source.port, *options, "binlog.000001"))
            assert mysql_server.query("SELECT REPLACE(@@gtid_executed, '\n', '')") == [
                (str(PublishedLog(growing.out).view().executed),)
            ]
    assert held(growing.case, mysql_server) == expected(growing.case)


def served_later(growing: Growing, folder: Path) -> contextlib.AbstractContextManager[Served]:
    """Serve a growing log of which a first part is published."""
    growing.publish(0.1)
    return served(growing.out, folder)


def test_mariadb_binlog_reads_the_same_rows(tmp_path: Path) -> None:
    growing = Growing.of(tmp_path)
    growing.publish(1)
    files = [growing.out / name for name in written(growing.out)]
    with served(growing.out, tmp_path) as source:
        command = [client("debian", "bin", "mariadb-binlog"), "--no-defaults", "--skip-ssl", "-R", "-v"]
        command += ["--host=127.0.0.1", f"--port={source.port}", f"--user={USER}", f"--password={PASSWORD}"]
        answer = subprocess.run([*command, "--to-last-log", files[0].name], capture_output=True, check=True, text=True)
        found = re.findall(r"^### (INSERT|UPDATE|DELETE)", answer.stdout, re.MULTILINE)
        assert Counter(found) == told(files)
        ((version,),) = source.query("SELECT VERSION()")
        assert version.startswith("9."), "to others it says what it is"
