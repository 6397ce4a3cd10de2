"""The sparse index changes no answer: there, gone, torn, of other bytes, and of a log that has grown since."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import binlog_merge
from binlog_merge.ask.life import life_of
from binlog_merge.binlog.columnar import cell_types
from binlog_merge.binlog.constants import DELETE_TYPES, UPDATE_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.events import parse_event
from binlog_merge.binlog.kernels import key_hashes as h
from binlog_merge.errors import ConfigError
from binlog_merge.files import sidecar
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.removal import remove
from binlog_merge.log import key_index
from binlog_merge.log.index import chunks_of
from binlog_merge.log.key_conditions import hash_of, kind_of
from binlog_merge.log.log import Log
from binlog_merge.log.place import parse_place
from binlog_merge.log.reader import events_of
from binlog_merge.values.duckdb.compile import parse
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType
from tests.effort import effort, seed_of_search
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.targets.as_merged import run_session

TABLE = "shop.orders"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "LEAST_BYTES", 0)
    monkeypatch.setattr("binlog_merge.log.index.CHUNK", 3000)
    monkeypatch.setattr(key_index, "_MUCH", 0)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    case = copy_case(case_named("three-nodes-online-ddl"), folder / "case", max_size(60_000))
    merge(case, folder / "merged")
    return folder / "merged"


@pytest.fixture
def unindexed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Call what is given as if nothing were kept, or could be."""

    def plainly(call: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(LogFolder, "sidecars", None)
            return call()

    yield plainly


def question(r: random.Random, rows: list[dict[str, Any]], last: int, uuid: str) -> dict[str, Any]:
    """Return a question at random: about ids that are there and that are not, in a range or in all of the log."""
    ids = [row[side]["id"] for row in rows for side in ("before", "after") if row[side]]

    def one() -> str:
        some = [r.choice([r.choice(ids), r.randrange(10**6), -5]) for _ in range(3)]
        return r.choice([
            f"id = {some[0]}", f"{some[0]} = id", f"`ID` IN ({some[0]}, {some[1]})", f"id <=> {some[0]}",
            f"(id = {some[0]} OR id = {some[1]} AND price > 10)", f"id = {some[0]} AND price > 50000",
            f"id > {some[0]}", f"id = '{some[0]}'", f"id = {some[0]}.0", f"NOT id = {some[0]}", f"id + 0 = {some[0]}",
            f"id = 0x{abs(some[0]):x}",
        ])  # fmt: skip

    asked: dict[str, Any] = {"where": " AND ".join(one() for _ in range(r.choice([1, 1, 2])))}
    first = r.randrange(1, last)
    if r.random() < 0.5:
        asked["start"] = f"{uuid}:{first}"
    if r.random() < 0.5:
        asked["stop"] = f"{uuid}:{r.randrange(first, last + 1)}"
    if r.random() < 0.3:
        asked["op"] = ["update", "delete"]
    return asked


def flip(path: Path, r: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    path.write_bytes(data)


def spoil(folder: Path, how: str, r: random.Random) -> None:
    """Make what is kept in a folder useless in some way."""
    paths = sorted((folder / sidecar.FOLDER).iterdir())
    for path in paths:
        if how == "gone" and r.random() < 0.5:
            path.unlink()
        elif how == "torn":
            path.write_bytes(path.read_bytes()[: r.randrange(path.stat().st_size)])
        elif how == "flipped":
            flip(path, r)
        elif how == "another's":
            other = r.choice([other for other in paths if other.suffix == path.suffix])
            path.write_bytes(other.read_bytes())


@pytest.mark.heavy
def test_no_answer_changes(merged: Path, unindexed: Callable[[Callable[[], Any]], Any]) -> None:
    r = random.Random(seed_of_search())
    binlog = Log(merged)
    rows = binlog_merge.changes(merged, TABLE).read_all().to_pylist()
    asked = [question(r, rows, binlog.last_rank, binlog.cluster_uuid) for _ in range(effort(3, 12))]

    def answers() -> list[Any]:
        return [binlog_merge.changes(merged, TABLE, **one).read_all().to_pylist() for one in asked]

    def places() -> list[Any]:
        return [Log(merged).between(parse_place("--start", row["order_key"]), None)
                for row in rows[::40]]  # fmt: skip

    expected, placed = unindexed(answers), unindexed(places)
    assert any(expected) and len(chunks_of(binlog.folder, binlog.state.files[0])) > 5
    for how in ("new", "kept", "gone", "torn", "flipped", "another's", "kept"):
        if how not in ("new", "kept"):
            spoil(merged, how, r)
        assert answers() == expected, how
        assert places() == placed, how
    key = {"id": str(rows[3]["after"]["id"])}
    assert life_of(binlog, ("shop", "orders"), key) == unindexed(lambda: life_of(binlog, ("shop", "orders"), key))


def test_what_has_no_row_with_a_key_is_not_read(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binlog = Log(merged)
    where = "id = " + str(binlog_merge.changes(merged, TABLE).read_all().to_pylist()[7]["after"]["id"])
    binlog_merge.changes(merged, TABLE, where=where).read_all()
    read: list[int] = []
    whole = key_index.file_segments
    monkeypatch.setattr(
        key_index, "file_segments",
        lambda binlog, file, *ranks: read.append(ranks[1] - ranks[0] + 1) or whole(binlog, file, *ranks),
    )  # fmt: skip
    assert len(binlog_merge.changes(merged, TABLE, where=where).read_all())
    assert sum(read) < binlog.last_rank / 3
    read.clear()
    assert not len(binlog_merge.changes(merged, TABLE, where="id = -77").read_all())
    assert sum(read) < binlog.last_rank / 10


def test_another_time_of_writing_makes_it_another_file(merged: Path) -> None:
    binlog = Log(merged)
    file = binlog.state.files[0]
    binlog_merge.changes(merged, TABLE, where="id = 1").read_all()
    path = merged / sidecar.FOLDER / f"{file.name}.keys"
    assert sidecar.read_sidecar(merged, "keys", binlog.cluster_uuid, file) is not None
    (merged / file.name).touch()
    assert sidecar.read_sidecar(merged, "keys", binlog.cluster_uuid, file) is None
    binlog_merge.changes(merged, TABLE, where="id = 1").read_all()
    assert path.exists() and sidecar.read_sidecar(merged, "keys", binlog.cluster_uuid, file) is not None


def test_they_go_with_their_files(tmp_path: Path) -> None:
    merge(copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(60_000)), tmp_path / "out")
    out = tmp_path / "out"
    binlog_merge.changes(out, TABLE, where="id = 1").read_all()
    manifest = Manifest.load(out)
    gone, *kept = manifest.state.files
    remove(out, manifest, [gone], {})
    names = {path.stem for path in (out / sidecar.FOLDER).iterdir()}
    assert names == {file.name for file in kept}
    (out / sidecar.FOLDER / "binlog.000999.keys").write_bytes(b"of nothing")
    (out / sidecar.FOLDER / ".binlog.000002.keys.1234.part").write_bytes(b"of a process that was killed")
    merge(tmp_path / "case" / "cluster.yaml", out)
    assert {path.stem for path in (out / sidecar.FOLDER).iterdir()} == names


KEYS = """CREATE TABLE n (a BIGINT UNSIGNED, b TINYINT, v INT, PRIMARY KEY (b, a));
INSERT INTO n VALUES (18446744073709551615, -128, 1), (9223372036854775808, 127, 2);
INSERT INTO n VALUES (1, -1, 3), (255, 1, 4);
CREATE TABLE s (k VARCHAR(300), c CHAR(9) COLLATE utf8mb4_bin, x VARBINARY(20), v INT, PRIMARY KEY (k, c, x));
INSERT INTO s VALUES ('Abc', 'Q', 0x00ff, 0);
INSERT INTO s VALUES ('abd  ', 'q', 'Plain', 0);
INSERT INTO s VALUES ('Ähre', 'é', 0x20, 0);
INSERT INTO s VALUES ('ﬀ', '', '', 0);
INSERT INTO s VALUES ('', ' ', 0x6100, 0);
UPDATE s SET v = 2 WHERE k = 'AHRE';
ALTER TABLE n ADD COLUMN first INT FIRST, MODIFY a BIGINT UNSIGNED AFTER b;
UPDATE n SET b = 5 WHERE b = 1;
SET binlog_row_image = MINIMAL;
UPDATE n SET b = 6 WHERE b = 5;
DELETE FROM n WHERE v = 1;
ALTER TABLE n DROP PRIMARY KEY, ADD PRIMARY KEY (v);
INSERT INTO n VALUES (1, 5, 7, 8);"""
ASKED = {
    "d.n": ["a = 18446744073709551615", "b = -128", "b = 128", "a = 1 AND b = -1", "a IN (255, 256)", "b = 5", "v = 8",
            "a = 7", "b = 1 OR v = 3", "first = 1", "b = 6", "a = -1", "b = '5'"],
    "d.s": ["k = 'ABC'", "k = 'abd'", "k = 'ahre'", "k = 'ff'", "k = ''", "c = 'q'", "c = 'Q'", "c = ' '", "x = 0x00FF",
            "x = 'Plain'", "x = 'plain'", "x = 0x61", "x = 0x6100", "k = 'none' AND x = 0x20", "k = 0", "c = ''"],
}  # fmt: skip
NODE = """version: 1
name: one
nodes: [{source-id: dn-1, files: [binlog.0*]}]
shard-mode: optimistic
commit-tso: {carrier: gtid-time}
output: {basename: binlog, server-id: 9001, cluster-uuid: 11111111-2222-3333-4444-555555555555}
"""


@pytest.mark.mysql
def test_keys_of_all_kinds_are_found(
    mysql_server: MySqlServer, tmp_path: Path, unindexed: Callable[[Callable[[], Any]], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A chunk is a transaction here: a key that a filter misses is a row that is missed."""
    monkeypatch.setattr("binlog_merge.log.index.CHUNK", 1)
    run_session(mysql_server, KEYS, "d")
    for file in mysql_server.binlog_files():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "cluster.yaml").write_text(NODE)
    merge(tmp_path / "cluster.yaml", tmp_path / "out")

    def answer(table: str, where: str) -> Any:
        try:
            return (
                binlog_merge.changes(tmp_path / "out", table, where=where, as_of=(1 << 63) - 2).read_all().to_pylist()
            )
        except ConfigError as error:
            return str(error)

    found = 0
    for table, conditions in ASKED.items():
        for where in conditions:
            expected = unindexed(lambda table=table, where=where: answer(table, where))
            assert answer(table, where) == answer(table, where) == expected, (table, where)
            found += isinstance(expected, list) and len(expected) > 0
    assert found > 15
    assert list((tmp_path / "out" / sidecar.FOLDER).glob("*.keys"))


@pytest.mark.mysql
def test_texts_of_ascii_are_equal_in_all_cases_or_not_at_all(mysql_server: MySqlServer) -> None:
    """Where texts are looked for, of printable ASCII only letters that differ in case are equal."""
    told = mysql_server.query("SELECT collation_name FROM information_schema.collations")
    collations = [name for (name,) in told if kind_of(Column("c", ColumnType("char", collation=name))) is not None]
    assert {"utf8mb4_0900_ai_ci", "utf8mb4_bin", "latin1_swedish_ci"} <= set(collations)
    chars = [chr(code) for code in range(33, 127)]
    for name in collations:
        values = ", ".join(f"ROW(CONVERT(0x{ord(char):02x} USING {name.split('_')[0]}))" for char in chars)
        equal = mysql_server.query(
            f"WITH t(c) AS (VALUES {values}) SELECT HEX(a.c), HEX(b.c) FROM t a JOIN t b ON a.c COLLATE {name} = b.c"
        )
        assert all(bytes.fromhex(a).lower() == bytes.fromhex(b).lower() for a, b in equal), name
        assert len(equal) >= len(chars)


def twin(data: bytes) -> int:
    """Return the hash of a text as its definition says, in plain Python."""
    data = data.rstrip(b" \0")
    plain = all(32 <= char <= 126 for char in data)
    value = 0xCBF29CE484222325 if plain else 0x84222325CBF29CE4
    for char in data.lower() if plain else data:
        value = (value ^ char) * 0x100000001B3 & (1 << 64) - 1
    return mixed(value)


def mixed(value: int) -> int:
    value &= (1 << 64) - 1
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    value = (value ^ value >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    value ^= value >> 31
    return value - (1 << 64) if value >> 63 else value


def test_hashes_and_filters_are_what_they_say() -> None:
    r = random.Random(seed_of_search())
    found = np.zeros(1, np.int64)
    for _ in range(200):
        data = bytes(r.choice(b"aZ09 -_\0\xc3\xa4") for _ in range(r.randrange(12)))
        h.text_hash(np.frombuffer(bytearray(data + b"x"), np.uint8), 0, len(data), found)
        assert found[0] == twin(data), data
    for number in (0, 1, -1, 1 << 62, -(1 << 63)):
        assert h.number_hash(number) == mixed(number + 0x9E3779B97F4A7C15)
        literal = parse(f"x = {number}").args[1]
        assert hash_of(literal, "number") == h.number_hash(number)
    hashes = np.array([r.getrandbits(64) - (1 << 63) for _ in range(600)])
    bounds, first, blocks = np.array([0, 200, 500]), np.array([0, 10]), np.array([10, 15])
    words = np.zeros(25 * h.WORDS, np.uint32)
    h.add_to_filters(hashes, bounds, first, blocks, words)
    there = np.zeros(2, np.bool_)
    hits = np.zeros((600, 2), bool)
    for number, value in enumerate(hashes):
        h.in_filters(value, first, blocks, words, there)
        hits[number] = there
    assert hits[:200, 0].all() and hits[200:500, 1].all()
    assert hits[500:].mean() < 0.1


def test_a_damaged_rows_event_is_counted_or_refused(merged: Path) -> None:
    """With NUMBA_BOUNDSCHECK=1 a byte that is read outside of the event is an IndexError."""
    r = random.Random(seed_of_search())
    binlog = Log(merged)
    table: Any = None
    seen = 0
    for event in events_of(binlog.folder, binlog.state.files[1]):
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table = parse_event(event)
        elif event.type_code in (*WRITE_TYPES, *UPDATE_TYPES, *DELETE_TYPES):
            seen += 1
            types, metas = cell_types(table.types, tuple(table.metas))
            wanted = np.array([h.NUMBER, h.TEXT + 2] + [0] * (len(types) - 2), np.int64)
            for number in range(60):
                body = bytearray(bytes(event.body))
                for _ in range(0 if number == 0 else 3):
                    body[r.randrange(len(body))] = r.choice([0, 1, 2, 127, 252, 255, r.randrange(256)])
                data = np.frombuffer(body[: len(body) if number < 30 else r.randrange(len(body))], np.uint8)
                places = np.array([[0, len(data), int(event.type_code), 0]])
                room = 4 * len(body)
                hashes, groups = np.zeros(room, np.int64), np.zeros(room, np.int32)
                flags, last, found = np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64)
                count = h.hash_events(data, places, types, metas, wanted, hashes, groups, 0, flags, last, found)
                assert count >= (2 if number == 0 else h.MORE_ROOM)
        if seen > 40:
            break
    assert seen > 10
