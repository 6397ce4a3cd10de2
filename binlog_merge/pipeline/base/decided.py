"""Transactions of nodes in whose place others are read, as somebody decided when a merge stopped at one.

    --as ROWS   its rows are those that were given
    --skip      it has no rows; it keeps its place, on which that of the transactions behind it may depend

They are a note of the schema store, so that the output depends only on the logs and these. A transaction is known by
the name and identity of its file, wherever that is on another host, and by where it begins there.
"""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Final

from binlog_merge.files.known import Instead
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.base.node_input import NodeInput
from snapshot_store.errors import StoreError

DECIDED: Final = "decided-transactions"
"""The name of the note."""

GIVEN: Final = "its rows are those given with `ddl resolve --as`"
WITHOUT_ROWS: Final = "its rows are left out, as `ddl resolve --skip` says"
"""Why other events are read in place of a transaction's."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A transaction at [start, end) of a node's file, and what is read in its place (`files.known.Instead`).

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
