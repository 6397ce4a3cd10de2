"""`binlog-merge replay`: applies a merged binlog to a server, a DuckDB file or a change log, exactly once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from binlog_merge.cli.log_lines import start_log
from binlog_merge.cli.options import merged_of, taking
from binlog_merge.cli.output import OutputFormat, document_of, print_json, printable
from binlog_merge.cli.replay_options import (
    CommitOrder,
    ReplayLine,
    Temporal,
    address_of,
    filter_of,
    range_of,
    skipped_of,
    time_zone_of,
)
from binlog_merge.errors import ConfigError, IoError, MergeError, io_remedy, reason
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.binlog.temporal import ZeroDates
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
    from binlog_merge.messages.delivery import Delivered
    from binlog_merge.tables.snapshots import Snapshots


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


@taking(ReplayLine)
def replay(line: ReplayLine) -> None:
    """Apply a merged binlog to a MySQL server."""
    start_log(line.log_level, line.log_format)
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import ReplayOptions
    from binlog_merge.targets.server.run import dry_run

    if line.dry == (line.to is not None):
        raise ConfigError("give --to URL, or --dry-run", remedy=f"write --to {_TARGETS}")
    kind, colon, _ = (line.to or "").partition(":")
    source = merged_of(None, line.merged)
    shown = redacted(source)
    with opened_log(source) as folder:
        binlog = Log(folder)
        first, last = range_of(binlog, (line.start_gtid, line.start_tso), (line.stop_gtid, line.stop_tso))
        skipped = skipped_of(binlog, line.skip or ())
        if line.to is not None and not (colon and kind in _REPLAYS):
            raise ConfigError(f"--to: {redacted(line.to)!r} is no target", remedy=f"write {_TARGETS}")
        _check_snapshots(line, kind)
        _check_messages(line, kind)
        _check_servers(line, kind)
        options = ReplayOptions(
            first,
            last,
            filter_of(line.filter_file, kind == "mysql"),
            line.batch,
            skipped,
            line.retry_seconds,
            line.workers,
            line.commit_order is CommitOrder.keep,
            line.rate,
            line.until_lag,
            system_zone=time_zone_of(line.time_zone),
            zero_dates=_zero_dates(line, kind),
        )
        if line.dry:
            _print(dry_run(binlog, options), shown, f"{shown} would be applied", line.output)
        else:
            _REPLAYS[kind](binlog, shown, line, options)


def _zero_dates(line: ReplayLine, kind: str) -> "ZeroDates":
    """Return the rules for dates that no calendar has. Raises ConfigError, also for a target whose dates are text."""
    from binlog_merge.log.question import zero_dates_of

    if line.zero_dates != "stop" and kind not in ("parquet", "duckdb"):
        raise ConfigError("--zero-dates is for Parquet and DuckDB", remedy="leave it out")
    return zero_dates_of("--zero-dates", line.zero_dates)


def _check_snapshots(line: ReplayLine, kind: str) -> None:
    """Raise ConfigError for snapshots of what is no DuckDB file, and for options of snapshots without --snapshots."""
    if line.snapshots is None and (line.snapshot_every is not None or line.snapshot_keep is not None):
        raise ConfigError("--snapshot-every and --snapshot-keep go with --snapshots", remedy="add --snapshots DIR")
    if line.snapshots is not None and kind != "duckdb":
        raise ConfigError("--snapshots is for DuckDB files", remedy="give --to duckdb:///FILE, or leave it out")


def _check_messages(line: ReplayLine, kind: str) -> None:
    """Raise ConfigError for options of messages without a target for them, and for such a target without a format."""
    if kind in _MESSAGES and line.form is None:
        raise ConfigError("--format is missing", remedy="give debezium, canal, maxwell, open-protocol or simple")
    of_kafka = any((line.topic, line.ddl_topic, line.kafka_config, line.name, line.schema_registry))
    if kind not in _MESSAGES and (
        line.form is not None or line.format_option or of_kafka or line.schema_registry_config
    ):
        raise ConfigError(
            "--format, --format-option, --topic, --ddl-topic, --kafka-config, --schema-registry and --name are for "
            "messages",
            remedy="give --to kafka://… or file:///…, or leave them out",
        )


def _check_servers(line: ReplayLine, kind: str) -> None:
    """Raise ConfigError for options of servers with another target."""
    relaxed = line.commit_order is CommitOrder.relaxed
    given = line.workers > 1 or relaxed or line.rate is not None or line.until_lag is not None
    if given and line.to is not None and kind != "mysql":
        raise ConfigError("--workers, --commit-order, --rate and --until-lag are for servers", remedy="leave them out")


def _apply(binlog: "Log", shown: str, line: ReplayLine, options: "ReplayOptions") -> None:
    from binlog_merge.targets.server.mysql import MysqlTarget
    from binlog_merge.targets.server.run import replay as run

    address = address_of("--to", line.to or "", line.password_file)
    target = MysqlTarget(address, binlog.cluster_uuid, None if line.ssl_ca is None else str(line.ssl_ca))
    title = f"{shown} applied to {target.address}"
    with _done_so_far(shown, title, line.output):
        result = run(binlog, target, options)
    _print(result, shown, title, line.output)


def _capture(binlog: "Log", shown: str, line: ReplayLine, options: "ReplayOptions") -> None:
    from binlog_merge.targets.parquet import ParquetTarget, capture

    folder, chosen = path_of(line.to or "", "no directory: write parquet:///DIR"), options.filter
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    title = f"{shown} written to {folder}"
    text = line.temporal is Temporal.text
    with (
        _done_so_far(shown, title, line.output),
        ParquetTarget(folder, binlog.cluster_uuid, text, columns, zero_dates=options.zero_dates) as target,
    ):
        result = capture(binlog, target, options)
    _print(result, shown, title, line.output)


def _load(binlog: "Log", shown: str, line: ReplayLine, options: "ReplayOptions") -> None:
    from binlog_merge.log.replay_options import history_of
    from binlog_merge.tables.load import load
    from binlog_merge.tables.snapshots import load_with_snapshots
    from binlog_merge.tables.target import DuckdbTarget

    path, chosen = path_of(line.to or "", "no file: write duckdb:///FILE"), options.filter
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    title = f"{shown} loaded into {path}"
    text = line.temporal is Temporal.text
    with _done_so_far(shown, title, line.output), DuckdbTarget(path, binlog.cluster_uuid, text, columns) as target:
        history = history_of(binlog.directory)
        if line.snapshots is None:
            result = load(binlog, target, history, options)
        else:
            chosen_snapshots = _snapshots(line.snapshots, line.snapshot_every, line.snapshot_keep)
            result = load_with_snapshots(binlog, target, history, options, chosen_snapshots)
    _print(result, shown, title, line.output)


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


def _print(result: "ReplayResult | Delivered", shown: str, title: str, output: OutputFormat) -> None:
    if output is not OutputFormat.text:
        print_json(document_of(merged=shown, result=result))
    else:
        print("\n".join(printable(line) for line in _lines(result, title)), flush=True)


def _lines(result: "ReplayResult | Delivered", title: str) -> list[str]:
    through = f", {result.first_rank} to {result.last_rank}" if result.transactions else ""
    values: dict[str, Any] = result.to_dict()
    messages = f", {values['messages']} messages" if "messages" in values else ""
    lines = [f"{result.transactions} transactions{through}{messages}: {title}"]
    for key, name in (("rows", "rows"), ("rows_left_out", "left out")):
        counted = [f"{table}  {_counts(kinds)}" for table, kinds in values[key].items()]
        lines += _rows(name, counted)
    for title, key in (
        ("DDL", "statements"),
        ("left out", "statements_left_out"),
        ("skipped", "skipped"),
        ("snapshots", "snapshots"),
        ("removed", "snapshots_removed"),
    ):
        lines += _rows(title, values.get(key) or [])
    return lines


def _counts(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


def _rows(title: str, values: list[str]) -> list[str]:
    return [f"  {title if i == 0 else '':<10} {value}" for i, value in enumerate(values)]


_TOPICS = {"debezium": "{prefix}.{schema}.{table}"}


def _deliver(binlog: "Log", shown: str, line: ReplayLine, options: "ReplayOptions") -> None:
    from binlog_merge.messages.delivery import deliver
    from binlog_merge.messages.message import format_of, given_options

    given = given_options(line.format_option or [])
    if line.schema_registry is not None:
        given = _for_avro(line, given)
    elif line.schema_registry_config is not None:
        raise ConfigError("--schema-registry-config without --schema-registry URL")
    maker = format_of(line.form or "", given)
    if options.skip:
        raise ConfigError("--skip is for servers and files of tables", remedy="leave it out")
    if options.filter is not None and options.filter.settings.column_selectors:
        raise ConfigError("column-selectors: messages have whole rows", remedy="leave the selectors out")
    with _target_of_messages(binlog, line, given) as target:
        title = f"{shown} delivered to {target.title}"
        try:
            result = deliver(binlog, target, maker, options.first_rank, options.last_rank, options.filter)
        except MergeError as error:
            if error.result is not None and line.output is OutputFormat.text:
                _print(error.result, shown, title, line.output)
            raise
    _print(result, shown, title, line.output)


def _target_of_messages(binlog: "Log", line: ReplayLine, given: dict[str, str]) -> Any:
    to, form = line.to or "", line.form or ""
    if not to.startswith("kafka:"):
        if line.topic or line.ddl_topic or line.kafka_config or line.name or line.schema_registry:
            raise ConfigError(
                "--topic, --ddl-topic, --kafka-config, --schema-registry and --name are for kafka://",
                remedy="leave them out",
            )
        from binlog_merge.messages.storage import StorageTarget

        return StorageTarget.of(to, form, binlog.cluster_uuid)
    from binlog_merge.messages.kafka import KafkaTarget, routes_of

    parts = urlsplit(to)
    if not parts.netloc or parts.query or "@" in parts.netloc:
        raise ConfigError(
            f"--to {to!r}",
            remedy="write kafka://BROKER:9092[,BROKER:9092][/TOPIC]; settings go to --kafka-config",
        )
    in_url = parts.path.strip("/")
    if in_url and line.topic:
        raise ConfigError("--topic, and a topic in the URL", remedy="give one of them")
    prefix = given.get("topic.prefix", "binlog")
    template = line.topic or in_url or _TOPICS.get(form, "{schema}.{table}")
    ddl_topic = line.ddl_topic or (prefix if form == "debezium" and "{" in template else None)
    routes = routes_of(
        template, prefix, ddl_topic, line.partition_by, of_rows=form != "open-protocol",
        transaction_topic=f"{prefix}.{given.get('topic.transaction', 'transaction')}",
    )  # fmt: skip
    name, settings = line.name or binlog.cluster_uuid, _settings(line.kafka_config)
    target = KafkaTarget(parts.netloc, name, routes, settings, form=form)
    if line.schema_registry is not None:
        target.wire = _avro(line.schema_registry, line.schema_registry_config)
    return target


def _settings(path: Path | None) -> dict[str, str]:
    from binlog_merge.messages.kafka import settings_of

    if path is None:
        return {}
    try:
        return settings_of(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise IoError(f"cannot be read: {reason(error)}", file=str(path), remedy=io_remedy(error)) from None


def _for_avro(line: ReplayLine, given: dict[str, str]) -> dict[str, str]:
    """Return the format's options for Avro, whose names are as Debezium's manual advises."""
    if line.form != "debezium":
        raise ConfigError(
            f"--schema-registry: {line.form} has no schemas here", remedy="take --format debezium, or leave it out"
        )
    if given.get("schemas.enable") == "true":
        raise ConfigError(
            "schemas.enable=true is for JSON", remedy="leave it out: with Avro the registry has the schemas"
        )
    return {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"} | given


def _avro(url: str, config: Path | None) -> Any:
    from binlog_merge.messages.registry import AvroWire, Registry, RegistrySettings

    file = None if config is None else str(config)
    return AvroWire(Registry(RegistrySettings.of(url, _settings(config), file), file))


_MESSAGES = ("kafka", "file", "s3", "gs", "az")
_REPLAYS: "dict[str, Callable[[Log, str, ReplayLine, ReplayOptions], None]]" = {
    "mysql": _apply,
    "parquet": _capture,
    "duckdb": _load,
    **dict.fromkeys(_MESSAGES, _deliver),
}
"""By the scheme of --to, what applies a log to such a target."""
