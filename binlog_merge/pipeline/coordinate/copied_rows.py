"""Counts how many rows a node's tables have before a statement, such as that by which a copy takes its table's place.

The node's binlog is read again from its first file on, as no one has counted the rows of all tables. Known is the
number of rows of a table whose CREATE TABLE is in the files.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from binlog_merge.binlog.constants import DELETE_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import RawEvent, walk
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.query_session import session_of
from binlog_merge.binlog.version import version_number
from binlog_merge.errors import MergeError
from binlog_merge.files.known import open_known
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.transaction_events import transaction_events
from binlog_merge.pipeline.coordinate.row_counts import changed_rows
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.effects import Verb, effects_of
from snapshot_store.ddl.statements import TruncateTable
from snapshot_store.errors import SnapshotStoreError

Name = tuple[str, str]
Called = Callable[[str, str], Name]

MOST_BYTES = 256 << 20
"""Of a longer log, the numbers count as unknown: reading it again would take longer than what follows is worth."""


def copied_rows(
    node: NodeInput, path: str, position: int, table: Name, copy: Name, called: Called
) -> tuple[int, int] | None:
    """Return how many rows a table and its copy have before the statement at a position; None if that is unknown.

    `called` returns the name by which the node knows a table, of one as it is written.
    """
    tables = _tables_at(node, path, position, called)
    if tables is None:
        return None
    found = tables.left.get(table) if tables.rows.get(table) is None else tables.rows[table]
    copied = tables.rows.get(copy)
    return None if found is None or copied is None else (found, copied)


def rows_at(node: NodeInput, path: str, position: int, table: Name, called: Called) -> int | None:
    """Return how many rows a table has before the statement at a position, of which row events tell.

    None if that is unknown, as of rows that a TRUNCATE has removed: the output may still have them.
    """
    tables = _tables_at(node, path, position, called)
    return None if tables is None or table in tables.emptied else tables.rows.get(table)


def _tables_at(node: NodeInput, path: str, position: int, called: Called) -> "_Tables | None":
    files = _files_to(node, path)
    if not files or sum(file.size for file in files[:-1]) + position > MOST_BYTES:
        return None
    tables = _Tables(called)
    try:
        for number, file in enumerate(files):
            for event in _events(file, position if number == len(files) - 1 else file.size):
                tables.take(event, file)
    except (BinlogFormatError, MergeError, _Unknown):
        return None
    return tables


def _files_to(node: NodeInput, path: str) -> list[NodeFile]:
    """Return the node's files up to one of them."""
    found = next((i for i, file in enumerate(node.files) if file.path == path), None)
    return [] if found is None else list(node.files[: found + 1])


def _events(file: NodeFile, end: int) -> Iterator[RawEvent]:
    data = bytearray(end)
    with open_known(file.known) as source:
        source.read_into(memoryview(data), 0)
    for event in walk(bytes(data), file.path):
        instead = next((each for each in file.instead if each.start <= event.offset < each.end), None)
        if instead is not None:
            if event.offset == instead.start:
                yield from transaction_events(instead.group, file.checksum_alg == 1)
        elif event.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(event.body).events()
        else:
            yield event


class _Unknown(Exception):  # noqa: N818 (it is no error)
    """The log has something of which the number of rows does not follow."""


@dataclass
class _Tables:
    """The number of rows of each table whose creation was seen, None if it is unknown; and of tables that are gone.

    `emptied` are names of tables that had rows when they were truncated.
    """

    called: Called
    rows: dict[Name, int | None] = field(default_factory=dict)
    left: dict[Name, int | None] = field(default_factory=dict)
    emptied: set[Name] = field(default_factory=set)
    _group: list[RawEvent] = field(default_factory=list)

    def take(self, event: RawEvent, file: NodeFile) -> None:
        code = event.type_code
        if code == EventType.QUERY_EVENT:
            self._query(Query.parse(event.body), file)
        elif code == EventType.XID_EVENT:
            self._commit()
        elif code == EventType.XA_PREPARE_LOG_EVENT:
            if any(changed_rows(self._group)):
                raise _Unknown
            self._group.clear()
        else:
            self._group.append(event)

    def _commit(self) -> None:
        changes: Counter[Name] = Counter()
        for name, code, rows in changed_rows(self._group):
            changes[self.called(*name)] += rows if code in WRITE_TYPES else -rows if code in DELETE_TYPES else 0
        for name, change in changes.items():
            known = self.rows.get(name)
            if known is not None:
                self.rows[name] = known + change
        self._group.clear()

    def _query(self, query: Query, file: NodeFile) -> None:
        text = query.text
        if text == "COMMIT":
            self._commit()
        elif text == "ROLLBACK":
            self._group.clear()
        elif text != "BEGIN":
            parsed = ParsedDdl.of(text, session_of(query, version_number(file.server_version)))
            if not isinstance(parsed.result, SnapshotStoreError):
                self._ddl(parsed, query.schema_text)

    def _ddl(self, parsed: ParsedDdl, database: str) -> None:
        effects, called = effects_of(parsed.statement, database), self.called
        paths = [(called(*old), called(*new)) for old, new in effects.paths]
        moved = {old: self.rows.get(old) for old, _ in paths}
        for name in moved:
            self.left[name] = self.rows.pop(name, None)
        self.rows |= {new: moved[old] for old, new in paths}
        self.emptied |= {new for old, new in paths if old in self.emptied}
        for effect in effects.all:
            name, other = called(*effect.table), None if effect.other is None else called(*effect.other)
            match effect.verb:
                case Verb.MAKE:
                    self.rows.setdefault(name, 0)
                case Verb.DROP:
                    for gone in [known for known in self.rows if name in (known, (known[0], ""))]:
                        self.left[gone] = self.rows.pop(gone)
                case Verb.EMPTY if name in self.rows:
                    self.emptied |= {name} if self.rows[name] else set()
                    self.rows[name] = 0 if isinstance(parsed.statement, TruncateTable) else None
                case Verb.EXCHANGE | Verb.FILE:
                    self.rows |= dict.fromkeys(filter(None, (name, other)))
