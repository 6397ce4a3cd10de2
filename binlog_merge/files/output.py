"""Where a run writes: a local folder, or an object store by way of one.

A configuration may continue an output only if it would have produced the same bytes so far.
"""

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.config.merge_config import MergeConfig, differences
from binlog_merge.config.uri import Uri, is_uri
from binlog_merge.errors import ConfigError, IoError, ManifestError, NoFiles, OutputBusy, io_error
from binlog_merge.files.lease_seen import check_nobody_leads
from binlog_merge.files.lock import LOCK_NAME, OutputLock
from binlog_merge.files.manifest import Claim, Header, Manifest, ManifestState
from binlog_merge.files.object_output import ObjectOutput
from binlog_merge.files.objects import FolderObjects
from binlog_merge.files.publish import output_directory
from binlog_merge.files.scratch import users_folder
from binlog_merge.files.state_notes import NOTES_FOLDER
from binlog_merge.redaction import redacted

WORK_FOLDER = ".work"


@dataclass(frozen=True)
class Output:
    """A run's folder, and the output in an object store that is written from it, if it is not the output itself."""

    directory: Path
    elsewhere: ObjectOutput | None = None
    uri: str | None = None

    @property
    def state(self) -> ManifestState:
        """Return what is published, as of the last record that was read or written."""
        return Manifest.load(self.directory).state if self.elsewhere is None else self.elsewhere.state

    @property
    def epoch(self) -> int:
        """Return the epoch that was claimed last, 0 if none was."""
        return self.state.epoch

    def again(self, claimed: int = 0) -> None:
        """Make the folder anew after a round that failed: it is a cache of what is in the store.

        `claimed` is the epoch that was claimed here, 0 if none was. Raises OutputBusy if it is not the last one,
        MergeError.
        """
        if self.elsewhere is not None:
            self.elsewhere.load()
        if claimed and self.epoch != claimed:
            raise OutputBusy(
                f"epoch {self.epoch} of this output is claimed, after {claimed}, which is this one",
                file=self.place(),
                remedy="one that holds the lease writes; let this one wait for it",
            )
        if self.elsewhere is not None:
            output_directory(self.directory)  # which may be gone
            _clear(self.directory)
            self.elsewhere.bring(self.directory)

    def check_copy(self) -> None:
        """Raise IoError if the folder was a copy of what is in a store, and is gone, or a part of it."""
        if self.elsewhere is not None:
            self.elsewhere.check_copy(self.directory)

    @property
    def is_lost(self) -> bool:
        """Return whether `check_copy` raises."""
        try:
            self.check_copy()
        except IoError:
            return True
        return False

    def claim(self, epoch: int, holder: str) -> None:
        """Append to the manifest that a holder writes from here on; whoever did so before cannot any more.

        Raises OutputBusy if the epoch, or a later one, was claimed already.
        """
        if self.is_lost:
            self.again()
        manifest = Manifest.load(self.directory)
        manifest.copies(self.elsewhere)
        if (claim := manifest.state.claim) is not None and epoch <= claim.epoch:
            raise OutputBusy(
                f"{claim.holder} has claimed epoch {claim.epoch} of this output already, this is {epoch}",
                file=self.place(),
                remedy="one that holds the lease writes; let this one wait for it",
            )
        if self.elsewhere is not None:
            self.elsewhere.check_conditions()
        manifest.append(Claim(epoch, holder, time.time()))

    def place(self, name: str = "") -> str:
        """Return where the output is, or a file of it, for people."""
        if self.uri is None:
            return str(self.directory / name)
        uri = Uri.parse(self.uri)
        return redacted(str(uri.with_path(f"{uri.path.rstrip('/')}/{name}" if name else uri.path)))


@contextmanager
def opened_output(out: str | Path, work: Path | None = None, follows: bool = False) -> Iterator[Output]:
    """Hold an output for writing. `work` is the local folder of one in an object store; default: one in TMPDIR.

    `follows`: for rounds, of which each adds what is new; else nobody may keep a lease of the output. Raises
    OutputBusy, and what is wrong with the store within seconds: also that it does not heed the conditions of requests.
    """
    if not is_uri(str(out)):
        new = not Path(out).exists()
        directory = output_directory(out)
        with OutputLock(directory):
            if not follows:
                check_nobody_leads(FolderObjects(directory))
            try:
                yield Output(directory)
            except NoFiles:
                if new:
                    _leave_nothing(directory)
                raise
        return
    uri = str(out)
    output = ObjectOutput(uri, follows)
    output.load()
    directory = output_directory(working_folder(out, work))
    with OutputLock(directory):
        _check_ours(directory, uri)
        _clear(directory)
        if output.head is None:
            output.check_conditions()
        output.load()  # again: another merge of this machine may have ended just now
        if not follows:
            check_nobody_leads(output.objects)
        output.bring(directory)
        try:
            yield Output(directory, output, uri)
            if not follows:
                output.compose()
        finally:
            _clear(directory)


_NOTE = ".output"


def working_folder(out: str | Path, work: Path | None = None) -> Path:
    """Return the local folder in which an output is written: itself, or `work` of one in an object store; by default
    one in TMPDIR, which only this user can enter.
    """
    if not is_uri(str(out)):
        return Path(out)
    if work is not None:
        return work
    uri = Uri.parse(str(out))
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
    except FileNotFoundError:
        pass  # somebody has removed the folder itself
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
