"""A transaction that stops a merge is decided about: it wrote the rows that are given, or it has none."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from binlog_merge.errors import StatementDml
from tests.effort import keeping
from tests.merge_e2e.local import HeldRunner, merge, written
from tests.merge_e2e.shards.stage import Played, Stage

pytestmark = [pytest.mark.mysql]

SECTIONS: dict[str, Any] = {"shard-doubts": "error"}
MADE = """
    CREATE TABLE app.t (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1, n DECIMAL(8,3), at DATETIME(3), b BLOB)
    CREATE TABLE app.u (id INT AUTO_INCREMENT PRIMARY KEY, t INT NOT NULL, e ENUM('x','ÿ') CHARACTER SET latin1, j JSON)
    """
WRITTEN = """
    UPDATE app.t SET v = CONCAT(v, 'é'), n = n * 2 WHERE id < {0}3
    DELETE FROM app.t WHERE id = {0}3
    INSERT INTO app.u SELECT NULL, id, 'ÿ', JSON_OBJECT('n', id, 'v', v) FROM app.t WHERE id < {0}3 ORDER BY id
    """
COLUMNS = {"t": ("id", "v", "n", "at", "b"), "u": ("id", "t", "e", "j")}


def images(stage: Stage, node: str, table: str) -> dict[int, dict[str, Any]]:
    """Return the rows of a table as somebody would give them."""
    names = COLUMNS[table]
    asked = ", ".join("CONCAT('0x', HEX(b))" if name == "b" else name for name in names)
    found = stage.nodes[node].query(f"SELECT {asked} FROM app.{table}")
    return {int(row[0]): dict(zip(names, row, strict=True)) for row in found}


def play(stage: Stage, node: str, name: str, compressed: bool = False) -> tuple[Played, list[dict[str, Any]]]:
    """Write a transaction in statement format on a node; returns the rows that it changed, too."""
    stage.clear()
    number = node[1]
    with stage.scene(name, ()) as (sessions, played):
        for own, session in sessions.items():
            session.run("CREATE DATABASE app")
            for text in MADE.strip().splitlines():
                session.run(text.strip())
            n = own[1]
            session.run("SET time_zone = '+00:00'")
            session.run(
                f"INSERT INTO app.t VALUES ({n}1, 'a', 1.5, '2024-02-29 01:02:03.456', NULL), ({n}2, 'ü', NULL, "
                f"NULL, x'00ff'), ({n}3, NULL, -1, NULL, ''), ({n}4, 'kept', 4, NULL, 'x')"
            )
            session.run(f"INSERT INTO app.u VALUES ({n}00, 7, 'x', NULL)")
        before, there = images(stage, node, "t"), images(stage, node, "u")
        session = sessions[node]
        session.run("SET SESSION transaction_isolation = 'REPEATABLE-READ', binlog_format = 'STATEMENT'")
        session.run(f"SET SESSION binlog_transaction_compression = {int(compressed)}")
        session.run("BEGIN")
        for text in WRITTEN.strip().splitlines():
            session.run(text.strip().format(number))
        session.run("COMMIT")
        session.run("SET SESSION binlog_format = 'ROW'")
        after, made = images(stage, node, "t"), images(stage, node, "u")
        session.run(f"UPDATE app.t SET v = 'behind' WHERE id = {number}2")
        session.run("INSERT INTO app.u VALUES (NULL, 7, 'x', NULL)")
    rows = [
        {"table": "app.t", "op": "update", "before": before[id], "after": after[id]}
        for id in sorted(before)
        if id in after and before[id] != after[id]
    ]
    rows += [{"table": "app.t", "op": "delete", "before": before[id]} for id in before if id not in after]
    rows += [{"table": "app.u", "op": "insert", "after": row} for id, row in made.items() if id not in there]
    return played[0], rows


def told(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str, code: int = 0) -> str:
    assert main.run(["ddl", *arguments, "--merged", str(out)]) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def stopped(path: Path, out: Path) -> str:
    """Merge up to the transaction that stops it; returns its name, as the error gives it."""
    with pytest.raises(StatementDml) as raised:
        merge(path, out)
    (id,) = re.findall(r"ddl resolve (\S+) --skip", raised.value.remedy or "")
    assert f"ddl resolve {id} --as ROWS" in (raised.value.remedy or "")
    return id


def given(folder: Path, rows: list[dict[str, Any]], lines: bool = False) -> str:
    path = folder / "rows.json"
    path.write_text("\n".join(json.dumps(row, default=str) for row in rows) if lines else json.dumps(rows, default=str))
    return str(path)


def same_as_the_nodes(stage: Stage, out: Path) -> None:
    stage.target.drop_databases()
    stage.carry_out(out)
    for table, names in COLUMNS.items():
        asked = f"SELECT {', '.join(names)} FROM app.{table} ORDER BY id"
        ours = stage.target.query(asked)
        assert ours == sorted((row for server in stage.nodes.values() for row in server.query(asked)), key=key_of)
        assert ours


def key_of(row: Any) -> int:
    return int(row[0])


@pytest.mark.parametrize(  # n2 has no GTIDs
    ("node", "compressed"),
    keeping([("n1", False), ("n2", False)], [("n1", False), ("n2", False), ("n1", True)]),
)
def test_rows_are_given(stage: Stage, capsys: pytest.CaptureFixture[str], node: str, compressed: bool) -> None:
    played, rows = play(stage, node, f"given {node}", compressed)
    path = stage.configuration(f"given-{node}-{compressed}", [played], "pessimistic", sections=SECTIONS)
    out = path.parent / "out"
    id = stopped(path, out)
    assert (id.count("-") == 4) == (node == "n1")
    file = given(path.parent, rows)
    assert "app.t: 2 updates, 1 delete; app.u: 2 inserts" in told(capsys, out, "resolve", id, "--as", file)
    assert "withdrawn" in told(capsys, out, "resolve", id, "--withdraw")
    told(capsys, out, "resolve", id, "--as", given(path.parent, rows, lines=True), "-o", "json")
    assert f"{id}\n  as  app.t: 2 updates" in told(capsys, out, "locks")
    (listed,) = json.loads(told(capsys, out, "locks", "-o", "json"))["transactions"]
    assert listed == {"id": id, "action": "as", "rows": ["app.t: 2 updates, 1 delete", "app.u: 2 inserts"]}
    result = merge(path, out, partitions=3)
    (named,) = (kind for kind in result.ignored["statements"] if kind["kind"] == "transaction")
    assert named["count"] == 1 and "ddl resolve --as" in named["why"]
    assert named["first"][0]["sql"] == f"{id}: app.t: 2 updates, 1 delete; app.u: 2 inserts"
    assert result.warnings == ()
    same_as_the_nodes(stage, out)
    # Decided, a merge of everything comes to the same, however it is cut.
    for number, options in enumerate(({"partitions": 7}, {"runner": HeldRunner()})):
        anew = path.parent / f"anew-{number}"
        anew.mkdir()
        shutil.copyfile(out / "schema.duckdb", anew / "schema.duckdb")
        merge(path, anew, **options)
        assert written(anew) == written(out)
    assert "too late" in told(capsys, out, "resolve", id, "--withdraw", code=38)
    assert "decided already" in told(capsys, out, "resolve", id, "--skip", code=2)


def test_what_cannot_be_decided_is_said(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    played, rows = play(stage, "n1", "wrong")
    path = stage.configuration("wrong", [played], "pessimistic", sections=SECTIONS)
    out = path.parent / "out"
    id = stopped(path, out)
    source, _, number = id.partition(":")
    file = given(path.parent, rows)

    def wrong(*arguments: str, id: str = id, code: int = 2) -> str:
        return told(capsys, out, "resolve", id, *arguments, code=code)

    def with_row(**changed: Any) -> str:
        return given(path.parent / "n1", [{**rows[0], **changed}])

    assert "the last merge did not stop at" in wrong("--as", file, id=f"{source}:{int(number) + 1}")
    assert "the last merge did not stop at" in wrong("--as", file, id="n2/binlog.999999:4")
    assert "comes too late" in wrong("--as", file, id=f"{source}:{int(number) - 1}", code=38)
    assert "is no transaction: --as says" in wrong("--as", file, id="app.t")
    assert "--as ROWS says what rows it wrote" in wrong("--emit", "X")
    assert "give one of" in wrong("--as", file, "--skip")
    assert "nothing is decided about" in wrong("--withdraw")
    assert "the node has no such table there" in wrong("--as", with_row(table="app.w"))
    assert "the table has no column x there" in wrong("--as", with_row(before={**rows[0]["before"], "x": 1}))
    assert "column n, decimal: 'much'" in wrong("--as", with_row(before={**rows[0]["before"], "n": "much"}))
    assert "of the primary key id" in wrong("--as", with_row(before={"v": "a"}))
    assert "the rows are no JSON" in wrong("--as", str(path))
    assert "No such file" in wrong("--as", str(path.parent / "nothing"), code=31)
    assert not json.loads(told(capsys, out, "locks", "-o", "json"))["transactions"]
    wrong("--as", file, code=0)
    assert "is decided already: --as" in wrong("--as", file)
    merge(path, out)
    assert "comes too late" in wrong("--withdraw", code=38)
