"""Where a message goes: the topic of a template, and which of its partitions."""

import zlib
from dataclasses import dataclass
from typing import Final, Literal

from binlog_merge.errors import ConfigError

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
