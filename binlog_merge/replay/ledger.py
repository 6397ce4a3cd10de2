"""What the target says of itself: which transactions it has, what DDL is under way. One session keeps the books.

    replay_position   rank 90                 everything up to here is applied
    replay_worker     0: 92-140               and so much above it, as far as the books have been brought up to date;
                      1: 141-150  2: 151-160  what sessions have committed since, each with its own rows
    replay_ddl        91: step 0, ALTER …     what was begun and is not done
    replay_skipped    17                      what was left out by order of the user

All that is applied is their union, at any moment and wherever the replay was killed: a session's row is committed with
its data, and shortened only when what it loses stands above it. The lock lets in one replay at a time; sessions that an
earlier one left behind, in the middle of a COMMIT or an ALTER, are waited for before anything is read.
"""

import time
from dataclasses import dataclass
from typing import Final

from binlog_merge.errors import ReplayStopped, TargetBusy
from binlog_merge.replay.mysql import META_SCHEMA, MysqlTarget, Session, lock_name
from binlog_merge.replay.progress import RankSet

RECORD_GONE: Final = (
    f"the schema {META_SCHEMA} says what the target has; without it a replay begins anew, and doubles what is there: "
    "restore the target with it, or empty the target, this schema too"
)
_NOTICE_SECONDS: Final = 1.0
"""How long a server may take to notice that a session is gone."""


@dataclass(frozen=True, slots=True)
class BegunDdl:
    """How far a DDL has come: `step` parts are done; `intent` was begun, when its tables were as `before` says."""

    step: int = 0
    intent: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a target has. `applied` holds everything from rank 1 on that needs no applying.

    `key` is the order key of the last of it before the first gap, where that is known.
    """

    applied: RankSet
    begun: dict[int, BegunDdl]
    key: str | None = None


class Ledger(Session):
    """The session that holds the replay's lock, keeps the position, and answers questions about the target."""

    def __init__(self, target: MysqlTarget) -> None:
        super().__init__(target)
        self._low = 0
        self._above = RankSet()

    def begin(self, sessions: int, wait_seconds: float = 0) -> Found | None:
        """Take the lock, give `sessions` sessions their rows, and return what the target has; None if nothing.

        Raises ServerRefused, and TargetBusy if another replay is there, or what it left behind for `wait_seconds`.
        """
        self.open()
        if not self.lock(0, _NOTICE_SECONDS):
            raise TargetBusy(f"another replay of this cluster is writing to {self.target.address}")
        self._prepare()
        self._wait_for_others(time.monotonic() + max(wait_seconds, _NOTICE_SECONDS))
        found = self._found()
        if found is not None:
            self._take_over(found.applied, sessions)
        return found

    def start_at(self, rank: int, sessions: int) -> Found:
        """Record a first position: `rank` transactions are taken as applied."""
        found = Found(RankSet.upto(rank), {})
        self._take_over(found.applied, sessions)
        return found

    def finish(self) -> None:
        """Let the next replay in, and close."""
        self.ask("SELECT RELEASE_ALL_LOCKS()")
        self.close()

    def publish(self, applied: RankSet, gtid: str | None, key: str | None) -> None:
        """Bring the books up to date; `gtid` and `key` are those of the last rank before the first gap."""
        low = applied.low
        above = applied - RankSet.upto(low)
        if (low, above) == (self._low, self._above):
            return
        cluster = self.target.cluster
        self.run("BEGIN")
        changed = self.run(
            f"UPDATE {META_SCHEMA}.replay_position SET `rank` = %s, gtid = COALESCE(%s, gtid), "
            "order_key = IF(%s, order_key, %s) WHERE cluster = %s AND `rank` = %s",
            (low, gtid, low == self._low, key, cluster, self._low),
        )
        if changed != 1 and low != self._low:
            self.run("ROLLBACK")
            raise ReplayStopped(f"the target's position is no longer {self._low}: something else has moved it")
        self.run(
            f"UPDATE {META_SCHEMA}.replay_worker SET ranks = %s WHERE cluster = %s AND worker = 0",
            (str(above), cluster),
        )
        self.run("COMMIT")
        self._low, self._above = low, above

    def _prepare(self) -> None:
        there = self.ask(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'replay_ddl'",
            (META_SCHEMA,),
        )
        if not there:
            for statement in _META_TABLES:
                self.run(statement)

    def _wait_for_others(self, until: float) -> None:
        """Wait until every session of an earlier replay has ended, and what it was in with it."""
        rows = self.ask(
            f"SELECT worker FROM {META_SCHEMA}.replay_worker WHERE cluster = %s AND worker > 0", (self.target.cluster,)
        )
        for (number,) in rows:
            if not self.lock(number, max(0.0, until - time.monotonic())):
                raise TargetBusy(
                    f"a session of an earlier replay is still at work on {self.target.address}",
                    remedy="wait for it to end, a DDL may take its time; or look for it in SHOW PROCESSLIST",
                )
            self.ask("SELECT RELEASE_LOCK(%s)", (lock_name(self.target.cluster, number),))

    def _found(self) -> Found | None:
        cluster = (self.target.cluster,)
        position = self.ask(f"SELECT `rank`, order_key FROM {META_SCHEMA}.replay_position WHERE cluster = %s", cluster)
        sessions = self.ask(f"SELECT ranks FROM {META_SCHEMA}.replay_worker WHERE cluster = %s", cluster)
        if bool(position) != bool(sessions):
            # They come in one transaction.
            raise ReplayStopped(
                f"someone has emptied {META_SCHEMA}.{'replay_worker' if position else 'replay_position'}, which says "
                "with other tables what is applied",
                remedy=RECORD_GONE,
            )
        if not position:
            return None
        rank, key = position[0]
        applied = RankSet.upto(int(rank))
        for (ranks,) in sessions:
            applied |= RankSet.parse(ranks)
        begun = self.ask(
            f"SELECT `rank`, step, intent, before_intent FROM {META_SCHEMA}.replay_ddl WHERE cluster = %s", cluster
        )
        steps = {int(rank): BegunDdl(int(step), *told) for rank, step, *told in begun}
        return Found(applied, steps, key if applied.low == rank else None)

    def _take_over(self, applied: RankSet, sessions: int) -> None:
        """Put all that is applied into the position, and give the sessions new rows."""
        cluster, low = self.target.cluster, applied.low
        above = applied - RankSet.upto(low)
        self.run("BEGIN")
        self.run(
            f"INSERT INTO {META_SCHEMA}.replay_position (cluster, `rank`) VALUES (%s, %s) "
            "ON DUPLICATE KEY UPDATE `rank` = %s",
            (cluster, low, low),
        )
        self.run(f"DELETE FROM {META_SCHEMA}.replay_worker WHERE cluster = %s", (cluster,))
        # A DDL that was refused, and then left out.
        self.run(f"DELETE FROM {META_SCHEMA}.replay_ddl WHERE cluster = %s AND `rank` <= %s", (cluster, low))
        for number in range(sessions + 1):
            self.run(
                f"INSERT INTO {META_SCHEMA}.replay_worker (cluster, worker, ranks) VALUES (%s, %s, %s)",
                (cluster, number, "" if number else str(above)),
            )
        self.run("COMMIT")
        self._low, self._above = low, above


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
