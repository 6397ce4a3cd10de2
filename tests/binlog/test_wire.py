"""Bounded reads, packed integers, and the serialization library's integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import (
    Reader,
    pack_packed,
    pack_packed_bytes,
    pack_signed_varlen,
    pack_varlen,
    read_signed_varlen,
    read_varlen,
)


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        (0, "00"),
        (250, "fa"),
        (251, "fcfb00"),
        (65535, "fcffff"),
        (65536, "fd000001"),
        ((1 << 24) - 1, "fdffffff"),
        (1 << 24, "fe0000000100000000"),
        ((1 << 64) - 1, "feffffffffffffffff"),
    ],
)
def test_packed_integers(value: int, packed: str) -> None:
    assert pack_packed(value).hex() == packed
    assert Reader(bytes.fromhex(packed), "test").packed("n") == value


@pytest.mark.parametrize("packed", ["", "fb", "ff", "fc", "fc01", "fc0100", "fdffff00", "feffffff0000000000", "fe01"])
def test_packed_integers_that_no_server_writes(packed: str) -> None:
    with pytest.raises(BinlogFormatError):
        Reader(bytes.fromhex(packed), "test").packed("n")


@given(st.integers(0, (1 << 64) - 1))
def test_packed_integers_go_there_and_back(value: int) -> None:
    r = Reader(pack_packed(value) + b"x", "test")
    assert r.packed("n") == value
    assert r.left() == 1


# The examples of mysql-server libs/mysql/serialization/readme.md, written there most significant byte first.
@pytest.mark.parametrize(("value", "packed"), [(65535, "fbff07"), (0, "00"), ((1 << 64) - 1, "ffffffffffffffffff")])
def test_varlen_integers(value: int, packed: str) -> None:
    assert pack_varlen(value).hex() == packed
    assert read_varlen(Reader(bytes.fromhex(packed), "test"), "n") == value


@pytest.mark.parametrize(("value", "packed"), [(65535, "f3ff0f"), (-65535, "ebff0f"), (-65536, "fbff0f"), (-1, "02")])
def test_signed_varlen_integers(value: int, packed: str) -> None:
    assert pack_signed_varlen(value).hex() == packed
    assert read_signed_varlen(Reader(bytes.fromhex(packed), "test"), "n") == value


@given(st.integers(0, 64), st.data())
def test_varlen_integers_go_there_and_back(bits: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, max(0, (1 << bits) - 1)))
    packed = pack_varlen(value)
    assert read_varlen(Reader(packed, "test"), "n") == value
    assert len(packed) == (9 if value.bit_length() > 56 else max(1, -(-value.bit_length() // 7)))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_varlen_integers_go_there_and_back(value: int) -> None:
    assert read_signed_varlen(Reader(pack_signed_varlen(value), "test"), "n") == value


@pytest.mark.parametrize("packed", ["", "01", "0100", "ff00000000000000", "ff0100000000000000"])
def test_varlen_integers_that_no_server_writes(packed: str) -> None:
    with pytest.raises(BinlogFormatError):
        read_varlen(Reader(bytes.fromhex(packed), "test"), "n")


def test_a_read_beyond_the_end_says_what_was_missing() -> None:
    r = Reader(b"\x05abc", "thing")
    with pytest.raises(BinlogFormatError, match=r"thing: name needs 5 bytes, 3 are left \(byte 1 of 4\)"):
        r.packed_bytes("name")


def test_left_over_bytes_are_an_error() -> None:
    with pytest.raises(BinlogFormatError, match="2 bytes too many"):
        Reader(b"ab", "thing").done()


def test_packed_bytes() -> None:
    assert pack_packed_bytes(b"a" * 300)[:3] == b"\xfc\x2c\x01"


def test_an_error_tells_its_place_and_travels() -> None:
    import pickle

    error = BinlogFormatError("bad").at("binlog.000003", 4711)
    assert str(error) == "binlog.000003:4711: bad"
    assert str(error.at("other", 1)) == str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.file, again.offset) == ("bad", "binlog.000003", 4711)
