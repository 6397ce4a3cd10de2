"""Time zones of sessions: conversion between local time and UTC.

A local time that occurs twice means its first occurrence; one that is skipped means the moment of the skip. Source:
`TIME_to_gmt_sec` of mysql-server `sql/tztime.cc`, compared with 9.7.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})")


def zone_of(name: str) -> tzinfo:
    """Return the zone that a session's `time_zone` names: +05:30, Europe/Berlin. Raises ValueError, also for SYSTEM."""
    if (offset := _OFFSET.fullmatch(name)) is not None:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError(f"time zone {name!r} is not known here") from None


def utc_of(local: datetime, zone: tzinfo) -> datetime:
    """Convert local time in a zone to UTC; both without tzinfo."""
    found = _utc(local, zone)
    if local_of(found, zone) == local:
        return found
    early, late = _utc(local.replace(fold=1), zone), found
    while late - early > timedelta(seconds=1):
        middle = early + ((late - early) // 2 // timedelta(seconds=1)) * timedelta(seconds=1)
        early, late = (middle, late) if local_of(middle, zone) < local else (early, middle)
    return late.replace(microsecond=0)


def local_of(moment: datetime, zone: tzinfo) -> datetime:
    """Convert UTC to local time in a zone; both without tzinfo."""
    return moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None, fold=0)


def in_utc(text: str, time_zone: str) -> str:
    """Convert a session's local time, as text, to UTC; 0000-00-00 and any text without a zone stay as they are."""
    if not time_zone:
        return text
    whole, dot, fraction = text.partition(".")
    try:
        local = datetime.fromisoformat(whole)
    except ValueError:
        return text
    moment = utc_of(local, zone_of(time_zone))
    return f"{moment:%Y-%m-%d %H:%M:%S}{dot}{fraction}"


def in_zone(text: str, time_zone: str, other: str) -> str:
    """Convert local time of a zone, as text, to that of another. Raises ValueError for no moment, or no zone."""
    whole, dot, fraction = text.partition(".")
    moment = local_of(utc_of(datetime.fromisoformat(whole), zone_of(time_zone)), zone_of(other))
    return f"{moment:%Y-%m-%d %H:%M:%S}{dot}{fraction}"


def _utc(local: datetime, zone: tzinfo) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
