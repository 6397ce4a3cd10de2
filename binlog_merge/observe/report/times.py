"""Times as a report writes them: RFC 3339, in UTC, with milliseconds."""

from datetime import UTC, datetime, timedelta
from typing import Final

from binlog_merge.json_values import utc_text
from snapshot_store.tso import OrderKey, carries_time, tso_millis

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(us: int | None) -> str | None:
    """Return a time in µs since 1970, None where it is none or out of the calendar."""
    try:
        return None if us is None else utc_text(_EPOCH + timedelta(microseconds=us), "milliseconds")
    except OverflowError:
        return None


def key_time(key: str | None) -> str | None:
    """Return the time of an order key's TSO, None if there is no key, or it carries no time."""
    tso = 0 if key is None else OrderKey.parse(key).commit_tso
    return time_text(tso_millis(tso) * 1000) if carries_time(tso) else None
