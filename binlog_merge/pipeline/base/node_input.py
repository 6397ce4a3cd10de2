"""One node's part of a run: its files, and where the previous run ended.

A scan goes on inside a file (`Resume`), after a group that an earlier run has read and published.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.files.as_of import AsOf
from binlog_merge.files.node_file import NodeFile, open_known
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.logged import Gtid, NodeGtids
from snapshot_store.tso import OrderKey

FILE_BEGINS = len(BINLOG_MAGIC)


@dataclass(frozen=True, slots=True)
class Resume:
    """The offset in a file at which a scan goes on: its beginning, or where a group ends.

    `next_number` is the sequence number that must follow, -1 if none is known; `last` is the GTID of the group before.
    `executed` are the GTIDs of the file's groups before `start`; None if they are too scattered to keep.
    """

    start: int = FILE_BEGINS
    next_number: int = -1
    executed: GtidSet | None = field(default_factory=GtidSet)
    last: Gtid | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the manifest."""
        executed = None if self.executed is None else str(self.executed)
        last = None if self.last is None else [self.last[0].hex(), *self.last[1:]]
        return {"position": self.start, "next_number": self.next_number, "executed": executed, "last": last}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Resume":
        """Read what `to_dict` wrote."""
        executed, last = values["executed"], values["last"]
        known = None if executed is None else GtidSet.parse_text(executed)
        gtid = None if last is None else (bytes.fromhex(last[0]), last[1], last[2])
        return cls(values["position"], values["next_number"], known, gtid)


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


@contextmanager
def located(
    node: NodeInput, file_index: int, start: int, what: str, order_key: OrderKey | None = None
) -> Iterator[None]:
    """Say of what goes wrong with a group where that is: `what` cannot be read, if its bytes are at fault."""
    path = node.files[file_index].path
    try:
        yield
    except BinlogFormatError as error:
        found = ChecksumMismatch(f"{what} cannot be read: {error.reason}")
        raise found.located(node=node.source_id, file=path, position=start, order_key=order_key) from None
    except MergeError as error:
        raise error.located(node=node.source_id, file=path, position=start, order_key=order_key) from None


def read_group(node: NodeInput, file_index: int, start: int, end: int) -> bytes:
    """Return the bytes of the group at [start, end) of a file, or of what is decided in its place."""
    file = node.files[file_index].known
    if (instead := file.instead_of(start)) is not None:
        return instead.group
    data = bytearray(end - start)
    with open_known(file) as source:
        source.read_into(memoryview(data), start)
    return bytes(data)
