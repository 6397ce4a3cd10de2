"""Which rows wait for others by foreign keys: those of logical tables, whatever their shards are called."""

from binlog_merge.pipeline.gather.writeset_history import _references_in
from binlog_merge.reshape.writesets import references_of
from snapshot_store.ddl.public import parse_table
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.tso import OrderKey

EARLY, KEY, LATE = OrderKey(5, 0, 0, 0), OrderKey(10, 1, 1, 0), OrderKey(20, 0, 0, 0)
CHILD = "CREATE TABLE {name} (id INT PRIMARY KEY, p INT, CONSTRAINT f{n} FOREIGN KEY (p) REFERENCES parent{n} (id))"


def test_foreign_keys_are_those_of_logical_tables() -> None:
    logical = parse_table(CHILD.format(name="child", n=""), schema="shop")
    shard = parse_table(CHILD.format(name="child_1", n="_1"), schema="shop_1")
    history = SchemaHistory().with_versions(
        [TableVersion(KEY, 0, "shop", "child", logical), TableVersion(KEY, 0, "shop_1", "child_1", shard, node="n1")]
    )
    references_at = _references_in(history)
    assert references_at(LATE) == references_of([logical]) != references_of([])
    assert references_at(EARLY) == references_of([])
