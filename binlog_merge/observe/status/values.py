"""The status of a cluster as frozen values. Times are in seconds since 1970, order keys 54-digit texts.

None means that something is not known: nothing is there yet, or nothing that runs has said so.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from binlog_merge.files.disk import Room
from binlog_merge.json_values import utc_text
from snapshot_store.tso import OrderKey, carries_time, tso_millis


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position in a log: before it everything has been captured, read, or sent."""

    file: str
    position: int

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


@dataclass(frozen=True, slots=True)
class Watermark:
    """An order key below which nothing more may arrive. `time` is that of its TSO, None if the TSO carries no time."""

    key: str
    time: float | None
    lag_seconds: float | None

    @classmethod
    def of(cls, key: str, now: float) -> "Watermark":
        """Return the watermark at an order key. Raises ValueError for a text that is no order key."""
        tso = OrderKey.parse(key).commit_tso
        time = tso_millis(tso) / 1000 if carries_time(tso) else None
        return cls(key, time, None if time is None else max(0.0, now - time))


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """A node's capture. `state` is connecting, connected, lost, full (it waits for room on its disk), complete,
    stopped or failed; `silent`: it is gone without having said so.
    """

    state: str
    server: str
    since: float
    silent: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server that the node has or had. `server` and `since` are those of the switch to it, None for the first one.

    Its files are in `folder`, "" for the first one's. `ends` is where the node left it, None if it did not, or nothing
    was captured of it.
    """

    server_uuid: str | None
    server: str | None
    since: float | None
    folder: str
    ends: FilePosition | None = None

    def left(self, ends: FilePosition) -> "ServerStatus":
        """Return the server as one that the node has left there."""
        return replace(self, ends=ends)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node: what is captured, what the merge has read, and up to where it is merged.

    `captured_at` is when the last file grew, `unread_bytes` what is captured and not read by the merge. `needed_from`
    is the oldest file that the next run reads again. `merged` is the moment up to which the node's transactions are in
    the output. `holds_back` says why the node is the one for which the others wait; "" if it is not. `servers` are all
    that it has had, the one that is captured last; none if nothing captures it.
    """

    files: int
    captured: FilePosition | None
    captured_at: float | None
    read: FilePosition | None
    unread_bytes: int
    needed_from: str | None
    merged: float | None
    watermark: Watermark | None
    open_branches: int
    gone: bool = False
    holds_back: str = ""
    capture: CaptureStatus | None = None
    servers: tuple[ServerStatus, ...] = ()

    def news(self, began_at: float) -> int:
        """Return how many bytes came after a run began that did not read them.

        What has been there when it began is nothing that it could merge: half an event, or the end of a file.
        """
        return self.unread_bytes if self.captured_at is None or self.captured_at > began_at else 0


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """A reader that is attached to a serve. `lag_seconds` is how long ago more than it has got was published.

    `sent_bytes` were sent since it attached; `acknowledged` is up to where a semi-synchronous replica has stored the
    log, "" where it does not say. `tls` and `compression` are "" where there is none.
    """

    peer: str
    server_id: int
    uuid: str
    host: str
    since: float
    sent: FilePosition
    waiting: bool
    behind_bytes: int
    lag_seconds: float | None
    user: str = ""
    sent_bytes: int = 0
    acknowledged: str = ""
    tls: str = ""
    compression: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A server that a serve asks whether it applies the log; None: it cannot be asked, or follows another log.

    `error` is the number of the error with which its applier has stopped, 0 if there is none; `text` says more.
    """

    server: str
    applies: bool | None
    error: int
    text: str


@dataclass(frozen=True, slots=True)
class RepeatedStatus:
    """A reader that has begun `times` times at `place`, from `since` until `latest`, and has got no further."""

    reader: str
    place: str
    times: int
    since: float
    latest: float


@dataclass(frozen=True, slots=True)
class ServeStatus:
    """A serve and its readers; `silent`: it is gone without having said so, and its readers with it.

    `unmatched` are rules that match no table of the log, by stream; `replicas` the servers that it asks.
    `repeats` are readers that come again and again.
    """

    address: str
    since: float
    silent: bool
    readers: tuple[ReaderStatus, ...]
    unmatched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    replicas: tuple[ReplicaStatus, ...] = ()
    repeats: tuple[RepeatedStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenBranch:
    """A branch that is prepared, and neither committed nor rolled back yet."""

    node: str
    file: str
    position: int
    transaction_id: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What an operator has decided with `ddl resolve` about a DDL of shards or a transaction, named by its `id`.

    `of` is the statement, the shard or the rows that were given, "" if none was.
    """

    id: str
    action: str
    of: str


@dataclass(frozen=True, slots=True)
class LastDdl:
    """The last DDL in the output: its order key, and the output file that holds it."""

    key: str
    schema: str
    sql: str
    time: float | None
    file: str | None


@dataclass(frozen=True, slots=True)
class Rates:
    """What was merged each second over the last `seconds`; bytes are input bytes."""

    seconds: float
    transactions: float
    bytes: float


class Severity(StrEnum):
    """An error makes the cluster unhealthy, a warning does not."""

    error = "error"
    warning = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to look into. `code` is one of `health.CODES`."""

    code: str
    severity: Severity
    text: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class WaitingDdl:
    """A DDL of shards that waits, as `ddl locks` and a merge's result name it; at most 100 shards are listed.

    `since` is the order key at which a shard ran it first, `time` its time if a TSO carries one. `done` are the shards
    that have it, `awaited` those that have not. In the stage "spreading" no rows wait.
    """

    id: str
    table: str
    mode: str
    stage: str
    sql: str
    since: str
    time: float | None
    done: tuple[str, ...]
    awaited: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergedStatus:
    """The output. `end` is where the next transaction will begin, `ran_at` when the last run ended.
    `began_at` is when the last run that was published began. `first_file` is the first file kept; `removed_files`,
    `removed_bytes` and the captured ones are counted since the beginning, `removed_at` is when files went last.

    `totals` are those of the manifest. `puts_an_hour` are the requests that write to an object store, by those of the
    merge's process so far. `held` are branches that are read and wait for the watermark. `locks` is how many DDL of
    shards wait, `waiting_ddl` are the first 20 of them.
    """

    run: int
    files: int
    output_bytes: int
    end: FilePosition | None
    transactions: int
    totals: Mapping[str, int]
    last_key: str | None
    last_time: float | None
    watermark: Watermark | None
    end_of_input: bool
    published_at: float
    ran_at: float
    began_at: float
    held: int
    held_bytes: int
    waiting: int
    locks: int
    first_file: str | None = None
    removed_files: int = 0
    removed_bytes: int = 0
    removed_captured_files: int = 0
    removed_captured_bytes: int = 0
    removed_at: float | None = None
    puts_an_hour: int | None = None
    waiting_ddl: tuple[WaitingDdl, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """Where closed files of the output are sent, how many are there, and how many wait. `active`: they still are sent.

    `error` is what is in the way, since `since`; None if nothing is.
    """

    to: str
    active: bool
    files: int
    bytes: int
    waiting_files: int
    waiting_bytes: int
    error: str | None
    since: float | None


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """A process that `run` keeps running. `up`: it runs; `works`: it does what it is for, and is not starting.

    `starts` are its starts since `run` began, `accidents` its ends in a row, without having settled; `last` says how
    it ended last, "" if it has not.
    """

    name: str
    up: bool
    works: bool
    starts: int
    accidents: int
    last: str


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """Who leads, where several stand by: the holder since a moment of its own clock, and with which epoch.

    `held`: it is not released, and was renewed in time; `age_seconds` is how long ago it was renewed. `leads`: this
    `run` leads; None if no `run` says so. `standbys` are those who wait, by name; `wanted_by` is who is to lead next.
    """

    holder: str
    epoch: int
    seconds: float
    since: str
    held: bool
    released: bool
    age_seconds: float
    leads: bool | None
    wanted_by: str | None
    standbys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiskStatus(Room):
    """The file system on which the merged log or captured files are (`of`)."""

    of: str


@dataclass(frozen=True, slots=True)
class Status:
    """What is going on in a cluster at one moment. `warnings` are those of the last run, `decisions` the last 100."""

    name: str
    out: str
    at: float
    nodes: Mapping[str, NodeStatus]
    merged: MergedStatus | None
    open_branches: tuple[OpenBranch, ...]
    open_branches_count: int
    last_ddl: LastDdl | None
    rates: Rates | None
    serves: tuple[ServeStatus, ...]
    warnings: tuple[str, ...]
    warnings_count: int
    problems: tuple[Problem, ...] = field(default=())
    archive: ArchiveStatus | None = None
    components: tuple[ComponentStatus, ...] = ()
    disks: tuple[DiskStatus, ...] = ()
    decisions: tuple[Decision, ...] = ()
    decisions_count: int = 0
    lease: LeaseStatus | None = None

    @property
    def healthy(self) -> bool:
        """Return whether there is no problem but warnings."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[Problem, ...]:
        """Return the problems that make the cluster unhealthy."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.error)

    @property
    def lag_seconds(self) -> float | None:
        """Return how far the global watermark is behind the clock; None if it is not known, or all is merged."""
        return None if self.merged is None or self.merged.watermark is None else self.merged.watermark.lag_seconds

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `-o json` and /status.json give them."""
        values: dict[str, Any] = with_times(asdict(self))
        values["log"], values["merged"] = values.pop("merged"), values.pop("out")  # as all documents name the place
        for node in values["nodes"].values():
            node["merged_until"] = node.pop("merged")
        for branch in values["open_branches"]:
            branch["transaction_id"] = str(branch["transaction_id"])  # may exceed 2^53
        health = {"healthy": self.healthy, "reasons": [problem.text for problem in self.reasons]}
        return {**health, "lag_seconds": self.lag_seconds, **values}


_TIMES = frozenset((
    "at", "time", "since", "latest", "captured_at", "merged", "last_time", "published_at", "ran_at", "began_at",
    "removed_at",
))  # fmt: skip
"""The keys of moments: seconds since 1970 in memory and in notes, RFC 3339 in what is printed."""


def with_times(values: Any) -> Any:
    """Return plain values with their moments as RFC 3339 in UTC, to the millisecond, and order keys named so."""
    if isinstance(values, list | tuple):
        return [with_times(item) for item in values]
    if not isinstance(values, dict):
        return values
    return {
        "order_key" if key == "key" else key: _moment(value) if key in _TIMES else with_times(value)
        for key, value in values.items()
    }


def _moment(value: Any) -> Any:
    if not isinstance(value, int | float):
        return with_times(value)  # the output's own `merged`
    return utc_text(datetime.fromtimestamp(round(value, 3), UTC))


def time_of_key(key: str | None) -> float | None:
    """Return the time that an order key's TSO carries, None if it carries none or `key` is no order key."""
    try:
        tso = 0 if key is None else OrderKey.parse(key).commit_tso
    except ValueError:
        return None
    return tso_millis(tso) / 1000 if carries_time(tso) else None
