"""Readers of events from PyPI and npm: what they have seen in the end is what the cluster's nodes hold.

The log grows and has DDL; each reader is stopped and goes on where it was, `serve` is killed meanwhile.
"""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog_server.log import PublishedLog
from tests.binlog_server.growing import Growing
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.conftest import client
from tests.clients.rows import Seen, told
from tests.clients.served import Served, served, until
from tests.merge_e2e.local import written
from tests.patience import ended

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
Place = dict[str, Any]


def grown(growing: Growing) -> Iterator[None]:
    """Publish a part of the log each time: definitions change between parts, not within them.

    Some readers ask for a table's definition when they come to its rows, and are told that of the log's end.
    """
    first, second = growing.ddl_tsos()
    for tso in (first - (second - first) // 4, first - 1, second - 1, None):
        growing.publish_to(tso)
        yield


def judge(seen: Seen, growing: Growing) -> None:
    """Look that a reader has seen every change, and ends with what the nodes hold."""
    assert seen.wrong(growing.case) == [] and seen.whole(growing.case)
    assert seen.counts == told([growing.out / name for name in written(growing.out)])
    assert any("note" in row for row in seen.rows.values()), "the column that a DDL has added"


@pytest.mark.parametrize("by", ["position", "gtid"])
def test_mysql_replication(by: str, tmp_path: Path) -> None:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    growing, seen = Growing.of(tmp_path), Seen()
    parts = grown(growing)
    next(parts)
    # It takes an empty set for none, and reads from the log's end.
    foreign = "00000000-0000-0000-0000-000000000001:1"
    place: Place = {"log_file": "binlog.000001", "log_pos": 4} if by == "position" else {"auto_position": foreign}
    with served(growing.out, tmp_path) as source:
        while True:
            settings = {"host": "127.0.0.1", "port": source.port, "user": USER, "password": PASSWORD}
            kinds = [WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent]
            reader = BinLogStreamReader(settings, server_id=77, only_events=kinds, resume_stream=True, **place)
            with contextlib.closing(reader):
                for event in reader:
                    for row in event.rows:
                        values = row.get("values")
                        written = isinstance(event, WriteRowsEvent)
                        before = None if written else row.get("before_values", values)
                        seen.change(before, values if written else row.get("after_values"))
                place = {"log_file": reader.log_file, "log_pos": reader.log_pos}
            if by == "gtid":
                place = {"auto_position": str(PublishedLog(growing.out).view().executed)}
            source.kill()
            if next(parts, True):
                break
            source.start()
        source.start()
    judge(seen, growing)


@contextlib.contextmanager
def zongji(package: str, source: Served, folder: Path, start: Place) -> Iterator[Callable[[], list[Place]]]:
    """Run a fork of zongji; yields a function that returns what it has printed so far."""
    home = Path(client("npm", "node_modules", package)).parents[2]
    given = {"host": "127.0.0.1", "port": source.port, "user": USER, "password": PASSWORD, "start": start}
    said = folder / "said.jsonl"
    command = ["node", str(Path(__file__).with_name("zongji.mjs").resolve()), package, json.dumps(given)]
    with (
        said.open("w") as out,
        (folder / "errors").open("a") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors, cwd=home) as process,
    ):

        def printed() -> list[Place]:
            assert process.poll() is None, said.read_text() + (folder / "errors").read_text()
            return [json.loads(line) for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]

        try:
            yield printed
        finally:
            ended(process, 60)


@pytest.mark.parametrize(
    ("package", "by"),
    [("@vlasky/zongji", "position"), ("@vlasky/zongji", "gtid"), ("@powersync/mysql-zongji", "position")],
)
def test_zongji(package: str, by: str, tmp_path: Path) -> None:
    growing, seen = Growing.of(tmp_path), Seen()
    parts = grown(growing)
    next(parts)
    place: Place = {"filename": "binlog.000001", "position": 4} if by == "position" else {"gtidSet": ""}
    with served(growing.out, tmp_path) as source:
        while True:
            file, position = PublishedLog(growing.out).view().end
            at_end = {"file": file, "position": position}
            with zongji(package, source, tmp_path, place) as printed:
                until(lambda: any({**line, **at_end} == line for line in printed()), printed)  # noqa: B023
                lines = printed()
            for line in lines:
                if "kind" in line:
                    before, after = line["before"], line["after"]
                    seen.change(None if line["kind"] == "c" else before, None if line["kind"] == "d" else after)
                elif by == "gtid":
                    place = {"gtidSet": line.get("gtids", place["gtidSet"])}
                elif "file" in line:
                    place = {"filename": line["file"], "position": line["position"]}
            source.restart()
            if next(parts, True):
                break
    judge(seen, growing)
