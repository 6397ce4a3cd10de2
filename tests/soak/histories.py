"""Both kinds of simulated cluster, as the properties see them: how one is made, and what its merge comes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.oracle import merge_case
from tests.oracle.polardbx.merge import merge_polardbx
from tests.polardbx.read import read_merged
from tests.polardbx.simulate import simulate as simulate_polardbx
from tests.simulator import simulate
from tests.soak.decode import transactions


class Told(Protocol):
    """A transaction that must come out; its key is 54 digits."""

    @property
    def key(self) -> str: ...


class History(Protocol):
    """A history that has been written to a folder: the nodes' bytes, where their logs may be cut, and what it means."""

    @property
    def folder(self) -> Path: ...
    @property
    def files(self) -> Mapping[str, Mapping[str, bytes]]: ...
    @property
    def ends(self) -> Mapping[str, Sequence[tuple[str, int]]]: ...
    @property
    def cluster_yaml(self) -> Path: ...
    @property
    def truth(self) -> Sequence[Told]: ...


@dataclass(frozen=True)
class Kind:
    """A kind of cluster. `merged` is its oracle's whole merge, or a range of TSOs of it; `read` reads a merged log.

    `merged_so_far` tells the files and the nodes' watermarks of nodes that go on, where the oracle knows that.
    """

    simulate: Callable[..., History]
    merged: Callable[[Path, int | None, int | None], Mapping[str, bytes]]
    read: Callable[[Mapping[str, bytes], Path], Sequence[Any]]
    merged_so_far: Callable[[Path], tuple[Mapping[str, bytes], Mapping[str, str | None]]] | None = None


def _so_far(config: Path) -> tuple[Mapping[str, bytes], Mapping[str, str | None]]:
    found = merge_case(config, end_of_input=False)
    return found.files, found.nodes


SHARDS = Kind(
    simulate, lambda config, start, stop: merge_case(config, True, start, stop).files, transactions, _so_far
)  # fmt: skip
POLARDBX = Kind(
    lambda seed, folder, **shape: simulate_polardbx(seed, folder),
    lambda config, start, stop: merge_polardbx(config, start, stop).files,
    read_merged,
)
