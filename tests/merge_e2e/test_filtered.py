"""A merge with a filter: what the filter leaves of the whole log, transaction by transaction, however it is run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.events import TableMap, parse_event
from binlog_merge.binlog.rows import split_rows
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, ManifestError
from binlog_merge.filters.config import load_filter
from binlog_merge.filters.events import EventRule
from binlog_merge.filters.filter import Filter, FilterSettings
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Begin, OrderedBy, Rows, events_of
from binlog_merge.log.replay_options import history_of
from binlog_merge.log.rows import RowSelector
from binlog_merge.log.statement import Statement
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.gather.filtering import LEFT_OUT, OutputFilter
from binlog_merge.verification.whole import verify
from snapshot_store.ddl.public import parse_table
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.tso import ORIGIN, OrderKey
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, oracle
from tests.merge_e2e.local import merge, with_nodes_reversed, written
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.pipeline.gather.test_giant import shrink
from tests.targets.server.test_replay import data, prepare

FILTERS = {
    "three-nodes-online-ddl": """
        [filter]
        rules = ['shop.*']
        [[filter.event-filters]]
        matcher = ['shop.orders']
        ignore-insert-value-expr = "price > 50000 OR id % 5 = 0"
        ignore-update-new-value-expr = "customer = 'smith'"
        ignore-delete-value-expr = "id % 2 = 0"
        """,
    "statements": """
        [filter]
        rules = ['*.*', '!d1.log']
        [[filter.event-filters]]
        matcher = ['d1.child']
        ignore-event = ['delete', 'update']
        """,
    "metadata-minimal": """
        [[filter.event-filters]]
        matcher = ['*.*']
        ignore-event = ['insert']
        """,
}


def filtered(name: str, folder: Path) -> Path:
    """Return the configuration of a case with its filter."""
    folder.mkdir(exist_ok=True)
    (folder / "filter.toml").write_text(FILTERS[name])
    return copy_case(case_named(name), folder / "case", lambda values: values.update(filter="../filter.toml"))


def told(binlog: Log, selector: RowSelector | None = None) -> list[Any]:
    """Return what a log says: transactions with keys and rows, and statements; rows that a filter passes alone."""
    found: list[Any] = []
    key: OrderKey | None = None
    for item in binlog.items():
        if isinstance(item, Begin):
            key = None
            found.append(("begin", item.rank, item.gtid, item.commit_us))
        elif isinstance(item, OrderedBy):
            key = item.key
        elif isinstance(item, Rows):
            event = item.event if selector is None else selector.select(item, key)
            name = (item.table.schema, item.table.table)
            for row in [] if event is None else split_rows(event, item.table):
                found.append((*name, key, event.type_code, [_bytes(image) for image in row]))
        elif isinstance(item, Statement):
            found.append(("statement", item.query.text))
    return found


def _bytes(image: Any) -> Any:
    return None if image is None else [bytes(c) if isinstance(c, memoryview) else repr(c) for c in image]


@pytest.mark.parametrize(  # by kind, and by value, to behind the DDL
    ("name", "last"),
    keeping(
        [("statements", 0), ("three-nodes-online-ddl", 110)],
        [*((name, 0) for name in FILTERS), ("three-nodes-online-ddl", 110)],
    ),
)
def test_what_the_filter_leaves_of_the_whole_log(name: str, last: int, tmp_path: Path) -> None:
    config = filtered(name, tmp_path)
    stop = int(oracle(case_named(name)).transactions[last][0][:19]) if last else None
    merge(case_named(name) / "cluster.yaml", tmp_path / "whole", stop_tso=stop)
    merge(config, tmp_path / "out", stop_tso=stop)
    whole, out = Log(tmp_path / "whole"), Log(tmp_path / "out")
    chosen = Filter(load_filter(tmp_path / "filter.toml"))
    expected = told(whole, RowSelector(chosen, history_of(whole.directory)))
    found = told(out)
    left = [item for item in expected if item[0] != "statement" or "log" not in item[1]]
    assert found == left and len(found) < len(told(whole))
    assert out.last_rank == whole.last_rank
    verify(out, history_of(out.directory))
    assert not _table_maps_alone(out)


def _table_maps_alone(binlog: Log) -> list[str]:
    """Return the tables whose table maps stand behind the last rows of a transaction."""
    alone: list[str] = []
    open_maps: list[str] = []
    for file in binlog.state.files:
        for event in events_of(binlog.folder, file):
            value = parse_event(event)
            if isinstance(value, TableMap):
                open_maps.append(value.table)
            elif event.type_code in (30, 31, 32, 39):
                open_maps = []
            elif event.type_code == 16:
                alone += open_maps
                open_maps = []
    return alone


@pytest.mark.parametrize("name", keeping(["statements"], ["three-nodes-online-ddl", "statements"]))
def test_any_cuts_runs_and_pieces_give_the_same_files(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = MergeConfig.load(filtered(name, tmp_path))
    config = config.model_copy(update={"output": config.output.model_copy(update={"max_size": 20_000})})
    merge(config, tmp_path / "one")
    good = written(tmp_path / "one")
    merge(with_nodes_reversed(config), tmp_path / "two", end_of_input=False)
    merge(config, tmp_path / "two", partitions=3)
    assert written(tmp_path / "two") == good
    shrink(monkeypatch, 300, 1 << 20, 2500)
    merge(config, tmp_path / "three")
    assert written(tmp_path / "three") == good


@pytest.mark.mysql
def test_a_server_takes_what_is_left(mysql_server: MySqlServer, tmp_path: Path) -> None:
    merge(filtered("statements", tmp_path), tmp_path / "out")
    prepare(mysql_server, "statements")
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    # Without what cascades: the rows of a child are not deleted with their parent's here, the log says all that is.
    sql = b"SET GLOBAL foreign_key_checks = 0; SET foreign_key_checks = 0;\n"
    mysql_server.apply(sql + mysqlbinlog(sorted((tmp_path / "out").glob("binlog.0*"))))
    mysql_server.execute("SET GLOBAL foreign_key_checks = 1")
    executed = str(mysql_server.query("SELECT @@GLOBAL.gtid_executed")[0][0])
    assert executed.endswith(f":1-{Log(tmp_path / 'out').last_rank}")
    rows = {name: one[1] for name, one in data(mysql_server).items()}
    assert rows["`d1`.`parent`"] and not rows["`d1`.`log`"]


def test_another_filter_cannot_go_on(tmp_path: Path) -> None:
    config = filtered("statements", tmp_path)
    merge(config, tmp_path / "out", end_of_input=False)
    (tmp_path / "filter.toml").write_text("[filter]\nrules = ['d1.*']\n")
    with pytest.raises(ManifestError, match="filter was"):
        merge(config, tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[filter]\nrules = ['x']\n", "must be schema.table"),
        ("[filter]\nignore-txn-start-ts = [1]\n", "does not know when a transaction began"),
        ("[filter]\n[sink]\ncolumn-selectors = [{matcher = ['*.*'], columns = ['a']}]\n", "has whole rows"),
    ],
)
def test_a_filter_that_a_merge_cannot_use(text: str, reason: str, tmp_path: Path) -> None:
    config = filtered("statements", tmp_path)
    (tmp_path / "filter.toml").write_text(text)
    with pytest.raises(ConfigError, match=reason):
        merge(config, tmp_path / "out")
    assert not (tmp_path / "out" / "binlog.000001").exists()


def test_a_statement_that_changes_rows_cannot_be_left_out(tmp_path: Path) -> None:
    config = filtered("three-nodes-online-ddl", tmp_path)
    (tmp_path / "filter.toml").write_text(
        "[filter]\n[[filter.event-filters]]\nmatcher = ['shop.orders']\nignore-event = ['add column']\n"
    )
    with pytest.raises(ConfigError, match="have another shape from there on") as caught:
        merge(config, tmp_path / "out")
    assert caught.value.order_key and Log(tmp_path / "out").last_rank == 90


def test_transactions_are_left_out_by_tso(tmp_path: Path) -> None:
    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", tmp_path / "whole")
    whole = told(Log(tmp_path / "whole"))
    tso = next(_tso(item) for item in whole[100:] if _tso(item) is not None)
    config = filtered("three-nodes-online-ddl", tmp_path)
    (tmp_path / "filter.toml").write_text(f"[filter]\nignore-commit-tso = [{tso}]\n")
    merge(config, tmp_path / "out")
    left = [item for item in whole if _tso(item) != tso]
    assert told(Log(tmp_path / "out")) == left and len(left) < len(whole)


def _tso(item: Any) -> int | None:
    return next((part.commit_tso for part in item if isinstance(part, OrderKey)), None)


KEY = OrderKey(7, 1, 0, 0)


def made(*rules: str, events: tuple[EventRule, ...] = ()) -> OutputFilter:
    column = Column("id", ColumnType("int"))
    tables = [Table("s", name, (column,)) for name in ("a", "b", "c")]
    history = SchemaHistory().with_versions(TableVersion(ORIGIN, 0, "s", t.name, t, origin="base") for t in tables)
    dropped = [TableVersion(KEY, 0, "s", t.name, None) for t in tables]
    return OutputFilter(FilterSettings(rules=rules, event_rules=events), history.with_versions(dropped))


@pytest.mark.parametrize(
    ("sql", "rules", "left"),
    [
        ("DROP TABLE a, b , c", ("s.*", "!s.b"), "DROP TABLE a, c"),
        ("DROP TABLE IF EXISTS a,b", ("s.*", "!s.b"), "DROP TABLE IF EXISTS a"),
        ("DROP TABLE a, b", ("s.c",), None),
        ("DROP /* all */ TABLE a, b", ("*.*",), "DROP /* all */ TABLE a, b"),
        ("CREATE DATABASE other", ("s.*",), None),
        ("TRUNCATE TABLE b", ("s.*", "!s.b"), None),
    ],
)
def test_statements_come_out_in_part(sql: str, rules: tuple[str, ...], left: str | None) -> None:
    ddl = LogicalDdl(KEY, "s", sql)
    found = made(*rules).statement(ddl)
    assert (found.sql or None) == left and (left is not None or found.text == LEFT_OUT)


@pytest.mark.parametrize(("suppressed", "schema"), [(False, "s"), (True, "out")])
def test_a_statement_runs_in_a_database_that_comes_out(suppressed: bool, schema: str) -> None:
    """That of its session may not be there; one that is not to be used anyway stays."""
    ddl = LogicalDdl(KEY, "out", "ALTER TABLE s.a ADD COLUMN b INT", suppress_use=suppressed)
    assert made("s.*").statement(ddl) == replace(ddl, schema=schema)
    assert made("s.*", "out.*").statement(ddl) == ddl


def test_a_drop_may_be_left_out_of_a_table_that_comes_out() -> None:
    found = made("s.*", events=(EventRule(["s.a"], ["drop table"], []),)).statement(
        LogicalDdl(KEY, "s", "DROP TABLE a, b")
    )
    assert found.sql == "DROP TABLE b"


def test_a_table_like_one_that_does_not_come_out_is_written_out() -> None:
    column = Column("id", ColumnType("int"), nullable=False, comment="of b")
    like = TableVersion(KEY, 0, "s", "d", Table("s", "d", (column,)))
    chosen = OutputFilter(FilterSettings(rules=["s.*", "!s.b"]), SchemaHistory().with_versions([like]))
    found = chosen.statement(LogicalDdl(KEY, "s", "CREATE TABLE d LIKE b"))
    assert parse_table(found.sql, schema="s") == like.table
    assert found.sql.startswith("CREATE TABLE `d` ("), "the event says the database, as for the user's text"
    said = chosen.statement(LogicalDdl(KEY, "s", "CREATE TABLE s.d LIKE b"))
    assert said.sql.startswith("CREATE TABLE `s`.`d` (")
    again = chosen.statement(LogicalDdl(KEY, "s", "CREATE TABLE IF NOT EXISTS e LIKE b"))
    assert not again.sql and again.text == LEFT_OUT  # it was there: no version of it


@pytest.mark.parametrize("sql", ["RENAME TABLE b TO a", "ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b"])
def test_rows_that_come_from_what_does_not_come_out_stop_a_merge(sql: str) -> None:
    with pytest.raises(ConfigError, match="are not at the target") as caught:
        made("s.*", "!s.b").statement(LogicalDdl(KEY, "s", sql))
    assert "choose both tables" in (caught.value.remedy or "")
