"""What becomes of statements of every kind, mode by mode, on real servers: as docs/reference/carried.md says it."""

import re
from pathlib import Path

import pytest

from binlog_merge.errors import ShardDdlStopped, UnknownTableSchema, UnsupportedInput
from binlog_merge.pipeline.values import MergeResult
from tests.effort import crossed, keeping
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.renames import Story, Teller, check
from tests.merge_e2e.shards.stage import Played, Session, Stage, tables

pytestmark = [pytest.mark.mysql]

T = "(id INT PRIMARY KEY, v VARCHAR(20))"
P = f"{T} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN MAXVALUE)"

REST = "PARTITION p2 VALUES LESS THAN MAXVALUE"

STORIES = {
    "tables": f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 ALTER TABLE t ADD w INT DEFAULT 3, ADD KEY (w)
        n1 CREATE INDEX i ON t (v)
        n1 DROP INDEX i ON t
        n1 RENAME TABLE t TO u
        n1 CREATE TABLE d {T}
        n1 DROP TABLE d
        n1 ALTER TABLE u ORDER BY v
        n1 rows u""",
    "truncate": f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 TRUNCATE t
        n1 rows t""",
    "like": f"""
        n1 CREATE TABLE t {P}
        n1 rows t
        n1 CREATE TABLE u LIKE t
        n1 rows u
        n1 ALTER TABLE u TRUNCATE PARTITION p1
        n1 ALTER TABLE u DROP PARTITION p0
        n1 ALTER TABLE t REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (200), {REST})
        n1 CREATE TABLE w LIKE t
        n1 ALTER TABLE w TRUNCATE PARTITION p2""",
    "select": f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 CREATE TABLE u (PRIMARY KEY (id)) SELECT * FROM t
        n1 rows u""",
    "exchange": f"""
        n1 CREATE TABLE t {P}
        n1 rows t
        n1 CREATE TABLE u {T}
        n1 INSERT INTO u VALUES (50, 'of u')
        n1 ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u
        n1 rows t
        n1 rows u
        n1 CREATE TABLE {{b}}.t {P}
        n1 CREATE TABLE {{b}}.u LIKE u
        n1 INSERT INTO u VALUES (60, 'of a.u')
        n1 ALTER TABLE {{b}}.t EXCHANGE PARTITION p0 WITH TABLE u
        n1 INSERT INTO {{b}}.u VALUES (70, 'of b.u')""",
    "database": f"""
        n1 CREATE TABLE {{b}}.t {T}
        n1 ALTER DATABASE {{b}} CHARACTER SET latin1
        n1 CREATE TABLE {{b}}.u {T}
        n2 DROP DATABASE {{b}}""",
    "view": f"""
        n1 CREATE TABLE t {T}
        n1 CREATE VIEW w AS SELECT * FROM t
        n1 CREATE OR REPLACE VIEW w AS SELECT id FROM t
        n1 ALTER VIEW w AS SELECT v FROM t
        n1 RENAME TABLE w TO x
        n1 rows t
        n1 DROP VIEW x""",
    "programs": f"""
        n1 CREATE TABLE t {T}
        n1 CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.v = UPPER(NEW.v)
        n1 CREATE PROCEDURE p () INSERT INTO t VALUES (700, 'x')
        n1 CREATE FUNCTION f () RETURNS INT DETERMINISTIC RETURN 1
        n1 CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO DELETE FROM t
        n1 CALL p()
        n1 rows t
        n1 DROP TRIGGER g
        n1 DROP PROCEDURE p
        n1 DROP FUNCTION f
        n1 DROP EVENT e""",
    "users": """
        n1 CREATE USER carried@localhost
        n1 GRANT SELECT ON *.* TO carried@localhost
        n1 REVOKE SELECT ON *.* FROM carried@localhost
        n1 DROP USER carried@localhost""",
    "server": """
        n1 CREATE SERVER carried FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', DATABASE 'd', USER 'u')
        n1 DROP SERVER carried""",
    "tablespace": f"""
        n1 CREATE TABLESPACE carried ADD DATAFILE 'carried.ibd'
        n1 CREATE TABLE t {T} TABLESPACE carried
        n1 CREATE TABLE u {T} TABLESPACE = `carried` COMMENT 'x'
        n1 rows t
        n1 ALTER TABLE u TABLESPACE innodb_file_per_table, ADD w INT
        n1 ALTER TABLE u ADD x INT, TABLESPACE carried
        n1 ALTER TABLE t TABLESPACE innodb_file_per_table
        n1 DROP TABLE u
        n1 DROP TABLESPACE carried""",
    "file": f"""
        n1 CREATE TABLE t {T}
        n1 rows t
        n1 FLUSH TABLES
        n1 ALTER TABLE t DISCARD TABLESPACE
        n1 DROP TABLE t""",
    "maintenance": f"""
        n1 CREATE TABLE t {T}
        n1 ANALYZE TABLE t
        n1 OPTIMIZE TABLE t
        n1 FLUSH TABLES
        n1 CREATE TEMPORARY TABLE x (a INT)
        n1 DROP TEMPORARY TABLE x
        n1 rows t""",
}


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "carried.md"
CARRIED, NAMED, STOPS = "carried", "named", "stops"
ROWS = {
    "tables": "`CREATE`, `ALTER`, `RENAME`, `DROP TABLE`, indexes",
    "truncate": "`TRUNCATE TABLE`",
    "like": "`CREATE TABLE … LIKE`, partitions made, split, emptied and dropped",
    "select": "`CREATE TABLE … SELECT`, as servers log it: its columns, then rows",
    "exchange": "`EXCHANGE PARTITION`",
    "database": "`CREATE`, `ALTER`, `DROP DATABASE`",
    "view": "`CREATE`, `ALTER`, `RENAME`, `DROP VIEW`",
    "programs": "triggers, procedures, functions, events",
    "users": "users, roles, `GRANT`, `REVOKE`",
    "tablespace": "`TABLESPACE` and `DATA DIRECTORY` of a table, `CREATE`, `ALTER`, `DROP TABLESPACE`",
    "file": "`DISCARD` and `IMPORT TABLESPACE`: rows that disappear or arrive with a file",
    "maintenance": "`ANALYZE`, `OPTIMIZE`, `FLUSH`, temporary tables",
}


def told_on_the_page() -> dict[str, tuple[str, str, str]]:
    """Return what the table says of each kind in the modes marker, pessimistic and optimistic: the first word.

    "The same" is what the cell before it says.
    """
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[0] in ROWS.values():
            first = [re.split(r"\W", cell)[0] for cell in cells[1:]]
            for i, cell in enumerate(cells[1:]):
                if cell.startswith("the same"):
                    first[i] = first[i - 1]
            found[cells[0]] = (first[0], first[1], first[2])
    return found


def test_the_page_tells_of_every_kind() -> None:
    assert set(told_on_the_page()) == set(ROWS.values())


def outcome(stage: Stage, played: Played, number: int, result: MergeResult, out: Path) -> str:
    """Carry out what was merged, compare it with the nodes, and return whether statements were left out."""
    stage.target.drop_databases()
    stage.carry_out(out)
    check(stage, played, number)
    assert result.warnings == ()
    statements = result.ignored["statements"]
    assert sum(kind["count"] for kind in statements) == result.ignored["ddl"]
    for kind in statements:
        assert all(first["sql"] and first["position"] and first["node"] == "n1" for first in kind["first"])
    return NAMED if statements else CARRIED


@pytest.mark.parametrize(("name", "mode"), crossed(ROWS, ("pessimistic", "optimistic")))
def test_shards_without_markers(stage: Stage, name: str, mode: str) -> None:
    number = 900 + list(ROWS).index(name)
    stage.clear()
    played = Teller(stage, Story(name, STORIES[name]), number).tell()
    path = stage.configuration(f"carried-{name}-{mode}", [played], mode, sections={"shard-doubts": "error"})
    out = path.parent / "out"
    expected = told_on_the_page()[ROWS[name]][("marker", "pessimistic", "optimistic").index(mode)]
    if expected == STOPS:
        with pytest.raises(ShardDdlStopped, match="with a file") as caught:
            merge(path, out)
        assert caught.value.position and "by hand" in (caught.value.remedy or "")
        return
    assert outcome(stage, played, number, merge(path, out), out) == expected


MARKERS = """CREATE TABLE __cdc__.__cdc_ddl_record__ (
    ID BIGINT AUTO_INCREMENT PRIMARY KEY, JOB_ID BIGINT, SQL_KIND VARCHAR(50) NOT NULL, SCHEMA_NAME VARCHAR(200),
    TABLE_NAME VARCHAR(200), GMT_CREATED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, DDL_SQL MEDIUMTEXT NOT NULL,
    META_INFO MEDIUMTEXT, VISIBILITY BIGINT NOT NULL, EXT TEXT)"""
COMMITS = "CREATE TABLE __cdc__.__commit_ts__ (gtrid VARCHAR(64) PRIMARY KEY, tso BIGINT UNSIGNED NOT NULL)"


class Announcing(Teller):
    """Tells a story on one node that writes a marker behind each of its statements, or only of those about tables."""

    marked: tuple[str, ...] = ("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE")

    def tell(self) -> Played:
        """Run the story; returns which file has it."""
        with self.stage.scene(self.story.id, ()) as (sessions, played):
            session = sessions["n1"]
            for sql in ("SET sql_log_bin = 0", "CREATE DATABASE __cdc__", MARKERS, COMMITS, "SET sql_log_bin = 1"):
                session.run(sql)
            used = ""
            lines = ["n1 CREATE DATABASE {a}", "n1 CREATE DATABASE {b}", "n1 USE {a}"]
            for line in [*lines, *self.story.script.strip().splitlines()]:
                _, _, what = self.story.fill(line.strip(), self.number).replace("n2", "n1").partition(" ")
                for sql in self._rows(what[5:]) if what.startswith("rows ") else [what]:
                    session.run(sql)
                if what.startswith(self.marked):
                    self._announce(session, used, what)
                used = what[4:] if what.startswith("USE ") else used
        return played[0]

    def _announce(self, session: Session, schema: str, sql: str) -> None:
        """Write a marker in a transaction that has a commit TSO."""
        self.counter += 10
        text = sql.replace("'", "''")
        for step in (
            f"XA START 'm{self.counter}'",
            "INSERT INTO __cdc__.__cdc_ddl_record__ (SQL_KIND, SCHEMA_NAME, DDL_SQL, VISIBILITY) "
            f"VALUES ('DDL', '{schema}', '{text}', 1)",
            f"XA END 'm{self.counter}'",
            f"XA PREPARE 'm{self.counter}'",
            f"INSERT INTO __cdc__.__commit_ts__ VALUES ('m{self.counter}', {7_000_000_000_000_000_000 + self.counter})",
            f"XA COMMIT 'm{self.counter}'",
        ):
            session.run(step)


@pytest.mark.parametrize("name", keeping(list(ROWS)[::3], ROWS))  # all of them are told to shards without markers
def test_by_markers(stage: Stage, name: str) -> None:
    number = 920 + list(ROWS).index(name)
    stage.clear()
    expected = told_on_the_page()[ROWS[name]][0]
    script = "\n".join(line for line in STORIES[name].splitlines() if not line.strip().startswith("n1 INSERT"))
    story = Story(name, script)
    teller = Announcing(stage, story, number)
    teller.marked = ("CREATE DATABASE", "CREATE TABLE") if expected == NAMED else teller.marked
    played = teller.tell()
    sections = {"nodes": [{"source-id": "n1", "files": ["n1/binlog.*"]}]}
    sections["commit-tso"] = {"carrier": "commit-table"}
    path = stage.configuration(f"marked-{name}", [played], "marker", sections=sections)
    out = path.parent / "out"
    if expected == STOPS:
        with pytest.raises((UnsupportedInput, UnknownTableSchema), match=r"with a file|is not known") as caught:
            merge(path, out)
        assert f"stops ({caught.value.exit_code})" in PAGE.read_text().partition(ROWS[name])[2].partition("\n")[0]
        return
    result = merge(path, out)
    stage.target.drop_databases()
    stage.carry_out(out)
    check(stage, played, number)
    kinds = [kind for kind in result.ignored["statements"] if "databases" not in kind["why"]]
    assert bool(kinds) is (expected == NAMED or name in ("view", "tablespace"))


EXCHANGES = {
    "with several shards": f"""
        n1 CREATE TABLE t1 {T}
        n2 CREATE TABLE t1 {T}
        n1 CREATE TABLE p {P}
        n2 rows t1
        n1 ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t1
        n1 rows t1""",
    "of several shards": f"""
        n1 CREATE TABLE t1 {P}
        n2 CREATE TABLE t1 {P}
        n1 CREATE TABLE u {T}
        n1 rows t1
        n1 ALTER TABLE t1 EXCHANGE PARTITION p0 WITH TABLE u
        n1 rows t1""",
    "with one that does not come out": f"""
        n1 CREATE TABLE t {P}
        n1 CREATE TABLE {{b}}.u {T}
        n1 INSERT INTO {{b}}.u VALUES (50, 'of u')
        n1 rows t
        n1 ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE {{b}}.u
        n1 ALTER TABLE t ADD w INT""",
    "of one that does not come out": f"""
        n1 CREATE TABLE t {T}
        n1 CREATE TABLE {{b}}.u {P}
        n1 INSERT INTO {{b}}.u VALUES (50, 'of u')
        n1 rows t
        n1 ALTER TABLE {{b}}.u EXCHANGE PARTITION p0 WITH TABLE t
        n1 ALTER TABLE t ADD w INT""",
}


@pytest.mark.parametrize(("name", "mode"), keeping([*EXCHANGES][:2], crossed(EXCHANGES, ("pessimistic", "optimistic"))))
def test_rows_that_change_places_with_others_unseen(stage: Stage, name: str, mode: str) -> None:
    stage.clear()
    number = 950 + list(EXCHANGES).index(name)
    story = Story(name, EXCHANGES[name], routes=(("{a}", "t?", ("{a}", "t")),))
    played = Teller(stage, story, number).tell()
    sections = {"ignore-schemas": [story.fill("{b}", number)], "shard-doubts": "error"}
    path = stage.configuration(f"exchange-{story.id}-{mode}", [played], mode, sections=sections)
    with pytest.raises(ShardDdlStopped, match=r"change places|not carried out") as caught:
        merge(path, path.parent / "out")
    assert (
        re.search("by hand|on the target", caught.value.remedy or "")
        and caught.value.position
        and caught.value.node == "n1"
    )
    path = stage.configuration(
        f"warned-{story.id}-{mode}", [played], mode, sections={**sections, "shard-doubts": "warn"}
    )
    result = merge(path, path.parent / "out")
    assert any(re.search("change places|not carried out", warning) for warning in result.warnings)
    stage.carry_out(path.parent / "out")


def test_case_is_no_difference_to_routes(stage: Stage) -> None:
    stage.clear()
    story = Story("case", f"""
        n1 CREATE TABLE Orders_1 {T}
        n2 CREATE TABLE ORDERS_2 {T}
        n1 CREATE TABLE u {T}
        n2 CREATE TABLE U {T}
        n1 rows Orders_1
        n2 rows ORDERS_2""", routes=(("{a}", "orders_*", ("{a}", "orders")),))  # fmt: skip
    played = Teller(stage, story, 960).tell()
    for name, sections in (("case-fold", {}), ("case-told", {"case-sensitive": True})):
        path = stage.configuration(name, [played], "pessimistic", sections=sections)
        result = merge(path, path.parent / "out")
        assert [warning for warning in result.warnings if "differ in nothing but case" in warning]
        stage.target.drop_databases()
        stage.carry_out(path.parent / "out")
        found = {name[1] for name in tables(stage.target)}
        assert found == ({"orders", "u", "U"} if name == "case-fold" else {"Orders_1", "ORDERS_2", "u", "U"})
