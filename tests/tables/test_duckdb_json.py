"""JSON differences whose documents a log does not hold: a DuckDB file has them, and ends with a server's text."""

from pathlib import Path

import duckdb
import pytest

from binlog_merge.errors import ConversionFailed
from binlog_merge.filters.filter import ColumnSelector, Filter, FilterSettings
from binlog_merge.log.segments import segments
from tests.mysql_server import MySqlServer
from tests.tables.test_duckdb import loaded, tables_of
from tests.tables.test_duckdb_ddl import replayed
from tests.targets.as_merged import as_merged, run_session

DIFFERENCES = """
SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL;
CREATE TABLE j (id INT PRIMARY KEY, j JSON, k JSON, v INT);
INSERT INTO j VALUES (1, '{"a": 1, "b": [1,2,3], "c": "long long long long", "dec": 0, "bb": 1.10, "e": 1e100}', '[1]',
  1),
  (2, '{"d": 1.5, "a": 1}', NULL, 2), (5, '{"a": 1, "b": [1,2,3]}', '{"a": 1, "b": "xxxxxxxxxxxxx"}', 4);
UPDATE j SET j = JSON_SET(j, '$.a', 5);
UPDATE j SET j = JSON_REPLACE(j, '$.b[1]', 'x') WHERE id = 1;
UPDATE j SET j = JSON_SET(j, '$.dec', CAST(1.50 AS DECIMAL(10,2)), '$.at', CAST('2024-01-01 10:00:00' AS DATETIME))
  WHERE id = 1;
UPDATE j SET id = 7 WHERE id = 5;
UPDATE j SET j = JSON_REMOVE(j, '$.b[0]'), k = JSON_SET(k, '$.c', 'y') WHERE id = 7;
DELETE FROM j WHERE id = 2;
INSERT INTO j VALUES (2, '{"a": "other", "b": [1,2,3,4,5]}', NULL, 2);
UPDATE j SET j = JSON_SET(j, '$.b[0]', 9, '$.zz', TRUE, '$.a', NULL) WHERE id = 2;
ALTER TABLE j ADD w INT DEFAULT 1;
UPDATE j SET j = JSON_SET(j, '$.b[0]', 100) WHERE id = 2;
UPDATE j SET j = JSON_REMOVE(j, '$.e'), k = JSON_ARRAY_APPEND(k, '$', JSON_OBJECT('a', x'ff00')) WHERE id = 1;
UPDATE j SET j = JSON_SET(j, '$.b[1]', 'new element', '$.dec', 2.250) WHERE id = 1;
SET binlog_row_image = NOBLOB;
UPDATE j SET j = JSON_SET(j, '$.b[1]', 'q') WHERE id = 1;
SET binlog_row_image = FULL;
UPDATE j SET j = JSON_SET(j, '$.b[1]', 'r') WHERE id = 1;
CREATE TABLE texts (id INT PRIMARY KEY, j JSON);
INSERT INTO texts VALUES (1, '{"a": 1.10, "b": 1.0, "c": 1e100, "e": -0.0, "f": 0.1, "g": 1e-7,
  "d": 12345678901234567890}'),
  (2, JSON_ARRAY(CAST(1.10 AS DECIMAL(10,2)), CAST('2024-01-01' AS DATE), 1.5e0));
ALTER TABLE texts MODIFY j LONGTEXT;
"""


@pytest.mark.mysql
def test_documents_are_the_servers(mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed(mysql_server, tmp_path, DIFFERENCES)
    # Again with each transaction in a segment of its own: what was before is in the file, not in the segment.
    binlog, whole = as_merged(mysql_server, tmp_path / "again"), tables_of(tmp_path / "file.db")
    for rank in range(1, binlog.last_rank + 1):
        loaded(binlog, tmp_path / "steps.db", last_rank=rank)
    assert tables_of(tmp_path / "steps.db") == whole
    assert sum(1 for _ in segments(binlog)) < binlog.last_rank


LITTLE = """
SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL;
CREATE TABLE j (id INT PRIMARY KEY, j JSON);
INSERT INTO j VALUES (1, '{"a": 1, "b": [1, 2, 3], "c": "long long long long long"}');
UPDATE j SET j = JSON_SET(j, '$.a', 5);
"""


@pytest.mark.mysql
def test_a_document_that_nobody_has_stops_it(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, LITTLE, "one")
    binlog, path = as_merged(mysql_server, tmp_path / "merged"), tmp_path / "file.db"
    loaded(binlog, path, last_rank=3)
    with duckdb.connect(str(path)) as connection:
        connection.execute("DELETE FROM one.j")
    with pytest.raises(ConversionFailed, match="the value before is not there") as caught:
        loaded(binlog, path)
    assert caught.value.position
    without = Filter(FilterSettings(column_selectors=[ColumnSelector(["one.j"], ["id"])]))
    loaded(binlog, tmp_path / "ids.db", filter=without)
    assert tables_of(tmp_path / "ids.db")["one", "j"] == [["id"], [(1,)]]
