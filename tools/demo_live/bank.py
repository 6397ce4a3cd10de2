"""A bank on several nodes: transfers in distributed transactions, and a column that is added while they run.

This is the part of a distributed database that a user of the global binlog already has: a coordinator, which prepares
XA branches, hands out commit TSOs, writes each down on the nodes (the commit table) and commits, and which announces
DDL by a marker once all nodes have run it.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pymysql

from tools.mysql_server import MySqlServer

NODES = ("dn-1", "dn-2", "dn-3")
ACCOUNTS = 100
"""Accounts on each node; those of the first node have the smallest ids."""
BALANCE = 1_000
TOTAL = BALANCE * ACCOUNTS * len(NODES)
COMMIT_TABLE = "__cdc__.__commit_ts__"
MARKER_TABLE = "__cdc__.__cdc_ddl_record__"
BEAT_TABLE = "__cdc__.beat"

_COLUMNS = "(id INT PRIMARY KEY, balance BIGINT NOT NULL, transfer BIGINT NOT NULL)"
ADD_NOTE = "ADD COLUMN note VARCHAR(40) NOT NULL DEFAULT 'none' AFTER balance"
_CDC = f"""
CREATE DATABASE __cdc__;
CREATE TABLE {COMMIT_TABLE} (gtrid VARBINARY(64) PRIMARY KEY, tso BIGINT UNSIGNED NOT NULL);
CREATE TABLE {MARKER_TABLE} (ID BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, JOB_ID BIGINT,
  SQL_KIND VARCHAR(50) NOT NULL, SCHEMA_NAME VARCHAR(200) NOT NULL, TABLE_NAME VARCHAR(200),
  GMT_CREATED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, DDL_SQL MEDIUMTEXT NOT NULL, META_INFO MEDIUMTEXT,
  VISIBILITY BIGINT NOT NULL, EXT TEXT, KEY (JOB_ID));
CREATE TABLE {BEAT_TABLE} (id INT PRIMARY KEY, tso BIGINT UNSIGNED NOT NULL);
"""


def configuration(servers: dict[str, MySqlServer], tables: Sequence[str] = ("accounts",)) -> str:
    """Return the cluster.yaml of the bank, for these of its logical tables."""
    nodes = "\n".join(
        f'  - {{source-id: {name}, server: "mysql://root@localhost/?socket={server.socket}"}}'
        for name, server in servers.items()
    )
    routes = "\n".join(
        f"  - {{schema-pattern: 'bank_*', table-pattern: '{table}_*', target-schema: bank, target-table: {table}}}"
        for table in tables
    )
    return (
        f"version: 1\nname: bank\nnodes:\n{nodes}\nroutes:\n{routes}\n"
        f"commit-tso: {{carrier: commit-table, commit-table: {COMMIT_TABLE}}}\n"
    )


class Timestamps:
    """Hands out commit TSOs: milliseconds << 22, and more if a millisecond sees several."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """Return a TSO that is greater than all before."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1_000_000 << 22)
            return self._last


@dataclass(frozen=True, slots=True)
class Move:
    """A change of one account's balance."""

    account: int
    amount: int

    @property
    def node(self) -> int:
        return self.account // ACCOUNTS


class Bank:
    """The coordinator of the bank's nodes; several threads may use it, each with connections of its own."""

    def __init__(self, servers: Sequence[MySqlServer]) -> None:
        self.servers = servers
        self.timestamps = Timestamps()
        self.noted = False
        self._transactions = 0
        self._markers = 0
        self._lock = threading.Lock()

    @contextmanager
    def sessions(self) -> Iterator["list[pymysql.Connection[Any]]"]:
        """Open a session on each node."""
        opened = [server.connect() for server in self.servers]
        try:
            yield opened
        finally:
            for session in opened:
                session.close()

    def open(self) -> None:
        """Create the tables, physical and logical, and the accounts, in one distributed transaction."""
        for number, server in enumerate(self.servers):
            server.execute(f"{_CDC} CREATE DATABASE bank_{number}")
        self._mark("CREATE_DATABASE", "bank", "CREATE DATABASE bank")
        self.create("accounts", _COLUMNS)
        with self.sessions() as sessions:
            rows = [
                ", ".join(f"({number * ACCOUNTS + i}, {BALANCE}, 0)" for i in range(ACCOUNTS))
                for number in range(len(self.servers))
            ]
            inserts = {n: f"INSERT INTO bank_{n}.accounts_{n} VALUES {values}" for n, values in enumerate(rows)}
            self.distributed(sessions, inserts)

    def create(self, table: str, columns: str) -> None:
        """Create a table on every node, and then the logical one."""
        for number, server in enumerate(self.servers):
            server.execute(f"CREATE TABLE bank_{number}.{table}_{number} {columns}")
        self.mark_table(table, columns)

    def mark_table(self, table: str, columns: str) -> None:
        """Create the logical table of those that the nodes have."""
        self._mark("CREATE_TABLE", table, f"CREATE TABLE {table} {columns}")

    def transfer(self, sessions: "Sequence[pymysql.Connection[Any]]", number: int, moves: Sequence[Move]) -> bool:
        """Move money in one transaction, distributed if several nodes have a part in it.

        Locks are taken in the order of accounts, so that no two transfers wait for each other. Returns False if a lock
        could not be had in time; then nothing has changed.
        """
        updates: dict[int, list[str]] = {}
        for move in sorted(moves, key=lambda move: move.account):
            updates.setdefault(move.node, []).append(self._update(move, number))
        changes = {node: "; ".join(statements) for node, statements in updates.items()}
        try:
            if len(changes) == 1:
                ((node, sql),) = changes.items()
                run(sessions[node], f"BEGIN; {sql}; COMMIT")
            else:
                self.distributed(sessions, changes)
        except pymysql.err.OperationalError as error:
            if error.args[0] not in (1205, 1213):  # a lock that took too long, a deadlock
                raise
            for session in sessions:
                run(session, "ROLLBACK")
            return False
        return True

    def distributed(self, sessions: "Sequence[pymysql.Connection[Any]]", changes: dict[int, str]) -> int:
        """Run a distributed transaction: `changes` are the statements by node. Returns its commit TSO."""
        with self._lock:
            self._transactions += 1
            gtrid = f"bank-{self._transactions:08d}".encode().hex()
        prepared: list[int] = []
        try:
            for node, sql in changes.items():
                xid = _xid(gtrid, node)
                run(sessions[node], f"XA START {xid}")
                try:
                    run(sessions[node], f"{sql}; XA END {xid}; XA PREPARE {xid}")
                except pymysql.err.MySQLError:
                    _roll_back(sessions[node], xid)
                    raise
                prepared.append(node)
        except pymysql.err.MySQLError:
            for node in prepared:
                run(sessions[node], f"XA ROLLBACK {_xid(gtrid, node)}")
            raise
        # Not before all are prepared: whatever commits on a node after this has seen all that it must come behind.
        tso = self.timestamps.next()
        for node in prepared:
            run(
                sessions[node],
                f"INSERT INTO {COMMIT_TABLE} VALUES (X'{gtrid}', {tso}); XA COMMIT {_xid(gtrid, node)}",
            )
        return tso

    def add_note(self, pause: float) -> None:
        """Add a column to the accounts while transfers run, and fill it from then on."""
        self.alter(ADD_NOTE, pause)
        self.noted = True

    def alter(self, change: str, pause: float) -> None:
        """Change the accounts while transfers run: node by node, `pause` seconds apart, then the marker."""
        for number, server in enumerate(self.servers):
            server.execute(f"ALTER TABLE bank_{number}.accounts_{number} {change}")
            time.sleep(pause)
        self._mark("ALTER_TABLE", "accounts", f"ALTER TABLE accounts {change}")

    def heartbeat(self) -> None:
        """Let each node's binlog show a new commit TSO: what came before need wait no longer."""
        with self.sessions() as sessions:
            beat = f"REPLACE INTO {BEAT_TABLE} VALUES (1, {self.timestamps.next()})"
            self.distributed(sessions, dict.fromkeys(range(len(sessions)), beat))

    def accounts(self) -> list[tuple[Any, ...]]:
        """Return the rows of all accounts, as the nodes have them."""
        return [
            row
            for number, server in enumerate(self.servers)
            for row in server.query(f"SELECT * FROM bank_{number}.accounts_{number} ORDER BY id")
        ]

    def _update(self, move: Move, number: int) -> str:
        note = f", note = 'transfer {number}'" if self.noted else ""
        return (
            f"UPDATE bank_{move.node}.accounts_{move.node} SET balance = balance + {move.amount}, transfer = {number}"
            f"{note} WHERE id = {move.account}"
        )

    def _mark(self, kind: str, name: str, sql: str) -> None:
        table = "NULL" if kind == "CREATE_DATABASE" else f"'{name}'"
        text = sql.replace("'", "''")
        self._markers += 1
        insert = (
            f"INSERT INTO {MARKER_TABLE} VALUES ({self._markers}, {self._markers}, '{kind}', 'bank', {table}, "
            f"'2026-01-01 00:00:00', '{text}', NULL, 1, '{{}}')"
        )
        with self.sessions() as sessions:
            self.distributed(sessions, dict.fromkeys(range(len(sessions)), insert))


def _xid(gtrid: str, node: int) -> str:
    return f"X'{gtrid}',X'{node + 1:02x}',1"


def _roll_back(session: "pymysql.Connection[Any]", xid: str) -> None:
    """Roll back a branch that has failed before it was prepared."""
    with suppress(pymysql.err.MySQLError):  # the failure may have ended it
        run(session, f"XA END {xid}")
    run(session, f"XA ROLLBACK {xid}")


def run(session: "pymysql.Connection[Any]", sql: str) -> None:
    """Run statements with ';' between them; raises the first error."""
    with session.cursor() as cursor:
        cursor.execute(sql)
        while cursor.nextset():
            pass
