"""The input and output of coordination: shards, their events, places in the merged order, and the outcome.

All tables carry their logical name, so that tables of two shards compare by their definitions.

What DDL of shards hold back: their effects on each shard, and the places of logical DDL that no marker announces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NamedTuple

from binlog_merge.moved_keys import DdlPlace
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE, DdlSession
from snapshot_store.render_sql import without_defaults_sql
from snapshot_store.tso import OrderKey

Name = tuple[str, str]
"""A logical table's database and name."""

WRITTEN: Final = DdlSession(sql_mode=DEFAULT_SQL_MODE)
"""The session of text that no node ran: what operators write, and definitions that a merge writes anew."""

Ran = tuple[str, OrderKey]
"""A node's statement: the node, and the statement's order key."""


class Shard(NamedTuple):
    """A physical table on a node: one of those that make a logical table."""

    node: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.node}/{self.schema}/{self.table}"


@dataclass(frozen=True, slots=True)
class Step:
    """One clause of a statement: its text as a statement of its own, the table after it, and what it names."""

    sql: str
    after: Table
    adds: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ShardDdl:
    """A statement that a shard ran on its table, written for the logical table; `session` None: that of other
    statements.

    `elsewhere`: its session's database has another name in the output, or none. `text_of` is the statement that the
    text and the session are from, if a shard counts as having run what another has.
    """

    key: OrderKey
    shard: Shard
    sql: str
    before: Table
    steps: tuple[Step, ...]
    session: DdlSession | None = field(default=None, compare=False)
    elsewhere: bool = field(default=False, compare=False)
    text_of: Ran | None = field(default=None, compare=False)

    @property
    def ran(self) -> Ran:
        """Return the statement that the text is from."""
        return self.text_of or (self.shard.node, self.key)

    @property
    def after(self) -> Table:
        """Return the table after the last step."""
        return self.steps[-1].after

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """Return the columns that are renamed, in order."""
        return tuple(pair for step in self.steps for pair in step.renames)


@dataclass(frozen=True, slots=True)
class Joins:
    """A table becomes a shard: by CREATE TABLE, or by a RENAME that brings it under the route."""

    key: OrderKey
    shard: Shard
    table: Table
    sql: str = ""
    session: DdlSession | None = field(default=None, compare=False)

    @property
    def statements(self) -> tuple[str, ...]:
        """Return the statements that make the table: none if it exists on the target."""
        return (self.sql, *without_defaults_sql(self.table)) if self.sql else ()


@dataclass(frozen=True, slots=True)
class Leaves:
    """A shard is dropped, or renamed away from the route; `reported`: a finding about its rows exists already."""

    key: OrderKey
    shard: Shard
    sql: str = ""
    reported: bool = field(default=False, compare=False)
    session: DdlSession | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Moves:
    """A shard gets another name, and stays a shard of the same logical table."""

    key: OrderKey
    shard: Shard
    to: Shard


@dataclass(frozen=True, slots=True)
class Renamed:
    """A table gets a name by which it belongs to another logical table; one rename of a statement that may have
    several.

    `old` and `new` are the logical tables, None if the table does not come out there; `table` is its definition under
    the new logical name. `instead` are the statements that turn the table that had the new name into this one. `tool`:
    a tool for online schema changes created the table, so it has that table's rows. `plain` is False if more than the
    name changes. `sql` is the whole statement with logical names, "" unless all its tables come out; `session` is its
    own.
    """

    key: OrderKey
    shard: Shard
    to: Shard
    old: Name | None
    new: Name | None
    table: Table | None = None
    instead: tuple[ShardDdl, ...] = ()
    tool: bool = False
    plain: bool = True
    sql: str = ""
    session: DdlSession | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Empties:
    """A shard is truncated."""

    key: OrderKey
    shard: Shard
    sql: str = ""
    session: DdlSession | None = field(default=None, compare=False)


ShardEvent = ShardDdl | Joins | Leaves | Moves | Renamed | Empties


@dataclass(frozen=True, slots=True)
class Decided:
    """An operator's decision about a waiting DDL (`Open.id`), in force from `key` on.

    "emit": `sql` is written instead; "skip": nothing is; in both cases no shard is awaited any more. "as-if-done":
    `shard` counts as having run it. A shard that runs the DDL later is then taken to have run it.
    """

    key: OrderKey
    id: str
    action: Literal["emit", "skip", "as-if-done"]
    sql: str = ""
    shard: Shard | None = None

    @property
    def session(self) -> DdlSession:
        """Return the session of the operator's statement."""
        return WRITTEN


Event = ShardEvent | Decided

LAST = OrderKey((1 << 63) - 1, (1 << 63) - 1, (1 << 63) - 1, (1 << 63) - 1)
"""A key after every event."""


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical DDL: its place, its statements, the table after it (None: dropped), and the event that causes it.

    `own`: the statements are those that the shard wrote; otherwise they were generated from the difference of the
    tables. `alone`: all rows of the logical table are this shard's. `author` is the event whose text it is, if that is
    not its cause; `session` is the one that the text is written in.
    """

    place: DdlPlace
    statements: tuple[str, ...]
    table: Table | None
    cause: Event
    own: bool = True
    alone: bool = False
    author: "Event | None" = field(default=None, compare=False)
    session: DdlSession = field(default=WRITTEN, compare=False)

    @property
    def ran(self) -> Ran | None:
        """Return the node's statement in whose session the text is written, None if no node ran one."""
        match self.author or self.cause:
            case Decided():
                return None
            case ShardDdl() as ddl:
                return ddl.ran
            case event:
                return event.shard.node, event.key


@dataclass(frozen=True, slots=True)
class Effect:
    """A shard's DDL takes effect at a place: at its own key, or later, and the shard's later rows wait until then.

    `place` None: the place is not known yet, so the later rows are held back. `to` is the shard's name from `key` on,
    if it is renamed there; from `place` on its rows belong to the logical table `name`, if that changes. `gone`: the
    table is dropped or truncated there, which removes rows from before `key`.
    """

    shard: Shard
    key: OrderKey
    place: DdlPlace | None
    renames: tuple[tuple[str, str], ...] = ()
    to: Shard | None = None
    name: Name | None = None
    gone: bool = False


class Doubt(Enum):
    """Ways in which target and shards hold different data although their schemas agree."""

    RENAME_BY_DROP = "rename-by-drop"
    """One shard renames a column, another drops it and adds one of the new name: their data differ from now on."""
    READDED = "readded"
    """A shard drops a column and adds it again while other shards keep it: the target keeps the old values."""
    FILL = "fill"
    """A shard's existing rows get another value in a new column than they got on the target when it was added there."""
    MOMENT = "moment"
    """A new column's default depends on the moment (CURRENT_TIMESTAMP, RAND()), which differs from shard to shard."""
    ROWS = "rows"
    """Rows enter or leave a logical table of several shards, and no statement on the target does the same."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A doubt about a shard's statement and the column concerned, "" if it concerns whole rows.

    `at` is the key of the event at which it is found, if that is a later one: the statement takes effect there.
    `remedy` is what an operator can do to correct the rows. `tables` are the logical tables concerned, by their names
    after it. `if_rows`: there is no doubt if the shard has no rows before the statement.
    """

    doubt: Doubt
    key: OrderKey
    shard: Shard
    column: str
    detail: str
    at: OrderKey | None = None
    remedy: str = ""
    tables: tuple[Name, ...] = ()
    if_rows: bool = False

    @property
    def found(self) -> OrderKey:
        """Return the key at which a strict merge stops."""
        return self.key if self.at is None else self.at


class Fault(Enum):
    """The reasons for which coordination stops."""

    DIFFERENT_DDL = "different-ddl"
    """Pessimistic: shards run different statements, or in different orders."""
    STRANGE_TABLE = "strange-table"
    """Pessimistic: a table joins with a schema that the logical table has not had and is not about to have."""
    NOT_WRITABLE = "not-writable"
    """No statement gives the logical table the schema that the shards have."""
    UNKNOWN_SHARD = "unknown-shard"
    """An event on a shard that has neither a base schema nor a CREATE TABLE."""
    DECISION = "decision"
    """An operator's decision cannot be carried out."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Coordination stops before an event, with the reason."""

    fault: Fault
    event: Event
    detail: str

    @property
    def key(self) -> OrderKey:
        """Return the key at which it stops."""
        return self.event.key


OpenStage = Literal["waiting", "conflict", "queued", "spreading", "behind"]


@dataclass(frozen=True, slots=True)
class Open:
    """An open coordination: the shards that have run the DDL, those awaited, and the first statement.

    `stage`: "waiting" for other shards to do the same; "conflict" if other shards do something else; "queued" after
    another DDL; "spreading" if it has taken effect already, and nothing is held back for it; "behind" if it has, and
    rows of the awaited shards wait until they have run it. `ran` are the statements of shards that have run it
    themselves.
    """

    id: str
    ddl: ShardDdl
    stage: OpenStage
    done: tuple[Shard, ...]
    awaited: tuple[Shard, ...]
    ran: tuple[ShardDdl, ...] = ()


def open_id(ddl: ShardDdl) -> str:
    """Return the id of a waiting DDL: the logical table, and the key at which it was run first."""
    return f"{ddl.before.schema}.{ddl.before.name}@{ddl.key.text()}"


class Owing(NamedTuple):
    """Written DDL that a shard has yet to run; `again`: its table is as the logical one even if it never does."""

    owed: tuple[ShardDdl, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """The state from which coordination of a logical table begins or continues.

    `rows_left`: rows of shards that no longer exist may still be in the logical table. `session` is that of the last
    statement. `inert` counts how often each shard has run each DDL that changes nothing that is compared. `created` is
    the statement that made the logical table, `written` the last DDL since, which shards that are made later may owe;
    `behind` are those that do.
    """

    members: Mapping[Shard, Table] = field(default_factory=dict)
    table: Table | None = None
    rows_left: bool = False
    session: DdlSession | None = None
    inert: Mapping[str, Mapping[Shard, int]] = field(default_factory=dict)
    created: str = ""
    written: tuple[ShardDdl, ...] = ()
    behind: Mapping[Shard, Owing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of coordinating the events of one logical table, as far as they are known or until it stops.

    `quiet` is the last key after which nothing was pending, and the state there: started from it, the later events have
    the same result.
    """

    logical: tuple[Logical, ...] = ()
    effects: tuple[Effect, ...] = ()
    findings: tuple[Finding, ...] = ()
    open: tuple[Open, ...] = ()
    swallowed: tuple[Event, ...] = ()
    members: Mapping[Shard, Table] = field(default_factory=dict)
    table: Table | None = None
    stop: Stop | None = None
    quiet: tuple[OrderKey, Start] | None = None


@dataclass(frozen=True, slots=True)
class Holds:
    """The effects of all shards, also of earlier runs, and the places of the logical DDL that come out there.

    A place has at most one logical DDL, the one with the key `places.key_of(place)`. Effects and DDL at or above the
    run's limit are ignored.
    """

    effects: tuple[Effect, ...] = ()
    ddl: tuple[DdlPlace, ...] = ()
