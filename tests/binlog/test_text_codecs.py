"""Character sets: text as a real MySQL maps it, character by character."""

import pytest

from binlog_merge.binlog.text_codecs import decode_text, encode_text, has_codec
from binlog_merge.merge.charsets import all_collations, bytes_per_character, charset_of, collation_id, collation_name
from tests.mysql_server import MySqlServer


@pytest.mark.parametrize(
    ("charset", "text", "data"),
    [
        ("utf8mb4", "é😀", "c3a9f09f9880"),
        ("utf8", "é", "c3a9"),
        ("latin1", "€\x81\xff", "8081ff"),
        ("ucs2", "é日", "00e965e5"),
        ("utf16", "😀", "d83dde00"),
        ("utf16le", "é", "e900"),
        ("utf32", "é", "000000e9"),
        ("gbk", "中", "d6d0"),
        ("gb18030", "ḿ\ue7c7", "a8bc8135f437"),
        ("sjis", "日\\", "93fa815f"),
        ("cp932", "ⅰ", "fa40"),
        ("eucjpms", "－", "a1dd"),
        ("euckr", "각", "b0a2"),
        ("cp866", "ⁿ", "fc"),
        ("koi8u", "•", "95"),
        ("swe7", "Å", "5d"),
        ("armscii8", "Ա(", "b228"),
        ("keybcs2", "Č", "80"),
    ],
)
def test_both_ways(charset: str, text: str, data: str) -> None:
    assert encode_text(charset, text).hex() == data
    assert decode_text(charset, bytes.fromhex(data)) == text


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("latin1", "日"),
        ("utf8mb3", "😀"),
        ("ucs2", "😀"),
        ("ascii", "é"),
        ("sjis", "¥"),
        ("sjis", "＼"),
        ("cp932", "\x80"),
        ("big5", "╴"),
        ("cp1256", "ٹ"),
    ],
)
def test_what_a_server_would_turn_into_a_question_mark(charset: str, text: str) -> None:
    with pytest.raises(UnicodeError):
        encode_text(charset, text)


@pytest.mark.parametrize(
    ("charset", "data"), [("ascii", "80"), ("utf8mb4", "ff"), ("cp1250", "81"), ("ucs2", "d83dde00")]
)
def test_bytes_that_are_no_text(charset: str, data: str) -> None:
    with pytest.raises(UnicodeError):
        decode_text(charset, bytes.fromhex(data))


def test_unknown_character_set() -> None:
    assert not has_codec("klingon")
    with pytest.raises(LookupError):
        decode_text("klingon", b"a")


def test_collations() -> None:
    assert (charset_of(255), collation_name(255)) == ("utf8mb4", "utf8mb4_0900_ai_ci")
    assert (charset_of(63), collation_name(63), collation_id(None, None)) == ("binary", "binary", 63)
    assert collation_id("latin1", None) == 8
    assert collation_id("utf8", "utf8_bin") == collation_id(None, "utf8mb3_bin") == 83
    assert (charset_of(9999), collation_id("utf8mb4", "utf8mb4_klingon_ci")) == (None, None)
    assert (bytes_per_character("utf8"), bytes_per_character(None), bytes_per_character("klingon")) == (3, 1, None)


@pytest.mark.mysql
def test_collations_are_the_servers(mysql_server: MySqlServer) -> None:
    listed = mysql_server.query(
        "SELECT id, collation_name, character_set_name, maxlen FROM information_schema.collations"
        " JOIN information_schema.character_sets USING (character_set_name)"
    )
    assert {number: (name, charset) for number, name, charset, _ in listed} == all_collations()
    assert all(bytes_per_character(charset) == size for _, _, charset, size in listed)
    defaults = mysql_server.query(
        "SELECT character_set_name, id FROM information_schema.collations WHERE is_default='Yes'"
    )
    assert all(collation_id(charset, None) == number for charset, number in defaults)


# Characters that these encode and we do not; the gaps that text_codecs names.
_GAPS = {"big5": 8, "cp932": 1, "ujis": 1880, "eucjpms": 2047, "tis620": 1}


@pytest.mark.mysql
def test_every_character_of_every_character_set(mysql_server: MySqlServer) -> None:
    characters = [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x10000)) if chr(code) != "?"]
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.c (k INT PRIMARY KEY, c VARCHAR(1) COLLATE utf8mb4_bin)")
    connection = mysql_server.connect("d")
    with connection.cursor() as cursor:
        for at in range(0, len(characters), 8000):
            cursor.executemany(
                "INSERT INTO c VALUES (%s, %s)", [(ord(char), char) for char in characters[at : at + 8000]]
            )
        for charset in sorted({charset for _, charset in all_collations().values()} - {"binary"}):
            cursor.execute(f"SELECT k, HEX(CONVERT(c USING {charset})) FROM c")
            answers = cursor.fetchall()
            question_mark = encode_text(charset, "?").hex().upper()
            gaps = 0
            for code, answer in answers:
                try:
                    mine = encode_text(charset, chr(code)).hex().upper()
                except UnicodeError:
                    gaps += answer != question_mark
                    continue
                assert mine == answer, (charset, hex(code))
            assert gaps == _GAPS.get(charset, 0), charset
    connection.close()
