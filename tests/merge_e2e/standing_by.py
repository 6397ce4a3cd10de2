"""Hosts that stand by for one output in an object store, each with the store as it sees it; nodes that write on."""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Self

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.files.lease import Holding, Terms
from binlog_merge.files.lease_keeper import LeaseKeeper, lease_objects
from binlog_merge.files.object_output import ObjectOutput
from binlog_merge.files.remote_log import opened_log
from binlog_merge.pipeline.rounds import Pace, Rounds, follow_leading
from binlog_merge.pipeline.values import MergeResult
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.growth import GrowingNode
from tests.merge_e2e.local import LocalRunner
from tests.object_store import KEY, SECRET, Store
from tests.store_proxy import StoreProxy

STEPS = 400
PACE = Pace(rest=0.05, look=0.05, first_pause=0.05, last_pause=0.2)


class Writing:
    """A cluster whose nodes write a little more at each step, and the output that hosts make of it."""

    def __init__(self, s3: Store, folder: Path, seconds: float = 1.0, case: str = "three-nodes-online-ddl") -> None:
        self.s3, self.folder, self.seconds = s3, folder, seconds
        self.config = copy_case(case_named(case), folder / "case", max_size(20_000))
        self.good = whole(self.config)
        homes = sorted((self.config.parent / "nodes").iterdir())
        self._nodes = [GrowingNode.of(home) for home in homes]
        self.at = 0
        self.grow(20)
        self.output = ObjectOutput(self.uri(s3.address))
        self.output.load()
        self.epochs: list[int] = []

    def uri(self, address: str) -> str:
        """Return the output as it is seen through an address."""
        return self.s3.uri(f"{self.folder.name}/merged", f"access_key={KEY}", f"secret_key={SECRET}", address=address)

    def grow(self, steps: int = 1) -> None:
        """Let the nodes write on."""
        self.at = min(STEPS, self.at + steps)
        for node in self._nodes:
            data = node.files[-1][1]
            cut = self.at < STEPS
            node.grow((len(node.files) - 1, len(data) * self.at // STEPS if cut else len(data)), anywhere=cut)

    @property
    def ended(self) -> bool:
        """Return whether the nodes have written all that they have."""
        return self.at == STEPS

    def look(self) -> int:
        """Return the rank of what is published. Epochs only grow."""
        self.output.advance()
        self.epochs.append(self.output.state.epoch)
        assert self.epochs == sorted(self.epochs)
        return self.output.state.rank

    def progress(self, patience: float = 120, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Let the nodes write until something new is published; return how long that took."""
        before, begun = self.look(), time.monotonic()
        while self.look() <= before:
            assert time.monotonic() - begun < patience, "nothing new is published"
            assert not self.ended
            meanwhile()
            self.grow()
            time.sleep(0.1)
        return time.monotonic() - begun

    def finish(self, *hosts: "Host") -> None:
        """Let the nodes write all that they have; what is published then is what one merge makes of it."""
        self.grow(STEPS)
        end = time.monotonic() + 120
        while self.published() != self.good:
            assert time.monotonic() < end, f"{self.output.state.rank} transactions are published"
            assert any(host.alive for host in hosts)
            time.sleep(0.2)

    def published(self) -> dict[str, bytes]:
        """Return the files of the output."""
        with opened_log(self.uri(self.s3.address), awaited=True) as log:
            if self.look() == 0:
                return {}
            log.refresh()
            return {file.name: log.path(file).read_bytes() for file in log.state().files}


class Host:
    """A host that merges when it leads, in a thread; `error` is what has ended it, `failures` what it
    tried again."""

    def __init__(self, writing: Writing, name: str, patient: bool = False) -> None:
        self.writing, self.name = writing, name
        self.proxy = StoreProxy(writing.s3)
        self.work = writing.folder / f"work-{name}"
        self.error: MergeError | None = None
        self.failures: list[MergeError] = []
        self._stop = Event()
        self.place = writing.uri(self.proxy.address)
        objects = lease_objects(self.place, writing.seconds)
        self.keeper = LeaseKeeper(objects, Terms(name, writing.seconds, patient))
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self.proxy.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.keeper.ending.set()
        self._thread.join(60)
        self.proxy.__exit__()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def leads(self) -> bool:
        return self.alive and isinstance(self.keeper.state, Holding)

    def lose_cache(self) -> None:
        """Remove the folder in which it works."""
        shutil.rmtree(self.work, ignore_errors=True)

    def _run(self) -> None:
        config = MergeConfig.load(self.writing.config)
        opened = partial(Rounds, LocalRunner(), config, self.place, work=self.work, allowed=self.keeper.check)
        try:
            with self.keeper:
                follow_leading(opened, self.keeper, self._stop, _Noting(self.failures), PACE)
        except MergeError as error:
            self.error = error


class _Noting:
    """Keeps what is tried again."""

    def __init__(self, failures: list[MergeError]) -> None:
        self._failures = failures

    def merged(self, result: MergeResult) -> None:
        pass

    def failed(self, error: MergeError, pause: float) -> None:
        self._failures.append(error)

    def recovered(self, seconds: float) -> None:
        pass
