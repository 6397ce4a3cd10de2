"""DDL as PolarDB-X users write it, and what MySQL must execute of it.

Each case stands alone: `before` are statements for MySQL that make what the statement needs. Syntax from PolarDB-X's
public documentation (AUTO and DRDS mode); statements are of our own writing.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A statement, what MySQL executes of it (None: nothing), and what the marker says of its table."""

    sql: str
    mysql: str | None
    before: str = ""
    table: str | None = None
    schema: str | None = None
    collation: str | None = None
    charset: str | None = None
    indexes: frozenset[str] | None = None
    origin: str | None = None


T = "CREATE TABLE t (a INT, b INT, c INT, d VARCHAR(20))"
TK = "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, d VARCHAR(20), KEY k (b))"
BODY = "(a int PRIMARY KEY, b int, dt datetime)"


def _tail(clause: str) -> Case:
    """Return a CREATE TABLE with a clause that goes."""
    return Case(f"CREATE TABLE t {BODY} {clause}", f"CREATE TABLE t {BODY}")


TABLES = [
    *map(
        _tail,
        [
            "BROADCAST",
            "SINGLE",
            "single locality='dn=dn-1'",
            "broadcast locality = 'dn=dn-1,dn-2'",
            "dbpartition by hash(a)",
            "dbpartition by hash(`a`) dbpartitions 2",
            "DBPARTITION BY HASH(a) TBPARTITION BY HASH(a) TBPARTITIONS 3",
            "dbpartition by hash(a) tbpartition by hash(b) tbpartitions 4",
            "dbpartition by hash(b) tbpartition by MM(dt) tbpartitions 12",
            "dbpartition by hash(b) tbpartition by DD(dt) tbpartitions 31",
            "dbpartition by hash(b) tbpartition by WEEK(dt) tbpartitions 7",
            "dbpartition by hash(b) tbpartition by MMDD(dt) tbpartitions 365",
            "dbpartition by YYYYMM(dt) tbpartition by YYYYMM(dt) tbpartitions 4",
            "dbpartition by YYYYWEEK(dt) tbpartition by YYYYWEEK(dt) tbpartitions 4",
            "dbpartition by YYYYDD(dt) tbpartition by YYYYDD(dt) tbpartitions 4",
            "dbpartition by RIGHT_SHIFT(a, 8) tbpartition by RIGHT_SHIFT(a, 8) tbpartitions 4",
            "dbpartition by RANGE_HASH(a, b, 10) tbpartition by RANGE_HASH(a, b, 10) tbpartitions 3",
            "dbpartition by UNI_HASH(a) tbpartition by UNI_HASH(a) tbpartitions 2",
            "dbpartition by STR_HASH(`d`, 0, 4, 31, 0)",
            "tbpartition by hash(b) STARTWITH 2 ENDWITH 5",
            "tbpartition by hash(b) tbpartitions 2",
            "PARTITION BY KEY(a) PARTITIONS 16",
            "PARTITION BY KEY(a, b)",
            "PARTITION BY HASH(YEAR(dt)) PARTITIONS 8",
            "PARTITION BY HASH(TO_DAYS(dt))",
            "PARTITION BY LINEAR HASH (a) PARTITIONS 4",
            "PARTITION BY KEY ALGORITHM = 2 (a) PARTITIONS 4",
            "PARTITION BY CO_HASH(RIGHT(a, 4), RIGHT(b, 4)) PARTITIONS 8",
            "PARTITION BY UDF_HASH(my_hash(a)) PARTITIONS 8",
            "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
            "PARTITION BY RANGE COLUMNS (a, b) (PARTITION p0 VALUES LESS THAN (10, 3) LOCALITY='dn=dn-1')",
            "PARTITION BY RANGE (TO_DAYS(dt)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2021-01-01')) ENGINE = InnoDB)",
            "PARTITION BY LIST (a) (PARTITION p1 VALUES IN (1, 2) LOCALITY 'dn=1', PARTITION pd VALUES IN (DEFAULT))",
            "PARTITION BY LIST COLUMNS (a, b) (PARTITION p1 VALUES IN ((1, 2), (3, 4)))",
            "PARTITION BY KEY (a) PARTITIONS 2 SUBPARTITION BY KEY (b) SUBPARTITIONS 4",
            "PARTITION BY LIST (a) PARTITIONS 2 SUBPARTITION BY RANGE (b) "
            "(SUBPARTITION s1 VALUES LESS THAN (10), SUBPARTITION s2 VALUES LESS THAN (MAXVALUE)) "
            "(PARTITION p1 VALUES IN (1), PARTITION p2 VALUES IN (2))",
            "PARTITION BY HASH (a) SUBPARTITION BY HASH (YEAR(dt)) SUBPARTITIONS 3 (PARTITION p1 SUBPARTITIONS 2)",
            "PARTITION BY KEY(a) PARTITIONS 3 LOCALITY='dn=dn-1' WITH TABLEGROUP = tg1 IMPLICIT",
            "PARTITION BY KEY(a) PARTITIONS 3 TABLEGROUP = tg1",
            "PARTITION BY KEY(a) tablegroup `tg 1`",
            "single WITH TABLEGROUP='single_tg' IMPLICIT",
            "JOINGROUP = jg1 PARTITION BY KEY(a)",
            "PARTITION BY KEY(a) AUTO_SPLIT=ON",
            "LOCAL PARTITION BY RANGE (dt) STARTWITH '2021-01-01' INTERVAL 1 MONTH EXPIRE AFTER 12 PRE ALLOCATE 6 "
            "PIVOTDATE NOW() DISABLE SCHEDULE",
            "PARTITION BY HASH(a) PARTITIONS 2\nLOCAL PARTITION BY RANGE (dt)\nINTERVAL 1 MONTH\nEXPIRE AFTER 1\n"
            "PRE ALLOCATE 3\nPIVOTDATE DATE_ADD(NOW(), interval 4 month)",
            "TTL = TTL_DEFINITION(TTL_ENABLE = 'ON', TTL_EXPR = `dt` EXPIRE AFTER 2 MONTH TIMEZONE '+08:00', "
            "TTL_JOB = CRON '0 0 2 */1 * ? *' TIMEZONE '+08:00') PARTITION BY KEY(a) PARTITIONS 2",
            "TTL_EXPR = `dt` EXPIRE AFTER 2 DAY TIMEZONE '+08:00' TTL_ENABLE = 'OFF' TTL_JOB = CRON '0' TIMEZONE 'x'",
            "PARTITION BY RANGE (dt) STARTWITH '2021-01-01' INTERVAL 1 MONTH EXPIRE AFTER 12 PRE ALLOCATE 6",
            "TTL_LEVEL = 'ROW' TTL_TEMPORARY = 'Y' ARCHIVE_TABLE_NAME = 'x' PARTITION BY KEY(a)",
            "EXTPARTITION (dbpartition g1 by '1' tbpartition t1 by '2')",
            "PARTITION BY KEY(a) ASYNC = true",
            "/*!50100 PARTITION BY HASH (a) PARTITIONS 4 */",
            "/*+TDDL:cmd_extra(ENABLE_ASYNC_DDL=true)*/ SINGLE",
        ],
    ),
    Case("CREATE PARTITION TABLE t (a int PRIMARY KEY)", "CREATE TABLE t (a int PRIMARY KEY)"),
    Case("create broadcast table if not exists t (a int)", "create table if not exists t (a int)"),
    Case("create single table t (a int)", "create table t (a int)"),
    Case("create shadow table __test_t (a int) dbpartition by hash(a)", "create table __test_t (a int)"),
    Case(
        "CREATE TABLE t (a int) ENGINE=InnoDB dbpartition by hash(a) COMMENT='PARTITION BY' ROW_FORMAT=DYNAMIC",
        "CREATE TABLE t (a int) ENGINE=InnoDB COMMENT='PARTITION BY' ROW_FORMAT=DYNAMIC",
    ),
    Case(
        "CREATE TABLE t (a int) single AUTO_INCREMENT = 100 UNIT COUNT 2 INDEX 1, COMMENT 'x'",
        "CREATE TABLE t (a int) AUTO_INCREMENT = 100, COMMENT 'x'",
    ),
    Case(
        "CREATE TABLE t (a int) -- how it is laid\nSINGLE -- as one\nENGINE = InnoDB # why\n",
        "CREATE TABLE t (a int) ENGINE = InnoDB",
        origin="CREATE TABLE t (a int) SINGLE ENGINE = InnoDB",
    ),
    Case("CREATE TABLE t (a int) ENGINE='XENGINE' COMMENT 'x'", "CREATE TABLE t (a int) COMMENT 'x'"),
    Case("CREATE TABLE t (a int) ENGINE = OSS ARCHIVE_MODE = 'EMPTY'", "CREATE TABLE t (a int)"),
    Case("CREATE TABLE t (a int) ENGINE=InnoDB , single", "CREATE TABLE t (a int) ENGINE=InnoDB"),
    Case(
        "CREATE TABLE t (a int) single, ENGINE=InnoDB, COMMENT 'x'", "CREATE TABLE t (a int) ENGINE=InnoDB, COMMENT 'x'"
    ),
    Case(
        "CREATE TABLE t (a int) ENGINE=InnoDB, LOCALITY='x', JOINGROUP=j, COMMENT 'x', single",
        "CREATE TABLE t (a int) ENGINE=InnoDB, COMMENT 'x'",
    ),
    Case("CREATE TABLE u LIKE t", "CREATE TABLE u LIKE t", T, collation="utf8mb4_bin"),
    Case("CREATE TABLE u LIKE t ENGINE = 'COLUMNAR' ARCHIVE_MODE = 'TTL'", "CREATE TABLE u LIKE t", T),
    Case("CREATE TABLE u (LIKE t)", "CREATE TABLE u (LIKE t)", T),
    # The collation.
    Case(
        "CREATE TABLE t (a int) single",
        "CREATE TABLE t (a int) DEFAULT CHARACTER SET = utf8mb4 DEFAULT COLLATE = utf8mb4_general_ci",
        collation="utf8mb4_general_ci",
        origin="CREATE TABLE t (a int) DEFAULT CHARACTER SET = utf8mb4 DEFAULT COLLATE = utf8mb4_general_ci single",
    ),
    Case(
        "CREATE TABLE t (a int) broadcast CHARSET=gbk COMMENT 'x'",
        "CREATE TABLE t (a int) CHARSET=gbk COMMENT 'x' DEFAULT COLLATE = gbk_bin",
        collation="gbk_bin",
    ),
    Case(
        "CREATE TABLE t (a int) CHARSET=utf8 COLLATE utf8_bin",
        "CREATE TABLE t (a int) CHARSET=utf8 COLLATE utf8_bin",
        collation="utf8mb3_bin",
    ),
    Case(
        "CREATE TABLE t (a int) CHARSET latin1", "CREATE TABLE t (a int) CHARSET latin1", collation="utf8mb4_general_ci"
    ),
    # The table's name is the marker's.
    Case("CREATE TABLE t (a int)", "CREATE TABLE `a``b` (a int)", table="a`b"),
    Case("create table `meng``shi1` (a int) single", "create table `meng``shi1` (a int)", table="meng`shi1"),
    Case("create table \u8ba2\u5355 (a int) broadcast", "create table \u8ba2\u5355 (a int)"),
]

COLUMNS = [
    Case(
        f"CREATE TABLE t (id bigint NOT NULL AUTO_INCREMENT {count} COMMENT 'by group', PRIMARY KEY (id)) BROADCAST",
        "CREATE TABLE t (id bigint NOT NULL AUTO_INCREMENT COMMENT 'by group', PRIMARY KEY (id))",
    )
    for count in (
        "BY GROUP",
        "by simple",
        "BY NEW",
        "BY TIME",
        "BY SIMPLE WITH CACHE",
        "UNIT COUNT 2 INDEX 1",
        "BY GROUP UNIT COUNT 4 INDEX 3 STEP 200",
        "UNIT COUNT 1 INDEX 0 STEP 100",
    )
] + [
    Case(
        "CREATE TABLE t (a int primary key, c int AUTO_INCREMENT BY GROUP)",
        "CREATE TABLE t (a int primary key, c int AUTO_INCREMENT, KEY (`c`))",
    ),
    Case(
        "CREATE TABLE t (a int, c int AUTO_INCREMENT, PRIMARY KEY (a, c), GLOBAL INDEX g (c) PARTITION BY KEY(c))",
        "CREATE TABLE t (a int, c int AUTO_INCREMENT, PRIMARY KEY (a, c), INDEX g (c))",
    ),
    Case("CREATE TABLE t (c int AUTO_INCREMENT UNIQUE) single", "CREATE TABLE t (c int AUTO_INCREMENT UNIQUE)"),
    Case("CREATE TABLE t (c serial) single", "CREATE TABLE t (c serial)"),
    *[
        Case(f"CREATE TABLE t (a int, b int, g int {how}, h int)", "CREATE TABLE t (a int, b int, g int, h int)")
        for how in (
            "AS (a + b)",
            "AS (a + b) LOGICAL",
            "AS (a + b) VIRTUAL",
            "GENERATED ALWAYS AS (a + b) STORED",
            "GENERATED ALWAYS AS (if(a > 0, ',', ')') = b) LOGICAL",
        )
    ],
    Case(
        "CREATE TABLE t (a int, g int AS (a) STORED NOT NULL COMMENT 'as (x)')",
        "CREATE TABLE t (a int, g int NOT NULL COMMENT 'as (x)')",
    ),
    Case(
        "CREATE TABLE t (a int, _drds_implicit_id_ bigint NOT NULL AUTO_INCREMENT, PRIMARY KEY (_drds_implicit_id_)) "
        "dbpartition by hash(a)",
        "CREATE TABLE t (a int)",
        origin="CREATE TABLE t (a int) dbpartition by hash(a)",
    ),
    Case(
        "CREATE TABLE t (`_drds_implicit_id_` bigint NOT NULL AUTO_INCREMENT, a int, b int, KEY (b), "
        "PRIMARY KEY (`_drds_implicit_id_`))",
        "CREATE TABLE t (a int, b int, KEY (b))",
    ),
    # Reserved in MySQL since 8.0.
    Case(
        "CREATE TABLE groups (rank int, row int DEFAULT 0, `system` int, KEY lead (rank, row)) single",
        "CREATE TABLE `groups` (`rank` int, `row` int DEFAULT 0, `system` int, KEY `lead` (`rank`, `row`))",
    ),
    # Words that are PolarDB-X's elsewhere are names of columns here.
    Case(
        "CREATE TABLE t (local int, global int, clustered int, single int, broadcast int, ttl int, locality int, "
        "step int, unit int, `as` int, KEY local (global)) single",
        "CREATE TABLE t (local int, global int, clustered int, single int, broadcast int, ttl int, locality int, "
        "step int, unit int, `as` int, KEY local (global))",
    ),
    Case(
        "CREATE TABLE t (a enum('single', 'AS (b)') DEFAULT 'single', b varchar(20) DEFAULT 'by group') single",
        "CREATE TABLE t (a enum('single', 'AS (b)') DEFAULT 'single', b varchar(20) DEFAULT 'by group')",
    ),
    Case(
        "CREATE TABLE t (a datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, b int CHECK (b > 0)) single",
        "CREATE TABLE t (a datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, b int CHECK (b > 0))",
    ),
]

_PART = "PARTITION BY KEY(b) PARTITIONS 4"


def _index(written: str, left: str) -> Case:
    return Case(
        f"CREATE TABLE t (a int PRIMARY KEY, b int, c int, d varchar(20), {written}) PARTITION BY KEY(a)",
        f"CREATE TABLE t (a int PRIMARY KEY, b int, c int, d varchar(20), {left})",
    )


INDEXES = [
    _index(f"GLOBAL INDEX g (b) {_PART}", "INDEX g (b)"),
    _index(f"GLOBAL INDEX `g`(`b`) COVERING (`c`, `d`) {_PART}", "INDEX `g`(`b`)"),
    _index(f"UNIQUE GLOBAL INDEX g (b) {_PART}", "UNIQUE INDEX g (b)"),
    _index(f"GLOBAL UNIQUE INDEX g (b) {_PART}", "UNIQUE INDEX g (b)"),
    _index(f"UNIQUE GLOBAL KEY g (b) COVERING (c) {_PART}", "UNIQUE KEY g (b)"),
    _index("GLOBAL INDEX g (b) dbpartition by hash(b) tbpartition by hash(b) tbpartitions 3", "INDEX g (b)"),
    _index(f"CLUSTERED INDEX g (b) {_PART}", "INDEX g (b)"),
    _index(f"UNIQUE CLUSTERED INDEX g (b) {_PART}", "UNIQUE INDEX g (b)"),
    _index(f"CLUSTERED UNIQUE INDEX g (b) {_PART}", "UNIQUE INDEX g (b)"),
    _index(f"CLUSTERED COLUMNAR INDEX g (b) {_PART}", "INDEX g (b)"),
    _index('CLUSTERED COLUMNAR INDEX g (b) PARTITION BY HASH(b) COLUMNAR_OPTIONS=\'{"type":"x"}\'', "INDEX g (b)"),
    _index("LOCAL INDEX g (b), LOCAL UNIQUE KEY h (c)", "INDEX g (b), UNIQUE KEY h (c)"),
    _index("UNIQUE LOCAL INDEX g (b)", "UNIQUE INDEX g (b)"),
    _index("LOCAL FULLTEXT INDEX f (d)", "FULLTEXT INDEX f (d)"),
    _index(f"GLOBAL INDEX g (b) COMMENT 'PARTITION BY x' {_PART} INVISIBLE", "INDEX g (b) COMMENT 'PARTITION BY x'"),
    _index(f"GLOBAL INDEX g USING BTREE (b DESC, d(3)) {_PART} VISIBLE", "INDEX g USING BTREE (b DESC, d(3)) VISIBLE"),
    _index(f"GLOBAL INDEX g (b) {_PART} WITH TABLEGROUP = tg1 IMPLICIT, KEY k (c)", "INDEX g (b), KEY k (c)"),
    _index(f"GLOBAL INDEX g (b) {_PART} LOCALITY='dn=dn-1'", "INDEX g (b)"),
    _index("INDEX g (b) DICTIONARY_COLUMNS = 'd'", "INDEX g (b)"),
    _index(f"GLOBAL INDEX (b) {_PART}", "INDEX b (b)"),
    _index(f"GLOBAL INDEX (b) {_PART}, UNIQUE GLOBAL INDEX (b, c) {_PART}", "INDEX (b), UNIQUE INDEX (b, c)"),
    _index(f"KEY b (c), GLOBAL INDEX (b) {_PART}", "KEY b (c), INDEX (b)"),
    _index(f"CONSTRAINT x UNIQUE GLOBAL (b) {_PART}", "CONSTRAINT x UNIQUE GLOBAL (b)"),
    _index("KEY e ((b + c), a)", "KEY e ((b + c), a)"),
    _index("KEY e (b + c DESC, abs(c), a ASC)", "KEY e ((b + c) DESC, (abs(c)), a ASC)"),
    _index("CONSTRAINT ck CHECK (b > 0), KEY (c)", "CONSTRAINT ck CHECK (b > 0), KEY (c)"),
    Case(f"CREATE GLOBAL INDEX g ON t (b) COVERING (c) {_PART}", "CREATE INDEX g ON t (b)", TK),
    Case(f"CREATE UNIQUE GLOBAL INDEX g ON t (b) {_PART}", "CREATE UNIQUE INDEX g ON t (b)", TK),
    Case(f"CREATE GLOBAL UNIQUE INDEX g ON t (b) {_PART}", "CREATE UNIQUE INDEX g ON t (b)", TK),
    Case("CREATE UNIQUE CLUSTERED INDEX g ON t (b)", "CREATE UNIQUE INDEX g ON t (b)", TK),
    Case(f"CREATE CLUSTERED INDEX g USING BTREE ON t (b) {_PART}", "CREATE INDEX g USING BTREE ON t (b)", TK),
    Case(f"CREATE CLUSTERED COLUMNAR INDEX g ON t (b) {_PART}", "CREATE INDEX g ON t (b)", TK),
    Case(
        "CREATE CLUSTERED COLUMNAR INDEX g ON t (b) ENGINE = 'EXTERNAL_DISK' COLUMNAR_OPTIONS = '{}'",
        "CREATE INDEX g ON t (b)",
        TK,
    ),
    Case("CREATE LOCAL INDEX g ON t (b)", "CREATE INDEX g ON t (b)", TK),
    Case("CREATE INDEX g USING HASH ON t (b DESC)", "CREATE INDEX g ON t (b DESC)", TK),
    Case("CREATE INDEX g USING HASH ON t (b ASC) TYPE HASH COMMENT ''", "CREATE INDEX g ON t (b ASC) COMMENT ''", TK),
    Case("CREATE INDEX g USING HASH ON t (b)", "CREATE INDEX g USING HASH ON t (b)", TK),
    Case("CREATE INDEX g USING BTREE ON t (b DESC) USING HASH", "CREATE INDEX g USING BTREE ON t (b DESC)", TK),
    Case(
        "CREATE TABLE t (a int, b int, KEY i USING HASH (b DESC), KEY j (a) USING HASH, KEY k (a, b DESC) USING HASH)",
        "CREATE TABLE t (a int, b int, KEY i (b DESC), KEY j (a) USING HASH, KEY k (a, b DESC))",
    ),
    Case(
        f"CREATE GLOBAL INDEX g ON t (b) {_PART} WITH TABLEGROUP = tg IMPLICIT COMMENT 'c' ALGORITHM=INPLACE LOCK=NONE",
        "CREATE INDEX g ON t (b) COMMENT 'c' ALGORITHM=INPLACE LOCK=NONE",
        TK,
    ),
    Case("CREATE INDEX g ON t (b + 1, (-c))", "CREATE INDEX g ON t ((b + 1), (-c))", TK),
    Case("DROP INDEX k ON t", "DROP INDEX k ON t", TK),
    Case("DROP INDEX k ON t ALGORITHM=INPLACE", "DROP INDEX k ON t ALGORITHM=INPLACE", TK),
    Case("DROP INDEX auto_shard_key_b ON t", None, TK, indexes=frozenset({"primary", "k"})),
    Case(
        "DROP INDEX auto_shard_key_b ON t",
        "DROP INDEX auto_shard_key_b ON t",
        "CREATE TABLE t (b INT, KEY auto_shard_key_b (b))",
        indexes=frozenset({"auto_shard_key_b"}),
    ),
]


def _alter(written: str, left: str, before: str = TK) -> Case:
    return Case(f"ALTER TABLE t {written}", f"ALTER TABLE t {left}".rstrip(), before)


ALTERS = [
    _alter("ADD COLUMN e int AS (b + c) LOGICAL AFTER c", "ADD COLUMN e int AFTER c"),
    _alter("ADD e int GENERATED ALWAYS AS (b) STORED UNIQUE COMMENT 'u'", "ADD e int COMMENT 'u'"),
    _alter("ADD COLUMN (e int AS (b), f int UNIQUE KEY)", "ADD COLUMN (e int, f int UNIQUE KEY)"),
    _alter("ADD e bigint UNIQUE AUTO_INCREMENT BY GROUP FIRST", "ADD e bigint UNIQUE AUTO_INCREMENT FIRST", T),
    _alter(
        "MODIFY COLUMN a bigint NOT NULL AUTO_INCREMENT BY SIMPLE", "MODIFY COLUMN a bigint NOT NULL AUTO_INCREMENT"
    ),
    _alter(
        "CHANGE COLUMN a id bigint NOT NULL AUTO_INCREMENT BY NEW", "CHANGE COLUMN a id bigint NOT NULL AUTO_INCREMENT"
    ),
    _alter("CHANGE COLUMN b e bigint ALGORITHM=OMC", "CHANGE COLUMN b e bigint"),
    _alter("MODIFY b bigint, ALGORITHM = OMC", "MODIFY b bigint"),
    _alter("ALGORITHM = OMC, MODIFY b bigint", "MODIFY b bigint"),
    _alter("MODIFY b bigint ALGORITHM=OMC_INDEX", "MODIFY b bigint"),
    _alter("MODIFY b bigint ALGORITHM=COPY LOCK=SHARED", "MODIFY b bigint, ALGORITHM=COPY, LOCK=SHARED"),
    _alter("MODIFY b bigint, ALGORITHM=COPY, LOCK=SHARED", "MODIFY b bigint, ALGORITHM=COPY, LOCK=SHARED"),
    _alter("ADD algorithm int, ADD `lock` int AFTER algorithm", "ADD algorithm int, ADD `lock` int AFTER algorithm"),
    _alter("ADD LOCAL INDEX i (b)", "ADD INDEX i (b)"),
    _alter(f"ADD GLOBAL INDEX i (b) COVERING (c) {_PART}", "ADD INDEX i (b)"),
    _alter(
        f"ADD GLOBAL INDEX i (b) {_PART}, ADD COLUMN e int, DROP COLUMN c",
        "ADD INDEX i (b), ADD COLUMN e int, DROP COLUMN c",
    ),
    _alter(f"ADD UNIQUE GLOBAL INDEX i (b) {_PART}", "ADD UNIQUE INDEX i (b)"),
    _alter(f"ADD GLOBAL UNIQUE KEY i (b) {_PART}", "ADD UNIQUE KEY i (b)"),
    _alter(f"ADD CLUSTERED INDEX i (b) {_PART}", "ADD INDEX i (b)"),
    _alter(f"ADD CLUSTERED COLUMNAR INDEX i (b) {_PART}", "ADD INDEX i (b)"),
    _alter("ADD UNIQUE KEY i (b) WITH TABLEGROUP = tg1 IMPLICIT", "ADD UNIQUE KEY i (b)"),
    _alter("ADD INDEX i USING HASH (b)", "ADD INDEX i (b)"),
    _alter("ADD INDEX i USING HASH (b DESC)", "ADD INDEX i (b DESC)"),
    _alter(
        "ADD INDEX i (b) USING HASH, ADD KEY j (c) COMMENT 'using hash'",
        "ADD INDEX i (b), ADD KEY j (c) COMMENT 'using hash'",
    ),
    _alter("ADD INDEX i (b + 1 DESC, c)", "ADD INDEX i ((b + 1) DESC, c)"),
    _alter(f"ADD INDEX i (b) {_PART}, INDEX i WITH TABLEGROUP = tg1 IMPLICIT", "ADD INDEX i (b)"),
    _alter(
        "ADD CONSTRAINT ck CHECK (b > 0), ADD FULLTEXT KEY f (d)",
        "ADD CONSTRAINT ck CHECK (b > 0), ADD FULLTEXT KEY f (d)",
    ),
    _alter("DROP COLUMN _drds_implicit_id_, ADD PRIMARY KEY (a)", "ADD PRIMARY KEY (a)", T),
    _alter("ADD PRIMARY KEY (a), DROP COLUMN `_drds_implicit_id_`", "ADD PRIMARY KEY (a)", T),
    _alter(
        "DROP PRIMARY KEY, ADD PRIMARY KEY (a, b), DROP KEY k", "DROP PRIMARY KEY, ADD PRIMARY KEY (a, b), DROP KEY k"
    ),
    _alter("ADD COLUMN e int WITH TABLEGROUP = tg1 IMPLICIT", "ADD COLUMN e int"),
    _alter("ADD COLUMN e int PARTITION BY KEY(a) PARTITIONS 3", "ADD COLUMN e int"),
    _alter("RENAME INDEX k TO l, RENAME COLUMN c TO e", "RENAME INDEX k TO l, RENAME COLUMN c TO e"),
    _alter("RENAME TO u", "RENAME TO u"),
    _alter("RENAME TO groups, ADD rank int AFTER a", "RENAME TO `groups`, ADD `rank` int AFTER a"),
    _alter("RENAME AS u", "RENAME AS u"),
    _alter("ALTER COLUMN b SET DEFAULT 3, ALTER c DROP DEFAULT", "ALTER COLUMN b SET DEFAULT 3, ALTER c DROP DEFAULT"),
    _alter("ORDER BY a, b", "ORDER BY a, b", T),
    _alter("CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin", "CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin"),
    _alter("ENGINE = InnoDB, COMMENT = 'move partition', FORCE", "ENGINE = InnoDB, COMMENT = 'move partition', FORCE"),
    _alter("MODIFY ttl SET('a', 'b')", "MODIFY ttl SET('a', 'b')", "CREATE TABLE t (ttl INT)"),
    _alter(
        "ADD single int, DROP COLUMN broadcast",
        "ADD single int, DROP COLUMN broadcast",
        "CREATE TABLE t (a INT, broadcast INT)",
    ),
    _alter("ADD route int, ADD partitions int, DROP c", "ADD route int, ADD partitions int, DROP c"),
    _alter(
        "DROP route, DROP subpartition, MODIFY subpartitions bigint, MODIFY partitions int FIRST",
        "DROP route, DROP subpartition, MODIFY subpartitions bigint, MODIFY partitions int FIRST",
        "CREATE TABLE t (a INT, route INT, subpartition INT, subpartitions INT, partitions INT)",
    ),
    _alter("RENAME subpartition", "RENAME subpartition"),
    # Nothing is left but the table.
    _alter("PARTITION ALIGN TO tg2", ""),
    _alter("SET TABLEGROUP = tg1", ""),
    _alter("SET TABLEGROUP = 'tg1' FORCE", ""),
    _alter("ALGORITHM = OMC", ""),
    _alter("MODIFY TTL SET TTL_EXPR = `b` EXPIRE AFTER 2 DAY TIMEZONE '+08:00', TTL_ENABLE = 'ON'", ""),
    _alter("REMOVE TTL", ""),
    _alter("DROP COLUMN _drds_implicit_id_", ""),
]

PRIVATE = [
    "ALTER TABLE t SINGLE",
    "ALTER TABLE t ADD SUBPARTITION (SUBPARTITION s3 VALUES LESS THAN (30))",
    "ALTER TABLE t DROP SUBPARTITION s1, s2",
    "ALTER TABLE t BROADCAST",
    "ALTER TABLE t SINGLE LOCALITY='dn=dn-1'",
    "ALTER TABLE t dbpartition by hash(b)",
    "ALTER TABLE t dbpartition by hash(b) tbpartition by hash(b) tbpartitions 3",
    "ALTER TABLE t PARTITION BY KEY(b) PARTITIONS 8",
    "ALTER TABLE t PARTITIONS 8",
    "ALTER TABLE t REMOVE PARTITIONING",
    "ALTER TABLE t ADD PARTITION (PARTITION p3 VALUES LESS THAN (30))",
    "ALTER TABLE t DROP PARTITION p1, p2",
    "ALTER TABLE t TRUNCATE PARTITION p1",
    "ALTER TABLE t SPLIT PARTITION p1 AT (9) INTO (PARTITION p11, PARTITION p12)",
    "ALTER TABLE t SPLIT PARTITION p1",
    "ALTER TABLE t SPLIT INTO PARTITIONS 4 BY HOT VALUE('88')",
    "ALTER TABLE t EXTRACT TO PARTITION hp1 BY HOT VALUE('88')",
    "ALTER TABLE t MERGE PARTITIONS p1, p2 TO p12",
    "ALTER TABLE t MOVE PARTITIONS p1, p2 TO 'dn-1'",
    "ALTER TABLE t MOVE PARTITIONS (p1, p2) TO 'dn-1', p3 TO 'dn-2'",
    "ALTER TABLE t RENAME PARTITION p1 TO p2",
    "ALTER TABLE t RENAME SUBPARTITION s1 TO s2",
    "ALTER TABLE t REORGANIZE PARTITION p1 INTO (PARTITION p2 VALUES LESS THAN (3))",
    "ALTER TABLE t MODIFY PARTITION p1 ADD VALUES (5, 6)",
    "ALTER TABLE t MODIFY SUBPARTITION s1 DROP VALUES (5)",
    "ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE u",
    "ALTER TABLE t COALESCE PARTITION 2",
    "ALTER TABLE t LOCAL PARTITION BY RANGE (c) INTERVAL 1 MONTH EXPIRE AFTER 2 PRE ALLOCATE 3 PIVOTDATE NOW()",
    "ALTER TABLE t REMOVE LOCAL PARTITIONING",
    "ALTER TABLE t EXPIRE LOCAL PARTITION",
    "ALTER TABLE t EXPIRE LOCAL PARTITION p20210401, p20210501",
    "ALTER TABLE t ALLOCATE LOCAL PARTITION",
    "ALTER TABLE t CLEANUP EXPIRED DATA",
    "ALTER TABLE t PURGE BEFORE TIMESTAMP '2021-01-01'",
    "ALTER INDEX g ON TABLE t SPLIT PARTITION p1",
    "CREATE TABLEGROUP tg1",
    "CREATE TABLEGROUP tg1 PARTITION BY KEY(bigint) PARTITIONS 3",
    "DROP TABLEGROUP IF EXISTS tg1",
    "ALTER TABLEGROUP tg1 MOVE PARTITIONS p1 TO 'dn-1'",
    "ALTER TABLEGROUP tg1 ADD TABLES t1, t2",
    "ALTER TABLEGROUP BY TABLE t MERGE PARTITIONS p1, p2 TO p3",
    "MERGE TABLEGROUPS tg1, tg2 INTO tg3",
    "CREATE JOINGROUP jg1",
    "DROP JOINGROUP jg1",
    "ALTER JOINGROUP jg1 ADD TABLES t1",
    "CREATE SEQUENCE s1",
    "CREATE NEW SEQUENCE s1 START WITH 1 INCREMENT BY 2 MAXVALUE 100 CYCLE",
    "CREATE GROUP SEQUENCE s1 UNIT COUNT 3 INDEX 0",
    "CREATE SIMPLE WITH CACHE SEQUENCE s1",
    "CREATE TIME SEQUENCE s1",
    "ALTER SEQUENCE s1 CHANGE TO SIMPLE START WITH 10",
    "RENAME SEQUENCE s1 TO s2",
    "DROP SEQUENCE s1",
    "CONVERT ALL SEQUENCES FROM GROUP TO NEW",
    "MOVE DATABASE (d_000000) TO 'dn-1'",
    "REBALANCE CLUSTER",
    "REBALANCE TABLE t POLICY = 'data_balance'",
    "FLASHBACK TABLE BIN_x TO BEFORE DROP",
    "PURGE TABLE BIN_x",
    "PURGE RECYCLEBIN",
    "CREATE MATERIALIZED VIEW v AS SELECT 1",
    "DROP MATERIALIZED VIEW v",
    "CREATE STORAGE POOL p DN_LIST = 'dn-1'",
    "ALTER STORAGE POOL p APPEND NODE 'dn-2'",
    "CREATE FILESTORAGE OSS WITH ('FILE_URI' = 'oss://x/')",
    "CREATE CCL_RULE r ON *.* TO 'u'@'%' FOR SELECT WITH MAX_CONCURRENCY = 1",
    "CREATE OUTLINE o ON SELECT 1 TO SELECT 2",
    "CREATE SCHEDULE FOR LOCAL_PARTITION ON d.t CRON '0 0 12' TIMEZONE '+00:00'",
    "CREATE JAVA FUNCTION f RETURN_TYPE BIGINT INPUT_TYPE BIGINT CODE x END_CODE",
    "ALTER DATABASE d SET LOCALITY = 'dn=dn-1'",
    "CALL trigger_sync_point_trx()",
    "REFRESH TOPOLOGY",
]

OTHERS = [
    Case("CREATE DATABASE d1 MODE='auto'", "CREATE DATABASE d1"),
    Case(
        "create database if not exists d1 partition_mode = auto locality='dn=dn-1'", "create database if not exists d1"
    ),
    Case(
        "CREATE DATABASE d1 CHARSET utf8mb4 COLLATE utf8mb4_bin MODE=drds",
        "CREATE DATABASE d1 CHARSET utf8mb4 COLLATE utf8mb4_bin",
    ),
    Case(
        "CREATE DATABASE d1 MODE=auto DEFAULT_SINGLE='on' DEFAULT CHARACTER SET = gbk",
        "CREATE DATABASE d1 DEFAULT CHARACTER SET = gbk",
        charset="utf8mb4",
    ),
    Case("CREATE DATABASE d1 MODE 'auto'", "CREATE DATABASE d1 DEFAULT CHARACTER SET = latin1", charset="latin1"),
    Case("CREATE DATABASE d1 LIKE d2 MODE='auto' DRY_RUN=true CREATE_TABLES = true", "CREATE DATABASE d1"),
    Case("ALTER DATABASE CHARACTER SET utf8mb4", "ALTER DATABASE CHARACTER SET utf8mb4"),
    Case("ALTER DATABASE ddl_cases CHARACTER SET utf8mb4", "ALTER DATABASE ddl_cases CHARACTER SET utf8mb4"),
    Case("DROP DATABASE IF EXISTS d1", "DROP DATABASE IF EXISTS d1"),
    Case("DROP TABLE IF EXISTS t PURGE", "DROP TABLE IF EXISTS t"),
    Case("drop table t purge", "drop table t", T, table="t"),
    Case(
        "DROP TABLE IF EXISTS `a`, `t` , b", "DROP TABLE IF EXISTS `t`", T, table="t", origin="DROP TABLE IF EXISTS `t`"
    ),
    Case("DROP TABLE a, b, t PURGE", "DROP TABLE t", T, table="t"),
    Case("DROP TABLE t, a", "DROP TABLE t", T, table="t"),
    Case("DROP TABLE x.t, ddl_cases.t, y.t", "DROP TABLE ddl_cases.t", T, table="t", schema="ddl_cases"),
    Case("TRUNCATE TABLE t", "TRUNCATE TABLE t", T, table="t"),
    Case("truncate t", "truncate t", T),
    Case("TRUNCATE TABLE x", "TRUNCATE TABLE `__test_t`", "CREATE TABLE __test_t (a INT)", table="__test_t"),
    Case("RENAME TABLE t TO u, u TO v", "RENAME TABLE t TO u, u TO v", T),
    Case("CREATE VIEW v AS SELECT a FROM t", "CREATE VIEW v AS SELECT a FROM t", T),
    Case(
        "/*+TDDL:cmd_extra(A=1)*//!TDDL:B=2*//*DDL_ID=77*/ DROP TABLE t;",
        "DROP TABLE t",
        T,
        origin="/*+TDDL:cmd_extra(A=1)*//*TDDL:B=2*/DROP TABLE t",
    ),
    Case(
        "/!+TDDL:cmd_extra(FP_STATISTIC_SAMPLE_ERROR=true, A=1)*/DROP TABLE t",
        "DROP TABLE t",
        T,
        origin="/*+TDDL:cmd_extra(A=1)*/DROP TABLE t",
    ),
    Case(
        "/*+TDDL:cmd_extra(GSI_BACKFILL_POSITION_MARK='a,b')*/ DROP TABLE t",
        "DROP TABLE t",
        T,
        origin="DROP TABLE t",
    ),
]

CASES = [*TABLES, *COLUMNS, *INDEXES, *ALTERS, *OTHERS, *(Case(sql, None) for sql in PRIVATE)]
