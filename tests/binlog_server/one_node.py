"""A merged log of one server's binlogs, and a user by whom that server can be asked the same as the log."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.binlog_server.running import PASSWORD, USER
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import ALONE


@contextlib.contextmanager
def known_to(server: MySqlServer) -> Iterator[None]:
    """Let a server know the user of `serving` for as long as the context lasts."""
    server.execute(
        f"CREATE USER {USER}@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}';"
        f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {USER}@'%'"
    )
    try:
        yield
    finally:
        server.execute(f"DROP USER {USER}@'%'")


def merged_from(server: MySqlServer, folder: Path) -> Path:
    """Merge all that a server has written; return the output."""
    server.execute("FLUSH BINARY LOGS")
    node = {"source-id": "dn-1", "files": [f"{server.data}/binlog.*"]}
    (folder / "cluster.yaml").write_text(yaml.safe_dump({"version": 1, "name": "one", "nodes": [node], **ALONE}))
    merge(folder / "cluster.yaml", folder / "out")
    return folder / "out"
