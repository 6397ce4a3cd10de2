"""`binlog-merge replay`: applies a merged binlog to a server, a DuckDB file or a change log, exactly once."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.options import Merged, Output, SslCa, commit_tso, local_path, merged_of, output_place
from binlog_merge.cli.output import OutputFormat, document_of, print_json, printable
from binlog_merge.cli.replay_options import TimeZone, address_of, filter_of, range_of, skipped_of, time_zone_of
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.binlog.temporal import ZeroDates
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
    from binlog_merge.tables.snapshots import Snapshots
    from binlog_merge.targets.server.mysql import MysqlTarget

HELP = """Apply a merged binlog to MySQL or DuckDB, or write it as a change log or messages (Kafka), exactly once.

The target itself records how far it is: in the server's schema binlog_merge, committed together with the rows, or in
the directory's position.json. A replay that was killed anywhere goes on where it was, nothing lost or doubled. A server
gets rows as a replica gets them and DDL in the session it ran in; it must have the tables as they were where the replay
begins, and its user REPLICATION_APPLIER, or SUPER; the password is that of --password-file, or MYSQL_PWD. A change log
has a directory for each table, and for each row what it was and what it became, in Arrow's types. A DuckDB file has
the tables themselves, typed, with their rows as they are at the position that stands beside them.

\b
  binlog-merge replay --merged merged/ --dry-run
  binlog-merge replay --merged merged/ --to mysql://root@10.0.0.7:3306
  binlog-merge replay --merged merged/ --to mysql://root@10.0.0.7:3306 --filter changefeed.toml --stop-tso 75078…
  binlog-merge replay --merged merged/ --to duckdb:///data/shop.db
  binlog-merge replay --merged merged/ --to duckdb:///data/shop.db --snapshots snapshots/ --snapshot-every 1h
  binlog-merge replay --merged merged/ --to parquet:///data/changes
  binlog-merge replay --merged merged/ --to kafka://10.0.0.8:9092 --format debezium
  binlog-merge replay --merged merged/ --to kafka://10.0.0.8 --format debezium --schema-registry http://10.0.0.9
  binlog-merge replay --merged merged/ --to file:///data/cdc --format canal

Kafka gets messages and the position in one transaction of its own: a restart doubles nothing for readers with
isolation.level=read_committed. Files are laid out as TiCDC's storage sink does."""

_TARGETS = "mysql://USER@HOST:3306, duckdb:FILE, parquet:///DIR, kafka://BROKER:9092, file:///DIR or s3://…"
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
    merged: Merged = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="mysql://user@host:port, mysql://…/?socket=PATH, parquet:///DIR, duckdb:///FILE, "
            "kafka://BROKER[,BROKER][/TOPIC], or file:///DIR (s3://…, gs://…, az://…).",
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
        typer.Option(
            "--start-tso",
            parser=commit_tso("--start-tso"),
            help="Leave out what committed before this TSO; like --start-gtid.",
            metavar="TSO",
        ),
    ] = None,
    stop_tso: Annotated[
        int | None,
        typer.Option("--stop-tso", parser=commit_tso("--stop-tso"), help="Stop before this commit TSO.", metavar="TSO"),
    ] = None,
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
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="Kafka, files: debezium, canal, maxwell, open-protocol or simple.", metavar="FORMAT"
        ),
    ] = None,
    format_option: Annotated[
        list[str] | None,
        typer.Option("--format-option", help="An option of the format, as in `changes`.", metavar="NAME=VALUE"),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Kafka: a topic; may have {schema}, {table} and {prefix}.", metavar="TEMPLATE"),
    ] = None,
    ddl_topic: Annotated[
        str | None, typer.Option("--ddl-topic", help="Kafka: where statements go.", metavar="TOPIC")
    ] = None,
    partition_by: Annotated[
        str,
        typer.Option("--partition-by", help="Kafka: key, table, transaction, or a number.", metavar="RULE"),
    ] = "key",
    kafka_config: Annotated[
        Path | None,
        typer.Option(
            "--kafka-config", help="Kafka: librdkafka's settings, NAME=VALUE.", metavar="FILE", parser=local_path
        ),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry", help="Kafka: write debezium's messages in Avro, with this registry.", metavar="URL"
        ),
    ] = None,
    schema_registry_config: Annotated[
        Path | None,
        typer.Option(
            "--schema-registry-config",
            help="Its settings, NAME=VALUE: basic.auth.user.info, ssl.ca.location …",
            metavar="FILE",
            parser=local_path,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Kafka: under which the position is kept. Default: the cluster's UUID."),
    ] = None,
    temporal: Annotated[
        Temporal,
        typer.Option("--temporal", help="Parquet, DuckDB: dates and times typed, or as MySQL's text (0000-00-00)."),
    ] = Temporal.typed,
    zero_dates: Annotated[
        str,
        typer.Option(
            "--zero-dates",
            help="Parquet, DuckDB with typed dates: those like 0000-00-00 are `null`, make `text` of their columns "
            "(Parquet), or `stop` it; of one column born=null.",
            metavar="RULE",
        ),
    ] = "stop",
    time_zone: TimeZone = None,
    snapshots: Annotated[
        str | None,
        typer.Option(
            "--snapshots",
            help="DuckDB: copy the file here, whole and dated, where the replay ends; a folder, or s3://….",
            metavar="DIR",
            parser=output_place,
        ),
    ] = None,
    snapshot_every: Annotated[
        str | None,
        typer.Option(
            "--snapshot-every",
            help="Copy it instead whenever the log's time passes a full 1h, 1d, ….",
            metavar="DURATION",
        ),
    ] = None,
    snapshot_keep: Annotated[
        int | None, typer.Option("--snapshot-keep", min=1, help="How many snapshots are kept; default: all.")
    ] = None,
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
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Apply a merged binlog to a MySQL server."""
    start_log(log_level, log_format)
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import ReplayOptions
    from binlog_merge.targets.server.run import dry_run
    from binlog_merge.targets.server.run import replay as run

    if dry == (to is not None):
        raise ConfigError("give --to URL, or --dry-run", remedy=f"write --to {_TARGETS}")
    source = merged_of(None, merged)
    shown = redacted(source)
    with opened_log(source) as folder:
        binlog = Log(folder)
        first, last = range_of(binlog, (start_gtid, start_tso), (stop_gtid, stop_tso))
        skipped = skipped_of(binlog, skip or ())
        messages = to is not None and to.startswith(("kafka:", "file:", "s3:", "gs:", "az:"))
        rows_only = to is not None and not messages and not to.startswith(("parquet:", "duckdb:"))
        if to is not None and rows_only and not to.startswith("mysql:"):
            raise ConfigError(f"--to: {redacted(to)!r} is no target", remedy=f"write {_TARGETS}")
        _check_snapshots(to, snapshots, snapshot_every, snapshot_keep)
        of_kafka = (topic, ddl_topic, kafka_config, name, schema_registry, schema_registry_config)
        _check_messages(messages, form, bool(format_option), any(of_kafka))
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
            zero_dates=_zero_dates(zero_dates, to or ""),
        )
        if dry:
            _print(dry_run(binlog, options), shown, f"{shown} would be applied", output)
            return
        if messages:
            from binlog_merge.cli.replay_messages import MessageOptions, replay_messages

            asked = MessageOptions(
                to or "", form or "", format_option or [], topic, ddl_topic, partition_by, kafka_config, name,
                schema_registry, schema_registry_config,
            )  # fmt: skip
            replay_messages(binlog, shown, asked, options, output)
            return
        if (to or "").startswith("parquet:"):
            _capture(binlog, shown, to or "", options, temporal, output)
            return
        if not rows_only:
            wanted = snapshots and (snapshots, snapshot_every, snapshot_keep)
            _load(binlog, shown, to or "", options, temporal, output, wanted or None)
            return
        target = _target(binlog, to or "", password_file, ssl_ca)
        title = f"{shown} applied to {target.address}"
        with _done_so_far(shown, title, output):
            result = run(binlog, target, options)
        _print(result, shown, title, output)


def _zero_dates(rules: str, to: str) -> "ZeroDates":
    """Return the rules for dates that no calendar has. Raises ConfigError, also for a target whose dates are text."""
    from binlog_merge.log.question import zero_dates_of

    if rules != "stop" and not to.startswith(("parquet:", "duckdb:")):
        raise ConfigError("--zero-dates is for Parquet and DuckDB", remedy="leave it out")
    return zero_dates_of("--zero-dates", rules)


def _check_snapshots(to: str | None, snapshots: str | None, every: str | None, keep: int | None) -> None:
    """Raise ConfigError for snapshots of what is no DuckDB file, and for options of snapshots without --snapshots."""
    if snapshots is None and (every is not None or keep is not None):
        raise ConfigError("--snapshot-every and --snapshot-keep go with --snapshots", remedy="add --snapshots DIR")
    if snapshots is not None and not (to or "").startswith("duckdb:"):
        raise ConfigError("--snapshots is for DuckDB files", remedy="give --to duckdb:///FILE, or leave it out")


def _check_messages(messages: bool, form: str | None, options: bool, of_kafka: bool) -> None:
    """Raise ConfigError for options of messages without a target for them, and for such a target without a format."""
    if messages and form is None:
        raise ConfigError("--format is missing", remedy="give debezium, canal, maxwell, open-protocol or simple")
    if not messages and (form is not None or options or of_kafka):
        raise ConfigError(
            "--format, --format-option, --topic, --ddl-topic, --kafka-config, --schema-registry and --name are for "
            "messages",
            remedy="give --to kafka://… or file:///…, or leave them out",
        )


def _capture(
    binlog: "Log", shown: str, url: str, options: "ReplayOptions", temporal: Temporal, output: OutputFormat
) -> None:
    from binlog_merge.targets.parquet import ParquetTarget, capture

    folder, chosen = path_of(url, "no directory: write parquet:///DIR"), options.filter
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    title = f"{shown} written to {folder}"
    text = temporal is Temporal.text
    with (
        _done_so_far(shown, title, output),
        ParquetTarget(folder, binlog.cluster_uuid, text, columns, zero_dates=options.zero_dates) as target,
    ):
        result = capture(binlog, target, options)
    _print(result, shown, title, output)


def _load(
    binlog: "Log",
    shown: str,
    url: str,
    options: "ReplayOptions",
    temporal: Temporal,
    output: OutputFormat,
    snapshots: tuple[str, str | None, int | None] | None,
) -> None:
    from binlog_merge.log.replay_options import history_of
    from binlog_merge.tables.load import load
    from binlog_merge.tables.snapshots import load_with_snapshots
    from binlog_merge.tables.target import DuckdbTarget

    path, chosen = path_of(url, "no file: write duckdb:///FILE"), options.filter
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    title = f"{shown} loaded into {path}"
    text = temporal is Temporal.text
    with _done_so_far(shown, title, output), DuckdbTarget(path, binlog.cluster_uuid, text, columns) as target:
        history = history_of(binlog.directory)
        if snapshots is None:
            result = load(binlog, target, history, options)
        else:
            result = load_with_snapshots(binlog, target, history, options, _snapshots(*snapshots))
    _print(result, shown, title, output)


def _snapshots(place: str, every: str | None, keep: int | None) -> "Snapshots":
    from binlog_merge.config.values import parse_duration
    from binlog_merge.tables.snapshot_places import place_of
    from binlog_merge.tables.snapshots import Snapshots

    try:
        micros = None if every is None else parse_duration(every)
    except ValueError as error:
        raise ConfigError(f"--snapshot-every: {error}", remedy="write 1h, 30m or 1d") from None
    if micros is not None and micros < 1_000_000:
        raise ConfigError("--snapshot-every is less than a second", remedy="write 1h, 30m or 1d")
    return Snapshots(place_of(place), micros, keep)


@contextmanager
def _done_so_far(shown: str, title: str, output: OutputFormat) -> Iterator[None]:
    """If a replay fails, print what it has done before."""
    try:
        yield
    except MergeError as error:
        if error.result is not None and output is OutputFormat.text:
            how_far = "only partly" if error.result.transactions else "not"
            _print(error.result, shown, f"{shown} {how_far}{title.removeprefix(shown)}", output)
        raise


def path_of(url: str, otherwise: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or not parts.path.strip("/"):
        raise ConfigError(f"--to: {url!r} is {otherwise}")
    return Path(unquote(parts.path))


def _target(binlog: "Log", url: str, password_file: Path | None, ssl_ca: Path | None) -> "MysqlTarget":
    from binlog_merge.targets.server.mysql import MysqlTarget

    address = address_of("--to", url, password_file)
    return MysqlTarget(address, binlog.cluster_uuid, None if ssl_ca is None else str(ssl_ca))


def _print(result: "ReplayResult", shown: str, title: str, output: OutputFormat) -> None:
    if output is not OutputFormat.text:
        print_json(document_of(merged=shown, result=result))
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
    lines += _rows("snapshots", result.snapshots or []) + _rows("removed", result.removed)
    return lines


def _counts(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


def _rows(title: str, values: list[str]) -> list[str]:
    return [f"  {title if i == 0 else '':<10} {value}" for i, value in enumerate(values)]
