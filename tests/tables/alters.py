"""ALTERs of columns with rows at their limits, on a real node: what it makes of them, and what a DuckDB file has then.

A story is one type of a column (with its values and NULL), a session's sql_mode, and whether the column becomes NOT
NULL. Its column becomes every other type, together with others in one statement, which copies the table, and, where a
server may do it in place, alone as well; in tables of every shape. What the node refuses is not asked again: without
strict mode it warns of each row that strict mode refuses, and only these are taken away.

The stories of one type are told in one log. A conversion that the replay refuses is noted, and those beside it go on.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pymysql

from binlog_merge.errors import ReplayStopped
from binlog_merge.log.log import Log
from binlog_merge.tables.alter import Alteration
from binlog_merge.time_travel.bases import bases_of
from binlog_merge.time_travel.table_at import table_at
from tests.mysql_server import MySqlServer
from tests.tables.test_duckdb import loaded, tables_at, tables_of
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
_ASKED_AT_A_MOMENT: Final = 1 / 6
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
            "'0000-00-00 00:00:00'", "'2020-01-00'", "'2020-02-30 01:02:03.7'", "'2020-01-00 01:02:03.7'",
            "'0000-05-06 23:59:59.9'", "'0000-12-31 23:59:59.9'", "'0000-02-28 23:59:59.9'", "'0000-02-29'",
            "'9999-12-31 23:59:59.999999'",
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
    """What stories showed: statements carried out, values compared, differences, and stops by their words."""

    altered: int = 0
    refused: int = 0
    compared: int = 0
    differences: list[tuple[Any, ...]] = field(default_factory=list)
    stops: list[tuple[str, str]] = field(default_factory=list)


def stories_of(old: str) -> list[Story]:
    """Return all stories of a type."""
    return [Story(old, mode, null) for mode in MODES for null in (True, False)]


class Node:
    """A node that carries out stories of one type; `altered` are the ALTERs that it accepted.

    By table, they are the story, and the new type of each column that is altered.
    """

    def __init__(self, server: MySqlServer, old: str, random: Random) -> None:
        self.old, self.random = old, random
        self.altered: dict[str, tuple[Story, dict[str, str]]] = {}
        self.known: dict[tuple[str, str], set[int]] = {}
        self.refused = 0
        server.execute("RESET BINARY LOGS AND GTIDS")
        server.execute("CREATE DATABASE one CHARACTER SET utf8mb4")
        self.connection = server.connect("one")
        self.cursor: Any = self.connection.cursor()
        self.run("SET innodb_strict_mode = OFF, max_error_count = 65535")
        self.count = self._take(["NULL", *literals(old, random)])

    def run(self, sql: str) -> Any:
        self.cursor.execute(sql)
        return self.cursor.fetchall()

    def carry_out(self, number: int, story: Story) -> None:
        """Alter tables with a column for each new type, and tables with one, where that may be something else."""
        news = [new for new in TYPES if self._is_told(story, new)]
        together = [new for new in news if not self._stops_all(story, new)]
        self.random.shuffle(together)
        for n in range(0, len(together), _TOGETHER):
            self.alter(f"s{number}_together{n}", story, together[n : n + _TOGETHER])
        for n, new in enumerate(news):
            if new not in together or (story.mode in ("", STRICT) and self._may_be_in_place(new)):
                self.alter(f"s{number}_alone{n}", story, [new])

    def _is_told(self, story: Story, new: str) -> bool:
        if (family(self.old), family(new)) == ("binary", "vector"):  # without strict mode, it may be no vector
            return False
        return new != self.old or not story.null

    def _stops_all(self, story: Story, new: str) -> bool:
        """Tell which dates may stop the whole statement: those with a zero, in NO_ZERO_IN_DATE without strict mode."""
        kind = family(new)
        zeroes = "NO_ZERO_IN_DATE" in story.mode and not story.strict
        return zeroes and kind == family(self.old) and kind in ("date", "datetime")

    def _may_be_in_place(self, new: str) -> bool:
        kinds = {family(self.old), family(new)}
        return len(kinds) == 1 or kinds == {"text", "binary"}

    def alter(self, table: str, story: Story, news: Sequence[str]) -> None:
        key, partitions = self.random.choice(SHAPES)
        if family(self.old) == "geometry":  # which no partitioned table has
            partitions = ""
        self._make(table, story, news, key, partitions)
        zone, now = self.random.choice(("+00:00", "+05:30", "-08:00")), self.random.randrange(10**9, 2 * 10**9)
        self.run(f"SET sql_mode = '{story.mode}', time_zone = '{zone}', timestamp = {now}.654321")
        left = dict(enumerate(news))
        while left:
            try:
                self.run(f"ALTER TABLE {table} {', '.join(_modify(i, new, story) for i, new in left.items())}")
            except pymysql.err.Error as error:
                self.refused += 1
                for i in self._blamed(str(error), table, story, left):
                    left.pop(i)
                continue
            self.altered[table] = story, {f"c{i}": new for i, new in left.items()}
            break
        self.run("SET sql_mode = '', time_zone = '+00:00', timestamp = DEFAULT")

    def _make(self, table: str, story: Story, news: Sequence[str], key: str, partitions: str) -> None:
        """Make a table with all values in a column for each new type, but for those that the node refuses there."""
        self.run("SET sql_mode = ''")
        columns = ", ".join(f"c{i} {self.old} NULL" for i in range(len(news)))
        self.run(f"CREATE TABLE {table} ({key}, {columns}) {partitions}")
        joins = [f"JOIN taken j{i} ON j{i}.k = {self._chosen(story, new)}" for i, new in enumerate(news)]
        values = ", ".join(f"j{i}.c0" for i in range(len(news)))
        self.run(f"INSERT INTO {table} SELECT STRAIGHT_JOIN taken.k, {values} FROM taken {' '.join(joins)}")

    def _take(self, literals: Sequence[str]) -> int:
        """Keep the values that a column of the old type takes at all in a table, and number them; return how many."""
        self.run("SET sql_mode = ''")
        self.run(f"CREATE TABLE taken (k INT PRIMARY KEY, c0 {self.old} NULL)")
        count = 0
        for literal in literals:
            try:
                self.run(f"INSERT INTO taken VALUES ({count}, {literal})")
            except pymysql.err.Error:
                continue
            count += 1
        return count

    def _chosen(self, story: Story, new: str) -> str:
        """Return SQL of which value a row has: its own, else NULL, or one that passes; seldom NULL if that is lost."""
        lost = self._lost(story, new)
        others = [k for k in range(1, self.count) if k not in lost]
        if not story.null and self.random.random() < 0.7:
            lost = lost | {0}
        if not lost:
            return "taken.k"
        instead = 0 if story.null or not others else others[0]
        return f"IF(taken.k IN ({', '.join(map(str, sorted(lost)))}), {instead}, taken.k)"

    def _lost(self, story: Story, new: str) -> set[int]:
        """Return the values of which a server without strict mode warns, or which it does not take."""
        flags = ",".join(mode for mode in story.mode.split(",") if mode.startswith(("NO_ZERO", "TIME_TR")))
        if new == "json" and family(self.old) != "vector":  # of which no mode takes others
            return {k for (k,) in self.run("SELECT k FROM taken WHERE NOT coalesce(json_valid(c0), TRUE)")}
        if not story.strict:
            return set()
        if (flags, new) not in self.known:
            warnings = self._probed("taken", "c0", flags, f"MODIFY c0 {new} NULL")
            rows = [re.search(r"at row (\d+)", text) for _, code, text in warnings if code in _LOSSES]
            self.known[flags, new] = {int(row[1]) - 1 for row in rows if row}
        return self.known[flags, new]

    def _probed(self, table: str, column: str, mode: str, action: str) -> Any:
        """Alter a copy of a column that the log does not see; return the warnings, and the error if there is one."""
        self.run("SET sql_log_bin = 0, sql_mode = ''")
        self.run(f"CREATE TEMPORARY TABLE probe (k INT PRIMARY KEY, {column} {self.old} NULL)")
        self.run(f"INSERT INTO probe SELECT k, {column} FROM {table}")
        try:
            self.run(f"SET sql_mode = '{mode}'")
            self.run(f"ALTER TABLE probe {action}")
            return self.run("SHOW WARNINGS")
        except pymysql.err.Error as error:
            return [("Error", 1264, str(error))]
        finally:
            self.run("DROP TEMPORARY TABLE probe")
            self.run("SET sql_log_bin = 1, sql_mode = ''")

    def _blamed(self, text: str, table: str, story: Story, left: dict[int, str]) -> list[int]:
        """Return the columns without which the statement is tried again."""
        found = re.search(r"'c(\d+)'", text)
        if found and int(found[1]) in left:
            return [int(found[1])]
        refused = [i for i, new in left.items() if self._refused(table, i, new, story)]
        self.run(f"SET sql_mode = '{story.mode}'")
        return refused or [max(left)]

    def _refused(self, table: str, i: int, new: str, story: Story) -> bool:
        answer = self._probed(table, f"c{i}", story.mode, _modify(i, new, story))
        return any(level == "Error" for level, _, _ in answer)


def _modify(i: int, new: str, story: Story) -> str:
    return f"MODIFY c{i} {new} {'NULL' if story.null else 'NOT NULL'}"


def played(server: MySqlServer, stories: Sequence[Story], folder: Path, random: Random) -> Found:
    """Carry out stories of one type, merge them, replay them, and compare all tables with the node's."""
    node = Node(server, stories[0].old, random)
    for number, story in enumerate(stories):
        node.carry_out(number, story)
    node.connection.close()
    binlog = merged_of(server, folder)
    found = Found(altered=len(node.altered), refused=node.refused)
    with _stops_noted() as stops:
        _replayed(binlog, folder / "file.db", stops)
        expected, mine = tables_at(server, text=True), tables_of(folder / "file.db")
        tables = [table for table in node.altered if (table, "") not in stops]
        if random.random() < _ASKED_AT_A_MOMENT:
            _at_the_end(binlog, random.choice(tables), mine, folder)
    for (table, column), words in stops.items():
        story, news = node.altered[table]
        found.stops.append((f"{story} {news.get(column, news)}", words))
    for table in tables:
        columns, rows = expected["one", table]
        here_columns, here_rows = mine["one", table]
        assert here_columns == columns and len(rows) == len(here_rows), table
        for number, column in enumerate(columns):
            if (table, column) not in stops:
                found.compared += len(rows)
                story, news = node.altered[table]
                found.differences += _different(f"{story} {news.get(column, column)}", number, here_rows, rows)
    server.execute("DROP DATABASE one")
    return found


@contextmanager
def _stops_noted() -> Iterator[dict[tuple[str, str], str]]:
    """Go on after a column that the replay does not convert, with NULLs in it; yield its words by table and column."""
    noted: dict[tuple[str, str], str] = {}
    convert = Alteration._converted

    def converted(work: Alteration, column: Any, was: Any) -> dict[str, Any]:
        try:
            return convert(work, column, was)
        except ReplayStopped as error:
            noted[work.before.name, column.name] = error.message
            return {"k": pa.nulls(0), "v": pa.nulls(0)}

    with patch.object(Alteration, "_converted", converted):
        yield noted


def _replayed(binlog: Log, path: Path, stops: dict[tuple[str, str], str]) -> None:
    """Replay a log, and skip the ALTERs that stop it as a whole: they are noted without a column."""
    skipped: list[int] = []
    while True:
        try:
            loaded(binlog, path, text=True, skip=frozenset(skipped))
            return
        except ReplayStopped as error:
            result: Any = error.result
            skipped.append(result.last_rank + 1)
            (table,) = re.findall(r"one\.(\w+): the values that are there", error.message)
            stops[table, ""] = error.message


def _different(what: str, number: int, mine: Sequence[Any], theirs: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    for one, two in zip(mine, theirs, strict=True):
        a, b = one[number], two[number]
        if isinstance(a, float) and re.search(r"(float|double)\(", what):
            a, b = round(a, 4), round(b, 4)  # of which a server shows the digits of the definition alone
        if repr(a) != repr(b):
            yield what, one[0], repr(a)[:80], repr(b)[:80]


def _at_the_end(binlog: Log, table: str, mine: dict[Any, Any], folder: Path) -> None:
    """Make a table as it is at the log's end of the log alone: it is as in the file."""
    bases = bases_of(None, binlog, binlog.last_rank, folder)
    with table_at(binlog, ("one", table), binlog.last_rank, bases, folder) as made:
        found = made.target.connection.execute(f'FROM one."{table}"').fetchall()
    assert sorted(found, key=repr) == mine["one", table][1], table
