"""Notices rows of different shards with one key, among those that a task writes: no server takes the second one.

Only rows of tables that are merged without markers are looked at, those with which a task begins (a round of a log that
is followed has no others), and of them as many keys as `values.key_values` holds: shards that give keys without
regard to each other show it soon, and `verify` looks at all of a log. Keys are equal if their bytes are, or differ only
in the case of ASCII letters and the collation takes them for equal; what else a collation makes equal is not noticed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, CutRows, column_facts
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.kernels.key_hashes import ABSENT, VALUE, hash_keys
from binlog_merge.binlog.kernels.row_cells import NONE as NO_IMAGE
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.config.modes import Modes
from binlog_merge.errors import WAYS_OUT_OF_COLLISIONS, KeysInDoubt
from binlog_merge.pipeline.gather.key_changes import FREES, TAKES, cut_bodies, key_changed, moments_since_5_6
from binlog_merge.pipeline.gather.keyed import KeyedTable, UniqueKey
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.rows_events import Bytes, LogicalBodies, rows_in_window
from binlog_merge.pipeline.gather.traces import Window
from binlog_merge.values.key_values import (
    EVERY_HASH,
    MOST_KEYS,
    Collision,
    StandingKeys,
    Taken,
    fit,
    folds_case,
    key_text,
)

Ints = npt.NDArray[np.int64]
_SENT: Final = 1 << 12
"""The keys that a task passes to the driver."""
_LOOKED_AT: Final = 16 << 20
"""The bytes of a task that are looked at: to look at all of them would add a third to what a merge costs."""
_MOST_TABLES: Final = 256
_MOST_COLLISIONS: Final = 64


class KeyName(NamedTuple):
    """A unique key of a logical table, and what its values look like."""

    schema: str
    table: str
    name: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


_Which = tuple[KeyName, str, str]


@dataclass(frozen=True, slots=True)
class Collided:
    """Two shards that gave rows of a table the same key: the first example of `number` keys, and its value as text."""

    key: KeyName
    value: str
    first: Taken
    second: Taken
    number: int = 1

    @property
    def which(self) -> _Which:
        """Return the key, and who had it first and second."""
        return self.key, self.first.origin, self.second.origin


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """What a part of the log did to keys. `interrupted`: something may have removed rows that were not looked at.

    `looked_at` bytes of its `bytes` were looked at, and nothing of the tables `cascading`.
    """

    keys: Mapping[KeyName, StandingKeys]
    facts: Mapping[KeyName, tuple[ColumnFacts, ...]]
    collided: tuple[Collided, ...]
    interrupted: bool
    looked_at: int = 0
    bytes: int = 0
    cascading: frozenset[str] = frozenset()


class KeysOfTask:
    """Looks at the keys of rows that a task writes, window by window."""

    def __init__(self, plans: PlanTable, modes: Modes | None, nodes: int) -> None:
        shared = modes is not None and modes.without_markers and (nodes > 1 or modes.topology.routes)
        self._plans, self._modes = plans, modes if shared else None
        self._keys: dict[KeyName, StandingKeys] = {}
        self._facts: dict[KeyName, tuple[ColumnFacts, ...]] = {}
        self._collided: dict[_Which, Collided] = {}
        self._interrupted = False
        self._left = _LOOKED_AT
        self._looked_at = self._bytes = 0
        self._cascading: set[str] = set()
        self._shared: dict[int, bool] = {}

    def pass_over(self, size: int) -> None:
        """Take note of rows that are not looked at, of so many bytes."""
        self._bytes += size
        self._interrupt()

    def _interrupt(self) -> None:
        """Take note of a statement, or of rows that are not looked at."""
        self._interrupted = True
        for keys in self._keys.values():
            keys.interrupt()

    def look(self, buffer: Bytes, read: Window, rows: Rows, start: int) -> None:
        """Look at the rows of a window; rows[start] is its first row."""
        if self._modes is None:
            return
        size = int((read.segments[:, k.S_END] - read.segments[:, k.S_POS]).sum())
        self._bytes += size
        if self._left < 0:
            return
        self._left -= size
        self._looked_at += size
        statements = read.segments[:, k.S_DDL] != 0
        statements &= (rows.flags[start + np.asarray(read.row)] & ks.HEARTBEAT) == 0
        found = self._concerned(buffer, read, rows, start)
        window = _Looked(buffer, read, rows, start, found)
        behind = np.cumsum(statements)[found[:, k.F_SEGMENT]]  # how many statements each event stands behind
        for number in range(int(statements.sum()) + 1):
            if number:
                self._interrupt()
            self._events(window, found[behind == number])
        fit(self._keys.values(), MOST_KEYS)
        if self._left < 0:
            self._interrupt()

    def _concerned(self, buffer: Bytes, read: Window, rows: Rows, start: int) -> Ints:
        """Return the rows events (F_*, and their number) of a window that may collide."""
        plans, output_filter = self._plans, self._plans.filter
        found = rows_in_window(plans, buffer, read.segments, read.row, rows, start, k.KEYED)
        concerned = np.array([self._is_shared(plan) for plan in found[:, k.F_PLAN].tolist()], np.bool_)
        if output_filter is not None:
            concerned &= ~output_filter.leaves_out(read.keys[:, k.K_TSO])[found[:, k.F_SEGMENT]]
            concerned &= plans.arrays.plans[found[:, k.F_PLAN], k.ASKED] == 0
        found = found[concerned]
        return np.column_stack([found, np.arange(len(found))])

    def _events(self, window: "_Looked", events: Ints) -> None:
        if not len(events):
            return
        bodies = LogicalBodies(self._plans, window.buffer, window.read.keys[:, k.K_COMMIT_US])
        keyed = self._plans.arrays.plans[events[:, k.F_PLAN], k.KEYED]
        changes: dict[KeyName, list[_Change]] = {}
        # Nodes whose table maps differ have a table each, of one name: their changes are put in order together.
        for number in np.unique(keyed).tolist():
            table = self._plans.keyed[number - 1]
            for batch, bodies_of in bodies.batches(events[keyed == number]):
                for cut, of in cut_bodies(table, batch, bodies_of):
                    for key in table.keys:
                        if key.parts:
                            found = self._changes(table, key, cut, of)
                            changes.setdefault(self._name(table, key), []).extend(found)
        for name, own in changes.items():
            self._apply(name, sorted(own, key=lambda change: change[:3]), window)

    def _is_shared(self, plan: int) -> bool:
        """Return whether the rows of a plan may collide with those of other shards."""
        if plan not in self._shared:
            assert self._modes is not None
            table = self._plans.keyed[int(self._plans.arrays.plans[plan, k.KEYED]) - 1]
            shared = self._modes.of(*self._plans.shards[plan]) != "marker" and any(key.parts for key in table.keys)
            if shared and table.cascades:  # rows that a parent's statement removes are in no log
                self._cascading.add(".".join(table.name))
            self._shared[plan] = shared and not table.cascades
        return self._shared[plan]

    def _apply(self, name: KeyName, changes: Sequence["_Change"], window: "_Looked") -> None:
        """Note what rows do to a key, in their order."""
        keys = self._keys[name]
        for change in changes:
            if change.cells is None:
                keys.interrupt()
            elif change.sign == FREES:
                keys.free(change.hashed)
            else:
                shard = self._plans.shards[int(window.found[change.event, k.F_PLAN])]
                taken = Taken(str(shard), window.place(change.event), change.cells, change.written)
                if hit := keys.take(change.hashed, taken):
                    note(self._collided, name, hit, self._facts[name])

    def _name(self, table: KeyedTable, key: UniqueKey) -> KeyName:
        name = KeyName(*table.name, key.name, tuple(table.columns[column] for column in key.columns))
        if name not in self._keys:
            self._keys[name] = StandingKeys(interrupted=self._interrupted)
            facts = column_facts(table.table_map, names=table.columns)
            self._facts[name] = tuple(facts[column] for column in key.columns)
        return name

    def _changes(self, table: KeyedTable, key: UniqueKey, cut: CutRows, of: Ints) -> Iterator["_Change"]:
        """Yield what rows do to a key, of the keys that are looked at."""
        keys = self._keys[self._name(table, key)]
        deleted = cut.sizes[AFTER, 0] == NO_IMAGE
        inserted = cut.sizes[BEFORE, 0] == NO_IMAGE
        updated = ~(deleted | inserted)
        changed = updated & key_changed(cut, key) if updated.any() else updated
        columns = np.array(key.columns, np.int64)
        folded = _folded(cut, key, table.table_map)
        for side, sign, mask in ((BEFORE, FREES, deleted | changed), (AFTER, TAKES, inserted | changed)):
            chosen = np.flatnonzero(mask)
            hashes, states = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
            hash_keys(folded.buffer, folded.starts, folded.sizes, columns, side, chosen, 0, hashes, states)
            if sign == FREES:
                absent = chosen[states == ABSENT]
                if not changed[absent].any():  # deletes: in an event of them nobody takes a key in between
                    absent = absent[np.unique(of[absent], return_index=True)[1]]
                for row in absent.tolist():
                    yield _Change(int(of[row]), row, sign, 0, None, ())
            numbers = hashes.view(np.uint64)
            known = np.flatnonzero(states == VALUE)
            if len(known) > MOST_KEYS:
                keys.lower(int(np.partition(numbers[known], MOST_KEYS)[MOST_KEYS]))
            if keys.limit < EVERY_HASH:
                known = known[numbers[known] < np.uint64(keys.limit)]
            for row, hashed in zip(chosen[known].tolist(), numbers[known].tolist(), strict=True):
                written = _cells(cut, key, side, row)
                cells = written if folded is cut else _cells(folded, key, side, row)
                yield _Change(int(of[row]), row, sign, hashed, cells, written)

    def seen(self) -> KeysSeen | None:
        """Return what the driver puts together, None if nothing was looked at."""
        if self._modes is None:
            return None
        names = sorted(self._keys)[:_MOST_TABLES]
        keys = {name: self._keys[name].copy() for name in names}
        fit(keys.values(), _SENT)
        facts = {name: self._facts[name] for name in names}
        # What the keys beyond the most do is not told, so that nothing may be taken to stand behind this part.
        whole = len(self._keys) == len(names)
        return KeysSeen(
            keys, facts, tuple(self._collided.values()), self._interrupted or not whole, self._looked_at, self._bytes,
            frozenset(self._cascading),
        )  # fmt: skip


@dataclass(frozen=True)
class _Looked:
    """A window and the rows events in it that are looked at."""

    buffer: Bytes
    read: Window
    rows: Rows
    start: int
    found: Ints
    places: dict[int, str] = field(default_factory=dict)

    def place(self, event: int) -> str:
        """Return the order key of an event's transaction."""
        segment = int(self.found[event, k.F_SEGMENT])
        if segment not in self.places:
            self.places[segment] = self.rows.key(self.start + int(self.read.row[segment])).text()
        return self.places[segment]


class _Change(NamedTuple):
    """A key is freed or taken. Without `cells` it is not known which one is freed."""

    event: int
    row: int
    sign: int
    hashed: int
    cells: tuple[bytes, ...] | None
    written: tuple[bytes, ...]


_UPPER: Final = np.frombuffer(bytes(range(256)).upper(), np.uint8)


def _folded(cut: CutRows, key: UniqueKey, table_map: TableMap) -> CutRows:
    """Return rows in which the letters of a key that are equal in either case are upper case, and its moments in the
    format since 5.6.
    """
    columns = [part.column for part in key.parts or () if folds_case(table_map, part)]
    cut = moments_since_5_6(cut, key, table_map)
    if not columns:
        return cut
    starts = cut.starts.copy()
    starts[:, columns] += len(cut.buffer)
    return replace(cut, buffer=np.concatenate([cut.buffer, _UPPER[cut.buffer]]), starts=starts)


def _cells(cut: CutRows, key: UniqueKey, side: int, row: int) -> tuple[bytes, ...]:
    return tuple(
        cut.buffer[int(cut.starts[side, c, row]) :][: int(cut.sizes[side, c, row])].tobytes() for c in key.columns
    )


def note(into: dict[_Which, Collided], name: KeyName, hit: Collision, facts: tuple[ColumnFacts, ...]) -> None:
    """Count a collision among those of the same key and shards, of which the first one is kept."""
    which = name, hit.first.origin, hit.second.origin
    if which in into:
        into[which] = replace(into[which], number=into[which].number + 1)
    elif len(into) < _MOST_COLLISIONS:
        into[which] = Collided(name, key_text(facts, hit.second.written), hit.first, hit.second)


@dataclass
class KnownKeys:
    """What stands in the log as far as a process has merged it; it is put together from the parts in their order."""

    keys: dict[KeyName, StandingKeys] = field(default_factory=dict)
    told: set[_Which] = field(default_factory=set)

    def follow(self, parts: Iterable[KeysSeen | None]) -> tuple[Collided, ...]:
        """Put the next parts behind what is known; return collisions in and between them, of keys and shards that had
        none before.
        """
        collided: dict[_Which, Collided] = {}
        for part in parts:
            if part is not None:
                self._follow(part, collided)
                fit(self.keys.values(), MOST_KEYS)
        new = [one for which, one in collided.items() if which not in self.told]
        self.told |= collided.keys()
        return tuple(sorted(new, key=lambda one: (one.key, one.second.place, one.second.origin)))

    def _follow(self, part: KeysSeen, collided: dict[_Which, Collided]) -> None:
        for name, keys in part.keys.items():
            known = self.keys.setdefault(name, StandingKeys(interrupted=True))
            for hit in known.follow(keys):
                note(collided, name, hit, part.facts[name])
        if part.interrupted:
            for name in self.keys.keys() - part.keys.keys():
                self.keys[name].interrupt()
        for one in part.collided:
            number = one.number + (collided[one.which].number if one.which in collided else 0)
            collided[one.which] = replace(one, number=number)


def looked_at(parts: Iterable[KeysSeen | None]) -> dict[str, Any]:
    """Return how far parts of the log were looked through for keys that collide, as plain values; {} if not at all.

    `some` are tables of which not all keys were held, `cascading` those that were not looked at.
    """
    seen = [part for part in parts if part is not None]
    if not seen:
        return {}
    return {
        "looked_at": sum(part.looked_at for part in seen),
        "bytes": sum(part.bytes for part in seen),
        "some": sorted({str(name) for part in seen for name, keys in part.keys.items() if keys.limit < EVERY_HASH}),
        "cascading": sorted({table for part in seen for table in part.cascading}),
    }


def collision_warnings(collided: Sequence[Collided]) -> dict[str, str]:
    """Return a warning for each table of which shards gave rows the same keys, with the ways out; by the table."""
    return {
        table: f"{text}. A replica stops there, with error 1062. What to do: {WAYS_OUT_OF_COLLISIONS}"
        for table, text in _texts(collided).items()
    }


def collision_error(collided: Sequence[Collided]) -> KeysInDoubt:
    """Return the error for shards that gave rows the same keys."""
    remedy = (
        f"{WAYS_OUT_OF_COLLISIONS} (nothing is published: remove the output). With `key-doubts: warn` the rows come "
        "out as they are, and a replica stops at the second one"
    )
    first = min(one.second.place for one in collided)
    return KeysInDoubt("; ".join(_texts(collided).values()), order_key=first, remedy=remedy)


def _texts(collided: Sequence[Collided]) -> dict[str, str]:
    texts = {}
    for table, group in groupby(sorted(collided, key=lambda one: one.key), key=lambda one: str(one.key)):
        own = list(group)
        one = own[0]
        number = sum(found.number for found in own)
        more = "" if number == 1 else f"; {number:,} such keys were seen"
        texts[table] = (
            f"keys collide: {one.second.origin} inserted a row of {table} with the {one.key.name} key {one.value} "
            f"(order key {one.second.place}), which a row of {one.first.origin} has (order key {one.first.place}){more}"
        )
    return texts
