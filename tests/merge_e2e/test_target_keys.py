"""`last_committed` where a target of the log holds other keys than the schema history has."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml

import binlog_merge
from binlog_merge.binlog.header import walk
from snapshot_store.ddl import parse_dump
from snapshot_store.history import TableVersion
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.parallel_replica import replica
from tests.mysql_server import MySqlServer

MADE = """
CREATE DATABASE d;
CREATE TABLE d.t (id INT PRIMARY KEY, u INT, UNIQUE KEY u (u));
CREATE TABLE d.p (id INT PRIMARY KEY);
CREATE TABLE d.c (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES d.p (id));
CREATE TABLE d.k (a INT NOT NULL, b INT);
CREATE TABLE d.other (id INT PRIMARY KEY);
INSERT INTO d.t VALUES (1, 7);
INSERT INTO d.p VALUES (1);
INSERT INTO d.c VALUES (1, 1);
INSERT INTO d.k VALUES (1, 1)
"""
LEFT_OUT = "ALTER TABLE d.t DROP INDEX u; ALTER TABLE d.c DROP FOREIGN KEY f; ALTER TABLE d.k ADD PRIMARY KEY (a)"
BEHIND = """
INSERT INTO d.other VALUES (1);
DELETE FROM d.t WHERE id = 1;
INSERT INTO d.t VALUES (2, 7);
INSERT INTO d.other VALUES (2);
DELETE FROM d.c WHERE id = 1;
DELETE FROM d.p WHERE id = 1;
INSERT INTO d.other VALUES (3);
INSERT INTO d.k VALUES (2, 1);
UPDATE d.k SET b = 2 WHERE a = 1;
INSERT INTO d.other VALUES (4)
"""
RENAMED = """
RENAME TABLE d.t TO d.renamed;
DELETE FROM d.renamed WHERE id = 2;
INSERT INTO d.renamed VALUES (3, 7);
DROP TABLE d.renamed;
CREATE TABLE d.renamed (id INT PRIMARY KEY, u INT);
INSERT INTO d.renamed VALUES (1, 7);
INSERT INTO d.renamed VALUES (2, 7)
"""
FILTER = """
[[filter.event-filters]]
matcher = ['d.*']
ignore-event = ['drop index', 'drop foreign key', 'add primary key']
"""


def _config(folder: Path, server: MySqlServer, **more: Any) -> Path:
    values = {
        "version": 1, "name": "d", "commit-tso": {"carrier": "gtid-time"}, "shard-mode": "optimistic",
        "nodes": [{"source-id": "dn-1", "files": f"{server.data}/binlog.[0-9]*"}], **more,
    }  # fmt: skip
    path = folder / f"{'-'.join(more) or 'plain'}.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def _waits(out: Path) -> list[int]:
    """Return for each transaction how many stand between it and the one that it depends on; 0: none does."""
    (data,) = written(out).values()
    found = [struct.unpack_from("<qq", e.body, 26) for e in walk(data) if e.type_code in (33, 34)]
    return [number - 1 - last for last, number in found]


def _keys(out: Path) -> list[str]:
    (data,) = written(out).values()
    return [key.decode() for key in dict.fromkeys(re.findall(rb"CTS::(\d{54})", data))]


def _in_two_runs_everywhere(config: Path, folder: Path, good: dict[str, bytes], keys: list[str]) -> None:
    """Each second run reads the file again to know what was touched."""
    for number, key in enumerate(keys[::2]):
        out = folder / str(number)
        merge(config, out, stop_tso=int(key[:19]), end_of_input=False)
        merge(config, out)
        assert written(out) == good
        binlog_merge.verify(out)


@pytest.mark.mysql
def test_a_statement_that_the_filter_leaves_out_leaves_the_target_its_keys(
    tmp_path: Path, mysql_server: MySqlServer
) -> None:
    mysql_server.execute(f"{MADE}; {LEFT_OUT}; {BEHIND}; {RENAMED}")
    (tmp_path / "filter.toml").write_text(FILTER)
    merge(_config(tmp_path, mysql_server), tmp_path / "whole")
    config = _config(tmp_path, mysql_server, filter="filter.toml")
    result = merge(config, tmp_path / "out")
    others = 0, 3, 6, 9
    behind, renamed = slice(-10 - 7, -7), slice(-7, None)
    assert all(_waits(tmp_path / "whole")[behind][n] for n in range(10) if n not in (0, 5))
    waits = _waits(tmp_path / "out")
    assert [n for n, wait in enumerate(waits[behind]) if wait and n not in others] == []
    assert waits[renamed][1:3] == [0, 0] and waits[renamed][5:] == [0, 1]
    assert {name.partition(".")[2] for name in result.dependencies["tables_in_order"]} == {
        "t",
        "p",
        "c",
        "k",
        "renamed",
    }
    why = result.dependencies["tables_in_order"]["d.p"]
    assert "the filter leaves out 'ALTER TABLE `d`.`c` DROP FOREIGN KEY f'" in why
    assert result.dependencies["barriers"]["referenced_rows"] >= 8
    binlog_merge.verify(tmp_path / "out")
    _in_two_runs_everywhere(config, tmp_path, written(tmp_path / "out"), _keys(tmp_path / "out")[-14:])
    asked = [f"SELECT * FROM d.{name} ORDER BY 1, 2" for name in ("c", "k", "renamed")]
    expected = [mysql_server.query(query) for query in asked]
    with replica(tmp_path / "replica", sorted((tmp_path / "out").glob("binlog.0*"))) as server:
        assert [server.query(query) for query in asked] == expected


@pytest.mark.mysql
def test_a_definition_that_is_given_in_the_middle_of_an_open_file(tmp_path: Path, mysql_server: MySqlServer) -> None:
    """No statement of the log says it: the file read again must know, of the table and of that which it refers to."""
    made = MADE.replace(", CONSTRAINT f FOREIGN KEY (p) REFERENCES d.p (id)", "")
    rows = "; ".join(f"INSERT INTO d.p VALUES ({n}); INSERT INTO d.c VALUES ({n}, {n - 1})" for n in range(2, 9))
    more = "; ".join(f"DELETE FROM d.c WHERE id = {n}; DELETE FROM d.p WHERE id = {n}" for n in range(2, 9))
    mysql_server.execute(f"{made}; {rows}; {more}")
    plain = _config(tmp_path, mysql_server)
    merge(plain, tmp_path / "whole")
    keys = _keys(tmp_path / "whole")
    said = OrderKey.parse(keys[len(keys) // 2])
    text = "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES d.p (id))"
    table = parse_dump(text).tables["d", "c"]
    with Store.open(tmp_path / "given.duckdb") as store:
        store.append_versions([TableVersion(said, 0, "d", "c", table, origin="operator")])
    config = _config(tmp_path, mysql_server, base={"store": "given.duckdb"})
    result = merge(config, tmp_path / "out")
    waits = _waits(tmp_path / "out")
    assert waits != _waits(tmp_path / "whole") and result.dependencies["barriers"]["referenced_rows"] == 7
    binlog_merge.verify(tmp_path / "out")
    _in_two_runs_everywhere(config, tmp_path, written(tmp_path / "out"), keys[len(keys) // 2 - 4 :])
