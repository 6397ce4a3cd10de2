"""Live capture: fetches the nodes' binlog files from their servers, byte for byte.

    captured/dn-1/binlog.000001 …      a directory for each node, with the server's own file names

Nodes are captured in parallel, a thread each. If a node fails, the others continue, unless asked to end `together`.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.errors import ConfigError, ObjectStoreUnreachable
from binlog_merge.files.disk import sync_directory
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.needed import Needed, needed_by
from binlog_merge.files.state_notes import CONNECTED
from binlog_merge.heartbeat import HEARTBEAT
from binlog_merge.node_capture.begin import prepared
from binlog_merge.node_capture.beside import Activity
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.node_capture.kept import Keeper, KeptFiles
from binlog_merge.node_capture.node import Beside, CaptureOptions, NodeCapture, NodeTask, captured
from binlog_merge.node_capture.translated import Translating
from binlog_merge.redaction import Routine
from snapshot_store.server import ServerAddress

_LOOK_SECONDS: Final = 0.2
_AWAKE_SECONDS: Final = 10.0
"""How long after the last write clocks are asked as often as ever, beyond how far they may step back."""


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """The result of a capture by node; see `node.captured`."""

    nodes: Mapping[str, Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"nodes": {node: dict(values) for node, values in self.nodes.items()}}


def capture(
    config: MergeConfig,
    out: Path,
    options: CaptureOptions,
    nodes: Sequence[str] = (),
    password: str | None = None,
    start_files: Mapping[str, str] | None = None,
    report: Callable[[str, str], None] = lambda node, text: None,
    stop: threading.Event | None = None,
    switch: Mapping[str, str] = MappingProxyType({}),
    merged: str | None = None,
    translating: Translating | None = None,
) -> CaptureResult:
    """Fetch what the servers of `nodes` have and the captured files lack; no `nodes`: all that have a `server`.

    `password` is for all servers; None: that of their URLs, or MYSQL_PWD. `start_files` maps a source-id ("": any
    other) to the first file of a node without captured files. `switch` maps a source-id to the URL of the server that
    is to take over. `merged` is a merged log, a folder or URI: a node without captured files begins where its next run
    goes on, unless `start_files` has it. `translating` makes what translates the files of a MariaDB. With
    `options.follow` the capture ends when `stop` is set. After all nodes have ended, raises the error of one that
    failed, with the CaptureResult as its `result`; what else failed is reported. An exception from outside (Ctrl-C)
    has the result, too.
    """
    chosen = _chosen(config, nodes)
    starts = start_files or {}
    alone = len(chosen) < len(config.nodes)  # others may write, and wait for these nodes' clocks
    activity = None if alone else Activity(_AWAKE_SECONDS + config.commit_tso.max_step_back / 1e6)
    beside = Beside(config.capture.clock / 1e6, config.heartbeat, activity, translating=translating)
    for option, given in (("--start-file", set(starts) - {""}), ("--switch", set(switch))):
        if strangers := sorted(given - {node.source_id for node in chosen}):
            names = ", ".join(node.source_id for node in chosen)
            raise ConfigError(f"{option}: {', '.join(strangers)} is not captured", remedy=f"captured are {names}")
    needs = {} if merged is None else _needs(merged, [out / node.source_id for node in chosen], report)
    with ExitStack() as locks:
        captures = []
        for node in chosen:
            directory = out / node.source_id
            locks.enter_context(OutputLock(directory, "capture"))
            addresses = [ServerAddress.parse(url, password) for url in node.servers]
            start = starts.get(node.source_id, starts.get(""))
            needed = needs.get(node.source_id) if start is None else None
            if needed is not None:
                needed = prepared(directory, needed, partial(report, node.source_id))
            keeper = None
            if config.capture.archive is not None:
                kept = KeptFiles(config.capture.archive, node.source_id)
                if needed is not None:
                    _take(kept, directory, needed, report)
                else:
                    with suppress(ObjectStoreUnreachable):  # files are kept when it is back
                        kept.check()
                keeper = partial(_keeper, kept, partial(report, node.source_id), config.retention.captured, merged)
            target = switch.get(node.source_id)
            by_hand = None if target is None else ServerAddress.parse(target, password)
            parsed = partial(ServerAddress.parse, password=password)
            task = NodeTask(node, addresses, directory, start, needed, by_hand, parsed)
            captures.append(NodeCapture(task, options, replace(beside, keeper=keeper), report))
        sync_directory(out)
        try:
            _run(captures, stop or threading.Event(), options)
        except BaseException as error:  # Ctrl-C, SIGTERM: what was captured until then is reported all the same
            for one in captures:
                one.tell()
            error.result = _result(captures)  # type: ignore[attr-defined]
            raise
    result = _result(captures)
    failed = sorted((one for one in captures if one.error is not None), key=lambda one: one.told)
    for one in failed[1:]:
        one.tell()
    for one in failed[:1]:
        assert one.error is not None
        one.error.result = result
        raise one.error
    return result


def _needs(merged: str, folders: Sequence[Path], report: Callable[[str, str], None]) -> dict[str, Needed]:
    """Return what is needed of the nodes' logs by a merged log. Raises what `needed_by` does.

    While its store is away, nodes with captured files go on with them.
    """
    try:
        return needed_by(merged)
    except ObjectStoreUnreachable as error:
        if not all(folder.is_dir() and NodeFiles(folder, folder.name).paths() for folder in folders):
            raise
        for folder in folders:
            report(folder.name, f"the merged log cannot be read, and it goes on with what is captured: {error.message}")
        return {}


def _take(kept: KeptFiles, directory: Path, needed: Needed, report: Callable[[str, str], None]) -> None:
    """Fetch what is kept of a node that has no captured files, if the server whose log is needed has it still."""
    following = needed.before.following
    now = following[-1].folder if following else ""
    folder = directory / needed.oldest.folder
    if {needed.oldest.folder, needed.resume.folder} != {now} or NodeFiles(folder, needed.node).paths():
        return
    if count := kept.take(directory, needed):
        report(needed.node, f"nothing is captured here: {count} files are taken from the archive")


def _keeper(
    kept: KeptFiles,
    report: Callable[[str], None],
    captured: int | None,
    merged: str | None,
    capture: NodeCapture,
) -> Keeper:
    """Return what keeps a node's closed files; `captured` is after how many microseconds they may go."""

    def unneeded(kept: KeptFiles) -> None:
        needed = None if merged is None or captured is None else needed_by(merged).get(capture.node.source_id)
        if needed is not None and captured is not None and (gone := kept.remove(needed, time.time() - captured / 1e6)):
            report(Routine(f"removed from the archive: {', '.join(gone)}"))

    return Keeper(kept, lambda: (capture.files, capture.servers.prefix), report, unneeded)


def _result(captures: Sequence[NodeCapture]) -> CaptureResult:
    return CaptureResult({c.node.source_id: captured(c) for c in captures})


def _chosen(config: MergeConfig, names: Sequence[str]) -> list[Node]:
    known = {node.source_id: node for node in config.nodes}
    for name in names:
        if name not in known:
            raise ConfigError(f"--node: no node has the source-id {name}: there are {', '.join(known)}")
        if known[name].server is None:
            raise ConfigError(f"--node: {name} has no `server` in the configuration", node=name)
    chosen = [node for node in config.nodes if node.server is not None and (not names or node.source_id in names)]
    if not chosen:
        raise ConfigError(
            "no node has a server", remedy="give each node to capture its `server: mysql://user@host:port`"
        )
    for node in chosen:
        if "/" in node.source_id or node.source_id.startswith("."):
            raise ConfigError("a source-id that is to be a directory's name has no / and begins with no dot").located(
                node=node.source_id
            )
    return chosen


def _run(captures: Sequence[NodeCapture], stop: threading.Event, options: CaptureOptions) -> None:
    """Run the captures until all have ended, `stop`, or one has failed where they end together.

    A failure is told at once if others go on after it for who knows how long. An exception raised here stops them.
    """
    threads = [threading.Thread(target=c.run, name=f"capture {c.node.source_id}", daemon=True) for c in captures]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and not stop.wait(_LOOK_SECONDS):
            connected = any(one.connection.state == CONNECTED for one in captures)
            (HEARTBEAT.works if connected else HEARTBEAT.beat)()
            alive = [thread.is_alive() for thread in threads]
            for one, goes_on in zip(captures, alive, strict=True):
                if goes_on:
                    one.note.refresh(one.connection)
                    one.look()
                    continue
                one.note.end(one.complete, one.error)
                if any(alive) and options.follow and not options.together:
                    one.tell()
            if options.together and any(one.error is not None for one in captures):
                break
    finally:
        for one in captures:
            one.stop()
        for one, thread in zip(captures, threads, strict=True):
            thread.join()
            one.note.end(one.complete, one.error)
