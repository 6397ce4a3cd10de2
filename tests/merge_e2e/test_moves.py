"""Rows that distributed transactions move between nodes, on real servers: what comes out applies to a server that has
all of the table's keys, and to a sink that upserts.
"""

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml

from binlog_merge.ask.unmerged import plan, select_unmerged, unmerged_batches
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import KeysInDoubt
from binlog_merge.log.question import Question
from binlog_merge.pipeline.gather import arranging
from snapshot_store.tso import OrderKey
from tests.binlog_server.running import PASSWORD, USER, serving
from tests.command_line import command_line
from tests.effort import seed_of_search
from tests.merge_e2e.local import HeldRunner, merge, written
from tests.mysql_server import MySqlServer
from tests.oracle import merge_case
from tests.pipeline.gather.test_giant import shrink
from tools.demo_live.bank import Bank, run

pytestmark = pytest.mark.mysql

ITEMS = "(id INT PRIMARY KEY, mail VARCHAR(40) COLLATE utf8mb4_0900_ai_ci NULL UNIQUE, v INT NOT NULL)"
PLAIN = "(a INT, b VARCHAR(20))"
PERSONS = "(id INT PRIMARY KEY)"
PETS = "(id INT PRIMARY KEY, owner INT NOT NULL, FOREIGN KEY (owner) REFERENCES person$ (id) ON DELETE CASCADE)"
TAGS = "(id INT PRIMARY KEY, name VARCHAR(20), v INT, UNIQUE ((LOWER(name))))"
PUT = "INSERT INTO bank_$.item_$ VALUES "
TAKE = "DELETE FROM bank_$.item_$ WHERE id = "
Item = tuple[int, str | None, int]


class Stage:
    """Two nodes with a logical table of two shards; each test gets the binlogs from where it began."""

    def __init__(self, servers: list[MySqlServer]) -> None:
        self.servers = servers
        self.bank = Bank(servers)
        self.bank.open()
        self.create("item", ITEMS)
        self.create("plain", PLAIN)

    def execute(self, *branches: str, settings: str = "SET @nothing = 0") -> None:
        """Run a distributed transaction; `$` in a statement is the number of its node."""
        with self.bank.sessions() as sessions:
            for session in sessions:
                run(session, settings)
            self.bank.distributed(sessions, {n: sql.replace("$", str(n)) for n, sql in enumerate(branches) if sql})

    def create(self, table: str, columns: str) -> None:
        """Create a table on every node, and then the logical one; `$` in the columns ends a physical table's name."""
        for number, server in enumerate(self.servers):
            server.execute(f"CREATE TABLE bank_{number}.{table}_{number} {columns.replace('$', f'_{number}')}")
        self.bank.mark_table(table, columns.replace("$", ""))

    def config(self, folder: Path, **sections: Any) -> Path:
        """Copy the binlogs as they are beside a configuration that merges them."""
        folder.mkdir()
        nodes = []
        for number, server in enumerate(self.servers):
            shutil.copytree(server.data, folder / f"n{number}", ignore=lambda _, names: _all_but_binlogs(names))
            nodes.append({"source-id": f"dn-{number}", "files": f"n{number}/binlog.0*"})
        routes = [
            {"schema-pattern": "bank_*", "table-pattern": f"{t}_*", "target-schema": "bank", "target-table": t}
            for t in ("accounts", "item", "plain", "person", "pet", "tag", "own")
        ]
        output = {"dependencies": "commit-order"}  # as of the oracle
        values = {"version": 1, "name": "moves", "nodes": nodes, "routes": routes, "output": output, **sections}
        (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
        return folder / "cluster.yaml"

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        found = [self.servers[n].query(f"SELECT * FROM bank_{n}.{table}_{n}") for n in range(len(self.servers))]
        return sorted((row for rows in found for row in rows), key=repr)


def _all_but_binlogs(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("binlog.0")]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("moves")
    with MySqlServer(folder / "a", 1) as one, MySqlServer(folder / "b", 2) as two:
        yield Stage([one, two])


@dataclass
class World:
    """Makes up transactions that move, exchange and change items."""

    seed: int
    items: tuple[dict[int, Item], dict[int, Item]] = field(default_factory=lambda: ({}, {}))

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def transaction(self) -> list[str]:
        """Return the statements of each branch."""
        rng = self.rng
        leaving = [rng.sample(sorted(node), min(len(node), rng.randint(0, 3))) for node in self.items]
        moved = [[self.items[n].pop(i) for i in leaving[n]] for n in (0, 1)]
        mails = [item[1] for items in moved for item in items]
        rng.shuffle(mails)
        branches = []
        for n in (0, 1):
            arriving = [(item[0], mails.pop(), item[2] + 1) for item in moved[1 - n]]
            new = [(rng.randint(1000, 9999), None, 0)] if rng.random() < 0.4 else []
            new = [item for item in new if not any(item[0] in node for node in self.items)]
            rows = arriving + new
            self.items[n].update({item[0]: item for item in rows})
            branches.append(self._branch(leaving[n], rows, n))
        return branches

    def _branch(self, leaving: list[int], rows: list[Item], node: int) -> str:
        rng = self.rng
        deletes = [f"DELETE FROM bank_$.item_$ WHERE id = {i}" for i in leaving]
        inserts = [f"INSERT INTO bank_$.item_$ VALUES {_values([row])}" for row in rows]
        if rng.random() < 0.4 and len(leaving) > 1:
            deletes = [f"DELETE FROM bank_$.item_$ WHERE id IN ({', '.join(map(str, leaving))})"]
        if rng.random() < 0.4 and len(rows) > 1:
            inserts = [f"INSERT INTO bank_$.item_$ VALUES {_values(rows)}"]
        # Here and there a row that stays is changed, as are tables without keys and rows that come and go.
        others = [f"INSERT INTO bank_$.plain_$ VALUES ({rng.randint(0, 9)}, 'x')"] if rng.random() < 0.4 else []
        staying = sorted(set(self.items[node]) - {row[0] for row in rows})
        for i in rng.sample(staying, min(len(staying), rng.randint(0, 1))):
            self.items[node][i] = (i, self.items[node][i][1], self.items[node][i][2] + 10)
            others.append(f"UPDATE bank_$.item_$ SET v = v + 10 WHERE id = {i}")
        both = deletes + inserts if rng.random() < 0.3 else inserts + deletes
        if rng.random() < 0.3:
            rng.shuffle(both)
        for other in others:
            both.insert(rng.randint(0, len(both)), other)
        return "; ".join(both)


def _values(rows: list[Item]) -> str:
    return ", ".join(f"({i}, {'NULL' if mail is None else repr(mail)}, {v})" for i, mail, v in rows)


def replicated(out: Path, target: MySqlServer) -> list[tuple[Any, ...]]:
    """Return the items of a server that has followed the merged log as a replica."""
    with serving(out) as source:
        target.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port}, SOURCE_USER='{USER}', "
            f"SOURCE_PASSWORD='{PASSWORD}', SOURCE_AUTO_POSITION=1, SOURCE_SSL=0; START REPLICA"
        )
        executed = str(PublishedLog(out).view().executed)
        waited = target.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60)")
        error = target.query("SHOW REPLICA STATUS")[0][19]
        target.execute("STOP REPLICA; RESET REPLICA ALL")
    assert waited == ((0,),) or waited == [(0,)], error
    return items_of(target)


def replayed(out: Path, target: MySqlServer) -> list[tuple[Any, ...]]:
    """Return the items of a server into which the merged log was replayed."""
    target.drop_databases()
    target.execute("RESET BINARY LOGS AND GTIDS")
    done = command_line(["replay", "--merged", out, "--to", f"mysql://root@localhost/?socket={target.socket}"])
    assert done.returncode == 0, done.stderr
    return items_of(target)


def items_of(target: MySqlServer) -> list[tuple[Any, ...]]:
    return sorted(target.query("SELECT * FROM bank.item"), key=repr)


def changes(out: Path, table: str) -> list[dict[str, Any]]:
    done = command_line(["changes", "--merged", out, "--table", table, "-o", "jsonl"])
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def upserted(out: Path) -> list[tuple[Any, ...]]:
    """Return the items in a sink that takes each change by the primary key alone, as they come."""
    rows: dict[int, dict[str, Any]] = {}
    for change in changes(out, "bank.item"):
        before, after = change["before"], change["after"]
        old = rows.pop(before["id"]) if before is not None else {}
        if after is not None:
            absent = change.get("after_absent") or []
            rows[after["id"]] = {**old, **{name: value for name, value in after.items() if name not in absent}}
    return sorted(((row["id"], row["mail"], row["v"]) for row in rows.values()), key=repr)


def test_more_keys_than_are_held(
    stage: Stage, mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.execute("DO 1", f"{PUT} (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)")
    stage.execute(f"{PUT} (1, 'a', 1); {PUT} (2, 'b', 1), (3, 'c', 1)", f"{TAKE} 3; {TAKE} 2; {TAKE} 1")
    monkeypatch.setattr(arranging, "MOST_CHANGES", 2)
    assert not merge(stage.config(tmp_path / "one-way"), tmp_path / "window").warnings
    shrink(monkeypatch, 300, 1 << 20, 2500)
    assert not merge(tmp_path / "one-way" / "cluster.yaml", tmp_path / "out").warnings
    assert written(tmp_path / "window") == written(tmp_path / "out")
    assert replicated(tmp_path / "out", mysql_server) == [(1, "a", 1), (2, "b", 1), (3, "c", 1)]
    stage.execute(f"{TAKE} 1; {PUT} (4, 'd', 2)", f"{PUT} (1, 'a', 2)")
    (warning,) = merge(stage.config(tmp_path / "both-ways"), tmp_path / "both").warnings
    assert "bank.item" in warning and "do not tell the right one" in warning
    stage.execute("DELETE FROM bank_$.item_$", "DELETE FROM bank_$.item_$")


def test_random_moves(stage: Stage, mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = seed_of_search()
    world = World(seed)
    for n in (0, 1):
        world.items[n].update({i: (i, f"m{i}@example.com", 0) for i in range(100 * n, 100 * n + 12)})
    stage.execute(*(f"INSERT INTO bank_$.item_$ VALUES {_values(list(node.values()))}" for node in world.items))
    refused = 0
    for number in range(120):
        before = [dict(node) for node in world.items]
        settings = f"SET binlog_row_image = {world.rng.choice(['FULL', 'MINIMAL', 'NOBLOB'])}"
        settings += f"; SET binlog_transaction_compression = {number % 4 == 0:d}"
        try:
            stage.execute(*world.transaction(), settings=settings)
        except pymysql.err.IntegrityError:  # a mail that the node itself has twice for a moment
            refused += 1
            for node, items in zip(world.items, before, strict=True):
                node.clear()
                node.update(items)
    assert refused < 90
    expected = sorted((item for node in world.items for item in node.values()), key=repr)
    assert stage.rows("item") == expected

    config = stage.config(tmp_path / "case")
    result = merge(config, tmp_path / "out")
    assert not result.warnings
    assert written(tmp_path / "out") == merge_case(config).files
    assert replicated(tmp_path / "out", mysql_server) == expected
    assert replayed(tmp_path / "out", mysql_server) == expected
    assert upserted(tmp_path / "out") == expected
    merge(config, tmp_path / "parted", partitions=5, runner=HeldRunner())
    assert written(tmp_path / "parted") == written(tmp_path / "out")
    shrink(monkeypatch, 300, 1 << 20, 2500)
    merge(config, tmp_path / "streamed")
    assert written(tmp_path / "streamed") == written(tmp_path / "out")


def test_parents_and_children_that_exchange_their_nodes(
    stage: Stage, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    person, pet = "INSERT INTO bank_$.person_$ VALUES", "INSERT INTO bank_$.pet_$ VALUES"
    leaves, goes = "DELETE FROM bank_$.person_$ WHERE id =", "DELETE FROM bank_$.pet_$ WHERE id ="
    stage.create("person", PERSONS)
    stage.create("pet", PETS)
    stage.execute(f"{person} (1), (3), (5); {pet} (11, 1), (13, 1)", f"{person} (2), (4); {pet} (12, 2), (14, 4)")
    stage.execute(
        f"{person} (2); {pet} (12, 2); UPDATE bank_$.pet_$ SET owner = 3 WHERE id = 13; {goes} 11; {leaves} 1",
        f"{person} (1); {pet} (11, 1); {goes} 12; {leaves} 2",
    )
    # The other node deletes this pet together with its owner.
    stage.execute(f"{pet} (14, 5)", f"{leaves} 4")
    merge(stage.config(tmp_path / "case"), tmp_path / "out")
    replicated(tmp_path / "out", mysql_server)
    assert sorted(mysql_server.query("SELECT * FROM bank.pet")) == stage.rows("pet")
    assert stage.rows("pet") == [(11, 1), (12, 2), (13, 3), (14, 5)]


def test_a_key_made_by_an_expression(stage: Stage, mysql_server: MySqlServer, tmp_path: Path) -> None:
    tag, gone = "INSERT INTO bank_$.tag_$ VALUES", "DELETE FROM bank_$.tag_$ WHERE id ="
    stage.create("tag", TAGS)
    stage.execute(f"{tag} (1, 'a', 0)", f"{tag} (2, 'b', 0)")
    # What the key is not made of changes on both nodes; then the rows exchange their nodes.
    stage.execute(*["UPDATE bank_$.tag_$ SET v = v + 1"] * 2)
    stage.execute(f"{tag} (4, 'B', 1); {gone} 1", f"{tag} (3, 'A', 1); {gone} 2")
    config = stage.config(tmp_path / "case")
    assert not [warning for warning in merge(config, tmp_path / "out").warnings if "bank.tag" in warning]
    replicated(tmp_path / "out", mysql_server)
    assert mysql_server.query("SELECT * FROM bank.tag ORDER BY id") == [(3, "A", 1), (4, "B", 1)]


def test_what_moves_no_row_is_left_as_it_is(stage: Stage, mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Rows that are replaced, upserted, or changed without a change of keys."""
    stage.create("own", "(id INT PRIMARY KEY, place INT NULL, v INT NOT NULL, UNIQUE (place))")
    put, own = "INSERT INTO bank_$.own_$ VALUES", "bank_$.own_$"
    stage.execute(f"{put} (1, 1, 0), (2, 2, 0), (3, NULL, 0)", f"{put} (11, 11, 0), (12, 12, 0), (13, NULL, 0)")
    for row in (1, 11):
        stage.execute(f"UPDATE {own} SET v = v + 1", f"UPDATE {own} SET place = place, v = v - 1")
        stage.execute(
            f"REPLACE INTO {own} VALUES (1, 2, {row})",
            f"REPLACE INTO {own} VALUES (11, 12, {row}); {put} (11, 11, 5) ON DUPLICATE KEY UPDATE v = v + 5",
        )
        stage.execute(
            f"UPDATE {own} SET place = NULL WHERE id < 3; {put} (2, 2, {row}) ON DUPLICATE KEY UPDATE place = 1",
            f"UPDATE {own} SET place = NULL WHERE id > 3; {put} (12, 12, {row}) ON DUPLICATE KEY UPDATE place = 11",
        )
        stage.execute(
            f"{put} ({row + 3}, NULL, 0); UPDATE {own} SET id = id + 50 WHERE id = {row + 3}",
            f"DELETE FROM {own} WHERE place IS NULL",
        )
    config = stage.config(tmp_path / "case")
    assert not [warning for warning in merge(config, tmp_path / "out").warnings if "bank.own" in warning]
    replicated(tmp_path / "out", mysql_server)
    assert sorted(mysql_server.query("SELECT * FROM bank.own"), key=repr) == stage.rows("own")
    # By node, as no key goes from one to the other.
    assert [c["before"] and c["before"]["id"] < 11 for c in changes(tmp_path / "out", "bank.own")[6:12]] == [
        True
    ] * 3 + [False] * 3


def test_moves_that_need_more_than_the_next_statement(
    stage: Stage,
    mysql_server: MySqlServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mails = ("(1, 'Müller', 0)", "(2, 'Ørsted', 0)", "(3, 'c', 0)")
    stage.execute("DELETE FROM bank_$.item_$", "DELETE FROM bank_$.item_$")
    stage.execute(f"{PUT} {mails[0]}, {mails[2]}", f"{PUT} {mails[1]}")
    # Texts whose bytes do not tell what equals them, both ways, inserted before they are deleted.
    stage.execute(f"{PUT} {mails[1]}; {TAKE} 1", f"{PUT} {mails[0]}; {TAKE} 2")
    # A row goes to the other node and comes back.
    stage.execute(f"{TAKE} 3; {PUT} {mails[2]}", f"{PUT} {mails[2]}; {TAKE} 3")
    stage.execute(f"{TAKE} 3; {PUT} {mails[2]}; {TAKE} 3", f"{PUT} {mails[2]}; {TAKE} 3; {PUT} {mails[2]}")
    # A mail goes on by UPDATE, from node to node.
    mail = "UPDATE bank_$.item_$ SET mail"
    stage.execute(f"{PUT} (4, 'k', 0)", f"{PUT} (5, 'l', 0)")
    stage.execute(f"{mail} = 'c' WHERE id = 4", f"{mail} = 'd' WHERE id = 3")
    expected = [(1, "Müller", 0), (2, "Ørsted", 0), (3, "d", 0), (4, "c", 0), (5, "l", 0)]
    config = stage.config(tmp_path / "case")
    assert not merge(config, tmp_path / "out").warnings
    assert replicated(tmp_path / "out", mysql_server) == upserted(tmp_path / "out") == expected

    settings = "SET binlog_row_image = 'MINIMAL'"
    # What the images do not hold may contradict the order: that is named.
    stage.execute(f"{mail} = 'e' WHERE id = 4", f"{mail} = 'f' WHERE id = 5", settings=settings)
    config = stage.config(tmp_path / "doubted")
    for runner in (None, HeldRunner()):
        out = tmp_path / f"out-{runner is None}"
        (warning,) = merge(config, out, runner=runner).warnings
        assert warning.startswith("rows of bank.item came out node by node in 1 distributed transaction, the first at")
        assert "do not tell the right one" in warning
    # What has no order stops, before it.
    stage.execute(f"{mail} = 'f' WHERE id = 4", f"{mail} = 'e' WHERE id = 5")
    config = stage.config(tmp_path / "stopped")
    for partitions in (1, 4):
        out = tmp_path / f"stopped-{partitions}"
        with pytest.raises(KeysInDoubt, match=r"unique key of bank\.item between its branches") as stopped:
            merge(config, out, partitions=partitions)
        assert stopped.value.exit_code == 59 and stopped.value.order_key is not None
        assert written(out)["binlog.000001"].count(b"# CTS::") > 5
    lenient = stage.config(tmp_path / "lenient", **{"key-doubts": "warn"})
    with_it = merge(lenient, out)
    assert [w for w in with_it.warnings if "no order keeps its keys unique" in w and "bank.item" in w]
    assert written(out) != {} and with_it.transactions == 1
    # Who reads the nodes without a merge is told, too.
    with caplog.at_level("WARNING"):
        planned = plan(MergeConfig.load(lenient), end_of_input=True)
        assert list(unmerged_batches(planned, select_unmerged(planned, Question("bank.item"))))
    assert len([text for text in caplog.messages if "no order keeps its keys unique" in text]) == 1
    # Left out by its commit TSO, it has nothing to be put in order.
    (tmp_path / "lenient" / "filter.toml").write_text(
        f"[filter]\nignore-commit-tso = [{OrderKey.parse(str(stopped.value.order_key)).commit_tso}]\n"
    )
    for way in ("window", "giant"):
        lenient = stage.config(tmp_path / way, filter=str(tmp_path / "lenient" / "filter.toml"))
        merge(lenient, tmp_path / f"left-out-by-{way}")
        shrink(monkeypatch, 300, 1 << 20, 2500)
