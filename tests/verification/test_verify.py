"""verify: sound output is found sound, and nothing that is changed in it goes unseen."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import Gtid, RowsQuery, TableMap, parse_event
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.cli.main import run
from binlog_merge.errors import MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.reader import events_in
from binlog_merge.log.replay_options import history_of
from binlog_merge.verification.whole import Verified, verify
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge

CASES = (
    "ddl-by-markers",
    "gtid-off",
    "partial-json",
    "statements",
    "row-image-minimal",
    "metadata-minimal",
    "idle-node",
)


def _events_of(path: Path) -> Iterator[RawEvent]:
    with path.open("rb") as source:
        yield from events_in(source, str(path), path.stat().st_size)


def look(out: Path) -> Verified:
    return verify(Log(out), history_of(out))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a case with DDL, cut into several files."""
    folder = tmp_path_factory.mktemp("verify")
    case = copy_case(case_named("ddl-by-markers"), folder / "case", max_size(4000))
    merge(case, folder / "merged")
    return folder / "merged"


@pytest.fixture
def out(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "merged")
    return tmp_path / "merged"


@pytest.mark.parametrize("name", CASES)
def test_what_a_merge_writes_is_sound(name: str, tmp_path: Path) -> None:
    result = merge(case_named(name) / "cluster.yaml", tmp_path)
    found = look(tmp_path)
    assert found.transactions == result.transactions and found.shapes
    assert found.size == sum(path.stat().st_size for path in tmp_path.glob("binlog.0*"))


def test_several_files_are_one(out: Path) -> None:
    assert look(out).files > 2


def test_any_changed_byte_is_seen(out: Path) -> None:
    chance = random.Random(11)
    files = sorted(out.glob("binlog.0*"))
    for _ in range(60):
        path = chance.choice(files)
        data = path.read_bytes()
        place = chance.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :])
        with pytest.raises(MergeError) as caught:
            look(out)
        assert str(path) in str(caught.value), (path.name, place)
        path.write_bytes(data)
    look(out)


def edited(out: Path, kind: type, change: Callable[[Any], Any], which: int = 0) -> None:
    """Change one event of the first file that has such, with checksums as they must be."""
    paths = sorted(out.glob("binlog.0*"))
    path = next(p for p in paths if any(isinstance(parse_event(e), kind) for e in _events_of(p)))
    parts, seen = [b"\xfebin"], 0
    for event in _events_of(path):
        value = parse_event(event)
        body = bytes(event.body)
        if isinstance(value, kind):
            body = change(value).pack() if seen == which else body
            seen += 1
        header = event.header
        parts.append(
            pack_event(
                header.type_code,
                body,
                timestamp=header.timestamp,
                server_id=header.server_id,
                flags=header.flags,
                position=event.offset,
            )
        )
    assert seen > which
    path.write_bytes(b"".join(parts))


def next_key(value: RowsQuery, add: int) -> RowsQuery:
    head, digits = value.query[:-54], int(value.query[-54:])
    return replace(value, query=head + f"{digits + add:054d}".encode())


EDITS: list[tuple[str, Callable[[Path], None], str]] = [
    ("gno", lambda out: edited(out, Gtid, lambda v: replace(v, gno=v.gno + 1)), "must"),
    (
        "sequence",
        lambda out: edited(out, Gtid, lambda v: replace(v, sequence_number=7), 1),
        "sequence number 7",
    ),
    (
        "length",
        lambda out: edited(out, Gtid, lambda v: replace(v, transaction_length=v.transaction_length + 1)),
        "bytes long, its GTID event says",
    ),
    ("order", lambda out: edited(out, RowsQuery, lambda v: next_key(v, 10**53)), "order key"),
    (
        "first key",
        lambda out: edited(out, RowsQuery, lambda v: next_key(v, -1)),
        "the first order key is",
    ),
    (
        "shape",
        lambda out: edited(out, TableMap, lambda v: replace(v, table=v.table[:-1] + "x")),
        "is not in the schema history",
    ),
]


@pytest.mark.parametrize(("change", "reason"), [edit[1:] for edit in EDITS], ids=[edit[0] for edit in EDITS])
def test_what_is_wrong_under_right_checksums_is_seen(change: Callable[[Path], None], reason: str, out: Path) -> None:
    change(out)
    with pytest.raises(MergeError, match=reason) as caught:
        look(out)
    assert caught.value.file


def without_a_file(out: Path) -> None:
    (out / "binlog.000002").unlink()


def cut_short(out: Path) -> None:
    data = (out / "binlog.000002").read_bytes()
    (out / "binlog.000002").write_bytes(data[:-1])


def without_a_record(out: Path) -> None:
    lines = (out / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (out / "manifest.jsonl").write_bytes(b"".join(lines[1:]))


def another_index(out: Path) -> None:
    lines = (out / "binlog.index").read_text().splitlines(keepends=True)
    (out / "binlog.index").write_text("".join(reversed(lines)))


def exchanged(out: Path) -> None:
    one, two = out / "binlog.000001", out / "binlog.000002"
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)


def emptied(out: Path) -> None:
    (out / "manifest.jsonl").unlink()


@pytest.mark.parametrize("change", [without_a_file, cut_short, without_a_record, another_index, exchanged, emptied])
def test_files_that_are_not_as_published_are_seen(change: Callable[[Path], None], out: Path) -> None:
    change(out)
    with pytest.raises(MergeError):
        look(out)


def test_what_lies_behind_the_published_end_does_not_count(out: Path) -> None:
    last = sorted(out.glob("binlog.0*"))[-1]
    with last.open("ab") as file:
        file.write(b"torn by a crash")
    look(out)


def test_the_command(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out} is whole and in order\n")
    assert run(["verify", str(out), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["shapes"] is True
    (out / "schema.duckdb").unlink()
    assert run(["verify", str(out)]) == 0
    assert "there is no schema history" in capsys.readouterr().out
    cut_short(out)
    assert run(["verify", str(out)]) == 12
    assert "binlog.000002" in capsys.readouterr().err
    assert run(["verify", str(out / "nowhere")]) == 28


def events(out: Path) -> Iterator[RawEvent]:
    for path in sorted(out.glob("binlog.0*")):
        yield from _events_of(path)


def test_every_kind_of_event_is_looked_at(out: Path) -> None:
    kinds = {event.type_code for event in events(out)}
    assert {EventType.GTID_LOG_EVENT, EventType.ROTATE_EVENT, EventType.PREVIOUS_GTIDS_LOG_EVENT} <= kinds
    assert look(out).events == sum(1 for _ in events(out))
