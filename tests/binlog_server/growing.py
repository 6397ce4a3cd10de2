"""A merged log that grows: the case with DDL under way on three nodes, of which a little more is merged each time."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.growth import GrowingNode
from tests.merge_e2e.local import merge


@dataclass(frozen=True)
class Growing:
    """A cluster whose nodes are still writing, and the output of its merges."""

    case: Path
    config: Path
    nodes: tuple[GrowingNode, ...]
    out: Path

    @classmethod
    def of(cls, folder: Path, name: str = "three-nodes-online-ddl", size: int = 60_000) -> Self:
        """Take a case's nodes, which have written nothing yet; output files are cut at `size` bytes of input."""
        case = case_named(name)
        config = copy_case(case, folder / "case", max_size(size))
        nodes = [GrowingNode.of(node) for node in sorted((folder / "case" / "nodes").iterdir())]
        return cls(case, config, tuple(nodes), folder / "out")

    def publish(self, part: float) -> None:
        """Merge what the nodes have when they have written so much of their files, 1 being all of it."""
        for node in self.nodes:
            places = node.places(anywhere=False)
            node.grow(places[int((len(places) - 1) * part)], anywhere=False)
        merge(self.config, self.out, end_of_input=part == 1)

    def publish_to(self, tso: int | None) -> None:
        """Merge what the nodes have committed up to a TSO, or everything."""
        for node in self.nodes:
            node.grow(node.places(anywhere=False)[-1], anywhere=False)
        merge(self.config, self.out, end_of_input=tso is None, stop_tso=tso)

    def ddl_tsos(self) -> list[int]:
        """Return the TSOs of the cluster's DDL."""
        transactions = json.loads((self.case / "expected" / "transactions.json").read_text())
        return [entry["tso"] for entry in transactions if entry["kind"] == "ddl"]
