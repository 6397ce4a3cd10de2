"""A statement of a log, read once: its text, its session, what it is, what it does, and the tables that it names.

Whoever reads a log gets this value, and parses nothing: what a statement is depends on its session. `"orders"` is a
table under ANSI_QUOTES, and a string without it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from binlog_merge.binlog.constants import EventFlag
from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.query import Query
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.surrogates import shown
from snapshot_store.tso import OrderKey

# What parses is imported where it is used: most questions to a log are about rows.
if TYPE_CHECKING:
    from binlog_merge.filters.ddl import DdlEvent
    from snapshot_store.ddl import DdlSession, ParsedDdl
    from snapshot_store.ddl.effects import Effects, Name


@dataclass(frozen=True)
class Statement:
    """A statement; with `suppress_use` it must not run with its schema as the default database.

    `timestamp` is in seconds since 1970, `key` the order key that the log has beside the statement, `position` the
    offset of its event.
    """

    query: Query
    suppress_use: bool = False
    timestamp: int = 0
    key: OrderKey | None = None
    server_id: int = 0
    position: int = 0

    @classmethod
    def of(cls, event: RawEvent, query: Query, key: OrderKey | None = None) -> "Statement":
        """Return the statement of a QUERY event."""
        head = event.header
        suppress_use = bool(head.flags & EventFlag.LOG_EVENT_SUPPRESS_USE_F)
        return cls(query, suppress_use, head.timestamp, key, head.server_id, event.offset)

    @cached_property
    def text(self) -> str:
        """Return the text; bytes that are none in the client's character set are surrogates."""
        return self.query.text

    @property
    def line(self) -> str:
        """Return the text on one line, for people."""
        return " ".join(shown(self.text).split())

    @property
    def schema(self) -> str:
        """Return the default database, "" if there is none."""
        return self.query.schema_text

    @cached_property
    def session(self) -> "DdlSession":
        """Return the session, of which the log does not have all: its server's SYSTEM time zone is not known."""
        from binlog_merge.binlog.query_session import session_of

        return session_of(self.query)

    @cached_property
    def ddl(self) -> "ParsedDdl":
        """Return the parsed statement, or why it is not understood."""
        from snapshot_store.ddl import ParsedDdl

        return ParsedDdl.of(self.text, self.session)

    def ddl_in(self, session: "DdlSession", text: str | None = None) -> "ParsedDdl":
        """Return the statement, or a part of it, as parsed in a session that knows more of this one."""
        from snapshot_store.ddl import ParsedDdl

        if text in (None, self.text) and session == self.session:
            return self.ddl
        return ParsedDdl.of(self.text if text is None else text, session)

    @cached_property
    def body(self) -> str:
        """Return the text without the comments before it, in which a cluster keeps its own; "" if it is all comment.

        Raises DdlNotUnderstood.
        """
        from snapshot_store.mysql.sql.cursor import Cursor

        return self.text[Cursor.of(self.text, self.session).peek().start :].strip()

    @property
    def is_comment(self) -> bool:
        """Return whether it is comments alone, as a cluster's own statements come out. Raises DdlNotUnderstood."""
        return self.ddl.is_comment

    @cached_property
    def effects(self) -> "Effects":
        """Return what it does to tables. Raises DdlNotUnderstood."""
        from snapshot_store.ddl.effects import effects_of

        return effects_of(self.ddl.statement, self.schema)

    @cached_property
    def parts(self) -> "tuple[DdlEvent, ...]":
        """Return what it does to one table or database after another. Raises DdlNotUnderstood."""
        from binlog_merge.filters.ddl import events_of

        return events_of(self.ddl, self.schema)

    @cached_property
    def tables(self) -> "tuple[Name, ...] | None":
        """Return the tables and views that it is about, each once, as it names them; None: it is not understood."""
        try:
            return tuple(name for name in self.effects.own if name[1])
        except DdlNotUnderstood:
            return None
