"""The characters of a character set, and the replacement of those it lacks: for defaults, and members of ENUM and SET.

A character set without a codec is assumed to have every character.
"""

from snapshot_store.mysql.text.codecs import decode_text, encode_text, has_codec

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
