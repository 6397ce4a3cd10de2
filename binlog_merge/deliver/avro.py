"""Messages in Avro, as Confluent's converters put them on the wire: a zero byte, the schema's number, the datum."""

import io
import json
from collections.abc import Callable
from typing import Any

from binlog_merge.deliver.batches import Outgoing
from binlog_merge.deliver.registry import Registry, not_installed
from binlog_merge.errors import ConfigError
from binlog_merge.messages.avro import avro_schema, converter, full_name
from binlog_merge.messages.message import Schemas

Write = Callable[[bytes | None], bytes | None]


class AvroWire:
    """Writes messages in Avro; the first message of each schema registers it."""

    def __init__(self, registry: Registry) -> None:
        try:
            import fastavro
        except ImportError:
            raise not_installed("fastavro") from None
        self._avro = fastavro
        self._registry = registry
        self._writes: dict[tuple[str, Schemas], tuple[Write, Write]] = {}

    def __call__(self, topic: str, message: Outgoing) -> Outgoing:
        """Return a message as it goes into a topic. Raises ConfigError, ServerRefused, ReplayStopped."""
        assert message.schemas is not None
        known = (topic, message.schemas)
        if known not in self._writes:
            self._writes[known] = self._both(topic, message)
        key, value = self._writes[known]
        return message._replace(key=key(message.key), value=value(message.value))

    def _both(self, topic: str, message: Outgoing) -> tuple[Write, Write]:
        assert message.schemas is not None
        table = f"{message.schema}.{message.table}" if message.table else topic
        key = message.schemas.key
        nothing: Write = lambda text: None  # noqa: E731
        return (
            nothing if key is None else self._write(topic, key, "key", table),
            self._write(topic, message.schemas.value, "value", table),
        )

    def _write(self, topic: str, connect: Any, part: str, table: str) -> Write:
        schema, convert = avro_schema(connect), converter(connect)
        try:
            parsed = self._avro.parse_schema(schema)
        except Exception as error:  # SchemaParseException, or UnknownType
            raise ConfigError(
                f"the {part} of {table} has no schema in Avro: {error}",
                remedy="leave schema.name.adjustment.mode and field.name.adjustment.mode out: both are avro then",
            ) from None
        subject = self._registry.subject(topic, full_name(connect), part)
        number = self._registry.number_of(subject, json.dumps(schema, ensure_ascii=False), table)
        head, write = b"\0" + number.to_bytes(4, "big"), self._avro.schemaless_writer

        def written(text: bytes | None) -> bytes | None:
            if text is None:
                return None
            out = io.BytesIO()
            out.write(head)
            write(out, parsed, convert(json.loads(text.decode())))
            return out.getvalue()

        return written
