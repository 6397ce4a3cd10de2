"""What is wrong with a cluster: problems, each with a code that metrics and alarms name.

The node that holds the others back is the one with the least watermark, if others are further or wait. Where the merge
stays below the watermarks of all nodes, no node holds back: it waits for a marker, or stops before a statement.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from binlog_merge.json_values import unix_time_text
from binlog_merge.observe.status.notes import NodeNote
from binlog_merge.observe.status.values import (
    ArchiveStatus,
    ComponentStatus,
    DiskStatus,
    LeaseStatus,
    MergedStatus,
    NodeStatus,
    Problem,
    ServeStatus,
    Severity,
    WaitingDdl,
)

CODES: Final[Mapping[str, Severity]] = {
    "manifest-unreadable": Severity.error,
    "no-output": Severity.error,
    "merge-stopped": Severity.error,
    "merge-late": Severity.error,
    "watermark-late": Severity.error,
    "node-without-files": Severity.error,
    "node-unreadable": Severity.error,
    "capture-failed": Severity.error,
    "capture-silent": Severity.error,
    "capture-stopped": Severity.error,
    "serve-silent": Severity.error,
    "component-away": Severity.error,
    "no-leader": Severity.error,
    "disk-full": Severity.error,
    "status-failed": Severity.error,
    "ddl-waits": Severity.warning,
    "keys-collide": Severity.warning,
    "no-watermark": Severity.warning,
    "capture-lost": Severity.warning,
    "reader-late": Severity.warning,
    "reader-repeats": Severity.warning,
    "replica-stopped": Severity.warning,
    "replica-unknown": Severity.warning,
    "stream-unmatched": Severity.warning,
    "archive-failed": Severity.warning,
    "node-unknown": Severity.warning,
    "note-damaged": Severity.warning,
}
"""All codes of problems; an error makes the cluster unhealthy."""

_OFTEN: Final = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """The lag in seconds from which the watermark, the merge, or a reader is late."""

    lag_seconds: float = 60.0


def problem(code: str, text: str, node: str | None = None) -> Problem:
    """Return a problem with the severity of its code."""
    return Problem(code, CODES[code], text, node)


def merge_problems(
    merged: MergedStatus | None, nodes: Mapping[str, NodeStatus], error: str | None, now: float, limits: Limits
) -> Iterator[Problem]:
    """Yield what is wrong with the merge; `error` is what stopped its last run."""
    if error is not None:
        yield problem("merge-stopped", f"the last merge stopped: {error}")
    if merged is None:
        return
    unread = sum(node.news(merged.began_at) for node in nodes.values() if not node.gone)
    idle = now - merged.ran_at
    if unread and idle > limits.lag_seconds:
        last = f"the last one ended {idle:.0f} s ago" if merged.files else "none has brought anything yet"
        yield problem("merge-late", f"the merge is late: {unread:,} bytes are captured that no merge has read; {last}")
    without = [name for name, node in nodes.items() if node.holds_back and node.watermark is None]
    if without and merged.held:
        yield problem("no-watermark", f"{', '.join(without)}: no commit TSO yet, so nothing of the others comes out")
    lag = None if merged.watermark is None else merged.watermark.lag_seconds
    if lag is not None and lag > limits.lag_seconds and (unread or merged.held or merged.waiting):
        holders = ", ".join(f"{name} ({node.holds_back})" for name, node in nodes.items() if node.holds_back)
        because = f"; what holds back: {holders}" if holders else ""
        if below_all(nodes, merged):
            because = "; no node holds back: a marker or a statement does, see the warnings of the last run"
        yield problem("watermark-late", f"the watermark is {lag:.0f} s behind{because}")


def ddl_problems(merged: MergedStatus | None) -> Iterator[Problem]:
    """Yield the DDL for which rows of shards wait, each with the shards that it waits for."""
    if merged is not None and merged.locks and not merged.waiting_ddl:  # an earlier version's note has no names
        text = f"{merged.locks} DDL of shards waits for other shards: `binlog-merge ddl locks` says for whom"
        yield problem("ddl-waits", text)
    for ddl in () if merged is None else merged.waiting_ddl:
        if ddl.stage not in ("spreading", "queued"):
            text = f"{ddl.table}: {waiting_text(ddl)}: `binlog-merge ddl locks` says what can be decided"
            yield problem("ddl-waits", text)


def waiting_text(ddl: WaitingDdl) -> str:
    """Return a DDL that waits as text: the statement, since when, which shards have run it, and which are awaited."""
    sql = " ".join(ddl.sql.split())
    when = ddl.since if ddl.time is None else unix_time_text(ddl.time)
    done, awaited = ", ".join(ddl.done) or "no shard", ", ".join(ddl.awaited) or "no shard"
    return f"{sql if len(sql) <= 200 else f'{sql[:197]}...'}, run by {done} since {when}, waits for {awaited}"


def collision_problems(collisions: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what keys collide, by table."""
    for text in collisions.values():
        yield problem("keys-collide", text)


def component_problems(components: Iterable[ComponentStatus]) -> Iterator[Problem]:
    """Yield which processes of `run` do not do what they are for, though they have, or cannot."""
    for one in components:
        if one.accidents and (not one.works or one.accidents >= _OFTEN):
            now = "works now" if one.works else "starts" if one.up else "is down until it is started again"
            again = "" if one.accidents == 1 else f", {one.accidents} times in a row"
            yield problem("component-away", f"{one.name} ended with {one.last}{again}; it {now}")


def lease_problems(lease: LeaseStatus | None) -> Iterator[Problem]:
    """Yield that nobody leads."""
    if lease is not None and not lease.held:
        what = "has released the lease" if lease.released else f"was seen last {lease.age_seconds:.0f} s ago"
        who = ", ".join(lease.standbys) or "nobody"
        text = f"nobody leads, so nothing new is merged: {lease.holder} {what}, and {who} waits to take over"
        yield problem("no-leader", text)


def disk_problems(disks: Iterable[DiskStatus]) -> Iterator[Problem]:
    """Yield which disks are full."""
    for disk in disks:
        if disk.is_too_little:
            room = f"{disk.free_bytes:,} bytes are free" if disk.files_free else "no more files can be made"
            text = f"the disk with the {disk.of} is full: {room}; the log goes on when there is room"
            yield problem("disk-full", text)


def node_problems(
    nodes: Mapping[str, NodeStatus], disks: Iterable[DiskStatus] = (), elsewhere: bool = False
) -> Iterator[Problem]:
    """Yield what is wrong with the nodes and their captures. Those who cannot write their notes are not silent.

    `elsewhere`: they are captured on another host, so what is here says nothing.
    """
    if elsewhere:
        return
    full = any(disk.is_too_little for disk in disks)
    for name, node in nodes.items():
        if not node.files:
            yield problem("node-without-files", f"{name} has no binlog files", name)
        if (capture := node.capture) is None:
            continue
        if capture.silent:
            text = f"the capture of {name} has said nothing for some time: it was killed, or hangs"
            if not full:
                yield problem("capture-silent", text, name)
        elif capture.state == "failed":
            yield problem("capture-failed", f"the capture of {name} failed: {capture.text}", name)
        elif capture.state == "full":
            if not full:  # as a quota is
                yield problem("disk-full", f"the capture of {name} waits for room: {capture.text}", name)
        elif capture.state == "lost":
            yield problem("capture-lost", f"{name}: the connection to {capture.server} is lost: {capture.text}", name)
        elif capture.state == "stopped":
            yield problem("capture-stopped", f"the capture of {name} was stopped: nothing newer comes", name)


def archive_problems(archive: ArchiveStatus | None) -> Iterator[Problem]:
    """Yield what keeps files from being archived."""
    if archive is not None and archive.active and archive.error is not None:
        waiting = f"{archive.waiting_files} files, {archive.waiting_bytes:,} bytes"
        yield problem("archive-failed", f"{waiting} wait for the archive ({archive.to}): {archive.error}")


def serve_problems(
    serves: tuple[ServeStatus, ...], limits: Limits, disks: Iterable[DiskStatus] = ()
) -> Iterator[Problem]:
    """Yield what is wrong with serves and their readers. Those who cannot write their notes are not silent."""
    full = any(disk.is_too_little for disk in disks)
    for serve in serves:
        if serve.silent and not full:
            text = f"serve at {serve.address} has said nothing for some time: it was killed, or hangs"
            yield problem("serve-silent", text)
        for stream, rules in serve.unmatched.items():
            text = f"stream {stream} of serve at {serve.address}: no table of the log matches {', '.join(rules)}"
            yield problem("stream-unmatched", text)
        for replica in serve.replicas:
            if replica.applies is None:
                yield problem("replica-unknown", f"whether {replica.server} applies the log: {replica.text}")
            elif not replica.applies:
                number = f"error {replica.error}: " if replica.error else ""
                yield problem("replica-stopped", f"{replica.server} does not apply the log: {number}{replica.text}")
        for one in serve.repeats:
            text = f"reader {one.reader} has begun {one.times} times {one.place}, since {unix_time_text(one.since)}"
            yield problem("reader-repeats", f"{text}: it does not keep what it is sent there; its own log says why")
        for reader in serve.readers:
            if reader.lag_seconds is not None and reader.lag_seconds > limits.lag_seconds:
                text = f"reader {reader.peer} is {reader.lag_seconds:.0f} s and {reader.behind_bytes:,} bytes behind"
                yield problem("reader-late", text)


_NODE_AT: Final = 48
"""Where the node's number begins in the text of an order key."""


def with_holders(
    nodes: Mapping[str, NodeStatus], merged: MergedStatus, noted: Mapping[str, NodeNote]
) -> dict[str, NodeStatus]:
    """Return the nodes with `holds_back` filled in; `noted` is what the last run said of them.

    After --end-of-input nobody holds anything back.
    """
    counting = {name: node for name, node in nodes.items() if not node.gone}
    if merged.end_of_input or merged.run == 0 or below_all(nodes, merged):
        return dict(nodes)
    keys = {name: "" if node.watermark is None else node.watermark.key for name, node in counting.items()}
    least = min(keys.values(), default="")
    apart = any(key[:19] > least[:19] for key in keys.values())
    if not apart and not merged.held:
        return dict(nodes)
    holders = {name for name, key in keys.items() if key == least}
    return {
        name: replace(node, holds_back=_why(node, merged.began_at, _said(noted.get(name)))) if name in holders else node
        for name, node in nodes.items()
    }


def below_all(nodes: Mapping[str, NodeStatus], merged: MergedStatus) -> bool:
    """Return whether the global watermark is below those of all nodes."""
    keys = [node.watermark.key if node.watermark is not None else "" for node in nodes.values() if not node.gone]
    return merged.watermark is not None and bool(keys) and merged.watermark.key[:_NODE_AT] < min(keys)[:_NODE_AT]


def _said(note: NodeNote | None) -> str:
    return "" if note is None else note.why


def _why(node: NodeStatus, began_at: float, why: str) -> str:
    """Return why a node's watermark is no further: what came after the last run, else what the run itself said."""
    capture = node.capture
    if not node.files:
        return "it has no binlog files"
    if capture is not None and capture.state == "full" and not capture.silent:
        return f"its capture waits for room: {capture.text}"
    if capture is not None and (capture.silent or capture.state in ("failed", "lost")):
        return f"its capture {'is silent' if capture.silent else f'{capture.state}: {capture.text}'}"
    if news := node.news(began_at):
        return f"{news:,} bytes after {node.read or 'its beginning'} are captured and not merged yet"
    why = why or "it is idle: nothing newer is captured"
    if node.open_branches and "prepared" not in why:  # it is not what the watermark waits for, but may be next
        branches = "branch is" if node.open_branches == 1 else "branches are"
        why += f"; {node.open_branches} {branches} prepared, and neither committed nor rolled back"
    if capture is not None and capture.state == "stopped":
        return f"{why}; its capture was stopped"
    if capture is not None and capture.state == "connecting":
        return f"{why}; its capture is connecting to {capture.server}"
    return why
