"""Table rules, column rules, block-allow-lists: which names are chosen, and what bad rules say."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.errors import ConfigError
from binlog_merge.filters import BlockAllowList, ColumnFilter, TableFilter
from binlog_merge.filters.tables import is_system_schema
from tests.filters.vectors import vectors

CASES = vectors("table_filter.json")
# Cases whose expected output was lost on its way here: upstream's test (util/filter/filter_test.go) has these.
OUTPUT_LOST = {
    "block_allow_list/TestFilterOnSchema/2": [["foo", "bar"], ["foo", ""]],
    "block_allow_list/TestFilterOnSchema/3": [["foo", "bar"], ["foo", ""]],
    "block_allow_list/TestFilterOnSchema/5": [["foo", "bar1"], ["foo", ""], ["fff", "bar1"]],
    "block_allow_list/TestFilterOnSchema/8": [["5", "5"]],
    "block_allow_list/TestFilterOnSchema/10": [["aaaa", "f2"], ["5", "5"], ["abbc", "fa"]],
    "block_allow_list/TestCaseSensitiveApply/1": [["foo", "bar"], ["foo", ""]],
    "block_allow_list/TestCaseSensitiveApply/2": [["foo", "bar1"], ["foo", ""], ["fff", "bar1"]],
    "block_allow_list/TestCaseSensitiveApply/4": [["foo[bar]", "b"], ["Fo", "c"]],
    "block_allow_list/TestCaseSensitiveApply/7": [["aAAa", "f2"], ["5", "5"], ["abbc", "FA"]],
    "block_allow_list/TestCaseSensitiveApply/8": [["t9", "A02"], ["5", "5"], ["T9", "a001"]],
}


def of_kind(*kinds: str) -> Any:
    chosen = [case for case in CASES if case["kind"] in kinds]
    marks = pytest.mark.skip("no table_filter.json beside the repository") if not chosen else ()
    return pytest.mark.parametrize(
        "case", [pytest.param(c, id=c["id"]) for c in chosen] or [pytest.param({}, marks=marks)]
    )


def sensitive(case: dict[str, Any]) -> bool:
    return case.get("case") == "sensitive"


def allow_list(case: dict[str, Any]) -> BlockAllowList:
    rules = {key.replace("-", "_"): value for key, value in case["rules"].items()}
    tables = {key: [(s, t) for s, t in value] for key, value in rules.items() if key.endswith("tables")}
    return BlockAllowList(**{**rules, **tables}, case_sensitive=sensitive(case))


@of_kind("match_table", "match_table_with_files")
def test_tables_as_in_tidb(case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case.get("files", {}).items():
        (tmp_path / name).write_text(text)
    rules = TableFilter(case["rules"], sensitive(case), folder=tmp_path)
    assert rules.matches(case["schema"], case["table"]) is case["match"]


@of_kind("match_schema")
def test_schemas_as_in_tidb(case: dict[str, Any]) -> None:
    assert TableFilter(case["rules"], sensitive(case)).matches_schema(case["schema"]) is case["match"]


@of_kind("match_column")
def test_columns_as_in_tidb(case: dict[str, Any]) -> None:
    assert ColumnFilter(case["rules"]).matches(case["column"]) is case["match"]


@of_kind("parse_error", "parse_error_column")
def test_bad_rules_as_in_tidb(case: dict[str, Any]) -> None:
    make: Any = ColumnFilter if case["kind"] == "parse_error_column" else TableFilter
    with pytest.raises(ConfigError) as caught:
        make(case["rules"])
    assert re.search(case["error_regexp"], caught.value.message)


@of_kind("verify_rules")
def test_rules_that_are_verified(case: dict[str, Any]) -> None:
    assert case["error"] is False
    TableFilter(case["rules"])


@of_kind("mysql_replication_rules")
def test_replication_rules_as_in_tidb(case: dict[str, Any]) -> None:
    assert allow_list(case).matches(case["schema"], case["table"]) is case["match"]


@of_kind("block_allow_list")
def test_block_allow_lists_as_in_dm(case: dict[str, Any]) -> None:
    rules = allow_list(case)
    passed = [[schema, table] for schema, table in case["input"] if rules.matches(schema, table)]
    assert passed == (OUTPUT_LOST.get(case["id"]) or case["output"])


@of_kind("schemas_filter_literal", "tables_filter_literal")
def test_literal_lists(case: dict[str, Any]) -> None:
    pairs = case.get("tables") or [[schema, None] for schema in case["schemas"]]
    rules = [f'"{schema}".' + ("*" if table is None else f'"{table}"') for schema, table in pairs]
    assert TableFilter(rules, sensitive(case)).matches(case["schema"], case["table"]) is case["match"]


@of_kind("ticdc_ignore_table")
def test_tables_ignored_as_in_ticdc(case: dict[str, Any]) -> None:
    chosen = TableFilter(case["rules"], sensitive(case)).matches(case["schema"], case["table"])
    assert chosen is case["match"]
    assert (is_system_schema(case["schema"]) or not chosen) is case["ignored"]


@of_kind("is_system_schema")
def test_system_schemas(case: dict[str, Any]) -> None:
    assert is_system_schema(case["schema"]) is case["match"]


# Our own cases, for every rule of the grammar.

PATTERNS = [
    (["*.*"], "a", "b", True),
    ([], "a", "b", False),
    (["!a.*"], "b", "c", False),
    (["*.*", "!a.b", "a.b"], "a", "b", True),
    (["*.*", "a.b", "!a.b"], "a", "b", False),
    (["a?.t[1-3]"], "ax", "t2", True),
    (["a?.t[1-3]"], "a", "t2", False),
    (["a.t[!1-3]"], "a", "t4", True),
    (["a.t[!1-3]"], "a", "t2", False),
    (["a.[^b]"], "a", "^", True),
    (["/a.c/./^t/"], "xabcx", "t", True),
    (["/a.c/./^t/"], "xabcx", "xt", False),
    (['"a.b".`c``d`'], "a.b", "c`d", True),
    (['"a*".*'], "ab", "c", False),
    ([r"a\-b.c\.d"], "a-b", "c.d", True),
    (["a*b.*"], "a\nb", "c", True),
    (["  \ta.b  "], "a", "b", True),
    (["# a.b"], "a", "b", False),
    (["数据*.表"], "数据库", "表", True),
    (["A.b"], "a", "B", True),
]


@pytest.mark.parametrize(("rules", "schema", "table", "match"), PATTERNS)
def test_patterns(rules: list[str], schema: str, table: str, match: bool) -> None:
    assert TableFilter(rules).matches(schema, table) is match


def test_case_is_told_apart_only_where_asked() -> None:
    assert TableFilter(["Shop.Orders", "/^L/.x"]).matches("shop", "ORDERS")
    assert TableFilter(["Shop.Orders", "/^L/.x"]).matches("live", "x")
    assert not TableFilter(["Shop.Orders"], case_sensitive=True).matches("shop", "ORDERS")
    assert not TableFilter(["/^L/.x"], case_sensitive=True).matches("live", "x")


BAD = [
    ("a", "wrong table pattern"),
    ("a.b.c", "stray characters after table pattern"),
    ('"a"b.c', "missing '.' between schema and table patterns"),
    ("a.", "missing pattern"),
    ("a-b.c", "unexpected special character '-'"),
    ("/a.b", "incomplete regexp"),
    ("/a(/.b", "missing closing )"),
    ("/(?=a)/.b", "invalid perl operator"),
    ('"a.b', "incomplete quoted identifier"),
    ("`a.b", "incomplete quoted identifier"),
    ("[].b", "failed to parse character class"),
    ("[z-a].b", "invalid pattern"),
    (r"a\d.b", "reserved for future extension"),
    ("a.b\\", "cannot place \\ at end of line"),
    ("@nowhere.txt", "cannot open filter file"),
]


@pytest.mark.parametrize(("rule", "reason"), BAD)
def test_bad_rules_say_what_and_where(rule: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TableFilter(["a.b", rule], name="filter.toml: filter.rules")
    assert reason in caught.value.message
    assert caught.value.file == "filter.toml: filter.rules:2"


def test_files_of_rules_name_their_own_lines_and_no_other_files(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("# kept\n\nshop.*\r\n!shop.log_[0-9]\n")
    rules = TableFilter(["@rules.txt", "live.x"], folder=tmp_path)
    assert rules.matches("shop", "orders") and rules.matches("live", "x") and not rules.matches("shop", "log_1")
    assert rules.deciding("shop", "log_1") is not None
    assert str(rules.deciding("shop", "log_1").place).endswith("rules.txt:4")  # type: ignore[union-attr]
    (tmp_path / "more.txt").write_text("a.b\n@rules.txt\n")
    with pytest.raises(ConfigError, match=r"more\.txt:2: importing filter files recursively is not allowed"):
        TableFilter([f"@{tmp_path / 'more.txt'}"])
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        TableFilter(["@bytes.txt"], folder=tmp_path)


def test_files_of_rules_have_lines_of_their_own_and_an_end(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text('"a\u2028b".x\n')
    assert TableFilter(["@rules.txt"], folder=tmp_path).matches("a\u2028b", "x")
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("pipe", "not a regular file"), (".", "not a regular file"), ("\0", "not the name of a file")):
        with pytest.raises(ConfigError, match=reason):
            TableFilter([f"@{name}"], folder=tmp_path)


def test_names_and_statements_may_hold_bytes_that_are_no_text() -> None:
    broken = b"a\xff".decode("utf-8", "surrogateescape")
    assert TableFilter(["a?.*"]).matches(broken, "x") and not TableFilter(["a.*"]).matches(broken, "x")
    assert BlockAllowList(do_dbs=["~^a.$"]).matches(broken, "x")


def test_block_allow_list_names_the_entry_that_decides() -> None:
    rules = BlockAllowList(do_dbs=["shop"], ignore_tables=[("shop", "log*")])
    assert rules.decide("shop", "orders") == (True, "do-dbs: shop")
    assert rules.decide("shop", "log_1") == (False, "ignore-tables: shop.log*")
    assert rules.decide("live", "x") == (False, "do-dbs: none matches")
    assert rules.decide("shop", "")[0]
    assert BlockAllowList(do_tables=[("a", "b")]).decide("a", "c") == (False, "do-tables: none matches")


@pytest.mark.parametrize("pattern", ["~(", "~(?!x)", "", "a[z-a]", "a[b", "[]"])
def test_bad_entries_of_block_allow_lists(pattern: str) -> None:
    with pytest.raises(ConfigError, match="do-dbs"):
        BlockAllowList(do_dbs=[pattern])


NAMES = st.text('ab_*?[].!\\"`/$é ', min_size=1, max_size=6)


@given(NAMES, NAMES)
def test_a_quoted_name_matches_itself_and_nothing_else(schema: str, table: str) -> None:
    quoted = ".".join('"' + name.replace('"', '""') + '"' for name in (schema, table))
    rules = TableFilter([quoted], case_sensitive=True)
    assert rules.matches(schema, table)
    assert not rules.matches(schema, f"{table}x")


@given(st.lists(NAMES, max_size=4), NAMES, NAMES)
def test_any_text_is_a_rule_or_an_error_that_says_where(rules: list[str], schema: str, table: str) -> None:
    try:
        made = TableFilter(rules)
    except ConfigError as error:
        assert error.file is not None and error.message
    else:
        assert made.matches(schema, table) in (True, False)


@given(st.lists(st.sampled_from(["a.*", "!a.b", "*.b", "!*.*", "?.?", "!b.[ab]", "/a|b/.a"]), max_size=6))
def test_the_last_rule_that_matches_decides(rules: list[str]) -> None:
    for schema in "abc":
        for table in "abc":
            alone = [r for r in rules if TableFilter([r.removeprefix("!")]).matches(schema, table)]
            assert TableFilter(rules).matches(schema, table) is (bool(alone) and not alone[-1].startswith("!"))
