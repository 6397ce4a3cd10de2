"""The session of a DDL is carried whole: what it does on a target is what the node's own log does there.

One node runs, for every variable that servers put into a QUERY event, a statement whose result depends on it. A target
that applies the merged log (`mysqlbinlog | mysql`) ends with the rows and definitions of the node, as one that applies
the node's own log does, and mysqlbinlog sets the same session for each statement of both.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.pipeline.values import MergeResult
from binlog_merge.targets.server.mysql import MysqlTarget
from binlog_merge.targets.server.run import replay
from snapshot_store.ddl.parse.statement import qualified_tables
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.server import ServerAddress
from tests.effort import keeping
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.soak.by_hand import Written

pytestmark = pytest.mark.mysql

BEGIN = """
CREATE DATABASE app CHARACTER SET latin1
USE app
CREATE TABLE t (a INT PRIMARY KEY, n VARCHAR(9))
INSERT INTO t VALUES (3, 'x'), (1, 'y'), (2, NULL)
CREATE TABLE parent (a INT PRIMARY KEY)
"""

OTHER = "CREATE DATABASE others CHARACTER SET koi8r; USE others; "
NONE = "CREATE DATABASE gone; USE gone; DROP DATABASE gone; "
CONVERT = "CONVERT TO CHARACTER SET"

STORY: Mapping[str, str] = {
    "microseconds": "ALTER TABLE t ADD c DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), ADD d TIMESTAMP(3) DEFAULT NOW(3)",
    "timestamp": "SET timestamp = 1000000000.123456; ALTER TABLE t ADD c DATETIME(6) DEFAULT NOW(6)",
    "seconds": "SET timestamp = 1234567890; ALTER TABLE t ADD c DATETIME DEFAULT CURRENT_TIMESTAMP",
    "auto_increment": (
        "SET auto_increment_increment = 10, auto_increment_offset = 5; CREATE TABLE q (a INT PRIMARY KEY); "
        "INSERT INTO q VALUES (7), (3); ALTER TABLE q ADD id INT AUTO_INCREMENT, ADD KEY (id)"
    ),
    "lc_time_names": "SET lc_time_names = 'de_DE'; ALTER TABLE t ADD c VARCHAR(20) DEFAULT (DAYNAME('2026-01-01'))",
    "thread_id": "ALTER TABLE t ADD c BIGINT DEFAULT (CONNECTION_ID())",
    "charset": "SET NAMES latin1; ALTER TABLE t ADD c VARCHAR(30) AS (CONCAT(n, 'ab')), ADD CHECK (n <> 'zz')",
    "collation_server": "SET collation_server = utf8mb4_bin; CREATE DATABASE others; CREATE TABLE others.t (a CHAR(1))",
    "collation_database": "SET character_set_database = utf8mb4; CREATE TABLE q (a CHAR(1))",
    "utf8mb4": "SET default_collation_for_utf8mb4 = utf8mb4_general_ci; CREATE TABLE q (a CHAR(1) CHARSET utf8mb4)",
    "time_zone": (
        "SET time_zone = '+05:00'; "
        "ALTER TABLE t ADD c TIMESTAMP DEFAULT '2026-01-01 00:00:00', ADD d DATETIME DEFAULT NOW()"
    ),
    "sql_mode": "SET sql_mode = ''; ALTER TABLE t MODIFY n VARCHAR(9) NOT NULL, ADD d DATE NOT NULL",
    "ansi": "SET sql_mode = 'ANSI'; CREATE TABLE \"q\" (\"a b\" REAL DEFAULT 1)",
    "foreign_key_checks": (
        "SET foreign_key_checks = 0, unique_checks = 0; CREATE TABLE q (a INT, FOREIGN KEY (a) REFERENCES nobody (b))"
    ),
    "explicit_defaults_for_timestamp": (
        "SET explicit_defaults_for_timestamp = 0; "
        "CREATE TABLE q (a TIMESTAMP, b TIMESTAMP DEFAULT '2026-01-01 00:00:00')"
    ),
    "sql_require_primary_key": "SET sql_require_primary_key = 1; CREATE TABLE q (a INT PRIMARY KEY, b INT)",
    "default_table_encryption": "SET default_table_encryption = 1; CREATE DATABASE others",
    "no_database": NONE + (
        "ALTER TABLE app.t ADD c INT; CREATE TABLE app.q LIKE app.t; TRUNCATE app.q; DROP TABLE app.q"
    ),
    "other_database": OTHER + (
        "CREATE TABLE q (a INT); ALTER TABLE app.t ADD c CHAR(1) DEFAULT 'x'; RENAME TABLE q TO app.q; "
        "CREATE TABLE app.c (a INT, FOREIGN KEY (a) REFERENCES t (a)); DROP DATABASE others; ALTER TABLE app.t DROP c"
    ),
    "default_without_database": NONE + f"ALTER TABLE app.t {CONVERT} DEFAULT; INSERT INTO app.t VALUES (9, '漢')",
    "default_of_another_database": OTHER + f"ALTER TABLE app.t {CONVERT} DEFAULT; INSERT INTO app.t VALUES (9, 'я')",
    "default_of_its_database": f"ALTER TABLE t {CONVERT} DEFAULT, ADD c INT; INSERT INTO t VALUES (9, 'é', 1)",
    "default_of_the_session": OTHER + (
        f"SET character_set_database = utf8mb3; ALTER TABLE app.t {CONVERT} DEFAULT; INSERT INTO app.t VALUES (9, '漢')"
    ),
    "default_with_a_collation": OTHER + (
        f"ALTER TABLE app.t {CONVERT}/* */DEFAULT COLLATE koi8r_bin, ADD c INT; INSERT INTO app.t VALUES (9, 'я', 1)"
    ),
    "name_of_the_database": "ALTER TABLE t ADD c VARCHAR(64) DEFAULT (DATABASE())",
    "name_of_another_database": OTHER + "ALTER TABLE app.t ADD c VARCHAR(64) DEFAULT (SCHEMA())",
}  # fmt: skip
"""By the variable; each in a session and a log of its own."""

Held = dict[str, Any]


def held(server: MySqlServer) -> Held:
    """Return all databases, tables and rows of a server."""
    found: Held = {}
    for (database,) in server.query("SHOW DATABASES"):
        if database in ("mysql", "sys", "information_schema", "performance_schema"):
            continue
        found[database] = server.query(f"SHOW CREATE DATABASE `{database}`")
        for (table,) in server.query(f"SHOW TABLES FROM `{database}`"):
            name = f"`{database}`.`{table}`"
            create = re.sub(r" AUTO_INCREMENT=\d+", "", str(server.query(f"SHOW CREATE TABLE {name}")[0][1]))
            found[name] = (create, sorted(server.query(f"SELECT * FROM {name}"), key=repr))
    return found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with MySqlServer(tmp_path_factory.mktemp("node"), server_id=102) as server:
        yield server


def play(node: MySqlServer, story: str, folder: Path) -> Path:
    """Run a story on an empty node; returns a configuration with its log."""
    node.drop_databases()
    node.execute("RESET BINARY LOGS AND GTIDS")
    connection = node.connect()
    with connection, connection.cursor() as cursor:
        for sql in (*BEGIN.strip().splitlines(), *story.split("; ")):
            cursor.execute(sql)
    node.execute("FLUSH BINARY LOGS")
    (folder / "node").mkdir(parents=True)
    shutil.copy(node.binlog_files()[0], folder / "node" / "binlog.000001")
    return folder


def merged(folder: Path, mode: str, doubts: str = "error") -> MergeResult:
    """Merge a played story into `out`."""
    values = {
        "version": 1,
        "name": "session",
        "nodes": [{"source-id": "dn", "files": ["node/binlog.*"]}],
        "shard-mode": mode,
        "shard-doubts": doubts,
        "commit-tso": {"carrier": "gtid-time"},
        "output": {"server-id": 9001, "cluster-uuid": "11111111-2222-3333-4444-555555555555"},
    }
    (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
    return merge(folder / "cluster.yaml", folder / "out")


def replayed(server: MySqlServer, out: Path) -> None:
    """Replay a merged log into an empty server."""
    server.drop_databases()
    binlog = Log(out)
    target = MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)
    replay(binlog, target, ReplayOptions())
    server.execute("DROP DATABASE binlog_merge")


def sessions(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the statements that mysqlbinlog prints of a file, each with the session that it has set by then."""
    found: list[tuple[str, dict[str, str]]] = []
    now: dict[str, str] = {}
    text = mysqlbinlog([path], "--skip-gtids", "--base64-output=DECODE-ROWS").decode()
    for statement in re.split(r"/\*!\*/;\n", text):
        said = "\n".join(line for line in statement.splitlines() if not line.startswith(("#", "/*!50", "DELIMITER")))
        setting = re.fullmatch(r"(?:/\*!\d+ )?SET (.*?)(?:\*/;?)?", said.strip(), re.DOTALL)
        if setting is not None:
            for pair in re.sub(r"@@session\.", "", setting[1]).split(","):
                name, _, value = pair.partition("=")
                now[name.strip().lower()] = value.strip()
        elif said.startswith("use "):
            now["database"] = said.strip()
        elif said.strip() and not said.startswith(("BEGIN", "COMMIT", "ROLLBACK", "/*!\\C")):
            found.append((said.strip(), dict(now)))
    return found


def databases_said(sql: str, session: DdlSession) -> set[str]:
    """Return the databases that a statement says before names of tables."""
    return {name for name, _ in qualified_tables(sql, session)}


# What one setting does to a target, of each kind: clocks, counters, characters, modes, and how a name is found. That
# events say what the nodes' events say is seen of all stories below.
KEPT = (
    "microseconds",
    "charset",
    "time_zone",
    "sql_mode",
    "default_of_another_database",
)


@pytest.mark.parametrize(
    ("name", "mode"),
    keeping(KEPT, zip(STORY, cycle(("pessimistic", "optimistic")), strict=False)),
)
def test_a_target_holds_what_the_node_holds(
    node: MySqlServer, mysql_server: MySqlServer, name: str, mode: str, tmp_path: Path
) -> None:
    folder = play(node, STORY[name], tmp_path)
    result = merged(folder, mode)
    assert not result.warnings
    (file,) = written(folder / "out")
    plain = held(node)
    if name != "default_without_database":  # mysqlbinlog cannot say that a session has none: its client is in `app`
        mysql_server.apply(mysqlbinlog([folder / "node" / "binlog.000001"], "--skip-gtids"))
        assert held(mysql_server) == plain
    mysql_server.drop_databases()
    mysql_server.apply(mysqlbinlog([folder / "out" / file], "--skip-gtids"))
    assert held(mysql_server) == plain
    replayed(mysql_server, folder / "out")
    assert held(mysql_server) == plain
    theirs, ours = (sessions(folder / path) for path in ("node/binlog.000001", f"out/{file}"))
    assert len(ours) == len(theirs) > 2
    for (text, mine), (sql, set_there) in zip(ours, theirs, strict=True):
        # The text is utf8mb4 here.
        assert mine | {"character_set_client": ""} == set_there | {"character_set_client": ""}, sql
        # What a replica does to an event's database, as replicate-rewrite-db, it does not do to one that a text says.
        session = DdlSession(sql_mode=int(set_there["sql_mode"]))
        ours_said, said = (databases_said(one, session) for one in (text, sql))
        if sql.startswith("RENAME") and said:  # to another database: both are said
            assert ours_said == said | {"others"}, sql
        else:
            assert ours_said == said, sql


def statements(path: Path) -> list[tuple[Query, int, Gtid]]:
    """Return the statements of a file, when each began, and the GTID event that it stands behind."""
    found: list[tuple[Query, int, Gtid]] = []
    gtid: Gtid | None = None
    for event in walk(path.read_bytes()[4:], checksum=True, offset=4):
        if event.type_code in (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT):
            gtid = Gtid.parse(event.body)
        elif event.type_code == EventType.QUERY_EVENT and gtid is not None:
            query = Query.parse(event.body)
            if query.text != "BEGIN":
                found.append((query, event.header.timestamp, gtid))
    return found


def all_on_one_table() -> str:
    """Return the stories that alter the table they begin with as one, each with columns of its own."""
    numbers = count()
    told = [sql for sql in STORY.values() if not re.search(r"others|gone|INSERT|\bq\b", sql)]
    return re.sub(r"ADD [cd]\b", lambda match: f"{match[0]}{next(numbers)}", "; ".join(told))


OF_DATABASES = OTHER + "; ".join(
    (
        "ALTER DATABASE app CHARACTER SET utf8mb3", "CREATE DATABASE `日本`",
        "CREATE TABLE `日本`.u (a INT PRIMARY KEY)", "ALTER TABLE `日本`.u RENAME app.v",
        "RENAME TABLE app.v TO others.w", "CREATE INDEX i ON others.w (a)",
        "ALTER TABLE others.w PARTITION BY HASH (a) PARTITIONS 2",
        "CREATE TABLE `日本`.x (a INT PRIMARY KEY, KEY i (a))",
        "ALTER TABLE others.w EXCHANGE PARTITION p0 WITH TABLE `日本`.x", "DROP INDEX i ON `日本`.x",
        "DROP TABLE others.w", "DROP DATABASE others",
    )
)  # fmt: skip
"""Statements that change tables of several databases."""


@pytest.mark.parametrize("story", [all_on_one_table(), STORY["no_database"], STORY["other_database"], OF_DATABASES])
def test_the_events_say_what_the_nodes_events_say(node: MySqlServer, story: str, tmp_path: Path) -> None:
    """The database, every variable, the time, the thread and how long it took; when it was committed, and by what."""
    folder = play(node, story, tmp_path)
    merged(folder, "pessimistic")
    theirs, ours = statements(folder / "node" / "binlog.000001"), statements(folder / "out" / "binlog.000001")
    assert len(ours) == len(theirs) > 8
    left_out = {StatusVar.Q_CATALOG_NZ_CODE}
    for (mine, at, gtid), (query, then, source) in zip(ours, theirs, strict=True):
        wanted = {code: value for code, value in query.status_vars.items() if code not in left_out}
        wanted[StatusVar.Q_CHARSET_CODE] = (45, *query.status_vars[StatusVar.Q_CHARSET_CODE][1:])
        wanted[StatusVar.Q_DDL_LOGGED_WITH_XID] = gtid.gno
        if " LIKE " in query.text:  # its columns come out, as of a CREATE TABLE that lists them
            wanted[StatusVar.Q_UPDATED_DB_NAMES] = (b"app",)
        assert dict(mine.status_vars) == wanted, (mine.text, query.text)
        assert not mine.status_unknown
        assert (at, mine.thread_id, mine.exec_time) == (then, query.thread_id, query.exec_time)
        assert mine.schema == query.schema
        assert gtid.original_commit_timestamp == source.original_commit_timestamp
        assert gtid.original_server_version == source.original_server_version


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_rows_that_no_key_orders_are_a_doubt(node: MySqlServer, mode: str, tmp_path: Path) -> None:
    """As on any replica: they are numbered as they are stored, and that no log tells."""
    story = "CREATE TABLE q (a INT); INSERT INTO q VALUES (7), (3); ALTER TABLE q ADD id INT AUTO_INCREMENT PRIMARY KEY"
    result = merged(play(node, story, tmp_path), mode, "warn")
    (warning,) = result.warnings
    assert "numbered in id in the order in which they are stored" in warning
    assert "shard to shard" not in warning


def test_a_marker_does_not_tell_when_the_nodes_ran_it(tmp_path: Path) -> None:
    """So rows that were there hold another NOW() than on the nodes: the merge says in which column."""
    history = Written(2)
    history.distributed(1000, 10)
    history.marker(1100, "ALTER TABLE t ADD COLUMN at DATETIME(6) DEFAULT NOW(6), ADD COLUMN two INT DEFAULT (1 + 1)")
    history.distributed(1200, 20)
    result = merge(history.save(tmp_path), tmp_path / "out")
    (told,) = [warning for warning in result.warnings if "when and where" in warning]
    assert told.startswith("shop.t: rows that are there get a value in at by")


WITH_ROWS = {
    "engine": "CREATE TABLE q ENGINE=InnoDB AS SELECT 1 AS x, 'a' AS y",
    "charset-and-comment": "CREATE TABLE q CHARSET=koi8r COMMENT='START TRANSACTION' SELECT a FROM t",
    "format": "CREATE TABLE IF NOT EXISTS q (PRIMARY KEY (a)) ROW_FORMAT=COMPRESSED AS SELECT * FROM t",
    "partitions": "CREATE TABLE q ENGINE=InnoDB PARTITION BY HASH (a) PARTITIONS 2 AS SELECT a FROM t",
    "none": "CREATE TABLE q AS SELECT * FROM t",
    "no-rows": "CREATE TABLE q COMMENT='START TRANSACTION' AS SELECT * FROM t WHERE a > 99",
    "ansi": "SET sql_mode = 'ANSI_QUOTES'; CREATE TABLE \"q\" ENGINE=InnoDB AS SELECT * FROM t",
    "only-the-words": "CREATE TABLE q (a INT) COMMENT='START TRANSACTION'; INSERT INTO q VALUES (1)",
}  # fmt: skip


@pytest.mark.parametrize(("number", "name"), list(enumerate(WITH_ROWS)))
def test_a_table_made_with_its_rows(
    node: MySqlServer, mysql_server: MySqlServer, number: int, name: str, tmp_path: Path
) -> None:
    """CREATE TABLE … SELECT is logged as `CREATE TABLE … START TRANSACTION`, and its options follow these words."""
    folder = play(node, f"{WITH_ROWS[name]}; INSERT INTO t VALUES (77, 'z')", tmp_path)
    assert not merged(folder, ("pessimistic", "optimistic")[number % 2]).warnings
    (file,) = written(folder / "out")
    mysql_server.drop_databases()
    mysql_server.apply(mysqlbinlog([folder / "out" / file], "--skip-gtids"))
    assert held(mysql_server) == held(node)


def test_what_is_made_only_if_it_is_not_there_is_so_on_targets(
    node: MySqlServer, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    """A target that has the database goes on, as one of the node does."""
    story = (
        "CREATE DATABASE IF NOT EXISTS others; CREATE TABLE IF NOT EXISTS others.q LIKE t; "
        "DROP DATABASE IF EXISTS others; CREATE DATABASE others"
    )
    folder = play(node, story, tmp_path)
    merged(folder, "pessimistic")
    (file,) = written(folder / "out")
    texts = [query.text for query, _, _ in statements(folder / "out" / file)]
    assert [t.partition("`")[0].strip() for t in texts if "others" in t] == [
        "CREATE DATABASE IF NOT EXISTS", "CREATE TABLE IF NOT EXISTS", "DROP DATABASE IF EXISTS", "CREATE DATABASE"
    ]  # fmt: skip
    mysql_server.drop_databases()
    mysql_server.execute("CREATE DATABASE others")
    mysql_server.apply(mysqlbinlog([folder / "out" / file], "--skip-gtids"))
    assert held(mysql_server) == held(node)
