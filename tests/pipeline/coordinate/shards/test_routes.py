"""What a route takes out of names into columns."""

import pytest

from binlog_merge.config.modes import Extract, Extractor
from binlog_merge.pipeline.coordinate.shards.clauses import applied
from binlog_merge.pipeline.coordinate.shards.extracted import keyed_sql, with_columns
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all
from snapshot_store import parse_table
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession

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


KEYED = Extract(source=Extractor("(.*)", "c", key=True))


def keys_of(table: Table) -> dict[str, list[str | None]]:
    return {index.name: [part.column for part in index.parts] for index in table.indexes}


def test_an_extracted_column_is_the_last_of_every_unique_key() -> None:
    shard = parse_table("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a), UNIQUE u (b, a), KEY k (b))", schema="shop")
    table = with_columns(shard, KEYED)
    assert keys_of(table) == {"PRIMARY": ["a", "c"], "u": ["b", "a", "c"], "k": ["b"]}
    assert with_columns(table, KEYED) == table
    own = parse_table("CREATE TABLE t (c INT, a INT, PRIMARY KEY (c, a))", schema="shop")
    assert with_columns(own, KEYED) == own


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("ALTER TABLE t ADD UNIQUE (b)", "ALTER TABLE t ADD UNIQUE (b, `c`)"),
        ("ALTER TABLE t ADD KEY (b), COMMENT 'PRIMARY KEY (x)'", None),
        ("alter table t add constraint `x` unique index y using hash (b(3) desc, a) /* ) */ ;",
         "alter table t add constraint `x` unique index y using hash (b(3) desc, a, `c`) /* ) */ ;"),
        ("CREATE UNIQUE INDEX `UNIQUE` ON t ((a + 1))", "CREATE UNIQUE INDEX `UNIQUE` ON t ((a + 1), `c`)"),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)",
         "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, `c`)"),
        ("ALTER TABLE t DROP PRIMARY KEY", None),
        ("ALTER TABLE t ADD x INT UNIQUE FIRST, ADD y INT UNIQUE KEY",
         "ALTER TABLE t ADD x INT  FIRST, ADD UNIQUE KEY `x` (`x`, `c`), ADD y INT , ADD UNIQUE KEY `y` (`y`, `c`)"),
        ("ALTER TABLE t CHANGE b z VARCHAR(9) UNIQUE",
         "ALTER TABLE t CHANGE b z VARCHAR(9) , ADD UNIQUE KEY `z` (`z`, `c`)"),
        ("ALTER TABLE t MODIFY u BIGINT UNIQUE", "ALTER TABLE t MODIFY u BIGINT , ADD UNIQUE KEY `u_2` (`u`, `c`)"),
        ("ALTER TABLE t DROP PRIMARY KEY, MODIFY b VARCHAR(9) PRIMARY KEY",
         "ALTER TABLE t DROP PRIMARY KEY, MODIFY b VARCHAR(9) , ADD PRIMARY KEY (`b`, `c`)"),
        ("ALTER TABLE t DROP COLUMN a;", "ALTER TABLE t DROP COLUMN a, DROP PRIMARY KEY;"),
        ("ALTER TABLE t DROP COLUMN u", "ALTER TABLE t DROP COLUMN u, DROP KEY `u`"),
        ("ALTER TABLE t DROP COLUMN u, DROP INDEX u", None),
        ("ALTER TABLE t ADD FOREIGN KEY f (b) REFERENCES p (x)",
         "ALTER TABLE t ADD FOREIGN KEY f (b, `c`) REFERENCES p (x, `c`)"),
        ("ALTER TABLE t ADD FOREIGN KEY f (b) REFERENCES q (x)", None),
        ("ALTER TABLE t ADD COLUMN (x INT UNIQUE, y INT)", "refused"),
    ],
)  # fmt: skip
def test_a_statement_on_the_keys_is_one_on_keys_with_the_column(sql: str, wanted: str | None) -> None:
    shard = parse_table("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9), u INT UNIQUE)", schema="shop")

    def key_columns(name: tuple[str, str]) -> tuple[str, ...]:
        return ("c",) if name == ("shop", "p") else ()

    session = DdlSession(validate=False)
    before = with_columns(shard, KEYED, None, key_columns)
    after = with_columns(applied(shard, sql, session), KEYED, None, key_columns)
    if wanted == "refused":
        with pytest.raises(DdlNotUnderstood, match="have extracted columns"):
            keyed_sql(sql, session, before, after, KEYED.keys)
        return
    made = keyed_sql(sql, session, before, after, KEYED.keys)
    assert made == (wanted or sql)
    assert keys_of(applied(before, made, session)) == keys_of(after)
