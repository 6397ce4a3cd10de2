"""A whole filter file: what is read, what it decides, what it says when it is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli.main import run
from binlog_merge.errors import ConfigError
from binlog_merge.filters.config import load_filter
from binlog_merge.filters.ddl import ASKED, DdlEvent, ddl_events
from binlog_merge.filters.events import BinlogEventRule, EventRule
from binlog_merge.filters.filter import Filter, FilterSettings, verify
from binlog_merge.filters.incompatible import event_type
from snapshot_store import parse_table
from snapshot_store.ddl import ParsedDdl
from tests.filters.dm_words import is_builtin_skipped
from tests.filters.vectors import vectors

CASES = vectors("event_filter.json")


def chosen(test: Any) -> Any:
    found = [pytest.param(case, id=case["id"]) for case in CASES if test(case)]
    skipped = [pytest.param({}, marks=pytest.mark.skip("no event_filter.json beside the repository"))]
    return pytest.mark.parametrize("case", found or skipped)


def settings(case: dict[str, Any]) -> FilterSettings:
    block_allow = {key.replace("-", "_"): value for key, value in case.get("block_allow_list", {}).items()}
    return FilterSettings(
        case_sensitive=True,
        rules=case.get("table_rules", ["*.*"]),
        ignore_start_ts=frozenset(case.get("ignore_txn_start_ts", ())),
        event_rules=[EventRule(**rule) for rule in case.get("event_filters", ())],
        binlog_rules=[BinlogEventRule(**rule) for rule in case.get("rules", ())],
        block_allow=block_allow,
    )


def ddl_event(event: dict[str, Any]) -> DdlEvent:
    """Return a statement as TiCDC hands it to its filter: kind and table beside the text."""
    query = event.get("query", event.get("sql", ""))
    return DdlEvent(
        "ActionCreateTable", event["type"], ((event["schema"], event["table"]),), query, ParsedDdl.of(query, ASKED)
    )


@chosen(lambda c: "table_rules" in c and c["event"]["kind"] == "dml")
def test_rows_ignored_as_in_ticdc(case: dict[str, Any]) -> None:
    made, event = Filter(settings(case)), case["event"]
    ignored = (
        made.transaction(event["start_ts"]).ignored or made.rows(event["schema"], event["table"], "insert").ignored
    )
    assert ignored is case["ignored"]


@chosen(lambda c: "table_rules" in c and c["event"]["kind"] == "ddl")
def test_statements_as_in_ticdc(case: dict[str, Any]) -> None:
    made, event = Filter(settings(case)), case["event"]
    decision = made.ddl(ddl_event(event), event["start_ts"])
    if "discarded" in case:
        assert (decision.outcome == "discard") is case["discarded"]
    else:
        assert (decision.outcome != "apply") is case["ignored"]


@chosen(lambda c: c["product"] == "dm" and "event" in c and "action" not in c)
def test_events_left_out_as_in_dm(case: dict[str, Any]) -> None:
    made, event = Filter(settings(case)), case["event"]
    if event.get("kind") == "ddl" and "type" not in event:
        parts = ddl_events(event["sql"], event["schema"])
        assert not is_builtin_skipped(event["sql"])
        assert any(made.ddl(part).outcome != "apply" for part in parts) is case["ignored"]
    elif event.get("kind") == "ddl":
        assert (made.ddl(ddl_event(event)).outcome != "apply") is case["ignored"]
    elif "type" in event:
        assert made.rows(event["schema"], event["table"], event["type"]).ignored is case["ignored"]
    else:
        assert made.table(event["schema"], event["table"]).ignored is case["ignored"]


# Our own cases.

TICDC = r"""
case-sensitive = false
[filter]
rules = ['shop.*', '!shop.log_*', '@more.txt']
ignore-txn-start-ts = [3]
ignore-commit-tso = [450000000000000001]
[[filter.event-filters]]
matcher = ['shop.orders']
ignore-event = ['delete', 'drop table', 'create table']
ignore-sql = ['^ALTER.*ENGINE']
ignore-insert-value-expr = "price > 10000 or state = 'NEW'"
[mounter]
worker-num = 16
[sink]
column-selectors = [{matcher = ['shop.users'], columns = ['*', '!password']}]
"""
DM = """
name: shard
timezone: "+08:00"
case-sensitive: false
ignore-commit-tso: [7]
mysql-instances:
  - {source-id: a, block-allow-list: instance, filter-rules: [drops], expression-filters: [cheap]}
  - {source-id: b, block-allow-list: instance, filter-rules: [drops], expression-filters: [cheap]}
block-allow-list:
  instance:
    do-dbs: ["shop_*", "~^live$"]
    ignore-tables: [{db-name: "shop_*", tbl-name: "log*"}]
  unused: {do-dbs: [nothing]}
filters:
  drops: {schema-pattern: "shop_*", table-pattern: "*", events: [drop table, incompatible ddl changes], action: Ignore}
  unused: {schema-pattern: "shop_*", events: [all], action: Error}
expression-filter:
  cheap: {schema: shop_1, table: orders, insert-value-expr: "price < 1", delete-value-expr: "nope = 1"}
"""


def written(folder: Path, name: str, text: str) -> Path:
    (folder / "more.txt").write_text("live.t?\n")
    (folder / name).write_text(text)
    return folder / name


def decided(made: Filter, sql: str, **times: int) -> str:
    (event,) = ddl_events(sql, "shop")
    return made.ddl(event, **times).outcome


def test_ticdc_files(tmp_path: Path) -> None:
    made = verify(load_filter(written(tmp_path, "changefeed.toml", TICDC)))
    assert made.table("Shop", "Orders").action == made.table("live", "t1").action == "Do"
    assert made.table("shop", "log_1").rule.endswith("rules:2: !shop.log_*")
    assert made.table("mysql", "user").ignored and made.table("other", "t").ignored
    assert made.rows("shop", "orders", "delete").ignored and not made.rows("shop", "orders", "insert").ignored
    orders = parse_table("CREATE TABLE orders (id INT, price DECIMAL(9,2), state CHAR(9))", schema="shop")
    assert made.expressions.ignores(orders, "insert", None, [1, "10000.01", "x"])
    assert made.expressions.ignores(orders, "insert", None, [1, "1", "new"])
    assert made.transaction(start_ts=3).ignored and made.transaction(commit_tso=450000000000000001).ignored
    assert not made.transaction(start_ts=4, commit_tso=3).ignored
    columns = made.columns("shop", "users")
    assert columns is not None and columns.matches("name") and not columns.matches("PASSWORD")
    assert made.columns("shop", "orders") is None


def test_what_becomes_of_statements(tmp_path: Path) -> None:
    made = Filter(load_filter(written(tmp_path, "changefeed.toml", TICDC)))
    assert decided(made, "CREATE TABLE orders (a INT)") == "ignore"
    assert decided(made, "CREATE TABLE other.orders (a INT)") == "discard"
    assert decided(made, "ALTER TABLE orders ADD a INT") == "apply"
    assert decided(made, "ALTER TABLE orders ADD a INT", commit_tso=450000000000000001) == "discard"
    assert decided(made, "alter table orders engine = InnoDB") == "ignore"
    assert decided(made, "ALTER TABLE orders ADD CHECK (a > 0)") == "apply"
    assert decided(made, "DROP TABLE log_1") == "discard"
    assert decided(made, "CREATE DATABASE shop") == "apply" and decided(made, "DROP DATABASE other") == "discard"
    assert decided(made, "RENAME TABLE orders TO other.orders") == "apply"
    assert decided(made, "RENAME TABLE other.orders TO orders") == "error"
    assert decided(made, "RENAME TABLE other.a TO other.b") == "discard"


def test_dm_files(tmp_path: Path) -> None:
    made = verify(load_filter(written(tmp_path, "task.yaml", DM)))
    assert made.table("shop_1", "orders").rule == "do-dbs: shop_*"
    assert made.table("shop_1", "log_1").rule == "ignore-tables: shop_*.log*"
    assert made.table("live", "t").action == "Do" and made.table("alive", "t").ignored
    assert made.settings.time_zone == "+08:00" and made.transaction(commit_tso=7).ignored
    assert decided(made, "ALTER TABLE shop_1.orders DROP x") == "ignore"
    assert decided(made, "CREATE TABLE shop_1.orders (a INT)") == "apply"
    assert decided(made, "CREATE TABLE shop_1.orders LIKE shop_1.log_1") == "restate"
    assert decided(made, "RENAME TABLE shop_1.orders TO other.orders") == "ignore"  # its filters say so
    orders = parse_table("CREATE TABLE orders (id INT, price DOUBLE)", schema="shop_1")
    assert made.expressions.ignores(orders, "insert", None, [1, 0.5])
    assert not made.expressions.ignores(orders, "delete", [1, 0.5], None)  # an unknown column ignores nothing
    assert event_type(ParsedDdl.of("ALTER TABLE orders DROP price", ASKED), orders) == "drop column"


ORDERS = parse_table("CREATE TABLE orders (id INT, price DECIMAL(9,2), note VARCHAR(20))", schema="shop")


@pytest.mark.parametrize(
    ("events", "sql", "outcome"),
    [
        (["alter table"], "ALTER TABLE orders ADD x INT", "ignore"),
        (["add column"], "ALTER TABLE orders ADD x INT", "apply"),  # TiCDC's word
        (["alter table"], "ALTER TABLE orders DROP note", "apply"),
        (["incompatible ddl changes"], "ALTER TABLE orders ADD x INT", "apply"),
        (["incompatible ddl changes"], "ALTER TABLE orders DROP note", "ignore"),
        (["modify constraint"], "ALTER TABLE orders ADD UNIQUE (id)", "ignore"),
        (["create index"], "CREATE INDEX i ON orders (id)", "ignore"),
        (["alter schema"], "ALTER DATABASE shop CHARACTER SET utf8mb4", "ignore"),
        (["value range decrease"], "ALTER TABLE orders MODIFY note VARCHAR(10)", "ignore"),
        (["value range decrease"], "ALTER TABLE orders MODIFY note VARCHAR(30)", "apply"),
        (["drop column"], "ALTER TABLE orders DROP note, DROP price", "ignore"),
        (["drop column"], "ALTER TABLE orders DROP note, ADD x INT", "error"),  # DM carries out the other part
        (["rename table"], "RENAME TABLE other.orders TO shop.orders", "ignore"),  # any table named
        (["all ddl"], "DROP TABLE other.orders", "apply"),
    ],
)
def test_dm_judges_statements_in_its_own_words(events: list[str], sql: str, outcome: str) -> None:
    made = Filter(FilterSettings(binlog_rules=[BinlogEventRule("shop", "", events, action="Ignore")]))
    (event,) = ddl_events(sql, "shop")
    assert made.ddl(event, table=ORDERS).outcome == outcome


def test_dm_looks_at_a_statement_without_the_control_characters_around_it() -> None:
    made = Filter(FilterSettings(binlog_rules=[BinlogEventRule("shop", "", [], ["^drop"], "Error")]))
    (event,) = ddl_events("\n\tDROP TABLE orders\n", "shop")
    assert made.ddl(event).outcome == "error"


def test_old_lists_of_ticdc_count_where_there_are_no_rules(tmp_path: Path) -> None:
    lists = "[filter]\nignore-dbs = ['log']\ndo-tables = [{db-name = 'shop', tbl-name = '~^o'}]\n"
    made = Filter(load_filter(written(tmp_path, "a.toml", lists)))
    assert made.table("shop", "orders").action == "Do" and made.table("shop", "x").ignored
    ruled = Filter(load_filter(written(tmp_path, "a.toml", f"{lists}rules = ['log.*']\n")))
    assert ruled.table("log", "x").action == "Do"


WRONG = [
    ("a.toml", "[filter", "not valid TOML"),
    ("a.toml", "x = 1", r"no section \[filter\]; the file has x"),
    ("a.toml", "[filter]\nrule = ['*.*']", "unknown key 'rule' in filter; did you mean 'rules'"),
    ("a.toml", "[filter]\nrules = 'a.b'", "filter.rules"),
    ("a.toml", "[filter]\nrules = ['a']", "wrong table pattern"),
    ("a.toml", "[[filter.event-filters]]\nignore-event = ['insert']", "key 'matcher' is missing"),
    ("a.toml", "[[filter.event-filters]]\nmatcher = ['a.b']\nignore-event = ['insrt']", "did you mean 'insert'"),
    ("a.toml", "[[filter.event-filters]]\nmatcher = ['a.b']\nignore-insert-value-expr = 'a >'", "syntax error"),
    ("a.toml", "[sink]\ncolumn-selectors = [{matcher = ['a'], columns = ['b']}]", "wrong table pattern"),
    ("a.yaml", "filters: {a: {schema-pattern: x, action: ignore}}", "must be Do, Ignore or Error"),
    ("a.yaml", "filters: {a: {schema-pattern: x, acton: Do}}", "unknown key 'acton'"),
    ("a.yaml", "block-allow-list: {a: {do-dbs: []}, b: {}}", "2 block-allow-lists"),
    ("a.yaml", "mysql-instances: [{block-allow-list: nope}]", "names 'nope', which is not there"),
    ("a.yaml", "mysql-instances: [{source-id: a}, {source-id: b, filter-rules: [x]}]", "a, b use different filters"),
    ("a.yaml", "timezone: Mars/North", "'Mars/North' is not known"),
    ("a.yaml", "timezone: '+25:00'", "'\\+25:00' is not known"),
    ("a.yaml", 'filters: {a: {schema-pattern: x, sql-pattern: ["\\ud800"], action: Do}}', "invalid UTF-8"),
    ("a.yaml", "a: [", "not valid YAML"),
    ("a.toml", "[filter]\nignore-commit-tso = [" + "9" * 5000 + "]", "not valid TOML"),
    ("a.toml", "x = " + "[" * 5000, "not valid TOML"),
    ("a.toml", "[filter]\nrules = ['@\\u0000']".replace("'", '"'), "not the name of a file"),
]


@pytest.mark.parametrize(("name", "text", "reason"), WRONG)
def test_bad_files_say_what_is_wrong(tmp_path: Path, name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        verify(load_filter(written(tmp_path, name, text)))
    assert caught.value.file
    with pytest.raises(ConfigError, match=r"cannot read the (filter|configuration)"):
        load_filter(tmp_path / f"missing-{name}")


def test_the_command_says_what_would_happen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, "changefeed.toml", TICDC))
    tables = ["--table", "shop.orders", "--table", "shop.log_1", "--table", "shop.users"]
    statements = ["--ddl", "DROP TABLE orders, users", "--ddl", "FLUSH TABLES"]
    assert run(["filter", "test", "--filter", path, *tables, *statements]) == 0
    assert (
        capsys.readouterr().out
        == f"""\
shop.orders
  table   chosen  by {path}: rules:1: shop.*
  insert  passes, unless ignore-insert-value-expr "price > 10000 or state = 'NEW'"
  update  passes
  delete  ignored  by event-filters[0]: ignore-event delete
shop.log_1
  table   not chosen  by {path}: rules:2: !shop.log_*
shop.users
  table   chosen  by {path}: rules:1: shop.*
  insert  passes
  update  passes
  delete  passes
  columns *, !password
DROP TABLE orders, users
  drop table of shop.orders: ignored: not carried out, but the table changes shape for the rows that follow
    by event-filters[0]: ignore-event drop table
  drop table of shop.users: carried out
    by {path}: rules:1: shop.*
FLUSH TABLES
  changes no table: not carried over
"""
    )
    assert run(["filter", "test", "--filter", path, "-o", "json", "--table", "shop.orders"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tables"][0]["rows"]["delete"]["action"] == "Ignore" and answer["error"] is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "nothing to test"),
        (["--table", "orders"], "must be schema.table"),
        (["--table", "a.b", "--ddl", "ALTER TABEL a"], "unknown kind of ALTER"),
        (["--table", "a.b", "--schema-file", "nowhere.sql"], "cannot read --schema-file"),
    ],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    path = str(written(tmp_path, "changefeed.toml", TICDC))
    assert run(["filter", "test", "--filter", path, *arguments]) in (2, 26)
    assert reason in capsys.readouterr().err


def test_the_command_checks_expressions_on_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, "changefeed.toml", TICDC))
    (tmp_path / "schema.sql").write_text("CREATE DATABASE shop; USE shop; CREATE TABLE orders (id INT);")
    arguments = ["filter", "test", "--filter", path, "--table", "shop.orders"]
    assert run([*arguments, "--schema-file", str(tmp_path / "schema.sql")]) == 2
    assert "Cannot find column 'price' from table 'shop.orders'" in capsys.readouterr().err


MIXED = [
    # statement, outcomes of its parts; c and d are chosen, u and v are not
    ("RENAME TABLE c TO d", ["apply"]),
    ("RENAME TABLE u TO v", ["discard"]),
    ("RENAME TABLE u TO c", ["error"]),
    ("RENAME TABLE c TO u", ["apply"]),
    ("RENAME TABLE c TO v, u TO c", ["apply", "error"]),
    ("RENAME TABLE c TO v, d TO c, v TO d", ["apply", "apply", "apply"]),  # a swap over a name of no choice
    ("RENAME TABLE u TO c, c TO v", ["discard", "discard"]),  # through a chosen name, and out of it
    ("RENAME TABLE u TO v, c TO d", ["discard", "apply"]),
    ("ALTER TABLE u ADD x INT, RENAME TO c", ["error"]),
    ("ALTER TABLE u RENAME c", ["error"]),
    ("ALTER TABLE c ADD x INT, RENAME TO d", ["apply"]),
    ("ALTER TABLE u ADD x INT, RENAME TO v", ["discard"]),
    ("ALTER TABLE c EXCHANGE PARTITION p WITH TABLE d", ["apply"]),
    ("ALTER TABLE c EXCHANGE PARTITION p WITH TABLE u", ["error"]),
    ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE c", ["error"]),
    ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE v", ["discard"]),
    ("CREATE TABLE c LIKE d", ["apply"]),
    ("CREATE TABLE c LIKE u", ["restate"]),
    ("CREATE TABLE u LIKE c", ["discard"]),
    ("CREATE TABLE c SELECT x FROM d", ["apply"]),
    ("CREATE TABLE c SELECT x FROM d JOIN u USING (i)", ["error"]),
    ("CREATE TABLE u SELECT x FROM c", ["discard"]),
    ("CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES d (x))", ["apply"]),
    ("CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES c (x))", ["apply"]),
    ("CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES u (x))", ["error"]),
    ("CREATE TABLE u (x INT, FOREIGN KEY (x) REFERENCES c (x))", ["discard"]),
    ("ALTER TABLE c ADD y INT, ADD FOREIGN KEY (x) REFERENCES u (x)", ["error"]),
    ("CREATE VIEW c AS SELECT * FROM d", ["apply"]),
    ("CREATE VIEW c AS SELECT * FROM d JOIN u", ["discard"]),
    ("CREATE VIEW u AS SELECT * FROM c", ["discard"]),
    ("DROP TABLE c, u, d", ["apply", "discard", "apply"]),
    ("ALTER TABLE c ORDER BY x", ["apply"]),
    ("TRUNCATE c", ["apply"]),
    ("TRUNCATE u", ["discard"]),
]


@pytest.mark.parametrize(("sql", "outcomes"), MIXED)
def test_statements_about_chosen_tables_and_others(sql: str, outcomes: list[str]) -> None:
    made = Filter(FilterSettings(rules=["s.c", "s.d"]))
    found = [made.ddl(event) for event in ddl_events(sql, "s")]
    assert [decision.outcome for decision in found] == outcomes
    for decision in found:
        assert decision.rule and decision.mixed is (decision.outcome == "error")


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("RENAME TABLE u TO c", "rename table"),
        ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE c", "exchange table partition"),
        ("ALTER TABLE c ADD FOREIGN KEY (x) REFERENCES u (x)", "add foreign key"),
    ],
)
def test_a_rule_that_leaves_out_a_mixed_statement_wins(sql: str, kind: str) -> None:
    rule = EventRule(["*.*"], [kind], [])
    made = Filter(FilterSettings(rules=["s.c", "s.d"], event_rules=[rule]))
    assert [made.ddl(event).outcome for event in ddl_events(sql, "s")] == ["ignore"]


def test_what_may_not_be_written_is_no_place_for_what_is_chosen() -> None:
    made = Filter(FilterSettings(block_allow={"do_tables": [("s", "c"), ("s", "d")]}))
    outcomes = {sql: [made.ddl(e).outcome for e in ddl_events(sql, "s")] for sql, _ in MIXED}
    told = dict(MIXED)
    told["RENAME TABLE c TO u"] = ["error"]
    told["RENAME TABLE c TO v, u TO c"] = ["error", "error"]
    assert outcomes == told
