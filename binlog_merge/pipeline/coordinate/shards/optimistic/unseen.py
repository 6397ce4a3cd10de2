"""What the order of tables does not see of a definition: checks and foreign keys, comments, visibility, options.

A check or a foreign key refuses rows, so the logical table gets it when all shards have it, and loses it when one does
(`loosened`). All else changes nothing about rows: the logical table gets it at the latest when the shards are alike
again and all say the same (`levelled`), also if the statement that said it could not be run there as it was.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from binlog_merge.pipeline.coordinate.shards.clauses import applied, columns_named
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import order
from binlog_merge.pipeline.coordinate.shards.values import ShardDdl
from snapshot_store.ask.alter import alter_sql
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.diff import plain_key, plain_text
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import ForeignKey, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.render_sql import in_session

Unseen = Mapping[tuple[str, ...], Hashable]
"""Properties of a table by what they are of: ("column", name, "comment"), ("check", expression)."""


def constraints(table: Table) -> set[tuple[str, ...]]:
    """Return the checks that are enforced and the foreign keys, whatever they are called."""
    checks = {("check", plain_text(text)) for name, text in table.checks if name not in table.unenforced}
    return checks | set(map(_key_of, table.foreign_keys))


def _key_of(key: ForeignKey) -> tuple[str, ...]:
    return ("foreign key", plain_key(key))


def tightens(before: Table, after: Table, joined: Table) -> bool:
    """Return whether a change brings a check or a foreign key that not all shards have."""
    return bool(constraints(after) - constraints(before) - constraints(joined))


def loosened(logical: Table, joined: Table, ddls: Iterable[ShardDdl]) -> Table:
    """Return the logical table without the checks and foreign keys that statements of shards have dropped."""
    gone, kept = set[tuple[str, ...]](), list[Table]()
    for ddl in ddls:
        gone |= constraints(ddl.before) - constraints(ddl.after)
        kept.append(ddl.after)
    return _without(logical, gone - constraints(joined), kept)


def no_tighter(logical: Table, joined: Table) -> Table:
    """Return the logical table without the checks and foreign keys that not all shards have."""
    return _without(logical, constraints(logical) - constraints(joined), [joined])


def _without(table: Table, gone: Collection[tuple[str, ...]], kept: Iterable[Table]) -> Table:
    """Return a table without these checks and foreign keys; a check that is among `kept` is only not enforced."""
    still = {("check", plain_text(text)) for one in kept for _, text in one.checks}
    loose = {name for name, text in table.checks if ("check", plain_text(text)) in gone}
    off = {name for name, text in table.checks if name in loose and ("check", plain_text(text)) in still}
    checks = tuple(check for check in table.checks if check[0] not in loose - off)
    return replace(
        table,
        checks=checks,
        unenforced=tuple(name for name, _ in checks if name in off or name in table.unenforced),
        foreign_keys=tuple(key for key in table.foreign_keys if _key_of(key) not in gone),
    )


def unseen(table: Table) -> Unseen:
    """Return all that the order does not see of a table."""
    found: dict[tuple[str, ...], Hashable] = {("comment",): table.comment, ("engine",): table.engine}
    found |= {("option", name): value for name, value in table.attributes}
    found |= {("check", plain_text(text)): name not in table.unenforced for name, text in table.checks}
    found |= {_key_of(key): True for key in table.foreign_keys}
    for column in table.columns:
        found["column", column.name.lower(), "comment"] = column.comment
        found["column", column.name.lower(), "invisible"] = column.invisible
        found["column", column.name.lower(), "attributes"] = column.attributes
    for index in table.indexes:
        found["index", index.name.lower(), "visible"] = index.visible
        found["index", index.name.lower(), "attributes"] = index.attributes
    return found


@dataclass(frozen=True, slots=True)
class Level:
    """What all shards say by now and some have only come to say: properties, and a table that has them."""

    wanted: Unseen
    like: Table

    @staticmethod
    def of(changes: Iterable[tuple[Table, Table]], shards: Collection[Table]) -> "Level | None":
        """Return what shards agree on (`shards` are the tables of all of them) that one of the changes has brought."""
        said = [unseen(table) for table in shards]
        wanted: dict[tuple[str, ...], Hashable] = {}
        for before, after in ((unseen(before), unseen(after)) for before, after in changes):
            for name in before.keys() | after.keys():
                value = after.get(name)
                if before.get(name) != value and all(one.get(name) == value for one in said):
                    wanted[name] = value
        return Level(wanted, next(iter(shards))) if wanted else None

    def lacking(self, table: Table) -> set[tuple[str, ...]]:
        """Return the properties in which a table differs."""
        has = unseen(table)
        return {name for name, value in self.wanted.items() if has.get(name) != value}


def levelled(logical: Table, level: Level, steps: Sequence[str], session: DdlSession) -> Iterator[tuple[str, Table]]:
    """Yield the statements that give a logical table what it lacks, each with the table after it.

    `steps` are clauses of a shard that may do it, in order; statements are made for what none of them does.
    """
    for sql in (*steps, None):
        for text in [sql] if sql is not None else _made(logical, level, session):
            after = _without_harm(logical, level, text, session)
            if after is not None:
                yield text, after
                logical = after


def _without_harm(logical: Table, level: Level, sql: str, session: DdlSession) -> Table | None:
    """Return the table after a statement that brings something that is lacking and nothing else; None for others."""
    try:
        adds, drops, renames = columns_named(parse_statement(sql, session))
        after = None if adds or drops or renames else applied(logical, sql, session)
    except SnapshotStoreError:
        return None
    if after is None or order(after, logical) != 0 or not level.lacking(after) < level.lacking(logical):
        return None
    before, now = unseen(logical), unseen(after)
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    return after if changed <= level.wanted.keys() else None


def _made(logical: Table, level: Level, session: DdlSession) -> tuple[str, ...]:
    lacking = level.lacking(logical)
    if not lacking:
        return ()
    like = {column.name.lower(): column for column in level.like.columns}
    indexes = {index.name.lower(): index for index in level.like.indexes}

    def said(name: str, column: str, what: str) -> bool:
        return (name, column.lower(), what) in lacking

    columns = tuple(
        replace(
            c,
            comment=like[c.name.lower()].comment if said("column", c.name, "comment") else c.comment,
            invisible=like[c.name.lower()].invisible if said("column", c.name, "invisible") else c.invisible,
        )
        for c in logical.columns
    )
    shown = tuple(
        replace(i, visible=indexes[i.name.lower()].visible) if said("index", i.name, "visible") else i
        for i in logical.indexes
    )
    checks, keys = _constraints(logical, level, lacking)
    wanted = replace(
        logical,
        comment=level.like.comment if ("comment",) in lacking else logical.comment,
        engine=level.like.engine if ("engine",) in lacking else logical.engine,
        columns=columns,
        indexes=shown,
        checks=tuple((name, text) for name, text, _ in checks),
        unenforced=tuple(name for name, _, enforced in checks if not enforced),
        foreign_keys=keys,
    )
    name = f"ALTER TABLE {quote_name(logical.schema)}.{quote_name(logical.name)}"
    options = (f"{name} {key}={value}" for key, value in level.like.attributes if ("option", key) in lacking)
    return (*(in_session(" ".join(sql.split("\n")), session) for sql in alter_sql(logical, wanted)), *options)


def _constraints(
    logical: Table, level: Level, lacking: Collection[tuple[str, ...]]
) -> tuple[list[tuple[str, str, bool]], tuple[ForeignKey, ...]]:
    """Return the checks, each with whether it is enforced, and the foreign keys that the logical table is to have."""
    mine = {plain_text(text): (name, text, name not in logical.unenforced) for name, text in logical.checks}
    theirs = {plain_text(t): (name, t, name not in level.like.unenforced) for name, t in level.like.checks}
    for text in {name[1] for name in lacking if name[0] == "check"}:
        if text in theirs:
            known = mine.get(text, theirs[text])
            mine[text] = (known[0], known[1], theirs[text][2])
        else:
            mine.pop(text, None)
    keys = {_key_of(key): key for key in logical.foreign_keys}
    other = {_key_of(key): key for key in level.like.foreign_keys}
    for key in {name for name in lacking if name[0] == "foreign key"}:
        if key in other:
            keys[key] = other[key]
        else:
            keys.pop(key, None)
    return list(mine.values()), tuple(keys.values())
