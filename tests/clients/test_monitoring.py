"""prometheus-mysqld-exporter: no scraper fails at `serve` that does not fail at a MySQL server."""

import contextlib
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog_merge.protocol.commands import RegisterReplica
from tests.binlog_server.growing import Growing
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.conftest import client
from tests.clients.served import served, until
from tests.merge_e2e.local import written
from tests.mysql_server import MySqlServer
from tests.node_capture.pairs import free_port

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
MORE = ["--collect.binlog_size", "--collect.slave_hosts"]


class Exporter:
    """A running exporter."""

    def __init__(self, port: int) -> None:
        self._port = port

    def scraped(self) -> dict[str, float]:
        """Return what it exports of MySQL now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines if x.startswith("mysql_"))}

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.scraped())
        return False


@contextlib.contextmanager
def exporter(folder: Path, **settings: str | int) -> Iterator[Exporter]:
    """Run an exporter that connects with these settings of a MySQL client."""
    port = free_port()
    lines = ["[client]", *(f"{name}={value}" for name, value in settings.items())]
    (folder / "my.cnf").write_text("\n".join(lines) + "\n")
    command = [client("debian", "bin", "prometheus-mysqld-exporter"), f"--config.my-cnf={folder / 'my.cnf'}", *MORE]
    with (
        (folder / "exporter.log").open("a") as log,
        subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log) as process,
    ):
        try:
            found = Exporter(port)
            until(found.answers, (folder / "exporter.log").read_text)
            yield found
        finally:
            process.terminate()


def successes(values: dict[str, float]) -> dict[str, float]:
    """Return for each scraper whether it succeeded."""
    return {name: value for name, value in values.items() if name.startswith("mysql_exporter_collector_success")}


def test_the_exporter_scrapes_what_it_scrapes_of_mysql(mysql_server: MySqlServer, tmp_path: Path) -> None:
    growing = Growing.of(tmp_path)
    growing.publish(0.3)
    with exporter(tmp_path, user="root", socket=mysql_server.socket) as of_mysql:
        wanted = successes(of_mysql.scraped())
    assert len(wanted) >= 8 and set(wanted.values()) == {1}, "no scraper fails at MySQL"
    with (
        served(growing.out, tmp_path) as server,
        exporter(tmp_path, user=USER, password=PASSWORD, host="127.0.0.1", port=server.port) as of_ours,
    ):
        for part in (0.6, 1):
            growing.publish(part)
            files = written(growing.out)
            until(lambda files=files: of_ours.scraped()["mysql_binlog_files"] == len(files))  # type: ignore[misc]
            values = of_ours.scraped()
            assert successes(values) == wanted, (tmp_path / "exporter.log").read_text()
            assert values["mysql_up"] == 1 and values["mysql_global_variables_server_id"] == 9001
            assert values["mysql_binlog_size_bytes"] == sum(map(len, files.values()))
            with contextlib.closing(server.connect()) as connection:
                payload = RegisterReplica(4711, b"far-away", port=3306).pack()
                connection._execute_command(payload[0], payload[1:])  # type: ignore[attr-defined]
                connection._read_packet()  # type: ignore[attr-defined]
                values = of_ours.scraped()
                assert successes(values) == wanted, (tmp_path / "exporter.log").read_text()
                assert any("slave_hosts_info" in name and "far-away" in name for name in values)
            server.restart()
    assert "level=ERROR" not in (tmp_path / "exporter.log").read_text()
