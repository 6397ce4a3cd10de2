"""Random statements about a few tables, half of them such as no server takes; the same seed makes the same ones.

Names, types and values come from small pools, so that statements meet each other's leftovers: a column added twice, a
key over what was dropped, a default that fitted the type before.
"""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from snapshot_store.model import Catalog, Table

_T = TypeVar("_T")

COLUMNS = ("a", "b", "c", "d", "e", "A", "`x y`", "名")
TABLES = ("t1", "t2", "t3")
_CHARSETS = ("utf8mb4", "latin1", "utf8mb3", "gbk", "ascii", "binary", "ucs2", "utf8")
_COLLATIONS = ("utf8mb4_bin", "utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "latin1_bin", "latin1_swedish_ci", "gbk_bin")
_INTEGERS = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT", "INT8", "INT(11)", "TINYINT(1)", "BOOL")
_TEXTS = ("TINYTEXT", "TEXT", "TEXT(100)", "TEXT(70000)", "MEDIUMTEXT", "LONGTEXT", "LONG VARCHAR")
_BLOBS = ("TINYBLOB", "BLOB", "BLOB(300)", "MEDIUMBLOB", "LONGBLOB", "LONG VARBINARY")
_SPATIAL = ("POINT", "GEOMETRY", "POLYGON SRID 4326", "GEOMETRYCOLLECTION")
_NUMBERS = (
    "0", "1", "-1", "127", "128", "255", "256", "1.5", "-0.004", "1e3", "99999999999", "18446744073709551615", ".5",
)  # fmt: skip
_STRINGS = (
    "''", "'a'", "'abc '", "'b'", "'12'", "' 7'", "'1x'", "'x\\ty'", "'é'", "_latin1'e'", "N'n'", "0x41", "b'101'",
    "'2024-02-29'", "'2023-02-29'", "'2024-01-01 10:00:00'", "'2024-01-01 10:00:00.123456'", "'10:11:12'",
    "'0000-00-00'", "X'4142'", "'2024'", "'a,b'", "'12:60:00'",
)  # fmt: skip
_CLOCKS = ("CURRENT_TIMESTAMP", "NOW()", "CURRENT_TIMESTAMP(3)", "LOCALTIME", "NOW(6)")
_EXPRESSIONS = (
    "{a} + 1", "CONCAT({a}, 'x')", "{a} > {b}", "UUID()", "NOW()", "JSON_OBJECT('k', {a})", "{a} * {b}", "NULL", "1",
    "CAST({a} AS CHAR(5))", "{a} IS NULL", "{a} IN (1, 2, {b})", "COALESCE({a}, {b})", "UPPER({a})", "RAND()",
    "{a} ->> '$.x'", "CASE WHEN {a} > 1 THEN {b} ELSE 0 END", "{a} LIKE 'x%'", "MD5({a})", "LENGTH({a})",
    "DATE_ADD({a}, INTERVAL 1 DAY)", "{a} BETWEEN 1 AND {b}", "NOT {a}", "{a} AND {b}", "YEAR({a})", "(SELECT 1)",
    "IF({a} = {b}, 'y', 'n')",
    "CAST({a} AS UNSIGNED ARRAY)", "{a} DIV 2", "~{a}", "-{a}", "ABS({a})", "SUBSTR({a}, 1, 3)",
    "JSON_VALUE({a}, '$.q')",
)  # fmt: skip


class Generator:
    """Makes statements, knowing what tables there are, and using that knowledge most of the time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.table: Table | None = None

    def statement(self, catalog: Catalog, schema: str) -> str:
        """Return one more statement for a catalog."""
        here = [t for t in catalog.tables.values() if t.schema == schema]
        if len(here) < 2 or self.chance(0.12):
            return self.create_table([t.name for t in here])
        self.table = self.pick(here)
        makers: list[tuple[Callable[[], str], int]] = [
            (self.alter_table, 30), (self.create_index, 4), (self.drop_index, 2), (self.rename_tables, 2),
            (self.drop_tables, 1), (self.create_like, 1), (self.create_select, 2), (self.truncate, 1),
        ]  # fmt: skip
        return self.random.choices([m for m, _ in makers], [w for _, w in makers])[0]()

    # Chances.

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def pick(self, items: Sequence[_T]) -> _T:
        return self.random.choice(items)

    def maybe(self, text: str | Callable[[], str], p: float = 0.5) -> str:
        """Return a text with a blank before it, or nothing."""
        if not self.chance(p):
            return ""
        return " " + (text if isinstance(text, str) else text())

    # Names.

    def column(self) -> str:
        """Return the name of a column, which mostly is there."""
        if self.table is not None and self.chance(0.85):
            return quoted(self.pick(self.table.columns).name)
        return self.pick(COLUMNS)

    def index(self) -> str:
        names = [i.name for i in self.table.indexes] if self.table else []
        return quoted(self.pick(names)) if names and self.chance(0.8) else self.pick(("i1", "i2", "PRIMARY", "f1"))

    def here(self) -> str:
        assert self.table is not None
        return quoted(self.table.name)

    # Columns.

    def type(self) -> str:
        """Return a column type with its own attributes."""
        kind = self.random.randrange(12)
        if kind <= 2:
            return self.pick(_INTEGERS) + self.maybe(self.pick(("UNSIGNED", "ZEROFILL", "SIGNED")), 0.25)
        if kind == 3:
            decimals = ("DECIMAL", "DECIMAL(5,2)", "NUMERIC(20)", "DECIMAL(65,30)", "DECIMAL(3,4)")
            floats = ("FLOAT", "DOUBLE", "FLOAT(7,3)", "FLOAT(30)", "DOUBLE PRECISION", "REAL")
            return self.pick((*decimals, *floats)) + self.maybe("UNSIGNED", 0.2)
        if kind == 4:
            return self.pick(("DATE", "YEAR", "BIT", "BIT(9)", "JSON", "VECTOR", "VECTOR(4)", "SERIAL", *_SPATIAL))
        if kind == 5:
            return self.pick(("DATETIME", "TIMESTAMP", "TIME")) + self.pick(("", "", "(3)", "(6)", "(7)"))
        if kind == 6:
            binary = ("BINARY(4)", "BINARY", "VARBINARY(9)", "VARBINARY(70000)", "CHAR(4) BYTE")
            return self.pick((*binary, *_BLOBS))
        if kind == 7:
            members = self.pick(("'a','b'", "'x'", "'a','A'", "'','é'", "'b ','c'", "'a,b','c'"))
            return f"{self.pick(('ENUM', 'SET'))}({members}){self.string_attributes()}"
        if kind == 8:
            return self.pick(("NCHAR(3)", "NATIONAL VARCHAR(9)", "NVARCHAR(5)", "NATIONAL CHARACTER(4)"))
        if kind == 9:
            return self.pick(_TEXTS) + self.string_attributes()
        length = self.pick((0, 1, 3, 10, 40, 255, 256, 800, 16383, 16384, 21845, 70000))
        return f"{self.pick(('CHAR', 'VARCHAR', 'CHARACTER VARYING'))}({length}){self.string_attributes()}"

    def string_attributes(self) -> str:
        charset = self.maybe(f"{self.pick(('CHARACTER SET', 'CHARSET'))} {self.pick(_CHARSETS)}", 0.25)
        return charset + self.maybe("BINARY", 0.07) + self.maybe(f"COLLATE {self.pick(_COLLATIONS)}", 0.15)

    def expression(self) -> str:
        return self.pick(_EXPRESSIONS).format(a=self.column(), b=self.column())

    def default(self) -> str:
        kind = self.random.randrange(6)
        if kind == 0:
            return "NULL"
        if kind == 1:
            return f"({self.expression()})"
        if kind == 2:
            return self.pick(_CLOCKS)
        return self.pick(_NUMBERS) if kind == 3 else self.pick(_STRINGS)

    def definition(self) -> str:
        """Return a type and what follows it."""
        if self.chance(0.12):
            kind = self.maybe(self.pick(("STORED", "VIRTUAL")), 0.6)
            attributes = self.attributes(("{null}", "UNIQUE", "COMMENT 'g'", "INVISIBLE", "PRIMARY KEY"), 0.1)
            return f"{self.type()} AS ({self.expression()}){kind}{attributes}"
        if self.chance(0.06):
            key = self.pick(("PRIMARY KEY", "UNIQUE", "KEY", ""))
            return f"{self.pick(_INTEGERS)} AUTO_INCREMENT {key}".rstrip()
        every = ("{null}", "DEFAULT {default}", "COMMENT 'it''s'", "INVISIBLE", "UNIQUE", "UNIQUE KEY", "PRIMARY KEY")
        rare = ("CHECK ({expression})", "ON UPDATE {clock}", "REFERENCES t1 (a)", "COLUMN_FORMAT FIXED", "VISIBLE")
        return f"{self.type()}{self.attributes(every, 0.13)}{self.attributes(rare, 0.03)}"

    def attributes(self, choices: Sequence[str], p: float) -> str:
        found = [text for text in choices if self.chance(3 * p if text in ("{null}", "DEFAULT {default}") else p)]
        self.random.shuffle(found)
        values = {
            "{null}": lambda: self.pick(("NULL", "NOT NULL", "NOT NULL")),
            "{default}": self.default,
            "{expression}": self.expression,
            "{clock}": lambda: self.pick(_CLOCKS),
        }
        for mark, make in values.items():
            found = [text.replace(mark, make()) if mark in text else text for text in found]
        return "".join(f" {text}" for text in found)

    # Keys.

    def parts(self, expressions: bool = True) -> str:
        """Return key parts."""
        parts = [self.column() for _ in range(self.pick((1, 1, 1, 2, 2, 3)))]
        parts = [p + self.pick(("", "", "", "", "(3)", "(10)", "(800)")) + self.maybe("DESC", 0.1) for p in parts]
        if expressions and self.chance(0.12):
            parts[-1] = f"(({self.expression()}))"[1:-1]
        return ", ".join(parts)

    def key(self) -> str:
        kind = self.random.randrange(10)
        name = self.maybe(self.pick(("i1", "i2", "a", "`a_2`")), 0.4)
        options = ("INVISIBLE", "COMMENT 'k'", "USING HASH", "USING BTREE", "KEY_BLOCK_SIZE 4")
        option = self.maybe(self.pick(options), 0.15)
        if kind == 0:
            return f"{self.maybe('CONSTRAINT p', 0.2)} PRIMARY KEY ({self.parts()}){option}".strip()
        if kind == 1:
            return self.foreign_key()
        if kind == 2:
            name = self.maybe(lambda: f"CONSTRAINT{self.maybe(self.pick(('c1', 'c2')), 0.7)}", 0.5)
            enforced = self.maybe(self.pick(("NOT ENFORCED", "ENFORCED")), 0.3)
            return f"{name} CHECK ({self.expression()}){enforced}".strip()
        if kind <= 5:
            word = self.pick(("UNIQUE", "UNIQUE KEY", "UNIQUE INDEX", "CONSTRAINT u1 UNIQUE"))
            return f"{word}{name} ({self.parts()}){option}"
        if kind == 6:
            return f"{self.pick(('FULLTEXT', 'FULLTEXT KEY', 'SPATIAL INDEX'))}{name} ({self.parts()})"
        return f"{self.pick(('KEY', 'INDEX'))}{name} ({self.parts()}){option}"

    def foreign_key(self) -> str:
        count = self.pick((1, 1, 2))
        mine, theirs = (", ".join(self.column() for _ in range(count)) for _ in range(2))
        rules = ("RESTRICT", "CASCADE", "SET NULL", "NO ACTION")
        deleting = self.maybe(f"ON DELETE {self.pick(rules)}", 0.4)
        name = self.maybe(f"CONSTRAINT {self.pick(('f1', 'f2', 'i1'))}", 0.4).strip()
        index = self.maybe("fi", 0.1)
        updating = self.maybe(f"ON UPDATE {self.pick(rules)}", 0.3)
        target = f"{self.pick(TABLES)} ({theirs})"
        return f"{name} FOREIGN KEY{index} ({mine}) REFERENCES {target}{deleting}{updating}".strip()

    # Statements.

    def create_table(self, taken: Sequence[str]) -> str:
        """Return a CREATE TABLE, mostly of a name that is free."""
        free = [name for name in TABLES if name not in taken]
        name = self.pick(free) if free and self.chance(0.9) else self.pick(TABLES)
        names = self.random.sample(COLUMNS, self.pick((1, 2, 3, 4, 5)))
        self.table = None
        items = []
        for place, column in enumerate(names):
            items.append(f"{column} {'INT' if place == 0 and self.chance(0.5) else self.definition()}")
        items += [self.key() for _ in range(self.pick((0, 0, 0, 1, 1, 2)))]
        # Of a table that is there, the server looks at some of the definition all the same.
        exists = self.maybe("IF NOT EXISTS", 0.1) if name in free else ""
        return f"CREATE TABLE{exists} {name} ({', '.join(items)}){self.options()}{self.partitions(names)}"

    def options(self) -> str:
        choices = (
            "ENGINE=InnoDB", "ENGINE=MyISAM", "ENGINE=MEMORY", "COMMENT='t'", f"DEFAULT CHARSET={self.pick(_CHARSETS)}",
            f"COLLATE {self.pick(_COLLATIONS)}", "AUTO_INCREMENT=5", "ROW_FORMAT=DYNAMIC", "STATS_PERSISTENT=1",
        )  # fmt: skip
        return "".join(self.maybe(text, 0.05) for text in choices)

    def partitions(self, names: Sequence[str], p: float = 0.08) -> str:
        if not self.chance(p):
            return ""
        column = self.pick(names)
        return " PARTITION BY " + self.pick(
            (
                f"HASH ({column}) PARTITIONS 3", f"KEY ({column})", f"LINEAR HASH ({column}) PARTITIONS 2", "KEY ()",
                f"RANGE ({column}) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
                f"LIST ({column}) (PARTITION p0 VALUES IN (1, 2), PARTITION p1 VALUES IN (3, NULL))",
                f"RANGE COLUMNS ({column}) (PARTITION p0 VALUES LESS THAN (10))",
                f"RANGE ({column}) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (5))",
                f"LIST COLUMNS ({column}) (PARTITION p0 VALUES IN ('a', 'b'))",
            )
        )  # fmt: skip

    def alter_table(self) -> str:
        actions = ", ".join(self.action() for _ in range(self.pick((1, 1, 1, 1, 2, 2, 3, 4))))
        names = [quoted(c.name) for c in self.table.columns] if self.table else ["a"]
        return f"ALTER TABLE {self.here()} {actions}{self.partitions(names, 0.03)}"

    def place(self) -> str:
        return self.maybe(lambda: self.pick(("FIRST", f"AFTER {self.column()}")), 0.3)

    def action(self) -> str:
        """Return one action of an ALTER TABLE."""
        collation = self.maybe(f"COLLATE {self.pick(_COLLATIONS)}", 0.3)
        makers: dict[Callable[[], str], int] = {
            lambda: f"ADD{self.maybe('COLUMN')} {self.pick(COLUMNS)} {self.definition()}{self.place()}": 16,
            lambda: f"ADD ({self.pick(COLUMNS)} {self.definition()}, {self.pick(COLUMNS)} {self.definition()})": 1,
            lambda: f"DROP{self.maybe('COLUMN')} {self.column()}": 7,
            lambda: f"MODIFY{self.maybe('COLUMN')} {self.column()} {self.definition()}{self.place()}": 12,
            lambda: f"CHANGE {self.column()} {self.pick(COLUMNS)} {self.definition()}{self.place()}": 8,
            lambda: f"RENAME COLUMN {self.column()} TO {self.pick(COLUMNS)}": 6,
            lambda: f"ADD {self.key()}": 16,
            lambda: f"DROP {self.pick(('INDEX', 'KEY'))} {self.index()}": 6,
            lambda: "DROP PRIMARY KEY": 2,
            lambda: f"RENAME {self.pick(('INDEX', 'KEY'))} {self.index()} TO {self.pick(('i1', 'i2', 'i3'))}": 2,
            lambda: f"ALTER INDEX {self.index()} {self.pick(('VISIBLE', 'INVISIBLE'))}": 2,
            lambda: f"ALTER{self.maybe('COLUMN')} {self.column()} SET DEFAULT {self.default()}": 4,
            lambda: f"ALTER {self.column()} DROP DEFAULT": 2,
            lambda: f"ALTER {self.column()} SET {self.pick(('VISIBLE', 'INVISIBLE'))}": 2,
            lambda: f"DROP CONSTRAINT {self.constraint()}": 2,
            lambda: f"DROP {self.pick(('CHECK', 'FOREIGN KEY'))} {self.constraint()}": 4,
            lambda: f"ALTER CHECK {self.constraint()} {self.pick(('ENFORCED', 'NOT ENFORCED'))}": 1,
            lambda: f"CONVERT TO CHARACTER SET {self.pick(_CHARSETS)}{collation}": 2,
            lambda: f"DEFAULT CHARACTER SET {self.pick(_CHARSETS)}": 1,
            lambda: f"RENAME TO {self.pick(TABLES)}": 1,
            lambda: self.pick(("FORCE", "ENGINE=InnoDB", "ALGORITHM=COPY", "COMMENT 'x'", "ENGINE=MyISAM")): 3,
            lambda: self.pick(("REMOVE PARTITIONING", "DROP PARTITION p1", "TRUNCATE PARTITION p0")): 1,
            lambda: "COALESCE PARTITION 1": 1,
            lambda: "ADD PARTITION (PARTITION p2 VALUES LESS THAN (99))": 1,
            lambda: "ORDER BY a": 1,
        }
        return self.random.choices(list(makers), list(makers.values()))[0]()

    def constraint(self) -> str:
        assert self.table is not None
        name = self.table.name
        checks = [check for check, _ in self.table.checks]
        return quoted(self.pick([*checks, *checks, f"{name}_chk_1", f"{name}_ibfk_1", "c1", "f1", "u1"]))

    def create_index(self) -> str:
        kind = self.maybe(self.pick(("UNIQUE", "FULLTEXT", "SPATIAL")), 0.4)
        option = self.maybe(self.pick(("INVISIBLE", "ALGORITHM=DEFAULT", "LOCK=DEFAULT", "COMMENT 'k'")), 0.2)
        return f"CREATE{kind} INDEX {self.pick(('i1', 'i2', 'i3'))} ON {self.here()} ({self.parts()}){option}"

    def drop_index(self) -> str:
        return f"DROP INDEX {self.index()} ON {self.here()}"

    def rename_tables(self) -> str:
        if self.chance(0.3):
            return "RENAME TABLE t1 TO t9, t2 TO t1, t9 TO t2"
        olds = [self.here() if self.chance(0.6) else self.pick(TABLES) for _ in range(self.pick((1, 1, 2)))]
        return "RENAME TABLE " + ", ".join(f"{old} TO {self.pick((*TABLES, 't4'))}" for old in olds)

    def drop_tables(self) -> str:
        names = self.random.sample((*TABLES, "t4"), self.pick((1, 1, 2)))
        return f"DROP TABLE{self.maybe('IF EXISTS', 0.4)} {', '.join(names)}"

    def create_like(self) -> str:
        return f"CREATE TABLE {self.pick((*TABLES, 't4'))} LIKE {self.here()}"

    def create_select(self) -> str:
        own = self.maybe(lambda: f"({self.pick(COLUMNS)} {self.definition()})", 0.3)
        columns = "*" if self.chance(0.6) else f"{self.column()}, {self.column()} AS n"
        return f"CREATE TABLE {self.pick((*TABLES, 't4'))}{own} SELECT {columns} FROM {self.here()}"

    def truncate(self) -> str:
        return f"TRUNCATE TABLE {self.here()}"


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"
