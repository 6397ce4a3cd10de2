"""The record at the target: which transactions it has, and which DDL are running. A single session maintains it.

    replay_position   rank 90                 everything up to this rank is applied
    replay_worker     0: 92-140               ranks above it, as of the last publication;
                      1: 141-150  2: 151-160  ranks that sessions have committed since, each in a row of its own
    replay_ddl        91: step 0, ALTER …     DDL that were begun and are not done
    replay_skipped    17                      transactions that the user asked to skip

The union of these is what is applied, at any moment and wherever the replay was killed: a session's row is committed
with its data, and shortened only after the ranks it loses are published. The position's GTID and order key are those of
its rank, and move with it, in one transaction. A lock admits one replay at a time. If an earlier replay left sessions
in the middle of a COMMIT or an ALTER, their end is awaited before anything is read.
"""

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from binlog_merge.errors import ReplayStopped, TargetBusy
from binlog_merge.files.failpoint import failpoint
from binlog_merge.log.checkpoint import Checkpoint
from binlog_merge.log.rank_set import RankSet
from binlog_merge.targets.server.mysql import META_SCHEMA, NOTICE_SECONDS, MysqlTarget, Session, lock_name

RECORD_GONE: Final = (
    f"the schema {META_SCHEMA} says what the target has; without it a replay begins anew, and doubles what is there: "
    "restore the target with it, or empty the target, this schema too"
)
BOOTSTRAP: Final = "bootstrap"
"""The table of META_SCHEMA in which a bootstrap records how far it is."""
_LAST_NUMBER: Final = re.compile(r"\d+$")


class Asks(Protocol):
    """What runs queries on a server."""

    def ask(self, sql: str, arguments: Sequence[Any] = ...) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""


@dataclass(frozen=True, slots=True)
class BegunDdl:
    """The progress of a DDL: `step` parts are done; `intent` was begun when its tables had the fingerprint `before`."""

    step: int = 0
    intent: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a target has. `applied` are all ranks, from 1 on, that need not be applied.

    `place` is the position published last; what sessions have committed since is in `applied` only.
    """

    applied: RankSet
    begun: dict[int, BegunDdl]
    place: Checkpoint


class Ledger(Session):
    """The session that holds the replay's lock, maintains the position, and runs queries about the target.

    `unfinished`: also a target that a bootstrap has not made exact yet is written to.
    """

    def __init__(self, target: MysqlTarget, unfinished: bool = False) -> None:
        super().__init__(target)
        self._unfinished = unfinished
        self._place = Checkpoint(0)
        self._above = RankSet()
        self._held: list[int] = []

    def begin(self, wait_seconds: float = 0) -> Found | None:
        """Take the lock, and those of an earlier replay's sessions; return what the target has, None if no record.

        Raises ServerRefused, and TargetBusy if another replay is running, or sessions it left last `wait_seconds`.
        """
        self.open()
        if not self.lock(0, NOTICE_SECONDS):
            raise TargetBusy(
                f"another replay of this cluster is writing to {self.target.address}", remedy=self._holder(0)
            )
        if not self._unfinished:
            check_bootstrapped(self, self.target.cluster)
        self._prepare()
        self._wait_for_others(time.monotonic() + max(wait_seconds, NOTICE_SECONDS))
        return self._found()

    def take_over(self, applied: RankSet, place: Checkpoint, sessions: int) -> int:
        """Record `applied`, which is without a gap up to `place`, and give new rows to so many `sessions`.

        Returns the number that these sessions need for opening. Sessions of an earlier replay that lost its connection
        without noticing cannot open any more: until now their locks were held, and from now on the number differs.
        """
        cluster, above, number = self.target.cluster, applied - RankSet.upto(place.rank), secrets.randbits(48)
        self.run("BEGIN")
        self.run(
            f"REPLACE INTO {META_SCHEMA}.replay_position (cluster, `rank`, gtid, order_key) VALUES (%s, %s, %s, %s)",
            (cluster, place.rank, place.gtid, place.key),
        )
        self.run(f"DELETE FROM {META_SCHEMA}.replay_worker WHERE cluster = %s", (cluster,))
        # A DDL that was refused, and then skipped.
        self.run(f"DELETE FROM {META_SCHEMA}.replay_ddl WHERE cluster = %s AND `rank` <= %s", (cluster, place.rank))
        for worker in range(sessions + 1):
            self.run(
                f"INSERT INTO {META_SCHEMA}.replay_worker (cluster, worker, commits, ranks) VALUES (%s, %s, %s, %s)",
                (cluster, worker, number, "" if worker else str(above)),
            )
        self.run("COMMIT")
        failpoint("replay-taken-over")
        while self._held:
            self.ask("SELECT RELEASE_LOCK(%s)", (lock_name(cluster, self._held.pop()),))
        self._place, self._above = place, above
        return number

    def finish(self) -> None:
        """Release the locks for the next replay, and close."""
        self.ask("SELECT RELEASE_ALL_LOCKS()")
        self.close()

    def publish(self, applied: RankSet, place: Checkpoint) -> None:
        """Update the record; `place` is the position before the first gap."""
        above = applied - RankSet.upto(place.rank)
        if (place, above) == (self._place, self._above):
            return
        cluster = self.target.cluster
        self.run("BEGIN")
        changed = self.run(
            f"UPDATE {META_SCHEMA}.replay_position SET `rank` = %s, gtid = %s, order_key = %s "
            "WHERE cluster = %s AND `rank` = %s",
            (place.rank, place.gtid, place.key, cluster, self._place.rank),
        )
        if changed != 1 and place != self._place:
            self.run("ROLLBACK")
            raise ReplayStopped(
                f"the target's position is no longer {self._place.rank}: something else has moved it",
                remedy="look for what writes to the schema binlog_merge there, and run the replay again",
            )
        self.run(
            f"UPDATE {META_SCHEMA}.replay_worker SET ranks = %s WHERE cluster = %s AND worker = 0",
            (str(above), cluster),
        )
        self.run("COMMIT")
        self._place, self._above = place, above

    def _prepare(self) -> None:
        there = self.ask(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'replay_ddl'",
            (META_SCHEMA,),
        )
        if not there:
            for statement in _META_TABLES:
                self.run(statement)

    def _wait_for_others(self, until: float) -> None:
        """Wait until every session of an earlier replay has ended, with its transaction, and take its lock."""
        rows = self.ask(
            f"SELECT worker FROM {META_SCHEMA}.replay_worker WHERE cluster = %s AND worker > 0", (self.target.cluster,)
        )
        for (number,) in rows:
            if not self.lock(number, max(0.0, until - time.monotonic())):
                raise TargetBusy(
                    f"a session of an earlier replay is still at work on {self.target.address}",
                    remedy=f"wait for it to end, a DDL may take its time; {self._holder(number)}",
                )
            self._held.append(number)

    def _holder(self, number: int) -> str:
        """Return which session holds a lock, as text for a remedy."""
        found = self.ask(
            "SELECT id, user, host FROM information_schema.processlist WHERE id = IS_USED_LOCK(%s)",
            (lock_name(self.target.cluster, number),),
        )
        for session, user, host in found:
            return f"if that replay is gone for good, KILL {session} ({user}@{host}) on the server"
        return "or look for it in SHOW PROCESSLIST"

    def _found(self) -> Found | None:
        cluster = (self.target.cluster,)
        position = self.ask(
            f"SELECT `rank`, gtid, order_key FROM {META_SCHEMA}.replay_position WHERE cluster = %s", cluster
        )
        sessions = self.ask(f"SELECT ranks FROM {META_SCHEMA}.replay_worker WHERE cluster = %s", cluster)
        if bool(position) != bool(sessions):
            # They are written in one transaction.
            raise ReplayStopped(
                f"someone has emptied {META_SCHEMA}.{'replay_worker' if position else 'replay_position'}, which says "
                "with other tables what is applied",
                remedy=RECORD_GONE,
            )
        if not position:
            return None
        rank, gtid, key = position[0]
        applied = RankSet.upto(int(rank))
        for (ranks,) in sessions:
            applied |= RankSet.parse(ranks)
        begun = self.ask(
            f"SELECT `rank`, step, intent, before_intent FROM {META_SCHEMA}.replay_ddl WHERE cluster = %s", cluster
        )
        steps = {int(rank): BegunDdl(int(step), *rest) for rank, step, *rest in begun}
        return Found(applied, steps, _place(int(rank), gtid, key))


def check_bootstrapped(session: Asks, cluster: str) -> None:
    """Raise ReplayStopped if a bootstrap of the target has not come to its end: its rows are of different moments."""
    there = session.ask(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", (META_SCHEMA, BOOTSTRAP)
    )
    asked = f"SELECT 1 FROM {META_SCHEMA}.{BOOTSTRAP} WHERE cluster = %s AND NOT exact"
    if there and session.ask(asked, (cluster,)):
        raise ReplayStopped(
            "the target is being bootstrapped: its rows are of different moments, and no position says what they are",
            remedy="run `binlog-merge bootstrap` again, until it has come to its end; then replay goes on",
        )


def _place(rank: int, gtid: str | None, key: str | None) -> Checkpoint:
    """Return a recorded position. Older replays sometimes raised the rank alone: then the key is that of the GTID."""
    number = _LAST_NUMBER.search(gtid or "")
    return Checkpoint(min(rank, int(number[0])) if number else rank, gtid, key)


_META_TABLES: Final = (
    f"CREATE DATABASE IF NOT EXISTS {META_SCHEMA}",
    f"""CREATE TABLE IF NOT EXISTS {META_SCHEMA}.replay_position (
  cluster CHAR(36) NOT NULL PRIMARY KEY, `rank` BIGINT UNSIGNED NOT NULL, gtid VARCHAR(80), order_key CHAR(54)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4""",
    f"""CREATE TABLE IF NOT EXISTS {META_SCHEMA}.replay_worker (
  cluster CHAR(36) NOT NULL, worker INT UNSIGNED NOT NULL, commits BIGINT UNSIGNED NOT NULL DEFAULT 0,
  ranks LONGTEXT NOT NULL, PRIMARY KEY (cluster, worker)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4""",
    f"""CREATE TABLE IF NOT EXISTS {META_SCHEMA}.replay_skipped (
  cluster CHAR(36) NOT NULL, `rank` BIGINT UNSIGNED NOT NULL, gtid VARCHAR(80) NOT NULL,
  skipped_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (cluster, `rank`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4""",
    f"""CREATE TABLE IF NOT EXISTS {META_SCHEMA}.replay_ddl (
  cluster CHAR(36) NOT NULL, `rank` BIGINT UNSIGNED NOT NULL, step INT UNSIGNED NOT NULL DEFAULT 0,
  intent LONGTEXT, before_intent LONGTEXT, PRIMARY KEY (cluster, `rank`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4""",
)
