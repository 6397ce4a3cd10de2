"""mysqldump and mydumper take the tables from `serve --tables`; what they took is loaded, and follows as a replica."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.binlog_server.running import PASSWORD, USER, Running, serving
from tests.binlog_server.test_replica import _caught_up, _replica, _status
from tests.binlog_server.test_tables import config_of, packets_of, server
from tests.clients.conftest import client
from tests.mysql_server import PREFIX, ROOT, MySqlServer
from tests.patience import ended

__all__ = ["server"]

pytestmark = pytest.mark.mysql
NUMBERS = count(1)
SIMPLE = ("comp", "nokey", "nothing", "more")
"""Tables that mydumper takes whole: it leaves out columns with computed defaults, and sends JSON as binary strings."""
TABLES = ("alltypes", *SIMPLE)


def changed(server: MySqlServer, number: int) -> None:
    """Change rows of each kind, and a table."""
    statements = (
        "CREATE TABLE IF NOT EXISTS more (id INT PRIMARY KEY, t TEXT)",
        f"INSERT INTO more (id, t) VALUES ({number}, 'x')",
        "UPDATE comp SET d = d + 1",
        f"DELETE FROM comp WHERE a = {number}",
        f"INSERT INTO comp VALUES ({100 + number}, 'n{number}', NOW(), 5)",
        f"ALTER TABLE more ADD COLUMN c{number} INT NOT NULL DEFAULT {number}",
        f"INSERT INTO alltypes (d) VALUES ({number})",
        f"DELETE FROM nokey WHERE y = {number}",
    )
    server.execute("; ".join(statements), "shop")


def rows_of(server: MySqlServer, tables: Sequence[str] = TABLES) -> dict[str, Any]:
    """Return the definition and the rows of each table."""
    with contextlib.closing(server.connect("shop")) as connection:
        found = {}
        for table in tables:
            with connection.cursor() as cursor:
                cursor.execute(f"SHOW CREATE TABLE {table}")
                create = re.sub(r" AUTO_INCREMENT=\d+", "", cursor.fetchall()[0][1])
            found[table] = create, sorted(packets_of(connection, f"SELECT * FROM {table}")[1])
        return found


@pytest.fixture
def growing(server: MySqlServer, tmp_path: Path) -> Iterator[tuple[Running, Any, Path]]:
    """A server of the log with its tables, and a function that changes rows and publishes them."""
    config, out = config_of(server, tmp_path), tmp_path / "out"

    def publish() -> None:
        changed(server, next(NUMBERS))
        # In a process of its own, as DuckDB would not let one process read and write the schema store.
        code = "import sys, pathlib; from tests.merge_e2e.local import merge; merge(*map(pathlib.Path, sys.argv[1:]))"
        subprocess.run([sys.executable, "-c", code, str(config), str(out)], check=True, cwd=ROOT, timeout=120)

    server.execute("DROP TABLE IF EXISTS more", "shop")
    publish()
    with serving(out, tmp_path / "shop.db") as running:
        yield running, publish, out


@pytest.mark.extended  # binlog_server/test_docs dumps rows with mysqldump, test_replica follows
def test_a_dump_of_mysqldump_follows_as_a_replica(growing: Any, server: MySqlServer, mysql_server: MySqlServer) -> None:
    running, publish, out = growing
    dump = [str(PREFIX / "bin" / "mysqldump"), "--no-defaults", "-h127.0.0.1", f"-P{running.port}", f"-u{USER}"]
    dump += [f"-p{PASSWORD}", "--single-transaction", "--source-data=2", "--set-gtid-purged=ON", "--all-databases"]
    done = subprocess.run(dump, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    publish()
    publish()
    mysql_server.apply(done.stdout)
    with _replica(mysql_server, running, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"):
        _caught_up(mysql_server, out)
        assert rows_of(mysql_server) == rows_of(server)


def _up_to_the_end(target: MySqlServer, source: Running) -> None:
    """Wait until a replica without auto-position has applied what is published."""
    ((file, position, *_),) = source.query("SHOW BINARY LOG STATUS")
    ((waited,),) = target.query(f"SELECT SOURCE_POS_WAIT('{file}', {position}, 60)")
    assert waited is not None and waited >= 0, _status(target)["Last_SQL_Error"]


@pytest.mark.clients
def test_a_dump_of_mydumper_follows_as_a_replica(growing: Any, server: MySqlServer, tmp_path: Path) -> None:
    """Several connections see one view, while more is published; the position is in its `metadata`."""
    running, publish, _ = growing
    address = ["--host=127.0.0.1", f"--user={USER}", f"--password={PASSWORD}", f"--port={running.port}"]
    dump = [client("debian", "bin", "mydumper"), *address, "-t", "3", "-x", f"^shop\\.({'|'.join(SIMPLE)})$"]
    dump += ["-B", "shop", "-o", str(tmp_path / "dump"), "-v", "3"]
    with subprocess.Popen(dump, stderr=subprocess.PIPE) as process:
        publish()
        _, errors = ended(process, 120)
    assert process.returncode == 0, errors.decode()
    metadata = (tmp_path / "dump" / "metadata").read_text()
    ((file, position),) = re.findall(r"SHOW MASTER STATUS:\n\tLog: (\S+)\n\tPos: (\d+)", metadata)
    publish()
    with MySqlServer(tmp_path / "target", server_id=105) as target:
        for path in sorted((tmp_path / "dump").glob("*-schema-create.sql")):
            target.apply(path.read_bytes())
        for path in sorted((tmp_path / "dump").glob("shop.*.sql"), key=lambda p: "-schema" not in p.name):
            target.apply(b"SET sql_mode = ''; USE shop;\n" + path.read_bytes())
        target.execute("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (shop.alltypes)")
        place = f"SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS={position}, SOURCE_SSL=0"
        with _replica(target, running, place):
            _up_to_the_end(target, running)
            assert rows_of(target, SIMPLE) == rows_of(server, SIMPLE)
