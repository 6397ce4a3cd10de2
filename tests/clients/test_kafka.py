"""Into a broker of another maker: what was not committed is hidden, what is committed is there once.

The broker is noida-db's, of which every message of a transaction stays hidden until its commit, and for ever if it is
aborted, and which fences producers; librdkafka's mock cluster (tests/messages/delivery) does neither.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from binlog_merge.errors import TargetBusy
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.messages.delivery import deliver
from binlog_merge.messages.kafka import KafkaTarget, routes_of
from binlog_merge.messages.message import format_of
from tests.clients.conftest import client
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.messages.delivery.consumed import consumed
from tests.messages.delivery.registry import schema_registry
from tests.messages.messages import made
from tests.node_capture.pairs import free_port
from tests.patience import Patience, completed

pytestmark = pytest.mark.clients
PARTITIONS = 3


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kafka")
    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", out)
    return out


@contextmanager
def _running(folder: Path, port: int) -> Iterator[str]:
    [program] = Path(client("broker")).glob(
        "lib/python*/site-packages/noida_db/noida-db"
    )  # the script runs it as a child
    program.chmod(0o755)
    command = [str(program), "start", "--only", "kafka", "--kafka-port", str(port), "--data-dir", str(folder)]
    brokers = f"127.0.0.1:{port}"
    with (
        (folder / "broker.log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            _until_ready(brokers)
            yield brokers
        finally:
            process.terminate()


def _until_ready(brokers: str) -> None:
    patience = Patience(30)
    while True:
        try:
            AdminClient({"bootstrap.servers": brokers, "log_level": 0}).list_topics(timeout=1)
            return
        except KafkaException:
            assert patience.lasts()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[str]:
    with _running(tmp_path, free_port()) as found:
        yield found


def _topics(brokers: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": brokers})
    for topic in admin.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
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
    """Kills between two commits, and within a transaction of which messages have reached the broker."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    _topics(brokers, "binlog.shop.orders")
    config = tmp_path / "kafka.properties"
    config.write_text("linger.ms=0\n")
    options = ["--format", "debezium", "--kafka-config", str(config)]
    options += ["--format-option", "provide.transaction.metadata=true"]
    with schema_registry() as registry:
        if avro:
            options += ["--schema-registry", registry.url]
        _killed_with_messages_at_the_broker(merged, brokers, *options)
        codes = []
        for point in ("before-commit", "after-commit", "before-commit", "before-commit"):
            codes.append(_replay(merged, brokers, f"deliver.{point}:kill:{rng.randint(1, 2)}", *options).returncode)
        done = _replay(merged, brokers, "", *options)
        assert done.returncode == 0, done.stderr
    assert codes.count(-9) >= 2
    found = consumed(brokers)
    assert len(found["binlog.shop.orders"]) < _written(brokers, "binlog.shop.orders"), "some were sent in vain"
    expected = [(n, k, v) for n, k, v in made(merged, "debezium", provide__transaction__metadata="true") if n != "ddl"]
    counts = {"binlog.shop.orders": "shop.orders", "binlog.transaction": "transaction"}
    for topic, name in counts.items():
        assert len(found[topic]) == sum(each[0] == name for each in expected), topic
        if not avro:
            read = Counter(_essence(_json(m.key()), _json(m.value())) for m in found[topic])
            assert read == Counter(_essence(key, value) for each, key, value in expected if each == name)
    by_partition = defaultdict(list)
    for message in found["binlog.shop.orders"]:
        by_partition[message.partition()].append(dict(message.headers())["order_key"])
    assert len(by_partition) == PARTITIONS and all(keys == sorted(keys) for keys in by_partition.values())


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
