"""Readers that ask and do not read cost a bounded memory, and leave it when they leave."""

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from tests.binlog_server.one_node import merged_from
from tests.binlog_server.running import from_position
from tests.clients.served import Served, served, until
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql
READERS = 20
MIB = 1 << 20


def _selects(server: Served) -> Any:
    connection = server.connect()
    connection._execute_command(3, "SELECT * FROM shop.big")
    return connection


def _dumps(server: Served) -> Any:
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET @source_binlog_checksum = 'CRC32'")
    payload = from_position().pack()
    connection._execute_command(payload[0], payload[1:])
    return connection


def _at_rest(server: Served) -> int:
    """Return the memory of a server once it takes no more."""
    last, now = 0, server.memory()
    while abs(now - last) > MIB // 4:
        time.sleep(1)
        last, now = now, server.memory()
    return now


@pytest.mark.extended  # what clients may take: test_limits
def test_readers_that_do_not_read(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """No socket's buffer holds what they ask for. Each takes a few MiB, and all together leave little."""
    mysql_server.execute(
        "CREATE DATABASE shop; CREATE TABLE shop.big (id INT PRIMARY KEY, a BIGINT, b VARCHAR(60), c DATETIME);"
        "SET SESSION cte_max_recursion_depth = 1000000; INSERT INTO shop.big WITH RECURSIVE n AS (SELECT 1 x UNION ALL "
        "SELECT x + 1 FROM n WHERE x < 200000) SELECT x, x * 1000003, REPEAT(HEX(x), 10), NOW() FROM n"
    )
    out = merged_from(mysql_server, tmp_path)
    with served(out, tmp_path, "--tables", str(tmp_path / "tables.db")) as server:
        assert server.query("SELECT COUNT(*) FROM shop.big") == [(200_000,)]
        for begin, each, left in ((_dumps, 3, 24), (_selects, 6, 60)):
            with contextlib.closing(begin(server)) as connection:
                while not connection._read_packet().is_eof_packet():  # what is loaded once
                    pass
            begun = _at_rest(server)
            with contextlib.ExitStack() as readers:
                for _ in range(READERS):
                    readers.enter_context(contextlib.closing(begin(server)))
                used = _at_rest(server) - begun
                assert used < READERS * each * MIB, f"{used / MIB:.0f} MiB"
                assert server.query("SELECT COUNT(*) FROM shop.big WHERE id < 7") == [(6,)]
            _until_left(server, begun + left * MIB)


def _until_left(server: Served, most: int) -> None:
    until(lambda: server.memory() < most, lambda: f"{server.memory() / MIB:.0f} MiB, not {most / MIB:.0f}")
