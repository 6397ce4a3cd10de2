"""`binlog-merge inspect`: positions, both forms of output, names that would steer a terminal, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.constants import BINLOG_MAGIC, EventType
from binlog_merge.binlog.control import FormatDescription, Gcn, RowsQuery, Sequence, Xid
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import Query, RowsEvent, pack_event, walk
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.cli.main import run
from binlog_merge.errors import MergeError, UnknownEvent
from binlog_merge.json_values import json_text
from binlog_merge.log import inspection
from binlog_merge.log.inspection import inspect_file, read_events
from binlog_merge.redaction import printable
from tests.binlog.record import ALL_TYPES
from tests.binlog.test_table_map import table_map

RECORDED = ALL_TYPES / "binlog.000001"


def text_of(path: Path, verbose: int = 0, start: int = 4, stop: int | None = None) -> str:
    return "\n".join(inspect_file(path, start, stop, verbose))


def records_of(path: Path, verbose: int = 0) -> list[dict[str, Any]]:
    return [json.loads(json_text(record)) for record in inspection.records_of(path, 4, None, verbose)]


def write(path: Path, *bodies: tuple[int, bytes], flags: int = 0) -> Path:
    """Write a binlog of these events."""
    out = BINLOG_MAGIC + pack_event(15, FormatDescription("9.7.0").pack(), timestamp=0, server_id=1, position=4)
    for kind, body in bodies:
        out += pack_event(kind, body, timestamp=1795225477, server_id=1, flags=flags, position=len(out))
    path.write_bytes(out)
    return path


def test_every_line_is_a_comment() -> None:
    for file in ALL_TYPES.glob("binlog.0*"):
        assert all(line.startswith("#") for line in text_of(file, 2).split("\n"))


def test_positions_are_start_inclusive_and_stop_exclusive() -> None:
    events = list(walk(RECORDED.read_bytes()))
    start, stop = events[5].offset, events[8].offset
    places = [line for line in text_of(RECORDED, start=start, stop=stop).split("\n") if line.startswith("# at ")]
    assert places == [f"# at {offset}" for offset in (4, *(event.offset for event in events[5:8]))]
    assert "# at 4\n" in text_of(RECORDED, start=10**9) + "\n"


def test_a_start_that_is_no_event_is_an_error() -> None:
    with pytest.raises(MergeError, match=r"event size|cut after|left in the file"):
        text_of(RECORDED, start=130)


def test_events_inside_a_payload_are_shown_at_its_position() -> None:
    text = text_of(RECORDED, 1)
    inside = text[text.index("# Start of compressed events.") : text.index("# End of compressed events.")]
    assert "### INSERT INTO `d`.`docs`" in inside
    assert "Xid = " in inside
    (payload,) = [record for record in records_of(RECORDED) if record["type"] == "TRANSACTION_PAYLOAD_EVENT"]
    inner = [record for record in records_of(RECORDED) if record["in_payload"]]
    assert {record["position"] for record in inner} == {payload["position"]}
    assert len(inner) > 5


def test_json_lines() -> None:
    records = records_of(RECORDED, 1)
    first = records[0]
    assert first["type"] == "FORMAT_DESCRIPTION_EVENT"
    assert first["event"] == {"server_version": "9.7.4-2", "created": first["event"]["created"], "checksum": "CRC32"}
    outer = [record for record in records if not record["in_payload"]]
    assert [a["end_position"] for a in outer[:-1]] == [b["position"] for b in outer[1:]]
    rows = [record["rows"] for record in records if "rows" in record]
    numbers = rows[0][0]["after"]
    assert numbers["bu"] == "18446744073709551615"  # more than many readers of JSON hold
    assert numbers["de"] == "-12345678.91"
    other = next(row[0]["after"] for row in rows if "s33" in row[0].get("after", {}))
    assert other["e"] == "x,y"
    assert other["j"]["b"][:2] == [True, None]
    diffs = [row for group in rows for row in group if "json_diff" in str(row)]
    assert {"operation": "REMOVE", "path": "$.l[0]"} in diffs[1]["after"]["j1"]["json_diff"]
    assert any(record["event"].get("gtid", "").endswith(":tag_a:1") for record in records)


def test_rows_come_only_when_asked_for() -> None:
    assert "###" not in text_of(RECORDED)
    assert not any("rows" in record for record in records_of(RECORDED))
    assert " /* iu LONG meta=0 nullable=1 is_null=0 */" in text_of(RECORDED, 2)


def test_rows_whose_table_map_stands_before_the_start() -> None:
    event = next(event for event in walk(RECORDED.read_bytes()) if event.type_code == EventType.WRITE_ROWS_EVENT)
    text = text_of(RECORDED, 1, start=event.offset, stop=event.end)
    assert "stands before the start position" in text


def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    from dataclasses import replace

    evil = replace(table_map((3, 0)), schema="a\x1b[2J", table="b\n`\u202e")
    rows = RowsEvent(30, 7, 1, b"", 1, None, b"\1", b"\0\1\0\0\0")
    query = Query(1, 0, 0, b"\x1b[31m\xff", b"create\ttable\nx\x07\xff", b"")
    file = write(
        tmp_path / "evil", (19, evil.pack()), (30, rows.pack()), (2, query.pack()), (29, RowsQuery(b"\x9b").pack())
    )
    for line in text_of(file, 2).split("\n"):
        assert all(c.isprintable() or c == "\t" for c in line), repr(line)
    assert "`a\\x1b[2J`.`b\\x0a``\\u202e`" in text_of(file)
    assert "# create\ttable\n# x\\x07\\xff" in text_of(file)
    for line in map(json_text, inspection.records_of(file, 4, None, 2)):
        assert line.isascii()
        assert line.isprintable()
    assert printable("é中🙂") == "é中🙂"


def test_carriers_are_shown(tmp_path: Path) -> None:
    status = b"\xc8" + (77).to_bytes(8, "little")
    commit = Query(1, 0, 0, b"", b"XA COMMIT X'61',X'',1", status)
    file = write(tmp_path / "f", (80, Sequence(2, 5).pack()), (105, Gcn(5, 6).pack()), (2, commit.pack()), (200, b"?"))
    lines: list[str] = []
    with pytest.raises(UnknownEvent, match=r"not read: UNKNOWN_EVENT\(200\)"):
        for line in inspect_file(file, 4, None, 0):
            lines.append(line)
    text = "\n".join(lines)
    assert "Sequence: commit TSO 5" in text
    assert "Gcn: commit TSO 6" in text
    assert "# commit TSO 77\n# XA COMMIT" in text
    assert "UNKNOWN_EVENT(200) (not ignorable): 1 bytes" in text
    assert "UNKNOWN_EVENT(200) (ignorable)" in text_of(write(tmp_path / "g", (200, b"?"), flags=0x80))


def test_a_file_is_read_event_by_event(tmp_path: Path) -> None:
    """The lines of an event come before the next event is read."""
    body = RowsQuery(b"x" * 100_000).pack()
    file = write(tmp_path / "big", *[(29, body)] * 20)
    with file.open("rb") as stream:
        events = read_events(stream, "big")
        for _ in range(3):
            next(events)
        assert stream.tell() < 300_000


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path / "good", (16, Xid(5).pack()))
    assert run(["inspect", str(good), "-v"]) == 0
    assert "Xid = 5" in capsys.readouterr().out
    data = bytearray(good.read_bytes())
    data[-6] ^= 1
    (tmp_path / "bad").write_bytes(data)
    assert run(["inspect", str(tmp_path / "bad")]) == 12
    out = capsys.readouterr()
    assert "Start: binlog v 4" in out.out
    assert f"position {len(data) - 31}" in out.err
    (tmp_path / "cut").write_bytes(data[:-1])
    assert run(["inspect", str(tmp_path / "cut")]) == 11
    (tmp_path / "encrypted").write_bytes(b"\xfdbin" + bytes(600))
    assert run(["inspect", str(tmp_path / "encrypted")]) == 16
    (tmp_path / "zip").write_bytes(b"PK\x03\x04" + bytes(600))
    assert run(["inspect", str(tmp_path / "zip")]) == 12
    assert run(["inspect", str(tmp_path / "absent")]) != 0
    payload = TransactionPayload.compress(b"\0" * 19)
    write(tmp_path / "payload", (40, payload.pack()))
    assert run(["inspect", str(tmp_path / "payload")]) == 12


def test_what_is_no_binlog_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.yaml").write_text("version: 1\n")
    assert run(["inspect", str(tmp_path / "cluster.yaml")]) == 12
    said = capsys.readouterr().err
    assert "the file is no binlog: it begins with 76 65 72 73" in said and "give a binlog, such as binlog.0" in said
    (tmp_path / "short").write_bytes(BINLOG_MAGIC[:2])
    assert run(["inspect", str(tmp_path / "short")]) == 11
    assert "the file begins with fe 62, and ends" in capsys.readouterr().err


def test_several_files_share_the_positions_as_mysqlbinlog_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [write(tmp_path / name, (16, Xid(n).pack()), (16, Xid(n + 1).pack())) for n, name in ((10, "a"), (20, "b"))]
    second = len(files[0].read_bytes()) - 31
    run(["inspect", *map(str, files), "--start-position", str(second), "--stop-position", str(second)])
    out = capsys.readouterr().out
    assert [line.split()[-1] for line in out.split("\n") if "Xid" in line] == ["11", "20"]


def test_damaged_lengths_do_not_ask_for_memory(tmp_path: Path) -> None:
    file = write(tmp_path / "f", (16, Xid(5).pack()))
    data = bytearray(file.read_bytes())
    data[-31 + 9 : -31 + 13] = (1 << 30).to_bytes(4, "little")
    file.write_bytes(data)
    with file.open("rb") as stream, pytest.raises(BinlogFormatError, match="31 are left in the file"):
        list(read_events(stream, "f"))
