"""The DuckDB store: what goes in comes out, the SQL lookup is the history's, and a killed writer leaves it whole."""

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snapshot_store.errors import BeforeBase, HistoryConflict, QueryFailed, StoreBusy, StoreError
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model import Column, Index, IndexPart, Schema, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.store import db
from snapshot_store.store.db import Store
from snapshot_store.store.migrations import migrate
from snapshot_store.store.settings import write_setting
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey
from tests.effort import effort
from tests.snapshot_store.strategies import KEYS, NODES, VERSIONS

ROOT = Path(__file__).resolve().parents[3]
OLD = Table("d", "t", (Column("a", ColumnType("int")),))
NEW = Table("d", "t", (Column("b", ColumnType("int")),))
K5 = OrderKey(5, 1, 0, 0)
_IN_ACCESS = 1
REQUESTS = st.lists(
    st.tuples(st.sampled_from(["d", "D", "x"]), st.sampled_from(["t", "u", "表"]), KEYS, NODES), max_size=8
)


def test_a_history_comes_back_as_it_went_in(tmp_path: Path) -> None:
    path = tmp_path / "schemas.duckdb"
    versions = [
        TableVersion(K5, 0, "d", "t", NEW, "ALTER TABLE `t` …;\0", None, "node-1/binlog.000001", 2**40, "marker"),
        TableVersion(OrderKey(2**62, 2**62, 9, 999_999), 0, "d", "t", None, node="n1"),
    ]
    schemas = [SchemaVersion(K5, "e", None), SchemaVersion(ORIGIN, "e", Schema("e", "gbk", "gbk_bin"), node="n1")]
    base = TableVersion(ORIGIN, 0, "d", "t", OLD, origin="base")
    base_schema = SchemaVersion(ORIGIN, "d", Schema("d"), origin="base")
    with Store.open(path) as store:
        assert store.append_versions([base], [base_schema]) == 2
        assert store.append_versions(versions, schemas) == 4
    with Store.open(path, read_only=True) as store:
        history = store.load_history()
    assert history == SchemaHistory().with_versions([base, *versions], [*schemas, base_schema])


def test_bytes_that_are_no_text_are_kept_as_their_numbers(tmp_path: Path) -> None:
    ddl, name = b"CREATE TABLE `t\xfb` (a INT) COMMENT '\xe9'".decode("utf-8", "surrogateescape"), "t\udcfb\ud800"
    table = Table("d", name, (Column("a", ColumnType("int"), comment="\udce9"),))
    with Store.open(tmp_path / "s") as store:
        assert store.append_versions([TableVersion(K5, 0, "d", name, table, ddl)], [SchemaVersion(K5, name, None)]) == 2
        assert store.append_versions([TableVersion(K5, 0, "d", name, table, ddl)]) == 0
        (version,) = store.load_history().versions
    assert (version.name, version.ddl) == ("t\\xfb\\ud800", "CREATE TABLE `t\\xfb` (a INT) COMMENT '\\xe9'")
    assert version.table == table


def test_appending_twice_is_appending_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        assert store.append_versions([TableVersion(K5, 0, "d", "t", OLD)]) == 1
        assert store.append_versions([TableVersion(K5, 7, "d", "t", OLD, file="elsewhere")]) == 0
        assert store.append_versions([]) == 0
        assert len(store.load_history().versions) == 1


def test_what_does_not_count_in_values_does_not_count_in_the_store(tmp_path: Path) -> None:
    explicit = Table("d", "t", OLD.columns, (Index("a", (IndexPart("a"),)),))
    implicit = Table("d", "t", OLD.columns, (Index("a", (IndexPart("a"),), implicit=True),))
    with Store.open(tmp_path / "s") as store:
        store.append_versions([TableVersion(K5, 0, "d", "t", explicit)])
        assert store.append_versions([TableVersion(K5, 0, "d", "t", implicit)]) == 0


def test_another_definition_at_the_same_key_is_refused_whole(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.append_versions([TableVersion(K5, 0, "d", "t", OLD)])
        both = [TableVersion(K5, 0, "d", "a", OLD), TableVersion(K5, 0, "d", "t", NEW, file="b.1", position=4)]
        with pytest.raises(HistoryConflict, match=r"another definition of d\.t .* b\.1:4"):
            store.append_versions(both)
        assert len(store.load_history().versions) == 1
        assert store.append_versions(both[:1]) == 1


@settings(max_examples=effort(8, 20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VERSIONS, REQUESTS)
def test_the_asof_join_finds_what_the_history_finds(
    versions: list[TableVersion], requests: list[tuple[str, str, OrderKey, str | None]]
) -> None:
    store = memory_store()
    store.append_versions(versions)
    history = store.load_history()
    assert history == SchemaHistory().with_versions(versions)
    assert store.lookup(requests) == [history.at(*request) for request in requests]


@contextmanager
def _holding(code: str) -> Iterator[None]:
    """Run a program that has a store open once it prints a line."""
    command = [sys.executable, "-c", f"{code}; print('open', flush=True); input()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
    assert holder.stdout is not None and holder.stdout.readline() == "open\n"
    try:
        yield
    finally:
        holder.kill()
        holder.communicate()


def _version(number: int) -> TableVersion:
    return TableVersion(OrderKey(number, 0, 0, 0), 0, "d", "t", replace(OLD, comment=str(number)))


SHELL = "import duckdb; c = duckdb.connect({path!r}, read_only={read_only})"


@pytest.mark.parametrize("read_only", [True, False])
def test_nobody_waits_for_a_shell_that_has_the_store_open(read_only: bool, tmp_path: Path) -> None:
    """Neither a writer nor a reader; and the shell reads on."""
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.append_versions([_version(1)])
    with _holding(SHELL.format(path=str(path), read_only=read_only)):
        for number in (2, 3):
            with Store.open(path, wait_seconds=0) as store:
                store.append_versions([_version(number)])
            with Store.open(path, True, wait_seconds=0) as store:
                assert store.last_key() == OrderKey(number, 0, 0, 0)


def test_readers_read_on_what_was_there_when_they_came(tmp_path: Path) -> None:
    """Also in the process that has an older one open."""
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.append_versions([_version(1)])
    with Store.open(path, True) as older:
        with Store.open(path) as store:
            store.append_versions([_version(2)])
            with Store.open(path, True) as meanwhile:
                assert len(meanwhile.load_history().versions) == 1, "what a writer has not ended is for nobody else"
        with Store.open(path, True) as newer:
            assert len(newer.load_history().versions) == 2
        assert len(older.load_history().versions) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [".s.lock", "s"]


def test_a_question_leaves_nothing_to_the_next_reader(tmp_path: Path) -> None:
    """A question locks the settings of its DuckDB, and readers share theirs one after the other."""
    path = tmp_path / "s"
    for number in (1, 2, 3):
        with Store.open(path) as store:
            store.append_versions([_version(number)])
        for _ in range(2):
            with Store.open(path, True) as reader, Store.open(path, True) as beside:
                asked = "SELECT DISTINCT commit_tso FROM versions"
                assert len(reader.query(asked).rows) == len(reader.query(asked).rows) == number
                assert beside.last_key() == OrderKey(number, 0, 0, 0)
            with Store.open(path, True) as reader, pytest.raises(QueryFailed, match="locked"):
                reader.query("SET enable_external_access = true")
    with Store.open(path) as store:
        store.append_versions([_version(4)])


class Taken(list[Any]):
    """The idle engines as a thread sees them whose last one another thread takes in this moment."""

    def __len__(self) -> int:
        return 1


def test_another_thread_takes_the_idle_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "s") as store:
        store.append_versions([_version(1)])
    monkeypatch.setitem(db._idle, os.getpid(), Taken())
    with Store.open(tmp_path / "s", True) as reader:
        assert reader.last_key() == OrderKey(1, 0, 0, 0)


def test_a_forked_process_writes_stores_beside_its_parent(tmp_path: Path) -> None:
    """It cannot use the DuckDB of its parent, which has a store open meanwhile."""
    with Store.open(tmp_path / "s") as store:
        child = os.fork()
        if child == 0:
            with Store.open(tmp_path / "t") as other:
                other.append_versions([_version(1)])
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        store.append_versions([_version(2)])
    for name, number in (("s", 2), ("t", 1)):
        with Store.open(tmp_path / name, True) as store:
            assert [v.key for v in store.load_history().versions] == [_version(number).key]


def test_several_stores_are_written_side_by_side(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as one, Store.open(tmp_path / "t") as other:
        other.append_versions([_version(1)])
        one.append_versions([_version(2)])
    for name, number in (("s", 2), ("t", 1)):
        with Store.open(tmp_path / name, True) as store:
            assert [v.key for v in store.load_history().versions] == [_version(number).key]


def test_stores_that_are_damaged_harm_no_others(tmp_path: Path) -> None:
    """Some damage lets DuckDB do nothing more, with any store that it has open."""
    path, other = tmp_path / "s", tmp_path / "other"
    with Store.open(path) as store:
        store.append_versions(map(_version, range(1, 30)))
    data, rng, refused = path.read_bytes(), random.Random(1), 0
    for number in range(1, effort(40, 400)):
        damaged = bytearray(data)
        for _ in range(30):
            damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            with Store.open(path) as store:
                store.append_versions([_version(1000)])
        except StoreError:
            refused += 1
        with Store.open(other) as store:
            assert store.append_versions([_version(number)]) == 1
    assert refused > 10


def test_a_writer_waits_for_another_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s"
    code = "from pathlib import Path; from snapshot_store.store.db import Store; "
    with (
        _holding(f"{code}store = Store.open(Path({str(path)!r})); store.__enter__()"),
        pytest.raises(StoreBusy, match="is being written to"),
        Store.open(path, wait_seconds=0.2),
    ):
        pass
    with Store.open(path) as store:
        assert store.load_history() == SchemaHistory()


def test_a_block_that_changes_nothing_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.append_versions([_version(1)])
    before = path.stat()
    with Store.open(path) as store:
        assert store.append_versions([_version(1)]) == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_a_writer_in_place_has_left_is_taken_in(tmp_path: Path) -> None:
    """A killed shell's, or that of a program before stores were replaced."""
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.append_versions([_version(1)])
    sql = "UPDATE table_versions SET file = 'by hand'"
    code = f"import duckdb, os; c = duckdb.connect({str(path)!r}); c.execute({sql!r}); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / "s.wal").exists()
    with Store.open(path) as store:
        store.append_versions([_version(2)])
    with Store.open(path, True) as store:
        assert [v.file for v in store.load_history().versions] == ["by hand", ""]


def test_a_disk_that_is_full_leaves_the_store(tmp_path: Path) -> None:
    """Here a limit of the size of files; the next one goes on."""
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.append_versions([_version(1)])
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pathlib import Path\nfrom snapshot_store.store.db import Store\n"
        "from snapshot_store.errors import StoreIoFailed\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        f"try:\n    Store.open(Path({str(path)!r})).__enter__()\nexcept StoreIoFailed as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "File too large" in done.stdout, done.stderr
    with Store.open(path) as store:
        assert store.append_versions([_version(2)]) == 1


@pytest.mark.heavy
def test_readers_and_a_writer_all_day(tmp_path: Path) -> None:
    """No reader ever sees less than the one before, or half of a change, and none fails; nor does the writer."""
    path, rounds, stop = tmp_path / "s", effort(25, 400), threading.Event()
    with Store.open(path) as store:
        store.append_versions([_version(1)])
    failed: list[BaseException] = []

    def read() -> None:
        seen = 0
        try:
            while not stop.is_set():
                with Store.open(path, True, wait_seconds=0) as store:
                    first = len(store.load_history().versions)
                    assert first % 2 == 1 and first >= seen and len(store.load_history().versions) == first
                    seen = first
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    outside = f"from pathlib import Path; from snapshot_store.store.db import Store; path = Path({str(path)!r})\n"
    outside += (
        "while True:\n    with Store.open(path, True, wait_seconds=0) as s: assert len(s.load_history().versions) % 2"
    )
    others = [subprocess.Popen([sys.executable, "-c", outside], env={**os.environ, "PYTHONPATH": str(ROOT)})]
    try:
        for number in range(2, 2 * rounds, 2):
            with Store.open(path, wait_seconds=0) as store:
                store.append_versions([_version(number), _version(number + 1)])
    finally:
        stop.set()
        for reader in readers:
            reader.join()
        ended = [other.poll() for other in others]
        for other in others:
            other.kill()
            other.wait()
    assert failed == [] and ended == [None]


def test_a_reader_has_one_file_whenever_it_is_replaced(tmp_path: Path) -> None:
    """DuckDB opens a file for its headers, then again for the rest: here another takes its place in between."""
    small, large, path = tmp_path / "small", tmp_path / "large", tmp_path / "s"
    for file, last in ((small, 1), (large, 300)):
        for numbers in (range(1, last), [last]):
            with Store.open(file) as store:
                store.append_versions(map(_version, numbers))
    libc = ctypes.CDLL(None)

    def replace_at_the_first_read(watch: int, file: Path) -> None:
        os.read(watch, 1 << 10)
        file.replace(path)

    for before, after in [(small, large), (large, small)] * effort(10, 1000):
        shutil.copy(before, path)
        watch = libc.inotify_init()
        assert libc.inotify_add_watch(watch, os.fsencode(path), _IN_ACCESS) > 0
        replacer = threading.Thread(target=replace_at_the_first_read, args=(watch, shutil.copy(after, tmp_path / "t")))
        replacer.start()
        with Store.open(path, True, wait_seconds=0) as store:
            assert len(store.load_history().versions) in (1, 300)
        replacer.join()
        os.close(watch)


def test_what_is_no_store_and_what_is_too_new_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 1000)
    with pytest.raises(StoreError, match="no schema store"), Store.open(tmp_path / "text"):
        pass
    with pytest.raises(StoreError, match="cannot be opened"), Store.open(tmp_path / "absent", read_only=True):
        pass
    with Store.open(tmp_path / "new"):
        pass
    connection = duckdb.connect(str(tmp_path / "new"))
    connection.execute("UPDATE store_info SET version = 99")
    connection.close()
    with pytest.raises(StoreError, match="use a newer program"), Store.open(tmp_path / "new"):
        pass


def memory_store() -> Store:
    connection = duckdb.connect(":memory:")
    migrate(connection, read_only=False)
    return Store(Path(":memory:"), connection)


@pytest.mark.heavy
@settings(max_examples=effort(8, 20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VERSIONS, st.randoms(use_true_random=False))
def test_numbers_do_not_depend_on_the_order_of_appends(versions: list[TableVersion], random: Any) -> None:
    at_once, one_by_one = memory_store(), memory_store()
    at_once.append_versions(versions)
    shuffled = list(versions)
    random.shuffle(shuffled)
    for version in shuffled:
        one_by_one.append_versions([version])
    expected = SchemaHistory().with_versions(versions)
    for store in (at_once, one_by_one):
        lines = {(v.node, v.schema, v.name) for v in versions}
        assert store.history_of(lines) == expected == store.load_history()


@pytest.mark.heavy
@settings(max_examples=effort(10, 25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VERSIONS, KEYS, REQUESTS, VERSIONS)
def test_folding_breaks_nothing_above_and_guesses_nothing_below(
    versions: list[TableVersion],
    checkpoint: OrderKey,
    requests: list[tuple[str, str, OrderKey, str | None]],
    more: list[TableVersion],
) -> None:
    store = memory_store()
    store.append_versions(versions)
    whole = store.load_history()
    removed = store.fold(checkpoint)
    folded = store.load_history()
    assert len(folded.versions) + removed == len(whole.versions)
    for schema, name, key, node in requests:
        expected = whole.at(schema, name, key, node)
        for answer in (partial(folded.at, schema, name, key, node), partial(looked_up, store, schema, name, key, node)):
            try:
                found = answer()
            except BeforeBase:
                assert key < checkpoint
                continue
            if found is None or expected is None:
                # A table dropped below the checkpoint is as good as one that never was.
                assert found is expected or (found or expected).table is None  # type: ignore[union-attr]
            else:
                assert replace(found, folded=False) == expected
    # What comes later is numbered as if nothing had been folded.
    later = [replace(v, key=v.key._replace(commit_tso=v.key.commit_tso + 4)) for v in more]
    store.append_versions(later)
    numbers = {(v.node, v.key, v.schema, v.name): v.version_id for v in whole.with_versions(later).versions}
    for history in (store.load_history(), folded.with_versions(later)):
        assert all(numbers[v.node, v.key, v.schema, v.name] == v.version_id for v in history.versions)
        assert SchemaHistory().with_versions(history.versions, history.schema_versions) == history


def looked_up(store: Store, schema: str, name: str, key: OrderKey, node: str | None) -> TableVersion | None:
    return store.lookup([(schema, name, key, node)])[0]


def test_nothing_can_be_added_below_a_fold(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.append_versions([TableVersion(K5, 0, "d", "t", OLD), TableVersion(ORIGIN, 0, "d", "t", NEW)])
        assert store.fold(OrderKey(6, 0, 0, 0)) == 1
        assert store.fold(OrderKey(6, 0, 0, 0)) == 0
        with pytest.raises(HistoryConflict, match="older than the fold"):
            store.append_versions([TableVersion(OrderKey(3, 0, 0, 0), 0, "d", "u", OLD)])
        with pytest.raises(HistoryConflict, match="older than the fold"):
            store.load_history().with_versions([TableVersion(OrderKey(3, 0, 0, 0), 0, "d", "u", OLD)])
        assert store.append_versions([TableVersion(OrderKey(3, 0, 0, 0), 0, "d", "u", OLD, node="n1")]) == 1
        assert [v.version_id for v in store.load_history().versions] == [2, 1]


@pytest.mark.heavy
@settings(max_examples=effort(6, 15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VERSIONS, KEYS)
def test_parquet_and_back(
    tmp_path_factory: pytest.TempPathFactory, versions: list[TableVersion], key: OrderKey
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    one, other = memory_store(), memory_store()
    one.append_versions(versions, [SchemaVersion(K5, "e", Schema("e"))])
    one.set_topology(Topology((Route("a_*", "t_?", "a", "t"),), frozenset({"x"})))
    write_setting(one._connection, "beginning", K5.text())
    one.fold(key)
    one.export_parquet(folder / "out")
    assert other.import_parquet(folder / "out") == len(one.load_history().versions) + 1
    assert other.load_history() == one.load_history()
    assert (other.topology(), other.beginning()) == (one.topology(), K5)
    with pytest.raises(StoreError, match="is not empty"):
        other.import_parquet(folder / "out")
    with pytest.raises(StoreError, match="exists already"):
        one.export_parquet(folder / "out")
    with pytest.raises(StoreError, match="it is not what"):
        memory_store().import_parquet(folder)


def test_a_part_is_read_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.append_versions([TableVersion(OrderKey(n, 0, 0, 0), 0, "d", f"t{n % 7}", OLD) for n in range(50)])
        part = store.history_of([(None, "d", "t3"), (None, "d", "nothing")])
        assert [(v.name, v.version_id) for v in part.versions] == [("t3", n) for n in range(4, 51, 7)]
        at = store.history_at(OrderKey(20, 0, 0, 0))
        assert [(v.name, v.key.commit_tso) for v in at.versions] == [(f"t{n % 7}", n) for n in range(13, 20)]


WRITER = """
    import sys
    from pathlib import Path
    from snapshot_store.history import TableVersion
    from snapshot_store.store.db import Store
    from snapshot_store.tso import OrderKey
    with Store.open(Path(sys.argv[1])) as store:
        start = len(store.load_history().versions) // 2
    for n in range(start, start + 100000):
        key = OrderKey(n + 1, 0, 0, 0)
        with Store.open(Path(sys.argv[1])) as store:
            store.append_versions([TableVersion(key, 0, "d", name, None, "x" * 5000) for name in ("t", "u")])
        print(n, flush=True)
"""


def test_a_killed_writer_leaves_every_append_whole(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for round in range(3):
        code = textwrap.dedent(WRITER)
        writer = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert writer.stdout is not None
        acknowledged = int(writer.stdout.readline())
        time.sleep(0.05 + 0.07 * round)
        os.kill(writer.pid, signal.SIGKILL)
        lines = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        acknowledged = int(lines[-1]) if lines else acknowledged
        with Store.open(path) as store:
            history = store.load_history()
        keys = [v.key.commit_tso for v in history.versions]
        appends = len(keys) // 2
        assert keys == sorted([*range(1, appends + 1)] * 2)
        assert appends - (acknowledged + 1) in (0, 1)


FOLDER = """
    import sys
    from pathlib import Path
    from snapshot_store.store.db import Store
    from snapshot_store.tso import OrderKey
    for n in range(int(sys.argv[2]), 4000, 20):
        with Store.open(Path(sys.argv[1])) as store:
            store.fold(OrderKey(n, 0, 0, 0))
        print(n, flush=True)
"""


def test_a_fold_that_is_killed_is_done_or_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.append_versions(
            TableVersion(OrderKey(n, 0, 0, 0), 0, "d", f"t{n % 3}", OLD, "x" * 500) for n in range(4000)
        )
    folded = 0
    for round in range(3):
        folder = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(FOLDER), str(path), str(folded + 20)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert folder.stdout is not None
        folder.stdout.readline()
        time.sleep(0.02 + 0.05 * round)
        os.kill(folder.pid, signal.SIGKILL)
        folder.stdout.read()
        folder.wait()
        folder.stdout.close()
        with Store.open(path) as store:
            history = store.load_history()
        before = [v for v in history.versions if v.folded]
        folded = before[-1].key.commit_tso + 1
        assert folded % 20 == 0
        assert [v.key.commit_tso for v in before] == list(range(folded - 3, folded))
        assert [v.version_id for v in history.versions] == list(range(folded - 2, 4001))
