"""Functions of texts, and HAVING, in questions about definitions: a server's rows, or refused."""

from typing import Any

import pytest

from binlog_merge.binlog_server.answers import answer
from binlog_merge.binlog_server.settings import Settings
from snapshot_store.ddl import parse_dump
from tests.binlog_server.test_definitions import TABLES, Server, _ours, _theirs
from tests.mysql_server import MySqlServer

COLUMNS = "FROM information_schema.columns WHERE table_schema = 'shop'"
ONE = f"{COLUMNS} AND table_name = 'alltypes'"
IN_ORDER = f"{ONE} ORDER BY ordinal_position"
INDEXES = "FROM information_schema.statistics WHERE table_schema = 'shop'"
JOINED = (
    "FROM information_schema.columns a JOIN information_schema.tables t USING (table_schema) "
    "WHERE a.table_schema = 'shop' AND a.table_name IN ('alltypes', 'orders')"
)
PLACES = "a.table_name, a.ordinal_position, t.table_name"
ANSWERED = (
    f"SELECT table_name, GROUP_CONCAT(column_name ORDER BY ordinal_position) AS c {COLUMNS} GROUP BY table_name "
    "ORDER BY 1",
    f"SELECT GROUP_CONCAT(DISTINCT data_type ORDER BY data_type DESC SEPARATOR ' | ') {COLUMNS}",
    f"SELECT GROUP_CONCAT(column_name, ':', column_default ORDER BY column_default DESC, ordinal_position) {ONE}",
    f"SELECT GROUP_CONCAT(numeric_scale ORDER BY numeric_scale) {ONE}",
    f"SELECT GROUP_CONCAT(column_name ORDER BY 1 + ordinal_position) {COLUMNS} AND table_name = 'nope'",
    f"SELECT GROUP_CONCAT(a.column_type ORDER BY {PLACES}) {JOINED}",
    f"SELECT LEFT(GROUP_CONCAT(a.column_type ORDER BY {PLACES}), 2000) {JOINED}",
    *(
        f"SELECT GROUP_CONCAT(a.column_name, '{part}' ORDER BY {PLACES} SEPARATOR '{separator}') {JOINED}"
        for part, separator in (("a", "ä"), ("ab", "ä"), ("€", "x"), ("", "€"), ("é", "€"))
    ),
    f"SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) AS c {INDEXES} "
    "GROUP BY table_name, index_name HAVING c = 'CUST,price' ORDER BY 1",
    f"SELECT table_name, GROUP_CONCAT(DISTINCT table_name) AS c {INDEXES} GROUP BY table_name HAVING c = 'ORDERS'",
    "SELECT t.table_name, (SELECT GROUP_CONCAT(c.column_name ORDER BY c.ordinal_position) FROM "
    "information_schema.columns c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name) AS g "
    "FROM information_schema.tables t WHERE t.table_schema = 'shop' HAVING g LIKE 'I%' ORDER BY 1",
    *(f"SELECT LEFT({of}) {IN_ORDER}" for of in ("column_type, 3", "column_default, 2", "column_type, 0", "NULL, 2")),
    f"SELECT LEFT(data_type, 1) AS l, COUNT(*) {ONE} GROUP BY l ORDER BY l",
    f"SELECT COUNT(*) {ONE} AND LEFT(data_type, 1) = 'T'",
    f"SELECT COUNT(*) {COLUMNS} AND LEFT(table_name, 1) = 'A'",
    *(
        f"SELECT {call} {IN_ORDER}"
        for call in (
            *("LOCATE('(', column_type)", "INSTR(column_type, 'int')", "POSITION('(' IN column_default)"),
            *("LOCATE('UNSIGNED', UPPER(column_type))", "LOCATE('INT', column_type)", "LOCATE('', column_type)"),
        )
    ),
    f"SELECT COUNT(*) {ONE} AND NOT LOCATE('(', column_type)",
    f"SELECT column_name AS x {ONE} HAVING x = 'A'",
    f"SELECT column_name AS x, ordinal_position + 1 AS p {ONE} HAVING p < 4 ORDER BY p",
    f"SELECT data_type AS column_name {ONE} HAVING column_name = 'int' ORDER BY 1",
    f"SELECT column_name AS ordinal_position, ordinal_position AS z {ONE} HAVING ordinal_position = 'a'",
    f"SELECT c.column_name {COLUMNS.replace('columns', 'columns c')} HAVING c.column_name = 'id' ORDER BY 1",
    f"SELECT table_name AS t, COUNT(*) AS n {COLUMNS} GROUP BY t HAVING n > 2 AND t LIKE 'o%' ORDER BY 1",
    f"SELECT data_type, COUNT(*) count {COLUMNS} GROUP BY data_type HAVING count > 2 ORDER BY count DESC, data_type",
    f"SELECT COUNT(*) AS n {ONE} HAVING n > 500",
    f"SELECT DISTINCT data_type AS d {COLUMNS} HAVING d LIKE 't%' ORDER BY d",
)
IN_MODES = (
    (
        "ANSI_QUOTES",
        f"""SELECT "COLUMN_NAME", 'it''s "x"' {ONE} AND "column_name" LIKE 'a%' ORDER BY "ORDINAL_POSITION" """,
    ),
    (
        "NO_BACKSLASH_ESCAPES",
        rf"SELECT column_name, '\', 'it''s' {ONE} AND '\' <> column_name ORDER BY ordinal_position",
    ),
    ("ANSI", f"""SELECT "c"."COLUMN_NAME" {COLUMNS.replace("columns", 'columns AS "c"')} ORDER BY 1"""),
)
REFUSED_BY_BOTH = (
    f"SELECT column_name {ONE} HAVING ordinal_position < 4",
    f"SELECT c.column_name AS x {COLUMNS.replace('columns', 'columns c')} HAVING column_name = 'id'",
    f"SELECT COUNT(*) AS n {ONE} HAVING data_type = 'x'",
)
REFUSED = (
    f"SELECT GROUP_CONCAT(DISTINCT is_nullable ORDER BY 1) {COLUMNS}",
    f"SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR '😀') {ONE}",
    *(f"SELECT LEFT(column_type, {count}) {IN_ORDER}" for count in ("-1", "ordinal_position", "2.5", "'2'", "NULL")),
    f"SELECT LOCATE('a', column_name) {IN_ORDER}",
    f"SELECT LOCATE('(', column_type, 3) {IN_ORDER}",
    f"SELECT column_name AS x {ONE} HAVING LOCATE('a', x) > 0",
)


@pytest.mark.mysql
def test_questions_with_functions_are_answered_as_by_a_server(mysql_server: MySqlServer) -> None:
    mysql_server.execute(TABLES)
    world: Any = Server(parse_dump(mysql_server.dump_schema("shop", "hr")))
    settings, different = Settings("rep", 1, schema="shop"), {}
    with mysql_server.connect("shop") as connection, connection.cursor() as cursor:

        def ask(sql: str) -> tuple[Any, Any]:
            return _plain(_ours(answer(sql.encode(), settings, world))), _plain(_theirs(cursor, sql))

        for limit in (None, 7, 100_000):
            if limit is not None:
                cursor.execute(f"SET SESSION group_concat_max_len = {limit}")
                settings.values["group_concat_max_len"] = limit
            for sql in ANSWERED if limit is None else [sql for sql in ANSWERED if "GROUP_CONCAT" in sql]:
                ours, theirs = ask(sql)
                if ours != theirs or isinstance(ours, int):
                    different[sql, limit] = ours, theirs
        for sql in REFUSED_BY_BOTH:
            ours, theirs = ask(sql)
            assert isinstance(ours, int) and ours == theirs, sql
        for sql in REFUSED:
            ours, theirs = ask(sql)
            assert isinstance(ours, int) and not isinstance(theirs, int), sql
        settings.values.clear()
        for mode, sql in IN_MODES:
            cursor.execute("SET SESSION sql_mode = %s", mode)
            settings.values["sql_mode"] = mode
            ours, theirs = ask(sql)
            if ours != theirs or isinstance(ours, int):
                different[sql, mode] = ours, theirs
        ours, theirs = ask("SELECT table_name || 'x' FROM information_schema.tables WHERE table_schema = 'shop'")
        assert isinstance(ours, int) and not isinstance(theirs, int)
    for question, found in different.items():
        print(*question, *found, sep="\n   ")
    assert not different


def _plain(answered: Any) -> Any:
    """Return names and values alone: a server has types of its own for what is computed."""
    if isinstance(answered, int):
        return answered
    head, rows = answered
    return [name for name, _ in head], [tuple(None if v is None else str(v) for v in row) for row in rows]
