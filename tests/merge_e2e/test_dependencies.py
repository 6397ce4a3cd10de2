"""`output.dependencies: writeset`: what a transaction depends on is what a MySQL server writes for the same rows."""

import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.binlog.header import walk
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer

TABLES = """
CREATE TABLE {d}.plain (id INT PRIMARY KEY, u VARCHAR(20) UNIQUE, v INT);
CREATE TABLE {d}.texts (k VARCHAR(300) COLLATE utf8mb4_general_ci, c CHAR(5) COLLATE utf8mb4_bin, b VARBINARY(9), v INT,
    PRIMARY KEY (k, c), UNIQUE (b, v), UNIQUE (k(2), v));
CREATE TABLE {d}.numbers (a DECIMAL(20, 5), f DOUBLE, t DATETIME(3), e ENUM('x', 'y'), v BIGINT UNSIGNED NOT NULL,
    UNIQUE (v), UNIQUE (a), UNIQUE (f, e), KEY (t));
CREATE TABLE {d}.keyless (a INT, b INT);
"""
NAMES = "a b c Ab AB aB ab abc abd x y".split()


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
        bodies = [data[e.offset + 19 :] for e in walk(data) if e.type_code in (33, 34)]
        found[number] = [struct.unpack_from("<qq", body, 26)[::-1] for body in bodies]
    return found


def merged(folder: Path, nodes: dict[str, Path], name: str = "out", **output: Any) -> tuple[Any, list[Path]]:
    """Merge nodes' binlogs; return the result and the files of the output."""
    values = {
        "version": 1, "name": "d", "commit-tso": {"carrier": "gtid-time"}, "shard-mode": "optimistic",
        "nodes": [{"source-id": node, "files": f"{path}/binlog.[0-9]*"} for node, path in nodes.items()],
        "output": {"dependencies": "writeset", **output},
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values))
    result = merge(path, folder / name)
    return result, sorted((folder / name).glob("binlog.0*"))


@pytest.mark.mysql
@pytest.mark.parametrize("seed", [1, 2])
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
