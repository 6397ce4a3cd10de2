"""Nodes that are still writing: the same input, fed in rounds, each with a little more of every node's files."""

import random
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from binlog_merge.errors import UnannouncedDdl
from tests.merge_e2e.editing import Log, assert_prefix, in_use
from tests.merge_e2e.local import merge, state_of, written

Place = tuple[int, int]  # file index, offset in it


@dataclass
class GrowingNode:
    """One node's files, of which a part is there. `gone` are the files that were removed again."""

    folder: Path
    files: list[tuple[str, bytes]]
    at: Place = (0, 0)
    gone: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, folder: Path) -> "GrowingNode":
        """Take all files of a folder, and leave it empty."""
        paths = sorted(p for p in folder.glob("binlog.*") if p.suffix != ".index")
        files = [(p.name, p.read_bytes()) for p in paths]
        shutil.rmtree(folder)
        return cls(folder, files)

    def places(self, anywhere: bool) -> list[Place]:
        """Return where the input may be cut: behind the head of the first file; between groups, or anywhere."""
        found = []
        for index, (_, data) in enumerate(self.files):
            log = Log.load(data)
            head = log.events[2].at if len(log.events) > 2 else len(data)
            offsets = range(len(data) + 1) if anywhere else sorted({head, *log.boundaries()})
            found += [(index, offset) for offset in offsets if index > 0 or offset >= head]
        return found

    def grow(self, to: Place, anywhere: bool) -> None:
        """Write the files up to a place. A file that is cut anywhere is marked as in use, as servers do."""
        self.at = to
        last, offset = to
        self.folder.mkdir(parents=True, exist_ok=True)
        for index, (name, data) in enumerate(self.files[: last + 1]):
            if name in self.gone:
                continue
            if index == last and offset < len(data):
                data = data[:offset]
                if anywhere and offset > 22:
                    data = in_use(data)
            (self.folder / name).write_bytes(data)

    def remove_before(self, name: str) -> None:
        """Remove the files before the one of this name."""
        for old, _ in self.files:
            if old < name and (self.folder / old).exists():
                self.gone.add(old)
                (self.folder / old).unlink()


def schedule(
    nodes: Mapping[str, GrowingNode], rounds: int, anywhere: bool, rng: random.Random
) -> list[dict[str, Place]]:
    """Return, for each round, how far each node has written: at random, never back, at last everything."""
    plan: dict[str, list[Place]] = {}
    for name, node in nodes.items():
        places = node.places(anywhere)
        plan[name] = [*sorted(rng.choices(places, k=rounds - 1)), (len(node.files) - 1, len(node.files[-1][1]))]
    return [{name: places[i] for name, places in plan.items()} for i in range(rounds)]


def merge_growing(config: Path, out: Path, files: Mapping[str, bytes], rounds: int, rng: random.Random) -> None:
    """Merge while the nodes write, and remove what no run needs any more; at last the output is `files`.

    Before that it is always a prefix of them: nothing that is held may be below a watermark that was told.
    """
    homes = sorted((config.parent / "nodes").iterdir())
    nodes = {home.name: GrowingNode.of(home) for home in homes}
    anywhere = rng.random() < 0.3
    for number, places in enumerate(schedule(nodes, rounds, anywhere, rng), 1):
        for name, place in places.items():
            nodes[name].grow(place, anywhere)
        # Before a cluster's first marker nothing tells that there will be one.
        with suppress(*(() if number == rounds else (UnannouncedDdl,))):
            merge(config, out, end_of_input=number == rounds, partitions=rng.choice([None, 2, 5, 20]))
        assert_prefix(written(out), files)
        last = state_of(out).last
        if last is not None:
            for name, state in last.nodes.items():
                nodes[name].remove_before(state.checkpoint["file"])
    assert written(out) == files
