"""`binlog-merge schema` on a store of a small cluster: every verb, every format, every way to refuse."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from binlog_merge.cli import main
from snapshot_store.ddl import apply_ddl, parse_dump
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Catalog, Schema
from snapshot_store.store.db import Store
from snapshot_store.tso import ORIGIN, OrderKey
from tests.mysql_server import MySqlServer
from tests.snapshot_store.ask.test_questions import HISTORY, TOPOLOGY
from tests.time_travel.one_server import merged_of

Captured = pytest.CaptureFixture[str]
FORMATS = ("text", "json", "sql")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "out" / "schema.duckdb"
    path.parent.mkdir()
    with Store.open(path) as one:
        one.append_versions(HISTORY.versions)
        one.set_topology(TOPOLOGY)
    return path


def run(capsys: Captured, *arguments: object, code: int = 0) -> str:
    assert main.run(["schema", *map(str, arguments)]) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out if code in (0, 1) else captured.err


def answer(capsys: Captured, *arguments: object, code: int = 0) -> Any:
    document = json.loads(run(capsys, *arguments, "-o", "json", code=code))
    assert document["schema_version"] == 1 and document["error"] is None
    return document


def history_of(path: Path) -> SchemaHistory:
    with Store.open(path, read_only=True) as one:
        return one.load_history()


def test_help(capsys: Captured) -> None:
    listed = run(capsys)
    for verb in ("import", "show", "history", "diff", "skew", "set", "check", "sql", "export", "fold"):
        assert f"\n  {verb} " in listed
        assert "--store" in run(capsys, verb, "--help")


def test_show(store: Path, capsys: Captured) -> None:
    text = run(capsys, "show", "shop.orders", "--store", store)
    assert text.startswith("shop.orders  version 2, since TSO 30, marker logical.1:4\n")
    assert "`name` varchar(20) DEFAULT NULL" in text
    (old,) = answer(capsys, "show", "orders", "--store", store.parent, "--at-tso", 29)["tables"]
    assert (old["version"], old["order_key"], old["time"], old["origin"]) == (1, "0" * 54, None, "base")
    assert [column["name"] for column in old["definition"]["columns"]] == ["id", "name"]
    sql = run(capsys, "show", "orders", "--physical", "--store", store, "--at-tso", 25, "-o", "sql")
    assert set(parse_dump(sql).tables) == {("shop_1", "orders_1"), ("shop_2", "orders_2")}
    both = answer(capsys, "show", "*.orders", "shop.gone", "--store", store, "--at-tso", 45)["tables"]
    assert [table["table"] for table in both] == ["orders", "gone"]
    assert answer(capsys, "show", "orders_?", "--node", "n2", "--store", store)["tables"][0]["node"] == "n2"


def test_the_store_of_the_current_directory_is_the_default(
    store: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    assert "shop.orders" in run(capsys, "show", "orders")


def test_history(store: Path, capsys: Captured) -> None:
    text = run(capsys, "history", "shop.*", "--store", store)
    for part in ("shop.orders  2 versions", "+ column `note` int DEFAULT '5' after id", "DROP TABLE gone", "- table"):
        assert part in text
    versions = answer(capsys, "history", "orders", "--store", store, "--from", 30)["versions"]
    assert [v["kind"] for v in versions] == ["changed"]
    assert [c["kind"] for c in versions[0]["changes"]] == ["column-added", "column-changed"]
    assert "ALTER TABLE orders_1 …;" in run(capsys, "history", "orders", "--physical", "--store", store, "-o", "sql")
    assert "no versions" in run(capsys, "history", "orders", "--store", store, "--from", 31)


def test_diff(store: Path, capsys: Captured) -> None:
    text = run(capsys, "diff", "orders", "--store", store, "--from", 0, "--to", 30)
    assert text.startswith("shop.orders  version 1 -> version 2\n  + column `note` int DEFAULT '5' after id\n")
    statements = run(capsys, "diff", "orders", "--store", store, "--from", 0, "--to", 30, "-o", "sql")
    before = HISTORY.at("shop", "orders", OrderKey(1, 0, 0, 0))
    after = HISTORY.at("shop", "orders", OrderKey(99, 0, 0, 0))
    assert before is not None and before.table is not None and after is not None
    catalog = Catalog({"shop": Schema("shop")}, {("shop", "orders"): before.table})
    sql = statements.split("\n", 1)[1].rstrip().rstrip(";")
    assert apply_ddl(catalog, sql, None).catalog.get("shop", "orders") == after.table
    (made,) = answer(capsys, "diff", "gone", "--store", store, "--from", 0, "--to", 45)["tables"]
    assert made["from"] is None and made["alter"][0].startswith("CREATE TABLE")
    same = run(capsys, "diff", "orders", "--store", store, "--from", 30, "--to", 31)
    assert same == "shop.orders  version 2 -> version 2: the same\n"


def test_skew(store: Path, capsys: Captured) -> None:
    text = run(capsys, "skew", "--store", store, "--at-tso", 32)
    assert text.splitlines()[0].startswith("2 physical tables at TSO 32, 1 of them differs")
    assert "n2  shop_2.orders_2  version 2: pads note int with '5'; converts name varchar(10) -> varchar(20)" in text
    document = answer(capsys, "skew", "orders", "--store", store, "--at-tso", 25)
    assert [(s["node"], s["trimmed"], s["reshaped"]) for s in document["skews"]] == [("n1", ["note"], True)]
    assert "DROP COLUMN `note`" in run(capsys, "skew", "--store", store, "--at-tso", 25, "-o", "sql")


def test_routes_may_come_from_a_configuration(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as one:
        one.append_versions(HISTORY.versions)
    routes = [
        {"schema-pattern": "shop_*", "table-pattern": "orders_*", "target-schema": "shop", "target-table": "orders"}
    ]
    nodes = [{"source-id": name, "files": f"{name}/*"} for name in ("n1", "n2")]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"version": 1, "name": "c", "nodes": nodes, "routes": routes}))
    asked = ["skew", "orders", "--store", path, "--at-tso", 25]
    assert "unknown-table" in run(capsys, *asked, code=33)
    assert answer(capsys, *asked, "--config", tmp_path / "c.yaml")["compared"] == 2


def test_check(store: Path, capsys: Captured) -> None:
    text = run(capsys, "check", "--store", store, code=1)
    assert text.startswith("2 logical tables, 2 physical tables, 9 versions: 2 findings, 1 to look into\n")
    assert "behind: n2  shop_2.orders_2, from TSO 30 until TSO 35: pads note" in text
    document = answer(capsys, "check", "--store", store, code=1)
    assert [(f["kind"], f["problem"]) for f in document["findings"]] == [("behind", True), ("ahead", False)]
    run(capsys, "check", "--store", store, "-o", "sql", code=1)


def test_sql(store: Path, capsys: Captured) -> None:
    counts = "SELECT node, count(*) AS n FROM versions GROUP BY ALL ORDER BY ALL"
    assert answer(capsys, "sql", counts, "--store", store)["rows"] == [["n1", 2], ["n2", 3], [None, 4]]
    text = run(capsys, "sql", counts, "--store", store)
    assert text.splitlines() == ["node  n", "----  -", "n1    2", "n2    3", "NULL  4", "(3 rows)"]
    lines = run(capsys, "sql", counts, "--store", store, "-o", "jsonl").splitlines()
    assert [(row["node"], row["n"]) for row in map(json.loads, lines)] == [("n1", 2), ("n2", 3), (None, 4)]
    assert "'sql' is not one of" in run(capsys, "sql", counts, "--store", store, "-o", "sql", code=2)
    for view in ("versions", "tables", "columns", "indexes", "databases", "tables_at(25)"):
        run(capsys, "sql", f"FROM {view}", "--store", store)
    columns = "SELECT column_name FROM columns WHERE node IS NULL AND version_id = 2 ORDER BY ordinal"
    assert answer(capsys, "sql", columns, "--store", store)["rows"] == [["id"], ["note"], ["name"]]
    for refused in (
        "DELETE FROM table_versions",
        "FROM 'x.csv'",
        "SELEC",
        "ATTACH 'y'",
        "SET lock_configuration=false",
        "",
        "-- nothing",
    ):
        assert "config: " in run(capsys, "sql", refused, "--store", store, code=2)
    assert history_of(store).versions == HISTORY.versions


def test_set(store: Path, tmp_path: Path, capsys: Captured) -> None:
    sql = tmp_path / "fix.sql"
    sql.write_text("ALTER TABLE orders ADD COLUMN fixed INT;\n")
    text = run(capsys, "set", "shop.orders", "--sql", sql, "--at-tso", 70, "--store", store)
    assert text.startswith(f"shop.orders  version 5, since TSO 70, operator {sql}\n") and "`fixed` int" in text
    run(capsys, "set", "shop.orders", "--sql", sql, "--at-tso", 70, "--store", store)  # the same again changes nothing
    sql.write_text("CREATE TABLE orders (other INT)")
    assert "schema-conflict" in run(
        capsys, "set", "shop.orders", "--sql", sql, "--at-tso", 70, "--store", store, code=38
    )
    key = OrderKey(71, 5, 4, 3)
    wrong = run(
        capsys, "set", "shop_1.orders_1", "--node", "n1", "--sql", sql, "--at-tso", 71, "--store", store, code=2
    )
    assert "the statement is about shop_1.orders, not shop_1.orders_1" in wrong
    sql.write_text("CREATE TABLE shop_1.orders_1 (other INT)")
    run(capsys, "set", "shop_1.orders_1", "--node", "n1", "--sql", sql, "--at-tso", key.text(), "--store", store)
    sql.write_text("DROP TABLE orders")
    run(capsys, "set", "shop.orders", "--sql", sql, "--at-tso", 72, "--store", store)
    history = history_of(store)
    versions = [v for v in history.versions if v.origin == "operator"]
    assert [(v.key.commit_tso, v.node, v.table is None) for v in versions] == [
        (70, None, False),
        (72, None, True),
        (71, "n1", False),
    ]
    assert versions[2].key == key
    for bad, code in (("ALTER TABLE nothing ADD x INT", 33), ("ALTER TABLE orders FROBNICATE", 26), ("SET x = 1", 2)):
        sql.write_text(bad)
        run(capsys, "set", "shop.orders", "--sql", sql, "--at-tso", 69, "--store", store, code=code)


def test_import_of_dumps(tmp_path: Path, capsys: Captured) -> None:
    path, dump = tmp_path / "new.duckdb", tmp_path / "dump.sql"
    dump.write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a INT); CREATE TABLE u (a INT);")
    assert "3 new versions" in run(capsys, "import", "--sql", dump, "--store", path)
    assert "0 new versions" in run(capsys, "import", "--sql", dump, "--store", path)
    dump.write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a BIGINT);")
    assert answer(capsys, "import", "--sql", dump, "--store", path, "--node", "n1", "--at-tso", 5)["new"] == 2
    assert "schema-conflict" in run(capsys, "import", "--sql", dump, "--store", path, code=38)
    assert answer(capsys, "import", "--sql", dump, "--store", path, "--at-tso", 9)["new"] == 1
    history = history_of(path)
    assert [(v.node, v.key.commit_tso, v.name) for v in history.versions] == [
        (None, 0, "t"),
        (None, 0, "u"),
        (None, 9, "t"),
        ("n1", 5, "t"),
    ]
    assert "before-base" in run(capsys, "show", "d.t", "--node", "n1", "--at-tso", 4, "--store", path, code=34)
    assert {v.origin for v in history.versions} == {"base"}


@pytest.mark.mysql
def test_import_of_a_server(mysql_server: MySqlServer, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "new.duckdb"
    url = f"mysql://root@localhost/?socket={mysql_server.socket}"
    (tmp_path / "password").write_text("\n")
    options = ["--server", url, "--store", path, "--node", "n1", "--password-file", tmp_path / "password"]
    mysql_server.execute(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT); CREATE TABLE d.u (a INT); CREATE TABLE d.v (a INT)"
    )
    assert len(answer(capsys, "import", *options)["tables"]) == 3
    mysql_server.execute("DROP TABLE d.u; ALTER TABLE d.t ADD b INT")
    assert "d.t, d.u (gone)" in run(capsys, "import", *options, "--at-tso", 5)
    history = history_of(path)
    changed = [(v.name, v.table is None, v.file.startswith("binlog.")) for v in history.versions if v.key > ORIGIN]
    assert changed == [("t", False, True), ("u", True, True)]
    assert "server: " in run(capsys, "import", "--server", "mysql://root@127.0.0.1:1", "--store", path, code=39)
    assert "unknown-table: " in run(capsys, "import", *options, "--schema", "x", code=33)


def test_export_import_and_fold(store: Path, tmp_path: Path, capsys: Captured) -> None:
    run(capsys, "export", tmp_path / "parquet", "--store", store)
    run(capsys, "import", "--parquet", tmp_path / "parquet", "--store", tmp_path / "copy.duckdb")
    assert history_of(tmp_path / "copy.duckdb") == HISTORY
    assert "store: " in run(capsys, "import", "--parquet", tmp_path / "parquet", "--store", store, code=37)
    assert "store: " in run(capsys, "export", tmp_path / "parquet", "--store", store, code=37)
    assert answer(capsys, "fold", "--at-tso", 33, "--store", store, )["removed"] == 2  # fmt: skip
    assert "before-base" in run(capsys, "show", "orders", "--at-tso", 20, "--store", store, code=34)
    assert "before-base" in run(capsys, "skew", "--at-tso", 20, "--store", store, code=34)
    assert "shop.orders  version 2" in run(capsys, "show", "orders", "--at-tso", 33, "--store", store)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "shop.ordres"], 33, "has no table shop.ordres: is it shop.orders"),
        (["show", "ordres", "--physical"], 33, "no node has a physical table of ordres"),
        (["show", "orders", "--node", "n7"], 33, "the history of node n7 has no table orders"),
        (["show", "gone"], 33, "shop.gone was gone at the end: DROP TABLE gone"),
        (["show", "a.b.c"], 2, "is not a table's name"),
        (["show", "orders", "--at-tso", "soon"], 2, "'soon' is no moment"),
        (["show", "orders", "--at-tso", "1", "--at-time", "2026-01-01"], 2, "say the same"),
        (["show", "orders", "--at-time", "2026-01-01"], 2, "commit TSOs carry none"),
        (["diff", "orders", "--from", "9", "--to", "3"], 2, "is later than"),
        (["diff", "orders", "--from", "9"], 2, "--to"),
        (["show"], 2, "TABLE"),
        (["import"], 2, "one of --sql, --server, --parquet and --nodes"),
        (["import", "--sql", "no.sql"], 31, "cannot be read"),
        (["set", "shop.*", "--sql", "no.sql", "--at-tso", "1"], 2, "does not name one table"),
    ],
)
def test_what_is_refused_says_why(store: Path, arguments: list[str], code: int, says: str, capsys: Captured) -> None:
    assert says in run(capsys, *arguments, "--store", store, code=code)
    assert main.run(["schema", *arguments, "--store", str(store), "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code


def test_a_store_that_is_not_there_damaged_newer_or_in_use(store: Path, tmp_path: Path, capsys: Captured,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    assert "is not there" in run(capsys, "show", "t", "--store", tmp_path / "none", code=37)
    assert "no directory" in run(capsys, "import", "--parquet", tmp_path, "--store", tmp_path / "no" / "s", code=2)
    (tmp_path / "text").write_text("hello " * 1000)
    assert "is damaged, or no schema store" in run(capsys, "show", "t", "--store", tmp_path / "text", code=37)
    connection = duckdb.connect(str(store))
    connection.execute("UPDATE store_info SET version = 99")
    connection.close()
    assert "store-too-new: the store has version 99" in run(capsys, "show", "t", "--store", store, code=36)
    monkeypatch.setattr(Store.open.__func__, "__defaults__", (False, 0.2))  # type: ignore[attr-defined]
    other, dump = tmp_path / "other", tmp_path / "dump.sql"
    dump.write_text("CREATE DATABASE d; CREATE TABLE d.t (a INT)")
    code = "import time; from pathlib import Path; from snapshot_store.store.db import Store; "
    code += f"c = Store.open(Path({str(other)!r})); c.__enter__(); print('open', flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "open\n"
    try:
        assert "written to by another process" in run(capsys, "import", "--sql", dump, "--store", other, code=35)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.mark.parametrize("output", FORMATS)
def test_names_cannot_steer_the_terminal(tmp_path: Path, output: str, capsys: Captured) -> None:
    dump = tmp_path / "d.sql"
    dump.write_text("CREATE DATABASE d; USE d; CREATE TABLE `\x1b[31mred` (`\x1b[0m` INT COMMENT '\x1b')")
    run(capsys, "import", "--sql", dump, "--store", tmp_path / "s")
    question = () if output == "sql" else (["sql", "SELECT table_name FROM versions"],)
    for verb in (["show", "*"], ["history", "*"], ["check"], *question):
        assert "\x1b" not in run(capsys, *verb, "--store", tmp_path / "s", "-o", output)


def test_asking_loads_nothing_heavy(store: Path) -> None:
    program = (
        "import sys; from binlog_merge.cli.main import run\n"
        f"code = run(['schema', 'show', 'shop.orders', '--store', {str(store)!r}])\n"
        "heavy = {'pyspark', 'sqlglot', 'numba', 'pandas', 'pyarrow', 'pymysql'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_merge_stops_at_is_said_before_it_does(tmp_path: Path, capsys: Captured) -> None:
    """TIME has no date in it: rows cannot be reshaped from the one MODIFY to the other."""
    path = tmp_path / "schema.duckdb"
    texts = {5: "c TIME", 6: "c TIME, more INT", 7: "c DATE, more INT"}
    create = "CREATE TABLE t (id INT PRIMARY KEY, {})"
    shapes = {n: parse_dump(create.format(text), "d").tables["d", "t"] for n, text in texts.items()}
    steps = [(ORIGIN, shapes[7], None), (ORIGIN, shapes[7], "n1")]
    steps += [(OrderKey(n, 0, 0, 1), shapes[n], "n1") for n in texts]
    with Store.open(path) as one:
        one.append_versions(TableVersion(key, 0, "d", "t", table, node=node) for key, table, node in steps)
    reason = "column c: time cannot be converted to date"
    text = run(capsys, "skew", "--store", path, "--at-tso", 5)
    assert (
        "1 of them differs from the logical table, a merge stops at rows of 1" in text and f"REFUSED, {reason}" in text
    )
    (skew,) = answer(capsys, "skew", "--store", path, "--at-tso", 6)["skews"]
    assert len(skew["refused"]) == 1 and skew["refused"][0].startswith(reason)
    checked = run(capsys, "check", "--store", path, code=1)
    assert "1 finding, 1 to look into" in checked and reason in checked
    document = answer(capsys, "check", "--store", path, code=1)
    assert document["problems"] == 1 and document["findings"][0]["refused"][0].startswith(reason)
    assert "REFUSED" not in run(capsys, "skew", "--store", path, "--at-tso", 7)


def test_what_is_said_wins_over_a_ddl_at_its_place(store: Path, tmp_path: Path, capsys: Captured) -> None:
    sql = tmp_path / "fix.sql"
    sql.write_text("ALTER TABLE orders ADD COLUMN fixed INT")
    (there,) = answer(capsys, "show", "shop.orders", "--store", store)["tables"]
    for _ in range(2):
        text = run(capsys, "set", "shop.orders", "--sql", sql, "--at-tso", there["order_key"], "--store", store)
    following = OrderKey.parse(there["order_key"])
    assert following._replace(node_seq=following.node_seq + 1).text() in text
    assert "`fixed` int" in run(capsys, "show", "shop.orders", "--store", store, "--at-tso", there["commit_tso"])


def test_check_of_some_tables(store: Path, capsys: Captured) -> None:
    every = answer(capsys, "check", "--store", store, code=1)
    some = answer(capsys, "check", "shop.ord*", "--store", store, code=1)
    assert some["findings"] == every["findings"] != []
    assert some["logical_tables"] == 1 < every["logical_tables"]
    other = answer(capsys, "check", "gone", "--store", store)
    assert (other["findings"], other["logical_tables"]) == ([], 1)
    assert "has no table nothing" in run(capsys, "check", "nothing", "--store", store, code=33)


RAW = b"""USE one; SET NAMES utf8mb4;
CREATE TABLE raw (id INT, v VARCHAR(9) CHARACTER SET latin1 DEFAULT _latin1'\xe4',
  y VARCHAR(9) DEFAULT (_latin1'\xe4 it\\'s'), z VARCHAR(9) AS (CONCAT(v, _latin1'\xe4')), w BINARY(3) DEFAULT '\xff',
  CHECK (y <> _gbk'\xb6\xa9')) COMMENT='caf\xc3\xa9'"""


@pytest.mark.mysql
def test_bytes_that_are_no_utf8_are_shown_as_sql_that_makes_the_same_table(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    mysql_server.execute("CREATE DATABASE one")
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.apply(RAW)
    merged = merged_of(mysql_server, tmp_path).directory
    shown = answer(capsys, "show", "one.raw", "--merged", merged)
    (table,) = shown["tables"]
    json.dumps(shown, ensure_ascii=False).encode()  # there is nothing in it that is no text
    assert "_latin1 x'e42069742773'" in table["create"] and "_gbk x'b6a9'" in table["create"]
    assert table["definition"]["columns"][1]["default"]["text"] == "ä"
    sql = run(capsys, "show", "one.raw", "--merged", merged, "-o", "sql")
    mysql_server.execute("CREATE DATABASE two")
    mysql_server.apply(sql.replace("`one`.", "`two`.").encode())
    rows = []
    for name in ("one", "two"):
        mysql_server.execute(f"INSERT INTO {name}.raw (id) VALUES (1)")
        rows += mysql_server.query(f"SELECT HEX(v), HEX(y), HEX(z), HEX(w) FROM {name}.raw")
    assert rows == [("E4", "C3A42069742773", "C3A4C3A4", "FF0000")] * 2
