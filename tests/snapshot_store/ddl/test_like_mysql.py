"""CREATE TABLE … LIKE against a real server: what we write of the copy shows as the server's own copy does.

A random table with every attribute that SHOW CREATE TABLE knows is altered a few times and copied; our statements of
the copy then make a table whose SHOW CREATE TABLE is, but for a column's own mention of the table's character set, the
same text.
"""

import os
import random
import re
from typing import Any

import pymysql
import pytest

from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.model import Catalog, Table
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE
from snapshot_store.render_sql import make_sql
from tests.mysql_server import MySqlServer
from tests.snapshot_store.ddl.test_ddl_mysql import refusal
from tests.snapshot_store.mysql_compare import connect, query

pytestmark = pytest.mark.mysql


def listed(text: str, nothing: int = 0) -> list[str]:
    """Return the items of a list, which | or the end of a line ends, and as often nothing."""
    return [*text.strip().replace("\n", "|").split("|"), *[""] * nothing]


TYPES = listed("""
int|bigint unsigned|varchar(20)|varchar(20) character set latin1|text|blob|json|datetime(3)|timestamp null|bit(3)
timestamp not null default current_timestamp on update current_timestamp|decimal(10,2)|enum('a','b''c')|set('x','y')
binary(4)|varbinary(9)|double|year|date|time(2)|point|geometry not null srid 4326|vector(3)|tinyint(1)|int default 5
mediumint zerofill|varchar(9) default 'x''y'|int default (1+2)|json default (json_object('a',1))|int as (id+1) virtual
int as (id+1) stored|int invisible|varchar(10) not null default ''
""")
ATTRIBUTES = listed(
    """
column_format fixed|column_format dynamic|column_format default|storage disk|storage memory|comment 'c\\'m'
engine_attribute '{"a": 1}'|secondary_engine_attribute '{"b": "x"}'|not secondary|column_format fixed comment 'z'
""",
    3,
)
OPTIONS = listed("""
row_format=dynamic|row_format=compact|row_format=redundant|row_format=compressed|row_format=compressed key_block_size=8
key_block_size=4|row_format=default|stats_persistent=0|stats_persistent=1|stats_persistent=default|stats_auto_recalc=0
stats_sample_pages=30|max_rows=1000|min_rows=5|max_rows=0|avg_row_length=99|pack_keys=1|pack_keys=0|checksum=1
checksum=0|delay_key_write=1|compression='zlib'|compression='none'|compression=''|encryption='N'|comment='t\\\\x'
auto_increment=100|engine_attribute='{"k":1}'|secondary_engine_attribute='{}'|secondary_engine=rapid
secondary_engine=null|autoextend_size=4M|autoextend_size=0|insert_method=no|table_checksum=1|engine_attribute=''
""")
KEY_OPTIONS = listed(
    """
comment 'k''c'|key_block_size=4|invisible|using btree|using hash|engine_attribute '{"i": 1}'|comment ''
secondary_engine_attribute '{}'|comment 'x' using btree invisible
""",
    3,
)
KEYS = (
    "key k{n} (s) {o}",
    "unique key k{n} (s, id) {o}",
    "key k{n} using btree (s desc) {o}",
    "fulltext key k{n} (s, w) with parser ngram",
    "fulltext key k{n} (s, w) comment 'f' with parser ngram",
    "key k{n} ((lower(s))) {o}",
    "key k{n} (w(5)) {o}",
)
PARTITIONS = (
    *[""] * 5,
    "partition by hash(id) partitions 3",
    "partition by key algorithm=1 (id) partitions 2",
    "partition by range(id) (partition p0 values less than (10) comment='pp' max_rows=4, "
    "partition p1 values less than maxvalue min_rows=2)",
    "partition by list(id) (partition a values in (1,2) engine=innodb comment 'q', partition b values in (3))",
    "partition by range(id) subpartition by hash(id) subpartitions 2 (partition p0 values less than (10) "
    "(subpartition s0 comment 'i', subpartition s1), partition p1 values less than maxvalue "
    "(subpartition s2, subpartition s3 max_rows=3))",
    "partition by range columns(id) (partition p0 values less than (5), "
    "partition p1 values less than (maxvalue) comment='x')",
)
ALTERS = (
    *["alter column {c} drop default"] * 3,
    *["modify {c} {t} {a}", "{p}", "{p}", "add key n{n} (s) {o}"] * 2,
    "add fulltext key ft{n} (w) with parser ngram",
    "rename index k0 to kk{n}",
    "alter index k0 invisible",
    "drop index k0",
    *["engine=InnoDB", "engine=MyISAM", "engine=MEMORY"],
    "convert to character set latin1",
    "remove partitioning",
    "partition by hash(id) partitions 2",
    "add partition (partition px values less than (20) comment 'nn')",
    "add partition partitions 2",
    "coalesce partition 1",
    "reorganize partition p0 into (partition q0 values less than (3) comment 'q', partition p0 values less than (10))",
    "reorganize partition",
    "drop partition p1",
    "rename column {c} to r{n}",
    "add column a{n} {t} {a} first",
    "alter column s drop default",
    "drop primary key, add primary key (id) comment 'new'",
)


class Zoo:
    """Random tables and ALTERs; a server refuses some of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.columns = self.random.randint(1, 5)

    def filled(self, text: str) -> str:
        """Return a pattern with one of each in its braces."""
        one = self.random.choice
        number, column = self.random.randint(0, 99), f"c{self.random.randrange(self.columns)}"
        return text.format(t=one(TYPES), a=one(ATTRIBUTES), o=one(KEY_OPTIONS), p=one(OPTIONS), n=number, c=column)

    def create(self) -> str:
        """Return a CREATE TABLE d.src."""
        one = self.random.choice
        columns = [self.filled(f"c{i} {{t}} {{a}}") for i in range(self.columns)]
        keys = [one(KEYS).format(n=i, o=one(KEY_OPTIONS)) for i in range(self.random.randint(0, 4))]
        primary = f"primary key {one(['', 'using btree'])} (id) {one(['', 'key_block_size=2', 'comment {}'])}".format(
            "'p'"
        )
        items = ["id int not null auto_increment", *columns, "s varchar(30)", "w text", primary, *keys]
        options = " ".join(self.random.sample(OPTIONS, self.random.randint(0, 3)))
        engine = one([*[""] * 6, "engine=MyISAM", "engine=MEMORY", "engine=ARCHIVE"])
        return f"create table d.src ({', '.join(items)}) {engine} {options} {one(PARTITIONS)}"

    def alter(self) -> str:
        """Return an ALTER TABLE of it."""
        actions = self.random.sample(ALTERS, self.random.choice([1, 1, 1, 2]))
        return "alter table d.src " + ", ".join(self.filled(action) for action in actions)


def shown(session: Any, name: str) -> str:
    """Return SHOW CREATE TABLE, without a column's own mention of what is the table's character set anyhow."""
    text = str(query(session, f"SHOW CREATE TABLE {name}")[0][1])
    charset = re.findall(r"^\) .* DEFAULT CHARSET=(\w+)", text, re.MULTILINE)[0]
    return re.sub(rf" CHARACTER SET {charset}(?: COLLATE \w+)?", "", text) if charset == "latin1" else text


def copied(session: Any, seed: int) -> tuple[Table, list[str]]:
    """Make a table and a copy of it on the server; return what we know of the copy, and the statements."""
    zoo, said = Zoo(seed), list[str]()
    catalog, mode = Catalog(), zoo.random.choice([DEFAULT_SQL_MODE, 0])
    query(session, f"SET sql_mode = {'DEFAULT' if mode else repr('')}, innodb_strict_mode = {int(bool(mode))}")
    known = DdlSession(sql_mode=mode, time_zone="+00:00")
    made = next(sql for sql in iter(zoo.create, "") if not refusal(session, sql))
    alters = (zoo.alter() for _ in range(zoo.random.randint(0, 6)))
    for sql in ("CREATE DATABASE d", made, *alters, "CREATE TABLE d.cp LIKE d.src"):
        if sql in ("CREATE DATABASE d", made) or not refusal(session, sql):
            catalog = apply_ddl(catalog, sql, None, known).catalog
            said.append(sql)
    return catalog.table("d", "cp"), said


def check(server: MySqlServer, seeds: range) -> None:
    session = connect(server)
    try:
        for seed in seeds:
            for name in "de":
                query(session, f"DROP DATABASE IF EXISTS {name}")
                query(session, f"CREATE DATABASE {name}")
            table, said = copied(session, seed)
            query(session, "SET sql_mode = 'ALLOW_INVALID_DATES'")
            for sql in make_sql(table.renamed("e", "cp")):
                query(session, sql)
            assert shown(session, "e.cp") == shown(session, "d.cp"), (seed, said)
    finally:
        session.close()


def test_what_we_write_of_a_copy_is_what_the_server_has(mysql_server: MySqlServer) -> None:
    check(mysql_server, range(6))


@pytest.mark.soak
def test_many_copies(mysql_server: MySqlServer) -> None:
    first = int(os.environ.get("SOAK_SEED", "0"))
    check(mysql_server, range(first, first + int(os.environ.get("LIKE_SEEDS", "300"))))


EVERYTHING = """
CREATE TABLE d.src (id INT, a VARCHAR(20) COLUMN_FORMAT FIXED STORAGE DISK COMMENT 'a''s', b INT INVISIBLE,
  c INT, w TEXT, PRIMARY KEY (id) COMMENT 'p', KEY k USING BTREE (a) COMMENT 'k\\\\', KEY i (b) INVISIBLE,
  FULLTEXT KEY f (w) WITH PARSER ngram COMMENT 'f')
  STATS_PERSISTENT=0 STATS_AUTO_RECALC=1 STATS_SAMPLE_PAGES=9 MAX_ROWS=7 MIN_ROWS=2 AVG_ROW_LENGTH=5
  ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8 COMMENT 'all' SECONDARY_ENGINE_ATTRIBUTE='{"t": 2}';
ALTER TABLE d.src ALTER c DROP DEFAULT, MIN_ROWS=0, STATS_AUTO_RECALC=DEFAULT;
CREATE TABLE d.cp LIKE d.src
"""
SAID = (
    "`c` int,",
    "COMMENT 'k\\\\'",
    "PARSER `ngram`",
    "STATS_SAMPLE_PAGES=9",
    "COLUMN_FORMAT FIXED",
    "MAX_ROWS=7",
    "BTREE",
)


def test_everything_at_once(mysql_server: MySqlServer) -> None:
    session = connect(mysql_server)
    catalog = Catalog()
    for sql in ("CREATE DATABASE d", *EVERYTHING.split(";")):
        assert not refusal(session, sql.strip()), sql
        catalog = apply_ddl(catalog, sql.strip(), None).catalog
    query(session, "CREATE DATABASE e")
    for sql in make_sql(catalog.table("d", "cp").renamed("e", "cp")):
        query(session, sql)
    text = shown(session, "e.cp")
    assert text == shown(session, "d.cp")
    assert [said for said in SAID if said not in text] == []
    with pytest.raises(pymysql.err.MySQLError, match="default value"):
        query(session, "INSERT INTO e.cp (id) VALUES (1)")
    session.close()
