"""Scenarios as text: what happens on which shard, in which order.

    t11 row                     a row is inserted, a value of its own in every column
    t11 work                    one transaction that inserts, updates and deletes
    t11 touch                   every row of the shard is updated
    t11 ADD COLUMN c INT        ALTER TABLE t11 …
    t11 kept                    a row that must not come out: it is held at the end
    n1 ANY STATEMENT            in the node's session

Shard tNM is the M-th table of node nN, in the node's database, to which its session is set. {db} is its name, and {t}
the shard's.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from snapshot_store.mysql.sql.names import quote_name
from tests.merge_e2e.shards.stage import Name, Played, Route, Rows, Session, Stage, columns_of, create_of, rows_of

THREE = "t11 t12 t21"


@dataclass(frozen=True)
class Scenario:
    """What happens, and what is not as usual about what must come of it.

    The shards are made by one CREATE TABLE with `columns` (and `options` behind them), unless `columns` is empty.
    `alike` False: the shards do not end alike, so what a shard lacks is the column's default. `only` are the columns to
    compare, if not all. `told` is a part of what a warning says.
    """

    name: str
    columns: str
    script: str
    shards: str = THREE
    options: str = ""
    alike: bool = True
    only: tuple[str, ...] = ()
    told: str = ""
    extract: dict[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Further logical tables: shards named uNM make `u`."""

    @property
    def id(self) -> str:
        """Return the name as the databases have it."""
        return re.sub(r"\W+", "_", self.name)

    def routes(self, number: int) -> tuple[Route, ...]:
        """Return the routes; `number` keeps the databases of scenarios apart."""
        schema = f"s{number:03d}"
        return tuple(
            Route(f"{schema}_n?", f"{table}??", (schema, table), self.extract if table == "t" else {})
            for table in ("t", *self.others)
        )


class Play:
    """A scenario on its way."""

    def __init__(self, scenario: Scenario, number: int, sessions: dict[str, Session]) -> None:
        self.scenario = scenario
        self.schema = f"s{number:03d}"
        self.sessions = sessions
        self.counter = 0
        self.kept: set[str] = set()

    def run(self) -> None:
        """Run it from beginning to end."""
        for node, session in self.sessions.items():
            session.run(f"CREATE DATABASE {self.schema}_{node}")
            session.run(f"USE {self.schema}_{node}")
        for shard in self.scenario.shards.split() if self.scenario.columns else ():
            self.session(shard).run(f"CREATE TABLE {shard} ({self.scenario.columns}) {self.scenario.options}")
        for line in self.scenario.script.strip().splitlines():
            subject, _, what = line.strip().partition(" ")
            self.step(subject, what)

    def session(self, subject: str) -> Session:
        return self.sessions[f"n{subject[1]}"]

    def step(self, subject: str, what: str) -> None:
        session = self.session(subject)
        what = what.replace("{db}", f"{self.schema}_n{subject[1]}").replace("{t}", subject)
        if subject[0] == "n":
            self.counter += 1
            session.run(what)
        elif what in ("row", "kept"):
            self._insert(session, subject)
            self.kept |= {str(self.counter)} if what == "kept" else set()
        elif what == "touch":
            self._touch(session, subject, "")
        elif what == "work":
            session.run("BEGIN")
            self._insert(session, subject)
            self._insert(session, subject)
            key = self._key(session, subject)
            self._touch(session, subject, f" WHERE {key} = {self.counter}")
            session.run(f"DELETE FROM {subject} ORDER BY {key} LIMIT 1")
            session.run("COMMIT")
        else:
            session.run(f"ALTER TABLE {subject} {what}")

    def _columns(self, session: Session, table: str) -> list[tuple[str, str, str]]:
        """Return the columns that take a value: name, type with its length, key."""
        shown = session.ask(f"SHOW FULL COLUMNS FROM {table}")
        return [
            (quote_name(str(row[0])), str(row[1]), str(row[4]))
            for row in shown
            if not str(row[6]).endswith(" GENERATED")
        ]

    def _key(self, session: Session, table: str) -> str:
        columns = self._columns(session, table)
        return next((name for name, _, key in columns if key == "PRI"), columns[0][0])

    def _insert(self, session: Session, table: str) -> None:
        self.counter += 1
        columns = self._columns(session, table)
        names = ", ".join(name for name, _, _ in columns)
        values = ", ".join(value_of(kind, self.counter, key == "PRI") for _, kind, key in columns)
        session.run(f"INSERT INTO {table} ({names}) VALUES ({values})")

    def _touch(self, session: Session, table: str, where: str) -> None:
        self.counter += 1
        found = [(name, kind) for name, kind, key in self._columns(session, table) if key not in ("PRI", "UNI")]
        if found:
            setting = ", ".join(f"{name} = {value_of(kind, self.counter, False)}" for name, kind in found)
            session.run(f"UPDATE {table} SET {setting}{where}")


def value_of(kind: str, number: int, key: bool) -> str:
    """Return a literal of a type that tells its row from others."""
    kind = kind.lower()
    length = re.search(r"\((\d+)", kind)
    if key and "char" not in kind:
        return str(number)
    if kind.startswith(("enum", "set")):
        members = re.findall(r"'((?:[^']|'')*)'", kind)
        return f"'{members[number % len(members)]}'"
    if kind.startswith(("tinyint", "bit")):
        return str(number % 2 if kind.startswith("bit") else number % 100)
    if "char" in kind or "text" in kind:
        text = f"é{number}" if number % 5 == 0 and "char" in kind else str(number)
        return f"'{text[-int(length[1]) :] if length else text}'"
    if "binary" in kind or "blob" in kind:
        return f"X'{number:04x}'"
    if kind.startswith("json"):
        return f"""'{{"n": {number}, "text": "{"x" * 30}"}}'"""
    if kind.startswith(("date", "timestamp")):
        return f"'2026-01-{1 + number % 28:02d}'"
    if kind.startswith("time"):
        return f"'{number % 24:02d}:00:01'"
    if kind.startswith("point"):
        return f"POINT({number}, 1)"
    return str(1970 + number % 100 if kind.startswith("year") else number)


def play(stage: Stage, scenario: Scenario, number: int) -> tuple[Play, Played]:
    """Play a scenario on the nodes."""
    with stage.scene(scenario.name, scenario.routes(number)) as (sessions, played):
        one = Play(scenario, number, dict(sessions))
        one.run()
    return one, played[0]


def check(stage: Stage, one: Play, played: Played) -> None:
    """Compare the target's tables with the shards'."""
    for route in played.routes:
        shards = stage.shards(route)
        if not shards:
            assert route.target not in _tables(stage, route), f"{route.target} is still there"
            continue
        creates = {create_of(stage.nodes[node], name) for node, name in shards}
        columns = [c for c in columns_of(stage.target, route.target) if c in one.scenario.only or not one.scenario.only]
        extracted = {str(e["target-column"]) for e in route.extract.values()}
        if one.scenario.alike and route.target[1] == "t" and not extracted:
            assert len(creates) == 1, f"the scenario says that its shards end alike: {creates}"
            assert create_of(stage.target, route.target) == creates.pop()
        expected: Rows = []
        for node, name in shards:
            expected += _expected(stage, one, node, name, route, columns)
        assert _sorted(rows_of(stage.target, route.target, columns)) == _sorted(expected)


def _expected(stage: Stage, one: Play, node: str, name: Name, route: Route, columns: list[str]) -> Rows:
    """Return a shard's rows as the logical table has them; what the shard lacks is extracted, or the default."""
    server = stage.nodes[node]
    there = {column.lower() for column in columns_of(server, name)}
    defaults = default_of(stage, route.target)
    names = {"table": name[1], "schema": name[0], "source": node}
    for what, extractor in route.extract.items():
        kind = what.removeprefix("extract-")
        found = re.search(str(extractor[f"{kind}-regexp"]), names[kind])
        defaults[str(extractor["target-column"]).lower()] = "".join(found.groups()) if found else ""
    mine = [column for column in columns if column.lower() in there]
    rows = [dict(zip((m.lower() for m in mine), row, strict=True)) for row in rows_of(server, name, mine)]
    whole = [tuple({**defaults, **row}[column.lower()] for column in columns) for row in rows]
    return [row for row in whole if not one.kept & set(map(str, row[:1]))]


def default_of(stage: Stage, name: Name) -> dict[str, str | None]:
    """Return the default of each column of a logical table."""
    schema, table = name
    asked = (
        "SELECT column_name, column_default FROM information_schema.columns "
        f"WHERE table_schema = '{schema}' AND table_name = '{table}'"
    )
    return {str(c).lower(): None if d is None else str(d) for c, d in stage.target.query(asked)}


def _tables(stage: Stage, route: Route) -> list[Name]:
    found = stage.target.query(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{route.target[0]}'"
    )
    return [(route.target[0], str(table)) for (table,) in found]


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: [(value is not None, value or "") for value in row])
