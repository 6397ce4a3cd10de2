"""Transaction payloads: unpacking is bounded, whatever the bytes say."""

import tracemalloc

import pytest
import zstandard

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import pack_event
from binlog_merge.binlog.payload import NONE, ZSTD, TransactionPayload
from binlog_merge.binlog.wire import pack_packed, pack_packed_bytes


def inner(*sizes: int, kind: int = 29) -> bytes:
    """Return events without checksum, with bodies of these sizes."""
    return b"".join(
        pack_event(kind, bytes(size), timestamp=0, server_id=1, position=0, checksum=False) for size in sizes
    )


def payload(data: bytes, compression: int, uncompressed: int | None = None) -> TransactionPayload:
    """Return a payload event with these fields."""
    fields = [(2, compression), (1, len(data))]
    if uncompressed is not None:
        fields.insert(1, (3, uncompressed))
    packed = b"".join(pack_packed(kind) + pack_packed_bytes(pack_packed(value)) for kind, value in fields)
    return TransactionPayload.parse(packed + b"\0" + data)


def test_events_come_out_whole() -> None:
    data = inner(3, 70000, 0)
    for again in (TransactionPayload.compress(data), payload(data, NONE), payload(data, NONE, len(data))):
        again = TransactionPayload.parse(again.pack())
        events = list(again.events(offset=4711))
        assert b"".join(event.pack() for event in events) == data
        assert {event.offset for event in events} == {4711}
        assert {event.checksum for event in events} == {None}


def test_several_frames_are_one_stream() -> None:
    data = inner(10, 20)
    frames = zstandard.compress(data[:15]) + zstandard.compress(data[15:])
    assert len(list(payload(frames, ZSTD, len(data)).events())) == 2


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (payload(inner(5)[:-1], NONE), "ends 4 bytes into a body of 5"),
        (payload(inner(5)[:7], NONE), "7 bytes into an event header"),
        (payload(inner(5), NONE, 25), "24 bytes unpacked, 25 were announced"),
        (payload(inner(5), 7), "compression 7 is not known"),
        (payload(b"not zstd", ZSTD), "transaction payload"),
        (payload(zstandard.compress(inner(5))[:-3], ZSTD), "transaction payload"),
        (payload(b"\0" * 40, NONE), "event size 0"),
        (payload(inner(5, kind=40), NONE), "holds a transaction payload"),
        (payload(inner(5), NONE, 1 << 31), "the limit is"),
    ],
)
def test_unsound_payloads(wrong: TransactionPayload, reason: str) -> None:
    with pytest.raises(BinlogFormatError, match=reason) as caught:
        list(wrong.events(offset=99))
    assert caught.value.offset == 99


def test_a_bomb_is_stopped_early() -> None:
    """300 MB of zeros in 30 KB, behind a size that lies: no more than a few MB may ever be held."""
    body = (1 << 28).to_bytes(4, "little")
    head = b"\0\0\0\0\x1d\1\0\0\0" + body + bytes(6)
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    packed = compressor.compress(head) + b"".join(compressor.compress(bytes(1 << 20)) for _ in range(300))
    bomb = payload(packed + compressor.flush(), ZSTD)
    tracemalloc.start()
    with pytest.raises(BinlogFormatError, match="come out of"):
        list(bomb.events())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


def test_the_limit_holds_without_an_announced_size() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    packed = compressor.compress(inner(*[1000] * 50)) + compressor.flush()
    with pytest.raises(BinlogFormatError, match="more than 20000 bytes"):
        list(payload(packed, ZSTD).events(max_size=20000))


@pytest.mark.parametrize("body", ["", "00", "0101", "020100" + "00", "0101000101" + "0000", "01030000000201ff00", "fb"])
def test_unsound_fields(body: str) -> None:
    with pytest.raises(BinlogFormatError):
        TransactionPayload.parse(bytes.fromhex(body))


def test_unknown_fields_are_kept() -> None:
    body = bytes.fromhex("0901aa" + "0201fcff00".replace("0201fcff00", "0203fcff00") + "010101" + "00" + "58")
    assert TransactionPayload.parse(body).pack() == body
