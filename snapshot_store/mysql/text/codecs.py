"""Decoding and encoding text of MySQL's character sets, as the server does.

Python's codecs are used where they agree with MySQL 9.7. The differences, found by querying a server for every code,
are listed here.
Characters that MySQL would replace by '?' have no mapping: both functions raise UnicodeError rather than change a
value. Known gaps, which raise too: the ETEN extension of big5 (F9D6-F9DC), and of ujis and eucjpms the user-defined and
NEC/IBM rows.

A character set without a codec is assumed to have every character.
"""

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

_UNDEFINED: Final = "\ufffe"  # "no such character" for codecs.charmap_decode

# One-byte character sets: the Python codec, and the characters that MySQL maps differently.
_ONE_BYTE: Final[dict[str, tuple[str, dict[int, str]]]] = {
    "ascii": ("ascii", {}),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    "cp1256": ("cp1256", dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), _UNDEFINED)),
    "cp1257": ("cp1257", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\xb2"}),
    "greek": ("iso8859_7", {0xA1: "\u02bd", 0xA2: "\u02bc", **dict.fromkeys((0xA4, 0xA5, 0xAA), _UNDEFINED)}),
    "hebrew": ("iso8859_8", {0xAF: "\u203e"}),
    "hp8": ("hp_roman8", {}),
    "koi8r": ("koi8_r", {}),
    "koi8u": ("koi8_u", {0x95: "\u2022"}),
    # cp1252, but the five bytes that it leaves undefined are C1 controls.
    "latin1": ("cp1252", {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "latin2": ("iso8859_2", {}),
    "latin5": ("iso8859_9", {}),
    "latin7": ("iso8859_13", {}),
    "macce": ("mac_latin2", {}),
    "macroman": ("mac_roman", {}),
    "swe7": (
        "ascii",
        {0x40: "\xc9", 0x5B: "\xc4", 0x5C: "\xd6", 0x5D: "\xc5", 0x5E: "\xdc", 0x60: "\xe9"}
        | {0x7B: "\xe4", 0x7C: "\xf6", 0x7D: "\xe5", 0x7E: "\xfc", 0x7F: _UNDEFINED},
    ),
    "tis620": ("tis_620", {}),
}

# One-byte character sets that Python lacks: the characters of 0x80-0xFF.
_UPPER_HALF: Final[dict[str, str]] = {
    "armscii8": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
        "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0\u2741\xa7\u0589)(\xbb\xab\u2014.\u055d,-\u055f\u2026\u055c"
        "\u055b\u055e\u0531\u0561\u0532\u0562\u0533\u0563\u0534\u0564\u0535\u0565\u0536\u0566\u0537\u0567"
        "\u0538\u0568\u0539\u0569\u053a\u056a\u053b\u056b\u053c\u056c\u053d\u056d\u053e\u056e\u053f\u056f"
        "\u0540\u0570\u0541\u0571\u0542\u0572\u0543\u0573\u0544\u0574\u0545\u0575\u0546\u0576\u0547\u0577"
        "\u0548\u0578\u0549\u0579\u054a\u057a\u054b\u057b\u054c\u057c\u054d\u057d\u054e\u057e\u054f\u057f"
        "\u0550\u0580\u0551\u0581\u0552\u0582\u0553\u0583\u0554\u0584\u0555\u0585\u0556\u0586\u2019'"
    ),
    "geostd8": (
        "\u20ac\ufffe\u201a\ufffe\u201e\u2026\u2020\u2021\ufffe\u2030\ufffe\u2039\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\u2018\u2019\u201c\u201d\u2022\u2013\u2014\ufffe\ufffe\ufffe\u203a\ufffe\ufffe\ufffe\ufffe"
        "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf"
        "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf"
        "\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5\u10d6\u10f1\u10d7\u10d8\u10d9\u10da\u10db\u10dc\u10f2\u10dd"
        "\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6\u10e7\u10e8\u10e9\u10ea\u10eb\u10ec"
        "\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\u2116\ufffe\ufffe"
    ),
    "keybcs2": (
        "\u010c\xfc\xe9\u010f\xe4\u010e\u0164\u010d\u011b\u011a\u0139\xcd\u013e\u013a\xc4\xc1"
        "\xc9\u017e\u017d\xf4\xf6\xd3\u016f\xda\xfd\xd6\xdc\u0160\u013d\xdd\u0158\u0165"
        "\xe1\xed\xf3\xfa\u0148\u0147\u016e\xd4\u0161\u0159\u0155\u0154\xbc\xa1\xab\xbb"
        "\u2591\u2592\u2593\u2502\u2524\u2561\u2562\u2556\u2555\u2563\u2551\u2557\u255d\u255c\u255b\u2510"
        "\u2514\u2534\u252c\u251c\u2500\u253c\u255e\u255f\u255a\u2554\u2569\u2566\u2560\u2550\u256c\u2567"
        "\u2568\u2564\u2565\u2559\u2558\u2552\u2553\u256b\u256a\u2518\u250c\u2588\u2584\u258c\u2590\u2580"
        "\u03b1\xdf\u0393\u03c0\u03a3\u03c3\xb5\u03c4\u03a6\u0398\u03a9\u03b4\u221e\u03c6\u03b5\u2229"
        "\u2261\xb1\u2265\u2264\u2320\u2321\xf7\u2248\xb0\u2219\xb7\u221a\u207f\xb2\u25a0\xa0"
    ),
    "dec8": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
        "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0\xa1\xa2\xa3\ufffe\xa5\ufffe\xa7\xa4\xa9\xaa\xab\ufffe\ufffe\ufffe\ufffe"
        "\xb0\xb1\xb2\xb3\ufffe\xb5\xb6\xb7\ufffe\xb9\xba\xbb\xbc\xbd\ufffe\xbf"
        "\xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xcb\xcc\xcd\xce\xcf"
        "\ufffe\xd1\xd2\xd3\xd4\xd5\xd6\u0152\xd8\xd9\xda\xdb\xdc\u0178\ufffe\xdf"
        "\xe0\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xee\xef"
        "\ufffe\xf1\xf2\xf3\xf4\xf5\xf6\u0153\xf8\xf9\xfa\xfb\xfc\xff\ufffe\ufffe"
    ),
}


@dataclass(frozen=True, slots=True)
class _Multibyte:
    """A Python codec, and MySQL's differences: in decoding, in encoding, characters it lacks, and U+FFFF as limit."""

    codec: str
    decoded: Mapping[int, int] | None = None
    encoded: Mapping[int, int] | None = None
    lacks: str = ""
    bmp_only: bool = False


_EUCJPMS: Final = {
    0x301C: 0xFF5E,
    0x2016: 0x2225,
    0x2212: 0xFF0D,
    0x00A2: 0xFFE0,
    0x00A3: 0xFFE1,
    0x00AC: 0xFFE2,
    0x00A6: 0xFFE4,
}
_SWAP_GB18030: Final = {0xE7C7: 0x1E3F, 0x1E3F: 0xE7C7}
# The fullwidth backslash is decoded as a backslash; in sjis a backslash is encoded as the fullwidth one.
_BACKSLASH: Final = {0xFF3C: 0x5C}

_MULTIBYTE: Final[dict[str, _Multibyte]] = {
    "utf8mb4": _Multibyte("utf-8"),
    "utf8mb3": _Multibyte("utf-8", bmp_only=True),
    "ucs2": _Multibyte("utf-16-be", bmp_only=True),
    "utf16": _Multibyte("utf-16-be"),
    "utf16le": _Multibyte("utf-16-le"),
    "utf32": _Multibyte("utf-32-be"),
    "gbk": _Multibyte("gbk"),
    "gb2312": _Multibyte("gb2312"),
    "gb18030": _Multibyte("gb18030", _SWAP_GB18030, _SWAP_GB18030),
    "big5": _Multibyte("big5", lacks="\u02cd\u2574\uffe3"),
    "sjis": _Multibyte("shift_jis", _BACKSLASH, {0x5C: 0xFF3C}),
    "cp932": _Multibyte("cp932", lacks="\x80\uf8f0\uf8f1\uf8f2\uf8f3"),
    "ujis": _Multibyte("euc_jp", _BACKSLASH),
    "eucjpms": _Multibyte("euc_jp", _EUCJPMS, {mysql: python for python, mysql in _EUCJPMS.items()}, "\u2116"),
    "euckr": _Multibyte("cp949"),
}


def _canonical(charset: str) -> str:
    """Return a character set's name as in 9.7."""
    lower = charset.lower()
    return "utf8mb3" if lower == "utf8" else lower


def has_codec(charset: str) -> bool:
    """Return whether text of this character set can be decoded."""
    return _canonical(charset) in _ONE_BYTE.keys() | _UPPER_HALF.keys() | _MULTIBYTE.keys()


def is_ascii_compatible(charset: str) -> bool:
    """Return whether bytes below 128 are ASCII in this character set; False if there is no codec."""
    name = _canonical(charset)
    return has_codec(name) and name not in ("swe7", "ucs2", "utf16", "utf16le", "utf32")


def is_utf8(charset: str) -> bool:
    """Return whether text of a character set is UTF-8."""
    return charset in ("utf8mb4", "utf8mb3", "utf8")


def python_codec(charset: str | None) -> str | None:
    """Return the Python codec closest to a character set, for text that need not be restored exactly; None if none."""
    name = _canonical(charset or "")
    if name in _MULTIBYTE:
        return _MULTIBYTE[name].codec
    return _ONE_BYTE[name][0] if name in _ONE_BYTE else None


def text_or_bytes(charset: str, data: bytes) -> str | bytes:
    """Return the text of `data` as the server shows it.

    Returns the bytes for `binary`, for unknown character sets, and if they are not valid.
    """
    try:
        return data.decode("utf-8") if is_utf8(charset) else decode_text(charset, data)
    except (UnicodeError, LookupError):
        return data


def decode_text(charset: str, data: bytes) -> str:
    """Return the text of `data`.

    Raises UnicodeError for bytes that are no character in MySQL, LookupError for an unknown character set.
    """
    name = _canonical(charset)
    if name not in _MULTIBYTE:
        return _decode_one_byte(_upper_and_lower(name), data)
    spec = _MULTIBYTE[name]
    text = data.decode(spec.codec)
    if spec.decoded:
        text = text.translate(spec.decoded)
    if spec.bmp_only and any(char > "\uffff" for char in text):
        raise UnicodeError(f"a character beyond U+FFFF in {name}")
    if spec.lacks and any(char in spec.lacks for char in text):
        raise UnicodeError(f"{text[:40]!r} has a character that {name} lacks")
    return text


def encode_text(charset: str, text: str) -> bytes:
    """Encode `text` in a character set. Raises UnicodeError if MySQL could not store it unchanged."""
    name = _canonical(charset)
    if name not in _MULTIBYTE:
        return _encode_one_byte(name, text)
    spec = _MULTIBYTE[name]
    if name == "cp932":
        data = b"".join(_cp932_bytes().get(char) or char.encode("cp932") for char in text)
    else:
        data = (text.translate(spec.encoded) if spec.encoded else text).encode(spec.codec)
    # Some codecs accept a similar character (the yen sign as a backslash), but decoding must restore the text.
    if decode_text(name, data) != text:
        raise UnicodeError(f"{text[:40]!r} has a character that {name} lacks")
    return data


@cache
def _upper_and_lower(name: str) -> str:
    """Return the 256 characters of a one-byte character set."""
    if name in _UPPER_HALF:
        return "".join(map(chr, range(128))) + _UPPER_HALF[name]
    if name not in _ONE_BYTE:
        raise LookupError(f"no codec for MySQL character set {name!r}")
    codec, other = _ONE_BYTE[name]
    plain = bytes(range(256)).decode(codec, "replace").replace("\ufffd", _UNDEFINED)
    return "".join(other.get(byte, char) for byte, char in enumerate(plain))


def _decode_one_byte(table: str, data: bytes) -> str:
    return codecs.charmap_decode(data, "strict", table)[0]


@cache
def _encoder(name: str) -> Callable[[str], bytes]:
    codes: dict[str, int] = {}
    for byte, char in enumerate(_upper_and_lower(name)):
        codes.setdefault(char, byte)  # the lowest code wins if a character occurs twice
    codes.pop(_UNDEFINED, None)

    def encode(text: str) -> bytes:
        try:
            return bytes([codes[char] for char in text])
        except KeyError as error:
            raise UnicodeError(f"{name} lacks the character {error.args[0]!r}") from None

    return encode


def _encode_one_byte(name: str, text: str) -> bytes:
    return _encoder(name)(text)


@cache
def _cp932_bytes() -> Mapping[str, bytes]:
    """Return the bytes of the IBM extension (FA40-FC4B), which MySQL prefers to NEC's copy of it, unlike Python."""
    found: dict[str, bytes] = {}
    for lead in (0xFA, 0xFB, 0xFC):
        for trail in range(0x40, 0xFD):
            pair = bytes([lead, trail])
            try:
                char = pair.decode("cp932")
            except UnicodeDecodeError:
                continue
            if char.encode("cp932")[0] in (0xED, 0xEE):
                found.setdefault(char, pair)
    return found


_WIDTHS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def fits(text: str, charset: str | None) -> bool:
    """Return whether a character set has all characters of a text."""
    if charset is None or not has_codec(charset):
        return True
    try:
        encode_text(charset, text)
    except UnicodeError:
        return False
    return True


def squeezed(text: str, charset: str | None) -> str:
    """Return a text with question marks for the characters that a character set lacks."""
    return text if fits(text, charset) else "".join(c if fits(c, charset) else "?" for c in text)


def mistaken(text: str, old: str | None, new: str | None) -> str:
    """Encode a text in one character set and decode the bytes in another; return it unchanged if they are not valid.

    CONVERT TO CHARACTER SET does this to members of ENUM and SET, at least up to 9.7.
    """
    if text.isascii() or old is None or new is None or not (has_codec(old) and has_codec(new)):
        return text
    data = encode_text(old, squeezed(text, old))
    if new == "ascii":
        return "".join(chr(byte) if byte < 128 else "?" for byte in data)
    try:
        return decoded(data, new)
    except UnicodeError:
        return text


def decoded(data: bytes, charset: str | None) -> str:
    """Decode bytes, padded on the left to whole characters.

    Raises ValueError if they are not valid.
    """
    width = _WIDTHS.get(charset or "", 1)
    data = data.rjust((len(data) + width - 1) // width * width, b"\0")
    return decode_text(charset, data) if charset is not None and has_codec(charset) else data.decode()
