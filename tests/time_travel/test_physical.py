"""Undoing by nodes, from their own binlogs, is undoing the logical table, row for row."""

import re
from pathlib import Path

import pytest

from binlog_merge.cli import main
from binlog_merge.log.log import Log
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge
from tests.mysql_server import mysqlbinlog

_PLACE = re.compile(r"`(shop|d1)_\d+`\.`(orders|t1)(?:_\d)?`")


def lines_of(text: str) -> list[str]:
    """Return the statements of a script, with INSERTs row by row, and logical names."""
    found = []
    for line in text.splitlines():
        if line.startswith("INSERT"):
            head, rows = line.rstrip(";").split(" VALUES ")
            found += [f"{head} {row}" for row in re.split(r"(?<=\)), (?=\()", rows)]
        elif line.startswith(("UPDATE", "DELETE")):
            found.append(line)
    return sorted(_PLACE.sub(r"`\1`.`\2`", line) for line in found)


@pytest.mark.mysql
@pytest.mark.parametrize(
    ("name", "table"),
    keeping(["compressed"], [("three-nodes-online-ddl", "shop.orders"), ("compressed", "d1.t1")]),
)
def test_the_nodes_together_are_the_logical_table(
    name: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = copy_case(case_named(name), tmp_path / "case", max_size(60_000))
    merge(case, tmp_path / "out")
    log = Log(tmp_path / "out")
    first, last = (92, 160) if name == "three-nodes-online-ddl" else (12, log.last_rank)
    between = ["--start", f"{log.cluster_uuid}:{first}", "--stop", f"{log.cluster_uuid}:{last}"]
    line = ["flashback", str(tmp_path / "out"), "--table", table, *between]
    assert main.run(line) == 0
    logical = capsys.readouterr().out
    physical = [*line, "--physical", "--config", str(case)]
    assert main.run([*physical, "--to", str(tmp_path / "sql")]) == 0
    files = sorted((tmp_path / "sql").iterdir())
    assert len(files) > 1
    texts = [file.read_text() for file in files]
    assert lines_of("\n".join(texts)) == lines_of(logical) and lines_of(logical)
    assert all(_PLACE.search(text) for text in texts)
    assert main.run([*physical, "--to", str(tmp_path / "binlog"), "-o", "binlog"]) == 0
    shown = b"".join(
        mysqlbinlog([file], "-v", "--base64-output=decode-rows", "--verify-binlog-checksum")
        for file in (tmp_path / "binlog").iterdir()
    )
    counted = sum(shown.count(f"### {word} ".encode()) for word in ("INSERT INTO", "UPDATE", "DELETE FROM"))
    assert counted == len(lines_of(logical))


def test_it_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(60_000))
    merge(case, tmp_path / "out")
    uuid = Log(tmp_path / "out").cluster_uuid
    line = ["flashback", str(tmp_path / "out"), "--table", "shop.orders", "--start", f"{uuid}:1", "--physical"]
    assert main.run([*line, "--stop", f"{uuid}:9"]) == 2
    assert main.run([*line[:-3], "--start", "20260921", "--stop", f"{uuid}:9"]) == 2
    assert "write 2026-09-21 for the time" in capsys.readouterr().err
    there = ["--config", str(case), "--to", str(tmp_path / "undo")]
    (tmp_path / "undo.part").mkdir()
    (tmp_path / "undo.part" / "kept").touch()
    assert main.run([*line, "--start", f"{uuid}:92", "--stop", f"{uuid}:99", *there]) == 31
    assert (tmp_path / "undo.part" / "kept").exists() and not (tmp_path / "undo").exists()
    assert main.run([*line, "--stop", f"{uuid}:200", *there]) == 60
    assert "a DDL on shop.orders is in the range" in capsys.readouterr().err and not (tmp_path / "undo").exists()
