"""Where a node's scan goes on inside a file: after a group that an earlier run has read and published."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.pipeline.base.logged import Gtid

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
