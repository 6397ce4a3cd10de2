"""Real MariaDB servers for tests: a private mariadbd per directory. The programs come from `tools/get-mariadb.sh`."""

import atexit
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

ROOT = Path(__file__).resolve().parent.parent
PREFIX = Path(os.environ.get("BINLOG_MERGE_MARIADB", ROOT / "build" / "mariadb"))
MARIADB_MISSING = f"no MariaDB under {PREFIX}; run tools/get-mariadb.sh, or set BINLOG_MERGE_MARIADB to its prefix"

_SYSTEM_TABLES = (
    "{}_system_tables.sql",
    "{}_performance_tables.sql",
    "{}_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
)
"""In the folder `mysql`, since 11 in `mariadb`; they are named like the folder."""
_SMALL = (
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=4M",
    "--innodb-use-native-aio=OFF",
    "--innodb-doublewrite=OFF",
    "--innodb-flush-log-at-trx-commit=0",
    "--performance-schema=OFF",
    "--skip-name-resolve",
    "--max-allowed-packet=64M",
)


def mariadb_available() -> bool:
    """Tell whether a real mariadbd can be started here."""
    return (PREFIX / "bin" / "mariadbd").exists()


def _share() -> Path:
    share = PREFIX / "root" / "usr" / "share"
    return share / "mariadb" if (share / "mariadb" / "mariadb_system_tables.sql").exists() else share / "mysql"


class MariaDbServer:
    """A mariadbd with its data under `path`, reached over its unix socket; a context manager."""

    def __init__(self, path: Path, server_id: int, options: Sequence[str] = ()) -> None:
        self.path = path.resolve()
        self.server_id = server_id
        self.options = tuple(options)
        self.data = self.path / "data"
        self._sockets: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "MariaDbServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """The server's error log: what its replica threads complain of is only there."""
        return (self.path / "error.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the server and wait until it answers; its data directory is made if it is not there."""
        if not self.data.exists():
            self._initialize()
        self._sockets = self._sockets or tempfile.TemporaryDirectory(prefix="bm-")
        command = [
            *self._command(),
            *_SMALL,
            f"--socket={self._sockets.name}/s",
            f"--pid-file={self.path / 'pid'}",
            f"--log-error={self.path / 'error.log'}",
            f"--server-id={self.server_id}",
            "--skip-networking",
            *self.options,
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        atexit.register(self.stop)
        deadline = time.monotonic() + 120
        while True:
            try:
                self.connect().close()
                return
            except pymysql.err.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"mariadbd in {self.path} does not come up:\n{self.log[-3000:]}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server; the data stays. Safe to call twice."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def connect(self) -> "pymysql.Connection[Any]":
        """Return a session of root in autocommit mode; the caller closes it."""
        assert self._sockets is not None
        return pymysql.connect(
            unix_socket=f"{self._sockets.name}/s", user="root", charset="utf8mb4", autocommit=True, ssl_disabled=True
        )

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement in a session of its own and return its rows."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()]
        finally:
            connection.close()

    def row(self, sql: str) -> dict[str, Any]:
        """Run one statement and return its first row by the columns' names."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                row = cursor.fetchone() or ()
                return dict(zip([column[0] for column in cursor.description or ()], row, strict=False))
        finally:
            connection.close()

    def _initialize(self) -> None:
        (self.data / "mysql").mkdir(parents=True)
        sql = b"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n"
        sql += b"SET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n"
        found = [_share() / name.format(_share().name) for name in _SYSTEM_TABLES]
        sql += b"\n".join(path.read_bytes() for path in found if path.exists())
        command = [*self._command(), "--bootstrap", "--skip-log-bin", "--innodb-log-file-size=4M"]
        made = subprocess.run(command, input=sql, capture_output=True, check=False)
        if made.returncode:
            raise RuntimeError(f"mariadbd --bootstrap fails:\n{made.stderr.decode(errors='replace')[-3000:]}")

    def _command(self) -> list[str]:
        base = PREFIX / "root" / "usr"
        return [
            str(PREFIX / "bin" / "mariadbd"),
            "--no-defaults",
            *(["--user=root"] if os.geteuid() == 0 else []),
            f"--basedir={base}",
            f"--lc-messages-dir={_share()}",
            f"--character-sets-dir={_share() / 'charsets'}",
            f"--plugin-dir={base / 'lib/mysql/plugin'}",
            f"--datadir={self.data}",
            f"--tmpdir={self.path}",
        ]
