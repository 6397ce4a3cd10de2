"""Real MySQL servers for tests, fixtures and demos: a private mysqld per directory, reached over its unix socket only.

Knows how to start a small mysqld fast (a template data directory is initialised once and copied), and nothing of
binlogs. The programs come from `tools/get-mysql.sh`; `mysql_available()` tells whether they are there. Measured with
9.7 and these options: 0.8 s to start, 125 MiB of memory, 76 MB of disk.
"""

import atexit
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pymysql
from pymysql.constants import CLIENT

ROOT = Path(__file__).resolve().parent.parent
PREFIX = Path(os.environ.get("BINLOG_MERGE_MYSQL", ROOT / "build" / "mysql"))
TEMPLATE = PREFIX.parent / "mysql-template"

MYSQL_MISSING = f"no MySQL under {PREFIX}; run tools/get-mysql.sh, or set BINLOG_MERGE_MYSQL to its prefix"

# What decides the layout of the data directory must be the same when it is initialised and when it is used.
_LAYOUT = (
    "--innodb-buffer-pool-size=16M",
    "--innodb-redo-log-capacity=8M",
    "--innodb-autoextend-increment=1",
    "--innodb-data-file-path=ibdata1:5M:autoextend",
    "--innodb-doublewrite=OFF",
    "--innodb-use-native-aio=OFF",
    "--innodb-flush-log-at-trx-commit=0",
)
_SMALL = (
    # Debian's built-in default names a directory that does not exist, and mysqld then refuses to start.
    "--secure-file-priv=",
    "--performance-schema=OFF",
    "--mysqlx=OFF",
    "--skip-name-resolve",
    "--default-time-zone=+00:00",
    "--max-connections=40",
    "--innodb-lock-wait-timeout=5",
    "--max-allowed-packet=256M",
    "--sync-binlog=0",
    "--table-open-cache=64",
    "--innodb-io-capacity=2000",
    "--innodb-read-io-threads=1",
    "--innodb-write-io-threads=1",
    "--innodb-purge-threads=1",
    "--innodb-temp-data-file-path=ibtmp1:12M:autoextend",
)
_BINLOG = (
    "--log-bin=binlog",
    "--binlog-row-metadata=FULL",
    "--binlog-rows-query-log-events=ON",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
)


def mysql_available() -> bool:
    """Tell whether a real mysqld can be started here."""
    return (PREFIX / "bin" / "mysqld").exists()


def mysql_version() -> str:
    """Return the server's version as it prints it, for instance 9.7.4-2."""
    answer = subprocess.run([_program("mysqld"), "--no-defaults", "--version"], capture_output=True, check=True)
    return answer.stdout.decode().split(" Ver ")[1].split()[0]


def mysqlbinlog(files: Sequence[Path], *options: str) -> bytes:
    """Return what mysqlbinlog prints of `files`; raises RuntimeError with its complaint when it finds a fault."""
    command = [_program("mysqlbinlog"), "--no-defaults", _charsets(), *options, *(str(file) for file in files)]
    answer = subprocess.run(command, capture_output=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"mysqlbinlog {[str(file) for file in files]}: {answer.stderr.decode(errors='replace')}")
    return answer.stdout


class MySqlServer:
    """One mysqld with its data under `path`; a context manager, stopped at the latest when the interpreter ends.

    `options` come last on its command line, so they override everything given here. With `binlog` the server writes
    binlog.000001… with GTIDs, full row metadata and rows-query events. Listens on TCP (127.0.0.1) only if `port` is
    given. start() and stop() are for one thread; a session of `connect()` belongs to whoever opened it.
    """

    def __init__(
        self, path: Path, server_id: int, options: Sequence[str] = (), binlog: bool = True, port: int | None = None
    ) -> None:
        self.path = path.resolve()  # a relative one would be relative to the data directory
        self.server_id = server_id
        self.options = tuple(options)
        self.binlog = binlog
        self.port = port
        self.data = self.path / "data"
        self._socket_directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "MySqlServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def socket(self) -> str:
        """The unix socket; short, since the kernel allows 107 bytes and test directories run longer."""
        if self._socket_directory is None:
            raise RuntimeError(f"the server in {self.path} is not started; call start()")
        return str(self._socket_directory / "s")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *extra: str, timeout: float = 300.0) -> None:
        """Start mysqld and wait until it answers; a data directory that is already there is used as it stands."""
        if self.running:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.data.exists():
            _copy_template(self.data, [o for o in self.options if o.startswith("--lower-case-table-names")])
        if self._socket_directory is None:
            self._socket_directory = Path(tempfile.mkdtemp(prefix="bm-"))
        network = [f"--port={self.port}", "--bind-address=127.0.0.1"] if self.port else ["--skip-networking"]
        command = [
            *mysqld_command(self.data),
            f"--socket={self.socket}",
            f"--pid-file={self.path / 'pid'}",
            f"--log-error={self.path / 'error.log'}",
            f"--server-id={self.server_id}",
            *_LAYOUT,
            *_SMALL,
            *network,
            *(_BINLOG if self.binlog else ("--skip-log-bin",)),
            *self.options,
            *extra,
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        atexit.register(self.stop)
        self._wait_until_up(timeout)

    def stop(self) -> None:
        """Stop mysqld; the data stays, so start() goes on where it was. Safe to call twice."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._socket_directory is not None:
            shutil.rmtree(self._socket_directory, ignore_errors=True)
            self._socket_directory = None

    def restart(self, *extra: str) -> None:
        self.stop()
        self.start(*extra)

    def connect(self, database: str | None = None) -> "pymysql.Connection[Any]":
        """Return a session of root, in autocommit mode, that takes several statements at once; the caller closes it."""
        return pymysql.connect(
            unix_socket=self.socket,
            user="root",
            password="",
            database=database,
            charset="utf8mb4",
            autocommit=True,
            max_allowed_packet=256 << 20,
            ssl_disabled=True,  # the socket is ours alone, and setting up TLS is most of what a session costs
            client_flag=CLIENT.MULTI_STATEMENTS,
        )

    def query(self, sql: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in a session of its own and return its rows."""
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()]
        finally:
            connection.close()

    def execute(self, sql: str, database: str | None = None) -> None:
        """Run one statement, or several with ';' between them, in a session of their own."""
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                while cursor.nextset():
                    pass
        finally:
            connection.close()

    def apply(self, sql: bytes, *options: str) -> bytes:
        """Feed `sql` (mysqlbinlog's output, a dump) to the mysql client; raises RuntimeError at the first error.

        Returns what it prints.
        """
        client = [_program("mysql"), "--no-defaults", _charsets(), "--user=root", f"--socket={self.socket}"]
        command = [*client, "--binary-mode", "--max-allowed-packet=1G", *options]
        answer = subprocess.run(command, input=sql, capture_output=True, check=False)
        if answer.returncode:
            raise RuntimeError(f"mysql on {self.path}: {answer.stderr.decode(errors='replace')}")
        return answer.stdout

    def dump_schema(self, *databases: str) -> str:
        """Return the CREATE statements of `databases` as mysqldump writes them, without dates and versions."""
        command = [_program("mysqldump"), "--no-defaults", _charsets(), "--user=root", f"--socket={self.socket}"]
        command += ["--no-data", "--skip-comments", "--set-gtid-purged=OFF", "--no-tablespaces", "--skip-triggers"]
        # Its LOCK TABLES would wait for ever on a table that a prepared XA branch has written.
        command += ["--skip-lock-tables"]
        answer = subprocess.run([*command, "--databases", *databases], capture_output=True, check=False)
        if answer.returncode:
            raise RuntimeError(f"mysqldump on {self.path}: {answer.stderr.decode(errors='replace')}")
        return answer.stdout.decode()

    def binlog_files(self) -> list[Path]:
        """Return the binlog files in order, the one being written included."""
        index = self.data / "binlog.index"
        return [self.data / Path(line).name for line in index.read_text().split()]

    def prepared_branches(self) -> list[str]:
        """Return the XIDs of prepared XA branches, in the text form that XA COMMIT takes and the binlog shows."""
        branches = []
        for format_id, gtrid_length, bqual_length, data in self.query("XA RECOVER CONVERT XID"):
            raw = bytes.fromhex(str(data)[2:])
            gtrid, bqual = raw[:gtrid_length], raw[gtrid_length : gtrid_length + bqual_length]
            branches.append(f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}")
        return sorted(branches)

    def drop_databases(self) -> None:
        """Leave the server as if new: no prepared XA branch, no database but the system's, whatever ties them."""
        for xid in self.prepared_branches():
            self.execute(f"XA ROLLBACK {xid}")
        for (name,) in self.query("SHOW DATABASES"):
            if name not in ("mysql", "sys", "information_schema", "performance_schema"):
                quoted = str(name).replace("`", "``")
                self.execute(f"SET foreign_key_checks = 0; DROP DATABASE `{quoted}`")

    def _wait_until_up(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.connect().close()
                return
            except pymysql.err.OperationalError:
                if not self.running or time.monotonic() > deadline:
                    self.stop()
                    log = (self.path / "error.log").read_text(errors="replace")
                    raise RuntimeError(f"mysqld in {self.path} does not come up:\n{log[-3000:]}") from None
                time.sleep(0.05)


def _program(name: str) -> str:
    return str(PREFIX / "bin" / name)


def _charsets() -> str:
    return f"--character-sets-dir={PREFIX / 'root/usr/share/mysql/charsets'}"


def mysqld_command(data: Path) -> list[str]:
    """Return the beginning of mysqld's command line, with MySQL's own defaults."""
    base = PREFIX / "root" / "usr"
    return [
        _program("mysqld"),
        "--no-defaults",
        *(["--user=root"] if os.geteuid() == 0 else []),
        f"--basedir={base}",
        f"--lc-messages-dir={base / 'share/mysql'}",
        _charsets(),
        f"--plugin-dir={base / 'lib/mysql/plugin'}",
        f"--datadir={data}",
    ]


def _copy_template(data: Path, options: Sequence[str] = ()) -> None:
    """Copy a freshly initialised data directory; it is made once per server version and `options`, under a lock."""
    template = TEMPLATE / "".join([mysql_version(), *options])
    TEMPLATE.mkdir(parents=True, exist_ok=True)
    with (TEMPLATE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            unfinished = template.with_name(template.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            log = TEMPLATE / "initialize.log"
            command = [
                *mysqld_command(unfinished),
                *_LAYOUT,
                *options,
                "--skip-log-bin",
                "--initialize-insecure",
                f"--log-error={log}",
            ]
            if subprocess.run(command, check=False).returncode:
                raise RuntimeError(f"mysqld --initialize fails:\n{log.read_text(errors='replace')}")
            # Each copy must get a server uuid of its own.
            (unfinished / "auto.cnf").unlink(missing_ok=True)
            unfinished.rename(template)
    shutil.copytree(template, data)
