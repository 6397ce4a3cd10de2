"""Bytes that are no text in a statement are answered as MySQL answers them, and end no session; a byte compared with a
text of a table is refused, in words of ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.binlog_server.one_node import known_to, merged_from
from tests.binlog_server.raw import Address, Raw, response
from tests.binlog_server.running import Running, serving
from tests.mysql_server import MySqlServer

ALIKE = (
    *(b"SELECT 'a\xff'", b"SELECT '\xff' AS x", b"SELECT 1 AS \xff", b"SELECT 1 AS `\xff`", b"SELECT 1 AS '\xff'"),
    *(b"SELECT \xff", b"\xff", b"SELECT /* \xff */ 1", b"SELECT 1 -- \xff", b"SELECT @\xff", b"SELECT @`\xff`"),
    *(b"SET @a = '\xff'", b"SELECT @a", b"SET @\xff = 1", b"SELECT @@\xff", b"SET NAMES '\xff'", b"SET NAMES \xff"),
    *(b"USE \xff", b"SAVEPOINT \xff", b"SAVEPOINT `\xff`", b"SHOW \xff", b"FLUSH \xff", b"START TRANSACTION \xff"),
    *(b"SELECT '\xed\xa0\x80'", b"SELECT '\xf0\x9f\x98'", b"SELECT X'ff'", b"SELECT _binary'\xff'"),
    b"SHOW TABLES FROM shop LIKE '\xff'",
    b"SHOW TABLES FROM shop WHERE Tables_in_shop = '\xff'",
    b"SHOW TABLES FROM shop WHERE Tables_in_shop <> '\xff'",
    b"SHOW COLUMNS FROM shop.t WHERE Field = '\xff'",
    b"SHOW TABLE STATUS FROM shop WHERE name = '\xff'",
    b"SHOW VARIABLES LIKE '\xff'",
    b"SHOW VARIABLES WHERE Variable_name = '\xff'",
    *(
        b"SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop' AND " + condition
        for condition in (
            b"table_name = '\xff'",
            b"table_name <> '\xff'",
            b"table_name LIKE '\xff%'",
            b"table_name IN ('t', '\xff')",
            b"1 /* \xff */",
        )
    ),
    b"SELECT '\xff' FROM information_schema.tables LIMIT 1",
    b"SELECT '\xffa\xfe' AS '\xff' FROM information_schema.tables LIMIT 1",
    b"SELECT table_name AS `\xff` FROM information_schema.tables WHERE table_schema = 'shop'",
    b"SELECT table_name AS \xff FROM information_schema.tables WHERE table_schema = 'shop'",
    b"SELECT `\xff` FROM information_schema.tables",
    *(
        b"SELECT id FROM shop.t WHERE " + condition
        for condition in (
            *(b"b = '\xff'", b"b <> '\xff'", b"b = _binary'\xff'", b"b IN (_binary'\xff')", b"b = X'FF'"),
            *(b"b > '\xfe'", b"'\xff' = b", b"b IS NULL OR b = '\xff'", b"id = 1 /* \xff */"),
        )
    ),
    b"SELECT id AS `\xff` FROM shop.t",
    b"SELECT `\xff` FROM shop.t",
)
REFUSED = (b"c = '\xff'", b"c LIKE '\xe9%'", b"c <> '\xff'", b"l = '\xff'", b"id = '\xff'", b"c IN ('a', '\xff')",
           b"CONCAT(c, '\xff') = 'x'", b"c BETWEEN 'a' AND '\xff'", b"UPPER('\xff') = c")  # fmt: skip


@pytest.fixture
def served(mysql_server: MySqlServer, tmp_path: Path) -> Iterator[tuple[MySqlServer, Running]]:
    mysql_server.execute(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, c VARCHAR(20), b VARBINARY(20), "
        "l VARCHAR(20) CHARACTER SET latin1); INSERT INTO shop.t VALUES (1, 'a', X'FF', _latin1 X'FF'), "
        "(2, 'é', X'41', 'b'), (3, 'ÿ', NULL, 'ÿ')"
    )
    out = merged_from(mysql_server, tmp_path)
    with known_to(mysql_server), serving(out, tables=tmp_path / "tables.duckdb") as running:
        yield mysql_server, running


def test_a_stray_byte_is_answered_as_mysql_answers_it(served: tuple[MySqlServer, Running]) -> None:
    server, running = served

    def all_of(address: Address) -> list[str]:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            # What is no statement is 1064 there, and what is none of ours 1235 here.
            return [raw.ask(b"\x03" + sql).replace("1235", "1064").replace("1193", "1064") for sql in ALIKE]

    theirs, ours = all_of(server.socket), all_of(("127.0.0.1", running.port))
    assert [found for found in zip(ALIKE, theirs, ours, strict=True) if found[1] != found[2]] == []
    assert "closed" not in ours


def test_a_text_of_a_table_is_not_compared_with_it(served: tuple[MySqlServer, Running]) -> None:
    _, running = served
    with Raw(("127.0.0.1", running.port)) as raw:
        assert raw.login(response(raw.nonce).pack()) == "ok"
        for condition in REFUSED:
            raw.send(b"\x03SELECT id FROM shop.t WHERE " + condition, begin=True)
            answer = raw.receive()
            assert answer.startswith(b"\xff\xd3\x04"), (condition, answer)
            assert b"a text that is not valid in utf8mb4" in answer, (condition, answer)
            assert raw.ask(b"\x03SELECT 1") == "rows [b'\\x011']"
    assert not [line for line in running.reports if "internal" in line or "io" in line.split()]
