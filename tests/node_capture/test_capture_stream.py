"""A dump's events become the server's files: whole dumps, cut ones that go on, and what must stop."""

import contextlib
import random
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.errors import ChecksumMismatch, MergeError, Purged, ServerRefused, UnsupportedInput, WrongNode
from binlog_merge.node_capture import stream as capture_stream
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.node_capture.source import payloads
from binlog_merge.node_capture.stream import Append, Begin, CapturedEnd, Expect, Finish, Stream, file_number, successor
from tests.node_capture.model_source import IN_USE, ROTATE, STOP, dump, events, file_of, name_of

UUID = "11111111-2222-3333-4444-555555555555"


def in_use(data: bytes) -> bytes:
    return data[:IN_USE] + bytes([data[IN_USE] | 1]) + data[IN_USE + 1 :]


def feed(stream: Stream, sent: Iterable[bytes]) -> list[object]:
    return [action for event in sent for action in stream.feed(memoryview(event))]


@st.composite
def servers(draw: st.DrawFn, algs: tuple[int, ...] = (0, 1)) -> dict[str, bytes]:
    """Files of a server, in order: with checksums and without, ended by ROTATE, STOP or a crash; the last one open."""
    first, count = draw(st.sampled_from([1, 9, 999_998])), draw(st.integers(1, 4))
    files = {}
    for number in range(first, first + count):
        bodies = draw(st.lists(st.binary(max_size=40), max_size=5))
        last = number == first + count - 1
        end = None if last else draw(st.sampled_from([ROTATE, ROTATE, STOP, None]))
        data = file_of(bodies, number=number, alg=draw(st.sampled_from(algs)), end=end)
        files[name_of(number)] = in_use(data) if last else data
    return files


def run(directory: Path, files: dict[str, bytes], stop: int) -> None:
    """Capture as a node's thread does, and break off behind so many events."""
    node = NodeFiles(directory, "dn-1")
    node.record(UUID)
    place = node.resume() or CapturedEnd(next(iter(files)))
    stream = Stream("dn-1", place)
    for i, event in enumerate(dump(files, place.name, place.dump_from, heartbeats=True)):
        if i == stop:
            break
        for action in stream.feed(memoryview(event)):
            node.apply(action)
        if i % 9 == 0:
            node.sync()
    node.close()


@given(servers(), st.randoms(use_true_random=False), st.integers(0, 6))
@settings(max_examples=30)
def test_files_come_out_as_they_are_however_a_capture_is_cut(
    files: dict[str, bytes], rng: random.Random, cuts: int
) -> None:
    """Broken off behind any event, its last file torn anywhere or with rubbish behind it: in the end it is the same."""
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        for _ in range(cuts):
            # What the server had then: its files up to some event.
            names = list(files)[: rng.randint(1, len(files))]
            then = {name: files[name] for name in names}
            ends = [at + len(event) for at, event in events(then[names[-1]])]
            then[names[-1]] = then[names[-1]][: rng.choice(ends)]
            have = [path for name in files if (path := directory / name).exists()]
            if have and (have[-1].name not in then or have[-1].stat().st_size > len(then[have[-1].name])):
                continue  # a server does not go back
            with contextlib.suppress(WrongNode):
                run(directory, then, rng.randint(0, 40))
            if have := [path for name in files if (path := directory / name).exists()]:
                tear(have[-1], rng)
        run_to_the_end(directory, files)
        found = {path.name: path.read_bytes() for path in directory.glob("binlog.*")}
        assert found == files


def run_to_the_end(directory: Path, files: dict[str, bytes]) -> None:
    """Capture what there is; where a file without checksums was torn beyond notice, do what the error says."""
    try:
        run(directory, files, 10_000)
    except WrongNode as error:
        assert "if this machine crashed, remove the captured file" in error.remedy
        assert error.file is not None and files[error.file][4 + 19 + 99] == 0
        (directory / error.file).unlink()
        run(directory, files, 10_000)


def tear(path: Path, rng: random.Random) -> None:
    """Leave a file as a crash may: cut, with a part of it never written, or with something behind its end."""
    data = path.read_bytes()
    cut = rng.randint(0, len(data))
    path.write_bytes(rng.choice([data, data[:cut], data[:cut] + bytes(len(data) - cut), data + rng.randbytes(30)]))
    if rng.random() < 0.5:
        (path.parent / ".capture.json").unlink()


@given(servers(algs=(1,)), st.randoms(use_true_random=False))
def test_damage_is_never_written(files: dict[str, bytes], rng: random.Random) -> None:
    """Where there are checksums, what is written is what the server has, whatever bit changed on the way."""
    sent = [bytearray(event) for event in dump(files, next(iter(files)), 4)]
    damaged = rng.choice(sent)
    damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    written = bytearray()
    stream = Stream("dn-1", CapturedEnd(next(iter(files))))
    with contextlib.suppress(ChecksumMismatch, Purged, ServerRefused, UnsupportedInput):
        for event in sent:
            for action in stream.feed(memoryview(event)):
                written += action.data if isinstance(action, Append) else b""
    assert b"".join(map(in_use, files.values())).startswith(written)


def test_what_a_dump_does() -> None:
    one = file_of([b"a", b"bc"], number=1, alg=1, end=ROTATE)
    two = file_of([b"d"], number=2, alg=1, end=None)
    actions = feed(
        Stream("dn-1", CapturedEnd("binlog.000001")),
        dump({"binlog.000001": one, "binlog.000002": two}, "binlog.000001", 4),
    )
    kinds = [type(action) for action in actions]
    assert kinds == [Begin, Append, Append, Append, Append, Finish, Begin, Append, Append]
    assert b"".join(bytes(a.data) for a in actions if isinstance(a, Append)) == in_use(one) + in_use(two)


def test_a_dump_that_goes_on_begins_with_what_is_there() -> None:
    data = file_of([b"a", b"bc", b"d"], number=7, alg=1, end=None)
    places = [at for at, _ in events(data)]
    place = CapturedEnd("binlog.000007", places[2], places[3])
    stream = Stream("dn-1", place)
    actions = feed(stream, dump({"binlog.000007": data}, "binlog.000007", place.dump_from))
    assert actions == [
        Expect(places[2], memoryview(data[places[2] : places[3]])),
        Append(memoryview(data[places[3] :])),
    ]
    assert stream.reached(7, len(data)) and not stream.reached(7, len(data) + 1)
    assert stream.reached(6, 1 << 40) and not stream.reached(8, 4)


def test_beyond_four_bytes_of_position_the_file_comes_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert CapturedEnd("binlog.000001", (1 << 32) - 1, 1 << 32).dump_from == (1 << 32) - 1
    assert CapturedEnd("binlog.000001", 1 << 32, (1 << 32) + 50).dump_from == 4
    monkeypatch.setattr(capture_stream, "POSITION_LIMIT", 130)
    data = in_use(file_of([b"a", b"bc", b"d"], number=7, alg=1, end=None))
    for stop in (5, 11, 10_000):
        run(tmp_path, {"binlog.000007": data}, stop)
    assert (tmp_path / "binlog.000007").read_bytes() == data
    (tmp_path / "binlog.000007").write_bytes(in_use(file_of([b"x", b"bc", b"d"], number=7, alg=1, end=None)))
    with pytest.raises(WrongNode, match="other bytes"):
        run(tmp_path, {"binlog.000007": data}, 10_000)


def refused(kind: type[MergeError], sent: Iterable[bytes], place: CapturedEnd | None = None) -> MergeError:
    with pytest.raises(kind) as caught:
        feed(Stream("dn-1", place or CapturedEnd("binlog.000001")), sent)
    return caught.value


FILES = {
    "binlog.000001": file_of([b"a", b"bc"], number=1, alg=1, end=ROTATE),
    "binlog.000002": file_of([b"d"], number=2, alg=1, end=None),
}


def test_a_missing_event_stops() -> None:
    sent = list(dump(FILES, "binlog.000001", 4))
    error = refused(ChecksumMismatch, [*sent[:3], *sent[4:]])
    assert (error.node, error.file, error.position) == ("dn-1", "binlog.000001", 4 + len(sent[1]) + len(sent[2]))
    assert "by its length" in error.message


def test_a_file_without_a_beginning_stops() -> None:
    sent = list(dump(FILES, "binlog.000001", 4))
    assert "before the format description" in refused(ChecksumMismatch, [sent[0], *sent[2:]]).message
    assert "the name of its file" in refused(ChecksumMismatch, sent[1:]).message


def test_a_gap_between_files_stops() -> None:
    files = {"binlog.000001": FILES["binlog.000001"], "binlog.000003": FILES["binlog.000002"]}
    error = refused(Purged, dump(files, "binlog.000001", 4))
    assert "goes on with binlog.000003:4, not with binlog.000002" in error.message


@pytest.mark.parametrize(
    "name", ["../binlog.000001", "binlog", "a/b.000001", ".000001", "binlog.000001\n", "-x.000001"]
)
def test_a_name_that_is_none_of_a_binlog_file_is_refused(name: str) -> None:
    error = refused(ServerRefused, dump({name: FILES["binlog.000001"]}, name, 4), CapturedEnd(name))
    assert "no name of a binlog file" in error.message


def test_another_file_than_was_asked_for_is_refused() -> None:
    assert (
        "was asked for binlog.000002:4"
        in refused(ServerRefused, dump(FILES, "binlog.000001", 4), CapturedEnd("binlog.000002")).message
    )


def test_a_file_that_ends_before_what_is_captured_is_refused() -> None:
    places = [at for at, _ in events(FILES["binlog.000001"])]
    place = CapturedEnd("binlog.000001", places[1], len(FILES["binlog.000001"]) + 100)
    assert "what is captured of it" in refused(WrongNode, dump(FILES, "binlog.000001", places[1]), place).message
    # An event that ends elsewhere.
    place = CapturedEnd("binlog.000001", places[1], places[2] + 1)
    assert "ends at" in refused(WrongNode, dump(FILES, "binlog.000001", places[1]), place).message


@pytest.mark.parametrize(
    ("version", "says"), [("10.11.6-MariaDB-log", "written by MariaDB"), ("5.5.62-log", "only MySQL 5.6.1 and later")]
)
def test_other_servers_are_refused_as_in_a_merge(version: str, says: str) -> None:
    files = {"binlog.000001": file_of([b"a"], number=1, alg=1, end=None, version=version)}
    assert says in refused(UnsupportedInput, dump(files, "binlog.000001", 4)).message


def test_names_count_up() -> None:
    assert successor("mysql-bin.000009") == "mysql-bin.000010"
    assert successor("a.b.999999") == "a.b.1000000"
    assert file_number("a.b.1000000") == 1_000_000


@given(st.lists(st.binary(max_size=9), max_size=12), st.randoms(use_true_random=False))
def test_packets_come_out_however_they_are_read(sent: list[bytes], rng: random.Random) -> None:
    stream = b"".join(len(p).to_bytes(3, "little") + b"\0" + p for p in sent)
    assert [bytes(p) for p in payloads(*reader(stream, rng))] == sent
    cut = stream[: rng.randint(0, len(stream))]
    found = [bytes(p) for p in payloads(*reader(cut, rng))]
    assert found == sent[: len(found)]


def test_a_large_payload_is_joined() -> None:
    most = (1 << 24) - 1
    for size in (most - 1, most, most + 5, 2 * most):
        payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
        parts = [payload[i : i + most] for i in range(0, size + 1, most)]
        stream = b"".join(len(p).to_bytes(3, "little") + b"\0" + p for p in [*parts, b"next"])
        found = [bytes(p) for p in payloads(*reader(stream, random.Random(size), 1 << 20))]
        assert [len(p) for p in found] == [size, 4] and found[0] == payload


def reader(stream: bytes, rng: random.Random, most: int = 7):  # type: ignore[no-untyped-def]
    at = 0

    def exactly(count: int) -> bytes:
        nonlocal at
        at += count
        return stream[at - count : at]

    def some(count: int) -> bytes:
        return exactly(min(count, rng.randint(1, most), len(stream) - at))

    return some, exactly
