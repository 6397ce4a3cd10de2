"""`binlog-merge replay`: applies a merged binlog to a server, a DuckDB file or a change log, exactly once."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.output import OutputFormat, document_of, print_json, printable
from binlog_merge.cli.paths import SslCa, local_path, output_place
from binlog_merge.cli.replay_options import TimeZone, address_of, filter_of, range_of, skipped_of, time_zone_of
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.log.reader import MergedBinlog
    from binlog_merge.log.walk import ReplayOptions, ReplayResult
    from binlog_merge.replay.server.mysql import MysqlTarget

HELP = """Apply a merged binlog to a MySQL server or a DuckDB file, or write a change log in Parquet; exactly once.

How far the target is stands in the target: in the server's schema binlog_merge, committed together with the rows, or in
the directory's position.json. A replay that was killed anywhere goes on where it was, nothing lost or doubled. A server
gets rows as a replica gets them and DDL in the session it ran in; it must have the tables as they were where the replay
begins, and its user REPLICATION_APPLIER, or SUPER; the password is that of --password-file, or MYSQL_PWD. A change log
has a directory for each table, and for each row what it was and what it became, in Arrow's types. A DuckDB file has
the tables themselves, typed, with their rows as they are at the position that stands beside them.

\b
  binlog-merge replay --from merged/ --dry-run
  binlog-merge replay --from merged/ --to mysql://root@10.0.0.7:3306
  binlog-merge replay --from merged/ --to mysql://root@10.0.0.7:3306 --filter changefeed.toml --stop-tso 75078…
  binlog-merge replay --from merged/ --to duckdb:///data/shop.db
  binlog-merge replay --from merged/ --to parquet:///data/changes"""

_START = "Begin here; only for a target that has no position yet."


class Temporal(StrEnum):
    """The choices of --temporal."""

    typed = "typed"
    text = "text"


class CommitOrder(StrEnum):
    """The choices of --commit-order."""

    keep = "keep"
    relaxed = "relaxed"


def replay(
    source: Annotated[
        str,
        typer.Option(
            "--from", help="A merge's output directory, or s3://… (gs://…, az://…)", metavar="DIR", parser=output_place
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="mysql://user@host:port, mysql://…/?socket=PATH, parquet:///DIR, or duckdb:///FILE.",
            metavar="URL",
        ),
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", help="Holds the server's password.", parser=local_path, metavar="PATH"),
    ] = None,
    ssl_ca: SslCa = None,
    start_gtid: Annotated[str | None, typer.Option("--start-gtid", help=_START, metavar="GTID")] = None,
    stop_gtid: Annotated[
        str | None, typer.Option("--stop-gtid", help="The last transaction to apply.", metavar="GTID")
    ] = None,
    start_tso: Annotated[
        int | None,
        typer.Option("--start-tso", min=0, help="Leave out what committed before this TSO; like --start-gtid."),
    ] = None,
    stop_tso: Annotated[int | None, typer.Option("--stop-tso", min=0, help="Stop before this commit TSO.")] = None,
    filter_file: Annotated[
        Path | None,
        typer.Option(
            "--filter", help="What to apply; see `binlog-merge filter test`.", metavar="FILE", parser=local_path
        ),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Transactions that share a commit of a server.")] = 100,
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=64, help="Sessions of a server that apply rows beside each other.")
    ] = 1,
    commit_order: Annotated[
        CommitOrder,
        typer.Option("--commit-order", help="keep: sessions commit in the log's order; relaxed: each when it is done."),
    ] = CommitOrder.keep,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="Apply at most so many transactions a second to a server.")
    ] = None,
    until_lag: Annotated[
        float | None,
        typer.Option(
            "--until-lag", min=0, help="Go on, as more is merged, until a server is at most so many seconds behind."
        ),
    ] = None,
    temporal: Annotated[
        Temporal,
        typer.Option("--temporal", help="Parquet, DuckDB: dates and times typed, or as MySQL's text (0000-00-00)."),
    ] = Temporal.typed,
    time_zone: TimeZone = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", help="Leave this transaction out; a server records it.", metavar="GTID"),
    ] = None,
    retry_seconds: Annotated[
        float, typer.Option("--retry-seconds", min=0, help="How long to try again when the connection is lost.")
    ] = 60.0,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Read everything, apply the filter, say what would be done.")
    ] = False,
    output: Annotated[
        OutputFormat, typer.Option("-o", "--output", help="How to print the result.")
    ] = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Apply a merged binlog to a MySQL server."""
    start_log(log_level, log_format)
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.reader import MergedBinlog
    from binlog_merge.log.walk import ReplayOptions
    from binlog_merge.replay.server.run import dry_run
    from binlog_merge.replay.server.run import replay as run

    if dry == (to is not None):
        raise ConfigError("give --to URL, or --dry-run")
    shown = redacted(source)
    with opened_log(source) as folder:
        binlog = MergedBinlog(folder)
        first, last = range_of(binlog, (start_gtid, start_tso), (stop_gtid, stop_tso))
        skipped = skipped_of(binlog, skip or ())
        rows_only = to is not None and not to.startswith(("parquet:", "duckdb:"))
        of_servers = workers > 1 or commit_order is CommitOrder.relaxed or rate is not None or until_lag is not None
        if of_servers and to is not None and not rows_only:
            raise ConfigError(
                "--workers, --commit-order, --rate and --until-lag are for servers", remedy="leave them out"
            )
        options = ReplayOptions(
            first,
            last,
            filter_of(filter_file, rows_only),
            batch,
            skipped,
            retry_seconds,
            workers,
            commit_order is CommitOrder.keep,
            rate,
            until_lag,
            system_zone=time_zone_of(time_zone),
        )
        if dry:
            _print(dry_run(binlog, options), f"{shown} would be applied", output)
            return
        if not rows_only:
            (_capture if (to or "").startswith("parquet:") else _load)(
                binlog, shown, to or "", options, temporal, output
            )
            return
        target = _target(binlog, to or "", password_file, ssl_ca)
        title = f"{shown} applied to {target.address}"
        with _done_so_far(title, output):
            result = run(binlog, target, options)
        _print(result, title, output)


def _capture(
    binlog: "MergedBinlog", shown: str, url: str, options: "ReplayOptions", temporal: Temporal, output: OutputFormat
) -> None:
    from binlog_merge.log.walk import history_of
    from binlog_merge.replay.changes.parquet import ParquetTarget
    from binlog_merge.replay.changes.walk import capture

    folder, chosen = path_of(url, "no directory: write parquet:///DIR"), options.filter
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    title = f"{shown} written to {folder}"
    text = temporal is Temporal.text
    history = history_of(binlog.directory)
    with _done_so_far(title, output), ParquetTarget(folder, binlog.cluster_uuid, history, text, columns) as target:
        result = capture(binlog, target, options)
    _print(result, title, output)


def _load(
    binlog: "MergedBinlog", shown: str, url: str, options: "ReplayOptions", temporal: Temporal, output: OutputFormat
) -> None:
    from binlog_merge.log.walk import history_of
    from binlog_merge.replay.duckdb.load import load
    from binlog_merge.replay.duckdb.target import DuckdbTarget

    path, chosen = path_of(url, "no file: write duckdb:///FILE"), options.filter
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    title = f"{shown} loaded into {path}"
    text = temporal is Temporal.text
    with _done_so_far(title, output), DuckdbTarget(path, binlog.cluster_uuid, text, columns) as target:
        result = load(binlog, target, history_of(binlog.directory), options)
    _print(result, title, output)


@contextmanager
def _done_so_far(title: str, output: OutputFormat) -> Iterator[None]:
    """If a replay fails, print what it has done before."""
    try:
        yield
    except MergeError as error:
        if error.result is not None and output is OutputFormat.text:
            _print(error.result, title, output)
        raise


def path_of(url: str, otherwise: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or not parts.path.strip("/"):
        raise ConfigError(f"--to: {url!r} is {otherwise}")
    return Path(unquote(parts.path))


def _target(binlog: "MergedBinlog", url: str, password_file: Path | None, ssl_ca: Path | None) -> "MysqlTarget":
    from binlog_merge.replay.server.mysql import MysqlTarget

    address = address_of("--to", url, password_file)
    return MysqlTarget(address, binlog.cluster_uuid, None if ssl_ca is None else str(ssl_ca))


def _print(result: "ReplayResult", title: str, output: OutputFormat) -> None:
    if output is OutputFormat.json:
        print_json(document_of(result=result))
    else:
        print("\n".join(printable(line) for line in _lines(result, title)), flush=True)


def _lines(result: "ReplayResult", title: str) -> list[str]:
    through = f", {result.first_rank} to {result.last_rank}" if result.transactions else ""
    lines = [f"{result.transactions} transactions{through}: {title}"]
    values: dict[str, Any] = result.to_dict()
    for key, name in (("rows", "rows"), ("rows_left_out", "left out")):
        counted = [f"{table}  {_counts(kinds)}" for table, kinds in values[key].items()]
        lines += _rows(name, counted)
    lines += _rows("DDL", result.statements) + _rows("left out", result.left_out) + _rows("skipped", result.skipped)
    return lines


def _counts(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


def _rows(title: str, values: list[str]) -> list[str]:
    return [f"  {title if i == 0 else '':<10} {value}" for i, value in enumerate(values)]
