"""The options that `replay` and `verify` share: filters, ranges of transactions, servers."""

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_merge.cli.log_lines import say
from binlog_merge.cli.output import printable
from binlog_merge.errors import ConfigError, IoError, io_remedy, reason

if TYPE_CHECKING:
    from binlog_merge.filters.filter import Filter
    from binlog_merge.log.log import Log
    from binlog_merge.log.place import Place
    from snapshot_store.server import ServerAddress

TimeZone = Annotated[
    str | None,
    typer.Option("--time-zone", help="DuckDB: what SYSTEM was for the servers that ran the DDL.", metavar="ZONE"),
]


def filter_of(path: Path | None, rows_only: bool) -> "Filter | None":
    """Return a filter file's filter; `rows_only`: columns cannot be chosen. Raises ConfigError."""
    from binlog_merge.filters.config import load_filter
    from binlog_merge.filters.filter import verify

    if path is None:
        return None
    settings = load_filter(path)
    if settings.ignore_start_ts:
        raise ConfigError(
            "ignore-txn-start-ts: a merged binlog does not say when a transaction began",
            file=str(path),
            remedy="name commit TSOs in ignore-commit-tso",
        )
    if settings.column_selectors and rows_only:
        raise ConfigError(
            "column-selectors: a MySQL server gets whole rows",
            file=str(path),
            remedy="leave the selectors out; `filter test` shows what the others do",
        )
    return verify(settings)


def range_of(
    log: "Log", start: tuple[str | None, int | None], stop: tuple[str | None, int | None]
) -> tuple[int | None, int | None]:
    """Return the first and the last rank; None for one that is not given."""
    begin, end = _place("start", *start), _place("stop", *stop)
    first, last = log.between(begin, end, ahead=True)
    if begin is not None and end is not None and first > last:
        raise ConfigError(f"the range ends with transaction {last}, before it begins with {first}")
    return None if begin is None else first, None if end is None else last


def _place(option: str, gtid: str | None, tso: int | None) -> "Place | None":
    from binlog_merge.log.place import Place

    if gtid is not None and tso is not None:
        raise ConfigError(f"--{option}-gtid and --{option}-tso say the same", remedy="give one of them")
    if gtid is not None:
        return Place.at_gtid(f"--{option}-gtid", gtid)
    return None if tso is None else Place.at_tso(f"--{option}-tso", tso)


def skipped_of(log: "Log", skip: Iterable[str]) -> frozenset[int]:
    """Return the ranks to skip. Raises ConfigError, and OutsideLog for a transaction that the log does not have."""
    from binlog_merge.log.place import Place

    return frozenset(log.through(Place.at_gtid("--skip", text)) for text in skip)


def time_zone_of(name: str | None) -> str | None:
    """Return the time zone of --time-zone. Raises ConfigError if it is not one."""
    from snapshot_store.mysql.values.times import zone_of

    try:
        if name is not None:
            zone_of(name)
    except ValueError as error:
        raise ConfigError(f"--time-zone: {error}", remedy="write +08:00, or a name like Asia/Shanghai") from None
    return name


def address_of(option: str, url: str, password_file: Path | None) -> "ServerAddress":
    """Return a server's address from an option, with the password from a file. Raises ConfigError and IoError."""
    from snapshot_store.server import ServerAddress

    password = None if password_file is None else password_of(password_file)
    try:
        return ServerAddress.parse(url, password)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def password_of(file: Path) -> str:
    """Read a password from a file; say so if every account of the machine may. Raises IoError."""
    try:
        with file.open(encoding="utf-8") as opened:
            if os.fstat(opened.fileno()).st_mode & stat.S_IROTH:
                text = f"every account of this machine may read {file}: chmod o-r {file}"
                say(f"binlog-merge: {printable(text)}", text, logging.WARNING, file=str(file))
            return opened.read().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise IoError(f"cannot be read: {reason(error)}", file=str(file), remedy=io_remedy(error)) from None
