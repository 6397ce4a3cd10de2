"""A merge that removes what nobody needs any more: what is left is what stood there without that."""

import random
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.sections import Retention
from binlog_merge.errors import MarkerIncomplete, OutsideLog, Purged
from binlog_merge.files.state_notes import NOTES_FOLDER, write_state_note
from binlog_merge.log.checkpoint import Checkpoint, checkpoints_of
from binlog_merge.log.log import Log, find_place
from binlog_merge.log.place import Place as LogPlace
from binlog_merge.log.reader import Begin
from binlog_merge.log.replay_options import history_of
from binlog_merge.log.segments import segments
from binlog_merge.pipeline import retention
from binlog_merge.pipeline.rounds import Rounds
from binlog_merge.verification.whole import verify
from snapshot_store.errors import BeforeBase
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.failing_over import Part, failed_over, grow, places
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import LocalRunner, merge, state_of, written
from tests.merge_e2e.simulator import Simulator, Style

CASE = case_named("rotation")


def _case(folder: Path, **rules: Any) -> Path:
    """Copy the case as one whose nodes' files a capture fetches, with small output files."""
    total = sum(map(len, whole(CASE / "cluster.yaml").values()))

    def change(values: dict[str, Any]) -> None:
        values["output"]["max-size"] = total // 8
        values["capture"] = {"dir": "nodes"}
        values["retention"] = rules
        for node in values["nodes"]:
            del node["files"]
            node["server"] = "mysql://repl@127.0.0.1:1"

    return copy_case(CASE, folder, change)


def _undisturbed(folder: Path) -> dict[str, bytes]:
    merge(_case(folder), folder / "out")
    return written(folder / "out")


@pytest.mark.parametrize("seed", keeping([0], range(3)))
def test_rounds_that_remove(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY_SECONDS", 0.0)
    good = _undisturbed(tmp_path / "whole")
    path, out, rng = (
        _case(tmp_path, size="2000", captured="needed", schemas=True),
        tmp_path / "out",
        random.Random(seed),
    )
    config = MergeConfig.load(path)
    nodes = {node.source_id: GrowingNode.of(tmp_path / "nodes" / node.source_id) for node in config.nodes}
    removed: list[str] = []
    captured: dict[str, list[str]] = {}
    merging = Rounds(LocalRunner(), config, out)
    merging.__enter__()
    for number, reached in enumerate(schedule(nodes, 6, False, rng), 1):
        for name, place in reached.items():
            nodes[name].grow(place, False)
        if rng.random() < 0.4:
            merging.__exit__(None, None, None)
            merging = Rounds(LocalRunner(), config, out)
            merging.__enter__()
        done = merging.merge(end_of_input=number == 6).removed
        removed += done.get("files", [])
        for name, files in done.get("captured", {}).items():
            captured.setdefault(name, []).extend(files)
            assert not any((nodes[name].folder / file).exists() for file in files)
            nodes[name].gone.update(files)
    merging.__exit__(None, None, None)
    there = written(out)
    assert removed and captured, "else this shows nothing"
    assert [*removed, *there] == list(good), "the oldest first, and each once"
    assert there == {name: good[name] for name in there}
    assert all(len(list(node.folder.glob("binlog.0*"))) >= 2 for node in nodes.values())
    gone = state_of(out).gone
    assert gone is not None and gone.files == len(removed)
    assert gone.captured_files == sum(map(len, captured.values()))
    binlog = Log(out)
    assert verify(binlog, history_of(out)).transactions == state_of(out).rank - gone.last_rank
    assert (out / "binlog.index").read_text() == "".join(f"./{name}\n" for name in there)


def _failing_over(folder: Path, rng: random.Random) -> tuple[dict[str, list[Part]], dict[str, bytes]]:
    """Write a history whose first node fails over twice; return the captured files, and the output of all of it."""
    style = Style(nodes=2, steps=120, carrier="gtid-time", rotate=0.3)
    path = Simulator(31, style).write(folder)
    values = yaml.safe_load(path.read_text())
    values["output"] = {**values.get("output", {}), "max-size": 6000}
    path.write_text(yaml.safe_dump(values))
    merge(path, folder / "good")
    parts = {}
    for home in sorted((folder / "nodes").iterdir()):
        files = [(file.name, file.read_bytes()) for file in sorted(home.iterdir())]
        shutil.rmtree(home)
        parts[home.name] = [Part("", tuple(files), "")]
    files = parts["dn-1"][0].files
    while sum(len(part.files) > 3 for part in parts["dn-1"][:2]) < 2:
        parts["dn-1"] = failed_over(files, 2, rng)
    for node in values["nodes"]:
        del node["files"]
        node["server"] = ["mysql://repl@127.0.0.1:1", "mysql://repl@127.0.0.1:2"]
    values |= {"capture": {"dir": "nodes"}, "retention": {"captured": "needed", "size": "5000", "schemas": True}}
    path.write_text(yaml.safe_dump(values))
    return parts, written(folder / "good")


@pytest.mark.parametrize("seed", keeping([0], range(3)))
def test_a_node_that_fails_over(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a server that the node has left go, too, but for its last ones; a failover finds what it needs."""
    monkeypatch.setattr(retention, "EVERY_SECONDS", 0.0)
    rng = random.Random(f"retention {seed}")
    nodes, good = _failing_over(tmp_path, rng)
    out, rounds, gone = tmp_path / "out", 8, {name: frozenset[str]() for name in nodes}
    plan = {n: [*sorted(rng.choices(places(p), k=rounds - 1)), places(p)[-1]] for n, p in nodes.items()}
    config = MergeConfig.load(tmp_path / "cluster.yaml")
    with ExitStack() as stack:
        merging: Rounds | None = None
        for number in range(rounds):
            for name, parts in nodes.items():
                grow(tmp_path / "nodes" / name, parts, plan[name][number], gone[name])
            if merging is None or rng.random() < 0.3:
                stack.close()
                merging = stack.enter_context(Rounds(LocalRunner(), config, out))
            done = merging.merge(end_of_input=number == rounds - 1).removed
            for name, files in done.get("captured", {}).items():
                gone[name] |= frozenset(files)
            for name, parts in nodes.items():
                for server, part in enumerate(parts[: plan[name][number][0] + 1]):
                    last = len(part.files) if server < plan[name][number][0] else plan[name][number][1] + 1
                    for file, _ in part.files[max(0, last - 2) : last]:
                        assert (tmp_path / "nodes" / name / part.folder / file).exists()
    there = written(out)
    assert list(good)[-len(there) :] == list(there) and there == {name: good[name] for name in there}
    assert any("/" in name for name in gone["dn-1"]) and any("/" not in name for name in gone["dn-1"])
    assert len(there) < len(good)


def test_no_output_begins_behind_captured_files_that_were_removed(tmp_path: Path) -> None:
    path, out = _case(tmp_path, captured="needed"), tmp_path / "out"
    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / "nodes", saved)
    captured = merge(path, out).removed["captured"]
    assert merge(path, out).transactions == 0, "the output itself goes on"
    first, last = captured["dn-1"][0], captured["dn-1"][-1]
    with pytest.raises(Purged, match=f"{first} to {last} were removed.* when {out} had what is in them") as caught:
        merge(path, tmp_path / "another")
    assert caught.value.node == "dn-1" and "--start-tso" in str(caught.value.remedy)
    behind = int(str(caught.value.remedy).split("--start-tso ")[1].split("`")[0])
    assert behind == int(state_of(out).last.state["floor"][:19]) + 1  # type: ignore[union-attr]
    with pytest.raises(Purged):
        merge(path, tmp_path / "earlier", start_tso=behind - 1)
    with pytest.raises(MarkerIncomplete, match="not on node dn-2"):  # it is in dn-1's files that are left only
        merge(path, tmp_path / "later", start_tso=behind)
    for node in saved.iterdir():
        shutil.copytree(node, tmp_path / "nodes" / node.name, dirs_exist_ok=True)
    merge(path, tmp_path / "restored")
    assert written(tmp_path / "restored") == written(out)


def test_what_reads_the_output_says_that_its_beginning_is_gone(tmp_path: Path) -> None:
    good = _undisturbed(tmp_path / "whole")
    out = tmp_path / "out"
    result = merge(_case(tmp_path, size=2000, schemas=True), out)
    binlog = Log(out)
    first = binlog.state.first_rank
    assert result.removed["files"] == list(good)[: len(result.removed["files"])] and first > 1
    for read in (binlog.items, lambda rank: segments(binlog, rank)):
        with pytest.raises(OutsideLog, match=f"begins with transaction {first}"):
            next(iter(read(first - 1)))
    before = checkpoints_of(Log(tmp_path / "whole" / "out"), {first - 2, first - 1, first})
    assert checkpoints_of(binlog, {first - 2, first - 1, first}) == {**before, first - 2: Checkpoint(first - 2)}
    begin = next(iter(binlog.items(first)))
    assert isinstance(begin, Begin) and begin.rank == first
    key = OrderKey.parse(binlog.state.files[0].first_key)
    assert binlog.state.gone is not None and binlog.state.gone.last_key is not None
    behind = int(binlog.state.gone.last_key[:19]) + 1
    log, place = Log(out), LogPlace.at_tso("--start", behind)
    assert log.between(place, None).first == Log(tmp_path / "whole" / "out").between(place, None).first >= first
    with pytest.raises(OutsideLog, match="is not in the log any more"):
        log.between(None, LogPlace.at_tso("--stop", 1))
    reading = [Log(tmp_path / "whole" / "out").items(), segments(Log(tmp_path / "whole" / "out"))]
    assert all(next(iter(read)) for read in reading)
    merge(_case(tmp_path / "now", size=1), tmp_path / "whole" / "out")
    for read in reading:
        with pytest.raises(OutsideLog, match="is not in the log any more"):
            list(read)
    last = OrderKey.parse(binlog.state.gone.last_key)
    begins = find_place(log, LogPlace.at_key("--at", last))
    assert begins.following is not None and begins.following.gtid.endswith(f":{first}")
    assert begins.file == binlog.state.files[0].name and begins.position == begins.following.start
    with pytest.raises(OutsideLog, match="is not in the log any more"):
        find_place(log, LogPlace.at_key("--at", last.previous()))
    with Store.open(out / "schema.duckdb", read_only=True) as store:
        folded = store.load_history()
    with Store.open(tmp_path / "whole" / "out" / "schema.duckdb", read_only=True) as store:
        history = store.load_history()
    for at in {key, *(v.key for v in history.versions if v.key >= key)}:
        for node in (None, "dn-1", "dn-2"):
            names = {(v.schema, v.name) for v in history.versions if v.node == node}
            for schema, name in names:
                ours, theirs = folded.at(schema, name, at, node), history.at(schema, name, at, node)
                assert (ours and ours.table) == (theirs and theirs.table), (schema, name, at)
    if result.removed.get("schemas"):
        schema, name = next((v.schema, v.name) for v in history.versions if v.node is None)
        with pytest.raises(BeforeBase, match="was folded up to"):
            folded.at(schema, name, OrderKey(1, 0, 0, 0))


def test_nothing_is_removed_unless_it_is_configured_and_readers_keep_what_they_need(tmp_path: Path) -> None:
    good = _undisturbed(tmp_path / "whole")
    out = tmp_path / "out"
    out.mkdir()
    names = list(good)
    write_state_note(out / NOTES_FOLDER / "serve-h-1.json", {"readers": [{"peer": "a:1", "file": names[1]}]})
    done = merge(_case(tmp_path / "kept", size=1), out).removed
    assert done["files"] == names[:1]
    assert done["kept_for_readers"] == {"files": names[1:-1], "readers": [f"a:1 at {names[1]}"]}
    again = merge(_case(tmp_path / "told", size=1, **{"past-readers": True}), out).removed
    assert again["files"] == names[1:-1] and list(written(out)) == names[-1:]
    assert (merge(_case(tmp_path / "age", age="1d", captured="1d"), out)).removed == {}


def test_rules_that_say_nothing_are_refused() -> None:
    assert Retention.model_validate({"age": "7d", "size": "100GB", "captured": "keep"}).age == 7 * 86_400_000_000
    for wrong in ({"schemas": True}, {"past-readers": True}, {"age": 0}, {"size": 0}, {"captured": "soon"}):
        with pytest.raises(ValidationError):
            Retention.model_validate(wrong)
