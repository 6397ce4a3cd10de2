"""Translates a file of MariaDB: events in, the bytes that the file for MySQL grows by out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final
from uuid import UUID, uuid5

from binlog_merge.binlog.constants import (
    BINLOG_MAGIC,
    FROM_MARIADB,
    POST_HEADER_LENS,
    ROWS_TYPES,
    ChecksumAlg,
    EventFlag,
    EventType,
    version_number,
)
from binlog_merge.binlog.control import FormatDescription, PreviousGtids, RowsQuery
from binlog_merge.binlog.gtid import FLAG_MAY_HAVE_SBR, Gtid
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import EventHeader, RawEvent, is_ignorable, pack_event
from binlog_merge.binlog.mariadb import (
    PREPARED_XA,
    ROLLBACK_ALTER,
    START_ALTER,
    GtidList,
    MariadbGtid,
    uncompressed,
)
from binlog_merge.binlog.query import Query
from binlog_merge.errors import EncryptedBinlog, UnsupportedInput
from binlog_merge.mariadb_nodes.query import Statement, translated_statement
from binlog_merge.mariadb_nodes.rows import TranslatedMap, translated_map, translated_rows

VERSION: Final = f"8.4.0{FROM_MARIADB}"
_NAMESPACE: Final = UUID("5b1d7a52-6d61-5269-6100-4d6172696144")
_PASSED: Final = frozenset(
    {
        EventType.XID_EVENT, EventType.XA_PREPARE_LOG_EVENT, EventType.INTVAR_EVENT, EventType.RAND_EVENT,
        EventType.USER_VAR_EVENT, EventType.BEGIN_LOAD_QUERY_EVENT, EventType.APPEND_BLOCK_EVENT,
        EventType.EXECUTE_LOAD_QUERY_EVENT, EventType.DELETE_FILE_EVENT, EventType.INCIDENT_EVENT,
    }
)  # fmt: skip
_OUTSIDE: Final = frozenset({EventType.ROTATE_EVENT, EventType.STOP_EVENT})
_KEPT_FLAGS: Final = int(EventFlag.LOG_EVENT_THREAD_SPECIFIC_F | EventFlag.LOG_EVENT_SUPPRESS_USE_F)
_IN_TRANSACTION: Final = (b"COMMIT", b"ROLLBACK", b"BEGIN", b"XA ", b"SAVEPOINT", b"RELEASE ", b"ROLLBACK TO")
ENCRYPTED_REMEDY: Final = (
    "give the node a `server` and let `capture` fetch the files, or fetch them with mariadb-binlog "
    "--read-from-remote-server --raw: a server sends its binlog decrypted"
)
_REMEDY: Final = "look for a newer release of binlog-merge; the node may write without what it does not know"


def node_uuid(server_id: int, domain: int) -> UUID:
    """Return the UUID of a node's GTIDs of a domain."""
    return uuid5(_NAMESPACE, f"{server_id}/{domain}")


class Translator:
    """The state between two events of a file. `note` gets what is left out or changed, once for each text."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._position = 0
        self._server_id = self._version = self._clock = 0
        self._held: tuple[EventHeader, MariadbGtid] | None = None
        self._open = self._skipping = False
        self._maps: dict[int, TranslatedMap] = {}
        self._known: dict[bytes, TranslatedMap] = {}

    @property
    def position(self) -> int:
        """Return how many bytes the translation has."""
        return self._position

    def feed(self, event: RawEvent) -> bytes:
        """Return what the file grows by. Raises EncryptedBinlog, UnsupportedInput, BinlogFormatError."""
        return b"".join(self._made(event))

    def _made(self, event: RawEvent) -> Iterator[bytes]:
        head, kind = event.header, event.type_code
        if kind == EventType.FORMAT_DESCRIPTION_EVENT:
            yield from self._describe(event)
        elif kind == EventType.MARIADB_START_ENCRYPTION_EVENT:
            if not is_ignorable(head):  # a server sends what follows decrypted, and says so with this flag
                raise EncryptedBinlog("the file is encrypted", remedy=ENCRYPTED_REMEDY)
        elif kind == EventType.MARIADB_GTID_LIST_EVENT:
            yield self._event(head, EventType.PREVIOUS_GTIDS_LOG_EVENT, self._previous(GtidList.parse(event.body)))
        elif kind == EventType.MARIADB_GTID_EVENT:
            gtid = MariadbGtid.parse(event.body)
            self._skipping = bool(gtid.more & (START_ALTER | ROLLBACK_ALTER))
            self._held, self._open = (head, gtid), False
            self._maps.clear()
            if self._skipping:
                yield from self._empty()
        elif kind in _OUTSIDE:
            yield self._event(head, kind, event.body)
        elif kind == EventType.MARIADB_BINLOG_CHECKPOINT_EVENT or self._skipping:
            return
        else:
            yield from self._inside(event)

    def _describe(self, event: RawEvent) -> Iterator[bytes]:
        description = FormatDescription.parse(event.body)
        if not description.is_mariadb:
            raise UnsupportedInput(
                f"the file is none of MariaDB's: {description.server_version} wrote it",
                remedy="give it to the merge as it is",
            )
        numbers, _, _ = description.server_version.partition("-")
        self._server_id, self._version = event.header.server_id, version_number(numbers)
        self._clock = event.header.timestamp
        made = replace(
            description,
            server_version=VERSION + numbers,
            version_raw=b"",
            post_header_lens=POST_HEADER_LENS,
            checksum_alg=int(ChecksumAlg.CRC32),
        )
        self._position = len(BINLOG_MAGIC)
        in_use = event.header.flags & EventFlag.LOG_EVENT_BINLOG_IN_USE_F
        yield BINLOG_MAGIC + self._event(event.header, event.type_code, made.pack(), int(in_use))

    def _previous(self, found: GtidList) -> bytes:
        last: dict[int, int] = {}
        for each in found.domains:
            last[each.domain] = max(last.get(each.domain, 0), each.seq_no)
        spans = (
            (node_uuid(self._server_id, domain).bytes, "", 1, seq_no + 1) for domain, seq_no in last.items() if seq_no
        )
        return PreviousGtids(GtidSet.of(spans)).pack()

    def _inside(self, event: RawEvent) -> Iterator[bytes]:
        head = event.header
        if self._held is None:
            if is_ignorable(head):
                return
            raise UnsupportedInput(
                f"an event of type {event.type_code} stands outside of a transaction", remedy=_REMEDY
            )
        kind, body = uncompressed(event.type_code, event.body)
        if kind == EventType.QUERY_EVENT:
            yield from self._query(head, Query.parse(body))
        elif kind == EventType.MARIADB_ANNOTATE_ROWS_EVENT:
            yield from self._begin(head)
            flag = int(EventFlag.LOG_EVENT_IGNORABLE_F)
            text = RowsQuery(body.decode("utf-8", "surrogateescape").encode("utf-8", "surrogateescape"))
            yield self._event(head, EventType.ROWS_QUERY_LOG_EVENT, text.pack(), flag)
        elif kind == EventType.TABLE_MAP_EVENT:
            yield from self._begin(head)
            table = self._known.get(body)
            if table is None:
                if len(self._known) > _MOST_MAPS:
                    self._known.clear()
                table = self._known[body] = translated_map(body)
            self._maps[table.source.table_id] = table
            yield self._event(head, kind, table.body)
        elif kind in ROWS_TYPES:
            yield from self._begin(head)
            made, body = translated_rows(kind, body, self._maps.get(int.from_bytes(body[:6], "little")))
            yield self._event(head, made, body)
        elif kind in _PASSED:
            yield from self._begin(head)
            yield self._event(head, kind, body)
        elif not is_ignorable(head):
            raise UnsupportedInput(f"an event of type {kind} is not known", remedy=_REMEDY)

    def _begin(self, head: EventHeader) -> Iterator[bytes]:
        """Begin the group, unless that is done: its GTID event, and BEGIN or XA START unless it is one statement."""
        if self._open or self._held is None:
            return
        self._open = True
        gtid_head, gtid = self._held
        yield self._gtid(gtid_head, gtid, standalone=gtid.standalone)
        if gtid.standalone:
            return
        text = b"BEGIN"
        if gtid.flags & PREPARED_XA and gtid.xid is not None:
            text = b"XA START " + gtid.xid.sql.encode()
        yield self._event(gtid_head, EventType.QUERY_EVENT, Query(0, 0, 0, b"", text).pack())

    def _empty(self) -> Iterator[bytes]:
        """Put an empty group in the place of one that is left out, so that no number is missing."""
        assert self._held is not None
        head, gtid = self._held
        yield self._gtid(head, gtid, standalone=False)
        for text in (b"BEGIN", b"COMMIT"):
            yield self._event(head, EventType.QUERY_EVENT, Query(0, 0, 0, b"", text).pack())

    def _gtid(self, head: EventHeader, gtid: MariadbGtid, *, standalone: bool, part: int = 0) -> bytes:
        """Return a GTID event, whose time is when the group was committed, as near as that is known.

        MariaDB's is when the statement began. It committed after all that stands before it, and after it was done.
        """
        self._clock = max(self._clock, head.timestamp)
        uuid, number = node_uuid(self._server_id, gtid.domain), gtid.seq_no
        if part:
            # A statement before the one that has the number: it is the only one of a UUID, which has no gaps so.
            uuid, number = uuid5(uuid, f"{number}/{part}"), 1
        body = Gtid(FLAG_MAY_HAVE_SBR if standalone else 0, uuid.bytes, number, 0, 0).pack()
        return self._event(replace(head, timestamp=self._clock), EventType.GTID_LOG_EVENT, body)

    def _query(self, head: EventHeader, query: Query) -> Iterator[bytes]:
        assert self._held is not None
        gtid_head, gtid = self._held
        statement = translated_statement(query, self._version)
        begun = self._open or query.query.upper().startswith(_IN_TRANSACTION)
        if begun or not (gtid.standalone or _creates(statement)):
            yield from self._begin(head)
            yield self._event(head, EventType.QUERY_EVENT, statement.query.pack())
            return
        ddl = statement.ddl()
        words = statement.query.text.split()
        # The whole of what is left out may hold a password.
        shown = " ".join(words)[:120] if ddl.statements else f"{' '.join(words[:2])} …"
        for text in ddl.notes:
            self._note(f"{shown}: {text}")
        before = ddl.statements if not gtid.standalone else ddl.statements[:-1]
        self._clock = max(self._clock, head.timestamp + query.exec_time)
        for part, text in enumerate(before, 1):
            yield self._gtid(gtid_head, gtid, standalone=True, part=part)
            yield self._event(head, EventType.QUERY_EVENT, statement.query.with_text(text).pack())
        if not gtid.standalone:
            return  # CREATE TABLE ... SELECT: the rows follow
        if not ddl.statements:
            self._skipping = True
            yield from self._empty()
            return
        yield from self._begin(head)
        yield self._event(head, EventType.QUERY_EVENT, statement.query.with_text(ddl.statements[-1]).pack())

    def _event(self, head: EventHeader, kind: int, body: bytes | memoryview, flags: int = 0) -> bytes:
        made = pack_event(
            kind,
            body,
            timestamp=head.timestamp,
            server_id=head.server_id,
            flags=head.flags & _KEPT_FLAGS & ~(8 if kind == EventType.GTID_LOG_EVENT else 0) | flags,
            position=self._position,
        )
        self._position += len(made)
        return made


def _creates(statement: Statement) -> bool:
    """Return whether the first statement of a transaction is that of CREATE TABLE ... SELECT, and changes no rows."""
    return any(text[:6].upper() == "CREATE" for text in statement.ddl().statements)


_MOST_MAPS: Final = 1000
