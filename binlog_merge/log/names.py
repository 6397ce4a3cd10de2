"""Which table a name means through time: the statements of the log say, not the definitions of tables.

    CREATE TABLE orders            a table begins
    RENAME TABLE orders TO sales   it goes on under another name
    TRUNCATE TABLE sales           its rows end; the table goes on, as a new `Tenure`
    DROP TABLE sales               it ends

The statement is followed, for tables of the same definition may exchange their names. A table that the log does not
create was there before it. Names are compared as they are written in the log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from binlog_merge.log.log import Log
from binlog_merge.log.segments import StatementAt, statements
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.effects import Name, Verb
from snapshot_store.errors import SnapshotStoreError


@dataclass(frozen=True, slots=True)
class Named:
    """A name of a table, and the ranks of the transactions in which it has it."""

    schema: str
    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Said:
    """A statement about a table, which has this name before it (after it, if the statement makes the table)."""

    name: Name
    at: StatementAt
    statement: st.Statement


@dataclass(frozen=True, slots=True)
class Tenure:
    """A time in which rows of a table may live, its names in order, and the statements about it.

    `ended` is the statement that removed all its rows, None if there is none.
    """

    names: tuple[Named, ...]
    said: tuple[Said, ...]
    ended: StatementAt | None


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a name: `tenures` in order of their beginnings, and what is not among them, in words."""

    tenures: tuple[Tenure, ...]
    others: tuple[str, ...]


def tables_of(binlog: Log, schema: str, name: str, last: int) -> Tables:
    """Return the table that is called so at transaction `last`, or was called so last, and those that were dropped so.

    A table that had the name and went on under another is one of the `others`. Raises what reading the log does.
    """
    walk = _Walk(binlog.state.first_rank, (schema, name))
    for at in statements(binlog, binlog.state.first_rank, last):
        walk.take(at)
    return walk.found(binlog.cluster_uuid, last)


@dataclass(eq=False)
class _Table:
    """A tenure in the making; `before` is that of the same table before it was emptied."""

    name: Name
    since: int
    before: "_Table | None" = None
    names: list[Named] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    ended: StatementAt | None = None

    def close(self, last: int) -> None:
        """End its present name with a transaction."""
        self.names.append(Named(*self.name, self.since, last))

    def chain(self) -> Iterator["_Table"]:
        """Yield it, and what it was before it was emptied."""
        table: _Table | None = self
        while table is not None:
            yield table
            table = table.before

    def had(self, name: Name) -> Named | None:
        """Return when it had a name last."""
        return next((one for one in reversed(self.names) if (one.schema, one.name) == name), None)


class _Walk:
    """Takes the statements of a log in order."""

    def __init__(self, first: int, wanted: Name) -> None:
        self._first = first
        self._wanted = wanted
        self._now: dict[Name, _Table] = {wanted: _Table(wanted, first)}
        self._all: list[_Table] = [self._now[wanted]]
        self._unclear: list[StatementAt] = []

    def take(self, at: StatementAt) -> None:
        """Take a statement."""
        rank = at.begin.rank
        try:
            statement, effects = at.statement.ddl.statement, at.statement.effects
        except SnapshotStoreError:
            if self._wanted[1].lower() in at.statement.text.lower():
                self._unclear.append(at)
            return
        for name in effects.changed:
            if name[1] and name in self._now and not (_is_made(statement) and name == effects.own[0]):
                self._now[name].said.append(Said(name, at, statement))
        for effect in effects.all:
            match effect.verb:
                case Verb.DROP:
                    for name in list(self._now):
                        if not effect.table[1] and name[0] == effect.table[0]:
                            self._now[name].said.append(Said(name, at, statement))
                            self._end(name, at)
                        elif name == effect.table:
                            self._end(name, at)
                case Verb.MOVE if effect.other is not None:
                    self._move(effect.other, effect.table, at)
                case Verb.EMPTY if isinstance(statement, st.TruncateTable) and effect.table in self._now:
                    table = self._end(effect.table, at)
                    self._begin(effect.table, rank + 1, table)
                case Verb.MAKE if effect.table[1] and isinstance(statement, st.CreateTable | st.CreateTableLike):
                    if not (statement.if_not_exists and effect.table in self._now):
                        self._gone(effect.table, at)
                        self._begin(effect.table, rank).said.append(Said(effect.table, at, statement))

    def found(self, uuid: str, last: int) -> Tables:
        """Return what has been found, with all that is there up to the last transaction."""
        for table in self._now.values():
            table.close(last)
        having = [(one.last, table) for table in self._all if (one := table.had(self._wanted)) is not None]
        final = self._now.get(self._wanted) or max(having, key=lambda each: each[0])[1]
        own = [table for _, table in having if _dropped_as(table, self._wanted)]
        kept = list(dict.fromkeys([*(t for table in own for t in table.chain()), *final.chain()]))
        kept.sort(key=lambda table: table.names[0].first if table.names else 0)
        tenures = [Tenure(_there(table.names), tuple(table.said), table.ended) for table in kept]
        others = [_other(table, self._wanted, uuid) for _, table in having if table not in kept]
        unclear = [_unclear(at, uuid) for at in self._unclear]
        return Tables(tuple(tenure for tenure in tenures if tenure.names), (*others, *unclear))

    def _begin(self, name: Name, rank: int, before: _Table | None = None) -> _Table:
        table = _Table(name, rank, before)
        self._now[name] = table
        self._all.append(table)
        return table

    def _end(self, name: Name, at: StatementAt) -> _Table:
        table = self._now.pop(name)
        table.close(at.begin.rank)
        table.ended = at
        return table

    def _move(self, old: Name, new: Name, at: StatementAt) -> None:
        table = self._now.pop(old, None) or self._begin(old, self._first)
        self._now.pop(old, None)
        table.close(at.begin.rank - 1)
        self._gone(new, at)
        table.name, table.since = new, at.begin.rank
        self._now[new] = table

    def _gone(self, name: Name, at: StatementAt) -> None:
        """End a table of which a statement shows that it is no longer there; what dropped it is not in the log."""
        if name in self._now:
            self._end(name, at)


def _is_made(statement: st.Statement) -> bool:
    return isinstance(statement, st.CreateTable | st.CreateTableLike)


def _dropped_as(table: _Table, name: Name) -> bool:
    """Return whether a table ended, or was emptied, under a name."""
    return table.ended is not None and table.name == name


def _there(names: Iterable[Named]) -> tuple[Named, ...]:
    return tuple(one for one in names if one.first <= one.last)


def _other(table: _Table, name: Name, uuid: str) -> str:
    had = table.had(name)
    assert had is not None
    later = next((one for one in _there(table.names) if one.first > had.last), None)
    then = "" if later is None else f", and was then called {later.schema}.{later.name}"
    return f"another table was called {'.'.join(name)} up to {uuid}:{had.last}{then}: its rows are not here"


def _unclear(at: StatementAt, uuid: str) -> str:
    return f"what {uuid}:{at.begin.rank} did to the table is not understood: {at.statement.line[:200]}"
