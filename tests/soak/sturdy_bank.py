"""The bank of the live demo, whose coordinator goes on when its servers die: what it has decided, it carries through.

Beside the accounts is a ledger that only grows, with a primary key: what is lost is missing there, and what comes twice
stops a replica.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pymysql

from tools.demo_live.bank import COMMIT_TABLE, Bank, Move, run
from tools.mysql_server import MySqlServer

LEDGER = "(transfer BIGINT NOT NULL, account INT NOT NULL, amount BIGINT NOT NULL, PRIMARY KEY (transfer, account))"
TABLES = ("accounts", "ledger")
SECONDS = 240.0

_UNKNOWN_COLUMN = (1054, 1136)


class Sessions(Sequence["pymysql.Connection[Any]"]):
    """A session on each node, opened when it is needed; a server that is away is waited for."""

    def __init__(self, servers: Sequence[MySqlServer]) -> None:
        self._servers = servers
        self._opened: dict[int, tuple[MySqlServer, pymysql.Connection[Any]]] = {}

    def __len__(self) -> int:
        return len(self._servers)

    def __getitem__(self, node: Any) -> "pymysql.Connection[Any]":
        end = time.monotonic() + SECONDS
        while True:
            server = self._servers[node]
            opened = self._opened.get(node)
            if opened is not None and opened[0] is server:
                return opened[1]
            self.drop(node)
            try:
                self._opened[node] = (server, server.connect())
            except (pymysql.err.MySQLError, RuntimeError, OSError):
                assert time.monotonic() < end, f"the server of node {node} does not come back"
                time.sleep(0.1)

    def drop(self, node: int) -> None:
        """Close a session; whatever it had begun and not prepared is rolled back."""
        _, opened = self._opened.pop(node, (None, None))
        if opened is not None:
            opened._force_close()  # type: ignore[attr-defined]

    def close(self) -> None:
        for node in list(self._opened):
            self.drop(node)


class SturdyBank(Bank):
    """A bank whose servers may die and be replaced (`servers[node] = …`) at any moment."""

    def __init__(self, servers: Sequence[MySqlServer]) -> None:
        super().__init__(servers)
        self.servers: list[MySqlServer] = list(servers)
        self.column: str | None = None
        self.committed: set[int] = set()
        self.altered = 0
        self._moving: set[int] = set()
        self._columns = 0

    def open(self) -> None:
        super().open()
        self.create("ledger", LEDGER)

    @contextmanager
    def sessions(self) -> Iterator[Any]:
        sessions = Sessions(self.servers)
        try:
            yield sessions
        finally:
            sessions.close()

    def transfer(self, sessions: Any, number: int, moves: Sequence[Move]) -> bool:
        """Transfer money and write it into the ledger. Returns whether it is known to be committed."""
        changes: dict[int, str] = {}
        with self._lock:
            self._moving.add(number)
            column = self.column
        try:
            for move in sorted(moves, key=lambda move: move.account):
                before = f"{changes[move.node]}; " if move.node in changes else ""
                changes[move.node] = before + _move(move, number, column)
            if len(changes) == 1:
                ((node, sql),) = changes.items()
                run(sessions[node], f"BEGIN; {sql}; COMMIT")
            else:
                self.distributed(sessions, changes)
        except pymysql.err.MySQLError as error:
            assert error.args[0] not in _UNKNOWN_COLUMN, error
            if len(changes) == 1:
                sessions.drop(next(iter(changes)))
            return False
        finally:
            with self._lock:
                self._moving.discard(number)
        self.committed.add(number)
        return True

    def distributed(self, sessions: Any, changes: dict[int, str]) -> int:
        """Run a distributed transaction, to its end if it is decided that it commits. Returns its commit TSO."""
        with self._lock:
            self._transactions += 1
            gtrid = f"bank-{self._transactions:08d}".encode().hex()
        begun: list[int] = []
        try:
            for node, sql in changes.items():
                begun.append(node)
                run(sessions[node], f"XA START {_xid(gtrid, node)}")
                run(sessions[node], f"{sql}; XA END {_xid(gtrid, node)}; XA PREPARE {_xid(gtrid, node)}")
        except pymysql.err.MySQLError:
            for node in begun:
                self._settle(sessions, gtrid, node, "XA ROLLBACK", anew=node == begun[-1])
            raise
        tso = self.timestamps.next()
        for node in begun:
            commit = f"INSERT IGNORE INTO {COMMIT_TABLE} VALUES (X'{gtrid}', {tso}); XA COMMIT"
            self._settle(sessions, gtrid, node, commit)
        return tso

    def _settle(self, sessions: Any, gtrid: str, node: int, verb: str, anew: bool = False) -> None:
        """Bring a branch to its end, however often the server dies meanwhile. `anew`: it need not be prepared."""
        xid, end = _xid(gtrid, node), time.monotonic() + SECONDS
        while True:
            try:
                if anew:
                    sessions.drop(node)
                    if xid not in _prepared(sessions[node]):
                        return
                run(sessions[node], f"{verb} {xid}")
                return
            except pymysql.err.MySQLError as error:
                assert time.monotonic() < end, f"{verb} {xid}: {error}"
                anew = True
                time.sleep(0.05)

    def alter(self, pause: float) -> None:
        """Add a column to the accounts while transfers run, let them use it, and drop it again."""
        self._columns += 1
        name = f"note_{self._columns}"
        definition = f"{name} VARCHAR(40) NOT NULL DEFAULT 'none' AFTER balance"
        self._everywhere(f"ADD COLUMN {definition}", name, True, pause)
        self.column = name
        time.sleep(2 * pause)
        with self._lock:
            self.column, moving = None, set(self._moving)
        while moving & self._moving:
            time.sleep(0.02)
        self._everywhere(f"DROP COLUMN {name}", name, False, pause)

    def _everywhere(self, clause: str, column: str, wanted: bool, pause: float) -> None:
        """Run a DDL on every node that has not had it, and announce it."""
        with self.sessions() as sessions:
            for node in range(len(self.servers)):
                for _ in _attempts():
                    try:
                        if _has(sessions[node], f"accounts_{node}", column) != wanted:
                            run(sessions[node], f"ALTER TABLE bank_{node}.accounts_{node} {clause}")
                        break
                    except pymysql.err.MySQLError:
                        sessions.drop(node)
                time.sleep(pause)
        number = self._markers
        for _ in _attempts():
            try:
                self._mark("ALTER_TABLE", "accounts", f"ALTER TABLE accounts {clause}")
                break
            except pymysql.err.MySQLError:
                self._markers = number
        self.altered += 1

    def heartbeat(self) -> None:
        with suppress(pymysql.err.MySQLError):
            super().heartbeat()


def _attempts() -> Iterator[int]:
    end, attempt = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        yield attempt
        attempt += 1
        time.sleep(0.1)
    raise AssertionError(f"after {SECONDS:.0f} s in vain")


def _move(move: Move, number: int, column: str | None) -> str:
    note = f", {column} = 'transfer {number}'" if column else ""
    return (
        f"UPDATE bank_{move.node}.accounts_{move.node} SET balance = balance + {move.amount}, transfer = {number}"
        f"{note} WHERE id = {move.account}; "
        f"INSERT INTO bank_{move.node}.ledger_{move.node} VALUES ({number}, {move.account}, {move.amount})"
    )


def _xid(gtrid: str, node: int) -> str:
    return f"X'{gtrid}',X'{node + 1:02x}',1"


def _prepared(session: "pymysql.Connection[Any]") -> set[str]:
    """Return the prepared branches of a server, as they are written in XA COMMIT."""
    with session.cursor() as cursor:
        cursor.execute("XA RECOVER CONVERT XID")
        found = set()
        for format_id, length, branch, data in cursor.fetchall():
            raw = bytes.fromhex(str(data)[2:])
            found.add(f"X'{raw[:length].hex()}',X'{raw[length : length + branch].hex()}',{format_id}")
        return found


def _has(session: "pymysql.Connection[Any]", table: str, column: str) -> bool:
    with session.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*) FROM information_schema.columns WHERE table_name = '{table}' AND column_name = '{column}'"
        )
        return cursor.fetchone() != (0,)
