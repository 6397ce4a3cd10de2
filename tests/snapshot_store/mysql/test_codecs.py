"""Character sets: text as a real MySQL maps it, character by character."""

import pytest

from snapshot_store.mysql.text.charsets import all_collations
from snapshot_store.mysql.text.codecs import decode_text, encode_text, has_codec
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


# Characters that these encode and we do not; the gaps that text_codecs names.
_GAPS = {"big5": 8, "cp932": 1, "ujis": 1880, "eucjpms": 2047, "tis620": 1}


@pytest.mark.mysql
@pytest.mark.parametrize("charsets", [("gbk", "latin1", "sjis"), pytest.param((), marks=pytest.mark.extended)], ids=str)
def test_every_character_of_every_character_set(mysql_server: MySqlServer, charsets: tuple[str, ...]) -> None:
    """Of these character sets, or of all."""
    characters = [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x10000)) if chr(code) != "?"]
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.c (k INT PRIMARY KEY, c VARCHAR(1) COLLATE utf8mb4_bin)")
    connection = mysql_server.connect("d")
    with connection.cursor() as cursor:
        for at in range(0, len(characters), 8000):
            cursor.executemany(
                "INSERT INTO c VALUES (%s, %s)", [(ord(char), char) for char in characters[at : at + 8000]]
            )
        for charset in charsets or sorted({charset for _, charset in all_collations().values()} - {"binary"}):
            question_mark = encode_text(charset, "?").hex().upper()
            asked = f"SELECT k, HEX(CONVERT(c USING {charset})) AS answer FROM c HAVING answer <> '{question_mark}'"
            cursor.execute(asked)
            answers = dict(cursor.fetchall())
            gaps = 0
            for char in characters:
                try:
                    mine = encode_text(charset, char).hex().upper()
                except UnicodeError:
                    gaps += ord(char) in answers
                    continue
                assert mine == answers.get(ord(char)), (charset, hex(ord(char)))
            assert gaps == _GAPS.get(charset, 0), charset
    connection.close()
