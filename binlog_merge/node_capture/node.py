"""The capture of a node: reconnects and resumes where its files end, until it is complete or stopped.

A node with several servers fails over: see `servers`.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from binlog_merge.config.nodes import Node, read_server_note, write_server_note
from binlog_merge.config.sections import Heartbeat
from binlog_merge.errors import InternalError, IoError, MergeError, Purged, ServerRefused, UnsupportedInput, WrongNode
from binlog_merge.files.as_of import remove_as_of
from binlog_merge.files.disk import for_want_of_room, has_room
from binlog_merge.files.needed import Needed
from binlog_merge.files.state_notes import CONNECTED, FULL
from binlog_merge.node_capture.begin import BEGINNING, NEAR, begun, shown
from binlog_merge.node_capture.beside import Activity, Repeated, beat, connecting, rows_of
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.node_capture.kept import Keeper
from binlog_merge.node_capture.note import (
    CONNECTING,
    LOST,
    WITHOUT_NOTE,
    CaptureNote,
    Connection,
    Noting,
)
from binlog_merge.node_capture.server_end import standing_of
from binlog_merge.node_capture.server_kind import ServerKind
from binlog_merge.node_capture.servers import Claims, NodeServers
from binlog_merge.node_capture.source import (
    HEARTBEAT_SECONDS,
    NOTING_SECONDS,
    DumpRefused,
    Lost,
    Source,
    SourceFacts,
)
from binlog_merge.node_capture.stream import (
    POSITION_LIMIT,
    Begin,
    CapturedEnd,
    Stream,
    file_number,
    other_file,
    successor,
)
from binlog_merge.node_capture.switch_request import pending_request
from binlog_merge.node_capture.translated import AsItIs, Translated, Translating
from binlog_merge.redaction import Routine
from snapshot_store.server import ServerAddress

_LOG = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
_LONGEST_PAUSE_OF_SEVERAL: Final = 1.0
_ROLE_SECONDS: Final = 2.0
_ROOM_SECONDS: Final = 1.0
_KEEPING_SECONDS: Final = 15.0
"""How long a capture that is stopped waits for closed files to be kept: the next one keeps the rest."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """Options of a capture. `follow`: wait for new events at the end; `retry_seconds`: how long to try to reconnect.

    `together`: when the capture of a node fails, the others end. `lost_after`: how many seconds a server cannot be
    reached before another of the node's servers may take over.
    """

    follow: bool = False
    retry_seconds: float = 60.0
    ssl_ca: str | None = None
    together: bool = False
    lost_after: float = 10.0


@dataclass(frozen=True, slots=True)
class NodeTask:
    """What is captured of a node: from which servers, into which directory, and where it begins.

    `addresses` are those of the node's servers; `by_hand` is the one to switch to. `parsed` makes an address of a URL
    that is asked for. `start_file` is the first file of a node without captured files; None: the first file that its
    server has. `needed` is where a node without captured files begins instead, and one whose files end before that.
    """

    node: Node
    addresses: Sequence[ServerAddress]
    directory: Path
    start_file: str | None = None
    needed: Needed | None = None
    by_hand: ServerAddress | None = None
    parsed: Callable[[str], ServerAddress] = ServerAddress.parse


@dataclass(frozen=True, slots=True)
class Beside:
    """What a capture does beside fetching files: how often it asks the server's clock (0: never), and heartbeats.

    Without an `activity` the clock is asked as often while nobody writes. `claims` has the servers of the nodes that
    are captured together. `keeper` makes of the capture what keeps its closed files elsewhere, too. `translating` makes
    what translates the files of servers whose files are not merged as they are; without it, such a server is refused.
    """

    clock_seconds: float = 0.5
    heartbeat: Heartbeat | None = None
    activity: Activity | None = None
    claims: Claims = field(default_factory=Claims)
    keeper: Callable[["NodeCapture"], Keeper] | None = None
    translating: Translating | None = None


class NodeCapture:
    """The capture of a node, for a thread of its own; only `stop` and `look` may be called from another thread.

    `report` gets a line for every connection made and lost, and for every switch.
    """

    def __init__(
        self,
        task: NodeTask,
        options: CaptureOptions,
        beside: Beside,
        report: Callable[[str, str], None] = lambda node, text: None,
    ) -> None:
        node = self.node = task.node
        say = lambda text: report(node.source_id, text)  # noqa: E731
        self.servers = NodeServers(
            node.source_id,
            task.addresses,
            task.directory,
            options.ssl_ca,
            node.fails_over,
            task.by_hand,
            options.lost_after,
            say,
            task.parsed,
            task.needed,
        )
        self.error: MergeError | None = None
        self.complete = self.told = False
        self.files = NodeFiles(self.servers.folder, node.source_id)
        self.connection = Connection.now(CONNECTING)
        self.note = CaptureNote(task.directory, str(self.servers.address))
        self._options = options
        self._start_file = task.start_file
        self._report = report
        self._beside = beside
        self._keeper = None if beside.keeper is None else beside.keeper(self)
        self._translated = AsItIs()
        self._noting: Noting | None = None
        self._source: Source | None = None
        self._threads: list[Repeated] = []
        self._target: tuple[int, int] | None = None
        self._connected = self._lost_since = 0.0
        self._stopped = threading.Event()

    def run(self) -> None:
        """Capture until all the server has is captured, or `stop`. Sets `error` if it ends before that."""
        self._threads = self._repeated() if self._options.follow else []
        try:
            for thread in self._threads:
                thread.start()
            if self._keeper is not None:
                self._keeper.start()
            self._run()
        except MergeError as error:
            self.error = error.located(node=self.node.source_id)
        except Exception as error:  # a thread's exception would be printed and forgotten
            self.error = InternalError(f"{type(error).__name__}: {error}", node=self.node.source_id)
            self.error.__cause__ = error
        finally:
            for thread in self._threads:
                thread.stop()
            if self._keeper is not None:
                self._keeper.stop(_KEEPING_SECONDS if self._options.follow else None)
        code = None if self.error is None else self.error.code
        _LOG.info("capture ends", extra={**self._where(), "events": self.files.events, "error": code})

    def tell(self) -> None:
        """Report the error that has ended the capture, once."""
        if self.error is not None and not self.told:
            self.told = True
            self._report(self.node.source_id, f"stopped: {self.error.message}")

    def stop(self) -> None:
        """Make the capture end, after the last complete event."""
        self._stopped.set()
        self._break_off()

    def look(self) -> None:
        """Break off what is captured if a switch is asked for: what connects next takes it."""
        if pending_request(self.servers.directory) is not None:
            self._break_off()

    @property
    def address(self) -> ServerAddress:
        """Return the address of the server that is captured."""
        return self.servers.address

    def _break_off(self) -> None:
        source = self._source
        if source is not None:
            source.break_off()

    def _repeated(self) -> list[Repeated]:
        """Return what runs beside a capture that does not end."""
        node, connect = self.node.source_id, connecting(lambda: self.address, self._options.ssl_ca)

        activity, asked = self._beside.activity, 0.0

        def due() -> bool:
            wanted = activity is None or activity.wants(asked)
            return wanted and self._noting is not None and self._noting.wanting

        def ask(connection: Any) -> None:
            nonlocal asked
            asked = time.monotonic()
            if (noting := self._noting) is not None:
                noting.offer(standing_of(lambda sql: rows_of(connection, sql)))

        def unasked(text: str) -> None:
            self._report(node, f"its clock cannot be asked: {text}; {WITHOUT_NOTE}")

        def look(connection: Any) -> None:
            if rows_of(connection, "SELECT @@global.read_only")[0][0] and self.servers.another():
                self._break_off()  # what connects next lets the other one take over

        threads = []
        if self.servers.choosing:
            threads.append(
                Repeated(f"role {node}", _ROLE_SECONDS, connect, lambda: self._connected > 0, look, lambda text: None)
            )
        if seconds := self._beside.clock_seconds:
            threads.append(Repeated(f"clock {node}", seconds, connect, due, ask, unasked))
        if (heartbeat := self._beside.heartbeat) is not None:
            statements, period = heartbeat.statement, heartbeat.interval / 1e6
            work = lambda connection: beat(connection, connect, statements)  # noqa: E731
            failed = lambda text: self._report(node, f"the heartbeat failed: {text}; trying again")  # noqa: E731
            threads.append(Repeated(f"heartbeat {node}", period, connect, lambda: self._connected > 0, work, failed))
        return threads

    def _run(self) -> None:
        pause, told = _FIRST_PAUSE, ""
        while not self._stopped.is_set():
            before, self._connected = self.files.events, 0.0
            try:
                if self._attempt():
                    self.complete = True
                    return
            except Lost as lost:
                if self._stopped.is_set():
                    return
                lived = self._connected and time.monotonic() - self._connected > _LONGEST_PAUSE
                anew = self.files.events > before or lived or not self._lost_since
                if anew:
                    pause, self._lost_since = _FIRST_PAUSE, time.monotonic()
                if time.monotonic() - self._lost_since > self._options.retry_seconds:
                    first = f"{lost.remedy}; " if lost.remedy else ""
                    raise ServerRefused(
                        f"{self.address}: {lost}",
                        remedy=f"{first}run it again when the server is there; it goes on where it stopped",
                    ) from lost
                asked = pending_request(self.servers.directory) is not None
                if not asked and (anew or (self.servers.choosing and str(lost) != told)):
                    told = str(lost)
                    self._report(self.node.source_id, f"{self.address}: {lost}; trying again")
                self.connection = Connection.now(LOST, str(lost))
                _LOG.info("connection lost", extra={**self._where(), "error": str(lost), "retry_in": pause})
                self._stopped.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_OF_SEVERAL if self.servers.choosing else _LONGEST_PAUSE)
            except IoError as error:
                if not (self._options.follow and for_want_of_room(error)):
                    raise
                self._wait_for_room(error)

    def _wait_for_room(self, error: IoError) -> None:
        """Return when there is room on the disk again, or `stop` is called."""
        folder = self.files.directory
        self.connection = Connection.now(FULL, f"{error.file}: {error.message}")
        self._report(self.node.source_id, f"{error.file}: {error.message}; it goes on when there is room")
        _LOG.info("waits for room", extra={**self._where(), "error": error.message, "file": error.file})
        while not has_room(folder):
            if self._stopped.wait(_ROOM_SECONDS):
                return
        self._report(self.node.source_id, f"{folder}: there is room again; it goes on")

    def _where(self) -> dict[str, str]:
        return {"node": self.node.source_id, "server": str(self.address)}

    def _attempt(self) -> bool:
        """Connect and capture to the end; return False if the capture is to go on further on in its file.

        Raises Lost if a retry may succeed, else MergeError.
        """
        try:
            lost_after = min(self._options.lost_after, self._options.retry_seconds)
            lost = self._lost_since > 0 and time.monotonic() - self._lost_since >= lost_after
            self._source, facts = self.servers.connect(lost)
            self._check(facts)
            self._follow_the_server(facts)
            self._beside.claims.claim(self.node.source_id, facts.identity, str(self.address))
            self._note_case_of_names(facts.lower_case_table_names)
            record = self.files.record(facts.server_uuid, self.servers.server_uuid)
            place = self._onward(self.files.resume(), facts)
            if (needed := self._begins_at(place.name)) is not None and self._leaves_out(needed):
                place = self._onward(self.files.resume(), facts)
            self._target = self._target or (file_number(facts.standing.file), facts.standing.position)
            self._begin_noting(facts)
            self._report(self.node.source_id, Routine(f"{self.address}: from {place.name}:{place.dump_from}"))
            _LOG.info("connected", extra={**self._where(), "file": place.name, "position": place.dump_from})
            self._connected = time.monotonic()
            self.connection = Connection.now(CONNECTED)
            return self._pump(place, record.replica_uuid)
        finally:
            self._noting = None
            if self._source is not None:
                self._source.close()
            self.files.close()
            self._translated.advance()

    def _follow_the_server(self, facts: SourceFacts) -> None:
        """Go on with the files of the server that has the node now, and have what runs beside work there."""
        self.note.server = str(self.address)
        folder = facts.kind.folder(self.servers.folder)
        if self.files.directory != folder:
            self.files.close()
            self._translated = self._translation(facts.kind, folder)
            self.files = NodeFiles(folder, self.node.source_id, self.files, facts.kind)
            self._target = None
            for thread in self._threads:
                thread.connect_again()

    def _translation(self, kind: ServerKind, raw: Path) -> AsItIs:
        if not kind.is_translated:
            return AsItIs()
        if self._beside.translating is None or self._keeper is not None:
            what = (
                "be translated by whoever calls this"
                if self._beside.translating is None
                else "be archived by a capture"
            )
            raise UnsupportedInput(
                f"{self.address} is a {kind.name}, whose files cannot {what}",
                remedy="use `binlog-merge capture` or `run`"
                if self._beside.translating is None
                else "leave `capture: {archive: ...}` out",
            )
        say = lambda text: self._report(self.node.source_id, Routine(text))  # noqa: E731
        return Translated.of(raw, self.servers.folder, self._beside.translating, say)

    def _begin_noting(self, facts: SourceFacts) -> None:
        if not facts.kind.logs_times:
            return
        if not self._beside.clock_seconds:
            remove_as_of(self.files.directory)
            return
        self._noting = Noting(self.files, facts.server_uuid, lambda text: self._report(self.node.source_id, text))
        self._noting.offer(facts.standing)

    def _pump(self, place: CapturedEnd, replica_uuid: str) -> bool:
        """Request a dump and carry out the actions of its events; see `_attempt`."""
        stream, translated = Stream(self.node.source_id, place, self.files.kind), self._translated
        files, noting, follow, target = self.files, self._noting, self._options.follow, self._target
        assert target is not None and self._source is not None
        activity, needed = self._beside.activity, self._begins_at(place.name)
        if needed is not None and place.end >= needed.oldest.position:
            needed = None
        try:
            heartbeat = HEARTBEAT_SECONDS if noting is None else NOTING_SECONDS
            for event in self._source.dump(place, replica_uuid, follow, heartbeat, files.flush):
                actions = stream.feed(event)
                for action in actions:
                    files.apply(action)
                    if isinstance(action, Begin) and self._keeper is not None:
                        self._keeper.closed()
                if actions and activity is not None:
                    activity.wrote()
                files.tick()
                if noting is not None:
                    noting.tick()
                translated.tick()
                if self._stopped.is_set():
                    raise Lost("stopped")
                if not follow and stream.reached(*target):
                    return True
                if needed is not None and self._leaves_out(needed):
                    return False
        except DumpRefused as refused:
            raise self._explained(str(refused), place, stream) from refused
        raise Lost("the server ended the dump")

    def _check(self, facts: SourceFacts) -> None:
        """Raise WrongNode if the server is not the one in the configuration, which is the first of several."""
        if self.servers.following:
            return
        expected: tuple[tuple[str, Any, Any], ...] = (
            ("server_uuid", self.node.server_uuid, facts.server_uuid),
            ("server_id", self.node.server_id, facts.server_id),
        )
        for name, wanted, found in expected:
            if wanted is not None and wanted != found:
                raise WrongNode(
                    f"the {name} of {self.address} is {found}, the configuration expects {wanted}",
                    remedy="correct the node's `server`, or what is expected of it",
                )

    def _note_case_of_names(self, found: int) -> None:
        """Write down how the server compares names. Raises WrongNode if that is not as said, or as it was."""
        said, noted = self.node.lower_case_table_names, read_server_note(self.servers.directory)
        expected = {"the configuration says": said, "the captured files are of": noted}
        if wrong := [f"{where} {value}" for where, value in expected.items() if value not in (None, found)]:
            raise WrongNode(
                f"lower_case_table_names of {self.address} is {found}, {wrong[0]}",
                remedy="correct the node's `server`, or `lower-case-table-names`; a server that takes over must have "
                "the same setting",
            )
        if noted is None:
            write_server_note(self.servers.directory, found)

    def _onward(self, place: CapturedEnd | None, facts: SourceFacts) -> CapturedEnd:
        """Return where to resume the dump. Raises Purged if the server has purged what comes next."""
        needed = self.servers.begins_at
        if place is None and needed is not None and not facts.kind.is_translated:
            return self._begun(needed, facts)
        if place is None:
            # What a merged log needs is told of the translation, which is made of whole files.
            first = None if needed is None else needed.oldest.file
            wanted = first or self.servers.begins_in or self._start_file or facts.files[0]
            if wanted not in facts.files:
                raise self._purged(wanted, facts, "choose another --start-file")
            return CapturedEnd(wanted)
        if place.name in facts.files:
            return place
        # If the file is captured completely, the server need not have it any more.
        if self.files.ended and facts.files[0] == successor(place.name):
            self.files.finish()
            return CapturedEnd(facts.files[0])
        raise self._purged(place.name, facts)

    def _begun(self, needed: Needed, facts: SourceFacts) -> CapturedEnd:
        """Return where a node without captured files begins, and note it. Raises Purged, and WrongNode."""
        name, place = needed.oldest.file, shown(needed.oldest)
        if name not in facts.files:
            newer = file_number(name) > file_number(facts.files[-1])
            raise self._purged(
                name,
                facts,
                f"the log at {needed.merged} needs it from {place} on. "
                + (
                    "The server began its binlogs anew, or was restored: begin a new output"
                    if newer
                    else f"The server has purged it: copy {name} and what follows up to {facts.files[0]} into "
                    f"{self.files.directory} from a backup of its binlogs, or from a host that has captured them. Let "
                    "the server keep its binlogs longer (binlog_expire_logs_seconds) than a host may be away, or keep "
                    "captured files in a store (`capture.archive`)"
                ),
            )
        end = facts.standing.file, facts.standing.position
        if (file_number(end[0]), end[1]) < (file_number(needed.read.file), needed.read.position):
            raise WrongNode(
                f"the server's log ends at {end[0]}:{end[1]}, and {needed.merged} was made of it up to "
                f"{shown(needed.read)}",
                node=self.node.source_id,
                file=end[0],
                position=end[1],
                remedy="the server lost transactions in a crash after they were merged, or began its binlogs anew: "
                "begin a new output from a backup",
            )
        self.files.begin_with(begun(needed))
        self._report(
            self.node.source_id,
            f"nothing is captured here: it begins at {place}, as {needed.merged} has all that is before that",
        )
        return CapturedEnd(name)

    def _begins_at(self, name: str) -> Needed | None:
        """Return what is needed of a node, if that is in a file, and before a place that a dump can be asked for."""
        needed = self.servers.begins_at
        if needed is None or needed.oldest.file != name or self.files.kind.is_translated:
            return None
        return needed if needed.oldest.position < POSITION_LIMIT else None

    def _leaves_out(self, needed: Needed) -> bool:
        """Leave out the bytes before what is needed, if that is much, and the file's beginning is there.

        Raises WrongNode if it is another file than the one that is needed.
        """
        place = self.files.place
        if place is None or self._begins_at(place.name) is None or place.end < BEGINNING:
            return False
        if needed.oldest.position - place.end <= NEAR:
            return False
        if self.files.identity() != needed.identity:
            raise WrongNode(
                f"the server's {place.name} is not the file that was merged into {needed.merged}",
                node=self.node.source_id,
                file=place.name,
                remedy="the server began its binlogs anew (RESET BINARY LOGS), or another one answers: correct "
                "`server`, or begin a new output",
            )
        self.files.begin_with(begun(needed))
        self.files.skip(needed.oldest.position, needed.merged)
        return True

    def _purged(self, name: str, facts: SourceFacts, remedy: str = "") -> Purged:
        first, last = facts.files[0], facts.files[-1]
        if not remedy and file_number(name) > file_number(last):
            remedy = "the server began its binlogs anew, or was restored: capture into a new directory"
        return Purged(
            f"the server does not have {name}: its files are {first} to {last}",
            node=self.node.source_id,
            file=name,
            remedy=remedy
            or f"the server has purged it: copy {name} and what follows up to {first} into {self.files.directory} from "
            "a backup of its binlogs, or capture into a new directory and begin a new output with it; let the server "
            "keep its binlogs longer (binlog_expire_logs_seconds) than a capture may stand still",
        )

    def _explained(self, text: str, place: CapturedEnd, stream: Stream) -> Exception:
        """Return the error for a dump that the server refuses; only the error's text tells the causes apart."""
        at = stream.at if stream.known else place.dump_from
        name = stream.name or place.name
        if "first log file" in text:  # purged since it was listed
            return Lost(text)
        if "same server_uuid" in text:
            return ServerRefused(
                f"{self.address}: {text}",
                remedy="two captures ask as one replica: was the directory copied? Remove .capture.json from the copy",
            )
        if not stream.known and place.end:
            return other_file(f"it has no event at {at} ({text})", self.node.source_id, name, at)
        return ServerRefused(
            f"{self.address}: {text}",
            file=name,
            position=at,
            remedy="look at the server's own file with `mysqlbinlog --verify-binlog-checksum`",
        )


def captured(capture: NodeCapture) -> dict[str, Any]:
    """Return the result of a node's capture as plain values."""
    files, place = capture.files, capture.files.place
    return {
        "server": str(capture.address),
        "file": None if place is None else f"{capture.servers.prefix}{place.name}",
        "position": None if place is None else place.end,
        "new_files": files.files,
        "new_events": files.events,
        "new_bytes": files.bytes,
        "complete": capture.complete,
        "switches": [
            {"at": s.at, "server": s.server, "server_uuid": s.server_uuid, "folder": s.folder, "begins_in": s.begins_in}
            for s in capture.servers.following
        ],
        "error": None if capture.error is None else capture.error.to_dict(),
    }
