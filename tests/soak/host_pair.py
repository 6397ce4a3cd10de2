"""Two hosts that run one configuration, their store, the nodes, and a replica behind one address: each on a machine of
its own network.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pymysql

from binlog_merge.errors import MergeError, ObjectStoreUnreachable
from binlog_merge.files.lease_keeper import lease_objects
from binlog_merge.files.lease_seen import LeaseWatch, Seen
from binlog_merge.files.object_output import ObjectOutput
from tests.object_store import KEY, REGION, SECRET, Store
from tests.small_disk import small_disk
from tests.soak.network import Machine, Network
from tests.soak.sturdy_bank import TABLES, SturdyBank
from tests.store_proxy import Change, StoreProxy
from tools.demo_live.bank import COMMIT_TABLE, NODES
from tools.mysql_server import ROOT, MySqlServer

STORE_PORT: Final = 9000
BEHIND: Final = 9001
SERVE_PORT: Final = 3307
PAGE_PORT: Final = 9464
BUCKET: Final = "bank"
DISK: Final = 400
"""MiB of each host's disk."""
_USERS: Final = (
    "SET sql_log_bin=0; CREATE USER capture@'%' IDENTIFIED BY 'c'; "
    "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO capture@'%'"
)
_PASSWORD: Final = "readers"


class BusyBank(SturdyBank):
    """A bank in which tables come, are renamed and go, on every node, beside columns."""

    def __init__(self, servers: list[MySqlServer]) -> None:
        super().__init__(servers)
        self.renamed = 0

    def retable(self, pause: float) -> None:
        """Create a table, write it, rename it, write it, and drop it."""
        columns = "(id INT PRIMARY KEY, said VARCHAR(40) NOT NULL)"
        self.create("extra", columns)
        self._say("extra", 0)
        time.sleep(pause)
        for node, server in enumerate(self.servers):
            server.execute(f"RENAME TABLE bank_{node}.extra_{node} TO bank_{node}.former_{node}")
            time.sleep(pause / 4)
        self._mark("RENAME_TABLE", "extra", "RENAME TABLE extra TO former")
        self._say("former", 1000)
        time.sleep(pause)
        for node, server in enumerate(self.servers):
            server.execute(f"DROP TABLE bank_{node}.former_{node}")
        self._mark("DROP_TABLE", "former", "DROP TABLE former")
        self.renamed += 1

    def _say(self, table: str, first: int) -> None:
        with self.sessions() as sessions:
            for each in range(3):
                number = first + each * len(self.servers)
                self.distributed(
                    sessions,
                    {
                        node: f"INSERT INTO bank_{node}.{table}_{node} VALUES ({number + node}, 'number {each}')"
                        for node in range(len(self.servers))
                    },
                )


class Changing:
    """Changes tables in a thread, again and again; `error` is what has ended it."""

    def __init__(self, bank: BusyBank, pause: float) -> None:
        self._bank, self._pause = bank, pause
        self._stop = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            while not self._stop.wait(self._pause):
                self._bank.alter(self._pause / 4)
                self._bank.retable(self._pause / 2)
        except BaseException as error:  # a thread's exception would be printed and forgotten
            self.error = error


class Audit:
    """Judges what hosts change in the store: one writer at a time. `wrong` is what no holder of the lease does.

    The index is no part of the log, and may be behind: one who was stopped just before may write it.
    """

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.heads: dict[int, tuple[str, int]] = {}
        self._written: dict[str, str] = {}
        self._bases: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, change: Change) -> None:
        """Take a change; threads of a proxy may call it."""
        path = change.path.partition("?")[0]
        with self._lock:
            if path.endswith("/manifest/head.jsonl") and change.method == "PUT":
                self._head(change)
                return
            if "/manifest/" in path and change.method == "PUT":
                claim = json.loads(change.body.splitlines()[0]).get("claim")
                self._bases["manifest/" + path.rpartition("/")[2]] = int(claim["epoch"]) if claim else 0
            if "/standby/" not in path and not path.endswith(("/lease.json", ".index")):
                self._object(change, path)

    def _head(self, change: Change) -> None:
        first, *lines = change.body.splitlines()
        records = [json.loads(line) for line in lines[::2]]
        number = int(json.loads(first)["number"]) + len(records)
        # A claim may be what folds the records before it: then it is in the base, and none is in the head.
        epochs = [int(record["epoch"]) for record in records if "epoch" in record]
        epochs = epochs or [self._bases.get(json.loads(first)["base"], 0)]
        if number in self.heads:
            self.wrong.append(f"record {number} was put by {self.heads[number][0]}, and again by {change.client}")
        self.heads[number] = change.client, max(epochs, default=0)
        if epochs != sorted(epochs):
            self.wrong.append(f"record {number}: epochs {epochs}")

    def _object(self, change: Change, path: str) -> None:
        if change.method == "PUT" and "uploadId" not in change.path:
            leader = self.heads[max(self.heads)][0] if self.heads else change.client
            if path in self._written and leader != change.client:
                self.wrong.append(f"{path} of {self._written[path]} was changed by {change.client}; {leader} leads")
            self._written[path] = change.client
        elif change.method == "DELETE":
            self._written.pop(path, None)

    def check(self) -> None:
        """Raise what was wrong so far: heads of an epoch are one host's, and epochs only grow."""
        with self._lock:
            assert not self.wrong, self.wrong
            before, writer = 0, ""
            for number in sorted(self.heads):
                client, epoch = self.heads[number]
                epoch = epoch or before
                assert epoch >= before, f"record {number} of {client} has epoch {epoch}, behind {before}"
                assert epoch > before or client == writer or not writer, f"epoch {epoch}: {writer}, then {client}"
                before, writer = epoch, client


class Host:
    """A host: its machine, its disk, and `run` on it."""

    def __init__(self, machine: Machine, home: Path, configuration: str) -> None:
        self.machine, self.home = machine, home
        self.name = machine.name
        self.log = home.parent / f"{machine.name}.log"
        self._configuration = configuration
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._said = 0

    def start(self, standby: bool = False) -> None:
        """Start `run`, as a service manager does when the machine starts."""
        temporary = self.home / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        config, password = self.home / "cluster.yaml", self.home / "readers.pw"
        config.write_text(self._configuration)
        password.write_text(_PASSWORD)
        password.chmod(0o600)
        command = [str(Path(sys.executable).with_name("binlog-merge")), "run", "--config", str(config)]
        command += ["--host", "0.0.0.0", "--serve-password-file", str(password), "--listen", f"0.0.0.0:{PAGE_PORT}"]
        command += ["--log-format", "json", "--log-level", "info", *["--standby"] * standby]
        environment = {
            **os.environ,
            "TMPDIR": str(temporary),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        with self.log.open("ab") as log:
            self._said = log.tell()
            self.process = subprocess.Popen(
                self.machine.command(*command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.home,
                env=environment,
            )
        self.starts += 1

    @property
    def ended(self) -> int | None:
        """Return the exit code of `run`, None while it runs."""
        return None if self.process is None else self.process.poll()

    @property
    def begun(self) -> bool:
        """Return whether `run` has started anything since it was started itself."""
        return b'"event": "started"' in self.log.read_bytes()[self._said :]

    def kill(self) -> None:
        """Kill all of its processes."""
        self.machine.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def end(self) -> int:
        """Ask `run` to end, and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(180)

    def children(self, verb: str) -> list[int]:
        """Return the processes of one of the commands of `run`."""
        found = []
        for pid in self.machine.processes():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"binlog_merge.cli.main" in words and verb.encode() in words:
                    found.append(pid)
        return found

    def fill(self) -> None:
        """Fill its disk."""
        with suppress(OSError), (self.home / "filled").open("wb", buffering=0) as filled:
            while filled.write(bytes(1 << 20)):
                pass
        with suppress(OSError), (self.home / "filled").open("ab", buffering=0) as filled:
            while filled.write(bytes(512)):
                pass

    def free(self) -> None:
        """Give it its disk back."""
        (self.home / "filled").unlink(missing_ok=True)

    def lose_disk(self, all_of_it: bool) -> None:
        """Remove the folders in which it works, or `all_of_it`."""
        for path in self.home.iterdir():
            if path.name in ("tmp", "captured") or all_of_it:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        (self.home / "tmp").mkdir(exist_ok=True)


@dataclass
class Pair:
    """Everything: two hosts, the bank on its nodes, the store and the proxy before it, the replica."""

    folder: Path
    hosts: list[Host]
    bank: BusyBank
    replica: MySqlServer
    store: Store
    proxy: StoreProxy
    audit: Audit
    store_address: str
    node_addresses: list[str]
    progress: "Progress"
    watch: LeaseWatch

    @property
    def uri(self) -> str:
        """Return the log as it is seen behind the proxy."""
        return self.store.uri("merged", f"access_key={KEY}", f"secret_key={SECRET}")

    def look(self) -> Seen | None:
        with suppress(MergeError):
            return self.watch.look()
        return None

    def leader(self) -> Host | None:
        """Return the host that holds the lease."""
        seen = self.look()
        found = [host for host in self.hosts if seen and seen.held and seen.lease.holder.startswith(f"{host.name}-")]
        return found[0] if found else None

    def set_mode(self, host: Host, mode: Any) -> None:
        """Let the store do to a host what a mode says."""
        self.proxy.modes[host.machine.address] = mode

    def keep_running(self) -> None:
        """Start `run` anew, as a service manager does, where it could not begin as the store did not answer. Once it
        has begun, it ends by itself for no fault.
        """
        for host in self.hosts:
            code = host.ended
            if code == ObjectStoreUnreachable.exit_code and not host.begun:
                host.start()
                continue
            assert code in (None, -signal.SIGKILL), f"{host.name}: {code}: {host.log.read_text()[-6000:]}"


class Progress:
    """Looks in a thread at what is published, ten times a second, and at what the replica has, less often."""

    def __init__(self, uri: str, replica: MySqlServer) -> None:
        self._output, self._replica = ObjectOutput(uri), replica
        self.published: list[tuple[float, int]] = []
        self.applied: list[tuple[float, str]] = []
        self.epochs: list[int] = [0]
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(look,), daemon=True) for look in (self._log, self._rep)
        ]

    def __enter__(self) -> "Progress":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def rank(self) -> int:
        return self.published[-1][1] if self.published else 0

    def gap(self, since: float, of: list[tuple[float, Any]]) -> float:
        """Return the longest time without anything new, from a moment on."""
        times = [at for at, _ in list(of) if at >= since]
        edges = [since, *times]
        return max((b - a for a, b in pairwise(edges)), default=time.monotonic() - since)

    def _work(self, look: Callable[[], None]) -> None:
        try:
            while not self._stop.wait(0.1):
                look()
        except BaseException as error:
            self.error = error

    def _log(self) -> None:
        self._output.load() if not self.published else self._output.advance()
        state = self._output.state
        assert state.epoch >= self.epochs[-1], f"epoch {state.epoch} behind {self.epochs[-1]}"
        if state.epoch > self.epochs[-1]:
            self.epochs.append(state.epoch)
        assert state.rank >= self.rank, f"{state.rank} transactions behind {self.rank}"
        if state.rank > self.rank:
            self.published.append((time.monotonic(), state.rank))

    def _rep(self) -> None:
        try:
            found = str(self._replica.query("SELECT @@global.gtid_executed")[0][0])
        except (pymysql.err.MySQLError, OSError):
            return
        if not self.applied or self.applied[-1][1] != found:
            self.applied.append((time.monotonic(), found))


@contextmanager
def pair(net: Network, folder: Path, lease: float, options: str = "") -> Iterator[Pair]:
    """Start everything but `run`."""
    with ExitStack() as stack:
        addresses = [net.address(11 + i) for i in range(len(NODES))]
        service = net.address(100)
        servers = []
        for i, name in enumerate(NODES):
            server = MySqlServer(folder / name, 101 + i, (f"--bind-address={addresses[i]}",), port=3306)
            servers.append(stack.enter_context(server))
            server.execute(_USERS)
        bank = BusyBank(servers)
        bank.open()
        replica = MySqlServer(folder / "replica", 201, ("--replica-net-timeout=10", "--relay-log-recovery=ON"))
        stack.enter_context(replica)
        s3 = net.machine("s3", 20)
        store = stack.enter_context(_store(s3, folder))
        audit = Audit()
        with s3.inside():
            proxy = stack.enter_context(StoreProxy(store, at=(s3.address, STORE_PORT), on_change=audit.take))
        text = _configuration(addresses, f"http://{s3.address}:{STORE_PORT}", lease) + options
        machines = [net.machine(name, 1 + i) for i, name in enumerate("ab")]
        homes = [stack.enter_context(small_disk(folder / f"host-{m.name}", DISK)) for m in machines]
        hosts = [Host(machine, home, text) for machine, home in zip(machines, homes, strict=True)]
        for host in hosts:
            stack.callback(host.kill)
        stack.enter_context(_balancer(folder, service, hosts))
        uri = store.uri("merged", f"access_key={KEY}", f"secret_key={SECRET}")
        progress = Progress(uri, replica)
        watch = LeaseWatch(lease_objects(uri, 10.0))
        yield Pair(
            folder, hosts, bank, replica, store, proxy, audit, s3.address, addresses, progress, watch
        )  # fmt: skip


def follow(replica: MySqlServer, address: str) -> None:
    """Let the replica follow what the hosts serve, by one address and GTID."""
    replica.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{address}', SOURCE_PORT={SERVE_PORT}, SOURCE_USER='rep', "
        f"SOURCE_PASSWORD='{_PASSWORD}', SOURCE_SSL=1, SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, "
        "SOURCE_RETRY_COUNT=100000, SOURCE_HEARTBEAT_PERIOD=2; START REPLICA"
    )


@contextmanager
def _store(machine: Machine, folder: Path) -> Iterator[Store]:
    """Run moto's server, or the program that VERSITYGW names, on a machine."""
    objects = folder / "objects"
    objects.mkdir()
    at = f"{machine.address}:{BEHIND}"
    if program := os.environ.get("VERSITYGW"):
        command = [program, "--access", KEY, "--secret", SECRET, "--port", at, "--region", REGION, "--quiet"]
        command += ["posix", str(objects)]
    else:
        moto = str(Path(sys.executable).with_name("moto_server"))
        command = [moto, "--host", machine.address, "--port", str(BEHIND)]
    with (folder / "store.log").open("wb") as log:
        process = subprocess.Popen(machine.command(*command), stdout=log, stderr=log)
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection((machine.address, BEHIND), 1):
                break
            assert process.poll() is None, (folder / "store.log").read_text()
            time.sleep(0.1)
        store = Store(f"http://{at}", BUCKET)
        store.client().create_bucket(Bucket=BUCKET)
        yield store
    finally:
        process.kill()
        process.wait()


@contextmanager
def _balancer(folder: Path, address: str, hosts: list[Host]) -> Iterator[None]:
    """Run HAProxy as deploy/haproxy.cfg has it."""
    text = (ROOT / "deploy" / "haproxy.cfg").read_text().replace("bind :", f"bind {address}:")
    for host in hosts:
        text = text.replace(f"host-{host.name}.example", host.machine.address)
    config = folder / "haproxy.cfg"
    config.write_text(text)
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(["haproxy", "-db", "-f", str(config)], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _configuration(nodes: list[str], store: str, lease: float) -> str:
    listed = "\n".join(
        f'  - {{source-id: {name}, server: "mysql://capture:c@{address}:3306"}}'
        for name, address in zip(NODES, nodes, strict=True)
    )
    routes = "\n".join(
        f"  - {{schema-pattern: 'bank_*', table-pattern: '{table}_*', target-schema: bank, target-table: {table}}}"
        for table in (*TABLES, "extra", "former")
    )
    uri = f"s3://{BUCKET}/merged?endpoint_override={store}&region={REGION}"
    return (
        f"version: 1\nname: bank\nnodes:\n{listed}\nroutes:\n{routes}\n"
        f"commit-tso: {{carrier: commit-table, commit-table: {COMMIT_TABLE}}}\n"
        f'output: {{dir: "{uri}", max-size: 400KB}}\nha: {{lease: {lease:g}s, give-up-after: 5s}}\n'
    )
