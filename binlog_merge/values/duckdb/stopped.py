"""Why the engine stops at a row: what the SQL of an expression says itself, never the engine's own words."""

import re
from typing import Final

from snapshot_store.mysql.sql.names import quote_plainly

_MARK: Final = "stopped: "
_SAID: Final = re.compile(rf"Invalid Input Error: {_MARK}(.*)")
_TOO_GREAT: Final = re.compile(r"(?:Conversion|Out of Range) Error: ")
OUT_OF_RANGE: Final = "value is out of range"
"""What is said of a number at which a server stops too, with its error 1690."""
TOO_GREAT: Final = "a number with more than the 38 digits that are computed here"


def stop(message: str, kind: str, *shown: str) -> str:
    """Return SQL at which the engine stops, as a value of a type; `shown` is SQL of what is told behind the message."""
    told = " || ', ' || ".join(shown)
    return f"error({quote_plainly(_MARK + message)}{f' || {told}' if told else ''})::{kind}"


def why_stopped(error: Exception) -> str | None:
    """Return why an expression stopped the engine; None if it is not the expression that did."""
    text = (str(error).splitlines() or [""])[0]
    said = _SAID.search(text)
    if said is not None:
        return said[1]
    return TOO_GREAT if _TOO_GREAT.search(text) else None
