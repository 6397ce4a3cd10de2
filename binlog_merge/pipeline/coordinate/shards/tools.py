"""Tables of gh-ost, pt-online-schema-change, spirit and Vitess, recognized by what these write into the nodes' binlogs.

    CREATE /* gh-ost */ TABLE _t_gho LIKE t        gh-ost says its name in the statements that make its tables
    CREATE TABLE _t_new (… as t)                   this may be pt-online-schema-change: nothing comes out for it yet
    CREATE TABLE _t_new LIKE t                     (older versions of it say LIKE)
    CREATE TRIGGER pt_osc_db_t_del … ON t …        now it is; statements or rows before this make it an ordinary table
    CREATE TABLE _t_chkpnt (… copier_watermark …)  or it is spirit's, which writes down how far it is in this table
    CREATE TABLE _spirit_sentinel (…)              spirit's as well, behind such a copy: it waits until this is dropped
    RENAME TABLE t TO _t_old, _t_new TO t          the copy replaces the table: an ALTER of t
    DROP TABLE t; RENAME TABLE _t_new TO t         the same (drop_swap): the DROP waits for what follows
    RENAME TABLE t TO _t_del; RENAME TABLE _t_gho TO t      the same (gh-ost's two-step cut-over)

    CREATE TABLE _vt_vrp_<uuid>_<time>_ (…)        this may be a copy that Vitess makes for an online DDL
    rows of it beside _vt.copy_state               now it is: VReplication notes in each transaction how far it is
    RENAME TABLE t TO _vt_hld_…, _vt_vrp_… TO t, _vt_hld_… TO _vt_vrp_…     the swap; a sign, too
    RENAME TABLE t TO _vt_hld_<uuid>_<time>_       a DROP TABLE of t: Vitess removes what is called so, in steps

A table without such a sign is a table, whatever it is called. What a statement means depends on that node's statements
and rows before it only, so a result does not depend on where runs begin and end.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from binlog_merge.errors import ConfigError
from binlog_merge.moved_keys import NODES
from binlog_merge.pipeline.coordinate.shards.values import Shard
from snapshot_store.ddl.actions import RenameTo
from snapshot_store.ddl.apply.statement import DdlEffect
from snapshot_store.ddl.effects import Verb
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.statements import AlterTable, CreateTable, CreateTableLike, Ignored
from snapshot_store.model import Catalog, Table
from snapshot_store.topology import Hidden
from snapshot_store.tso import OrderKey

Name = tuple[str, str]

GH_OST, PT_OSC, SPIRIT, VITESS = "gh-ost", "pt-online-schema-change", "spirit", "Vitess"
_WATERMARKS = {"copier_watermark", "checksum_watermark"}
"""The columns by which a table of this name is one in which spirit writes down how far it is."""
_SENTINEL = "_spirit_sentinel"
"""What spirit calls the table that somebody drops to let it put its copy in the table's place (`--defer-cutover`)."""
_BY_VITESS = re.compile(r"_vt_(vrp|hld|prg|evc|drp)_[0-9a-f]{32}_\d{14}_")
"""What Vitess calls its tables (`go/vt/schema/name.go`): copies, and four steps on the way to a DROP TABLE."""
_PROGRESS = {"vreplication", "copy_state"}
"""The tables of Vitess's sidecar database in which VReplication notes, in the same transaction, what it has copied."""
_SIDECAR: Mapping[str, set[str]] = {
    "vreplication": {"workflow", "source", "pos", "stop_pos"},
    "copy_state": {"vrepl_id", "table_name", "lastpk"},
    "schema_migrations": {"migration_uuid", "migration_statement", "ddl_action"},
}
"""The columns by which a table of this name is one of a sidecar database."""
_SETS_COUNTER = re.compile(r"ALTER\s+TABLE\s+`[^`]+`\s+AUTO_INCREMENT\s*=\s*\d+", re.IGNORECASE)
_SAYS_GH_OST = re.compile(r"/\*\s*gh-ost\s*\*/")
_MADE_BY_PT_OSC = re.compile(r"(_{1,10})(.+)_new")
_SET_ASIDE = re.compile(r"_.*_(?:del|old)(?:_\d{8}_\d{6})?")
_IDENTIFIER = r"(?:`((?:[^`]|``)+)`|([\w$\u0080-\uffff]+))"
_PT_OSC_TRIGGER = re.compile(
    rf"\bTRIGGER\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:{_IDENTIFIER}\s*\.\s*)?`?pt_osc_[^`\s]*_(?:ins|upd|del)`?\s+"
    rf"AFTER\s+(?:INSERT|UPDATE|DELETE)\s+ON\s+(?:{_IDENTIFIER}\s*\.\s*)?{_IDENTIFIER}\s",
    re.IGNORECASE,
)
_ALTERS = ("ALTER TABLE", "CREATE INDEX", "DROP INDEX")

What = Literal["made", "signed", "altered", "shown", "ended", "aside", "away", "back"]


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """What a node did to a table of a tool, or to one that a tool changes.

    `name` was "made" as a copy `of` a table, or as another table of a tool if `of` is None; `text` is the tool, "" as
    long as only the table's shape speaks for one. "signed": `text` is the tool, and `of` the table if this shows only
    now. "altered" by the statement `text`. "shown": it is an ordinary table. "ended": it was dropped or renamed.
    "aside": from here on the table `of` has this name. "away": the table `name` is dropped or set aside, and the copy
    `of` it may take its place. "back": what becomes of it is known. `table` is the table's definition, `thread` that of
    the session which made it.
    """

    key: OrderKey
    node: str
    name: Name
    what: What
    of: Name | None = None
    text: str = ""
    table: Table | None = None
    thread: int | None = None


@dataclass(frozen=True, slots=True)
class ToolTable:
    """A table of a tool during its life, which `until` None has not ended.

    `of` is the table that it is a copy of, or that it was before it was set aside (`aside`). Without a `tool` it may
    be one. `shown`: it is none. `changes` are the statements that have altered it.
    """

    node: str
    name: Name
    since: OrderKey
    tool: str
    of: Name | None = None
    aside: bool = False
    table: Table | None = None
    changes: tuple[str, ...] = ()
    until: OrderKey | None = None
    shown: bool = False
    thread: int | None = None

    @property
    def copies(self) -> bool:
        """Return whether it is a copy that may replace its table."""
        return bool(self.tool) and self.of is not None and not self.aside


@dataclass(frozen=True, slots=True)
class Away:
    """A table that a node has dropped or set aside, and whose copy may take its place. `table` is its definition."""

    key: OrderKey
    node: str
    name: Name
    copy: Name
    table: Table


@dataclass(frozen=True, slots=True)
class ToolStep:
    """What a statement means for the tables of tools.

    `before` and `after` are the names that tools' tables have before and after it, `shown` the tables that turn out to
    be ordinary ones, as they are before it; or after it if it renames them, as they have no rows. `swapped` maps each
    table that its copy replaces to that copy's name, and `replaced` to its own definition. What it does to the tables
    `withheld` is no event: they go away for a copy, or are `shown` under the new name. `decided` are tables that had
    gone away and do not come back. `copies` are (copy, table) where the table itself goes elsewhere than tools put it.
    `changes` are the statements that have altered tools' tables.
    """

    before: frozenset[Name] = frozenset()
    after: frozenset[Name] = frozenset()
    shown: tuple[Table, ...] = ()
    swapped: Mapping[Name, Name] = field(default_factory=dict)
    replaced: Mapping[Name, Table] = field(default_factory=dict)
    withheld: frozenset[Name] = frozenset()
    decided: tuple[Name, ...] = ()
    copies: frozenset[tuple[Name, Name]] = frozenset()
    changes: Mapping[Name, Sequence[str]] = field(default_factory=dict)
    events: tuple[ToolEvent, ...] = ()


NO_TOOLS = ToolStep()


def called_as_a_tools(name: Name) -> tuple[str, Name | None] | None:
    """Return the tool that calls its tables so, and the table that such a one is a copy of, if it is a copy.

    Outputs begun by versions that went by the name have left such tables out.
    """
    match = re.fullmatch(r"_(.+)_(gho|ghc|del|new|old)", name[1])
    if match is None:
        return None
    tool = GH_OST if match[2] in ("gho", "ghc", "del") else PT_OSC
    return tool, (name[0], match[1]) if match[2] in ("gho", "new") else None


def _kind_of_vitess(name: Name) -> str:
    """Return which of Vitess's kinds of tables has such a name ("vrp": a copy), "" if none has."""
    match = _BY_VITESS.fullmatch(name[1])
    return "" if match is None else match[1]


def _on_its_way_out(name: Name) -> bool:
    """Return whether Vitess removes a table because it has this name."""
    return _kind_of_vitess(name) not in ("", "vrp")


def copied_by_its_name(name: Name) -> tuple[Name, ...]:
    """Return the tables that pt-online-schema-change would copy into one of this name: `__t_new` of `_t`, or of `t`
    if there is a `_t_new` already.
    """
    match = _MADE_BY_PT_OSC.fullmatch(name[1])
    if match is None:
        return ()
    underscores, rest = match.groups()
    return tuple((name[0], underscores[number:] + rest) for number in range(1, len(underscores) + 1))


def key_before(rows: OrderKey) -> OrderKey:
    """Return the key at which a table appears whose first rows have the key `rows`.

    No row has it, and it is in the same run as those. See `places.NODES`.
    """
    if rows.node_seq:
        return rows._replace(node_seq=0)
    return rows.previous()._replace(node_seq=NODES - 1)


def check_is_no_sidecar(shard: Shard, table: Table) -> None:
    """Raise ConfigError if a table is one in which Vitess keeps what concerns its shard alone."""
    if not {column.name for column in table.columns} >= _SIDECAR.get(shard.table, {""}):
        return
    raise ConfigError(
        f"{shard.schema}.{shard.table} is a table of Vitess's sidecar database, of which each shard has its own: as "
        "one table their rows would collide",
        node=shard.node,
        remedy=f"leave it out: `ignore-schemas: [{shard.schema}]`",
    )


class FoundRows(NamedTuple):
    """A transaction that changes a table: its key, and all tables that it changes."""

    key: OrderKey
    tables: frozenset[Name]


FirstRows = Callable[[str, Name, OrderKey], FoundRows | None]
"""The first transaction from a key on in which a node changes a table."""


class ToolTables:
    """The tables of tools on all nodes, as events and as what these come to."""

    def __init__(self, events: Iterable[ToolEvent] = ()) -> None:
        self.events: list[ToolEvent] = []
        self.ended: list[ToolTable] = []
        self._live: dict[tuple[str, Name], ToolTable] = {}
        self._away: dict[tuple[str, Name], Away] = {}
        self.add(events)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolTables) and self.events == other.events

    __hash__ = None  # type: ignore[assignment]  # it changes

    def before(self, key: OrderKey) -> "ToolTables":
        """Return what was known below a key."""
        return ToolTables(event for event in self.events if event.key < key)

    def add(self, events: Iterable[ToolEvent]) -> None:
        """Add events of a node, in order."""
        for event in events:
            self.events.append(event)
            self._add(event)

    def _add(self, event: ToolEvent) -> None:
        at = (event.node, event.name)
        match event.what:
            case "made" | "aside":
                aside = event.what == "aside"
                made = ToolTable(event.node, event.name, event.key, event.text, event.of, aside, event.table)
                self._live[at] = replace(made, thread=event.thread)
            case "signed":
                self._live[at] = replace(self._live[at], tool=event.text, of=event.of or self._live[at].of)
            case "altered":
                found = self._live[at]
                self._live[at] = replace(found, changes=(*found.changes, event.text), table=event.table)
            case "shown" | "ended":
                found = replace(self._live.pop(at), until=event.key, shown=event.what == "shown")
                self.ended.append(found)
            case "away":
                if event.of is not None and event.table is not None:
                    self._away[at] = Away(event.key, event.node, event.name, event.of, event.table)
            case "back":
                self._away.pop(at, None)

    @property
    def tables(self) -> list[ToolTable]:
        """Return all tables of tools, and those that may be some, in the order in which they were made."""
        return sorted(
            (one for one in (*self.ended, *self._live.values()) if not one.shown), key=lambda one: (one.since, one.name)
        )

    @property
    def away(self) -> list[Away]:
        """Return the tables that are gone for a copy that has not taken their place yet."""
        return sorted(self._away.values(), key=lambda one: (one.key, one.name))

    def hidden(self) -> tuple[Hidden, ...]:
        """Return for which keys each table is left out."""
        return tuple(Hidden(one.node, *one.name, one.since, one.until) for one in self.tables)

    def of_node(self, node: str) -> dict[Name, ToolTable]:
        """Return a node's tables of tools by name."""
        return {name: one for (of, name), one in self._live.items() if of == node}

    def written(self, node: str, first_rows: "FirstRows", limit: OrderKey | None = None) -> Iterator[ToolTable]:
        """Yield the tables that rows before `limit` show to be ordinary ones, and note it; as also of which they show
        that VReplication copies them.
        """
        for name, one in sorted(self.of_node(node).items()):
            rows = None if one.tool else first_rows(node, name, one.since)
            if rows is None or (limit is not None and rows.key >= limit):
                continue
            key = key_before(rows.key)
            if _kind_of_vitess(name) and any(table in _PROGRESS for _, table in rows.tables):
                self.add([ToolEvent(key, node, name, "signed", text=VITESS)])
                continue
            self.add([ToolEvent(key, node, name, "shown")])
            yield replace(one, until=key, shown=True)

    def step(
        self,
        node: str,
        key: OrderKey,
        ddl: ParsedDdl,
        before: Catalog,
        effect: DdlEffect,
        database: str | None,
        comes_out: Callable[[Name], bool],
        thread: int | None = None,
    ) -> ToolStep:
        """Return what a node's statement means.

        `comes_out` tells of a table whether it is coordinated here; `thread` is that of the session.
        """
        return _Step(self, node, key, ddl, before, effect, database, comes_out, thread).taken()


class _Step:
    """One statement while it is looked at."""

    def __init__(
        self,
        tools: ToolTables,
        node: str,
        key: OrderKey,
        ddl: ParsedDdl,
        before: Catalog,
        effect: DdlEffect,
        database: str | None,
        comes_out: Callable[[Name], bool],
        thread: int | None,
    ) -> None:
        self.node, self.key, self.ddl, self.thread = node, key, ddl, thread
        self.tables_before, self.tables_after = before.tables, effect.catalog.tables
        self.effect, self.database, self.comes_out = effect, database, comes_out
        self.live = tools.of_node(node)
        self.away = {one.name: one for one in tools.away if one.node == node}
        self.moved = {
            new: old
            for new, old in effect.effects.origins.items()
            if old in self.tables_before and new in self.tables_after
        }
        gone = {name for name in effect.changed if name in self.tables_before and name not in self.tables_after}
        self.dropped = gone - set(self.moved.values())
        self.events: list[ToolEvent] = []
        self.shown: list[Table] = []
        self.swapped: dict[Name, Name] = {}
        self.replaced: dict[Name, Table] = {}
        self.copies: set[tuple[Name, Name]] = set()
        self.withheld: set[Name] = set()
        self.decided: list[Name] = []

    def taken(self) -> ToolStep:
        self._show()
        names = frozenset(self.live)
        changes = {name: one.changes for name, one in self.live.items()}
        self._sign()
        self._rename()
        self._drop()
        self._decide()
        self._make()
        self._alter()
        return ToolStep(
            names, self._after(names), tuple(self.shown), self.swapped, self.replaced, frozenset(self.withheld),
            tuple(self.decided), frozenset(self.copies), changes, tuple(self.events),
        )  # fmt: skip

    def _note(
        self,
        name: Name,
        what: What,
        of: Name | None = None,
        text: str = "",
        table: Table | None = None,
        thread: int | None = None,
    ) -> None:
        self.events.append(ToolEvent(self.key, self.node, name, what, of, text, table, thread))

    def _after(self, names: frozenset[Name]) -> frozenset[Name]:
        found = set(names)
        for event in self.events:
            if event.what in ("made", "aside"):
                found.add(event.name)
            elif event.what in ("ended", "shown"):
                found.discard(event.name)
        return frozenset(found)

    def _show(self) -> None:
        """Note tables that may be a tool's, where the statement or its session does what the tool does not."""
        statement = self.ddl.statement
        if isinstance(statement, Ignored) and statement.what == "ANALYZE":
            return  # spirit wants statistics of its copy before it gives its sign
        named = {*self.effect.effects.tables, *self.effect.changed}
        for name, one in sorted(self.live.items()):
            of_session = self.thread is not None and one.thread == self.thread and not _kind_of_vitess(name)
            if one.tool or name in self.dropped or self._alters(name) or self._signed_by(name, one):
                continue
            if self.effect.kind == "DROP TABLE" and named <= _left_by_spirit(one):
                continue
            if name not in named and not of_session:
                continue
            self._note(name, "shown")
            new = next((new for new, old in self.moved.items() if old == name), name)
            if new != name and new not in self.tables_before:
                self.shown.append(self.tables_after[new])
                self.withheld.add(name)
            elif name in self.tables_before:
                self.shown.append(self.tables_before[name])
        for event in self.events:
            del self.live[event.name]

    def _alters(self, name: Name) -> bool:
        """Return whether the statement only alters this table."""
        statement = self.ddl.statement
        renames = isinstance(statement, AlterTable) and any(isinstance(a, RenameTo) for a in statement.actions)
        exchanges = bool(self.effect.effects.having(Verb.EXCHANGE, Verb.FILE, Verb.EMPTY))
        return self.effect.kind in _ALTERS and self.effect.tables[:1] == (name,) and not renames and not exchanges

    def _sign(self) -> None:
        """Take a trigger of pt-online-schema-change, spirit's checkpoint, or Vitess's renames, as the sign that a table
        is its copy.
        """
        for name, one in sorted(self.live.items()):
            if not one.tool and (tool := self._signed_by(name, one)):
                self._note(name, "signed", text=tool)
                self.live[name] = replace(one, tool=tool)

    def _signed_by(self, name: Name, one: ToolTable) -> str:
        """Return the tool whose sign a statement is for a table that may be a copy, "" if it is none."""
        if self._signs(name, one):
            return PT_OSC
        if _kind_of_vitess(name) and (self._swapped_with(name) or _on_its_way_out(self._goes(name))):
            return VITESS
        return SPIRIT if any(self._is_checkpoint(made, one) for made in self.effect.effects.having(Verb.MAKE)) else ""

    def _goes(self, name: Name) -> Name:
        """Return the name that a table has after the statement, unless that drops it."""
        return next((new for new, old in self.moved.items() if old == name), name)

    def _swapped_with(self, name: Name) -> Name | None:
        """Return the table with which a copy of Vitess swaps its name in this statement, None if it does not."""
        goes = self._goes(name)
        swaps = _kind_of_vitess(name) == "vrp" and goes != name and self.moved.get(name) == goes
        return goes if swaps and goes not in self.live and self.comes_out(goes) else None

    def _is_checkpoint(self, name: Name, one: ToolTable) -> bool:
        """Return whether a new table is the one in which spirit writes down how far a copy is."""
        table = self.tables_after.get(name)
        if table is None or name in self.tables_before or name != _checkpoint_of(one):
            return False
        return {column.name for column in table.columns} >= _WATERMARKS

    def _is_sentinel(self, name: Name) -> bool:
        """Return whether a new table is what a spirit that has made a copy in its database waits for."""
        copies = (one for one in self.live.values() if one.copies and one.tool == SPIRIT)
        return name[1] == _SENTINEL and any(one.name[0] == name[0] for one in copies)

    def _signs(self, name: Name, one: ToolTable) -> bool:
        """Return whether the statement creates a trigger of pt-online-schema-change that writes into a table."""
        if self.effect.kind != "IGNORED" or "pt_osc_" not in self.ddl.sql:
            return False
        match = _PT_OSC_TRIGGER.search(self.ddl.sql)
        if match is None:
            return False
        schema, table = (_plain(match.groups()[i : i + 2]) for i in (2, 4))
        body, on = self.ddl.sql[match.end() :], (schema or self.database or "", table)
        names = one.of is not None and [part.lower() for part in one.of] == [part.lower() for part in on]
        return names and re.search(rf"\b{re.escape(name[1])}\b", body, re.IGNORECASE) is not None

    def _rename(self) -> None:
        goes = {old: new for new, old in self.moved.items()}
        for new, old in sorted(self.moved.items()):
            one = self.live.get(old)
            if one is None:
                self._set_aside(old, new)
                continue
            if one.tool == VITESS:
                self._rename_of_vitess(one, new)
                continue
            self._note(old, "ended")
            if one.of != new:
                continue
            aside = goes.get(new)
            if one.copies and aside is not None and not self._is_aside(new, aside):
                self.copies.add((old, new))  # the table itself goes where it comes out
            elif one.copies and aside is not None:
                self._swap(new, old, self.tables_before[new])
                self._note(aside, "aside", new, one.tool)
            elif aside is None and new in self.away and (one.copies or one.aside):
                self._swap(new, old, self.away[new].table)
                self._note(new, "back")
                del self.away[new]

    def _rename_of_vitess(self, one: ToolTable, new: Name) -> None:
        """Follow a table of Vitess: to the next step before it is dropped, or as a copy that swaps names with its
        table. What was the table may come back so, by a REVERT.
        """
        swapped = self._swapped_with(one.name) == new
        if swapped:
            self._note(one.name, "signed", new, VITESS)
        self._note(one.name, "ended")
        if swapped:
            self._swap(new, one.name, self.tables_before[new])
            self._note(one.name, "made", new, VITESS, self.tables_after[one.name])
        elif _kind_of_vitess(new):
            self._note(new, "aside", one.of, VITESS)

    def _swap(self, name: Name, copy: Name, table: Table) -> None:
        self.swapped[name], self.replaced[name] = copy, table

    def _is_aside(self, old: Name, new: Name) -> bool:
        return new[0] == old[0] and _SET_ASIDE.fullmatch(new[1]) is not None

    def _copy_of(self, name: Name) -> ToolTable | None:
        found = (one for one in self.live.values() if one.copies and one.of == name and one.name not in self.dropped)
        return next((one for one in found if one.tool != VITESS), None)  # which does nothing but swap

    def _set_aside(self, old: Name, new: Name) -> None:
        """Withhold the rename by which a table makes room for its copy, or goes as Vitess drops tables."""
        if _on_its_way_out(new) and self.comes_out(old):
            self._note(new, "aside", old, VITESS)
            self.withheld.add(old)
            self.decided.append(old)
            return
        copy = self._copy_of(old)
        if copy is None or old in self.moved or copy.name in self.moved.values() or not self._is_aside(old, new):
            return
        self._note(old, "away", copy.name, table=self.tables_before[old])
        self._note(new, "aside", old, copy.tool)
        self.withheld.add(old)

    def _drop(self) -> None:
        for name in sorted(self.dropped):
            copy = self._copy_of(name)
            if name in self.live:
                self._note(name, "ended")
                for away in [away for away in self.away.values() if away.copy == name]:
                    self._lost(away.name)
            elif copy is not None:
                self._note(name, "away", copy.name, table=self.tables_before[name])
                self.withheld.add(name)

    def _decide(self) -> None:
        """Note tables that are gone for good, as others have their names."""
        for name in [name for name in self.away if name in self.tables_after]:
            self._lost(name)

    def _lost(self, name: Name) -> None:
        self._note(name, "back")
        self.decided.append(name)
        del self.away[name]

    def _make(self) -> None:
        made = [name for name in self.effect.effects.having(Verb.MAKE) if name in self.tables_after]
        for name in (name for name in made if name not in self.tables_before):
            if name in self.live:
                self._note(name, "ended")
            if _SAYS_GH_OST.search(self.ddl.sql):
                self._made_by_gh_ost(name)
            elif _kind_of_vitess(name):
                self._made_by_vitess(name)
            elif self._is_sentinel(name) or any(
                self._is_checkpoint(name, one) for one in self.live.values() if one.tool in ("", SPIRIT)
            ):
                self._note(name, "made", None, SPIRIT, self.tables_after[name])
            elif (of := self._shaped_like(name)) is not None:
                self._note(name, "made", of, table=self.tables_after[name], thread=self.thread)

    def _made_by_gh_ost(self, name: Name) -> None:
        of = None
        if isinstance(self.ddl.statement, CreateTableLike):
            (of,) = self.effect.effects.others(Verb.COPY_SHAPE)
        if self.comes_out(of or name):
            self._note(name, "made", of, GH_OST, self.tables_after[name])

    def _made_by_vitess(self, name: Name) -> None:
        """Note what may be a copy, or is a sentry: Vitess has one in its hand while it swaps."""
        table, plain = self.tables_after[name], isinstance(self.ddl.statement, CreateTable)
        if _kind_of_vitess(name) == "vrp" and plain and self.comes_out(name):
            self._note(name, "made", table=table, thread=self.thread)
        elif _kind_of_vitess(name) == "hld" and _shape(table) == _SENTRY:
            self._note(name, "made", None, VITESS, table)

    def _shaped_like(self, name: Name) -> Name | None:
        """Return the table that pt-online-schema-change would copy so: it makes its table as the other one is."""
        statement = self.ddl.statement
        query = isinstance(statement, CreateTable) and statement.query is not None
        if query or not isinstance(statement, CreateTable | CreateTableLike):
            return None
        made = _shape(self.tables_after[name])
        return next((of for of in copied_by_its_name(name) if self._may_be_copied(of, made)), None)

    def _may_be_copied(self, of: Name, shape: object) -> bool:
        table = self.tables_before.get(of)
        return table is not None and of not in self.live and self.comes_out(of) and _shape(table) == shape

    def _alter(self) -> None:
        for name, one in sorted(self.live.items()):
            counts = bool(_kind_of_vitess(name)) and _SETS_COUNTER.fullmatch(self.ddl.sql.strip())
            if self._alters(name) and not counts:
                self._note(name, "altered", text=self.ddl.sql, table=None if one.tool else self.tables_after[name])


def _checkpoint_of(one: ToolTable) -> Name | None:
    """Return what spirit calls the table of how far it is with a copy."""
    return None if one.of is None else (one.of[0], f"_{one.of[1]}_chkpnt")


def _left_by_spirit(one: ToolTable) -> set[Name | None]:
    """Return the tables that spirit removes when it has made a copy: those of the time before."""
    old = None if one.of is None else (one.of[0], f"_{one.of[1]}_old")
    return {_checkpoint_of(one), old}


def _plain(groups: Sequence[str | None]) -> str:
    quoted, plain = groups
    return quoted.replace("``", "`") if quoted is not None else plain or ""


def _shape(table: Table) -> object:
    return [(column.name.lower(), column.type.name, column.nullable) for column in table.columns]


_SENTRY = [("id", "int", False)]
"""The shape of the table that Vitess locks together with the one that it swaps."""
