"""The tables of a generated cluster: what the nodes have, what the cluster shows, and bytes for their rows.

Table maps and cells come from the product's own packers, which are tested against a real server; only how they are put
together is the generator's. A column's values are a pool of 256 cells, so that any type is as cheap to write as any
other.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.cell_length import real_type
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.optional_metadata import (
    CHARACTER_TYPES,
    NUMERIC_TYPES,
    DefaultCharset,
    OptionalMetadata,
)
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.values.types import binlog_column
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Column, Table

Mode = Literal["identity", "trim", "pad"]
MODES: Final[tuple[Mode, ...]] = ("identity", "trim", "pad")

POOL: Final = 256
UTF8MB4_0900_AI_CI: Final = 255
BINARY: Final = 63
COMMIT_TABLE: Final = (
    "CREATE TABLE `__commit_ts__` (`gtrid` varbinary(64) NOT NULL, `tso` bigint unsigned NOT NULL, "
    "PRIMARY KEY (`gtrid`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;"
)
EXTRA: Final = "`extra` int NOT NULL DEFAULT '42'"
"""The column that one side has and the other lacks."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of table: its columns as SQL, the place of the column `extra`, and its share of the transactions."""

    name: str
    columns: tuple[str, ...]
    extra_before: int
    weight: float


SHAPES: Final[dict[str, Shape]] = {
    s.name: s
    for s in (
        Shape(
            "counters",
            ("`id` bigint NOT NULL", "`hits` int unsigned NOT NULL", "`changed` timestamp(6) NOT NULL"),
            2,
            0.3,
        ),
        Shape(
            "orders",
            (
                "`id` bigint NOT NULL",
                "`user_id` bigint unsigned NOT NULL",
                "`note` varchar(200) DEFAULT NULL",
                "`amount` decimal(18,4) NOT NULL",
                "`created` datetime(3) NOT NULL",
                "`code` varchar(50) DEFAULT NULL",
                "`qty` int NOT NULL",
            ),
            3,
            0.6,
        ),
        Shape(
            "documents",
            (
                "`id` bigint NOT NULL",
                "`title` varchar(300) DEFAULT NULL",
                "`state` enum('draft','open','done') NOT NULL",
                "`score` double NOT NULL",
                "`tags` json DEFAULT NULL",
                "`body` text",
                "`digest` char(32) NOT NULL",
            ),
            2,
            0.1,
        ),
    )
}


def create_table(shape: Shape, name: str, *, extra: bool) -> str:
    """Return the CREATE TABLE of a shape, with or without the column `extra`."""
    columns = list(shape.columns)
    if extra:
        columns.insert(shape.extra_before, EXTRA)
    body = ", ".join([*columns, "PRIMARY KEY (`id`)"])
    return f"CREATE TABLE `{name}` ({body}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;"


def logical_dump(shapes: Sequence[Shape], mode: Mode) -> str:
    """Return the logical base schema."""
    tables = [create_table(s, s.name, extra=mode == "pad") for s in shapes]
    return "\n".join(["CREATE DATABASE `shop`;", "USE `shop`;", *tables, ""])


def physical_schema(node: int) -> str:
    """Return the name of a node's schema."""
    return f"shop_{node:06d}"


def physical_dump(shapes: Sequence[Shape], mode: Mode, node: int, tables_per_shape: int) -> str:
    """Return a node's base schema: several physical tables of each shape, and the commit table."""
    names = [(s, f"{s.name}_{node * tables_per_shape + i}") for s in shapes for i in range(tables_per_shape)]
    tables = [create_table(s, name, extra=mode == "trim") for s, name in names]
    commit = ["CREATE DATABASE `__cdc__`;", "USE `__cdc__`;", COMMIT_TABLE]
    schema = physical_schema(node)
    return "\n".join([*commit, f"CREATE DATABASE `{schema}`;", f"USE `{schema}`;", *tables, ""])


def table_map(table: Table, table_id: int) -> TableMap:
    """Return the table map that MySQL writes with binlog_row_metadata=FULL, for the types used here."""
    pairs = [binlog_column(c) for c in table.columns]
    types, metas = bytes(kind for kind, _ in pairs), tuple(meta for _, meta in pairs)
    null_bitmap = bytearray((len(types) + 7) // 8)
    for i, column in enumerate(table.columns):
        null_bitmap[i >> 3] |= column.nullable << (i & 7)
    real = [real_type(kind, meta) for kind, meta in pairs]
    names = [c.name for c in table.columns]
    key = next((i.parts for i in table.indexes if i.name == "PRIMARY"), ())
    members = tuple(tuple(m.encode() for m in c.type.members) for c in table.columns if c.type.name == "enum")
    optional = OptionalMetadata(
        signedness=tuple(c.type.unsigned for c, kind in zip(table.columns, real, strict=True) if kind in NUMERIC_TYPES),
        default_charset=_charset([c for c, kind in zip(table.columns, real, strict=True) if kind in CHARACTER_TYPES]),
        column_names=tuple(names),
        enum_values=members or None,
        simple_primary_key=tuple(names.index(part.column) for part in key if part.column is not None) or None,
        enum_and_set_default_charset=DefaultCharset(UTF8MB4_0900_AI_CI) if members else None,
        visibility=(True,) * len(types),
    )
    body = TableMap(table_id, 1, table.schema, table.name, types, metas, bytes(null_bitmap))
    return body.with_optional(optional)


def _charset(columns: Sequence[Column]) -> DefaultCharset | None:
    if not columns:
        return None
    binary = [i for i, c in enumerate(columns) if c.type.name.endswith(("binary", "blob"))]
    if len(binary) == len(columns):
        return DefaultCharset(BINARY)
    return DefaultCharset(UTF8MB4_0900_AI_CI, tuple((i, BINARY) for i in binary))


@dataclass(frozen=True)
class Cells:
    """The cell pools of several tables, as the kernel reads them.

    `tables[t]` is (first column, columns); `columns[c]` is (pool, or -1 for the row id; chance of NULL in 256ths);
    `cells[p * 256 + i]` is (offset, length) in `data`; `widest[t]` bounds a row image of table t.
    """

    tables: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    mean: npt.NDArray[np.float64]
    widest: npt.NDArray[np.int64]


def physical_tables(dump: str, node: int) -> list[Table]:
    """Return the tables of a node's dump that hold the cluster's data, in the order of the dump."""
    schema = physical_schema(node)
    return [table for (name, _), table in parse_dump(dump).tables.items() if name == schema]


def cell_pools(tables: Sequence[Table], seed: int) -> Cells:
    """Return the pools of the tables' columns; tables of one shape share them by making the same ones."""
    random_source = random.Random(seed)
    spans, columns, cells = list[tuple[int, int]](), list[tuple[int, int]](), list[tuple[int, int]]()
    data = bytearray()
    mean, widest, known = [], [], dict[str, int]()
    pools = 0
    for table in tables:
        spans.append((len(columns), len(table.columns)))
        average, most = (len(table.columns) + 7) / 8, (len(table.columns) + 7) // 8
        for column in table.columns:
            if column.name == "id":
                columns.append((-1, 0))
                average, most = average + 8, most + 8
                continue
            kind, meta = binlog_column(column)
            name = f"{column.name} {column.type}"
            if name not in known:
                known[name] = pools
                pools += 1
                for _ in range(POOL):
                    value = _value(column, random_source)
                    cell = encode_cell(kind, meta, value, column.type.unsigned, members=column.type.members)
                    cells.append((len(data), len(cell)))
                    data += cell
            here = known[name]
            columns.append((here, 24 if column.nullable else 0))
            lengths = [length for _, length in cells[here * POOL : (here + 1) * POOL]]
            average, most = average + sum(lengths) / POOL, most + max(lengths)
        mean.append(average)
        widest.append(most)
    number = lambda rows: np.array(rows, np.int64)  # noqa: E731
    return Cells(
        number(spans), number(columns), number(cells).reshape(-1, 2), np.frombuffer(bytes(data), np.uint8).copy(),
        np.array(mean), number(widest),
    )  # fmt: skip


def _value(column: Column, r: random.Random) -> Any:
    make = _VALUES.get(column.type.name)
    if make is None:
        raise ValueError(f"no values are made for {column.name} {column.type.name}")
    return make(column, r)


def _words(r: random.Random, low: int, high: int) -> str:
    text = " ".join(r.choice(_WORDS) for _ in range(high // 4 + 1))
    return text[: r.randint(low, high)]


_WORDS: Final = ("paid", "sent", "waiting for", "customer", "returned", "über", "gift", "express", "42", "address")
_BEGUN: Final = datetime(2026, 1, 1)

_VALUES: Final[dict[str, Callable[[Column, random.Random], Any]]] = {
    "int": lambda c, r: r.randrange(0, 1 << 31),
    "bigint": lambda c, r: r.randrange(0, 1 << 48),
    "double": lambda c, r: r.random() * 100,
    "decimal": lambda c, r: Decimal(r.randrange(0, 10**10)).scaleb(-(c.type.decimals or 0)),
    "varchar": lambda c, r: _words(r, 5, min(120, c.type.length or 1)),
    "text": lambda c, r: _words(r, 200, 3000),
    "char": lambda c, r: r.randbytes((c.type.length or 2) // 2).hex(),
    "datetime": lambda c, r: _BEGUN + timedelta(milliseconds=r.randrange(0, 10**9)),
    "timestamp": lambda c, r: _BEGUN + timedelta(microseconds=r.randrange(0, 10**12)),
    "enum": lambda c, r: r.choice(c.type.members),
    "json": lambda c, r: {"tags": [r.choice(_WORDS) for _ in range(3)], "rank": r.randrange(1000)},
}
