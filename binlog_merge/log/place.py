"""A place in a merged log as users write it, for all verbs and options that take one; `Log` finds what is there.

    7507804165234491392                          a commit TSO
    00…42 (54 digits)                            an order key
    2026-09-21T12:30:00Z  2026-09-21             a time; in the time zone that is given, UTC, or its own
    3f0e5a2c-…-9d1e:4711                         a GTID
    3f0e5a2c-…-9d1e:1-4711                       a GTID set: what a server has executed
    binlog.000001:108241                         a file and an offset in it

A number that reads as a date (20260921, 20260921123000) is refused: as a TSO it would be before all others.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import PurePath
from typing import Final, Literal
from uuid import UUID

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import ConfigError
from snapshot_store.mysql.values.times import zone_of
from snapshot_store.names import Moment, check_no_date
from snapshot_store.tso import OrderKey, carries_time, tso_millis

Kind = Literal["tso", "key", "time", "gtid", "gtids", "position"]
FORMS: Final = (
    "a commit TSO, an order key (54 digits), a time (2026-09-21T12:30:00Z), a GTID (UUID:N), a GTID set, or a position "
    "(binlog.000001:158)"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UUID: Final = r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"
_GTID: Final = re.compile(rf"(?:({_UUID}):)?0*([1-9]\d{{0,17}})", re.ASCII)
_GTID_SET: Final = re.compile(rf"\s*{_UUID}\s*:.*", re.ASCII | re.DOTALL)
_POSITION: Final = re.compile(r"(.+\.\d+):(\d{1,18})", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """A place as a user said it: `option` and `text` are for messages.

    `moment` is that of a TSO, an order key or a time; of the latter `micros` are µs since 1970. `uuid` and `number` are
    a GTID's, without a `uuid` one of the log itself; `gtids` are a set's, `file` and `number` a position's.
    """

    option: str
    text: str
    kind: Kind
    moment: Moment | None = None
    micros: int = 0
    uuid: str = ""
    number: int = 0
    gtids: GtidSet | None = None
    file: str = ""

    @classmethod
    def at_key(cls, option: str, key: OrderKey) -> "Place":
        """Return the place of an order key."""
        return cls(option, key.text(), "key", Moment.at_key(key))

    @classmethod
    def at_tso(cls, option: str, tso: int) -> "Place":
        """Return the place of a commit TSO."""
        return cls(option, str(tso), "tso", Moment.at_tso(tso))

    @classmethod
    def at_gtid(cls, option: str, text: str) -> "Place":
        """Return the place of a GTID of the log, or of its number alone. Raises ConfigError."""
        match = _GTID.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f"{option} {text!r} is no GTID", remedy="write UUID:N, or N alone")
        uuid = "" if match[1] is None else str(UUID(match[1]))
        return cls(option, text.strip(), "gtid", uuid=uuid, number=int(match[2]))

    def __str__(self) -> str:
        return f"{self.option} {self.text}"


def parse_place(option: str, given: str | int | datetime, time_zone: str = "UTC") -> Place:
    """Return the place that a text, a TSO or a time says; a time without zone is in `time_zone`. Raises ConfigError."""
    text = (given.isoformat() if isinstance(given, datetime) else str(given)).strip()
    if text.isascii() and text.isdigit():
        return _digits(option, text)
    if _GTID.fullmatch(text):
        return Place.at_gtid(option, text)
    if _GTID_SET.fullmatch(text):
        try:
            return Place(option, text, "gtids", gtids=GtidSet.parse_text(text))
        except BinlogFormatError as error:
            raise ConfigError(f"{option}: {text!r} is no GTID set: {error.reason}", remedy=f"give {FORMS}") from None
    if match := _POSITION.fullmatch(text):
        return Place(option, text, "position", file=PurePath(match[1]).name, number=int(match[2]))
    return _time(option, text, time_zone)


def name_of(key: OrderKey) -> str:
    """Return a key's TSO for people, with its time if it carries one."""
    time = time_of_key(key)
    return f"TSO {key.commit_tso}" + (f" ({time})" if time else "")


def time_of_key(key: OrderKey) -> str | None:
    """Return the time in a key's TSO as RFC 3339, None if it carries none."""
    return time_text(tso_millis(key.commit_tso) * 1000) if carries_time(key.commit_tso) else None


def time_text(micros: int) -> str:
    """Return a time given in µs since 1970 as RFC 3339, with milliseconds."""
    moment = datetime.fromtimestamp(micros // 1000 / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def zone_named(name: str) -> tzinfo:
    """Return the time zone that a user names. Raises ConfigError."""
    try:
        return zone_of(name)
    except ValueError as error:
        raise ConfigError(f"the time zone: {error}", remedy="write +08:00, or a name like Asia/Shanghai") from None


def _digits(option: str, text: str) -> Place:
    try:
        check_no_date(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None
    try:
        return Place(option, text, "key" if len(text) == 54 else "tso", Moment.parse(text))
    except ValueError:
        raise ConfigError(f"{option}: {text!r} is no place in a log", remedy=f"give {FORMS}") from None


def _time(option: str, text: str, time_zone: str) -> Place:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option}: {text!r} is no place in a log", remedy=f"give {FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_named(time_zone))
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    return Place(option, text, "time", Moment.at_time(moment), micros)
