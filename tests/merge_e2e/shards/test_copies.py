"""Copies: a table that every shard has in full comes out once, and what the shards' copies differ in is told."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from binlog_merge.errors import ShardsInDoubt
from binlog_merge.files.manifest import Manifest
from binlog_merge.pipeline import run
from tests.effort import keeping
from tests.merge_e2e.killed import merge_until
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.stage import Played, Stage, create_of
from tests.merge_e2e.shards.test_colliding_keys import MODES, Case, in_duckdb, on_target, play

pytestmark = [pytest.mark.mysql]

COPIES = {"copies": [{"schema-pattern": "k", "table-pattern": "c*"}]}
CREATED = (
    "CREATE DATABASE k; CREATE TABLE k.countries (code CHAR(2) PRIMARY KEY, name VARCHAR(40), "
    "at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)); "
    "CREATE TABLE k.t (id INT PRIMARY KEY, code CHAR(2), FOREIGN KEY (code) REFERENCES countries (code)); "
    "INSERT INTO k.countries (code, name) VALUES ('DE', 'Deutschland'), ('FR', 'France'), ('XX', NULL)"
)
CHANGED = "UPDATE k.countries SET name = CONCAT(name, '!') WHERE code = 'DE'; DELETE FROM k.countries WHERE code = 'XX'"
ALIKE = [
    ("*", CREATED),
    ("n1", "INSERT INTO k.t VALUES (1, 'DE')"),
    ("n2", "INSERT INTO k.t VALUES (2, 'FR')"),
    ("*", CHANGED),
    ("n2", "ALTER TABLE k.countries ADD COLUMN iso INT NOT NULL DEFAULT 7, MODIFY name VARCHAR(300)"),
    ("*", "INSERT INTO k.countries (code, name) VALUES ('ES', 'España'), ('IT', 'Italia')"),
    ("n1", "ALTER TABLE k.countries ADD COLUMN iso INT NOT NULL DEFAULT 7, MODIFY name VARCHAR(300)"),
    ("n1", "UPDATE k.countries SET iso = 724 WHERE code = 'ES'; DELETE FROM k.countries WHERE code = 'IT'"),
    ("n2", "DELETE FROM k.countries WHERE code = 'IT'; UPDATE k.countries SET iso = 724 WHERE code = 'ES'"),
]


def of_node(stage: Stage, node: str) -> list[tuple[object, ...]]:
    return sorted(stage.nodes[node].query("SELECT * FROM k.countries"))


@pytest.mark.parametrize(
    ("source", "mode"),
    keeping([("n2", MODES[1])], [(source, mode) for source in ("n1", "n2") for mode in MODES]),
)
def test_a_copy_comes_out_once(mode: str, source: str, stage: Stage) -> None:
    sections = {"copies": [{**COPIES["copies"][0], "from": source}]} if source != "n1" else COPIES
    # The node that comes out is changed first: rows and tables of others refer to what it has.
    other = "n2" if source == "n1" else "n1"
    story = [(node, sql) for of, sql in ALIKE for node in ((source, other) if of == "*" else (of,))]
    result, out = play(stage, Case(f"copies-{source}", story, (), sections), mode)
    assert result.warnings == ()
    assert on_target(stage, ("k", "countries")) == of_node(stage, source)
    assert [row[:2] for row in in_duckdb(out, ("k", "countries"))] == [row[:2] for row in of_node(stage, source)]
    assert on_target(stage, ("k", "t")) == [(1, "DE"), (2, "FR")]
    assert create_of(stage.target, ("k", "countries")) == create_of(stage.nodes[source], ("k", "countries"))


def played_on(stage: Stage, name: str, story: Sequence[tuple[str, str]], anew: bool = False) -> list[Played]:
    """Play a story; with `anew` the nodes are cleared first."""
    if anew:
        stage.clear()
    with stage.scene(name, ()) as (nodes, played):
        for node, sql in story:
            for each in nodes if node == "*" else [node]:
                for statement in filter(None, map(str.strip, sql.split(";"))):
                    nodes[each].run(statement)
    return played


def configured(stage: Stage, name: str, story: Sequence[tuple[str, str]], doubts: str = "error") -> Path:
    """Play a story; returns the configuration."""
    played = played_on(stage, name, story, anew=True)
    return stage.configuration(name, played, "pessimistic", sections={"shard-doubts": doubts, **COPIES})


def test_a_difference_is_told_when_no_more_comes(stage: Stage) -> None:
    story = [
        *ALIKE,
        ("n1", "UPDATE k.countries SET name = 'Espagne' WHERE code = 'ES'"),
        (
            "n2",
            "DELETE FROM k.countries WHERE code = 'DE' AND name = '?'; INSERT INTO k.countries (code) VALUES ('PL')",
        ),
    ]
    path = configured(stage, "differ", story)
    out = path.parent / "out"
    for _ in range(2):  # also by a merge that has nothing new
        with pytest.raises(ShardsInDoubt) as raised:
            merge(path, out)
        said = raised.value.message
        assert "the copy of k.countries on n2 is not that of n1, which comes out" in said
        assert "n2 has not made what n1 has: update of code='ES' at" in said
        assert "n1 has not made what n2 has: insert of code='PL' at" in said and "more" not in said
    stage.carry_out(out)  # what is published is whole all the same
    assert on_target(stage, ("k", "countries")) == of_node(stage, "n1")
    path.write_text(path.read_text().replace("shard-doubts: error", "shard-doubts: warn"))
    assert [said] == [text for text in merge(path, out).warnings if "the copy of" in text]
    assert merge(path, out).warnings == ()  # told once


def test_a_copy_that_lags_is_no_difference(stage: Stage) -> None:
    """Whether the log ends between the change of one node and that of the other, and is gone on with, or not."""
    path = configured(stage, "lag", ALIKE)
    whole = path.parent / "whole"
    merge(path, whole)
    files = {file: file.read_bytes() for file in path.parent.glob("n?/binlog.*")}
    for part in (0.4, 0.6, 0.8, 0.9):
        out = path.parent / f"out-{part}"
        for file, data in files.items():
            file.write_bytes(data[: _event_end(data, int(len(data) * (part if file.parent.name == "n2" else 1)))])
        assert not [text for text in merge(path, out, end_of_input=False).warnings if "the copy of" in text]
        for file, data in files.items():
            file.write_bytes(data)
        assert merge(path, out).warnings == ()
        assert written(out) == written(whole)
        assert Manifest.load(out).state.last is not None


def test_what_is_counted_is_not_counted_again(stage: Stage) -> None:
    """Changes of the copy that does not come out may lie behind all that comes out, where the next run begins."""
    path = configured(stage, "again", ALIKE)
    assert [merge(path, path.parent / "out").warnings for _ in range(3)] == 3 * [()]


def test_what_a_run_has_told_that_publishes_nothing_is_told_by_the_next(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = [*ALIKE, ("n1", "UPDATE k.countries SET name = 'Espagne' WHERE code = 'ES'")]
    path = configured(stage, "killed", story, "warn")
    out = path.parent / "out"
    whole = {file: file.read_bytes() for file in path.parent.glob("n?/binlog.*")}
    for file, data in whole.items():
        file.write_bytes(data[: _event_end(data, len(data) // 2)])
    assert not [text for text in merge(path, out, end_of_input=False).warnings if "the copy of" in text]
    assert Manifest.load(out).state.last is not None
    for file, data in whole.items():
        file.write_bytes(data)

    def fails(*arguments: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(run, "publish_run", fails)
        merge(path, out)
    (said,) = (text for text in merge(path, out).warnings if "the copy of" in text)
    assert "n2 has not made what n1 has: update of code='ES' at" in said


@pytest.mark.extended  # kills: merge_e2e/test_killed
def test_a_run_killed_before_it_publishes_is_made_up_for(stage: Stage) -> None:
    """What the runs before have left is there still: the other half of a change is no difference."""
    rows = ("*", "INSERT INTO k.t VALUES (@@server_id, 'FR')")
    first = played_on(stage, "half", [("*", CREATED), ("n1", CHANGED), rows], anew=True)
    path = stage.configuration("half", first, "pessimistic", sections=COPIES)
    out = path.parent / "out"
    merge(path, out, end_of_input=False)
    assert Manifest.load(out).state.last is not None
    later = played_on(stage, "half", [("n2", CHANGED), ("*", "DELETE FROM k.t")])
    stage.configuration("half", [*first, *later], "pessimistic", sections=COPIES)
    for point in ("publish-before-rename", "publish-before-manifest"):
        assert merge_until(f"{point}:kill", path, out)
    assert merge(path, out).warnings == ()
    assert merge(path, path.parent / "whole").warnings == ()
    assert written(out) == written(path.parent / "whole")


def _event_end(data: bytes, least: int) -> int:
    """Return where the first event ends that does not end before `least`."""
    at = 4
    while at < least:
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    return at
