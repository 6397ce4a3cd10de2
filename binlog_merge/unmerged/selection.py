"""What a question selects of a cluster that is not merged, and its changes, as of the log that a merge would write."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from binlog_merge.ask.all_tables import file_batches
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.errors import MergeError, UnknownTable, UnknownTableSchema
from binlog_merge.files.manifest import Header, ManifestState, OutputFile
from binlog_merge.files.scratch import scratch_folder
from binlog_merge.log.log import Log
from binlog_merge.log.question import AnySelection, Question
from binlog_merge.log.versions import TableVersions, in_force_between, like
from binlog_merge.pipeline.base.blocks import Held, holding
from binlog_merge.pipeline.gather.task import render
from binlog_merge.pipeline.gather.values import GatherTask, doubted_orders
from binlog_merge.unmerged.plan import LogAsFound, Unmerged, UnmergedFile
from snapshot_store.names import NamePattern
from snapshot_store.tso import OrderKey

_LOG = logging.getLogger(__name__)


def files_of(unmerged: Unmerged, selection: AnySelection) -> Iterator[UnmergedFile]:
    """Yield the files that have such transactions."""
    for file in unmerged.files:
        if file.last_rank >= selection.first and file.first_rank <= selection.last:
            yield file


def unmerged_batches(unmerged: Unmerged, selection: AnySelection) -> Iterator[Any]:
    """Yield the changes as record batches, in order; one file is rendered at a time."""
    for file in files_of(unmerged, selection):
        assert unmerged.common is not None
        with rendered(file, unmerged.common, unmerged.header) as (binlog, output):
            yield from file_batches(binlog, selection, output)


@contextmanager
def rendered(file: UnmergedFile, common: GatherTask, header: Header) -> Iterator[tuple[Log, OutputFile]]:
    """Yield a log that has this file alone. It takes its size in the folder for temporary files (TMPDIR).

    Logs what a merge warns of when it writes. Raises what a merge does at rows that are wrong.
    """
    task = replace(common, name=file.name, next_name=file.next_name, rank=file.first_rank, runs=file.runs)
    with scratch_folder() as folder:
        with holding(Held(file.blocks)):
            made = render(task, folder)
        if made.error is not None:
            raise MergeError.from_dict(made.error)
        for text in made.believed:
            _LOG.warning("the table map is believed, not the schema history: %s", text)
        for text in doubted_orders(made.doubted):
            _LOG.warning("%s", text)
        first, last = ("" if key is None else key.text() for key in (made.first_key, made.last_key))
        output = OutputFile(
            file.name, made.size, True, first, last, file.first_rank, file.last_rank, made.input_bytes,
            made.transactions, made.sequence,
        )  # fmt: skip
        yield Log(LogAsFound(folder, ManifestState(header, None, (output,)))), output


def select_unmerged(unmerged: Unmerged, question: Question) -> AnySelection:
    """Return what a question selects of a cluster that is not merged, as `log.question.select_any` does of a log."""
    found = question.range_in(unmerged.log)
    between = _keys_between(unmerged, *found)
    if (patterns := question.patterns) is not None:
        known = {name: of for name, of in unmerged.versions.items() if any(p.matches(*name) for p in patterns)}
        _check_there(unmerged, patterns)
        return question.of_many(in_force_between(known, between), found)
    name = question.name
    _check_there(unmerged, [NamePattern.exact(*name)])
    (versions,) = in_force_between({name: unmerged.versions[name]}, between).values()
    _check_known(versions)
    return question.of_table(versions, TableVersions(*name, tuple(unmerged.versions[name])), found)


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
