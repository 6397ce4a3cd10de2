"""The properties, each a function of a seed: it makes a history, merges it in some way, and compares.

What must come out is said twice, by the oracle's merge byte for byte and by the simulator's truth in rows.
"""

import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.files.captured import RECORD_NAME
from binlog_merge.files.needed import needed_by
from binlog_merge.files.publish import FAILPOINTS
from binlog_merge.pipeline.rounds import Rounds
from tests.merge_e2e.killed import merge_until
from tests.merge_e2e.local import LocalRunner, merge, state_of, written
from tests.oracle import merge_case
from tests.simulator import simulate
from tests.soak.decode import transactions
from tests.soak.histories import POLARDBX, SHARDS, History, Kind

STAGES = ("discover", "scan", "assemble", "coordinate", "order", "gather", "publish")
IN_USE = 1


@contextmanager
def small_buffers(rng: random.Random) -> Iterator[None]:
    """Make every window and buffer of the stages small, at times, so that little input takes the paths of much."""
    changes: dict[str, int] = {}
    if rng.random() < 0.6:
        window = rng.choice((256, 1_000, 8_000, 60_000))
        chunk = rng.choice((200, 4_096, 50_000))
        changes = {
            "pipeline.gather.task.WINDOW_BYTES": window,
            "pipeline.gather.input_reader.WINDOW_BYTES": window,
            "pipeline.gather.input_reader.WINDOW_ROWS": rng.choice((1, 2, 7, 4096)),
            "pipeline.gather.input_reader.GAP": rng.choice((0, 100, 65536)),
            "pipeline.gather.output_file.OUT_BUFFER": rng.choice((5_000, 20_000, 1 << 20)),
            "pipeline.gather.task.FLUSH": rng.choice((0, 1_000, 100_000)),
            "pipeline.gather.giant.PIECE": rng.choice((100, 1_000, 30_000)),
            "pipeline.gather.giant.STREAMED_EVENT": rng.choice((100, 1_000, 20_000)),
            "pipeline.scan.task.CHUNK": chunk,
            "pipeline.scan.walk.CHUNK": chunk,
            "pipeline.scan.task.FIND_BUFFER": rng.choice((200, 4_096, 50_000)),
            "pipeline.scan.task.GIANT_EVENT": rng.choice((5_000, 20_000, 1 << 20)),
        }
    with contextmanager(_patched)(changes):
        yield


def _patched(changes: Mapping[str, int]) -> Iterator[None]:
    patches = [patch(f"binlog_merge.{name}", value) for name, value in changes.items()]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def config_of(simulation: History, rng: random.Random) -> MergeConfig:
    """Return the configuration, its nodes in any order."""
    config = MergeConfig.load(simulation.cluster_yaml)
    nodes = list(config.nodes)
    rng.shuffle(nodes)
    return config.model_copy(update={"nodes": tuple(nodes)})


def same_files(got: Mapping[str, bytes], expected: Mapping[str, bytes]) -> None:
    """Compare files by name and bytes; says where the first difference is."""
    assert sorted(got) == sorted(expected)
    for name, data in expected.items():
        if got[name] != data:
            at = next((i for i, (a, b) in enumerate(zip(got[name], data, strict=False)) if a != b), None)
            raise AssertionError(f"{name} differs at {at}, {len(got[name])} bytes against {len(data)}")


def a_prefix(part: Mapping[str, bytes], whole: Mapping[str, bytes]) -> None:
    """Check that files are a prefix of others: whole but for the last, which may go on."""
    names = sorted(part)
    assert names == sorted(whole)[: len(names)]
    for name in names[:-1]:
        assert part[name] == whole[name], name
    if names:
        assert whole[names[-1]].startswith(part[names[-1]]), names[-1]


def check_whole(seed: int, folder: Path, **shape: Any) -> None:
    """(a) The product's files are the oracle's, and say what the simulator means, however the work is cut."""
    rng = random.Random(seed)
    simulation = simulate(seed, folder / "case", **shape)
    expected = merge_case(simulation.cluster_yaml)
    told = [replace(t, key="") if t.sql is not None else t for t in simulation.truth]
    assert transactions(expected.files, folder) == told, "oracle and simulator differ"
    for partitions in (None, rng.randrange(1, 10)):
        out = folder / f"out-{partitions}"
        with small_buffers(rng):
            merge(config_of(simulation, rng), out, partitions=partitions)
        same_files(written(out), expected.files)
        assert (out / "binlog.index").read_bytes() == expected.index or not expected.files
    assert transactions(written(out), folder) == told


def cut(simulation: History, places: Mapping[str, tuple[str, int]], skip: Mapping[str, str], finished: bool) -> None:
    """Make the nodes' folders hold their logs up to these places, without files before those of `skip`."""
    for source, files in simulation.files.items():
        folder = simulation.folder / "nodes" / source
        last, offset = places[source]
        for name, data in files.items():
            path = folder / name
            if name > last or name < skip.get(source, ""):
                path.unlink(missing_ok=True)
                continue
            part = bytearray(data if name < last else data[:offset])
            if name == last and not finished:
                part[4 + 17] |= IN_USE  # a file that is being written; its checksum is that of the flag cleared
            path.write_bytes(part)


def schedule(simulation: History, rng: random.Random, runs: int) -> list[dict[str, tuple[str, int]]]:
    """Return, for each run, up to where each node's log is there: at group ends, at times in the middle of an event."""
    plan: list[dict[str, tuple[str, int]]] = [{} for _ in range(runs)]
    for source, ends in simulation.ends.items():
        chosen = sorted(rng.randrange(len(ends)) for _ in range(runs))
        for run, index in enumerate(chosen):
            name, offset = ends[index]
            following = ends[index + 1] if index + 1 < len(ends) else ends[index]
            if following[0] == name and rng.random() < 0.2:
                offset = rng.randrange(offset, following[1] + 1)
            plan[run][source] = max((name, offset), plan[run - 1].get(source, ("", 0)) if run else ("", 0))
    return plan


def check_growth(seed: int, folder: Path, kind: Kind = SHARDS, **shape: Any) -> None:
    """(b, e) However the input grows over the runs, the files end the same, and what is published never changes."""
    rng = random.Random(seed)
    simulation = kind.simulate(seed, folder / "case", **shape)
    expected = kind.merged(simulation.cluster_yaml, None, None)
    out, removing, skip = folder / "out", rng.random() < 0.5, dict[str, str]()
    whole_groups = {source: set(ends) for source, ends in simulation.ends.items()}
    for places in schedule(simulation, rng, rng.randrange(1, 5)):
        cut(simulation, places, {}, False)
        judged = None
        if kind.merged_so_far and all(place in whole_groups[source] for source, place in places.items()):
            judged = kind.merged_so_far(simulation.cluster_yaml)
        cut(simulation, places, skip, False)
        with small_buffers(rng):
            result = merge(config_of(simulation, rng), out, end_of_input=False, partitions=rng.choice((None, 1, 2, 5)))
        if judged is not None:
            same_files(written(out), judged[0])
            assert {source: node.watermark for source, node in result.nodes.items()} == judged[1]
        a_prefix(written(out), expected)
        if result.watermark is not None:
            done = len(kind.read(written(out), folder))
            assert all(t.key < result.watermark for t in simulation.truth[:done])
            assert all(t.key >= result.watermark for t in simulation.truth[done:])
        last = state_of(out).last
        if removing and last is not None:
            skip = {source: str(node.checkpoint["file"]) for source, node in last.nodes.items()}
    ends = {source: (max(files), len(files[max(files)])) for source, files in simulation.files.items()}
    cut(simulation, ends, skip, True)
    with small_buffers(rng):
        merge(config_of(simulation, rng), out, partitions=rng.choice((None, 3)))
    same_files(written(out), expected)


def check_rounds(seed: int, folder: Path, kind: Kind = SHARDS, **shape: Any) -> None:
    """(f) Rounds of one process, which may begin anew at any of them, end the same; nothing published ever changes."""
    rng = random.Random(seed)
    simulation = kind.simulate(seed, folder / "case", **shape)
    expected = kind.merged(simulation.cluster_yaml, None, None)
    out, skip = folder / "out", dict[str, str]()
    ends = {source: (max(files), len(files[max(files)])) for source, files in simulation.files.items()}
    plan = schedule(simulation, rng, rng.randrange(3, 25))
    with ExitStack() as stack:
        rounds: Rounds | None = None
        for places in [*plan, ends]:
            cut(simulation, places, skip, places is ends)
            if rounds is None or rng.random() < 0.15:
                stack.close()
                config, partitions = config_of(simulation, rng), rng.choice((None, 1, 4))
                rounds = stack.enter_context(Rounds(LocalRunner(), config, out, partitions=partitions))
            with small_buffers(rng):
                if rng.random() < 0.1:
                    assert rounds.has_news() in (True, False)
                rounds.merge(end_of_input=places is ends)
            a_prefix(written(out), expected)
            last = state_of(out).last
            if last is not None and rng.random() < 0.3:
                skip = {source: str(node.checkpoint["file"]) for source, node in last.nodes.items()}
    same_files(written(out), expected)


def check_killed(seed: int, folder: Path, kind: Kind = SHARDS, **shape: Any) -> None:
    """(c) A run killed anywhere, and run again, ends the same."""
    rng = random.Random(seed)
    simulation = kind.simulate(seed, folder / "case", **shape)
    expected = kind.merged(simulation.cluster_yaml, None, None)
    out = folder / "out"
    for places in schedule(simulation, rng, 2):
        cut(simulation, places, {}, False)
        place = rng.choice([*(f"after-{stage}" for stage in STAGES), *FAILPOINTS])
        merge_until(f"{place}:kill:{rng.choice((1, 1, 2, 3))}", simulation.cluster_yaml, out, end_of_input=False)
        if rng.random() < 0.5:
            merge(simulation.cluster_yaml, out, end_of_input=False)
            a_prefix(written(out), expected)
    ends = {source: (max(files), len(files[max(files)])) for source, files in simulation.files.items()}
    cut(simulation, ends, {}, True)
    place = rng.choice([*(f"after-{stage}" for stage in STAGES), *FAILPOINTS])
    merge_until(f"{place}:kill:{rng.choice((1, 1, 2, 3))}", simulation.cluster_yaml, out)
    merge(simulation.cluster_yaml, out)
    same_files(written(out), expected)


def captured_by(simulation: History) -> None:
    """Say of the nodes' folders that a capture fills them, so that the manifest says what a new host needs."""
    for number, source in enumerate(sorted(simulation.files), 1):
        values = {"version": 1, "server_uuid": str(uuid.UUID(int=number)), "replica_uuid": str(uuid.UUID(int=99))}
        (simulation.folder / "nodes" / source / RECORD_NAME).write_text(json.dumps(values))


def lose_the_host(simulation: History, out: Path) -> None:
    """Leave of the nodes' files what a capture on a new host fetches: what is left out of one is garbage."""
    for source, needed in needed_by(str(out)).items():
        folder = simulation.folder / "nodes" / source
        for path in sorted(folder.glob("*.[0-9]*")):
            if path.name < needed.oldest.file:
                path.unlink()
        path = folder / needed.oldest.file
        data = bytearray(path.read_bytes())
        begin = 4 + int.from_bytes(data[13:17], "little")
        begin += int.from_bytes(data[begin + 9 : begin + 13], "little") if len(data) > begin + 13 else 0
        if begin < needed.oldest.position:
            data[begin : needed.oldest.position] = b"\xee" * (needed.oldest.position - begin)
            path.write_bytes(data)


def check_new_host(seed: int, folder: Path, kind: Kind = SHARDS, **shape: Any) -> None:
    """(g) A host that has nothing but what the manifest says is needed of the nodes' files goes on to the same end."""
    rng = random.Random(seed)
    simulation = kind.simulate(seed, folder / "case", **shape)
    expected = kind.merged(simulation.cluster_yaml, None, None)
    out = folder / "out"
    captured_by(simulation)
    ends = {source: (max(files), len(files[max(files)])) for source, files in simulation.files.items()}
    for places in [*schedule(simulation, rng, rng.randrange(2, 8)), ends]:
        cut(simulation, places, {}, places is ends)
        if rng.random() < 0.8:
            lose_the_host(simulation, out)
        with small_buffers(rng):
            merge(
                config_of(simulation, rng), out, end_of_input=places is ends, partitions=rng.choice((None, 1, 2, 5, 50))
            )
        a_prefix(written(out), expected)
    same_files(written(out), expected)


def check_damage(seed: int, folder: Path, kind: Kind = SHARDS, **shape: Any) -> None:
    """(d) A flipped bit stops the merge with a MergeError before it shows, and what is published is right.

    In a file without checksums it may go unseen; then it must still be a MergeError or a result, nothing else.
    """
    rng = random.Random(seed)
    simulation = kind.simulate(seed, folder / "case", **shape)
    good = kind.merged(simulation.cluster_yaml, None, None)
    for attempt in range(3):
        source = rng.choice(sorted(simulation.files))
        name = rng.choice(sorted(simulation.files[source]))
        data = bytearray(simulation.files[source][name])
        guarded = data[4 + int.from_bytes(data[13:17], "little") - 5] == 1
        at, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        data[at] ^= bit
        path = simulation.folder / "nodes" / source / name
        path.write_bytes(data)
        out = folder / f"out-{attempt}"
        try:
            with small_buffers(rng):
                merge(config_of(simulation, rng), out, partitions=rng.choice((None, 4)))
            # The in-use flag of a format description is outside of its checksum.
            assert not guarded or (at, bit) == (4 + 17, IN_USE), f"{source}/{name}: byte {at}, bit {bit} went unseen"
        except MergeError as error:
            assert 0 < error.exit_code < 128
            assert not error.code.startswith("internal"), error
        if guarded:
            a_prefix(written(out), good)
            kind.read(written(out), folder)  # whole transactions only
        path.write_bytes(simulation.files[source][name])


def check_stops(seed: int, folder: Path, kind: Kind = SHARDS, **shape: Any) -> None:
    """Stopping at TSOs and going on is one run; a range is what the oracle says it is."""
    rng = random.Random(seed)
    simulation = kind.simulate(seed, folder / "case", **shape)
    expected = kind.merged(simulation.cluster_yaml, None, None)
    tsos = sorted({int(t.key[:19]) for t in simulation.truth}) or [1]
    stops = sorted(rng.choice(tsos) + rng.choice((0, 1)) for _ in range(3))
    for stop in stops:
        with small_buffers(rng):
            merge(config_of(simulation, rng), folder / "out", stop_tso=stop, partitions=rng.choice((None, 3)))
        same_files(written(folder / "out"), kind.merged(simulation.cluster_yaml, None, stop))
    merge(config_of(simulation, rng), folder / "out")
    same_files(written(folder / "out"), expected)
    start, stop = stops[0], stops[-1] + 1
    merge(config_of(simulation, rng), folder / "range", start_tso=start, stop_tso=stop)
    same_files(written(folder / "range"), kind.merged(simulation.cluster_yaml, start, stop))


PROPERTIES: dict[str, Callable[..., None]] = {
    "whole": check_whole,
    "stops": check_stops,
    "growth": check_growth,
    "killed": check_killed,
    "damage": check_damage,
    "rounds": check_rounds,
    "new-host": check_new_host,
    "polardbx-rounds": partial(check_rounds, kind=POLARDBX),
    "polardbx-new-host": partial(check_new_host, kind=POLARDBX),
    "polardbx-stops": partial(check_stops, kind=POLARDBX),
    "polardbx-growth": partial(check_growth, kind=POLARDBX),
    "polardbx-killed": partial(check_killed, kind=POLARDBX),
    "polardbx-damage": partial(check_damage, kind=POLARDBX),
}
