"""Reads parts of a node's log again on the driver: groups at known offsets, its DDL, and the first rows of a table."""

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from binlog_merge.binlog.constants import EventType, version_number
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.query_session import SessionVariables, session_of
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.values import Block, TableSet
from binlog_merge.pipeline.base.group_at import transaction_events
from binlog_merge.pipeline.base.node_input import located, read_group
from binlog_merge.pipeline.coordinate.histories import PhysicalDdl
from binlog_merge.polardbx.names import is_internal
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.parse.statement import with_folded_names
from snapshot_store.mysql.sql.names import folded
from snapshot_store.tso import OrderKey


def keys_of(block: Block, wanted: Sequence[int]) -> list[tuple[OrderKey, int, int, int]]:
    """Return (key, start, end, flags) of a block's locals by index, without those that assemble dropped."""
    columns, keys = block.local()
    return [
        (
            OrderKey(int(keys.tso[i]), int(keys.transaction[i]), int(keys.seq[i]), block.node),
            int(columns["start"][i]),
            int(columns["end"][i]),
            int(columns["flags"][i]),
        )
        for i in wanted
        if keys.alive[i]
    ]


def physical_ddl(node: ScannedNode, floor: OrderKey, done: OrderKey) -> Iterator[PhysicalDdl]:
    """Yield the node's DDL in order: from `floor` on, and earlier DDL after `done`, up to which a run has
    applied it.
    """
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        if not piece.ddl:
            continue
        file = node.input.files[piece.file_index]
        for key, start, end, _ in keys_of(block, piece.ddl):
            if key < floor and key <= done:
                continue
            with located(node.input, piece.file_index, start, "a DDL", key):
                query, timestamp = _ddl_query(read_group(node.input, piece.file_index, start, end), file)
            if query is not None:
                version = version_number(file.server_version)
                variables = SessionVariables.of(query, timestamp, version)
                yield PhysicalDdl(
                    key, file.path, start, query.schema_text or None,
                    ParsedDdl.of(query.text, session_of(query, version)), variables,
                )  # fmt: skip


def ddl_of(node: ScannedNode, floor: OrderKey, done: OrderKey, folding: Container[str] = ()) -> list[PhysicalDdl]:
    """Return the DDL that `physical_ddl` yields, without the servers' internal statements.

    Those of the nodes `folding` get the names that their servers gave their tables and databases: in lower case.
    """
    found = [ddl for ddl in physical_ddl(node, floor, done) if not is_internal(ddl.sql)]
    return [with_lower_case(ddl) for ddl in found] if node.source_id in folding else found


def with_lower_case(ddl: PhysicalDdl) -> PhysicalDdl:
    """Return a statement with the names of tables and databases in lower case, as lower_case_table_names has them."""
    schema = None if ddl.schema is None else folded(ddl.schema)
    return replace(ddl, schema=schema, parsed=with_folded_names(ddl.parsed))


def _ddl_query(data: bytes, file: NodeFile) -> tuple[Query | None, int]:
    """Return the DDL of a group and its timestamp."""
    for event in transaction_events(data, file.checksum_alg == 1):
        if event.type_code == EventType.QUERY_EVENT:
            query = Query.parse(event.body)
            if query.text not in ("BEGIN", "COMMIT"):
                if not query.schema_is_utf8:
                    raise BinlogFormatError(f"the database name {query.schema!r} is not utf8")
                return query, event.header.timestamp
    return None, 0


class Touching(NamedTuple):
    """A transaction's branch that changes `table`, and `all` the tables that it changes."""

    key: OrderKey
    file_index: int
    start: int
    end: int
    table: tuple[str, str]
    all: TableSet


def as_written(schema: str, table: str) -> tuple[str, str]:
    """Return the name that row events have, for nodes that know a table by that."""
    return schema, table


def tables_of(node: ScannedNode) -> Iterator[TableSet]:
    """Yield the tables that transactions of a node change together; some more than once."""
    yield from (edge.tables for edge in node.edges)
    for block in node.blocks:
        yield from (branch.tables for branch in block.patch.kept)
        yield from block.sets


def groups_touching(
    node: ScannedNode, tables: Collection[tuple[str, str]], called: Callable[[str, str], tuple[str, str]] = as_written
) -> Iterator["Touching"]:
    """Yield each transaction's branch that changes one of `tables`, with that table.

    `called` returns the name by which the node knows the table of row events: those of servers with
    lower_case_table_names=2 have it as it was first written.
    """
    for e in node.edges:
        for name in (name for name in (called(*raw) for raw in e.tables) if name in tables):
            yield Touching(e.key, e.file_index, e.start, e.end, name, e.tables)
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        for branch in block.patch.kept:
            for name in (name for name in (called(*raw) for raw in branch.tables) if name in tables):
                for key, *_ in keys_of(block, [branch.local]):
                    yield Touching(key, branch.file_index, branch.start, branch.end, name, branch.tables)
        found = ((i, called(*raw)) for i, names in enumerate(block.sets) for raw in names)
        sets = {i: name for i, name in found if name in tables}
        if not sets:
            continue
        columns, _ = block.local()
        for i in np.flatnonzero(np.isin(columns["set"], list(sets))).tolist():
            for key, start, end, _ in keys_of(block, [i]):
                number = int(columns["set"][i])
                yield Touching(key, piece.file_index, start, end, sets[number], block.sets[number])
        columns = block.timed()
        for i in np.flatnonzero(np.isin(columns["set"], list(sets))).tolist():
            own = int(columns["flags"][i]) & k.OWN_TSO
            key = OrderKey(int(columns["tso"][i]), int(columns["transaction"][i]), 0, block.node if own else 0)
            start, end, number = (int(columns[name][i]) for name in ("start", "end", "set"))
            yield Touching(key, piece.file_index, start, end, sets[number], block.sets[number])


def first_rows(
    node: ScannedNode,
    tables: Collection[tuple[str, str]],
    floor: OrderKey,
    called: Callable[[str, str], tuple[str, str]] = as_written,
    ignored: Callable[[TableSet], bool] = lambda _: False,
) -> Touching | None:
    """Return the first transaction from `floor` on that changes one of `tables`, by the names that `called` returns,
    of those whose tables are not `ignored`.
    """
    groups = groups_touching(node, tables, called)
    return min((group for group in groups if group.key >= floor and not ignored(group.all)), default=None)
