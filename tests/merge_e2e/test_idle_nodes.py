"""Nodes that have nothing to write, where their clocks give the order: the capture's note is their watermark."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import LateTransaction
from binlog_merge.files import directory
from binlog_merge.files.as_of import AS_OF_NAME
from binlog_merge.pipeline.base.clock import time_tso
from binlog_merge.pipeline.rounds import Rounds
from binlog_merge.pipeline.values import MergeResult
from snapshot_store.tso import OrderKey
from tests.command_line import command_line
from tests.effort import keeping
from tests.merge_e2e.local import LocalRunner, merge, state_of, written
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import ALONE, capture_now, cluster, url_of

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def _two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[MySqlServer]]:
    folder = tmp_path_factory.mktemp("idle")
    with MySqlServer(folder / "1", 1) as one, MySqlServer(folder / "2", 2) as two:
        yield [one, two]


@pytest.fixture
def servers(_two: list[MySqlServer]) -> list[MySqlServer]:
    for server in _two:
        server.drop_databases()
        server.execute("RESET BINARY LOGS AND GTIDS")
    return _two


@pytest.fixture
def config(servers: list[MySqlServer], tmp_path: Path) -> Path:
    return config_of(tmp_path, servers, **{"max-step-back": 0})


def config_of(folder: Path, servers: list[MySqlServer], **settings: Any) -> Path:
    more = {"commit-tso": {**ALONE["commit-tso"], **settings}}  # type: ignore[dict-item]
    routes = [{"schema-pattern": f"d{i}", "target-schema": f"d{i}"} for i in (1, 2)]
    urls = {f"dn-{i + 1}": url_of(server) for i, server in enumerate(servers)}
    return cluster(folder, urls, **more, routes=routes)


def table(server: MySqlServer, number: int) -> None:
    server.execute(f"CREATE DATABASE d{number}; CREATE TABLE d{number}.t (id INT AUTO_INCREMENT PRIMARY KEY, b TEXT)")


def note_path(config: Path, node: str) -> Path:
    return config.parent / "captured" / node / AS_OF_NAME


def run(config: Path, **options: Any) -> MergeResult:
    """Capture what the servers have, and merge what is final."""
    capture_now(config)
    return merge(config, config.parent / "out", end_of_input=False, **options)


def test_an_idle_node_holds_nobody_back(servers: list[MySqlServer], config: Path) -> None:
    table(servers[1], 2)
    table(servers[0], 1)
    servers[0].execute("INSERT INTO d1.t (b) VALUES ('a')")
    first = run(config)
    assert (first.transactions, first.held, first.held_back_by) == (5, 0, None)
    for _ in range(3):
        servers[0].execute("INSERT INTO d1.t (b) VALUES ('more')")
        result = run(config)
        assert (result.transactions, result.held) == (1, 0)
    servers[1].execute("INSERT INTO d2.t (b) VALUES ('b')")
    assert run(config).transactions == 1
    assert written(config.parent / "out") == at_once(config)


def at_once(config: Path) -> dict[str, bytes]:
    """Return what one merge of the captured files gives without any notes."""
    for path in config.parent.glob(f"captured/*/{AS_OF_NAME}"):
        path.unlink()
    merge(config, config.parent / "at-once")
    return written(config.parent / "at-once")


def test_a_node_that_has_never_written_anything(servers: list[MySqlServer], config: Path) -> None:
    table(servers[0], 1)
    servers[0].execute("INSERT INTO d1.t (b) VALUES ('a')")
    capture_now(config)
    note = note_path(config, "dn-2")
    data = note.read_bytes()
    note.unlink()
    held = merge(config, config.parent / "out", end_of_input=False)
    assert (held.transactions, held.held, held.held_back_by) == (0, 1, "dn-2")
    assert "no commit time yet" in (held.nodes["dn-2"].why or "")
    note.write_bytes(data)
    assert merge(config, config.parent / "out", end_of_input=False).transactions == 3


def test_the_watermark_leaves_room_for_steps_back(servers: list[MySqlServer], tmp_path: Path) -> None:
    config = config_of(tmp_path, servers, **{"max-step-back": "1h"})
    table(servers[1], 2)
    table(servers[0], 1)
    servers[0].execute("INSERT INTO d1.t (b) VALUES ('a')")
    capture_now(config)
    path = note_path(config, "dn-1")
    note = json.loads(path.read_bytes())
    note["clock_us"] += 7_200_000_000
    path.write_text(json.dumps(note))
    result = merge(config, tmp_path / "out", end_of_input=False)
    watermark = OrderKey(time_tso(note["clock_us"] - 3_600_000_000), 0, 0, 0)
    assert result.nodes["dn-1"].watermark == watermark.text()
    why = result.nodes["dn-2"].why
    assert result.held_back_by == "dn-2" and why is not None and why.startswith("idle since 20")
    assert f"read to {result.nodes['dn-2'].read_to}" in why


def test_what_a_note_does_not_cover(servers: list[MySqlServer], config: Path) -> None:
    """A note is ahead of the files, or about other files: it does not count. A damaged one is named."""
    table(servers[1], 2)
    table(servers[0], 1)
    servers[0].execute("INSERT INTO d1.t (b) VALUES ('a')")
    capture_now(config)
    early = config.parent / "early"
    shutil.copytree(config.parent / "captured" / "dn-2", early)
    servers[1].execute("INSERT INTO d2.t (b) VALUES ('later')")
    capture_now(config)
    note, whole = note_path(config, "dn-2"), note_path(config, "dn-2").read_bytes()
    (early / AS_OF_NAME).write_bytes(whole)
    late = config.parent / "captured" / "dn-2"
    late.rename(config.parent / "late")
    early.rename(late)
    ahead = merge(config, config.parent / "ahead", end_of_input=False)
    assert ahead.held_back_by == "dn-2" and ahead.transactions < 5
    values = json.loads(whole)
    for change in ({"identity": "0" * 64}, {"file": "binlog.000009"}):
        note.write_text(json.dumps({**values, "position": 4, **change}))
        other = merge(config, config.parent / "other", end_of_input=False)
        assert other.held_back_by == "dn-2" and not other.warnings
    note.write_bytes(whole[:20])
    damaged = merge(config, config.parent / "other", end_of_input=False)
    assert damaged.held_back_by == "dn-2" and [w for w in damaged.warnings if str(note) in w]


@pytest.mark.parametrize("statement", ["INSERT INTO d2.t (b) VALUES ('late')", "ALTER TABLE d2.t ADD COLUMN c INT"])
def test_a_commit_below_the_note_stops_the_merge(statement: str, servers: list[MySqlServer], config: Path) -> None:
    """A session that sets original_commit_timestamp, as mysqlbinlog's output does, gives an earlier time."""
    for number, server in enumerate(servers, 1):
        table(server, number)
    ((now,),) = servers[1].query("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
    servers[0].execute("INSERT INTO d1.t (b) VALUES ('published')")
    assert run(config).held == 0
    before = written(config.parent / "out")
    servers[1].execute(f"SET original_commit_timestamp = {now}; {statement}")
    for _ in range(2):
        with pytest.raises(LateTransaction) as caught:
            run(config)
        assert caught.value.node == "dn-2" and caught.value.position is not None
        assert written(config.parent / "out") == before


@pytest.mark.parametrize("seed", keeping([0], range(3)))
def test_any_rounds_give_the_bytes_of_one_merge(seed: int, servers: list[MySqlServer], config: Path) -> None:
    rng = random.Random(seed)
    for number, server in enumerate(servers, 1):
        table(server, number)
    capture_now(config)
    with Rounds(LocalRunner(), config_loaded(config), config.parent / "out") as rounds:
        rounds.merge()
        for turn in range(25):
            for _ in range(rng.choice([0, 1, 1, 3])):
                number = rng.choice([1, 1, 1, 2])
                server = servers[number - 1]
                server.execute(
                    rng.choice(
                        [
                            f"INSERT INTO d{number}.t (b) VALUES ('{turn}')",
                            f"UPDATE d{number}.t SET b = '{turn}'",
                            f"ALTER TABLE d{number}.t ADD COLUMN c{turn}_{rng.random():.9f} INT".replace("0.", ""),
                            "FLUSH BINARY LOGS",
                            f"XA START 'x{turn}'; INSERT INTO d{number}.t (b) VALUES ('x'); XA END 'x{turn}'; "
                            f"XA PREPARE 'x{turn}'; XA COMMIT 'x{turn}'",
                        ]
                    )
                )
            if rng.random() < 0.7:
                capture_now(config, nodes=rng.choice([["dn-1"], ["dn-2"], []]))
            if rng.random() < 0.7 and rounds.has_news():
                rounds.merge()
        capture_now(config)
        if rounds.has_news():
            assert rounds.merge().held == 0
    assert written(config.parent / "out") == at_once(config)


def config_loaded(config: Path) -> Any:
    from binlog_merge.config.merge_config import MergeConfig

    return MergeConfig.load(config)


def settled(rounds: Rounds) -> MergeResult:
    """Merge until there is no news: the schema store, which a round has written, is read again."""
    result = rounds.merge()
    for _ in range(3):
        if not rounds.has_news():
            return result
        result = rounds.merge()
    pytest.fail("there is news without end")


def test_a_new_note_is_news_only_while_it_may_let_something_out(servers: list[MySqlServer], config: Path) -> None:
    for number, server in enumerate(servers, 1):
        table(server, number)
    capture_now(config)
    with Rounds(LocalRunner(), config_loaded(config), config.parent / "out") as rounds:
        assert settled(rounds).held == 0
        capture_now(config)
        assert not rounds.has_news(), "nothing is held back"
        servers[0].execute("INSERT INTO d1.t (b) VALUES ('a')")
        capture_now(config, nodes=["dn-1"])
        assert rounds.has_news()
        assert settled(rounds).held_back_by == "dn-2"
        capture_now(config, nodes=["dn-1"])
        assert not rounds.has_news(), "dn-1 holds nothing back"
        capture_now(config, nodes=["dn-2"])
        assert rounds.has_news()
        result = rounds.merge()
        assert (result.transactions, result.held) == (1, 0)


def test_a_node_that_wrote_after_its_note_lets_others_out_with_the_next(
    servers: list[MySqlServer], config: Path
) -> None:
    for number, server in enumerate(servers, 1):
        table(server, number)
    capture_now(config)
    before = note_path(config, "dn-1").read_bytes()
    with Rounds(LocalRunner(), config_loaded(config), config.parent / "out") as rounds:
        assert settled(rounds).held == 0
        for number in (1, 2):
            servers[number - 1].execute(f"INSERT INTO d{number}.t (b) VALUES ('a')")
        capture_now(config)
        after = note_path(config, "dn-1").read_bytes()
        note_path(config, "dn-1").write_bytes(before)
        result = settled(rounds)
        assert (result.held, result.held_back_by) == (1, "dn-1")
        note_path(config, "dn-1").write_bytes(after)
        assert rounds.has_news()
        assert rounds.merge().held == 0


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_at_rest_there_is_no_news_and_nothing_is_written(
    mode: str, servers: list[MySqlServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes of clocks come all the time: a round for each would be a line of the manifest a second, for ever."""
    monkeypatch.setattr(directory, "LOOK_EVERY", 0.0)  # each look is a whole one, as it is once a second
    urls = {f"dn-{i + 1}": url_of(server) for i, server in enumerate(servers)}
    step = {"commit-tso": {"carrier": "gtid-time", "max-step-back": 0}}
    config = cluster(tmp_path, urls, **{"shard-mode": mode}, **step)
    for server in servers:
        server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, b TEXT)")
    servers[0].execute("INSERT INTO d.t VALUES (1, 'a')")
    capture_now(config)
    with Rounds(LocalRunner(), config_loaded(config), config.parent / "out") as rounds:
        rounds.merge()
        more = [_merged_if_news(rounds, config) for _ in range(5)]
        assert more[2:] == [False] * 3, "what the first have written is read again, once"
        before = (config.parent / "out" / "manifest.jsonl").read_bytes()
        assert not _merged_if_news(rounds, config)
        assert (config.parent / "out" / "manifest.jsonl").read_bytes() == before
        servers[1].execute("INSERT INTO d.t VALUES (2, 'b')")
        capture_now(config)
        assert rounds.has_news() and settled(rounds).held == 0
    locks = command_line(["ddl", "locks", "--merged", config.parent / "out", "-o", "json"])
    known = json.loads(locks.stdout)["known"]["order_key"]
    assert known == state_of(config.parent / "out").last.watermark, "also where the note was not written again"


def _merged_if_news(rounds: Rounds, config: Path) -> bool:
    """Take new notes, and merge if that, or anything else, is news."""
    capture_now(config)
    news = rounds.has_news()
    if news:
        assert rounds.merge().held == 0
    return news
