"""Which server of a node is captured, what a server needs to take over, and what is captured so far."""

import random
from pathlib import Path

import pytest

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, Purged
from binlog_merge.node_capture.captured_gtids import held
from binlog_merge.node_capture.server_end import Standing
from binlog_merge.node_capture.servers import Look, choose, first_file, unsuitable
from binlog_merge.node_capture.source import SourceFacts
from snapshot_store.server import ServerAddress
from tests.merge_e2e.editing import PREVIOUS_GTIDS, ROTATE, STOP, Log
from tests.merge_e2e.failing_over import forgetting, groups_of, gtid_of, text_of
from tests.merge_e2e.simulator import Simulator, Style

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CAPTURED = GtidSet.parse_text(f"{U}:1-9")


def look(name: str, executed: str = "", *, read_only: bool = False, mode: str = "ON", lost: bool = False) -> Look:
    address = ServerAddress(name)
    if lost:
        return Look(address, None, "Can't connect")
    gtids = GtidSet.parse_text(executed or f"{U}:1-9")
    return Look(address, SourceFacts(name, 1, ("binlog.000001",), Standing(name, "", 0, 0), mode, gtids, read_only))


A, B, C = look("a"), look("b"), look("c")


@pytest.mark.parametrize(
    ("looks", "captured_of", "lost", "chosen"),
    [
        ([A, B], "a", True, "a"),
        ([A, B], "b", True, "b"),  # whatever the order in the configuration
        ([look("a", read_only=True), B], "a", False, "b"),
        ([look("a", read_only=True), look("b", read_only=True)], "a", True, "a"),
        ([look("a", read_only=True), look("b", f"{U}:1-8")], "a", True, "a"),
        ([look("a", lost=True), B], "a", False, None),  # it may come back
        ([look("a", lost=True), B], "a", True, "b"),
        ([look("a", lost=True), look("b", read_only=True), C], "a", True, "c"),
        ([look("a", lost=True), look("b", f"{U}:1-8"), C], "a", True, "c"),
        ([look("a", lost=True), look("b", mode="OFF_PERMISSIVE")], "a", True, None),
        ([A, look("b", lost=True)], "b", False, None),  # one that was left does not come back by itself, unless …
        ([A, look("b", lost=True)], "b", True, "a"),  # … it has all that the other one had
        ([look("a", read_only=True), B], None, True, "b"),
        ([A, B], None, True, "a"),
        ([look("a", read_only=True)], None, True, None),
    ],
)
def test_which_server_is_captured(looks: list[Look], captured_of: str | None, lost: bool, chosen: str | None) -> None:
    found = choose(looks, captured_of, lambda: CAPTURED, lost)
    assert (None if found.look is None else found.look.address.host) == chosen
    assert chosen is not None or len(found.reasons) == len(looks)


def test_what_is_lacking_is_named() -> None:
    facts = look("b", f"{U}:1-4:8-20", read_only=True).facts
    assert facts is not None
    assert unsuitable(facts, lambda: CAPTURED) == "it is read-only"
    assert f"it lacks what was captured, {U}:5-7: " in str(unsuitable(facts, lambda: CAPTURED, may_be_read_only=True))


def test_where_the_log_of_another_server_begins() -> None:
    files = [f"binlog.{number:06d}" for number in range(1, 5)]
    previous = dict(zip(files, ["", f"{U}:1-4", f"{U}:1-8", f"{U}:1-12"], strict=True))
    of = lambda name: GtidSet.parse_text(previous[name])  # noqa: E731
    assert first_file(files, of, CAPTURED) == files[1]  # the one before: what was committing is in neither's list
    assert first_file(files[2:], of, CAPTURED) == files[2]
    assert first_file(files, of, GtidSet.parse_text(f"{U}:1-3")) == files[0]
    with pytest.raises(Purged, match=f"purged what was not captured, {U}:10-12") as caught:
        first_file(files[3:], of, CAPTURED)
    assert caught.value.file == files[3]


@pytest.mark.parametrize("lengths", [True, False])
def test_what_is_captured_of_files_that_end_anywhere(lengths: bool, tmp_path: Path) -> None:
    rng = random.Random(5)
    Simulator(3, Style(nodes=1, steps=40, carrier="commit-table", rotate=0.1)).write(tmp_path)
    files = sorted((tmp_path / "nodes" / "dn-1").iterdir())
    if not lengths:  # as 5.7 writes them
        for path in files:
            log = Log.load(path)
            for first, _ in log.groups():
                log = log.changed(first, log.events[first].__class__(**_without_length(log, first)))
            log.save(path)
    wholes = [Log.load(path) for path in files]
    for index, whole in list(enumerate(wholes))[-3:]:
        data = files[index].read_bytes()
        before = [gtid_of(group) for log in wholes[:index] for group in groups_of(log)]
        head = whole.events[0].at, next(e.at for e in whole.events if e.type == PREVIOUS_GTIDS)
        for cut in [*rng.sample(range(len(data) + 1), 120), len(data)]:
            files[index].write_bytes(data[:cut])
            gtids, end = held(files[: index + 1], "dn-1")
            log = Log.load(data[:cut])
            done, place = list(before), None
            for group in groups_of(whole):
                last = group[-1]
                behind = next((e.at for e in whole.events if e.at > last.at), len(data))
                if behind <= cut:
                    done.append(gtid_of(group))
                    place = behind
            assert gtids == GtidSet.parse_text(text_of(done)) or cut < head[1]
            if place is not None:
                ends = [e for e in log.events if e.type in (ROTATE, STOP)]
                assert end == (files[index].name, cut if ends else place)
        files[index].write_bytes(data)


def test_a_server_may_never_name_what_was_committing_at_a_rotation(tmp_path: Path) -> None:
    rng = random.Random(3)
    Simulator(4, Style(nodes=1, steps=60, carrier="commit-table", rotate=0.3)).write(tmp_path)
    files = sorted((tmp_path / "nodes" / "dn-1").iterdir())
    wholes = [(path.name, path.read_bytes()) for path in files]
    everything = GtidSet.parse_text(text_of([gtid_of(g) for _, data in wholes for g in groups_of(Log.load(data))]))
    for _ in range(60):
        for name, data in forgetting(wholes, rng):
            (files[0].parent / name).write_bytes(data)
        assert held(files, "dn-1")[0] == everything


def _without_length(log: Log, index: int) -> dict[str, object]:
    event = log.events[index]
    at = 56 if len(event.body) >= 49 and event.body[48] & 0x80 else 49
    values = {name: getattr(event, name) for name in ("timestamp", "type", "server_id", "flags", "at")}
    return {**values, "body": event.body[:at]}


@pytest.mark.parametrize(
    ("server", "text"),
    [
        ("[]", "should not be empty"),
        ("[mysql://a, mysql://a:3306]", "is there twice"),
        ("[mysql://a, 7]", "7 is no server"),
        ("[mysql://a, http://b]", "is no server"),
        ("{a: b}", "is no server"),
    ],
)
def test_servers_that_are_none(server: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(f"version: 1\nname: c\nnodes:\n  - {{source-id: dn-1, server: {server}}}\n")
    with pytest.raises(ConfigError, match=text):
        MergeConfig.load(path)


def test_a_list_of_servers_may_fail_over(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("version: 1\nname: c\nnodes:\n  - {source-id: dn-1, server: [mysql://vip]}\n")
    (node,) = MergeConfig.load(path).nodes
    assert node.fails_over and node.servers == ("mysql://vip",)
