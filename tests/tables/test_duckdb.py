"""Replay into DuckDB: the same rows as a real server has, typed, once, whatever happens on the way."""

import random
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.cli.main import run
from binlog_merge.errors import ConfigError, ConversionFailed, ReplayStopped, TargetBusy
from binlog_merge.filters.events import EventRule
from binlog_merge.filters.expressions import ExpressionRule
from binlog_merge.filters.filter import ColumnSelector, Filter, FilterSettings
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult, history_of
from binlog_merge.log.segments import segments
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.targets.server.run import dry_run, replay
from snapshot_store.mysql.column_type import Family, names_of
from snapshot_store.store.db import Store
from tests.effort import keeping
from tests.forked import forked_command
from tests.mysql_server import ROOT, MySqlServer
from tests.targets.as_merged import as_merged, run_statements
from tests.targets.server.test_replay import merged, prepare, target_of

CASES = (
    "three-nodes-online-ddl",
    "row-image-minimal",
    "row-image-noblob",
    "metadata-minimal",
    "strange-names",
    "gtid-off",
    "statements",
    "create-table-select",
    "all-types",
    "partial-json",
)
# What is left out has the types and images of these.
KEPT = ("three-nodes-online-ddl", "row-image-noblob", "create-table-select", "all-types", "partial-json")


def loaded(binlog: Log, path: Path, text: bool = False, **options: Any) -> ReplayResult:
    chosen = options.get("filter")
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    with DuckdbTarget(path, binlog.cluster_uuid, text, columns) as target:
        return load(binlog, target, history_of(binlog.directory), ReplayOptions(**options))


def tables_of(path: Path, counted: bool = True) -> dict[tuple[str, str], list[Any]]:
    """Return columns and rows of every table of the cluster, rows sorted."""
    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        catalog = connection.execute("SELECT current_database()").fetchall()[0][0]
        names = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name <> 'binlog_merge' ORDER BY ALL"
        ).fetchall()
        found = {}
        for schema, table in names:
            name = ".".join(map(identifier, (catalog, schema, table)))
            cursor = connection.execute(f"FROM {name}")
            columns = [column[0] for column in cursor.description]
            found[schema, table] = [columns, sorted((tuple(map(plain, row)) for row in cursor.fetchall()), key=repr)]
        return found


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def plain(value: Any) -> Any:
    """Return a value of DuckDB's as the server's is read."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


SHAPES = tuple(names_of(Family.GEOMETRY))
_SHOWN = {
    "bit": "{} + 0",
    "float": "CAST({} AS DOUBLE)",
    "json": "CAST({} AS CHAR CHARACTER SET utf8mb4)",
    **dict.fromkeys(("vector", *SHAPES), "HEX({})"),
}
_TEMPORAL = ("date", "datetime", "timestamp", "time")


def tables_at(server: MySqlServer, text: bool = False) -> dict[tuple[str, str], list[Any]]:
    """Return the same of a server, by its own SELECT."""
    names = server.query(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND "
        "table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema', 'binlog_merge')"
    )
    found = {}
    for schema, table in sorted(names):
        columns = server.query(f"SHOW COLUMNS FROM {backticked(schema)}.{backticked(table)}")
        columns = [(name, kind_of(kind)) for name, kind, *_ in columns]
        shown = [_selected(name, kind, text) for name, kind in columns]
        rows = server.query(f"SELECT {', '.join(shown)} FROM {backticked(schema)}.{backticked(table)}")
        values = [tuple(_value(kind, value) for value, (_, kind) in zip(row, columns, strict=True)) for row in rows]
        found[schema, table] = [[name for name, _ in columns], sorted(values, key=repr)]
    return found


def kind_of(definition: str) -> str:
    """Return a column's type without its lengths; a decimal that DuckDB has not is told apart."""
    name, *lengths = definition.replace("(", " ").replace(",", " ").split()
    return "wide decimal" if name == "decimal" and int(lengths[0].rstrip(")")) > 38 else name


def backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _selected(name: str, kind: str, text: bool) -> str:
    if kind in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"):
        return f"CONVERT({backticked(name)} USING utf8mb4)"
    if text and kind in _TEMPORAL:
        return f"CAST({backticked(name)} AS CHAR)"
    return _SHOWN.get(kind, "{}").format(backticked(name))


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind in SHAPES:
        return bytes.fromhex(value)
    if kind == "wide decimal":
        return format(value, "f")
    if kind == "vector":
        data = bytes.fromhex(value)
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    return value


def differences(found: list[Any], expected: list[Any]) -> list[Any]:
    """Return what differs between two tables, column by column."""
    if found[0] != expected[0] or len(found[1]) != len(expected[1]):
        return [(found[0], len(found[1])), (expected[0], len(expected[1]))]
    return [
        (column, a, b)
        for one, two in zip(found[1], expected[1], strict=True)
        for column, a, b in zip(found[0], one, two, strict=True)
        if (a, type(a)) != (b, type(b))
    ]


@pytest.mark.mysql
@pytest.mark.parametrize("name", keeping(KEPT, CASES))
def test_the_file_has_what_a_server_has(name: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    binlog = merged(name, tmp_path / "merged")
    prepare(mysql_server, name)
    mysql_server.execute("SET GLOBAL time_zone = '+00:00'")
    result = replay(binlog, target_of(mysql_server, binlog), ReplayOptions())
    text = name == "all-types"
    mine = loaded(binlog, tmp_path / "file.db", text)
    expected, found = tables_at(mysql_server, text), tables_of(tmp_path / "file.db")
    assert found.keys() == expected.keys()
    for table in expected:
        assert differences(found[table], expected[table]) == [], table
    assert mine.to_dict() == result.to_dict()
    assert loaded(binlog, tmp_path / "file.db", text).transactions == 0


CASE = "three-nodes-online-ddl"


@pytest.fixture(scope="module")
def binlog(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A merged binlog of 210 transactions, two of them DDL."""
    return merged(CASE, tmp_path_factory.mktemp("merged"))


@pytest.fixture(scope="module")
def expected(binlog: Log, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a file has after all of it."""
    path = tmp_path_factory.mktemp("whole") / "file.db"
    loaded(binlog, path)
    return tables_of(path)


def test_ranges_join_without_a_seam(binlog: Log, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"  # as its schema is called
    for last in (1, 60, 90, 91, 92, 200):
        assert loaded(binlog, path, last_rank=last).last_rank == last
    with pytest.raises(ConfigError, match="a replay goes on at 201, not at 5"):
        loaded(binlog, path, first_rank=5)
    result = loaded(binlog, path, first_rank=201)
    assert (result.first_rank, result.transactions) == (201, 10) and tables_of(path) == expected


@pytest.mark.extended  # windows of any size: log/test_segments
def test_small_windows_come_to_the_same(
    binlog: Log, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window of a few events: most transactions come in several segments."""
    from binlog_merge.tables import load as module

    monkeypatch.setattr(module, "segments", lambda *given: segments(*given, window=700))
    loaded(binlog, tmp_path / "file.db")
    assert tables_of(tmp_path / "file.db") == expected


def command(binlog: Log, path: Path) -> list[str]:
    verb = ["replay", "--from", str(binlog.directory), "--to", f"duckdb://{path}"]
    return [sys.executable, "-m", "binlog_merge.cli.main", *verb]


@pytest.mark.parametrize("place", keeping(["replay-committed"], ["replay-before-commit", "replay-committed"]))
def test_killed_it_goes_on_without_a_seam(place: str, binlog: Log, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    loaded(binlog, path, last_rank=50)
    verb = ["replay", "--from", binlog.directory, "--to", f"duckdb://{path}"]
    for _ in range(2):
        killed = forked_command(verb, f"{place}:kill")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    loaded(binlog, path)
    assert tables_of(path) == expected


@pytest.mark.soak
def test_killed_at_any_moment(binlog: Log, expected: Any, tmp_path: Path) -> None:
    moments = random.Random(3)
    for number in range(40):
        path = tmp_path / f"{number}.db"
        loaded(binlog, path, last_rank=1)
        process = subprocess.Popen(
            command(binlog, path), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(1.0 + moments.random() * 2)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        loaded(binlog, path)
        assert tables_of(path) == expected


def test_one_at_a_time_and_only_its_own_file(binlog: Log, tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    loaded(binlog, path, last_rank=5)
    with pytest.raises(ConfigError, match="was begun with --temporal typed"):
        loaded(binlog, path, text=True)
    with pytest.raises(ConfigError, match="has the tables of cluster"), DuckdbTarget(path, "other"):
        pass
    holder = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        with pytest.raises(TargetBusy, match="another process has it open"):
            loaded(binlog, path)
        process.kill()


@pytest.mark.parametrize("rank", [50, 210])
def test_another_output_is_refused(rank: int, binlog: Log, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    loaded(binlog, path, last_rank=rank)
    with duckdb.connect(str(path)) as connection:
        ((key,),) = connection.execute("SELECT order_key FROM binlog_merge.replay_position").fetchall()
        connection.execute("UPDATE binlog_merge.replay_position SET order_key = repeat('7', 54)")
    with pytest.raises(ReplayStopped, match=f"(?s)transaction {rank} has the order key 7.*another output"):
        loaded(binlog, path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE binlog_merge.replay_position SET order_key = ?", [key])
    loaded(binlog, path)
    assert tables_of(path) == expected


def test_a_schema_store_is_no_target(binlog: Log, tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with Store.open(path):
        pass
    with pytest.raises(ConfigError, match="is a schema store"):
        loaded(binlog, path)


def test_a_row_that_is_not_there_is_named(binlog: Log, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    loaded(binlog, path, last_rank=60)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE kept AS FROM shop.orders; DELETE FROM shop.orders")
    with pytest.raises(ReplayStopped, match=r"of shop.orders: there is no such row") as caught:
        loaded(binlog, path)
    assert caught.value.file and caught.value.position and caught.value.order_key
    assert f"{binlog.cluster_uuid}:" in caught.value.message and "--skip" in str(caught.value)
    with duckdb.connect(str(path)) as connection:
        connection.execute("INSERT INTO shop.orders FROM kept; DROP TABLE kept")
    loaded(binlog, path)
    assert tables_of(path) == expected


def test_a_row_that_is_there_already_is_named(binlog: Log, tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    loaded(binlog, path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE binlog_merge.replay_position SET rank = 209, order_key = NULL")
    with pytest.raises(ReplayStopped, match=r"(the row is there already|there is no such row)"):
        loaded(binlog, path)


def test_a_skipped_transaction_is_recorded(binlog: Log, tmp_path: Path) -> None:
    result = loaded(binlog, tmp_path / "file.db", last_rank=5, skip=frozenset({3}))
    assert result.skipped == [f"{binlog.cluster_uuid}:3"]
    with duckdb.connect(str(tmp_path / "file.db")) as connection:
        rows = connection.execute("SELECT rank, gtid FROM binlog_merge.replay_skipped").fetchall()
    assert rows == [(3, f"{binlog.cluster_uuid}:3")]


def test_filters_choose_rows_and_columns(binlog: Log, tmp_path: Path) -> None:
    dear = "id % 3 = 0"
    rules = [ExpressionRule(["shop.orders"], insert=dear, update_old=dear, update_new=dear, delete=dear)]
    chosen = Filter(
        FilterSettings(expression_rules=rules, column_selectors=[ColumnSelector(["shop.*"], ["id", "pri*"])])
    )
    result = loaded(binlog, tmp_path / "file.db", filter=chosen)
    assert result.to_dict() == dry_run(binlog, ReplayOptions(filter=chosen)).to_dict()
    columns, rows = tables_of(tmp_path / "file.db")["shop", "orders"]
    assert columns == ["id", "price"] and rows and all(row[0] % 3 for row in rows)


def test_filters_look_at_the_columns_that_minimal_images_hold(tmp_path: Path) -> None:
    binlog = merged("row-image-minimal", tmp_path / "merged")

    def ways(rule: ExpressionRule) -> list[Callable[[], ReplayResult]]:
        chosen = Filter(FilterSettings(expression_rules=[rule]))
        return [
            lambda: dry_run(binlog, ReplayOptions(filter=chosen)),
            lambda: loaded(binlog, tmp_path / f"{len(list(tmp_path.iterdir()))}.db", filter=chosen),
        ]

    # An UPDATE's after image does not hold a key that stays as it is; the before image says what it is.
    old, new = (
        ExpressionRule(["d1.docs"], update_old="id % 2 = 0"),
        ExpressionRule(["d1.docs"], update_new="id % 2 = 0"),
    )
    told = [way().to_dict() for way in (*ways(old), *ways(new))]
    assert all(one == told[0] for one in told) and told[0]["rows_left_out"]["d1.docs"]["update"]
    for way in ways(ExpressionRule(["d1.docs"], delete="n > 5")):  # only keys are in what a DELETE's image holds
        with pytest.raises(ConfigError, match="needs the column n, which the rows do not hold"):
            way()


def test_a_statement_that_is_ignored_leaves_the_table_as_it_is(binlog: Log, tmp_path: Path) -> None:
    chosen = Filter(FilterSettings(event_rules=[EventRule(["shop.orders"], ["add column"], [])]))
    result = loaded(binlog, tmp_path / "file.db", filter=chosen)
    assert len(result.statements) == len(result.left_out) == 1
    columns, rows = tables_of(tmp_path / "file.db")["shop", "orders"]
    assert "note" not in columns and rows


def test_dates_that_duckdb_has_no_place_for(tmp_path: Path) -> None:
    binlog = merged("all-types", tmp_path / "merged")
    with pytest.raises(ConversionFailed, match="--temporal text"):
        loaded(binlog, tmp_path / "file.db")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(["--to", "duckdb://"], "is no file"), (["--to", "duckdb://host/x"], "is no file")],
)
def test_wrong_arguments(
    binlog: Log, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], reason: str
) -> None:
    assert run(["replay", "--from", str(binlog.directory), *arguments]) == 2
    assert reason in capsys.readouterr().err


STATEMENTS = """
CREATE DATABASE other CHARACTER SET latin1;
CREATE TABLE a (id INT PRIMARY KEY, x VARCHAR(10), y INT NOT NULL DEFAULT 7, d DECIMAL(10,2), j JSON, t TIME(3));
INSERT INTO a VALUES (1, '12', 1, 1.55, '{"a": [1, null]}', '-25:00:00.5'), (2, '-7', 2, 2, NULL, NULL);
INSERT INTO a VALUES (3, NULL, 3, NULL, '1.0', '00:00:01');
ALTER TABLE a ADD COLUMN n INT FIRST, ADD COLUMN s VARCHAR(20) NOT NULL DEFAULT 'it''s';
ALTER TABLE a ADD COLUMN g INT AS (y * 2 + 1) STORED AFTER id;
UPDATE a SET n = 5, y = 9 WHERE id = 1;
ALTER TABLE a MODIFY x INT, CHANGE d d2 VARCHAR(20), DROP COLUMN n;
ALTER TABLE a RENAME COLUMN x TO y2, RENAME COLUMN j TO x;
INSERT INTO a (id, y, y2, x) VALUES (4, 4, 4, '"four"');
ALTER TABLE a MODIFY y BIGINT UNSIGNED NOT NULL, MODIFY t VARCHAR(30);
ALTER TABLE a ADD e ENUM('p', 'q') NOT NULL, ADD f TIMESTAMP NULL;
ALTER TABLE a ADD b BINARY(3) NOT NULL DEFAULT 'ab', ADD w DECIMAL(50, 5) DEFAULT 1.5;
RENAME TABLE a TO other.a2;
INSERT INTO other.a2 (id, y, y2, e, f, b) VALUES (5, 5, 5, 'p', '2026-01-01 00:00:00', 'c');
ALTER TABLE other.a2 MODIFY b BINARY(5), MODIFY e VARCHAR(5) CHARACTER SET utf8mb4, MODIFY w DECIMAL(20, 2);
CREATE TABLE b (k VARCHAR(5), v INT);
INSERT INTO b VALUES ('x', 1), ('x', 1), ('y', NULL), ('x', 1), ('z', 2);
DELETE FROM b WHERE k = 'x' LIMIT 2;
UPDATE b SET v = 3 WHERE k = 'y';
CREATE TABLE c LIKE b;
INSERT INTO c SELECT * FROM b;
TRUNCATE TABLE b;
CREATE TABLE p (x INT, y INT, z VARCHAR(5), PRIMARY KEY (x, y));
INSERT INTO p VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, 'c');
UPDATE p SET x = x + 10, y = y + 1 ORDER BY x DESC;
UPDATE p SET z = 'd' WHERE x = 11 AND y = 3;
DELETE FROM p WHERE x = 12;
RENAME TABLE b TO tmp, c TO b, tmp TO c;
INSERT INTO c VALUES ('c', 1);
CREATE TABLE gone (id INT); INSERT INTO gone VALUES (1); DROP TABLE gone;
CREATE DATABASE third; CREATE TABLE third.t (id INT); DROP DATABASE third;
CREATE TABLE u (id INT UNIQUE, n INT NOT NULL UNIQUE); INSERT INTO u VALUES (NULL, 1), (NULL, 2), (3, 3);
UPDATE u SET id = 9 WHERE n = 1; DELETE FROM u WHERE n = 2;
"""


@pytest.mark.mysql
def test_ddl_does_to_rows_what_a_server_does(mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute("SET GLOBAL time_zone = '+00:00'")
    run_statements(mysql_server, STATEMENTS, "one")
    binlog = as_merged(mysql_server, tmp_path / "merged")
    loaded(binlog, tmp_path / "file.db")
    expected, found = tables_at(mysql_server), tables_of(tmp_path / "file.db")
    assert found.keys() == expected.keys()
    for table in expected:
        assert differences(found[table], expected[table]) == [], table
