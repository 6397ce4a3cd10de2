"""Rows of many tables as record batches, in the order of the log: what they were before and after, as JSON text.

The columns are `schema`, `table` and those of `ask.rows`. `before` and `after` are the objects that `changes -o jsonl`
prints of the table: all columns that its versions in the range have, dates and times as MySQL's text, decimals and
integers beyond 2^53 as texts, bytes as 0x….
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.ask.read import (
    MOST_KNOWN,
    PART_BYTES,
    WINDOW,
    Asked,
    Known,
    batch_of,
    checked_fields,
    checked_ops,
    parts_with,
)
from binlog_merge.ask.rows import FIELDS as ROW_FIELDS
from binlog_merge.ask.shape import Shape, shape_of
from binlog_merge.ask.values import image_rows, plain_of
from binlog_merge.files.manifest import OutputFile
from binlog_merge.filters.expressions import Op
from binlog_merge.json_values import json_text
from binlog_merge.log.changes import OPS, Changes, changes_of
from binlog_merge.log.key_index import segments_with
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.log.versions import TableVersions, all_versions_between
from snapshot_store.model import Table
from snapshot_store.names import NamePattern

Name = tuple[str, str]
FIELDS: Final[dict[str, Any]] = {
    "schema": pa.string(),
    "table": pa.string(),
    **ROW_FIELDS,
    "before": pa.large_string(),
    "after": pa.large_string(),
}
"""The columns of a batch."""
_PLACE: Final = ("position", "row")
EVERY: Final = NamePattern("*", "*", (True, True))


@dataclass(frozen=True, slots=True)
class AskedAll:
    """What is asked of the rows of tables that match a pattern; `versions` are of those that the schema store knows.

    `schemas` and `tables`: only these, None for all.
    """

    patterns: tuple[NamePattern, ...]
    versions: Mapping[Name, TableVersions] = field(default_factory=dict)
    fields: tuple[str, ...] = tuple(FIELDS)
    ops: tuple[Op, ...] = OPS
    schemas: frozenset[str] | None = None
    tables: frozenset[str] | None = None

    @property
    def schema(self) -> Any:
        """Return the schema of the batches."""
        return pa.schema([(name, FIELDS[name]) for name in self.fields])

    def wants(self, schema: str, table: str) -> bool:
        """Return whether rows of a table are asked for."""
        if (self.schemas is not None and schema not in self.schemas) or (
            self.tables is not None and table not in self.tables
        ):
            return False
        return any(pattern.matches(schema, table) for pattern in self.patterns)

    def of_table(self, changes: Changes) -> Asked:
        """Return what is asked of the rows of one table. Raises UnknownTableSchema."""
        name = (changes.table.schema, changes.table.table)
        versions = self.versions.get(name) or TableVersions(*name)
        now = versions.of_rows(changes.table, changes.segment.key(changes.transaction_of(0)))
        known = versions.tables()
        names = {column.name.lower() for table in known for column in table.columns}
        lacks = any(column.name.lower() not in names for column in now.columns)
        own = tuple(field for field in self.fields if field in ROW_FIELDS)
        fields = tuple(dict.fromkeys((*own, *_PLACE)))
        return Asked(versions, _shape((*known, now) if lacks else known), fields, self.ops, None, True, whole=False)


Question = Asked | AskedAll


@lru_cache(maxsize=1000)
def _shape(tables: tuple[Table, ...]) -> Shape:
    """Return the shape of a table over its versions; it is asked for again with each part of a log."""
    return shape_of(tables, temporal_text=True)


def asked_all(
    binlog: MergedBinlog,
    patterns: Sequence[NamePattern],
    first: int,
    last: int,
    *,
    fields: Sequence[str] | None = None,
    ops: Sequence[str] | None = None,
) -> AskedAll:
    """Return what is asked of transactions `first` to `last`. Raises ConfigError and UnknownTable."""
    known = all_versions_between(binlog, patterns, first, last)
    return AskedAll(tuple(patterns), known, checked_fields(fields, FIELDS), checked_ops(ops))


def all_batches(binlog: MergedBinlog, asked: AskedAll, first_rank: int, last_rank: int) -> Iterator[Any]:
    """Yield the rows of transactions `first_rank` to `last_rank`, in the order of the log; see `read.batches_of`."""
    if first_rank > last_rank:
        return
    binlog.check_there(first_rank)
    for file in binlog.state.files:
        if file.last_rank >= first_rank and file.first_rank <= last_rank:
            yield from all_file_batches(binlog, asked, file, first_rank, last_rank)


def all_file_batches(
    binlog: MergedBinlog,
    asked: AskedAll,
    file: OutputFile,
    first_rank: int,
    last_rank: int,
    position: int | None = None,
    part_bytes: int = PART_BYTES,
) -> Iterator[Any]:
    """Yield the rows of some transactions of a file; `position` is where the first of them begins, if known.

    Of a file that has an index of keys, only what has rows of the tables is read.
    """
    schema = asked.schema
    first, last = max(first_rank, file.first_rank), min(last_rank, file.last_rank)
    pieces = segments_with(binlog, file, first, last, asked.wants, position=position, window=WINDOW)
    known: dict[Name, Known] = {}
    for part, transactions in parts_with(pieces, asked.wants, asked.ops, part_bytes):
        found = []
        for changes in changes_of(part):
            of_table = _known(known, asked.of_table(changes))
            batch = batch_of(of_table, of_table.asked.schema, changes, transactions, binlog)
            if batch is not None:
                found.append((batch, _whole(batch, schema, changes)))
        if found:
            yield _in_order(found)


def _known(known: dict[Name, Known], asked: Asked) -> Known:
    """Return what is known of a table's rows, while its shape is the same."""
    name = asked.versions.schema, asked.versions.name
    found = known.get(name)
    if found is None or found.asked.shape is not asked.shape:
        if len(known) >= MOST_KNOWN:
            known.clear()
        found = known[name] = Known(asked)
    return found


def _whole(batch: Any, schema: Any, changes: Changes) -> Any:
    """Return the rows of a table with the columns that are asked for."""
    texts = {"schema": changes.table.schema, "table": changes.table.table}
    arrays = []
    for one in schema:
        if one.name in texts:
            arrays.append(pa.repeat(pa.scalar(texts[one.name], pa.string()), len(batch)))
        elif one.name in ("before", "after"):
            rows = image_rows(batch.column(one.name), plain_of)
            arrays.append(pa.array([None if row is None else json_text(row) for row in rows], one.type))
        else:
            arrays.append(batch.column(one.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_order(found: Sequence[tuple[Any, Any]]) -> Any:
    """Return the rows of several tables as they stand in the log."""
    if len(found) == 1:
        return found[0][1]
    places = pa.Table.from_batches([batch.select(list(_PLACE)) for batch, _ in found])
    order = pc.sort_indices(places, sort_keys=[(name, "ascending") for name in _PLACE])
    whole = pa.Table.from_batches([batch for _, batch in found]).take(order)
    return whole.combine_chunks().to_batches()[0]
