"""position-of and tso-of against a plain reading of the merged files, and against the oracle's keys."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import walk
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.cli import main
from binlog_merge.cli.position import find_position, find_transaction
from binlog_merge.cli.position_log import MergedLog, read_transactions
from binlog_merge.errors import ConfigError, MergeError, OutsideLog
from snapshot_store.tso import OrderKey
from tests.merge_e2e.cases import case_named, copy_case, max_size, oracle
from tests.merge_e2e.editing import Log
from tests.merge_e2e.local import merge, written

Captured = pytest.CaptureFixture[str]
CASE = "three-nodes-online-ddl"
LAST = (1 << 63) - 1


@dataclass(frozen=True)
class Merged:
    """A merged log as the test itself reads it: (file, start, end, key) of each transaction, and all events' places."""

    out: Path
    transactions: list[tuple[str, int, int, OrderKey]]
    events: list[tuple[str, int]]


def read(out: Path, case: Path) -> Merged:
    found: list[tuple[str, int, int]] = []
    events: list[tuple[str, int]] = []
    for name, data in written(out).items():
        for event in walk(data[4:], checksum=True, offset=4):
            events.append((name, event.offset))
            end = event.offset + event.header.event_size
            if event.type_code in (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT):
                found.append((name, event.offset, end))
            elif found and found[-1][0] == name and event.type_code != EventType.ROTATE_EVENT:
                found[-1] = (*found[-1][:2], end)
    keys = [OrderKey.parse(key) for key, _, _ in oracle(case).transactions]
    assert len(keys) == len(found)
    return Merged(out, [(*place, key) for place, key in zip(found, keys, strict=True)], events)


@pytest.fixture(scope="module", params=["begin", "end", "both"])
def merged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Merged:
    folder = tmp_path_factory.mktemp("position")
    case = case_named(CASE)

    def change(values: dict[str, Any]) -> None:
        max_size(60_000)(values)
        values["output"]["cts"] = request.param

    merge(copy_case(case, folder / "case", change), folder / "out")
    return read(folder / "out", case)


def test_the_log_has_several_files_and_ddl(merged: Merged) -> None:
    log = MergedLog(merged.out)
    assert len(log.files) > 3
    assert sum(t.ddl is not None for f in log.files for t in log.transactions(f)) == 2


def test_every_transaction_is_found_with_its_key(merged: Merged) -> None:
    log = MergedLog(merged.out)
    found = [t for file in log.files for t in log.transactions(file)]
    assert [(t.file, t.start, t.end, t.key) for t in found] == merged.transactions


def test_the_position_of_every_key_is_behind_its_transaction(merged: Merged) -> None:
    log = MergedLog(merged.out)
    for number, (file, _, end, key) in enumerate(merged.transactions):
        place = find_position(log, key)
        assert (place.file, place.position) == (file, end)
        following = merged.transactions[number + 1] if number + 1 < len(merged.transactions) else None
        assert (place.following and place.following.key) == (following and following[3])


def test_the_position_of_every_tso_is_behind_all_that_committed_by_then(merged: Merged) -> None:
    log = MergedLog(merged.out)
    for tso in sorted({key.commit_tso for *_, key in merged.transactions}):
        before = [t for t in merged.transactions if t[3].commit_tso <= tso]
        for asked in {tso, tso + 1}:
            if asked > merged.transactions[-1][3].commit_tso:
                continue
            place = find_position(log, OrderKey(asked, LAST, 0, 0))
            shown = [t for t in merged.transactions if t[3].commit_tso <= asked]
            assert (place.file, place.position) == (shown[-1][0], shown[-1][2])
        assert before


def test_the_tso_of_every_event_is_of_the_last_whole_transaction(merged: Merged) -> None:
    log = MergedLog(merged.out)
    order = {name: number for number, name in enumerate(f.name for f in log.files)}
    for file, position in merged.events[:: max(1, len(merged.events) // 150)]:
        before = [t for t in merged.transactions if (order[t[0]], t[2]) <= (order[file], position)]
        if not before:
            with pytest.raises(OutsideLog):
                find_transaction(log, file, position)
            continue
        place = find_transaction(log, file, position)
        assert place.last is not None and place.last.key == before[-1][3]
        inside = next((t for t in merged.transactions if t[0] == file and t[1] < position < t[2]), None)
        assert (place.inside and place.inside.key) == (inside and inside[3])


def test_a_position_inside_an_event_is_refused(merged: Merged) -> None:
    log = MergedLog(merged.out)
    for file, position in merged.events[5:60:7]:
        with pytest.raises(ConfigError, match=f"inside an event, which begins at {position}"):
            find_transaction(log, file, position + 3)


def test_archive_transactions_have_a_longer_text(merged: Merged, tmp_path: Path) -> None:
    name = "binlog.000001"
    log = Log.load(merged.out / name)
    first, stop = next(log.groups())
    gtid = Gtid.parse(log.events[first].body)
    log = log.changed(first, replace(log.events[first], body=replace(gtid, transaction_length=_longer(gtid, 9)).pack()))
    marks = [i for i in range(first, stop) if log.events[i].type == EventType.ROWS_QUERY_LOG_EVENT]
    mark = log.events[marks[-1]]
    log.changed(marks[-1], replace(mark, body=bytes([mark.body[0] + 9]) + mark.body[1:] + b"::ARCHIVE")).save(
        tmp_path / name
    )
    found = next(read_transactions(tmp_path / name, 1 << 30))
    _, start, end, key = merged.transactions[0]
    assert (found.start, found.end, found.key) == (start, end + 9, key)


def _longer(gtid: Gtid, by: int) -> int:
    assert gtid.transaction_length is not None
    return gtid.transaction_length + by


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main.run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_one_verb_undoes_the_other(merged: Merged, capsys: Captured) -> None:
    file, start, end, key = merged.transactions[len(merged.transactions) // 2]
    code, out, _ = run(capsys, "position-of", "--tso", key.text(), str(merged.out))
    assert (code, out.splitlines()[0]) == (0, f"{file}:{end}")
    code, out, _ = run(capsys, "tso-of", "--position", f"{file}:{end}", str(merged.out))
    assert (code, out.splitlines()[0]) == (0, str(key.commit_tso))
    assert f"{file}:{start} to {end}  order key {key.text()}" in out


def test_json_is_one_object(merged: Merged, capsys: Captured) -> None:
    file, start, end, key = merged.transactions[7]
    _, out, _ = run(capsys, "position-of", "--tso", key.text(), str(merged.out), "-o", "json")
    values = json.loads(out)
    assert (values["schema_version"], values["file"], values["position"]) == (1, file, end)
    assert values["last"] | {"start": start, "end": end, "order_key": key.text()} == values["last"]
    _, out, _ = run(capsys, "tso-of", "--position", f"{file}:{start}", str(merged.out), "-o", "json")
    assert json.loads(out)["next"]["commit_tso"] == key.commit_tso


def strayed(merged: Merged) -> Iterator[tuple[list[str], str]]:
    first, last = merged.transactions[0], merged.transactions[-1]
    out = str(merged.out)
    yield ["position-of", "--tso", first[3].previous().text(), out], "is before the log"
    yield ["position-of", "--tso", str(LAST), out], "is behind the log"
    yield ["position-of", "--tso", "now", out], "is no commit TSO"
    yield ["position-of", "--tso", str(1 << 63), out], "is no commit TSO"
    yield ["position-of", "--tso", "1" * 55, out], "is no commit TSO"
    yield ["tso-of", "--position", "binlog.000001", out], "is no position"
    yield ["tso-of", "--position", "binlog.000001:x", out], "is no position"
    yield ["tso-of", "--position", "binlog.999999:4", out], "the log has no file binlog.999999"
    yield ["tso-of", "--position", f"{last[0]}:{last[2] + 10**9}", out], "there is no position"
    yield ["tso-of", "--position", f"{first[0]}:{first[1]}", out], "no transaction stands before"
    yield ["tso-of", "--position", f"{first[0]}:{first[2] + 1}", out], "inside an event"
    yield ["position-of", "--tso", "5", str(merged.out.parent)], "no merge has written here"


def test_what_cannot_be_answered_says_why(merged: Merged, capsys: Captured) -> None:
    for arguments, message in strayed(merged):
        code, out, error = run(capsys, *arguments)
        assert code in (2, 28, 45) and not out, arguments
        assert message in error, arguments


def test_a_damaged_file_is_an_error_with_its_place(merged: Merged, tmp_path: Path, capsys: Captured) -> None:
    for name in ("binlog.000001", "manifest.jsonl"):
        (tmp_path / name).write_bytes((merged.out / name).read_bytes())
    data = bytearray((tmp_path / "binlog.000001").read_bytes())
    position = merged.transactions[3][1]
    data[position + 30] ^= 1
    (tmp_path / "binlog.000001").write_bytes(data)
    with pytest.raises(MergeError) as raised:
        find_position(MergedLog(tmp_path), merged.transactions[4][3])
    assert raised.value.position == position
    (tmp_path / "binlog.000001").write_bytes(data[: position + 10])
    with pytest.raises(MergeError):
        find_position(MergedLog(tmp_path), merged.transactions[4][3])
    (tmp_path / "binlog.000001").unlink()
    assert run(capsys, "position-of", "--tso", merged.transactions[4][3].text(), str(tmp_path))[0] == 31
