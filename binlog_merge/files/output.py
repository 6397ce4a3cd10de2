"""Where a run writes: a local folder, or an object store by way of one.

A configuration may continue an output only if it would have produced the same bytes so far.
"""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.config.merge_config import MergeConfig, differences
from binlog_merge.config.uri import Uri, is_uri
from binlog_merge.errors import ConfigError, ManifestError, NoFiles, io_error
from binlog_merge.files.lock import LOCK_NAME, OutputLock
from binlog_merge.files.manifest import Elsewhere, Header
from binlog_merge.files.object_output import ObjectOutput
from binlog_merge.files.publish import output_directory
from binlog_merge.files.scratch import users_folder
from binlog_merge.files.state_notes import NOTES_FOLDER
from binlog_merge.redaction import redacted

WORK_FOLDER = ".work"


@dataclass(frozen=True)
class Output:
    """A run's folder, and the output in an object store that is written from it, if it is not the output itself."""

    directory: Path
    elsewhere: Elsewhere | None = None
    uri: str | None = None

    def place(self, name: str) -> str:
        """Return where a file of the output is, for people."""
        if self.uri is None:
            return str(self.directory / name)
        uri = Uri.parse(self.uri)
        return redacted(str(uri.with_path(f"{uri.path.rstrip('/')}/{name}")))


@contextmanager
def opened_output(out: str | Path, work: Path | None = None) -> Iterator[Output]:
    """Hold an output for writing. `work` is the local folder of one in an object store; default: one in TMPDIR.

    Raises OutputBusy, and what is wrong with the store within seconds.
    """
    if not is_uri(str(out)):
        new = not Path(out).exists()
        directory = output_directory(out)
        with OutputLock(directory):
            try:
                yield Output(directory)
            except NoFiles:
                if new:
                    _leave_nothing(directory)
                raise
        return
    uri = str(out)
    output = ObjectOutput(uri)
    output.load()
    directory = output_directory(work if work is not None else _work_folder(Uri.parse(uri)))
    with OutputLock(directory):
        _check_ours(directory, uri)
        _clear(directory)
        output.load()  # again: another merge of this machine may have ended just now
        output.bring(directory)
        try:
            yield Output(directory, output, uri)
        finally:
            _clear(directory)


_NOTE = ".output"


def _work_folder(uri: Uri) -> Path:
    """Return the folder of an output in TMPDIR, which only this user can enter."""
    key = hashlib.sha256(f"{uri.options.get('endpoint_override')} {uri.place}/{uri.path.strip('/')}".encode())
    return users_folder() / key.hexdigest()[:16]


def _check_ours(directory: Path, uri: str) -> None:
    """Raise ConfigError if a work folder holds something that no merge into this output has made."""
    note, said = directory / _NOTE, redacted(uri)
    try:
        if note.exists() and note.read_text() == said:
            return
        if others := sorted(path.name for path in directory.iterdir() if path.name != LOCK_NAME):
            raise ConfigError(
                f"the work folder is not empty, and not of this output: it holds {others[0]}",
                file=str(directory),
                remedy="give --work an empty folder: it is cleared at the beginning and at the end",
            )
        note.write_text(said)
    except OSError as error:
        raise io_error(error, str(directory)) from error


def _leave_nothing(directory: Path) -> None:
    """Remove the folder of an output that was never begun."""
    with suppress(OSError):
        shutil.rmtree(directory / NOTES_FOLDER, ignore_errors=True)
        shutil.rmtree(directory / WORK_FOLDER, ignore_errors=True)
        (directory / LOCK_NAME).unlink(missing_ok=True)
        directory.rmdir()  # unless something else is in it


def _clear(directory: Path) -> None:
    try:
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)  # an executor of a killed driver may be writing there
            elif path.name not in (LOCK_NAME, _NOTE):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise io_error(error, str(directory)) from error


_UNSAID: Final = {"output.dependencies": "commit-order"}
"""What settings mean that do not say it, as those of all logs that were begun before there was another choice."""


def check_continuation(header: Header, config: MergeConfig, published: bool = True) -> None:
    """Raise ManifestError, naming the differences, unless `config` can continue the output that `header` began.

    A new node is no difference (it gets the next node number, and brings its base schemas); a removed node is. If
    nothing is `published` yet, the remedy is to begin a new output.
    """
    if header.name != config.name:
        raise ManifestError(f"the directory holds the output of cluster '{header.name}', not of '{config.name}'")
    found = []
    if config.output.cluster_uuid not in (None, header.cluster_uuid):
        found.append(f"output.cluster-uuid was {header.cluster_uuid!r}, is now {config.output.cluster_uuid!r}")
    if header.carrier is not None and config.commit_tso.carrier not in ("auto", header.carrier):
        found.append(f"commit-tso.carrier was {header.carrier!r}, is now {config.commit_tso.carrier!r}")
    if gone := sorted(set(header.node_numbers) - {node.source_id for node in config.nodes}):
        found.append(f"node {', '.join(gone)} is gone from the configuration")
    if header.fingerprint != config.fingerprint():
        joined = {f"base.physical.{n.source_id}" for n in config.nodes if n.source_id not in header.node_numbers}
        now = {k: v for k, v in config.settings().items() if k not in joined}
        found += differences(_UNSAID | dict(header.settings), _UNSAID | now)
    if found:
        remedy = None if published else "nothing is published there yet: remove it, or choose another --merged"
        raise ManifestError("the output was begun with another configuration: " + "; ".join(found), remedy=remedy)
