"""Time zones of sessions: what the clock of one shows, and which moment it means.

An hour that the clock goes through twice means its first time, one that it leaps over the moment of the leap. Source:
`TIME_to_gmt_sec` of mysql-server `sql/tztime.cc`, compared with 9.7.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})")


def zone_of(name: str) -> tzinfo:
    """Return what a session's `time_zone` names: +05:30, Europe/Berlin. Raises ValueError, for SYSTEM too."""
    if (offset := _OFFSET.fullmatch(name)) is not None:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError(f"time zone {name!r} is not known here") from None


def utc_of(local: datetime, zone: tzinfo) -> datetime:
    """Return the moment, in UTC, that a clock in the zone shows; both without tzinfo."""
    found = _utc(local, zone)
    if local_of(found, zone) == local:
        return found
    early, late = _utc(local.replace(fold=1), zone), found
    while late - early > timedelta(seconds=1):
        middle = early + ((late - early) // 2 // timedelta(seconds=1)) * timedelta(seconds=1)
        early, late = (middle, late) if local_of(middle, zone) < local else (early, middle)
    return late.replace(microsecond=0)


def local_of(moment: datetime, zone: tzinfo) -> datetime:
    """Return what a clock in the zone shows at a moment in UTC; both without tzinfo."""
    return moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None, fold=0)


def in_utc(text: str, time_zone: str) -> str:
    """Return in UTC a moment as a server shows it on a session's clock; 0000-00-00, and without a zone, as it is."""
    if not time_zone:
        return text
    whole, dot, fraction = text.partition(".")
    try:
        local = datetime.fromisoformat(whole)
    except ValueError:
        return text
    moment = utc_of(local, zone_of(time_zone))
    return f"{moment:%Y-%m-%d %H:%M:%S}{dot}{fraction}"


def _utc(local: datetime, zone: tzinfo) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
