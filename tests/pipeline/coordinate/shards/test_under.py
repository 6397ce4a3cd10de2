"""Statements of a table that is coordinated under the name it began with, which another table has by now."""

import pytest

from binlog_merge.pipeline.coordinate.shards.identity import sql_under, table_under
from snapshot_store.ddl.public import parse_table

FIRST, NOW = ("x", "w"), ("x", "b")


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE `x`.`b` EXCHANGE PARTITION p WITH TABLE `x`.`w`",
        "ALTER TABLE `x`.`b` ADD FOREIGN KEY (v) REFERENCES `x`.`w` (id)",
        "ALTER TABLE `x`.`b` ADD FOREIGN KEY (v) REFERENCES `x`.`b` (id)",
    ],
)
def test_a_statement_names_the_same_tables_on_its_way_out(sql: str) -> None:
    within = sql_under(sql, NOW, FIRST, None)
    assert within.startswith("ALTER TABLE `x`.`w` ")
    assert sql_under(within, FIRST, NOW, None) == sql
    # Under a third name, the other table is still the other.
    assert sql_under(within, FIRST, ("x", "c"), None) == sql.replace("`b`", "`c`")


def test_a_foreign_key_on_the_table_that_has_the_first_name() -> None:
    table = parse_table(
        "CREATE TABLE x.b (id INT PRIMARY KEY, v INT, CONSTRAINT o FOREIGN KEY (v) REFERENCES w (id), "
        "CONSTRAINT s FOREIGN KEY (v) REFERENCES b (id))"
    )
    within = table_under(table, FIRST)
    assert (within.schema, within.name) == FIRST and table_under(within, NOW) == table
