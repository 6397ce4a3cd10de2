"""The options of `replay`, and what it shares with `verify` and others: filters, ranges of transactions, servers."""

import logging
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say
from binlog_merge.cli.options import Merged, Output, SslCa, commit_tso, local_path, option, output_place
from binlog_merge.cli.output import OutputFormat, printable
from binlog_merge.errors import ConfigError, IoError, io_remedy, reason

if TYPE_CHECKING:
    from binlog_merge.filters.filter import Filter
    from binlog_merge.log.log import Log
    from binlog_merge.log.place import Place
    from snapshot_store.server import ServerAddress

TimeZone = Annotated[
    str | None,
    option("--time-zone", "DuckDB: what SYSTEM was for the servers that ran the DDL.", "ZONE"),
]
_START = "Begin here; only for a target that has no position yet."


class Temporal(StrEnum):
    """The choices of --temporal."""

    typed = "typed"
    text = "text"


class CommitOrder(StrEnum):
    """The choices of --commit-order."""

    keep = "keep"
    relaxed = "relaxed"


@dataclass(frozen=True)
class ReplayLine:
    """The options of `replay`."""

    merged: Merged = None
    to: Annotated[
        str | None,
        option(
            "--to",
            "mysql://user@host:port, mysql://…/?socket=PATH, parquet:///DIR, duckdb:///FILE, "
            "kafka://BROKER[,BROKER][/TOPIC], or file:///DIR (s3://…, gs://…, az://…).",
            "URL",
        ),
    ] = None
    password_file: Annotated[
        Path | None,
        option("--password-file", "Holds the server's password.", "PATH", local_path),
    ] = None
    ssl_ca: SslCa = None
    start_gtid: Annotated[str | None, option("--start-gtid", _START, "GTID")] = None
    stop_gtid: Annotated[str | None, option("--stop-gtid", "The last transaction to apply.", "GTID")] = None
    start_tso: Annotated[
        int | None,
        option(
            "--start-tso",
            "Leave out what committed before this TSO; like --start-gtid.",
            "TSO",
            commit_tso("--start-tso"),
        ),
    ] = None
    stop_tso: Annotated[
        int | None,
        option("--stop-tso", "Stop before this commit TSO.", "TSO", commit_tso("--stop-tso")),
    ] = None
    filter_file: Annotated[
        Path | None,
        option("--filter", "What to apply; see `binlog-merge filter test`.", "FILE", local_path),
    ] = None
    batch: Annotated[int, option("--batch", "Transactions that share a commit of a server.", min=1)] = 100
    workers: Annotated[
        int, option("--workers", "Sessions of a server that apply rows beside each other.", min=1, max=64)
    ] = 1
    commit_order: Annotated[
        CommitOrder,
        option("--commit-order", "keep: sessions commit in the log's order; relaxed: each when it is done."),
    ] = CommitOrder.keep
    rate: Annotated[
        float | None, option("--rate", "Apply at most so many transactions a second to a server.", min=0.001)
    ] = None
    until_lag: Annotated[
        float | None,
        option("--until-lag", "Go on, as more is merged, until a server is at most so many seconds behind.", min=0),
    ] = None
    form: Annotated[
        str | None,
        option("--format", "Kafka, files: debezium, canal, maxwell, open-protocol or simple.", "FORMAT"),
    ] = None
    format_option: Annotated[
        list[str] | None,
        option("--format-option", "An option of the format, as in `changes`.", "NAME=VALUE"),
    ] = None
    topic: Annotated[
        str | None,
        option("--topic", "Kafka: a topic; may have {schema}, {table} and {prefix}.", "TEMPLATE"),
    ] = None
    ddl_topic: Annotated[str | None, option("--ddl-topic", "Kafka: where statements go.", "TOPIC")] = None
    partition_by: Annotated[
        str,
        option("--partition-by", "Kafka: key, table, transaction, or a number.", "RULE"),
    ] = "key"
    kafka_config: Annotated[
        Path | None,
        option("--kafka-config", "Kafka: librdkafka's settings, NAME=VALUE.", "FILE", local_path),
    ] = None
    schema_registry: Annotated[
        str | None,
        option("--schema-registry", "Kafka: write debezium's messages in Avro, with this registry.", "URL"),
    ] = None
    schema_registry_config: Annotated[
        Path | None,
        option(
            "--schema-registry-config",
            "Its settings, NAME=VALUE: basic.auth.user.info, ssl.ca.location …",
            "FILE",
            local_path,
        ),
    ] = None
    name: Annotated[
        str | None,
        option("--name", "Kafka: under which the position is kept. Default: the cluster's UUID."),
    ] = None
    temporal: Annotated[
        Temporal,
        option("--temporal", "Parquet, DuckDB: dates and times typed, or as MySQL's text (0000-00-00)."),
    ] = Temporal.typed
    zero_dates: Annotated[
        str,
        option(
            "--zero-dates",
            "Parquet, DuckDB with typed dates: those like 0000-00-00 are `null`, make `text` of their columns "
            "(Parquet), or `stop` it; of one column born=null.",
            "RULE",
        ),
    ] = "stop"
    time_zone: TimeZone = None
    snapshots: Annotated[
        str | None,
        option(
            "--snapshots",
            "DuckDB: copy the file here, whole and dated, where the replay ends; a folder, or s3://….",
            "DIR",
            output_place,
        ),
    ] = None
    snapshot_every: Annotated[
        str | None,
        option("--snapshot-every", "Copy it instead whenever the log's time passes a full 1h, 1d, ….", "DURATION"),
    ] = None
    snapshot_keep: Annotated[
        int | None, option("--snapshot-keep", "How many snapshots are kept; default: all.", min=1)
    ] = None
    skip: Annotated[
        list[str] | None,
        option("--skip", "Leave this transaction out; a server records it.", "GTID"),
    ] = None
    retry_seconds: Annotated[
        float, option("--retry-seconds", "How long to try again when the connection is lost.", min=0)
    ] = 60.0
    dry: Annotated[bool, option("--dry-run", "Read everything, apply the filter, say what would be done.")] = False
    output: Output = OutputFormat.text
    log_level: LogLevel = Level.warning
    log_format: LogFormat = LineFormat.text


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
