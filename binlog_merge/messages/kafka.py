"""A Kafka cluster as the target: messages and the position that they reach, in one transaction of Kafka.

The position is a record of a topic of its own, so that it lasts as long as that topic does: offsets of a consumer group
would expire, and a replay would begin anew without a word. A replay that starts fences the one before it, and goes on
behind the last position that was committed.
"""

import json
import logging
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from binlog_merge.errors import ConfigError, ReplayStopped, ServerRefused, TargetBusy
from binlog_merge.messages.delivery import Outgoing
from snapshot_store.ddl import ParsedDdl
from snapshot_store.model import Table

PartitionBy = Literal["key", "table", "transaction", "fixed"]
_FIELDS: Final = ("prefix", "schema", "table")
_MOST_NAME: Final = 249
BY_KEY: Final = -1
"""The partition that leaves the choice to the client: the murmur2 of the key, as Kafka's Java client chooses."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Topics by `template`, which may have {prefix}, {schema} and {table}; statements go to `ddl_topic`, if given.

    `key`: a row's messages share the partition of its key's hash; a table without a primary key has one partition, and
    so has each table without `of_rows`: a message's key is then not its row's. `table`, `transaction`: all of a table
    or of a transaction share one; `fixed`: `partition` is that of all. Where transactions begin and end goes to
    `transaction_topic`.
    """

    template: str
    prefix: str = ""
    ddl_topic: str | None = None
    by: PartitionBy = "key"
    partition: int = 0
    of_rows: bool = True
    transaction_topic: str = ""

    def topic(self, schema: str, table: str) -> str:
        """Return the topic of a table. Raises ConfigError for a name that Kafka does not take."""
        text = self.template.format(prefix=self.prefix, schema=schema, table=table).strip(".")
        found = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in text)
        if not found or len(found) > _MOST_NAME or found in (".", ".."):
            raise ConfigError(f"{schema}.{table} has no topic: {found!r} is no name of one", remedy="change --topic")
        return found

    def of_ddl(self, schema: str, table: str) -> str:
        """Return the topic of a statement."""
        return self.ddl_topic or self.topic(schema, table)

    def partition_of(self, schema: str, table: str, rank: int, keyed: bool, count: int) -> int:
        """Return the partition of a message among `count`; -1 leaves it to the key."""
        if self.by == "fixed":
            return self.partition
        if self.by == "transaction":
            return zlib.crc32(rank.to_bytes(8, "big")) % count
        if self.by == "key" and keyed and self.of_rows:
            return BY_KEY
        return zlib.crc32(f"{schema}.{table}".encode()) % count


def routes_of(
    template: str, prefix: str, ddl_topic: str | None, by: str, of_rows: bool = True, transaction_topic: str = ""
) -> Routes:
    """Return the routes that a user asks for. Raises ConfigError."""
    try:
        template.format(**dict.fromkeys(_FIELDS, "x"))
    except (KeyError, IndexError, ValueError):
        raise ConfigError(
            f"--topic {template!r} is no template", remedy="write a name, which may have {schema}, {table} and {prefix}"
        ) from None
    if by in ("key", "table", "transaction"):
        return Routes(template, prefix, ddl_topic, by, of_rows=of_rows, transaction_topic=transaction_topic)  # type: ignore[arg-type]
    if by.isdecimal() and len(by) < 9:
        return Routes(template, prefix, ddl_topic, "fixed", int(by), transaction_topic=transaction_topic)
    raise ConfigError(f"--partition-by {by}", remedy="give key, table, transaction, or a partition's number")


_LOG = logging.getLogger(__name__)
_LOG.addFilter(
    lambda record: _LOG.isEnabledFor(logging.DEBUG)
)  # what fails is an error; the client says it each second
PROGRESS_TOPIC: Final = "binlog-merge-progress"
_SECONDS: Final = 30.0
_FIRST_SECONDS: Final = 10.0
_BACK: Final = 1000
_OF_PRODUCERS: Final = ("linger", "compression", "partitioner", "batch", "queue.buffering")


@dataclass
class KafkaTarget:
    """A cluster; `settings` are librdkafka's. Use it as a context manager. Raises TargetBusy, ServerRefused.

    `name` tells replays of one log into one cluster apart: of each the position is kept, with its `form` and topics.
    Raises ConfigError for a name whose messages had others: its position says nothing of these. `wire` makes of a
    message what goes into a topic.
    """

    brokers: str
    name: str
    routes: Routes
    settings: Mapping[str, str] = field(default_factory=dict)
    progress_topic: str = PROGRESS_TOPIC
    wire: Callable[[str, Outgoing], Outgoing] = lambda topic, message: message
    form: str = ""
    rank: int = 0
    key: str | None = None
    empty: bool = True
    _counts: dict[str, int] = field(default_factory=dict)
    _failed: list[str] = field(default_factory=list)
    _begun: bool = False
    _fatal: Any = None

    @property
    def title(self) -> str:
        """Return what results call the target."""
        return f"kafka://{self.brokers}"

    def __enter__(self) -> "KafkaTarget":
        kafka = imported()
        self._kafka = kafka
        self._producer = kafka.Producer(
            {
                "linger.ms": 20,
                "compression.type": "zstd",
                "partitioner": "murmur2_random",
                "transaction.timeout.ms": 900_000,  # the most that brokers allow unless told otherwise
                **self.settings,
                "bootstrap.servers": self.brokers,
                "transactional.id": f"binlog-merge:{self.name}",
                "enable.idempotence": True,
                "error_cb": self._told,
            },
            logger=_LOG,
        )
        try:
            self._producer.list_topics(timeout=_FIRST_SECONDS)
            self._producer.init_transactions(_SECONDS)
            self._read_position()
        except kafka.KafkaException as error:
            raise self._refused(error) from None
        return self

    def __exit__(self, *error: object) -> None:
        if self._begun:
            try:
                self._producer.abort_transaction(_SECONDS)
            except self._kafka.KafkaException:
                return  # the next replay fences this one, and Kafka aborts what it left open

    def send(self, message: Outgoing) -> None:
        """Send a message of a row, or of where its transaction begins or ends."""
        if message.aside:
            self._produce(self.routes.transaction_topic, BY_KEY, message)
            return
        topic = self.routes.topic(message.schema, message.table)
        partition = self.routes.partition_of(
            message.schema, message.table, message.rank, message.key is not None, self._partitions(topic)
        )
        self._produce(topic, partition, message)

    def send_ddl(self, message: Outgoing, everywhere: bool = False) -> None:
        """Send the message of a statement; with `everywhere` to each partition of its topic."""
        topic = self.routes.of_ddl(message.schema, message.table)
        for partition in range(self._partitions(topic)) if everywhere else (0,):
            self._produce(topic, partition, message)

    def define(self, schema: str, name: str, table: Table | None, version: int, ddl: ParsedDdl | None) -> None:
        """Take no definition: what a format needs of it is a message."""

    def commit(self, rank: int, key: str | None) -> None:
        """Make what was sent visible, with the position that it reaches. Raises ReplayStopped, TargetBusy."""
        self._begin()
        value = {"rank": str(rank), "order_key": key, "format": self.form, "topic": self.routes.template}
        try:
            self._producer.produce(
                self.progress_topic, json.dumps(value).encode(), self.name.encode(), 0, on_delivery=self._delivered
            )
            self._producer.commit_transaction(_SECONDS)
        except self._kafka.KafkaException as error:
            raise self._refused(error) from None
        self._begun = False
        if self._failed:
            raise ReplayStopped(f"Kafka did not take a message: {self._failed[0]}")
        self.rank, self.key, self.empty = rank, key, False

    def _begin(self) -> None:
        if not self._begun:
            try:
                self._producer.begin_transaction()
            except self._kafka.KafkaException as error:
                raise self._refused(error) from None
            self._begun = True

    def _produce(self, topic: str, partition: int, message: Outgoing) -> None:
        message = self.wire(topic, message)
        self._begin()
        headers: list[tuple[str, str | bytes | None]] = []
        if message.gtid is not None:
            headers.append(("gtid", message.gtid))
        if message.order_key is not None:
            headers += [("commit_tso", str(int(message.order_key[:19]))), ("order_key", message.order_key)]
        try:
            while not self._produced(topic, message, partition, headers):
                self._producer.poll(0.1)
            self._producer.poll(0)
        except self._kafka.KafkaException as error:
            raise self._refused(error) from None

    def _produced(self, topic: str, message: Outgoing, partition: int, headers: Any) -> bool:
        """Give a message to the client, unless its queue is full."""
        try:
            self._producer.produce(
                topic, message.value, message.key, partition, headers=headers, on_delivery=self._delivered
            )
        except BufferError:
            return False
        return True

    def _told(self, error: Any) -> None:
        """Keep the first error for good: later calls only say that there was one."""
        if error.fatal() and self._fatal is None:
            self._fatal = error

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(f"{message.topic()}: {error.str()}")

    def _partitions(self, topic: str) -> int:
        if topic not in self._counts:
            metadata = self._topic(topic)
            self._counts[topic] = max(1, len(metadata.partitions))
        return self._counts[topic]

    def _topic(self, name: str) -> Any:
        """Return a topic's metadata; the cluster makes it if it may."""
        end = time.monotonic() + _SECONDS
        while True:
            try:
                metadata = self._producer.list_topics(name, timeout=_SECONDS).topics[name]
            except self._kafka.KafkaException as error:
                raise self._refused(error) from None
            if metadata.error is None and metadata.partitions:
                return metadata
            if time.monotonic() > end or (
                metadata.error is not None
                and not metadata.error.retriable()
                and metadata.error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            ):
                raise ServerRefused(
                    f"topic {name}: {metadata.error}",
                    remedy="make it, or let the cluster make topics when they are written",
                )
            time.sleep(0.2)

    def _read_position(self) -> None:
        """Read the last position of this name that was committed."""
        self._topic(self.progress_topic)
        consumer = self._kafka.Consumer(
            {
                **{name: value for name, value in self.settings.items() if not name.startswith(_OF_PRODUCERS)},
                "bootstrap.servers": self.brokers,
                "group.id": "binlog-merge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            },
            logger=_LOG,
        )
        try:
            place = self._kafka.TopicPartition(self.progress_topic, 0)
            low, high = consumer.get_watermark_offsets(place, timeout=_SECONDS)
            start, back = high, _BACK
            while start > low:
                stop, start = start, max(low, start - back)
                found = self._last(consumer, start, stop)
                if found is not None:
                    self._check(found)
                    self.rank, self.key, self.empty = int(found["rank"]), found["order_key"], False
                    return
                back *= 2
        finally:
            consumer.close()

    def _check(self, position: Mapping[str, Any]) -> None:
        """Raise ConfigError if the messages before this position were others; records of before 0.1 do not say."""
        before = position.get("format", self.form), position.get("topic", self.routes.template)
        if before != (self.form, self.routes.template):
            raise ConfigError(
                f"the replay {self.name} has sent {before[0]} to the topic {before[1]}, not {self.form} to "
                f"{self.routes.template}",
                remedy="give this one a --name of its own: it begins at the log's beginning, or at --start-gtid",
            )

    def _last(self, consumer: Any, start: int, stop: int) -> Any:
        """Return the last position of this name between two offsets, None if there is none."""
        consumer.assign([self._kafka.TopicPartition(self.progress_topic, 0, start)])
        values, end = None, time.monotonic() + _SECONDS
        while True:
            record = consumer.poll(1.0)
            if record is None:
                if time.monotonic() > end:
                    raise ServerRefused(f"topic {self.progress_topic} cannot be read", remedy="look at the cluster")
                continue
            if record.error() is not None:
                if record.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                    return values
                raise ServerRefused(f"topic {self.progress_topic}: {record.error().str()}")
            if record.offset() >= stop:
                return values
            if record.key() == self.name.encode():
                values = json.loads(record.value())

    def _refused(self, error: Any) -> Exception:
        reason = error.args[0]
        if reason.code() == self._kafka.KafkaError._FATAL:
            try:
                self._producer.poll(1.0)  # what it was comes as an event, or is raised here
                reason = self._fatal or reason
            except self._kafka.KafkaException as said:
                reason = said.args[0]
        if reason.code() in (self._kafka.KafkaError._FENCED, self._kafka.KafkaError.INVALID_PRODUCER_EPOCH):
            return TargetBusy(f"another replay named {self.name} writes to {self.brokers}")
        return ServerRefused(f"kafka://{self.brokers}: {reason.str()}", remedy="look at the brokers' addresses and log")


def imported() -> Any:
    """Return the client library. Raises ConfigError if it is not installed."""
    try:
        import confluent_kafka
    except ImportError:
        raise ConfigError(
            "kafka:// needs confluent-kafka, which is not installed",
            remedy="pip install '.[kafka]' in the clone, or pip install confluent-kafka",
        ) from None
    return confluent_kafka


def settings_of(text: str, file: str) -> dict[str, str]:
    """Return a client's settings from a file of lines NAME=VALUE; # begins a comment. Raises ConfigError."""
    settings = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equal, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equal:
            raise ConfigError(f"line {number} is not NAME=VALUE", file=file)
        settings[name.strip()] = value.strip()
    return settings
