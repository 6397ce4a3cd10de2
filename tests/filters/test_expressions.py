"""Row expressions: what they ignore, and what they say when they are wrong."""

from typing import Any

import pyarrow as pa
import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.filters import ExpressionFilter, ExpressionRule
from snapshot_store import Catalog, Table, apply_ddl, parse_table
from tests.filters.vectors import vectors

CASES = vectors("expr_filter.json")


def chosen(*kinds: str | None) -> Any:
    found = [pytest.param(case, id=case["id"]) for case in CASES if case.get("kind") in kinds]
    skipped = [pytest.param({}, marks=pytest.mark.skip("no expr_filter.json beside the repository"))]
    return pytest.mark.parametrize("case", found or skipped)


def rules(case: dict[str, Any]) -> list[ExpressionRule]:
    if case["product"] == "dm":
        return [ExpressionRule(["*.*"], insert=case.get("insert_value_expr"), dm=True)]
    keys = ("insert", "update_old", "update_new", "delete")
    return [
        ExpressionRule(rule["matcher"], **{key: rule.get(f"ignore_{key}_value_expr") for key in keys})
        for rule in case["event_filters"]
    ]


@chosen(None)
def test_rows_as_in_ticdc_and_dm(case: dict[str, Any]) -> None:
    table = parse_table(case["table_ddl"], schema=case.get("schema", "test"))
    for sql in case.get("ddl_applied_before", ()):
        table = apply_ddl(Catalog().with_table(table), sql, schema="test").table("test", table.name)
    if "table" in case:
        table = table.renamed(case["schema"], case["table"])
    made = ExpressionFilter(rules(case))
    if "error" in case:
        with pytest.raises(ConfigError) as caught:
            made.ignores(table, case["op"], case["before"], case["after"])
        assert case["error_contains"] in caught.value.message
    else:
        assert made.ignores(table, case["op"], case["before"], case["after"]) is case["ignored"]


@chosen("verify_config")
def test_configurations_as_in_ticdc(case: dict[str, Any]) -> None:
    tables = [parse_table(sql, schema="test") for sql in case["ddls"]]
    if case["error"] is None:
        ExpressionFilter(rules(case)).verify(tables)
        return
    with pytest.raises(ConfigError) as caught:
        ExpressionFilter(rules(case)).verify(tables)
    assert case["error_contains"] in caught.value.message


@chosen("update_expr_pairing")
def test_pairs_of_update_expressions_as_in_dm(case: dict[str, Any]) -> None:
    rule = ExpressionRule(
        ["*.*"], update_old=case["update_old_value_expr"], update_new=case["update_new_value_expr"], dm=True
    )
    assert bool(rule) is (case["pairs"] > 0)


# Our own cases.

TABLE = parse_table("CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(20), d DATE)", schema="d")


def ignored(rule: ExpressionRule, op: Any, before: Any, after: Any, table: Table = TABLE) -> bool:
    return ExpressionFilter([rule]).ignores(table, op, before, after)


def test_updates_ask_either_row_in_ticdc_and_both_in_dm() -> None:
    both = {"update_old": "a = 1", "update_new": "a = 2"}
    for old, new, either, together in (
        (1, 2, True, True),
        (1, 3, True, False),
        (3, 2, True, False),
        (3, 3, False, False),
    ):
        before, after = {"id": 1, "a": old}, {"id": 1, "a": new}
        assert ignored(ExpressionRule(["d.t"], **both), "update", before, after) is either
        assert ignored(ExpressionRule(["d.t"], **both, dm=True), "update", before, after) is together
        one = ExpressionRule(["d.t"], update_new="a = 2", dm=True)
        assert ignored(one, "update", before, after) is (new == 2)


def test_each_operation_has_its_own_expression() -> None:
    rule = ExpressionRule(["d.t"], insert="a = 1", delete="a = 2")
    assert ignored(rule, "insert", None, [1, 1]) and not ignored(rule, "insert", None, [1, 2])
    assert ignored(rule, "delete", [1, 2], None) and not ignored(rule, "delete", [1, 1], None)
    assert not ignored(rule, "update", [1, 1], [1, 2])


def test_null_and_any_value_but_one_keep_the_row() -> None:
    for text in ("a", "a + 1", "NULL", "a > NULL", "s = 'x'"):
        assert not ignored(ExpressionRule(["*.*"], insert=text), "insert", None, [1, None, None])
    assert not ignored(ExpressionRule(["*.*"], insert="a"), "insert", None, [1, 5])
    assert ignored(ExpressionRule(["*.*"], insert="a"), "insert", None, [1, 1])


def test_null_has_a_type_in_arithmetic() -> None:
    table = parse_table("CREATE TABLE t (p DECIMAL(9,2), b BLOB, d DATE)", schema="d")
    for text in ("p * 2 > 5", "-p < 1", "round(p, 1) = 1", "coalesce(p, 0) = 1", "length(b) = 1", "concat(d, p) = ''"):
        assert not ignored(ExpressionRule(["*.*"], insert=text), "insert", None, [None, None, None], table)
    assert ignored(ExpressionRule(["*.*"], insert="concat(d, '!') = '2021-06-17!'"), "insert", None,
                   {"d": "2021-06-17"}, table)  # fmt: skip


def test_the_columns_that_expressions_need() -> None:
    table = parse_table("CREATE TABLE t (a INT, b INT, v INT AS (b + 1) VIRTUAL, s INT)", schema="d")
    made = ExpressionFilter(
        [ExpressionRule(["d.t"], update_old="a = 1", update_new="v = 2 AND a = 1", delete="1"), ExpressionRule(["x.y"])]
    )
    assert made.columns(table, "update", ["a", "b", "s"]) == ({"a"}, {"a", "b"})
    assert made.columns(table, "update", ["a", "b", "v", "s"]) == ({"a"}, {"a", "v"})
    assert made.columns(table, "insert", ["a"]) == made.columns(table, "delete", ["a"]) == (set(), set())


def test_a_batch_is_judged_at_once() -> None:
    batch = pa.record_batch(
        {"id": pa.array(range(10_000)), "a": pa.array([i % 7 or None for i in range(10_000)]), "s": ["é"] * 10_000}
    )
    made = ExpressionFilter(
        [ExpressionRule(["d.*"], insert="a > 3"), ExpressionRule(["d.t"], insert="s = 'E' AND id = 0")]
    )
    mask = made.mask(TABLE, "insert", after=batch).to_pylist()
    assert mask == [i == 0 or (i % 7) > 3 for i in range(10_000)]
    assert made.mask(TABLE, "insert", after=batch.slice(0, 0)).to_pylist() == []
    assert made.concerns("d", "t") and not made.concerns("e", "t")


def test_a_changed_table_is_judged_anew() -> None:
    made = ExpressionFilter([ExpressionRule(["*.*"], insert="note = 'x'")])
    with pytest.raises(ConfigError, match=r"Cannot find column 'note' from table 'd\.t'"):
        made.ignores(TABLE, "insert", None, [1, 1])
    changed = parse_table("CREATE TABLE t (id INT PRIMARY KEY, note CHAR(3))", schema="d")
    assert made.ignores(changed, "insert", None, [1, "X"])


def test_a_column_that_the_rows_lack_is_no_guess() -> None:
    made = ExpressionFilter([ExpressionRule(["*.*"], insert="a = 1")])
    with pytest.raises(ConfigError, match="needs the column a, which the rows do not hold"):
        made.mask(TABLE, "insert", after=pa.record_batch({"id": [1]}))


def test_timestamps_are_seen_in_the_time_zone() -> None:
    table = parse_table("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL)", schema="d")
    rule = ExpressionRule(["*.*"], insert="hour(ts) = 20 OR ts = '0000-00-00 00:00:00'")
    for zone, hour in (("Asia/Shanghai", "12"), ("+08:00", "12"), ("UTC", "20")):
        made = ExpressionFilter([rule], zone)
        assert made.ignores(table, "insert", None, [1, f"2021-06-17 {hour}:13:05"])
        assert not made.ignores(table, "insert", None, [1, "2021-06-17 01:13:05"])
        assert made.ignores(table, "insert", None, [1, "0000-00-00 00:00:00"])


WRONG = [
    ("a >", "There is a syntax error in"),
    ("a = = 1", "There is a syntax error in"),
    ("a == 1", "There is a syntax error in"),
    ("nope(a) = 1", r"the function nope\(\) is not known"),
    ("now() > d", r"the function now\(\) is not known, or not the same every time"),
    ("rand() < 0.5", "not the same every time"),
    ("a = (SELECT 1)", "a subquery"),
    ("a = @x", "a variable"),
    ("d > 'never'", "incorrect date"),
    ("s = 'x' COLLATE latin1_german1_ci", "COLLATE latin1_german1_ci of a text in utf8mb4"),
    ("s = 'x' COLLATE utf8mb4_swedish_ci", "the rules of the collation utf8mb4_swedish_ci are not known"),
    ("s COLLATE utf8mb4_bin = s COLLATE utf8mb4_0900_as_cs", "illegal mix of collations"),
    ("s COLLATE utf8mb4_0900_as_ci = s COLLATE utf8mb4_0900_as_cs", "illegal mix of collations"),
    ("left(s) = 'x'", r"left\(\) with 1 arguments"),
    ("(a, s) > (1, 'x')", "a row of several values"),
    ("a + INTERVAL s DAY > d", "INTERVAL"),
    ("d > s", "a string value that is no constant as a date"),
    ("d > a", "a int value that is no constant as a date"),
    ("d > 7", "incorrect date"),
    ("year(concat(s, '')) = 1", "no constant as a date"),
    ("b + 1 = 2 AND concat(b) = 'x'", "a binary string as text"),
    ("j + 1 > 2", "a JSON value as a number"),
    ("j BETWEEN 1 AND 2", "BETWEEN with a JSON value"),
    ("j = b", "a BIT compared with a JSON value"),
    ("s BETWEEN 'a' AND 5", "BETWEEN of different types"),
    ("IF(a > 1, e, s) + 1 > 2", "an ENUM, a SET, or a date beside texts, out of CASE"),
    ("j <= TRUE", "the order of a JSON value and a truth value"),
    ("j < s", "the order of a JSON value and a string"),
    ("d >= '10:00:00'", "write it with its date"),
    ("y = 's'", "a YEAR compared with"),
    ("y IN (70, 1999)", "a YEAR in IN, BETWEEN or CASE"),
    ("NULLIF(e, 'x') = 1", "NULLIF"),
    ("s < 'x' COLLATE utf8mb4_unicode_ci", "the order of utf8mb4_unicode_ci"),
    ("IF(a > 1, j, s) = 'x'", "a JSON value or something else"),
    ("d = 1; DROP TABLE t", "There is a syntax error in"),
    ("'" * 3, "There is a syntax error in"),
    ("a" + "+(a" * 300 + ")" * 300 + " = 1", "There is a syntax error in"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_what_is_not_understood_is_refused(text: str, reason: str | None) -> None:
    made = ExpressionFilter([ExpressionRule(["*.*"], insert=text)])
    columns = "id INT PRIMARY KEY, a INT, s VARCHAR(20), d DATE, b BIT(4), j JSON, e ENUM('x'), y YEAR"
    table = parse_table(f"CREATE TABLE t ({columns})", schema="d")
    if reason is None:
        made.verify([table])
        return
    with pytest.raises(ConfigError, match=reason):
        made.verify([table])


def test_orders_that_are_not_known_are_refused_and_equality_is_not() -> None:
    table = parse_table("CREATE TABLE t (g VARCHAR(9) CHARACTER SET gbk)", schema="d")
    assert ignored(ExpressionRule(["*.*"], insert="g = '辛'"), "insert", None, ["辛"], table)
    with pytest.raises(ConfigError, match="the order of gbk_chinese_ci is not known"):
        ExpressionFilter([ExpressionRule(["*.*"], insert="g > '辛'")]).verify([table])


@pytest.mark.parametrize("kind", ["DECIMAL(50,2)", "POINT", "VECTOR(3)"])
def test_columns_that_cannot_be_asked_about_are_named(kind: str) -> None:
    table = parse_table(f"CREATE TABLE t (id INT, x {kind})", schema="d")
    with pytest.raises(ConfigError, match=r"column x: .* cannot stand in a filter"):
        ExpressionFilter([ExpressionRule(["*.*"], insert="x = 1")]).verify([table])


def test_quotes_and_engine_words_in_constants_stay_constants() -> None:
    value = 'it\'s "x" -- /* $$ ; \\ \0'
    text = "s = '" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"
    assert ignored(ExpressionRule(["*.*"], insert=text), "insert", None, [1, 1, value])
    assert not ignored(ExpressionRule(["*.*"], insert=text), "insert", None, [1, 1, "other"])
