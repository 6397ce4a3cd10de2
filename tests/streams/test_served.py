"""Streams as clients get them: by port and by user, by position and by GTIDs, while the log grows."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pymysql
import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server import offered as offering
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.offered import Offered, StreamLog, Unmatched
from binlog_merge.errors import IoError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.state_notes import NOTES_FOLDER, read_state_note
from binlog_merge.streams.spec import StreamSpec, load_streams
from binlog_merge.streams.together import Family
from tests.binlog_server.merged import merged
from tests.binlog_server.running import PASSWORD, Running, eventually, from_position, without
from tests.binlog_server.test_nothing_yet import Stepwise
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.growth import GrowingNode
from tests.merge_e2e.local import merge
from tests.streams.helpers import streaming, written


def _gtids(running: Running, start: GtidSet) -> int:
    kinds = [event[4] for event in running.events(without(start))]
    return kinds.count(EventType.GTID_LOG_EVENT)


def _first_gtid(reader: Running) -> bool:
    """Return whether a reader that waits gets a transaction."""
    with reader.reading(from_position(flags=0)) as events:
        return any(event[4] == EventType.GTID_LOG_EVENT for event in events)


def _caught_up(running: Running, folder: Path, rank: int) -> None:
    for _ in range(600):
        if LogFolder(folder).state().rank == rank and _rank(running) == rank:
            return
        time.sleep(0.05)
    raise AssertionError((LogFolder(folder).state().rank, running.reports))


def _rank(running: Running) -> int:
    ((executed,),) = running.query("SELECT @@global.gtid_executed")
    return int(str(executed).rpartition("-")[2] or 0)


def test_a_reader_gets_its_stream_by_port_or_by_user(tmp_path: Path) -> None:
    out = merged("all-types")
    streams = load_streams(None, ["ints tables=types.ints port=0 user=ints", "strings tables=types.strings user=s"])
    for spec in streams:
        written(out, tmp_path, spec)
    with streaming(out, tmp_path, streams) as (running, ports):
        assert list(ports) == ["ints"]
        seen = {}
        there, ints = running.port, ports["ints"]
        for user, port in (("rep", there), ("ints", there), ("s", there), ("rep", ints), ("s", ints)):
            with pymysql.connect(
                host="127.0.0.1", port=port, user=user, password=PASSWORD, ssl_disabled=True
            ) as session:
                cursor = session.cursor()
                cursor.execute("SELECT @@server_uuid, @@gtid_executed, @@port")
                (uuid, executed, at) = cursor.fetchone() or ()
                cursor.execute("SHOW TABLES FROM types LIKE 'ints'")
                assert cursor.fetchall() == (("ints",),)
                seen[user, port] = uuid
                assert at == (port if port != running.port else at) and str(executed).startswith(str(uuid))
        assert seen["ints", running.port] == seen["rep", ports["ints"]]
        assert len(set(seen.values())) == 3
        assert seen["s", ports["ints"]] == seen["ints", running.port]  # at its port everyone gets it
        for user, port in (("nobody", ports["ints"]), ("nobody", running.port)):
            with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
                pymysql.connect(host="127.0.0.1", port=port, user=user, password=PASSWORD, ssl_disabled=True)


def test_a_stream_follows_the_log_and_positions_stay(tmp_path: Path) -> None:
    """The events of a stream are those of its files; a reader goes on by GTIDs or position over a restart."""
    case = case_named("three-nodes-online-ddl")
    config = copy_case(case, tmp_path / "case", max_size(60_000))
    nodes = [GrowingNode.of(folder) for folder in sorted((tmp_path / "case" / "nodes").iterdir())]
    out = tmp_path / "out"

    def publish(part: float) -> None:
        for node in nodes:
            places = node.places(anywhere=False)
            node.grow(places[int((len(places) - 1) * part)], anywhere=False)
        merge(config, out, end_of_input=part == 1)

    publish(0.4)
    (spec,) = streams = load_streams(None, ["part hash=key into=2 port=0"])[:1]
    folder = out / ".streams" / spec.name
    with streaming(out, out / ".streams", streams) as (running, ports):
        stream = _at(running, ports[spec.name])
        rank = _last_rank(out, tmp_path / "first", spec)
        _caught_up(stream, folder, rank)
        header = LogFolder(folder).state().header
        assert header is not None
        have = GtidSet.parse_text(f"{header.cluster_uuid}:1-{rank}")
        assert (_gtids(stream, GtidSet()), _gtids(stream, have)) == (rank, 0)
        publish(0.7)
        more = _last_rank(out, tmp_path / "second", spec)
        assert more > rank
        _caught_up(stream, folder, more)
        assert _gtids(stream, have) == more - rank
    before = {path.name: path.read_bytes() for path in folder.glob("binlog.0*")}
    publish(1)
    with streaming(out, out / ".streams", streams) as (running, ports):
        stream = _at(running, ports[spec.name])
        whole = _last_rank(out, tmp_path / "third", spec)
        _caught_up(stream, folder, whole)
        assert _gtids(stream, have) == whole - rank
        files = {file.name: (folder / file.name).read_bytes() for file in LogFolder(folder).state().files}
        assert files == written(out, tmp_path / "third", spec)
        assert all(files[name].startswith(data) for name, data in before.items())
        sent = stream.events(from_position("binlog.000002"))
        behind = b"".join(files[name][4:] for name in sorted(files) if name >= "binlog.000002")
        assert b"".join(event for event in sent if event[13:17] != bytes(4)) == behind


@pytest.mark.parametrize("fails", [False, True])
def test_a_reader_that_does_not_wait_is_not_told_that_a_stream_is_empty(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one refused that has more of it already, since it is made anew."""
    go_on, catch_up = Event(), Family.catch_up

    def late(family: Family, *arguments: Any) -> None:
        if fails:
            raise IoError("no space is left")
        assert go_on.wait(60)
        catch_up(family, *arguments)

    monkeypatch.setattr(Family, "catch_up", late)
    out = merged("all-types")
    (spec,) = streams = load_streams(None, ["ints tables=types.ints port=0"])
    rank = _last_rank_of(out, tmp_path / "there", spec, catch_up)
    with streaming(out, tmp_path, streams, may_stop=fails) as (running, ports):
        stream = _at(running, ports[spec.name])
        if fails:
            with pytest.raises(pymysql.err.MySQLError, match=r"does not have all of the log, and stops: .*no space"):
                stream.events(from_position())
            return
        header = LogFolder(tmp_path / spec.name).state().header
        assert header is not None
        has = GtidSet.parse_text(f"{header.cluster_uuid}:1-{rank}")
        with ThreadPoolExecutor() as pool:
            seen = [pool.submit(_gtids, stream, GtidSet()), pool.submit(_gtids, stream, has)]
            assert eventually(lambda: sum("waits until the stream" in line for line in running.reports) == 2)
            assert not any(one.done() for one in seen)
            go_on.set()
            assert [one.result() for one in seen] == [rank, 0]


def test_while_nothing_is_published_a_reader_of_a_stream_is_told_as_one_of_the_log(tmp_path: Path) -> None:
    output = Stepwise.of(tmp_path)
    (spec,) = streams = load_streams(None, ["part hash=key into=2 port=0"])[:1]
    with streaming(output.out, tmp_path, streams) as (running, ports), ThreadPoolExecutor() as pool:
        readers = [running, _at(running, ports[spec.name])]
        for reader in readers:
            for asked in (from_position(), from_position("binlog.000001"), without(GtidSet())):
                with pytest.raises(pymysql.err.MySQLError, match=r"1236, .*nothing is published yet"):
                    reader.events(asked)
        waiting = [pool.submit(_first_gtid, reader) for reader in readers]
        assert eventually(lambda: sum(reader.waiting for reader in running.server.readers()) == 2)
        output.publish()
        assert [one.result(60) for one in waiting] == [True, True]
        _caught_up(readers[0], output.out, output.whole.rank)
        assert _gtids(readers[1], GtidSet()) == LogFolder(tmp_path / spec.name).state().rank > 0


def test_a_stream_is_made_when_it_has_what_the_log_has_by_now(tmp_path: Path) -> None:
    """And not what somebody has seen of the log some time ago: nothing, if that was before the first merge."""
    output = Stepwise.of(tmp_path)
    (spec,) = load_streams(None, ["part hash=key into=2 port=0"])[:1]
    log = PublishedLog(output.out)
    written(output.out, tmp_path, spec)
    stream = StreamLog(LogFolder(tmp_path / spec.name), log)
    assert stream.made()()
    output.publish()
    made = stream.made()
    assert not made()
    written(output.out, tmp_path, spec)
    stream.refresh()
    assert made()


def test_rules_that_match_no_table_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = merged("all-types")
    streams = load_streams(None, ["a tables=types.ints,tipes.*,!types.nothing port=0", "b tables=types.* port=0"])
    with streaming(out, tmp_path, streams) as (running, _):
        assert eventually(lambda: bool(running.reports))
        assert running.reports == ["stream a: no table of the log matches tipes.*; one that comes later is taken"]
        note = out / NOTES_FOLDER / f"serve-{socket.gethostname()}-127.0.0.1-{running.port}.json"
        assert eventually(note.exists) and read_state_note(note)["unmatched"] == {"a": ["tipes.*"]}
    there, said = [("types", "ints")], list[str]()
    monkeypatch.setattr(offering, "_EVERY", 0.0)
    offered = [Offered("a", PublishedLog(out), unmatched=streams[0].unmatched)]
    looking = Unmatched(offered, lambda: there, said.append)
    looking.look()
    there.append(("tipes", "t"))
    looking.look()
    assert looking.found == {} and said[-1] == "stream a: tipes.* matches a table now"


def _at(running: Running, port: int) -> Running:
    class _Stream(Running):
        @property
        def port(self) -> int:
            return port

    return _Stream(running.server, running.reports)


def _last_rank_of(out: Path, root: Path, spec: StreamSpec, catch_up: Any) -> int:
    """Return the same while `Family.catch_up` is another one."""
    family = Family(LogFolder(out), root, [spec], lambda spec: lambda text: None)
    with family.writers[0]:
        catch_up(family, LogFolder(out).state())
    return LogFolder(root / spec.name).state().rank


def _last_rank(out: Path, root: Path, spec: StreamSpec) -> int:
    """Return the last rank of a stream that is made at once of what the log is now."""
    written(out, root, spec)
    return LogFolder(root / spec.name).state().rank
