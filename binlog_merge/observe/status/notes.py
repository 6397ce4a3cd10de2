"""The state notes of merge, capture and serve as values. A note that is damaged is a problem to show, not an error.

Samples of the manifest tell how fast the output grows, and since when a reader lacks what was published.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from binlog_merge.errors import IoError, ManifestError
from binlog_merge.files.archived import read_note
from binlog_merge.files.manifest import ManifestState
from binlog_merge.files.state_notes import (
    ARCHIVE_NOTE,
    CAPTURE_NOTE,
    DECISIONS_NOTE,
    MERGE_NOTE,
    NOTES_FOLDER,
    SERVE_NOTES,
    STALE_SECONDS,
    finite,
    read_state_note,
    samples_of,
)
from binlog_merge.observe.status.node_files import parse_position
from binlog_merge.observe.status.values import (
    ArchiveStatus,
    CaptureStatus,
    Decision,
    FilePosition,
    LastDdl,
    OpenBranch,
    Problem,
    Rates,
    ReaderStatus,
    RepeatedStatus,
    ReplicaStatus,
    ServeStatus,
    Severity,
    WaitingDdl,
    time_of_key,
)
from snapshot_store.tso import OrderKey

RATE_SECONDS: Final = 60.0
_KEPT: Final = 1000


class Sample(NamedTuple):
    """The size of the output at one moment: transactions, and the input bytes that they came from."""

    at: float
    transactions: int
    input_bytes: int


def rates_of(samples: Iterable[Sample], now: Sample, seconds: float = RATE_SECONDS) -> Rates | None:
    """Return the growth per second over about the last `seconds`; None without a sample at least one second old.

    A sample of another output, which has more than there is now, does not count.
    """
    earlier = sorted(s for s in samples if s.at <= now.at - 1 and s.transactions <= now.transactions)
    if not earlier:
        return None
    begin = now.at - seconds
    before = [sample for sample in earlier if sample.at <= begin]
    base = before[-1] if before else earlier[0]
    # The output stays the same between two samples, so an old one stands for the beginning of the window.
    elapsed = now.at - max(base.at, begin)
    return Rates(
        seconds=elapsed,
        transactions=(now.transactions - base.transactions) / elapsed,
        bytes=max(0, now.input_bytes - base.input_bytes) / elapsed,
    )


@dataclass(frozen=True, slots=True)
class _End:
    at: float
    bytes: int


class Growth:
    """The published size of an output over time. `see` each state, then ask how far behind a position is."""

    def __init__(self) -> None:
        self._begins: dict[str, int] = {}
        self._end = 0
        self._seen: deque[_End] = deque(maxlen=_KEPT)

    def see(self, state: ManifestState, published_at: float) -> None:
        """Take the state of the manifest, and when it was written last."""
        at, begins = 0, {}
        for file in state.files:
            begins[file.name] = at
            at += file.size
        self._begins, self._end = begins, at
        if not self._seen or self._seen[-1].bytes != at:
            self._seen.append(_End(published_at, at))

    def behind(self, sent: FilePosition, now: float) -> tuple[int, float | None]:
        """Return how many bytes follow a position in the log, and for how many seconds at least they have been there.

        A file before the first one kept is taken for its beginning; the file after the last has nothing to follow.
        """
        begin = self._begins.get(sent.file)
        if begin is None:
            later = not self._begins or sent.file > max(self._begins)
            size = 0 if later and sent.file else self._end
        else:
            size = max(0, self._end - begin - sent.position)
        if size == 0:
            return 0, 0.0
        at = self._end - size
        since = next((end.at for end in self._seen if end.bytes > at), None)
        return size, None if since is None else max(0.0, now - since)


_RUNNING = ("connecting", "connected", "lost", "full")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NodeNote:
    """What the last run found out about a node; `why` says why it holds the others back, "" if it does not."""

    watermark: str | None
    read: FilePosition | None
    open_branches: int
    gone: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class MergeNote:
    """The last run of a merge; `error` is what stopped it, as text. The default says nothing."""

    at: float | None = None
    began: float | None = None
    nodes: Mapping[str, NodeNote] = field(default_factory=dict)
    held: int = 0
    held_bytes: int = 0
    waiting: int = 0
    locks: int = 0
    waiting_ddl: tuple[WaitingDdl, ...] = ()
    open_branches: tuple[OpenBranch, ...] = ()
    warnings: tuple[str, ...] = ()
    warnings_count: int = 0
    collisions: Mapping[str, str] = field(default_factory=dict)
    last_ddl: LastDdl | None = None
    samples: tuple[Sample, ...] = ()
    puts_an_hour: int | None = None
    error: str | None = None


def merge_note(out: Path, problems: list[Problem], elsewhere: Mapping[str, Any] | None = None) -> MergeNote:
    """Return the note of the last run in an output directory; without one what a run `elsewhere` says of itself."""
    if (here := _read(out / NOTES_FOLDER / MERGE_NOTE, _merge_note, problems)) is not None:
        return here
    try:
        return _merge_note({**elsewhere, "at": finite(elsewhere["at"])}) if elsewhere else MergeNote()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"what the leader says of its merge cannot be read: {type(error).__name__}: {error}"
        problems.append(Problem("note-damaged", Severity.warning, what))
        return MergeNote()


def decisions_note(out: Path, problems: list[Problem]) -> tuple[tuple[Decision, ...], int]:
    """Return the last decisions of operators about an output, and how many there are."""
    return _read(out / NOTES_FOLDER / DECISIONS_NOTE, _decisions, problems) or ((), 0)


def archive_status(out: Path, state: ManifestState, problems: list[Problem]) -> ArchiveStatus | None:
    """Return what is archived of an output, and what waits; None if it has no archive."""
    try:
        archived = read_note(out)
    except (IoError, ManifestError) as error:
        problems.append(Problem("note-damaged", Severity.warning, f"{error.message} ({error.file}); {error.remedy}"))
        return None
    if archived is None:
        return None
    waiting = [file for file in state.files if file.closed and not archived.has(file)] if archived.active else []
    why, since = _read(out / NOTES_FOLDER / ARCHIVE_NOTE, _in_the_way, problems) or (None, None)
    return ArchiveStatus(
        to=archived.to,
        active=archived.active,
        files=len(archived.files),
        bytes=sum(file.size for file in archived.files.values()),
        waiting_files=len(waiting),
        waiting_bytes=sum(file.size for file in waiting),
        error=why if waiting else None,
        since=since if waiting else None,
    )


def _in_the_way(values: Mapping[str, Any]) -> tuple[str | None, float | None]:
    error, since = values.get("error"), values.get("since")
    return None if error is None else str(error), None if since is None else finite(since)


def capture_note(folder: Path, node: str, now: float, problems: list[Problem]) -> CaptureStatus | None:
    """Return the note of a node's capture from its captured folder, None if there is none."""
    return _read(folder / CAPTURE_NOTE, lambda values: _capture(values, now), problems, node)


def serve_notes(
    out: Path, now: float, behind: Callable[[FilePosition], tuple[int, float | None]], problems: list[Problem]
) -> tuple[ServeStatus, ...]:
    """Return the notes of all serves of an output directory.

    `behind` says how many bytes and seconds a position is behind the end of the log.
    """
    folder = out / NOTES_FOLDER
    try:
        paths = sorted(folder.glob(SERVE_NOTES))
    except OSError:
        return ()
    found = (_read(path, lambda values: _serve(values, now, behind), problems) for path in paths)
    return tuple(serve for serve in found if serve is not None)


def _read(
    path: Path, parse: Callable[[Mapping[str, Any]], Value], problems: list[Problem], node: str | None = None
) -> Value | None:
    try:
        values = read_state_note(path)
        return None if values is None else parse(values)
    except (IoError, ManifestError) as error:
        problems.append(Problem("note-damaged", Severity.warning, f"{error.message} ({path})", node))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"a state note is damaged ({path}: {type(error).__name__}: {error}): remove it, it is made anew"
        problems.append(Problem("note-damaged", Severity.warning, what, node))
    return None


def _merge_note(values: Mapping[str, Any]) -> MergeNote:
    error = values.get("error")
    ddl = values.get("last_ddl")
    return MergeNote(
        at=values["at"],
        began=finite(values["began"]) if "began" in values else None,
        nodes={str(name): _node(found) for name, found in values.get("nodes", {}).items()},
        held=_whole(values.get("held", 0)),
        held_bytes=_whole(values.get("held_bytes", 0)),
        waiting=_whole(values.get("waiting", 0)),
        locks=_whole(values.get("locks", 0)),
        waiting_ddl=tuple(map(_waiting_ddl, values.get("waiting_ddl", ()))),
        open_branches=tuple(
            OpenBranch(str(b["node"]), str(b["file"]), _whole(b["position"]), int(b["transaction_id"]))
            for b in values.get("open_branches", ())
        ),
        warnings=tuple(map(str, values.get("warnings", ()))),
        warnings_count=_whole(values.get("warnings_count", 0)),
        collisions={str(name): str(one["text"]) for name, one in values.get("collisions", {}).items()},
        last_ddl=None
        if ddl is None
        else LastDdl(str(ddl["key"]), str(ddl["schema"]), str(ddl["sql"]), time_of_key(str(ddl["key"])), None),
        samples=tuple(Sample(float(at), int(rank), int(size)) for at, rank, size in samples_of(values)),
        puts_an_hour=None if values.get("puts_an_hour") is None else _whole(values["puts_an_hour"]),
        error=None if error is None else _error_text(error),
    )


def _decisions(values: Mapping[str, Any]) -> tuple[tuple[Decision, ...], int]:
    decisions = tuple(Decision(str(d["id"]), str(d["action"]), str(d["of"])) for d in values["decisions"])
    return decisions, _whole(values["count"])


def _waiting_ddl(values: Mapping[str, Any]) -> WaitingDdl:
    return WaitingDdl(
        id=str(values["id"]),
        table=str(values["table"]),
        mode=str(values["mode"]),
        stage=str(values["stage"]),
        sql=str(values["sql"]),
        since=str(values["since"]),
        time=time_of_key(str(values["since"])),
        done=tuple(map(str, values["done"])),
        awaited=tuple(map(str, values["awaited"])),
    )


def _node(values: Mapping[str, Any]) -> NodeNote:
    watermark = values["watermark"]
    return NodeNote(
        None if watermark is None else OrderKey.parse(str(watermark)).text(),
        parse_position(values["read_to"]),
        _whole(values["open_branches"]),
        bool(values.get("gone", False)),
        str(values.get("why") or ""),
    )


def _error_text(error: Mapping[str, Any]) -> str:
    places = (("node", "node"), ("file", "file"), ("position", "position"))
    where = ", ".join(f"{word} {error[name]}" for name, word in places if error.get(name) is not None)
    return f"{error['code']}: {error['message']}{f' ({where})' if where else ''}"


def _capture(values: Mapping[str, Any], now: float) -> CaptureStatus:
    state, error = str(values["state"]), values.get("error")
    silent = state in _RUNNING and now - values["at"] > STALE_SECONDS
    text = str(values.get("text", "")) if error is None else _error_text(error)
    return CaptureStatus(state, str(values["server"]), finite(values["since"]), silent, text)


def _serve(
    values: Mapping[str, Any], now: float, behind: Callable[[FilePosition], tuple[int, float | None]]
) -> ServeStatus:
    silent = now - values["at"] > STALE_SECONDS
    host, port = str(values["host"]), _whole(values["port"])
    readers = () if silent else tuple(_reader(reader, behind) for reader in values["readers"])
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    found = {} if silent else values.get("unmatched", {})
    unmatched = {str(stream): tuple(map(str, rules)) for stream, rules in found.items()}
    replicas = () if silent else tuple(map(_replica, values.get("replicas", ())))
    repeats = () if silent else tuple(map(_repeated, values.get("repeats", ())))
    return ServeStatus(address, finite(values["since"]), silent, readers, unmatched, replicas, repeats)


def _repeated(values: Mapping[str, Any]) -> RepeatedStatus:
    times, since, latest = _whole(values["times"]), finite(values["since"]), finite(values["latest"])
    return RepeatedStatus(str(values["reader"]), str(values["place"]), times, since, latest)


def _replica(values: Mapping[str, Any]) -> ReplicaStatus:
    applies = values["applies"]
    known = None if applies is None else bool(applies)
    return ReplicaStatus(str(values["server"]), known, _whole(values["error"]), str(values["text"]))


def _reader(values: Mapping[str, Any], behind: Callable[[FilePosition], tuple[int, float | None]]) -> ReaderStatus:
    sent = FilePosition(str(values["file"]), _whole(values["position"]))
    size, seconds = behind(sent)
    return ReaderStatus(
        peer=str(values["peer"]),
        server_id=_whole(values["server_id"]),
        uuid=str(values["uuid"]),
        host=str(values["host"]),
        since=finite(values["since"]),
        sent=sent,
        waiting=bool(values["waiting"]),
        behind_bytes=size,
        lag_seconds=seconds,
        user=str(values.get("user", "")),
        sent_bytes=_whole(values.get("sent", 0)),
        acknowledged=str(values.get("acknowledged", "")),
        tls=str(values.get("tls", "")),
        compression=str(values.get("compression", "")),
    )


def _whole(value: Any) -> int:
    return int(finite(value))
