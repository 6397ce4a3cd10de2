"""The life of a row: its changes under every key that it had, in every table name, and the DDL between them.

    insert 4711   update 4711   update 4711 -> 5000   update 5000   delete 5000

A row is known by its primary key. When an update changes the key, the row is followed under the new key until it is
deleted, and what became the row that is asked for is followed back to its insert. What another row does under one of
these keys, earlier or later, is not of this life; but all rows that ever had the key asked for are. No row outlives the
`Tenure` of its table, which a DROP or TRUNCATE ends.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np

from binlog_merge.ask.formats.json_lines import records
from binlog_merge.ask.key_spans import Span, primary_key, rewritten, spans_of
from binlog_merge.ask.selection import Place, select
from binlog_merge.ask.values import quoted
from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.binlog.query_session import session_of, text_of
from binlog_merge.errors import ConfigError
from binlog_merge.log.names import Said, Tables, tables_of
from binlog_merge.log.place import parse_place, zone_named
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.log.spans import ranks_between
from binlog_merge.log.versions import versions_between
from binlog_merge.log.where import Where
from binlog_merge.log.who import Who, WhoOf
from binlog_merge.store_errors import as_merge_errors
from binlog_merge.values.value import BINARY_TYPES, INTEGER_BYTES, TEXT_TYPES
from snapshot_store.model import Table
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey

Key = tuple[Any, ...]
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_BYTES: Final = re.compile(r"0x([0-9a-fA-F]{2})+", re.ASCII)
_MOST_KEYS: Final = 1000


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
    binlog: MergedBinlog,
    name: tuple[str, str],
    key: Mapping[str, str],
    *,
    start: Place = None,
    stop: Place = None,
    time_zone: str = "UTC",
) -> Life:
    """Return the changes of the row with this key, and the statements about its table between them, in order.

    `key` has a text for each column of the primary key. Raises ConfigError and UnknownTable, and what reading does.
    """
    zone_named(time_zone)
    places = [
        None if place is None else parse_place(f"--{option}", place, time_zone)
        for option, place in (("start", start), ("stop", stop))
    ]
    first, last = ranks_between(binlog, *places)
    wanted = _wanted(binlog, name, key, last)
    tables = tables_of(binlog, *name, last)
    rows, left_out, doubts = list[_Row](), list(tables.others), list[str]()
    files = {file.name: number for number, file in enumerate(binlog.state.files)}
    for tenure in tables.tenures:
        spans, others = spans_of(binlog, tenure, tuple(wanted), first)
        left_out += others
        lived = _lived(_Asking(binlog, spans, first, last, time_zone), tuple(wanted.values()))
        lived.sort(key=lambda row: (files[row.record["file"]], row.record["position"], row.record["row"]))
        doubts += _doubts(lived)
        left_out += _rewritten(tenure.said, spans, lived, files)
        rows += lived
    who = WhoOf(binlog)
    rows.sort(key=lambda row: (files[row.record["file"]], row.record["position"], row.record["row"]))
    changes = [Change(row.record, who.event(row.record["file"], row.record["position"])) for row in rows]
    return Life(tuple(_with_statements(binlog, tables, changes, files)), tuple(left_out), tuple(doubts))


def _rewritten(
    said: Sequence[Said], spans: Sequence[Span], lived: "Sequence[_Row]", files: Mapping[str, int]
) -> Iterator[str]:
    """Yield which statements gave a standing row's key another value, behind which its life is not followed."""
    by_rank = {one.at.begin.rank: one for one in said}
    for span, following in pairwise(spans):
        words, one = rewritten(span, following), by_rank.get(following.named.first)
        if not words or one is None:
            continue
        begin = one.at.begin
        place = files[PurePosixPath(begin.file).name], begin.position
        sides: tuple[list[_Row], list[_Row]] = ([], [])
        for row in lived:
            sides[(files[row.record["file"]], row.record["position"]) > place].append(row)
        before, after = sides
        if (before and not after and before[-1].after is not None) or (
            after and not before and after[0].before is not None
        ):
            side = "from there on" if before else "until there"
            yield (
                f"{begin.gtid} makes other values of the key, {words}: what the row does {side} is under another key; "
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


def _lived(asked: "_Asking", wanted: Key) -> "list[_Row]":
    """Return the changes of the rows that had a key in one tenure of a table."""
    rows = list(asked.touching([wanted], asked.time_zone))
    life = list(asked.matching(rows, wanted))
    keys, found = list(life), set[int]()
    while keys:
        found, others = _followed([(row.before, row.after) for row in rows], set(life))
        new = [other for other in others if other not in keys]
        if not new:
            break
        keys += new
        if len(keys) > _MOST_KEYS:
            raise ConfigError(f"the row has had more than {_MOST_KEYS} keys", remedy="give --start and --stop")
        # Values in the log are in UTC.
        rows = list(asked.touching(keys, "UTC"))
    return [rows[number] for number in sorted(found)]


def _wanted(binlog: MergedBinlog, name: tuple[str, str], key: Mapping[str, str], last: int) -> dict[str, str]:
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
        if kinds and kinds <= set(INTEGER_BYTES) and not _NUMBER.fullmatch(text):
            kind = " and ".join(sorted(kinds))
            raise ConfigError(f"{name} is {kind}, and {text!r} is no number", remedy=f"write {name}=4711")


@dataclass(frozen=True, slots=True)
class _Row:
    record: Mapping[str, Any]
    before: Key | None
    after: Key | None


@dataclass(frozen=True)
class _Asking:
    """Asks the log for the changes of rows with some keys."""

    binlog: MergedBinlog
    spans: Sequence[Span]
    first: int
    last: int
    time_zone: str

    def touching(self, keys: Sequence[Key], zone: str, sides: tuple[int, ...] = (BEFORE, AFTER)) -> Iterator[_Row]:
        """Yield the changes that have one of these keys before or after, in order; TIMESTAMPs are in a time zone."""
        for span in self.spans:
            first, last = max(self.first, span.named.first), min(self.last, span.named.last)
            if first > last:
                continue
            selection = select(
                self.binlog, (span.named.schema, span.named.name), start=f"{self.binlog.cluster_uuid}:{first}",
                stop=f"{self.binlog.cluster_uuid}:{last}", temporal_text=True,
            )  # fmt: skip
            where = " OR ".join("(" + " AND ".join(map(_equal, span.columns, span.kinds, key)) + ")" for key in keys)
            tables = selection.asked.versions.tables()
            names = frozenset(column.name.lower() for table in tables for column in table.columns)
            asked = replace(selection.asked, where=Where(where, zone, names, "the key", sides=sides))
            for record in records(replace(selection, asked=asked).between(first, last)):
                yield _Row(record, _key(record["before"], span.columns), _key(record["after"], span.columns))

    def matching(self, rows: Sequence[_Row], wanted: Key) -> set[Key]:
        """Return the keys in the log that MySQL takes for the one that is wanted."""
        known = {row.before if row.after is None else row.after for row in rows if _one(row)}
        if all(_one(row) for row in rows):
            return {key for key in known if key is not None}
        before = {row.before for row in self.touching([wanted], self.time_zone, (BEFORE,))}
        after = {row.after for row in self.touching([wanted], self.time_zone, (AFTER,))}
        return {key for key in before | after if key is not None}


def _one(row: _Row) -> bool:
    """Return whether a change is of one key alone."""
    return row.before is None or row.after is None or row.before == row.after


def _equal(column: str, kind: str, value: Any) -> str:
    return f"`{column.replace('`', '``')}` = {_literal(kind, str(value))}"


def _literal(kind: str, text: str) -> str:
    """Return a key's value as SQL: bytes are 0x…, as changes show them; a FLOAT is the one next to the text."""
    if kind in BINARY_TYPES and _BYTES.fullmatch(text):
        return text
    number = kind not in TEXT_TYPES | BINARY_TYPES | {"enum", "set"} and _NUMBER.fullmatch(text) and len(text) <= 38
    if number and kind == "float":
        exact = repr(float(np.float32(text)))
        return exact if "e" in exact else f"{exact}e0"
    return text if number else quoted(text)


def _followed(sides: Sequence[tuple[Key | None, Key | None]], wanted: Set[Key]) -> tuple[set[int], list[Key]]:
    """Return the numbers of the rows that are of the life, and the other keys that it has had."""
    found: set[int] = set()
    others: dict[Key, None] = {}
    ahead: list[tuple[int, Key, int]] = []
    for number, (before, after) in enumerate(sides):
        was, became = before in wanted, after in wanted
        if was or became:
            found.add(number)
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
                found.add(number)
                if there is None:
                    break
                if there != key:
                    others[there] = None
                    key = there
            elif there == key:
                break  # another row has the key: a statement took ours away
            number += step
    return found, list(others)


def _key(image: Mapping[str, Any] | None, columns: Sequence[str]) -> Key | None:
    if image is None:
        return None
    by_name = {name.lower(): value for name, value in image.items()}
    return tuple(by_name[column.lower()] for column in columns)


def _with_statements(
    binlog: MergedBinlog, tables: Tables, changes: Sequence[Change], places: Mapping[str, int]
) -> list[Item]:
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
    keys = _keys(binlog, list(said.values()))
    statements = [_ddl(one, key) for one, key in zip(said.values(), keys, strict=True)]
    between = [one for one in statements if first < place(one) and not (deleted and place(one) > last)]
    return sorted([*changes, *between], key=place)


def _ddl(said: Said, key: OrderKey | None) -> Ddl:
    begin = said.at.begin
    gtid = begin.gtid if ":" in begin.gtid else None
    file = PurePosixPath(begin.file).name
    return Ddl(*said.name, _text(said), gtid, begin.commit_us, file, begin.position, key)


def _keys(binlog: MergedBinlog, said: Sequence[Said]) -> list[OrderKey | None]:
    """Return the order keys of statements, which only the schema store has; None where it does not say for certain."""
    with binlog.folder.schema_store() as (path, _):
        if not path.exists():
            return [None] * len(said)
        with as_merge_errors(path), Store.open(path, True) as store:
            versions = store.history_of([(None, *name) for name in dict.fromkeys(one.name for one in said)]).versions
    known: dict[tuple[str, str, str], list[OrderKey]] = {}
    for version in versions:
        known.setdefault((version.schema, version.name, version.ddl), []).append(version.key)
    same = [(*one.name, _text(one)) for one in said]
    counts, seen = Counter(same), Counter[tuple[str, str, str]]()
    found: list[OrderKey | None] = []
    for one in same:
        keys = known.get(one, [])
        found.append(keys[seen[one]] if len(keys) == counts[one] else None)
        seen[one] += 1
    return found


def _text(said: Said) -> str:
    """Return a statement without the comments before it, in which a cluster keeps its own."""
    query = said.at.statement.query
    text = text_of(query)
    return text[Cursor.of(text, session_of(query)).peek().start :].strip()
