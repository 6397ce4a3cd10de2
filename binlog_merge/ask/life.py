"""The life of a row: its changes under every key that it had, in every table name, and the DDL between them.

    insert 4711   update 4711   update 4711 -> 5000   update 5000   delete 5000

A row is known by its primary key. When an update changes the key, the row is followed under the new key until it is
deleted, and what became the row that is asked for is followed back to its insert. An ALTER that gives the key another
value is as such an update, where it is known which value it gives. What another row does under one of these keys,
earlier or later, is not of this life; but all rows that ever had the key asked for are. No row outlives the `Tenure` of
its table, which a DROP or TRUNCATE ends.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import numpy as np

from binlog_merge.ask.formats import records
from binlog_merge.ask.key_spans import AlteredKey, Span, Values, primary_key, rewritten, spans_of, versions_made
from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.errors import ConfigError
from binlog_merge.log.log import Log
from binlog_merge.log.names import Said, Tables, tables_of
from binlog_merge.log.question import Moment, Question, select
from binlog_merge.log.versions import versions_between
from binlog_merge.log.where import Where
from binlog_merge.log.who import Who, who_wrote
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import CHARACTERS, Family, facts_of
from snapshot_store.mysql.sql.names import quote_name, quote_string
from snapshot_store.tso import OrderKey

_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_BYTES: Final = re.compile(r"0x([0-9a-fA-F]{2})+", re.ASCII)
_MOST_KEYS: Final = 1000


class Key(NamedTuple):
    """A key's values, between ALTERs that give keys other values, of which so many were before."""

    altered: int
    values: Values


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the row, as `-o jsonl` of `changes` prints it, and who made it."""

    record: Mapping[str, Any]
    who: Who


@dataclass(frozen=True, slots=True)
class Ddl:
    """A statement about the row's table, which is called so before it; `key` is None where no schema store says it."""

    schema: str
    table: str
    ddl: str
    gtid: str | None
    commit_us: int
    file: str
    position: int
    key: OrderKey | None


Item = Change | Ddl


@dataclass(frozen=True, slots=True)
class Life:
    """The changes of a row and the DDL between them, in order; `left_out` says in words what is not among them.

    `doubts` has the inserts of a key that another row has, in words: no server takes them.
    """

    items: tuple[Item, ...]
    left_out: tuple[str, ...]
    doubts: tuple[str, ...] = ()


def life_of(
    binlog: Log,
    name: tuple[str, str],
    key: Mapping[str, str],
    *,
    start: Moment = None,
    stop: Moment = None,
    time_zone: str = "UTC",
) -> Life:
    """Return the changes of the row with this key, and the statements about its table between them, in order.

    `key` has a text for each column of the primary key. Raises ConfigError and UnknownTable, and what reading does.
    """
    first, last = Question(name, start, stop, time_zone=time_zone, option="--").range_in(binlog)
    wanted = _wanted(binlog, name, key, last)
    tables = tables_of(binlog, *name, last)
    rows, left_out, doubts = list[_Row](), list(tables.others), list[str]()
    files = {file.name: number for number, file in enumerate(binlog.state.files)}
    for tenure in tables.tenures:
        spans, others = spans_of(binlog, tenure, tuple(wanted), first)
        left_out += others
        asking = _Asking(binlog, spans, tenure.said, first, last, time_zone)
        lived = _lived(asking, tuple(wanted.values()))
        doubts += _doubts(lived)
        left_out += _not_followed(asking.alters, lived, asking.place)
        rows += [row for row in lived if row.record["op"] is not None]
    changes = [Change(row.record, who_wrote(binlog, row.record["file"], row.record["position"])) for row in rows]
    return Life(tuple(_with_statements(binlog, tables, changes, files)), tuple(left_out), tuple(doubts))


def _not_followed(
    alters: "Sequence[_Alter]", lived: "Sequence[_Row]", place: "Callable[[_Row], tuple[int, int, int]]"
) -> Iterator[str]:
    """Yield which statements gave a standing row's key another value, behind which its life is not followed."""
    for alter in alters:
        sides: tuple[list[_Row], list[_Row]] = ([], [])
        for row in lived:
            sides[place(row) >= (*alter.place, 0)].append(row)
        before, after = sides
        if (before and not after and before[-1].after is not None) or (
            after and not before and after[0].before is not None
        ):
            side = "from there on" if before else "until there"
            gtid = alter.record["gtid"]
            yield (
                f"{gtid} makes other values of the key, {alter.words}: what the row does {side} is under another key; "
                "ask for it by the value that it has there"
            )


def _doubts(rows: Sequence["_Row"]) -> Iterator[str]:
    """Yield what is wrong with changes in their order: inserts of a key that a row has."""
    standing: dict[Key, str] = {}
    for row in rows:
        place = row.record["gtid"] or f"{row.record['file']}:{row.record['position']}"
        if row.before is not None and row.before != row.after:
            standing.pop(row.before, None)
        if row.after is None:
            continue
        if row.before is None and row.after in standing:
            yield (
                f"{place} inserts the row that stands since {standing[row.after]}: a server that applies the log stops "
                "there, with error 1062. Two shards gave a row this key; or the first one was removed by a foreign key "
                "with ON DELETE CASCADE, of which binlogs do not tell"
            )
        standing[row.after] = standing.get(row.after, place) if row.before is not None else place


def _lived(asked: "_Asking", wanted: Values) -> "list[_Row]":
    """Return the changes of the rows that had a key in one tenure of a table, in order, with those that ALTERs make."""
    rows = list(asked.touching(lambda _: [wanted], asked.time_zone))
    life = asked.matching(rows, wanted)
    keys, found = list(life), set[int]()
    if asked.alters:
        rows = asked.of(keys)
    while keys:
        found, others = _followed([(row.before, row.after) for row in rows], life)
        new = [other for other in others if other not in keys]
        if not new:
            break
        keys += new
        if len(keys) > _MOST_KEYS:
            raise ConfigError(f"the row has had more than {_MOST_KEYS} keys", remedy="give --start and --stop")
        rows = asked.of(keys)
    return [rows[number] for number in sorted(found)]


def _wanted(binlog: Log, name: tuple[str, str], key: Mapping[str, str], last: int) -> dict[str, str]:
    """Return the texts of the key that is asked for by the columns of the table's key, or of one that it had before."""
    tables = versions_between(binlog, *name, binlog.state.first_rank, last).tables()
    known = [columns for table in reversed(tables) if (columns := primary_key(table))]
    by_name = {given.lower(): text for given, text in key.items()}
    if not known or not primary_key(tables[-1]):
        raise ConfigError(
            f"{'.'.join(name)} has no primary key: no row of it has a life that can be told from another's",
            remedy="`binlog-merge changes --where` shows the changes of all rows that satisfy a condition",
        )
    for columns in known:
        if set(by_name) == {column.lower() for column in columns}:
            _check_numbers(tables, by_name)
            return {column: by_name[column.lower()] for column in columns}
    raise ConfigError(
        f"the primary key of {'.'.join(name)} is {', '.join(known[0])}, not {', '.join(key) or 'nothing'}",
        remedy=f"write {' '.join(f'{column}=VALUE' for column in known[0])}; `binlog-merge changes --where` takes "
        "any condition",
    )


def _check_numbers(tables: Sequence[Table], by_name: Mapping[str, str]) -> None:
    """Raise ConfigError for a text given for a column that has always been an integer: MySQL would take it for 0."""
    for name, text in by_name.items():
        kinds = {column.type.name for table in tables for column in table.columns if column.name.lower() == name}
        if kinds and all(facts_of(kind).family is Family.INTEGER for kind in kinds) and not _NUMBER.fullmatch(text):
            kind = " and ".join(sorted(kinds))
            raise ConfigError(f"{name} is {kind}, and {text!r} is no number", remedy=f"write {name}=4711")


@dataclass(frozen=True, slots=True)
class _Row:
    """A change of a row; what an ALTER makes of its key is a change without an `op`."""

    record: Mapping[str, Any]
    before: Key | None
    after: Key | None


@dataclass(frozen=True, slots=True)
class _Alter:
    """An ALTER that gives keys other values, in words; `key` says which, unless other statements were between."""

    record: Mapping[str, Any]
    words: str
    place: tuple[int, int]
    key: AlteredKey | None


class _Asking:
    """Asks the log for the changes of rows with some keys."""

    def __init__(
        self, binlog: Log, spans: Sequence[Span], said: Sequence[Said], first: int, last: int, time_zone: str
    ) -> None:
        self._binlog = binlog
        self._first, self._last = first, last
        self.time_zone = time_zone
        self._files = {file.name: number for number, file in enumerate(binlog.state.files)}
        self.alters: list[_Alter] = []
        self._spans: list[tuple[int, Span]] = [(0, span) for span in spans[:1]]
        by_rank = {one.at.begin.rank: one for one in said}
        for span, following in pairwise(spans):
            words, one = rewritten(span, following), by_rank.get(following.named.first)
            if words and one is not None:
                begin = one.at.begin
                file = PurePosixPath(begin.file).name
                record = {"op": None, "gtid": begin.gtid, "file": file, "position": begin.position, "row": 0}
                adjoin = span.named.last + 1 == following.named.first
                key = AlteredKey(one, span, following) if adjoin else None
                self.alters.append(_Alter(record, words, (self._files[file], begin.position), key))
            self._spans.append((len(self.alters), following))

    def place(self, row: _Row) -> tuple[int, int, int]:
        """Return where a change is in the log, and its number there."""
        return self._files[row.record["file"]], row.record["position"], row.record["row"]

    def of(self, keys: Sequence[Key]) -> list[_Row]:
        """Return the changes of the rows with these keys, and of those that an ALTER gives one of them, in order."""
        known = dict.fromkeys(keys)
        for number, alter in reversed(list(enumerate(self.alters))):
            if alter.key is not None:
                found = [alter.key.source_of(key.values) for key in known if key.altered == number + 1]
                known |= dict.fromkeys(Key(number, values) for values in found if values is not None)
        # Values in the log are in UTC.
        rows = list(self.touching(lambda altered: [key.values for key in known if key.altered == altered], "UTC"))
        return list(self._with_alters(rows))

    def _with_alters(self, rows: Sequence[_Row]) -> Iterator[_Row]:
        """Yield the rows in order, and between them what ALTERs make of the keys of those that are there."""
        standing, ahead = dict[Key, None](), deque(sorted(rows, key=self.place))
        for number, alter in enumerate(self.alters):
            while ahead and self.place(ahead[0]) < (*alter.place, 0):
                row = ahead.popleft()
                yield row
                if row.before is not None:
                    standing.pop(row.before, None)
                if row.after is not None:
                    standing[row.after] = None
            made = {} if alter.key is None else {key: alter.key.made_of(key.values) for key in standing}
            standing = {}
            for before, values in made.items():
                if values is not None:
                    standing[after := Key(number + 1, values)] = None
                    yield _Row(alter.record, before, after)
        yield from ahead

    def touching(
        self, keys: Callable[[int], Sequence[Values]], zone: str, sides: tuple[int, ...] = (BEFORE, AFTER)
    ) -> Iterator[_Row]:
        """Yield the changes that have a key before or after; `keys` says which are asked for behind so many ALTERs.

        TIMESTAMPs are in a time zone.
        """
        for altered, span in self._spans:
            first, last = max(self._first, span.named.first), min(self._last, span.named.last)
            wanted = keys(altered)
            if first > last or not wanted:
                continue
            uuid, name = self._binlog.cluster_uuid, (span.named.schema, span.named.name)
            question = Question(name, f"{uuid}:{first}", f"{uuid}:{last}", temporal_text=True)
            selection = select(self._binlog, question)
            where = " OR ".join("(" + " AND ".join(map(_equal, span.columns, span.kinds, key)) + ")" for key in wanted)
            tables = selection.versions.tables()
            names = frozenset(column.name.lower() for table in tables for column in table.columns)
            condition = Where(where, zone, names, "the key", sides=sides)
            for record in records(self._binlog, replace(selection, first=first, last=last, where=condition)):
                before, after = (_key(record[side], span.columns, altered) for side in ("before", "after"))
                yield _Row(record, before, after)

    def matching(self, rows: Sequence[_Row], wanted: Values) -> set[Key]:
        """Return the keys in the log that MySQL takes for the one that is wanted."""
        known = {row.before if row.after is None else row.after for row in rows if _one(row)}
        if all(_one(row) for row in rows):
            return {key for key in known if key is not None}
        before = {row.before for row in self.touching(lambda _: [wanted], self.time_zone, (BEFORE,))}
        after = {row.after for row in self.touching(lambda _: [wanted], self.time_zone, (AFTER,))}
        return {key for key in before | after if key is not None}


def _one(row: _Row) -> bool:
    """Return whether a change is of one key alone."""
    return row.before is None or row.after is None or row.before == row.after


def _equal(column: str, kind: str, value: Any) -> str:
    return f"{quote_name(column)} = {_literal(kind, str(value))}"


def _literal(kind: str, text: str) -> str:
    """Return a key's value as SQL: bytes are 0x…, as changes show them; a FLOAT is the one next to the text."""
    family = facts_of(kind).family
    if family is Family.BYTES and _BYTES.fullmatch(text):
        return text
    number = family not in CHARACTERS | {Family.BYTES} and _NUMBER.fullmatch(text) and len(text) <= 38
    if number and kind == "float":
        exact = repr(float(np.float32(text)))
        return exact if "e" in exact else f"{exact}e0"
    return text if number else quote_string(text)


def _followed(sides: Sequence[tuple[Key | None, Key | None]], wanted: Set[Key]) -> tuple[set[int], list[Key]]:
    """Return the numbers of the rows that are of the life, and the other keys that it has had."""
    numbers: set[int] = set()
    others: dict[Key, None] = {}
    ahead: list[tuple[int, Key, int]] = []
    for number, (before, after) in enumerate(sides):
        was, became = before in wanted, after in wanted
        if was or became:
            numbers.add(number)
        if was and after is not None and not became:
            ahead.append((number, after, 1))
        if became and before is not None and not was:
            ahead.append((number, before, -1))
    while ahead:
        number, key, step = ahead.pop()
        others[key] = None
        number += step
        while 0 <= number < len(sides):
            # In time's direction a row comes from `here` and goes on as `there`.
            here, there = sides[number] if step == 1 else sides[number][::-1]
            if here == key:
                numbers.add(number)
                if there is None:
                    break
                if there != key:
                    others[there] = None
                    key = there
            elif there == key:
                break  # another row has the key: a statement took ours away
            number += step
    return numbers, list(others)


def _key(image: Mapping[str, Any] | None, columns: Sequence[str], altered: int) -> Key | None:
    if image is None:
        return None
    by_name = {name.lower(): value for name, value in image.items()}
    return Key(altered, tuple(by_name[column.lower()] for column in columns))


def _with_statements(binlog: Log, tables: Tables, changes: Sequence[Change], places: Mapping[str, int]) -> list[Item]:
    """Return the changes with the statements about the table after the first of them, until the row was deleted."""
    if not changes:
        return []

    def place(item: Item) -> tuple[int, int]:
        file, position = (
            (item.record["file"], item.record["position"]) if isinstance(item, Change) else (item.file, item.position)
        )
        return places[file], position

    deleted = changes[-1].record["op"] == "delete"  # else a later TRUNCATE or DROP is what ends its life
    first, last = place(changes[0]), place(changes[-1])
    said = {(one.at.begin.file, one.at.begin.position): one for tenure in tables.tenures for one in tenure.said}
    made = versions_made(binlog, list(said.values()))
    statements = [_ddl(one, version.key if version else None) for one, version in zip(said.values(), made, strict=True)]
    between = [one for one in statements if first < place(one) and not (deleted and place(one) > last)]
    return sorted([*changes, *between], key=place)


def _ddl(said: Said, key: OrderKey | None) -> Ddl:
    begin = said.at.begin
    gtid = begin.gtid if ":" in begin.gtid else None
    file = PurePosixPath(begin.file).name
    return Ddl(*said.name, said.at.statement.body, gtid, begin.commit_us, file, begin.position, key)
