"""Debezium's messages in Avro with a schema registry, read by Confluent's own deserializer."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from tests.command_line import Done, command_line
from tests.messages.delivery.consumed import consumed
from tests.messages.delivery.registry import SchemaRegistry, schema_registry
from tests.messages.messages import made

VALUES = "binlog.shop.orders-value"
OPTIONS = {"decimal.handling.mode": "string", "provide.transaction.metadata": "true"}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def _replay(merged: Path, brokers: str, url: str, config: Path | None = None, *more: str) -> Done:
    options = [f"--format-option={name}={value}" for name, value in OPTIONS.items()]
    command = ["replay", "--merged", merged, "--to", f"kafka://{brokers}", "--format", "debezium", *options, *more]
    if config is not None:
        command += ["--schema-registry-config", config]
    return command_line([*command, "--schema-registry", url])


def _read(registry: SchemaRegistry, messages: list[Any]) -> list[tuple[Any, Any]]:
    deserializer = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    return [(deserializer(message.key(), None), deserializer(message.value(), None)) for message in messages]


def _essence(message: tuple[Any, Any]) -> str:
    key, value = message
    if value is not None and "source" in value:
        value = {name: part for name, part in value.items() if not name.startswith("ts_")}
    return json.dumps([key, value], sort_keys=True)


def _expected(merged: Path, kind: str) -> list[str]:
    found = made(merged, "debezium", **{name.replace(".", "__"): value for name, value in OPTIONS.items()})
    return sorted(_essence((key, value)) for name, key, value in found if name == kind)


def test_what_a_consumer_reads(online_ddl: Path, brokers: str, registry: SchemaRegistry) -> None:
    """The table changes twice: its values have three schemas, each compatible with the one before."""
    result = _replay(online_ddl, brokers, registry.url)
    assert result.returncode == 0, result.stderr
    found = consumed(brokers)
    rows = _read(registry, found["binlog.shop.orders"])
    assert sorted(map(_essence, rows)) == _expected(online_ddl, "shop.orders")
    around = _read(registry, found["binlog.transaction"])
    assert sorted(map(_essence, around)) == _expected(online_ddl, "transaction")
    counted = Counter(value["transaction"]["id"] for _, value in rows if value is not None)
    assert counted == {v["id"]: v["event_count"] for _, v in around if v["status"] == "END"}
    assert [value["ddl"].split()[3] for _, value in _read(registry, found["binlog"])] == ["ADD", "MODIFY"]
    assert {subject: len(numbers) for subject, numbers in registry.subjects.items()} == {
        "binlog.shop.orders-key": 1, VALUES: 3, "binlog-key": 1, "binlog-value": 1,
        "binlog.transaction-key": 1, "binlog.transaction-value": 1,
    }  # fmt: skip
    assert registry.asked == 8, "each schema is asked for once"
    assert all(message.value()[:1] in (None, b"\0") for message in found["binlog.shop.orders"] if message.value())


def test_a_schema_that_is_not_taken_stops_it_and_then_it_goes_on(
    online_ddl: Path, brokers: str, registry: SchemaRegistry
) -> None:
    other = {"type": "record", "name": "Envelope", "namespace": "other", "fields": []}
    registry.register(VALUES, json.dumps(other))
    result = _replay(online_ddl, brokers, registry.url)
    assert result.returncode == 50, result.stderr
    assert f"does not take the schema of shop.orders under the subject {VALUES}" in result.stderr
    assert "errorType:" in result.stderr and "oldSchema" not in result.stderr
    assert result.stdout.startswith("0 transactions, 0 messages") and "rows" not in result.stdout
    assert "subject.name.strategy=TopicRecordNameStrategy" in result.stderr
    registry.compatibility[VALUES] = "NONE"
    assert _replay(online_ddl, brokers, registry.url).returncode == 0
    rows = _read(registry, consumed(brokers)["binlog.shop.orders"])
    assert sorted(map(_essence, rows)) == _expected(online_ddl, "shop.orders")


def test_subjects_by_record_and_schemas_that_must_be_there(
    online_ddl: Path, brokers: str, registry: SchemaRegistry, tmp_path: Path
) -> None:
    config = tmp_path / "registry.properties"
    strategy = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    config.write_text(f"subject.name.strategy={strategy}\nauto.register.schemas=false\n")
    result = _replay(online_ddl, brokers, registry.url, config, "--topic", "all")
    assert result.returncode == 50 and "Subject 'binlog.transaction-io.debezium" in result.stderr, result.stderr
    config.write_text(f"subject.name.strategy={strategy}\n")
    assert _replay(online_ddl, brokers, registry.url, config, "--topic", "all").returncode == 0
    config.write_text(f"subject.name.strategy={strategy}\nauto.register.schemas=false\n")
    assert _replay(online_ddl, brokers, registry.url, config, "--topic", "all", "--name", "again").returncode == 0
    assert {"all-binlog.shop.orders.Envelope", "all-io.debezium.connector.mysql.SchemaChangeValue"} < set(
        registry.subjects
    )


def test_tls_and_a_login_whose_password_is_never_shown(
    online_ddl: Path, brokers: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    config = tmp_path / "registry.properties"
    with schema_registry("writer:s3cr3t-right", certificate) as registry:
        results = []
        for login in ("writer:s3cr3t-wrong", "writer:s3cr3t-right"):
            config.write_text(f"basic.auth.user.info={login}\nssl.ca.location={certificate[0]}\n")
            results.append(_replay(online_ddl, brokers, registry.url, config))
        config.write_text("basic.auth.user.info=writer:s3cr3t-right\nmax.retries=0\n")
        results.append(_replay(online_ddl, brokers, registry.url, config, "--name", "other"))
        with_login = registry.url.replace("://", "://writer:s3cr3t-right@")
        results.append(_replay(online_ddl, brokers, with_login, config))
    assert [result.returncode for result in results] == [39, 0, 39, 2], results
    assert "HTTP 401" in results[0].stderr and "certificate" in results[2].stderr
    assert "basic.auth.user.info" in results[3].stderr
    assert not any("s3cr3t" in result.stderr + result.stdout for result in results)


@pytest.mark.parametrize("lacking", ["fastavro", "confluent_kafka.schema_registry"])
def test_without_a_library_it_says_what_to_install(
    lacking: str, online_ddl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, lacking, None)
    result = _replay(online_ddl, "127.0.0.1:1", "http://127.0.0.1:1")
    assert result.returncode == 2 and "pip install '.[avro]'" in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("url", "lines", "more", "said"),
    [
        ("registry:8081", "", (), "write http://HOST:8081"),
        ("http://127.0.0.1:1", "ssl.ca.location=/nowhere", (), "settings of the schema registry"),
        ("http://127.0.0.1:1", "secret.sauce=s3cr3t", (), "secret.sauce"),
        ("http://127.0.0.1:1", "auto.register.schemas=perhaps", (), "auto.register.schemas=perhaps"),
        ("http://127.0.0.1:1", "subject.name.strategy=Mine", (), "subject.name.strategy=Mine"),
        ("http://127.0.0.1:1", "timeout=soon", (), "timeout=soon is no number"),
        ("http://127.0.0.1:1", "", ("--format-option", "schemas.enable=true"), "schemas.enable=true is for JSON"),
        ("http://127.0.0.1:1", "", ("--format", "canal"), "canal has no schemas"),
        ("http://127.0.0.1:1", "", ("--to", "file:///tmp/x"), "are for kafka://"),
    ],
)
def test_bad_settings_are_refused(
    url: str, lines: str, more: tuple[str, ...], said: str, online_ddl: Path, tmp_path: Path
) -> None:
    config = tmp_path / "registry.properties"
    config.write_text(lines)
    result = _replay(online_ddl, "127.0.0.1:1", url, config, *more)
    assert result.returncode == 2 and said in result.stderr and "s3cr3t" not in result.stderr, result.stderr
