"""A stream's folder beside the log: an output directory that one process keeps up with the log.

    merged/manifest.jsonl, binlog.000001 …                 the log
    merged/.streams/orders/manifest.jsonl, binlog.000001 …  the stream: as many files, of the same names

What is published is never changed: another definition needs another name. Files that the log no longer has are removed
here, too.
"""

import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.errors import ConfigError, InternalError, ManifestError, OutsideLog
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.log_folder import STORE_NAME, LogFolder
from binlog_merge.files.manifest import Folded, Gone, Header, Manifest, ManifestState, OutputFile, Publish
from binlog_merge.files.parts import Rendered
from binlog_merge.files.publish import basename_of, part_path, publish, recover
from binlog_merge.files.removal import remove
from binlog_merge.log.shapes import LatestShapes
from binlog_merge.streams.chosen import Shared
from binlog_merge.streams.derive import Deriver, Item, StreamState
from binlog_merge.streams.mariadb.events import ANNOUNCED_VERSION
from binlog_merge.streams.spec import StreamSpec

FOLDER: Final = ".streams"


class StreamFolder(LogFolder):
    """A stream as its readers see it: the definitions of tables are the log's. `root` is the folder of all streams."""

    def __init__(self, log: LogFolder, root: Path, spec: StreamSpec) -> None:
        super().__init__(root / spec.name)
        self.log = log

    @contextmanager
    def schema_store(self) -> Iterator[tuple[Path, str]]:
        """Yield the log's schema store."""
        with self.log.schema_store() as found:
            yield found


@dataclass
class Part:
    """What a stream's file grows by at once: it `begun` at a place, and is at `place`; its bytes are in `path`.

    `crc` is the CRC-32 of these.
    """

    file: OutputFile
    begun: StreamState
    place: StreamState
    path: Path
    crc: int = 0


class StreamWriter:
    """Keeps a stream's folder up with the log; a context manager that holds the folder's lock.

    `note` gets a line for what a dialect cannot carry. Raises ConfigError for a folder of another definition,
    OutputBusy if another process keeps it.
    """

    def __init__(
        self,
        log: LogFolder,
        root: Path,
        spec: StreamSpec,
        note: Callable[[str], None],
        shared: Shared | None = None,
    ) -> None:
        self.folder = StreamFolder(log, root, spec)
        self._shared = shared
        self.spec = spec
        self._log = log
        self._note = note
        self._lock = OutputLock(self.folder.directory, "serve")

    def __enter__(self) -> "StreamWriter":
        self._lock.__enter__()
        try:
            self._open()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)

    def _open(self) -> None:
        directory = self.folder.directory
        source = self._log.state()
        if source.header is not None and source.header.settings.get("output.cts", "begin") != "begin":
            raise ConfigError(
                f"stream {self.spec.name}: in this log order keys stand behind transactions (output.cts: end or both)",
                file=self._log.place(),
                remedy="streams are made of logs that were merged with output.cts: begin",
            )
        self._manifest = Manifest.load(directory)
        self._check(source)
        recover(directory, self._manifest, basename_of(source))
        if self._manifest.state.header is None:
            self._begin(source)
        header = self._manifest.state.header
        assert header is not None
        self._shapes = LatestShapes(self._log.directory / STORE_NAME)
        self._deriver = Deriver(self.spec, header.cluster_uuid, self._shapes, self._note, self._shared)

    def _check(self, source: ManifestState) -> None:
        """Raise ConfigError if the folder holds another stream, or that of another log."""
        header = self._manifest.state.header
        if header is None or source.header is None:
            return
        where = str(self.folder.directory)
        if header.settings.get("stream.of") != source.header.cluster_uuid:
            raise ConfigError(f"stream {self.spec.name} was made of another log", file=where, remedy=_ANEW)
        if header.settings.get("stream.definition") != self.spec.definition:
            raise ConfigError(
                f"stream {self.spec.name} was declared otherwise when it began, and its readers have what is written",
                file=where,
                remedy=f"give the stream of today another name; or {_ANEW}",
            )

    def _begin(self, source: ManifestState) -> None:
        if source.header is None:
            raise InternalError("the log has no manifest")
        removed = _removed_rank(source, self._log)
        header = _header(source.header, self.spec, removed)
        if removed:
            # Its numbers begin behind what the log had removed: readers are told what they cannot get.
            gone = Gone(time.time(), last_rank=removed)
            self._manifest.append(Folded(header, _publish(None, (), None, removed, {}), (), gone))
        else:
            self._manifest.append(header)

    def files_ahead(self, source: ManifestState) -> list[OutputFile]:
        """Return the log's files that the stream has not wholly. Raises OutsideLog if one of them is gone."""
        self._shapes.renew()
        return list(self._ahead(source))

    def begin(self, file: OutputFile) -> "Part | None":
        """Return the next part of a file, None if the stream has all of it."""
        own = self._own(file.name)
        place = self._place(file)
        if place.read >= file.size or (own is not None and own.closed):
            return None
        return Part(file, place, place, part_path(self.folder.directory, file.name))

    def derive(self, part: "Part", item: Item) -> bytes:
        """Return the bytes that an item adds to a part, whose place moves on. Raises MergeError."""
        made = self._deriver.derive(item, part.place, self._log.place(part.file.name))
        part.place, part.crc = made.place, zlib.crc32(made.data, part.crc)
        return made.data

    def finish(self, source: ManifestState, part: "Part") -> None:
        """Publish a part; one that has read nothing is forgotten."""
        if part.place.read > part.begun.read:
            written = Rendered(part.path, part.place.size - part.begun.size, part.crc)
            self._publish(source, part.file, part.place, {part.file.name: written})
        else:
            part.path.unlink(missing_ok=True)

    def reading(self) -> tuple[str, int]:
        """Return the log's file that the stream reads, "" for the first, and the position up to which it has it."""
        state = self._manifest.state
        if not state.files or state.last is None:
            return "", len(BINLOG_MAGIC)
        return state.files[-1].name, int(state.last.state["read"])

    def _ahead(self, source: ManifestState) -> Iterator[OutputFile]:
        """Yield the log's files that the stream has not wholly. Raises OutsideLog if one of them is gone."""
        own = self._manifest.state
        first = 0 if not own.files else own.next_number - (own.open_file is not None)
        for file in source.files:
            number = int(file.name.rpartition(".")[2])
            if number < first:
                continue
            if first and number > first:
                raise self._lost(file.name)
            if self._log.is_there(file):
                first = number + 1
                yield file
            elif first:
                raise self._lost(file.name)  # a stream that has not begun begins behind what the owner has removed

    def _lost(self, name: str) -> OutsideLog:
        return OutsideLog(
            f"stream {self.spec.name}: files of the log were removed before it had them: it goes on before {name}",
            file=str(self.folder.directory),
            remedy=_ANEW,
        )

    def _place(self, file: OutputFile) -> StreamState:
        state = self._manifest.state
        own = state.open_file
        rank = state.rank
        if own is None or state.last is None:
            return StreamState(file.name, rank=rank)
        if own.name != file.name:
            raise ManifestError(f"{own.name} is open, {file.name} is next", file=str(self.folder.directory))
        return StreamState(file.name, int(state.last.state["read"]), own.size, rank, own.sequence_number)

    def _own(self, name: str) -> OutputFile | None:
        return next((file for file in self._manifest.state.files if file.name == name), None)

    def _publish(
        self, source: ManifestState, file: OutputFile, place: StreamState, rendered: Mapping[str, Rendered]
    ) -> None:
        state = self._manifest.state
        own = self._own(file.name)
        before = 0 if own is None else own.transactions
        whole = place.read >= file.size
        made = OutputFile(
            name=file.name,
            size=place.size,
            closed=file.closed and whole,
            first_key=own.first_key if own is not None and before else place.first or file.first_key,
            last_key=own.last_key if own is not None and before == place.sequence else place.last or file.last_key,
            first_rank=place.rank - place.sequence + 1,
            last_rank=place.rank,
            input_bytes=place.read,
            transactions=place.sequence,
            sequence_number=place.sequence,
        )
        at_end = whole and file.name == source.files[-1].name and source.last is not None
        key = source.last.last_key if at_end and source.last is not None else made.last_key
        record = _publish(state, (made,), key, place.rank, {"read": place.read})
        publish(self.folder.directory, self._manifest, record, rendered)

    def purge(self, source: ManifestState) -> None:
        """Remove the stream's files that the log has not any more."""
        there = {file.name: file for file in source.files}
        files = []
        for file in self._manifest.state.files[:-1]:
            if file.name in there and self._log.is_there(there[file.name]):
                break
            files.append(file)
        remove(self.folder.directory, self._manifest, files, {})


_ANEW: Final = "remove the stream's folder: it is made anew, and its readers begin anew"


def _removed_rank(source: ManifestState, log: LogFolder) -> int:
    """Return the last transaction that the log has not any more, 0 if it has all."""
    removed = source.first_rank - 1
    for file in source.files:
        if log.is_there(file):
            break
        removed = file.last_rank
    return removed


def _header(source: Header, spec: StreamSpec, removed: int) -> Header:
    settings: dict[str, Any] = {key: value for key, value in source.settings.items() if key.startswith("output.")}
    settings |= {"stream.of": source.cluster_uuid, "stream.name": spec.name, "stream.definition": spec.definition}
    return replace(
        source,
        cluster_uuid=spec.uuid(source.cluster_uuid, removed),
        name=f"{source.name}: {spec.name}",
        server_version=ANNOUNCED_VERSION if spec.dialect == "mariadb" else source.server_version,
        fingerprint=spec.digest,
        settings=settings,
    )


def _publish(
    state: ManifestState | None, files: tuple[OutputFile, ...], key: str | None, rank: int, more: Mapping[str, Any]
) -> Publish:
    return Publish(
        run=1 if state is None else state.run + 1,
        files=files,
        last_key=key,
        watermark=None,
        rank=rank,
        totals={"transactions": rank},
        nodes={},
        state=more,
    )
