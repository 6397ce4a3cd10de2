"""The connection to a node's server: asks for its binlog files, requests a dump, and reads its packets.

mysql-replication connects, registers and requests the dump. Its packets are read below its event layer, which parses
events and drops unknown types (40, 41, 42); here every event is needed as raw bytes.

The user needs REPLICATION SLAVE for the dump, and REPLICATION CLIENT to see which files there are.

What is used of the two libraries beside their public interface is all here; pyproject.toml bounds their versions.

The bytes of a connection are cut into the packets of a dump, whose payloads are not parsed:

    | payload length 3 | sequence 1 | payload ... |      a payload of 2^24-1 bytes goes on in the next packet

Each event is a packet, and this is Python: so a read takes many packets, and only a packet cut by a read is copied.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
"""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from select import POLLIN, poll
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import ConfigError, IoError, ServerRefused
from binlog_merge.node_capture.server_end import Standing, standing_of
from binlog_merge.node_capture.server_kind import MARIADB, MYSQL, ServerKind, kind_of
from binlog_merge.node_capture.stream import CapturedEnd
from snapshot_store.server import CONNECTION_LOST, NO_CONNECTION, ServerAddress, connect_remedy, message_of

HEARTBEAT_SECONDS: Final = 0.5
"""The period of heartbeats from a source that has nothing to send: files are synced then."""
NOTING_SECONDS: Final = 0.1
"""The same where notes of the server's clock are written then."""
SILENCE_SECONDS: Final = 60.0

_TRANSIENT: Final = CONNECTION_LOST | {1040, 1203}  # too many connections, too many of this user
_NO_BINLOG, _NEEDS_PRIVILEGE, _DUMP_ERROR, _UNKNOWN_VARIABLE = 1381, 1227, 1236, 1193
_COM_BINLOG_DUMP: Final = 0x12
_NON_BLOCKING, _SEND_ANNOTATIONS = 1, 2
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
"""The first byte of a payload in a dump: an event follows, the dump ends, or an error follows."""
_RIGHTS: Final = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user, on the node"


class Lost(Exception):  # noqa: N818
    """The connection was lost or could not be made; a retry may succeed. `remedy`: what to do where it does not."""

    def __init__(self, text: str, remedy: str | None = None) -> None:
        super().__init__(text)
        self.remedy = remedy


class DumpRefused(Exception):  # noqa: N818
    """The server ended a dump with ER_SOURCE_FATAL_ERROR_READING_BINLOG; the text is the reason."""


_PLACE: Final = """
    SELECT @@global.hostname, @@global.port, @@global.datadir, FROM_UNIXTIME(UNIX_TIMESTAMP() - VARIABLE_VALUE)
    FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'UPTIME'
"""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about a server: its ids, its binlog files in order, where the last one ends, and what tells of its role.

    `gtid_mode` is "" for a server that knows no GTIDs. `place` is where a MariaDB runs, and since when: it
    has no UUID.
    """

    server_uuid: str
    server_id: int
    files: tuple[str, ...]
    standing: Standing
    gtid_mode: str = ""
    gtid_executed: GtidSet = GtidSet()  # noqa: RUF009 - frozen
    read_only: bool = False
    lower_case_table_names: int = 0
    kind: ServerKind = MYSQL
    place: str = ""

    @property
    def identity(self) -> str:
        """Return what no other server has."""
        return self.place or f"server_uuid {self.server_uuid}"


class Source:
    """A connection to a node's server, for one thread; only `break_off` may be called from another."""

    def __init__(self, node: str, address: ServerAddress, ssl_ca: str | None, silence: float = SILENCE_SECONDS) -> None:
        self._node = node
        self._address = address
        self._ssl_ca = ssl_ca
        self._silence = silence
        self._connection: Any = None
        self._kind = MYSQL

    def open(self) -> SourceFacts:
        """Connect and return facts about the server.

        Raises Lost or ServerRefused, and what `check_libraries` raises.
        """
        import pymysql

        check_libraries()
        try:
            self._connection = self._address.connect(self._ssl_ca, self._silence)
            self._kind = kind_of(str(self._connection.get_server_info()))
            # Files with checksums and files without may follow each other, whatever the server writes just now.
            self._ask("SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'")
            facts, _ = _ASKED[self._kind]
            return facts(self)
        except pymysql.MySQLError as error:
            raise self._refused(error, connect_remedy(error, self._address)) from error
        except (RuntimeError, OSError) as error:  # no way to encrypt the password; a CA that is none
            if isinstance(error, OSError) and self._ssl_ca is not None:
                raise IoError(f"cannot be used as a CA: {error}", file=self._ssl_ca) from error
            raise ServerRefused(f"{self._address}: {error}", node=self._node) from error

    def previous_gtids(self, file: str) -> GtidSet:
        """Return the PREVIOUS_GTIDS of one of the server's files. Raises Lost or ServerRefused."""
        import pymysql

        try:
            events = self._ask(f"SHOW BINLOG EVENTS IN '{file}' LIMIT 3")
        except pymysql.MySQLError as error:
            raise self._refused(error, _RIGHTS) from error
        return GtidSet.parse_text(next((str(row[5]) for row in events if row[2] == "Previous_gtids"), ""))

    def dump(
        self,
        place: CapturedEnd,
        replica_uuid: str,
        follow: bool,
        heartbeat: float = HEARTBEAT_SECONDS,
        quiet: Callable[[], None] = lambda: None,
    ) -> Iterator[memoryview]:
        """Yield the events from `place` on as they arrive, with heartbeats after so many seconds without one.

        `quiet` is called when all that has arrived is yielded, before the server is waited for.
        Ends when the server has sent all it has or, with `follow`, when the server ends the dump. Raises Lost,
        DumpRefused or ServerRefused.
        """
        import pymysql

        try:
            _, request = _ASKED[self._kind]
            request(self, place, replica_uuid, follow, heartbeat)
            self._connection._sock.settimeout(self._silence)
            stream = self._connection._rfile
            arrived = poll()  # not select: it knows no descriptor above 1023
            arrived.register(stream, POLLIN)

            def some(size: int) -> bytes:
                if not arrived.poll(0):
                    quiet()
                return bytes(stream.read1(size))

            for payload in payloads(some, stream.read):
                kind = payload[0] if payload else _END
                if kind == _OK:
                    yield payload[1:]
                elif kind == _ERROR:
                    pymysql.err.raise_mysql_exception(bytes(payload))
                else:
                    return
            raise Lost("the server closed the connection")
        except OSError as error:
            raise Lost(str(error)) from error
        except pymysql.MySQLError as error:
            if error.args and error.args[0] == _DUMP_ERROR:
                raise DumpRefused(message_of(error)) from error
            raise self._refused(error, _RIGHTS) from error

    def _request(self, place: CapturedEnd, replica_uuid: str, follow: bool, heartbeat: float) -> None:
        from pymysqlreplication import BinLogStreamReader

        reader = BinLogStreamReader(
            {"read_timeout": self._silence},
            int(replica_uuid[:8], 16) or 1,
            resume_stream=True,
            blocking=follow,
            log_file=place.name,
            log_pos=place.dump_from,
            report_slave=("binlog-merge", "", "", 0),
            slave_uuid=replica_uuid,
            slave_heartbeat=heartbeat,
            pymysql_wrapper=lambda **settings: self._connection,
            enable_logging=False,
        )
        # What `fetchone` does first. `fetchone` itself opens a second connection and returns parsed events.
        reader._BinLogStreamReader__connect_to_stream()

    def _request_of_mariadb(self, place: CapturedEnd, replica_uuid: str, follow: bool, heartbeat: float) -> None:
        """Request a dump with every event as it is in the file: mysql-replication asks for no annotations by position.

        MariaDB rewrites events for replicas that do not say that they know its GTIDs (4 of `sql/log_event.h`).
        """
        self._ask(f"SET @mariadb_slave_capability = 4, @master_heartbeat_period = {int(heartbeat * 1e9)}")
        flags = _SEND_ANNOTATIONS | (0 if follow else _NON_BLOCKING)
        server_id = int(replica_uuid[:8], 16) or 1
        asked = struct.pack("<IHI", place.dump_from, flags, server_id) + place.name.encode()
        self._connection._execute_command(_COM_BINLOG_DUMP, asked)

    def break_off(self) -> None:
        """Make whatever waits for the server fail at once."""
        sock = getattr(self._connection, "_sock", None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket without COM_QUIT, which a source in a dump would not read."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection._force_close()

    def _facts(self) -> SourceFacts:
        import pymysql

        ((server_id,),) = self._ask("SELECT @@global.server_id")
        files = tuple(str(row[0]) for row in self._ask("SHOW BINARY LOGS"))
        standing = standing_of(self._ask)
        if not files or not standing.file:
            raise self._no_binlog()
        try:
            sql = "SELECT @@global.gtid_mode, @@global.gtid_executed, @@global.read_only"
            ((mode, executed, read_only),) = self._ask(sql)
        except pymysql.MySQLError as error:
            if error.args[0] != _UNKNOWN_VARIABLE:
                raise
            mode, executed, read_only = "", "", 0
        gtids = GtidSet.parse_text(str(executed))
        ((case_of_names,),) = self._ask("SELECT @@global.lower_case_table_names")
        return SourceFacts(
            standing.server_uuid, int(server_id), files, standing, str(mode), gtids, bool(read_only), int(case_of_names)
        )

    def _facts_of_mariadb(self) -> SourceFacts:
        """Return the facts that MariaDB tells. It has no UUID: one is made of the node's name and its server id."""
        ((server_id, case_of_names),) = self._ask("SELECT @@global.server_id, @@global.lower_case_table_names")
        files = tuple(str(row[0]) for row in self._ask("SHOW BINARY LOGS"))
        status = self._ask("SHOW MASTER STATUS")
        if not files or not status:
            raise self._no_binlog()
        ((host, port, folder, begun),) = self._ask(_PLACE)
        server_uuid = str(uuid5(NAMESPACE_OID, f"mariadb/{self._node}/{server_id}"))
        standing = Standing(server_uuid, str(status[0][0]), int(status[0][1]), 0, "MariaDB logs no commit times")
        return SourceFacts(
            server_uuid,
            int(server_id),
            files,
            standing,
            lower_case_table_names=int(case_of_names),
            kind=MARIADB,
            place=f"{folder} on {host}, port {port}, up since {begun}",
        )

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def _no_binlog(self) -> ServerRefused:
        return ServerRefused(f"{self._address} writes no binlog", node=self._node, remedy="set log_bin on the node")

    def _refused(self, error: Exception, remedy: str) -> Exception:
        """Return our exception for an error of the server or of the connection."""
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = message_of(error)
        if number == 0 or number in _TRANSIENT:
            return Lost(text, remedy if number == NO_CONNECTION else None)
        if number == _NO_BINLOG:
            return self._no_binlog()
        remedy = _RIGHTS if number == _NEEDS_PRIVILEGE else remedy
        return ServerRefused(f"{self._address}: {text}", node=self._node, remedy=remedy)


_ASKED: Final = {
    MYSQL: (Source._facts, Source._request),
    MARIADB: (Source._facts_of_mariadb, Source._request_of_mariadb),
}
"""How each kind of server is asked for facts, and for a dump."""
_OF_CONNECTION: Final = ("_sock", "_rfile", "_force_close", "_execute_command")
_OF_READER: Final = ("_BinLogStreamReader__connect_to_stream",)


def check_libraries() -> None:
    """Raise ConfigError if PyMySQL or mysql-replication is a version without the private names that are used."""
    from pymysql.connections import Connection
    from pymysqlreplication import BinLogStreamReader

    _check("PyMySQL", Connection, _OF_CONNECTION, "PyMySQL[rsa]>=1.2,<2")
    _check("mysql-replication", BinLogStreamReader, _OF_READER, "mysql-replication>=1.0.17,<1.1")


def _check(package: str, owner: Any, names: tuple[str, ...], wanted: str) -> None:
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        raise ConfigError(
            f"{package} {version(package)} has no {owner.__name__}.{missing[0]}, by which a node's log is read",
            remedy=f"pip install '{wanted}'",
        )


_HEADER_LEN: Final = 4
_MOST: Final = (1 << 24) - 1
_CHUNK: Final = 1 << 18


def payloads(some: Callable[[int], bytes], exactly: Callable[[int], bytes]) -> Iterator[memoryview]:
    """Yield payloads in order, joined if they are split over several packets, until the connection ends.

    `some` returns at most so many bytes, as soon as there are any; `exactly` waits for all, and returns fewer only at
    the end of the connection. A payload cut by the end is not yielded.
    """
    parts: list[memoryview] = []
    rest = b""
    while chunk := some(_CHUNK):
        data = rest + chunk if rest else chunk
        view, at, size = memoryview(data), 0, len(data)
        while size - at >= _HEADER_LEN:
            length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            at += _HEADER_LEN
            end = at + length
            payload = view[at:end]
            if end > size:
                payload = memoryview(bytes(payload) + exactly(end - size))
                if len(payload) < length:
                    return
            at = end
            if length == _MOST:
                parts.append(payload)
            elif parts:
                whole = memoryview(b"".join((*parts, payload)))
                parts = []
                yield whole
            else:
                yield payload
        rest = data[at:]
