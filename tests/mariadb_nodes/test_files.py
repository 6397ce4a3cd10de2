"""Files that real servers wrote: what `inspect` shows of them, and what is made of them."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import parse_event
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.header import RawEvent, pack_event, walk
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.rows import Row, RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.cli import main
from binlog_merge.errors import (
    ChecksumMismatch,
    ConfigError,
    DdlNotUnderstoodError,
    EncryptedBinlog,
    IoError,
    MergeError,
    NoFiles,
    WrongNode,
)
from binlog_merge.log.inspection import inspect_file, records_of
from binlog_merge.mariadb_nodes.folder import NOTE_NAME, FolderTranslation, _Once
from binlog_merge.mariadb_nodes.rows import uncompressed_value
from binlog_merge.mariadb_nodes.translator import Translator, node_uuid
from snapshot_store.store.db import Store
from tests.merge_e2e.local import merge
from tests.small_disk import small_disk

FILES = Path(__file__).parent / "files"
NAMES = sorted(path.name for path in FILES.glob("*.00000?"))


def _as_mysql_shows(line: str) -> str:
    """Return a line of mariadb-binlog, read as latin-1, as `inspect` writes it."""
    line = re.sub(r"='(\d{4}):(\d\d):(\d\d)'$", r"='\1-\2-\3'", line)
    return re.sub(r"[\x80-\xff]", lambda m: f"\\x{ord(m.group()):02x}", line)


def _in_hex(line: str) -> str:
    """Return a GEOMETRY as mariadb-binlog shows it in the hexadecimal digits of `inspect`."""
    value = line.partition("='")[2][:-1]
    raw = re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), value).encode("latin-1")
    return f"{line.partition('=')[0]}=0x{raw.hex()}"


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_that_mariadb_binlog_shows(name: str) -> None:
    shown = [line for line in inspect_file(FILES / name, 4, None, 1) if line.startswith("###")]
    expected = (FILES / f"{name}.rows").read_text(encoding="latin-1").splitlines()
    assert len(shown) == len(expected)
    for ours, theirs in zip(shown, expected, strict=True):
        wanted = _as_mysql_shows(theirs)
        assert ours == (_in_hex(wanted) if "=0x" in ours else wanted)


def test_the_events_of_mariadb_are_shown() -> None:
    lines = "\n".join(inspect_file(FILES / "10.11.000001", 4, None, 0))
    for wanted in ("Gtid list []", "Binlog checkpoint mysql-bin.000001", "GTID 7-101-1 ddl", "GTID 7-101-3 trans"):
        assert f"\t{wanted}" in lines
    assert "GTID 7-101-20 trans XA PREPARE X'6731',X'6231',3" in lines
    assert "\tAnnotate_rows\n# update t set a='deux'" in lines
    second = "\n".join(inspect_file(FILES / "11.8-compressed.000002", 4, None, 0))
    assert "Gtid list [7-101-32]" in second
    assert "START ALTER" in second
    assert "\tQuery" in second
    records = list(records_of(FILES / "11.8-compressed.000002", 4, None, 1))
    assert records[1]["event"] == {"gtids": ["7-101-32"]}
    assert any(record["type"] == "MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1" and record["rows"] for record in records)


def _translated(data: bytes, note: Callable[[str], None] = lambda text: None) -> bytes:
    translator = Translator(note)
    return b"".join(translator.feed(event) for event in walk(data))


def _rows(data: bytes) -> Iterator[tuple[str, list[Row]]]:
    maps: dict[int, TableMap] = {}
    description = None
    for event in walk(data):
        value = parse_event(event, description)
        if event.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            description = value
        elif isinstance(value, TableMap):
            maps[value.table_id] = value
        elif isinstance(value, RowsEvent):
            table = maps[value.table_id]
            yield f"{table.schema}.{table.table}", list(iter_rows(value, table))


def _events(data: bytes) -> Iterator[tuple[RawEvent, object]]:
    yield from ((event, parse_event(event)) for event in walk(data))


@pytest.mark.parametrize("name", NAMES)
def test_a_translation_has_the_same_rows_and_only_what_mysql_knows(name: str) -> None:
    source = (FILES / name).read_bytes()
    made = _translated(source)
    assert max(event.type_code for event in walk(made)) <= EventType.GTID_TAGGED_LOG_EVENT
    compressed = ("d.ct", "d.a5")
    before = [(table, rows) for table, rows in _rows(source) if table not in compressed]
    assert [(table, rows) for table, rows in _rows(made) if table not in compressed] == before
    assert all(event.checksum is not None for event in walk(made))  # walk has verified it


def test_compressed_columns_are_as_they_were_given() -> None:
    ((_, rows),) = [found for found in _rows(_translated((FILES / "11.8.000001").read_bytes())) if found[0] == "d.a5"]
    values = [[cell and bytes(cell) for cell in after or ()] for _, after in rows]  # type: ignore[arg-type]
    assert values[0] == [
        b"\x03abc", (300).to_bytes(2, "little") + "ä".encode() * 150, (300).to_bytes(3, "little") + b"q" * 300,
        b"\x03\x00xyz",
    ]  # fmt: skip
    assert values[1] == [b"\x0a" + b"a" * 10, None, (21000).to_bytes(3, "little") + b"longer " * 3000, b"\0\0"]


def test_a_value_that_is_no_compressed_one_is_refused() -> None:
    from binlog_merge.binlog.errors import BinlogFormatError

    for value in (b"\x41x", b"\x88", b"\x8a\x00\x05abc", b"\x81\xffx"):
        with pytest.raises(BinlogFormatError):
            uncompressed_value(value)


def test_gtids_count_the_groups_and_the_list_is_what_was_before() -> None:
    made = _translated((FILES / "10.11.000002").read_bytes())
    events = list(_events(made))
    uuid = node_uuid(101, 7)
    assert str(events[1][1].gtids) == f"{uuid}:1-32"  # type: ignore[attr-defined]
    gtids = [value.text for _, value in events if isinstance(value, Gtid)]
    # 34, an account's, and 39, a START ALTER, are empty.
    assert gtids == [f"{uuid}:{number}" for number in range(33, 43)]
    texts = [value.query for _, value in events if isinstance(value, Query)]
    assert texts.count(b"BEGIN") == texts.count(b"COMMIT") + 2  # those of the rows end with an XID


def test_xa_begins_with_its_statement_and_ddl_of_two_statements_has_two_gtids() -> None:
    made = _translated((FILES / "10.11.000001").read_bytes())
    texts = [value.query.decode() for _, value in _events(made) if isinstance(value, Query)]
    at = texts.index("XA START X'6731',X'6231',3")
    assert texts[at + 1 : at + 3] == ["XA END X'6731',X'6231',3", "XA COMMIT X'6731',X'6231',3"]
    replaced = texts.index("create table cs(a int)")
    assert texts[replaced - 1] == "DROP TABLE IF EXISTS cs"
    assert sum(text.startswith("CREATE TABLE `cs`") for text in texts) == 1  # of a CREATE TABLE ... SELECT


def test_a_change_that_is_logged_as_a_statement_stays_in_its_transaction() -> None:
    """As DDL it would be asked for what it makes of a table, and be left out once that is said."""
    data = (FILES / "10.11.000001").read_bytes()[:256]
    for kind, body in (
        (EventType.MARIADB_GTID_EVENT, b"\1" + bytes(18)),
        (EventType.QUERY_EVENT, Query(1, 0, 0, b"d", b"insert into t values (1)").pack()),
        (EventType.XID_EVENT, bytes(8)),
    ):
        data += pack_event(kind, body, timestamp=1, server_id=1, position=len(data))
    values = [value for _, value in _events(_translated(data))][1:]
    assert [value.query if isinstance(value, Query) else type(value).__name__ for value in values] == [
        "Gtid", b"BEGIN", b"insert into t values (1)", "Xid",
    ]  # fmt: skip


def test_times_of_groups_never_go_back_although_statements_begin_earlier() -> None:
    made = _translated((FILES / "10.11.000002").read_bytes())
    times = [event.header.timestamp for event, value in _events(made) if isinstance(value, Gtid)]
    assert times == sorted(times)  # one statement was run with SET timestamp = 1700000000


def test_a_folder_goes_on_where_it_was(tmp_path: Path) -> None:
    source, target = tmp_path / "raw", tmp_path / "made"
    source.mkdir()
    whole = (FILES / "10.11.000001").read_bytes()
    growing = FolderTranslation([str(source)], target, lambda text: None)
    for size in (30, 300, 1000, 1001, 5000, len(whole)):
        (source / "mysql-bin.000001").write_bytes(whole[:size])
        growing.advance()
        FolderTranslation([str(source)], target, lambda text: None).advance()  # another process
    assert (target / "mysql-bin.000001").read_bytes() == _translated(whole)
    shutil.copyfile(FILES / "10.11.000002", source / "mysql-bin.000002")
    found = growing.advance()
    assert [(file.name, file.ended) for file in found] == [("mysql-bin.000001", True), ("mysql-bin.000002", True)]
    assert (target / NOTE_NAME).exists()
    assert FolderTranslation([str(source / "*.0000*")], target, lambda text: None).advance() == found


def test_the_flag_of_a_file_in_use_follows_the_server(tmp_path: Path) -> None:
    data = bytearray((FILES / "10.11.000001").read_bytes())
    data[21] |= 1
    (tmp_path / "mysql-bin.000001").write_bytes(data[:4000])
    target = tmp_path / "made"
    FolderTranslation([str(tmp_path)], target, lambda text: None).advance()
    assert (target / "mysql-bin.000001").read_bytes()[21] == 1
    data[21] &= ~1
    (tmp_path / "mysql-bin.000001").write_bytes(data)
    FolderTranslation([str(tmp_path)], target, lambda text: None).advance()
    assert (target / "mysql-bin.000001").read_bytes() == _translated(bytes(data))


def _refusal(tmp_path: Path, data: bytes) -> MergeError:
    (tmp_path / "mysql-bin.000001").write_bytes(data)
    with pytest.raises(MergeError) as raised:
        FolderTranslation([str(tmp_path)], tmp_path / "made", lambda text: None).advance()
    assert raised.value.remedy
    return raised.value


def test_what_cannot_be_translated_is_refused(tmp_path: Path) -> None:
    data = (FILES / "10.11.000001").read_bytes()
    damaged = bytearray(data)
    damaged[1020] ^= 1
    error = _refusal(tmp_path, bytes(damaged))
    assert (type(error), error.position) == (ChecksumMismatch, 988)
    assert (tmp_path / "made" / "mysql-bin.000001").read_bytes() == _translated(data[:988])
    damaged[997:1001] = (1 << 31).to_bytes(4, "little")
    assert _refusal(tmp_path, bytes(damaged)).position == 988
    encryption = pack_event(164, bytes(17), timestamp=1, server_id=1, position=256)
    assert isinstance(_refusal(tmp_path / "made" / "..", data[:256] + encryption), EncryptedBinlog)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoFiles):
        FolderTranslation([str(tmp_path)], tmp_path / "made", lambda text: None).advance()
    for name in ("mysql-bin.000001", "other.000001"):
        shutil.copyfile(FILES / "10.11.000001", tmp_path / name)
    with pytest.raises(ConfigError, match="2 series"):
        FolderTranslation([str(tmp_path)], tmp_path / "made", lambda text: None).advance()
    one = FolderTranslation([str(tmp_path / "mysql-bin.*")], tmp_path / "made", lambda text: None)
    one.advance()
    (tmp_path / "made" / NOTE_NAME).unlink()
    shutil.copyfile(FILES / "11.8.000001", tmp_path / "mysql-bin.000001")
    with pytest.raises(WrongNode):
        FolderTranslation([str(tmp_path / "mysql-bin.*")], tmp_path / "made", lambda text: None).advance()
    with pytest.raises(ConfigError, match="over the files"):
        FolderTranslation([str(tmp_path / "mysql-bin.*")], tmp_path, lambda text: None).advance()


def test_a_file_of_mysql_is_none_of_mariadbs(tmp_path: Path) -> None:
    made = _translated((FILES / "10.11.000001").read_bytes())
    assert "none of MariaDB's" in str(_refusal(tmp_path, made))


def test_an_event_that_is_not_known_is_refused(tmp_path: Path) -> None:
    data = (FILES / "10.11.000001").read_bytes()[:370]
    unknown = pack_event(175, b"12345678", timestamp=1, server_id=1, position=370)
    assert "type 175" in str(_refusal(tmp_path, data + unknown))


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_a_table_of_a_database_that_was_made_before_the_log_is_set_as_the_error_says(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, node = (FILES / "10.11.000001").read_bytes()[:256], tmp_path / "s1"
    for sql in (b"create table t (a int primary key, u uuid default uuid_v7())", b"create table other (a int)"):
        data += pack_event(EventType.MARIADB_GTID_EVENT, bytes(12) + b"\1" + bytes(6), timestamp=1, server_id=1,
                           position=len(data))  # fmt: skip
        data += pack_event(EventType.QUERY_EVENT, Query(1, 0, 0, b"d", sql).pack(), timestamp=1, server_id=1,
                           position=len(data))  # fmt: skip
    node.mkdir()
    (node / "mysql-bin.000001").write_bytes(_translated(data))
    config = tmp_path / "cluster.yaml"
    config.write_text(
        f"version: 1\nname: maria\nshard-mode: {mode}\ncommit-tso: {{carrier: gtid-time}}\n"
        f"nodes: [{{source-id: s1, files: ['{node}/mysql-bin.*']}}]\n"
    )
    with pytest.raises(DdlNotUnderstoodError, match="uuid") as raised:
        merge(config, tmp_path / "out")
    (tmp_path / "t.sql").write_text("CREATE TABLE t (a INT PRIMARY KEY, u CHAR(36))")
    said = ["--sql", str(tmp_path / "t.sql"), "--store", str(tmp_path / "out"), "--node", "s1"]
    assert main.run(["schema", "set", "d.t", *said, "--at-tso", str(raised.value.order_key)]) == 0, capsys.readouterr()
    merge(config, tmp_path / "out")
    with Store.open(tmp_path / "out" / "schema.duckdb", read_only=True) as store:
        (version,) = store.history_of([(None, "d", "t")]).versions
    assert version.table is not None
    assert [column.name for column in version.table.columns] == ["a", "u"]


def test_a_translation_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    """A capture that waits for room keeps the translation in memory."""
    data, raw = (FILES / "10.11.000001").read_bytes(), tmp_path / "raw"
    raw.mkdir()
    (raw / "m.000001").write_bytes(data[:600])
    with small_disk(tmp_path / "disk", 1) as disk:
        translation = FolderTranslation([str(raw)], disk / "made", lambda text: None)
        translation.advance()
        room = os.statvfs(disk)
        with (disk / "ballast").open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_frsize)
        (raw / "m.000001").write_bytes(data)
        for _ in range(2):
            with pytest.raises(IoError, match="No space left"):
                translation.advance()
        (disk / "ballast").unlink()
        translation.advance()
        assert (disk / "made" / "m.000001").read_bytes() == _translated(data)


def test_only_what_retention_removes_of_a_translation_counts_as_removed(tmp_path: Path) -> None:
    """The files of the server may be the only ones that are left: the server purges its own."""
    raw, made = tmp_path / "raw", tmp_path / "made"
    raw.mkdir()
    for number, name in enumerate(("10.11.000001", "10.11.000002", "10.11.000002"), 1):
        shutil.copy(FILES / name, raw / f"m.00000{number}")

    def translation() -> FolderTranslation:
        found = FolderTranslation([str(raw)], made, lambda text: None)
        assert found.removed() == []
        found.advance()
        return found

    translation()
    whole = {path.name: path.read_bytes() for path in made.glob("m.*")}
    for names in (["m.000002"], ["m.000001", "m.000002", "m.000003"]):
        for name in names:
            (made / name).unlink()
        translation()
        assert {path.name: path.read_bytes() for path in made.glob("m.*")} == whole
    (made / "m.000001").unlink()
    assert FolderTranslation([str(raw)], made, lambda text: None).removed() == [raw / "m.000001"]


def test_files_that_are_done_are_not_looked_at_again(tmp_path: Path) -> None:
    raw, made = tmp_path / "raw", tmp_path / "made"
    raw.mkdir()
    for number in range(1, 31):
        shutil.copy(FILES / "10.11.000002", raw / f"m.{number:06}")
    translation = FolderTranslation([str(raw)], made, lambda text: None)
    opened, watching = [], True

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event == "open" and str(arguments[0]).startswith(str(tmp_path)):
            opened.append(Path(str(arguments[0])).name)

    found = translation.advance()
    assert all(file.ended for file in found)
    sys.addaudithook(watch)
    assert (translation.removed(), translation.advance(), opened) == ([], found, [])
    shutil.copy(FILES / "10.11.000001", raw / "m.000031")
    assert len(translation.advance()) == 31
    assert {name for name in opened if name.startswith("m.")} == {"m.000031"}
    watching = False


def test_each_text_is_said_once_and_only_the_last_ones_are_remembered(tmp_path: Path) -> None:
    said: list[str] = []
    once = _Once(said.append)
    for number in range(5000):
        once(f"{number}")
        once(f"{number}")
    assert said == [f"{number}" for number in range(5000)]
    assert len(once.remembered) == 1000


def test_a_file_that_was_begun_is_looked_at_until_it_is_one(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    shutil.copy(FILES / "10.11.000001", raw / "m.000001")
    (raw / "m.000002").touch()
    translation = FolderTranslation([str(raw)], tmp_path / "made", lambda text: None)
    assert [file.name for file in translation.advance()] == ["m.000001", "m.000002"]
    (raw / "m.000002").write_bytes(b"no binlog")
    assert [file.name for file in translation.advance()] == ["m.000001"]
