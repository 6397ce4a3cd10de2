"""MySQL's character sets: default collation and the most bytes a character takes.

Source: information_schema.CHARACTER_SETS of a 9.7 server.
"""

from snapshot_store.ddl.session import DdlSession

_UNUSUAL = {
    "big5": ("big5_chinese_ci", 2),
    "binary": ("binary", 1),
    "cp932": ("cp932_japanese_ci", 2),
    "dec8": ("dec8_swedish_ci", 1),
    "eucjpms": ("eucjpms_japanese_ci", 3),
    "euckr": ("euckr_korean_ci", 2),
    "gb18030": ("gb18030_chinese_ci", 4),
    "gb2312": ("gb2312_chinese_ci", 2),
    "gbk": ("gbk_chinese_ci", 2),
    "hp8": ("hp8_english_ci", 1),
    "latin1": ("latin1_swedish_ci", 1),
    "latin5": ("latin5_turkish_ci", 1),
    "sjis": ("sjis_japanese_ci", 2),
    "swe7": ("swe7_swedish_ci", 1),
    "tis620": ("tis620_thai_ci", 1),
    "ucs2": ("ucs2_general_ci", 2),
    "ujis": ("ujis_japanese_ci", 3),
    "utf16": ("utf16_general_ci", 4),
    "utf16le": ("utf16le_general_ci", 4),
    "utf32": ("utf32_general_ci", 4),
    "utf8mb3": ("utf8mb3_general_ci", 3),
    "utf8mb4": ("utf8mb4_0900_ai_ci", 4),
}
_GENERAL = (
    "armscii8 ascii cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 geostd8 greek hebrew keybcs2 koi8r koi8u latin2 "
    "latin7 macce macroman"
)
CHARSETS: dict[str, tuple[str, int]] = {**_UNUSUAL, **{name: (f"{name}_general_ci", 1) for name in _GENERAL.split()}}


def canonical_charset(name: str) -> str | None:
    """Return the name MySQL 8 shows for a character set, or None if there is none of that name."""
    lower = name.lower()
    lower = "utf8mb3" if lower == "utf8" else lower
    return lower if lower in CHARSETS else None


def canonical_collation(name: str) -> str | None:
    """Return the name MySQL 8 shows for a collation, or None if it belongs to no known character set."""
    lower = name.lower()
    if lower.startswith("utf8_"):
        lower = f"utf8mb3_{lower[5:]}"
    charset = lower.split("_")[0]
    return lower if charset in CHARSETS and (charset != lower or lower == "binary") else None


def charset_of(collation: str) -> str:
    """Return the character set of a canonical collation: all collations are named after theirs."""
    return collation.split("_")[0]


def default_collation(charset: str, session: DdlSession) -> str:
    """Return the collation a character set brings along when none is named."""
    return session.default_collation_for_utf8mb4 if charset == "utf8mb4" else CHARSETS[charset][0]


def binary_collation(charset: str) -> str:
    """Return the collation that the attribute BINARY chooses."""
    return "binary" if charset == "binary" else f"{charset}_bin"


def max_bytes(charset: str) -> int:
    """Return the most bytes one character takes."""
    return CHARSETS[charset][1]
