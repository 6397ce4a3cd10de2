"""What is asked of a log: ranges and conditions, images that do not hold all, lives of rows, counts, SQL."""

import itertools
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import binlog_merge
from binlog_merge.ask.life import Change, life_of
from binlog_merge.ask.query import ask
from binlog_merge.ask.stats import count
from binlog_merge.cli.main import run
from binlog_merge.errors import ConfigError, ConversionFailed
from binlog_merge.log.columns import fitted, wider
from binlog_merge.log.log import Log
from binlog_merge.log.place import parse_place
from binlog_merge.log.question import Question, select
from binlog_merge.log.read import PART_BYTES, batches
from binlog_merge.values.types import column_facts_of
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType
from tests.command_line import command_line
from tests.effort import keeping
from tests.json_documents import check
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.targets.as_merged import as_merged

TABLE = "shop.orders"


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ask") / "merged"
    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", folder)
    return folder


@pytest.fixture(scope="module")
def rows(merged: Path) -> list[dict[str, Any]]:
    return list(binlog_merge.changes(merged, TABLE).read_all().to_pylist())


def test_a_part_of_what_is_asked_is_that_part(merged: Path, rows: list[dict[str, Any]]) -> None:
    gtids = sorted({row["gtid"] for row in rows}, key=lambda text: int(text.rpartition(":")[2]))
    first, last = gtids[20], gtids[60]
    ops, wanted = ["insert", "delete"], gtids[20:61]
    found = binlog_merge.changes(merged, TABLE, start=first, stop=last, op=ops, columns=["price", "ID"]).read_all()
    assert [(row["gtid"], row["op"], row["before"], row["after"]) for row in found.to_pylist()] == [
        (row["gtid"], row["op"], *(row[s] and {n: row[s][n] for n in ("price", "id")} for s in ("before", "after")))
        for row in rows
        if row["gtid"] in wanted and row["op"] in ops
    ]
    assert found.column("after_absent").null_count == len(found)
    some = binlog_merge.changes(merged, TABLE, where="price > 50000 AND note IS NULL", fields=["position", "row"])
    assert some.read_all().to_pylist() == [
        {"position": row["position"], "row": row["row"]}
        for row in rows
        if any(row[side] and row[side]["price"] > 50000 and row[side]["note"] is None for side in ("before", "after"))
    ]


def test_the_size_of_batches_changes_nothing(merged: Path, rows: list[dict[str, Any]]) -> None:
    binlog = Log(merged)
    assert PART_BYTES > 1000
    found = list(batches(binlog, select(binlog, Question(TABLE)), part_bytes=300))
    assert len(found) > 50
    assert [row for batch in found for row in batch.to_pylist()] == rows


@pytest.mark.parametrize("window", keeping([333], [200, 333, 500]))
def test_a_window_that_ends_within_a_transaction_changes_nothing(
    merged: Path, rows: list[dict[str, Any]], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_merge.log.read.WINDOW", window)
    assert all(row["order_key"] and row["commit_tso"] is not None for row in rows)
    assert binlog_merge.changes(merged, TABLE).read_all().to_pylist() == rows


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        (pa.int8(), pa.uint8(), pa.int16()),
        (pa.int64(), pa.uint64(), pa.decimal128(20, 0)),
        (pa.int32(), pa.decimal128(6, 2), pa.decimal128(12, 2)),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.int64(), pa.float64(), pa.string()),
        (pa.date32(), pa.timestamp("us"), pa.timestamp("us")),
        (pa.string(), pa.binary(), pa.binary()),
        (pa.duration("us"), pa.int32(), pa.string()),
    ],
)
def test_types_of_versions_have_a_wider_one(one: Any, two: Any, both: Any) -> None:
    assert wider(one, two) == wider(two, one) == both


def test_values_that_another_type_does_not_hold_are_no_others() -> None:
    facts = column_facts_of(Column("x", ColumnType("int")))
    tiny = pa.array([Decimal("1E-8"), Decimal("0E-8"), None], pa.decimal128(10, 8))
    assert fitted(tiny, pa.string(), facts).to_pylist() == ["0.00000001", "0.00000000", None]
    assert fitted(pa.array(["12", None]), pa.int32(), facts).to_pylist() == [12, None]
    for values, kind in (
        (pa.array(["007"]), pa.int32()),
        (pa.array([0.1]), pa.float32()),
        (pa.array([1_000_000], pa.timestamp("us")), pa.date32()),
    ):
        with pytest.raises(ConversionFailed, match="column x"):
            fitted(values, kind, facts)


def test_what_an_image_does_not_hold_is_absent_and_no_null(tmp_path: Path) -> None:
    merge(case_named("row-image-minimal") / "cluster.yaml", tmp_path)
    name = next(iter(json.loads((case_named("row-image-minimal") / "expected" / "tables.json").read_text())))
    found = binlog_merge.changes(tmp_path, name, op="update").read_all().to_pylist()
    absent = [row for row in found if row["after_absent"]]
    assert absent and all(row["before_absent"] for row in found)
    row = absent[0]
    column = row["after_absent"][0]
    assert row["after"][column] is None
    with pytest.raises(ConfigError, match=f"do not hold .*{column}"):
        binlog_merge.changes(tmp_path, name, op="update", where=f"`{column}` IS NULL").read_all()
    held = binlog_merge.changes(tmp_path, name, where=f"id = {row['before']['id']} AND 1 = 1").read_all()
    assert row in held.to_pylist()


@pytest.mark.mysql
def test_rows_of_an_event_with_differences_are_numbered_once(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Some rows of an event have a JSON document, others a difference to one that the log does not have."""
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.execute("CREATE DATABASE d")
    mysql_server.execute(
        "SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON; "
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON); "
        "INSERT INTO t VALUES (1, '{\"a\": 1}'), (2, NULL), (3, '{\"a\": 1}'), (4, NULL), (5, '{\"a\": 1}'); "
        "UPDATE t SET j = JSON_SET(j, '$.a', id), id = id + 10; "
        "UPDATE t SET j = JSON_REPLACE(coalesce(j, '{}'), '$.a', 2) WHERE id > 12",
        "d",
    )
    binlog = merged_of(mysql_server, tmp_path)
    selection = select(binlog, Question("d.t"))
    answers = [
        [row for batch in batches(binlog, selection, part_bytes=size) for row in batch.to_pylist()]
        for size in (PART_BYTES, 1)
    ]
    assert answers[0] == answers[1]
    assert {bool(row["after_absent"]) for row in answers[0] if row["op"] == "update"} == {True, False}
    printed = command_line(["changes", binlog.directory, "--table", "d.t", "--columns", "id", "-o", "debezium"])
    messages = [json.loads(line) for line in printed.stdout.splitlines()]
    sources = [message["source"] for message in messages if message.get("op") in ("c", "u", "d")]
    # An UPDATE of the key is two messages.
    places = list(dict.fromkeys((source["pos"], source["row"]) for source in sources))
    assert places == [(row["position"], row["row"]) for row in answers[0]]
    told = mysqlbinlog([tmp_path / "merged" / file.name for file in binlog.state.files]).decode()
    places = [(int(end), kind) for end, kind in re.findall(r"end_log_pos (\d+) .*?\t(\w+)", told)]
    sizes = [end - before for (before, _), (end, kind) in itertools.pairwise(places) if "_rows" in kind]
    (found,) = count(binlog, 1, binlog.last_rank, every_us=60_000_000).tables().values()
    assert found.bytes == sum(sizes) - 23 * len(sizes)  # header and checksum


LIFE = """CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))
INSERT INTO t VALUES (1, 'one'), (2, 'two')
UPDATE t SET id = 5 WHERE id = 1
UPDATE t SET id = 1 WHERE id = 2
UPDATE t SET v = 'five' WHERE id = 5
DELETE FROM t WHERE id = 5
INSERT INTO t VALUES (5, 'another')
UPDATE t SET v = 'another one' WHERE id = 5"""


@pytest.mark.mysql
def test_a_life_follows_the_key_and_has_the_statements(mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.execute("CREATE DATABASE d")
    connection = mysql_server.connect("d")
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_rows_query_log_events = ON")
        for statement in LIFE.splitlines():
            cursor.execute(statement)
    connection.close()
    binlog = as_merged(mysql_server, tmp_path / "merged")

    def life(key: str) -> list[tuple[Any, ...]]:
        found = [item for item in life_of(binlog, ("d", "t"), {"id": key}).items if isinstance(item, Change)]
        assert all(item.who.server_id and item.who.thread_id for item in found)
        return [(item.record["op"], (item.record["after"] or {}).get("id"), item.who.statement) for item in found]

    lines = LIFE.splitlines()
    # 1 is what became 5 and was deleted, and what 2 became; what came as 5 later is neither.
    assert life("1") == [("insert", 1, lines[1]), ("insert", 2, lines[1]), ("update", 5, lines[2]),
                         ("update", 1, lines[3]), ("update", 5, lines[4]), ("delete", None, lines[5])]  # fmt: skip
    assert life("2") == [("insert", 2, lines[1]), ("update", 1, lines[3])]
    assert [op for op, _, _ in life("5")] == ["insert", "update", "update", "delete", "insert", "update"]


NODE = """version: 1
name: one
nodes: [{source-id: dn-1, files: [binlog.0*]}]
shard-mode: optimistic
commit-tso: {carrier: gtid-time}
output: {basename: binlog, server-id: 9001, cluster-uuid: 11111111-2222-3333-4444-555555555555}
"""


def merged_of(server: MySqlServer, folder: Path) -> Log:
    """Return the merged log of one node: the whole binlog of the server."""
    for file in server.binlog_files():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "cluster.yaml").write_text(NODE)
    merge(folder / "cluster.yaml", folder / "merged")
    return Log(folder / "merged")


@pytest.mark.mysql
def test_a_key_is_what_the_server_takes_for_it(mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.execute("CREATE DATABASE d")
    tables = {
        "t": (
            "VARCHAR(9)",
            ["'010'", "'10'", "'1e1'", "'nan'", "'0x61'", "'a'", "'É'"],
            ["e", "10", "0x61", "A", "NaN"],
        ),
        "b": ("VARCHAR(9) COLLATE utf8mb4_bin", ["'a'", "'A'"], ["a", "A"]),
        "c": ("CHAR(5) COLLATE utf8mb4_general_ci", ["'é'", "''"], ["E", "é  ", ""]),
        "s": ("CHAR(5) CHARACTER SET latin1", ["'ü'", "'z'"], ["Y", "Z "]),
        "n": ("DECIMAL(20,3)", ["12345678901234567.125", "-0.5"], ["12345678901234567.125", "-0.50"]),
        "u": ("BIGINT UNSIGNED", ["18446744073709551615", "0"], ["18446744073709551615"]),
        "f": ("FLOAT", ["0.1", "1e30"], ["0.1", "1e30"]),
        "g": ("DOUBLE", ["0.1", "-1e-300"], ["0.1", "-1e-300"]),
        "m": ("DATETIME", ["'2020-01-01'", "'0000-00-00'"], ["2020-01-01", "2020-01-01 00:00:00"]),
        "p": ("TIMESTAMP(2)", ["'2020-01-01 10:00:00.25'", "'2020-01-01'"], ["2020-01-01 10:00:00.25"]),
        "i": ("TIME(1)", ["'-100:00:00.5'", "'12:00'"], ["-100:00:00.5", "12:00:00"]),
        "y": ("YEAR", ["1999", "2070"], ["1999"]),
        "q": ("BIT(9)", ["257", "1"], ["257"]),
        "k": ("ENUM('x','Y')", ["'x'", "'Y'"], ["X", "y"]),
        "x": ("BINARY(2)", ["0x6161", "0xFF00", "0x61"], ["0x6161", "0xff00", "0x6100"]),
        "w": ("VARBINARY(9)", ["0x61", "0x6100"], ["0x61", "0x6100"]),
    }
    for name, (kind, keys, _) in tables.items():
        mysql_server.execute(
            f"CREATE TABLE {name} (k {kind} PRIMARY KEY, v INT); SET time_zone = '+00:00', sql_mode = '';"
            f"INSERT INTO {name} VALUES {', '.join(f'({key}, {v})' for v, key in enumerate(keys))};"
            f"CREATE TABLE {name}2 LIKE {name}; INSERT INTO {name}2 VALUES ({keys[0]}, 7); "
            f"UPDATE {name}2 SET k = {keys[1]}; UPDATE {name}2 SET v = 8; DELETE FROM {name}2",
            "d",
        )
    binlog = as_merged(mysql_server, tmp_path / "log")
    for name, (_, keys, asked) in tables.items():
        for key in asked:
            life = [item for item in life_of(binlog, ("d", name), {"k": key}).items if isinstance(item, Change)]
            literal = key if key.startswith("0x") and name != "t" else f"'{key}'"
            literal = {"f": f"CAST('{key}' AS FLOAT)", "q": key}.get(name, literal)
            told = mysql_server.query(f"SELECT v FROM {name} WHERE k = {literal} ORDER BY v", "d")
            assert [(item.record["after"]["v"],) for item in life] == told and told, (name, key)
        # A row whose key changes is followed from the old key and back from the new one.
        for key in keys[:2]:
            life = life_of(binlog, ("d", f"{name}2"), {"k": key.strip("'")})
            found = [item.record["op"] for item in life.items if isinstance(item, Change)]
            assert found == ["insert", "update", "update", "delete"], (name, key, found)


TABLES = """CREATE TABLE a (old INT PRIMARY KEY, x INT)
CREATE TABLE b (old INT PRIMARY KEY, x BIGINT)
CREATE TABLE c (id INT PRIMARY KEY, x INT)
CREATE TABLE e LIKE c
INSERT INTO a VALUES (1, 10)
INSERT INTO b VALUES (1, 99)
INSERT INTO c VALUES (1, 1)
INSERT INTO e VALUES (1, 2)
RENAME TABLE a TO t, b TO a, t TO b, c TO t, e TO c, t TO e
UPDATE b SET x = 11
UPDATE c SET x = 21
UPDATE e SET x = 12
ALTER TABLE b RENAME COLUMN old TO id
RENAME TABLE b TO f
UPDATE f SET x = 12
UPDATE e SET id = 5
TRUNCATE TABLE e
INSERT INTO e VALUES (5, 50), (6, 60)
UPDATE e SET id = id + 10
DROP TABLE e
RENAME TABLE c TO e
UPDATE e SET id = 15
CREATE TABLE c (code CHAR(3) PRIMARY KEY, id INT) COLLATE utf8mb4_0900_ai_ci
INSERT INTO c VALUES ('a', 1), ('b', 1)
UPDATE c SET code = 'É' WHERE code = 'B'
ALTER TABLE c DROP PRIMARY KEY, DROP COLUMN id, ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY
UPDATE c SET id = 7 WHERE code = 'e'
DROP DATABASE d
CREATE DATABASE d
CREATE TABLE c (id INT PRIMARY KEY)
INSERT INTO c VALUES (7)"""


@pytest.mark.mysql
def test_a_life_follows_what_statements_say(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Names are exchanged, also by tables of one definition; tables are emptied, dropped, made anew with other keys."""
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.execute("CREATE DATABASE d")
    for statement in TABLES.splitlines():
        mysql_server.execute(statement if "DATABASE" in statement else f"USE d; {statement}")
    merged = merged_of(mysql_server, tmp_path)
    # A time that no TSO can carry is before the log, which begins with a statement.
    assert merged.between(parse_place("--start", "2000-01-01"), None) == (1, merged.last_rank)
    # 20 digits of a TSO are after 19.
    assert merged.between(None, parse_place("--stop", "2099-01-01")) == (1, merged.last_rank)
    bare = as_merged(mysql_server, tmp_path / "bare")
    ranks = {statement[:14]: rank for rank, statement in enumerate(TABLES.splitlines(), 2)}
    exchange, empty, drop, behind = (
        ranks[text] for text in ("RENAME TABLE a", "TRUNCATE TABLE", "DROP TABLE e", "ALTER TABLE c ")
    )
    for log in (merged, bare):  # with a schema store, and without one

        def lived(table: str, stop: int = 99, log: Log = log, **key: str) -> tuple[list[Any], list[str]]:
            life = life_of(log, ("d", table), key, stop=f"{log.cluster_uuid}:{stop}")
            rows = [
                (item.record["table"], *(tuple((item.record[side] or {}).values()) for side in ("before", "after")))
                if isinstance(item, Change)
                else item.ddl.split()[0]
                for item in life.items
            ]
            return rows, list(life.left_out)

        rows, left_out = lived("f", behind, id="1")
        assert rows == [("a", (), (1, 10)), "RENAME", ("b", (1, 10), (1, 11)), "ALTER", "RENAME",
                        ("f", (1, 11), (1, 12))]  # fmt: skip
        assert left_out == []
        rows, left_out = lived("e", empty - 1, id="1")
        first = [("c", (), (1, 1)), "RENAME", ("e", (1, 1), (1, 12)), ("e", (1, 12), (5, 12))]
        assert rows == first
        assert [text.split(": ")[0] for text in left_out] == [
            f"another table was called d.e up to {log.cluster_uuid}:{exchange - 1}, and was then called d.c"
        ]
        # 5 before the TRUNCATE and 5 behind it are two rows, as are 15 before the DROP and the one of another table.
        rows, left_out = lived("e", drop, id="5")
        assert rows == [*first, "TRUNCATE", ("e", (), (5, 50)), ("e", (5, 50), (15, 50)), "DROP"]
        rows, left_out = lived("e", drop + 3, id="15")
        assert rows == [
            ("e", (), (1, 2)), "RENAME", ("c", (1, 2), (1, 21)), "TRUNCATE", ("e", (), (5, 50)),
            ("e", (5, 50), (15, 50)), "DROP", "RENAME", ("e", (1, 21), (15, 21)),
        ]  # fmt: skip
        # A key of other columns is told.
        rows, left_out = lived("c", behind + 1, id="7")
        assert rows == [("c", ("É", 2), ("É", 7))]
        assert any("the primary key of d.c is code from" in text for text in left_out)
        rows, _ = lived("c", behind - 1, code="E")
        assert rows == [("c", (), ("b", 1)), ("c", ("b", 1), ("É", 1))]
        rows, left_out = lived("c", id="7")
        assert rows == [("c", ("É", 2), ("É", 7)), "DROP", "CREATE", ("c", (), (7,))]


def test_a_life_goes_on_under_a_new_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merge(case_named("polardbx-rename") / "cluster.yaml", tmp_path)
    life = life_of(Log(tmp_path), ("memo", "letters"), {"id": "1"}).items
    names = [item.record["table"] if isinstance(item, Change) else item.ddl[:12] for item in life]
    assert names == ["notes", "notes", "RENAME TABLE", "letters"]
    assert run(["history", "memo.letters", "id=one", "--merged", str(tmp_path)]) == 2
    assert "'one' is no number" in capsys.readouterr().err
    assert run(["history", "memo.letters", "id=1", "ID=2", "--merged", str(tmp_path)]) == 2
    assert "ID is given twice" in capsys.readouterr().err
    assert run(["history", "memo.letters", "id=1", "--merged", str(tmp_path), "-o", "json"]) == 0
    printed = check("history", capsys.readouterr().out)["life"]
    assert [item["statement"] if item["kind"] == "ddl" else item["table"] for item in printed] == [
        "notes", "notes", "RENAME TABLE `notes` TO `letters`", "letters"
    ]  # fmt: skip


def test_a_life_without_an_end_has_the_ddl_that_comes_later(merged: Path) -> None:
    """A later TRUNCATE or DROP ends it, and a delete leaves nothing that DDL could change."""
    there, gone = (life_of(Log(merged), ("shop", "orders"), {"id": key}).items for key in ("12", "47"))
    assert isinstance(there[0], Change)
    assert [item.ddl.split()[3] for item in there if not isinstance(item, Change)] == ["ADD", "MODIFY"]
    assert not isinstance(there[-1], Change)
    assert isinstance(gone[-1], Change) and gone[-1].record["op"] == "delete"
    assert [item.ddl.split()[3] for item in gone if not isinstance(item, Change)] == ["ADD"]


def test_counts_by_time_are_not_endless_lines(
    merged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("binlog_merge.cli.stats._MOST_LINES", 1)
    assert run(["stats", "--merged", str(merged)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("2026-") for line in lines) == 1
    assert "… and 1 lines more: -o jsonl has all; or choose --per, --table, --start" in lines
    assert run(["stats", "--merged", str(merged), "-o", "jsonl"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 2
    assert run(["stats", "--merged", str(merged), "--plot", "rows", "--to", str(tmp_path / "rows.png")]) == 2
    assert "name it rows.svg" in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.mysql
def test_counts_are_those_of_mysqlbinlog(merged: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "rows.svg"
    assert run(["stats", "--merged", str(merged), "--table", "shop.oders"]) == 33
    assert "the log has no table shop.oders" in capsys.readouterr().err
    assert run(["stats", "--merged", str(merged), "-o", "json", "--plot", "rows", "--to", str(plot)]) == 0
    found = check("stats", capsys.readouterr().out)
    text = mysqlbinlog([merged / "binlog.000001"], "--base64-output=decode-rows", "-v").decode()
    counted = {
        word.lower() + "s": len(re.findall(rf"^### {word} ", text, re.M)) for word in ("INSERT", "UPDATE", "DELETE")
    }
    assert {name: found["tables"][TABLE][name] for name in counted} == counted
    assert found["transactions"] == len(re.findall(r"GTID_NEXT= '[^A]", text))
    assert found["bytes"] == sum(int(size) for size in re.findall(r"transaction_length=(\d+)", text))
    sizes = sorted(map(int, re.findall(r"transaction_length=(\d+)", text)), reverse=True)
    assert [one["bytes"] for one in found["biggest"]] == sizes[:5]
    assert sum(cell["rows"] for cell in found["by_time"]) == sum(counted.values())
    assert plot.read_text().startswith("<svg") and "shop.orders" in plot.read_text()


def test_sql_says_what_a_copy_in_duckdb_says(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binlog, copy = Log(merged), duckdb.connect()
    copy.register("copied", binlog_merge.changes(merged, TABLE).read_all())
    for text in (
        "SELECT op, count(*), sum(after.price), min(before.customer) FROM {} GROUP BY op ORDER BY op",
        "SELECT a.gtid, b.after.id FROM {} a JOIN {} b ON a.before.id = b.after.id AND a.op = 'delete' ORDER BY ALL",
        "SELECT t FROM {} t WHERE after.note IS NULL ORDER BY t.order_key, t.position LIMIT 3",
        "SELECT count(*) FROM {} WHERE list_contains(after_absent, 'note')",
        "SELECT * EXCLUDE (before) FROM {} WHERE op = 'delete' ORDER BY order_key, position, row",
        "FROM (PIVOT (SELECT op, before.state AS state FROM {}) ON op USING count(*)) ORDER BY ALL",
    ):
        found = [tuple(row.values()) for batch in ask(binlog, text.format(*["changes('shop.orders')"] * 2)).batches
                 for row in batch.to_pylist()]  # fmt: skip
        assert found == [
            tuple(row.values()) for row in copy.sql(text.format("copied", "copied")).to_arrow_table().to_pylist()
        ]
        assert found
    with monkeypatch.context() as patch:  # days are UTC's wherever the query is asked
        patch.setenv("TZ", "Asia/Shanghai")
        hours = ask(binlog, "SELECT count(*) n FROM transactions WHERE commit_time::TIMESTAMP <> make_timestamp("
                    "epoch_us(commit_time))")  # fmt: skip
        assert [batch.to_pylist() for batch in hours.batches] == [[{"n": 0}]]
    with pytest.raises(ConfigError, match="not one statement"):
        ask(binlog, "SELECT 1; SELECT count(*) FROM changes('shop.orders')")
    with pytest.raises(ConfigError, match="told by the query"):
        ask(binlog, "SELECT error('told by the query') FROM changes('shop.orders')")
    narrow = ask(binlog, "SELECT count(*) n FROM changes('shop.orders', where := 'id = 12', op := 'update')")
    assert [batch.to_pylist() for batch in narrow.batches] == [[{"n": 3}]]


def test_sql_prints_what_has_no_type_in_json(merged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def asked(what: str) -> int:
        return run(["sql", f"SELECT {what} AS x", "--merged", str(merged), "-o", "jsonl"])

    for what, shown in (("{'t': INTERVAL '-838:59:58.5'}", {"t": "-838:59:58.500000"}), ("1e0 / 0", "inf")):
        assert asked(what) == 0
        assert json.loads(capsys.readouterr().out)["x"] == shown
    assert asked("DATE '20000-01-01'") == 2
    assert "CAST" in capsys.readouterr().err


def test_sql_shows_decimals_that_duckdb_does_not_have_as_text(tmp_path: Path) -> None:
    merge(case_named("all-types") / "cluster.yaml", tmp_path)
    found = ask(Log(tmp_path), "SELECT DISTINCT after.d65 AS d65 FROM changes('types.reals') WHERE op = 'insert'")
    told = (
        binlog_merge.changes(tmp_path, "types.reals", op="insert", columns=["d65"])
        .read_all()
        .column("after")
        .to_pylist()
    )
    assert {row["d65"] for batch in found.batches for row in batch.to_pylist()} == {
        None if row["d65"] is None else format(row["d65"], "f") for row in told
    }


def test_columns_are_as_of_a_moment_outside_of_the_range(merged: Path) -> None:
    uuid = Log(merged).cluster_uuid
    names = [
        {
            field.name
            for field in binlog_merge.changes(merged, TABLE, as_of=as_of, **{side: place}).schema.field("after").type
        }
        for as_of, side, place in (((1 << 63) - 2, "stop", f"{uuid}:50"), (7507804165234491391, "start", f"{uuid}:150"))
    ]
    assert "note" in names[0] and "note" not in names[1]


def test_formats_have_the_same_changes(merged: Path, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    common = ["changes", str(merged), "--table", TABLE]
    for form in ("parquet", "csv", "jsonl", "json", "text", "sql"):
        assert run([*common, "-o", form, "--to", str(tmp_path / form)]) == 0
    assert duckdb.sql(f"SELECT * FROM read_parquet('{tmp_path}/parquet')").to_arrow_table().to_pylist() == rows
    csv = duckdb.sql(f'SELECT op, "after.id", "after.price" FROM read_csv(\'{tmp_path}/csv\')').fetchall()
    expected = [(r["op"], r["after"] and r["after"]["id"], r["after"] and float(r["after"]["price"])) for r in rows]
    assert csv == expected
    lines = [check("changes", line, line=True) for line in (tmp_path / "jsonl").read_text().splitlines()]
    document = check("changes", (tmp_path / "json").read_text())
    assert [{"schema_version": 1, **change} for change in document["changes"]] == lines
    assert [(line["op"], line["after"] and line["after"]["id"]) for line in lines] == [e[:2] for e in expected]
    assert len((tmp_path / "text").read_text().splitlines()) == len(rows)


@pytest.mark.mysql
def test_the_statements_make_what_the_log_makes(merged: Path, mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Of the rows that the log inserts: those from before it are not there to be changed."""
    assert run(["changes", str(merged), "--table", TABLE, "-o", "sql", "--to", str(tmp_path / "sql")]) == 0
    mysql_server.execute("CREATE DATABASE shop")
    mysql_server.execute(
        "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, customer VARCHAR(300), note VARCHAR(40) DEFAULT 'none', "
        "quantity BIGINT, price DECIMAL(12, 2), state VARCHAR(20), placed_at DATETIME(3))"
    )
    mysql_server.apply((tmp_path / "sql").read_bytes())
    last: dict[int, Any] = {}
    for row in binlog_merge.changes(merged, TABLE).read_all().to_pylist():
        if row["op"] == "delete":
            last.pop(row["before"]["id"], None)
        elif row["op"] == "insert" or row["before"]["id"] in last:
            known = last.get(row["after"]["id"], {"note": "none"})  # what the ALTER gave to rows before it
            absent = row["after_absent"] or ()
            last[row["after"]["id"]] = known | {k: v for k, v in row["after"].items() if k not in absent}
    found = mysql_server.query("SELECT id, customer, note, quantity, price, state, placed_at FROM shop.orders")
    names = ("id", "customer", "note", "quantity", "price", "state", "placed_at")
    assert {row[0]: row for row in found} == {key: tuple(v[n] for n in names) for key, v in last.items()}


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--where", "id ="], 2, "expected an expression"),
        (["--where", "nope = 1"], 2, "has no column nope"),
        (["--op", "upsert"], 2, "--op: upsert is no operation; they are insert, update, delete"),
        (["--columns", "nope"], 2, "there is no column nope"),
        (["--start", "yesterday"], 2, "is no place in a log"),
        (["--start", "2026-12-01", "--stop", "2000-01-01"], 2, "is before"),
        (["-o", "xml"], 2, "there is no such format"),
        (["--time-zone", "Mars/Base", "--where", "id = 1"], 2, "time zone"),
        (["--to", "/"], 31, "Is a directory"),
        (["--stop", "binlog.000009:4"], 2, "no file binlog.000009"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], code: int, reason: str, merged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["changes", str(merged), "--table", TABLE, *arguments]) == code
    assert reason in capsys.readouterr().err
