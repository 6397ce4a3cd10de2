"""The servers of a node: connects to the one that is captured, and lets another take over.

What takes over is recorded in the index beside the files (`files.servers`) before its first file is begun, so that a
capture that is killed anywhere goes on with the server that it had chosen.

A node is captured from the server that it was, as long as it may be; else from another that has all of its log. One
server is never captured as two nodes. A server takes over if it may be written to, has gtid_mode=ON, and has executed
everything that was captured. A server that was left is not taken back by itself when it returns: the one that took over
may be written to.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import IoError, ManifestError, MergeError, Purged, ServerRefused, WrongNode
from binlog_merge.files.as_of import remove_as_of
from binlog_merge.files.captured import Begun
from binlog_merge.files.disk import sync_directory
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.needed import Needed, file_number
from binlog_merge.files.servers import FollowingServer, LogEnd, add_server, folder_name, read_servers, write_servers
from binlog_merge.node_capture.begin import shown
from binlog_merge.node_capture.captured_gtids import held
from binlog_merge.node_capture.files import NodeFiles, recorded, recorded_server, remove_record
from binlog_merge.node_capture.source import SILENCE_SECONDS, Lost, Source, SourceFacts
from binlog_merge.node_capture.switch_request import SwitchRequest, answer, pending_request
from snapshot_store.server import ServerAddress

_MOST_TEXT: Final = 2000
_WAITS: Final = "it may take over if the server that was captured does not come back soon"


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a server: facts, or the text of why there are none."""

    address: ServerAddress
    facts: SourceFacts | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The server to capture, None if there is none now; `reasons` say what is wrong with each of the others."""

    look: Look | None
    reasons: tuple[str, ...] = ()


def choose(
    looks: Sequence[Look], server_uuid: str | None, captured: Callable[[], GtidSet], lost: bool = True
) -> Choice:
    """Return which server is captured; `server_uuid` is the one that was until now, None if none was.

    `captured` returns the GTIDs that a server needs; it is asked only if another server may take over. Unless the one
    captured until now is `lost` for long enough, another takes over only if it answers, and is read-only.
    """
    known = next((look for look in looks if look.facts is not None and look.facts.server_uuid == server_uuid), None)
    if known is not None and known.facts is not None and not known.facts.read_only:
        return Choice(known)
    may = known is not None or server_uuid is None or lost
    reasons = []
    for look in looks:
        if look.facts is None:
            reasons.append(f"{look.address}: {look.text}")
        elif look.facts.server_uuid != server_uuid:
            reason = unsuitable(look.facts, captured) if may else _WAITS
            if reason is None:
                return Choice(look)
            reasons.append(f"{look.address}: {reason}")
    return Choice(known, tuple(reasons))


def unsuitable(facts: SourceFacts, captured: Callable[[], GtidSet], may_be_read_only: bool = False) -> str | None:
    """Return why a server cannot take over, None if it can."""
    if facts.read_only and not may_be_read_only:
        return "it is read-only"
    if facts.gtid_mode != "ON":
        return f"its gtid_mode is {facts.gtid_mode}; a node fails over by GTIDs: set it to ON on all its servers"
    lacking = captured().minus(facts.gtid_executed)
    if lacking:
        return (
            f"it lacks what was captured, {shown_gtids(lacking)}: bring that to it, from the server that was left or "
            "with `mysqlbinlog --include-gtids=… CAPTURED_FILE | mysql`; or capture into a new directory, and begin a "
            "new output with it"
        )
    return None


def shown_gtids(gtids: GtidSet) -> str:
    """Return a GTID set as text for people, cut where it would be endless."""
    text = str(gtids)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… ({gtids.count} in all)"


def first_file(files: Sequence[str], previous_of: Callable[[str], GtidSet], captured: GtidSet) -> str:
    """Return the file from which on a server's log has all that was not captured. Raises Purged if it was purged.

    It is the one before the last whose PREVIOUS_GTIDS were captured: a file may hold a transaction that was committing
    while the next one was begun, so that the next one's PREVIOUS_GTIDS lack it (seen on 9.7).
    """
    lacking = GtidSet()
    for index in reversed(range(len(files))):
        lacking = previous_of(files[index]).minus(captured)
        if not lacking:
            return files[max(0, index - 1)]
    raise Purged(
        f"the server has purged what was not captured, {shown_gtids(lacking)}: its first file is {files[0]}",
        file=files[0],
        remedy="capture into a new directory, and begin a new output with it; let the node's servers keep their "
        "binlogs longer (binlog_expire_logs_seconds)",
    )


def _known(gtids: GtidSet | None, node: str, place: str) -> GtidSet:
    """Return the GTIDs of a node's log up to the place where its capture began. Raises ServerRefused if not known."""
    if gtids is None:
        raise ServerRefused(
            f"which transactions the node had before {place}, where the capture begins, is not known: its server had "
            "no GTIDs, or too many intervals of them",
            node=node,
            remedy="let the server that was captured go on; or capture into a new directory with `--whole`, and begin "
            "a new output with it",
        )
    return gtids


_ONE: Final = "a node that fails over is followed by GTIDs: set gtid_mode=ON on all its servers, or write one `server`"

_REFUSED: Final = (
    "nothing was switched: promote it first, where it is read-only, or write a single `server` in the configuration"
)


class NodeServers:
    """The servers of one node, for the thread that captures; `another` may be called from a thread beside it.

    `addresses` are those of the configuration; with `fails_over` one may take over from another by itself. `by_hand` is
    the server to switch to. `lost_after` is how many seconds a server is waited for before it counts as lost. A switch
    that is asked for (`node_capture.switch_request`) is to the server that `parsed` makes of its URL. `needed` is where
    a node without captured files begins.
    """

    def __init__(
        self,
        node: str,
        addresses: Sequence[ServerAddress],
        directory: Path,
        ssl_ca: str | None,
        fails_over: bool = False,
        by_hand: ServerAddress | None = None,
        lost_after: float = 10.0,
        report: Callable[[str], None] = lambda text: None,
        parsed: Callable[[str], ServerAddress] = ServerAddress.parse,
        needed: Needed | None = None,
    ) -> None:
        self.directory = directory
        self.fails_over = fails_over
        self.needed = needed
        self.following = read_servers(directory)
        self.lost_after = lost_after
        self._node, self._ssl_ca, self._by_hand, self._report = node, ssl_ca, by_hand, report
        self._parsed = parsed
        known = {str(address): address for address in addresses}
        self._addresses = tuple(addresses)
        last = self.following[-1].server if self.following else ""
        self.address = by_hand or known.get(last, self._addresses[0])

    @property
    def folder(self) -> Path:
        """Return the folder of the files that are captured now."""
        return self.directory / self.following[-1].folder if self.following else self.directory

    @property
    def prefix(self) -> str:
        """Return what the names of the files that are captured now begin with."""
        return f"{self.following[-1].folder}/" if self.following else ""

    @property
    def server_uuid(self) -> str | None:
        """Return the server that is captured; None for a node without captured files of which nothing is known."""
        if self.following:
            return self.following[-1].server_uuid
        known = recorded_server(self.directory)
        return self.needed.before.server_uuid if known is None and self.needed is not None else known

    @property
    def begins_in(self) -> str | None:
        """Return the file with which the files that are captured now begin; None: the first one's."""
        return self.following[-1].begins_in if self.following else None

    @property
    def choosing(self) -> bool:
        """Return whether there is another server that may take over by itself."""
        return self.fails_over and len(self._addresses) > 1

    def connect(self, lost: bool) -> tuple[Source, SourceFacts]:
        """Connect to the server that is captured, and let another take over if it must, and can.

        `lost`: the server that was captured cannot be reached for long enough. Raises Lost if a retry may succeed, else
        a MergeError.
        """
        if self._by_hand is not None:
            return self._switch(self._by_hand)
        if (request := pending_request(self.directory)) and (switched := self._switched(request)) is not None:
            return switched
        if not self.fails_over:
            source = self._source(self.address)
            facts = source.open()
            if facts.server_uuid == self.server_uuid:
                self._take_over(source, self.address, facts)
            return source, facts
        sources: dict[ServerAddress, Source] = {}
        looks: list[Look] = []
        try:
            for address in (self.address, *(a for a in self._addresses if a != self.address)):
                looks.append(self._look(address, sources))
                if self._is_the_one(looks[-1]):
                    break
            found = choose(looks, self.server_uuid, lambda: self.captured()[0], lost)
            if found.look is None:
                raise Lost("; ".join(found.reasons).removeprefix(f"{self.address}: "))
            return self._chosen(found.look, sources)
        finally:
            for source in sources.values():
                source.close()

    def another(self) -> bool:
        """Return whether the server that is captured is read-only, and another can take over."""
        sources: dict[ServerAddress, Source] = {}
        try:
            looks = [self._look(address, sources) for address in self._addresses]
            found = choose(looks, self.server_uuid, lambda: self.captured()[0], lost=False).look
            return found is not None and found.facts is not None and found.facts.server_uuid != self.server_uuid
        finally:
            for source in sources.values():
                source.close()

    @property
    def begins_at(self) -> Needed | None:
        """Return what is needed of a node that is to begin in the middle of the log of the server that it has now."""
        needed = self.needed
        if needed is None or needed.oldest.folder != self.prefix.rstrip("/") or self._in_another_log(needed):
            return None
        return needed

    @staticmethod
    def _in_another_log(needed: Needed) -> bool:
        """Return whether some of what is needed is in the log of the server before the one that is needed next."""
        return needed.oldest.folder != needed.resume.folder

    def captured(self) -> tuple[GtidSet, LogEnd | None]:
        """Return the GTIDs that are captured or were executed before, and where the files captured now end.

        While a capture that begins where a merged log goes on has not fetched again what that was made of, this is what
        the merged log has.
        """
        record = recorded(self.folder)
        begun, hole = (None, None) if record is None else (record.begun, record.hole)
        gtids, end = held(NodeFiles(self.folder, self._node).paths(), self._node, hole)
        if self.needed is not None and not _caught_up(end, begun):
            needed, place = self.needed, shown(self.needed.resume)
            seen = _known(needed.seen, self._node, place)
            return seen.union(_known(needed.before.executed, self._node, place)), needed.resume
        if begun is not None:
            before = None if begun.executed is None else GtidSet.parse_text(begun.executed)
            gtids = gtids.union(_known(before, self._node, f"{begun.resumed_in}:{begun.resumed}"))
        if self.following:
            gtids = gtids.union(self.following[-1].gtids)
        return gtids, None if end is None else LogEnd(self.prefix.rstrip("/"), *end)

    def _source(self, address: ServerAddress) -> Source:
        silence = max(1.0, min(SILENCE_SECONDS, self.lost_after)) if self.fails_over else SILENCE_SECONDS
        return Source(self._node, address, self._ssl_ca, silence)

    def _look(self, address: ServerAddress, sources: dict[ServerAddress, Source]) -> Look:
        source = sources[address] = self._source(address)
        try:
            return Look(address, source.open())
        except Lost as lost:
            return Look(address, None, str(lost))
        except ServerRefused as refused:
            return Look(address, None, refused.message.removeprefix(f"{address}: "))

    def _is_the_one(self, look: Look) -> bool:
        """Return whether there is no need to look further: it is the server that is captured, and may be written to."""
        return look.facts is not None and look.facts.server_uuid == self.server_uuid and not look.facts.read_only

    def _chosen(self, look: Look, sources: dict[ServerAddress, Source]) -> tuple[Source, SourceFacts]:
        assert look.facts is not None
        if look.facts.gtid_mode != "ON":
            raise ServerRefused(f"{look.address}: its gtid_mode is {look.facts.gtid_mode or 'not known'}", remedy=_ONE)
        source = sources.pop(look.address)
        try:
            self._take_over(source, look.address, look.facts)
        except BaseException:
            source.close()
            raise
        return source, look.facts

    def _switch(self, address: ServerAddress) -> tuple[Source, SourceFacts]:
        """Connect to the server that was chosen by hand; it takes over if it is another than before."""
        source = self._source(address)
        try:
            facts = source.open()
            if facts.server_uuid != self.server_uuid:
                # Of several servers, one that may be written to would take over again at once.
                reason = unsuitable(facts, lambda: self.captured()[0], may_be_read_only=not self.fails_over)
                if reason is not None:
                    raise ServerRefused(f"{address} cannot take over: {reason}", remedy=_REFUSED)
                if facts.read_only:
                    self._report(f"{address} is read-only")
                if address not in self._addresses:
                    self._report(f"write {address} into the node's `server` of the configuration, for the next time")
            self._take_over(source, address, facts)
        except BaseException:
            source.close()
            raise
        return source, facts

    def _switched(self, request: SwitchRequest) -> tuple[Source, SourceFacts] | None:
        """Switch as is requested, and answer; None if that cannot be, and the server that was captured has the node.

        Raises IoError and ManifestError, unanswered.
        """
        try:
            source, facts = self._switch(self._parsed(request.server))
        except (IoError, ManifestError):
            raise  # what failed may be the writing of it: whoever begins anew reads which server has the node
        except (Lost, MergeError, ValueError) as error:
            text = error.message if isinstance(error, MergeError) else str(error)
            self._report(f"a switch was asked for, and is refused: {text}")
            answer(self.directory, request, {"refused": text})
            return None
        values = {"server": str(self.address), "server_uuid": facts.server_uuid, "folder": self.prefix.rstrip("/")}
        answer(self.directory, request, values | {"begins_in": self.begins_in})
        return source, facts

    def _take_over(self, source: Source, address: ServerAddress, facts: SourceFacts) -> None:
        """Make a server the one that is captured; nothing changes if it is."""
        before = self.server_uuid
        if self._begins_by_gtid(facts):
            assert self.needed is not None
            self._begin_by_gtid(self.needed, source, address, facts)
        elif facts.server_uuid != before:
            captured, end = self.captured()
            if end is None and not self.following:
                remove_record(self.directory)  # nothing was captured of the server that was chosen first
            else:
                begins = first_file(facts.files, source.previous_gtids, captured)
                folder = folder_name(len(self.following) + 2, facts.server_uuid)
                (self.directory / folder).mkdir(exist_ok=True)
                sync_directory(self.directory)
                remove_as_of(self.folder)
                failpoint("capture-before-taking-over")
                server = FollowingServer(
                    folder, facts.server_uuid, str(address), time.time(), end, str(captured), begins
                )
                add_server(self.directory, server)
                self.following = read_servers(self.directory)
                failpoint("capture-taken-over")
                ended = "nothing" if end is None else f"{end.file}:{end.position}"
                ahead = facts.gtid_executed.minus(captured)
                self._report(
                    f"{address} takes over from {self.address} ({before}) after {ended}: from its {begins} on, into "
                    f"{folder}; it has executed, and nothing has captured yet: {shown_gtids(ahead) or 'nothing'}"
                )
        self.address = address
        self._by_hand = None

    def _begins_by_gtid(self, facts: SourceFacts) -> bool:
        """Return whether a node that begins in the middle has another server than the one whose log is needed."""
        needed = self.needed
        if needed is None:
            return False
        record = recorded(self.folder)
        _, end = held(NodeFiles(self.folder, self._node).paths(), self._node, None if record is None else record.hole)
        if _caught_up(end, None if record is None else record.begun):
            return False
        begun = record is not None and record.begun is not None and record.server_uuid == facts.server_uuid
        return not begun and (facts.server_uuid != needed.before.server_uuid or self.begins_at is None)

    def _begin_by_gtid(self, needed: Needed, source: Source, address: ServerAddress, facts: SourceFacts) -> None:
        """Make a server the one that is captured, in whose log all is that is needed, at other places.

        It has to be read again up to where it ends now: somewhere before that is the last that was merged.
        """
        place = shown(needed.resume)
        executed = _known(needed.before.executed, self._node, place)
        lacking = _known(needed.seen, self._node, place).minus(facts.gtid_executed)
        if lacking:
            raise ServerRefused(
                f"{address} cannot have the node: it lacks what was merged, {shown_gtids(lacking)}",
                node=self._node,
                remedy="bring that to it, from the server that was left; or begin a new output",
            )
        captured = executed.minus(needed.before.open)
        try:
            begins = first_file(facts.files, source.previous_gtids, captured)
        except Purged as purged:
            purged.remedy = (
                f"{needed.merged} needs what follows {place} in the log of {needed.before.server_uuid}: copy the "
                f"captured files from a host that has them into {self.directory}, or those of this server from a "
                "backup of its binlogs; let the node's servers keep their binlogs longer (binlog_expire_logs_seconds)"
            )
            raise purged.located(node=self._node) from None
        names = [server.folder for server in needed.before.following]
        kept = needed.before.following[: names.index(needed.resume.folder) + 1 if needed.resume.folder else 0]
        folder = folder_name(len(kept) + 2, facts.server_uuid)
        (self.directory / folder).mkdir(exist_ok=True)
        sync_directory(self.directory)
        files, standing = NodeFiles(self.directory / folder, self._node), facts.standing
        files.record(facts.server_uuid)
        files.begin_with(
            Begun(
                needed.merged,
                needed.resume.file,
                needed.resume.position,
                standing.file,
                standing.position,
                str(executed),
            )
        )
        failpoint("capture-before-taking-over")
        server = FollowingServer(
            folder, facts.server_uuid, str(address), time.time(), needed.resume, str(captured), begins
        )
        write_servers(self.directory, (*kept, server))
        self.following = read_servers(self.directory)
        failpoint("capture-taken-over")
        self._report(
            f"nothing is captured here: {address} has the node now, and {needed.merged} needs what follows {place} in "
            f"the log of another server ({needed.before.server_uuid}): from its {begins} on, into {folder}"
        )


def _caught_up(end: tuple[str, int] | None, begun: Begun | None) -> bool:
    """Return whether what is captured of a server, up to `end`, has all that was merged when its capture began."""
    if end is None or begun is None:
        return end is not None
    return (file_number(end[0]), end[1]) >= (file_number(begun.read_in), begun.read)


class Claims:
    """The servers that a capture's nodes have, by what no other server has; for the threads of all nodes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[str, str]] = {}

    def claim(self, node: str, identity: str, address: str) -> None:
        """Note the server of a node in place of the one that it had. Raises WrongNode if another node has it."""
        with self._lock:
            for other, (held, its_address) in self._held.items():
                if other != node and held == identity:
                    raise WrongNode(
                        f"{address} is the server that node {other} has as {its_address} ({identity})",
                        node=node,
                        remedy="correct the `server` of one of the two nodes, or remove the node",
                    )
            self._held[node] = identity, address
