"""Transactions of nodes that somebody decided to leave out (`ddl resolve --skip`), by GTID or by where they begin.

They are a note of the schema store, like decisions about shards, so that the output depends only on the logs and these.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.node_file import NodeFile
from snapshot_store.errors import StoreError

SKIPPED: Final = "skipped-transactions"
"""The name of the note."""

_GTID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?::[a-z_][a-z0-9_]*)?:[1-9][0-9]*")
_PLACE = re.compile(r"(?P<node>.+)/(?P<file>[^/]+):(?P<position>\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A transaction by its node, file, and the offset at which it begins."""

    node: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """The transactions that are left out. `ids` are the GTIDs and places as they were given."""

    ids: tuple[str, ...] = ()

    @property
    def gtids(self) -> GtidSet:
        """Return those that are given by GTID, of whichever node."""
        return GtidSet.parse_text(",".join(id for id in self.ids if _GTID.fullmatch(id)))

    def offsets(self, node: str, file: NodeFile) -> tuple[int, ...]:
        """Return where those of a node's file begin that are given by place."""
        places = (place_of(id) for id in self.ids)
        return tuple(sorted(p.position for p in places if p is not None and (p.node, p.file) == (node, file.name)))


def ways_out(id: str) -> str:
    """Return what can be decided about a transaction that stops a merge."""
    return (
        f"say what rows it wrote on this node, `binlog-merge ddl resolve {id} --as ROWS.JSON --merged DIR`, or leave "
        f"the whole transaction out, `binlog-merge ddl resolve {id} --skip --merged DIR`, and bring what it changed to "
        "the target by hand; then merge again"
    )


def is_transaction(id: str) -> bool:
    """Return whether an id is that of a transaction: `uuid:number`, `uuid:tag:number` or `node/file:position`."""
    return _GTID.fullmatch(id) is not None or place_of(id) is not None


def place_of(id: str) -> Place | None:
    """Return the place that an id gives, None if it is a GTID or none."""
    found = _PLACE.fullmatch(id)
    return None if found is None else Place(found["node"], found["file"], int(found["position"]))


def gtid_of(id: str) -> GtidSet | None:
    """Return the GTID that an id is, None if it is none."""
    return GtidSet.parse_text(id) if _GTID.fullmatch(id) else None


def skipped_to_json(ids: Iterable[str]) -> str:
    """Return the note's text."""
    return json.dumps(sorted(ids))


def skipped_from_json(text: str) -> Skipped:
    """Return what `skipped_to_json` wrote. Raises StoreError if it did not write this."""
    try:
        found = Skipped(tuple(str(id) for id in json.loads(text)))
        found.gtids  # noqa: B018 - checked here, and not in the middle of a merge
        return found
    except (ValueError, TypeError, BinlogFormatError) as error:
        raise StoreError(f"not the JSON of skipped transactions: {text[:100]!r} ({error})") from None


def read_skipped(note: Callable[[str], str | None]) -> Skipped:
    """Return what is decided; `note` reads a note of the store."""
    return skipped_from_json(note(SKIPPED) or "[]")
