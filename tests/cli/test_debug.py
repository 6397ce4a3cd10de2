"""`binlog-merge debug`: order keys both ways, what a merge would do against what it does, and blocks."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlog_merge.moved_keys import DdlPlace, key_of, moved_key
from binlog_merge.pipeline.base.state import Job
from snapshot_store.tso import OrderKey
from tests.command_line import command_line
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge, state_of

CASE = "two-nodes"
KEY = OrderKey(7507804165234491392, 1712111909626691643, 1, 2)


def _json(*arguments: object) -> Any:
    done = command_line(["debug", *arguments, "-o", "json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_key_both_ways() -> None:
    values = _json("order-key", KEY.text())
    assert {name: int(values[name]) for name in KEY._fields} == KEY._asdict()
    assert (values["time"], values["logical"], values["place"]) == ("2026-09-21T14:13:21.248Z", 0, None)
    for parts in (list(KEY), [str(tuple(KEY))], [",".join(map(str, KEY))]):
        assert _json("order-key", *parts) == values
    assert _json("order-key", 5)["order_key"] == OrderKey(5, 0, 0, 0).text()
    text = command_line(["debug", "order-key", KEY.text()]).stdout
    assert text.splitlines() == [
        KEY.text(),
        "  commit TSO      7507804165234491392  2026-09-21T14:13:21.248Z, logical 0",
        "  transaction id  1712111909626691643",
        "  seq             1  number 1 of those that follow it on their node",
        "  node number     2",
    ]


def test_keys_of_a_place() -> None:
    place = DdlPlace(OrderKey(5, 6, 7, 3), 2)
    for key, moved in ((key_of(place), False), (moved_key(place), True)):
        found = _json("order-key", key.text())["place"]
        assert found == {"order_key": place.key.text(), "node_number": 3, "rank": 2, "moved_rows": moved}
        line = command_line(["debug", "order-key", key.text()]).stdout.splitlines()[-1]
        assert "node 3, rank 2" in line
        assert ("rows that were moved there" in line) is moved


@pytest.mark.parametrize(
    "words",
    [
        ["x"],
        ["1", "2", "3", "4", "5"],
        [""],
        ["1" * 53],
        ["1" * 55],
        ["-1"],
        ["1", "2", "3", "1234567"],
        ["²"],
        ["1" * 20],
    ],
)
def test_what_is_no_order_key(words: list[str]) -> None:
    done = command_line(["debug", "order-key", "--", *words])
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("binlog-merge: config: ")


def test_a_plan_is_what_the_merge_does(tmp_path: Path) -> None:
    config = copy_case(case_named(CASE), tmp_path / "case", max_size(4096))
    out = tmp_path / "out"
    first = _json("plan", config, "--out", out)
    assert not out.exists(), "a plan writes nothing"
    assert (first["goes_on"]["run"], first["goes_on"]["file"], first["goes_on"]["grows"]) == (1, "binlog.000001", False)
    merge(config, out)
    state = state_of(out)
    assert first["carrier"] == state.header.carrier  # type: ignore[union-attr]
    assert first["most_files"] >= len(state.files) > 1
    assert [node["node"] for node in first["nodes"]] == sorted(state.last.nodes)  # type: ignore[union-attr]
    assert [task["from"] for task in first["tasks"]] == [4] * len(first["tasks"])
    assert sum(task["to"] for task in first["tasks"]) == sum(f["size"] for n in first["nodes"] for f in n["files"])
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    second = _json("plan", config, "--out", out)
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    assert (second["goes_on"]["run"], second["goes_on"]["rank"]) == (2, state.rank + 1)
    assert second["goes_on"] == _json("plan", out)["goes_on"]
    assert second["goes_on"]["floor"] > (state.last.last_key or "")  # type: ignore[union-attr]
    assert all(node["read_to"] == second["goes_on"]["nodes"][node["node"]]["read_to"] for node in second["nodes"])
    text = command_line(["debug", "plan", config, "--out", out]).stdout
    assert f"run 2 of {out}" in text
    assert f"  scan       {len(second['tasks'])} tasks" in text
    assert command_line(["debug", "plan", out]).stdout.startswith(f"run 2 of {out}\n")
    assert _json("order-key", "--out", out, *KEY)["node"] == "dn-2"


def test_a_plan_says_what_a_merge_would_refuse(tmp_path: Path) -> None:
    config = copy_case(case_named(CASE), tmp_path / "case")
    for name, (path, *options), code in (
        ("no configuration", [tmp_path / "none.yaml"], 2),
        ("no output", [tmp_path], 2),
        ("--out with a directory", [tmp_path, "--out", tmp_path], 2),
        ("the output of another cluster", [config, "--out", tmp_path / "other"], 28),
    ):
        if code == 28:
            merge(case_named("idle-node") / "cluster.yaml", tmp_path / "other")
        done = command_line(["debug", "plan", path, *options])
        assert done.returncode == code, (name, done.stderr)
    for file in (tmp_path / "case").glob("nodes/dn-1/*"):
        file.unlink()
    assert command_line(["debug", "plan", config, "--out", tmp_path / "out"]).returncode == 10


def _name(path: str | Path) -> str:
    """Return a block's name without what is this run's alone."""
    return re.sub(r"^(piece|order)-[0-9a-f]{12}-", r"\1-", Path(path).name)


def _block(work: Path, name: str) -> Path:
    (path,) = (path for path in work.iterdir() if _name(path) == name)
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the work folder as a killed run leaves it."""
    out = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "clear_work", lambda self, kept=frozenset(): None)
        merge(case_named(CASE) / "cluster.yaml", out)
    return out / ".work"


def test_blocks_are_printed(work: Path) -> None:
    files = {_name(file["file"]): file for file in _json("block", work, "--rows", 0)["files"]}
    timed = files["piece-000000.timed.arrow"]
    assert timed["columns"] == ["tso", "transaction", "start", "end", "commit_us", "set", "flags"]
    assert len(timed["first"]) == timed["rows"] > 1
    assert [row["tso"] for row in timed["first"]] == sorted(row["tso"] for row in timed["first"])
    assert {"piece-000000.local.arrow", "order-000000.arrow"} <= files.keys()
    path = _block(work, "piece-000000.timed.arrow")
    one = command_line(["debug", "block", path, "--rows", 1]).stdout.splitlines()
    assert one[0].endswith(f"{path.name}: {timed['rows']} rows")
    assert one[1].split() == timed["columns"]
    assert one[2].split()[0] == str(timed["first"][0]["tso"])
    assert one[3] == f"  and {timed['rows'] - 1} more"
    begin = str(_block(work, "piece-000001.timed.arrow")).removesuffix(".timed.arrow")
    piece = [_name(file["file"]) for file in _json("block", begin)["files"]]
    assert piece == [name for name in sorted(files) if name.startswith("piece-000001.")]


def test_flags_have_names(tmp_path: Path) -> None:
    from binlog_merge.binlog.kernels import scan_layout as k
    from binlog_merge.cli.debug import _FLAGS
    from binlog_merge.pipeline.base.blocks import write_block

    known = {name for bit, name in _FLAGS.items() if getattr(k, name.upper().replace("-", "_"), None) == bit}
    assert known == set(_FLAGS.values()) - {"create-select"}
    assert _FLAGS[k.FLAG_CREATE_SELECT] == "create-select"
    import numpy as np

    write_block(str(tmp_path / "a.arrow"), {"flags": np.array([0, 2 | 8, 1 << 40])})
    lines = command_line(["debug", "block", tmp_path / "a.arrow"]).stdout.splitlines()
    assert [line.strip() for line in lines[2:]] == ["0", "marker|ddl", str(1 << 40)]


def test_what_is_no_block(work: Path, tmp_path: Path) -> None:
    whole = _block(work, "piece-000000.timed.arrow").read_bytes()
    for name, data in (("empty", b""), ("text", b"a text"), ("cut", whole[:-20]), ("torn", whole[: len(whole) // 2])):
        (tmp_path / name).write_bytes(data)
        done = command_line(["debug", "block", tmp_path / name])
        assert done.returncode == 29, (name, done.stderr)
    table = pa.table({"name": ["a"]})
    with pa.OSFile(str(tmp_path / "names"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert command_line(["debug", "block", tmp_path / "names"]).returncode == 29
    (tmp_path / "nothing").mkdir()
    for path in (tmp_path / "none", tmp_path / "nothing"):
        assert command_line(["debug", "block", path]).returncode == 31


def test_any_byte_of_a_block_may_be_wrong(work: Path, tmp_path: Path) -> None:
    whole = _block(work, "piece-000000.local.arrow").read_bytes()
    codes = set()
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        path = tmp_path / "block"
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        codes.add(command_line(["debug", "block", path]).returncode)
    assert codes <= {0, 29, 31}


def test_order_keys_need_nothing_heavy() -> None:
    program = (
        "import sys; from binlog_merge.cli.main import run; run(['debug', 'order-key', '5'])\n"
        "heavy = {'pyspark', 'duckdb', 'sqlglot', 'numba', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plan_of_a_torn_manifest(tmp_path: Path) -> None:
    out = tmp_path / "out"
    merge(case_named(CASE) / "cluster.yaml", out)
    copy = shutil.copytree(out, tmp_path / "copy")
    (copy / "manifest.jsonl").write_bytes(b"{}\n")
    assert command_line(["debug", "plan", copy]).returncode == 28
