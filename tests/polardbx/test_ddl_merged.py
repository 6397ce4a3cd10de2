"""Private syntax from markers to a real server: two MySQL nodes whose coordinator announces DDL in PolarDB-X's words.

`private_syntax/` holds their binlogs, and in expected/ what the tables must be in the end.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import walk
from binlog_merge.binlog.query import Query
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, ManifestError
from binlog_merge.polardbx.ddl.comments import split_comment
from tests.merge_e2e.cases import copy_case
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog

CASE = Path(__file__).parent / "private_syntax"
EXPECTED = [
    json.loads(line.rstrip(",\n")) for line in (CASE / "expected" / "transactions.json").open() if line[0] == "{"
]
DDL = [t for t in EXPECTED if t["kind"] == "ddl"]


def merged(folder: Path, private: str, gtid: str = "on") -> Path:
    def change(values: dict[str, Any]) -> None:
        values["ddl"] = {"private": private}
        values["output"]["gtid"] = gtid

    result = merge(copy_case(CASE, folder / "case", change), folder / "out")
    assert result.transactions == len(EXPECTED) - (private == "drop")
    return folder / "out"


def texts(out: Path, kind: EventType) -> list[str]:
    events = [e for data in written(out).values() for e in walk(data[4:], checksum=True, offset=4)]
    bodies = [bytes(e.body) for e in events if e.type_code == kind]
    return [Query.parse(b).text for b in bodies] if kind == EventType.QUERY_EVENT else [b[1:].decode() for b in bodies]


def test_every_ddl_carries_both_forms_and_its_key(tmp_path: Path) -> None:
    out = merged(tmp_path, "query")
    pairs = [split_comment(text) for text in texts(out, EventType.QUERY_EVENT) if text != "BEGIN"]
    assert [(c.origin, c.key.text()) for c, _ in pairs if c is not None] == [(t["ddl"]["sql"], t["key"]) for t in DDL]
    for (_, mysql), expected in zip(pairs, DDL, strict=True):
        aligns = "ALIGN" in expected["ddl"]["sql"]
        assert mysql.split() == ("ALTER TABLE t1" if aligns else expected["ddl"]["mysql"]).split()


def test_the_seeds_form_is_a_rows_query(tmp_path: Path) -> None:
    out = merged(tmp_path, "rows-query")
    found = [text for text in texts(out, EventType.ROWS_QUERY_LOG_EVENT) if "POLARX" in text]
    assert len(found) == 1
    key, _, lines = found[0].partition("\n")
    comment, rest = split_comment(lines)
    assert comment is not None and (comment.origin, rest) == ("CREATE TABLEGROUP tg1", "")
    assert key == f"# CTS::{comment.key.text()}"


def test_what_is_dropped_leaves_no_trace(tmp_path: Path) -> None:
    out = merged(tmp_path, "drop")
    assert b"TABLEGROUP tg1" not in b"".join(written(out).values())


def test_an_output_goes_on_in_the_form_it_was_begun_with(tmp_path: Path) -> None:
    out = merged(tmp_path, "query")
    for change, told in (({"ddl": {"private": "drop"}}, "ddl.private"), ({"output": {"cts": "end"}}, "output.cts")):

        def other(values: dict[str, Any], change: dict[str, dict[str, str]] = change) -> None:
            for section, settings in change.items():
                values[section] = {**values.get(section, {}), **settings}

        with pytest.raises(ManifestError, match=told):
            merge(copy_case(CASE, tmp_path / told, other), out)


def test_other_forms_are_no_configuration(tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["ddl"] = {"private": "comment"}

    with pytest.raises(ConfigError, match=r"ddl\.private"):
        MergeConfig.load(copy_case(CASE, tmp_path / "case", change))


@pytest.mark.mysql
@pytest.mark.parametrize("private", ["query", "rows-query", "drop"])
def test_a_server_comes_to_the_same_tables(private: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    files = sorted((merged(tmp_path, private)).glob("binlog.0*"))
    mysql_server.apply((CASE / "base" / "logical.sql").read_bytes())
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.apply(mysqlbinlog(files, "--verify-binlog-checksum"))
    tables = json.loads((CASE / "expected" / "tables.json").read_text())
    assert [row for (row,) in mysql_server.query("SHOW TABLES", "d1")] == [name.split(".")[1] for name in tables]
    for name, table in tables.items():
        rows = sorted(list(row) for row in mysql_server.query(table["select"]))
        assert rows == sorted(table["rows"])
        create = str(mysql_server.query(f"SHOW CREATE TABLE {name}")[0][1])
        assert re.sub(r" AUTO_INCREMENT=\d+", "", create) == table["create"]
