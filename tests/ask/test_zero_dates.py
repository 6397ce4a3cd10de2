"""Dates that no calendar has, where dates have types: a rule for each column, in every reader."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

import binlog_merge
from binlog_merge.binlog.temporal import ZeroDates
from binlog_merge.cli import main
from binlog_merge.errors import ConfigError, ConversionFailed
from binlog_merge.log.log import Log
from binlog_merge.log.question import Selection
from binlog_merge.log.read import batches
from binlog_merge.spark.source_options import Options, spark_schema
from tests.mysql_server import MySqlServer
from tests.targets.as_merged import run_session
from tests.time_travel.one_server import merged_of

STATEMENTS = """
SET sql_mode = '', time_zone = '+00:00';
CREATE TABLE t (id INT PRIMARY KEY, born DATE, `At` DATETIME(3), ts TIMESTAMP NULL, t TIME);
INSERT INTO t VALUES (1, '2024-01-02', '2024-01-02 03:04:05', '2024-01-02', '-01:00:00'), (2, 0, '2024-02-00', 0, NULL);
CREATE TABLE keyless (a DATE, v INT);
INSERT INTO keyless VALUES (0, 1), (0, 1), (NULL, 1), ('2024-01-01', 2);
DELETE FROM keyless WHERE v = 1 LIMIT 1;
ALTER TABLE keyless MODIFY a DATETIME
"""


@pytest.fixture(scope="module")
def log(_shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    _shared_mysql_server.execute("DROP DATABASE IF EXISTS shop")
    run_session(_shared_mysql_server, STATEMENTS, "shop")
    found = merged_of(_shared_mysql_server, tmp_path_factory.mktemp("zero")).directory
    _shared_mysql_server.execute("DROP DATABASE shop")
    return found


def second(log: Path, **options: Any) -> dict[str, Any]:
    table = binlog_merge.changes(log, "shop.t", **options).read_all()
    row: dict[str, Any] = table.column("after").to_pylist()[1]
    return row


@pytest.mark.mysql
def test_changes(log: Path) -> None:
    with pytest.raises(ConversionFailed, match="column born: 0000-00-00 is a date that no calendar has") as caught:
        second(log)
    assert "zero_dates='null'" in (caught.value.remedy or "") and "str" not in caught.value.message
    assert second(log, zero_dates="null") == {"id": 2, "born": None, "At": None, "ts": None, "t": None}
    assert second(log, zero_dates="text")["At"] == "2024-02-00 00:00:00.000"
    with pytest.raises(ConversionFailed, match="column At: 2024-02-00"):
        second(log, zero_dates="born=null")
    mixed = second(log, zero_dates="null,at=text,ts=text")
    assert mixed == {"id": 2, "born": None, "At": "2024-02-00 00:00:00.000", "ts": "0000-00-00 00:00:00", "t": None}
    types = binlog_merge.changes(log, "shop.t", zero_dates="null,at=text").schema.field("after").type
    assert [str(field.type) for field in types] == ["int32", "date32[day]", "string", "timestamp[us, tz=UTC]",
        "duration[us]"]  # fmt: skip
    assert second(log, zero_dates="null", where="born = 0 OR id = 1")["born"] is None
    with pytest.raises(ConfigError, match="'epoch' is none of"):
        second(log, zero_dates="epoch")
    with pytest.raises(ConfigError, match="zero_dates is for one table"):
        binlog_merge.changes(log, "shop.*", zero_dates="null")


@pytest.mark.mysql
def test_the_data_source_asks_the_same(log: Path) -> None:
    selection = Options.of({"path": str(log), "table": "shop.t", "zeroDates": "at=text,null"}).selected(Log(log))
    types = {field.name: field.dataType.simpleString() for field in spark_schema(selection)["after"].dataType}
    assert (types["born"], types["At"], types["ts"]) == ("date", "string", "timestamp")
    assert isinstance(selection, Selection)
    rows = [row for batch in batches(Log(log), selection) for row in batch.to_pylist()]
    assert rows[1]["after"]["born"] is None and rows[1]["after"]["At"] == "2024-02-00 00:00:00.000"
    with pytest.raises(ConfigError, match="option zeroDates: 'none' is none of"):
        Options.of({"path": str(log), "table": "shop.t", "zeroDates": "none"}).selected(Log(log))


@pytest.mark.mysql
def test_replay_to_duckdb(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    with pytest.raises(ConversionFailed, match=r"shop\.t: column born: 0000-00-00 is a date") as caught:
        binlog_merge.replay(log, f"duckdb://{path}")
    assert "--zero-dates null" in (caught.value.remedy or "")
    with pytest.raises(ConfigError, match="text is not for DuckDB"):
        binlog_merge.replay(log, f"duckdb://{path}", zero_dates="born=text")
    binlog_merge.replay(log, f"duckdb://{path}", zero_dates="null")  # goes on where it stopped
    with duckdb.connect(str(path)) as connection:
        assert connection.execute('SELECT born, "at", ts, t FROM shop.t WHERE id = 2').fetchall() == [(None,) * 4]
        found = connection.execute("SELECT a::VARCHAR, v FROM shop.keyless ORDER BY ALL").fetchall()
        assert found == [("2024-01-01 00:00:00", 2), (None, 1), (None, 1)]


@pytest.mark.mysql
def test_parquet(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = f"parquet://{tmp_path / 'files'}"
    binlog_merge.replay(log, to, zero_dates="null,at=text")
    (file,) = (tmp_path / "files" / "shop" / "t").glob("*.parquet")
    rows = duckdb.sql(f"SELECT after.born, after.\"At\" FROM '{file}' ORDER BY after.id").fetchall()
    assert [(str(born), at) for born, at in rows] == [("2024-01-02", "2024-01-02 03:04:05.000"),
        ("None", "2024-02-00 00:00:00.000")]  # fmt: skip
    with pytest.raises(ConfigError, match="begun with --zero-dates at=text"):
        binlog_merge.replay(log, to)
    binlog_merge.replay(log, to, zero_dates="at=text")
    command = ["changes", "--table", "shop.t", "--merged", str(log)]
    out = tmp_path / "t.parquet"
    assert main.run([*command, "-o", "parquet", "--to", str(out), "--zero-dates", "null"]) == 0
    assert duckdb.sql(f"SELECT count(*) FROM '{out}' WHERE after.born IS NULL").fetchall() == [(1,)]
    assert main.run([*command, "-o", "jsonl", "--zero-dates", "null"]) == 2
    assert "whose dates are text" in capsys.readouterr().err


def test_rules() -> None:
    rules = ZeroDates.parse("null, Born=stop,at=text")
    assert [rules.of(name) for name in ("x", "born", "AT")] == ["null", "stop", "text"]
    assert rules.as_text == "at=text" and ZeroDates.parse("text,a=null").as_text == "text,a=null"
    for wrong in ("", "=null", "a=", "nul", "a=b=c"):
        with pytest.raises(ValueError, match="is none of"):
            ZeroDates.parse(wrong)
