"""The log of shards as JSON text for the schema store. Tables and sessions are stored once, however many events use
them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from binlog_merge.binlog.query_session import SessionVariables
from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.log import DatabaseEvent, RanStatement, ShardLog
from binlog_merge.pipeline.coordinate.shards.tools import ToolEvent, ToolTables, called_as_a_tools
from binlog_merge.pipeline.coordinate.shards.values import (
    Effect,
    Empties,
    Joins,
    Leaves,
    Moves,
    Name,
    Owing,
    Renamed,
    Shard,
    ShardDdl,
    ShardEvent,
    Start,
    Step,
)
from snapshot_store.errors import StoreError
from snapshot_store.model import Table
from snapshot_store.model_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.tso import OrderKey


class _Numbered:
    """Texts that are stored once and referred to by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._tables: dict[int, tuple[Table, int]] = {}  # keeps the table alive, so that its id is not reused

    def text(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def table(self, table: Table) -> int:
        if id(table) not in self._tables:
            self._tables[id(table)] = (table, self.text(table_to_json(table)))
        return self._tables[id(table)][1]


def log_to_json(log: ShardLog) -> str:
    """Return a log as JSON text."""
    tables, sessions = _Numbered(), _Numbered()
    values = {
        "members": [
            [
                *name,
                [[*shard, tables.table(table)] for shard, table in sorted(shards.items(), key=lambda pair: pair[0])],
            ]
            for name, shards in sorted(log.members.items())
        ],
        "logical": [tables.table(table) for _, table in sorted(log.logical.items())],
        "schemas": sorted(log.schemas),
        "databases": [[name, sorted(found)] for name, found in sorted(log.databases.items())],
        "events": [[*name, *_event(event, tables, sessions)] for name, event in log.events],
        "database_events": [
            [e.key.text(), e.node, e.name, None if e.value is None else schema_to_json(e.value), e.cautious]
            for e in log.database_events
        ],
        "tools": [
            [
                e.key.text(),
                e.node,
                *e.name,
                e.what,
                e.of,
                e.text,
                None if e.table is None else tables.table(e.table),
                e.thread,
            ]
            for e in log.tools.events
        ],
        "starts": [
            [*name, key.text(), *_start(start, tables, sessions)] for name, (key, start) in sorted(log.starts.items())
        ],
        "effects": [
            [
                *e.shard,
                list(e.key),
                None if e.place is None else [list(e.place.key), e.place.rank],
                e.renames,
                e.to,
                e.name,
                e.gone,
            ]
            for e in log.effects
        ],
        "ran": [[r.node, r.key.text(), r.sql, r.file, r.position, *astuple(r.variables)] for r in log.ran.values()],
        "used": [[r.node, r.key.text(), r.database] for r in log.ran.values() if r.database is not None],
        "doubted": [[*name, where] for name, where in sorted(log.doubted.items())],
        "tables": tables.texts,
        "sessions": sessions.texts,
    }
    return json.dumps(values)


def _event(event: ShardEvent, tables: _Numbered, sessions: _Numbered) -> list[Any]:
    head = [type(event).__name__, event.key.text(), *event.shard]
    ran_in = None if isinstance(event, Moves) else event.session
    session = None if ran_in is None else sessions.text(json.dumps(asdict(ran_in)))
    match event:
        case ShardDdl():
            steps = [[s.sql, tables.table(s.after), s.adds, s.drops, s.renames] for s in event.steps]
            return [*head, event.sql, tables.table(event.before), steps, session, event.elsewhere]
        case Joins():
            return [*head, tables.table(event.table), event.sql, session]
        case Moves():
            return [*head, *event.to]
        case Renamed():
            table = None if event.table is None else tables.table(event.table)
            instead = [_event(ddl, tables, sessions) for ddl in event.instead]
            kind = [event.tool, event.plain, event.sql, session]
            return [*head, event.to, event.old, event.new, table, instead, *kind]
        case _:
            return [*head, event.sql, session]


def log_from_json(text: str) -> ShardLog:
    """Return the log that `log_to_json` wrote. Raises StoreError if it did not write this."""
    try:
        values = json.loads(text)
        tables = [table_from_json(t) for t in values["tables"]]
        sessions = [DdlSession(**json.loads(s)) for s in values["sessions"]]
        return ShardLog(
            {(a, b): {Shard(*s): tables[t] for *s, t in shards} for a, b, shards in values["members"]},
            {(tables[t].schema, tables[t].name): tables[t] for t in values["logical"]},
            set(values["schemas"]),
            {name: {(node, schema) for node, schema in found} for name, found in values["databases"]},
            [((a, b), _read_event(rest, tables, sessions)) for a, b, *rest in values["events"]],
            [_read_database(*row) for row in values["database_events"]],
            ToolTables(_tool_events(values, tables)),
            {
                (a, b): (OrderKey.parse(key), _read_start(rest, tables, sessions))
                for a, b, key, *rest in values["starts"]
            },
            [_read_effect(row) for row in values["effects"]],
            _read_ran(values["ran"], values.get("used", ())),
            doubted={(a, b): where for a, b, where in values.get("doubted", ())},
        )
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise StoreError(f"not the JSON of shards: {text[:100]!r} ({error}); the store is damaged") from None


_KINDS: Mapping[str, type[Leaves] | type[Empties]] = {"Leaves": Leaves, "Empties": Empties}


def _read_event(row: Sequence[Any], tables: Sequence[Table], sessions: Sequence[DdlSession]) -> ShardEvent:
    kind, key, shard, rest = row[0], OrderKey.parse(row[1]), Shard(*row[2:5]), row[5:]

    def ran_in(numbers: Sequence[int | None]) -> DdlSession | None:
        """Return the session at the end of a row; older stores have none for some kinds of events."""
        return None if not numbers or numbers[0] is None else sessions[numbers[0]]

    if kind == "ShardDdl":
        sql, before, steps, session, *more = rest
        read = (Step(s, tables[t], tuple(adds), tuple(drops), _pairs(renames)) for s, t, adds, drops, renames in steps)
        return ShardDdl(key, shard, sql, tables[before], tuple(read), ran_in([session]), *more)
    if kind == "Joins":
        return Joins(key, shard, tables[rest[0]], rest[1], ran_in(rest[2:]))
    if kind == "Moves":
        return Moves(key, shard, Shard(*rest))
    if kind == "Renamed":
        to, old, new, table, instead, tool, plain, sql, *more = rest
        ddls = (_read_event(ddl, tables, sessions) for ddl in instead)
        made = tuple(ddl for ddl in ddls if isinstance(ddl, ShardDdl))
        now = None if table is None else tables[table]
        return Renamed(key, shard, Shard(*to), _name(old), _name(new), now, made, tool, plain, sql, ran_in(more))
    return _KINDS[kind](key, shard, rest[0], session=ran_in(rest[1:]))


def _start(start: Start, tables: _Numbered, sessions: _Numbered) -> list[Any]:
    return [
        [[*shard, tables.table(table)] for shard, table in sorted(start.members.items(), key=lambda pair: pair[0])],
        None if start.table is None else tables.table(start.table),
        start.rows_left,
        None if start.session is None else sessions.text(json.dumps(asdict(start.session))),
        [[text, [[*shard, n] for shard, n in sorted(counts.items())]] for text, counts in sorted(start.inert.items())],
        start.created,
        [_event(ddl, tables, sessions) for ddl in start.written],
        [
            [*shard, owing.again, [_event(ddl, tables, sessions) for ddl in owing.owed]]
            for shard, owing in sorted(start.behind.items())
        ],
    ]


def _read_start(row: Sequence[Any], tables: Sequence[Table], sessions: Sequence[DdlSession]) -> Start:
    members, table, rows_left, session, inert, *more = row
    created, written, behind = more or ("", (), ())

    def ddl(rows: Sequence[Any]) -> tuple[ShardDdl, ...]:
        events = (_read_event(event, tables, sessions) for event in rows)
        return tuple(event for event in events if isinstance(event, ShardDdl))

    return Start(
        {Shard(*shard): tables[t] for *shard, t in members},
        None if table is None else tables[table],
        rows_left,
        None if session is None else sessions[session],
        {text: {Shard(*shard): n for *shard, n in counts} for text, counts in inert},
        created,
        ddl(written),
        {Shard(*shard): Owing(ddl(owed), again) for *shard, again, owed in behind},
    )


def _read_effect(row: Sequence[Any]) -> Effect:
    *shard, key, place, renames, to, name, gone = row
    at = None if place is None else DdlPlace(OrderKey(*place[0]), place[1])
    goes = None if to is None else Shard(*to)
    return Effect(Shard(*shard), OrderKey(*key), at, _pairs(renames), goes, _name(name), gone)


def _tool_events(values: Mapping[str, Any], tables: Sequence[Table]) -> Iterator[ToolEvent]:
    """Yield what is known of tables of tools; older stores have every table that was called as theirs are."""
    if "tools" in values:
        yield from (_read_tool_event(row, tables) for row in values["tools"])
        return
    for text, node, schema, table, sql in values["ghosts"]:
        key, name = OrderKey.parse(text), (schema, table)
        if (known := called_as_a_tools(name)) is not None:
            tool, of = known
            yield (
                ToolEvent(key, node, name, "altered", text=sql) if sql else ToolEvent(key, node, name, "made", of, tool)
            )


def _read_tool_event(row: Sequence[Any], tables: Sequence[Table]) -> ToolEvent:
    key, node, schema, table, what, of, text, definition, thread = row
    defined = None if definition is None else tables[definition]
    return ToolEvent(OrderKey.parse(key), node, (schema, table), what, _name(of), text, defined, thread)


def _read_database(key: str, node: str, name: str, value: Any, cautious: bool = False) -> DatabaseEvent:
    return DatabaseEvent(OrderKey.parse(key), node, name, None if value is None else schema_from_json(value), cautious)


def _name(value: Sequence[str] | None) -> Name | None:
    return None if value is None else (value[0], value[1])


def _pairs(values: Sequence[Sequence[str]]) -> tuple[Name, ...]:
    return tuple((old, new) for old, new in values)


def _read_ran(rows: Sequence[Any], used: Sequence[Any]) -> dict[tuple[str, OrderKey], RanStatement]:
    databases, found = {(node, key): database for node, key, database in used}, {}
    for node, text, sql, file, position, *variables in rows:
        key, session = OrderKey.parse(text), SessionVariables(*variables)
        found[node, key] = RanStatement(node, key, sql, file, position, session, databases.get((node, text)))
    return found


def entries_of(text: str) -> list[tuple[str, str]]:
    """Return logs of shards, each with the key (as text) below which it is complete. Raises StoreError."""
    try:
        return [(since, log) for since, log in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise StoreError(f"not the JSON of shards: {text[:100]!r} ({error}); the store is damaged") from None
