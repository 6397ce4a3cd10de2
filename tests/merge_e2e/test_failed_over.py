"""A node that failed over: the files of its servers are one log, each transaction once, in any rounds."""

import json
import random
import shutil
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import (
    ManifestError,
    MissingFile,
    TransactionMissing,
    TransactionTwice,
    UnannouncedDdl,
    UnsupportedInput,
)
from binlog_merge.pipeline.rounds import Rounds
from tests.effort import keeping
from tests.merge_e2e.editing import ANONYMOUS_GTID, Log, assert_prefix
from tests.merge_e2e.failing_over import Part, failed_over, groups_of, grow, gtid_of, places, text_of
from tests.merge_e2e.local import LocalRunner, merge, state_of, written
from tests.merge_e2e.simulator import Simulator, Style

CARRIERS = ("gtid-time", "commit-table", "original-commit-timestamp")


def _history(seed: int, folder: Path) -> tuple[Path, dict[str, list[Part]], dict[str, bytes], random.Random]:
    """Write a made-up history whose first node fails over; return what the merge of the log as one gives."""
    rng = random.Random(f"failed over {seed}")
    config = Simulator(20 + seed, Style(nodes=2, steps=60, carrier=CARRIERS[seed % len(CARRIERS)], rotate=0.05)).write(
        folder
    )
    merge(config, folder / "good")
    nodes = {}
    for home in sorted((folder / "nodes").iterdir()):
        files = [(path.name, path.read_bytes()) for path in sorted(home.iterdir())]
        shutil.rmtree(home)
        first = home.name == "dn-1"
        nodes[home.name] = failed_over(files, rng.randint(1, 3), rng) if first else [Part("", tuple(files), "")]
    return config, nodes, written(folder / "good"), rng


@pytest.mark.parametrize("seed", keeping([0, 1], range(4)))
def test_the_logs_of_several_servers_are_one(seed: int, tmp_path: Path) -> None:
    config, nodes, good, rng = _history(seed, tmp_path)
    for name, parts in nodes.items():
        grow(tmp_path / "nodes" / name, parts, places(parts)[-1])
    result = merge(config, tmp_path / "out", partitions=rng.choice([None, 3, 20]))
    assert written(tmp_path / "out") == good
    assert not [text for text in result.warnings if "GTID" in text]


@pytest.mark.parametrize("seed", keeping([0, 1], range(4)))
def test_in_rounds(seed: int, tmp_path: Path) -> None:
    config, nodes, good, rng = _history(seed, tmp_path)
    rounds, gone = 6, dict.fromkeys(nodes, frozenset[str]())
    plan = {
        name: [*sorted(rng.choices(places(parts), k=rounds - 1)), places(parts)[-1]] for name, parts in nodes.items()
    }
    with ExitStack() as stack:
        merging: Rounds | None = None
        for number in range(rounds):
            for name, parts in nodes.items():
                grow(tmp_path / "nodes" / name, parts, plan[name][number], gone[name])
            if merging is None or rng.random() < 0.3:
                stack.close()
                loaded = MergeConfig.load(config)
                merging = stack.enter_context(Rounds(LocalRunner(), loaded, tmp_path / "out", partitions=5))
            with suppress(*(() if number == rounds - 1 else (UnannouncedDdl,))):
                merging.merge(end_of_input=number == rounds - 1)
            assert_prefix(written(tmp_path / "out"), good)
            last = state_of(tmp_path / "out").last
            if last is not None and rng.random() < 0.5:
                for name, state in last.nodes.items():
                    gone[name] |= _remove_before(tmp_path / "nodes" / name, nodes[name], state.checkpoint["file"])
    assert written(tmp_path / "out") == good


def _one_switch(folder: Path) -> tuple[Path, Path, list[Part]]:
    """Write a node that failed over in the middle of its log, to a server with several files; also returns its home."""
    config = Simulator(7, Style(nodes=1, steps=60, carrier="gtid-time", rotate=0.05)).write(folder)
    home = folder / "nodes" / "dn-1"
    files = [(path.name, path.read_bytes()) for path in sorted(home.iterdir())]
    shutil.rmtree(home)
    for seed in range(100):
        parts = failed_over(files, 1, random.Random(seed))
        captured = json.loads(parts[1].line)["captured"].split(",")
        own = [_gtids_of(replace(parts[1], files=(file,))) for file in parts[1].files]
        if len(own) == 3 and len(parts[0].files) > 1 and captured[-1] in own[0] and own[0] - set(captured) and own[2]:
            grow(home, parts, places(parts)[-1])
            return config, home, parts
    raise AssertionError("no such history")


def _changed(home: Path, **values: object) -> None:
    index = home / "servers.index"
    index.write_text(json.dumps(json.loads(index.read_text()) | values) + "\n")


def test_what_is_missing_between_servers_is_named(tmp_path: Path) -> None:
    config, home, parts = _one_switch(tmp_path)
    line = json.loads(parts[1].line)
    last, first = home / line["ended"]["file"], home / parts[1].folder / parts[1].files[0][0]

    data = last.read_bytes()
    last.unlink()
    with pytest.raises(MissingFile, match=f"{last.name} is missing: the node failed over to another server after"):
        merge(config, tmp_path / "out")
    last.write_bytes(data[: line["ended"]["position"] - 1])
    with pytest.raises(MissingFile, match=f"{last.name} has {line['ended']['position'] - 1} bytes only"):
        merge(config, tmp_path / "out")
    last.write_bytes(data)

    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(TransactionMissing, match=r"was executed before it, but neither .* nor"):
        merge(config, tmp_path / "begins-late")
    first.write_bytes(kept)

    unknown = "00000000-0000-0000-0000-00000000000f:9"
    _changed(home, captured=f"{line['captured']},{unknown}")
    with pytest.raises(TransactionMissing, match=unknown):
        merge(config, tmp_path / "tail-missing")
    _changed(home, captured=line["captured"].rpartition(",")[0])
    again = line["captured"].rpartition(",")[2]
    assert again in _gtids_of(parts[1])
    with pytest.raises(TransactionTwice, match=f"GTID {again} comes again"):
        merge(config, tmp_path / "again")
    _changed(home, captured=line["captured"])
    merge(config, tmp_path / "whole")


def test_an_index_that_is_damaged(tmp_path: Path) -> None:
    config, home, _ = _one_switch(tmp_path)
    for damage in ({"version": 2}, {"captured": "none"}, {"folder": "../x"}, {"ended": {"file": "a"}}):
        kept = (home / "servers.index").read_text()
        _changed(home, **damage)
        with pytest.raises(ManifestError, match="line 1 is damaged") as caught:
            merge(config, tmp_path / "out")
        assert caught.value.file is not None and caught.value.node == "dn-1"
        (home / "servers.index").write_text(kept)


def test_transactions_without_gtids(tmp_path: Path) -> None:
    config, home, parts = _one_switch(tmp_path)
    last = home / parts[1].folder / parts[1].files[-1][0]
    log = Log.load(last)
    at = next(log.groups())[0]
    event = log.events[at]
    log.changed(at, replace(event, type=ANONYMOUS_GTID, body=event.body[:1] + bytes(24) + event.body[25:])).save(last)
    with pytest.raises(UnsupportedInput, match="has transactions without a GTID"):
        merge(config, tmp_path / "out")


def _gtids_of(part: Part) -> set[str]:
    return {text_of([gtid_of(group)]) for _, data in part.files for group in groups_of(Log.load(data))}


def _remove_before(home: Path, parts: list[Part], needed: str) -> frozenset[str]:
    names = [str(Path(part.folder) / name) for part in parts for name, _ in part.files]
    old = names[: names.index(needed)]
    for name in old:
        (home / name).unlink(missing_ok=True)
    return frozenset(old)
