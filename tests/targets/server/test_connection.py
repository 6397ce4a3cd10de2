"""How a replay reaches its target, how fast it goes, and until when: passwords, TLS, --rate, --until-lag."""

import json
import shutil
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from binlog_merge.cli.verbs import application
from binlog_merge.errors import IoError, ServerRefused
from binlog_merge.files.manifest import Header, Manifest, OutputFile, Publish
from binlog_merge.log.log import Log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.reader import End
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.log.rows import RowSelector
from binlog_merge.targets.server import run as running
from binlog_merge.targets.server.mysql import MysqlTarget
from binlog_merge.targets.server.run import Pace, replay
from binlog_merge.targets.server.transactions import transactions
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer
from tests.targets.server.workload import as_output

pytestmark = pytest.mark.mysql

Merged = tuple[Log, str]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, _shared_mysql_server: MySqlServer) -> Merged:
    """Thirty transactions of one row, written just now."""
    base = "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY)"
    _shared_mysql_server.drop_databases()
    _shared_mysql_server.execute(base)
    _shared_mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    _shared_mysql_server.execute(";".join(f"INSERT INTO s.t VALUES ({i})" for i in range(30)))
    return as_output(_shared_mysql_server, tmp_path_factory.mktemp("log")), base


@pytest.fixture
def server(mysql_server: MySqlServer, log: Merged) -> MySqlServer:
    """A server with the table, and a user with a password who must come encrypted."""
    mysql_server.execute(log[1])
    mysql_server.execute(
        "DROP USER IF EXISTS u; CREATE USER u IDENTIFIED BY 'p:@/ ss' REQUIRE SSL; GRANT ALL ON *.* TO u"
    )
    return mysql_server


def rows(server: MySqlServer) -> int:
    return int(server.query("SELECT COUNT(*) FROM s.t")[0][0])


def target(server: MySqlServer, binlog: Log) -> MysqlTarget:
    return MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)


def test_a_password_of_a_file_and_a_ca(
    server: MySqlServer, log: Merged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pw").write_text("p:@/ ss\n")
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    to = f"mysql://u@localhost/?socket={server.socket}"
    common = ["replay", "--from", str(log[0].directory), "--to", to, "-o", "json"]
    ca = ["--ssl-ca", str(server.data / "ca.pem")]
    options = ["--password-file", str(tmp_path / "pw"), *ca, "--workers", "2"]
    result = CliRunner().invoke(application(), [*common, *options])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["transactions"] == rows(server) == 30
    monkeypatch.setenv("MYSQL_PWD", "p:@/ ss")
    again = CliRunner().invoke(application(), [*common, *ca])
    assert json.loads(again.stdout)["transactions"] == 0
    for refused in ([*common, "--password-file", str(tmp_path / "none")], common):
        assert CliRunner().invoke(application(), refused).exit_code != 0


def test_a_server_that_the_ca_does_not_vouch_for_is_refused(server: MySqlServer, log: Merged, tmp_path: Path) -> None:
    # A certificate is a CA for nothing but itself.
    other = server.data / "client-cert.pem"
    address = ServerAddress(socket=server.socket, user="u", password="p:@/ ss")
    with pytest.raises(ServerRefused, match="certificate verify failed"):
        replay(log[0], MysqlTarget(address, log[0].cluster_uuid, str(other)), ReplayOptions())
    with pytest.raises(ServerRefused, match="Access denied"):
        replay(log[0], MysqlTarget(address, log[0].cluster_uuid), ReplayOptions())
    (tmp_path / "no.pem").write_text("no certificate")
    for name in ("none.pem", "no.pem"):
        with pytest.raises(IoError, match="cannot be used as a CA"):
            replay(log[0], MysqlTarget(address, log[0].cluster_uuid, str(tmp_path / name)), ReplayOptions())


@pytest.mark.parametrize(
    "option", [("--workers", "2"), ("--commit-order", "relaxed"), ("--rate", "5"), ("--until-lag", "1")]
)
def test_what_only_servers_take_is_refused_elsewhere(option: tuple[str, str], log: Merged, tmp_path: Path) -> None:
    for to in (f"parquet:{tmp_path}/p", f"duckdb:{tmp_path}/d.db"):
        result = CliRunner().invoke(application(), ["replay", "--from", str(log[0].directory), "--to", to, *option])
        assert result.exit_code != 0 and "for servers" in str(result.exception), result.output


def test_a_rate_spreads_transactions_over_time(server: MySqlServer, log: Merged) -> None:
    binlog = log[0]
    pace = Pace(ReplayOptions(rate=100))
    first = next(transactions(binlog, ReplayOptions(), RowSelector(None), RankSet()))
    due = [pace.due(first) for _ in range(5)]
    assert [round(b - a, 6) for a, b in pairwise(due)] == [0.01] * 4
    assert Pace(ReplayOptions()).due(first) == 0
    begun = time.monotonic()
    result = replay(binlog, target(server, binlog), ReplayOptions(rate=200, workers=2))
    # Never faster than asked for; how much slower is the machine's business.
    assert time.monotonic() - begun >= 29 / 200 and result.transactions == rows(server) == 30


def test_it_goes_on_until_it_has_caught_up(
    server: MySqlServer, log: Merged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = log[0]
    publish(source, tmp_path, 10)

    def now() -> float:
        """Let what was applied be old until all of it is there; a merge publishes the rest meanwhile."""
        if rows(server) == 10 and Log(tmp_path).last_rank == 10:
            publish(source, tmp_path, 30)
        return time.time() + (100 if rows(server) < 30 else 0)

    clock = SimpleNamespace(time=now, monotonic=time.monotonic, sleep=lambda seconds: None)
    monkeypatch.setattr(running, "time", clock)
    result = replay(Log(tmp_path), target(server, source), ReplayOptions(until_lag=90))
    assert (result.first_rank, result.last_rank, rows(server)) == (1, 30, 30)
    # Where a range ends, or nothing is behind, nothing is waited for.
    server.execute("DROP DATABASE binlog_merge; DELETE FROM s.t WHERE id > 4")
    options = ReplayOptions(first_rank=6, last_rank=20, until_lag=1)
    assert replay(Log(tmp_path), target(server, source), options).last_rank == 20 and rows(server) == 20


def publish(source: Log, folder: Path, last: int) -> None:
    """Publish transactions of a log up to one."""
    name, key = "binlog.000001", "0" * 54
    shutil.copy(source.directory / name, folder / name)
    size = next(item.position for item in source.items() if isinstance(item, End) and item.rank == last)
    manifest = Manifest.load(folder)
    if manifest.state.header is None:
        manifest.append(Header(source.cluster_uuid, "w", {"n": 1}, "9.7.4", "", {}))
    file = OutputFile(name, size, False, key, key, 1, last, size, last, last)
    manifest.append(Publish(manifest.state.run + 1, (file,), key, None, last, {}, {}))
