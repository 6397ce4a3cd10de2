"""The end of a run that went well: removes what `retention` in the configuration says, and says what went.

    {"files": ["binlog.000001", …], "bytes": …, "captured": {"dn-1": ["binlog.000004", …]}, "captured_bytes": …,
     "schemas": …, "kept_for_readers": {"files": […], "readers": ["10.0.0.9:51842 at binlog.000002"]},
     "kept_for_archive": ["binlog.000005", …]}

Captured files go only from folders that a capture fills, and only those before the oldest that the next run may read.
That the manifest knows for each node: the first with anything unpublished, an open branch, or a DDL that is not in the
schema history. The last two of each of a node's servers always stay: the capture goes on in the last one, and where a
node fails over both tell what was captured before (`node_capture.captured_gtids`).
"""

import logging
import time
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import StoreInUse
from binlog_merge.files.archived import removable
from binlog_merge.files.manifest import CapturedFile, ManifestState
from binlog_merge.files.removal import attached_readers, for_readers, older_than, over, remove
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.coordinate.stores import SchemaStore
from binlog_merge.pipeline.values import Run, WrittenRun
from snapshot_store.tso import OrderKey

EVERY_SECONDS: Final = 60.0
_LAST_FILES: Final = 2
_LOG = logging.getLogger(__name__)


def is_due(run: Run, written: WrittenRun, removed_at: float | None) -> bool:
    """Return whether something may be to go: at most once a minute in rounds, or when a file was closed.

    `removed_at` is when it was looked at last, by the monotonic clock.
    """
    rules = run.job.config.retention
    passed = removed_at is None or time.monotonic() - removed_at >= EVERY_SECONDS
    return (rules.of_output or rules.captured is not None) and (passed or any(g.closed for g in written.kept))


def retain(run: Run, written: WrittenRun) -> dict[str, Any]:
    """Remove what is to go. Raises IoError."""
    rules, directory, manifest = run.job.config.retention, run.job.directory, run.inputs.manifest
    state, now = manifest.state, time.time()
    old = [] if rules.age is None else older_than(directory, state, now - rules.age / 1e6)
    large = [] if rules.size is None else over(state, rules.size)
    chosen = max(old, large, key=len)
    archived = run.job.config.archive is not None
    # Whoever is attached gets archived files from the archive.
    readers = () if rules.past_readers or archived else attached_readers(directory)
    choice = for_readers(removable(directory, chosen), readers)
    before = None if rules.captured is None else now - rules.captured / 1e6
    folders = {} if before is None else run.job.config.captured_folders()
    captured = {
        folders[node.source_id]: unneeded(node, state, folders[node.source_id], before)
        for node in run.inputs.nodes
        if before is not None and node.source_id in folders
    }
    remove(directory, manifest, choice.files, captured)
    found: dict[str, Any] = {}
    if choice.files:
        found |= {"files": [file.name for file in choice.files], "bytes": sum(file.size for file in choice.files)}
        if rules.schemas and not written.ordered.waiting_files:  # rows that wait are read with the schema they had
            found["schemas"] = fold_behind(run.store, manifest.state)
    if any(captured.values()):
        found["captured"] = {folder.name: [file.name for file in files] for folder, files in captured.items() if files}
        found["captured_bytes"] = sum(file.size for files in captured.values() for file in files)
    if found:
        _LOG.info("removed", extra=found)
    if archived and len(choice.files) < len(chosen):
        found["kept_for_archive"] = [file.name for file in chosen[len(choice.files) :]]
    if choice.kept:
        kept = {"files": [f.name for f in choice.kept], "readers": [str(reader) for reader in choice.readers]}
        found["kept_for_readers"] = kept
    return found


def unneeded(node: NodeInput, state: ManifestState, folder: Path, before: float) -> list[CapturedFile]:
    """Return the node's oldest captured files that no run needs, and that were written last before a moment."""
    known = None if state.last is None else state.last.nodes.get(node.source_id)
    names = [file.name for file in node.files]
    oldest = None if known is None else known.checkpoint.get("file")
    end = min(names.index(oldest), len(names) - 1) if oldest in names else 0
    found: list[CapturedFile] = []
    for number, file in enumerate(node.files[:end]):
        path = folder / file.name
        following = node.files[number + 1 : number + _LAST_FILES + 1]
        if sum(Path(f.path).parent == path.parent for f in following) < _LAST_FILES:
            continue
        if file.path != str(path) or not path.exists() or path.stat().st_mtime >= before:
            break
        found.append(CapturedFile(file.name, file.identity, file.size))
    return found


def fold_behind(store: SchemaStore, state: ManifestState) -> int:
    """Remove the schema versions that only moments before the first remaining transaction see; return their number."""
    if not state.files or not store.path.exists():
        return 0
    try:
        return store.fold(OrderKey.parse(state.files[0].first_key))
    except StoreInUse as error:
        _LOG.warning("schema versions stay until files are removed again", extra={"why": error.message})
        return 0
