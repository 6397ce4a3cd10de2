"""Which characters a character set has, and what bytes are in it: for defaults and for members of ENUM and SET."""

_CODECS = {
    "ascii": "ascii",
    "big5": "big5",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "euc_kr",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "latin1": "cp1252",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "macroman": "mac-roman",
    "sjis": "shift-jis",
    "tis620": "tis-620",
    "ucs2": "utf-16-be",
    "ujis": "euc_jp",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}
"""Python's codec for a MySQL character set; of the others we ask nothing."""
_WITHOUT_PLANES = frozenset({"utf8mb3", "ucs2"})
_WIDTHS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def fits(text: str, charset: str | None) -> bool:
    """Tell whether a character set has all characters of a text."""
    codec = _CODECS.get(charset or "")
    if codec is None:
        return True
    if charset in _WITHOUT_PLANES and any(char > "\uffff" for char in text):
        return False
    try:
        text.encode(codec)
    except UnicodeEncodeError:
        # latin1 is cp1252 with the five bytes that it leaves out.
        return charset == "latin1" and all(ord(c) in (0x81, 0x8D, 0x8F, 0x90, 0x9D) or fits(c, "ascii") for c in text)
    return True


def squeezed(text: str, charset: str | None) -> str:
    """Return a text as a character set has it, with question marks for what it lacks."""
    return text if fits(text, charset) else "".join(c if fits(c, charset) else "?" for c in text)


def mistaken(text: str, old: str | None, new: str | None) -> str:
    """Return what the bytes of a text in one character set are in another; as it was, where they are nothing.

    So does CONVERT TO CHARACTER SET with the members of ENUM and SET, up to 9.7 at least.
    """
    if text.isascii() or codec_of(old) is None or codec_of(new) is None:
        return text
    data = text.encode(str(codec_of(old)), "replace")
    if new == "ascii":
        return "".join(chr(byte) if byte < 128 else "?" for byte in data)
    try:
        return decoded(data, new)
    except UnicodeDecodeError:
        return text


def codec_of(charset: str | None) -> str | None:
    """Return Python's name of a character set, None if it has none."""
    return _CODECS.get(charset or "")


def decoded(data: bytes, charset: str | None) -> str:
    """Return the text that bytes are in a character set. Raises ValueError if they are none."""
    width = _WIDTHS.get(charset or "", 1)
    data = data.rjust((len(data) + width - 1) // width * width, b"\0")
    return data.decode(_CODECS.get(charset or "", "utf-8"))
