"""Finds the tables that a run touches: those of its rows, of its DDL, and the logical tables of both.

Nothing else is read from the schema store, so a small run on a cluster of a million tables stays small.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.coordinate.histories import PhysicalDdl
from binlog_merge.pipeline.coordinate.shards.tools import copied_by_its_name
from binlog_merge.pipeline.coordinate.statements import Subject, subject_of
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.history import HistoryKey, TableVersion
from snapshot_store.surrogates import is_text
from snapshot_store.topology import Topology


class HistoryQueries(Protocol):
    """The queries that this module makes to a schema store."""

    def names(self) -> list[HistoryKey]:
        """Return the history keys of all tables and databases that nodes ever had."""

    def names_in(self, node: str | None, schema: str) -> list[HistoryKey]:
        """Return the history keys of all tables that a database ever had."""

    def referencing(self, node: str | None, tables: Iterable[str]) -> list[HistoryKey]:
        """Return the history keys of tables whose foreign keys may reference one of these."""


def touched_keys(
    store: HistoryQueries,
    scanned: Sequence[ScannedNode],
    ddls: Mapping[str, Sequence[PhysicalDdl]],
    logical: Iterable[LogicalDdl],
    topology: Topology,
) -> set[HistoryKey]:
    """Return the history keys of all tables that a run needs; `logical` are the logical DDL from markers."""
    keys: set[HistoryKey] = set()
    for node in scanned:
        tables = {name for block in node.blocks for names in block.sets for name in names}
        tables |= {name for edge in node.edges for name in edge.tables}
        keys |= {(node.source_id, schema, name) for schema, name in tables}
        about = [subject_of(ddl.parsed, ddl.schema) for ddl in ddls.get(node.source_id, ())]
        keys.update(_named(store, node.source_id, about))
        keys |= {(node.source_id, ddl.schema, "") for ddl in ddls.get(node.source_id, ()) if ddl.schema}
        renamed = {name for subject in about for name in subject.renamed}
        again = {logical for name in renamed for logical in _logical(topology, node.source_id, *name)}
        keys.update(referring(store, again))
    keys |= {(None, *name) for key in keys for name in _logical(topology, *key)}
    parsed = [(ddl.parsed, ddl.schema) for ddl in logical if ddl.parsed is not None]
    keys |= {(None, database, "") for _, database in parsed}
    keys.update(_named(store, None, [subject_of(ddl, database) for ddl, database in parsed]))
    # Names in damaged events may not be valid text; no store has them.
    return {key for key in keys if is_text(*key[1:])}


def referring(store: HistoryQueries, renamed: Iterable[tuple[str, str]]) -> list[HistoryKey]:
    """Return the history keys of logical tables whose foreign keys follow when these tables are renamed."""
    names = sorted({table for _, table in renamed if is_text(table)})
    return store.referencing(None, names) if names else []


def _logical(topology: Topology, node: str | None, schema: str, name: str) -> Iterator[tuple[str, str]]:
    with suppress(AmbiguousRoute):  # routing the rows raises it
        logical = None if node is None else topology.logical_name(node, schema, name)
        if logical is not None:
            yield logical


def _named(store: HistoryQueries, node: str | None, subjects: Sequence[Subject]) -> Iterator[HistoryKey]:
    for subject in subjects:
        for schema, name in subject.tables:
            yield node, schema, name
            for copied in copied_by_its_name((schema, name)):
                yield node, *copied
        for schema in subject.schemas:
            yield node, schema, ""
        if subject.dropped is not None and is_text(subject.dropped):
            yield from store.names_in(node, subject.dropped)
    renamed = sorted({name for subject in subjects for _, name in subject.renamed if is_text(name)})
    if renamed:
        yield from store.referencing(node, renamed)


def same_but_for_case(versions: Iterable[TableVersion]) -> Iterator[str]:
    """Yield warnings for logical tables, at the end of the run, whose names differ only by case."""
    there = {(v.schema, v.name): v for v in sorted(versions, key=lambda v: v.key) if v.node is None}
    alike: dict[tuple[str, str], list[str]] = {}
    for (schema, table), version in sorted(there.items()):
        if version.table is not None:
            alike.setdefault((schema.lower(), table.lower()), []).append(f"{schema}.{table}")
    for names in alike.values():
        if len(names) > 1:
            yield (
                f"{' and '.join(names)} differ in nothing but case: they come out as {len(names)} tables, which a "
                "target with lower_case_table_names 1 or 2 takes for one; make one of them by routes, or rename"
            )
