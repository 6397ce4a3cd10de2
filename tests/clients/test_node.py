"""Drivers of Node.js make the same calls to a server and to `serve --tables`, and get the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.binlog_server.one_node import known_to, merged_from
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.conftest import client
from tests.clients.served import served
from tests.mysql_server import MySqlServer
from tests.patience import completed

pytestmark = [pytest.mark.clients, pytest.mark.mysql]


def calls(package: str, **settings: Any) -> list[Any]:
    """Return what each call of a driver gave."""
    given = json.dumps({"user": USER, "password": PASSWORD, **settings})
    command = ["node", str(Path(__file__).with_name("drivers.mjs").resolve()), package, given]
    answer = completed(command, 300, cwd=client("npm"))
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines() if line[:1] == "["]  # drivers print warnings


@pytest.mark.parametrize("package", ["mariadb", "mysql2"])
def test_a_driver_cannot_tell_it_from_a_server(package: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, c VARCHAR(20), b VARBINARY(20), "
        "d DECIMAL(9, 2), e DATETIME(3), j JSON); INSERT INTO shop.t VALUES "
        "(1, 'a', X'FF00', 1.5, '2026-01-02 03:04:05.678', '[1]'), "
        "(2, 'é', NULL, -2, NULL, NULL), (3, NULL, X'41', NULL, '2026-01-02', '{}')"
    )
    out = merged_from(mysql_server, tmp_path)
    options = ("--tables", str(tmp_path / "shop.db"))
    with known_to(mysql_server), served(out, tmp_path, *options) as server:
        theirs = calls(package, socketPath=mysql_server.socket)
        ours = calls(package, host="127.0.0.1", port=server.port)
    assert [(t, o) for t, o in zip(theirs, ours, strict=True) if t != o] == []
    ways = {what for what, *_ in theirs}
    assert len(ways) == 8 and not [line for line in theirs if line[1] == "login"], theirs
