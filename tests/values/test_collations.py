"""Texts are compared as a real server compares them: random ones, of characters that are often taken for others."""

import random
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from binlog_merge.values.duckdb.collations import apart, icu_differences, sort_key
from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.compile import compile_value, parse
from snapshot_store import parse_table
from tests.effort import effort, seed_of_search
from tests.mysql_server import MySqlServer

CHARACTERS = (
    *"aAbBeEsSxX019 %_'\"\\\t", "é", "É", "e\u0301", "ß", "ẞ", "æ", "Æ", "ł", "Ø", "ñ", "ı", "İ", "ſ", "ǆ", "ﬁ",
    "ς", "σ", "Σ", "Й", "й", "и", "ї", "і", "ё", "Ａ", "ａ", "１", "١", "①", "²", "‘", "’", "“", "”", "日", "本",
    "世", "丗", "一", "ハ", "は", "パ", "ﾊ", "ー", "ゝ", "한", "글", "\u200d", "\u00ad", "😀", "😁", "𝐀", "ก", "เ",
    "א", "ם", "מ",
)  # fmt: skip
FAMILIES = (
    "aAeEoOuUlLdD\u0301\u0323\u0306\u0308\u030c\u0340\u0344\u034fáạắǻēéæÆǽǼœŒøØđĐ·ŀĿłŁ",
    "fFiIlLsStTnNʼﬀﬁﬂﬃﬄﬅﬆŉĳĲⅷⅧ㎏℡…¼⁄½㏈1234gkKvV.",
    "กขงดาำเแโไใ้่๑ກຂາຳເແໂໄ້ໜຫນ",
    "\u19b5\u19b7\u19ba\u1980\u1981\uaab5\uaab9\uaabb\uaa80\uaa82",
    "иИйЙуУўЎіІїЇгГґҐӂжЖеЁёѐ\u0306\u0308\u0301\u0300",
    "اآأإوؤيئىءٵٶٷٸٴ\u0653\u0654\u0655\u064b\u0651ﷺﷲﻻلاصىهـ١۱ﯝۇ",
    "कक़क\u093cनऩ\u093c\u094d\u093fডড়\u09bc\u09c7\u09be\u09cb\u09d7ೆ\u0cd5\u0cc0\u0cc6\u0bc6\u0bbe\u0bca\u0bd7ஔஒ",
    "\u0f71\u0f72\u0f73\u0f80\u0f81\u0fb2\u0fb3\u0f76\u0f77\u0f78\u0f79ཀཱི\u1025\u102e\u1026\u1b05\u1b35\u1b06",
    "한각가하글\u1100\u1112\u1161\u11ab\u11a8ㅎㅏㄴㄱﾡﾤﾾￂ㈀㈎㈜㉠㉮㉾주우의",
    "かがカガｶﾞﾟはぱバパﾊ\u3099\u309aー゙゚ゝゞ々〻ゟヿ㍿㌔㌢",
    "株式会社(㈱)平成㍻昭和1月㋀日㏠⼀一⽉豈更金㊎①(1)⑴",
    "\u200d\u200c\u200b\u2060\ufe0f\ufeff\u00ad\u034f\U000e0100\U000e0041aA日👨👩❤🆗🆎OKab",
    "שׁשׂש\u05c1\u05c2\u05bc\u05b8וּוםמκΚαάΑ\u0301\u0345ᾳͅΐϊϗσς\u0300ὰἀ\u0313",
)
"""Characters that make others when they follow each other: to Unicode, but not to MySQL."""
ONCE_WRONG = (
    ("เก", "กเ"), ("เกł𝐀", "เ%%_"), ("æ", "ae"), ("㈱", "(株)"), ("㍻", "平成"), ("㋿", "令和"), ("⽉㊎平", "月_平"),
    ("한", "\u1112\u1161\u11ab"), ("\U000f0000", "\u05f3"), ("й", "и\u0306"), ("ạ\u0301", "a\u0301\u0323"),
    ("b\u2003\u0301 ", "b"), ("\ufc5e", ""),
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
    rows = [*ONCE_WRONG, *(pair(rng) for _ in range(effort(500, 20000)))]
    mysql_server.execute("CREATE DATABASE d")
    with mysql_server.connect("d") as connection, connection.cursor() as cursor:
        different = [found for collation in COLLATIONS for found in differences(cursor, collation, rows)]
    assert not different, "\n".join(map(str, different[:40]))


def pair(rng: random.Random) -> tuple[str, str]:
    """Return a text, and another that is like it."""
    characters = rng.choice((CHARACTERS, *FAMILIES))
    one = [rng.choice(rng.choice((characters, characters, CHARACTERS))) for _ in range(rng.randrange(5))]
    other = [
        rng.choice((c, c, c.upper(), c.lower(), rng.choice(characters), "_", "%", "", unicodedata.normalize(form, c)))
        for c in rng.choice((one, one, one[::-1]))
        for form in (rng.choice(("NFD", "NFKD")),)
    ]
    return "".join(one), unicodedata.normalize(rng.choice(("NFC", "NFD")), "".join(other))


def differences(cursor: Any, collation: str, rows: Sequence[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    """Yield what a server says otherwise of pairs of texts."""
    create = f"CREATE TABLE {collation} (id INT PRIMARY KEY, a VARCHAR(80), b VARCHAR(80)) COLLATE {collation}"
    cursor.execute(create)
    cursor.executemany(f"INSERT INTO {collation} VALUES (%s, %s, %s)", [(i, *row) for i, row in enumerate(rows)])
    table = parse_table(create, schema="d")
    columns = {column.name: column_sql(column, column.name) for column in table.columns}
    unknown = disordered(collation.removeprefix("utf8mb4_"))
    known = {i: row for i, row in enumerate(rows) if not unknown.intersection(map(ord, "".join(row)))}
    asked = [(text, dict(enumerate(rows))) for text in ASKED]
    asked += [(text, known) for text in IN_ORDER if "unicode" not in collation]
    for text, those in asked:
        cursor.execute(f"SELECT id, {text} FROM {collation}")
        told = dict(cursor.fetchall())
        batch = pa.table({"id": list(those), "a": [a for a, _ in those.values()], "b": [b for _, b in those.values()]})
        sql = compile_value(parse(text), columns).text
        found = duckdb.from_arrow(batch).project(f"id, ({sql})::BOOLEAN AS found").fetchall()
        yield from ((collation, text, rows[i], told[i]) for i, ours in found if bool(told[i]) is not ours)


FOUND = ("locate(b, a)", "locate(a, b, 2)", "instr(a, left(b, 1))")
LETTERS = (
    *((0x20, 0x7E), (0xC0, 0x24F), (0x300, 0x34E), (0x386, 0x3CE), (0x400, 0x482), (0x48A, 0x52F), (0x1E00, 0x1FFF)),
    *((0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xFB00, 0xFB06)),
)
AT_LEAST = [
    ("xß", "s"),
    ("ß", "ss"),
    ("ﬁn", "f"),
    ("ﬁn", "i"),
    ("œuvre", "oe"),
    ("äpfel", "a"),
    ("a", "ä"),
    ("日本", "本"),
    ("a", ""),
]


@pytest.mark.mysql
def test_texts_are_found_where_a_server_finds_them(mysql_server: MySqlServer) -> None:
    """Texts of letters, and under the collations that know accents and cases those of ASCII."""
    rng = random.Random(seed_of_search())
    drawn = [*AT_LEAST, *(pair(rng) for _ in range(effort(1000, 20000)))]
    rows = [row for row in drawn if not row[1] or (all(map(of_letters, row)) and all(map(weighs, row)))]
    mysql_server.execute("CREATE DATABASE d")
    different: list[Any] = []
    with mysql_server.connect("d") as connection, connection.cursor() as cursor:
        for collation in (*COLLATIONS, "latin1_swedish_ci"):
            plain = collation.startswith("latin1") or "as_c" in collation
            these = [row for row in rows if not plain or "".join(row).isascii()]
            different += found_otherwise(cursor, collation, these)
    assert not different, "\n".join(map(str, different[:40]))


def of_letters(text: str) -> bool:
    return all(any(low <= ord(c) <= high for low, high in LETTERS) for c in text)


def weighs(text: str) -> bool:
    """Return whether a text, and its first character, are more than marks of what is before them."""
    return text != "" and not unicodedata.combining(text[0])


def found_otherwise(cursor: Any, collation: str, rows: Sequence[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    """Yield the pairs of texts in which a server finds the one elsewhere in the other."""
    kind = f"VARCHAR(80) CHARACTER SET {collation.partition('_')[0]} COLLATE {collation}"
    create = f"CREATE TABLE found_{collation} (id INT PRIMARY KEY, a {kind}, b {kind})"
    cursor.execute(create)
    cursor.executemany(f"INSERT INTO found_{collation} VALUES (%s, %s, %s)", [(i, *row) for i, row in enumerate(rows)])
    columns = {column.name: column_sql(column, column.name) for column in parse_table(create, schema="d").columns}
    pieces = [compile_value(parse(text), columns).text for text in FOUND]
    batch = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    cursor.execute(f"SELECT {', '.join(FOUND)} FROM found_{collation} ORDER BY id")
    ours = duckdb.from_arrow(batch).project(", ".join(f"{sql} AS f{i}" for i, sql in enumerate(pieces))).fetchall()
    for row, mine, told in zip(rows, ours, cursor.fetchall(), strict=True):
        if mine != told:
            yield collation, row, mine, told


def disordered(rule: str) -> set[int]:
    ends = [[int(end, 16) for end in run.split("-")] for run in icu_differences()["disordered"].get(rule, "").split()]
    return {number for pair in ends for number in range(pair[0], pair[-1] + 1)}


def test_what_is_not_parted_is_not_joined() -> None:
    rng = random.Random(seed_of_search())
    numbers = "SELECT chr(n::INT) c FROM range(1, 131072) t(n) WHERE n NOT BETWEEN 55296 AND 57343"
    alone = [c for (c,) in duckdb.sql(f"SELECT c FROM ({numbers}) WHERE {apart('c')} = c").fetchall()]
    assert len(alone) > 30000
    pairs = pa.table({"one": rng.choices(alone, k=50000), "two": rng.choices(alone, k=50000)})
    keys = [f"icu_sort_key({text}, 'und')" for text in ("one || two", "one || '\u034f' || two")]
    assert not duckdb.from_arrow(pairs).filter(f"{keys[0]} <> {keys[1]}").fetchall()


def test_letters_whose_syllable_a_server_takes_for_another_are_refused() -> None:
    keys = [sort_key("t", f"utf8mb4_0900_{rules}", False) for rules in ("as_ci", "as_cs")]
    letters = duckdb.from_arrow(pa.table({"t": [unicodedata.normalize("NFD", "\ud788")]}))
    letters.project(keys[0]).fetchall()
    with pytest.raises(duckdb.Error, match="add COLLATE utf8mb4_bin"):
        letters.project(keys[1]).fetchall()


def test_the_order_of_what_is_common_is_known() -> None:
    for rule in icu_differences()["disordered"]:
        assert not disordered(rule).intersection(ord(c) for text in CHARACTERS for c in text), rule
