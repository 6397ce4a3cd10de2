"""A session's way to the tables: its transaction's view, its lock, the character set and the time zone of results."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.tables.values import encoded
from binlog_merge.protocol.fields import Field
from binlog_merge.protocol.packets import ErrorCode, Texts, Value
from binlog_merge.values.duckdb.piece import CONNECTION
from snapshot_store.mysql.sql.session import DdlSession, sql_mode_of
from snapshot_store.mysql.text.charsets import (
    canonical_charset,
    charset_named_by,
    charset_of,
    collation_id,
    collation_name,
)
from snapshot_store.mysql.text.codecs import is_utf8

if TYPE_CHECKING:
    from binlog_merge.binlog_server.log import LogView
    from binlog_merge.binlog_server.tables.compiled import Shape
    from binlog_merge.binlog_server.tables.fields import Results
    from binlog_merge.binlog_server.tables.keeper import Hold, Tables
    from binlog_merge.binlog_server.tables.query import Query
    from binlog_merge.binlog_server.tables.view import Rows, View

UTF8MB4: Final = 255
_OFFSET: Final = re.compile(r"([+-])(\d{1,2}):([0-5]\d)")
_LONGEST_WAIT: Final = 3600.0
_OFF: Final = (0, "0", "off", "OFF", "false")


_NO_CLIENTS: Final = ("ucs2", "utf16", "utf16le", "utf32")


def check_spoken(charset: str) -> None:
    """Raise Refused for a character set in which no client can write statements: its ASCII is none."""
    if canonical_charset(charset) in _NO_CLIENTS:
        raise Refused(
            ErrorCode.ER_WRONG_VALUE_FOR_VAR,
            f"Variable 'character_set_client' can't be set to the value of '{charset.lower()}'",
        )


class Wanted(Enum):
    """What is wanted of a SELECT: rows of either protocol, or only the columns."""

    TEXT = auto()
    BINARY = auto()
    COLUMNS = auto()


ANSWERED_AS: Final = 90704
"""The version of MySQL whose SQL is answered."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A result with rows of tables: its columns, and the packets of its rows."""

    fields: tuple[Field, ...]
    rows: Iterator[bytes]


class Reads:
    """What a session reads of tables. `collation` is the number that the client gave when it logged in.

    `version` is up to which executable comments count: the one that is announced, or the one whose SQL this is.

    A transaction's view begins with WITH CONSISTENT SNAPSHOT or its first SELECT; without a transaction each SELECT has
    a view of its own.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.collation: int = UTF8MB4
        self.version = ANSWERED_AS
        self.begun = False
        self._values = values
        self._view: View | None = None
        self._hold: tuple[Tables, Hold] | None = None
        self._rows: Rows | None = None

    def speak(self, collation: int) -> None:
        """Take the collation that a client gives when it logs in; an unknown one is the server's. Raises Refused."""
        check_spoken(charset_of(collation) or "")
        self.collation = UTF8MB4 if charset_of(collation) is None else collation

    @property
    def locked(self) -> bool:
        """Return whether the session has locked the tables."""
        return self._hold is not None and not self._hold[1].lost

    def check_lock(self) -> None:
        """Raise Refused, once, if the session's lock was given up: what it has read since may be of another moment."""
        if self._hold is not None and self._hold[1].lost:
            self._hold = None
            raise Refused(
                ErrorCode.ER_QUERY_INTERRUPTED,
                "the lock of all tables was given up, because others waited for it too long: begin anew, and UNLOCK "
                "TABLES as soon as each connection has its view",
            )

    def begin(self, tables: "Tables", rank: int) -> "LogView":
        """Begin a transaction's view with at least `rank` transactions; return the log as of which it is."""
        self.end()
        self.begun = True
        self._view = tables.view(rank, self._seconds(), as_held=True)
        return self._view.log

    def lock(self, tables: "Tables", rank: int) -> None:
        """Keep the tables as they are until `unlock`, with at least `rank` transactions."""
        self.end()
        self.unlock()
        self._hold = tables, tables.hold(rank, self._seconds())

    def unlock(self) -> None:
        """Let the tables go on."""
        held, self._hold = self._hold, None
        if held is not None:
            tables, hold = held
            tables.release(hold)

    def end(self) -> None:
        """End the transaction, and give up what has not been read of its results."""
        self.begun = False
        if self._rows is not None:
            self._rows.close()
        view, self._view = self._view, None
        if view is not None:
            view.close()

    def close(self) -> None:
        """End the transaction, and unlock the tables."""
        self.end()
        self.unlock()

    def select(self, query: "Query", tables: "Tables", rank: int, wanted: Wanted) -> Selected:
        """Answer a SELECT from at least `rank` transactions. Raises Refused and IoError."""
        from binlog_merge.binlog_server.tables.compiled import compile_query

        minutes, results = self.minutes(), self.results()
        if wanted is Wanted.COLUMNS:
            compiled = compile_query(query, self._read(tables.shape(minutes, self._seconds())), results)
            return Selected(tuple(output.field for output in compiled.outputs), iter(()))
        view = self._view or tables.view(rank, self._seconds(), self.locked)
        kept = self._view is not None or self._keeps()
        if kept:
            self._view = view
        try:
            compiled = compile_query(query, self._read(view.shape(minutes)), results)
            rows = view.rows(compiled, results, wanted is Wanted.BINARY, (lambda: None) if kept else view.release)
        except BaseException:
            if not kept:
                view.close()
            raise
        self._rows = rows
        return Selected(tuple(output.field for output in compiled.outputs), rows)

    def _read(self, shape: "Shape") -> "Shape":
        """Return a file's shape with the character set of the session's statements."""
        return replace(shape, reading=replace(shape.reading, client=self.spoken()))

    def _keeps(self) -> bool:
        """Return whether a SELECT begins the transaction's view."""
        if str(self._values.get("transaction_isolation") or "").lower() in ("read-committed", "read-uncommitted"):
            return False
        return self.begun or self._values.get("autocommit", 1) in _OFF

    def _seconds(self) -> float:
        given = self._values.get("lock_wait_timeout")
        return float(given) if isinstance(given, int) and 0 < given < _LONGEST_WAIT else _LONGEST_WAIT

    def results(self) -> "Results":
        """Return the character set of results. Raises Refused for one that is not known."""
        from binlog_merge.binlog_server.tables.fields import Results

        if "character_set_results" not in self._values:
            return Results(charset_of(self.collation) or "utf8mb4", self.collation)
        name = self._values["character_set_results"]
        if name is None:
            return Results(None)
        number = collation_id(str(name), None)
        if number is None:
            raise Refused(ErrorCode.ER_UNKNOWN_CHARACTER_SET, f"Unknown character set: '{str(name)[:64]}'")
        return Results(charset_of(number), int(self._values.get("collation_results") or number))

    def texts(self) -> Texts:
        """Return how names, and texts that are of no table, are written. Raises Refused as `results` does."""
        results = self.results()
        if results.charset is None:  # as they are: names are in UTF-8, and a client's literals in its own
            return Texts(collation=self.collation if is_utf8(charset_of(self.collation) or "") else UTF8MB4)
        if results.charset == "binary" or is_utf8(results.charset):
            return Texts(collation=results.collation)
        return Texts(partial(encoded, results.charset), results.collation)

    def spoken(self) -> str:
        """Return the character set of the client's statements."""
        name = self._values.get("character_set_client") or charset_of(self.collation)
        return canonical_charset(str(name)) or "utf8mb4"

    def decoded(self, sql: bytes) -> str:
        """Return the text of a statement, in the character set of the client. Raises Refused."""
        charset = self.spoken()
        if sql.isascii() or charset in ("utf8mb4", "utf8mb3", "binary"):
            return sql.decode("utf-8", "surrogateescape")
        from snapshot_store.mysql.text.codecs import decode_text

        try:
            return decode_text(charset, sql)
        except (UnicodeError, LookupError) as error:
            raise Refused(
                ErrorCode.ER_UNKNOWN_CHARACTER_SET,
                f"this is no text of character set {charset}: {error}"[:300],
            ) from None

    def minutes(self) -> int:
        """Return the offset of the session's time zone from UTC. Raises Refused for a zone with a name."""
        zone = str(self._values.get("time_zone") or "SYSTEM")
        match = _OFFSET.fullmatch(zone)
        if match is not None:
            minutes = int(match[2]) * 60 + int(match[3])
            if minutes <= 14 * 60:
                return -minutes if match[1] == "-" else minutes
        if zone.upper() in ("SYSTEM", "UTC"):
            return 0
        raise Refused(
            ErrorCode.ER_UNKNOWN_TIME_ZONE,
            f"Unknown or incorrect time zone: '{zone[:64]}': offsets are known here, and SYSTEM, which is UTC",
        )

    def grammar(self) -> DdlSession:
        """Return the session that decides how a statement is read."""
        return DdlSession(
            sql_mode_of(self._values.get("sql_mode")),
            server_version=self.version,
            charset_connection=charset_named_by(self.connection()),
            validate=True,
        )

    def connection(self) -> str:
        """Return the collation of literals: what SET NAMES has said, else the client when it logged in."""
        given = str(self._values.get("collation_connection") or "")
        if not given and "collation_results" in self._values:
            given = collation_name(int(self._values["collation_results"] or 0)) or ""
        charset = str(self._values.get("character_set_connection") or self._values.get("character_set_client") or "")
        number = collation_id(charset or None, given or None) if charset or given else self.collation
        return collation_name(number or UTF8MB4) or CONNECTION
