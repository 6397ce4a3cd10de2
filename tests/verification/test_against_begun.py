"""A server compared with a log that does not begin with it: what the log says of rows is judged, the rest is told."""

import io
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from binlog_merge.cli.main import run
from binlog_merge.errors import ConfigError, ReplayStopped
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.found_there import FoundThere
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.verification.against import Comparison, compare_with_server
from binlog_merge.verification.base import DuckdbBase, Empty
from binlog_merge.verification.compare import TableComparison
from snapshot_store.ddl import DdlSession, apply_ddl, parse_dump
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.server import ServerAddress
from tests.effort import keeping
from tests.merge_e2e.local import merge
from tests.mysql_server import PREFIX, MySqlServer
from tests.targets.server.workload import as_output

pytestmark = pytest.mark.mysql

BEFORE = """CREATE DATABASE s; USE s;
CREATE TABLE keyed (id INT PRIMARY KEY, v INT, n VARCHAR(9), b BLOB);
CREATE TABLE uniquely (a VARCHAR(9) NOT NULL, f DOUBLE NOT NULL, v INT, UNIQUE (a, f)); CREATE TABLE bag (v INT);
INSERT INTO keyed VALUES (1, 1, 'one', 0x01), (2, 2, 'two', 0x02), (3, 3, 'three', 0x03), (4, 4, 'four', 0x04),
  (5, 5, NULL, NULL), (6, 6, 'six', 0x06);
INSERT INTO uniquely VALUES ('a', 1.5, 1), ('b', 0.1, 2), ('c', 3, 3);
INSERT INTO bag VALUES (1), (1), (2), (NULL)"""
WORK = """USE s; UPDATE keyed SET v = 20 WHERE id = 2; DELETE FROM keyed WHERE id = 3;
UPDATE keyed SET id = 40 WHERE id = 4; INSERT INTO keyed VALUES (7, 7, 'seven', 0x07);
DELETE FROM uniquely WHERE a = 'b'; UPDATE uniquely SET v = 9 WHERE a = 'c';
DELETE FROM bag WHERE v = 2; INSERT INTO bag VALUES (8), (1);
CREATE DATABASE m; CREATE TABLE m.t (id INT PRIMARY KEY, v INT); INSERT INTO m.t VALUES (1, 1); UPDATE m.t SET v = 2"""

DAMAGES = {
    "rows": (
        ("DELETE FROM s.keyed WHERE id = 2", "id=2: is missing"),
        ("INSERT INTO s.keyed VALUES (3, 3, 'three', 3)", "id=3: should not be there"),  # it was deleted
        ("INSERT INTO s.keyed VALUES (4, 4, 'four', 4)", "id=4: should not be there"),  # its key has changed
        ("INSERT INTO s.uniquely VALUES ('b', 0.1, 2)", "a=b, f=[0.1]: should not be there"),
        ("DELETE FROM s.bag WHERE v = 8", "v=8: is missing"),
        ("DELETE FROM m.t", "id=1: is missing"),  # of a table of the log
    ),
    "values": (
        ("DELETE FROM s.keyed WHERE id = 7", "id=7: is missing"),  # a new row
        ("UPDATE s.keyed SET v = 2 WHERE id = 2", "id=2: v is 2, should be 20"),
        ("UPDATE s.uniquely SET v = 3 WHERE a = 'c'", "v is 3, should be 9"),
    ),
    "tables": (
        ("ALTER TABLE s.keyed DROP COLUMN n", "the server has no column n"),
        ("DROP TABLE s.uniquely", "it is not on the server"),
    ),
}
UNKNOWN = (
    ("DELETE FROM s.keyed WHERE id = 1", "id=1: is missing"),
    ("UPDATE s.keyed SET n = 'x' WHERE id = 6", "id=6: n is x, should be six"),
    ("INSERT INTO s.keyed VALUES (9, 9, 'nine', 9)", "id=9: should not be there"),
    ("INSERT INTO s.bag VALUES (2)", "v=2: should not be there"),  # one was deleted
)
"""Damages that only a base can show."""


def dumped(server: MySqlServer, *options: str) -> bytes:
    """Return what mysqldump writes of a server."""
    command = [str(PREFIX / "bin" / "mysqldump"), "--no-defaults", "--user=root", f"--socket={server.socket}"]
    databases = [name for (name,) in server.query("SHOW DATABASES") if name in ("s", "types", "z")]
    command += ["--set-gtid-purged=OFF", "--no-tablespaces", *options, "--databases", *databases]
    return subprocess.run(command, capture_output=True, check=True).stdout


class Story:
    """A server that has run `before`, from where on its log goes, and `work`; and what it had before."""

    def __init__(self, server: MySqlServer, folder: Path, work: str = WORK, before: str = BEFORE) -> None:
        self.server, self.folder = server, folder
        server.drop_databases()
        server.execute(before)
        self.dump = folder / "dump.sql"
        self.dump.write_bytes(dumped(server))
        (folder / "base.sql").write_bytes(dumped(server, "--no-data"))
        server.execute("RESET BINARY LOGS AND GTIDS")
        server.execute(work)
        server.execute("FLUSH BINARY LOGS")
        (folder / "node").mkdir()
        shutil.copy(server.binlog_files()[0], folder / "node" / "binlog.000001")
        values = {
            "version": 1,
            "name": "begun",
            "nodes": [{"source-id": "dn", "files": ["node/binlog.*"]}],
            "base": {"logical": "base.sql", "physical": {"dn": "base.sql"}},
            "shard-mode": "pessimistic",
            "commit-tso": {"carrier": "gtid-time"},
        }
        (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
        merge(folder / "cluster.yaml", folder / "merged")
        self.binlog = Log(folder / "merged")

    def compared(self, base: Any = None) -> tuple[Comparison, dict[str, TableComparison]]:
        """Compare the server with its log."""
        address = ServerAddress(socket=self.server.socket)
        found = compare_with_server(self.binlog, address, rank=self.binlog.last_rank, base=base)
        return found, {table.name.removeprefix("s."): table for table in found.tables}

    def told(self, *options: str) -> tuple[int, str]:
        """Return exit code and output of the command."""
        to = f"mysql://root@localhost/?socket={self.server.socket}"
        command = ["verify", "--from", str(self.folder / "merged"), "--against", to, *options]
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            code = run([*command, "--stop-gtid", str(self.binlog.last_rank)])
        return code, out.getvalue()


@pytest.fixture(scope="module")
def _story(_shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(_shared_mysql_server, tmp_path_factory.mktemp("story"))


@pytest.fixture
def story(_story: Story, mysql_server: MySqlServer) -> Story:
    """One log for all; its server has run it, and nothing else."""
    mysql_server.execute(BEFORE)
    mysql_server.execute(WORK)
    return _story


def test_a_sound_server_is_told_from_what_cannot_be_judged(story: Story) -> None:
    found, tables = story.compared()
    assert found.same and not found.whole and tables["m.t"].whole
    assert [(tables[name].partly, tables[name].unnamed) for name in ("keyed", "uniquely", "bag")] == [
        (True, 3),
        (True, 1),
        (True, 3),
    ]
    code, text = story.told()
    assert code == 3
    assert "as far as it can be judged: 3 of 4 tables cannot be judged whole" in text and "--base" in text


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_server_differs(story: Story, name: str) -> None:
    for damage, _ in DAMAGES[name]:
        story.server.execute(damage)
    for options in ((), ("--base", str(story.dump))):
        code, text = story.told(*options)
        assert code == 1 and " differs" in text
        assert [wanted for _, wanted in DAMAGES[name] if wanted not in text] == [], text


def test_a_base_shows_what_the_log_cannot(story: Story) -> None:
    for damage, _ in UNKNOWN:
        story.server.execute(damage)
    assert story.told()[0] == 3
    code, text = story.told("--base", str(story.dump))
    assert code == 1 and [wanted for _, wanted in UNKNOWN if wanted not in text] == [], text


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with MySqlServer(tmp_path_factory.mktemp("base"), server_id=103, binlog=False) as server:
        yield server


TYPES = r"""CREATE DATABASE types; USE types; CREATE TABLE t (id INT PRIMARY KEY, i BIGINT UNSIGNED,
  d DECIMAL(30,10), f FLOAT, g DOUBLE, bi BIT(12), y YEAR, c CHAR(5) CHARSET latin1, v VARCHAR(300), tx TEXT,
  bin BINARY(4), vb VARBINARY(9), bl BLOB,
  e ENUM('a','b'), s SET('x','y'), da DATE, dt DATETIME(3), ts TIMESTAMP(6) NULL, ti TIME(2),
  j JSON, ve VECTOR(2), p POINT, gen INT AS (id * 2) STORED, z INT(5) ZEROFILL);
INSERT INTO t (id, i, d, f, g, bi, y, c, v, tx, bin, vb, bl, e, s, da, dt, ts, ti, j, ve, p, z) VALUES
 (1, 18446744073709551615, -0.5, 1.1, 0.1, b'101', 2026, 'é', 'it''s; "\n" \n --', 'a\tb', 0x00FF, '', 0x0027005C, 'b',
  'x,y', '2026-02-28', '2026-01-01 00:00:00.125', '2026-01-01 01:02:03.000004',
  '-838:59:59', '{"a": [1, "x"], "b": null}',
  TO_VECTOR('[1.5,-2]'), POINT(1, 2), 42),
 (3, 0, 1, -0, 1e300, 0, 0, '', '', '', '', '', '', 'a', '', '1000-01-01', '1000-01-01', '1970-01-01 00:00:01', '0:0:0',
  '"t"', NULL, NULL, 0);
INSERT INTO t (id) VALUES (2)"""


@pytest.mark.parametrize("kind", keeping(["server", "directory"], ["server", "dump", "hex dump", "directory"]))
def test_every_base_has_every_type(mysql_server: MySqlServer, other: MySqlServer, tmp_path: Path, kind: str) -> None:
    story = Story(mysql_server, tmp_path, "UPDATE types.t SET i = 7 WHERE id = 1", TYPES)
    base = str(story.dump)
    if kind == "server":
        other.drop_databases()
        other.execute(TYPES)
        base = f"mysql://root@localhost/?socket={other.socket}"
    elif kind == "hex dump":
        other.drop_databases()
        other.execute(TYPES)
        story.dump.write_bytes(dumped(other, "--hex-blob", "--complete-insert", "--skip-extended-insert"))
    elif kind == "directory":
        base = str(tmp_path / "dumped")
        (tmp_path / "dumped").mkdir()
        lines = story.dump.read_bytes().split(b"\n")
        rows = [line for line in lines if line.startswith(b"INSERT")]
        (tmp_path / "dumped" / "types.t.00000.sql").write_bytes(b"\n".join(rows))
    assert_judged(story, base)


def assert_judged(story: Story, base: str) -> None:
    """Hold a server against its log and a base, sound and then damaged."""
    code, text = story.told("--base", base)
    assert code == 0 and "holds what it should, at" in text, text
    story.server.execute("UPDATE types.t SET ti = '00:00:01' WHERE id = 3")
    code, text = story.told("--base", base)
    assert code == 1 and "id=3: ti is 00:00:01.00, should be 00:00:00.00" in text, text


@pytest.mark.parametrize("temporal", keeping(["text"], ["typed", "text"]))
def test_a_file_that_a_replay_keeps_says_where_it_is(mysql_server: MySqlServer, tmp_path: Path, temporal: str) -> None:
    story = Story(mysql_server, tmp_path, f"{TYPES}; UPDATE types.t SET i = 7 WHERE id = 1", "CREATE DATABASE z")
    binlog, path = story.binlog, tmp_path / "base.db"
    with DuckdbTarget(path, binlog.cluster_uuid, temporal_text=temporal == "text") as target:
        load(binlog, target, history_of(binlog.directory), ReplayOptions(last_rank=binlog.last_rank - 1))
    assert DuckdbBase.of(path, binlog.cluster_uuid).rank == binlog.last_rank - 1
    assert_judged(story, f"duckdb:{path}")
    with pytest.raises(ConfigError, match="of cluster"):
        DuckdbBase.of(path, "another")


def test_a_base_that_is_not_from_there_is_told(story: Story) -> None:
    (story.folder / "later.sql").write_bytes(dumped(story.server))
    code, text = story.told("--base", str(story.folder / "later.sql"))
    assert code == 50 and "a base must hold the tables as they were where the log begins" in text
    assert story.told("--base", "empty")[0] == 50
    (story.folder / "other.sql").write_text("CREATE TABLE nobody (a INT)")
    code, text = story.told("--base", str(story.folder / "other.sql"))
    assert code == 2 and "has none of the tables that" in text


@pytest.mark.parametrize("image", keeping(["MINIMAL"], ["MINIMAL", "NOBLOB"]))
def test_images_in_part_are_judged_by_the_columns_they_have(
    mysql_server: MySqlServer, tmp_path: Path, image: str
) -> None:
    work = (
        f"SET binlog_row_image = {image}; USE s; UPDATE keyed SET v = 20 WHERE id = 2; "
        "UPDATE keyed SET n = 'THREE', v = 3 WHERE id = 3; UPDATE keyed SET v = 30 WHERE id = 3; "
        "UPDATE keyed SET id = 40, v = 41 WHERE id = 4; DELETE FROM keyed WHERE id = 5"
    )
    story = Story(mysql_server, tmp_path, work)
    found, tables = story.compared()
    assert found.same and not found.whole and tables["keyed"].unsaid == 3 and tables["keyed"].unnamed == 2
    assert story.told("--base", str(story.dump))[0] == 0
    for damage, wanted in (
        ("UPDATE s.keyed SET v = 2 WHERE id = 2", "id=2: v is 2, should be 20"),
        ("UPDATE s.keyed SET v = 1, b = 'x' WHERE id = 40", "id=40: v is 1, should be 41"),
        ("INSERT INTO s.keyed VALUES (5, 5, NULL, NULL), (4, 1, 'x', 'x')", "id=5: should not be there"),
        ("UPDATE s.keyed SET n = 'three' WHERE id = 3", "id=3: n is three, should be THREE"),
    ):
        mysql_server.execute(damage)
        code, text = story.told()
        assert code == 1 and wanted in text, text


def test_columns_that_no_image_has_are_not_judged(mysql_server: MySqlServer, tmp_path: Path) -> None:
    story = Story(mysql_server, tmp_path, "SET binlog_row_image = MINIMAL; UPDATE s.keyed SET v = 20 WHERE id = 2")
    mysql_server.execute("UPDATE s.keyed SET n = 'x' WHERE id = 2")
    found, tables = story.compared()
    assert found.same and tables["keyed"].unsaid == 1 and story.told()[0] == 3
    assert "id=2: n is x, should be two" in story.told("--base", str(story.dump))[1]


ALTERS = {
    "a column more": (
        "ALTER TABLE s.keyed ADD c INT DEFAULT 5, ADD g INT AS (v * 2) STORED",
        "UPDATE s.keyed SET c = 6 WHERE id = 2",
        "c is 6, should be 5",
    ),
    "another name": (
        "RENAME TABLE s.keyed TO s.other; CREATE TABLE s.keyed LIKE s.other; INSERT INTO s.keyed (id) VALUES (1)",
        "DELETE FROM s.other WHERE id = 2",
        "id=2: is missing",
    ),
    "another key": ("ALTER TABLE s.keyed MODIFY id BIGINT", "DELETE FROM s.keyed WHERE id = 2", "id=2: is missing"),
    "emptied": (
        "TRUNCATE TABLE s.keyed; INSERT INTO s.keyed VALUES (1, 1, 'x', 'y')",
        "INSERT INTO s.keyed VALUES (2, 2, 'x', 'y')",
        "id=2: should not be there",
    ),
}


@pytest.mark.parametrize("name", keeping(["a column more", "another name"], ALTERS))
def test_ddl_takes_along_what_is_known(mysql_server: MySqlServer, tmp_path: Path, name: str) -> None:
    alter, damage, wanted = ALTERS[name]
    story = Story(mysql_server, tmp_path, f"{WORK}; {alter}; UPDATE s.keyed SET v = 5 WHERE id = 1")
    found, tables = story.compared()
    assert [table for table in found.tables if not table.same] == []
    assert tables["keyed"].whole == (name in ("emptied", "another name"))
    assert story.told("--base", str(story.dump))[0] == 0
    mysql_server.execute(damage)
    for options in ((), ("--base", str(story.dump))):
        code, text = story.told(*options)
        assert code == 1 and wanted in text, text


def test_what_cannot_be_followed_is_left_out_with_its_reason(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """All rows are numbered, those too that the log never names: the other tables are judged all the same."""
    work = f"{WORK}; ALTER TABLE s.uniquely ADD n INT AUTO_INCREMENT, ADD KEY (n)"
    story = Story(mysql_server, tmp_path, work)
    found, tables = story.compared()
    assert found.same and tables["uniquely"].unjudged and tables["keyed"].partly
    assert "all rows were numbered in n" in tables["uniquely"].problem
    mysql_server.execute("DELETE FROM s.keyed WHERE id = 2")
    assert story.told()[0] == 1


def test_a_log_of_which_nothing_is_known_beforehand(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Table maps alone say what the tables are, and which columns are their key."""
    mysql_server.execute(BEFORE)
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.execute(WORK)
    binlog = as_output(mysql_server, tmp_path)
    address, rank = ServerAddress(socket=mysql_server.socket), binlog.last_rank
    found = compare_with_server(binlog, address, rank=rank)
    assert found.same and not found.whole
    with pytest.raises(ReplayStopped, match="there is no such row"):
        compare_with_server(binlog, address, rank=rank, base=Empty())
    mysql_server.execute("INSERT INTO s.keyed VALUES (3, 3, 'three', 3)")
    wrong = compare_with_server(binlog, address, rank=rank)
    assert [row.key for table in wrong.tables for row in table.rows] == [{"id": "3"}]


def test_tables_are_followed_to_their_new_names() -> None:
    there, catalog = FoundThere(), parse_dump("CREATE DATABASE s; CREATE TABLE s.a (i INT); CREATE TABLE s.b (j INT)")
    there.begin(catalog)
    for sql, names in (
        ("RENAME TABLE a TO x, b TO a, x TO b", {("s", "a"): ("s", "b"), ("s", "b"): ("s", "a")}),
        ("ALTER TABLE a RENAME TO c", {("s", "c"): ("s", "b"), ("s", "b"): ("s", "a")}),
        ("CREATE TABLE a LIKE c", {("s", "c"): ("s", "b"), ("s", "b"): ("s", "a")}),
        ("TRUNCATE TABLE c", {("s", "b"): ("s", "a")}),
        ("DROP TABLE b", {}),
    ):
        after = apply_ddl(catalog, sql, "s", DdlSession()).catalog
        there.follow(duckdb.connect(), catalog, after, parse_statement(sql, DdlSession()), "s")
        catalog = after
        assert there.names == names, sql
