"""Looks at a cluster: reads the manifest, the nodes' files and the state notes, and returns the Status.

Nothing is written, and nothing raises: what cannot be read is a problem in the status.
"""

import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.errors import ConfigError, IoError, ManifestError, MergeError
from binlog_merge.files.disk import room_at
from binlog_merge.files.lease_seen import LeaseWatch, Seen
from binlog_merge.files.log_folder import LogFolder, folder_of
from binlog_merge.files.manifest import MANIFEST_NAME, Gone, Manifest, ManifestState
from binlog_merge.files.publish import basename_of, file_name
from binlog_merge.observe.status.health import (
    Limits,
    archive_problems,
    collision_problems,
    component_problems,
    ddl_problems,
    disk_problems,
    lease_problems,
    merge_problems,
    node_problems,
    problem,
    serve_problems,
    with_holders,
)
from binlog_merge.observe.status.node_files import NodeFiles, further, servers_of_node
from binlog_merge.observe.status.notes import (
    Growth,
    MergeNote,
    NodeNote,
    Sample,
    archive_status,
    capture_note,
    decisions_note,
    merge_note,
    rates_of,
    serve_notes,
)
from binlog_merge.observe.status.values import (
    ComponentStatus,
    DiskStatus,
    FilePosition,
    LastDdl,
    LeaseStatus,
    MergedStatus,
    NodeStatus,
    Problem,
    Rates,
    ServerStatus,
    Status,
    Watermark,
    time_of_key,
)

_SAMPLE_SECONDS, _KEPT_SAMPLES = 0.5, 200


class Observer:
    """Looks at a cluster again and again; rates and the readers' lag need more than one look. For one thread."""

    def __init__(
        self,
        config: MergeConfig,
        place: Path | LogFolder,
        limits: Limits | None = None,
        components: Callable[[], tuple[ComponentStatus, ...]] = tuple,
        leads: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self.config = config
        self._leads = leads
        self._folder = folder_of(place)
        self.out = self._folder.directory
        self._limits = limits or Limits()
        self._components = components
        leased = config.ha.lease_seconds(self._folder.is_remote) is not None
        self._lease_watch = LeaseWatch(self._folder.beside()) if leased else None
        self._seen: Seen | None = None
        self._manifest: Manifest | None = None
        self._stamp: tuple[int, int, int] | None = None
        self._growth = Growth()
        self._samples: deque[Sample] = deque(maxlen=_KEPT_SAMPLES)

    def look(self) -> Status:
        """Return the status now."""
        now, problems = time.time(), list[Problem]()
        state, published_at = self._read_manifest(problems)
        lease = self._lease()
        note = merge_note(self.out, problems, None if self._seen is None else self._seen.lease.status)
        nodes = {node.source_id: self._node(node, state, note, now, problems) for node in self.config.nodes}
        if state.header is not None:
            strangers = sorted(set(state.header.node_numbers) - set(nodes))
            problems += [
                problem("node-unknown", f"{n} is in the output, not in the configuration", n) for n in strangers
            ]
        merged = _merged(state, note, published_at, now)
        if merged is not None:
            nodes = with_holders(nodes, merged, note.nodes)
        serves = serve_notes(self.out, now, lambda sent: self._growth.behind(sent, now), problems)
        problems += merge_problems(merged, nodes, note.error, now, self._limits)
        problems += ddl_problems(merged)
        problems += collision_problems(note.collisions)
        components, disks = self._components(), self._disks()
        problems += component_problems(components)
        problems += disk_problems(disks)
        problems += node_problems(nodes, disks, _is_elsewhere(lease))
        problems += lease_problems(lease)
        archive = archive_status(self.out, state, problems)
        problems += archive_problems(archive)
        problems += serve_problems(serves, self._limits, disks)
        decisions, decisions_count = decisions_note(self.out, problems)
        return Status(
            name=self.config.name,
            out=self._folder.place(),
            at=now,
            nodes=nodes,
            merged=merged,
            open_branches=note.open_branches,
            open_branches_count=sum(node.open_branches for node in nodes.values()),
            last_ddl=_placed(note.last_ddl, state),
            rates=None if merged is None else self._rates(merged, note, now),
            serves=serves,
            warnings=note.warnings,
            warnings_count=note.warnings_count,
            problems=tuple(problems),
            archive=archive,
            components=components,
            disks=disks,
            decisions=decisions,
            decisions_count=decisions_count,
            lease=lease,
        )

    def _lease(self) -> LeaseStatus | None:
        """Return who leads; what was seen last if the store does not say now, which the manifest then shows, too."""
        if self._lease_watch is None:
            return None
        with suppress(MergeError):
            self._seen = self._lease_watch.look()
        if (seen := self._seen) is None:
            return None
        lease = seen.lease
        return LeaseStatus(
            *(lease.holder, lease.epoch, lease.seconds, lease.since, seen.held, lease.released, round(seen.age, 1)),
            *(self._leads(), lease.wanted_by, seen.standbys),
        )

    def _disks(self) -> tuple[DiskStatus, ...]:
        """Return the disks that are there: of what is not made yet, that on which it would be."""
        captured = any(node.server is not None for node in self.config.nodes)
        places = {"merged log": self.out, **({"captured files": Path(self.config.capture.dir)} if captured else {})}
        return tuple(disk for of, path in places.items() if (disk := _disk(of, path)) is not None)

    def _read_manifest(self, problems: list[Problem]) -> tuple[ManifestState, float]:
        """Return what is published, and since when; if that cannot be read now, what was published when it could."""
        path = self.out / MANIFEST_NAME
        try:
            self._folder.check()
            status = path.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            if stamp != self._stamp or self._manifest is None:
                self._manifest = self._load()
                self._stamp = stamp
                self._growth.see(self._manifest.state, status.st_mtime)
        except FileNotFoundError:
            self._forget()
        except OSError as error:
            problems.append(problem("no-output", f"{path}: {error.strerror}"))
        except (ManifestError, IoError) as error:
            problems.append(problem("manifest-unreadable", f"{error.message} ({error.where()}); {error.remedy}"))
        if self._manifest is None and not problems:
            problems.append(problem("no-output", f"no merge has written to {self._folder} yet"))
        state = ManifestState() if self._manifest is None else self._manifest.state
        return state, 0.0 if self._stamp is None else self._stamp[2] / 1e9

    def _load(self) -> Manifest:
        """Read what was appended to the manifest; all of it if that does not continue what was known."""
        try:
            manifest = self._folder.manifest(self._manifest)
        except ManifestError:
            manifest = self._folder.manifest()
        if self._manifest is not None and manifest.state.rank < self._manifest.state.rank:
            self._forget()
        return manifest

    def _forget(self) -> None:
        """Begin anew: there is no output any more, or another one."""
        self._manifest, self._stamp = None, None
        self._growth = Growth()
        self._samples.clear()

    def _node(
        self, node: Node, state: ManifestState, note: MergeNote, now: float, problems: list[Problem]
    ) -> NodeStatus:
        name = node.source_id
        noted = note.nodes.get(name, NodeNote(None, None, 0, False))
        known = None if state.last is None else state.last.nodes.get(name)
        read = noted.read if known is None else FilePosition(known.scan_end_file, known.scan_end_position)
        read = further(read, noted.read)
        files, servers, captured, captured_at, unread = NodeFiles(()), tuple[ServerStatus, ...](), None, None, 0
        try:
            servers = servers_of_node(node)
            files = NodeFiles.of(node)
            captured, captured_at = files.captured()
            unread = files.unread(read)
        except (IoError, ManifestError, ConfigError) as error:
            problems.append(problem("node-unreadable", f"{name}: {error.message} ({error.file})", name))
        watermark = None if noted.watermark is None else Watermark.of(noted.watermark, now)
        needed = None if known is None else known.checkpoint.get("file")
        last = state.last
        times = [
            None if watermark is None else watermark.time,
            time_of_key(last.watermark) if last is not None and not last.end_of_input else None,
        ]
        return NodeStatus(
            files=len(files.found),
            captured=captured,
            captured_at=captured_at,
            read=read,
            unread_bytes=unread,
            needed_from=needed if isinstance(needed, str) else None,
            merged=min((time for time in times if time is not None), default=None),
            watermark=watermark,
            open_branches=noted.open_branches,
            gone=noted.gone,
            capture=capture_note(Path(self.config.capture.dir) / name, name, now, problems),
            servers=servers,
        )

    def _rates(self, merged: MergedStatus, note: MergeNote, now: float) -> Rates | None:
        sample = Sample(now, merged.transactions, merged.totals.get("input_bytes", 0))
        rates = rates_of([*note.samples, *self._samples], sample)
        if not self._samples or now - self._samples[-1].at >= _SAMPLE_SECONDS:
            self._samples.append(sample)
        return rates


def _is_elsewhere(lease: LeaseStatus | None) -> bool:
    """Return whether the nodes are captured on another host, as far as that is known."""
    if lease is None:
        return False
    if lease.leads is not None:
        return not lease.leads
    return not lease.holder.startswith(f"{socket.gethostname()}-")


def _disk(of: str, path: Path) -> DiskStatus | None:
    room = room_at(path)
    return None if room is None else DiskStatus(room.free_bytes, room.total_bytes, room.files_free, of)


def _merged(state: ManifestState, note: MergeNote, published_at: float, now: float) -> MergedStatus | None:
    if state.header is None:
        return None
    last, end = state.last, state.open_file
    watermark = None if last is None else last.watermark
    next_file = file_name(basename_of(state), state.next_number)
    here = FilePosition(next_file, 4) if end is None else FilePosition(end.name, end.size)
    last_key = None if last is None else last.last_key
    return MergedStatus(
        run=state.run,
        files=len(state.files),
        output_bytes=sum(file.size for file in state.files),
        end=here,
        transactions=state.rank,
        totals={} if last is None else dict(last.totals),
        last_key=last_key,
        last_time=time_of_key(last_key),
        watermark=None if watermark is None else Watermark.of(watermark, now),
        end_of_input=last is not None and last.end_of_input,
        published_at=published_at,
        ran_at=max(published_at, note.at or 0.0),
        began_at=published_at if note.began is None else note.began,
        held=note.held,
        held_bytes=note.held_bytes,
        waiting=note.waiting,
        locks=note.locks,
        waiting_ddl=note.waiting_ddl,
        puts_an_hour=note.puts_an_hour,
        first_file=state.files[0].name if state.files else None,
        **_removed(state.gone),
    )


def _removed(gone: Gone | None) -> dict[str, Any]:
    if gone is None:
        return {}
    return {
        "removed_files": gone.files,
        "removed_bytes": gone.bytes,
        "removed_captured_files": gone.captured_files,
        "removed_captured_bytes": gone.captured_bytes,
        "removed_at": gone.at,
    }


def _placed(ddl: LastDdl | None, state: ManifestState) -> LastDdl | None:
    if ddl is None:
        return None
    names = (file.name for file in state.files if file.first_key <= ddl.key <= file.last_key)
    return replace(ddl, file=next(names, None))
