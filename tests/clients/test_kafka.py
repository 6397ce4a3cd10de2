"""Into a Kafka broker: what was not committed is hidden, what is committed is there once, whoever is killed.

librdkafka's mock cluster (tests/messages/delivery) neither hides messages nor fences producers.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from binlog_merge.errors import MergeError, TargetBusy
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.messages import delivery
from binlog_merge.messages.delivery import deliver
from binlog_merge.messages.kafka import KafkaTarget, routes_of
from binlog_merge.messages.message import format_of
from tests.clients.apicurio import apicurio
from tests.clients.broker import Broker, broker
from tests.effort import effort
from tests.forked import forked
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.messages.delivery.consumed import consumed
from tests.messages.messages import made
from tests.patience import Patience, completed

pytestmark = pytest.mark.clients
PARTITIONS = 3


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kafka")
    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", out)
    return out


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def brokers(kafka: Broker) -> Iterator[str]:
    """A broker without topics."""
    yield kafka.brokers
    _remove_topics(kafka.brokers)


def _remove_topics(brokers: str) -> None:
    """Leave a broker without topics of ours."""
    admin = AdminClient({"bootstrap.servers": brokers})
    patience = Patience(60)
    while names := [name for name in admin.list_topics(timeout=60).topics if not name.startswith("__")]:
        for removed in admin.delete_topics(names).values():
            with suppress(KafkaException):  # it goes already
                removed.result()
        assert patience.lasts()


def _topics(brokers: str, *names: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": brokers})
    for topic in admin.create_topics([NewTopic(name, PARTITIONS, config=settings) for name in names]).values():
        topic.result()


def _replay(merged: Path, brokers: str, failpoint: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "binlog_merge.cli.main", "replay", "--merged", str(merged), "--to"]
    failing = {**os.environ, "BINLOG_MERGE_FAILPOINT": failpoint}
    return completed([*command, f"kafka://{brokers}", *options], 120, env=failing)


def _killed_with_messages_at_the_broker(merged: Path, brokers: str, *options: str) -> None:
    command = [sys.executable, "-m", "binlog_merge.cli.main", "replay", "--merged", str(merged), "--to"]
    waiting = {**os.environ, "BINLOG_MERGE_FAILPOINT": "deliver.before-commit:wait"}
    patience = Patience(60)
    with subprocess.Popen([*command, f"kafka://{brokers}", *options], env=waiting) as process:
        try:
            while not _written(brokers, "binlog.shop.orders"):
                assert process.poll() is None and patience.lasts()
        finally:
            process.kill()


@pytest.mark.parametrize("avro", [False, True], ids=["json", "avro"])
def test_each_message_once_with_kills_anywhere(avro: bool, merged: Path, brokers: str, tmp_path: Path) -> None:
    """Kills between two commits, and within a transaction of which messages have reached the broker.

    The registry of Avro's schemas is Apicurio's, and Confluent's deserializer reads what it has.
    """
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    _topics(brokers, "binlog.shop.orders")
    config = tmp_path / "kafka.properties"
    config.write_text("linger.ms=0\n")
    options = ["--format", "debezium", "--kafka-config", str(config)]
    options += ["--format-option", "provide.transaction.metadata=true"]
    options += ["--format-option", "decimal.handling.mode=string"]
    counts = {"binlog.shop.orders": "shop.orders", "binlog.transaction": "transaction"}
    registry_of: AbstractContextManager[str | None] = apicurio(tmp_path) if avro else nullcontext()
    with registry_of as registry:
        if registry is not None:
            options += ["--schema-registry", registry]
        _killed_with_messages_at_the_broker(merged, brokers, *options)
        codes = []
        for point in ("before-commit", "after-commit", "before-commit", "before-commit"):
            codes.append(_replay(merged, brokers, f"deliver.{point}:kill:{rng.randint(1, 2)}", *options).returncode)
        done = _replay(merged, brokers, "", *options)
        assert done.returncode == 0, done.stderr
        read = _decoder(registry)
        found = consumed(brokers)
        decoded = {topic: [(read(m.key()), read(m.value())) for m in found[topic]] for topic in counts}
    assert codes.count(-9) >= 2
    assert len(found["binlog.shop.orders"]) < _written(brokers, "binlog.shop.orders"), "some were sent in vain"
    given = {"provide__transaction__metadata": "true", "decimal__handling__mode": "string"}
    expected = [(name, key, value) for name, key, value in made(merged, "debezium", **given) if name != "ddl"]
    for topic, name in counts.items():
        assert len(found[topic]) == sum(each[0] == name for each in expected), topic
        told = Counter(_essence(key, value) for key, value in decoded[topic])
        assert told == Counter(_essence(key, value) for each, key, value in expected if each == name)
    by_partition = defaultdict(list)
    for message in found["binlog.shop.orders"]:
        by_partition[message.partition()].append(dict(message.headers())["order_key"])
    assert len(by_partition) == PARTITIONS and all(keys == sorted(keys) for keys in by_partition.values())


def _decoder(registry: str | None) -> Callable[[bytes | None], Any]:
    """Return what reads keys and values: JSON, or Avro by the schemas of a registry, with Confluent's deserializer."""
    if registry is None:
        return _json
    deserializer = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    return lambda data: deserializer(data, None)


def _written(brokers: str, topic: str) -> int:
    """Return how many messages a topic holds, with those that were never committed."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "all", "isolation.level": "read_uncommitted",
         "enable.partition.eof": True}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    left, found = PARTITIONS, 0
    while left:
        message = consumer.poll(10)
        assert message is not None
        left, found = left - (message.error() is not None), found + (message.error() is None)
    consumer.close()
    return found


def _json(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


def _essence(key: Any, value: Any) -> str:
    if value is not None and "source" in value:
        value = {name: part for name, part in value.items() if not name.startswith("ts_")}
    return json.dumps([key, value], sort_keys=True)


def test_rules_of_partitions(merged: Path, brokers: str) -> None:
    _topics(brokers, "key", "table", "transaction", "2")
    with opened_log(merged) as folder:
        binlog = Log(folder)
        for by in ("key", "table", "transaction", "2"):
            with KafkaTarget(brokers, by, routes_of(by, "", "ddl", by)) as target:
                deliver(binlog, target, format_of("canal", {}), None, None, None)
    found = consumed(brokers)
    for topic, partitions in (("key", 3), ("table", 1), ("transaction", 3), ("2", 1)):
        places = defaultdict(set)
        for message in found[topic]:
            row = _json(message.value())["data"][0]["id"]
            places[dict(message.headers())["gtid"] if topic == "transaction" else row].add(message.partition())
        assert len(set.union(*places.values())) == partitions
        assert all(len(each) == 1 for each in places.values()), topic
    assert {message.partition() for message in found["2"]} == {2}


def test_a_second_replay_fences_the_first_and_goes_on(merged: Path, brokers: str) -> None:
    routes = routes_of("t", "", None, "key")
    with opened_log(merged) as folder:
        binlog = Log(folder)
        with KafkaTarget(brokers, "n", routes) as first:
            deliver(binlog, first, format_of("canal", {}), None, 20, None)
            with KafkaTarget(brokers, "n", routes) as second:
                assert second.rank == 20
                with pytest.raises(TargetBusy):
                    deliver(binlog, first, format_of("canal", {}), None, None, None)
                deliver(binlog, second, format_of("canal", {}), None, None, None)
    assert len(consumed(brokers)["t"]) == len(list(made(merged, "canal")))


def _delivers(merged: Path, brokers: str, topic: str, failpoint: str) -> int:
    """Deliver in a process of its own; return its exit code."""
    return forked(_deliver_all, merged, brokers, topic, failpoint=failpoint)


def _deliver_all(merged: Path, brokers: str, topic: str) -> None:
    settings = {"linger.ms": "0", "transaction.timeout.ms": "60000"}
    delivery.COMMIT_BYTES = 10_000  # in this process alone: a dozen commits
    try:
        with (
            opened_log(merged) as folder,
            KafkaTarget(brokers, topic, routes_of(topic, "", None, "key"), settings) as to,
        ):
            deliver(Log(folder), to, format_of("debezium", {}), None, None, None)
    except MergeError as error:
        print(error)
        os._exit(error.exit_code)


@pytest.mark.parametrize("kills", [effort(20, 200)])
def test_each_change_once_whoever_is_killed(kills: int, merged: Path, kafka: Broker, brokers: str) -> None:
    """The one who delivers is killed at any commit or moment, and so is the broker; each topic has all, once."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = Counter(_essence(key, value) for name, key, value in made(merged, "debezium") if name != "ddl")
    killed, number = 0, 0
    while killed < kills:
        topic = f"kills-{number}"
        number += 1
        _topics(brokers, topic)
        code = 1
        while code:
            point = rng.choice(("before-commit", "after-commit"))
            last = rng.random() < 0.1
            code = _delivers(merged, brokers, topic, "" if last else f"deliver.{point}:kill:{rng.randint(1, 6)}")
            killed += code == -9
            assert code in (0, -9), code
            if rng.random() < 0.1:
                kafka.restart()
        read = [(_json(message.key()), _json(message.value())) for message in consumed(brokers)[topic]]
        rows = [(key, value) for key, value in read if value is None or "ddl" not in value]
        assert Counter(_essence(key, value) for key, value in rows) == expected, topic
        assert len(read) - len(rows) == 2, "each statement once, too"
    print(f"{killed} kills, {number} topics")


def test_a_compacted_topic_keeps_the_rows_that_are_there(merged: Path, brokers: str) -> None:
    """Of each key the newest message is left, and of a row that was deleted none: what is left is the table."""
    quick = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
    more = {"delete.retention.ms": "0", "max.compaction.lag.ms": "200", "segment.bytes": "1048576"}
    _topics(brokers, "rows", **quick, **more)
    routes, sent = routes_of("rows", "", None, "key"), [(key, value) for _, key, value in made(merged, "debezium")]
    patience, times = Patience(120), 0
    with opened_log(merged) as folder:
        while times < 2 or _written(brokers, "rows") > times * len(sent) * 2 // 3:
            assert patience.lasts(), (_written(brokers, "rows"), times * len(sent))
            with KafkaTarget(brokers, f"time-{times}", routes) as target:  # what comes closes the segment before it
                deliver(Log(folder), target, format_of("debezium", {}), None, None, None)
            times += 1
            time.sleep(1)
    left = _rows_left((_json(message.key()), _json(message.value())) for message in consumed(brokers)["rows"])
    assert left == _rows_left(sent) and len(left) > 20


def _rows_left(messages: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """Return the rows that messages leave, by their keys."""
    rows: dict[str, str] = {}
    for key, value in messages:
        if value is None:
            rows.pop(json.dumps(key, sort_keys=True), None)
        elif (after := value.get("after")) is not None:
            rows[json.dumps(key, sort_keys=True)] = json.dumps(after, sort_keys=True)
    return rows
