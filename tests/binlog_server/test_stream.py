"""From a place in the log on: what is sent is what stands in the files, without what the reader has."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.constants import EVENT_HEADER_LEN
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server import stream as serve_stream
from binlog_merge.binlog_server.log import DumpRequest, NotServed, PublishedLog
from binlog_merge.binlog_server.stream import AtEnd, Events, Item, Opened, Skipped, stream
from binlog_merge.errors import ChecksumMismatch, ManifestError
from binlog_merge.files.manifest import Manifest, OutputFile
from binlog_merge.log.rank_set import RankSet
from tests.binlog_server.merged import merged, merged_copy
from tests.merge_e2e.editing import GTIDS, Log
from tests.merge_e2e.local import written

CASE = "two-nodes"


def _read(log: PublishedLog, start: DumpRequest) -> list[Item]:
    """Return what comes up to the first end, which is included."""
    items: list[Item] = []
    for item in stream(log, start):
        items.append(item)
        if isinstance(item, AtEnd):
            break
    return items


def _came(items: Iterable[Item]) -> list[bytes]:
    """Return the events among items, one by one."""
    return [bytes(event) for item in items if isinstance(item, Events) for event in item.each()]


def _events(out: Path) -> list[tuple[str, int, bytes]]:
    """Return file, position and bytes of every event of the files, by means that are not the product's."""
    found = []
    for name, data in written(out).items():
        at = 4
        while at < len(data):
            size = int.from_bytes(data[at + 9 : at + 13], "little")
            found.append((name, at, data[at : at + size]))
            at += size
    return found


def test_from_the_beginning_every_byte_of_every_file_comes() -> None:
    out = merged(CASE)
    items = _read(PublishedLog(out), DumpRequest("", 4))
    files = written(out)
    assert len(files) > 2
    assert [item.file for item in items if isinstance(item, Opened)] == list(files)
    assert _came(items) == [data for _, _, data in _events(out)]
    last = list(files)[-1]
    assert items[-1] == AtEnd(last, len(files[last]))


def test_from_every_position_the_rest_comes_behind_a_format_description_that_moves_nothing() -> None:
    out = merged(CASE)
    events = _events(out)
    log = PublishedLog(out)
    for i, (file, position, _) in enumerate(events):
        if position == 4:
            continue
        opened, description, *rest = _read(log, DumpRequest(file, position))
        assert opened == Opened(file, position)
        assert isinstance(description, Events)
        assert description.data[13:17] == bytes(4), "log_pos is 0"
        assert _came(rest) == [data for _, _, data in events[i:]]


@given(st.sets(st.integers(1, 12)), st.integers(0, 12), st.integers(EVENT_HEADER_LEN, 3000), st.integers(1, 9))
def test_with_auto_position_just_what_the_reader_lacks_comes(has: set[int], low: int, chunk: int, most: int) -> None:
    """However the file is read in pieces, and however few events go into a batch."""
    out = merged(CASE)
    log = PublishedLog(out)
    view = log.view()
    has = {rank for rank in has | set(range(1, low + 1)) if rank <= view.state.rank}
    with mock.patch.object(serve_stream, "_CHUNK", chunk), mock.patch.object(serve_stream, "_MOST_EVENTS", most):
        items = _read(log, DumpRequest("", 4, view.gtids_of(RankSet.of(has))))
    came, known, rank = [], False, 0
    for file, _, data in _events(out):
        if data[4] in GTIDS:
            rank += 1
            known = rank in has
        elif data[4] in (4, 15, 35):
            known = False
        if not known:
            came.append((file, data))
    first = next((f.name for f in view.files if set(range(f.first_rank, f.last_rank + 1)) - has), view.files[-1].name)
    expected = [data for file, data in came if file >= first]
    # The first description, too: log_pos 0 in it would make a replica wait for the rest of a transaction.
    assert _came(items) == expected
    skipped = sum(isinstance(item, Skipped) for item in items)
    assert skipped == len({r for r in has if r >= next(f.first_rank for f in view.files if f.name == first)})


def test_what_a_source_would_refuse_is_refused_in_its_words(tmp_path: Path) -> None:
    out = merged_copy(CASE, tmp_path)
    log = PublishedLog(out)
    view = log.view()
    files, sid = written(out), view.sid
    size = len(files["binlog.000001"])
    refused = {
        "Could not find first log file name": DumpRequest("binlog.000077", 4),
        "position > file size": DumpRequest("binlog.000001", size + 1),
        "position < 4": DumpRequest("binlog.000001", 3),
        "no event begins at binlog.000001:160": DumpRequest("binlog.000001", 160),
        "Replica has more GTIDs than the source": DumpRequest("", 4, GtidSet.of([(sid, "", 1, view.state.rank + 2)])),
        "more GTIDs than the source has": DumpRequest("", 4, GtidSet.of([(sid, "tag", 1, 2)])),
    }
    for words, start in refused.items():
        with pytest.raises(NotServed, match=words):
            _read(log, start)
    elsewhere = GtidSet.of([(bytes(16), "", 1, 1000)])
    assert _came(_read(log, DumpRequest("", 4, elsewhere))) == _came(_read(log, DumpRequest("", 4)))
    (out / "binlog.000001").unlink()
    gone = view.files[0].last_rank
    with pytest.raises(
        NotServed, match=rf"purged required binary logs.*missing transactions are '[0-9a-f-]+:1-{gone}'"
    ):
        _read(log, DumpRequest("", 4, GtidSet()))
    assert str(log.view().purged).endswith(f":1-{gone}")
    assert isinstance(_read(log, DumpRequest("", 4, log.view().purged))[1], Events)
    assert _read(log, DumpRequest("", 4))[0] == Opened("binlog.000002", 4)


def test_a_log_without_gtids_has_no_auto_position() -> None:
    with pytest.raises(NotServed, match="GTID_MODE = OFF"):
        _read(PublishedLog(merged(CASE, gtid="anonymous")), DumpRequest("", 4, GtidSet()))


@pytest.mark.parametrize("chunk", [60, 1 << 18])
@pytest.mark.parametrize("at", ["body", "size", "end", "boundary", "header", "magic"])
def test_damage_ends_the_stream_before_it(at: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_stream, "_CHUNK", chunk)
    out = merged_copy(CASE, tmp_path)
    events = _events(out)
    number, (file, position, _) = next(
        (i, e) for i, e in enumerate(events) if e[0] == "binlog.000002" and e[2][4] == 30
    )
    data = bytearray((out / file).read_bytes())
    if at == "body":
        data[position + 25] ^= 1
    elif at == "size":
        data[position + 9] ^= 0x40
    elif at == "magic":
        data[1] ^= 1
        position, number = 0, next(i for i, e in enumerate(events) if e[0] == file)
    else:
        del data[position + {"end": 30, "boundary": 0, "header": 5}[at] :]
    (out / file).write_bytes(data)
    came: list[Item] = []
    with pytest.raises(ChecksumMismatch) as caught:
        came.extend(stream(PublishedLog(out), DumpRequest("", 4)))
    assert (caught.value.file, caught.value.position) == (str(out / file), position)
    came = []
    with pytest.raises(ChecksumMismatch):
        for item in stream(PublishedLog(out), DumpRequest("", 4)):
            came.append(item)
    assert _came(came) == [data for _, _, data in events[:number]]


def test_a_transaction_that_does_not_fit_is_damage_to_a_reader_that_skips_it(tmp_path: Path) -> None:
    out = merged_copy(CASE, tmp_path)
    name = sorted(written(out))[-1]
    log = Log.load((out / name).read_bytes())
    gtid = next(event for event in log.events if event.type in GTIDS)
    cut = next(event.at for event in log.events if event.at > gtid.at)
    view = PublishedLog(out).view()
    assert cut < view.files[-1].size
    published = _with_files(out, [*view.files[:-1], replace(view.files[-1], size=cut)])
    with pytest.raises(ChecksumMismatch, match="does not fit"):
        _read(published, DumpRequest("", 4, view.executed))


def _with_files(out: Path, files: Iterable[OutputFile]) -> PublishedLog:
    """Return a log whose manifest says that these files are published."""
    log = PublishedLog(out)
    view = log.view()
    log._view = replace(view, state=replace(view.state, files=tuple(files)))
    return log


def test_behind_the_last_file_if_it_is_closed_the_next_one_is_waited_for() -> None:
    """A replica is there: the file's ROTATE has taken it to the next one, and its heartbeats must come from there."""
    files = PublishedLog(merged(CASE)).view().files
    log = _with_files(merged(CASE), files[:2])
    assert files[1].closed
    behind = AtEnd(files[2].name, 4)
    assert log.view().end == (files[2].name, 4)
    assert _read(log, DumpRequest("", 4))[-1] == behind
    assert _read(log, DumpRequest(files[2].name, 4)) == [behind]
    assert _read(log, DumpRequest("", 4, log.view().executed))[-1] == behind


def test_another_output_in_the_directory_is_no_continuation(tmp_path: Path) -> None:
    out = merged_copy(CASE, tmp_path)
    log = PublishedLog(out)
    log.refresh()
    lines = (out / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (out / "manifest.jsonl").write_bytes(lines[0])
    assert Manifest.load(out).state.rank == 0
    with pytest.raises(ManifestError, match="another output than before"):
        log.refresh()
    (out / "manifest.jsonl").unlink()
    with pytest.raises(ManifestError, match="no merge has written here"):
        PublishedLog(out)


def test_an_output_that_has_nothing_yet_is_waited_for(tmp_path: Path) -> None:
    out = merged_copy(CASE, tmp_path)
    lines = (out / "manifest.jsonl").read_bytes()
    (out / "manifest.jsonl").write_bytes(lines.splitlines(keepends=True)[0])
    log = PublishedLog(out)
    items = stream(log, DumpRequest("", 4))
    assert log.view().end == ("binlog.000001", 4)
    assert next(items) == AtEnd("binlog.000001", 4)
    (out / "manifest.jsonl").write_bytes(lines)
    with log.bell() as bell:
        log.refresh()
        assert bell.recv(10)
    assert next(items) == Opened("binlog.000001", 4)
    assert isinstance(next(items), Events)
