"""Binlogs of many versions, from MySQL's own test suite (`mysql-testsuite` of Debian): read as mysqlbinlog reads them.

What can be merged is verified, served byte for byte, and leaves on a server what the file itself leaves; what cannot be
is refused by a documented code. The result is what docs/reference/tested.md shows of versions.
"""

import json
import re
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import binlog_merge
from binlog_merge.binlog.constants import version_number
from binlog_merge.errors import EXIT_CODES
from tests.binlog_server.running import remote_mysqlbinlog, serving
from tests.clients.conftest import client
from tests.command_line import command_line
from tests.merge_e2e.local import written
from tests.mysql_server import ROOT, MySqlServer, mysqlbinlog
from tests.node_capture.capturing import ALONE

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
RESULT: Final = ROOT / "build" / "corpus.json"
OLDEST: Final = 50601
REFUSED: Final = {"truncated-event", "checksum-mismatch", "statement-dml", "unknown-table-schema", "unsupported-input"}
"""Why files are not merged: mtr cut or edited them; statements; no CREATE TABLE in the log; relay logs."""


def _version_of(path: Path) -> str:
    head = path.read_bytes()[:120]
    return head[25:75].split(b"\0")[0].decode("latin-1") if head[:4] == b"\xfebin" and head[8:9] == b"\x0f" else ""


@pytest.fixture(scope="module")
def corpus() -> dict[Path, str]:
    """The files that differ, by the version that wrote them."""
    found: dict[bytes, Path] = {}
    for path in sorted(Path(client("corpus")).rglob("*")):
        if path.is_file() and version_number(_version_of(path)) >= OLDEST:
            found.setdefault(path.read_bytes(), path)
    assert len(found) > 30
    return {path: _version_of(path) for path in found.values()}


def _rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("### ")]


def _state(server: MySqlServer) -> Any:
    system = ("mysql", "sys", "information_schema", "performance_schema")
    names = [name for (name,) in server.query("SHOW DATABASES") if name not in system]
    tables = [(name, table) for name in names for (table,) in server.query(f"SHOW TABLES FROM `{name}`")]
    asked = ("CHECKSUM TABLE `{}`.`{}`", "SELECT COUNT(*) FROM `{}`.`{}`")
    return {each: [server.query(sql.format(*each)) for sql in asked] for each in tables}


def _applied(server: MySqlServer, files: list[Path]) -> Any:
    """Return what files leave on an empty server, or on one with the database of mtr; else the text of an error."""
    text, error = mysqlbinlog(files, "--skip-gtids"), ""
    for begin in ("DO 0", "CREATE DATABASE test"):
        server.drop_databases()
        server.execute(begin)
        try:
            server.apply(text)
            return _state(server)
        except RuntimeError as found:
            error = str(found)[-200:]
        finally:
            server.drop_databases()
    return error


def test_each_file(corpus: dict[Path, str], mysql_server: MySqlServer, tmp_path: Path) -> None:
    told: dict[str, Counter[str]] = defaultdict(Counter)
    for number, (path, version) in enumerate(corpus.items()):
        series = ".".join(re.findall(r"\d+", version)[:2])
        rows = _rows(mysqlbinlog([path], "-v").decode(errors="replace"))
        assert _rows(command_line(["inspect", path, "-v"]).stdout) == rows, path
        told[series].update({"files": 1, "lines of rows": len(rows)})
        folder = tmp_path / str(number)
        merged = _merged(path, folder)
        told[series][merged] += 1
        if merged == "merged":
            _check(path, folder / "out", mysql_server, told[series])
    for series in told:
        assert told[series]["files"], series
    assert sum(each["merged"] for each in told.values()) >= 10
    RESULT.write_text(json.dumps({series: told[series] for series in sorted(told, key=_order)}, indent=1))


def _order(series: str) -> tuple[int, ...]:
    return tuple(map(int, series.split(".")))


def _merged(path: Path, folder: Path) -> str:
    """Merge a file alone; return `merged`, or by what it is refused."""
    (folder / "in").mkdir(parents=True)
    shutil.copy(path, folder / "in" / "binlog.000001")
    node = {"source-id": "dn-1", "files": [f"{folder}/in/binlog.*"]}
    config = {"version": 1, "name": "one", "nodes": [node], **ALONE}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(config))
    merging = ["merge", "--config", folder / "cluster.yaml", "--merged", folder / "out", "--end-of-input"]
    done = command_line(merging)
    if done.returncode == 0:
        return "merged"
    names = {code: name for code, name, *_ in EXIT_CODES}
    assert names[done.returncode] in REFUSED, (path, done.stderr)
    return names[done.returncode]


def _changes_told(path: Path, out: Path) -> int:
    """Compare the changes of a merged file with what mysqlbinlog says of the file; return how many values it has said
    in a form that can be compared.
    """
    said = _said(_rows(mysqlbinlog([path], "-v").decode("utf-8", "surrogateescape")))
    rows = binlog_merge.changes(out).read_all().to_pylist()
    assert [(row["op"], row["schema"], row["table"]) for row in rows] == [(op, *name) for op, name, _ in said], path
    compared = 0
    for row, (_, _, images) in zip(rows, said, strict=True):
        held = [list(json.loads(row[side]).values()) for side in ("before", "after") if row[side] is not None]
        for values, literals in zip(held, images, strict=True):
            for number, literal in literals.items():
                alike = _alike(literal, values[number - 1])
                assert alike is not False, (path, row["table"], number, literal, values)
                compared += alike is True
    assert compared or not rows, path
    return compared


def _said(lines: list[str]) -> list[tuple[str, tuple[str, str], list[dict[int, str]]]]:
    """Return operation, table and images of each row; a value is the text behind its column's number."""
    found: list[tuple[str, tuple[str, str], list[dict[int, str]]]] = []
    for line in lines:
        if head := re.fullmatch(r"### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\.`(.*)`", line):
            found.append((head[1].split()[0].lower(), (head[2], head[3]), []))
        elif line in ("### SET", "### WHERE"):
            found[-1][2].append({})
        elif value := re.fullmatch(r"###   @(\d+)=(.*)", line):
            found[-1][2][-1][int(value[1])] = value[2]
    return found


def _alike(literal: str, value: Any) -> bool | None:
    """Return whether a literal is a value; None if the two have forms of their own, such as numbers for ENUM."""
    if literal == "NULL" or value is None:
        return literal == "NULL" and value is None
    if isinstance(value, int) and re.fullmatch(r"-?\d+( \(\d+\))?", literal):
        return str(value) in re.findall(r"-?\d+", literal)
    if literal.startswith("'") and isinstance(value, str):
        raw = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), literal[1:-1].encode())
        dated = raw.decode("latin-1").replace(":", "-") == value.replace(":", "-")
        return dated or value in (raw.decode("latin-1"), raw.decode("utf-8", "replace"), f"0x{raw.hex().upper()}")
    return None


def _check(path: Path, out: Path, server: MySqlServer, told: Counter[str]) -> None:
    verified = command_line(["verify", "--merged", out])
    assert verified.returncode == 0, (path, verified.stderr)
    told["values that changes tells alike"] += _changes_told(path, out)
    files = [out / name for name in written(out)]
    if not files:
        told["without a transaction"] += 1
        return
    (raw := out.parent / "raw").mkdir()
    with serving(out) as running:
        remote_mysqlbinlog(running.port, "-R", "--raw", "--to-last-log", files[0].name, folder=raw)
    assert {file.name: file.read_bytes() for file in raw.iterdir()} == written(out), path
    whole = _applied(server, [path])
    if isinstance(whole, str):  # a 9.7 does not take the file itself
        told["not taken by 9.7"] += 1
        return
    assert _applied(server, files) == whole, path
    told["applied alike"] += 1
