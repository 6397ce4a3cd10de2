"""`output.dependencies: writeset`: what a transaction depends on is what a MySQL server writes for the same rows."""

import json
import random
import re
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import binlog_merge
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.kernels import writesets as w
from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ChecksumMismatch, ManifestError
from binlog_merge.pipeline import publish
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.plan import plan
from binlog_merge.pipeline.rounds import Rounds
from tests.effort import effort, keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, some_inputs, whole
from tests.merge_e2e.local import LocalRunner, merge, written
from tests.merge_e2e.parallel_replica import Histories, replica, rows_of
from tests.merge_e2e.test_many_runs import merge_growing
from tests.merge_e2e.test_rounds import merge_in_rounds
from tests.merge_e2e.writesets_twin import twin
from tests.mysql_server import MySqlServer
from tests.pipeline.gather.test_giant import SIZES, shrink

CUT = ("three-nodes-online-ddl", "shards-optimistic", "polardbx-rename", "row-image-minimal")
TABLES = """
CREATE TABLE {d}.plain (id INT PRIMARY KEY, u VARCHAR(20) UNIQUE, v INT);
CREATE TABLE {d}.texts (k VARCHAR(300) COLLATE utf8mb4_general_ci, c CHAR(5) COLLATE utf8mb4_bin, b VARBINARY(9), v INT,
    PRIMARY KEY (k, c), UNIQUE (b, v), UNIQUE (k(2), v));
CREATE TABLE {d}.numbers (a DECIMAL(20, 5), f DOUBLE, t DATETIME(3), e ENUM('x', 'y'), v BIGINT UNSIGNED NOT NULL,
    UNIQUE (v), UNIQUE (a), UNIQUE (f, e), KEY (t));
CREATE TABLE {d}.keyless (a INT, b INT);
"""
NAMES = ["a", "b", "c", "Ab", "AB", "aB", "ab", "abc", "abd", "x", "y"]


def _value(chance: random.Random, kind: str) -> str:
    if kind == "int":
        return str(chance.randrange(12))
    if kind == "text":
        return "'" + chance.choice(NAMES) + " " * chance.choice([0, 0, 1]) + "'"
    return str(chance.choice(["0", "-0.0", "1", "1.50", "2.5", "-3", "NULL"]))


def _change(chance: random.Random, d: str) -> str:
    table = chance.choice(["plain", "plain", "texts", "numbers", "keyless"])
    n, text, number = (_value(chance, kind) for kind in ("int", "text", "number"))
    where = {"plain": f"id = {n}", "texts": f"k = {text}", "numbers": f"v = {n}", "keyless": f"a = {n}"}[table]
    kind = chance.choice(["insert", "insert", "update", "delete"])
    if kind == "delete":
        return f"DELETE FROM {d}.{table} WHERE {where}"
    if kind == "update":
        other = chance.choice(["NULL", _value(chance, "text")])
        change = {
            "plain": chance.choice([f"v = v + 1, u = {other}", "v = v + 1", f"id = {_value(chance, 'int')}"]),
            "texts": chance.choice(["v = v + 1", f"k = {_value(chance, 'text')}", f"b = {other}"]),
            "numbers": chance.choice([f"a = {number}", f"f = {number}", f"v = {_value(chance, 'int')}", "t = NOW(3)"]),
            "keyless": "b = b + 1",
        }[table]
        return f"UPDATE IGNORE {d}.{table} SET {change} WHERE {where}"
    row = {
        "plain": f"{n}, {chance.choice(['NULL', text])}, 1",
        "texts": f"{text}, {_value(chance, 'text')}, {chance.choice(['NULL', text])}, {n}",
        "numbers": f"{number}, {_value(chance, 'number')}, NOW(3), 'x', {n}",
        "keyless": f"{n}, 1",
    }[table]
    verb = chance.choice(["INSERT IGNORE", "INSERT IGNORE", "REPLACE"])
    return f"{verb} INTO {d}.{table} VALUES ({row})"


def history(chance: random.Random, length: int, d: str = "d") -> Iterator[str]:
    """Yield the statements of a random session: transactions of one to four changes, and some DDL."""
    yield f"CREATE DATABASE {d}"
    yield from (text for text in TABLES.format(d=d).split(";\n") if text.strip())
    for number in range(length):
        if chance.random() < 0.02:
            yield f"ALTER TABLE {d}.plain ADD COLUMN c{number} INT"
            yield f"ALTER TABLE {d}.plain DROP COLUMN c{number}"
        yield "; ".join(["BEGIN", *(_change(chance, d) for _ in range(chance.choice([1, 1, 2, 4]))), "COMMIT"])


def dependencies_in(files: Sequence[Path]) -> dict[int, list[tuple[int, int]]]:
    """Return (sequence_number, last_committed) of all transactions, by file."""
    found = {}
    for number, path in enumerate(files):
        data = path.read_bytes()
        bodies = [e.body for e in walk(data) if e.type_code in (33, 34)]
        found[number] = [struct.unpack_from("<qq", body, 26)[::-1] for body in bodies]
    return found


def merged(folder: Path, nodes: dict[str, Path], name: str = "out", **output: Any) -> tuple[Any, list[Path]]:
    """Merge nodes' binlogs; return the result and the files of the output."""
    values = {
        "version": 1, "name": "d", "commit-tso": {"carrier": "gtid-time"}, "shard-mode": "optimistic",
        "nodes": [{"source-id": node, "files": f"{path}/binlog.[0-9]*"} for node, path in nodes.items()],
        "output": output,
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values))
    result = merge(path, folder / name)
    return result, sorted((folder / name).glob("binlog.0*"))


@pytest.mark.mysql
@pytest.mark.parametrize("seed", keeping([1], [1, 2]))
def test_a_single_node_s_are_the_server_s(tmp_path: Path, mysql_server: MySqlServer, seed: int) -> None:
    """One session: on the server nothing is committed side by side, so what it writes are its writesets alone."""
    mysql_server.execute("; ".join(history(random.Random(seed), 400)))
    own = dependencies_in(mysql_server.binlog_files())[0]
    result, files = merged(tmp_path, {"dn-1": mysql_server.data})
    ours = dependencies_in(files)[0]
    assert [n for n, _ in ours] == [n for n, _ in own]
    differing = [(a, b) for a, b in zip(ours, own, strict=True) if a != b]
    assert differing == []
    waiting = sum(last == n - 1 for n, last in ours)
    assert result.dependencies["wait_for_the_one_before"] == waiting < len(ours) * 0.8


MINIMAL = """
CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, u VARCHAR(9) UNIQUE); SET binlog_row_image = MINIMAL;
INSERT INTO d.t VALUES (1, 'a'); INSERT INTO d.t VALUES (2, 'b'); INSERT INTO d.t VALUES (5, NULL);
UPDATE d.t SET id = 3, u = 'c' WHERE id = 1; INSERT INTO d.t VALUES (4, 'a'); INSERT INTO d.t VALUES (6, 'z');
UPDATE d.t SET id = 7, u = 'y' WHERE id = 6; UPDATE d.t SET id = 8, u = NULL WHERE id = 7;
INSERT INTO d.t VALUES (9, 'y')
"""


@pytest.mark.mysql
def test_an_image_after_an_update_has_more_than_the_one_before(tmp_path: Path, mysql_server: MySqlServer) -> None:
    """What frees a unique key's value is not in the image before, and the image after has all columns."""
    mysql_server.execute(MINIMAL)
    own = dict(dependencies_in(mysql_server.binlog_files())[0])
    ours = dict(dependencies_in(merged(tmp_path, {"dn-1": mysql_server.data})[1])[0])
    assert ours.keys() == own.keys()
    assert [(n, ours[n], last) for n, last in own.items() if ours[n] < last] == []


def _dependencies(said: str | None) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        values["output"].pop("dependencies")
        if said is not None:
            values["output"]["dependencies"] = said

    return change


_by_writesets = _dependencies(None)  # the default


@pytest.mark.parametrize("begun", ["commit-order", "writeset"])
def test_a_log_goes_on_as_it_was_begun(tmp_path: Path, begun: str) -> None:
    """A configuration that does not say how takes what the log has; one that says otherwise is refused."""
    case = case_named("three-nodes-online-ddl")
    said, silent, contrary = (
        copy_case(case, tmp_path / str(name), _dependencies(name))
        for name in (begun, None, *({"commit-order", "writeset"} - {begun}))
    )
    good = whole(said)
    (data,) = good.values()
    keys = re.findall(rb"CTS::(\d{19})", data)
    merge(said, tmp_path / "out", stop_tso=int(keys[len(keys) // 2]), end_of_input=False)
    before = written(tmp_path / "out")
    assert 0 < sum(map(len, before.values())) < len(data)
    other = "writeset" if begun == "commit-order" else "commit-order"
    with pytest.raises(ManifestError, match=rf"output\.dependencies was '{begun}', is now '{other}'") as refused:
        merge(contrary, tmp_path / "out")
    assert refused.value.exit_code == 28 and written(tmp_path / "out") == before
    assert plan(MergeConfig.load(silent), tmp_path / "out").goes_on.grows
    shutil.copytree(tmp_path / "out", tmp_path / "rounds")
    merge(silent, tmp_path / "out")
    with Rounds(LocalRunner(), MergeConfig.load(silent), tmp_path / "rounds") as rounds:
        rounds.merge()
        rounds.merge(end_of_input=True)
    assert written(tmp_path / "out") == written(tmp_path / "rounds") == good


def _cut(size: int) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        _by_writesets(values)
        max_size(size)(values)

    return change


def without_dependencies(data: bytes) -> bytes:
    """Return a file in which every transaction depends on the one before it."""
    whole = bytearray(data)
    for event in walk(data):
        if event.type_code in (33, 34):
            at, end = event.offset, event.end
            (number,) = struct.unpack_from("<q", whole, at + 19 + 34)
            struct.pack_into("<q", whole, at + 19 + 26, number - 1)
            struct.pack_into("<I", whole, end - 4, zlib.crc32(whole[at : end - 4]))
    return bytes(whole)


@some_inputs
def test_nothing_else_differs_and_the_twin_agrees(case: Path, tmp_path: Path) -> None:
    path = copy_case(case, tmp_path / "case", _by_writesets)
    result = merge(path, tmp_path / "out")
    files = written(tmp_path / "out")
    assert {name: without_dependencies(data) for name, data in files.items()} == whole(case / "cluster.yaml")
    binlog_merge.verify(tmp_path / "out")
    twins = [twin(data, tmp_path / "out") for data in files.values()]
    assert list(dependencies_in([tmp_path / "out" / name for name in files]).values()) == twins
    waiting = sum(last == number - 1 for found in twins for number, last in found)
    assert result.dependencies.get("wait_for_the_one_before", 0) == waiting


@pytest.mark.parametrize(
    "case",
    keeping([case_named("shards-optimistic")], [case_named(name) for name in CUT]),
    ids=lambda case: str(case.name),
)
def test_any_cuts_restarts_and_rounds_give_the_same_files(case: Path, tmp_path: Path) -> None:
    """A process that begins has no history of the open file: it reads the file again."""
    rng = random.Random(case.name)
    total = sum(map(len, whole(case / "cluster.yaml").values()))
    path = copy_case(case, tmp_path / "runs", _cut(max(400, total // rng.choice([1, 3]))))
    good = whole(path)
    merge_growing(path, tmp_path / "out", good, rng, rounds=5, anywhere=False, remove_old=False)
    again = copy_case(case, tmp_path / "rounds", lambda values: values.update(yaml.safe_load(path.read_text())))
    merge_in_rounds(again, tmp_path / "again", good, rng, rounds=6)


@pytest.mark.parametrize("sizes", [SIZES[0], *(pytest.param(sizes, marks=pytest.mark.extended) for sizes in SIZES[1:])])
def test_streamed_transactions_depend_on_the_same(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", _by_writesets)
    good = whole(path)
    shrink(monkeypatch, *sizes)
    merge(path, tmp_path / "out")
    assert written(tmp_path / "out") == good


def test_a_transaction_with_many_keys_is_a_barrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", _by_writesets)
    usual = merge(path, tmp_path / "usual")
    monkeypatch.setattr(w, "LISTED", 3)
    result = merge(path, tmp_path / "out")
    large = result.dependencies["barriers"]["large"]
    assert usual.dependencies["barriers"]["large"] == 0 < large < result.dependencies["transactions"]
    binlog_merge.verify(tmp_path / "out")
    (before,), (after,) = (
        dependencies_in(sorted((tmp_path / name).glob("binlog.0*"))).values() for name in ("usual", "out")
    )
    assert all(b >= a for (_, a), (_, b) in zip(before, after, strict=True))
    (good,) = written(tmp_path / "out").values()
    keys = re.findall(rb"CTS::(\d{19})", good)
    merge(path, tmp_path / "again", stop_tso=int(keys[len(keys) // 2]), end_of_input=False)
    merge(path, tmp_path / "again")
    assert written(tmp_path / "again") == written(tmp_path / "out")


def test_verify_knows_files_of_an_older_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In which many keys were no barrier; also while this build goes on with them. Files of its own must have it."""
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", _by_writesets)
    merge(path, tmp_path / "own")
    (good,) = written(tmp_path / "own").values()
    keys = re.findall(rb"CTS::(\d{19})", good)
    with monkeypatch.context() as older:
        older.setattr(publish, "_rules", lambda *_: {})
        merge(path, tmp_path / "older", stop_tso=int(keys[len(keys) // 2]), end_of_input=False)
    merge(path, tmp_path / "older")
    assert written(tmp_path / "older") == written(tmp_path / "own")
    monkeypatch.setattr(w, "LISTED", 3)
    binlog_merge.verify(tmp_path / "older")
    with pytest.raises(ChecksumMismatch, match="which it depends on"):
        binlog_merge.verify(tmp_path / "own")


def test_a_log_of_an_earlier_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its statements list no databases; those that this build writes do."""
    case = case_named("three-nodes-online-ddl")
    transactions = json.loads((case / "expected" / "transactions.json").read_text())
    first, second = (int(one["tso"]) for one in transactions if one["kind"] == "ddl")
    with monkeypatch.context() as older:
        older.setattr(LogicalDdl, "listed", lambda *_: frozenset())
        merge(case / "cluster.yaml", tmp_path / "out", stop_tso=(first + second) // 2, end_of_input=False)
    merge(case / "cluster.yaml", tmp_path / "out")
    (data,) = written(tmp_path / "out").values()
    queries = [Query.parse(event.body) for event in walk(data) if event.type_code == EventType.QUERY_EVENT]
    found = [query.status_vars.get(StatusVar.Q_UPDATED_DB_NAMES) for query in queries if query.text != "BEGIN"]
    assert found == [None, (b"shop",)]
    assert binlog_merge.verify(tmp_path / "out").transactions == len(transactions)


def test_verify_sees_a_transaction_that_does_not_wait_for_another(tmp_path: Path) -> None:
    """A transaction that depends on one of its file, made to depend on the one before that."""
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", _by_writesets)
    merge(path, tmp_path / "out")
    ((name, good),) = written(tmp_path / "out").items()
    begins = [event for event in walk(good) if event.type_code in (33, 34)]
    depending = [event for event in begins if any(event.body[26:34])]
    assert len(depending) > 50
    for event in depending[:: effort(len(depending) // 3, 1)]:
        wrong = bytearray(good)
        (last,) = struct.unpack_from("<q", wrong, event.offset + 19 + 26)
        struct.pack_into("<q", wrong, event.offset + 19 + 26, last - 1)
        struct.pack_into("<I", wrong, event.end - 4, zlib.crc32(wrong[event.offset : event.end - 4]))
        (tmp_path / "out" / name).write_bytes(wrong)
        with pytest.raises(ChecksumMismatch, match="which it depends on"):
            binlog_merge.verify(tmp_path / "out")


@pytest.mark.mysql
@pytest.mark.parametrize("order", keeping(["OFF"], ["OFF", "ON"]))
def test_a_replica_with_eight_workers(tmp_path: Path, mysql_server: MySqlServer, order: str) -> None:
    """Two shards: keys that go from one to the other, foreign keys, rows without keys, all images."""
    with MySqlServer(tmp_path / "b", server_id=12) as other:
        histories = Histories([mysql_server, other], seed=len(order))
        histories.begin()
        histories.run(150)
        nodes = {"dn-1": mysql_server.data, "dn-2": other.data}
        _, files = merged(tmp_path, nodes, **{"max-size": "20KiB"})
        expected = rows_of(histories.shards)
    with replica(tmp_path / "replica", files, f"--replica-preserve-commit-order={order}") as server:
        assert rows_of([server]) == expected
