"""Strings with lone surrogates: bytes that are not valid in their character set, decoded with `surrogateescape`.

Encoding such a string restores the bytes. UTF-8 text cannot contain it: neither a store's column nor a merged binlog.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(*texts: str) -> bool:
    """Return whether none of the strings has a lone surrogate."""
    return not any(map(_SURROGATE.search, texts))


def shown(text: str) -> str:
    """Return the string as valid text: undecodable bytes as `\\xNN`, other surrogates as `\\uNNNN`."""
    return _SURROGATE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
