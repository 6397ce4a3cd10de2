"""What the next run of a merge needs of the nodes' logs: a host that has nothing begins to capture there.

The manifest says it for each node, beside where the scan goes on (`pipeline.publish`):

    "captured": {"server_uuid": …,         the server whose log the scan goes on in
                 "following": [ … ],       the lines of servers.index: which servers had the node after the first one
                 "position": …,            before which nothing of the oldest file is needed that the next run may read
                 "executed": "…",          the GTIDs that the node's log has before that place; null if not known
                 "open": "…"}              those of them whose rows are still to come: branches that are prepared

If the server still has the node, a capture begins in its log by file and position. If another one has it by now, it
begins there by GTID: what the log has from where the scan goes on, the branches that are prepared, and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.config.uri import is_uri
from binlog_merge.errors import ManifestError
from binlog_merge.files.manifest import Manifest, ManifestState, NodeState
from binlog_merge.files.servers import FollowingServer, LogEnd, server_of, values_of


@dataclass(frozen=True, slots=True)
class CapturedBefore:
    """What a merge knows of a node's servers and GTIDs as of where its scan goes on; see the module."""

    server_uuid: str
    position: int
    following: tuple[FollowingServer, ...] = ()
    executed: GtidSet | None = None
    open: GtidSet = GtidSet()  # noqa: RUF009 - frozen

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the manifest."""
        return {
            "server_uuid": self.server_uuid,
            "position": self.position,
            "following": [values_of(server) for server in self.following],
            "executed": None if self.executed is None else str(self.executed),
            "open": str(self.open),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "CapturedBefore":
        """Read what `to_dict` wrote. Raises ValueError, KeyError, TypeError or BinlogFormatError."""
        executed = values["executed"]
        return cls(
            str(values["server_uuid"]),
            int(values["position"]),
            tuple(map(server_of, values["following"])),
            None if executed is None else GtidSet.parse_text(executed),
            GtidSet.parse_text(values["open"]),
        )


@dataclass(frozen=True, slots=True)
class Needed:
    """What is needed of a node's log: `oldest`, in the file with this `identity`, and what follows it.

    The scan goes on at `resume`; between the two are branches that were prepared, and have not ended. The log was read
    up to `read`: with the transactions `seen`, None if they are not known. `merged` is the merged log that says so.
    """

    node: str
    oldest: LogEnd
    identity: str
    resume: LogEnd
    read: LogEnd
    seen: GtidSet | None
    before: CapturedBefore
    merged: str


def needed_of(state: ManifestState, merged: str) -> dict[str, Needed]:
    """Return what the next run needs of each node whose files a capture had fetched. Raises ManifestError."""
    nodes: Mapping[str, NodeState] = {} if state.last is None else state.last.nodes
    found = {}
    for node, known in nodes.items():
        if "captured" in known.checkpoint:
            try:
                found[node] = _needed(node, known, merged)
            except (ValueError, KeyError, TypeError, BinlogFormatError) as error:
                raise ManifestError(
                    f"where its log is needed from cannot be read: {type(error).__name__}: {error}",
                    node=node,
                    file=merged,
                ) from None
    return found


def needed_by(merged: str) -> dict[str, Needed]:
    """Return what the next run of a merged log needs, a folder or a URI; nothing where nothing is published yet.

    Raises ManifestError if its manifest is damaged, and what is wrong with a store.
    """
    if not is_uri(merged):
        return needed_of(Manifest.load(merged).state if Path(merged).is_dir() else ManifestState(), merged)
    from binlog_merge.files.object_output import ObjectOutput

    output = ObjectOutput(merged)
    output.load()
    return needed_of(output.state, output.objects.place())


def _needed(node: str, known: NodeState, merged: str) -> Needed:
    checkpoint = known.checkpoint
    resume, before = checkpoint["resume"], CapturedBefore.from_dict(checkpoint["captured"])
    goes_on = _place(resume["file"], resume.get("position", len(BINLOG_MAGIC)))
    oldest = _place(checkpoint["file"], before.position)
    read = _place(known.scan_end_file, known.scan_end_position)
    base, seen = checkpoint["gtids"]["base"], checkpoint["gtids"]["seen"]
    all_seen = None if seen is None else GtidSet.parse_text(base).union(GtidSet.parse_text(seen))
    return Needed(node, oldest, checkpoint["identity"], goes_on, read, all_seen, before, merged)


def _place(name: str, position: int) -> LogEnd:
    folder, _, file = name.rpartition("/")
    return LogEnd(folder, file, position)


def file_number(name: str) -> int:
    """Return the number at the end of a binlog file's name, 0 if there is none."""
    number = name.rpartition(".")[2]
    return int(number) if number.isdecimal() else 0
