"""position-of and tso-of against a plain reading of the merged files, and against the oracle's keys."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import walk
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.cli import main
from binlog_merge.errors import ConfigError, MergeError, OutsideLog
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.log.log import Around, Log, find_place
from binlog_merge.log.log import find_transaction as found_around
from binlog_merge.log.place import Place, parse_place
from binlog_merge.log.transactions import FileTransactions
from snapshot_store.tso import OrderKey, carries_time, tso_millis
from tests.merge_e2e.cases import case_named, copy_case, max_size, oracle
from tests.merge_e2e.editing import Log as Edited
from tests.merge_e2e.local import merge, written

Captured = pytest.CaptureFixture[str]
CASE = "three-nodes-online-ddl"
LAST = (1 << 63) - 1


def find_position(log: Log, key: OrderKey) -> Around:
    return find_place(log, Place.at_key("--at", key))


def find_transaction(log: Log, name: str, position: int) -> Around:
    return found_around(log, parse_place("--position", f"{name}:{position}"))


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
    folder = tmp_path_factory.mktemp("position" if request.param == "both" else "sparse")
    case = case_named(CASE)

    def change(values: dict[str, Any]) -> None:
        max_size(60_000)(values)
        values["output"]["cts"] = request.param

    merge(copy_case(case, folder / "case", change), folder / "out")
    return read(folder / "out", case)


@pytest.fixture(autouse=True)
def _small_chunks(merged: Merged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the three logs have a sparse index of small chunks; the third has none, and the answers are the same."""
    if merged.out.parent.name.startswith("sparse"):
        monkeypatch.setattr("binlog_merge.files.sidecar.LEAST_BYTES", 0)
        monkeypatch.setattr("binlog_merge.log.index.CHUNK", 5000)


def test_the_log_has_several_files_and_ddl(merged: Merged) -> None:
    log = Log(merged.out)
    assert len(log.files) > 3
    assert sum(t.ddl is not None for f in log.files for t in log.transactions(f)) == 2


def test_every_transaction_is_found_with_its_key(merged: Merged) -> None:
    log = Log(merged.out)
    found = [t for file in log.files for t in log.transactions(file)]
    assert [(t.file, t.start, t.end, t.key) for t in found] == merged.transactions


def test_the_position_of_every_key_is_behind_its_transaction(merged: Merged) -> None:
    log = Log(merged.out)
    for number, (file, _, end, key) in enumerate(merged.transactions):
        place = find_position(log, key)
        assert (place.file, place.position) == (file, end)
        following = merged.transactions[number + 1] if number + 1 < len(merged.transactions) else None
        assert (place.following and place.following.key) == (following and following[3])


def test_the_position_of_every_tso_is_behind_all_that_committed_by_then(merged: Merged) -> None:
    log = Log(merged.out)
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
    log = Log(merged.out)
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
    log = Log(merged.out)
    for file, position in merged.events[5:60:7]:
        with pytest.raises(ConfigError, match=f"inside an event, which begins at {position}"):
            find_transaction(log, file, position + 3)


def test_archive_transactions_have_a_longer_text(merged: Merged, tmp_path: Path) -> None:
    name = "binlog.000001"
    log = Edited.load(merged.out / name)
    first, stop = next(log.groups())
    gtid = Gtid.parse(log.events[first].body)
    log = log.changed(first, replace(log.events[first], body=replace(gtid, transaction_length=_longer(gtid, 9)).pack()))
    marks = [i for i in range(first, stop) if log.events[i].type == EventType.ROWS_QUERY_LOG_EVENT]
    mark = log.events[marks[-1]]
    log.changed(marks[-1], replace(mark, body=bytes([mark.body[0] + 9]) + mark.body[1:] + b"::ARCHIVE")).save(
        tmp_path / name
    )
    (tmp_path / "manifest.jsonl").write_bytes((merged.out / "manifest.jsonl").read_bytes())
    file = replace(Log(merged.out).files[0], size=(tmp_path / name).stat().st_size)
    found = FileTransactions(LogFolder(tmp_path), file).transaction(1)
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


def test_every_name_of_a_place_is_understood(merged: Merged, capsys: Captured) -> None:
    out, log = str(merged.out), Log(merged.out)
    uuid = log.state.header.cluster_uuid if log.state.header else ""
    moments = [t for t in merged.transactions if carries_time(t[3].commit_tso)]
    for file, _, end, key in moments[:: len(moments) // 6]:
        rank = next(n for n, t in enumerate(merged.transactions, 1) if t[3] == key)
        for place in (key.text(), f"{uuid}:{rank}", f"{uuid}:1-{rank}".upper(), f"{file}:{end}"):
            assert run(capsys, "position-of", "--at", place, out)[1].splitlines()[0] == f"{file}:{end}"
            assert run(capsys, "tso-of", "--at", place, out)[1].splitlines()[0] == str(key.commit_tso)
        time = datetime.fromtimestamp(tso_millis(key.commit_tso) / 1000, UTC).isoformat(timespec="milliseconds")
        last = [t for t in merged.transactions if tso_millis(t[3].commit_tso) <= tso_millis(key.commit_tso)][-1]
        code, text, error = run(capsys, "position-of", "--at", time, out)
        assert (code, text.splitlines()[0]) == (0, f"{last[0]}:{last[2]}"), error


def test_a_range_begins_at_its_start_and_ends_before_its_stop(merged: Merged) -> None:
    log = Log(merged.out)
    uuid = log.cluster_uuid

    def between(start: str, stop: str) -> tuple[int, int]:
        return log.between(parse_place("--start", start), parse_place("--stop", stop))

    (file, start, _, key), (_, _, end, last) = merged.transactions[10], merged.transactions[27]
    assert between(f"{uuid}:11", f"{uuid}:28") == between(f"{uuid}:1-10", f"{uuid}:1-28") == (11, 28)
    assert between(f"{file}:{start}", f"{merged.transactions[27][0]}:{end}") == (11, 28)
    assert between(key.text(), last.text()) == (11, 27)
    of_tso = [n for n, t in enumerate(merged.transactions, 1) if t[3].commit_tso == last.commit_tso]
    assert between(key.text(), str(last.commit_tso)) == (11, of_tso[0] - 1)
    of_time = [n for n, t in enumerate(merged.transactions, 1) if tso_millis(t[3].commit_tso) >= tso_millis(last[0])]
    time = datetime.fromtimestamp(tso_millis(last.commit_tso) / 1000, UTC).isoformat(timespec="milliseconds")
    assert between(key.text(), time) == (11, of_time[0] - 1)
    assert between("0020260921", f"{uuid}:28")[1] == 28
    with pytest.raises(ConfigError, match="is before --start"):
        between(f"{uuid}:28", f"{uuid}:11")


def test_a_place_of_a_node_is_that_of_its_transaction(merged: Merged, capsys: Captured) -> None:
    case = merged.out.parent / "case" / "cluster.yaml"
    keys = {t[3].text(): t for t in merged.transactions}
    found = 0
    for event in list(walk((case.parent / "nodes/dn-2/binlog.000001").read_bytes()))[60:600:170]:
        place = ("--node", "dn-2", "--at", f"binlog.000001:{event.offset}", "--config", str(case))
        code, text, _ = run(capsys, "position-of", *place, str(merged.out), "-o", "json")
        values = json.loads(text)
        if code == 0:
            found += 1
            file, _, end, _ = keys[values["branch"]["order_key"]]
            assert values["branch"]["start"] <= event.offset < values["branch"]["end"]
            assert (values["file"], values["position"]) == (file, end)
    assert found


def test_json_is_one_object(merged: Merged, capsys: Captured) -> None:
    file, start, end, key = merged.transactions[7]
    _, out, _ = run(capsys, "position-of", "--tso", key.text(), str(merged.out), "-o", "json")
    values = json.loads(out)
    assert (values["schema_version"], values["file"], values["position"]) == (1, file, end)
    assert values["last"] | {"start": start, "end": end, "order_key": key.text()} == values["last"]
    _, out, _ = run(capsys, "tso-of", "--position", f"{file}:{start}", str(merged.out), "-o", "json")
    assert json.loads(out)["next"]["commit_tso"] == str(key.commit_tso)


def strayed(merged: Merged) -> Iterator[tuple[list[str], str]]:
    first, last = merged.transactions[0], merged.transactions[-1]
    out = str(merged.out)
    yield ["position-of", "--tso", first[3].previous().text(), out], "is before the log"
    yield ["position-of", "--tso", str(LAST), out], "is after the end of the log"
    yield ["position-of", "--tso", "now", out], "is no place"
    yield ["position-of", "--tso", str(1 << 63), out], "is no place"
    yield ["position-of", "--tso", "1" * 55, out], "is no place"
    yield ["position-of", "--tso", "20260921", out], "write 2026-09-21 for the time, 020260921 for the TSO"
    yield ["position-of", "--at", "20260921123059", out], "write 2026-09-21T12:30:59 for the time"
    yield ["tso-of", "--position", "binlog.000001", out], "is no place"
    yield ["tso-of", "--position", "binlog.000001:x", out], "is no place"
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
        find_position(Log(tmp_path), merged.transactions[4][3])
    assert raised.value.position == position
    (tmp_path / "binlog.000001").write_bytes(data[: position + 10])
    with pytest.raises(MergeError):
        find_position(Log(tmp_path), merged.transactions[4][3])
    (tmp_path / "binlog.000001").unlink()
    assert run(capsys, "position-of", "--tso", merged.transactions[4][3].text(), str(tmp_path))[0] == 31
