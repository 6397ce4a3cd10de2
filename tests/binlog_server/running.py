"""A server of binlogs in this process, and readers of it that are not ours: PyMySQL's packets, mysqlbinlog."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

import pymysql

from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.server import BinlogServer, ServeOptions
from binlog_merge.binlog_server.tables.keeper import Tables
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.protocol.commands import BinlogDump, BinlogDumpGtid, Dump
from tests.mysql_server import PREFIX, MySqlServer
from tests.patience import Patience

USER, PASSWORD = "rep", "a secret"
NON_BLOCK = 1


@dataclass
class Running:
    """A server that runs, what it has reported, and what ended it."""

    server: BinlogServer
    reports: list[str] = field(default_factory=list)
    ended_by: Exception | None = None

    @property
    def port(self) -> int:
        return self.server.address[1]

    def connect(self, **options: Any) -> "pymysql.Connection[Any]":
        """Return a session of the one user; the caller closes it."""
        settings = {"user": USER, "password": PASSWORD, "ssl_disabled": True, **options}
        return pymysql.connect(host="127.0.0.1", port=self.port, **settings)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement in a session of its own."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    @contextlib.contextmanager
    def reading(self, dump: Dump, *settings: str, buffer: int | None = None) -> Iterator[Iterator[bytes]]:
        """Yield the events that a dump brings, until the server says that it is at the end. Errors are PyMySQL's.

        `buffer`: what the system takes in for a client that does not read.
        """
        with contextlib.closing(self.connect(defer_connect=True)) as connection:
            sock = socket.socket()
            if buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            sock.connect(("127.0.0.1", self.port))
            connection.connect(sock)  # type: ignore[no-untyped-call]
            with connection.cursor() as cursor:
                for setting in ("SET @source_binlog_checksum = @@global.binlog_checksum", *settings):
                    cursor.execute(setting)
            payload = dump.pack()
            connection._execute_command(payload[0], payload[1:])  # type: ignore[attr-defined]
            yield _events(connection)

    def events(self, dump: Dump) -> list[bytes]:
        """Return all events that a dump brings which does not wait."""
        with self.reading(dump) as events:
            return list(events)


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait until something holds; it always does, unless something is broken."""
    patience = Patience(60)
    while not (held := holds()) and patience.lasts():
        time.sleep(0.02)
    return held


def _events(connection: Any) -> Iterator[bytes]:
    while True:
        packet = connection._read_packet()
        if packet.is_eof_packet():
            return
        yield packet.get_all_data()[1:]


def from_position(file: str = "", position: int = 4, flags: int = NON_BLOCK) -> BinlogDump:
    """Return the request for a file from a position on."""
    return BinlogDump(position, flags, 7, file.encode())


def without(gtids: Any, flags: int = NON_BLOCK) -> BinlogDumpGtid:
    """Return the request for everything that is not in a GTID set."""
    return BinlogDumpGtid(flags, 7, gtids)


@contextlib.contextmanager
def serving(out: Path | LogFolder, tables: Path | None = None, **options: Any) -> Iterator[Running]:
    """Serve an output directory at a free port of this machine, for as long as the context lasts.

    `tables` is the DuckDB file of its tables.
    """
    reports: list[str] = []
    values = {"host": "127.0.0.1", "port": 0, "user": USER, "password": PASSWORD, **options}
    log = PublishedLog(out)
    with contextlib.ExitStack() as stack:
        kept = None if tables is None else stack.enter_context(Tables(log, tables, reports.append))
        yield from _served(BinlogServer(log, ServeOptions(**values), reports.append, tables=kept), reports)


def _served(server: BinlogServer, reports: list[str]) -> Iterator[Running]:
    running = Running(server, reports)

    def run() -> None:
        try:
            server.run()
        except Exception as error:
            running.ended_by = error

    thread = Thread(target=run)
    thread.start()
    try:
        yield running
    finally:
        server.close()
        thread.join()
    assert not [line for line in reports if "internal error" in line], reports


def remote_mysqlbinlog(port: int, *options: str, folder: Path | None = None) -> bytes:
    """Return what mysqlbinlog prints of a server; raises RuntimeError with its complaint."""
    command = [str(PREFIX / "bin" / "mysqlbinlog"), "--no-defaults", "--host=127.0.0.1", f"--port={port}"]
    command += [f"--user={USER}", f"--password={PASSWORD}", *options]
    answer = subprocess.run(command, capture_output=True, check=False, cwd=folder, timeout=120)
    if answer.returncode:
        raise RuntimeError(answer.stderr.decode(errors="replace"))
    return answer.stdout


class Source(Protocol):
    @property
    def port(self) -> int: ...


@contextlib.contextmanager
def replica_of(server: MySqlServer, source: Source, place: str, workers: int = 4) -> Iterator[MySqlServer]:
    """Make a server the replica of a source, and free of it again."""
    server.execute(f"SET GLOBAL replica_parallel_workers = {workers}, GLOBAL replica_net_timeout = 10")
    server.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port}, SOURCE_USER='{USER}', "
        f"SOURCE_PASSWORD='{PASSWORD}', SOURCE_CONNECT_RETRY=1, SOURCE_HEARTBEAT_PERIOD=0.1, {place}"
    )
    try:
        server.execute("START REPLICA")
        yield server
    finally:
        server.execute("STOP REPLICA; RESET REPLICA ALL")


def caught_up(server: MySqlServer, out: Path) -> None:
    """Wait until a replica has everything that is published; an error of its threads fails the test."""
    executes(server, str(PublishedLog(out).view().executed))


def executes(server: MySqlServer, executed: str) -> None:
    """Wait until a replica has executed GTIDs; an error of its threads fails the test."""
    patience = Patience(60)
    while patience.lasts():
        ((timed_out,),) = server.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 0.5)")
        if not timed_out:
            return
        status = replica_status(server)
        assert not status["Last_SQL_Error"] and not status["Last_IO_Error"], status
    raise AssertionError(replica_status(server))


def replica_status(server: MySqlServer) -> dict[str, object]:
    """Return what a replica says of itself."""
    connection = server.connect()
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute("SHOW REPLICA STATUS")
        row = cursor.fetchone() or ()
        return dict(zip([column[0] for column in cursor.description], row, strict=True))
