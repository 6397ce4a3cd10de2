"""Collation ids and character sets: how a column's bytes are read.

Ids are MySQL's (`information_schema.COLLATIONS`); MariaDB's own collations (above 576) carry the character set in
ranges of their own. A character set that is not known stays bytes.
"""

from typing import Final

from binlog_merge.binlog import text_codecs

BINARY_COLLATION: Final = 63

# character set -> collation ids, as (first, last) ranges or single ids; MySQL 9.7 and 5.7.
_IDS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "big5": ((1, 1), (84, 84)),
    "latin2": ((2, 2), (9, 9), (21, 21), (27, 27), (77, 77)),
    "dec8": ((3, 3), (69, 69)),
    "cp850": ((4, 4), (80, 80)),
    "latin1": ((5, 5), (8, 8), (15, 15), (31, 31), (47, 49), (94, 94)),
    "hp8": ((6, 6), (72, 72)),
    "koi8r": ((7, 7), (74, 74)),
    "swe7": ((10, 10), (82, 82)),
    "ascii": ((11, 11), (65, 65)),
    "ujis": ((12, 12), (91, 91)),
    "sjis": ((13, 13), (88, 88)),
    "cp1251": ((14, 14), (23, 23), (50, 52)),
    "hebrew": ((16, 16), (71, 71)),
    "tis620": ((18, 18), (89, 89)),
    "euckr": ((19, 19), (85, 85)),
    "latin7": ((20, 20), (41, 42), (79, 79)),
    "koi8u": ((22, 22), (75, 75)),
    "gb2312": ((24, 24), (86, 86)),
    "greek": ((25, 25), (70, 70)),
    "cp1250": ((26, 26), (34, 34), (44, 44), (66, 66), (99, 99)),
    "gbk": ((28, 28), (87, 87)),
    "cp1257": ((29, 29), (58, 59)),
    "latin5": ((30, 30), (78, 78)),
    "armscii8": ((32, 32), (64, 64)),
    "utf8mb3": ((33, 33), (76, 76), (83, 83), (192, 215), (223, 223), (576, 576), (1025, 1215)),
    "ucs2": ((35, 35), (90, 90), (128, 151), (159, 159), (640, 640)),
    "cp866": ((36, 36), (68, 68)),
    "keybcs2": ((37, 37), (73, 73)),
    "macce": ((38, 38), (43, 43)),
    "macroman": ((39, 39), (53, 53)),
    "cp852": ((40, 40), (81, 81)),
    "utf8mb4": ((45, 46), (224, 247), (255, 323), (608, 608), (2048, 2303)),
    "utf16": ((54, 55), (101, 124), (672, 672)),
    "utf16le": ((56, 56), (62, 62)),
    "cp1256": ((57, 57), (67, 67)),
    "utf32": ((60, 61), (160, 183), (736, 736)),
    "binary": ((63, 63),),
    "geostd8": ((92, 93),),
    "cp932": ((95, 96),),
    "eucjpms": ((97, 98),),
    "gb18030": ((248, 250),),
}

_BY_ID: Final[dict[int, str]] = {
    number: name for name, ranges in _IDS.items() for first, last in ranges for number in range(first, last + 1)
}


def charset_of(collation: int) -> str | None:
    """Return the character set of a collation id; None where the id is not known."""
    return _BY_ID.get(collation)


def is_utf8(charset: str) -> bool:
    """Tell whether texts of a character set are UTF-8 as they are."""
    return charset in ("utf8mb4", "utf8mb3", "utf8")


def decode_text(data: bytes, charset: str) -> str | bytes:
    """Return the text of `data` as the server shows it; the bytes themselves for `binary`, for unknown character sets,
    and where they are not valid."""
    try:
        return data.decode("utf-8") if is_utf8(charset) else text_codecs.decode_text(charset, data)
    except (UnicodeError, LookupError):
        return data


def encode_text(text: str, charset: str) -> bytes:
    """Return the bytes of `text`; raises UnicodeError or LookupError where the character set cannot hold it."""
    if charset == "binary":
        return text.encode("utf-8")
    return text_codecs.encode_text(charset, text)
