"""How far a bootstrap is, as its target has it: committed together with the rows.

bootstrap         the stage, and whether it is over (`exact`): before that nobody may take the target's position
                  for what its rows are
bootstrap_shard   up to which key each physical table is copied
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from binlog_merge.bootstrap.values import EXACT, Progress, Shard, Stage
from binlog_merge.targets.server.ledger import BOOTSTRAP

SHARDS: Final = f"{BOOTSTRAP}_shard"


@dataclass(frozen=True)
class Record:
    """The two tables in a target; `run` and `ask` take SQL with %s, `meta` is the quoted name of their schema."""

    run: Callable[[str, Sequence[Any]], object]
    ask: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
    meta: str
    cluster: str
    text: str
    name: str
    """The type of long texts, and of names."""
    keyed: bool = True
    """DuckDB does not take a key that is removed and inserted in one transaction."""

    def create(self) -> None:
        """Create the tables if they do not exist."""
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self.meta}", ())
        self.run(
            f"CREATE TABLE IF NOT EXISTS {self.meta}.{BOOTSTRAP} (cluster {self.name} NOT NULL, "
            f"exact BOOLEAN NOT NULL, stage {self.text} NOT NULL{', PRIMARY KEY (cluster)' if self.keyed else ''})",
            (),
        )
        key = ", PRIMARY KEY (cluster, node, db, tbl)" if self.keyed else ""
        names = ", ".join(f"{column} {self.name} NOT NULL" for column in ("cluster", "node", "db", "tbl"))
        self.run(
            f"CREATE TABLE IF NOT EXISTS {self.meta}.{SHARDS} ({names}, copied {self.text}, done BOOLEAN NOT NULL, "
            f"copied_rows BIGINT NOT NULL{key})",
            (),
        )

    def stage(self) -> Stage | None:
        """Return the stage, None if nothing was begun."""
        rows = self.ask(f"SELECT stage FROM {self.meta}.{BOOTSTRAP} WHERE cluster = %s", (self.cluster,))
        return Stage.from_dict(json.loads(rows[0][0])) if rows else None

    def write(self, stage: Stage) -> None:
        """Record a stage, in the open transaction."""
        self.run(f"DELETE FROM {self.meta}.{BOOTSTRAP} WHERE cluster = %s", (self.cluster,))
        self.run(
            f"INSERT INTO {self.meta}.{BOOTSTRAP} (cluster, exact, stage) VALUES (%s, %s, %s)",
            (self.cluster, stage.phase == EXACT, json.dumps(stage.to_dict())),
        )

    def progress(self) -> dict[Shard, Progress]:
        """Return how far the shards are copied."""
        rows = self.ask(
            f"SELECT node, db, tbl, copied, done, copied_rows FROM {self.meta}.{SHARDS} WHERE cluster = %s",
            (self.cluster,),
        )
        return {
            Shard(node, schema, table): Progress(
                None if after is None else tuple(json.loads(after)), bool(done), int(count)
            )
            for node, schema, table, after, done, count in rows
        }

    def copied(self, shard: Shard, progress: Progress) -> None:
        """Record how far a shard is copied, in the open transaction."""
        key = (self.cluster, *shard)
        self.run(
            f"DELETE FROM {self.meta}.{SHARDS} WHERE cluster = %s AND node = %s AND db = %s AND tbl = %s",
            key,
        )
        after = None if progress.after is None else json.dumps(progress.after)
        self.run(
            f"INSERT INTO {self.meta}.{SHARDS} (cluster, node, db, tbl, copied, done, copied_rows) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (*key, after, progress.done, progress.rows),
        )

    def forget(self) -> None:
        """Forget how far shards are copied, in the open transaction: a new round begins."""
        self.run(f"DELETE FROM {self.meta}.{SHARDS} WHERE cluster = %s", (self.cluster,))
