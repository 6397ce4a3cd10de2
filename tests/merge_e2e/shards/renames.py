"""Stories of renames: what two nodes run, and whether the target then has just what they have."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.merge_e2e.shards.stage import (
    Name,
    Played,
    Route,
    Rows,
    Stage,
    columns_of,
    create_of,
    quoted,
    rows_of,
    tables,
)


@dataclass(frozen=True)
class Story:
    """A script of lines "n1 STATEMENT"; `{a}` and `{b}` are its databases, on both nodes, `{a}` the default one.

    "n1 rows t" writes, changes and deletes a few rows of a table with the columns id and v. `routes` are (schema,
    table, target), with the same braces. `doubt` is a part of the error where it stops; there is none in most.
    `warned` is a part of a warning that is given, `waits` begins what waits at the end.
    """

    name: str
    script: str
    routes: tuple[tuple[str, str, Name], ...] = ()
    doubt: str = ""
    modes: tuple[str, ...] = ("pessimistic", "optimistic")
    sections: dict[str, Any] = field(default_factory=dict)
    warned: str = ""
    waits: str = ""

    @property
    def id(self) -> str:
        """Return the name as the databases have it."""
        return re.sub(r"\W+", "_", self.name)

    def fill(self, text: str, number: int) -> str:
        """Return a text with this story's databases."""
        return text.replace("{a}", f"r{number:03d}a").replace("{b}", f"r{number:03d}b")

    def told(self, number: int) -> tuple[Route, ...]:
        """Return the routes."""
        return tuple(
            Route(self.fill(s, number), self.fill(t, number), (self.fill(to[0], number), to[1]))
            for s, t, to in self.routes
        )


class Teller:
    """Tells a story on the nodes."""

    def __init__(self, stage: Stage, story: Story, number: int, begun: bool = False, counter: int = 0) -> None:
        self.stage, self.story, self.number, self.begun = stage, story, number, begun
        self.counter = counter

    def tell(self) -> Played:
        """Run the story; returns which files have it."""
        with self.stage.scene(self.story.id, self.story.told(self.number)) as (sessions, played):
            for session in sessions.values():
                for letter in "" if self.begun else "ab":
                    session.run(self.story.fill(f"CREATE DATABASE {{{letter}}}", self.number))
                session.run(self.story.fill("USE {a}", self.number))
            for line in self.story.script.strip().splitlines():
                node, _, what = self.story.fill(line.strip(), self.number).partition(" ")
                for sql in self._rows(what[5:]) if what.startswith("rows ") else [what]:
                    sessions[node].run(sql)
        return played[0]

    def _rows(self, table: str) -> Sequence[str]:
        self.counter += 10
        n = self.counter
        return (
            f"INSERT INTO {table} (id, v) VALUES ({n}, 'a{n}'), ({n + 1}, 'b{n}'), ({n + 2}, 'c{n}')",
            f"UPDATE {table} SET v = CONCAT(v, '+') WHERE id = {n + 1}",
            f"DELETE FROM {table} WHERE id = {n + 2}",
        )


def logical_name(played: Played, name: Name) -> Name:
    """Return of which logical table a node's table is."""
    return next((route.target for route in played.routes if route.takes(*name)), name)


def check(stage: Stage, played: Played, number: int, ghosts: bool = False) -> None:
    """Compare the target's tables with those of all nodes together: names, shapes and rows."""
    mine = re.compile(f"r{number:03d}[a-z]*")
    union: dict[Name, Rows] = {}
    shapes: dict[Name, set[str]] = {}
    for node in stage.nodes.values():
        for name in tables(node):
            if mine.fullmatch(name[0]) and (ghosts or not name[1].startswith("_")):
                logical = logical_name(played, name)
                union.setdefault(logical, []).extend(rows_of(node, name, sorted(columns_of(node, name))))
                shapes.setdefault(logical, set()).add(_plain(create_of(node, name), name))
    there = {name for name in tables(stage.target) if mine.fullmatch(name[0])}
    assert there == set(union), "the tables"
    for name, rows in union.items():
        found = rows_of(stage.target, name, sorted(columns_of(stage.target, name)))
        assert sorted(map(repr, found)) == sorted(map(repr, rows)), f"the rows of {quoted(name)}"
        assert {_plain(create_of(stage.target, name), name)} == shapes[name], f"the shape of {quoted(name)}"


def _plain(create: str, name: Name) -> str:
    """Return a CREATE TABLE without what follows from the table's own name."""
    return re.sub(rf"`{re.escape(name[1])}(_(?:chk|ibfk)_\d+)`", r"`t\1`", create)


T = "(id INT PRIMARY KEY, v VARCHAR(20))"

_CARRIED = (
    Story("one table", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 RENAME TABLE t TO t_new
        n1 rows t_new
        n1 ALTER TABLE t_new ADD COLUMN w INT DEFAULT 3
        n1 rows t_new
        """),
    Story("across databases", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 RENAME TABLE t TO {{b}}.u
        n1 rows {{b}}.u
        n1 CREATE TABLE t {T}
        n1 rows t
        """),
    Story("a chain", f"""
        n1 CREATE TABLE t {T}
        n1 CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(20), w INT)
        n1 rows t
        n1 rows u
        n1 RENAME TABLE u TO w, t TO u
        n1 rows u
        n1 rows w
        n1 RENAME TABLE u TO x, x TO y
        n1 rows y
        """),
    Story("a swap in one statement", f"""
        n1 CREATE TABLE t {T}
        n1 CREATE TABLE u (v VARCHAR(20), id INT PRIMARY KEY, w INT)
        n1 rows t
        n1 rows u
        n1 RENAME TABLE t TO x, u TO t, x TO u
        n1 rows t
        n1 rows u
        n1 ALTER TABLE u ADD COLUMN z INT
        n1 rows u
        """),
    Story("a swap in three statements", f"""
        n1 CREATE TABLE t {T}
        n1 CREATE TABLE u (v VARCHAR(20), id INT PRIMARY KEY, w INT)
        n1 rows t
        n1 rows u
        n1 RENAME TABLE t TO x
        n1 rows x
        n1 ALTER TABLE u RENAME t
        n1 rows t
        n1 RENAME TABLE x TO u
        n1 rows u
        """),
    Story("a ring over databases", f"""
        n1 CREATE TABLE t {T}
        n1 CREATE TABLE {{b}}.t {T}
        n1 CREATE TABLE {{b}}.u {T}
        n1 rows t
        n1 rows {{b}}.t
        n1 RENAME TABLE t TO {{b}}.x, {{b}}.t TO t, {{b}}.u TO {{b}}.t, {{b}}.x TO {{b}}.u
        n1 rows t
        n1 rows {{b}}.t
        n1 rows {{b}}.u
        """),
    Story("blue and green", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 CREATE TABLE t_new (id BIGINT PRIMARY KEY, v VARCHAR(40), w INT)
        n1 INSERT INTO t_new (id, v) SELECT id, v FROM t
        n1 RENAME TABLE t TO t_old, t_new TO t
        n1 rows t
        n1 DROP TABLE t_old
        n1 rows t
        """),
    Story("a parent of a foreign key", f"""
        n1 CREATE TABLE p {T}
        n1 CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(20), p INT, FOREIGN KEY (p) REFERENCES p (id))
        n1 INSERT INTO p VALUES (1, 'x')
        n1 INSERT INTO c VALUES (2, 'y', 1)
        n1 RENAME TABLE p TO {{b}}.q
        n1 INSERT INTO {{b}}.q VALUES (3, 'z')
        n1 INSERT INTO c VALUES (4, 'y', 3)
        n1 RENAME TABLE c TO d
        n1 INSERT INTO d VALUES (5, 'y', 3)
        n1 ALTER TABLE d DROP FOREIGN KEY d_ibfk_1
        n1 rows d
        """),
    Story("a foreign key on itself", """
        n1 CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), p INT, FOREIGN KEY (p) REFERENCES t (id))
        n1 INSERT INTO t VALUES (1, 'x', NULL)
        n1 RENAME TABLE t TO u
        n1 INSERT INTO u VALUES (2, 'x', 1)
        n1 ALTER TABLE u ADD COLUMN q INT, ADD FOREIGN KEY (q) REFERENCES u (id)
        n1 INSERT INTO u VALUES (3, 'x', 1, 2)
        """),
    Story("checks and generated columns", """
        n1 CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) CHECK (v <> ''), g INT AS (id + 1) STORED, w INT)
        n1 rows t
        n1 RENAME TABLE t TO u
        n1 rows u
        n1 ALTER TABLE u DROP CHECK u_chk_1, ADD d INT DEFAULT (id * 2), ADD CHECK (id > 0)
        n1 rows u
        """),
    Story("a generated invisible primary key", """
        n1 SET sql_generate_invisible_primary_key = 1
        n1 CREATE TABLE t (v VARCHAR(20))
        n1 ALTER TABLE t ADD COLUMN id INT FIRST
        n1 rows t
        n1 ALTER TABLE t ADD COLUMN w INT DEFAULT 1 FIRST, MODIFY v VARCHAR(30) FIRST
        n1 rows t
        n1 CREATE TABLE u LIKE t
        n1 ALTER TABLE u RENAME w, CHANGE w x BIGINT FIRST
        n1 rows w
        n1 ALTER TABLE t DROP PRIMARY KEY, DROP COLUMN my_row_id, ADD PRIMARY KEY (id)
        n1 ALTER TABLE t MODIFY id INT FIRST
        n1 rows t
        n1 ALTER TABLE w ALTER COLUMN my_row_id SET VISIBLE, ADD COLUMN y INT FIRST
        n1 ALTER TABLE w ADD COLUMN z INT FIRST
        n1 rows w
        n1 CREATE TABLE c SELECT * FROM t
        n1 ALTER TABLE c ADD COLUMN y INT FIRST
        n1 rows c
        """),
    Story("a table like another with all that it says", """
        n1 CREATE TABLE t (id INT, v VARCHAR(20) COLUMN_FORMAT FIXED COMMENT 'of v', w INT, \
            PRIMARY KEY (id) COMMENT 'p', KEY k USING BTREE (v) COMMENT 'it''s') STATS_PERSISTENT=0 MAX_ROWS=9 \
            PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (5) COMMENT 'few', \
            PARTITION b VALUES LESS THAN MAXVALUE)
        n1 ALTER TABLE t ALTER w DROP DEFAULT, ADD KEY (w) COMMENT 'w' INVISIBLE, ROW_FORMAT=COMPRESSED
        n1 CREATE TABLE u LIKE t
        n1 INSERT INTO u VALUES (1, 'x', 2)
        n1 ALTER TABLE u ADD x INT AFTER id, DROP KEY w
        n1 ALTER TABLE t REMOVE PARTITIONING
        n1 ALTER TABLE t MAX_ROWS=0, STATS_SAMPLE_PAGES=30, ADD FULLTEXT f (v) WITH PARSER ngram
        n1 CREATE TABLE s LIKE t
        n1 INSERT INTO s VALUES (1, 'x', 2)
        n1 CREATE TABLE c (KEY (id) COMMENT 'c') SELECT id, v FROM t
        """.replace("\\\n            ", "")),
    Story("an ALTER that renames too", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 ALTER TABLE t ADD COLUMN w INT DEFAULT 1, RENAME TO u, ADD COLUMN z INT DEFAULT 2
        n1 rows u
        n1 ALTER TABLE u RENAME COLUMN v TO v2, RENAME AS {{b}}.t, RENAME COLUMN z TO v, DROP COLUMN w
        n1 INSERT INTO {{b}}.t VALUES (901, 'x', 4)
        """),
    Story("back again", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 RENAME TABLE t TO u
        n1 rows u
        n1 RENAME TABLE u TO t
        n1 rows t
        """),
    Story("a name that is taken anew", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 RENAME TABLE t TO t_1
        n1 CREATE TABLE t LIKE t_1
        n1 rows t
        n1 RENAME TABLE t TO t_2
        n1 CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30))
        n1 rows t
        n1 DROP TABLE t_1
        n1 RENAME TABLE t_2 TO t_1
        n1 rows t_1
        """),
    Story("the same on all nodes", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 rows t
        n2 rows t
        n1 RENAME TABLE t TO {{b}}.u
        n1 rows {{b}}.u
        n2 rows t
        n2 RENAME TABLE t TO {{b}}.u
        n2 rows {{b}}.u
        n1 rows {{b}}.u
        n1 ALTER TABLE {{b}}.u ADD COLUMN w INT DEFAULT 5
        n1 rows {{b}}.u
        n2 ALTER TABLE {{b}}.u ADD COLUMN w INT DEFAULT 5
        n2 rows {{b}}.u
        """),
    Story("the same on all nodes and other DDL under way", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 rows t
        n1 ALTER TABLE t RENAME COLUMN v TO x, ADD COLUMN v INT
        n1 INSERT INTO t VALUES (901, 'x', 7)
        n1 RENAME TABLE t TO u
        n1 INSERT INTO u VALUES (902, 'x', 7)
        n1 ALTER TABLE u ADD COLUMN y INT, ADD CHECK (y > 0)
        n1 INSERT INTO u VALUES (903, 'x', 7, 8)
        n2 rows t
        n2 ALTER TABLE t RENAME COLUMN v TO x, ADD COLUMN v INT
        n2 RENAME TABLE t TO u
        n2 INSERT INTO u VALUES (904, 'x', 7)
        n2 ALTER TABLE u ADD COLUMN y INT, ADD CHECK (y > 0)
        n2 INSERT INTO u VALUES (905, 'x', 7, 8)
        n1 UPDATE u SET y = id
        """),
    Story("a swap on all nodes in three statements", f"""
        n1 CREATE TABLE t {T}
        n1 CREATE TABLE u (v VARCHAR(20), id INT PRIMARY KEY, w INT)
        n2 CREATE TABLE t {T}
        n2 CREATE TABLE u (v VARCHAR(20), id INT PRIMARY KEY, w INT)
        n1 rows t
        n2 rows u
        n1 RENAME TABLE t TO x
        n1 RENAME TABLE u TO t
        n1 rows t
        n1 RENAME TABLE x TO u
        n1 rows u
        n2 rows t
        n2 rows u
        n2 RENAME TABLE t TO x
        n2 rows x
        n2 RENAME TABLE u TO t
        n2 rows t
        n2 RENAME TABLE x TO u
        n2 rows u
        n1 rows t
        """),
    Story("blue and green on all nodes", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 rows t
        n2 rows t
        n1 CREATE TABLE t_new LIKE t
        n2 CREATE TABLE t_new LIKE t
        n1 RENAME TABLE t TO t_old, t_new TO t
        n1 rows t
        n2 rows t
        n2 RENAME TABLE t TO t_old, t_new TO t
        n2 rows t
        n1 rows t_old
        n2 rows t_old
        """),
    Story("a name that is taken anew on all nodes", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 rows t
        n1 RENAME TABLE t TO t_1
        n1 rows t_1
        n1 CREATE TABLE t LIKE t_1
        n1 rows t
        n2 rows t
        n2 RENAME TABLE t TO t_1
        n2 CREATE TABLE t LIKE t_1
        n1 ALTER TABLE t ADD COLUMN w INT
        n1 rows t
        n2 rows t_1
        n2 rows t
        n2 ALTER TABLE t ADD COLUMN w INT
        n2 rows t
        """),
    Story("a rename that one node takes back", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 rows t
        n1 RENAME TABLE t TO u
        n1 rows u
        n2 rows t
        n1 RENAME TABLE u TO t
        n1 rows t
        n2 rows t
        """),
    Story("one node drops what another renames", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 rows t
        n2 rows t
        n1 RENAME TABLE t TO u
        n1 rows u
        n2 DELETE FROM t
        n2 DROP TABLE t
        n1 rows u
        """, waits="DROP TABLE "),
    Story("transactions over tables that are renamed", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 CREATE TABLE other {T}
        n1 CREATE TABLE third {T}
        n1 rows t
        n1 RENAME TABLE t TO u
        n1 BEGIN
        n1 INSERT INTO u VALUES (901, 'x')
        n1 INSERT INTO other VALUES (902, 'x')
        n1 COMMIT
        n1 UPDATE other SET v = 'y'
        n1 RENAME TABLE other TO another
        n1 UPDATE another SET v = 'z' WHERE id = 902
        n1 BEGIN
        n1 INSERT INTO another VALUES (903, 'x')
        n1 INSERT INTO third VALUES (904, 'x')
        n1 COMMIT
        n1 RENAME TABLE third TO {{b}}.t, another TO third
        n1 UPDATE {{b}}.t SET v = 'zz'
        n1 DELETE FROM third WHERE id = 902
        n2 rows t
        n2 RENAME TABLE t TO u
        n2 rows u
        """),
    Story("rows that wait while their tables go", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE t {T}
        n1 CREATE TABLE dropped {T}
        n1 CREATE TABLE emptied {T}
        n1 CREATE TABLE anew {T}
        n1 RENAME TABLE t TO u
        n1 BEGIN
        n1 INSERT INTO u VALUES (901, 'x')
        n1 INSERT INTO dropped VALUES (902, 'x')
        n1 INSERT INTO emptied VALUES (903, 'x')
        n1 INSERT INTO anew VALUES (904, 'x')
        n1 COMMIT
        n1 rows dropped
        n1 DROP TABLE dropped
        n1 TRUNCATE TABLE emptied
        n1 rows emptied
        n1 RENAME TABLE anew TO other
        n1 DROP TABLE other
        n1 CREATE TABLE anew {T}
        n1 rows anew
        n2 rows t
        n2 RENAME TABLE t TO u
        """),
    Story("one shard of a route that has one", f"""
        n1 CREATE TABLE orders_1 {T}
        n1 rows orders_1
        n1 RENAME TABLE orders_1 TO sold_1
        n1 rows sold_1
        n1 ALTER TABLE sold_1 ADD COLUMN w INT
        n1 RENAME TABLE sold_1 TO plain
        n1 rows plain
        n1 RENAME TABLE plain TO orders_7
        n1 rows orders_7
        """, (("{a}", "orders_*", ("{a}", "orders")), ("{a}", "sold_*", ("{a}", "sold")))),
    Story("all shards of a route", f"""
        n1 CREATE TABLE orders_1 {T}
        n1 CREATE TABLE orders_2 {T}
        n2 CREATE TABLE orders_3 {T}
        n1 rows orders_1
        n1 rows orders_2
        n2 rows orders_3
        n1 RENAME TABLE orders_2 TO sold_2
        n1 rows orders_1
        n1 rows sold_2
        n2 RENAME TABLE orders_3 TO sold_3
        n2 rows sold_3
        n1 rows orders_1
        n1 ALTER TABLE orders_1 RENAME sold_1
        n1 rows sold_1
        n1 RENAME TABLE sold_1 TO sold_9
        n1 rows sold_9
        """, (("{a}", "orders_*", ("{a}", "orders")), ("{a}", "sold_*", ("{a}", "sold")))),
    Story("gh-ost on the one shard and a rename", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 CREATE /* gh-ost */ TABLE _t_gho LIKE t
        n1 ALTER TABLE _t_gho ADD COLUMN w INT DEFAULT 5
        n1 INSERT INTO _t_gho (id, v) SELECT id, v FROM t
        n1 CREATE TABLE u {T}
        n1 rows u
        n1 RENAME TABLE t TO _t_del, _t_gho TO t, u TO u2
        n1 rows t
        n1 rows u2
        """),
    Story("tools' tables as tables of their own", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 CREATE TABLE u_new (id INT PRIMARY KEY, v VARCHAR(30))
        n1 INSERT INTO u_new SELECT * FROM t
        n1 RENAME TABLE t TO u_old, u_new TO t
        n1 rows t
        """, sections={"online-ddl": False}),
)  # fmt: skip
CARRIED = tuple(sorted(_CARRIED, key=lambda story: bool(story.sections)))
"""Those with settings of their own come last: the files of the others follow each other without a gap."""

ORDERS = (("{a}", "orders_*", ("{a}", "orders")),)

IN_DOUBT = (
    Story("a shard leaves its route", f"""
        n1 CREATE TABLE orders_1 {T}
        n2 CREATE TABLE orders_2 {T}
        n1 rows orders_1
        n2 rows orders_2
        n1 RENAME TABLE orders_1 TO archive_1
        n1 rows archive_1
        n2 rows orders_2
        """, ORDERS, doubt="the rows it has written so far stay in {a}.orders"),
    Story("a table comes into a route", f"""
        n1 CREATE TABLE orders_1 {T}
        n2 CREATE TABLE staging {T}
        n1 rows orders_1
        n2 rows staging
        n2 ALTER TABLE staging RENAME TO orders_2
        n2 rows orders_2
        n1 rows orders_1
        """, ORDERS, doubt="of {a}.orders, which gets none of them: rows that are in {a}.staging so far go with it"),
    Story("a shard goes to a database that does not come out", f"""
        n1 CREATE TABLE orders_1 {T}
        n2 CREATE TABLE orders_2 {T}
        n1 rows orders_1
        n1 RENAME TABLE orders_1 TO {{b}}.orders_1
        n2 rows orders_2
        """, ORDERS, doubt="stay in {a}.orders", sections={"ignore-schemas": ["r*b"]}),
    Story("blue and green of one shard of several", f"""
        n1 CREATE TABLE orders_1 {T}
        n2 CREATE TABLE orders_2 {T}
        n1 rows orders_1
        n2 rows orders_2
        n1 CREATE TABLE green {T}
        n1 rows green
        n1 RENAME TABLE orders_1 TO blue, green TO orders_1
        n1 INSERT INTO orders_1 VALUES (901, 'x')
        n2 rows orders_2
        """, ORDERS, doubt="takes its place in {a}.orders"),
    Story("a shard and a table change places", f"""
        n1 CREATE TABLE orders_1 {T}
        n2 CREATE TABLE orders_2 {T}
        n1 CREATE TABLE t {T}
        n1 rows orders_1
        n1 rows t
        n1 RENAME TABLE orders_1 TO x, t TO orders_1, x TO t
        n1 INSERT INTO orders_1 VALUES (901, 'x')
        n1 INSERT INTO t VALUES (902, 'x')
        n2 rows orders_2
        """, ORDERS, doubt="takes its place in {a}.orders"),
    Story("a name that is another node's table", f"""
        n1 CREATE TABLE t {T}
        n2 CREATE TABLE u {T}
        n1 rows t
        n2 rows u
        n1 RENAME TABLE t TO u
        n1 rows u
        n2 rows u
        """, doubt="rows that are in {a}.t so far go with it"),
    Story("gh-ost, and the old table is kept", f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 CREATE /* gh-ost */ TABLE _t_gho LIKE t
        n1 INSERT INTO _t_gho SELECT * FROM t
        n1 RENAME TABLE t TO kept, _t_gho TO t
        n1 rows t
        """, doubt="of {a}.kept, which gets none of its rows; those of {a}.t stay"),
)  # fmt: skip
