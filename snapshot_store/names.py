"""How users name tables and points in time.

    shop.orders   *.orders_?   orders      a table: patterns with * and ?, any schema if none is given, `a.b`.`c`
    7507804165231 7507…54 digits           a moment: a commit TSO, or an order key
    2026-09-21T12:30:00                    a moment: wall-clock time, UTC unless it has an offset

A moment includes what committed at it: a lookup at the TSO of a DDL returns the result of that DDL. No row shares a
DDL's order key, so a lookup at the key of a row returns the definition the row was written with.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from snapshot_store.errors import UnknownTable
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey, carries_time, tso_millis

_PART = r"(?:`((?:[^`]|``)*)`|([^.`]*))"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})?", re.DOTALL)
_DATE = re.compile(
    r"((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?:([01]\d|2[0-3])([0-5]\d)([0-5]\d)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern of table names: `*` matches any run of characters, `?` matches one, unless in backticks.

    `wild`: whether the schema and the table are patterns.
    """

    schema: str
    table: str
    wild: tuple[bool, bool] = (False, False)

    @classmethod
    def parse(cls, text: str) -> "NamePattern":
        """Parse a table's name as users write it. Raises ValueError."""
        match = _NAME.fullmatch(text)
        parts = match.groups() if match else ()
        if not parts or not any(parts):
            raise ValueError(f"{text!r} is not a table's name: write schema.table, with * and ? for patterns")
        names = [(quoted.replace("``", "`"), False) if quoted is not None else (plain, _is_wild(plain))
                 for quoted, plain in (parts[:2], parts[2:]) if quoted is not None or plain is not None]  # fmt: skip
        if len(names) == 1:
            names.insert(0, ("*", True))
        (schema, any_schema), (table, any_table) = names
        if not schema or not table:
            raise ValueError(f"{text!r} is not a table's name: write schema.table, with * and ? for patterns")
        return cls(schema, table, (any_schema, any_table))

    @classmethod
    def exact(cls, schema: str, table: str) -> "NamePattern":
        """Return the pattern that matches exactly one table."""
        return cls(schema, table)

    def matches(self, schema: str, table: str) -> bool:
        """Return whether the pattern matches a table."""
        return self.matches_schema(schema) and self.matches_table(table)

    def matches_schema(self, schema: str) -> bool:
        """Return whether the pattern may match tables of this schema."""
        return _matches(self.schema, self.wild[0], schema)

    def matches_table(self, table: str) -> bool:
        """Return whether the pattern may match tables of this name."""
        return _matches(self.table, self.wild[1], table)

    def likes(self) -> tuple[str, str]:
        r"""Return both parts as SQL LIKE patterns with the escape character \."""
        return _like(self.schema, self.wild[0]), _like(self.table, self.wild[1])

    def __str__(self) -> str:
        return self.table if self.schema == "*" and self.wild[0] else f"{self.schema}.{self.table}"


def _is_wild(text: str) -> bool:
    return "*" in text or "?" in text


def _matches(pattern: str, wild: bool, name: str) -> bool:
    if not wild:
        return pattern == name
    text = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(text, name, re.DOTALL) is not None


def _like(pattern: str, wild: bool) -> str:
    escaped = re.sub(r"([\\%_])", r"\\\1", pattern)
    return escaped.replace("*", "%").replace("?", "_") if wild else escaped


def unknown_table(
    pattern: NamePattern, near: Iterable[str], node: str | None = None, physical: bool = False
) -> UnknownTable:
    """Return the error for a table that no history has; `near` are similar names to suggest."""
    known = list(near)[:3]
    if physical:
        message = f"{f'node {node}' if node else 'no node'} has {'no' if node else 'a'} physical table of {pattern}"
    else:
        message = f"{f'the history of node {node}' if node else 'the logical history'} has no table {pattern}"
    return UnknownTable(message + (f": is it {' or '.join(known)}?" if known else ""))


@dataclass(frozen=True, slots=True)
class Moment:
    """A point or span of the global order: keys from `first` up to, but not including, `after`."""

    first: OrderKey
    after: OrderKey
    text: str = ""
    wall_clock: bool = False

    @classmethod
    def at_tso(cls, tso: int) -> "Moment":
        """Return the moment of a commit TSO."""
        return cls(OrderKey(tso, 0, 0, 0), OrderKey(tso + 1, 0, 0, 0), f"TSO {tso}")

    @classmethod
    def at_key(cls, key: OrderKey) -> "Moment":
        """Return the moment of an order key."""
        return cls(key, key._replace(node_seq=key.node_seq + 1), f"order key {key.text()}")

    @classmethod
    def at_time(cls, time: datetime) -> "Moment":
        """Return the moment of a wall-clock time: its whole millisecond. A time without an offset is UTC."""
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        millis = max(0, (time - _EPOCH) // timedelta(milliseconds=1))
        tso = millis << LOGICAL_BITS
        return cls(OrderKey(tso, 0, 0, 0), OrderKey((millis + 1) << LOGICAL_BITS, 0, 0, 0), time.isoformat(), True)

    @classmethod
    def latest(cls) -> "Moment":
        """Return the moment after everything."""
        return cls(LAST, LAST, "the end")

    @classmethod
    def parse(cls, text: str) -> "Moment":
        """Parse a TSO, an order key or a time. Raises ValueError, also for digits that read as a date."""
        if text.isascii() and text.isdigit():
            check_no_date(text)
            if len(text) == 54:
                return cls.at_key(OrderKey.parse(text))
            if int(text) <= LAST.commit_tso:
                return cls.at_tso(int(text))
        try:
            if not text.strip("0123456789"):
                raise ValueError(text)  # digits are no ISO date here
            return cls.at_time(datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            raise ValueError(
                f"{text!r} is no moment: give a commit TSO, an order key (54 digits) or a time (2026-09-21T12:30:00)"
            ) from None

    @property
    def key(self) -> OrderKey:
        """Return the key to look up with: versions below it are in force."""
        return self.after


def check_no_date(digits: str) -> None:
    """Raise ValueError for 20260921 and 20260921123000: who means a time gets no TSO, which is before all others."""
    match = _DATE.fullmatch(digits)
    if match is None:
        return
    year, month, day, *clock = match.groups()
    time = f"{year}-{month}-{day}" + ("T" + ":".join(part or "00" for part in clock) if clock[0] else "")
    raise ValueError(f"{digits!r} reads as a time and as a TSO: write {time} for the time, 0{digits} for the TSO")


LAST = OrderKey((1 << 63) - 1, (1 << 63) - 1, 1 << 33, 1 << 19)
"""Greater than any transaction's key, and still 54 digits."""


def time_of(key: OrderKey) -> datetime | None:
    """Return the wall-clock time of a key, in UTC, or None if its TSO carries no time."""
    if not carries_time(key.commit_tso):
        return None
    return _EPOCH + timedelta(milliseconds=tso_millis(key.commit_tso))


def since(key: OrderKey) -> str:
    """Return a key as users read it: "the beginning", a time, or a TSO that carries no time."""
    if key == ORIGIN:
        return "the beginning"
    time = time_of(key)
    return f"TSO {key.commit_tso}" if time is None else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
