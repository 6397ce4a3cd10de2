"""Streams of merged outputs: written at once or in steps, and served."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.offered import Offered, StreamLog
from binlog_merge.binlog_server.server import BinlogServer, ServeOptions
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import ManifestState
from binlog_merge.log.reader import events_of
from binlog_merge.streams.spec import StreamSpec, load_streams
from binlog_merge.streams.together import Family, StreamKeeper
from binlog_merge.streams.transaction import TransactionReader
from tests.binlog_server.running import PASSWORD, USER, Running


def specs(*options: str) -> list[StreamSpec]:
    """Return streams that nobody is served, by what comes out of them."""
    return load_streams(None, [f"{option} user={option.split()[0]}" for option in options])


def written(out: Path, root: Path, spec: StreamSpec, *states: ManifestState) -> dict[str, bytes]:
    """Return a stream's files after it has caught up with each state of the log, by a new process each time."""
    (files,) = all_written(out, root, [spec], *states)
    return files


def all_written(out: Path, root: Path, streams: list[StreamSpec], *states: ManifestState) -> list[dict[str, bytes]]:
    """Return the same of the parts of a hash, which are written together."""
    for state in states or (LogFolder(out).state(),):
        family = Family(LogFolder(out), root, streams, lambda spec: lambda text: None)
        with contextlib.ExitStack() as stack:
            for writer in family.writers:
                stack.enter_context(writer)
            family.catch_up(state)
    folders = [root / spec.name for spec in streams]
    return [
        {file.name: (folder / file.name).read_bytes() for file in LogFolder(folder).state().files} for folder in folders
    ]


def states_of(out: Path, steps: int) -> list[ManifestState]:
    """Return states of a log on its way to what it is: each ends behind a transaction, the last is the whole."""
    log = LogFolder(out)
    whole = log.state()
    found = []
    for number, file in enumerate(whole.files):
        reader = TransactionReader(file.name, 0)
        ends = [e.end for e in list(events_of(log, file))[2:] if e.type_code != 4 and reader.take(e) is not None]
        for end in ends:
            files = (*whole.files[:number], replace(file, size=end, closed=False))
            found.append(replace(whole, files=files))
    return [*found[:: max(1, len(found) // steps)], whole]


@contextlib.contextmanager
def streaming(
    out: Path, root: Path, streams: list[StreamSpec], password: str = PASSWORD, may_stop: bool = False
) -> Iterator[tuple[Running, dict[str, int]]]:
    """Serve an output with streams, at free ports; yields the server, and the streams' ports by name."""
    reports: list[str] = []
    log = PublishedLog(out)
    options = ServeOptions("127.0.0.1", 0, USER, password)
    with StreamKeeper(log.folder, root, streams, lambda: log.view().state, reports.append) as keeper:
        offered = [
            Offered(
                spec.name,
                StreamLog(writer.folder, log, partial(keeper.stopped, spec)),
                spec.port,
                spec.user,
                unmatched=spec.unmatched,
            )
            for spec, writer in zip(streams, keeper.writers, strict=True)
        ]
        server = BinlogServer(log, options, reports.append, offered)
        thread = Thread(target=server.run)
        thread.start()
        try:
            yield Running(server, reports), server.stream_ports()
        finally:
            server.close()
            thread.join()
    wrong = [line for line in reports if "internal error" in line or ("stops" in line and not may_stop)]
    assert not wrong, reports
