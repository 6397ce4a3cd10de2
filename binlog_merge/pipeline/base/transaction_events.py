"""The events of a transaction; the output writes its own events around them."""

from collections.abc import Iterator

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import RawEvent, walk
from binlog_merge.binlog.payload import TransactionPayload


def transaction_events(data: bytes, checksum: bool) -> Iterator[RawEvent]:
    """Yield the events of one group, those of a TRANSACTION_PAYLOAD_EVENT unpacked."""
    for event in walk(data, checksum=checksum, offset=4):
        if event.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(event.body).events()
        else:
            yield event
