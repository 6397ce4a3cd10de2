"""A Kafka broker of one node (KRaft) as a process of its own, which can be killed and comes again at the same port."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import client
from tests.patience import Patience, ended
from tools.demo_live.cluster import free_ports

_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=500
log.retention.check.interval.ms=1000
"""


class Broker:
    """A broker with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, controller = free_ports(2)
        settings = _SETTINGS.format(port=self.port, controller=controller, folder=folder)
        (folder / "server.properties").write_text(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "kafka.tools.StorageTool", "format", "--cluster-id", "5L6g3nShT-eMCtK--X86sw", "--config", self._config
        )

    @property
    def brokers(self) -> str:
        """Return where clients begin."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self._command("kafka.Kafka", self._config), stdout=log, stderr=log)
        patience = Patience(60)
        admin = AdminClient({"bootstrap.servers": self.brokers, "log_level": 0})
        while True:
            try:
                admin.list_topics(timeout=1)
                return
            except KafkaException:
                assert patience.lasts() and self._process.poll() is None, self.said()

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        ended(self._process, 60)

    def running(self) -> bool:
        """Return whether it has been started and not ended."""
        return self._process is not None and self._process.poll() is None

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    def said(self) -> str:
        """Return the end of its log."""
        return (self._folder / "broker.log").read_text(errors="replace")[-5000:]

    @property
    def _config(self) -> str:
        return str(self._folder / "server.properties")

    def _run(self, program: str, *options: str) -> None:
        subprocess.run(self._command(program, *options), check=True, capture_output=True)

    def _command(self, program: str, *options: str) -> list[str]:
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return [*_JAVA, level, "-cp", f"{client('kafka')}/*", program, *options]


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Run a broker for as long as the context lasts."""
    found = Broker(folder)
    found.start()
    try:
        yield found
    finally:
        found.kill()


class Topic:
    """What is in the one partition of a topic, in JSON, as it grows."""

    def __init__(self, brokers: str, name: str) -> None:
        self.name = name
        self._brokers = brokers
        self._consumer: Consumer | None = None
        self._values: list[dict[str, Any]] = []
        self._next = 0

    def values(self) -> list[dict[str, Any]]:
        """Return the values from its beginning to its end; none while it is not there."""
        if self._consumer is None:
            settings = {"bootstrap.servers": self._brokers, "group.id": "rows", "isolation.level": "read_committed"}
            self._consumer = Consumer({**settings, "enable.partition.eof": True, "log_level": 0})
            self._consumer.assign([TopicPartition(self.name, 0, self._next)])
        # While nobody asks, it notes an end of the partition between any two messages that come.
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(self.name, 0), timeout=10)
        except KafkaException:  # there is no such topic, or no broker
            end = 0
        while (message := self._consumer.poll(5)) is not None:
            if (error := message.error()) is None:
                if (value := message.value()) is not None:
                    self._values.append(json.loads(value))
                self._next = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                if (message.offset() or 0) >= end:
                    break
            else:
                self.close()
                break
        return list(self._values)

    def close(self) -> None:
        """Give up the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
