"""What a route takes out of names into columns."""

import pytest

from binlog_merge.config.extract import Extract, Extractor
from binlog_merge.pipeline.coordinate.shards.optimistic.joined import join_all
from binlog_merge.pipeline.coordinate.shards.routes import with_columns
from snapshot_store import parse_table

SHARD = parse_table("CREATE TABLE t (id INT PRIMARY KEY) CHARSET latin1", schema="shop")


@pytest.mark.parametrize(
    ("regexp", "name", "value"),
    [
        ("t_(.*)", "t_7", "7"),
        ("(.*)_(.*)", "shop_07", "shop07"),
        ("^t_(\\d+)$", "t_x", ""),
        ("_(\\d+)", "t_12_more", "12"),
        ("a(b)?(c)", "ac", "c"),
        ("(?i)T_(.*)", "t_ä", "ä"),
    ],
)
def test_what_is_captured_is_joined(regexp: str, name: str, value: str) -> None:
    assert Extractor(regexp, "c").value(name) == value


@pytest.mark.parametrize(
    ("regexp", "column", "said"),
    [("t_(", "c", "not a regular"), ("t_.*", "c", "captures nothing"), ("(.)", "", "empty")],
)
def test_an_extractor_that_cannot_work_is_refused(regexp: str, column: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Extractor(regexp, column)


def test_two_extractors_do_not_write_one_column() -> None:
    with pytest.raises(ValueError, match="same column"):
        Extract(table=Extractor("(.*)", "c"), schema=Extractor("(.*)", "C"))


def test_values_come_from_table_schema_and_node() -> None:
    extract = Extract(Extractor("t_(.*)", "c_table"), Extractor("shop_(.*)", "c_schema"), Extractor("(.*)", "c_source"))
    assert extract.values("dn-1", "shop_03", "t_7") == (("c_table", "7"), ("c_schema", "03"), ("c_source", "dn-1"))
    assert Extract(source=Extractor("dn-(.*)", "c")).values("dn-2", "s", "t") == (("c", "2"),)
    assert Extract().values("n", "s", "t") == ()


def test_a_shard_counts_as_having_the_columns() -> None:
    extract = Extract(table=Extractor("t_(.*)", "c_table"))
    table = with_columns(SHARD, extract)
    column = table.columns[-1]
    assert (column.name, column.type.name, column.type.charset, column.nullable) == (
        "c_table",
        "varchar",
        "latin1",
        False,
    )
    logical = parse_table("CREATE TABLE t (c_table SMALLINT NOT NULL, id INT)", schema="shop")
    assert with_columns(SHARD, extract, logical).columns[-1] == logical.columns[0]
    assert with_columns(table, extract) == table
    joined = join_all([table, with_columns(SHARD, extract)])
    assert joined is not None
    assert [c.name for c in joined.columns] == ["id", "c_table"]
