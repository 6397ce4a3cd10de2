"""Nodes with lower_case_table_names=1: statements name tables in any case, and everything comes out in lower case.

One story is told twice on two such nodes, with names in lower case and in random case: the merged logs say the same,
and a target (which tells cases apart) has what the nodes have.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli.main import run
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import read_server_note, write_server_note
from binlog_merge.errors import UnknownTable, UnknownTableSchema, WrongNode
from binlog_merge.log.log import Log
from binlog_merge.log.versions import versions_between
from snapshot_store.ddl import DdlSession, ParsedDdl
from snapshot_store.ddl.parse.statement import with_folded_names
from snapshot_store.mysql.sql.session import ANSI_QUOTES
from tests.effort import effort, keeping
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.renames import Story, Teller, check
from tests.merge_e2e.shards.stage import Played, Stage
from tests.merge_e2e.shards.test_carried import Announcing
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.node_capture.capturing import capture_now, cluster, url_of

pytestmark = pytest.mark.mysql

MODES = ("pessimistic", "optimistic")
T = "(Id INT PRIMARY KEY, V VARCHAR(20))"
P = "PARTITION P0 VALUES LESS THAN (50), PARTITION P1 VALUES LESS THAN MAXVALUE"
SCRIPT = f"""
    n1 CREATE TABLE <orders_1> {T}
    n2 CREATE TABLE <{{a}}>.<orders_2> {T}
    n1 rows <orders_1>
    n2 rows <orders_2>
    n1 ALTER TABLE <{{a}}>.<orders_1> ADD COLUMN Orders_1 INT DEFAULT 3, ADD KEY Ix (V)
    n1 rows <orders_1>
    n2 CREATE TABLE <alone> {T}
    n2 ALTER TABLE <orders_2> ADD COLUMN Orders_1 INT DEFAULT 3, ADD KEY Ix (V)
    n2 rows <orders_2>
    n1 CREATE TABLE <parent> {T} PARTITION BY RANGE (Id) ({P})
    n1 CREATE TABLE <single> {T}
    n1 CREATE TABLE <child> (Id INT PRIMARY KEY, V VARCHAR(20), S INT, FOREIGN KEY (S) REFERENCES <single> (Id))
    n1 ALTER TABLE <child> ADD CHECK (Id > 0)
    n1 INSERT INTO <single> VALUES (1, 'x')
    n1 INSERT INTO <child> VALUES (1, 'x', 1)
    n1 CREATE TABLE <copied> LIKE <child>
    n1 rows <copied>
    n1 CREATE INDEX By_V ON <copied> (V)
    n1 RENAME TABLE <copied> TO <{{b}}>.<moved>, <child> TO <younger>
    n1 rows <{{b}}>.<moved>
    n1 ALTER TABLE <{{b}}>.<moved> DROP CHECK moved_chk_1, RENAME TO <{{b}}>.<again>
    n1 TRUNCATE TABLE <{{b}}>.<again>
    n1 rows <{{b}}>.<again>
    n1 ALTER TABLE <parent> TRUNCATE PARTITION P0
    n1 CREATE TABLE <swapped> {T}
    n1 INSERT INTO <swapped> VALUES (7, 'sw')
    n1 ALTER TABLE <parent> EXCHANGE PARTITION P0 WITH TABLE <swapped>
    n1 CREATE VIEW <seen> AS SELECT Id FROM <{{a}}>.<parent>
    n1 DROP VIEW <seen>
    n1 CREATE TABLE <selected> SELECT * FROM <single>
    n1 rows <selected>
    n2 rows <alone>
    n2 DROP TABLE <{{a}}>.<alone>
    n1 DROP INDEX By_V ON <{{b}}>.<again>
    n1 CREATE DATABASE <{{a}}x> CHARACTER SET latin1
    n1 CREATE TABLE <{{a}}x>.<t> {T}
    n1 ALTER DATABASE <{{a}}x> CHARACTER SET utf8mb4
    n1 CREATE TABLE <{{a}}x>.<u> {T}
    n1 rows <{{a}}x>.<u>
    n1 CREATE TABLE <{{a}}idle>.<z> {T}
    n1 rows <{{a}}idle>.<z>
    n1 DROP TABLE <{{a}}x>.<t>, <{{a}}idle>.<z>
    n2 ALTER TABLE <orders_2> RENAME COLUMN V TO W
    n1 ALTER TABLE <orders_1> RENAME COLUMN V TO W
    n1 INSERT INTO <orders_1> VALUES (901, 'w', 1)
"""
ROUTES = (("{a}", "orders_*", ("{a}", "orders")),)


class InCase(Teller):
    """Tells a story with each <name> as it stands (no seed), or in random case."""

    seed: int | None = None

    def tell(self) -> Played:
        rng = random.Random(self.seed)

        def cased(found: re.Match[str]) -> str:
            name = self.story.fill(found[1], self.number)
            return name if self.seed is None else "".join(rng.choice((c, c.upper())) for c in name)

        script = re.sub(r"<([\w{}]+)>", cased, self.story.script)
        self.story = Story(self.story.name, script, self.story.routes)
        with self.stage.scene("idle", ()) as (sessions, _):
            for session in sessions.values():
                session.run("SET sql_log_bin = 0")
                session.run(self.story.fill("CREATE DATABASE {a}idle", self.number))
        return super().tell()


@pytest.fixture(scope="module")
def folding(_shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two nodes that fold names, and the target, which does not."""
    folder = tmp_path_factory.mktemp("folding")
    case = ("--lower-case-table-names=1",)
    plain = (*case, "--binlog-row-metadata=MINIMAL")
    with MySqlServer(folder / "n1", 211, case) as one, MySqlServer(folder / "n2", 212, plain) as two:
        yield Stage({"n1": one, "n2": two}, _shared_mysql_server, folder)


def said(out: Path) -> list[str]:
    """Return what a log says, without times and places."""
    files = [out / name for name in written(out)]
    text = mysqlbinlog(files, "--base64-output=decode-rows", "-v").decode()
    kept = (line for line in text.splitlines() if line.startswith("###") or not line.startswith(("#", "SET ", "/*")))
    return list(kept)


def story_of(stage: Stage, seed: int | None, number: int) -> Played:
    stage.clear()
    teller = InCase(stage, Story("case", SCRIPT, ROUTES), number)
    teller.seed = seed
    return teller.tell()


def configured(stage: Stage, played: Played, number: int, mode: str, name: str, **sections: object) -> Path:
    asked = {"ignore-schemas": [f"R{number}A*idle"], "shard-doubts": "error", **sections}
    return stage.configuration(name, [played], mode, sections=asked)


@pytest.mark.parametrize("mode", keeping(["optimistic"], MODES))  # names are folded before any mode sees them
def test_any_case_says_the_same(folding: Stage, mode: str) -> None:
    number, texts = 931, list[list[str]]()
    for seed in (None, 1, 2)[: effort(2, 3)]:
        played = story_of(folding, seed, number)
        path = configured(folding, played, number, mode, f"{mode}-{seed}", **{"lower-case-table-names": 1})
        result = merge(path, path.parent / "out")
        assert result.warnings == ()
        texts.append(said(path.parent / "out"))
        if seed:
            folding.target.drop_databases()
            folding.carry_out(path.parent / "out")
            for node in folding.nodes.values():
                node.execute(f"SET sql_log_bin = 0; DROP DATABASE r{number}aidle")
            check(folding, played, number)
    assert all(text == texts[0] for text in texts) and len(texts) > 1
    assert any("Orders_1" in line for line in texts[0])  # a column's name is the user's


def test_a_base_in_any_case_and_a_note_of_the_capture(folding: Stage) -> None:
    number = 932
    folding.clear()
    for node in folding.nodes.values():
        node.execute(f"CREATE DATABASE r{number}a; CREATE TABLE r{number}a.t {T}")
    story = Story("base", "n1 ALTER TABLE T ADD COLUMN w INT\n n1 INSERT INTO T VALUES (1, 'x', 2)\n"
                  "n2 ALTER TABLE {a}.T ADD COLUMN w INT\n n2 INSERT INTO t VALUES (2, 'x', 2)")  # fmt: skip
    played = Teller(folding, story, number, begun=True).tell()
    base = f"CREATE DATABASE R{number}A; USE R{number}A; CREATE TABLE T {T};"
    path = folding.configuration("base", [played], "pessimistic")
    (path.parent / "base.sql").write_text(base)
    nodes = "".join(f"  - {{source-id: {n}, server: 'mysql://nobody@127.0.0.1:1'}}\n" for n in folding.nodes)
    document = path.read_text()
    begin, end = document.index("nodes:"), document.index("routes:")
    text = document[:begin] + "nodes:\n" + nodes + document[end:]
    text += "capture: {dir: .}\nbase: {physical: {n1: base.sql, n2: base.sql}}\n"
    path.write_text(text)
    with pytest.raises(UnknownTableSchema) as caught:
        merge(path, path.parent / "without")
    assert caught.value.exit_code == 20
    for node in folding.nodes:
        write_server_note(path.parent / node, 1)
    assert MergeConfig.load(path).folding() == {"n1", "n2"}
    merge(path, path.parent / "out")
    assert f"ALTER TABLE `r{number}a`.`t` ADD COLUMN w INT" in "\n".join(said(path.parent / "out"))


def test_where_the_setting_is_not_known_the_table_in_another_case_is_named(folding: Stage) -> None:
    number = 933
    folding.clear()
    story = Story("unsaid", f"n1 CREATE TABLE t {T}\n n1 rows t\n n1 ALTER TABLE T ADD COLUMN w INT\n n1 rows t")
    played = Teller(folding, story, number).tell()
    for mode in MODES:
        path = folding.configuration(f"unsaid-{mode}", [played], mode)
        with pytest.raises(UnknownTableSchema) as caught:
            merge(path, path.parent / "out")
        assert f"but of n1/r{number}a/t, whose name differs only in case" in str(caught.value)
        assert caught.value.remedy is not None
        key = caught.value.remedy.partition("`")[2].partition("`")[0]
        assert key == "lower-case-table-names: 1"
        path.write_text(path.read_text().replace("source-id: n1\n", f"source-id: n1\n  {key}\n"))
        merge(path, path.parent / "out")  # the same output goes on
        assert "ADD COLUMN w INT" in "\n".join(said(path.parent / "out"))


def test_one_node_folds_and_one_does_not(folding: Stage, _shared_mysql_server: MySqlServer) -> None:
    """Names are then different tables, which is told, unless a route makes them one."""
    number, folder = 934, folding.folder / "mixed"
    folding.clear()
    with MySqlServer(folder / "plain", 213) as plain:
        stage = Stage({"n1": folding.nodes["n1"], "n2": plain}, _shared_mysql_server, folder)
        script = f"""
            n1 CREATE TABLE Orders {T}
            n2 CREATE TABLE Orders {T}
            n1 rows ORDERS
            n2 INSERT INTO Orders VALUES (901, 'x')
            n1 ALTER TABLE oRDERS ADD COLUMN w INT
            n2 ALTER TABLE Orders ADD COLUMN w INT"""
        played = Teller(stage, Story("mixed", script), number).tell()
        path = stage.configuration("apart", [played], "pessimistic")
        path.write_text(path.read_text().replace("source-id: n1\n", "source-id: n1\n  lower-case-table-names: 1\n"))
        result = merge(path, path.parent / "out")
        assert any(re.search("lower_case_table_names 1 or 2 takes for one", warning) for warning in result.warnings)
        text = "\n".join(said(path.parent / "out"))
        assert "CREATE TABLE `orders`" in text and "CREATE TABLE `Orders`" in text
        routed = path.read_text().replace("routes: []", "") + (
            f"routes: [{{schema-pattern: r{number}a, table-pattern: orders, target-schema: r{number}a, "
            "target-table: orders}]\n"
        )
        path.write_text(routed)
        merge(path, path.parent / "together")
        text = "\n".join(said(path.parent / "together"))
        assert text.count("CREATE TABLE") == 1 == text.count("ADD COLUMN") and "Orders" not in text
        stage.clear()


def test_a_capture_asks_the_server(folding: Stage, tmp_path: Path) -> None:
    number = 935
    folding.clear()
    node = folding.nodes["n1"]
    node.execute(f"CREATE DATABASE R{number}A; CREATE TABLE r{number}a.Kept {T}; FLUSH BINARY LOGS")
    first = node.binlog_files()[-1].name
    sections: dict[str, Any] = {"base": {"store": "base.duckdb"}, "output": {"dir": "out"}}
    path = cluster(tmp_path, {"n1": url_of(node)}, **sections)
    capture_now(path, start_files={"n1": first})
    assert read_server_note(tmp_path / "captured" / "n1") == 1
    assert run(["schema", "import", "--nodes", "--config", str(path), "--store", str(tmp_path / "base.duckdb")]) == 0
    node.execute(f"ALTER TABLE R{number}A.KEPT ADD COLUMN W INT; INSERT INTO R{number}a.kEPT VALUES (1, 'x', 2)")
    capture_now(path)
    out = tmp_path / "out"
    merge(path, out)
    assert f"ALTER TABLE `r{number}a`.`kept` ADD COLUMN W INT" in "\n".join(said(out))
    folding.target.drop_databases()
    folding.target.execute(f"CREATE DATABASE r{number}a; CREATE TABLE r{number}a.kept {T}")
    folding.carry_out(out)
    against = ["verify", "--from", str(out), "--against", url_of(folding.target), "--nodes", str(path)]
    assert run([*against, "--node", f"n1={url_of(node)}"]) == 0
    with pytest.raises(UnknownTable, match=f"; it has r{number}a.kept"):
        versions_between(Log(out), f"R{number}A", "Kept", 0, 1)
    path.write_text(path.read_text().replace("source-id: n1\n", "source-id: n1\n  lower-case-table-names: 0\n"))
    with pytest.raises(WrongNode, match=r"lower_case_table_names of .* is 1, the configuration says 0"):
        capture_now(path)


def test_names_as_given_in_the_log(stage: Stage) -> None:
    """With 2, as on macOS, a server stores names as given and compares them folded: any case may be in its log."""
    number = 936
    stage.clear()
    script = f"""
        n1 CREATE TABLE Orders {T}
        n1 rows Orders
        n1 ALTER TABLE Orders ADD COLUMN W INT
        n1 INSERT INTO Orders VALUES (901, 'x', 7)
        n1 CREATE TABLE Child (Id INT PRIMARY KEY, O INT, FOREIGN KEY (O) REFERENCES Orders (Id))
        n1 INSERT INTO Child VALUES (1, 901)
        n1 RENAME TABLE Child TO {{b}}.Moved
        n1 INSERT INTO {{b}}.Moved VALUES (2, 901)"""
    for mode in MODES:
        played = Teller(stage, Story("given", script), number, begun=mode == MODES[1]).tell()
        path = stage.configuration(f"given-{mode}", [played], mode, sections={"lower-case-table-names": 2})
        merge(path, path.parent / "out")
        text = "\n".join(said(path.parent / "out"))
        assert not re.search("Orders|Child|Moved", text) and f"### INSERT INTO `r{number}b`.`moved`" in text
        stage.target.drop_databases()
        stage.carry_out(path.parent / "out")
        assert stage.target.query(f"SELECT * FROM r{number}a.orders WHERE Id = 901") == [(901, "x", 7)]
        assert stage.target.query(f"SELECT * FROM r{number}b.moved") == [(1, 901), (2, 901)]
        assert "REFERENCES `r936a`.`orders`" in stage.target.query(f"SHOW CREATE TABLE r{number}b.moved")[0][1]
        stage.nodes["n1"].execute(f"DROP TABLE r{number}b.Moved, r{number}a.Orders")


def test_rows_of_tables_like_a_tools_are_found_in_any_case(stage: Stage) -> None:
    """Also where row events have names as given: what is a tool's is counted, what is not comes out."""
    number = 938
    stage.clear()
    script = f"""
        n1 CREATE TABLE T {T}
        n1 INSERT INTO T VALUES (1, 'x'), (2, 'x')
        n1 CREATE TABLE _T_new {T}
        n1 INSERT INTO _T_new VALUES (3, 'kept')
        n1 CREATE /* gh-ost */ TABLE _T_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64))
        n1 CREATE /* gh-ost */ TABLE _T_gho LIKE T
        n1 ALTER /* gh-ost */ TABLE _T_gho ADD UNIQUE (V)
        n1 INSERT /* gh-ost */ IGNORE INTO _T_gho (Id, V) SELECT Id, V FROM T
        n1 RENAME /* gh-ost */ TABLE T TO _T_del, _T_gho TO T"""
    played = Teller(stage, Story("tools", script), number).tell()
    sections = {"lower-case-table-names": 2, "shard-doubts": "warn"}
    path = stage.configuration("tools-in-any-case", [played], "pessimistic", sections=sections)
    result = merge(path, path.parent / "out")
    assert any("kept" in line for line in said(path.parent / "out"))
    assert {one["table"]: one["rows"] for one in result.hidden} == {"_t_del": 0, "_t_ghc": 0, "_t_gho": 1}
    assert any("has 1 rows where it has 2" in warning for warning in result.warnings), result.warnings


def test_markers_name_tables_in_any_case(folding: Stage) -> None:
    number = 937
    folding.clear()
    script = f"""
        n1 CREATE TABLE {{a}}.Orders {T}
        n1 rows orders
        n1 ALTER TABLE ORDERS ADD COLUMN W INT
        n1 INSERT INTO Orders VALUES (901, 'x', 7)
        n1 CREATE TABLE Other LIKE oRDERS
        n1 RENAME TABLE Orders TO {{b}}.SOLD
        n1 INSERT INTO {{b}}.sold VALUES (902, 'x', 7)"""
    played = Announcing(folding, Story("announced", script), number).tell()
    sections: dict[str, Any] = {"nodes": [{"source-id": "n1", "files": ["n1/binlog.*"], "lower-case-table-names": 1}]}
    sections["commit-tso"] = {"carrier": "commit-table"}
    path = folding.configuration("announced", [played], "marker", sections=sections)
    merge(path, path.parent / "out")
    folding.target.drop_databases()
    folding.carry_out(path.parent / "out")
    check(folding, played, number)


def test_names_of_statements() -> None:
    """Only names of tables and databases change, wherever they stand."""
    told = {
        "ALTER TABLE `Ab`.Cd /* Cd */ ADD Cd INT DEFAULT 7 COMMENT 'Cd', RENAME Ef.`Gh`": (
            "ALTER TABLE `ab`.cd /* Cd */ ADD Cd INT DEFAULT 7 COMMENT 'Cd', RENAME ef.`gh`"
        ),
        "CREATE TABLE IF NOT EXISTS A.Éa LIKE `B` . Cc": "CREATE TABLE IF NOT EXISTS a.éa LIKE `b` . cc",
        "CREATE TABLE A (A INT, FOREIGN KEY Fk (A) REFERENCES B.C (A), KEY A (A))": (
            "CREATE TABLE a (A INT, FOREIGN KEY Fk (A) REFERENCES b.c (A), KEY A (A))"
        ),
        "DROP TABLE A, B.C /*!50000 , D */": "DROP TABLE a, b.c /*!50000 , d */",
        "RENAME TABLE A TO B, `C``D` TO E": "RENAME TABLE a TO b, `c``d` TO e",
        "CREATE DATABASE IF NOT EXISTS A CHARACTER SET LATIN1": "CREATE DATABASE IF NOT EXISTS a CHARACTER SET LATIN1",
        "ALTER DATABASE A COLLATE UTF8MB4_BIN": "ALTER DATABASE a COLLATE UTF8MB4_BIN",
        "DROP SCHEMA A": "DROP SCHEMA a",
        "TRUNCATE A": "TRUNCATE a",
        "CREATE UNIQUE INDEX A ON A (A)": "CREATE UNIQUE INDEX A ON a (A)",
        "DROP INDEX A ON B.A": "DROP INDEX A ON b.a",
        "ALTER TABLE A EXCHANGE PARTITION A WITH TABLE B": "ALTER TABLE a EXCHANGE PARTITION A WITH TABLE b",
        "CREATE VIEW V AS SELECT A.X FROM A JOIN B.C": "CREATE VIEW v AS SELECT A.X FROM a JOIN b.c",
        "DROP VIEW V, W.X": "DROP VIEW v, w.x",
        "İt is not understood": "İt is not understood",
    }
    for sql, wanted in told.items():
        assert with_folded_names(ParsedDdl.of(sql, DdlSession())).sql == wanted
    quoted = with_folded_names(ParsedDdl.of('ALTER TABLE "A"."B" ADD "A" INT', DdlSession(sql_mode=ANSI_QUOTES)))
    assert quoted.sql == 'ALTER TABLE "a"."b" ADD "A" INT'
