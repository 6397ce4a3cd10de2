"""What a user asks of a cluster's changes, in the user's words, as `ask.selection` has it of a merged log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from binlog_merge.ask.all_tables import FIELDS, AskedAll, Question, all_file_batches
from binlog_merge.ask.read import checked_fields, checked_ops, file_batches
from binlog_merge.ask.selection import Place as Given
from binlog_merge.ask.selection import asked_by, name_of, patterns_of
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.errors import UnknownTable, UnknownTableSchema
from binlog_merge.log.place import parse_place
from binlog_merge.log.versions import TableVersions, in_force_between, like
from binlog_merge.unmerged.files import rendered
from binlog_merge.unmerged.plan import Unmerged, UnmergedFile
from snapshot_store.names import NamePattern
from snapshot_store.tso import OrderKey


@dataclass(frozen=True)
class UnmergedSelection:
    """Changes of a cluster: what is asked, and the ranks of the first and the last transaction."""

    unmerged: Unmerged
    asked: Question
    first: int
    last: int

    def files(self) -> Iterator[UnmergedFile]:
        """Yield the files that have such transactions."""
        for file in self.unmerged.files:
            if file.last_rank >= self.first and file.first_rank <= self.last:
                yield file

    def batches(self) -> Iterator[Any]:
        """Yield the changes as record batches, in order; one file is rendered at a time."""
        for file in self.files():
            assert self.unmerged.common is not None
            with rendered(file, self.unmerged.common, self.unmerged.header) as (binlog, output):
                if isinstance(self.asked, AskedAll):
                    yield from all_file_batches(binlog, self.asked, output, self.first, self.last)
                else:
                    yield from file_batches(binlog, self.asked, output, self.first, self.last)


def select_unmerged(
    unmerged: Unmerged,
    table: str | tuple[str, str] | None,
    *,
    start: Given = None,
    stop: Given = None,
    op: str | Sequence[str] | None = None,
    fields: Sequence[str] | None = None,
    time_zone: str = "UTC",
    **of_one_table: Any,
) -> UnmergedSelection:
    """Return the changes that `ask.changes` describes, of a cluster that is not merged."""
    first, last = unmerged.log.between(
        None if start is None else parse_place("start", start, time_zone),
        None if stop is None else parse_place("stop", stop, time_zone),
    )
    between = _keys_between(unmerged, first, last)
    if (patterns := patterns_of(table)) is not None:
        known = {name: of for name, of in unmerged.versions.items() if any(p.matches(*name) for p in patterns)}
        _check_there(unmerged, patterns)
        ops = checked_ops((op,) if isinstance(op, str) else op)
        every = AskedAll(patterns, in_force_between(known, between), checked_fields(fields, FIELDS), ops)
        return UnmergedSelection(unmerged, every, first, last)
    assert table is not None
    name = name_of(table)
    _check_there(unmerged, [NamePattern.exact(*name)])
    (versions,) = in_force_between({name: unmerged.versions[name]}, between).values()
    _check_known(versions)
    ever = TableVersions(*name, tuple(unmerged.versions[name]))
    asked = asked_by(versions, ever, op=op, fields=fields, time_zone=time_zone, **of_one_table)
    return UnmergedSelection(unmerged, asked, first, last)


def _check_there(unmerged: Unmerged, patterns: Sequence[NamePattern]) -> None:
    for pattern in patterns:
        if not all(pattern.wild) and not any(pattern.matches(*name) for name in unmerged.versions):
            near = like(sorted(unmerged.versions), pattern.schema, pattern.table)
            raise UnknownTable(f"the cluster has no table {pattern}{near}")


def _check_known(versions: TableVersions) -> None:
    """Raise UnknownTableSchema where only the rows themselves say the columns: the types must be known before."""
    if any(version.opaque for version in versions.versions):
        raise UnknownTableSchema(
            f"what {versions.schema}.{versions.name} is here is not known before its rows are read: a DDL was not "
            "understood",
            remedy="merge, and read the merged log; or read all tables, whose rows are JSON text",
        )


def _keys_between(unmerged: Unmerged, first: int, last: int) -> tuple[OrderKey, OrderKey] | None:
    """Return the keys of the first transaction of rows between two ranks and of the last one, None if there is none."""
    low: OrderKey | None = None
    high: OrderKey | None = None
    for file in unmerged.files:
        if file.last_rank < first or file.first_rank > last:
            continue
        rank = file.first_rank
        for rows in file.rows():
            begins = np.flatnonzero(rows.first)
            ranks = np.arange(rank, rank + len(begins))
            of_rows = (rows.flags[begins] & (ks.MARKER | ks.HEARTBEAT)) == 0
            inside = begins[of_rows & (ranks >= first) & (ranks <= last)]
            if len(inside):
                low = low or rows.key(int(inside[0]))
                high = rows.key(int(inside[-1]))
            if file.last_rank <= last and len(rows) and low is not None:
                high = rows.key(len(rows) - 1)  # of a DDL, too: the manifest of a merged log has it
            rank += len(begins)
    return None if low is None or high is None else (low, high)
