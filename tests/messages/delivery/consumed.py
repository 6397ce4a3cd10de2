"""What is in a Kafka cluster, as a consumer with isolation.level=read_committed sees it."""

from collections import defaultdict
from typing import Any

from confluent_kafka import Consumer, TopicPartition


def consumed(brokers: str) -> dict[str, list[Any]]:
    """Return the messages of each topic, partition by partition."""
    settings = {"bootstrap.servers": brokers, "group.id": "test", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    found: dict[str, list[Any]] = defaultdict(list)
    for name, topic in consumer.list_topics(timeout=60).topics.items():
        if name.startswith("__"):  # the broker's own
            continue
        left = len(topic.partitions)
        consumer.assign([TopicPartition(name, number, 0) for number in topic.partitions])
        while left:
            message = consumer.poll(10)
            assert message is not None
            left -= message.error() is not None
            if message.error() is None:
                found[name].append(message)
    consumer.close()
    return found
