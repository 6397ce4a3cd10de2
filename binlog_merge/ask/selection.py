"""What a user asks of a table's changes, in the user's words, resolved against a log."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from binlog_merge.ask.all_tables import EVERY, AskedAll, all_batches, asked_all
from binlog_merge.ask.read import Asked, asked_of, batches_of
from binlog_merge.ask.shape import Shape, shape_of
from binlog_merge.binlog.zero_dates import STOP, ZeroDates
from binlog_merge.errors import ConfigError, UnknownTable
from binlog_merge.filters.expressions import Op
from binlog_merge.log.log import Log, Range
from binlog_merge.log.place import Place as LogPlace
from binlog_merge.log.place import parse_place, zone_named
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.log.versions import TableVersions, history_of, versions_between
from snapshot_store.names import NamePattern
from snapshot_store.tso import OrderKey

Place = str | int | datetime | None


@dataclass(frozen=True)
class Selection:
    """Changes of a table: what is asked, and the ranks of the first and the last transaction."""

    binlog: MergedBinlog
    asked: Asked
    first: int
    last: int
    limit: int | None = None

    @property
    def name(self) -> str:
        """Return the table's name."""
        return f"{self.asked.versions.schema}.{self.asked.versions.name}"

    def between(self, first: int, last: int) -> "Selection":
        """Return what is asked of these transactions."""
        return replace(self, first=first, last=last)

    def batches(self) -> Iterator[Any]:
        """Yield the changes as record batches; see `read.batches_of`."""
        left = self.limit
        for batch in batches_of(self.binlog, self.asked, self.first, self.last):
            if left is None:
                yield batch
                continue
            if left > 0:
                yield batch.slice(0, left)
            left -= len(batch)
            if left <= 0:
                return


@dataclass(frozen=True)
class AllSelection:
    """Changes of many tables: what is asked, and the ranks of the first and the last transaction."""

    binlog: MergedBinlog
    asked: AskedAll
    first: int
    last: int

    def batches(self) -> Iterator[Any]:
        """Yield the changes as record batches; see `all_tables.all_batches`."""
        return all_batches(self.binlog, self.asked, self.first, self.last)


def select_all(
    binlog: Log,
    patterns: Sequence[NamePattern],
    *,
    start: Place = None,
    stop: Place = None,
    op: str | Sequence[str] | None = None,
    fields: Sequence[str] | None = None,
    time_zone: str = "UTC",
) -> AllSelection:
    """Return the changes of the tables that match a pattern."""
    first, last = _range(binlog, start, stop, time_zone)
    ops = (op,) if isinstance(op, str) else op
    asked = asked_all(binlog, patterns, first, last, fields=fields, ops=ops)
    return AllSelection(binlog, asked, first, last)


def patterns_of(table: str | tuple[str, str] | None) -> tuple[NamePattern, ...] | None:
    """Return what a user names if it may be many tables: nothing, names with commas, patterns; None if it is one table.

    Raises ConfigError.
    """
    if table is None:
        return (EVERY,)
    if isinstance(table, tuple):
        return None
    names = split_names(table)
    patterns = tuple(map(_pattern_of, names))
    return patterns if len(patterns) > 1 or any(patterns[0].wild) else None


def _pattern_of(text: str) -> NamePattern:
    try:
        return NamePattern.parse(text)
    except ValueError as error:
        raise ConfigError(f"table {text!r}: {error}", remedy="write SCHEMA.TABLE, like shop.orders") from None


def split_names(text: str) -> list[str]:
    """Return the names in a list with commas, which may stand in backticks, too."""
    return [name.strip() for name in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text)] or [text]


def _range(log: Log, start: Place, stop: Place, time_zone: str, options: str = "") -> Range:
    zone_named(time_zone)
    return log.between(
        None if start is None else parse_place(f"{options}start", start, time_zone),
        None if stop is None else parse_place(f"{options}stop", stop, time_zone),
    )


def select(
    binlog: Log,
    table: str | tuple[str, str],
    *,
    start: Place = None,
    stop: Place = None,
    where: str | None = None,
    op: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    as_of: str | int | None = None,
    temporal_text: bool = False,
    zero_dates: ZeroDates = STOP,
    time_zone: str = "UTC",
    fields: Sequence[str] | None = None,
    limit: int | None = None,
    options: str = "",
) -> Selection:
    """Return the changes that `changes.changes` describes. `options` is put before an argument's name in messages."""
    first, last = _range(binlog, start, stop, time_zone, options)
    versions = versions_between(binlog, *name_of(table), first, last)
    every = versions if as_of is None else history_of(binlog, versions.schema, versions.name)
    asked = asked_by(
        versions, every, where=where, op=op, columns=columns, as_of=as_of, temporal_text=temporal_text,
        zero_dates=zero_dates, time_zone=time_zone, fields=fields, options=options,
    )  # fmt: skip
    return Selection(binlog, asked, first, last, limit)


def asked_by(
    versions: TableVersions,
    every: TableVersions,
    *,
    where: str | None = None,
    op: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    as_of: str | int | None = None,
    temporal_text: bool = False,
    zero_dates: ZeroDates = STOP,
    time_zone: str = "UTC",
    fields: Sequence[str] | None = None,
    options: str = "",
) -> Asked:
    """Return what is asked of a table with these versions in the range; see `select`.

    `every` are those of all times, of which `as_of` names one.
    """
    return asked_of(
        versions,
        shaped(versions if as_of is None else every, as_of, columns, temporal_text, options, zero_dates),
        fields=None if fields is None else tuple(fields),
        ops=None if op is None else cast(tuple[Op, ...], (op,) if isinstance(op, str) else tuple(op)),
        where=where,
        time_zone=time_zone,
        temporal_text=temporal_text,
        whole=columns is None and as_of is None,
        zero_dates=zero_dates,
    )


def zero_dates_of(option: str, text: str) -> ZeroDates:
    """Return the rules that an option has for dates that no calendar has. Raises ConfigError."""
    try:
        return ZeroDates.parse(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}", remedy="write null, text, stop, or born=null,at=text") from None


def name_of(table: str | tuple[str, str]) -> tuple[str, str]:
    """Return the schema and the name of a table as a user writes it. Raises ConfigError."""
    if isinstance(table, tuple):
        return table
    found = _pattern_of(table)
    if any(found.wild):
        why = "is a pattern" if "." in table else "names no schema"
        raise ConfigError(f"table {table!r} {why}", remedy="name one table, like shop.orders")
    return found.schema, found.table


def shaped(
    versions: TableVersions,
    as_of: str | int | None,
    columns: Sequence[str] | None,
    temporal_text: bool,
    options: str = "",
    zero_dates: ZeroDates = STOP,
) -> Shape:
    """Return the shape of `before` and `after`. Raises ConfigError and UnknownTable."""
    tables = versions.tables()
    if as_of is not None:
        option = f"{options}as-of" if options else "as_of"
        table = versions.at(_key(parse_place(option, as_of)))
        if table is None:
            raise UnknownTable(f"{option} {as_of}: {versions.schema}.{versions.name} is not there then")
        tables = (table,)
    shape = shape_of(tables, temporal_text, zero_dates)
    return shape if columns is None else shape.only(columns, f"{options}columns")


def _key(place: LogPlace) -> OrderKey:
    if place.kind == "key" and place.moment is not None:
        return place.moment.first
    if place.kind == "tso" and place.moment is not None:
        return place.moment.after.previous()
    raise ConfigError(f"{place.option} {place.text!r} is no TSO", remedy="give a commit TSO, or an order key")
