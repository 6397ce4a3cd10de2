"""One node's part of a run: its files, and where the previous run ended."""

from dataclasses import dataclass, field

from binlog_merge.files.as_of import AsOf
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.base.resume import Resume


@dataclass(frozen=True, slots=True)
class NodeInput:
    """One node's part of a run.

    The scan begins in the file with index `first`, at `resume`; `carry` is the state there. `seen` is (file index,
    offset) up to which an earlier run has read, None if none has. `by_time`: the node's clock gives the order; then
    `as_of` is the capture's note for one of these files, if there is one.
    """

    source_id: str
    number: int
    files: tuple[NodeFile, ...]
    first: int
    carry: Carry
    seen: tuple[int, int] | None
    gtids: NodeGtids
    resume: Resume = field(default_factory=Resume)
    by_time: bool = False
    as_of: AsOf | None = None

    def file_index(self, name: str) -> int | None:
        """Return the index of a file by name, or None."""
        return next((i for i, f in enumerate(self.files) if f.name == name), None)
