"""Reading ahead: the same bytes as without it, by fewer requests, with bounded memory."""

import random
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from binlog_merge.errors import ObjectStoreUnreachable
from binlog_merge.files.node_file import KnownFile, KnownSource
from binlog_merge.files.source import BLOCK, LEAST_BLOCK, Closing, ReadAhead, block_size
from binlog_merge.pipeline.gather import input_reader
from binlog_merge.pipeline.gather.input_reader import WINDOW_BYTES
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.values import InputFile

DATA = random.Random(7).randbytes(1 << 20)
SMALL = 1 << 14


@dataclass
class Remote(Closing):
    """A source that notes what it is asked for; from `fails_at` on it cannot be read."""

    data: bytes = DATA
    fails_at: int | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)
    reading: int = 0
    closed_while_reading: bool | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.size = len(self.data)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        with self.lock:
            self.reading += 1
            self.asked.append((offset, len(buffer)))
        try:
            if self.fails_at is not None and offset + len(buffer) > self.fails_at:
                raise ObjectStoreUnreachable("no answer")
            part = self.data[offset : offset + len(buffer)]
            buffer[: len(part)] = part
            return len(part)
        finally:
            with self.lock:
                self.reading -= 1

    def close(self) -> None:
        self.closed_while_reading = self.reading > 0


def read(source: ReadAhead, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    return bytes(buffer[: source.read_into(memoryview(buffer), offset)])


@pytest.mark.parametrize("seed", range(30))
def test_any_ranges_in_any_order(seed: int) -> None:
    r = random.Random(seed)
    remote = Remote()
    with ReadAhead(remote, r.choice([512, SMALL, 1 << 21]), r.choice([0, r.randrange(len(DATA)), 1 << 30])) as source:
        at = r.randrange(len(DATA))
        for _ in range(300):
            length = r.choice([0, 1, 100, 5000, 3 * SMALL])
            assert read(source, at, length) == DATA[at : at + length]
            at = max(0, at + r.choice([length, length, length, 700, -900, r.randrange(-len(DATA), len(DATA))]))
            if r.random() < 0.02:
                source.stop = r.randrange(len(DATA) * 2)
    assert remote.closed_while_reading is False


def test_small_ranges_one_after_the_other_are_few_requests() -> None:
    remote = Remote()
    with ReadAhead(remote, SMALL, len(DATA)) as source:
        assert b"".join(read(source, at, 1000) for at in range(0, len(DATA), 1000)) == DATA
    assert sorted(remote.asked) == [(at, SMALL) for at in range(0, len(DATA), SMALL)]


def test_nothing_is_read_that_begins_behind_what_is_expected() -> None:
    remote, stop = Remote(), 5 * SMALL + 1
    with ReadAhead(remote, SMALL, stop) as source:
        for at in range(0, stop, 1000):
            read(source, at, min(1000, stop - at))
    assert max(offset + length for offset, length in remote.asked) == 6 * SMALL


def test_ranges_that_lie_apart_are_read_alone() -> None:
    """Those of old transactions among new ones cost no more than themselves, and do not end the reading ahead."""
    remote, old = Remote(), [3 * SMALL + 5, 50, 9 * SMALL]
    with ReadAhead(remote, SMALL, len(DATA)) as source:
        for at in range(20 * SMALL, 40 * SMALL, SMALL // 4):
            read(source, at, SMALL // 4)
            read(source, old[at % 3], 100)
    apart = [(offset, length) for offset, length in remote.asked if offset < 20 * SMALL]
    assert len(apart) == 80 and {length for _, length in apart} == {100}
    assert 20 <= len(remote.asked) - len(apart) <= 22  # what nobody waits for any more may be left out


def test_a_reader_that_goes_elsewhere_is_followed() -> None:
    remote = Remote()
    with ReadAhead(remote, SMALL, len(DATA)) as source:
        read(source, 0, 100)
        for at in range(30 * SMALL, 60 * SMALL, 1000):
            read(source, at, 1000)
    assert len([offset for offset, length in remote.asked if length == 1000]) == 2
    assert len(remote.asked) < 40


def test_an_error_is_raised_where_its_range_is_read() -> None:
    remote = Remote(fails_at=2 * SMALL)
    with ReadAhead(remote, SMALL, len(DATA)) as source:
        assert read(source, 0, 100) == DATA[:100]
        assert read(source, SMALL, SMALL) == DATA[SMALL : 2 * SMALL]
        with pytest.raises(ObjectStoreUnreachable):
            read(source, 2 * SMALL, 1)


def test_a_file_that_has_become_shorter_ends_there() -> None:
    remote = Remote()
    with ReadAhead(remote, SMALL, len(DATA)) as source:
        remote.data = DATA[:40_000]
        assert read(source, 0, 100_000) == DATA[:40_000]


def test_blocks_of_many_files_are_small() -> None:
    assert block_size(1) == block_size(4) == BLOCK
    assert 4 * 100 * block_size(100) <= 200 << 20
    assert block_size(100_000) == LEAST_BLOCK


def test_files_of_other_runs_hold_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task's runs are between DDL and heartbeats; each may read of files that no other reads."""
    size, count = 6 * BLOCK, 20
    data = bytes(size)
    opened: list[ReadAhead] = []

    def opening(file: KnownFile, block: int) -> KnownSource:
        opened.append(ReadAhead(Remote(data), block))
        return KnownSource(opened[-1], file)

    monkeypatch.setattr(input_reader, "open_known", opening)
    known = [KnownFile("dn", f"s3://b/{i}", size, "") for i in range(count)]
    reader = input_reader.InputReader({0: "dn"}, {(0, i): InputFile(known[i], True) for i in range(count)})
    for i in range(count):
        one = {name: np.array([value]) for name, value in (("node", 0), ("file", i), ("start", 0), ("end", size))}
        nothing = np.zeros(1, np.int64)
        reader.expect(Rows({}, nothing, one["start"], one["end"], one["node"], one["file"], *(nothing,) * 3))
        for at in range(0, size, WINDOW_BYTES):
            reader.read(one["node"], one["file"], one["start"] + at, np.array([WINDOW_BYTES]), np.zeros(1, np.bool_))
    assert sum(len(source._blocks) * source._block for source in opened) <= 200 << 20
    reader.close()
