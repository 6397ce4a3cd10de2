"""Every type to every type, against a real server: what ALTER TABLE ... MODIFY stores of the same values.

Without strict mode the server converts every row and warns of each that it changes: what it stores is what the policy
`clamp` gives, and what it warns of is what the policy `error` refuses. We may refuse more (a server makes 00:00:00 of
'10:61:00' in silence), never less.
"""

import re
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any

import pymysql
import pytest

from binlog_merge.errors import UnsupportedInput
from binlog_merge.values.convert.cells import ConversionError, Converter, make_converter
from binlog_merge.values.convert.time import to_time
from binlog_merge.values.types import binlog_column
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.model import Catalog, Column, Schema
from tests.binlog.written_rows import rows_of
from tests.effort import effort, seed_of_search
from tests.mysql_server import MySqlServer
from tests.values.column_values import TYPES, values

pytestmark = pytest.mark.mysql

_LOSSES = (1264, 1265, 1366, 3155, 3156)  # with the row they are about
_ROWLESS = ("decimal", "bit")  # targets of whose losses the server does not say the row


@cache
def column(definition: str) -> Column:
    sql = f"CREATE TABLE t (c {definition})"
    return apply_ddl(Catalog({"d": Schema("d")}), sql, "d").catalog.tables["d", "t"].columns[0]


@cache
def converter(old: str, new: str) -> Converter | None:
    return make_converter(column(old), column(new), binlog_column(column(old)))


def targets(old: str) -> list[str]:
    """Return the types whose values a server can make of those of `old`, JSON apart."""
    found = []
    for new in TYPES:
        try:
            converter(old, new)
        except UnsupportedInput:
            continue
        if new not in (old, "json"):
            found.append(new)
    return found


def nearest(old: str, new: str, cell: bytes) -> tuple[bytes | None, bool]:
    """Return what we store without strict mode, and whether something is lost."""
    made = converter(old, new)
    if made is None:
        return cell, False
    cell_or_none, lost = made.nearest(cell)
    return cell_or_none, bool(lost)


def inserted(cursor: Any, table: str, old: str, count: int) -> None:
    literals = values(old, Random(old))
    columns = ", ".join(f"c{i} {old}" for i in range(count))
    cursor.execute(f"CREATE TABLE {table} (k int primary key, {columns})")
    rows = ", ".join(f"({k}, {', '.join([literal] * count)})" for k, literal in enumerate(literals))
    cursor.execute(f"INSERT INTO {table} VALUES {rows}")


def undefined(old: str, new: str, literal: str) -> bool:
    """Tell where a server's answer is an accident that we do not repeat."""
    wide_number = "utf16" in old and literal in ("'0x41'", "'--1'")
    last_second = literal.startswith("'9999-12-31")
    user_defined = "gbk" in new and literal.startswith("x'")  # codes that GBK leaves to its users
    return wide_number or last_second or user_defined


def test_every_type_to_every_type(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    connection = mysql_server.connect("d")
    warned: dict[str, set[tuple[int, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode='', max_error_count=65535, innodb_strict_mode=OFF")
        for n, old in enumerate(TYPES):
            news = targets(old)
            inserted(cursor, f"t{n}", old, len(news))
            cursor.execute(f"ALTER TABLE t{n} {', '.join(f'MODIFY c{i} {new}' for i, new in enumerate(news))}")
            cursor.execute("SHOW WARNINGS")
            found = [
                re.search(r"column '?c(\d+)'? at row (\d+)", text)
                for level, code, text in cursor.fetchall()
                if level == "Warning" and code in _LOSSES
            ]
            warned[old] = {(int(match[1]), int(match[2]) - 1) for match in found if match}
            cursor.execute(f"DELETE FROM t{n}")
    connection.close()
    rows = rows_of(mysql_server.binlog_files()[-1])
    compared = 0
    for n, old in enumerate(TYPES):
        literals = values(old, Random(old))
        written, stored = rows[f"t{n}"][: len(literals)], rows[f"t{n}"][len(literals) :]
        for i, new in enumerate(targets(old)):
            for k, literal in enumerate(literals):
                if undefined(old, new, literal):
                    continue
                before = written[k][i + 1]
                assert before is not None
                mine, lost = nearest(old, new, before)
                where = (old, new, literal)
                assert mine == stored[k][i + 1], (where, mine, stored[k][i + 1])
                assert lost or (i, k) not in warned[old] or new.startswith(_ROWLESS), where
                compared += 1
    assert compared > 30_000


NUMBERS = ("", "1", "5", "59", "60", "0", "07", "123456", "838", "839", "4294967295", "4294967296", "9" * 20)
BEGINS = (
    "",
    "",
    "",
    "-",
    " ",
    "\t",
    "+",
    "- ",
    "2024-01-02",
    "2024-1-2 ",
    "2024-13-01T",
    "99-01-02 ",
    "2024-01-02 10:",
)
BETWEEN = (":", ":", " ", "  ", ".", " : ", "-")
ENDS = ("", "", "e3", "E+4", "e-2", "e", "ex", "x", " ", ".5", ".1234567", ".", " x")


def test_any_text_as_a_time(mysql_server: MySqlServer) -> None:
    """What is made of times, dates, numbers and what separates them: as a server, or refused."""
    rng = Random(seed_of_search())
    made = {_text_of_numbers(rng) for _ in range(effort(3000, 20_000))}
    texts = sorted(
        made | {"2024-01-02 10:11:12", "10:11:12.5", "2024-01-02T10:11:12.123456", "1 10:11:12", "n/a or so"}
    )
    hexed = ", ".join(f"({i}, x'{text.encode().hex()}')" for i, text in enumerate(texts))
    mysql_server.execute(f"""
        CREATE DATABASE texts; SET sql_mode = '';
        CREATE TABLE texts.t (id INT PRIMARY KEY, v VARCHAR(80) COLLATE utf8mb4_bin);
        INSERT INTO texts.t VALUES {hexed};
        ALTER TABLE texts.t MODIFY v TIME(6);
    """)
    stored = mysql_server.query("SELECT CAST(v AS CHAR) FROM texts.t ORDER BY id")
    known = 0
    for text, (theirs,) in zip(texts, stored, strict=True):
        if re.search(r"[+-]\d\d:\d\d\s*$", text):  # an offset from UTC, which is read before
            continue
        try:
            ours = to_time(column("time(6)").type, text, [], 0, True)
        except ConversionError:
            continue
        known += 1
        seconds, micros = divmod(abs(ours) // timedelta(microseconds=1), 1_000_000)
        shown = (
            f"{'-' * (ours < timedelta(0))}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
        )
        assert shown == theirs, text
    assert known > len(texts) // 3


def _text_of_numbers(rng: Random) -> str:
    parts = [rng.choice(BEGINS), rng.choice(NUMBERS)]
    for _ in range(rng.randint(0, 3)):
        parts += [rng.choice(BETWEEN), rng.choice(NUMBERS)]
    return "".join([*parts, rng.choice(ENDS), rng.choice(ENDS)])[:60]


def test_what_is_not_lost_passes_in_strict_mode(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    connection = mysql_server.connect("d")
    news = [new for new in TYPES if new.startswith(_ROWLESS)]
    converted = [(n, old, [new for new in news if new in (old, *targets(old))]) for n, old in enumerate(TYPES)]
    with connection.cursor() as cursor:
        for n, old, _ in converted:
            cursor.execute("SET sql_mode='', innodb_strict_mode=OFF")
            inserted(cursor, f"t{n}", old, len(news))
        rows = rows_of(mysql_server.binlog_files()[-1])
        for n, old, own in converted:
            for i, new in enumerate(own):
                lost = [k for k, row in enumerate(rows[f"t{n}"]) if nearest(old, new, row[i + 1] or b"")[1]]
                if lost:
                    cursor.execute(f"UPDATE t{n} SET c{i} = NULL WHERE k IN ({', '.join(map(str, lost))})")
            cursor.execute("SET sql_mode='STRICT_TRANS_TABLES'")
            cursor.execute(f"ALTER TABLE t{n} {', '.join(f'MODIFY c{i} {new}' for i, new in enumerate(own))}")
            cursor.execute("SET sql_mode=''")
    connection.close()


def test_to_json(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    connection = mysql_server.connect("d")
    expected: dict[str, list[bytes | None]] = {}
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode=''")
        olds = [old for old in TYPES if old != "json" and not old.startswith(("binary", "varbinary", "blob", "bit"))]
        for n, old in enumerate(olds):
            inserted(cursor, f"t{n}", old, 1)
        rows = rows_of(mysql_server.binlog_files()[-1])
        for n, old in enumerate(olds):
            refused = []
            made = converter(old, "json")
            assert made is not None
            expected[f"t{n}"] = []
            for k, (_, cell) in enumerate(rows[f"t{n}"]):
                try:
                    expected[f"t{n}"].append(made(cell))
                except ConversionError:
                    refused.append(k)
            for k in refused[:2]:
                cursor.execute(f"CREATE TABLE one LIKE t{n}")
                cursor.execute(f"INSERT INTO one SELECT * FROM t{n} WHERE k = {k}")
                with pytest.raises(pymysql.err.Error):
                    cursor.execute("ALTER TABLE one MODIFY c0 JSON")
                cursor.execute("DROP TABLE one")
            if refused:
                cursor.execute(f"DELETE FROM t{n} WHERE k IN ({', '.join(map(str, refused))})")
            cursor.execute(f"ALTER TABLE t{n} MODIFY c0 JSON")
            cursor.execute(f"UPDATE t{n} SET k = k + 1000 ORDER BY k DESC")
    connection.close()
    rows = rows_of(mysql_server.binlog_files()[-1])
    for table, documents in expected.items():
        numbered = {int.from_bytes(row[0] or b"", "little"): row for row in rows[table]}
        changed = [numbered[k] for k in sorted(numbered) if k >= 1000]
        assert [row[1] for row in changed] == documents, table
