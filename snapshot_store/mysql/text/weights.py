"""The weights of characters: texts are equal under a collation if those of their characters are, one behind the other.

Of Unicode's collations these are the primary weights: what is equal to three levels is equal to one. Known are the
characters of the Basic Multilingual Plane in most use (`unicode_weights.txt`), and ideographs and Korean syllables.
"""

import re
from array import array
from functools import lru_cache
from pkgutil import get_data
from typing import Final

from snapshot_store.mysql.text.charsets import folding

CHARACTERS: Final = 1 << 16
UNKNOWN: Final = -1
_UNICODE: Final = re.compile(r"(utf8mb4|utf8mb3|utf8)_(general_ci|unicode_ci|unicode_520_ci|0900_ai_ci|0900_as_c[is])")
_ASCII: Final = re.compile(r"(latin1|ascii)_(general_ci|general_cs)")
_SPARE: Final = 0xFBC0  # how Unicode has characters without weights of their own: two, of the code point
_IDEOGRAPHS: Final = ((0x3400, 0x4DB5, 0xFB80), (0x4E00, 0x9FA5, 0xFB40))
_SYLLABLES: Final = (0xAC00, 0xD7A3)


def is_utf8(collation: str) -> bool:
    """Return whether texts under a collation are in UTF-8; else a character is a byte."""
    return collation.startswith("utf8")


def weights_name(collation: str) -> str | None:
    """Return the name of a collation's table, None if it has none; see `weights`."""
    if match := _UNICODE.fullmatch(collation):
        rules = match[2]
        return "0900_ai_ci" if rules.startswith("0900") else rules
    return "latin1_swedish_ci" if collation == "latin1_swedish_ci" else "ascii" if _ASCII.fullmatch(collation) else None


@lru_cache
def weights(name: str) -> "array[int]":
    """Return for each character up to U+FFFF its weights, by the name of a table.

    They are numbers of 16 bits that are not 0, up to three in one number, the first in its lowest bits. Without a
    weight a character is 0: it makes no difference where it stands. UNKNOWN: it is not known what equals it.
    """
    found = array("q", [UNKNOWN]) * CHARACTERS
    if name == "ascii":
        for code in range(0x20, 0x7F):
            found[code] = ord(chr(code).upper())
    elif name in ("general_ci", "latin1_swedish_ci"):
        for code in range(1, 0xD800 if name == "general_ci" else 0x100):
            found[code] = code
        for code in range(0xE000, 0xFFFE) if name == "general_ci" else ():
            found[code] = code
        for character, like in zip(*folding(name), strict=True):
            found[ord(character)] = ord(like) or UNKNOWN
    else:
        _fill(found, name)
    return found


def _fill(found: "array[int]", name: str) -> None:
    for first, last, base in (*_IDEOGRAPHS, (*_SYLLABLES, _SPARE)):
        for code in range(first, last + 1):
            found[code] = base + (code >> 15) | ((code & 0x7FFF) | 0x8000) << 16
    data = get_data("snapshot_store.mysql.text", "unicode_weights.txt")
    assert data is not None
    (block,) = (part for part in data.decode().split("\n\n") if part.startswith(f"{name}\n"))
    for line in block.splitlines()[1:]:
        begin, _, words = line.partition(": ")
        code = int(begin, 16)
        for word in words.split():
            digits, _, times = word.partition("*")
            count = int(times or 1)
            if digits != "?":
                places = range(0, len(digits), 4) if digits != "-" else ()
                value = sum(int(digits[at : at + 4], 16) << 4 * at for at in places)
                found[code : code + count] = array("q", [value]) * count
            code += count
