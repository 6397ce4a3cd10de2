"""`schema import --nodes`: the tables of all nodes and the logical ones that they make, as their captured logs begin.

A node is read now, and what it has now is what it had where its captured log begins if no DDL stands between. That is
looked up in the captured files, up to where the server's log ended when its tables had been read.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import Query, parse_event
from binlog_merge.binlog.query_session import session_of
from binlog_merge.bootstrap.overlap import Beginning, Overlap, beginning_of, overlap_of
from binlog_merge.bootstrap.plan import RoutedTables
from binlog_merge.bootstrap.proposal import proposal
from binlog_merge.bootstrap.published import CapturedNode
from binlog_merge.bootstrap.values import End, Shard
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import read_server_note, write_server_note
from binlog_merge.config.yaml import YamlDocument
from binlog_merge.errors import ChecksumMismatch, ConfigError, MissingFile
from binlog_merge.files.servers import read_servers
from binlog_merge.filters.ddl import events_of
from binlog_merge.log.reader import events_in
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.pipeline.coordinate.shards.events import as_logical
from binlog_merge.pipeline.coordinate.shards.extracted import check_parents, with_columns
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.apply.statement import with_folded_names
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.introspect import introspect
from snapshot_store.model import Catalog, Schema, Table

_LOG = logging.getLogger(__name__)
_WAIT_SECONDS: Final = 30.0
_NO_DDL: Final = ("BEGIN", "COMMIT", "ROLLBACK", "XA ", "SAVEPOINT", "RELEASE ")


@dataclass(frozen=True)
class NodeBase:
    """The tables of a node, and the place up to which its captured log has none of their DDL."""

    catalog: Catalog
    file: str
    position: int


def base_of(node: CapturedNode, places: RoutedTables) -> NodeBase:
    """Return a node's tables as its captured log begins.

    Raises ConfigError if nothing is captured, or DDL stands in between, MissingFile if the capture does not come on.
    """
    if not _captured(node):
        raise ConfigError(
            "nothing is captured of it yet: a base is for where a captured log begins",
            node=node.name,
            remedy="run `binlog-merge capture` first, with --start-file if older files need not be merged",
        )
    with node.reader(None) as reader:
        snapshot = introspect(reader.address)
        ((case_of_names,),) = reader.ask("SELECT @@global.lower_case_table_names")
        end = node.place(reader.end() if not snapshot.file else (snapshot.file, snapshot.position))
    if read_server_note(node.directory) is None:  # files that an older capture began
        write_server_note(node.directory, int(case_of_names))
    catalog = with_folded_names(snapshot.catalog) if case_of_names else snapshot.catalog
    for path, size in _up_to(node, end):
        for query, position in _statements(path, size):
            if concerned := _concerned(query, catalog, node.name, places):
                raise ConfigError(
                    f"its captured log has DDL on {concerned} already: {query.text}",
                    node=node.name,
                    file=str(path),
                    position=position,
                    remedy="begin its capture after that: FLUSH BINARY LOGS there, remove the captured files, and "
                    "`capture --start-file` with the new file; or give the dump of an earlier moment, --sql",
                )
    return NodeBase(catalog, end.file, end.position)


def logical_of(bases: Mapping[str, NodeBase], places: RoutedTables) -> Catalog:
    """Return the logical tables that physical ones make. Raises ConfigError where shards differ."""
    tables: dict[tuple[str, str], Table] = {}
    first: dict[tuple[str, str], Shard] = {}
    schemas: dict[str, Schema] = {}
    for node, base in sorted(bases.items()):
        for (schema, name), table in sorted(base.catalog.tables.items()):
            shard = Shard(node, schema, name)
            logical = places.name(shard)
            if logical is None:
                continue
            route = places.topology.route(*shard)
            extract = None if route is None else places.extracts.get(route)
            made = _as_logical(table, logical, shard, places)
            if extract is not None:
                made = with_columns(made, extract, None, places.key_columns)
            else:
                check_parents(made, places.key_columns)
            if (other := first.setdefault(logical, shard)) != shard and tables[logical] != made:
                raise ConfigError(
                    f"{other} and {shard} are not defined alike: what {'.'.join(logical)} is cannot be told",
                    remedy="let the DDL that is under way come to its end; or give the logical table by --sql",
                )
            tables.setdefault(logical, made)
            own = base.catalog.schemas.get(schema, Schema(schema))
            schemas.setdefault(logical[0], Schema(logical[0], own.charset, own.collation))
    return Catalog(schemas, tables)


def shards_of(bases: Mapping[str, NodeBase], places: RoutedTables) -> dict[tuple[str, str], list[Shard]]:
    """Return the shards of each logical table."""
    shards: dict[tuple[str, str], list[Shard]] = {}
    for node, base in sorted(bases.items()):
        for schema, name in sorted(base.catalog.tables):
            shard = Shard(node, schema, name)
            if (table := places.name(shard)) is not None:
                shards.setdefault(table, []).append(shard)
    return shards


def overlaps_of(
    captured: Iterable[CapturedNode], bases: Mapping[str, NodeBase], logical: Catalog, places: RoutedTables
) -> list[Overlap]:
    """Return what shards of the logical tables have in common: keys that collide, and copies."""
    shared = {
        table: own
        for table, own in shards_of(bases, places).items()
        if len(own) > 1 and not places.key_columns(table)  # else a column of the route tells them apart
    }
    beginnings: dict[Shard, Beginning] = {}
    for one in captured if shared else ():
        with one.reader(None) as reader:
            for shard in (shard for own in shared.values() for shard in own if shard.node == one.name):
                definition = bases[one.name].catalog.tables[shard.schema, shard.table]
                beginnings[shard] = beginning_of(reader, shard, definition)
    overlaps = []
    for table, own in sorted(shared.items()):
        primary = logical.tables[table].primary_key
        key = () if primary is None else tuple(part.column or "" for part in primary.parts)
        overlaps.append(overlap_of(table, key, {shard: beginnings[shard] for shard in own}))
    return [one for one in overlaps if one is not None]


def proposed(
    document: YamlDocument, folder: Path, overlaps: Sequence[Overlap], bases: Mapping[str, NodeBase], logical: Catalog
) -> str | None:
    """Return the sections of a configuration with which shards have nothing in common any more, as text in YAML.

    None if nothing is proposed, or what would be proposed makes no tables.
    """
    config = MergeConfig.from_document(document, folder, document.what)
    found = proposal(config, document.values, overlaps, logical, shards_of(bases, RoutedTables.of(config)))
    if found is None:
        return None
    changed = replace(document, values={**document.values, **found.sections}, lines={})
    try:
        logical_of(bases, RoutedTables.of(MergeConfig.from_document(changed, folder, document.what)))
    except ConfigError as error:
        _LOG.info("what is proposed makes no tables", extra={"reason": error.message})
        return None
    return found.text


def _as_logical(table: Table, logical: tuple[str, str], shard: Shard, places: RoutedTables) -> Table:
    """Return a shard's table as the logical one: also constraints that begin with the shard's name begin with its."""
    made, own = as_logical(shard.node, places.topology, table, logical), f"{shard.table}_"

    def called(name: str) -> str:
        return f"{logical[1]}_{name.removeprefix(own)}" if name.startswith(own) else name

    return replace(
        made,
        checks=tuple((called(name), text) for name, text in made.checks),
        unenforced=tuple(map(called, made.unenforced)),
        foreign_keys=tuple(replace(key, name=called(key.name)) for key in made.foreign_keys),
    )


def _captured(node: CapturedNode) -> dict[str, Path]:
    """Return a node's captured files, in order, by the names that `CapturedNode.place` gives: of all its servers."""
    if not node.directory.exists():
        return {}
    folders = ["", *(f"{server.folder}/" for server in read_servers(node.directory))]
    found = ((folder, path) for folder in folders for path in NodeFiles(node.directory / folder, node.name).paths())
    return {folder + path.name: path for folder, path in found}


def _up_to(node: CapturedNode, end: End) -> Iterator[tuple[Path, int]]:
    """Yield the captured files and how much of each counts, up to a place; wait for the capture to come there."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        paths = _captured(node)
        if end.file in paths and paths[end.file].stat().st_size >= end.position:
            break
        if time.monotonic() > until:
            raise MissingFile(
                f"it is captured up to {list(paths)[-1]}, and its tables were read when its log ended at "
                f"{end.file}:{end.position}",
                node=node.name,
                remedy="let `binlog-merge capture --stop-never` run meanwhile",
            )
        time.sleep(0.2)
    for name, path in paths.items():
        yield path, end.position if name == end.file else path.stat().st_size
        if name == end.file:
            return


def _statements(path: Path, size: int) -> Iterator[tuple[Query, int]]:
    """Yield the statements of a file that may be DDL, with their offsets."""
    try:
        with path.open("rb", buffering=1 << 20) as file:
            for event in events_in(file, str(path), size):
                if event.type_code != EventType.QUERY_EVENT:
                    continue
                query = parse_event(event)
                if isinstance(query, Query) and not query.text.upper().startswith(_NO_DDL):
                    yield query, event.offset
    except BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, file=str(path), position=max(error.offset, 0)) from None


def _concerned(query: Query, catalog: Catalog, node: str, places: RoutedTables) -> str | None:
    """Return a table of the output that a statement is about, or its database; None if there is none."""
    try:
        events = events_of(ParsedDdl.of(query.text, session_of(query)), query.schema_text)
        named = [name for event in events for name in event.tables]
    except DdlNotUnderstood:
        # About anything that it may name.
        text = query.text.lower()
        named = [(own, "") for own in sorted(catalog.schemas) if own.lower() in text] + [(query.schema_text, "")]
    for own, table in named:
        if table and places.name(Shard(node, own, table)) is not None:
            return f"{own}.{table}"
        if not table and places.topology.logical_schema(node, own) is not None:
            return own
    return None
