"""A server's own binlog in the guise of a merged one: what one session did, DDL and all, for targets of a replay."""

from pathlib import Path

from binlog_merge.binlog.events import Gtid, parse_event, walk
from binlog_merge.files.manifest import Header, Manifest, OutputFile, Publish
from binlog_merge.log.log import Log
from tests.mysql_server import MySqlServer

_KEY = "0" * 54


def run_statements(server: MySqlServer, text: str, schema: str) -> None:
    """Carry out statements, each in a session of its own, as the whole binlog of the server."""
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute(f"CREATE DATABASE {schema}")
    for statement in text.split(";\n"):
        if statement.strip():
            server.execute(statement, schema)


def run_session(server: MySqlServer, text: str, schema: str) -> None:
    """Carry out statements in one session, as the whole binlog of the server."""
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute(f"CREATE DATABASE {schema}")
    connection = server.connect(schema)
    try:
        with connection.cursor() as cursor:
            for statement in filter(str.strip, text.split(";\n")):
                cursor.execute(statement)
    finally:
        connection.close()


def as_merged(server: MySqlServer, folder: Path) -> Log:
    """Return the server's binlog, which has one file and GTIDs from 1 on, as a merged binlog under `folder`."""
    folder.mkdir()
    (file,) = server.binlog_files()
    data = file.read_bytes()
    last = 0
    for event in walk(data):
        value = parse_event(event)
        if isinstance(value, Gtid):
            last = value.gno or 0
    (folder / file.name).write_bytes(data)
    uuid = str(server.query("SELECT @@server_uuid")[0][0])
    published = OutputFile(file.name, len(data), False, _KEY, _KEY, 1, last, len(data), last, last)
    manifest = Manifest.load(folder)
    manifest.append(Header(uuid, "one", {"n": 1}, "9.7.0", "", {}))
    manifest.append(Publish(1, (published,), _KEY, None, last, {}, {}))
    return Log(folder)
