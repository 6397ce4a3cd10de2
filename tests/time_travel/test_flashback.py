"""What flashback writes is applied to a real server, and gives the tables as they were."""

import os
import random
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from binlog_merge.cli import main
from binlog_merge.log.log import Log
from tests.effort import effort, seed_of_search
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.time_travel.changing import Changed, changed, written


def walk(made: Changed, rng: random.Random, steps: int) -> None:
    """Undo and do again random stretches, and compare the tables each time."""
    now = len(made.states) - 1
    for step in range(steps):
        form = rng.choice(("sql", "binlog"))
        to = (
            rng.randrange(now)
            if now and (step % 2 == 0 or now == len(made.states) - 1)
            else rng.randrange(now, len(made.states))
        )
        if to < now:
            made.run(made.first + to, made.first + now, form)
        elif to > now:
            if form == "sql" and step % 3:
                made.do_again_as_changes(made.first + now, made.first + to)
            else:
                made.run(made.first + now, made.first + to, form, "--forward")
        assert made.state() == made.states[to], f"{form} from {now} to {to}"
        now = to


@pytest.mark.mysql
def test_random_changes_are_undone_and_done_again(mysql_server: MySqlServer, tmp_path: Path) -> None:
    seed = seed_of_search()
    walk(changed(mysql_server, tmp_path, seed, 60), random.Random(seed), effort(10, 20))


ORDERS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20), note TEXT, price DECIMAL(8,2), touched TIMESTAMP NULL);"
)
Captured = pytest.CaptureFixture[str]


def flashback(log: Log, first: int, last: int, *options: str) -> int:
    uuid = log.cluster_uuid
    between = ["--start", f"{uuid}:{first}", "--stop", f"{uuid}:{last}"]
    return main.run(["flashback", "--merged", str(log.directory), "--table", "shop.orders", *between, *options])


def rows_of(server: MySqlServer) -> list[tuple[Any, ...]]:
    return server.query("SELECT * FROM shop.orders ORDER BY id")


@pytest.mark.mysql
def test_only_the_rows_that_are_asked_for(mysql_server: MySqlServer, tmp_path: Path, capsys: Captured) -> None:
    values = ", ".join(f"({i}, 'n{i}', 'x', {i}.5, NULL)" for i in range(1, 9))
    log = written(
        mysql_server,
        tmp_path / "log",
        f"INSERT INTO orders VALUES {values}; DELETE FROM orders WHERE id < 7; UPDATE orders SET price = 0;",
        ORDERS,
    )
    assert flashback(log, 2, 3, "--where", "id IN (2, 5, 8)", "--op", "delete,update") == 0
    mysql_server.apply(capsys.readouterr().out.encode())
    assert [(row[0], float(row[3])) for row in rows_of(mysql_server)] == [(2, 2.5), (5, 5.5), (7, 0.0), (8, 8.5)]
    assert flashback(log, 1, 3, "--where", "nothing = 1") == 2
    assert flashback(log, 1, 3, "--op", "truncate") == 2
    assert flashback(log, 3, 1) == 2
    capsys.readouterr()
    assert flashback(log, 3, 9) == 0
    assert f"1 transaction undone by 2 updates, of {log.cluster_uuid}:3-3" in capsys.readouterr().err


@pytest.mark.mysql
def test_a_row_without_a_key_is_found_by_a_document_that_sql_cannot_say(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    document = "JSON_ARRAY(CAST('0.1234567890123456789' AS DECIMAL(30,20)), CAST('2026-01-02' AS DATE), x'ff', 'a')"
    log = written(
        mysql_server,
        tmp_path / "log",
        f"INSERT INTO orders VALUES ({document}); INSERT INTO orders VALUES ('[\"A\"]');",
        "CREATE TABLE orders (doc JSON); INSERT INTO orders VALUES ('[\"a\"]');",
    )
    assert flashback(log, 1, 2) == 0
    mysql_server.apply(capsys.readouterr().out.encode())
    assert mysql_server.query("SELECT doc FROM shop.orders") == [('["a"]',)]


@pytest.mark.mysql
def test_a_row_without_a_key_is_not_that_of_the_other_zero(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "INSERT INTO orders VALUES (-0e0, 1e0); INSERT INTO orders VALUES (0e0, -0e0);",
        "CREATE TABLE orders (a DOUBLE, f FLOAT); INSERT INTO orders VALUES (0e0, 1e0), (0e0, 0e0);",
    )
    assert flashback(log, 1, 2) == 0
    mysql_server.apply(capsys.readouterr().out.encode())
    assert mysql_server.query("SELECT CONCAT(a), CONCAT(f) FROM shop.orders ORDER BY f") == [("0", "0"), ("0", "1")]


MEMBERS = (
    "s SET('','b','c') NOT NULL, t SET('b',''), e ENUM('a','','0') NOT NULL, f ENUM('a','b'), "
    f"g SET({', '.join(repr(f'm{i}') for i in range(63))},'')"
)


@pytest.mark.mysql
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (s, e)", ", UNIQUE KEY (e, s)"])
def test_members_that_are_empty_texts_are_told_apart(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured, key: str
) -> None:
    told = [(s, s % 4, e, (s + e) % 3, 1 << 63 | s if s % 2 else s) for s in range(8) for e in range(3)]
    rows = list(map(str, told))
    log = written(
        mysql_server,
        tmp_path / "log",
        f"SET sql_mode = ''; DELETE FROM orders WHERE s < 4; UPDATE orders SET t = t ^ 2, f = (f + 1) % 3, g = g ^ 1;"
        f"INSERT INTO orders VALUES {', '.join(rows[2:10])}; UPDATE orders SET e = 3 WHERE e = 2;",
        f"CREATE TABLE orders ({MEMBERS}{key}); SET sql_mode = ''; INSERT INTO orders VALUES {', '.join(rows)};",
    )

    def there() -> list[tuple[Any, ...]]:
        numbers = ", ".join(f"CAST({name} AS UNSIGNED)" for name in "stefg")
        return sorted(mysql_server.query(f"SELECT {numbers} FROM shop.orders"))

    after = there()
    assert flashback(log, 1, 4) == 0
    mysql_server.apply(capsys.readouterr().out.encode())
    assert there() == sorted(told)
    assert flashback(log, 1, 4, "--forward") == 0
    mysql_server.apply(capsys.readouterr().out.encode())
    assert there() == after


@pytest.mark.mysql
def test_a_ddl_stops_it_and_is_passed_over_where_that_is_exact(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "INSERT INTO orders VALUES (1, 'a', 'b', 1, NULL), (2, 'c', 'd', 2, NULL); DELETE FROM orders WHERE id = 1;"
        "ALTER TABLE orders ADD COLUMN extra INT NOT NULL DEFAULT 5 AFTER id, ADD KEY (name);"
        "UPDATE orders SET extra = 6, name = 'z' WHERE id = 2; CREATE TABLE other (id INT); TRUNCATE TABLE orders;",
        ORDERS,
    )
    uuid = log.cluster_uuid
    assert flashback(log, 2, 4) == 60
    out, error = capsys.readouterr()
    assert not out and "ADD COLUMN extra" in error and f"--start {uuid}:4" in error and f"--stop {uuid}:2" in error
    assert flashback(log, 1, 6, "--across-ddl") == 60
    assert "TRUNCATE TABLE orders" in capsys.readouterr().err
    assert flashback(log, 2, 4, "--across-ddl", "-o", "binlog", "--to", str(tmp_path / "undo")) == 60
    assert not (tmp_path / "undo").exists() and not (tmp_path / "undo.part").exists()
    mysql_server.execute("INSERT INTO shop.orders VALUES (2, 6, 'z', 'd', 2, NULL)")
    assert flashback(log, 2, 5, "--across-ddl") == 0
    out, error = capsys.readouterr()
    assert "passed over" in error
    mysql_server.apply(out.encode())
    assert [row[:3] for row in rows_of(mysql_server)] == [(1, 5, "a"), (2, 5, "c")]


@pytest.mark.mysql
def test_a_unique_key_that_goes_would_find_other_rows(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "INSERT INTO orders VALUES (2, 2); ALTER TABLE orders DROP KEY u; INSERT INTO orders VALUES (2, 7);"
        "ALTER TABLE orders DROP KEY n; DELETE FROM orders WHERE v = 7;",
        "CREATE TABLE orders (id INT NOT NULL, v INT, UNIQUE KEY U (id), KEY n (v));",
    )
    assert flashback(log, 1, 3, "--across-ddl", "--where", "v = 2") == 60
    assert "--across-ddl does not help" in capsys.readouterr().err
    assert flashback(log, 3, 5, "--across-ddl") == 0


@pytest.mark.mysql
def test_a_statement_that_is_not_understood_stops_it_in_any_schema(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "USE mysql; SET SESSION binlog_format = STATEMENT; INSERT INTO shop.orders (id) VALUES (1);"
        "SET SESSION binlog_format = ROW; DELETE FROM shop.orders;",
        ORDERS,
    )
    assert flashback(log, 1, 2) == 60
    assert "INSERT INTO shop.orders" in capsys.readouterr().err
    assert flashback(log, 2, 2) == 0


@pytest.mark.mysql
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_images_that_do_not_hold_enough_are_refused_by_name(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured, image: str
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        f"SET SESSION binlog_row_image = {image};"
        "INSERT INTO orders VALUES (1, 'a', 'b', 1, NULL), (2, 'c', 'd', 2, NULL), (3, 'e', 'f', 3, NULL);"
        "UPDATE orders SET id = 30 WHERE id = 3; UPDATE orders SET price = 5 WHERE id = 1;"
        "DELETE FROM orders WHERE id = 2;",
        ORDERS,
    )
    for form in ("sql", "binlog"):
        out = ["-o", form, "--to", str(tmp_path / form), *(["--gtids", str(uuid4())] if form == "binlog" else [])]
        assert flashback(log, 4, 4, *out) == 60
        error = capsys.readouterr().err
        assert "a DELETE of shop.orders" in error and "note" in error and "binlog.00000" in error
        assert ("price" in error) == (image == "MINIMAL")
        assert flashback(log, 3, 3, *out) == (60 if image == "MINIMAL" else 0)
    mysql_server.execute("INSERT INTO shop.orders VALUES (2, 'c', 'd', 2, NULL)")
    if image == "NOBLOB":
        mysql_server.apply((tmp_path / "sql").read_bytes())
        assert [str(row[3]) for row in rows_of(mysql_server)] == ["1.00", "2.00", "3.00"]
        mysql_server.execute("UPDATE shop.orders SET price = 5 WHERE id = 1")
        mysql_server.apply(mysqlbinlog([tmp_path / "binlog"]))
        assert [str(row[3]) for row in rows_of(mysql_server)] == ["1.00", "2.00", "3.00"]
    capsys.readouterr()
    assert flashback(log, 2, 2) == flashback(log, 1, 1) == 0
    mysql_server.apply(mysqlbinlog_or(capsys.readouterr().out))
    assert rows_of(mysql_server) == []


@pytest.mark.mysql
def test_a_table_that_was_opened_again_and_images_of_parts_of_its_key(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "SET SESSION binlog_row_image = MINIMAL; INSERT INTO orders VALUES (1, 1), (2, 2);"
        "FLUSH NO_WRITE_TO_BINLOG TABLES;"  # the table has another id from here on
        "UPDATE orders SET b = 5 WHERE a = 1; DELETE FROM orders WHERE a = 2;",
        "CREATE TABLE orders (a INT, b INT, PRIMARY KEY (a, b));",
    )

    def applied(first: int, *options: str) -> list[tuple[int, int]]:
        out = tmp_path / str(uuid4())
        gtids = ("-o", "binlog", "--gtids", str(uuid4()))
        assert flashback(log, first, 3, *gtids, *options, "--to", str(out)) == 0
        mysql_server.apply(mysqlbinlog([out], "--verify-binlog-checksum"))
        return mysql_server.query("SELECT a, b FROM shop.orders ORDER BY a")  # type: ignore[return-value]

    assert applied(2) == [(1, 1), (2, 2)]
    assert applied(2, "--forward") == [(1, 5)]
    assert applied(1) == []


def mysqlbinlog_or(sql: str) -> bytes:
    """Return scripts one after the other as one, with the key's change undone first."""
    return sql.replace("WHERE `id` = 3;", "WHERE `id` IN (3, 30);").encode()


@pytest.mark.mysql
def test_rows_that_were_changed_since_are_told_before_anything_is_written(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    values = ", ".join(f"({i}, 'n{i}', 'Ünö', {i}.5, '2026-01-01')" for i in range(1, 300))
    log = written(
        mysql_server,
        tmp_path / "log",
        f"INSERT INTO orders VALUES {values}; DELETE FROM orders WHERE id = 7;UPDATE orders SET id = 400 WHERE id = 8;",
        ORDERS,
    )
    address = f"mysql://root@localhost/?socket={mysql_server.socket}"
    assert flashback(log, 1, 3, "--check", address) == 0
    assert "DELETE FROM" in capsys.readouterr().out
    mysql_server.apply(
        b"USE shop; UPDATE orders SET name = 'N3', price = 1 WHERE id = 3; DELETE FROM orders WHERE id = 4;"
        b"INSERT INTO orders (id) VALUES (7), (8);"
    )
    assert flashback(log, 1, 3, "--check", address, "--to", str(tmp_path / "undo")) == 1
    out, error = capsys.readouterr()
    assert "`id` = 3: it has been changed since: name, price" in out and "`id` = 4: it is not there any more" in out
    assert "`id` = 7: the log deleted it" in out and "`id` = 8: the log deleted it" in out
    assert "300 rows compared, 4 are not as the log left them" in error and not (tmp_path / "undo").exists()
    assert flashback(log, 1, 3, "--check", "mysql://root@127.0.0.1:1") == 39


@pytest.mark.mysql
def test_a_key_that_became_an_equal_one_is_as_the_log_left_it(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "INSERT INTO orders VALUES ('a', '{\"k\": \"v\"}'); UPDATE orders SET id = 'A';",
        "CREATE TABLE orders (id VARCHAR(9) PRIMARY KEY, doc JSON);",
    )
    address = f"mysql://root@localhost/?socket={mysql_server.socket}"
    assert flashback(log, 1, 2, "--check", address) == 0
    mysql_server.execute("""UPDATE shop.orders SET doc = '{"k": "V"}'""")
    assert flashback(log, 1, 2, "--check", address) == 1
    assert "changed since: doc" in capsys.readouterr().out
    assert flashback(log, 1, 2, "--check", address, "--forward") == 2
    assert flashback(log, 1, 2, "-o", "binlog", "--gtids", log.cluster_uuid) == 2


@pytest.mark.soak
@pytest.mark.mysql
def test_soak(mysql_server: MySqlServer, tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED", random.randrange(1 << 32)))
    print("seed", seed)
    walk(changed(mysql_server, tmp_path, seed, 300), random.Random(seed), 200)
