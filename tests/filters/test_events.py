"""Event filters of TiCDC and of DM: which kinds and which statements are left out."""

from typing import Any

import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.filters import BinlogEventFilter, BinlogEventRule, EventFilter, EventRule
from binlog_merge.filters.kinds import ACTIONS, SCHEMA_KINDS, canonical_kind, class_of
from tests.filters.vectors import vectors

CASES = vectors("event_filter.json")


def chosen(test: Any) -> Any:
    found = [pytest.param(case, id=case["id"]) for case in CASES if test(case)]
    skipped = [pytest.param({}, marks=pytest.mark.skip("no event_filter.json beside the repository"))]
    return pytest.mark.parametrize("case", found or skipped)


def event_filter(case: dict[str, Any]) -> EventFilter:
    return EventFilter([EventRule(**rule) for rule in case["event_filters"]])


@chosen(lambda c: c["product"] == "ticdc" and "event_filters" in c and "event" in c and not c.get("table_rules"))
def test_events_as_in_ticdc(case: dict[str, Any]) -> None:
    event = case["event"]
    ignored = event_filter(case).ignores(event["schema"], event["table"], event["type"], event.get("query", ""))
    assert ignored is case["ignored"]


@chosen(lambda c: "config_error" in c)
def test_configurations_as_in_ticdc(case: dict[str, Any]) -> None:
    if case["config_error"] is None:
        event_filter(case)
        return
    with pytest.raises(ConfigError, match="unknown event type"):
        event_filter(case)


@chosen(lambda c: c.get("kind") == "allowlist")
def test_the_allow_list_is_ticdcs(case: dict[str, Any]) -> None:
    assert (case["action"] in ACTIONS) is case["allowed"]
    assert ACTIONS.get(case["action"]) == case.get("event_type")


@chosen(lambda c: c.get("kind") == "is_schema_ddl")
def test_what_is_about_a_database(case: dict[str, Any]) -> None:
    assert (case["type"] in SCHEMA_KINDS) is case["value"]


@chosen(lambda c: c["product"] == "dm" and "action" in c)
def test_events_as_in_dm(case: dict[str, Any]) -> None:
    rules = BinlogEventFilter([BinlogEventRule(**rule) for rule in case["rules"]], case["case"] == "sensitive")
    event = case["event"]
    decision = rules.decide(event["schema"], event["table"], event["type"], event["sql"])
    assert (decision.action, decision.ignored) == (case["action"], case["ignored"])


@chosen(lambda c: c.get("kind") == "to_event_type")
def test_words_for_events_as_in_dm(case: dict[str, Any]) -> None:
    if case["error"]:
        with pytest.raises(ConfigError):
            canonical_kind(case["input"])
    else:
        assert canonical_kind(case["input"]) == case["event_type"]


@chosen(lambda c: c.get("kind") == "classify_event")
def test_classes_of_events_as_in_dm(case: dict[str, Any]) -> None:
    if case["error"]:
        with pytest.raises(ConfigError):
            class_of(case["input"])
    else:
        assert class_of(case["input"]) == case["klass"]


# Our own cases.


def test_a_rule_ignores_by_kind_by_text_and_only_its_tables() -> None:
    rules = EventFilter(
        [
            EventRule(["shop.*", "!shop.kept"], ["alter table", "delete"]),
            EventRule(["log.*"], ignore_sql=["^drop", "x{2}"]),
        ]
    )
    assert rules.decide("shop", "a", "add column", "…").rule == "event-filters[0]: ignore-event alter table"
    assert rules.ignores("shop", "a", "rename table") and rules.ignores("shop", "a", "delete")
    assert not rules.ignores("shop", "a", "create table") and not rules.ignores("shop", "kept", "delete")
    assert rules.ignores("log", "a", "drop table", "DROP TABLE a") and rules.ignores("log", "a", "add column", "axxb")
    assert not rules.ignores("shop", "a", "add foreign key")  # TiCDC does not count them
    assert not rules.ignores("log", "a", "insert", "drop") and not rules.ignores("log", "a", "", "drop")
    assert not rules.ignores("Shop", "a", "delete")  # matchers tell case apart


def test_statements_on_databases_go_by_the_schema() -> None:
    rules = EventFilter([EventRule(["shop.orders"], ["drop database", "create schema"])])
    assert rules.ignores("shop", "", "drop database") and rules.ignores("shop", "", "create database")
    assert not rules.ignores("live", "", "drop database")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (EventRule(["a.b"], ["delet"]), "did you mean 'delete'"),
        (EventRule(["a.b"], ["INSERT"]), "did you mean 'insert'"),
        (EventRule(["a.b"], ["none ddl"]), "unknown event type"),
        (EventRule(["a.b"], ignore_sql=["ok", "a("]), r"event-filters\[0\].ignore-sql: 'a\('"),
        (EventRule(["a"], ["delete"]), r"event-filters\[0\].matcher:1"),
    ],
)
def test_bad_rules_say_where(rule: EventRule, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        EventFilter([rule])


def test_dm_lists_are_read_from_their_beginning() -> None:
    def action(events: list[str], kind: str) -> str:
        return BinlogEventFilter([BinlogEventRule("a", "b", events, action="Ignore")]).decide("a", "b", kind).action

    assert action(["none ddl", "all"], "add column") == "Do" and action(["none ddl", "all"], "insert") == "Ignore"
    assert action(["incompatible ddl changes"], "drop column") == "Ignore"
    assert action(["incompatible ddl changes"], "create table") == "Do"
    assert action(["none", "insert"], "insert") == "Do" and action(["ALL"], "update") == "Ignore"


def test_dm_rules_that_stop_win_over_rules_that_let_through() -> None:
    rules = BinlogEventFilter(
        [
            BinlogEventRule("shop_*", "t*", ["insert"], action="Do"),
            BinlogEventRule("shop_*", "", [], ["^truncate"], action="Error"),
        ]
    )
    assert rules.decide("SHOP_1", "t1", "insert").action == "Do"
    assert rules.decide("shop_1", "t1", "delete") == ("Ignore", "filters[0]: events")
    assert rules.decide("shop_1", "t1", "truncate table", "TRUNCATE t1") == ("Error", "filters[1]: sql-pattern")
    assert rules.decide("live", "t1", "delete").action == "Do"


def test_dm_rules_are_asked_as_its_selector_finds_them() -> None:
    def first(*patterns: str) -> str:
        rules = [BinlogEventRule(p, "", ["all"], action="Error") for p in patterns]
        return BinlogEventFilter(rules).decide("shop", "t", "insert").rule

    assert first("shop", "sho?", "sho[a-z]", "sho*", "*") == "filters[4]: events"
    assert first("shop", "sho?", "sho[a-z]", "sho*") == "filters[3]: events"
    assert first("shop", "sho[a-z]", "sho?") == "filters[2]: events"
    assert first("shop*", "shop") == "filters[1]: events"
    assert first("shop", "s?op", "*") == "filters[2]: events"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([BinlogEventRule("", "b")], "schema-pattern is empty"),
        ([BinlogEventRule("a", "b", action="do")], "must be Do, Ignore or Error"),
        ([BinlogEventRule("a", "b", ["insrt"])], "did you mean 'insert'"),
        ([BinlogEventRule("a", "b", [], ["("])], "sql-pattern"),
        ([BinlogEventRule("a[z-a]", "b")], "schema-pattern"),
        ([BinlogEventRule("A", "b"), BinlogEventRule("a", "B")], "has the same patterns"),
    ],
)
def test_bad_dm_rules_say_where(rules: list[BinlogEventRule], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BinlogEventFilter(rules)
