"""Which characters a character set has, and what becomes of those it lacks: for defaults, and members of ENUM and SET.

Of a character set without a codec nothing is asked: every text fits.
"""

from snapshot_store.mysql.text.codecs import decode_text, encode_text, has_codec

_WIDTHS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def fits(text: str, charset: str | None) -> bool:
    """Tell whether a character set has all characters of a text."""
    if charset is None or not has_codec(charset):
        return True
    try:
        encode_text(charset, text)
    except UnicodeError:
        return False
    return True


def squeezed(text: str, charset: str | None) -> str:
    """Return a text as a character set has it, with question marks for what it lacks."""
    return text if fits(text, charset) else "".join(c if fits(c, charset) else "?" for c in text)


def mistaken(text: str, old: str | None, new: str | None) -> str:
    """Return what the bytes of a text in one character set are in another; as it was, where they are nothing.

    So does CONVERT TO CHARACTER SET with the members of ENUM and SET, up to 9.7 at least.
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
    """Return the text that bytes are in a character set, filled up to whole characters in front.

    Raises ValueError if they are none.
    """
    width = _WIDTHS.get(charset or "", 1)
    data = data.rjust((len(data) + width - 1) // width * width, b"\0")
    return decode_text(charset, data) if charset is not None and has_codec(charset) else data.decode()
