"""A schema registry of Confluent's REST contract: the number of each schema, registered under its subject.

Settings are those of confluent-kafka's SchemaRegistryClient (basic.auth.user.info, ssl.ca.location, …) and three of its
serializers: auto.register.schemas, normalize.schemas, and subject.name.strategy.
"""

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from binlog_merge.errors import ConfigError, ReplayStopped, ServerRefused
from binlog_merge.messages.delivery import Outgoing
from binlog_merge.messages.message import Schemas
from binlog_merge.redaction import redacted

Schema = Mapping[str, Any]

_TYPES: Final = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_LOGICAL: Final = {
    _DECIMAL: "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}


def avro_schema(schema: Schema) -> dict[str, Any]:
    """Return the Avro schema of a struct of Kafka Connect."""
    converted: dict[str, Any] = _type(schema, "", set())
    return converted


def full_name(schema: Schema) -> str:
    """Return the name of a struct, namespace included."""
    return str(schema["name"])


def _type(schema: Schema, space: str, seen: set[str]) -> Any:
    """Return a type that is not a union. `space` is the namespace around it, `seen` are the records written out."""
    kind = schema["type"]
    if kind == "struct":
        name = full_name(schema)
        namespace, _, short = name.rpartition(".")
        if name in seen:
            return short if namespace == space else name
        seen.add(name)
        head: dict[str, Any] = {"type": "record", "name": short}
        if namespace != space:
            head["namespace"] = namespace
        head["fields"] = [_field(field, namespace, seen) for field in schema["fields"]]
    elif kind == "array":
        head = {"type": "array", "items": _optional(schema["items"], space, seen)}
    else:
        head = {"type": _TYPES[kind]}
        if schema.get("name") == _DECIMAL:
            parameters = schema["parameters"]
            head |= {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"])}
    properties = _properties(schema)
    return head | properties if properties or kind in ("struct", "array") else head["type"]


def _properties(schema: Schema) -> dict[str, Any]:
    properties = {f"connect.{name}": schema[name] for name in ("doc", "version", "parameters") if name in schema}
    if schema.get("default") is not None:
        properties["connect.default"] = _default(schema)
    if "name" in schema:
        properties["connect.name"] = schema["name"]
    if schema["type"] in ("int8", "int16"):
        properties["connect.type"] = schema["type"]
    if schema.get("name") in _LOGICAL:
        properties["logicalType"] = _LOGICAL[schema["name"]]
    return properties


def _optional(schema: Schema, space: str, seen: set[str]) -> Any:
    converted = _type(schema, space, seen)
    if not schema.get("optional"):
        return converted
    return (
        ["null", converted] if schema.get("default") is None else [converted, "null"]
    )  # a default is of the first one


def _field(field: Schema, space: str, seen: set[str]) -> dict[str, Any]:
    values = {"name": field["field"], "type": _optional(field, space, seen)}
    if field.get("default") is not None:
        values["default"] = _default(field)
    elif field.get("optional"):
        values["default"] = None
    return values


def _default(schema: Schema) -> Any:
    """Return a default as Avro writes it: of bytes each is the character of its number."""
    value = schema["default"]
    return base64.b64decode(value).decode("latin-1") if schema["type"] == "bytes" else value


Convert = Callable[[Any], Any]


def converter(schema: Schema) -> Convert:
    """Return a function that makes a datum for Avro of a value that JsonConverter wrote: bytes of texts in base64.

    It may change the value. A struct where there may be none names its record, so that nothing is tried out.
    """
    return _converter(schema) or (lambda value: value)


def _converter(schema: Schema) -> Convert | None:
    """Return the function, None where the value itself is the datum."""
    kind = schema["type"]
    if kind == "bytes":
        return base64.b64decode
    if kind == "array":
        each = _some(schema["items"])
        return None if each is None else lambda value: [each(item) for item in value]
    if kind != "struct":
        return None
    parts = [(field["field"], part) for field in schema["fields"] if (part := _some(field)) is not None]

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        for name, part in parts:
            value[name] = part(value[name])
        return value

    return convert if parts else None


def _some(schema: Schema) -> Convert | None:
    """Return the function of what may be optional."""
    convert = _converter(schema)
    if not schema.get("optional"):
        return convert
    if schema["type"] == "struct":
        name = full_name(schema)
        return lambda value: None if value is None else (name, value if convert is None else convert(value))
    return None if convert is None else lambda value: None if value is None else convert(value)


_STRATEGIES: Final[dict[str, Callable[[str, str, str], str]]] = {
    "TopicNameStrategy": lambda topic, record, part: f"{topic}-{part}",
    "RecordNameStrategy": lambda topic, record, part: record,
    "TopicRecordNameStrategy": lambda topic, record, part: f"{topic}-{record}",
}
_NUMBERS: Final = frozenset(("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms"))
_DEFAULTS: Final = {"timeout": 30.0}
_MOST_SAID: Final = 600


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where the registry is, and how schemas get there; `client` are the client's own settings."""

    url: str
    client: Mapping[str, Any]
    register: bool = True
    normalize: bool = False
    strategy: str = "TopicNameStrategy"

    @classmethod
    def of(cls, url: str, given: Mapping[str, str], file: str | None = None) -> "RegistrySettings":
        """Return the settings of a URL and of lines of a file. Raises ConfigError."""
        for each in url.split(","):
            parts = urlsplit(each.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
                raise ConfigError(f"--schema-registry {each!r}", remedy="write http://HOST:8081 or https://HOST")
            if "@" in parts.netloc:
                raise ConfigError(
                    f"--schema-registry {redacted(each)} has a login, which other users of the machine see",
                    remedy="write basic.auth.user.info=USER:PASSWORD into a file: --schema-registry-config",
                )
        left = dict(given)
        flags = {name: _flag(name, left.pop(name, default), file) for name, default in _FLAGS.items()}
        strategy = left.pop("subject.name.strategy", "TopicNameStrategy").rpartition(".")[2]
        if strategy not in _STRATEGIES:
            raise ConfigError(f"subject.name.strategy={strategy}", file=file, remedy=f"one of {', '.join(_STRATEGIES)}")
        client: dict[str, Any] = dict(_DEFAULTS)
        for name, value in left.items():
            client[name] = _number(name, value, file) if name in _NUMBERS else value
        return cls(url, client, flags["auto.register.schemas"], flags["normalize.schemas"], strategy)


_FLAGS: Final = {"auto.register.schemas": "true", "normalize.schemas": "false"}


def _flag(name: str, value: str, file: str | None) -> bool:
    if value not in ("true", "false"):
        raise ConfigError(f"{name}={value}", file=file, remedy="true or false")
    return value == "true"


def _number(name: str, value: str, file: str | None) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ConfigError(f"{name}={value} is no number", file=file) from None
    return number if name == "timeout" else int(number)


def not_installed(what: str) -> ConfigError:
    """Return the error for a library that is not there."""
    return ConfigError(
        f"--schema-registry needs {what}, which is not installed", remedy="pip install '.[avro]' in the clone"
    )


class Registry:
    """A registry, which is asked once for each schema. Raises ConfigError: no library, or a wrong setting."""

    def __init__(self, settings: RegistrySettings, file: str | None = None) -> None:
        try:
            from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
            from confluent_kafka.schema_registry.error import SchemaRegistryError
        except ImportError:
            raise not_installed("confluent-kafka's registry client") from None
        self._settings = settings
        self._schema, self._error = Schema, SchemaRegistryError
        try:
            self._client = SchemaRegistryClient({"url": settings.url, **settings.client})
        except (ValueError, TypeError, OSError) as error:  # an SSLError is an OSError
            raise ConfigError(f"the settings of the schema registry: {error}", file=file) from None

    def subject(self, topic: str, record: str, part: str) -> str:
        """Return the subject of keys or values (`part`) of a topic whose record has a name."""
        return _STRATEGIES[self._settings.strategy](topic, record, part)

    def number_of(self, subject: str, schema: str, table: str) -> int:
        """Return the number of an Avro schema. Raises ReplayStopped where the registry does not take it."""
        asked = self._schema(schema, "AVRO")
        try:
            if self._settings.register:
                return int(self._client.register_schema(subject, asked, self._settings.normalize))
            return int(self._client.lookup_schema(subject, asked, self._settings.normalize).schema_id)
        except self._error as error:
            self._refused(error, subject, table)
        except Exception as error:  # whatever the client's HTTP library calls it
            raise ServerRefused(
                f"the schema registry {redacted(self._settings.url)} cannot be asked: {error or type(error).__name__}",
                remedy="look at its address and its certificate, and run the replay again",
            ) from None

    def _refused(self, error: Any, subject: str, table: str) -> NoReturn:
        status, said = error.http_status_code, _said(error.error_message)
        if status in (401, 403):
            raise ServerRefused(
                f"the schema registry does not let us use the subject {subject}: HTTP {status}, {said}",
                remedy="give basic.auth.user.info, or what it wants, in --schema-registry-config",
            )
        if status == 404 and not self._settings.register:
            raise ReplayStopped(
                f"the schema registry has no schema of {table} like this one under the subject {subject}: {said}",
                remedy="register it there, or take auto.register.schemas=true",
            )
        if status in (409, 422):
            raise ReplayStopped(
                f"the schema registry does not take the schema of {table} under the subject {subject}: {said}",
                remedy=f"make the compatibility of {subject} NONE there, or take other topics (--topic, topic.prefix); "
                "for a topic of several tables set subject.name.strategy=TopicRecordNameStrategy in "
                "--schema-registry-config. Run it again: it goes on after what is delivered",
            )
        raise ServerRefused(
            f"the schema registry {redacted(self._settings.url)}: HTTP {status}, {said}", remedy="look at its log"
        )


def _said(text: object) -> str:
    """Return what a registry says without the schemas that it quotes."""
    said = str(text).partition("{oldSchema:")[0].rstrip(" ,[")
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}…"


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
