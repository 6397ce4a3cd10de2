"""Streams that a server offers beside its log: each is a log of its own, with clients of its own port or account."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.answers import World
from binlog_merge.binlog_server.definitions import DefinitionReader, Definitions
from binlog_merge.binlog_server.log import LogView, NotServed, PublishedLog
from binlog_merge.binlog_server.readers import Reader
from binlog_merge.binlog_server.show_events import event_rows
from binlog_merge.binlog_server.statements import ShowEvents
from binlog_merge.binlog_server.variables import Facts, Traits, traits_of
from binlog_merge.errors import MergeError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.protocol.packets import Value

if TYPE_CHECKING:
    from binlog_merge.binlog_server.tables.keeper import Tables


Rules = tuple[str, ...]
"""Patterns of tables, as they are written."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A stream. A client gets it at `port`, None for none, or as `user`, "" for none.

    `source` says how far in the log what makes the stream has read, for those who remove files of the log. `unmatched`
    returns which rules of the stream match none of some tables, (schema, table).
    """

    name: str
    log: PublishedLog
    port: int | None = None
    user: str = ""
    source: Callable[[], Reader | None] = lambda: None
    unmatched: Callable[[Iterable[tuple[str, str]]], Rules] = lambda tables: ()


class StreamLog(PublishedLog):
    """A stream's log, which is made from another one, `source`; `stopped` says what keeps it from that, or ""."""

    def __init__(self, place: LogFolder, source: PublishedLog, stopped: Callable[[], str] = str) -> None:
        super().__init__(place)
        self._source = source
        self._stopped = stopped

    def made(self) -> Callable[[], bool]:
        """Return a function that says whether all is there that the source has now. It raises NotServed.

        Raises MergeError if the source cannot be read.
        """
        self._source.refresh()  # what a merge has published that has just ended is there now, and not a moment later
        files = self._source.view().state.files
        wanted = (_number(files[-1].name), files[-1].size) if files else (0, 0)

        def made() -> bool:
            state = self.view().state
            read = 0 if state.last is None else int(state.last.state.get("read", 0))
            done = bool(not files or (state.files and (_number(state.files[-1].name), read) >= wanted))
            if not done and (why := self._stopped()):
                raise NotServed(f"the stream does not have all of the log, and stops: {why}")
            return done

        return made


def _number(name: str) -> int:
    return int(name.rpartition(".")[2])


class StreamWorld:
    """A stream, with what of a `World` of `answers` is its own."""

    def __init__(self, offered: Offered) -> None:
        self.name = offered.name
        self.user = offered.user
        self.log = offered.log
        self.port = offered.port or 0
        self._traits: tuple[str, Traits] | None = None
        self._definitions = DefinitionReader(offered.log.folder)

    def facts(self) -> Facts:
        """Return the current facts about the stream."""
        view = self.log.view()
        newest = view.there[-1].name if view.there else ""
        if self._traits is None or self._traits[0] != newest:
            self._traits = newest, traits_of(view)
        return Facts(view, self._traits[1], self.port, tls=True)

    def definitions(self, view: LogView) -> Definitions:
        """Return the tables as of the end of a view of the stream."""
        return self._definitions.at(view)

    def events(self, show: ShowEvents) -> Iterable[Sequence[Value]]:
        """Return the rows of SHOW BINLOG EVENTS."""
        return event_rows(self.log, show)


class Chosen:
    """What one client's session sees: the stream of its port, or of its user, else the whole log; a `World`.

    `user` returns the name by which the client has logged in.
    """

    def __init__(
        self, whole: World, log: PublishedLog, here: StreamWorld | None, users: Mapping[str, StreamWorld]
    ) -> None:
        self.user: Callable[[], str] = str
        self._whole = whole
        self._log = log
        self._here = here
        self._users = users

    def _stream(self) -> StreamWorld | None:
        return self._here or self._users.get(self.user())

    def log(self) -> PublishedLog:
        """Return the log that the client gets."""
        stream = self._stream()
        return self._log if stream is None else stream.log

    def refresh(self) -> None:
        """Know what anybody has been sent of the whole log; of a stream no rows are read. Raises MergeError."""
        if self._stream() is None:
            self._whole.refresh()

    def facts(self) -> Facts:
        """Return the current facts about what the client gets."""
        return (self._stream() or self._whole).facts()

    def definitions(self, view: LogView) -> Definitions:
        """Return the tables as of the end of a view."""
        return (self._stream() or self._whole).definitions(view)

    def tables(self) -> "Tables | None":
        """Return the tables beside the whole log: a stream has other positions, and other rows, so it has none."""
        return self._whole.tables() if self._stream() is None else None

    def events(self, show: ShowEvents) -> Iterable[Sequence[Value]]:
        """Return the rows of SHOW BINLOG EVENTS."""
        return (self._stream() or self._whole).events(show)

    def replicas(self) -> Iterable[Sequence[Value]]:
        """Return the rows of SHOW FULL REPLICAS, of the server as a whole."""
        return self._whole.replicas()

    def processes(self) -> Iterable[Sequence[Value]]:
        """Return the rows of SHOW PROCESSLIST, of the server as a whole."""
        return self._whole.processes()

    def counts(self) -> Mapping[str, int | str]:
        """Return what SHOW GLOBAL STATUS knows, of the server as a whole."""
        return self._whole.counts()

    def kill(self, connection_id: int) -> bool:
        """End a connection; return whether it existed."""
        return self._whole.kill(connection_id)


_EVERY: Final = 10.0


class Unmatched:
    """The rules without a table, by stream; for one thread. `tables` returns those of the log, as (schema, table)."""

    def __init__(
        self,
        streams: Sequence[Offered],
        tables: Callable[[], Iterable[tuple[str, str]]],
        report: Callable[[str], None],
    ) -> None:
        self._streams = streams
        self._tables = tables
        self._report = report
        self._looked: float | None = None
        self.found: dict[str, Rules] = {}

    def look(self) -> None:
        """Look at the log's tables, if it is time: at the first call, and then while rules are without any."""
        now, last = time.monotonic(), self._looked
        if last is not None and (not self.found or now - last < _EVERY):
            return
        try:
            tables = list(self._tables())
        except MergeError:  # what definitions are asked for says it
            return
        self._looked, before = now, self.found
        self.found = {stream.name: rules for stream in self._streams if (rules := stream.unmatched(tables))}
        for name, rules in self.found.items() if last is None else ():
            for rule in rules:
                self._report(f"stream {name}: no table of the log matches {rule}; one that comes later is taken")
        for name, rules in before.items():
            for rule in rules:
                if rule not in self.found.get(name, ()):
                    self._report(f"stream {name}: {rule} matches a table now")
