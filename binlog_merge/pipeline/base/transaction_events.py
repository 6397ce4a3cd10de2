"""The events of a transaction that the output frames itself."""

from collections.abc import Iterator

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import RawEvent, walk
from binlog_merge.binlog.payload import TransactionPayload


def transaction_events(data: bytes, checksum: bool) -> Iterator[RawEvent]:
    """Yield the events of one group, those inside payloads as if they stood in the log."""
    for event in walk(data, checksum=checksum, offset=4):
        if event.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(event.body).events()
        else:
            yield event
