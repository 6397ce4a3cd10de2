"""Files are there whole or not at all; what notes say is checked; one module writes both."""

import ast
import json
import os
import stat
from pathlib import Path
from typing import Any, Final

import pytest

from binlog_merge.bootstrap.values import _PROGRESS as PROGRESS
from binlog_merge.bootstrap.values import _STAGE as STAGE
from binlog_merge.bootstrap.values import Identity, Progress, Stage
from binlog_merge.config.nodes import _KIND as OF_SERVER
from binlog_merge.config.nodes import _Server
from binlog_merge.errors import IoError, ManifestError
from binlog_merge.files.archived import _HEAD as ARCHIVE
from binlog_merge.files.archived import _Head
from binlog_merge.files.as_of import _KIND as AS_OF
from binlog_merge.files.as_of import AsOf
from binlog_merge.files.removal import _KIND as REMOVED
from binlog_merge.files.removal import RemovedBefore
from binlog_merge.files.servers import _LINE as SERVER
from binlog_merge.files.servers import FollowingServer, LogEnd
from binlog_merge.mariadb_nodes.folder import _KIND as TRANSLATED
from binlog_merge.mariadb_nodes.folder import Done
from binlog_merge.node_capture.files import _KIND as RECORD
from binlog_merge.node_capture.files import _Recorded, _Synced
from binlog_merge.node_capture.switch_request import _KIND as SWITCH
from binlog_merge.node_capture.switch_request import SwitchRequest
from binlog_merge.targets.parquet import _POSITION as POSITION
from binlog_merge.targets.parquet import _Position
from binlog_merge.whole_files import NoteKind, appearing, read_note, write_note, write_whole

UUID: Final = "3f0e5a2c-0000-4000-8000-00000000001d"
NOTES: Final[list[tuple[NoteKind[Any], Any, str]]] = [
    (
        AS_OF,
        AsOf(UUID, "binlog.000003", "4:5", 18211, 1790000000123456),
        f'{{"version": 1, "server_uuid": "{UUID}", "file": "binlog.000003", "identity": "4:5", "position": 18211, '
        '"clock_us": 1790000000123456}',
    ),
    (
        REMOVED,
        RemovedBefore("binlog.000001", "binlog.000006", f"{75:054d}", "/m", 1790000000.5),
        f'{{"version": 1, "first": "binlog.000001", "last": "binlog.000006", "below": "{75:054d}", "out": "/m", '
        '"at": 1790000000.5}',
    ),
    (
        TRANSLATED,
        Done({"mysql-bin.000001": (8212, 15190)}),
        '{"version": 1, "files": {"mysql-bin.000001": [8212, 15190]}}',
    ),
    (OF_SERVER, _Server(1), '{"version": 1, "lower_case_table_names": 1}'),
    (
        RECORD,
        _Recorded(UUID, UUID, _Synced("binlog.000001", 4, 158)),
        f'{{"version": 1, "server_uuid": "{UUID}", "replica_uuid": "{UUID}", "synced": {{"file": "binlog.000001", '
        '"last": 4, "end": 158}, "hole": null, "begun": null}',
    ),
    (
        SWITCH,
        SwitchRequest("a1", "mysql://u@h", 5.0, {"folder": "x"}),
        '{"version": 1, "id": "a1", "server": "mysql://u@h", "until": 5.0, "answer": {"folder": "x"}}',
    ),
    (
        SERVER,
        FollowingServer(
            f"000002-{UUID}", UUID, "mysql://b", 1.5, LogEnd("", "b.000009", 50), f"{UUID}:1-7", "b.000002"
        ),
        f'{{"version": 1, "folder": "000002-{UUID}", "server_uuid": "{UUID}", "server": "mysql://b", "at": 1.5, '
        f'"ended": {{"folder": "", "file": "b.000009", "position": 50}}, "captured": "{UUID}:1-7", '
        '"begins_in": "b.000002"}',
    ),
    (
        ARCHIVE,
        _Head("s3://bucket/a", True, {"b.000001": "b.000001.zst"}),
        '{"version": 1, "to": "s3://bucket/a", "active": true, "names": {"b.000001": "b.000001.zst"}}',
    ),
    (
        POSITION,
        _Position(UUID, 210, "typed", f"{75:054d}", 2, "null"),
        f'{{"cluster_uuid": "{UUID}", "rank": 210, "temporal": "typed", "order_key": "{75:054d}", "columns": 2, '
        '"zero_dates_as_text": "null"}',
    ),
    (
        STAGE,
        Stage("copying", 2, 7, (("shop", "t"),), {"dn": Identity(UUID, 9)}, 8, (("shop", "u"),), {"shop.t": 5}, ("a",)),
        '{"phase": "copying", "number": 2, "low": 7, "tables": [["shop", "t"]], '
        f'"servers": {{"dn": ["{UUID}", 9]}}, "high": 8, "again": [["shop", "u"]], "rows": {{"shop.t": 5}}, '
        '"repeated": ["a"], "doubted": []}',
    ),
    (PROGRESS, Progress(("1", None), False, 3), '{"after": ["1", null], "done": false, "rows": 3}'),
]
MAY_BE_MISSING: Final = {
    *("synced", "answer", "hole", "begun"),
    *("order_key", "columns", "zero_dates_as_text"),
    *("high", "again", "rows", "repeated", "doubted"),
    *("after", "done"),
}
"""Fields that earlier releases have not written, or that have a default."""
"""Kinds of notes, a value of each, and the bytes that releases have written of it."""


@pytest.mark.parametrize(("kind", "value", "text"), NOTES)
def test_a_note_is_what_earlier_ones_were(kind: NoteKind[Any], value: Any, text: str) -> None:
    assert kind.dump(value) == text.encode() + b"\n"
    assert kind.parse(text.encode()) == value


def test_a_record_that_was_never_synced_has_no_place() -> None:
    text = f'{{"version": 1, "server_uuid": "{UUID}", "replica_uuid": "{UUID}"}}'
    assert RECORD.parse(text.encode()) == _Recorded(UUID, UUID)


@pytest.mark.parametrize(("kind", "value", "text"), NOTES)
def test_damage_is_an_error_or_another_value(kind: NoteKind[Any], value: Any, text: str) -> None:
    data = text.encode()
    for at in range(len(data)):
        for byte in (data[at] ^ 0x10, 0x22, 0x80):
            damaged = data[:at] + bytes([byte]) + data[at + 1 :]
            try:
                found = kind.parse(damaged)
            except ValueError:
                continue
            assert type(found) is type(value)
        with pytest.raises(ValueError, match=r"."):
            kind.parse(data[:at])


@pytest.mark.parametrize(("kind", "value", "text"), NOTES)
def test_each_field_is_checked(kind: NoteKind[Any], value: Any, text: str) -> None:
    values = json.loads(text)
    for name in values:
        wrongs: tuple[object, object] = (
            {} if isinstance(values[name], list) else [],
            5 if isinstance(values[name], str) else "x",
        )
        for wrong in wrongs:
            with pytest.raises(ValueError, match=name if name != "version" else r"."):
                kind.parse(json.dumps({**values, name: 2 if name == "version" else wrong}).encode())
        if name not in MAY_BE_MISSING:
            with pytest.raises(ValueError, match=name):
                kind.parse(json.dumps({other: each for other, each in values.items() if other != name}).encode())
    for text in ("", "[]", "1", "null", "[" * 10000):
        with pytest.raises(ValueError, match=r"."):
            kind.parse(text.encode())


def test_a_note_on_disk(tmp_path: Path) -> None:
    path = tmp_path / ".as-of" / "note.json"
    remedy = "remove it"
    assert read_note(path, AS_OF, "the note", remedy) is None
    write_note(path, AS_OF, NOTES[0][1])
    assert read_note(path, AS_OF, "the note", remedy) == NOTES[0][1]
    assert [each.name for each in path.parent.iterdir()] == ["note.json"]
    path.write_bytes(b"{")
    with pytest.raises(ManifestError, match="the note is damaged") as caught:
        read_note(path, AS_OF, "the note", remedy)
    assert caught.value.file == str(path) and caught.value.remedy == remedy
    with pytest.raises(IoError):
        read_note(tmp_path, AS_OF, "the note", remedy)
    with pytest.raises(IoError):
        write_note(tmp_path / "no" / "such" / "note.json", AS_OF, NOTES[0][1])


def test_what_nobody_else_may_read(tmp_path: Path) -> None:
    write_note(tmp_path / "switch", SWITCH, NOTES[4][1], mode=0o600, writer="a1")
    assert stat.S_IMODE((tmp_path / "switch").stat().st_mode) == 0o600


def test_a_file_that_cannot_be_replaced_stays_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").touch()
    with pytest.raises(IoError):
        write_whole(tmp_path / "there", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    part = path.with_name(".out.part")
    part.write_bytes(b"of one that was killed")
    with appearing(path) as to:
        to.write_bytes(b"whole")
        assert to == part and not path.exists()
    assert path.read_bytes() == b"whole" and os.listdir(tmp_path) == ["out"]  # noqa: PTH208
    with pytest.raises(ZeroDivisionError), appearing(path) as to:
        to.write_bytes(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"whole" and os.listdir(tmp_path) == ["out"]  # noqa: PTH208


PARTS: Final = {
    "whole_files.py": "all that is written at once, and what users name",
    "files/publish.py": "output files, whose parts are joined by the manifest",
    "files/objects.py": "objects of a folder, which must not replace one another",
    "files/disk.py": "room that is kept free",
    "node_capture/kept.py": "captured files that become visible together",
    "targets/parquet.py": "many files that become visible together",
    "tables/snapshot_places.py": "a DuckDB file that is copied",
    "cli/flashback.py": "a folder of files",
    "spark/java.py": "what Java writes",
}
"""The modules that give a file a name of its own while it is written, and why they are not `whole_files`."""


def test_one_module_writes_files_whole() -> None:
    root = Path(__file__).resolve().parents[1] / "binlog_merge"
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".part")
    }
    assert found == set(PARTS)
