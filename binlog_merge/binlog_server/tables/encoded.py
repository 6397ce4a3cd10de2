"""Texts in the character set of a session, with ? for characters that it lacks."""

from functools import lru_cache

from snapshot_store.mysql.text.codecs import encode_text
from snapshot_store.surrogates import is_text


@lru_cache(4096)
def encoded(charset: str, text: str) -> bytes:
    """Return a text in a character set; stray bytes stay as they are. Raises LookupError for one that is not known."""
    try:
        return encode_text(charset, text)
    except UnicodeError:
        return b"".join(_character(charset, char) for char in text)


def _character(charset: str, char: str) -> bytes:
    if not is_text(char):
        return char.encode("utf-8", "surrogateescape")
    try:
        return encode_text(charset, char)
    except UnicodeError:
        return encode_text(charset, "?")
