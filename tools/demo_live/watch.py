"""What a reader of the replica sees: snapshots, each judged by itself, and what they say together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pymysql

from tools.demo_live.bank import ACCOUNTS, NODES, TOTAL
from tools.mysql_server import MySqlServer

_DEFINITION_CHANGED: Final = 1412


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All accounts of the replica at one moment: how many, their total, the columns, and the transfers seen in them.

    `at` is when it was begun, by time.monotonic().
    """

    at: float
    accounts: int
    total: int
    columns: tuple[str, ...]
    transfers: frozenset[int]

    @property
    def wrong(self) -> str | None:
        """Return what cannot be in any consistent state of the bank; None if nothing is wrong."""
        if self.accounts not in (0, ACCOUNTS * len(NODES)):
            return f"{self.accounts} accounts, should be {ACCOUNTS * len(NODES)}"
        if self.accounts and self.total != TOTAL:
            return f"the total is {self.total:,}, should be {TOTAL:,}"
        return None

    def lag(self, committed_at: Callable[[int], float | None]) -> float | None:
        """Return the age in seconds of the newest transfer in it; None if it has none."""
        times = [time for number in self.transfers if (time := committed_at(number)) is not None]
        return max(0.0, self.at - max(times)) if times else None


def snapshot_of(server: MySqlServer, now: float) -> Snapshot | None:
    """Read all accounts of a replica in one consistent snapshot; None if they cannot be read just now.

    That is so before the table is there, and at the very moment of a DDL.
    """
    session = server.connect()
    try:
        with session.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'bank'")
            if cursor.fetchone() == (0,):
                return None
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT * FROM bank.accounts")
            columns = tuple(column[0] for column in cursor.description)
            rows = cursor.fetchall()
            cursor.execute("COMMIT")
    except pymysql.err.OperationalError as error:
        if error.args[0] != _DEFINITION_CHANGED:
            raise
        return None
    finally:
        session.close()
    balance, transfer = columns.index("balance"), columns.index("transfer")
    transfers = frozenset(int(row[transfer]) for row in rows) - {0}
    return Snapshot(now, len(rows), sum(int(row[balance]) for row in rows), columns, transfers)


def replica_error(server: MySqlServer) -> str | None:
    """Return the error on which a replica has stopped, None if it runs."""
    session = server.connect()
    try:
        with session.cursor() as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            row: Sequence[Any] = cursor.fetchone() or ()
            status = dict(zip((column[0] for column in cursor.description), row, strict=True))
    finally:
        session.close()
    return str(status.get("Last_SQL_Error") or "") or None


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
