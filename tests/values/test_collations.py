"""Texts are compared as a real server compares them: random ones, of characters that are often taken for others."""

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.compile import compile_value, parse
from binlog_merge.values.duckdb.icu_differences import DISORDERED
from snapshot_store import parse_table
from tests.effort import seed_of_search
from tests.mysql_server import MySqlServer

CHARACTERS = (
    *"aAbBeEsSxX019 %_'\"\\\t", "é", "É", "e\u0301", "ß", "ẞ", "æ", "Æ", "ł", "Ø", "ñ", "ı", "İ", "ſ", "ǆ", "ﬁ",
    "ς", "σ", "Σ", "Й", "й", "и", "ї", "і", "ё", "Ａ", "ａ", "１", "١", "①", "²", "‘", "’", "“", "”", "日", "本",
    "世", "丗", "一", "ハ", "は", "パ", "ﾊ", "ー", "ゝ", "한", "글", "\u200d", "\u00ad", "😀", "😁", "𝐀", "ก", "เ",
    "א", "ם", "מ",
)  # fmt: skip
COLLATIONS = (
    "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci", "utf8mb4_0900_as_cs", "utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci",
    "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_0900_bin",
)  # fmt: skip
ASKED = ("a = b", "a <> b", "a IN (b, 'é')", "a LIKE b", "a LIKE b ESCAPE '%'", "find_in_set(a, concat(b, ',Ｅ'))")
IN_ORDER = ("a < b", "a BETWEEN b AND 'ｅ'")


@pytest.mark.mysql
def test_random_texts_compare_as_on_a_server(mysql_server: MySqlServer) -> None:
    rng = random.Random(seed_of_search())
    rows: list[tuple[str, str]] = []
    for _ in range(1500):
        one = "".join(rng.choice(CHARACTERS) for _ in range(rng.randrange(5)))
        other = "".join(
            rng.choice((c, c.upper(), c.lower(), rng.choice(CHARACTERS), "_", "%", ""))
            for c in rng.choice((one, one[::-1]))
        )
        rows.append((one, other))
    mysql_server.execute("CREATE DATABASE d")
    connection = mysql_server.connect("d")
    different: list[Any] = []
    with connection, connection.cursor() as cursor:
        for collation in COLLATIONS:
            create = f"CREATE TABLE {collation} (id INT PRIMARY KEY, a VARCHAR(40), b VARCHAR(40)) COLLATE {collation}"
            cursor.execute(create)
            cursor.executemany(f"INSERT INTO {collation} VALUES (%s, %s, %s)", [(i, *r) for i, r in enumerate(rows)])
            table = parse_table(create, schema="d")
            columns = {column.name: column_sql(column, column.name) for column in table.columns}
            batch = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
            for text in (*ASKED, *(() if "unicode" in collation else IN_ORDER)):
                cursor.execute(f"SELECT {text} FROM {collation} ORDER BY id")
                told = [bool(value) for (value,) in cursor.fetchall()]
                sql = compile_value(parse(text), columns).text
                found = duckdb.from_arrow(batch).project(f"({sql})::BOOLEAN AS found").fetchall()
                different += [
                    (collation, text, rows[i], theirs)
                    for i, (theirs, (ours,)) in enumerate(zip(told, found, strict=True))
                    if ours is not theirs
                ]
    assert not different, "\n".join(map(str, different[:40]))


def test_the_order_of_what_is_common_is_known() -> None:
    for rule, listed in DISORDERED.items():
        numbers = {
            n for run in listed.split() for n in range(int(run.split("-")[0], 16), int(run.split("-")[-1], 16) + 1)
        }
        assert not numbers & {ord(c) for text in CHARACTERS for c in text}, rule
