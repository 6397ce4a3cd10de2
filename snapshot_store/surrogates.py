"""Text out of bytes that are none: what a character set does not know stands in a Python string as a lone surrogate.

So it goes back as it was (`surrogateescape`), but no UTF-8 can hold it: not a store's column, not a merged binlog.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(*texts: str) -> bool:
    """Tell whether all of the strings are text, without a lone surrogate."""
    return not any(map(_SURROGATE.search, texts))


def shown(text: str) -> str:
    """Return the string as text: bytes that were none as `\\xNN`, other surrogates as `\\uNNNN`."""
    return _SURROGATE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
