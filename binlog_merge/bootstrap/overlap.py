"""What the shards of a logical table have in common, seen on their servers before anything is merged.

    each shard has the same rows           a copy, such as a reference table
    shards have rows with the same keys    they collide
    shards count in the same way           the next rows will collide, unless the application gives them keys

The rows with the least keys are compared, some of each shard.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from binlog_merge.bootstrap.nodes import NodeReader
from binlog_merge.bootstrap.values import Shard
from binlog_merge.errors import WAYS_OUT_OF_COLLISIONS
from snapshot_store.model import Table
from snapshot_store.mysql.sql.names import quote_name

ROWS: Final = 1000
"""The rows of each shard that are compared."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The rows of a shard with the least keys, each with its key, and how its AUTO_INCREMENT counts: step and offset.

    `counts` is None for a table whose key no counter gives.
    """

    keys: Mapping[tuple[Any, ...], tuple[Any, ...]]
    counts: tuple[int, int] | None


def beginning_of(reader: NodeReader, shard: Shard, table: Table) -> Beginning:
    """Return what a shard begins with; `table` is its definition, which has a primary key."""
    assert table.primary_key is not None
    names = [part.column for part in table.primary_key.parts if part.column is not None]
    places = [table.index_of(name) for name in names]
    key = ", ".join(map(quote_name, names))
    place = f"{quote_name(shard.schema)}.{quote_name(shard.table)}"
    columns = ", ".join(quote_name(column.name) for column in table.columns)
    rows = reader.ask(f"SELECT {columns} FROM {place} ORDER BY {key} LIMIT {ROWS}")
    keys = {tuple(row[at] for at in places if at is not None): tuple(row) for row in rows}
    first = table.columns[places[0]] if places and places[0] is not None else None
    counts = None
    if first is not None and first.auto_increment and len(names) == 1:
        ((step, offset),) = reader.ask("SELECT @@global.auto_increment_increment, @@global.auto_increment_offset")
        counts = int(step), int(offset)
    return Beginning(keys, counts)


def overlaps(name: str, key: Sequence[str], shards: Mapping[Shard, Beginning]) -> Iterator[str]:
    """Yield what the shards of a logical table have in common, in words; `key` are the columns of its primary key."""
    together = ", ".join(map(str, shards))
    beginnings = list(shards.values())
    if beginnings[0].keys and all(one.keys == beginnings[0].keys for one in beginnings):
        count = len(beginnings[0].keys)
        same = f"the same {count:,} rows" if count < ROWS else f"the same first {count:,} rows"
        yield (
            f"{name}: {together} have {same}: it looks like a copy, a table that each shard has in full. Name it under "
            "`copies`, so that its rows come from one of them; otherwise each of its changes comes out once a shard, "
            "and a replica stops at the second insert of a row (error 1062)"
        )
        return
    for (one, first), (other, second) in combinations(shards.items(), 2):
        if common := first.keys.keys() & second.keys.keys():
            value = ", ".join(f"{n}={v!r}" for n, v in zip(key, min(common, key=str), strict=True))
            yield (
                f"{name}: {one} and {other} both have a row {value}, and {len(common):,} of their first rows have keys "
                f"in common: a replica stops at the second one (error 1062). What to do: {WAYS_OUT_OF_COLLISIONS}"
            )
            return
    counting = [(shard, one.counts) for shard, one in shards.items() if one.counts is not None]
    for (one_shard, a), (other_shard, b) in combinations(counting, 2):
        if a == b or (a[0] == b[0] and (a[1] - b[1]) % a[0] == 0):
            yield (
                f"{name}: {one_shard} and {other_shard} both count {key[0]} by AUTO_INCREMENT, in steps of {a[0]} from "
                f"{a[1]} on: unless the application gives the rows their keys, they will be the same (error 1062 on a "
                "replica). What to do: set auto_increment_increment and auto_increment_offset on each server; or, "
                f"{WAYS_OUT_OF_COLLISIONS}"
            )
            return
