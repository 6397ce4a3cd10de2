"""The life of a row whose key gets another value by an ALTER: it is followed, or it is said where it is not."""

from pathlib import Path

import pytest

from binlog_merge.ask.life import Change, life_of
from tests.mysql_server import MySqlServer
from tests.targets.as_merged import run_session
from tests.time_travel.one_server import merged_of

STATEMENTS = """
CREATE TABLE b (k BINARY(4) PRIMARY KEY, v INT);
INSERT INTO b VALUES ('a', 1), ('b', 1), ('c', 1), ('d', 1);
UPDATE b SET v = 2 WHERE k LIKE 'a%';
DELETE FROM b WHERE k LIKE 'b%';
UPDATE b SET k = 'e' WHERE k LIKE 'd%';
ALTER TABLE b MODIFY k BINARY(6);
INSERT INTO b VALUES ('b', 2);
UPDATE b SET v = 3;
ALTER TABLE b MODIFY k BINARY(8), COMMENT 'longer';
ALTER TABLE b CHANGE k l VARBINARY(9), RENAME TO c;
UPDATE c SET v = 4;
UPDATE c SET l = 'f' WHERE l LIKE 'e%';
DELETE FROM c WHERE l LIKE 'c%';
CREATE TABLE w (k INT PRIMARY KEY, v INT);
INSERT INTO w VALUES (1, 1);
ALTER TABLE w MODIFY k BIGINT;
ALTER TABLE w MODIFY v BIGINT;
UPDATE w SET v = 2;
CREATE TABLE d (k DATETIME, n DECIMAL(6,2), v INT, PRIMARY KEY (k, n));
INSERT INTO d VALUES ('2024-01-01 00:00:00', 1, 1), ('2024-01-02 10:00:00', 1, 1);
DELETE FROM d WHERE k = '2024-01-01 00:00:00';
INSERT INTO d VALUES ('2024-01-01 11:00:00', 1.25, 1);
ALTER TABLE d MODIFY k DATE, MODIFY n DECIMAL(8,3);
UPDATE d SET v = 2;
SET time_zone = '+01:00';
CREATE TABLE m (k TIMESTAMP PRIMARY KEY, v INT);
INSERT INTO m VALUES ('2024-01-01 10:00:00', 1), ('2024-01-01 11:00:00', 1), ('2024-01-01 12:00:00', 1);
ALTER TABLE m MODIFY k DATETIME;
UPDATE m SET v = HOUR(k);
CREATE TABLE y (k CHAR(4) CHARACTER SET latin1 PRIMARY KEY, v INT);
INSERT INTO y VALUES ('ab', 1);
ALTER TABLE y MODIFY k BINARY(4), ADD w INT FIRST;
UPDATE y SET v = 2
"""


@pytest.mark.mysql
def test_a_life_is_followed_through_alters_of_its_key(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, STATEMENTS, "d")
    log = merged_of(mysql_server, tmp_path)

    def lived(table: str, **key: str) -> list[str]:
        life = life_of(log, ("d", table), key)
        assert life.doubts == ()
        kinds = [item.record["op"] if isinstance(item, Change) else "ddl" for item in life.items]
        return [*kinds, *(f"unknown {'after' if 'from there on' in words else 'before'}" for words in life.left_out)]

    for key in ("0x61000000", "0x610000000000", "0x6100000000000000"):
        assert lived("c", l=key) == ["insert", "update", "ddl", "update", "ddl", "ddl", "ddl", "update"]
    assert lived("c", l="0x62000000") == ["insert", "delete"]
    assert lived("c", l="0x620000000000") == ["insert", "update", "ddl", "ddl", "ddl", "update"]  # another row
    assert lived("c", l="0x63000000") == ["insert", "ddl", "update", "ddl", "ddl", "ddl", "update", "delete"]
    for key in ("0x64000000", "0x66"):
        assert lived("c", l=key) == ["insert", "update", "ddl", "update", "ddl", "ddl", "ddl", "update", "update"]

    assert lived("w", k="1") == ["insert", "ddl", "ddl", "update"]

    assert lived("d", k="2024-01-01 00:00:00", n="1.00") == ["insert", "delete"]
    assert lived("d", k="2024-01-02 10:00:00", n="1.00") == ["insert", "ddl", "update"]
    # Many moments become this day: which of them it was is not known.
    assert lived("d", k="2024-01-01", n="1.250") == ["update", "unknown before"]

    assert lived("m", k="2024-01-01 09:00:00") == ["insert", "ddl", "update"]
    assert lived("m", k="2024-01-01 12:00:00") == ["insert", "ddl", "update"]
    assert lived("m", k="2024-01-01 10:00:00") == ["insert", "insert", "ddl", "update", "update"]  # two rows had it

    # Whether the spaces that pad a CHAR become part of the value depends on how the server carried out the ALTER.
    assert lived("y", k="ab") == ["insert", "ddl", "unknown after"]
    (words,) = life_of(log, ("d", "y"), {"k": "ab"}).left_out
    assert "makes other values of the key, k from char(4)" in words and "under another key" in words
