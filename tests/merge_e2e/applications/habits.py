"""What is done to a running application's databases: migrations, as tools write them, and maintenance.

Each habit is a function that may do it once, on all shards, one after the other, while the application writes. It may
find nothing to do. What is not in HABITS is done by no story.
"""

from collections.abc import Callable
from typing import Final

from snapshot_store.mysql.sql.names import quote_name as q
from tests.merge_e2e.applications.cluster import NODES, Cluster, Column
from tests.merge_e2e.shards.stage import Route

Habit = Callable[[Cluster], None]


def _table(c: Cluster) -> str:
    return c.rng.choice(c.sharded)


def _columns(c: Cluster, table: str) -> list[Column]:
    return [x for x in c.columns("n1", table) if not x.keyed and not x.counts and x.refers is None]


def _new(c: Cluster, prefix: str = "c") -> str:
    return f"{prefix}{c.number()}"


# Migrations.


def add_column(c: Cluster) -> None:
    """Rails, Flyway, Liquibase, WordPress, each in its own words."""
    table, name = _table(c), _new(c)
    c.roll(c.rng.choice((
        f"ALTER TABLE {q(table)} ADD {q(name)} varchar(255)",
        f"ALTER TABLE {q(table)} ADD COLUMN {name} INT NOT NULL DEFAULT 5",
        f"ALTER TABLE {q(table)} ADD {q(name)} datetime(6) NULL, ADD {q(name + 'b')} decimal(10,2) DEFAULT 0.00 NOT "
        "NULL",
        f"ALTER TABLE {q(table)} ADD COLUMN `{name}` json DEFAULT NULL",
        f"alter table {q(table)} add column {name} timestamp not null default current_timestamp",
        f"ALTER TABLE {q(table)} ADD COLUMN {name} tinyint(1) DEFAULT '1' NOT NULL FIRST",
        f"ALTER TABLE {c.db}.{q(table)} ADD COLUMN {name} ENUM('new','old') NOT NULL DEFAULT 'new', ALGORITHM=INSTANT",
        f"/* Flyway */ ALTER TABLE {q(table)}\n  ADD COLUMN {name} BIGINT UNSIGNED NULL COMMENT 'it''s new'; -- done",
    )).removesuffix("; -- done"))  # fmt: skip


def django_add_field(c: Cluster) -> None:
    """A field with a default, which Django takes off again at once."""
    table, name = _table(c), _new(c)
    c.roll(
        f"ALTER TABLE `{table}` ADD COLUMN `{name}` integer DEFAULT 0 NOT NULL",
        f"ALTER TABLE `{table}` ALTER COLUMN `{name}` DROP DEFAULT",
    )


def generated_column(c: Cluster) -> None:
    table = _table(c)
    if found := [x for x in _columns(c, table) if x.kind in ("varchar", "char")]:
        name = _new(c, "g")
        c.roll(
            f"ALTER TABLE {q(table)} ADD COLUMN {name} varchar(300) GENERATED ALWAYS AS (lower({q(found[0].name)})) "
            + c.rng.choice(("VIRTUAL", "STORED"))
        )


def drop_column(c: Cluster) -> None:
    table = _table(c)
    if found := [x for x in _columns(c, table) if x.name[0] in "c"]:
        c.roll(f"ALTER TABLE {q(table)} DROP COLUMN {q(c.rng.choice(found).name)}")


def rename_column(c: Cluster) -> None:
    table = _table(c)
    if found := [x for x in _columns(c, table) if x.name[0] == "c" and x.name[1:].isdigit()]:
        column = c.rng.choice(found)
        c.roll(f"ALTER TABLE {q(table)} RENAME COLUMN {q(column.name)} TO {q(_new(c))}")


def widen(c: Cluster) -> None:
    """MODIFY and CHANGE to a wider type."""
    table = _table(c)
    found = [
        x for x in _columns(c, table) if x.definition in ("int", "varchar(255)", "varchar(20)", "smallint", "text")
    ]
    if found:
        column = c.rng.choice(found)
        wide = {"int": "bigint", "smallint": "int", "varchar(20)": "varchar(64)", "varchar(255)": "varchar(500)"}
        kind = wide.get(column.definition, "longtext") + ("" if column.null else " NOT NULL")
        verb = c.rng.choice((f"MODIFY {q(column.name)}", f"CHANGE COLUMN {q(column.name)} {q(column.name)}"))
        c.roll(f"ALTER TABLE {q(table)} {verb} {kind}")


def index(c: Cluster) -> None:
    """Indexes made and dropped again."""
    table = _table(c)
    found = [x for x in _columns(c, table) if x.kind in ("int", "bigint", "varchar", "datetime", "decimal", "smallint")]
    if found:
        name, column = _new(c, "ix_"), q(c.rng.choice(found).name)
        made = c.roll(c.rng.choice((
            f"CREATE INDEX `{name}` ON {q(table)} ({column})",
            f"ALTER TABLE {q(table)} ADD INDEX {name} ({column}) INVISIBLE",
            f"CREATE INDEX {name} USING BTREE ON {q(table)} ({column} DESC) ALGORITHM=INPLACE LOCK=NONE",
        )))  # fmt: skip
        if made and c.rng.random() < 0.4:
            c.roll(f"DROP INDEX {name} ON {q(table)}")


def defaults(c: Cluster) -> None:
    table = _table(c)
    if found := [x for x in _columns(c, table) if x.kind in ("int", "bigint", "smallint")]:
        c.roll(f"ALTER TABLE {q(table)} ALTER COLUMN {q(c.rng.choice(found).name)} SET DEFAULT 7")


def charset(c: Cluster) -> None:
    c.roll(c.rng.choice((
        f"ALTER TABLE {q(_table(c))} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        f"ALTER TABLE {q(_table(c))} DEFAULT CHARACTER SET utf8mb4",
        f"ALTER DATABASE {c.db} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    )))  # fmt: skip


def comment(c: Cluster) -> None:
    c.roll(f"ALTER TABLE {q(_table(c))} COMMENT = 'since migration {c.number()}'")


def check(c: Cluster) -> None:
    table = _table(c)
    if found := [x for x in _columns(c, table) if x.kind in ("int", "bigint")]:
        name = _new(c, "chk_")
        if (
            c.roll(f"ALTER TABLE {q(table)} ADD CONSTRAINT {name} CHECK ({q(found[0].name)} >= 0)")
            and c.rng.random() < 0.4
        ):
            c.roll(f"ALTER TABLE {q(table)} DROP CHECK {name}")


def new_table(c: Cluster) -> None:
    name = _new(c, "t")
    create = c.rng.choice((
        f"CREATE TABLE {name} (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, note varchar(80), at datetime DEFAULT "
        "CURRENT_TIMESTAMP)",
        f"CREATE TABLE IF NOT EXISTS {name} (id int NOT NULL, a int, b text, PRIMARY KEY (id), KEY (a)) "
        "ROW_FORMAT=DYNAMIC",
        f"CREATE TABLE {name} LIKE {q(_table(c))}",
    ))  # fmt: skip
    if c.roll(create):
        c.sharded.append(name)


def new_table_altered(c: Cluster) -> None:
    """A migration that makes a table and alters it at once, shard by shard."""
    name = _new(c, "t")
    if c.roll(
        f"CREATE TABLE {name} (id int PRIMARY KEY, a int)", f"ALTER TABLE {name} ADD COLUMN b int NOT NULL DEFAULT 3"
    ):
        c.sharded.append(name)


def new_table_under_another_name(c: Cluster) -> None:
    """A migration that makes a table, alters it and gives it its name, shard by shard."""
    draft, name = _new(c, "draft_"), _new(c, "t")
    rename = c.rng.choice(
        (f"RENAME TABLE {draft} TO {name}", f"ALTER TABLE {draft} ADD COLUMN d INT, RENAME TO {name}")
    )
    if c.roll(f"CREATE TABLE {draft} (id int PRIMARY KEY, a int)", f"ALTER TABLE {draft} ADD COLUMN b text", rename):
        c.sharded.append(name)


def rename_table(c: Cluster) -> None:
    """A table that no key refers to gets a new name."""
    if found := [name for name in c.sharded if name[0] == "t" and name[1:].isdigit()]:
        old, new = c.rng.choice(found), _new(c, "t")
        c.sharded.remove(old)
        done = c.roll(c.rng.choice((f"RENAME TABLE {old} TO {new}", f"ALTER TABLE {old} RENAME TO {new}")))
        c.sharded.append(new if done else old)


def bookkeeping(c: Cluster) -> None:
    """A migration tool's own table, which has the same rows on every shard: each becomes a table of its own."""
    if not c.routes:
        for node in NODES[1:]:
            c.routes.append(Route(c.db, "schema_migrations", (c.db, f"schema_migrations_{node}"), source=node))
        c.roll("CREATE TABLE `schema_migrations` (`version` varchar(255) NOT NULL PRIMARY KEY)")
    c.roll(f"INSERT INTO `schema_migrations` (version) VALUES ('{20240000000000 + c.number()}')")


def reference(c: Cluster) -> None:
    """A table that every shard has in full, and that is kept alike on all of them."""
    if "copies" not in c.sections:
        c.sections["copies"] = [{"schema-pattern": c.db, "table-pattern": "countries"}]
        # The node of which it comes out goes first: what others have by then refers to it.
        c.alike("CREATE TABLE countries (code char(2) NOT NULL PRIMARY KEY, name varchar(64) NOT NULL)")
    number = c.number()
    code = chr(65 + number // 26 % 26) + chr(65 + number % 26)
    c.alike(f"REPLACE INTO countries (code, name) VALUES ('{code}', 'Land {number}')")
    if c.rng.random() < 0.5:
        c.alike(f"UPDATE countries SET name = CONCAT(name, '!') WHERE code <= '{code}'")
    if c.rng.random() < 0.3:
        c.alike(f"ALTER TABLE countries ADD COLUMN {_new(c)} int DEFAULT 3")


def left_behind(c: Cluster) -> None:
    """A migration that one shard runs much later."""
    if found := [name for name in c.sharded if name[0] == "t" and name[1:].isdigit()]:
        table = c.rng.choice(found)
        c.sharded.remove(table)
        last, *others = c.rng.sample(NODES, 3)
        sql = f"ALTER TABLE {table} ADD COLUMN {_new(c)} int NOT NULL DEFAULT 3"
        for node in others:
            assert c.on(node, sql), sql
        c.changed()
        for node in NODES:
            c.insert(node, table)
        c.late.append((last, sql))


def view(c: Cluster) -> None:
    c.roll(f"CREATE OR REPLACE VIEW v_{c.number() % 3} AS SELECT COUNT(*) AS n FROM {q(_table(c))}")


def mistaken(c: Cluster) -> None:
    """A migration that is taken back, and made again."""
    table, name = _table(c), _new(c)
    add = f"ALTER TABLE {q(table)} ADD COLUMN {name} INT"
    c.roll(add, f"ALTER TABLE {q(table)} DROP COLUMN {name}", add)


# Maintenance.


def optimize(c: Cluster) -> None:
    table = q(_table(c))
    for node in c.rng.sample(NODES, 2):
        sql = (
            f"OPTIMIZE TABLE {table}",
            f"ANALYZE TABLE {table}",
            f"ALTER TABLE {table} ENGINE=InnoDB",
            f"ALTER TABLE {table} FORCE",
        )
        c.on(node, c.rng.choice(sql[:2]))
    c.roll(c.rng.choice(sql[2:]))


def dump(c: Cluster) -> None:
    """A dump of one shard, as mysqldump and mydumper take it."""
    node = c.rng.choice(NODES)
    for sql in (
        "FLUSH TABLES WITH READ LOCK",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "UNLOCK TABLES",
        "SAVEPOINT sp",
        "ROLLBACK TO SAVEPOINT sp",
        "RELEASE SAVEPOINT sp",
        "COMMIT",
    ):
        assert c.on(node, sql), sql
    c.work(1)


def archive(c: Cluster) -> None:
    """pt-archiver: rows are moved to another table, in transactions of a few."""
    table = _table(c)
    name = f"{table}_archive"
    if c.roll(f"CREATE TABLE IF NOT EXISTS {q(name)} LIKE {q(table)}"):
        for node in c.rng.sample(NODES, 2):
            same = [x.name for x in c.columns(node, table)]
            if same == [x.name for x in c.columns(node, name)]:
                names = ", ".join(map(q, same))
                for sql in (
                    "START TRANSACTION",
                    f"INSERT IGNORE INTO {q(name)} ({names}) SELECT {names} FROM {q(table)} ORDER BY 1 LIMIT 3",
                    f"DELETE FROM {q(table)} ORDER BY 1 LIMIT 3",
                    "COMMIT",
                ):
                    c.on(node, sql)


def partitions(c: Cluster) -> None:
    """A partition is split off for what comes, and the oldest is dropped or emptied, on every shard."""
    if "salaries" in c.sharded:
        year = 2026 + c.number()
        c.roll(c.rng.choice((
            f"ALTER TABLE salaries REORGANIZE PARTITION pmax INTO (PARTITION p{year} VALUES LESS THAN ({year}), "
            "PARTITION pmax VALUES LESS "
            "THAN MAXVALUE)",
            "ALTER TABLE salaries ANALYZE PARTITION ALL",
            "ALTER TABLE salaries REBUILD PARTITION p24",
        )))  # fmt: skip


def counters(c: Cluster) -> None:
    c.roll(f"ALTER TABLE {q(_table(c))} AUTO_INCREMENT = {50_000 + c.number()}")


def accounts(c: Cluster) -> None:
    """Users and rights, which are none of the log."""
    for node in NODES:
        name = f"'u{c.seed}_{c.number()}'@'localhost'"
        c.on(node, f"CREATE USER {name} IDENTIFIED BY 'secret'")
        c.on(node, f"GRANT SELECT ON {c.db}.* TO {name}")
        c.on(node, f"DROP USER {name}")


def temporary(c: Cluster) -> None:
    """Temporary tables of a report."""
    node = c.rng.choice(NODES)
    name = _new(c, "tmp_")
    c.on(node, f"CREATE TEMPORARY TABLE {name} SELECT * FROM {q(_table(c))}")
    c.on(node, f"INSERT INTO {name} SELECT * FROM {name} LIMIT 0")
    c.on(node, f"DROP TEMPORARY TABLE {name}")


def load_data(c: Cluster) -> None:
    """Bulk writes: INSERT … SELECT, ON DUPLICATE KEY UPDATE, multi-table UPDATE and DELETE."""
    node, table = c.rng.choice(NODES), _table(c)
    if found := [x for x in _columns(c, table) if x.kind in ("int", "smallint", "bigint")]:
        column = q(found[0].name)
        c.on(node, f"UPDATE {q(table)} a JOIN {q(table)} b USING ({column}) SET a.{column} = a.{column} + 1")
        c.on(node, f"DELETE a FROM {q(table)} a JOIN (SELECT MIN({column}) m FROM {q(table)}) b ON a.{column} = b.m")


def procedures(c: Cluster) -> None:
    """Stored programs that write."""
    name, table = _new(c, "p"), _table(c)
    if c.roll(f"CREATE PROCEDURE {name}() MODIFIES SQL DATA BEGIN DELETE FROM {q(table)} ORDER BY 1 LIMIT 1; END"):
        c.on(c.rng.choice(NODES), f"CALL {name}()")
        c.roll(f"DROP PROCEDURE IF EXISTS {name}")


def create_select(c: Cluster) -> None:
    """A copy for a report, on one shard, under a name of its own."""
    node = c.rng.choice(NODES)
    c.on(node, f"CREATE TABLE {_new(c, 'report_')} SELECT * FROM {q(_table(c))}")


def create_select_with_options(c: Cluster) -> None:
    """The same, with options of the table."""
    node = c.rng.choice(NODES)
    c.on(node, f"CREATE TABLE {_new(c, 'report_')} ENGINE=InnoDB AS SELECT * FROM {q(_table(c))}")


def old_names(c: Cluster) -> None:
    """An ordinary table with a name that an online tool might give."""
    name = f"_{_new(c, 'x')}_old"
    if c.roll(f"CREATE TABLE {name} (id int PRIMARY KEY, note varchar(20))"):
        c.sharded.append(name)


def drop_everywhere(c: Cluster) -> None:
    """A table that is given up on every shard."""
    if found := [name for name in c.sharded if name[0] == "t" and name[1:].isdigit()]:
        name = c.rng.choice(found)
        c.sharded.remove(name)
        c.roll(f"DROP TABLE {name}" if c.rng.random() < 0.5 else f"DROP TABLE IF EXISTS {q(name)}")


def truncate_everywhere(c: Cluster) -> None:
    """A table that is emptied on every shard, and filled again."""
    if found := [name for name in c.sharded if name[0] == "t" and name[1:].isdigit()]:
        name = c.rng.choice(found)
        if c.roll(f"TRUNCATE TABLE {q(name)}"):
            for node in NODES:
                c.insert(node, name)


def checksum(c: Cluster) -> None:
    """pt-table-checksum: statements, in a schema of its own that is left out."""
    c.sections["ignore-schemas"] = ["percona"]
    table = q(_table(c))
    for node in NODES:
        for sql in (
            "CREATE DATABASE IF NOT EXISTS percona",
            "CREATE TABLE IF NOT EXISTS percona.checksums (tbl char(64) NOT NULL, chunk int NOT NULL, this_crc "
            "char(40), this_cnt int, "
            "PRIMARY KEY (tbl, chunk))",
            "SET SESSION binlog_format = 'STATEMENT'",
            f"REPLACE INTO `percona`.`checksums` (tbl, chunk, this_cnt, this_crc) SELECT '{c.number()}', 1, "
            f"COUNT(*), 0 FROM {c.db}.{table} "
            "FORCE INDEX(`PRIMARY`) WHERE 1=1 /*checksum chunk*/",
            "SET SESSION binlog_format = 'ROW'",
        ):
            c.on(node, sql)
        c.work(1)


def stray_statement(c: Cluster) -> None:
    """Somebody's session in statement format, and a statement that changes nothing."""
    node, table = c.rng.choice(NODES), _table(c)
    if found := _columns(c, table):
        column = q(found[0].name)
        c.on(node, "SET SESSION binlog_format = 'STATEMENT'")
        c.on(node, f"UPDATE {q(table)} SET {column} = {column} WHERE CONCAT({column}) = 'none has it'")
        c.on(node, "SET SESSION binlog_format = 'ROW'")


def invisible_keys(c: Cluster) -> None:
    """A table without a key, of which the server makes one that is not seen."""
    for node in NODES:
        c.on(node, "SET SESSION sql_generate_invisible_primary_key = ON")
    name = _new(c, "gipk_")
    c.roll(f"CREATE TABLE {name} (a int, b varchar(20))")
    c.roll(f"ALTER TABLE {name} ADD COLUMN z int FIRST")
    for node in NODES:
        c.on(node, "SET SESSION sql_generate_invisible_primary_key = OFF")
        c.insert(node, name)


def gh_ost(c: Cluster) -> None:
    """gh-ost: a ghost table, a log of changes, rows copied, an atomic swap; on every shard."""
    table, name = _table(c), _new(c)
    if any(x.refers for x in c.columns("n1", table)) or table in _referred(c):
        return
    for node in c.rng.sample(NODES, 3):
        ghost, log, old = f"_{table}_gho", f"_{table}_ghc", f"_{table}_del"
        names = ", ".join(q(x.name) for x in c.columns(node, table))
        for sql in (
            f"create /* gh-ost */ table `{c.db}`.`{log}` (id bigint unsigned auto_increment, last_update timestamp "
            "not null DEFAULT "
            "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null, value "
            "varchar(4096) charset ascii not "
            "null, primary key(id), unique key hint_uidx(hint)) auto_increment=256",
            f"create /* gh-ost */ table `{c.db}`.`{ghost}` like `{c.db}`.`{table}`",
            f"alter /* gh-ost */ table `{c.db}`.`{ghost}` ADD COLUMN {name} INT",
            f"insert /* gh-ost */ into `{c.db}`.`{log}` (id, hint, value) values (NULLIF(1, 0), 'state', "
            "'GhostTableMigrated') on duplicate "
            "key update last_update=NOW(), value=VALUES(value)",
            f"insert /* gh-ost `{c.db}`.`{table}` */ ignore into `{c.db}`.`{ghost}` ({names}) (select {names} from "
            f"`{c.db}`.`{table}`)",
            f"create /* gh-ost */ table `{c.db}`.`{old}` (id int auto_increment primary key) engine=InnoDB "
            "comment='ghost-cut-over-sentry'",
            f"drop /* gh-ost */ table if exists `{c.db}`.`{old}`",
            f"rename /* gh-ost */ table `{c.db}`.`{table}` to `{c.db}`.`{old}`, `{c.db}`.`{ghost}` to "
            f"`{c.db}`.`{table}`",
            f"drop /* gh-ost */ table if exists `{c.db}`.`{log}`",
            f"drop /* gh-ost */ table if exists `{c.db}`.`{old}`",
        ):
            assert c.on(node, sql), sql
        c.changed()
        c.work(2)


def pt_osc(c: Cluster) -> None:
    """pt-online-schema-change: a new table, three triggers, rows copied, a swap; on every shard."""
    table, name = _table(c), _new(c)
    key = [x for x in c.columns("n1", table) if x.keyed or x.counts]
    if any(x.refers for x in c.columns("n1", table)) or table in _referred(c) or len(key) != 1 or table == "film":
        return
    for node in c.rng.sample(NODES, 3):
        new, old, names = f"_{table}_new", f"_{table}_old", [q(x.name) for x in c.columns(node, table)]
        listed, fresh, ident = ", ".join(names), ", ".join(f"NEW.{n}" for n in names), q(key[0].name)
        where = f"`{c.db}`.`{new}`.{ident} <=> OLD.{ident}"
        for sql in (
            f"CREATE TABLE `{c.db}`.`{new}` LIKE `{c.db}`.`{table}`",
            f"ALTER TABLE `{c.db}`.`{new}` ADD COLUMN {name} INT",
            f"CREATE TRIGGER `pt_osc_{c.db}_{table}_del` AFTER DELETE ON `{c.db}`.`{table}` FOR EACH ROW DELETE "
            f"IGNORE FROM `{c.db}`.`{new}` "
            f"WHERE {where}",
            f"CREATE TRIGGER `pt_osc_{c.db}_{table}_upd` AFTER UPDATE ON `{c.db}`.`{table}` FOR EACH ROW BEGIN "
            "DELETE IGNORE FROM "
            f"`{c.db}`.`{new}` WHERE !(OLD.{ident} <=> NEW.{ident}) AND {where}; REPLACE INTO `{c.db}`.`{new}` "
            f"({listed}) VALUES ({fresh}); END",
            f"CREATE TRIGGER `pt_osc_{c.db}_{table}_ins` AFTER INSERT ON `{c.db}`.`{table}` FOR EACH ROW REPLACE "
            f"INTO `{c.db}`.`{new}` ({listed}) "
            f"VALUES ({fresh})",
        ):
            assert c.on(node, sql), sql
        c.work(1)
        for sql in (
            f"INSERT LOW_PRIORITY IGNORE INTO `{c.db}`.`{new}` ({listed}) SELECT {listed} FROM `{c.db}`.`{table}` "
            "LOCK IN SHARE MODE "
            "/*pt-online-schema-change 4711 copy table*/",
            f"ANALYZE TABLE `{c.db}`.`{new}` /* pt-online-schema-change */",
            f"RENAME TABLE `{c.db}`.`{table}` TO `{c.db}`.`{old}`, `{c.db}`.`{new}` TO `{c.db}`.`{table}`",
            f"DROP TABLE IF EXISTS `{c.db}`.`{old}`",
            *(f"DROP TRIGGER IF EXISTS `{c.db}`.`pt_osc_{c.db}_{table}_{what}`" for what in ("del", "upd", "ins")),
        ):
            assert c.on(node, sql), sql
        c.changed()
        c.work(1)


def _referred(c: Cluster) -> set[str]:
    return {x.refers[0] for table in c.sharded for x in c.columns("n1", table) if x.refers is not None}


HABITS: Final[dict[str, Habit]] = {
    habit.__name__: habit
    for habit in (
        add_column, django_add_field, generated_column, drop_column, rename_column, widen, index, defaults, charset,
        comment, check, new_table, new_table_altered, new_table_under_another_name,
        rename_table, left_behind, reference, bookkeeping, view,
        mistaken, optimize, dump, archive, partitions, counters, accounts, temporary, load_data, procedures,
        create_select, create_select_with_options, old_names, drop_everywhere, truncate_everywhere, checksum,
        stray_statement, invisible_keys, gh_ost, pt_osc,
    )
}  # fmt: skip
