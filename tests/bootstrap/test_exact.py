"""What a bootstrap leaves is, to the value, what a replay of the whole log leaves at the same transaction.

The log has everything from the beginning, so a replay of it tells what is right. Rows come and go, change their keys,
move between shards and swap unique values while they are read in small chunks.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.bootstrap.values import Name
from binlog_merge.bootstrap.window import judged
from binlog_merge.cli import main as cli
from binlog_merge.errors import ReplayStopped
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.load import catalog_at, load
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.verification.against import compare_with_server
from binlog_merge.verification.base import DuckdbBase, Empty
from snapshot_store.server import ServerAddress
from tests.bootstrap.running import RunningBank, running, until
from tests.effort import effort, keeping
from tests.soak.sturdy_bank import TABLES, SturdyBank
from tools.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

THINGS = (
    "(kind ENUM('small', 'large') NOT NULL, name VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL, "
    "uniq INT NOT NULL, value DOUBLE, PRIMARY KEY (kind, name), UNIQUE KEY uniq (uniq), KEY value (value))"
)
TYPES = (
    "(id DECIMAL(20,3) PRIMARY KEY, i8 TINYINT, u64 BIGINT UNSIGNED, z INT(6) UNSIGNED ZEROFILL, de DECIMAL(40,10), "
    "d5 DECIMAL(5,5), f FLOAT, d DOUBLE, b BIT(64), y YEAR, dt DATE, dtm DATETIME(6), ts TIMESTAMP(3) NULL, "
    "tm TIME(2), c CHAR(10), v VARCHAR(40) CHARACTER SET latin1, t TEXT, bi BINARY(6), vb VARBINARY(20), bl BLOB, "
    "e ENUM('a', 'b,c', ''), s SET('x', 'y', 'z'), j JSON, g GEOMETRY, ve VECTOR(3), "
    "ge INT GENERATED ALWAYS AS (i8 + 1) STORED, gv INT GENERATED ALWAYS AS (i8 * 2) VIRTUAL)"
)
GIVEN = "id, i8, u64, z, de, d5, f, d, b, y, dt, dtm, ts, tm, c, v, t, bi, vb, bl, e, s, j, g, ve"
ROWS = (
    "(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "NULL, NULL, NULL, NULL, NULL, NULL)",
    "(2.5, -100, 18446744073709551615, 42, 123456789012345678901234567890.0123456789, -0.5, 0.1, 1.1e-300, "
    "0xFFFFFFFFFFFFFFFF, 2155, '9999-12-31', '2026-02-28 23:59:59.999999', '2038-01-19 03:14:07.999', '-838:59:59', "
    "'ab  ', 'Grüße', REPEAT('ü𝄞''\\\\\\n', 50), 'ab', x'00FF00', x'27005C', 'b,c', 'x,z', "
    "'{\"a\": [1, 2.5, null, \"ü\"], \"\": {}}', ST_GeomFromText('POINT(1 2)', 4326), TO_VECTOR('[1,-2.5,3e10]'))",
    "(-3.125, 0, 0, 0, 0, 0.99999, 16777217, -1.7976931348623157e308, 0, 1901, '1000-01-01', '1000-01-01 00:00:00', "
    "'1970-01-01 00:00:01', '12:34:56.78', '', '', '', '', '', '', '', '', '[]', "
    "ST_GeomFromText('LINESTRING(0 0,1 1)'), TO_VECTOR('[0,0,0]'))",
)


class Things:
    """Random changes of things on all shards, each in a distributed transaction; `stop` before the bank ends."""

    def __init__(self, bank: SturdyBank, seed: int) -> None:
        self.bank, self.rng, self.uniq = bank, random.Random(seed), 0
        self.here: list[set[tuple[str, str]]] = [set() for _ in bank.servers]
        self.changes = 0
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def fill(self, sessions: Any, count: int) -> None:
        """Insert so many things on each node."""
        for node in range(len(self.here)):
            rows = [self._insert(node) for _ in range(count)]
            self.bank.distributed(sessions, {node: "; ".join(rows)})

    @contextmanager
    def changing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
            assert self.error is None, repr(self.error)

    def _work(self) -> None:
        try:
            with self.bank.sessions() as sessions:
                while not self._stop.wait(0.01):
                    self.bank.distributed(sessions, self._change())
                    self.changes += 1
        except BaseException as error:
            self.error = error

    def _change(self) -> dict[int, str]:
        # The log has the branches of a transaction in the order of nodes: a row comes from the one before.
        node, other = sorted(self.rng.sample(range(len(self.here)), 2))
        what = self.rng.choice(["insert", "delete", "update", "rename", "move", "move", "swap"])
        if what == "insert" or len(self.here[node]) < 10:
            return {node: self._insert(node)}
        key, second = self.rng.sample(sorted(self.here[node]), 2)
        if what == "delete":
            self.here[node].discard(key)
            return {node: f"DELETE FROM {_table(node)} WHERE {_is(key)}"}
        if what == "update":
            return {node: f"UPDATE {_table(node)} SET value = {self.rng.random()!r} WHERE {_is(key)}"}
        if what == "rename":
            new = self._name(node)
            self.here[node].discard(key)
            return {node: f"UPDATE {_table(node)} SET kind = '{new[0]}', name = '{new[1]}' WHERE {_is(key)}"}
        if what == "swap":
            self.uniq += 1
            return {node: _swap(node, key, second)}
        self.uniq += 1
        self.here[node].discard(key)
        self.here[other].add(key)
        insert = f"INSERT INTO {_table(other)} VALUES ('{key[0]}', '{key[1]}', {self.uniq}, {self.rng.random()!r})"
        return {node: f"DELETE FROM {_table(node)} WHERE {_is(key)}", other: insert}

    def _insert(self, node: int) -> str:
        self.uniq += 1
        kind, name = self._name(node)
        return f"INSERT INTO {_table(node)} VALUES ('{kind}', '{name}', {self.uniq}, {self.rng.random()!r})"

    def _name(self, node: int) -> tuple[str, str]:
        while True:
            key = self.rng.choice(("small", "large")), f"{self.rng.choice('äbßz')}{self.rng.randrange(10**6)}"
            if not any(key in there for there in self.here):
                self.here[node].add(key)
                return key


def _table(node: int) -> str:
    return f"bank_{node}.things_{node}"


def _is(key: tuple[str, str]) -> str:
    return f"kind = '{key[0]}' AND name = '{key[1]}'"


def _swap(node: int, key: tuple[str, str], other: tuple[str, str]) -> str:
    """Let two rows have each other's unique value."""
    values = [f"(SELECT uniq FROM {_table(node)} WHERE {_is(one)})" for one in (key, other)]
    return (
        f"SET @a = {values[0]}, @b = {values[1]}; UPDATE {_table(node)} SET uniq = -@a - 1 WHERE {_is(key)}; "
        f"UPDATE {_table(node)} SET uniq = @a WHERE {_is(other)}; UPDATE {_table(node)} SET uniq = @b WHERE {_is(key)}"
    )


@pytest.mark.parametrize("targets", keeping([1], [1, 3]))
def test_it_is_what_a_replay_of_the_whole_log_leaves(targets: int, tmp_path: Path) -> None:
    """In a DuckDB file; in one with temporal values as text, and on a server."""
    with running(tmp_path, past=0, tables=(*TABLES, "things", "types", "late")) as bank, bank.beating():
        bank.bank.create("things", THINGS)
        bank.bank.create("types", TYPES)
        things = Things(bank.bank, 1)
        with bank.bank.sessions() as sessions:
            things.fill(sessions, effort(60, 120))
            for node, values in enumerate(ROWS):
                sql = f"INSERT INTO bank_{node}.types_{node} ({GIVEN}) VALUES {values}"
                bank.bank.distributed(sessions, {node: sql})
        with MySqlServer(tmp_path / "target", 301, binlog=False) as server:
            url = f"mysql://root@localhost/?socket={server.socket}"
            with things.changing():
                for number, extra in enumerate([(), ("--temporal=text",)][:targets]):
                    if number == 0:
                        _a_table_without_a_key_comes_while_rows_are_read(bank, f"duckdb://{tmp_path}/{number}.db")
                    result = bank.bootstrap(f"duckdb://{tmp_path}/{number}.db", rows=7, extra=extra)
                    assert result is not None
                    _same_as_replayed(bank, tmp_path, number, result["rank"], bool(extra))
                    if number == 0:
                        _it_is_refused_when_it_is_there(bank, f"duckdb://{tmp_path}/late.db")
                if targets < 3:
                    return
                result = bank.bootstrap(url, rows=7)
                until(lambda: things.changes > 50 or things.error is not None)
            assert result is not None
            found = compare_with_server(Log(bank.merged), ServerAddress.parse(url), base=Empty())
            assert found.rank == result["rank"] and found.same and found.whole and len(found.tables) == 4
            ((_, shown),) = server.query("SHOW CREATE TABLE bank.things")
            assert "UNIQUE KEY `uniq`" in shown


def _a_table_without_a_key_comes_while_rows_are_read(bank: RunningBank, to: str) -> None:
    """It needs no reading: the log has all of it."""
    assert bank.bootstrap(to, "bootstrap-committed:kill:4", rows=7) is None
    bank.bank.create("late", "(a INT)")
    bank.bank.servers[0].execute("INSERT INTO bank_0.late_0 VALUES (1), (1), (2); UPDATE bank_0.late_0 SET a = a + 1")


def _it_is_refused_when_it_is_there(bank: RunningBank, to: str) -> None:
    with pytest.raises(AssertionError, match=r"exit code 29.*tells the rows of bank.late apart"):
        bank.bootstrap(to)
    for node, server in enumerate(bank.bank.servers):
        server.execute(f"DROP TABLE bank_{node}.late_{node}")
    bank.bank._mark("DROP_TABLE", "late", "DROP TABLE late")
    bank.drained()


def _same_as_replayed(bank: RunningBank, home: Path, number: int, rank: int, text: bool) -> None:
    binlog, other = Log(bank.merged), home / f"replayed-{number}.db"
    with DuckdbTarget(other, binlog.cluster_uuid, text) as target:
        load(binlog, target, history_of(binlog.directory), ReplayOptions(last_rank=rank))
    with DuckdbTarget(home / f"{number}.db", binlog.cluster_uuid, text) as target:
        assert target.rank == rank
        target.connection.execute(f"ATTACH '{other}' AS replayed (READ_ONLY)")
        tables = [name for schema, name in target.catalog.tables if schema == "bank"]
        assert len(tables) == (4 if number else 5)
        for table in tables:
            mine, theirs = f"SELECT * FROM bank.{table}", f"SELECT * FROM replayed.bank.{table}"
            for one, two in ((mine, theirs), (theirs, mine)):
                assert target.connection.execute(f"{one} EXCEPT ALL {two}").fetchall() == [], table


MOVES = (
    (
        "INSERT INTO bank_0.ledger_0 VALUES (-7, 200, 7000)",
        "DELETE FROM bank_2.ledger_2 WHERE transfer = -7 AND account = 200",
    ),
    (
        "UPDATE bank_0.accounts_0 SET id = 250, balance = 1 WHERE id = 5",
        "UPDATE bank_2.accounts_2 SET id = 1250 WHERE id = 250",
    ),
    (
        "INSERT INTO bank_0.ledger_0 VALUES (-8, 200, -8)",
        "DELETE FROM bank_2.ledger_2 WHERE transfer = -8 AND account = 200",
    ),
)
"""What the first node gets, and the last one gives away."""


@pytest.fixture(scope="module")
def resting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBank]:
    home = tmp_path_factory.mktemp("resting")
    with running(home, past=30, settings="key-doubts: warn\n") as bank, bank.beating():
        yield bank


def test_what_the_nodes_must_be_set_to_is_said(resting: RunningBank, tmp_path: Path) -> None:
    node = resting.bank.servers[2]
    node.execute("SET GLOBAL binlog_row_image = MINIMAL")
    try:
        with pytest.raises(AssertionError, match=r"exit code 29.*binlog_row_image is MINIMAL"):
            resting.bootstrap(f"duckdb://{tmp_path}/x.db")
    finally:
        node.execute("SET GLOBAL binlog_row_image = FULL")
    assert list(tmp_path.glob("x.db*")) == []


def test_a_row_that_moves_to_an_earlier_node_is_not_lost(resting: RunningBank, tmp_path: Path) -> None:
    """The log has the branch of the last node, which frees the key, before that of the first, which takes it."""
    to = f"duckdb://{tmp_path}/moved.db"
    assert resting.bootstrap(to, "bootstrap-committed:kill:2", rows=10) is None
    unfinished, cluster = tmp_path / "moved.db.bootstrap", Log(resting.merged).cluster_uuid
    with pytest.raises(ReplayStopped, match="is being bootstrapped"), DuckdbTarget(unfinished, cluster):
        raise AssertionError("it must not be opened")
    with pytest.raises(ReplayStopped, match="is being bootstrapped"):
        DuckdbBase.of(unfinished, cluster)
    found = [_judged(resting, first, last) for first, last in MOVES]
    assert found == [(frozenset(), frozenset())] * len(MOVES)
    result = resting.bootstrap(to, rows=10)
    assert result is not None and not result["copied_again"]
    with duckdb.connect(str(tmp_path / "moved.db"), read_only=True) as file:
        for table in TABLES:
            assert sorted(file.execute(f"FROM bank.{table}").fetchall()) == resting.rows(table)


EXCHANGES = (
    (
        "UPDATE bank_0.accounts_0 SET id = 260, balance = 1 WHERE id = 6",
        "UPDATE bank_2.accounts_2 SET id = 6, balance = 2 WHERE id = 260",
    ),
    (
        "UPDATE bank_0.ledger_0 SET account = 200 WHERE transfer = -9 AND account = 0",
        "UPDATE bank_2.ledger_2 SET account = 0 WHERE transfer = -9 AND account = 200",
    ),
)
"""Keys that no order of rows lets two nodes exchange; the rows of the ledger are the same after it."""


def test_rows_whose_order_is_wrong_are_copied_again_or_doubted(resting: RunningBank, tmp_path: Path) -> None:
    """`key-doubts: warn` lets the first node's branch come before the last one's: it takes keys that are not free."""
    to = f"duckdb://{tmp_path}/exchanged.db"
    assert resting.bootstrap(to, "bootstrap-committed:kill:2", rows=10) is None
    accounts, ledger = frozenset({("bank", "accounts")}), frozenset({("bank", "ledger")})
    assert [_judged(resting, *both) for both in EXCHANGES] == [(accounts, frozenset()), (frozenset(), ledger)]
    result = resting.bootstrap(to, rows=10)
    assert result is not None and result["rounds"] == 2
    assert (result["copied_again"], result["doubted"]) == (["bank.accounts"], ["bank.ledger"])
    with duckdb.connect(str(tmp_path / "exchanged.db"), read_only=True) as file:
        assert sorted(file.execute("FROM bank.accounts").fetchall()) == resting.rows("accounts")
        lost = [(-9, 200, -9)]  # the log says that it has gone
        assert sorted(file.execute("FROM bank.ledger").fetchall() + lost) == resting.rows("ledger")


def test_a_base_is_refused_where_the_captured_log_has_ddl_already(
    resting: RunningBank, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["schema", "import", "--nodes", f"--config={resting.config}", f"--store={tmp_path / 'base.duckdb'}"]
    assert cli.run(words) == 0
    resting.bank.servers[1].execute("CREATE INDEX amount ON bank_1.ledger_1 (amount)")
    assert cli.run(words) == 2  # the store exists
    words[-1] = f"--store={tmp_path / 'other.duckdb'}"
    assert cli.run(words) == 2
    said = capsys.readouterr().err
    assert "node dn-2" in said and "has DDL on bank_1.ledger_1 already: CREATE INDEX amount" in said
    assert not (tmp_path / "other.duckdb").exists()
    resting.bank.servers[1].execute("DROP INDEX amount ON bank_1.ledger_1")


def test_a_key_on_two_shards_is_refused(resting: RunningBank, tmp_path: Path) -> None:
    resting.bank.servers[1].execute("INSERT INTO bank_1.ledger_1 VALUES (-1, 0, 5)")  # the first shard's, too
    with pytest.raises(AssertionError, match=r"exit code 50.*2 shards of bank.ledger have a row"):
        resting.bootstrap(f"duckdb://{tmp_path}/x.db")
    resting.bank.servers[1].execute("DELETE FROM bank_1.ledger_1 WHERE transfer = -1")


def test_no_shard_is_read_in_vain_while_another_has_lost_a_column(resting: RunningBank, tmp_path: Path) -> None:
    to, drop = f"duckdb://{tmp_path}/altered.db", "DROP COLUMN amount"
    resting.bank.servers[2].execute(f"ALTER TABLE bank_2.ledger_2 {drop}")
    with pytest.raises(AssertionError, match=r"exit code 58.*Unknown column"):
        resting.bootstrap(to, extra=("--wait=2",))
    *_, said = resting.said().rpartition("round 1: copying 2 tables")
    assert "bank.ledger is not copied yet" in said and "copying" not in said
    for node in (0, 1):
        resting.bank.servers[node].execute(f"ALTER TABLE bank_{node}.ledger_{node} {drop}")
    resting.bank._mark("ALTER_TABLE", "ledger", f"ALTER TABLE ledger {drop}")
    result = resting.bootstrap(to)
    assert result is not None and result["copied_again"] == ["bank.ledger"]
    with duckdb.connect(str(tmp_path / "altered.db"), read_only=True) as file:
        assert sorted(file.execute("FROM bank.ledger").fetchall()) == resting.rows("ledger")


def _judged(resting: RunningBank, first: str, last: str) -> tuple[frozenset[Name], frozenset[Name]]:
    """Change rows of the first node and the last in one transaction; return what a copy that runs makes of it."""
    low = Log(resting.merged).last_rank
    with resting.bank.sessions() as sessions:
        resting.bank.distributed(sessions, {0: first, 2: last})
    resting.drained()
    log = Log(resting.merged)
    catalog = catalog_at(log, history_of(log.directory), low, None)
    window = judged(log, low, log.last_rank, (), catalog, None)
    return window.again, window.doubted
