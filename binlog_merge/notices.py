"""Lines that a running product says to its operator, and text of others that is safe in them."""


class Routine(str):
    """A line about what is as it should be: a reader has come, a capture begins. Other lines may need somebody."""


def printable(text: object, keep: str = "") -> str:
    r"""Return text that is safe for a terminal and for the lines of a log: names may hold any bytes.

    What cannot be printed and stray bytes (of `surrogateescape`), except `keep`, become \xNN, \uNNNN or \UNNNNNNNN.
    """
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(c if c.isprintable() or c in keep else _escaped(ord(c)) for c in whole)


def _escaped(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
