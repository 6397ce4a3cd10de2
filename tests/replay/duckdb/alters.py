"""ALTERs of columns with rows at their limits, on a real node: what it makes of them, and what a DuckDB file has then.

A story is one type of a column (with its values and NULL), a session's sql_mode, and whether the column becomes NOT
NULL. Its column becomes every other type, once together with others in one statement, which copies the table, and once
alone, which a server may do in place; in tables of every shape. What the node refuses is not asked again: without
strict mode it warns of each row that strict mode refuses, and only these are taken away.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pymysql

from binlog_merge.errors import ReplayStopped
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.time_travel.bases import bases_of
from binlog_merge.time_travel.table_at import table_at
from tests.mysql_server import MySqlServer
from tests.replay.duckdb.test_duckdb import loaded, tables_at, tables_of
from tests.time_travel.one_server import merged_of
from tests.values.column_values import TYPES as USUAL
from tests.values.column_values import quoted, values
from tests.values.test_pairs import family

STRICT: Final = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION"
)
MODES: Final = (
    *("", STRICT, "STRICT_TRANS_TABLES", "NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ALLOW_INVALID_DATES"),
    *("PAD_CHAR_TO_FULL_LENGTH", "TIME_TRUNCATE_FRACTIONAL", "STRICT_ALL_TABLES,TIME_TRUNCATE_FRACTIONAL"),
)
TYPES: Final = (
    *USUAL,
    *("smallint unsigned", "mediumint", "int unsigned", "bigint(20) unsigned zerofill", "decimal(65,30)"),
    *("decimal(65,0) unsigned", "decimal(40,10)", "decimal(38,30)", "decimal(45,20)", "double unsigned"),
    *("double(20,4)", "float unsigned", "timestamp(6)", "datetime(3)", "mediumtext", "varchar(100)", "varchar(180)"),
    *("char(20) character set latin1", "varchar(12) character set ucs2", "tinytext character set utf16"),
    *("varchar(200) character set ascii", "varchar(80) character set utf8mb3", "char(3)", "char(60)", "text"),
    *(
        "binary(12)",
        "binary(20)",
        "varbinary(4)",
        "tinyblob",
        "mediumblob",
        "set('','a','(','\\\\')",
        "set('(','','\\\\','a')",
    ),
    *("enum('','a','0')", "enum('a','','1','0')", "vector(3)", "point", "bit(24)"),
)
SHAPES: Final = (
    ("k INT PRIMARY KEY", ""),
    ("k INT", ""),
    ("k INT PRIMARY KEY", "PARTITION BY HASH (k) PARTITIONS 3"),
    ("k INT", "PARTITION BY KEY (k) PARTITIONS 3"),
)
_TOGETHER: Final = 30
"""Columns that one statement changes: the longest values of so many are still a row that InnoDB takes."""
_LOSSES: Final = (1264, 1265, 1292, 1366, 1406, 3140, 3155, 3156, 1411, 1048)


def literals(definition: str, random: Random) -> list[str]:
    """Return SQL of values of a type: those of `column_values`, and those at the type's limits."""
    name = re.split(r"[ (]", definition)[0]
    if name == "vector":
        return ["string_to_vector('[1,2,3]')", "string_to_vector('[0,-0,1e30]')", "string_to_vector('[1]')"]
    if name == "point":
        return ["st_geomfromtext('POINT(1 2)')", "st_geomfromtext('POINT(-0 0)')"]
    return [*values(_spelled(name, definition), random), *_limits(name)]


def _spelled(name: str, definition: str) -> str:
    like = {"tinyblob": "blob", "mediumblob": "blob", "mediumtext": "text"}
    return like.get(name, definition)


def _limits(name: str) -> list[str]:
    if name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return [str(sign * (1 << bits) + one) for bits in (7, 8, 15, 16, 23, 24, 31, 32, 63) for sign, one in _EDGES]
    if name == "decimal":
        return ["'" + "9" * 65 + "'", "'-" + "9" * 35 + "." + "9" * 30 + "'", "'1e-30'", "'1.5'", "'1.50'", "'-0.0'"]
    if name in ("float", "double"):
        return [*("'-0'", "'0'", "'-0.0'", "1.7976931348623157e308", "-1.7976931348623157e308", "2.3e-308"),
                *("3.4028234663852886e38", "1.17549435e-38", "0.30000000000000004", "999999.5", "1e22")]  # fmt: skip
    if name == "json":
        return [quoted(text) for text in ("1", "1.0", "true", "false", "0", "0.0", "-0.0", "-0", "null", "[null]",
                '{"a": [1, 1.0, true, null]}', "18446744073709551615", "-9223372036854775808", "1e308", '"null"')] + [
            "cast(1.10 as json)", "cast(cast('2020-01-02' as date) as json)", "cast(cast('01:02:03' as time) as json)",
            "cast(cast(1.5 as decimal(65,30)) as json)"]  # fmt: skip
    if name in ("enum", "set"):
        return ["'a'", "'('", "',('", "'(,'", "'\\\\,'", "'a,\\\\'", "0", "8", "15", "'0'"]
    if name in ("char", "varchar", "tinytext", "text", "mediumtext", "binary", "varbinary", "blob", "tinyblob"):
        return [f"repeat('x', {n})" for n in (3, 4, 5, 12, 20, 40, 60, 63, 64, 100, 101, 250, 255, 256, 300, 65535)] + [
            *_DISPLACED, "concat(repeat('y', 99), '  ')", "'-0'", "'-0.0'", "'0e0'", "'838:59:59'",
            "'0000-00-00 00:00:00'", "'2020-01-00'", "'2020-02-30 01:02:03.7'", "'9999-12-31 23:59:59.999999'",
            "repeat('9', 40)"]  # fmt: skip
    return []


_DISPLACED: Final = tuple(
    f"'{text}'"
    for text in (
        *("2020-01-02 03:04:05+01:00", "2020-01-02T03:04:05.678901-14:00", "2020-01-02 03:04:05.6+05:30"),
        *("2020-01-02 03:04:05+1:00", "2020-01-02 03:04:05-", "2020-01-02 03:04:05-00:00", "2020-01-02 03:04+01:00"),
        *("2100-01-02 03:04:05.99+14:00", "1970-01-01 00:00:01+00:00", "12:13:14日", "20200102030405.5+01:00"),
        *("2020-10-25 00:30:00+00:00", "20200102日", "日"),
    )
)
"""Texts with an offset from UTC, or what looks like one; and dates that end with another character."""
_EDGES: Final = ((1, -1), (1, 0), (-1, 0))


@dataclass(frozen=True)
class Story:
    """One type, one sql_mode, nullable or not afterwards."""

    old: str
    mode: str
    null: bool

    @property
    def strict(self) -> bool:
        return "STRICT" in self.mode


@dataclass
class Found:
    """What a story showed: statements carried out, values compared, differences, and stops by their words."""

    altered: int = 0
    compared: int = 0
    refused: int = 0
    differences: list[tuple[Any, ...]] = field(default_factory=list)
    stops: list[tuple[str, str]] = field(default_factory=list)
    moments: int = 0


def stories() -> list[Story]:
    """Return all of them."""
    return [Story(old, mode, null) for old in TYPES for mode in MODES for null in (True, False)]


class Node:
    """A node that carries a story out; `statements` are the ALTERs that it accepted, by table."""

    def __init__(self, server: MySqlServer, story: Story, random: Random) -> None:
        self.story, self.random = story, random
        self.statements: dict[str, str] = {}
        self.known: dict[str, set[int]] = {}
        self.refused = 0
        server.execute("RESET BINARY LOGS AND GTIDS")
        server.execute("CREATE DATABASE one CHARACTER SET utf8mb4")
        self.connection = server.connect("one")
        self.cursor: Any = self.connection.cursor()
        self.run("SET innodb_strict_mode = OFF, max_error_count = 65535")
        self.values = self._accepted(["NULL", *literals(story.old, random)])

    def run(self, sql: str) -> Any:
        self.cursor.execute(sql)
        return self.cursor.fetchall()

    def carry_out(self) -> None:
        """Alter tables with a column for each new type, and tables with one, where that may be something else."""
        news = [new for new in TYPES if new != self.story.old or not self.story.null]
        if family(self.story.old) == "binary":  # of which a server without strict mode makes vectors that are none
            news = [new for new in news if family(new) != "vector"]
        if family(self.story.old) in ("geometry", "vector"):  # of which nearly all conversions stop alike
            news = self.random.sample(news, 10)
        together = [new for new in news if not self._may_stop(new)]
        for n in range(0, len(together), _TOGETHER):
            self.alter(f"together{n}", together[n : n + _TOGETHER], SHAPES[self.random.choice((0, 0, 1, 1, 2, 3))])
        for n, new in enumerate(news):
            if new not in together or (self.story.mode in ("", STRICT) and family(new) == family(self.story.old)):
                self.alter(f"alone{n}", [new], SHAPES[self.random.choice((0, 0, 0, 1, 2, 3))])
        self.connection.close()

    def _may_stop(self, new: str) -> bool:
        """Tell which conversions may not be known here: these are not to stop others."""
        old, kinds = self.story.old, {family(self.story.old), family(new)}
        whole = family(new) in ("integer", "bit", "year")
        return any(
            (
                bool(kinds & {"geometry", "vector", "json"}) and kinds != {"json", "text"},
                "ucs2" in new and family(old) in ("binary", "bit"),
                any(charset in old for charset in ("ucs2", "utf16")) and family(new) in ("bit", "year"),
                "''" in old and family(new) not in ("text", "binary", "enum", "set"),
                old.startswith("float") and whole,
                "zerofill" in old and family(new) in ("date", "datetime", "timestamp", "time"),
            )
        )

    def alter(self, table: str, news: Sequence[str], shape: tuple[str, str]) -> None:
        key, partitions = shape
        if family(self.story.old) == "geometry":  # which no partitioned table has
            partitions = ""
        self._make(table, len(news), key, partitions)
        lost = self._lost(news)
        for i, rows in sorted(lost.items()):
            if self.story.strict or not self.story.null:
                self._take_away(table, i, rows)
        zone, now = self.random.choice(("+00:00", "+05:30", "-08:00")), self.random.randrange(10**9, 2 * 10**9)
        self.run(f"SET sql_mode = '{self.story.mode}', time_zone = '{zone}', timestamp = {now}.654321")
        left = dict(enumerate(news))
        while left:
            sql = f"ALTER TABLE {table} {', '.join(self._modify(i, new) for i, new in left.items())}"
            try:
                self.run(sql)
            except pymysql.err.Error as error:
                self.refused += 1
                for i in self._blamed(str(error), left):
                    left.pop(i)
                continue
            self.statements[table] = sql
            break
        self.run("SET sql_mode = '', time_zone = '+00:00', timestamp = DEFAULT")

    def _modify(self, i: int, new: str) -> str:
        return f"MODIFY c{i} {new} {'NULL' if self.story.null else 'NOT NULL'}"

    def _make(self, table: str, count: int, key: str, partitions: str) -> None:
        self.run("SET sql_mode = ''")
        columns = ", ".join(f"c{i} {self.story.old} NULL" for i in range(count))
        self.run(f"CREATE TABLE {table} ({key}, {columns}) {partitions}")
        self.run(f"INSERT INTO {table} SELECT k, {', '.join(['c0'] * count)} FROM taken ORDER BY k")

    def _accepted(self, literals: Sequence[str]) -> list[str]:
        """Return the values that a column of the old type takes at all, and keep them in a table, numbered."""
        self.run("SET sql_mode = ''")
        self.run(f"CREATE TABLE taken (k INT PRIMARY KEY, c0 {self.story.old} NULL)")
        accepted: list[str] = []
        for literal in literals:
            try:
                self.run(f"INSERT INTO taken VALUES ({len(accepted)}, {literal})")
            except pymysql.err.Error:
                continue
            accepted.append(literal)
        return accepted

    def _lost(self, news: Sequence[str]) -> dict[int, set[int]]:
        """Return the rows of each column of which a server without strict mode warns, or which it does not take."""
        if not self.story.strict:
            return {} if self.story.null else {i: set() for i in range(len(news))}
        self.run("SET sql_log_bin = 0")
        for new in news:
            if new in self.known:
                continue
            self.run("SET sql_mode = ''")
            self.run(f"CREATE TEMPORARY TABLE probe (k INT PRIMARY KEY, c0 {self.story.old} NULL)")
            self.run("INSERT INTO probe SELECT k, c0 FROM taken ORDER BY k")
            modes = [m for m in self.story.mode.split(",") if m.startswith(("NO_ZERO", "TIME_TR"))]
            try:
                self.run(f"SET sql_mode = '{','.join(modes)}'")
                self.run(f"ALTER TABLE probe MODIFY c0 {new} NULL")
                warnings = self.run("SHOW WARNINGS")
            except pymysql.err.Error as error:
                warnings = [("Warning", 1264, str(error))]
            rows = [re.search(r"at row (\d+)", text) for _, code, text in warnings if code in _LOSSES]
            self.known[new] = {int(row[1]) - 1 for row in rows if row}
            self.run("DROP TEMPORARY TABLE probe")
        self.run("SET sql_log_bin = 1, sql_mode = ''")
        return {i: self.known[new] for i, new in enumerate(news)}

    def _take_away(self, table: str, i: int, rows: set[int]) -> None:
        """Replace the values of rows by NULL, or by one that passes; NULLs too, if the column will not have any."""
        stays = self.story.null or self.random.random() < 0.3
        others = [k for k in range(1, len(self.values)) if k not in rows]
        new = "NULL" if self.story.null or not others else self.values[others[0]]
        gone = rows if stays else rows | {0}
        if gone:
            self.run(f"UPDATE {table} SET c{i} = {new} WHERE k IN ({', '.join(map(str, sorted(gone)))})")

    def _blamed(self, text: str, left: dict[int, str]) -> list[int]:
        """Return the columns without which the statement is tried again."""
        found = re.search(r"'c(\d+)'", text)
        if found and int(found[1]) in left:
            return [int(found[1])]
        return [max(left)] if len(left) < 4 else sorted(left)[: len(left) // 4 + 1]


def played(server: MySqlServer, story: Story, folder: Path, random: Random) -> Found:
    """Carry a story out, merge it, replay it, and compare all tables with the node's."""
    node = Node(server, story, random)
    node.carry_out()
    binlog = merged_of(server, folder)
    found = Found(altered=len(node.statements), refused=node.refused)
    stopped = _replayed(binlog, folder / "file.db", found, node.statements)
    expected, mine = tables_at(server, text=True), tables_of(folder / "file.db")
    for (_, table), (columns, rows) in sorted(expected.items()):
        if table in stopped or table not in node.statements:
            continue
        here_columns, here_rows = mine["one", table]
        assert here_columns == columns and len(rows) == len(here_rows), table
        found.compared += sum(map(len, rows))
        found.differences += _different(table, node.statements[table], columns, here_rows, rows)
    found.moments = _moments(binlog, sorted({*node.statements} - stopped), mine, folder, random)
    server.execute("DROP DATABASE one")
    return found


def _replayed(binlog: MergedBinlog, path: Path, found: Found, statements: dict[str, str]) -> set[str]:
    """Replay a log; return the tables whose ALTER stopped it, and was skipped."""
    skipped: list[int] = []
    stopped: set[str] = set()
    while True:
        try:
            loaded(binlog, path, text=True, skip=frozenset(skipped))
            return stopped
        except ReplayStopped as error:
            result: Any = error.result
            skipped.append(result.last_rank + 1)
            (table,) = re.findall(r"one\.(\w+): the values that are there", error.message)
            stopped.add(table)
            found.stops.append((statements[table], error.message))


def _different(
    table: str, sql: str, columns: Sequence[str], mine: Sequence[Any], theirs: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    for one, two in zip(mine, theirs, strict=True):
        for column, a, b in zip(columns, one, two, strict=True):
            action = re.search(rf"MODIFY {column} [^,]*(\([^)]*\))?[^,]*", sql)
            shown = action[0] if action else sql
            if isinstance(a, float) and re.search(r"(float|double)\(", shown):
                a, b = round(a, 4), round(b, 4)  # of which a server shows the digits of the definition alone
            if repr(a) != repr(b):
                yield table, shown, one[0], repr(a)[:80], repr(b)[:80]


def _moments(binlog: MergedBinlog, tables: Sequence[str], mine: dict[Any, Any], folder: Path, random: Random) -> int:
    """Make some tables as they are at the log's end of the log alone: they are as in the file."""
    chosen = random.sample(tables, min(1, len(tables)))
    for table in chosen:
        work = folder / f"at-{table}"
        work.mkdir()
        bases = bases_of(None, binlog, binlog.last_rank, work)
        with table_at(binlog, ("one", table), binlog.last_rank, bases, work) as made:
            found = made.target.connection.execute(f'FROM one."{table}"').fetchall()
        assert sorted(found, key=repr) == mine["one", table][1], table
    return len(chosen)
