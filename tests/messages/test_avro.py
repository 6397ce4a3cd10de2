"""Messages in Avro are, schema by schema and byte by byte, what Confluent's AvroConverter made of them.

`recorded/avro.json.gz` has what tests/messages/record_avro.py got; tests/clients/test_recorded.py records again.
"""

import gzip
import io
import json
from typing import Any

import fastavro
import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.messages.debezium.options import DebeziumOptions, field_names, schema_name
from binlog_merge.messages.registry import avro_schema, converter
from snapshot_store.ddl.public import parse_table
from tests.messages.record_avro import NAMES, RECORDED, messages


@pytest.fixture(scope="module")
def recorded() -> Any:
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


def test_as_the_converter_makes_them(recorded: Any, merged_case: Any) -> None:
    known: dict[str, tuple[str, Any, Any]] = {}  # of each schema of messages: that of Avro, parsed, and the converter
    for message, (number, data) in zip(messages(merged_case), recorded["messages"], strict=True):
        text = json.dumps(message["schema"])
        if text not in known:
            schema = avro_schema(message["schema"])
            known[text] = json.dumps(schema), fastavro.parse_schema(schema), converter(message["schema"])
        found, parsed, convert = known[text]
        assert found == json.dumps(recorded["schemas"][number])
        if "-0.0" in json.dumps(message["payload"]):
            continue  # JsonConverter reads it as 0.0
        assert written(parsed, convert(message["payload"])).hex() == data


def written(parsed: Any, datum: Any) -> bytes:
    """Return a datum in Avro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, datum)
    return out.getvalue()


def test_names_are_adjusted_as_debezium_does(recorded: Any) -> None:
    for (mode, name), adjusted in zip(NAMES, recorded["names"], strict=True):
        options = DebeziumOptions(schema_names=mode, field_names=mode)
        table = parse_table(f"CREATE TABLE t (`{name}` INT)", schema="s")
        assert [schema_name(name, options), *field_names(table, table.columns, options)] == adjusted
    table = parse_table("CREATE TABLE t (`a-b` INT, `a_b` INT)", schema="s")
    with pytest.raises(ConfigError, match=r"a-b and a_b of s\.t both become the field a_b"):
        field_names(table, table.columns, DebeziumOptions(field_names="avro"))
