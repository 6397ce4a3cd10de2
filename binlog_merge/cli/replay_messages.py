"""`replay` into messages: into Kafka, or into files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from binlog_merge.cli.output import OutputFormat, document_of, print_json, printable
from binlog_merge.errors import ConfigError, IoError, MergeError, io_remedy, reason

if TYPE_CHECKING:
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import ReplayOptions

_TOPICS = {"debezium": "{prefix}.{schema}.{table}"}


@dataclass(frozen=True)
class MessageOptions:
    """What a user asks of messages."""

    to: str
    form: str
    format_options: list[str]
    topic: str | None
    ddl_topic: str | None
    partition_by: str
    kafka_config: Path | None
    name: str | None
    registry: str | None
    registry_config: Path | None


def replay_messages(
    binlog: "Log", shown: str, asked: MessageOptions, options: "ReplayOptions", output: OutputFormat
) -> None:
    """Deliver a log as messages. Raises what delivering does."""
    from binlog_merge.messages.delivery import deliver
    from binlog_merge.messages.message import format_of, given_options

    given = given_options(asked.format_options)
    if asked.registry is not None:
        given = _for_avro(asked, given)
    elif asked.registry_config is not None:
        raise ConfigError("--schema-registry-config without --schema-registry URL")
    maker = format_of(asked.form, given)
    if options.skip:
        raise ConfigError("--skip is for servers and files of tables", remedy="leave it out")
    if options.filter is not None and options.filter.settings.column_selectors:
        raise ConfigError("column-selectors: messages have whole rows", remedy="leave the selectors out")
    with _target(binlog, asked, given) as target:
        title = f"{shown} delivered to {target.title}"
        try:
            result = deliver(binlog, target, maker, options.first_rank, options.last_rank, options.filter)
        except MergeError as error:
            if error.result is not None and output is OutputFormat.text:
                _print(error.result, shown, title, output)
            raise
    _print(result, shown, title, output)


def _target(binlog: "Log", asked: MessageOptions, given: dict[str, str]) -> Any:
    if not asked.to.startswith("kafka:"):
        if asked.topic or asked.ddl_topic or asked.kafka_config or asked.name or asked.registry:
            raise ConfigError(
                "--topic, --ddl-topic, --kafka-config, --schema-registry and --name are for kafka://",
                remedy="leave them out",
            )
        from binlog_merge.messages.storage import StorageTarget

        return StorageTarget.of(asked.to, asked.form, binlog.cluster_uuid)
    from binlog_merge.messages.kafka import KafkaTarget, routes_of

    parts = urlsplit(asked.to)
    if not parts.netloc or parts.query or "@" in parts.netloc:
        raise ConfigError(
            f"--to {asked.to!r}",
            remedy="write kafka://BROKER:9092[,BROKER:9092][/TOPIC]; settings go to --kafka-config",
        )
    in_url = parts.path.strip("/")
    if in_url and asked.topic:
        raise ConfigError("--topic, and a topic in the URL", remedy="give one of them")
    prefix = given.get("topic.prefix", "binlog")
    template = asked.topic or in_url or _TOPICS.get(asked.form, "{schema}.{table}")
    ddl_topic = asked.ddl_topic or (prefix if asked.form == "debezium" and "{" in template else None)
    routes = routes_of(
        template, prefix, ddl_topic, asked.partition_by, of_rows=asked.form != "open-protocol",
        transaction_topic=f"{prefix}.{given.get('topic.transaction', 'transaction')}",
    )  # fmt: skip
    name, settings = asked.name or binlog.cluster_uuid, _settings(asked.kafka_config)
    target = KafkaTarget(parts.netloc, name, routes, settings, form=asked.form)
    if asked.registry is not None:
        target.wire = _avro(asked.registry, asked.registry_config)
    return target


def _settings(path: Path | None) -> dict[str, str]:
    from binlog_merge.messages.kafka import settings_of

    if path is None:
        return {}
    try:
        return settings_of(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise IoError(f"cannot be read: {reason(error)}", file=str(path), remedy=io_remedy(error)) from None


def _for_avro(asked: MessageOptions, given: dict[str, str]) -> dict[str, str]:
    """Return the format's options for Avro, whose names are as Debezium's manual advises."""
    if asked.form != "debezium":
        raise ConfigError(
            f"--schema-registry: {asked.form} has no schemas here", remedy="take --format debezium, or leave it out"
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


def _print(result: Any, shown: str, title: str, output: OutputFormat) -> None:
    if output is not OutputFormat.text:
        print_json(document_of(merged=shown, result=result))
        return
    values = result.to_dict()
    through = f", {result.first_rank} to {result.last_rank}" if result.transactions else ""
    lines = [f"{result.transactions} transactions{through}, {result.messages} messages: {title}"]
    for number, (table, kinds) in enumerate(values["rows"].items()):
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        lines.append(f"  {'rows' if number == 0 else '':<10} {table}  {counts}")
    lines += [f"  {'DDL' if number == 0 else '':<10} {text}" for number, text in enumerate(result.statements)]
    print("\n".join(printable(line) for line in lines), flush=True)
