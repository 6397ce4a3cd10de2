"""The sparse index of keys: which chunks of a file have rows of a table, and which may have those with some key.

    chunks      AT, RANK                                     as in `index`
    entries     CHUNK, SHAPE, COLUMN, FLAGS, FIRST, BLOCKS   rows of a shape in a chunk, and a filter of their values
    words       the filters (`kernels.key_hashes`)
    statements  the numbers of the chunks that have statements

A shape is a table's name with the columns of its primary key, by name, that have filters; COLUMN is the number of one
of them, -1 for a shape without any. What a filter says is not in a chunk is not in it; what it says is may not be.

An index takes one pass over a file, which is what a question costs without it. It is made by the first question for a
key that concerns much of the file, and kept (`files.sidecar`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.cell_length import string_max_length
from binlog_merge.binlog.columnar import cell_types
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import key_hashes as h
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import MergeError, UnknownTableSchema
from binlog_merge.files import sidecar as kept
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.index import AT, RANK, TAIL, Chunks, chunks_of
from binlog_merge.log.key_conditions import BYTES, NUMBER, hash_of, key_columns, needed
from binlog_merge.log.log import Log
from binlog_merge.log.segments import Segment, StatementAt, file_segments
from binlog_merge.log.versions import TableVersions, history_in
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.model import Table
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.store.db import Store

_LOG = logging.getLogger(__name__)
CHUNK, SHAPE, COLUMN, FLAGS, FIRST, BLOCKS = range(6)
BITS: Final = 16
"""The bits of a filter for each key: of the chunks without a key, two in a thousand seem to have it."""
_KIND: Final = "keys"
_ARRAYS: Final = ("chunks", "entries", "words", "statements")
_WINDOW: Final = 4 << 20
_MUCH: Final = 32
"""The chunks from which on a question gains by an index that has to be made first."""
_ONE_MORE: Final = 512
"""The bytes after a run with which the next transaction begins: where the run ends is seen there."""
Shape = tuple[str, str, tuple[tuple[str, str], ...]]
"""A table's schema and name, and the columns that have filters: name in lower case, kind."""


@dataclass(frozen=True)
class KeyIndex:
    """What is known of the chunks of a file: of its first `size` bytes, which end with transaction `last_rank`."""

    chunks: Any
    shapes: tuple[Shape, ...]
    entries: Any
    words: Any
    statements: Any
    size: int
    last_rank: int

    def chunks_with(self, wanted: Callable[[str, str], bool], terms: Sequence[Node]) -> Any:
        """Return which chunks may have rows of wanted tables that satisfy what AND joins."""
        chosen = np.zeros(len(self.chunks), bool)
        for number, shape in enumerate(self.shapes):
            if wanted(*shape[:2]):
                entries = self.entries[self.entries[:, SHAPE] == number]
                here = self._chunks_of(entries, np.ones(len(entries), bool))
                asked = needed(terms, lambda name, value: self._leaf(shape, entries, name, value), _every, _some)  # noqa: B023
                chosen |= here if asked is None else here & asked
        return chosen

    def _leaf(self, shape: Shape, entries: Any, name: str, value: Node) -> Any:
        """Return which chunks may have a value in a column of a shape's rows, None if that is not known."""
        names = [column for column, _ in shape[2]]
        hashed = hash_of(value, shape[2][names.index(name)][1]) if name in names else None
        if hashed is None:
            return None
        number = names.index(name)
        kind = shape[2][number][1]
        entries = entries[entries[:, COLUMN] == number]
        found = np.zeros(len(entries), np.bool_)
        h.in_filters(hashed, entries[:, FIRST].copy(), entries[:, BLOCKS].copy(), self.words, found)
        unsure = h.NOT_HELD if kind in (NUMBER, BYTES) else h.NOT_HELD | h.OTHER_TEXT
        return self._chunks_of(entries, found | ((entries[:, FLAGS] & unsure) != 0))

    def _chunks_of(self, entries: Any, chosen: Any) -> Any:
        found = np.zeros(len(self.chunks), bool)
        found[entries[chosen, CHUNK]] = True
        return found

    def runs(self, chosen: Any, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the chosen chunks' transactions from `first` to `last`, as many together as stand together.

        Each as the ranks of the first and the last one, where the first one begins, and the bytes from there.
        """
        edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            at, low = self.chunks[begin].tolist()
            stop, after = self.chunks[end].tolist() if end < len(self.chunks) else (self.size, self.last_rank + 1)
            if after > first and low <= last:
                yield low, after - 1, at, stop - at


def segments_with(
    binlog: Log,
    file: OutputFile,
    first: int,
    last: int,
    wanted: Callable[[str, str], bool],
    terms: Sequence[Node] = (),
    *,
    position: int | None = None,
    window: int = _WINDOW,
    make: bool = False,
    statements: bool = False,
) -> Iterator[Segment | StatementAt]:
    """Yield the transactions `first` to `last` of a file (`file_segments`), but for chunks without wanted rows.

    Those are of wanted tables, and satisfy what AND joins. With `statements` chunks that have some are read, too.
    `position` is where the first transaction begins, if known; `make`: see `key_index_of`.
    """
    whole = chunks_of(binlog.folder, file) if make and file.size >= kept.LEAST_BYTES else None
    much = whole is not None and whole.of_rank(last) - whole.of_rank(first) >= _MUCH
    index = key_index_of(binlog, file, much)
    if index is None:
        yield from file_segments(binlog, file, first, last, window, position)
        return
    chosen = index.chunks_with(wanted, terms)
    if statements:
        chosen[index.statements] = True
    for low, high, at, size in index.runs(chosen, first, last):
        begins = at if low >= first else position
        most = min(window, size + _ONE_MORE)
        yield from file_segments(binlog, file, max(low, first), min(high, last), most, begins)
    if last > index.last_rank:
        begins = index.size if first <= index.last_rank + 1 else position
        yield from file_segments(binlog, file, max(first, index.last_rank + 1), last, window, begins)


def _every(found: Sequence[Any]) -> Any:
    return np.logical_and.reduce(found)


def _some(found: Sequence[Any]) -> Any:
    return np.logical_or.reduce(found)


def key_index_of(binlog: Log, file: OutputFile, make: bool) -> KeyIndex | None:
    """Return the index of a file that is kept; with `make` it is made, or brought up to date, where that is due.

    None if there is none: for a small file, one not in a folder of the user's own, and a damaged one.
    """
    folder = binlog.folder.sidecars
    if folder is None or file.size < kept.LEAST_BYTES or not (folder / file.name).exists():
        return None
    sidecar = kept.read_sidecar(folder, _KIND, binlog.cluster_uuid, file)
    known = None if sidecar is None or "statements" not in sidecar.arrays else _index_in(sidecar)
    if not make or (known is not None and file.size - known.size < TAIL) or not kept.may_keep(folder):
        return known
    try:
        made = _made(binlog, file, chunks_of(binlog.folder, file), known)
        here = replace(file, size=made.size, last_rank=made.last_rank, closed=file.closed and made.size == file.size)
        covered = kept.covered_by(folder / file.name, binlog.cluster_uuid, here)
    except (MergeError, BinlogFormatError, OSError) as error:
        _LOG.info("no index of keys", extra={"file": file.name, "reason": str(error)})
        return known
    arrays = {name: getattr(made, name) for name in _ARRAYS}
    kept.write_sidecar(folder, _KIND, kept.Sidecar(covered, {"shapes": made.shapes}, arrays))
    return made


def _index_in(sidecar: kept.Sidecar) -> KeyIndex:
    shapes = tuple((schema, table, tuple((n, kind) for n, kind in columns)) for schema, table, columns in
                   sidecar.values["shapes"])  # fmt: skip
    return KeyIndex(
        shapes=shapes,
        size=sidecar.covered.size,
        last_rank=sidecar.covered.last_rank,
        **{name: sidecar.arrays[name] for name in _ARRAYS},
    )


def _made(binlog: Log, file: OutputFile, chunks: Chunks, known: KeyIndex | None) -> KeyIndex:
    """Return the index of all chunks of a file but one of which nothing is known; `known` is that of the first ones."""
    count = len(chunks) if chunks.complete else len(chunks) - 1
    grid, size, last = chunks.rows[:count, [AT, RANK]], chunks.at(count), chunks.rank(count) - 1
    done = 0 if known is None else int(np.searchsorted(grid[:, 0], known.size))
    if known is None or done >= count or grid[done, 0] != known.size:
        done, known = 0, None
    making = _Making(binlog, grid, [] if known is None else list(known.shapes))
    with making.stack:
        if count > done:
            first = int(grid[done, 1])
            position = int(grid[done, 0]) if done else None
            for piece in file_segments(binlog, file, first, last, _WINDOW, position):
                if isinstance(piece, StatementAt):
                    making.take_statement(piece)
                elif len(piece.events):
                    making.take(piece)
    entries, words = making.result(0 if known is None else len(known.words) // h.WORDS)
    statements = np.unique(np.array(making.statements, np.int64))
    if known is not None:
        entries, words = np.vstack([known.entries, entries]), np.concatenate([known.words, words])
        statements = np.concatenate([known.statements, statements])
    return KeyIndex(grid, tuple(making.shapes), entries, words, statements, size, last)


@dataclass
class _Making:
    """Gathers entries and filters, segment by segment."""

    binlog: Log
    grid: Any
    shapes: list[Shape]
    stack: ExitStack = field(default_factory=ExitStack)
    statements: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = {shape: number for number, shape in enumerate(self.shapes)}
        self._versions: dict[tuple[str, str], TableVersions] = {}
        self._store: Store | bool | None = False
        self._known: dict[tuple[int, int], tuple[TableMap, Table | None, int, Any]] = {}
        self._entries: list[Any] = []
        self._words: list[Any] = []
        self._hashes, self._groups = np.zeros(1 << 16, np.int64), np.zeros(1 << 16, np.int32)

    def take_statement(self, piece: StatementAt) -> None:
        """Take a statement."""
        self.statements.append(int(np.searchsorted(self.grid[:, 0], piece.begin.position, "right")) - 1)

    def take(self, segment: Segment) -> None:
        """Take the rows events of a segment."""
        events = segment.events
        chunk = np.searchsorted(self.grid[:, 0], events[:, k.E_AT] + segment.base, "right") - 1
        kinds: list[tuple[Any, ...]] = []
        count = groups = 0
        flags = np.zeros(0, np.int64)
        for number in np.unique(events[:, k.E_MAP]).tolist():
            chosen = np.flatnonzero(events[:, k.E_MAP] == number)
            table = segment.tables[number]
            shape, wanted = self._shape(segment, table, *events[chosen[[0, -1]], k.E_TRANSACTION].tolist())
            first, last = int(chunk[chosen[0]]), int(chunk[chosen[-1]])
            width = int((wanted != 0).sum())
            if not width:
                there = np.unique(chunk[chosen])
                self._entries.append(np.stack([_row(int(one), shape, -1) for one in there]))
                continue
            room = (last - first + 1) * width
            flags = np.concatenate([flags, np.zeros(room, np.int64)])
            places = np.column_stack([events[chosen][:, [k.E_BODY, k.E_END, k.E_KIND]],
                                      groups + (chunk[chosen] - first) * width])  # fmt: skip
            count = self._hashed(segment, table, places, wanted, count, flags, width)
            present = np.unique(chunk[chosen])
            kinds += [(int(one), shape, c, groups + (int(one) - first) * width + c) for one in present
                      for c in range(width)]  # fmt: skip
            groups += room
        if kinds:
            self._filters(np.array(kinds, np.int64), count, flags)

    def _hashed(
        self, segment: Segment, table: TableMap, places: Any, wanted: Any, count: int, flags: Any, width: int
    ) -> int:
        types, metas = cell_types(table.types, tuple(table.metas))
        last, found = np.zeros(width, np.int64), np.zeros(1, np.int64)
        places = np.ascontiguousarray(places, np.int64)
        while True:
            new = h.hash_events(
                segment.buffer, places, types, metas, wanted, self._hashes, self._groups, count, flags, last, found
            )
            if new >= 0:
                return int(new)
            if new == h.BAD:
                raise BinlogFormatError(f"rows of {table.schema}.{table.table} do not fit their table map")
            self._hashes = np.concatenate([self._hashes, np.zeros_like(self._hashes)])
            self._groups = np.concatenate([self._groups, np.zeros_like(self._groups)])

    def _filters(self, kinds: Any, count: int, flags: Any) -> None:
        """Make the filters of groups: (chunk, shape, column, group), which are in order of the group."""
        groups = self._groups[:count]
        order = np.argsort(groups, kind="stable")
        bounds = np.searchsorted(groups[order], np.append(kinds[:, 3], len(flags)))
        blocks = -(-np.diff(bounds) * BITS // (32 * h.WORDS))
        first = np.cumsum(blocks) - blocks
        words = np.zeros(int(blocks.sum()) * h.WORDS, np.uint32)
        h.add_to_filters(self._hashes[:count][order], bounds, first, blocks, words)
        before = sum(len(made) for made in self._words) // h.WORDS
        self._entries.append(np.column_stack([kinds[:, :3], flags[kinds[:, 3]], first + before, blocks]))
        self._words.append(words)

    def _shape(self, segment: Segment, table: TableMap, first: int, last: int) -> tuple[int, Any]:
        """Return the number of a table map's shape, and which columns are wanted (`kernels.key_hashes`).

        `first` and `last` are the numbers of the transactions between which the table has it.
        """
        versions = self._versions_of(table.schema, table.table)
        key, last_key = segment.key(first), segment.key(last)
        version = None if key is None else versions.at(key)
        one = version is (None if last_key is None else versions.at(last_key))
        known = self._known.get((id(table), id(version))) if one else None
        if known is None:
            try:
                columns = key_columns(versions.of_rows(table, key)) if one else {}
            except UnknownTableSchema:
                columns = {}
            wanted, named = np.zeros(len(table.types), np.int64), list[tuple[str, str]]()
            for name, (place, kind) in sorted(columns.items(), key=lambda column: column[1]):
                wanted[place] = h.NUMBER if kind == NUMBER else h.TEXT + _prefix(table, place)
                named.append((name, kind))
            shape = table.schema, table.table, tuple(named)
            number = self._numbers.setdefault(shape, len(self.shapes))
            if number == len(self.shapes):
                self.shapes.append(shape)
            known = table, version, number, wanted
            if one:  # the objects are kept, so that no other one has their id
                self._known[id(table), id(version)] = known
        return known[2], known[3]

    def _versions_of(self, schema: str, name: str) -> TableVersions:
        if (schema, name) not in self._versions:
            if self._store is False:
                self._store = self._opened()
            history = history_in(self._store, schema, name) if isinstance(self._store, Store) else ()
            self._versions[schema, name] = TableVersions(schema, name, history)
        return self._versions[schema, name]

    def _opened(self) -> Store | None:
        path, shown = self.stack.enter_context(self.binlog.folder.schema_store())
        if not path.exists():
            return None
        self.stack.enter_context(as_merge_errors(shown))
        return self.stack.enter_context(Store.open(path, True))

    def result(self, blocks: int) -> tuple[Any, Any]:
        """Return entries and words; the first filter begins with this block."""
        entries = np.vstack([np.zeros((0, 6), np.int64), *self._entries])
        entries[:, FIRST] += blocks
        return entries, np.concatenate([np.zeros(0, np.uint32), *self._words])


def _row(chunk: int, shape: int, column: int) -> Any:
    return np.array([chunk, shape, column, 0, 0, 0], np.int64)


def _prefix(table: TableMap, place: int) -> int:
    """Return how many bytes of length are in front of a text's cells."""
    kind, meta = table.types[place], table.metas[place]
    if kind in (T.VARCHAR, T.VAR_STRING):
        return 1 if meta < 256 else 2
    if kind == T.STRING:
        return 1 if string_max_length(meta) < 256 else 2
    return meta
