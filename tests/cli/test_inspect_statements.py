"""`inspect` on what statement-format servers and replicas write: user variables, LOAD DATA, relay logs, old numbers."""

import re
import struct
from pathlib import Path

import pytest

from binlog_merge.binlog.events import EventHeader, RawEvent, pack_event, parse_event
from binlog_merge.binlog.query import UserVar, UserVarType
from binlog_merge.cli.main import run
from binlog_merge.errors import ChecksumMismatch, MergeError, UnknownEvent, UnsupportedInput
from binlog_merge.log.inspection import inspect_file, records_of
from tests.files.binlogs import binlog, event, format_description
from tests.mysql_server import MySqlServer, mysqlbinlog

_STATEMENTS = """
SET SESSION binlog_format = STATEMENT;
SET @nothing = NULL, @int = -5, @u = 18446744073709551615, @r = -1.5e0, @big = 1e300, @d = 12345.678900, @s = 'héllo',
    @q = _binary 0x00ff27, @l = _latin1'abc' COLLATE latin1_bin, @`we``ird` = 'x', @neg = -0.0e0, @empty = '',
    @least = CAST(-9223372036854775808 AS SIGNED), @dz = CAST(0 AS DECIMAL(10,5)), @dn = -0.00012345678901234567890,
    @third = 1e0/3, @utf16 = CONVERT('añ' USING utf16);
INSERT INTO t(v) VALUES (@nothing), (@int), (@u), (@r), (@big), (@d), (@s), (@q), (@l), (@`we``ird`), (@neg), (@empty),
    (@least), (@dz), (@dn), (@third), (@utf16);
INSERT INTO t(v) VALUES (RAND()), (LAST_INSERT_ID());
"""


def _lines(path: Path, start: int = 4) -> list[str]:
    return list(inspect_file(path, start, None, 0))


@pytest.mark.mysql
def test_variables_and_loaded_files_as_mysqlbinlog_prints_them(mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v VARBINARY(200))")
    mysql_server.execute("FLUSH BINARY LOGS")
    loaded = tmp_path / "load.csv"
    loaded.write_text("101,one\n102,two\n")
    tmp_path.chmod(0o755)
    path = mysql_server.binlog_files()[-1]
    load = f"LOAD DATA INFILE '{loaded}' REPLACE INTO TABLE t FIELDS TERMINATED BY ','"
    mysql_server.execute(_STATEMENTS + load, "d")
    theirs = mysqlbinlog([path]).decode("utf-8", "surrogateescape")
    ours = "\n".join(_lines(path))
    set_lines = re.findall(r"(?m)^SET (@`.*?)/\*!\*/;$", theirs)
    assert len(set_lines) == 17
    assert re.findall(r"(?m)^# SET (@`.*)$", ours) == set_lines
    assert re.findall(r"(?m)^# (SET @@RAND.*)$", ours) == re.findall(r"(?m)^(SET @@RAND.*?)/\*!\*/;", theirs)
    blocks = re.findall(r"(?m)^#(Begin_load_query.*)$", theirs)
    assert blocks and re.findall(r"\t(Begin_load_query.*)", ours) == blocks
    assert re.findall(r"\t(Execute_load_query.*)\tfile_id", ours) == re.findall(r"\t(Execute_load_query.*)", theirs)
    assert f"# LOAD DATA INFILE '{loaded}' REPLACE INTO TABLE `t`" in ours
    assert re.findall(r"(?m)^# at \d+", ours) == re.findall(r"(?m)^# at \d+", theirs)
    records = list(records_of(path, 4, None, 0))
    facts = {r["type"]: r["event"] for r in records}
    assert facts["BEGIN_LOAD_QUERY_EVENT"]["block"] == loaded.read_text()
    assert facts["EXECUTE_LOAD_QUERY_EVENT"]["duplicates"] == "REPLACE"
    variables = {r["event"]["name"]: r["event"] for r in records if r["type"] == "USER_VAR_EVENT"}
    assert variables["d"] == {"name": "d", "type": "DECIMAL", "collation": 255, "value": "12345.678900"}
    assert variables["nothing"]["value"] is None
    for record, raw in zip(records, _raw_events(path), strict=True):
        assert parse_event(raw).pack() == raw.body, record


def _raw_events(path: Path) -> list[RawEvent]:
    from binlog_merge.log.inspection import read_events

    with path.open("rb") as file:
        return list(read_events(file, str(path)))


@pytest.mark.parametrize(
    "body",
    [
        b"\x01\0\0\0a",
        b"\x01\0\0\0a\x01x",
        b"\x01\0\0\0a\0\x03" + bytes(8),  # ROW_RESULT
        b"\x01\0\0\0a\0\x02\x3f\0\0\0\x04\0\0\0" + bytes(4),  # a number of four bytes
        b"\x01\0\0\0a\0\x04\x3f\0\0\0\x03\0\0\0\x05\x06\0",  # more places than digits
        b"\xff\xff\xff\xffa",
    ],
)
def test_values_of_variables_that_no_server_writes(body: bytes) -> None:
    with pytest.raises(Exception, match=r"user variable event|DECIMAL"):
        UserVar.parse(body)


def test_an_old_servers_variable_has_no_flags() -> None:
    body = UserVar(b"a", UserVarType.INT, 63, struct.pack("<q", -7)).pack()
    assert (UserVar.parse(body).value(), UserVar.parse(body).flags) == (-7, None)


def test_a_file_without_a_format_description(tmp_path: Path) -> None:
    path = tmp_path / "x"
    rotate = struct.pack("<Q", 4) + b"binlog.000002"
    path.write_bytes(b"\xfebin" + event(4, rotate, at=4))
    with pytest.raises(ChecksumMismatch, match="does not begin with a format description") as caught:
        _lines(path)
    assert caught.value.position == 4


def test_a_preview_that_numbers_its_events_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xfebin" + format_description(version="5.2.2-a_drop6p13-debug-log"))
    with pytest.raises(UnsupportedInput, match="numbers its events"):
        _lines(path)


@pytest.mark.parametrize("kind", [20, 6, 0, 90, 255])
def test_events_that_are_not_read_end_it_with_an_error(
    tmp_path: Path, kind: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    head = binlog()
    path.write_bytes(head + event(kind, b"abc", at=len(head)) + event(3, b"", at=len(head) + 26))
    shown: list[str] = []
    with pytest.raises(UnknownEvent, match="not read") as caught:
        shown.extend(inspect_file(path, 4, None, 0))
    assert caught.value.position == len(head)
    assert run(["inspect", str(path)]) == 19
    out = capsys.readouterr()
    assert "\tStop" in out.out and "of types that are not read" in out.err


def test_an_incident_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x"
    head = binlog()
    path.write_bytes(head + event(26, b"\x42\x00\x00", at=len(head)))
    with pytest.raises(ChecksumMismatch, match="incident 66 is not known"):
        _lines(path)


@pytest.mark.parametrize(("own", "sources"), [(0, 1), (1, 0), (1, 1), (0, 0)])
def test_a_relay_log_with_two_format_descriptions(tmp_path: Path, own: int, sources: int) -> None:
    """The replica's own first, then its source's, each with an algorithm of its own; from any position on."""
    first = struct.pack("<H50sIB", 4, b"9.7.4", 0, 19) + bytes(42) + bytes([own])
    second = struct.pack("<H50sIB", 4, b"8.0.36", 5, 19) + bytes(42) + bytes([sources])
    data = b"\xfebin" + event(15, first, at=4, flags=0x40)
    data += event(4, struct.pack("<Q", 4) + b"binlog.000009", at=len(data), crc=own == 1)
    data += event(15, second, at=len(data))
    starts = []
    for number in (7, 8):
        starts.append(len(data))
        data += pack_event(
            16, struct.pack("<Q", number), timestamp=5, server_id=1, position=len(data), checksum=sources == 1
        )
    path = tmp_path / "relay.000001"
    path.write_bytes(data)
    text = _lines(path)
    assert [line.split("\t")[1] for line in text if "\t" in line] == [
        "Start: binlog v 4, server v 9.7.4",
        "Rotate to binlog.000009  pos: 4",
        "Start: binlog v 4, server v 8.0.36 created 700101  0:00:05 at startup",
        "Xid = 7",
        "Xid = 8",
    ]
    behind = [line.split("\t")[1] for line in _lines(path, starts[1]) if "\t" in line]
    assert behind[-1] == "Xid = 8" and "Xid = 7" not in behind


def test_parts_that_are_cut_are_damage(tmp_path: Path) -> None:
    for kind, body in ((17, b"\1\0"), (9, b""), (11, b"\1\0\0\0x"), (18, bytes(20)), (18, bytes(26))):
        raw = RawEvent(EventHeader(0, kind, 1, 19 + len(body), 0, 0), body, 100)
        with pytest.raises(Exception, match=r"event|file"):
            parse_event(raw)


def test_a_fifo_is_no_binlog(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(MergeError, match="is a FIFO"):
        _lines(tmp_path / "fifo")
