"""PolarDB-X DDL as its users write it, whole statements, beside the cases of each rule in `ddl_cases`."""

import pytest

from binlog_merge.polardbx.ddl.convert import convert, origin_of
from tests.polardbx.test_ddl import normalised

COLLATED = "DEFAULT CHARACTER SET = utf8 DEFAULT COLLATE = utf8_general_cs"
TYPED = "ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 DEFAULT COLLATE = utf8mb4_unicode_520_ci"

# (table that the marker names, statement, what MySQL executes)
EXAMPLES = (
    ("t", f"CREATE PARTITION TABLE t (a int, PRIMARY KEY (a)) {TYPED} dbpartition by hash(a)",
     f"CREATE TABLE t (a int, PRIMARY KEY (a)) {TYPED}"),
    ("t", "CREATE TABLE t (id int(11) NOT NULL AUTO_INCREMENT BY GROUP, PRIMARY KEY (id)) ENGINE=InnoDB "
     "AUTO_INCREMENT=200006 DEFAULT CHARSET=utf8mb4 broadcast",
     "CREATE TABLE t (id int(11) NOT NULL AUTO_INCREMENT, PRIMARY KEY (id)) ENGINE=InnoDB "
     "AUTO_INCREMENT=200006 DEFAULT CHARSET=utf8mb4"),
    ("hash_test4", "CREATE TABLE hash_test4 (id int NOT NULL, PRIMARY KEY (id)) single",
     f"CREATE TABLE hash_test4 (id int NOT NULL, PRIMARY KEY (id)) {COLLATED}"),
    ("a", "CREATE TABLE a LIKE b", "CREATE TABLE a LIKE b"),
    ("meng`shi1", "create table `meng``shi1` (a int) tablegroup `tgtest`",
     f"create table `meng``shi1` (a int) {COLLATED}"),
    (None, "CREATE UNIQUE CLUSTERED INDEX i ON t (id)", "CREATE UNIQUE INDEX i ON t (id)"),
    (None, "CREATE LOCAL INDEX i ON t (i)", "CREATE INDEX i ON t (i)"),
    (None, "ALTER TABLE t ADD LOCAL INDEX i (i)", "ALTER TABLE t ADD INDEX i (i)"),
    (None, "ALTER TABLE t ADD COLUMN g1 int AS (a+b) LOGICAL AFTER c", "ALTER TABLE t ADD COLUMN g1 int AFTER c"),
    (None, "alter table pt_k_2 partition align to tg2", "ALTER TABLE pt_k_2"),
    (None, "alter table nnn change column b bb bigint, ALGORITHM=OMC", "alter table nnn change column b bb bigint"),
    (None, "alter table nnn change column b bb bigint, ALGORITHM = COPY",
     "alter table nnn change column b bb bigint, ALGORITHM = COPY"),
    (None, "ALTER TABLE t MODIFY COLUMN c1 bigint UNSIGNED NOT NULL AUTO_INCREMENT BY GROUP",
     "ALTER TABLE t MODIFY COLUMN c1 bigint UNSIGNED NOT NULL AUTO_INCREMENT"),
    (None, "DROP TABLE IF EXISTS t PURGE", "DROP TABLE IF EXISTS t"),
    ("t", "CREATE TABLE t (a int, b int, LOCAL KEY `index_mix_2` (a,b))",
     f"CREATE TABLE t (a int, b int, KEY `index_mix_2` (a,b)) {COLLATED}"),
    (None, "alter table t add global index g(buyer_id) COVERING(seller_id) dbpartition by hash(buyer_id) "
     "tbpartition by hash(buyer_id) tbpartitions 3;", "ALTER TABLE t ADD INDEX g (buyer_id)"),
    (None, "alter table t add unique global index g(buyer_id) dbpartition by hash(buyer_id)",
     "ALTER TABLE t ADD UNIQUE INDEX g (buyer_id)"),
    ("__test_x", "create shadow table __test_x (id int primary key, name varchar(20), "
     "global index g (name) partition by hash(name)) partition by hash(id)",
     f"CREATE TABLE __test_x (id int PRIMARY KEY, name varchar(20), INDEX g(name)) {COLLATED}"),
    (None, "alter table t modify ttl set ttl_job = cron '0 0 1 */1 * ? *'", "ALTER TABLE t"),
    ("t", "create table t (c1 int auto_increment unit count 1 index 0 step 100, key (c1))",
     f"create table t (c1 int auto_increment, key (c1)) {COLLATED}"),
    ("t", "create table t (c1 int, c2 int, CLUSTERED COLUMNAR INDEX `i`(`c2`) PARTITION BY KEY(c1) "
     "WITH TABLEGROUP=tg1 IMPLICIT)", f"create table t (c1 int, c2 int, INDEX `i`(`c2`)) {COLLATED}"),
    ("t", "create table t (r int, INDEX i(r) DICTIONARY_COLUMNS = 'r') ",
     f"create table t (r int, INDEX i(r)) {COLLATED}"),
    ("t", "create table t (a int, b int, global index (b) partition by key(b) with tablegroup='x' implicit, "
     "unique global key g3(a), global unique index g4(a))",
     f"create table t (a int, b int, index b (b), unique key g3 (a), unique index g4 (a)) {COLLATED}"),
    (None, "create global unique index g1 on t1(a) partition by key(a) with tablegroup='x' implicit",
     "CREATE UNIQUE INDEX g1 ON t1 (a)"),
    (None, "alter table t add unique key idx1(a) with tablegroup='x' implicit",
     "ALTER TABLE t ADD UNIQUE KEY idx1 (a)"),
    ("bb", "drop table aa.bb,aa.zz,xx.bb", "drop table aa.bb"),
    ("bb", "drop table bb,cc,dd", "drop table bb"),
    ("t", "/*+tddl:cmd_extra(allow_alter_gsi_indirectly=true)*//*DDL_ID=1234*/drop table t", "DROP TABLE t"),
)  # fmt: skip


@pytest.mark.parametrize(("table", "sql", "mysql"), EXAMPLES, ids=[e[1][:60] for e in EXAMPLES])
def test_what_mysql_executes(table: str | None, sql: str, mysql: str) -> None:
    schema = "aa" if table == "bb" else None
    made = convert(sql, schema=schema, table=table, collation="utf8_general_cs", charset="utf8")
    assert normalised(made.mysql) == normalised(mysql)


def test_the_number_of_the_job_is_read_from_its_hint() -> None:
    assert convert("/*+tddl:cmd_extra(a=true)*//*DDL_ID=1234*/drop table t", table="t").ddl_id == 1234


@pytest.mark.parametrize(
    ("sql", "origin"),
    [
        ("CREATE TABLEGROUP tg1 LOCALITY='dn=dn-1'", "CREATE TABLEGROUP tg1"),
        (
            "ALTER TABLE t1 SINGLE LOCALITY='dn=dn-1' WITH TABLEGROUP=x IMPLICIT",
            "ALTER TABLE t1 SINGLE WITH TABLEGROUP=x IMPLICIT",
        ),
    ],
)
def test_what_polardbx_reads_says_nothing_of_places(sql: str, origin: str) -> None:
    assert origin_of(sql).origin.split() == origin.split()
