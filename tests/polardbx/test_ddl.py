"""PolarDB-X DDL in its two forms: every rule by example, executed by a real server; what holds for any statement."""

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.polardbx.ddl.convert import convert, has_private_syntax, origin_of, shard_keys_of
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.lexer import expand, tokenize
from snapshot_store.mysql.sql.session import DdlSession
from tests.effort import effort
from tests.mysql_server import MySqlServer
from tests.polardbx.ddl_cases import CASES, PRIVATE, Case
from tests.snapshot_store.ddl import ddl_corpus

SESSION = DdlSession()


def normalised(sql: str | None) -> list[str] | None:
    """Return a statement's tokens: no comments, keywords in one case, names without quotes."""
    if sql is None:
        return None
    text, _ = expand(sql, SESSION)
    tokens = tokenize(text, SESSION)
    return [repr(t.text) if t.kind == "string" else t.text.lower() for t in tokens if t.text != ";"]


def converted(case: Case) -> tuple[str | None, str]:
    result = convert(
        case.sql,
        schema=case.schema,
        table=case.table,
        collation=case.collation,
        charset=case.charset,
        indexes=case.indexes,
    )
    return result.mysql, result.origin


def test_mysql_gets_its_part() -> None:
    for case in CASES:
        mysql, origin = converted(case)
        assert normalised(mysql) == normalised(case.mysql), case.sql
        assert "\n" not in origin, case.sql
        if case.origin is not None:
            assert origin == case.origin, case.sql


@pytest.mark.mysql
def test_a_real_server_executes_every_statement(mysql_server: MySqlServer) -> None:
    connection = mysql_server.connect()
    refused = []
    # Many cases come to the same statement, which need not run twice.
    runs = {(case.before, *(normalised(converted(case)[0]) or [])): case for case in CASES}
    with connection.cursor() as cursor:
        for case in runs.values():
            mysql, _ = converted(case)
            if mysql is None:
                continue
            name = "ddl_cases"
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute("DROP DATABASE IF EXISTS d1")
            cursor.execute(f"CREATE DATABASE {name}")
            cursor.execute(f"USE {name}")
            try:
                for statement in filter(None, case.before.split(";")):
                    cursor.execute(statement)
                cursor.execute(mysql)
            except Exception as error:
                refused.append((case.sql, mysql, error))
    connection.close()
    assert not refused


PUBLIC = (
    "CREATE TABLE `t` (\n  `id` bigint NOT NULL AUTO_INCREMENT,\n\t`Name` varchar(20)  DEFAULT 'x''y' ,\n"
    "  PRIMARY KEY (`id`), KEY n (Name(3))\n) ENGINE=InnoDB  COMMENT='# not a comment'",
    "ALTER  TABLE t ADD  COLUMN c int /* why */ DEFAULT 3, DROP COLUMN d, RENAME INDEX a TO b",
    "CREATE UNIQUE INDEX i ON t (a, b) COMMENT 'i'",
    "DROP TABLE IF EXISTS t",
    "RENAME TABLE a TO b",
    "CREATE DATABASE d DEFAULT CHARACTER SET utf8mb4",
)


@pytest.mark.parametrize("sql", PUBLIC)
def test_what_is_not_private_stays_byte_for_byte(sql: str) -> None:
    assert convert(sql).mysql == sql


CLAUSES = (
    " BROADCAST",
    "\nSINGLE",
    " dbpartition by hash(id) tbpartition by hash(id) tbpartitions 2",
    " PARTITION BY KEY (id) PARTITIONS 4",
    "\nLOCALITY='dn=1'",
    " WITH TABLEGROUP=tg IMPLICIT",
    " TTL = TTL_DEFINITION(TTL_ENABLE='ON')",
    "/*!50100 PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (3) LOCALITY='x')*/",
    " -- note\n SINGLE",
)
OPTIONS = (" ENGINE=InnoDB", " COMMENT 'single'", " ROW_FORMAT = DYNAMIC", " AUTO_INCREMENT=7")
ITEMS = (
    ("b int", "b int AS (id + 1) LOGICAL"),
    ("c varchar(9) COMMENT 'by group'", "c varchar(9) COMMENT 'by group'"),
    ("INDEX x (id)", "GLOBAL INDEX x (id) COVERING (c) PARTITION BY KEY(id)"),
    ("UNIQUE KEY y (id)", "UNIQUE GLOBAL KEY y (id) dbpartition by hash(id)"),
    ("KEY z (id)", "LOCAL KEY z (id)"),
)


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, str]:
    """Make up a public CREATE TABLE, and the same with private syntax strewn in."""
    items = draw(st.lists(st.sampled_from(ITEMS), unique=True))
    tail = draw(st.lists(st.sampled_from([*OPTIONS, *CLAUSES]), unique=True, max_size=5))
    public = ["id bigint PRIMARY KEY AUTO_INCREMENT", *(i[0] for i in items)]
    private = [
        f"id bigint PRIMARY KEY AUTO_INCREMENT{draw(st.sampled_from(['', ' BY GROUP', ' UNIT COUNT 1 INDEX 0']))}"
    ]
    private += [i[1] for i in items]
    head = draw(st.sampled_from(["", "PARTITION ", "SHADOW ", "SINGLE "]))
    kept = "".join(t for t in tail if t in OPTIONS)
    return f"CREATE TABLE t ({', '.join(public)}){kept}", f"CREATE {head}TABLE t ({', '.join(private)}){''.join(tail)}"


@given(statements())
@settings(max_examples=effort(150, 300), deadline=None)
def test_private_syntax_strewn_in_is_cut_out_again(pair: tuple[str, str]) -> None:
    public, private = pair
    result = convert(private)
    assert normalised(result.mysql) == normalised(public)
    # What comes out is cut out of what went in.
    rest = iter(re.sub(r"\s", "", private))
    assert all(character in rest for character in re.sub(r"\s", "", result.mysql or ""))
    assert convert(result.mysql or "").mysql == result.mysql


@given(st.text(alphabet="CREATLDOPINX ()`'\",;=.*/!-#\n0sgt", max_size=60) | st.text(max_size=20))
@settings(max_examples=effort(150, 300), deadline=None)
def test_any_text_is_converted_or_not_understood(text: str) -> None:
    with suppress(DdlNotUnderstood):
        convert(text)
    origin_of(text)


@given(st.sampled_from(CASES), st.data())
@settings(max_examples=effort(150, 300), deadline=None)
def test_a_torn_statement_is_converted_or_not_understood(case: Case, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(case.sql)))
    with suppress(DdlNotUnderstood):
        convert(case.sql[:cut])


@pytest.mark.parametrize("sql", PRIVATE)
def test_the_origin_of_a_private_statement_is_its_text(sql: str) -> None:
    if "MOVE" in sql or "LOCALITY=" in sql:
        return
    assert origin_of(sql).origin == sql
    assert convert(sql).origin == sql


@pytest.mark.parametrize(
    ("sql", "origin"),
    [
        ("CREATE TABLEGROUP tg1 LOCALITY='dn=dn-1'", "CREATE TABLEGROUP tg1"),
        (
            "ALTER TABLE t SINGLE LOCALITY = 'x' WITH TABLEGROUP=g IMPLICIT",
            "ALTER TABLE t SINGLE WITH TABLEGROUP=g IMPLICIT",
        ),
        ("ALTER TABLEGROUP tg1 SET LOCALITY = 'dn=1'", "ALTER TABLEGROUP tg1 SET LOCALITY = 'dn=1'"),
        ("ALTER TABLEGROUP tg1 MOVE PARTITIONS p1 TO 'dn-1'", "ALTER TABLEGROUP tg1"),
        (
            "ALTER TABLE t SPLIT PARTITION p INTO (PARTITION a LOCALITY='x', PARTITION b)",
            "ALTER TABLE t SPLIT PARTITION p INTO (PARTITION a, PARTITION b)",
        ),
        ("CREATE TABLEGROUP tg1 -- mine\nPARTITION BY KEY(int)", "CREATE TABLEGROUP tg1 PARTITION BY KEY(int)"),
        ("CREATE SEQUENCE s /*DDL_ID=9*/", "CREATE SEQUENCE s"),
        (
            "CREATE JAVA FUNCTION f CODE class F { char c = '\"'; // it's\n} END_CODE",
            "CREATE JAVA FUNCTION f CODE class F { char c = '\"'; // it's\n} END_CODE",
        ),
        (
            "CREATE PROCEDURE p()\nBEGIN\n  -- why\n  SELECT 1;\nEND",
            "CREATE PROCEDURE p()\nBEGIN\n  -- why\n  SELECT 1;\nEND",
        ),
    ],
)
def test_what_polardbx_reads(sql: str, origin: str) -> None:
    assert origin_of(sql).origin == origin


def test_line_ends_that_mean_something_stay() -> None:
    sql = "CREATE TABLE t (a int)\nCOMMENT 'one\ntwo'\nsingle"
    assert convert(sql).origin == sql
    assert convert("CREATE TABLE t\n(a int)\r\nsingle").origin == "CREATE TABLE t (a int) single"


def test_the_number_of_the_job_is_read() -> None:
    assert convert("/*DDL_ID=7234*/ CREATE TABLE t (a int)").ddl_id == 7234
    assert convert("CREATE TABLE t (a int)").ddl_id == 0


def test_names_in_any_case_become_those_of_the_rows() -> None:
    def lower(sql: str, table: str | None = None) -> str | None:
        return convert(sql, table=table, lower_names=True).mysql

    assert lower("CREATE TABLE `Shop`.Orders (Id int) single", "orders") == "CREATE TABLE `shop`.orders (Id int)"
    assert lower("ALTER TABLE Orders RENAME TO Old") == "ALTER TABLE orders RENAME TO old"
    assert lower("RENAME TABLE A TO B, `C` TO d.E") == "RENAME TABLE a TO b, `c` TO d.e"
    assert lower("DROP TABLE A, B", "b") == "DROP TABLE b"
    assert lower("CREATE INDEX I ON T (A)") == "CREATE INDEX I ON t (A)"
    assert lower("CREATE TABLE t (A int, FOREIGN KEY (A) REFERENCES P (Id))") == (
        "CREATE TABLE t (A int, FOREIGN KEY (A) REFERENCES p (Id))"
    )
    assert lower("RENAME TABLE Groups TO Old") == "RENAME TABLE `groups` TO old"
    assert lower("CREATE DATABASE Shop MODE=auto") == "CREATE DATABASE shop"


MYSQLS_OWN = (
    *PUBLIC,
    "CREATE TABLE t (a int, b int AS (a) STORED UNIQUE, KEY k (a) USING HASH INVISIBLE) PARTITION BY HASH(a)",
    "CREATE TABLE t (a int, c int AUTO_INCREMENT, KEY(c)) /*!50100 PARTITION BY HASH(a) */",
    "ALTER TABLE t ADD INDEX i USING HASH (a), ALGORITHM=INPLACE, LOCK=NONE",
    "ALTER TABLE t ADD c int, DROP d PARTITION BY KEY(a)",
    "ALTER TABLE t DROP PARTITION p1",
    "ALTER TABLE t REMOVE PARTITIONING",
    "ALTER TABLE t",
    "DROP TABLE a, b",
    "CREATE PROCEDURE p() BEGIN END",
    "GRANT ALL ON *.* TO a",
    "no statement '",
)


@pytest.mark.parametrize("sql", MYSQLS_OWN)
def test_what_is_mysqls_own_is_no_private_syntax(sql: str) -> None:
    assert not has_private_syntax(sql)


def test_what_a_mysql_server_takes_is_converted_and_is_no_private_syntax() -> None:
    for file in ddl_corpus.FILES:
        for statement in ddl_corpus.statements(file):
            if statement.refused or statement.not_followed:
                continue
            assert not has_private_syntax(statement.sql, statement.session), statement.sql
            convert(statement.sql, session=statement.session)


def test_private_syntax_is_recognised() -> None:
    shared = re.compile(r"PARTITION|GENERATED|AS \(|USING|DROP (TABLE|INDEX)|TRUNCATE|groups")
    missed = [c.sql for c in CASES if c.sql != c.mysql and not has_private_syntax(c.sql)]
    assert not [sql for sql in missed if not shared.search(sql) and "`a``b`" not in sql and "t (a int)" not in sql]
    assert has_private_syntax("CREATE TABLE t (a int, GLOBAL INDEX g (a)) PARTITION BY KEY(a)")
    assert has_private_syntax("CREATE TABLEGROUP g")
    assert has_private_syntax("ALTER TABLE t SPLIT PARTITION p")


def test_the_clusters_own_indexes_join_the_users_statement() -> None:
    keys = shard_keys_of(
        "CREATE TABLE `t` (`a` int, `b` int, KEY `auto_shard_key_b` USING BTREE (`b`), KEY k (a)) broadcast"
    )
    assert [(key.name, key.first) for key in keys] == [("auto_shard_key_b", "b")]
    assert convert("CREATE TABLE t (a int, b int) dbpartition by hash(b)", shard_keys=keys).mysql == (
        "CREATE TABLE t (a int, b int, KEY `auto_shard_key_b` USING BTREE (`b`))"
    )
    own = "CREATE TABLE t (b int, KEY auto_shard_key_b (b))"
    assert convert(own, shard_keys=keys).mysql == own


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a int) UNHEARD_OF = 3",
        "CREATE TABLE t (a int) PARTITION BY",
        "CREATE TABLE t (a int",
        "CREATE GLOBAL INDEX g ON t (a) UNHEARD_OF",
        "CREATE DATABASE d UNHEARD_OF=3",
        "ALTER TABLE",
        "SELECT 1",
        "",
        "ALTER TABLE t ADD COLUMN c int AS (a",
        "DROP TABLE t 'x",
    ],
)
def test_what_is_not_known_is_not_understood(sql: str) -> None:
    with pytest.raises(DdlNotUnderstood):
        convert(sql)


def test_cases_are_told_apart() -> None:
    assert len({(case.sql, case.indexes, case.collation) for case in CASES}) == len(CASES)
