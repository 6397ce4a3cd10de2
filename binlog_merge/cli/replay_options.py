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
from binlog_merge.errors import CHECK_PATH, ConfigError, IoError, reason

if TYPE_CHECKING:
    from binlog_merge.filters.filter import Filter
    from binlog_merge.log.reader import MergedBinlog
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


def _rank(binlog: "MergedBinlog", option: str, text: str) -> int:
    from binlog_merge.log.ranges import rank_of

    return rank_of(binlog, option, text)


def range_of(
    binlog: "MergedBinlog", start: tuple[str | None, int | None], stop: tuple[str | None, int | None]
) -> tuple[int | None, int | None]:
    """Return the first and the last rank; None for one that is not given."""
    from binlog_merge.log.ranges import check_first, first_rank_at, start_rank_at

    first: int | None = None
    last: int | None = None
    for option, (gtid, tso) in (("start", start), ("stop", stop)):
        if gtid is not None and tso is not None:
            raise ConfigError(f"--{option}-gtid and --{option}-tso say the same", remedy="give one of them")
    if start[0] is not None:
        first = check_first(binlog, _rank(binlog, "--start-gtid", start[0]), f"--start-gtid {start[0]}")
    elif start[1] is not None:
        first = start_rank_at(binlog, "--start-tso", start[1])
    if stop[0] is not None or stop[1] is not None:
        last = _rank(binlog, "--stop-gtid", stop[0]) if stop[0] is not None else first_rank_at(binlog, stop[1] or 0) - 1
    if first is not None and last is not None and first > last:
        raise ConfigError(f"the range ends with transaction {last}, before it begins with {first}")
    return first, last


def skipped_of(binlog: "MergedBinlog", skip: Iterable[str]) -> frozenset[int]:
    """Return the ranks to skip. Raises ConfigError, and OutsideLog for a transaction that the log does not have."""
    from binlog_merge.log.ranges import check_first

    return frozenset(check_first(binlog, _rank(binlog, "--skip", text) + 1, f"--skip {text}") - 1 for text in skip)


def time_zone_of(name: str | None) -> str | None:
    """Return the time zone of --time-zone. Raises ConfigError if it is not one."""
    from snapshot_store.mysql.values.time_zones import zone_of

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
        raise IoError(f"cannot be read: {reason(error)}", file=str(file), remedy=CHECK_PATH) from None
