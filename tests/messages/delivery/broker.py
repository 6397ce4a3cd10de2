"""librdkafka's mock cluster in a process of its own: prints its address, and ends when its input closes.

    python broker.py BROKERS

It keeps transactions' messages as they are sent: it hides none of an open or aborted one, and fences no producer.
"""

import sys

from confluent_kafka import Producer


def main(brokers: str) -> None:
    """Run a cluster."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": brokers})
    found = producer.list_topics(timeout=60).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in found), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
