"""What the shards of a logical table have in common, seen on their servers before anything is merged.

    each shard has the same rows           a copy, such as a reference table
    shards have rows with the same keys    they collide
    shards count in the same way           the next rows will collide, unless the application gives them keys

The rows with the least keys are compared, some of each shard, for every unique key. Texts are equal if the server's own
weights are; what the server's clock gives a row, and what is computed, is none of what copies have in common.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Any, Final

from binlog_merge.bootstrap.nodes import NodeReader
from binlog_merge.bootstrap.values import Name, Shard
from binlog_merge.errors import WAYS_OUT_OF_COLLISIONS
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.sql.names import quote_name

ROWS: Final = 1000
"""The rows of each shard that are compared."""

Values = tuple[Any, ...]


class Kind(StrEnum):
    """What shards have in common."""

    copy = "copy"
    keys = "keys"
    counters = "counters"


@dataclass(frozen=True, slots=True)
class Overlap:
    """What shards of a logical table have in common, in words.

    `counts`: an AUTO_INCREMENT gives the key. `rows`: more than one of the shards has rows.
    """

    name: Name
    kind: Kind
    shards: tuple[Shard, ...]
    text: str
    counts: bool = False
    rows: bool = True


@dataclass(frozen=True, slots=True)
class Beginning:
    """The rows of a shard with the least keys, and how its AUTO_INCREMENT counts: step and offset.

    `rows` are whole rows by primary key, but for what a server gives them itself. `keys` are by the name of the index
    the values by which a server compares its keys, each with the values that are shown. `counts` is None for a table
    whose key no counter gives.
    """

    rows: Mapping[Values, Values] = field(default_factory=dict)
    keys: Mapping[str, Mapping[Values, Values]] = field(default_factory=dict)
    counts: tuple[int, int] | None = None


def beginning_of(reader: NodeReader, shard: Shard, table: Table) -> Beginning:
    """Return what a shard begins with; `table` is its definition."""
    place = f"{quote_name(shard.schema)}.{quote_name(shard.table)}"
    keys = {index.name: _least(reader, place, columns) for index, columns in unique_keys(table)}
    rows: dict[Values, Values] = {}
    counts = None
    if (primary := next((c for index, c in unique_keys(table) if index.name == "PRIMARY"), None)) is not None:
        own = [column for column in table.columns if not _by_server(column)]
        names = ", ".join(quote_name(column.name) for column in (*primary, *own))
        order = ", ".join(quote_name(column.name) for column in primary)
        found = reader.ask(f"SELECT {names} FROM {place} ORDER BY {order} LIMIT {ROWS}")
        rows = {tuple(row[: len(primary)]): tuple(row[len(primary) :]) for row in found}
        if primary[0].auto_increment and len(primary) == 1:
            ((step, offset),) = reader.ask("SELECT @@global.auto_increment_increment, @@global.auto_increment_offset")
            counts = int(step), int(offset)
    return Beginning(rows, keys, counts)


def unique_keys(table: Table) -> Iterator[tuple[Index, tuple[Column, ...]]]:
    """Yield the unique keys of a table whose parts are whole columns, each with these."""
    for index, places in table.whole_keys:
        yield index, tuple(table.columns[place] for place in places)


def _by_server(column: Column) -> bool:
    """Return whether a server gives the column a value of its own: its clock's, or one computed from others."""
    clock = column.default is not None and column.default.kind == "now"
    return clock or column.on_update_now or column.generated is not None


def _least(reader: NodeReader, place: str, columns: tuple[Column, ...]) -> dict[Values, Values]:
    names = [quote_name(column.name) for column in columns]
    compared = [_compared(column) for column in columns]
    there = " AND ".join(f"{name} IS NOT NULL" for name in names)
    order = ", ".join(names)
    rows = reader.ask(
        f"SELECT {', '.join([*compared, *names])} FROM {place} WHERE {there} ORDER BY {order} LIMIT {ROWS}"
    )
    return {tuple(row[: len(names)]): tuple(row[len(names) :]) for row in rows}


def _compared(column: Column) -> str:
    """Return SQL of that by which a server tells whether two values are equal."""
    name = quote_name(column.name)
    if column.type.family is not Family.TEXT:
        return name
    padded = "_0900_" not in (column.type.collation or "")
    return f"HEX(WEIGHT_STRING({f'TRIM(TRAILING FROM {name})' if padded else name}))"


def overlap_of(name: Name, key: tuple[str, ...], shards: Mapping[Shard, Beginning]) -> Overlap | None:
    """Return what the shards of a logical table have in common, None if nothing; `key` is its primary key's."""
    shown, together, beginnings = ".".join(name), tuple(shards), list(shards.values())
    counts = any(one.counts is not None for one in beginnings)
    if beginnings[0].rows and all(one.rows == beginnings[0].rows for one in beginnings):
        count = len(beginnings[0].rows)
        same = f"the same {count:,} rows" if count < ROWS else f"the same first {count:,} rows"
        return Overlap(
            name,
            Kind.copy,
            together,
            f"{shown}: {', '.join(map(str, shards))} have {same}: it looks like a copy, a table that each shard has in "
            "full. Name it under `copies`, so that its rows come from one of them; otherwise each of its changes comes "
            "out once a shard, and a replica stops at the second insert of a row (error 1062)",
            counts,
        )
    for (one, first), (other, second) in combinations(shards.items(), 2):
        for index, found in first.keys.items():
            if common := found.keys() & second.keys.get(index, {}).keys():
                least = found[min(common, key=str)]
                columns = key if index == "PRIMARY" else (index,) * len(least)
                value = ", ".join(f"{n}={v!r}" for n, v in zip(columns, least, strict=True))
                of = "" if index == "PRIMARY" else f" of the key {index}"
                return Overlap(
                    name,
                    Kind.keys,
                    together,
                    f"{shown}: {one} and {other} both have a row {value}{of}, and {len(common):,} of their first rows "
                    "have keys in common: a replica stops at the second one (error 1062). What to do: "
                    f"{WAYS_OUT_OF_COLLISIONS}",
                    counts,
                )
    counting = [(shard, one.counts) for shard, one in shards.items() if one.counts is not None]
    for (one_shard, a), (other_shard, b) in combinations(counting, 2):
        if a == b or (a[0] == b[0] and (a[1] - b[1]) % a[0] == 0):
            return Overlap(
                name,
                Kind.counters,
                together,
                f"{shown}: {one_shard} and {other_shard} both count {key[0]} by AUTO_INCREMENT, in steps of {a[0]} "
                f"from {a[1]} on: unless the application gives the rows their keys, they will be the same (error 1062 "
                "on a replica). What to do: set auto_increment_increment and auto_increment_offset on each server; "
                f"or, {WAYS_OUT_OF_COLLISIONS}",
                counts,
                sum(bool(one.rows) for one in beginnings) > 1,
            )
    return None
