"""What operators have decided with `ddl resolve`, about DDL of shards and about transactions; and its state note.

Decisions are notes of the schema store. `status` reads no store, so they are written beside it as a state note.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from binlog_merge.errors import IoError, ManifestError
from binlog_merge.files.state_notes import DECISIONS_NOTE, NOTES_FOLDER, read_state_note, write_state_note
from binlog_merge.pipeline.base.decided import read_decided, read_skipped
from binlog_merge.pipeline.coordinate.shards.notes import DECISIONS, decisions_from_json

_LOG = logging.getLogger(__name__)
_LONGEST_TEXT: Final = 2000
_MOST_LISTED: Final = 100

Note = Callable[[str], str | None]
"""Reads a note of the schema store."""


class DecidedTransaction(NamedTuple):
    """A transaction as it was named, `skip` or `as`, and the rows that were given for it."""

    id: str
    action: str
    rows: tuple[str, ...] = ()


def transactions_in(note: Note) -> list[DecidedTransaction]:
    """Return what is decided about transactions."""
    found = [DecidedTransaction(id, "skip") for id in read_skipped(note).ids]
    decided = (DecidedTransaction(d.id, "as" if d.given else "skip", d.rows) for d in read_decided(note))
    return sorted([*found, *decided])


def note_decisions(directory: Path, note: Note) -> None:
    """Write what is decided as a state note, if that says something else."""
    shards = [
        {"id": d.id, "action": d.action, "of": d.sql[:_LONGEST_TEXT] or ("" if d.shard is None else str(d.shard))}
        for d in decisions_from_json(note(DECISIONS) or "[]")
    ]
    transactions = [
        {"id": d.id, "action": d.action, "of": "; ".join(d.rows)[:_LONGEST_TEXT]} for d in transactions_in(note)
    ]
    _write(directory / NOTES_FOLDER / DECISIONS_NOTE, [*shards, *transactions])


def _write(path: Path, decisions: Sequence[dict[str, str]]) -> None:
    values = {"decisions": decisions[-_MOST_LISTED:], "count": len(decisions)}
    try:
        earlier = read_state_note(path) or {"decisions": [], "count": 0}
        if {name: earlier.get(name) for name in values} == values:
            return
    except (IoError, ManifestError):
        pass  # it is made anew
    try:
        write_state_note(path, values)
    except IoError as error:
        _LOG.warning("the state note for `status` cannot be written: %s (%s)", error.message, error.file)
