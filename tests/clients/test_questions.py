"""What other makers' clients ask is answered as by the MySQL whose binlog the log is: definitions, rows, variables."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from tests.binlog_server.one_node import known_to, merged_from
from tests.binlog_server.running import PASSWORD, USER
from tests.binlog_server.test_definitions import TABLES
from tests.binlog_server.test_system_tables import MORE
from tests.clients.conftest import client
from tests.clients.served import served
from tests.mysql_server import ROOT, MySqlServer
from tests.patience import completed
from tools.demo_live.cluster import free_ports

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
ROWS = "; USE shop; INSERT INTO orders (id, cust, note) VALUES (1, 2, 'x'), (2, 3, NULL), (9, 4, 'é')"
DIFFERENT = {
    "jdbc .* getIndexInfo.*": "how many values an index has: only a storage engine counts them",
    "mycli show_candidates": "names of the manual's pages, which are not ours",
}
"""Questions with another answer, as patterns, with the reason."""
UNCOUNTED = 10
"""Where getIndexInfo has CARDINALITY."""
QUESTIONS = {
    "Debezium": [
        "SHOW VARIABLES WHERE Variable_name IN ('character_set_server', 'collation_server')",
        "SHOW VARIABLES WHERE Variable_name = 'sql_mode'",
        "SHOW GLOBAL VARIABLES LIKE 'GTID_MODE'",
        "SHOW FULL TABLES IN `shop` where Table_Type = 'BASE TABLE'",
        "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata "
        "WHERE schema_name = 'shop'",
    ],
    "Flink CDC": [
        "SELECT TIME_TO_SEC(TIMEDIFF(NOW(), UTC_TIMESTAMP()))",
        "SHOW GLOBAL VARIABLES LIKE 'binlog_format'",
        "SHOW VARIABLES LIKE 'lower_case_table_names'",
    ],
    "Maxwell": [
        "SELECT t.table_name, a.character_set_name FROM information_schema.tables t "
        "JOIN information_schema.collation_character_set_applicability AS a ON t.table_collation = a.collation_name "
        "WHERE t.table_schema = 'shop' ORDER BY 1",
        "SELECT column_name FROM information_schema.key_column_usage WHERE constraint_name = 'PRIMARY' "
        "AND table_schema = 'shop' AND table_name = 'comp' ORDER BY ordinal_position",
        "select @@character_set_server",
        "SELECT * from INFORMATION_SCHEMA.SCHEMATA WHERE schema_name IN ('hr', 'shop') ORDER BY 2",
        "SELECT * FROM `information_schema`.`COLUMNS` WHERE `TABLE_SCHEMA` = 'shop' AND `TABLE_NAME` = 'alltypes'",
        *(f"SHOW VARIABLES LIKE '{name}'" for name in ("log_bin", "binlog_format", "binlog_row_image", "gtid_mode")),
        "SHOW VARIABLES LIKE 'lower_case_table_names'",
    ],
    "pgloader": [
        "SELECT c.table_name, t.table_comment, c.column_name, c.data_type, c.column_type, c.column_default, c.extra "
        "FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) "
        "WHERE c.table_schema = 'shop' AND t.table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position",
        "SELECT table_name, index_name, index_type, SUM(non_unique), "
        "CAST(GROUP_CONCAT(column_name ORDER BY seq_in_index) AS CHAR) FROM information_schema.statistics "
        "WHERE table_schema = 'shop' GROUP BY table_name, index_name, index_type ORDER BY 1, 2",
        "SELECT s.table_name, s.constraint_name, s.ft, s.cols, rc.update_rule, rc.delete_rule FROM ("
        "SELECT tc.table_schema, tc.table_name, tc.constraint_name, k.referenced_table_name ft, "
        "GROUP_CONCAT(k.column_name ORDER BY k.ordinal_position) AS cols FROM information_schema.table_constraints tc "
        "LEFT JOIN information_schema.key_column_usage k ON k.table_schema = tc.table_schema "
        "AND k.table_name = tc.table_name AND k.constraint_name = tc.constraint_name WHERE tc.table_schema = 'shop' "
        "AND tc.constraint_type = 'FOREIGN KEY' GROUP BY tc.table_schema, tc.table_name, tc.constraint_name, ft) s "
        "JOIN information_schema.referential_constraints rc ON rc.constraint_schema = s.table_schema "
        "AND rc.constraint_name = s.constraint_name AND rc.table_name = s.table_name ORDER BY 1, 2",
    ],
}
"""What tools ask that are not run here, by tool."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Yield the ports of a MySQL and of a `serve` of its log."""
    folder = tmp_path_factory.mktemp("both")
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(MySqlServer(folder / "mysql", server_id=7, port=port))
        server.execute(TABLES.rstrip() + MORE + ROWS)
        stack.enter_context(known_to(server))
        out = merged_from(server, folder)
        ours = stack.enter_context(served(out, folder, f"--tables={folder / 'tables.db'}"))
        yield {"mysql": port, "serve": ours.port}


@pytest.mark.parametrize("name", ["connectorx", "peewee", "mycli", "jdbc", "typeorm"])
def test_a_client_of_either_gets_the_same(name: str, both: dict[str, int]) -> None:
    told = {server: _told(name, port) for server, port in both.items()}
    assert list(told["serve"]) == list(told["mysql"])
    assert not [answer for answer in told["mysql"].values() if "Error" in str(answer)[:40]], "a MySQL answers all"
    otherwise = {
        question: (answer, told["serve"][question])
        for question, answer in told["mysql"].items()
        if _comparable(name, question, answer) != _comparable(name, question, told["serve"][question])
    }
    for question, (theirs, ours) in otherwise.items():
        print(question, theirs, ours, sep="\n   ")
    assert not otherwise


@pytest.mark.parametrize("tool", QUESTIONS)
def test_a_tool_is_answered_the_same(tool: str, both: dict[str, int]) -> None:
    for sql in QUESTIONS[tool]:
        theirs, ours = (_rows(port, sql) for port in both.values())
        if sql.startswith("SELECT") and "ORDER BY" not in sql:  # a server's plan, and so its order, changes at times
            theirs, ours = sorted(theirs, key=repr), sorted(ours, key=repr)
        assert ours == theirs, sql


def _told(name: str, port: int) -> dict[str, Any]:
    folder, to = ROOT / "tests" / "clients", (str(port), USER, PASSWORD)
    command = [client("python", "bin", "python"), str(folder / "asking.py"), name, *to]
    if name == "typeorm":
        command = ["node", str(folder / "typeorm.mjs"), client("npm", "node_modules"), *to]
    done = completed(command, 300)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def _comparable(name: str, question: str, answer: Any) -> Any:
    """Return an answer without what may differ; rows in an order of ours, where the client asks for none."""
    different = any(re.fullmatch(pattern, f"{name} {question}") for pattern in DIFFERENT)
    if different and not isinstance(answer, dict):
        return None
    if not isinstance(answer, dict) or "rows" not in answer:
        return answer
    rows = [[value for n, value in enumerate(row) if not (different and n == UNCOUNTED)] for row in answer["rows"]]
    return answer["columns"], sorted(rows, key=repr)


def _rows(port: int, sql: str) -> list[tuple[Any, ...]]:
    settings = {"user": USER, "password": PASSWORD, "database": "shop", "ssl_disabled": True}
    connection = pymysql.connect(host="127.0.0.1", port=port, **settings)
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
