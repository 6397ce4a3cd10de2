"""Transactions of nodes in whose place others are read, or none, as somebody decided when a merge stopped at one.

    --as ROWS   its rows are those that were given
    --skip      it has no rows; it keeps its place, on which that of the transactions behind it may depend

They are a note of the schema store, so that the output depends only on the logs and these. A transaction is known by
the name and identity of its file, wherever that is on another host, and by where it begins there.

Those that are left out (`ddl resolve --skip`) are known by GTID, too, and their note is one of its own.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.node_file import Instead, NodeFile
from binlog_merge.pipeline.base.node_input import NodeInput
from snapshot_store.errors import StoreError

DECIDED: Final = "decided-transactions"
"""The name of the note."""

GIVEN: Final = "its rows are those given with `ddl resolve --as`"
WITHOUT_ROWS: Final = "its rows are left out, as `ddl resolve --skip` says"
"""Why other events are read in place of a transaction's."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A transaction at [start, end) of a node's file, and what is read in its place (`files.node_file.Instead`).

    `id` is how it was named, `run` the number of the last run when it was decided. `rows` says what is in its place
    for each table. `given`: rows were given; else it has none.
    """

    id: str
    node: str
    file: str
    identity: str
    start: int
    end: int
    run: int
    given: bool
    rows: tuple[str, ...]
    group: bytes

    @property
    def said(self) -> str:
        """Return what the result says of it."""
        return f"{self.id}: {'; '.join(self.rows)}" if self.rows else self.id

    @property
    def instead(self) -> Instead:
        """Return what readers of the file take."""
        return Instead(self.start, self.end, self.group, self.said, GIVEN if self.given else WITHOUT_ROWS)


def decided_to_json(decided: Iterable[Decided]) -> str:
    """Return the note's text."""
    found = sorted(decided, key=lambda each: (each.node, each.file, each.start))
    return json.dumps([{**asdict(each), "group": base64.b64encode(each.group).decode()} for each in found])


def decided_from_json(text: str) -> tuple[Decided, ...]:
    """Return what `decided_to_json` wrote. Raises StoreError if it did not write this."""
    try:
        return tuple(
            Decided(**{**each, "group": base64.b64decode(each["group"]), "rows": tuple(each["rows"])})
            for each in json.loads(text)
        )
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"not the JSON of decided transactions: {text[:100]!r} ({error})") from None


def read_decided(note: Callable[[str], str | None]) -> tuple[Decided, ...]:
    """Return what is decided; `note` reads a note of the store."""
    return decided_from_json(note(DECIDED) or "[]")


def with_decided(node: NodeInput, decided: Sequence[Decided]) -> NodeInput:
    """Return a node's input in whose files others are read in place of decided transactions."""
    own = [each for each in decided if each.node == node.source_id]
    return replace(node, files=tuple(_with(file, own) for file in node.files)) if own else node


def _with(file: NodeFile, decided: Sequence[Decided]) -> NodeFile:
    instead = tuple(
        each.instead for each in decided if (each.file, each.identity) == (PurePath(file.path).name, file.identity)
    )
    return replace(file, instead=instead) if instead else file


SKIPPED: Final = "skipped-transactions"
"""The name of the note."""

_GTID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?::[a-z_][a-z0-9_]*)?:[1-9][0-9]*")
_PLACE = re.compile(r"(?P<node>.+)/(?P<file>[^/]+):(?P<position>\d+)")


@dataclass(frozen=True, slots=True)
class TransactionAt:
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


def place_of(id: str) -> TransactionAt | None:
    """Return the place that an id gives, None if it is a GTID or none."""
    match = _PLACE.fullmatch(id)
    return None if match is None else TransactionAt(match["node"], match["file"], int(match["position"]))


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
