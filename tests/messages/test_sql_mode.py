"""Kinds and tables of statements in sessions where "x" is a name and a backslash is no escape, as in all others.

One node runs the same statements twice: in a plain session on database `p`, and under ANSI_QUOTES and
NO_BACKSLASH_ESCAPES on database `q`. Whatever reads the merged log says the same of both.
"""

from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ReplayStopped
from binlog_merge.filters.events import EventRule
from binlog_merge.filters.filter import Filter, FilterSettings
from binlog_merge.log.log import Log
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.messages.read import Ddl, Reading
from binlog_merge.targets.server.statements import plan_statement
from binlog_merge.time_travel.selection import touched_by
from snapshot_store.history import SchemaHistory
from snapshot_store.model import Table
from tests.merge_e2e.test_ddl_session import merged, play
from tests.messages.messages import made
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

STATEMENTS = r"""
CREATE TABLE `orders` (`id` INT PRIMARY KEY, `a b` VARCHAR(20) DEFAULT '\\', `n` INT)
CREATE TABLE `copy` LIKE `orders`
ALTER TABLE `orders` ADD COLUMN `note` INT
ALTER TABLE `orders` ADD COLUMN `text` VARCHAR(9) DEFAULT '\\' COMMENT 'it''s \\\\ quoted', ADD `more` INT
ALTER TABLE `orders` DROP COLUMN `more`
ALTER TABLE `orders` MODIFY `n` BIGINT
ALTER TABLE `orders` CHANGE `n` `m` BIGINT
ALTER TABLE `orders` RENAME COLUMN `m` TO `n`
ALTER TABLE `orders` ALTER `text` SET DEFAULT '\\\\'
ALTER TABLE `orders` ADD UNIQUE KEY `k` (`n`)
CREATE INDEX `by text` ON `orders` (`text`)
ALTER TABLE `orders` RENAME INDEX `k` TO `l`
DROP INDEX `by text` ON `orders`
ALTER TABLE `orders` ADD CONSTRAINT `c` CHECK (`n` > 0 OR `text` = '\\')
ALTER TABLE `orders` COMMENT '\\'
RENAME TABLE `orders` TO `other`
ALTER TABLE `other` RENAME TO `orders`
TRUNCATE TABLE `copy`
DROP TABLE `copy`, `orders`
"""
FORMS = ("canal", "maxwell", "debezium", "simple", "open-protocol")
Told = list[tuple[Any, Any]]


def in_ansi(sql: str) -> str:
    return sql.replace("`", '"').replace("\\\\", "\\")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sql-mode") / "story"
    plain = STATEMENTS.strip().splitlines()
    story = ["CREATE DATABASE p", "CREATE DATABASE q", "USE p", *plain, "USE q"]
    story += ["SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", *map(in_ansi, plain)]
    with MySqlServer(tmp_path_factory.mktemp("node"), server_id=102) as node:
        merged(play(node, "; ".join(story), folder), "pessimistic")
    return folder / "out"


def halves(told: Told) -> tuple[Told, Told]:
    """Return what was told of each database's statements: first those of `p`, then as many of `q`."""
    texts = [value.get("sql") or value.get("ddl") or value.get("q") for _, value in told]
    begin = 1 + max(number for number, text in enumerate(texts) if "DATABASE" in text)
    middle = (begin + len(told)) // 2
    return told[begin:middle], told[middle:]


def texts_apart(value: Any) -> Any:
    """Return a message without what is the statement's own: its text, where it stands, when it ran."""
    own = ("sql", "ddl", "q", "ts", "ts_ms", "ts_us", "ts_ns", "gtid", "pos", "commitTs", "buildTs", "es", "id", "_id")
    own += ("tableID", "version", "tableVersion", "offset", "xid", "thread")
    if isinstance(value, dict):
        return {key: texts_apart(inner) for key, inner in value.items() if key not in own}
    if isinstance(value, list):
        return [texts_apart(inner) for inner in value]
    return value.replace('"q"', '"p"') if str(value).startswith('"') else "p" if value == "q" else value


@pytest.mark.parametrize("form", FORMS)
def test_messages_tell_the_same(log: Path, form: str) -> None:
    told = [(key, value) for name, key, value in made(log, form) if name == "ddl"]
    plain, ansi = halves(told)
    assert len(plain) == len(ansi) > 15
    for mine, theirs in zip(ansi, plain, strict=True):
        assert texts_apart(list(mine)) == texts_apart(list(theirs))


def statements(log: Path) -> tuple[list[StatementAt], list[StatementAt]]:
    binlog = Log(log)
    found = [piece for piece in segments(binlog, 1, binlog.last_rank) if isinstance(piece, StatementAt)]
    found = [piece for piece in found if "DATABASE" not in piece.statement.query.text]
    plain, ansi = ([p for p in found if p.statement.query.schema_text == name] for name in ("p", "q"))
    assert len(plain) == len(ansi) > 15
    return plain, ansi


def test_a_replay_with_a_filter_plans_the_same(log: Path) -> None:
    chosen = Filter(FilterSettings(rules=("p.o*", "q.o*")))
    plain, ansi = statements(log)
    for mine, theirs in zip(ansi, plain, strict=True):
        plans = [plan_statement(piece.statement, chosen) for piece in (mine, theirs)]
        told, wanted = ([[("p", table) for _, table in step.tables] for step in plan.steps] for plan in plans)
        assert (told, plans[0].is_global) == (wanted, plans[1].is_global), mine.statement.query.text
        assert len(plans[0].left_out) == len(plans[1].left_out)


def carried_out(piece: StatementAt, chosen: Filter) -> bool:
    """Return whether a replay carries a statement out, or part of it; or refuses to, as its target has no such rows."""
    try:
        return bool(plan_statement(piece.statement, chosen).steps)
    except ReplayStopped:
        return True


def test_messages_with_a_filter_tell_the_statements_that_a_replay_carries_out(log: Path) -> None:
    rules = [EventRule(["p.*"], ["truncate table"]), EventRule(["*.*"], ignore_sql=["ADD COLUMN"])]
    chosen = Filter(FilterSettings(rules=("p.*", "!p.other"), event_rules=rules))
    binlog = Log(log)
    told = [
        piece.text for piece in Reading(binlog, 1, binlog.last_rank, filter=chosen).pieces() if isinstance(piece, Ddl)
    ]
    pieces = [piece for piece in segments(binlog, 1, binlog.last_rank) if isinstance(piece, StatementAt)]
    texts = [piece.statement.text for piece in pieces if carried_out(piece, chosen)]
    assert told == texts and 5 < len(texts) < len(pieces) / 2
    assert not any("TRUNCATE" in text or "ADD COLUMN" in text for text in texts)


def test_an_undo_touches_the_same(log: Path) -> None:
    from snapshot_store.store.db import Store

    with Store.open(log / "schema.duckdb", True) as store:
        history: SchemaHistory = store.load_history()
    assert {v.table.name for v in history.versions if v.node is None and isinstance(v.table, Table)} > {"orders"}
    plain, ansi = statements(log)
    for name in ("orders", "copy", "other"):
        touched = [
            [bool(touched_by(piece, [_Named(database, name)])) for piece in found]  # type: ignore[list-item]
            for database, found in (("p", plain), ("q", ansi))
        ]
        assert touched[0] == touched[1]
        assert any(touched[0])


class _Named:
    """What `touched_by` asks of a table."""

    def __init__(self, schema: str, name: str) -> None:
        self.schema, self.name = schema, name
