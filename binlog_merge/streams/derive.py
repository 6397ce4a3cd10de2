"""Derives a stream's file from the log's file of the same name: events in, bytes out.

    format description  previous GTIDs  transaction …  rotate

The bytes depend on the definition, on the log's events and on the place, which counts what came before, and on nothing
else: wherever a process stopped and went on, the same bytes stand at the same position.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from binlog_merge.binlog.constants import BINLOG_MAGIC, EventType
from binlog_merge.binlog.control import FormatDescription, PreviousGtids, announced_version
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import RawEvent
from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.log.reader import DAMAGED
from binlog_merge.log.rows import TableShapes
from binlog_merge.streams.chosen import Chooser, Shared
from binlog_merge.streams.mariadb.events import ANNOUNCED_VERSION, for_mariadb
from binlog_merge.streams.spec import StreamSpec
from binlog_merge.streams.transaction import Piece, Transaction, TransactionReader, pack_piece, packed

_CONTROL: Final = (
    EventType.FORMAT_DESCRIPTION_EVENT,
    EventType.PREVIOUS_GTIDS_LOG_EVENT,
    EventType.ROTATE_EVENT,
    EventType.STOP_EVENT,
)


@dataclass(frozen=True, slots=True)
class StreamState:
    """Where a stream is: it has read `file` of the log up to `read`, its own has `size` bytes.

    `rank` counts its transactions, `sequence` those of the file. `first` and `last` are the order keys of the file's
    first transaction and of the last, "" where that has none (a DDL) or is not known here.
    """

    file: str
    read: int = len(BINLOG_MAGIC)
    size: int = 0
    rank: int = 0
    sequence: int = 0
    first: str = ""
    last: str = ""

    def behind(self, transaction: Transaction) -> "StreamState":
        """Return the place behind another transaction, but for its size."""
        key = "" if transaction.key is None else transaction.key.text()
        first = self.first if self.sequence else key
        return replace(self, rank=self.rank + 1, sequence=self.sequence + 1, first=first, last=key)


@dataclass(frozen=True, slots=True)
class Derived:
    """Bytes that a stream's file grows by, and the place behind them."""

    data: bytes
    place: StreamState


@dataclass(frozen=True, slots=True)
class Item:
    """A transaction of the log or a control event; it ends at `end`, and its last event begins at `position`."""

    position: int
    end: int
    value: Transaction | RawEvent


def items_of(events: Iterable[RawEvent], file: str, begin: int, name: str) -> Iterator[Item]:
    """Yield what the events of a file are, from a position on. `name` is the file's for errors.

    Raises ChecksumMismatch for damage.
    """
    reader, at = TransactionReader(file, begin), begin
    try:
        for event in events:
            at = event.offset
            if event.type_code in _CONTROL:
                yield Item(event.offset, event.end, event)
            elif (transaction := reader.take(event)) is not None:
                yield Item(event.offset, event.end, transaction)
    except BinlogFormatError as error:
        position = error.offset if error.offset >= 0 else at
        raise ChecksumMismatch(error.reason, file=name, position=position, remedy=DAMAGED) from None


class Deriver:
    """The function that makes a stream. `uuid` is that of its GTIDs; `note` gets what a dialect cannot carry.

    `shared` is what the parts of one hash have in common, see `Chooser`.
    """

    def __init__(
        self,
        spec: StreamSpec,
        uuid: str,
        shapes: TableShapes | None,
        note: Callable[[str], None],
        shared: Shared | None = None,
    ) -> None:
        self._spec = spec
        self._sid = UUID(uuid).bytes
        self._chooser = Chooser(spec, shapes, shared)
        self._note = note

    def derive(self, item: Item, place: StreamState, name: str) -> Derived:
        """Return what an item of a file makes of the stream's. `name` is the file's for errors."""
        try:
            if isinstance(item.value, RawEvent):
                data = self._control(item.value, place)
            else:
                data, transaction = b"", self._made(item.value)
                if transaction is not None:
                    place = place.behind(transaction)
                    data = b"".join(packed(transaction, self._sid, place.rank, place.sequence, place.size))
        except BinlogFormatError as error:
            raise ChecksumMismatch(error.reason, file=name, position=item.position, remedy=DAMAGED) from None
        except MergeError as error:
            raise error.located(file=name, position=item.position) from None
        return Derived(data, replace(place, read=item.end, size=place.size + len(data)))

    def _made(self, transaction: Transaction) -> Transaction | None:
        chosen = self._chooser.choose(transaction)
        if chosen is None or self._spec.dialect != "mariadb":
            return chosen
        return for_mariadb(chosen, self._note)

    def _control(self, event: RawEvent, place: StreamState) -> bytes:
        head = event.header
        if event.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            description = FormatDescription.parse(event.body)
            if self._spec.dialect == "mariadb":
                version = announced_version(ANNOUNCED_VERSION)
                description = replace(description, server_version=version, version_raw=b"")
            piece = Piece(head.type_code, head.timestamp, head.server_id, head.flags, description.pack())
            return BINLOG_MAGIC + pack_piece(piece, len(BINLOG_MAGIC))
        body = bytes(event.body)
        if event.type_code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            with_gtids = bool(PreviousGtids.parse(event.body).gtids.intervals)
            before = ((self._sid, "", 1, place.rank + 1),) if place.rank and with_gtids else ()
            body = PreviousGtids(GtidSet.of(before)).pack()
        return pack_piece(Piece(head.type_code, head.timestamp, head.server_id, head.flags, body), place.size)
