"""The readers of other makers that live beside each other, by name and version."""

import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from tests.clients.conftest import CLIENTS
from tests.clients.life.readers import (
    Connect,
    Kind,
    MariaDbReplica,
    Maxwell,
    Reader,
    Replica,
    debezium,
    flink,
    go_mysql,
    java,
    mysql_replication,
    rust,
)
from tests.clients.life.sides import Side
from tests.mariadb_server import PREFIX as MARIADB
from tests.mariadb_server import MariaDbServer
from tests.mysql_server import MySqlServer, mysql_version


def _mysql(number: int, workers: int, where: str) -> Any:
    def make(kind: Kind, side: Side, home: Path) -> Reader:
        options = [f"--replica-parallel-workers={workers}", "--replica-net-timeout=10"]
        return Replica(kind, side, home, MySqlServer(home / "server", 400 + number, options), where)

    return make


def _mariadb(kind: Kind, side: Side, home: Path) -> Reader:
    options = ("--character-set-server=utf8mb4", "--collation-server=utf8mb4_uca1400_nopad_ai_ci", "--sql-mode=")
    return MariaDbReplica(kind, side, home, MariaDbServer(home / "server", 450, options), "")


BEGIN = {"file": "binlog.000001", "position": 4}
_MAXWELL: Final = (
    (Kind("Maxwell, by GTID", "1.44.1", Maxwell, snapshot=True),) if (CLIENTS / "maxwell").is_dir() else ()
)
"""It is made of a checkout: not everybody has one."""
KINDS: Final = (
    Kind("Debezium, engine", "3.6.3.Final", debezium, snapshot=True),
    Kind("Debezium in Kafka Connect 4.3.1, into Kafka 4.3.1", "3.6.1.Final", Connect, snapshot=True),
    Kind("Flink CDC, with Flink 1.20.5", "3.5.0", flink, snapshot=True, older=True),
    Kind("canal, parser", "1.1.7", java("CanalParser", "canal", BEGIN), by_position=True, older=True),
    *_MAXWELL,
    Kind("go-mysql, replication by GTID", "1.13.0", go_mysql("syncer-gtid")),
    Kind("go-mysql, replication by position", "1.13.0", go_mysql("syncer-position"), by_position=True),
    Kind("go-mysql, canal", "1.13.0", go_mysql("canal"), snapshot=True),
    Kind("mysql-binlog-connector-java (osheroff)", "0.30.1", java("Osheroff", "osheroff", {})),
    Kind("mysql-replication", version("mysql-replication"), mysql_replication),
    Kind("mysql_async (Rust)", "0.37.1", rust),
    Kind("MySQL replica, GTID, 4 workers", "", _mysql(1, 4, "SOURCE_AUTO_POSITION=1")),
    Kind(
        "MySQL replica, file and position", "", _mysql(2, 1, "SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4"),
        by_position=True,
    ),
    Kind("MariaDB replica", "", _mariadb, by_position=True),
)  # fmt: skip


def version_of(kind: Kind) -> str:
    """Return a reader's version; servers tell theirs."""
    if kind.version:
        return kind.version
    if not kind.name.startswith("MariaDB"):
        return mysql_version().partition("-")[0]
    answer = subprocess.run([MARIADB / "bin" / "mariadbd", "--version"], capture_output=True, check=True, text=True)
    return answer.stdout.split(" Ver ")[1].split("-")[0]
