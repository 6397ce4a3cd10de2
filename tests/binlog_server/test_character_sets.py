"""Names and texts of results come in the character set that a session asks for, as from MySQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog_merge.binlog.wire import Reader
from tests.binlog_server.one_node import known_to, merged_from
from tests.binlog_server.raw import Address, Raw, kind, response
from tests.binlog_server.running import Running, serving
from tests.mysql_server import MySqlServer

ASKED = (
    "SELECT 'é' AS `é`, '日' AS `日`",
    "SELECT `idé`, c AS `日本`, `日` FROM shop.`tä`",
    "SELECT COUNT(*) AS `é` FROM shop.`tä`",
    "SHOW TABLES FROM shop",
    "SHOW FULL COLUMNS FROM shop.`tä`",
    "SHOW CREATE TABLE shop.`tä`",
    "SELECT table_name, column_name AS `é` FROM information_schema.columns WHERE table_schema = 'shop' ORDER BY 2",
    "SELECT column_comment FROM information_schema.columns WHERE table_schema = 'shop' AND column_name = 'idé'",
)
EXTREMES = "SELECT MIN(z), MAX(y), MIN(sm), MAX(bi), MIN(mi), MIN(c) FROM shop.`tä`"


@pytest.fixture
def served(mysql_server: MySqlServer, tmp_path: Path) -> Iterator[tuple[MySqlServer, Running]]:
    mysql_server.execute(
        "CREATE DATABASE shop; CREATE TABLE shop.`tä` (`idé` INT PRIMARY KEY COMMENT 'Größe', z INT(7) ZEROFILL, "
        "y TINYINT(1), sm SMALLINT(3), bi BIGINT(5) UNSIGNED, mi MEDIUMINT(2), c VARCHAR(20), `日` INT); "
        "INSERT INTO shop.`tä` VALUES (1, 2, 3, 4, 5, 6, 'é', 7); "
        "CREATE TABLE shop.t2 (`idé` INT PRIMARY KEY, b VARBINARY(9), c VARCHAR(9)); "
        "INSERT INTO shop.t2 VALUES (1, X'E9', 'é'), (2, X'C3A9', 'A'), (3, X'C9', 'B'), (4, X'C389', NULL)"
    )
    out = merged_from(mysql_server, tmp_path)
    with known_to(mysql_server), serving(out, tables=tmp_path / "tables.duckdb") as running:
        yield mysql_server, running


@pytest.mark.parametrize(("charset", "codec"), [("utf8mb4", "utf-8"), ("latin1", "cp1252"), ("gbk", "gbk")])
def test_names_and_texts_come_in_the_sessions_character_set(
    charset: str, codec: str, served: tuple[MySqlServer, Running]
) -> None:
    server, running = served

    def all_of(address: Address) -> list[tuple[list[bytes], list[bytes]]]:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            assert raw.ask(f"\x03SET NAMES {charset}".encode()) == "ok"
            texts = [sql for sql in ASKED if charset != "latin1" or "日" not in sql]
            return [_named(raw, sql.encode(codec, "replace")) for sql in texts if "ä" not in sql or charset != "gbk"]

    theirs, ours = all_of(server.socket), all_of(("127.0.0.1", running.port))
    assert theirs == ours


def test_the_least_and_greatest_of_integers_have_the_length_of_their_type(
    served: tuple[MySqlServer, Running],
) -> None:
    server, running = served

    def described(address: Address) -> list[bytes]:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            raw.send(b"\x03" + EXTREMES.encode(), begin=True)
            return [raw.receive() for _ in range(7)]

    assert described(server.socket) == described(("127.0.0.1", running.port))


def test_a_literal_has_the_bytes_that_the_client_has_sent(served: tuple[MySqlServer, Running]) -> None:
    """Compared with bytes; compared with a text it is that text, whatever the character set."""
    server, running = served
    asked = ("b = 'é'", "b > 'é'", "b IN ('é')", "c = 'é'", "b = CONVERT('é' USING utf8mb4)", "LENGTH('é') = 1",
             "b = UPPER('é')", "HEX('é') = 'E9'", "IF(`idé` = 2, X'41', X'42') = c", "c = 'é' COLLATE latin1_bin",
             "b = CAST('é' AS BINARY)", "b = CONCAT('é', '')")  # fmt: skip

    def all_of(address: Address) -> list[str]:
        found = []
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            for charset, codec in (("latin1", "cp1252"), ("utf8mb4", "utf-8"), ("latin2", "iso8859_2")):
                assert raw.ask(f"\x03SET NAMES {charset}".encode()) == "ok"
                sql = "SELECT `idé` FROM shop.t2 WHERE {} ORDER BY `idé`"
                found += [raw.ask(b"\x03" + sql.format(condition).encode(codec)) for condition in asked]
        return found

    theirs, ours = all_of(server.socket), all_of(("127.0.0.1", running.port))
    different = [found for found in zip(3 * asked, theirs, ours, strict=True) if found[1] != found[2]]
    assert [found for found in different if found[2] != "1235"] == []
    assert len(different) < len(theirs) // 3, different


def test_a_character_set_that_is_not_known_is_refused(served: tuple[MySqlServer, Running]) -> None:
    server, running = served
    asked = (b"NAMES nope", b"character_set_results = nope", b"character_set_client = nope", b"NAMES ucs2",
             b"character_set_client = utf16", b"character_set_results = utf16", b"character_set_results = NULL",
             b"character_set_results = DEFAULT", b"character_set_client = 8", b"NAMES DEFAULT")  # fmt: skip

    def all_of(address: Address) -> list[str]:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            return [raw.ask(b"\x03SET " + what) for what in asked]

    assert all_of(server.socket) == all_of(("127.0.0.1", running.port))


def _named(raw: Raw, sql: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the names of a result's columns, and its rows."""
    raw.send(b"\x03" + sql, begin=True)
    first = raw.receive()
    assert kind(first) == "rows", (sql, first)
    names, rows = [], []
    while (found := raw.receive())[:1] != b"\xfe":
        r = Reader(found, "column")
        names.append([r.packed_bytes("text") for _ in range(6)][4])
    while (found := raw.receive())[:1] != b"\xfe":
        rows.append(found)
    return names, rows
