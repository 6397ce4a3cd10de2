"""Packets: what is packed is parsed again, and any bytes are a value or a BinlogFormatError."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.wire import Reader
from binlog_merge.protocol.commands import (
    Acknowledgement,
    BinlogDump,
    BinlogDumpGtid,
    Command,
    InitDb,
    Plain,
    Query,
    RegisterReplica,
    parse_command,
)
from binlog_merge.protocol.compression import FrameHeader
from binlog_merge.protocol.handshake import (
    CACHING_SHA2,
    NATIVE,
    OFFERED,
    AuthSwitch,
    Greeting,
    HandshakeResponse,
    SslRequest,
    new_nonce,
    prove,
)
from binlog_merge.protocol.packets import (
    MAX_PAYLOAD,
    Capability,
    Column,
    Eof,
    Err,
    Ok,
    PacketHeader,
    event_packets,
    large_event_packets,
    pack_row,
    packets,
)
from binlog_merge.protocol.passwords import Crypt, Secret, native_text, proves_native, proves_sha2

u8, u16, u32 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32))
u64 = st.integers(0, (1 << 64) - 1)
short = st.binary(max_size=200)
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
nonces = st.builds(new_nonce)
gtid_sets = st.lists(
    st.tuples(st.binary(min_size=16, max_size=16), st.sampled_from(["", "a_tag"]), st.integers(1, 99)), max_size=5
).map(lambda items: GtidSet.of((sid, tag, gno, gno + 3) for sid, tag, gno in items))

commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(InitDb, short),
    st.builds(Query, short),
    st.builds(RegisterReplica, u32, short, short, short, u16, u32, u32),
    st.builds(BinlogDump, u32, u16, u32, words.map(str.encode)),
    st.builds(BinlogDumpGtid, u16, u32, gtid_sets, words.map(str.encode), u64),
    st.builds(Plain, st.sampled_from([None, 0x01, 0x0E, 0x1F, 0x16, 0x19, 0xFF]), st.just(b"")),
)
greetings = st.builds(Greeting, words, u32, nonces, st.sampled_from([OFFERED, OFFERED | Capability.CLIENT_SSL]), words)
responses = st.builds(
    HandshakeResponse,
    st.just(OFFERED),
    words.filter(lambda user: "'" not in user),
    st.binary(max_size=300),
    words,
    words,
    st.dictionaries(words, words, max_size=5),
    u32,
    st.sampled_from([33, 45, 255]),
    u8,
)
values: list[tuple[st.SearchStrategy[Any], Callable[[bytes], Any]]] = [
    (commands, parse_command),
    (greetings, Greeting.parse),
    (responses, HandshakeResponse.parse),
    (st.builds(SslRequest, u32.map(Capability), u32, u8), SslRequest.parse),
    (st.builds(AuthSwitch, words, nonces), AuthSwitch.parse),
    (st.builds(Ok, u64, u64, u16, u16), Ok.parse),
    (st.builds(Eof, u16, u16), Eof.parse),
    (st.builds(Err, u16, words, st.binary(min_size=5, max_size=5)), Err.parse),
    (st.builds(Column, words, st.booleans(), unsigned=st.booleans()), Column.parse),
    (st.builds(Acknowledgement, u64, words), Acknowledgement.parse),
    (st.builds(FrameHeader, st.integers(0, MAX_PAYLOAD), u8, st.integers(0, MAX_PAYLOAD)), FrameHeader.parse),
    (st.builds(PacketHeader, st.integers(0, MAX_PAYLOAD), u8), PacketHeader.parse),
]
every_kind = pytest.mark.parametrize(
    ("strategy", "parse"), values, ids=[getattr(parse, "__qualname__", "") for _, parse in values]
)


@every_kind
@given(data=st.data())
def test_what_is_packed_is_parsed_again(
    strategy: st.SearchStrategy[Any], parse: Callable[[bytes], Any], data: st.DataObject
) -> None:
    value = data.draw(strategy)
    assert parse(value.pack()) == value


@every_kind
@given(data=st.data())
def test_any_bytes_are_a_value_or_a_format_error(
    strategy: st.SearchStrategy[Any], parse: Callable[[bytes], Any], data: st.DataObject
) -> None:
    packed = bytearray(data.draw(strategy).pack())
    for _ in range(data.draw(st.integers(0, 3))):
        if packed:
            packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(u8)
    del packed[data.draw(st.integers(0, len(packed))) :]
    for damaged in (bytes(packed), data.draw(st.binary(max_size=80))):
        with contextlib.suppress(BinlogFormatError):
            parse(damaged)


def parse_row(payload: bytes, columns: list[Column]) -> tuple[str | int | None, ...]:
    r = Reader(payload, "row")
    values: list[str | int | None] = []
    for column in columns:
        if r.left() and r.data[r.pos] == 0xFB:
            r.u8("NULL")
            values.append(None)
        else:
            text = r.packed_bytes(column.name).decode("utf-8", "surrogateescape")
            values.append(int(text) if column.number else text)
    r.done()
    return tuple(values)


@given(st.lists(st.one_of(st.none(), words, st.integers(-(1 << 63), 1 << 63)), max_size=8))
def test_rows_are_parsed_again(row: list[str | int | None]) -> None:
    columns = [Column(f"c{i}", isinstance(value, int)) for i, value in enumerate(row)]
    assert parse_row(pack_row(row), columns) == tuple(row)


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (0, [0]),
        (1, [1]),
        (MAX_PAYLOAD - 1, [MAX_PAYLOAD - 1]),
        (MAX_PAYLOAD, [MAX_PAYLOAD, 0]),
        (2 * MAX_PAYLOAD + 5, [MAX_PAYLOAD, MAX_PAYLOAD, 5]),
    ],
)
def test_a_payload_goes_on_in_the_next_packet(size: int, lengths: list[int]) -> None:
    """https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html: one of exactly 2^24-1 bytes
    is followed by an empty packet; sequence numbers go on, and begin again at 256."""
    found = list(packets(bytes(size), 255))
    headers = [PacketHeader.parse(header) for header, _ in found]
    assert [header.length for header in headers] == [len(part) for _, part in found] == lengths
    assert [header.sequence for header in headers] == [255, 0, 1][: len(lengths)]
    assert [header.more for header in headers] == [True] * (len(lengths) - 1) + [False]


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), u8, st.sampled_from([b"\0", b"\0\xef\1"]))
def test_events_go_into_packets_of_their_own(events: list[bytes], sequence: int, prefix: bytes) -> None:
    data = memoryview(b"".join(events))
    one_by_one = [part for i, event in enumerate(events) for part in packets(prefix + event, sequence + i)]
    expected = b"".join(header + bytes(part) for header, part in one_by_one)
    assert event_packets(data, [len(event) for event in events], sequence, prefix) == expected


@pytest.mark.parametrize("prefix", [b"\0", b"\0\xef\1"])
@pytest.mark.parametrize("size", [1, MAX_PAYLOAD - 3, MAX_PAYLOAD - 1, MAX_PAYLOAD, 2 * MAX_PAYLOAD])
def test_a_large_event_is_cut_into_the_packets_of_its_payload(size: int, prefix: bytes) -> None:
    event = memoryview(bytes(range(256)) * (size // 256 + 1))[:size]
    found = b"".join(bytes(head) + bytes(part) for head, part in large_event_packets(event, 254, prefix))
    assert found == b"".join(head + bytes(part) for head, part in packets(prefix + bytes(event), 254))


def test_proofs_are_those_that_pymysql_computes() -> None:
    from pymysql import _auth

    nonce = new_nonce()
    assert prove(NATIVE, "a secret", nonce) == _auth.scramble_native_password(b"a secret", nonce)
    assert prove(CACHING_SHA2, "a secret", nonce) == _auth.scramble_caching_sha2(b"a secret", nonce)


@given(words, words, nonces)
def test_only_the_password_proves_itself(password: str, other: str, nonce: bytes) -> None:
    secret = Secret.of(password)
    assert secret.native is not None and secret.sha2 is not None
    for plugin, twice, proves in ((NATIVE, secret.native, proves_native), (CACHING_SHA2, secret.sha2, proves_sha2)):
        assert proves(twice, nonce, prove(plugin, password, nonce)) == (password != "")
        assert proves(twice, nonce, prove(plugin, other, nonce)) == (password == other != "")
        assert not proves(twice, nonce, b"")


@given(words)
def test_a_hash_is_of_its_password_alone(password: str) -> None:
    crypt = Crypt.of(password)
    assert Secret.parse(crypt.text()).crypt == crypt
    assert Secret.parse("0x" + crypt.text().encode().hex()).crypt == crypt
    assert crypt.is_of(password.encode()) and not crypt.is_of(b"x" + password.encode())
    assert Secret.parse(native_text(password)).native == Secret.of(password).native


@pytest.mark.parametrize("text", ["", "secret", "*12", "$A$000$" + "s" * 20 + "d" * 43, "$A$005$" + "s" * 62, "0xzz"])
def test_what_is_no_hash_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"hash|hexadecimal"):
        Secret.parse(text)
