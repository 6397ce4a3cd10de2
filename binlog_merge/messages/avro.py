"""Kafka Connect's schemas as Avro's, and its values as what Avro writes, as Confluent's AvroConverter makes them.

    {"type":"int64","optional":true,"field":"id"}   →   {"name":"id","type":["null","long"],"default":null}

A record is written out where it first stands, and named from then on. What Avro has no word for stands in properties:
connect.name, connect.version, connect.parameters, connect.default, connect.type, connect.doc. Source: AvroData of
confluentinc/schema-registry 7; tests/messages/test_avro.py has what that class itself made.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

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
    found: dict[str, Any] = _type(schema, "", set())
    return found


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
    found = {f"connect.{name}": schema[name] for name in ("doc", "version", "parameters") if name in schema}
    if schema.get("default") is not None:
        found["connect.default"] = _default(schema)
    if "name" in schema:
        found["connect.name"] = schema["name"]
    if schema["type"] in ("int8", "int16"):
        found["connect.type"] = schema["type"]
    if schema.get("name") in _LOGICAL:
        found["logicalType"] = _LOGICAL[schema["name"]]
    return found


def _optional(schema: Schema, space: str, seen: set[str]) -> Any:
    found = _type(schema, space, seen)
    if not schema.get("optional"):
        return found
    return ["null", found] if schema.get("default") is None else [found, "null"]  # a default is of the first one


def _field(field: Schema, space: str, seen: set[str]) -> dict[str, Any]:
    found = {"name": field["field"], "type": _optional(field, space, seen)}
    if field.get("default") is not None:
        found["default"] = _default(field)
    elif field.get("optional"):
        found["default"] = None
    return found


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
    found = _converter(schema)
    if not schema.get("optional"):
        return found
    if schema["type"] == "struct":
        name = full_name(schema)
        return lambda value: None if value is None else (name, value if found is None else found(value))
    return None if found is None else lambda value: None if value is None else found(value)
