"""The state note of a merge's last run, for `status`: what the manifest does not say.

Per node its watermark and open branches; what is held, the last DDL, warnings, the error that stopped the run, and the
output's growth over the last minutes. A note that cannot be written is logged, and stops no merge.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import IoError, ManifestError, MergeError
from binlog_merge.files.manifest import Gone
from binlog_merge.files.state_notes import MERGE_NOTE, NOTES_FOLDER, read_state_note, samples_of, write_state_note
from binlog_merge.pipeline.gather.collisions import Collided, collision_warnings
from binlog_merge.pipeline.result import MergeResult
from binlog_merge.pipeline.values import Run, WrittenRun

_LOG = logging.getLogger(__name__)
_MOST_LISTED: Final = 20
_MOST_SHARDS: Final = 100
_LONGEST_TEXT: Final = 2000
_SAMPLE_SECONDS: Final = 2.0
_SAMPLES_SECONDS: Final = 180.0


def note_run(run: Run, written: WrittenRun, result: MergeResult, collided: Sequence[Collided]) -> None:
    """Write the note of a run that is published, in which these keys were found to collide."""
    directory = run.job.directory
    earlier = _earlier(directory)
    values = result.to_dict()
    kept = ("held", "held_bytes", "held_back_by", "waiting", "end_of_input", "carrier", "stages")
    state = run.inputs.manifest.state
    _write(
        directory,
        {
            **{name: values[name] for name in kept},
            "run": state.run,
            "began": time.time() - sum(result.stages.values()),
            "nodes": {node: {**found, "gone": node in run.gone} for node, found in values["nodes"].items()},
            "locks": len(result.locks),
            "waiting_ddl": [_short(lock) for lock in result.locks[:_MOST_LISTED]],
            "open_branches": [dict(found) for found in result.in_doubt[:_MOST_LISTED]],
            "warnings": [text[:_LONGEST_TEXT] for text in result.warnings[:_MOST_LISTED]],
            "warnings_count": len(result.warnings),
            "collisions": _collisions(earlier, state.gone, collided),
            "last_ddl": _last_ddl(run, written) or earlier.get("last_ddl"),
            "samples": _samples(earlier, state.rank, dict(state.last.totals) if state.last is not None else {}),
            "error": None,
        },
    )


def _short(lock: Mapping[str, Any]) -> dict[str, Any]:
    """Return a DDL that waits, with as much as a note may hold of it."""
    shards = {name: lock[name][:_MOST_SHARDS] for name in ("done", "awaited")}
    return {**lock, **shards, "sql": lock["sql"][:_LONGEST_TEXT]}


def note_error(directory: Path, error: MergeError) -> None:
    """Add the error that stopped a run to the note."""
    earlier = {name: value for name, value in _earlier(directory).items() if name not in ("version", "at")}
    values = error.to_dict()
    values["message"] = str(values["message"])[:_LONGEST_TEXT]
    _write(directory, {**earlier, "error": values})


def _earlier(directory: Path) -> dict[str, Any]:
    try:
        return read_state_note(directory / NOTES_FOLDER / MERGE_NOTE) or {}
    except (IoError, ManifestError):
        return {}  # it is made anew


def _write(directory: Path, values: Mapping[str, Any]) -> None:
    try:
        write_state_note(directory / NOTES_FOLDER / MERGE_NOTE, values)
    except IoError as error:
        _LOG.warning("the state note for `status` cannot be written: %s (%s)", error.message, error.file)


def _collisions(
    earlier: Mapping[str, Any], gone: Gone | None, collided: Sequence[Collided]
) -> dict[str, dict[str, str]]:
    """Return what is known of keys that collide in the log, by table: a place that is still there, and words."""
    known = dict(earlier.get("collisions") or {})
    for table, text in collision_warnings(collided).items():
        place = min(one.second.place for one in collided if str(one.key) == table)
        known.setdefault(table, {"place": place, "text": text[:_LONGEST_TEXT]})
    removed = "" if gone is None or gone.last_key is None else gone.last_key
    return {table: one for table, one in sorted(known.items())[:_MOST_LISTED] if one["place"] > removed}


def _last_ddl(run: Run, written: WrittenRun) -> dict[str, Any] | None:
    """Return the last logical DDL that this run wrote, None if it wrote none."""
    out = [ddl for ddl in run.coordination.ddl if ddl.key < written.bound.key]
    if not out or not any(g.ddl for g in written.kept):
        return None
    last = max(out, key=lambda ddl: ddl.key)
    return {"key": last.key.text(), "schema": last.schema, "sql": (last.text or last.sql)[:_LONGEST_TEXT]}


def _samples(earlier: Mapping[str, Any], rank: int, totals: Mapping[str, int]) -> list[list[float]]:
    """Return (time, transactions, input bytes) of the last minutes, at most one for every two seconds, and now."""
    now = time.time()
    recent = [sample for sample in samples_of(earlier) if sample[0] > now - _SAMPLES_SECONDS]
    if len(recent) > 1 and recent[-1][0] - recent[-2][0] < _SAMPLE_SECONDS:
        recent.pop()
    return [*recent, [now, rank, totals.get("input_bytes", 0)]]
