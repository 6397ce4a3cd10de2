"""What statements do to which tables; and which tables a query names, as a server says it."""

import pytest

from snapshot_store.ddl.effects import Effects, Verb, effects_of
from snapshot_store.ddl.parse.statement import parse_statement, qualified_tables, without_schema
from snapshot_store.mysql.sql.session import DdlSession

SESSION = DdlSession()


def effects(sql: str) -> Effects:
    return effects_of(parse_statement(sql, SESSION), "d")


def dotted(names: tuple[tuple[str, str], ...]) -> list[str]:
    return [".".join(name) for name in names]


TOLD = [
    ("CREATE TABLE a (x INT)", "make d.a"),
    ("CREATE TABLE a LIKE e.b", "make d.a, copy shape d.a e.b"),
    ("CREATE TABLE a SELECT x FROM b JOIN e.c USING (x)", "make d.a, copy rows d.a d.b, copy rows d.a e.c"),
    ("CREATE TABLE e.a (x INT, FOREIGN KEY (x) REFERENCES b (x))", "make e.a, refer e.a e.b"),
    ("CREATE TABLE a (x INT REFERENCES e.b (x))", "make d.a, refer d.a e.b"),
    ("ALTER TABLE a ADD FOREIGN KEY (x) REFERENCES b (x)", "refer d.a d.b, change d.a"),
    ("ALTER TABLE a ADD y INT REFERENCES b (x)", "refer d.a d.b, change d.a"),
    ("ALTER TABLE a ADD y INT, RENAME TO e.b", "change d.a, move e.b d.a"),
    ("ALTER TABLE a RENAME b, RENAME c", "move d.c d.a"),
    ("ALTER TABLE a RENAME a", "change d.a"),
    ("ALTER TABLE a ORDER BY x", "change d.a"),
    ("ALTER TABLE a", "change d.a"),
    ("CREATE INDEX i ON a (x)", "change d.a"),
    ("DROP INDEX i ON a", "change d.a"),
    ("RENAME TABLE a TO b, e.c TO d", "move d.b d.a, move d.d e.c"),
    ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE e.b", "exchange d.a e.b"),
    ("ALTER TABLE a TRUNCATE PARTITION p", "empty d.a"),
    ("ALTER TABLE a DROP PARTITION p", "empty d.a, change d.a"),
    ("ALTER TABLE a REORGANIZE PARTITION", "change d.a"),
    ("ALTER TABLE a DISCARD TABLESPACE", "file d.a"),
    ("ALTER TABLE a IMPORT TABLESPACE", "file d.a"),
    ("ALTER TABLE a DISCARD PARTITION p TABLESPACE", "file d.a"),
    ("ALTER TABLE a IMPORT PARTITION p TABLESPACE", "file d.a"),
    ("TRUNCATE e.a", "empty e.a"),
    ("DROP TABLE a, e.b", "drop d.a, drop e.b"),
    ("DROP VIEW IF EXISTS a", "drop d.a"),
    ("CREATE DATABASE e", "make e."),
    ("ALTER DATABASE CHARACTER SET latin1", "change d."),
    ("DROP DATABASE e", "drop e."),
    ("CREATE VIEW v AS SELECT * FROM a", "make d.v, refer d.v d.a"),
    ("GRANT ALL ON *.* TO u", ""),
    ("CREATE TEMPORARY TABLE a (x INT)", ""),
]


@pytest.mark.parametrize(("sql", "told"), TOLD)
def test_what_a_statement_does(sql: str, told: str) -> None:
    found = [(e.verb.value, e.table, e.other) for e in effects(sql).all]
    assert ", ".join(" ".join([v, *(".".join(n) for n in (t, o) if n is not None)]) for v, t, o in found) == told


def test_where_the_tables_of_a_swap_come_from() -> None:
    found = effects("RENAME TABLE a TO x, b TO a, x TO b, c TO y, y TO z")
    assert found.origins == {("d", "a"): ("d", "b"), ("d", "b"): ("d", "a"), ("d", "z"): ("d", "c")}
    assert set(found.rows) == {(("d", "b"), ("d", "a")), (("d", "a"), ("d", "b")), (("d", "c"), ("d", "z"))}
    assert dotted(found.tables) == ["d.a", "d.x", "d.b", "d.c", "d.y", "d.z"]


def test_a_rename_there_and_back_moves_nothing() -> None:
    assert effects("RENAME TABLE a TO x, x TO a").origins == {}


def test_an_exchange_moves_rows_both_ways() -> None:
    found = effects("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b")
    assert set(found.rows) == {(("d", "a"), ("d", "b")), (("d", "b"), ("d", "a"))}


def test_what_is_only_needed() -> None:
    found = effects("CREATE TABLE a (x INT, y INT, FOREIGN KEY (x) REFERENCES a (y), FOREIGN KEY (y) REFERENCES b (x))")
    assert (dotted(found.changed), dotted(found.needed)) == (["d.a"], ["d.b"])
    assert dotted(effects("CREATE TABLE a LIKE b").needed) == ["d.b"]
    assert dotted(effects("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b").needed) == []


def test_items_of_a_list_stand_apart() -> None:
    found = effects("RENAME TABLE a TO b, b TO c")
    assert found.of_item(1).moves == ((("d", "b"), ("d", "c")),)
    assert effects("DROP TABLE a, b").of_item(1).having(Verb.DROP) == (("d", "b"),)


QUERIES = [
    ("SELECT 1", ""),
    ("SELECT * FROM a", "d.a"),
    ("SELECT a.x, (SELECT max(y) FROM b), c.z FROM a, c WHERE a.x IN (SELECT x FROM e.f)", "d.a d.b d.c e.f"),
    ("SELECT trim(leading 'x' from a.s), extract(year from a.t), substring(s from 2) FROM a", "d.a"),
    ("SELECT * FROM a x LEFT JOIN b y ON x.i = y.i AND y.j > 1, (SELECT * FROM c) z", "d.a d.b d.c"),
    ("SELECT * FROM (a CROSS JOIN b) STRAIGHT_JOIN c USING (i)", "d.a d.b d.c"),
    ("SELECT STRAIGHT_JOIN a.i FROM a JOIN b", "d.a d.b"),
    ("WITH q AS (SELECT i FROM a), r(k) AS (SELECT i FROM q) SELECT * FROM r JOIN b ON r.k = b.i", "d.a d.b"),
    ("WITH RECURSIVE q AS (SELECT 1 i UNION ALL SELECT i + 1 FROM q WHERE i < 3) SELECT * FROM q, a", "d.a"),
    ("SELECT * FROM a UNION SELECT * FROM b ORDER BY 1 LIMIT 3", "d.a d.b"),
    ("TABLE a", "d.a"),
    ("SELECT * FROM a, JSON_TABLE(a.j, '$[*]' COLUMNS (k INT PATH '$')) jt, b", "d.a d.b"),
    ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.i = a.i) l", "d.a d.b"),
    ("SELECT * FROM `a` USE INDEX (PRIMARY), `e`.`f` AS b WHERE `a`.i = b.i", "d.a e.f"),
    ("SELECT count(*) OVER (PARTITION BY s ORDER BY i), group_concat(s ORDER BY s) FROM a GROUP BY i, s", "d.a"),
    ("SELECT 1 FROM DUAL WHERE EXISTS (SELECT * FROM b)", "d.b"),
    ("SELECT i FROM a WHERE s = 'x FROM c, d' /* FROM c */ FOR SHARE", "d.a"),
    ("(SELECT i FROM a) UNION (SELECT i FROM b)", "d.a d.b"),
    ("VALUES ROW(1), ROW(2)", ""),
    ("SELECT 1 FROM a NATURAL JOIN b INNER JOIN (c, e.f) ON a.i = c.i", "d.a d.b d.c e.f"),
]


@pytest.mark.parametrize(("query", "tables"), QUERIES)
def test_tables_of_a_view(query: str, tables: str) -> None:
    found = dotted(effects(f"CREATE VIEW v AS {query}").others(Verb.REFER))
    assert sorted(found) == tables.split()


@pytest.mark.parametrize("sql", [sql for sql, _ in TOLD])
def test_a_statement_without_a_schema_does_the_same_where_that_is_the_default(sql: str) -> None:
    left = without_schema(sql, SESSION, "e")
    assert effects_of(parse_statement(left, SESSION), "e") == effects_of(parse_statement(sql, SESSION), "e")
    assert {schema for schema, _ in qualified_tables(left, SESSION)} == {
        schema for schema, _ in qualified_tables(sql, SESSION) if schema != "e"
    }


def test_only_names_of_tables_lose_their_schema() -> None:
    told = {
        "CREATE TABLE `e` . `a` (`e` INT COMMENT 'e.a') -- e.a": "CREATE TABLE `a` (`e` INT COMMENT 'e.a') -- e.a",
        "ALTER TABLE e.a ADD CHECK (e.a.x > 1), RENAME e.e": "ALTER TABLE a ADD CHECK (e.a.x > 1), RENAME e",
        "RENAME TABLE e.a /* e. */ TO E.a, `e`.`e.a` TO e.`e`": "RENAME TABLE a /* e. */ TO E.a, `e.a` TO `e`",
        "DROP TABLE e.a /*!50000 , e.b */": "DROP TABLE a /*!50000 , b */",
        "DROP DATABASE e": "DROP DATABASE e",
    }
    for sql, wanted in told.items():
        assert without_schema(sql, SESSION, "e") == wanted
