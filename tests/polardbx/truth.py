"""What must come out of a history: its transactions in order, and the rows of every logical table at the end."""

from dataclasses import dataclass
from itertools import groupby

from tests.polardbx.cluster import Key
from tests.polardbx.columns import filled
from tests.polardbx.steps import Values
from tests.polardbx.world import Effect, State, World
from tests.simulator.columns import Table, Value
from tests.simulator.rows import Image, RowChange, as_logical

LogicalRow = tuple[str, str, Image, Image]  # table, kind, before, after


@dataclass(frozen=True)
class Expected:
    """One transaction: rows as cells, or a DDL; `private` is one that MySQL does not execute.

    `server` is the server id that its client asked for, `archive` tells that it is one of an archive's.
    """

    key: str
    rows: tuple[LogicalRow, ...] = ()
    sql: str | None = None
    private: bool = False
    server: int | None = None
    archive: bool = False
    beat: bool = False  # a heartbeat


def expected(world: World) -> list[Expected]:
    """Return what must come out, in order."""
    found = [
        ((a.key, 0), Expected(key_text(a.key), (), a.sql, a.visibility == 2, a.server)) for a in world.announced
    ] + [((key, 1), _transaction(key, effects)) for key, effects in by_key(world)]  # fmt: skip
    every = world.knobs.heartbeat
    beats = [key for key in world.heartbeats if every and (key[0] >> 22) // 1000 % every == 0]
    found += [((key, 0), Expected(key_text(key), beat=True)) for key in beats]
    return [entry for _, entry in sorted(found, key=lambda f: f[0])]


def final(world: World) -> dict[str, tuple[Table, State]]:
    """Return every logical table at the end: its shape, and its rows by id."""
    tables: dict[str, State] = {name: {} for name, _ in world.base}
    shapes = dict(world.base)
    steps = [(a.key, a) for a in world.announced] + list(by_key(world))
    for _, step in sorted(steps, key=lambda s: s[0]):
        if isinstance(step, list):
            for effect in step:
                _apply(tables, effect)
        else:
            step.apply(tables)
    for table in world.tables:
        if table.versions and f"{table.schema}.{table.name}" in tables:
            shapes[f"{table.schema}.{table.name}"] = table.versions[-1][2]
    return {name: (shapes[name], rows) for name, rows in tables.items()}


def by_key(world: World) -> list[tuple[tuple[int, int, int, int], list[Effect]]]:
    """Return the effects of each transaction that come out: statement by statement, then node by node."""
    kept = [e for e in world.effects if e.shard.logical_at(e.key) is not None]
    if world.knobs.hints:
        kept.sort(key=lambda e: (e.key, e.write.sequence, e.write.sub, e.place))
    else:
        kept.sort(key=lambda e: (e.key, e.place))
    return [(key, list(group)) for key, group in groupby(kept, key=lambda e: e.key)]


def key_text(key: tuple[int, int, int, int]) -> str:
    return f"{key[0]:019d}{key[1]:019d}{key[2]:010d}{key[3]:06d}"


def _transaction(key: Key, effects: list[Effect]) -> Expected:
    servers = [e.write.server for e in effects if e.write.server is not None]
    server = servers[0] if servers else None
    return Expected(key_text(key), _rows(effects), server=server, archive=any(e.archive for e in effects))


def _rows(effects: list[Effect]) -> tuple[LogicalRow, ...]:
    found = []
    for effect in effects:
        logical = effect.shard.logical_at(effect.key)
        assert logical is not None
        name, table = logical.at(effect.key)
        write = effect.write
        change = RowChange(name, write.kind, write.table, *write.images)
        found.append(as_logical(change, table, (effect.key[0] >> 22) * 1000))
    return tuple(found)


def logical_row(effect: Effect) -> tuple[str, str, dict[str, Value] | None, dict[str, Value] | None]:
    """Return (table, kind, before, after) by the logical table's columns as a row of this key sees them.

    What a physical table lacks is filled in where the image is whole.
    """
    logical = effect.shard.logical_at(effect.key)
    assert logical is not None
    name, table = logical.at(effect.key)
    physical = effect.write.table

    def image(values: Values | None) -> dict[str, Value] | None:
        if values is None:
            return None
        whole = len(values) == len(physical.columns)
        pads = {c.name: filled(c) for c in table.columns if whole and physical.named(c.name) is None}
        return {c.name: {**values, **pads}[c.name] for c in table.columns if c.name in values or c.name in pads}

    before, after = effect.write.images
    return name, effect.write.kind, image(before), image(after)


def _apply(tables: dict[str, State], effect: Effect) -> None:
    name, kind, _, after = logical_row(effect)
    row = (effect.write.before or effect.write.after or {})["id"]
    assert isinstance(row, int)
    assert (row in tables[name]) == (kind != "insert"), (name, row)
    if after is None:
        del tables[name][row]
    else:
        tables[name][row] = {**tables[name].get(row, {}), **after}
