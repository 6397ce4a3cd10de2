"""Connectors of Python: they ask what people and CDC tools ask, before and after a `serve` that is killed."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.binlog_server.log import PublishedLog
from tests.binlog_server.growing import Growing
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.conftest import CLIENTS, client
from tests.clients.served import Served, served
from tests.merge_e2e.local import written

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
ASKED = [
    "SHOW BINARY LOG STATUS",
    "SHOW BINARY LOGS",
    "SELECT @@server_uuid, @@gtid_executed",
    "SHOW FULL COLUMNS FROM shop.orders",
    "SELECT column_name FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position",
]
MYSQL_CONNECTOR = """
import ast, sys
import mysql.connector
pure, port, user, password = sys.argv[1:]
settings = {"host": "127.0.0.1", "port": int(port), "user": user, "password": password, "ssl_disabled": True}
connection = mysql.connector.connect(use_pure=pure == "pure", **settings)
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("again"):
        connection.reconnect(attempts=5, delay=1)
    else:
        with connection.cursor() as cursor:
            cursor.execute(ast.literal_eval(line))
            rows = [tuple(v.decode() if isinstance(v, (bytes, bytearray)) else v for v in row) for row in cursor]
    connection.ping()
    connection.cmd_reset_connection()
    print(repr(None if line.startswith("again") else rows), flush=True)
"""


def look(growing: Growing, ask: Callable[[str], list[Any]], asked_in_mysql: Callable[[str], list[Any]]) -> None:
    """Ask everything; the answers are what is published, and what PyMySQL gets."""
    view = PublishedLog(growing.out).view()
    files = written(growing.out)
    answers = [ask(sql) for sql in ASKED]
    assert answers[0] == [(*view.end, "", "", str(view.executed))]
    assert answers[1] == [(name, len(data), "No") for name, data in files.items()]
    assert answers[2] == [(view.header.cluster_uuid, str(view.executed))]
    assert [row[0] for row in answers[3]] == [name for (name,) in answers[4]]
    assert answers == [asked_in_mysql(sql) for sql in ASKED]


def test_pymysql(tmp_path: Path) -> None:
    growing = Growing.of(tmp_path)
    growing.publish(0.3)
    with served(growing.out, tmp_path) as server:
        connection = server.connect()

        def ask(sql: str) -> list[Any]:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())

        columns = []
        for part in (0.6, 1):
            look(growing, ask, server.query)
            growing.publish(part)
            server.restart()
            with pytest.raises(pymysql.OperationalError):
                ask("SELECT 1")
            connection.connect()
            columns.append(len(ask(ASKED[3])))
        look(growing, ask, server.query)
        connection.close()
    assert columns[-1] == 7, "the column that a DDL in the log has added"


@pytest.mark.parametrize("kind", ["pure", "c"])
def test_mysql_connector_python(kind: str, tmp_path: Path) -> None:
    growing = Growing.of(tmp_path)
    growing.publish(0.3)
    with served(growing.out, tmp_path) as server, _connector(kind, server, tmp_path) as process:

        def ask(sql: str) -> Any:
            assert process.stdin is not None and process.stdout is not None
            print(repr(sql) if sql != "again" else sql, file=process.stdin, flush=True)
            return eval(process.stdout.readline() or "'it has ended'")

        for part in (0.6, 1):
            look(growing, ask, server.query)
            growing.publish(part)
            server.restart()
            assert ask("again") is None
        look(growing, ask, server.query)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def _connector(kind: str, server: Served, folder: Path) -> "subprocess.Popen[str]":
    (folder / "connector.py").write_text(MYSQL_CONNECTOR)
    command = [client("python", "bin", "python"), str(folder / "connector.py"), kind, str(server.port), USER, PASSWORD]
    # Its C extension needs the OpenSSL that it brings, also where the Python's own is older and loaded first.
    (brought,) = (CLIENTS / "python" / "lib").glob("python3.*/site-packages/mysql/vendor")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(brought)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process
