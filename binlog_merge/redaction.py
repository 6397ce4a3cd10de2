"""Text that is safe to show: secrets are taken out of errors, logs and results, and control characters of lines.

Secrets stand in URIs: `s3://KEY:SECRET@bucket/…`, `…?secret_key=SECRET&…`, `mysql://user:PASSWORD@host`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "***"

_USER: Final = r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)"
# A colon that no port follows: what is before the last @ is a login, even if an unescaped / or ? stands in its secret.
_LOGIN: Final = re.compile(rf"{_USER}(?P<user>[^\s/?#@:'\"]*):(?!\d+(?:[/?\s'\"]|$))[^\s'\"]*@")
_PORT_LIKE: Final = re.compile(rf"{_USER}(?P<user>[^\s/?#@:'\"]*):[^\s/?#'\"]*@")
_KEY_ALONE: Final = re.compile(r"(?P<scheme>\b(?:s3[an]?|gs|gcs)://)[^\s/?#@:'\"]*@", re.IGNORECASE)
_OPTION: Final = re.compile(
    r"(?P<name>[?&;][\w.%-]*(?:secret|token|passw|access[_-]?key|account[_-]?key|api[_-]?key|credential|signature|"
    r"sas|sig)[\w.%-]*=)[^&\s'\"\\]*",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """Return text with the secrets in its URIs replaced by ***; MySQL's user names stay."""
    if "://" not in text:
        return text
    for pattern in (_LOGIN, _PORT_LIKE):
        text = pattern.sub(_hide_login, text)
    text = _KEY_ALONE.sub(lambda found: f"{found['scheme']}{HIDDEN}@", text)
    return _OPTION.sub(lambda found: f"{found['name']}{HIDDEN}", text)


def _hide_login(found: re.Match[str]) -> str:
    user = f"{found['user']}:" if found["scheme"].lower() == "mysql://" else ""
    return f"{found['scheme']}{user}{HIDDEN}@"


def redacted_values(value: Any) -> Any:
    """Return plain values (of JSON, of a log record) with `redacted` applied to every text in them."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {name: redacted_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_values(item) for item in value]
    return value


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
