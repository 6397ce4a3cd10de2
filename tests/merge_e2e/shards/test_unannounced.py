"""Mode `marker` on real servers that write none: DDL that changes rows stops the merge before it, and never goes by."""

from pathlib import Path

import pytest

from binlog_merge.errors import MarkerIncomplete, MergeError, MissingCommitTso, UnannouncedDdl
from tests.effort import keeping
from tests.merge_e2e.local import merge, state_of, written
from tests.merge_e2e.shards.stage import Played, Route, Stage

pytestmark = [pytest.mark.mysql]

COLUMNS = "(id INT PRIMARY KEY, v VARCHAR(20), KEY of_v (v))"
PARTITIONED = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (100), PARTITION q VALUES LESS THAN MAXVALUE)"
ROWS = ("INSERT INTO t VALUES (1, 'one'), (2, 'two')", "INSERT INTO u VALUES (1, 'one')")
BEHIND = ("INSERT INTO t (id) VALUES (3)", "DELETE FROM t WHERE id = 3")

STOPS = {
    "ALTER TABLE t ADD w INT": "column w is left out of every row",
    "ALTER TABLE t DROP v": "column v is filled with its default in every row",
    "ALTER TABLE t MODIFY v VARCHAR(40)": "column v comes out in its old type",
    "ALTER TABLE t RENAME COLUMN v TO x": "column x is left out of every row",
    "ALTER TABLE t DROP v, ADD v VARCHAR(20)": "keeps the rows that it has",
    "TRUNCATE TABLE t": "keeps the rows that it has",
    "DROP TABLE u": "keeps its rows",
    "DROP DATABASE {db}": "keeps its rows",
    "RENAME TABLE t TO z": "keeps its rows",
    "RENAME TABLE t TO x, u TO t, x TO u": "keeps the rows that it has",
    "ALTER TABLE t RENAME TO z": "keeps its rows",
    "CREATE TABLE made (id INT PRIMARY KEY)": "is never made",
    "CREATE TABLE made LIKE t": "is never made",
    "CREATE TABLE made SELECT * FROM t": "is never made",
    "ALTER TABLE t TRUNCATE PARTITION p": "keeps the rows that it has",
    "ALTER TABLE t DROP PARTITION p": "keeps the rows that it has",
}
GOES_ON = (
    "ALTER TABLE t ADD INDEX i (v)",
    "ALTER TABLE t COMMENT 'x'",
    "ALTER TABLE t ALTER v SET DEFAULT 'x'",
    "ALTER TABLE t MODIFY v VARCHAR(20) FIRST",
    "CREATE TABLE IF NOT EXISTS t (id INT)",
    "DROP TABLE IF EXISTS nothing",
)


class Plain:
    """A database on both nodes, unrouted on each, with what it held when the binlogs of a story begin."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        stage.clear()
        for node, server in stage.nodes.items():
            made = f"CREATE TABLE t {COLUMNS} {PARTITIONED}; CREATE TABLE u {COLUMNS}"
            server.execute(f"SET sql_log_bin = 0; CREATE DATABASE {name}_{node}; USE {name}_{node}; {made}")

    def played(self, *statements: str, nodes: tuple[str, ...] = ("n1", "n2")) -> Played:
        """Run statements on nodes, in a scene of their own."""
        with self.stage.scene(self.name, [Route(f"{self.name}_*", "?", (self.name, "t"))][:0]) as (sessions, played):
            for sql in statements:
                for node in nodes:
                    database = f"{self.name}_{node}"
                    sessions[node].run(f"USE {database}" if "DATABASE" not in sql else "DO 1")
                    sessions[node].run(sql.replace("{db}", database))
        return played[0]

    def configuration(self, played: Played, **sections: object) -> Path:
        """Return a configuration with the bases as they were before."""
        return self.stage.configuration(self.name, [played], "marker", sections={**self.bases, **sections})

    def base(self) -> None:
        """Take the bases as they are now."""
        folder = self.stage.folder / f"{self.name}-base"
        folder.mkdir(parents=True, exist_ok=True)
        logical = ""
        for node, server in self.stage.nodes.items():
            text = server.dump_schema(f"{self.name}_{node}")
            (folder / f"{node}.sql").write_text(text)
            logical += text
        (folder / "logical.sql").write_text(logical)
        physical = {node: str(folder / f"{node}.sql") for node in self.stage.nodes}
        self.bases = {"base": {"logical": str(folder / "logical.sql"), "physical": physical}}


@pytest.fixture(scope="module")
def stories(stage: Stage) -> dict[str, tuple[Plain, Played]]:
    """All statements, each in a database and binlog files of its own."""
    found = {}
    for number, sql in enumerate((*STOPS, *GOES_ON)):
        plain = Plain(stage, f"a{number}")
        plain.base()
        found[sql] = (plain, plain.played(*ROWS, sql, *(() if "DATABASE" in sql or "TO z" in sql else BEHIND)))
    return found


def stopped(path: Path, end_of_input: bool = True) -> UnannouncedDdl:
    with pytest.raises(UnannouncedDdl) as raised:
        merge(path, path.parent / "out", end_of_input=end_of_input)
    return raised.value


@pytest.mark.parametrize("sql", keeping(list(STOPS)[::4], STOPS))
def test_what_changes_rows_stops_before_it(stories: dict[str, tuple[Plain, Played]], sql: str) -> None:
    plain, played = stories[sql]
    error = stopped(plain.configuration(played))
    assert STOPS[sql] in error.message and "shard-mode: pessimistic" in error.remedy
    assert error.message.startswith(repr(sql[:10])[:-1])
    assert (error.node, error.exit_code) == ("n1", 46) and error.position
    assert error.result is not None and error.result.transactions == 4  # the rows before it, of both nodes


@pytest.mark.parametrize("sql", keeping(list(STOPS)[::4], STOPS))  # a column, rows, a name, and a new table
def test_who_wants_to_go_on_is_told_what_the_target_holds(stories: dict[str, tuple[Plain, Played]], sql: str) -> None:
    plain, played = stories[sql]
    path = plain.configuration(played, markers={"missing": "warn"})
    try:
        warnings = merge(path, path.parent / "warned").warnings
    except MergeError as error:
        assert error.code == "unknown-table-schema" and "made" in error.message  # rows of it
        warnings = error.result.warnings
    for node in ("n1", "n2"):
        said = [w for w in warnings if f"{plain.name}_{node}." in w and sql[:10] in w]
        assert said and STOPS[sql] in said[0] and "set shard-mode" in said[0] and "schema set" in said[0]


@pytest.mark.parametrize("sql", GOES_ON)
def test_what_changes_no_rows_goes_by(stories: dict[str, tuple[Plain, Played]], sql: str) -> None:
    plain, played = stories[sql]
    path = plain.configuration(played)
    assert not merge(path, path.parent / "out").warnings


def test_pessimistic_is_the_remedy_that_it_says(stage: Stage) -> None:
    plain = Plain(stage, "b0")
    plain.base()
    played = plain.played(*ROWS, "ALTER TABLE t ADD w INT DEFAULT 4", "INSERT INTO t VALUES (9, 'nine', 99)")
    stopped(plain.configuration(played))
    path = stage.configuration("b1", [played], "pessimistic", sections=plain.bases)
    merge(path, path.parent / "out")
    stage.target.drop_databases()
    stage.target.apply(Path(plain.bases["base"]["logical"]).read_bytes())
    stage.carry_out(path.parent / "out")
    assert stage.target.query("SELECT * FROM b0_n2.t ORDER BY id") == [(1, "one", 4), (2, "two", 4), (9, "nine", 99)]


def test_a_database_of_which_only_the_logical_base_has_the_tables(stage: Stage) -> None:
    """Nothing else in the run names them, neither rows nor the node's own history, which has the database alone."""
    plain = Plain(stage, "b2")
    plain.base()
    for node, path in plain.bases["base"]["physical"].items():
        Path(path).write_text(f"CREATE DATABASE b2_{node};\n")
    error = stopped(plain.configuration(plain.played("DROP DATABASE {db}")))
    assert error.message.startswith("'DROP DATABASE b2_n1") and " b2_n1.t, " in error.message
    assert STOPS["DROP DATABASE {db}"] in error.message


def test_the_shortest_configuration_of_one_node(stage: Stage) -> None:
    plain = Plain(stage, "c0")
    played = plain.played("CREATE TABLE app (id INT PRIMARY KEY)", "INSERT INTO app VALUES (1)", nodes=("n1",))
    path = stage.configuration("c0", [played], "marker", sections={"commit-tso": {"carrier": "auto"}})
    text = path.read_text()
    path.write_text(text.replace("- source-id: n2\n  files:\n  - n2/binlog.*\n", ""))
    assert "n2/" not in path.read_text()
    error = stopped(path)
    assert "c0_n1.app" in error.message and "shard-mode" in error.remedy
    path.write_text(path.read_text().replace("shard-mode: marker", "shard-mode: pessimistic"))
    merge(path, path.parent / "pessimistic")
    stage.target.drop_databases()
    stage.carry_out(path.parent / "pessimistic")
    assert stage.target.query("SELECT * FROM c0_n1.app") == [(1,)]


def test_while_nodes_write_the_rest_is_held_until_the_marker_is_overdue(stage: Stage) -> None:
    """Of two shards of one table one has changed: its marker may be under way."""
    plain = Plain(stage, "d0")
    plain.base()
    with stage.scene("d0", [Route("d0_*", "t", ("d0", "t"))]) as (sessions, played):
        for node in ("n1", "n2"):
            sessions[node].run(f"INSERT INTO d0_{node}.t VALUES ({node[1]}, 'x')")
        sessions["n1"].run("ALTER TABLE d0_n1.t ADD w INT")
        for node in ("n1", "n2"):
            sessions[node].run(f"INSERT INTO d0_{node}.t (id) VALUES (1{node[1]})")
    logical = stage.folder / "d0.sql"
    logical.write_text(stage.nodes["n2"].dump_schema("d0_n2").replace("d0_n2", "d0"))
    sections = {"base": {**plain.bases["base"], "logical": str(logical)}}
    path = stage.configuration("d0", played, "marker", sections=sections)
    result = merge(path, path.parent / "out", end_of_input=False)
    [held] = [w for w in result.warnings if "held back until a marker comes" in w]
    assert "ADD w INT" in held and "d0.t" in held and result.transactions == 2
    path.write_text(path.read_text() + "markers: {overdue: 0}\n")
    assert "column w" in stopped(path, end_of_input=False).message
    path.write_text(path.read_text().replace("overdue: 0", "missing: warn"))
    result = merge(path, path.parent / "out", end_of_input=False)
    assert not [w for w in result.warnings if "w INT" in w]  # the other shard has not changed
    result = merge(path, path.parent / "out")
    assert any("column w is left out of every row" in w and "d0.t" in w for w in result.warnings)
    in_one = path.parent / "in-one"
    merge(path, in_one)
    assert written(in_one) == written(path.parent / "out")


def test_several_nodes_without_a_tso_are_not_put_in_an_order_that_nobody_knows(stage: Stage) -> None:
    plain = Plain(stage, "e0")
    plain.base()
    played = plain.played(*ROWS)
    path = plain.configuration(played, **{"commit-tso": {"carrier": "auto"}})
    with pytest.raises(MissingCommitTso) as raised:
        merge(path, path.parent / "out")
    assert raised.value.exit_code == 27 and "carrier: gtid-time" in raised.value.remedy
    assert state_of(path.parent / "out").rank == 0
    result = merge(path, path.parent / "out", end_of_input=False)
    assert not result.transactions and "n1, n2" in result.warnings[0] and "carrier: gtid-time" in result.warnings[0]
    path.write_text(path.read_text().replace("carrier: auto", "carrier: gtid-time"))
    merge(path, path.parent / "by-time")
    (path.parent / "n2").rename(path.parent / "n3")
    (path.parent / "n2").mkdir()
    alone = (
        path.read_text()
        .replace("carrier: gtid-time", "carrier: auto")
        .replace("- source-id: n2\n  files:\n  - n2/binlog.*\n", "")
        .replace(f"    n2: {plain.bases['base']['physical']['n2']}\n", "")
    )
    path.write_text(alone)
    assert merge(path, path.parent / "alone").transactions == 2  # one node needs none


MARKERS = """CREATE DATABASE __cdc__; CREATE TABLE __cdc__.commits (gtrid VARBINARY(64) PRIMARY KEY, tso BIGINT);
  CREATE TABLE __cdc__.__cdc_ddl_record__ (ID BIGINT PRIMARY KEY, JOB_ID BIGINT, SQL_KIND VARCHAR(50) NOT NULL,
    SCHEMA_NAME VARCHAR(200) NOT NULL, TABLE_NAME VARCHAR(200), GMT_CREATED TIMESTAMP NOT NULL,
    DDL_SQL MEDIUMTEXT NOT NULL, META_INFO MEDIUMTEXT, VISIBILITY BIGINT NOT NULL, EXT TEXT)"""
BRANCH = """XA START X'01'; INSERT INTO d.t VALUES (9); XA END X'01'; XA PREPARE X'01';
  INSERT INTO __cdc__.commits VALUES (X'01', 4711); XA COMMIT X'01'"""


@pytest.mark.parametrize("first", ["n1", "n2"])
def test_the_first_marker_without_a_tso_stops_a_merge(stage: Stage, first: str) -> None:
    """Each node has one, in a transaction of its own: it has no place on the others."""
    stage.clear()
    with stage.scene(f"local-{first}", ()) as (sessions, found):
        for node, session in sessions.items():
            for sql in (MARKERS, "CREATE DATABASE d; CREATE TABLE d.t (id INT)", BRANCH):
                session.run(sql)
            for row in range(0 if node == first else 2):
                session.run(f"INSERT INTO d.t VALUES ({row})")
            session.run(
                "INSERT INTO __cdc__.__cdc_ddl_record__ VALUES (1, 1, 'CREATE_DATABASE', 'e', NULL, NOW(), "
                "'CREATE DATABASE e', NULL, 1, '{}')"
            )
    sections = {
        "commit-tso": {"carrier": "commit-table", "commit-table": "__cdc__.commits"},
        "ignore-schemas": ["d"],
    }
    path = stage.configuration(f"local-{first}", found, "marker", sections=sections)
    with pytest.raises(MarkerIncomplete, match="by a transaction without a commit TSO") as caught:
        merge(path, path.parent / "out")
    assert caught.value.node == first
