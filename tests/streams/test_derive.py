"""What comes out of streams, and that the same bytes come out whenever and however often a process stops."""

import errno
import shutil
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.events import Query, RowsEvent, RowsQuery, TableMap, parse_event
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.rows import ABSENT, iter_rows
from binlog_merge.binlog_server.log import DumpRequest, NotServed, PublishedLog, dump_start_of
from binlog_merge.errors import ChecksumMismatch, ConfigError, IoError, MergeError, OutputBusy, OutsideLog
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.removal import before_file, remove
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Rows, events_of
from binlog_merge.log.rows import op_of
from binlog_merge.log.statement import Statement
from binlog_merge.streams import together
from binlog_merge.streams.chosen import StatementChooser
from binlog_merge.streams.derive import items_of
from binlog_merge.streams.folder import StreamWriter
from binlog_merge.streams.hashing import Hashing
from binlog_merge.streams.spec import StreamSpec
from binlog_merge.streams.together import Family, StreamKeeper
from binlog_merge.streams.transaction import Transaction
from binlog_merge.verification.whole import verify
from tests.binlog_server.merged import merged, merged_copy
from tests.effort import crossed, keeping
from tests.streams.helpers import all_written, specs, states_of, written

KINDS = (
    "plain",
    "rows tables=types.ints,types.strings rows-query=false",
    "no-ddl ddl=none",
    "maria dialect=mariadb",
    "key hash=key into=3",
    "table hash=table into=2 ddl=once",
)


def _rows(folder: Path) -> list[tuple[str, str, tuple[bytes, ...]]]:
    """Return (table, operation, first image) of the rows of an output, in order."""
    found = []
    for item in Log(folder).items():
        if isinstance(item, Rows):
            for before, after in iter_rows(item.event, item.table):
                image = after if before is None else before
                cells = tuple(bytes(c) if isinstance(c, bytes | memoryview) else b"-" for c in image or ())
                found.append((item.table.table, op_of(item.event.type_code), cells))
    return found


@pytest.mark.parametrize(("option", "case"), crossed(KINDS, ["ddl-by-markers", "all-types"]))
def test_a_stream_is_the_same_whenever_it_was_stopped(case: str, option: str, tmp_path: Path) -> None:
    out = merged(case)
    for spec in specs(option):
        at_once = written(out, tmp_path / "once", spec)
        assert written(out, tmp_path / "steps", spec, *states_of(out, 9)) == at_once
        assert list(at_once) == [file.name for file in LogFolder(out).state().files]
        verify(Log(tmp_path / "once" / spec.name), None)


def test_a_stream_of_everything_is_the_log_but_for_its_uuid(tmp_path: Path) -> None:
    out = merged("three-nodes-online-ddl")
    (spec,) = specs("plain")
    files = written(out, tmp_path, spec)
    own = LogFolder(tmp_path / "plain").state().header
    whole = LogFolder(out).state().header
    assert own is not None and whole is not None and own.cluster_uuid != whole.cluster_uuid
    for name, data in files.items():
        theirs = (out / name).read_bytes()
        assert [e.header.log_pos for e in walk(data)] == [e.header.log_pos for e in walk(theirs)]
    assert _rows(tmp_path / "plain") == _rows(out)


def test_hashes_keep_each_keys_order_and_lose_nothing(tmp_path: Path) -> None:
    out = merged("three-nodes-online-ddl")
    whole = _rows(out)
    parts = []
    for spec in specs("key hash=key into=3"):
        written(out, tmp_path, spec)
        parts.append(_rows(tmp_path / spec.name))
    assert all(parts)
    assert Counter(row for part in parts for row in part) == Counter(whole)
    keys = [{cells[0] for _, _, cells in part} for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))
    for part, own in zip(parts, keys, strict=True):
        assert part == [row for row in whole if row[2][0] in own]


def test_a_filter_leaves_tables_columns_and_comments_out(tmp_path: Path) -> None:
    out = merged("all-types")
    rules = tmp_path / "filter.toml"
    rules.write_text(
        '[filter]\nrules = ["types.ints", "types.strings"]\n'
        '[[filter.event-filters]]\nmatcher = ["types.strings"]\nignore-event = ["delete"]\n'
        '[[filter.event-filters]]\nmatcher = ["types.ints"]\nignore-insert-value-expr = "id = 1"\n'
        '[[sink.column-selectors]]\nmatcher = ["types.ints"]\ncolumns = ["*", "!*u"]\n'
    )
    (spec,) = specs(f"chosen filter={rules} rows-query=false")
    files = written(out, tmp_path, spec)
    events = [parse_event(event) for data in files.values() for event in walk(data)]
    assert not [event for event in events if isinstance(event, RowsQuery)]
    assert {event.table for event in events if isinstance(event, TableMap)} == {"ints", "strings"}
    there, whole = _rows(tmp_path / "chosen"), _rows(out)
    first = next(cells[0] for table, op, cells in whole if (table, op) == ("ints", "insert"))
    chosen = [row for row in whole if row[0] == "strings" and row[1] != "delete"]
    chosen += [row for row in whole if row[0] == "ints" and (row[1] != "insert" or row[2][0] != first)]
    assert len(chosen) < len(whole)
    assert Counter(row[:2] for row in there) == Counter(row[:2] for row in chosen)
    images = [
        image
        for item in Log(tmp_path / "chosen").items()
        if isinstance(item, Rows) and item.table.table == "ints"
        for row in iter_rows(item.event, item.table)
        for image in row
        if image is not None
    ]
    names = {
        item.table.optional.column_names
        for item in Log(tmp_path / "chosen").items()
        if isinstance(item, Rows) and item.table.table == "ints" and item.table.optional is not None
    }
    (columns,) = filter(None, names)  # some nodes' table maps have no names: then the schema store's count
    out_of = {i for i, name in enumerate(columns) if name.endswith("u")}
    assert out_of
    assert {i for image in images for i, cell in enumerate(image) if cell is ABSENT} == out_of
    ends = [event.ends_statement for event in events if isinstance(event, RowsEvent)]
    assert ends and ends[-1]


def test_a_stream_loses_files_with_the_log_and_says_what_it_never_had(tmp_path: Path) -> None:
    out = merged_copy("three-nodes-online-ddl", tmp_path, files=8)
    early, behind, lost = specs("early", "behind", "lost")
    written(out, tmp_path / "streams", early)
    manifest = Manifest.load(out)
    files = before_file(manifest.state, manifest.state.files[3].name)
    for spec, has in ((behind, 3), (lost, 2)):
        written(out, tmp_path / "streams", spec, replace(manifest.state, files=manifest.state.files[:has]))
    remove(out, manifest, files, {})
    assert list(written(out, tmp_path / "streams", behind))[-1] == manifest.state.files[-1].name
    with pytest.raises(OutsideLog, match="goes on before"):
        written(out, tmp_path / "streams", lost)
    left = written(out, tmp_path / "streams", early)
    assert list(left) == [file.name for file in LogFolder(out).state().files]
    (late,) = specs("late")
    assert list(written(out, tmp_path / "streams", late)) == list(left)
    view = PublishedLog(tmp_path / "streams" / "late").view()
    assert view.purged_rank == files[-1].last_rank
    with pytest.raises(NotServed, match="purged required binary logs"):
        dump_start_of(view, DumpRequest("", 4, GtidSet()))
    assert dump_start_of(view, DumpRequest("", 4, view.purged)).number == view.first


def test_what_is_written_of_a_stream_is_not_declared_otherwise(tmp_path: Path) -> None:
    out = merged("all-types")
    (spec,) = specs("one tables=types.ints")
    (other,) = specs("one tables=types.strings")
    written(out, tmp_path, spec)
    with pytest.raises(ConfigError, match="stream one was declared otherwise"):
        written(out, tmp_path, other)
    shutil.rmtree(tmp_path / "one")
    written(out, tmp_path, other)
    with (
        StreamWriter(LogFolder(out), tmp_path, other, print),
        pytest.raises(OutputBusy),
        StreamWriter(LogFolder(out), tmp_path, other, print),
    ):
        pass


@pytest.mark.parametrize(
    "point",
    keeping(["publish-before-manifest"], ["publish-before-rename", "publish-appended", "publish-before-manifest"]),
)
def test_a_stream_goes_on_behind_a_crash(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts of a hash, which are written together, and which the crash leaves at different places."""
    out = merged("three-nodes-online-ddl")
    streams = specs("part hash=key into=3")
    at_once = [written(out, tmp_path / "once", spec) for spec in streams]
    states = states_of(out, 12)
    reached: list[str] = []

    def crash(name: str) -> None:
        if name == point:
            reached.append(name)
            if len(reached) % 5 == 0:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("binlog_merge.files.publish.failpoint", crash)
        for state in states:
            with suppress(KeyboardInterrupt):
                all_written(out, tmp_path / "crashed", streams, state)
    assert len(reached) >= 10
    assert all_written(out, tmp_path / "crashed", streams) == at_once


def test_what_a_dialect_cannot_write_stops_its_stream_alone(tmp_path: Path) -> None:
    """A JSON difference whose document is not in the row image: the log and other streams go on."""
    out = merged("partial-json")
    maria, plain = specs("maria dialect=mariadb", "plain")
    with pytest.raises(MergeError, match="the value before is not there") as caught:
        written(out, tmp_path, maria)
    assert caught.value.position is not None and str(caught.value.file).startswith(str(out))
    rank = LogFolder(tmp_path / "maria").state().rank
    assert 0 < rank < LogFolder(out).state().rank
    reports: list[str] = []
    log = LogFolder(out)
    with StreamKeeper(log, tmp_path, [maria, plain], log.state, reports.append):
        for _ in range(600):
            if (
                reports
                and (tmp_path / "plain").exists()
                and LogFolder(tmp_path / "plain").state().rank == log.state().rank
            ):
                break
            time.sleep(0.05)
    assert [line.partition(":")[0] for line in reports] == ["stream maria stops"]
    assert LogFolder(tmp_path / "maria").state().rank == rank


def test_once_means_once_for_a_server_that_has_all_parts(tmp_path: Path) -> None:
    """Each statement about a table is in one of the streams of a hash; databases are made by whichever comes first."""
    out = merged("ddl-by-markers")
    whole = _statements(out)
    parts = []
    for spec in specs("part hash=table into=3 ddl=once"):
        written(out, tmp_path, spec)
        parts.append(_statements(tmp_path / spec.name))
    databases = [sql for sql in whole if sql.startswith("CREATE DATABASE")]
    assert databases
    others = [sql for part in parts for sql in part if not sql.startswith("CREATE DATABASE")]
    assert sorted(others) == sorted(sql for sql in whole if sql not in databases)
    for part in parts:
        made = [sql for sql in part if sql.startswith("CREATE DATABASE")]
        assert made == [sql.replace("CREATE DATABASE", "CREATE DATABASE IF NOT EXISTS", 1) for sql in databases]


@pytest.mark.parametrize("once", [False, True])
def test_a_statement_about_several_tables_is_in_their_streams(once: bool) -> None:
    """Of a list of tables to drop each stream has its own; of renames, which may swap names, all or none."""
    streams = [replace(spec, ddl="once" if once else "all") for spec in specs("part hash=table into=5")]
    of = {
        name: next(i for i, spec in enumerate(streams) if Hashing("table", spec.part, 5, None).has_table("s", name))
        for name in "abcdefgh"
    }
    assert len(set(of.values())) > 2, of
    drop = "DROP TABLE IF EXISTS a, b, c, d"
    lists = [", ".join(name for name in "abcd" if of[name] == i) for i in range(5)]
    assert _in_parts(streams, drop) == [f"DROP TABLE IF EXISTS {names}" if names else None for names in lists]
    rename, like = "RENAME TABLE a TO x, b TO a", "CREATE TABLE a LIKE b"
    named = {of["a"]} if once else {of["a"], of["b"], *_parts_of(streams, "x")}
    assert _in_parts(streams, rename) == [rename if i in named else None for i in range(5)]
    assert _in_parts(streams, like) == [like if i == of["a"] else None for i in range(5)]
    every = {0} if once else set(range(5))
    assert _in_parts(streams, "DROP DATABASE s") == ["DROP DATABASE s" if i in every else None for i in range(5)]


def _parts_of(streams: list[StreamSpec], name: str) -> set[int]:
    return {i for i, s in enumerate(streams) if Hashing("table", s.part, s.parts, None).has_table("s", name)}


def _in_parts(streams: list[StreamSpec], sql: str) -> list[str | None]:
    """Return what a statement is in each stream of a hash, None where it is not."""
    transaction = _a_statement()
    assert transaction.statement is not None
    statement = Statement(replace(transaction.statement.query, schema=b"s", query=sql.encode()))
    found = []
    for spec in streams:
        hashing = Hashing("table", spec.part, spec.parts, None)
        made = StatementChooser(spec, None, hashing).choose(replace(transaction, statement=statement), statement)
        whole = made is not None and made.pieces == transaction.pieces
        found.append(None if made is None else sql if whole else Query.parse(made.pieces[0].body).text)
    return found


def _a_statement() -> Transaction:
    log = LogFolder(merged("ddl-by-markers"))
    file = log.state().files[0]
    events = list(events_of(log, file))
    found = [item.value for item in items_of(events, file.name, 4, file.name) if isinstance(item.value, Transaction)]
    return next(transaction for transaction in found if transaction.statement is not None)


def _statements(folder: Path) -> list[str]:
    return [item.query.text for item in Log(folder).items() if isinstance(item, Statement)]


def test_a_log_with_keys_behind_transactions_has_no_streams(tmp_path: Path) -> None:
    out = merged("all-types", cts="both")
    with pytest.raises(ConfigError, match="order keys stand behind transactions"):
        written(out, tmp_path, *specs("plain"))


def test_a_statement_that_changes_rows_that_come_out_is_not_left_out(tmp_path: Path) -> None:
    """But one that leaves their shape, and all of them where the stream has none."""
    out = merged("three-nodes-online-ddl")
    rules = tmp_path / "filter.toml"
    event = '[[filter.event-filters]]\nmatcher = ["shop.*"]\nignore-event = ["{}"]\n'
    rules.write_text("[filter]\n" + event.format("all ddl"))
    with pytest.raises(ConfigError, match=r"may have another shape from there on") as caught:
        written(out, tmp_path, *specs(f"changed filter={rules}"))
    assert caught.value.position is not None
    assert LogFolder(tmp_path / "changed").state().rank > 0
    rules.write_text("[filter]\n" + event.format("create index"))
    written(out, tmp_path, *specs(f"kept filter={rules}"))
    assert _statements(tmp_path / "kept") == _statements(out)
    written(out, tmp_path, *specs("none ddl=none"))
    assert _statements(tmp_path / "none") == []
    assert _rows(tmp_path / "none") == _rows(out)


@pytest.mark.parametrize("option", ["plain", "key hash=key into=2"])
def test_damage_in_the_log_stops_a_stream_behind_what_is_sound(option: str, tmp_path: Path) -> None:
    out = merged_copy("two-nodes", tmp_path)
    streams = specs(option)
    whole = all_written(out, tmp_path / "whole", streams)
    file = LogFolder(out).state().files[1]
    data = bytearray((out / file.name).read_bytes())
    data[-40] ^= 1  # in the last transaction, or the event that ends the file
    (out / file.name).write_bytes(data)
    for _ in "twice":
        with pytest.raises(ChecksumMismatch, match="checksum"):
            all_written(out, tmp_path / "streams", streams)
        for spec, files in zip(streams, whole, strict=True):
            folder = tmp_path / "streams" / spec.name
            first, second = LogFolder(folder).state().files
            assert (folder / first.name).read_bytes() == files[first.name]
            assert files[second.name].startswith((folder / second.name).read_bytes()) and second.transactions
            assert not list(folder.glob(".*.part"))


def test_a_folder_that_cannot_be_written_is_told_with_what_helps(tmp_path: Path) -> None:
    log, (spec,) = LogFolder(merged("two-nodes")), specs("plain")
    (tmp_path / "file").touch()
    keeper = StreamKeeper(log, tmp_path / "file" / "x", [spec], log.state, lambda line: None)
    with pytest.raises(IoError, match=r"--streams-folder, and start it again"), keeper:
        pass


def test_a_full_disk_leaves_nothing_of_a_stream_that_is_tried_again(tmp_path: Path, monkeypatch: Any) -> None:
    out, (spec,) = merged("two-nodes"), specs("plain")
    family = Family(LogFolder(out), tmp_path, [spec], lambda spec: lambda text: None)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with family.writers[0]:
        monkeypatch.setattr(together, "_write", full)
        with pytest.raises(MergeError, match="No space left"):
            family.catch_up(LogFolder(out).state())
        assert not list((tmp_path / spec.name).glob(".*.part"))
        monkeypatch.undo()
        family.catch_up(LogFolder(out).state())
    assert list(written(out, tmp_path, spec)) == [file.name for file in LogFolder(out).state().files]
