"""The life of a row whose key gets another value by an ALTER: where it ends is said, on both sides."""

from pathlib import Path

import pytest

from binlog_merge.ask.life import Change, Ddl, life_of
from tests.mysql_server import MySqlServer
from tests.replay.as_merged import run_session
from tests.time_travel.one_server import merged_of

STATEMENTS = """
CREATE TABLE b (k BINARY(4) PRIMARY KEY, v INT);
INSERT INTO b VALUES ('a', 1), ('b', 1);
UPDATE b SET v = 2 WHERE k LIKE 'a%';
DELETE FROM b WHERE k LIKE 'b%';
ALTER TABLE b MODIFY k BINARY(6);
UPDATE b SET v = 3;
CREATE TABLE w (k INT PRIMARY KEY, v INT);
INSERT INTO w VALUES (1, 1);
ALTER TABLE w MODIFY k BIGINT;
ALTER TABLE w MODIFY v BIGINT;
UPDATE w SET v = 2
"""


@pytest.mark.mysql
def test_where_a_life_is_not_followed_is_said(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, STATEMENTS, "d")
    log = merged_of(mysql_server, tmp_path)

    def lived(table: str, key: str) -> tuple[list[str], str]:
        life = life_of(log, ("d", table), {"k": key})
        kinds = [item.record["op"] if isinstance(item, Change) else "ddl" for item in life.items]
        assert all(isinstance(item, Change | Ddl) for item in life.items)
        return kinds, " ".join(life.left_out)

    kinds, left_out = lived("b", "0x61000000")
    assert kinds == ["insert", "update", "ddl"]
    assert f"{log.cluster_uuid}:6 makes other values of the key, k from binary(4) to binary(6): " in left_out
    assert "what the row does from there on is under another key" in left_out
    kinds, left_out = lived("b", "0x610000000000")
    assert kinds == ["update"] and "what the row does until there is under another key" in left_out
    assert lived("b", "0x62000000") == (["insert", "delete"], "")  # whose life had ended
    assert lived("w", "1") == (["insert", "ddl", "ddl", "update"], "")
