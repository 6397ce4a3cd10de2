"""Readers of other makers in one life: programs that write down each change that they are told of, and replicas.

A reader can be killed and started again at any moment; it goes on from where it was, by its own means or from the place
that its last line has.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pymysql
from pymysql.cursors import DictCursor

from binlog_merge.binlog.gtid_set import GtidSet
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.broker import Broker, Topic
from tests.clients.conftest import client
from tests.clients.life.sides import PROGRAM, Shards, Side
from tests.clients.life.story import FIRST_ROWS, SHARDS
from tests.mysql_server import PREFIX, MySqlServer
from tools.demo_live.cluster import free_ports

_HERE: Final = Path(__file__).resolve().parent
_CLIENTS: Final = _HERE.parent
_JAVA: Final = ("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OF_PYTHON_S_JVM: Final = "-Xmx384m -XX:TieredStopAtLevel=1"
"""What the command line of another JVM does not say."""
Image = Mapping[str, Any] | None


@dataclass(frozen=True)
class Change:
    """A row's change, as a reader tells it; `op` is c, u, d, or r for a row of a snapshot."""

    op: str
    table: str
    before: Image
    after: Image

    @property
    def id(self) -> int:
        image = self.after if self.before is None else self.before
        assert image is not None
        return int(image["id"])


@dataclass(frozen=True)
class Kind:
    """A reader by name and version; `snapshot`: it reads the rows first, else the log from its beginning on."""

    name: str
    version: str
    make: Callable[["Kind", Side, Path], "Reader"]
    snapshot: bool = False
    by_position: bool = False
    older: bool = False
    """It knows older servers only; the control is as one."""


class Reader:
    """What all have: it is started and killed, and tells the marks that have reached it."""

    def __init__(self, kind: Kind, side: Side, home: Path) -> None:
        self.kind = kind
        self.side = side
        self.home = home
        self.second = False
        home.mkdir(parents=True)

    @property
    def port(self) -> int:
        """Return the port of the server that it reads: of the second one, after it has taken over."""
        ports = self.side.older if self.kind.older else self.side.ports
        stays = self.kind.by_position and not self.side.same_positions
        return ports[self.second and not stays]

    def start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Kill it for good, with all that was started for it."""
        self.kill()

    def running(self) -> bool:
        raise NotImplementedError

    def said(self) -> str:
        raise NotImplementedError

    def marks(self) -> set[int]:
        raise NotImplementedError

    def has_begun(self) -> bool:
        """Return whether it has the rows from before the life."""
        raise NotImplementedError


class Program(Reader):
    """A process that writes down changes."""

    def __init__(self, kind: Kind, side: Side, home: Path, command: Callable[["Program"], Sequence[str]]) -> None:
        super().__init__(kind, side, home)
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.settle()
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
                env={**os.environ, "JAVA_TOOL_OPTIONS": _OF_PYTHON_S_JVM},
            )

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        path = self.home / "log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def marks(self) -> set[int]:
        return {change.id for change in self.changes() if change.table == "shop.marks"}

    def has_begun(self) -> bool:
        found = sum(change.op in "cr" and change.table == "shop.orders" for change in self.changes())
        return found >= FIRST_ROWS * SHARDS

    def changes(self) -> list[Change]:
        """Return all that it has been told, in its order."""
        raise NotImplementedError

    def settle(self) -> None:
        """Before a start: give up what a kill has left half done."""


class Lines(Program):
    """A program with a line for each transaction, which has the place behind it: both are there, or neither."""

    def __init__(
        self,
        kind: Kind,
        side: Side,
        home: Path,
        command: Callable[["Program"], Sequence[str]],
        first: Mapping[str, Any],
    ) -> None:
        super().__init__(kind, side, home, command)
        self.first = first
        self.file = home / "lines"

    @property
    def place(self) -> str:
        """Return where it goes on, as JSON."""
        lines = self._lines()
        return json.dumps(lines[-1]["place"] if lines else self.first)

    def changes(self) -> list[Change]:
        """Return them; a transaction that comes again after a lost connection, as go-mysql has it, counts once."""
        by_place: dict[str, list[Any]] = {}
        for line in self._lines():
            if line["changes"]:
                by_place.setdefault(json.dumps(line["place"]), line["changes"])
        return [Change(**change) for changes in by_place.values() for change in changes]

    def settle(self) -> None:
        if self.file.exists():
            whole = self.file.read_bytes()
            self.file.write_bytes(whole[: whole.rfind(b"\n") + 1])

    def _lines(self) -> list[dict[str, Any]]:
        if not self.file.exists():
            return []
        return [json.loads(line) for line in self.file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


class DebeziumRecords(Program):
    """Records in Debezium's form; one that comes twice, since a kill came before its offset was stored, counts once."""

    def __init__(
        self,
        kind: Kind,
        side: Side,
        home: Path,
        command: Callable[["Program"], Sequence[str]],
        values: Callable[[Path], list[dict[str, Any]]],
    ) -> None:
        super().__init__(kind, side, home, command)
        self._values = values

    def changes(self) -> list[Change]:
        found, seen = [], set()
        for value in self._values(self.home):
            source = value["source"]
            change = Change(value["op"], f"{source['db']}.{source['table']}", value["before"], value["after"])
            # A server that takes over has positions of its own.
            at = (source.get("gtid") or (source["file"], source["pos"], source["row"]), repr(change))
            if change.op != "r" and at in seen:
                continue
            seen.add(at)
            found.append(change)
        return found


class IntoKafka(DebeziumRecords):
    """What writes records into a broker of its own: all rows are in one topic."""

    def __init__(self, kind: Kind, side: Side, home: Path) -> None:
        super().__init__(kind, side, home, self._command_line, lambda _: self._records())
        (home / "broker").mkdir()
        self._broker = Broker(home / "broker")
        self._topic = Topic(self._broker.brokers, "rows")

    def start(self) -> None:
        if not self._broker.running():
            self._broker.start()
        super().start()

    def end(self) -> None:
        super().end()
        self._topic.close()
        if self._broker.running():
            self._broker.kill()

    def _records(self) -> list[dict[str, Any]]:
        return [value for value in self._topic.values() if value.get("op")]

    def _command_line(self, of: Program) -> Sequence[str]:
        raise NotImplementedError


class Replayed(IntoKafka):
    """`replay` into Kafka, again and again, as cron has it; it reads the files of the log and not `serve`."""

    def _command_line(self, of: Program) -> Sequence[str]:
        assert isinstance(self.side, Shards)
        to = ["--to", f"kafka://{self._broker.brokers}", "--topic", self._topic.name, "--format", "debezium"]
        given = ["--format-option", "decimal.handling.mode=string"]
        once = shlex.join([*PROGRAM, "replay", "--merged", str(self.side.merged), *to, *given])
        return ["sh", "-c", f"while {once}; do sleep 15; done"]


class Connect(IntoKafka):
    """A worker of Kafka Connect with Debezium's connector, and a broker of its own."""

    def __init__(self, kind: Kind, side: Side, home: Path) -> None:
        super().__init__(kind, side, home)
        (self._rest,) = free_ports(1)

    def _command_line(self, of: Program) -> Sequence[str]:
        worker = {
            "bootstrap.servers": self._broker.brokers,
            "listeners": f"http://127.0.0.1:{self._rest}",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(self.home / "offsets"),
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",
        }
        connector = {
            "name": "shop",
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.server.id": "4712",
            "database.ssl.mode": "disabled",
            "topic.prefix": "t",
            "schema.history.internal.kafka.bootstrap.servers": self._broker.brokers,
            "schema.history.internal.kafka.topic": "history",
            "transforms": "one",
            "transforms.one.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.one.regex": r"t\\.shop\\..*",
            "transforms.one.replacement": self._topic.name,
            **dict(setting.split("=") for setting in _DEBEZIUM),
        }
        for name, settings in (("worker", worker), ("connector", connector)):
            (self.home / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        program = ["-cp", f"{client('connect')}/*", "org.apache.kafka.connect.cli.ConnectStandalone"]
        return [*_JAVA, level, *program, str(self.home / "worker"), str(self.home / "connector")]


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _engine_records(home: Path) -> list[dict[str, Any]]:
    values = (record["value"] for record in _whole_lines(home / "records.jsonl"))
    return [value for value in values if value and value.get("op")]


def _flink_records(home: Path) -> list[dict[str, Any]]:
    files = [path for path in (home / "records").glob("part-*") if path.is_file()]
    return [each for path in sorted(files, key=lambda path: path.stat().st_mtime_ns) for each in _whole_lines(path)]


def go_mysql(mode: str) -> Callable[[Kind, Side, Path], Reader]:
    """Return how a reader with go-mysql is made."""

    def make(kind: Kind, side: Side, home: Path) -> Reader:
        first = {"file": "binlog.000001", "position": 4} if mode == "syncer-position" else {}

        def command(of: Program) -> list[str]:
            assert isinstance(of, Lines)
            dump = [str(PREFIX / "bin" / "mysqldump")]
            return [client("go", "reader"), mode, "127.0.0.1", str(of.port), str(of.file), of.place, *dump]

        return Lines(kind, side, home, command, first)

    return make


def java(name: str, jars: str, first: Mapping[str, Any]) -> Callable[[Kind, Side, Path], Reader]:
    """Return how a reader in Java is made."""

    def make(kind: Kind, side: Side, home: Path) -> Reader:
        def command(of: Program) -> list[str]:
            assert isinstance(of, Lines)
            paths = f"{client(jars, 'classes')}:{client(jars)}/*"
            return [*_JAVA, "-cp", paths, name, "127.0.0.1", str(of.port), str(of.file), of.place]

        return Lines(kind, side, home, command, first)

    return make


_DEBEZIUM: Final = (
    "decimal.handling.mode=string", "time.precision.mode=isostring", "snapshot.mode=initial",
    "database.include.list=shop", "heartbeat.interval.ms=500", "connect.keep.alive.interval.ms=1000",
)  # fmt: skip


def debezium(kind: Kind, side: Side, home: Path) -> Reader:
    """Return Debezium's engine, which takes a snapshot first."""
    program = [client("python", "bin", "python"), str(_CLIENTS / "debezium_engine.py")]
    return DebeziumRecords(
        kind, side, home, lambda of: [*program, str(of.home), str(of.port), *_DEBEZIUM], _engine_records
    )


def flink(kind: Kind, side: Side, home: Path) -> Reader:
    """Return a job of Flink CDC's source, which takes a snapshot first."""
    program = [client("python", "bin", "python"), str(_CLIENTS / "flink_job.py"), client("flink")]
    return DebeziumRecords(
        kind, side, home, lambda of: [*program, str(of.home), str(of.port), "initial", "shop.*"], _flink_records
    )


def rust(kind: Kind, side: Side, home: Path) -> Reader:
    """Return a reader with mysql_async, by GTIDs."""

    def command(of: Program) -> list[str]:
        assert isinstance(of, Lines)
        return [client("rust", "reader"), "127.0.0.1", str(of.port), str(of.file), of.place]

    return Lines(kind, side, home, command, {})


def mysql_replication(kind: Kind, side: Side, home: Path) -> Reader:
    """Return a reader with mysql-replication, by GTIDs."""

    def command(of: Program) -> list[str]:
        assert isinstance(of, Lines)
        return [sys.executable, str(_HERE / "programs" / "mysql_replication.py"), str(of.port), str(of.file), of.place]

    return Lines(kind, side, home, command, {})


class Maxwell(Program):
    """Maxwell by GTIDs, with a MySQL of its own for what it must remember; it is asked for the rows that are there.

    A row that comes twice, since a kill came before its place was stored, counts once.
    """

    _tables: Final = ("orders", "notes")
    """Those that are there when it begins, with rows."""

    def __init__(self, kind: Kind, side: Side, home: Path) -> None:
        super().__init__(kind, side, home, lambda _: self._command_line())
        (port,) = free_ports(1)
        self._memory = MySqlServer(home / "memory", 480, port=port)
        self._lines = home / "rows"
        self._asked = False

    def start(self) -> None:
        if not self._memory.running:
            self._memory.start()
            self._memory.execute(
                "CREATE USER IF NOT EXISTS maxwell@'%' IDENTIFIED BY 'm'; GRANT ALL ON *.* TO maxwell@'%'"
            )
        super().start()

    def end(self) -> None:
        super().end()
        self._memory.stop()

    def has_begun(self) -> bool:
        if not self._asked:
            with contextlib.suppress(pymysql.MySQLError):  # it makes its table when it has begun
                for table in self._tables:
                    self._memory.execute(
                        f"INSERT INTO maxwell.bootstrap (database_name, table_name, client_id) "
                        f"VALUES ('shop', '{table}', 'maxwell')"
                    )
                self._asked = True
        return self._asked and super().has_begun() and self._has_all()

    def settle(self) -> None:
        if self._lines.exists():
            whole = self._lines.read_bytes()
            self._lines.write_bytes(whole[: whole.rfind(b"\n") + 1])

    def changes(self) -> list[Change]:
        found, seen = [], set()
        for told in _whole_lines(self._lines):
            if (op := _MAXWELL.get(told["type"])) is None or told["database"] != "shop":
                continue
            data, old = told["data"], told.get("old", {})
            before = None if op in "cr" else {**data, **old}
            change = Change(op, f"{told['database']}.{told['table']}", before, None if op == "d" else data)
            at = (told.get("gtid"), told.get("xoffset"), repr(change))  # a server that takes over has xids of its own
            if op == "r" or at not in seen:
                found.append(change)
            seen.add(at)
        return found

    def kill(self) -> None:
        """Kill it when it has written down that it is behind the last mark: it does that once a second, and while it
        waits for more it leaves out the last transaction. No purge comes so soon.
        """
        end = time.monotonic() + 10
        while self.running() and not self._has_kept() and time.monotonic() < end:
            time.sleep(0.2)
        super().kill()

    def _has_kept(self) -> bool:
        kept = self._memory.query("SELECT gtid_set FROM maxwell.positions")
        gtids = GtidSet.parse_text(kept[0][0] or "") if kept else GtidSet()
        marks = [told["gtid"] for told in _whole_lines(self._lines) if told["table"] == "marks" and "gtid" in told]
        return not any(GtidSet.parse_text(gtid).minus(gtids) for gtid in marks[-1:])

    def _has_all(self) -> bool:
        left = self._memory.query("SELECT COUNT(*) FROM maxwell.bootstrap WHERE NOT is_complete")
        return left == [(0,)]

    def _command_line(self) -> Sequence[str]:
        options = {
            "host": "127.0.0.1", "port": self._memory.port, "user": "maxwell", "password": "m",
            "replication_host": "127.0.0.1", "replication_port": self.port,
            "replication_user": USER, "replication_password": PASSWORD,
            "schema_host": "127.0.0.1", "schema_port": self.port, "schema_user": USER, "schema_password": PASSWORD,
            "producer": "file", "output_file": self._lines, "gtid_mode": "true", "output_gtid_position": "true",
            "output_xoffset": "true", "output_commit_info": "true", "replica_server_id": 7601,
        }  # fmt: skip
        program = ["-cp", f"{client('maxwell')}/*", "com.zendesk.maxwell.Maxwell"]
        return [*_JAVA, *program, *(f"--{name}={value}" for name, value in options.items())]


_MAXWELL: Final = {"bootstrap-insert": "r", "insert": "c", "update": "u", "delete": "d"}


class Replica(Reader):
    """A server that follows; what it tells is what its tables hold."""

    _asked = "SHOW REPLICA STATUS"

    def __init__(self, kind: Kind, side: Side, home: Path, server: Any, where: str) -> None:
        super().__init__(kind, side, home)
        self.server = server
        self._where = where
        self._begun = False
        self._up = False

    def start(self) -> None:
        if not self._up:
            self.server.start()
        self._up = True
        self._follow()

    def kill(self) -> None:
        self.server.stop()
        self._up = False

    def running(self) -> bool:
        return not self._error()

    def said(self) -> str:
        return self._error()

    def marks(self) -> set[int]:
        try:
            return {int(row[0]) for row in self.server.query("SELECT id FROM shop.marks")}
        except Exception:  # the table is not there yet
            return set()

    def has_begun(self) -> bool:
        with contextlib.suppress(Exception):  # the table is not there yet
            return len(self.server.query("SELECT id FROM shop.orders")) == FIRST_ROWS * SHARDS
        return False

    def tables(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Return the rows that it holds, by table and id."""
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for (table,) in self.server.query("SHOW TABLES FROM shop"):
            names = [name for (name, *_) in self.server.query(f"SHOW COLUMNS FROM shop.{table}")]
            rows = (dict(zip(names, row, strict=True)) for row in self.server.query(f"SELECT * FROM shop.{table}"))
            found[f"shop.{table}"] = {row["id"]: row for row in rows}
        return found

    def _follow(self) -> None:
        self.server.execute(
            f"{self._stopped()}; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={self.port}, "
            f"SOURCE_USER='{USER}', SOURCE_PASSWORD='{PASSWORD}', SOURCE_SSL=0, SOURCE_CONNECT_RETRY=1, "
            f"SOURCE_RETRY_COUNT=0, SOURCE_HEARTBEAT_PERIOD=1, GET_SOURCE_PUBLIC_KEY=1, {self._place()}; START REPLICA"
        )

    def _stopped(self) -> str:
        return "STOP REPLICA" if self._status() else "DO 0"

    def _place(self) -> str:
        """Return where it goes on: to name a source anew takes a position away."""
        status = self._status()
        if not self.kind.by_position or not status:
            return self._where
        self.server.execute("STOP REPLICA")
        status = self._status()
        file, position = status["Relay_Source_Log_File"], status["Exec_Source_Log_Pos"]
        return f"SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS={position}"

    def _status(self) -> dict[str, Any]:
        with contextlib.closing(self.server.connect()) as connection, connection.cursor(DictCursor) as cursor:
            cursor.execute(self._asked)
            return cursor.fetchone() or {}

    def _error(self) -> str:
        try:
            return str(self._status().get("Last_SQL_Error") or "")
        except Exception as error:
            return repr(error)


class MariaDbReplica(Replica):
    """A MariaDB, for which `serve` has a stream of its own; by position, as MariaDB cannot read MySQL's GTIDs."""

    _asked = "SHOW SLAVE STATUS"

    @property
    def port(self) -> int:
        assert self.side.mariadb is not None
        return self.side.mariadb[self.second]

    def _follow(self) -> None:
        if status := self._status():
            self.server.query("STOP SLAVE")
            status = self._status()
        file, position = status.get("Relay_Master_Log_File"), status.get("Exec_Master_Log_Pos")
        self.server.query(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.port}, MASTER_USER='{USER}', "
            f"MASTER_PASSWORD='{PASSWORD}', MASTER_LOG_FILE='{file or 'binlog.000001'}', "
            f"MASTER_LOG_POS={position or 4}, MASTER_USE_GTID=no, MASTER_SSL=0, MASTER_CONNECT_RETRY=1"
        )
        self.server.query("START SLAVE")
