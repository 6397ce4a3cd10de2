"""Write `binlog_merge/binlog_server/mysql_9_7/` from a real server: `.venv/bin/python -m tools.server_facts`.

Starts the MySQL under build/mysql with its own defaults, and asks it for what every server of its version has:
variables, status, the tables of information_schema, performance_schema and mysql, and the rows of those that are the
same on each server.
What is of the machine or the moment is replaced. The files are JSON, a row a line:

    variables.jsonl   name, where it can be asked ("global", "session", "both"), type of the wire, value in SELECT and
                      in SHOW, the error of SET SESSION (0: none)
    status.jsonl      name, whether it is in SHOW GLOBAL STATUS, value
    relations.jsonl   each table of these schemas: its row of information_schema.TABLES; behind it its columns: type
                      of the wire (or two: without and with a temporary table), and the row of
                      information_schema.COLUMNS from the name on
    rows.jsonl        a table of information_schema, and one of its rows
    shows.jsonl       a SHOW, its columns (name, type of the wire), its rows
"""

import json
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pymysql

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "binlog_merge" / "binlog_server" / "mysql_9_7"
SYSTEM: Final = ("information_schema", "mysql", "performance_schema")
OF_MYSQL: Final = (
    *("columns_priv", "func", "help_category", "help_keyword", "help_relation", "help_topic", "plugin", "procs_priv"),
    *("proxies_priv", "servers", "tables_priv", "time_zone", "time_zone_leap_second", "time_zone_name"),
    *("time_zone_transition", "time_zone_transition_type"),
)
"""Tables of mysql that clients ask, and that are empty where nothing is granted and nothing loaded."""
CONSTANT_TABLES: Final = (
    *("CHARACTER_SETS", "COLLATIONS", "COLLATION_CHARACTER_SET_APPLICABILITY", "ENGINES", "INNODB_FT_DEFAULT_STOPWORD"),
    *("KEYWORDS", "PLUGINS", "ST_UNITS_OF_MEASURE"),
)
CONSTANT_SHOWS: Final = ("COLLATION", "CHARACTER SET", "ENGINES", "PLUGINS", "PRIVILEGES")
EMPTY_SHOWS: Final = (
    *("OPEN TABLES", "PROFILES", "TRIGGERS FROM mysql", "EVENTS FROM mysql", "LIBRARY STATUS", "REPLICA STATUS"),
    *("PROCEDURE STATUS WHERE 0", "FUNCTION STATUS WHERE 0", "TABLE STATUS FROM mysql LIKE 'user'"),
)
OF_THE_MACHINE: Final[dict[str, Any]] = {
    "basedir": "/usr/",
    "bind_address": "*",
    "character_sets_dir": "/usr/share/mysql/charsets/",
    "datadir": "/var/lib/mysql/",
    "general_log_file": "/var/lib/mysql/localhost.log",
    "hostname": "localhost",
    "lc_messages_dir": "/usr/share/mysql/",
    "log_bin_basename": "/var/lib/mysql/binlog",
    "log_bin_index": "/var/lib/mysql/binlog.index",
    "log_error": "stderr",
    "pid_file": "/var/run/mysqld/mysqld.pid",
    "plugin_dir": "/usr/lib/mysql/plugin/",
    "port": 3306,
    "pseudo_thread_id": 0,
    "rand_seed1": 0,
    "rand_seed2": 0,
    "relay_log": "localhost-relay-bin",
    "relay_log_basename": "/var/lib/mysql/localhost-relay-bin",
    "relay_log_index": "/var/lib/mysql/localhost-relay-bin.index",
    "report_port": 3306,
    "secure_file_priv": None,
    "server_uuid": "",
    "slow_query_log_file": "/var/lib/mysql/localhost-slow.log",
    "socket": "",
    "statement_id": 0,
    "timestamp": 0,
}
"""What a server takes from its machine or the moment, and what is written instead, as SELECT shows it."""
_OF_THE_MOMENT: Final = ("rsa_public_key", "_load_status", "_time", "_not_after", "_not_before")


def written(rows: Iterable[Any]) -> str:
    """Return the text of a file."""
    return "".join(json.dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in rows)


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks: a decimal as its text, any other as text, too."""
    return str(value) if isinstance(value, Decimal) or not isinstance(value, bytes) else value.decode()


class Asked:
    """A session of a server, and what it is asked for."""

    def __init__(self, connection: "pymysql.Connection[Any]") -> None:
        self._cursor = connection.cursor()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(sql)
        return [tuple(row) for row in self._cursor.fetchall()]

    def head(self, sql: str) -> list[tuple[str, int]]:
        """Return names and types of a statement's columns."""
        self._cursor.execute(sql)
        return [(item[0], item[1]) for item in self._cursor.description or ()]

    def error(self, sql: str) -> int:
        """Return the number of the error with which a statement is refused, 0 for none."""
        try:
            self._cursor.execute(sql)
        except pymysql.MySQLError as error:
            return int(error.args[0])
        return 0

    def variables(self) -> Iterator[list[Any]]:
        """Yield the rows of variables.jsonl."""
        shown = dict([*self.rows("SHOW SESSION VARIABLES"), *self.rows("SHOW GLOBAL VARIABLES")])
        for name in sorted(shown):
            everywhere = [scope for scope in ("global", "session") if not self.error(f"SELECT @@{scope}.{name}")]
            scope = "both" if len(everywhere) == 2 else everywhere[0]
            of = "session" if scope == "session" else "global"  # a session begins with what is global
            ((_, kind),) = self.head(f"SELECT @@{of}.{name}")
            ((value,),) = self.rows(f"SELECT @@{of}.{name}")
            value = f"{value:.15g}" if isinstance(value, float) else value
            show = shown[name]
            if name in OF_THE_MACHINE:
                value = OF_THE_MACHINE[name]
                show = "" if value is None else str(value)
            refused = self.error(f"SET SESSION {name} = @@{name}")
            yield [name, scope, kind, value, show, refused]

    def status(self) -> Iterator[list[Any]]:
        """Yield the rows of status.jsonl; numbers are 0."""
        everywhere = {name for name, _ in self.rows("SHOW GLOBAL STATUS")}
        for name, value in self.rows("SHOW SESSION STATUS"):
            number = value.replace(".", "", 1).replace("-", "", 1).isdigit()
            zero = "0.000000" if "." in value else "0"
            kept = value if name == "Innodb_page_size" else zero
            text = "" if name.lower().endswith(_OF_THE_MOMENT) else value
            yield [name, name in everywhere, kept if number else text]

    def relations(self) -> Iterator[Sequence[Any]]:
        """Yield the rows of relations.jsonl, without sizes and times."""
        columns: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        for row in self.rows(
            f"SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN {SYSTEM} ORDER BY ORDINAL_POSITION"
        ):
            columns.setdefault((row[1], row[2]), []).append(row[3:])
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, VERSION, ROW_FORMAT, TABLE_COLLATION, "
            f"CREATE_OPTIONS, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA IN {SYSTEM} ORDER BY 1, 2"
        ):
            if row[0] == "mysql" and row[1] not in OF_MYSQL:
                continue
            yield row
            kinds, kept = (
                dict(self.head(f"SELECT {how} * FROM `{row[0]}`.`{row[1]}` LIMIT 1"))
                for how in ("", "SQL_BUFFER_RESULT")
            )
            for name, *rest in columns[row[0], row[1]]:
                yield [kinds[name] if kinds[name] == kept[name] else [kinds[name], kept[name]], name, *rest]

    def constant(self) -> Iterator[list[Any]]:
        """Yield the rows of rows.jsonl."""
        for table in CONSTANT_TABLES:
            for row in self.rows(f"SELECT * FROM information_schema.`{table}`"):
                yield [table, row]

    def shows(self) -> Iterator[list[Any]]:
        """Yield the rows of shows.jsonl."""
        for what in CONSTANT_SHOWS:
            yield [what, self.head(f"SHOW {what}"), self.rows(f"SHOW {what}")]
        for what in EMPTY_SHOWS:
            yield [re.split(" FROM | WHERE | LIKE ", what)[0], self.head(f"SHOW {what}"), []]


def files_of(asked: Asked) -> dict[str, str]:
    """Return all files by name."""
    return {
        "variables": written(asked.variables()),
        "status": written(asked.status()),
        "relations": written(asked.relations()),
        "rows": written(asked.constant()),
        "shows": written(asked.shows()),
    }


@contextmanager
def plain_server(folder: Path) -> Iterator["pymysql.Connection[Any]"]:
    """Yield a session of a server with MySQL's own defaults, but for what is never served: X Protocol, statistics."""
    from tools.mysql_server import mysqld_command

    command = [*mysqld_command(folder / "data"), "--secure-file-priv=", "--mysqlx=OFF"]
    subprocess.run([*command, "--initialize-insecure", f"--log-error={folder / 'made.log'}"], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command += [f"--socket={folder / 's'}", f"--pid-file={folder / 'pid'}", f"--log-error={folder / 'log'}"]
    command += [f"--port={port}", "--bind-address=127.0.0.1", "--performance-schema=OFF", "--default-time-zone=+00:00"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield _connected(process, folder / "s")
    finally:
        process.terminate()
        process.wait(60)


def _connected(process: "subprocess.Popen[bytes]", place: Path) -> "pymysql.Connection[Any]":
    while process.poll() is None:
        try:
            return pymysql.connect(unix_socket=str(place), user="root", charset="utf8mb4", autocommit=True)
        except pymysql.err.OperationalError:
            time.sleep(0.1)
    raise RuntimeError(f"mysqld ended with {process.returncode}: {place.with_name('log').read_text()[-3000:]}")


def main() -> None:
    """Start a server, ask it, write the files."""
    with tempfile.TemporaryDirectory() as folder, plain_server(Path(folder)) as connection:
        for name, text in files_of(Asked(connection)).items():
            (FOLDER / f"{name}.jsonl").write_text(text)
            print(f"{name}.jsonl: {text.count(chr(10))} rows, {len(text) >> 10} KiB")


if __name__ == "__main__":
    main()
