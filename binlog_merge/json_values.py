"""Values of JSON documents of which every reader makes the same: integers that doubles cannot hold, times, bytes."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from snapshot_store.surrogates import shown

MAX_EXACT: Final = 2**53
"""Up to this every JSON reader keeps integers as they are: many make doubles of them."""


def json_text(value: Any) -> str:
    """Return a value as JSON on one line. Integers beyond 2^53 become texts, times RFC 3339, bytes hex.

    Bytes within a text that are none of its characters are written as `\\xNN`.
    """
    return json.dumps(exact(value), default=plain)


def exact(value: Any) -> Any:
    """Return a value with texts in place of integers beyond 2^53, and only texts that JSON can hold."""
    if isinstance(value, Mapping):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, str) and not value.isascii():
        return shown(value)
    if isinstance(value, int) and not -MAX_EXACT <= value <= MAX_EXACT:
        return str(value)
    return value


def plain(value: object) -> str:
    """Return a value that JSON has no type for as text. A time without a zone is UTC."""
    if isinstance(value, datetime):
        return utc_text(value)
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def utc_text(moment: datetime, timespec: str = "") -> str:
    """Return a moment as RFC 3339 in UTC, with `Z`. One without a zone is UTC.

    `timespec` is that of `datetime.isoformat`; by default milliseconds, or microseconds where the moment has some.
    """
    utc = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    exactly = timespec or ("microseconds" if utc.microsecond % 1000 else "milliseconds")
    return utc.isoformat(timespec=exactly).replace("+00:00", "Z")


def unix_time_text(seconds: float) -> str:
    """Return a time in seconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    return utc_text(datetime.fromtimestamp(seconds, UTC), "milliseconds")
