"""Framing: headers, checksums on and off, cut and damaged files."""

import random
import zlib

import numpy as np
import pytest

from binlog_merge.binlog.constants import BINLOG_MAGIC, POST_HEADER_LENS, EventFlag, EventType
from binlog_merge.binlog.errors import BinlogFormatError, ChecksumMismatch, EncryptedBinlog, TruncatedEvent
from binlog_merge.binlog.events import (
    EventHeader,
    FormatDescription,
    Opaque,
    Xid,
    event_name,
    is_ignorable,
    is_known,
    pack_event,
    parse_event,
    walk,
)
from binlog_merge.binlog.header import check_magic, server_version_split
from binlog_merge.binlog.kernels.crc32 import crc32_after


def a_file(*bodies: tuple[int, bytes], fde: FormatDescription | None = None, flags: int = 0) -> bytes:
    """Return a binlog of these events behind a format description."""
    fde = fde or FormatDescription("9.7.0")
    out = BINLOG_MAGIC + pack_event(15, fde.pack(), timestamp=1, server_id=7, flags=flags, position=4)
    for type_code, body in bodies:
        out += pack_event(type_code, body, timestamp=2, server_id=7, position=len(out), checksum=fde.checksum)
    return out


XID = (EventType.XID_EVENT, Xid(5).pack())


def test_walk_yields_events_with_their_places() -> None:
    data = a_file(XID, XID)
    events = list(walk(data, "binlog.000001"))
    assert [event.type_code for event in events] == [15, 16, 16]
    assert events[0].offset == 4
    assert [event.end for event in events] == [event.header.log_pos for event in events]
    assert events[-1].end == len(data)
    assert b"".join(event.pack() for event in events) == data[4:]


def test_walk_from_the_middle_of_a_file() -> None:
    data = a_file(XID, XID)
    start = next(walk(data)).end
    events = list(walk(data[start:], offset=start, checksum=True))
    assert [event.offset for event in events] == [start, start + 31]


def test_without_checksums_only_the_format_description_has_one() -> None:
    fde = FormatDescription("8.0.36", checksum_alg=0)
    events = list(walk(a_file(XID, fde=fde)))
    assert [event.checksum is None for event in events] == [False, True]
    assert parse_event(events[0]) == fde
    assert parse_event(events[1]) == Xid(5)


def test_a_server_before_checksums() -> None:
    fde = FormatDescription("5.5.62-log", post_header_lens=POST_HEADER_LENS[:27], checksum_alg=None)
    body = fde.pack()
    data = BINLOG_MAGIC + pack_event(15, body, timestamp=1, server_id=7, position=4, checksum=False)
    (event,) = walk(data)
    assert event.checksum is None
    assert parse_event(event) == fde


@pytest.mark.parametrize(
    ("version", "lens", "checksum"),
    [
        ("5.7.44-log", 38, True),
        ("5.7.14-AliSQL-X-Cluster-1.6.1.1", 38, True),
        ("8.0.36", 41, True),
        ("8.4.3", 42, False),
        ("9.7.4-2", 42, True),
        ("10.11.18-MariaDB-0+deb12u1-log", 171, True),
        ("5.3.12-MariaDB", 164, True),
    ],
)
def test_format_descriptions_of_many_servers(version: str, lens: int, checksum: bool) -> None:
    post = POST_HEADER_LENS[:lens].ljust(lens, b"\0")
    fde = FormatDescription(version, 1795225477, post, checksum_alg=int(checksum))
    events = list(walk(a_file(XID, fde=fde)))
    assert parse_event(events[0]) == fde
    assert fde.checksum is checksum
    assert fde.post_header_len(EventType.TABLE_MAP_EVENT) == 8
    assert fde.is_mariadb == ("MariaDB" in version)
    assert parse_event(events[1], fde) == Xid(5)


def test_versions_are_split_as_the_server_does() -> None:
    assert server_version_split("9.7.4-2") == (9, 7, 4)
    assert server_version_split("5.7.14-AliSQL") == (5, 7, 14)
    assert server_version_split("8.0") == (8, 0, 0)
    assert server_version_split("garbage") == (0, 0, 0)
    assert server_version_split("300.1.1") == (0, 0, 0)


def test_the_in_use_flag_is_not_under_the_checksum() -> None:
    data = a_file(XID, flags=EventFlag.LOG_EVENT_BINLOG_IN_USE_F)
    assert len(list(walk(data))) == 2
    closed = bytearray(data)
    closed[4 + 17] = 0
    assert bytes(closed) == a_file(XID)


@pytest.mark.parametrize("lost", [1, 4, 5, 12, 13, 30])
def test_a_cut_event_is_truncated(lost: int) -> None:
    with pytest.raises(TruncatedEvent) as caught:
        list(walk(a_file(XID, XID)[:-lost], "f"))
    assert caught.value.file == "f"
    assert caught.value.offset == len(a_file(XID))


def test_a_wrong_checksum_names_both() -> None:
    data = bytearray(a_file(XID))
    data[-6] ^= 1
    with pytest.raises(ChecksumMismatch, match=r"in the file, .* by its bytes"):
        list(walk(bytes(data)))
    assert len(list(walk(bytes(data), verify=False))) == 2


@pytest.mark.parametrize("size", [0, 18, 22, (1 << 30) + 1, 0xFFFFFFFF])
def test_impossible_event_sizes(size: int) -> None:
    header = EventHeader(0, 16, 1, size, 0, 0).pack()
    with pytest.raises(BinlogFormatError):
        list(walk(header + bytes(64), offset=400, checksum=True))


def test_magics() -> None:
    check_magic(BINLOG_MAGIC + b"rest")
    with pytest.raises(EncryptedBinlog):
        check_magic(b"\xfdbin")
    with pytest.raises(EncryptedBinlog):
        list(walk(b"\xfdbin" + bytes(100)))
    with pytest.raises(TruncatedEvent):
        check_magic(b"\xfeb")
    with pytest.raises(BinlogFormatError, match="begins with 50 4b 03 04"):
        check_magic(b"PK\x03\x04")


def test_log_pos_wraps_at_four_gigabytes() -> None:
    event = pack_event(16, bytes(8), timestamp=0, server_id=1, position=(1 << 32) - 10)
    assert EventHeader.parse(event).log_pos == 21


def test_pack_event_covers_header_and_body() -> None:
    event = pack_event(16, bytes(8), timestamp=3, server_id=1, flags=8, position=4)
    assert zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")


def test_unknown_types_are_carried() -> None:
    data = a_file((200, b"what"))
    event = list(walk(data))[1]
    assert parse_event(event) == Opaque(b"what")
    assert not is_known(200)
    assert not is_ignorable(event.header)
    assert event_name(200) == "UNKNOWN_EVENT(200)"
    assert is_ignorable(EventHeader(0, 200, 0, 19, 0, EventFlag.LOG_EVENT_IGNORABLE_F))


def test_a_post_header_of_another_length_is_refused() -> None:
    lens = bytearray(POST_HEADER_LENS)
    lens[EventType.TABLE_MAP_EVENT - 1] = 6
    fde = FormatDescription("9.7.0", post_header_lens=bytes(lens))
    event = list(walk(a_file((19, bytes(40)))))[1]
    with pytest.raises(BinlogFormatError, match="post-header of 6 bytes"):
        parse_event(event, fde)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x03\0" + bytes(80), "binlog version 3"),
        (b"\x04\0" + b"9.7.0".ljust(50, b"\0") + bytes(4) + b"\x12" + bytes(20), "event headers of 18"),
        (b"\x04\0" + b"9.7.0".ljust(50, b"\0") + bytes(4) + b"\x13" + bytes(20) + b"\x02", "checksum algorithm 2"),
        (b"\x04\0" + b"9.7.0".ljust(50, b"\0") + bytes(4), "header length"),
    ],
)
def test_format_descriptions_that_cannot_be_read(body: bytes, reason: str) -> None:
    with pytest.raises(BinlogFormatError, match=reason):
        FormatDescription.parse(body)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 15, 16, 17, 127, 128, 129, 5000])
def test_a_checksum_goes_on(length: int) -> None:
    """Of what has one already and of the bytes that follow, which stay as they are."""
    data = random.Random(length).randbytes(length + 9)
    buffer = np.frombuffer(bytearray(data), np.uint8)
    for before in (0, 1, 0xFFFFFFFF, zlib.crc32(b"before")):
        assert crc32_after(buffer, 5, length, before) == zlib.crc32(data[5 : 5 + length], before)
    assert buffer.tobytes() == data
