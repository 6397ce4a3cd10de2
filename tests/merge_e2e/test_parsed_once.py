"""A DDL is parsed once: its value travels from its event, or its marker, to the schema store."""

from collections import Counter
from pathlib import Path

import pytest

from snapshot_store.ddl.parse import statement
from snapshot_store.ddl.statements import Statement
from snapshot_store.mysql.sql.cursor import Cursor
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge


def test_each_statement_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[str] = Counter()
    read = statement._statement

    def counting(cursor: Cursor) -> Statement:
        parsed[cursor.sql] += 1
        return read(cursor)

    monkeypatch.setattr(statement, "_statement", counting)
    statement.parse_statement.cache_clear()
    merge(case_named("seed-add-column") / "cluster.yaml", tmp_path / "out")
    # Eight physical databases on two nodes run the statement in one session, and a marker announces it in another. The
    # databases that its event lists in the log are those of the marker's.
    assert parsed["ALTER TABLE t1 ADD COLUMN ADDR VARCHAR(60) DEFAULT NULL"] == 2
