"""A new host when another server has the node by now: what the output lacks is in that one's log, at other places.

the log          1 2 3 4 5 6 7 8 9
merged of it     1 2 3 . 5                 4 is prepared, and has not ended; the scan goes on behind 5
the new server   2 . 1 4 3 5 6 7 8 9       begins earlier, in an order of its own, in files of its own
"""

import json
import random
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from binlog_merge.files.captured import RECORD_NAME
from binlog_merge.files.needed import Needed, needed_by
from binlog_merge.files.servers import FollowingServer, folder_name, write_servers
from tests.effort import keeping
from tests.merge_e2e.editing import Log, assert_prefix, in_use
from tests.merge_e2e.failing_over import Group, groups_of, gtid_of, interleaved, written_anew
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.simulator import Simulator, Style

CARRIERS = ("gtid-time", "commit-table", "original-commit-timestamp")


class Node:
    """A node's log, of which the servers that had it wrote their own files; `captured` groups are in its folder."""

    def __init__(self, home: Path, number: int, rng: random.Random) -> None:
        self.home, self._number, self._rng = home, number, rng
        self._files = [(path.name, path.read_bytes()) for path in sorted(home.iterdir())]
        self.log: list[Group] = [group for _, data in self._files for group in groups_of(Log.load(data))]
        self._head = Log.load(self._files[0][1]).events[0]
        self._servers: tuple[FollowingServer, ...] = ()
        self._order: Sequence[Group] = self.log
        self._folder = home
        self._captured = 0
        self._begun: dict[str, object] | None = None

    def _writes(self, groups: Sequence[Group], before: list[tuple[bytes, int]]) -> None:
        first = self._rng.choice([1, 2, 900])
        self._files = written_anew(self._head, groups, before, first, self._rng)
        self._order = groups

    def capture(self, until: int) -> None:
        """Have the groups of the log before one captured, and what its server wrote among them."""
        self._captured = max(self._captured, until)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / RECORD_NAME).write_text(json.dumps(self._record()))
        places = [i for i, group in enumerate(self._order) if self.log.index(group) < self._captured]
        count = max(places, default=-1) + 1
        for name, data in self._files:
            log = Log.load(data)
            own = len(groups_of(log))
            if count < own:
                ends = [end for _, end in log.groups()]
                kept = log.with_events(log.events[: ends[count - 1] if count else next(log.groups())[0]])
                (self._folder / name).write_bytes(in_use(kept.pack()))
                return
            (self._folder / name).write_bytes(data)
            count -= own

    def _record(self) -> dict[str, object]:
        uuids = str(uuid.UUID(int=self._number * 100 + len(self._servers)))
        return {"version": 1, "server_uuid": uuids, "replica_uuid": uuids, "begun": self._begun}

    def fail_over(self, needed: Needed) -> None:
        """Lose all that is captured, and let another server have the node: what is needed is in its log."""
        assert needed.before.executed is not None
        shutil.rmtree(self.home)
        captured = needed.before.executed.minus(needed.before.open)
        left = [i for i, group in enumerate(self.log) if _of(group) not in captured]
        begin = left[0] if left else len(self.log)
        start = self._rng.randint(0, begin)
        known = [group for group in self.log[start:] if _of(group) in captured]
        new = [group for group in self.log[start:] if _of(group) not in captured]
        self._writes(interleaved(known, new, self._rng), [gtid_of(group) for group in self.log[:start]])
        names = [server.folder for server in needed.before.following]
        kept = needed.before.following[: names.index(needed.resume.folder) + 1 if needed.resume.folder else 0]
        server_uuid = str(uuid.UUID(int=self._number * 100 + len(kept) + 1))
        folder = folder_name(len(kept) + 2, server_uuid)
        line = FollowingServer(folder, server_uuid, "mysql://b", 1.0, needed.resume, str(captured), self._files[0][0])
        self._servers = (*kept, line)
        self._folder = self.home / folder
        resumed = {"resumed_in": needed.resume.file, "resumed": needed.resume.position}
        self._begun = {"merged": "out", **resumed, "read_in": self._files[0][0], "read": 0, "executed": ""}
        self.home.mkdir()
        write_servers(self.home, self._servers)
        self.capture(self._captured)


def _of(group: Group) -> tuple[bytes, str, int]:
    sid, gno = gtid_of(group)
    return sid, "", gno


@pytest.mark.parametrize("seed", keeping([0, 1, 2], range(12)))
def test_another_server_has_the_node(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"new host {seed}")
    carrier = CARRIERS[seed % len(CARRIERS)]
    config = Simulator(50 + seed, Style(nodes=2, steps=60, carrier=carrier, rotate=0.05)).write(tmp_path)
    merge(config, tmp_path / "good")
    good, out = written(tmp_path / "good"), tmp_path / "out"
    nodes = []
    for number, home in enumerate(sorted((tmp_path / "nodes").iterdir()), 1):
        nodes.append(Node(home, number, rng))
        shutil.rmtree(home)
    rounds = rng.randint(2, 6)
    plan = [[*sorted(rng.choices(range(1, len(n.log) + 1), k=rounds - 1)), len(n.log)] for n in nodes]
    for number in range(rounds):
        needed = needed_by(str(out))
        for node, untils in zip(nodes, plan, strict=True):
            if node.home.name in needed and rng.random() < 0.6:
                node.fail_over(needed[node.home.name])
            node.capture(untils[number])
        merge(config, out, end_of_input=number == rounds - 1, partitions=rng.choice([None, 3, 20]))
        assert_prefix(written(out), good)
    assert written(out) == good
