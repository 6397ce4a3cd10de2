"""Into Kafka, by librdkafka's mock cluster: each message once, whatever is killed between two commits.

The mock cluster neither hides what was not committed nor fences (`broker.py`): kills within a transaction, which leave
messages that a cluster hides, are for tests/clients/test_kafka.py.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ConfigError, ReplayStopped
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.messages.delivery import deliver
from binlog_merge.messages.kafka import PROGRESS_TOPIC, KafkaTarget, routes_of
from binlog_merge.messages.message import format_of
from tests.command_line import Done, command_line
from tests.forked import forked_command
from tests.messages.delivery.consumed import consumed
from tests.messages.messages import made


def _replay(online_ddl: Path, brokers: str, *options: str, failpoint: str = "") -> Done:
    return forked_command(["replay", "--merged", online_ddl, "--to", f"kafka://{brokers}", *options], failpoint)


def _here(online_ddl: Path, brokers: str, *options: str) -> Done:
    return command_line(["replay", "--merged", online_ddl, "--to", f"kafka://{brokers}", *options])


def test_each_message_once_with_kills_between_commits(online_ddl: Path, brokers: str) -> None:
    killed = _replay(online_ddl, brokers, "--format", "debezium", failpoint="deliver.after-commit:kill:2")
    assert killed.returncode == -9
    result = _replay(online_ddl, brokers, "--format", "debezium", "-o", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["first_rank"] > 1
    assert _replay(online_ddl, brokers, "--format", "debezium").stdout.startswith("0 transactions")
    other = _here(online_ddl, brokers, "--format", "canal")
    assert other.returncode == 2 and "has sent debezium to the topic {prefix}.{schema}.{table}" in other.stderr
    expected = [(key, value) for name, key, value in made(online_ddl, "debezium") if name != "ddl"]
    found = consumed(brokers)
    assert sorted(map(_essence, ((_json(m.key()), _json(m.value())) for m in found["binlog.shop.orders"]))) == sorted(
        map(_essence, expected)
    )
    assert [_json(m.value())["ddl"].split()[3] for m in found["binlog"]] == ["ADD", "MODIFY"]
    by_key = defaultdict(list)
    for message in found["binlog.shop.orders"]:
        by_key[message.key()].append((message.partition(), dict(message.headers()).get("order_key", b"")))
    assert all(len({partition for partition, _ in places}) == 1 for places in by_key.values())
    assert all([key for _, key in places] == sorted(key for _, key in places) for places in by_key.values())
    assert {partition for places in by_key.values() for partition, _ in places} == {0, 1, 2, 3}
    assert {message.key() for message in found[PROGRESS_TOPIC]} == {b"11111111-2222-3333-4444-555555555555"}


def _json(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


def _essence(message: tuple[Any, Any]) -> str:
    key, value = message
    if value is not None:
        value = {name: part for name, part in value.items() if not name.startswith("ts_")}
    return json.dumps([key, value], sort_keys=True)


def test_rules_of_partitions_and_topics(online_ddl: Path, brokers: str) -> None:
    for name, by in (("a", "table"), ("b", "transaction"), ("c", "2")):
        options = ("--topic", f"{name}.{{schema}}", "--partition-by", by, "--name", name, "-o", "json")
        result = _here(online_ddl, brokers, "--format", "canal", *options)
        assert result.returncode == 0, result.stderr
    found = consumed(brokers)
    transactions = defaultdict(set)
    for name, partitions in (("a", 1), ("b", 4), ("c", 1)):
        rows = [m for m in found[f"{name}.shop"] if not _json(m.value())["isDdl"]]
        assert len({m.partition() for m in rows}) == partitions
        assert len(rows) == len([m for m in made(online_ddl, "canal") if m[0] != "ddl"])
        for message in rows:
            transactions[name, dict(message.headers())["gtid"]].add(message.partition())
    assert all(len(partitions) == 1 for (name, _), partitions in transactions.items() if name == "b")


@pytest.mark.parametrize("form", ["canal", "simple", "maxwell"])
def test_a_row_stays_in_its_partition(form: str, online_ddl: Path, brokers: str) -> None:
    result = _here(online_ddl, brokers, "--format", form, "--topic", "t")
    assert result.returncode == 0, result.stderr
    places = defaultdict(set)
    for message in consumed(brokers)["t"]:
        value = _json(message.value())
        row = None if "def" in value else value.get("data") or value.get("old")
        if row:
            places[str((row[0] if isinstance(row, list) else row)["id"])].add(message.partition())
    assert len(places) > 100 and all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) == 4


def test_open_protocol_has_its_frames(online_ddl: Path, brokers: str) -> None:
    result = _here(online_ddl, brokers, "--format", "open-protocol", "--topic", "tidb")
    assert result.returncode == 0, result.stderr
    found = consumed(brokers)["tidb"]
    assert len({message.partition() for message in found if _json(message.key()[16:])["t"] == 1}) == 1
    for message in found:
        key, value = message.key(), message.value()
        assert key[:8] == (1).to_bytes(8, "big") and int.from_bytes(key[8:16], "big") == len(key) - 16
        assert json.loads(key[16:])["t"] in (1, 2) and int.from_bytes(value[:8], "big") == len(value) - 8
        json.loads(value[8:])


def test_another_log_s_position_stops_it(online_ddl: Path, brokers: str) -> None:
    routes = routes_of("t", "", None, "key")
    with opened_log(online_ddl) as folder:
        binlog = Log(folder)
        with KafkaTarget(brokers, "n", routes) as target:
            deliver(binlog, target, format_of("canal", {}), None, 5, None)
        with KafkaTarget(brokers, "n", routes) as target:
            assert (target.rank, target.empty) == (5, False)
            with pytest.raises(ConfigError, match="goes on at 6, not at 3"):
                deliver(binlog, target, format_of("canal", {}), 3, None, None)
            target.key = "9" * 54
            with pytest.raises(ReplayStopped, match="order key"):
                deliver(binlog, target, format_of("canal", {}), None, None, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--format", "debezium", "--topic", "{nothing}"), "is no template"),
        (("--format", "debezium", "--partition-by", "hash"), "--partition-by hash"),
        (("--format", "avro"), "no message format avro"),
        (("--format", "debezium", "--format-option", "decimal.handling.mode=money"), "decimal.handling.mode=money"),
        ((), "--format is missing"),
        (("--format", "debezium", "--skip", "11111111-2222-3333-4444-555555555555:3"), "--skip"),
    ],
)
def test_bad_options_are_refused(options: tuple[str, ...], said: str, online_ddl: Path) -> None:
    result = _here(online_ddl, "127.0.0.1:1", *options)
    assert result.returncode == 2 and said in result.stderr, result.stderr
