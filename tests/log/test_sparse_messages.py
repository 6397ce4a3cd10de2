"""The sparse index changes no message: of a table, statements come, too, with what they make of it."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge import changes
from binlog_merge.log import key_index
from binlog_merge.log.log import Log
from binlog_merge.log.question import Question, select
from binlog_merge.log.read import batches
from binlog_merge.messages.message import format_of, reading_of
from binlog_merge.messages.read import Ddl, placing_of
from tests.effort import seed_of_search
from tests.log.test_sparse import NODE, TABLE, _small, merged, question, unindexed  # noqa: F401 (fixtures)
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.targets.as_merged import run_session

FORMS = (("debezium", {"provide.transaction.metadata": "true"}), ("canal", {"enable-tidb-extension": "true"}))


def told(log: Path, form: str, options: dict[str, str], table: str = TABLE, **asked: Any) -> list[Any]:
    """Return what the messages of a table are, with key and versions of those of statements."""

    def made() -> Iterator[Any]:
        maker = format_of(form, options)
        log_ = Log(log)
        reading = reading_of(log_, select(log_, Question(table, operations=asked.pop("op", None), **asked)))
        reading.placing = placing_of(maker)
        for piece in reading.pieces():
            if isinstance(piece, Ddl):
                yield piece.key, piece.versions, [message.value for message in maker.ddl(piece, 0)]
                continue
            for rows in piece.tables:
                yield from (message.value for message in maker.before(rows))
                yield from maker.rows(rows, 0).values.to_pylist()

    return list(made())


@pytest.mark.heavy
def test_no_message_changes(merged: Path, unindexed: Callable[[Callable[[], Any]], Any]) -> None:  # noqa: F811
    r = random.Random(seed_of_search())
    binlog = Log(merged)
    known = [row for batch in batches(binlog, select(binlog, Question(TABLE))) for row in batch.to_pylist()]
    for number in range(4):
        asked = question(r, known, binlog.last_rank, binlog.cluster_uuid) if number else {"where": "id = -77"}
        form = FORMS[number % 2]
        expected = unindexed(lambda asked=asked, form=form: told(merged, *form, **asked))
        assert told(merged, *form, **asked) == told(merged, *form, **asked) == expected, asked
    assert len(told(merged, *FORMS[1], where="id = -77")) == 2


def test_only_statements_are_read_of_what_has_no_row_with_a_key(
    merged: Path, monkeypatch: pytest.MonkeyPatch,  # noqa: F811
) -> None:  # fmt: skip
    told(merged, *FORMS[0], where="id = -77")
    read: list[int] = []
    whole = key_index.file_segments
    monkeypatch.setattr(
        key_index, "file_segments",
        lambda binlog, file, *ranks: read.append(ranks[1] - ranks[0] + 1) or whole(binlog, file, *ranks),
    )  # fmt: skip
    assert len(told(merged, *FORMS[1], where="id = -77")) == 2
    assert sum(read) < Log(merged).last_rank / 5


STATEMENTS = """CREATE TABLE n (id INT PRIMARY KEY, v INT);
CREATE TABLE other (id INT PRIMARY KEY);
INSERT INTO n VALUES (1, 1);
INSERT INTO other VALUES (1);
ALTER TABLE n ADD COLUMN x INT;
INSERT INTO other VALUES (2);
ALTER TABLE n DROP COLUMN x;
INSERT INTO other VALUES (3);
INSERT INTO other VALUES (4);
ALTER TABLE n ADD COLUMN x INT;
INSERT INTO other VALUES (5);
CREATE VIEW w AS SELECT 1 FROM n;
INSERT INTO n VALUES (5, 5, 5);
INSERT INTO other VALUES (6);
ALTER TABLE n DROP COLUMN x;"""


@pytest.mark.mysql
def test_a_statement_makes_the_same_versions_wherever_reading_begins(
    mysql_server: MySqlServer, tmp_path: Path, unindexed: Callable[[Callable[[], Any]], Any],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A chunk is a transaction here; the same text stands in the log twice, and is skipped to."""
    monkeypatch.setattr("binlog_merge.log.index.CHUNK", 1)
    run_session(mysql_server, STATEMENTS, "d")
    for file in mysql_server.binlog_files():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "cluster.yaml").write_text(NODE)
    merge(tmp_path / "cluster.yaml", tmp_path / "out")
    binlog = Log(tmp_path / "out")
    whole = unindexed(lambda: told(tmp_path / "out", *FORMS[1], table="d.n"))
    made = [each for each in whole if isinstance(each, tuple)]
    assert len(made) >= 5 and len({key for key, *_ in made}) == len(made)
    for first in range(1, binlog.last_rank + 1, 2):
        asked = {"table": "d.n", "where": "id = 5", "start": f"{binlog.cluster_uuid}:{first}"}
        found = told(tmp_path / "out", *FORMS[1], **asked)
        statements = [each for each in found if isinstance(each, tuple)]
        assert statements == made[len(made) - len(statements) :], first
        assert found == unindexed(lambda asked=asked: told(tmp_path / "out", *FORMS[1], **asked)), first
    for pattern, most in (("d.oth*", 6), ("d.*", 8)):
        rows = lambda pattern=pattern: changes(tmp_path / "out", pattern).read_all()  # noqa: E731
        assert rows() == unindexed(rows) and len(rows()) == most
