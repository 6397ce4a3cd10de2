"""Machines of a network of their own: network namespaces on one bridge, from which nothing leads outside."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final

_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_TABLE: Final = "inet faults"


def lacking() -> str | None:
    """Return why there can be no network here, None if there can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    absent = [name for name in ("ip", "nft", "nsenter", "unshare", "haproxy") if which(name) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    probe = f"bm{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespaces: {made.stderr.strip()}"
    _run("ip", "netns", "del", probe)
    return None


@dataclass(frozen=True)
class Machine:
    """A machine of the network: its namespace, its name, and its address."""

    namespace: str
    name: str
    address: str

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs a command on it, with its host name; the process is the command's own."""
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name)
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *named, *words]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread, and the threads and processes that it starts, be on this machine."""
        with _Namespace("/proc/thread-self/ns/net") as here, _Namespace(f"/run/netns/{self.namespace}") as there:
            there.enter()
            try:
                yield
            finally:
                here.enter()

    def processes(self) -> list[int]:
        """Return the processes that run on it, the eldest first."""
        found = subprocess.run(["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=True)
        return sorted(int(line) for line in found.stdout.split())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that runs on it, and to what they have started meanwhile."""
        sent: set[int] = set()
        while left := [pid for pid in self.processes() if pid not in sent]:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
                sent.add(pid)

    def cut_from(self, *addresses: str, answers_only: bool = False) -> None:
        """Drop what it sends to addresses and gets from them; `answers_only`: what it gets alone."""
        to = "{ " + ", ".join(addresses) + " }"
        rules = f"add rule {_TABLE} input ip saddr {to} drop\n"
        if not answers_only:
            rules += f"add rule {_TABLE} output ip daddr {to} drop\n"
        self._nft(rules)

    def unplug(self) -> None:
        """Drop all that it sends and gets."""
        self._nft(f'add rule {_TABLE} input iif != "lo" drop\nadd rule {_TABLE} output oif != "lo" drop\n')

    def connect(self) -> None:
        """Take back what `cut_from` and `unplug` have done."""
        self._nft(f"flush table {_TABLE}\n")

    def prepare(self) -> None:
        self._nft(
            f"add table {_TABLE}\n"
            f"add chain {_TABLE} input {{ type filter hook input priority 0; }}\n"
            f"add chain {_TABLE} output {{ type filter hook output priority 0; }}\n"
        )

    def _nft(self, rules: str) -> None:
        _run(*("nsenter", f"--net=/run/netns/{self.namespace}", "nft", "-f", "-"), given=rules)


@dataclass(frozen=True)
class Network:
    """The machine at the middle, which has the bridge and may have more addresses; it makes others."""

    middle: Machine
    _stack: ExitStack

    def address(self, last: int) -> str:
        """Give the machine at the middle one more address."""
        address = _address(last)
        _on(self.middle.namespace, "addr", "add", f"{address}/24", "dev", "lan")
        return address

    def machine(self, name: str, last: int) -> Machine:
        """Make a machine with a link to the bridge."""
        made = _namespace(self._stack, name, _address(last))
        inner, outer = "eth0", f"to-{name}"
        on = self.middle.namespace
        _on(on, "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", made.namespace)
        _on(on, "link", "set", outer, "master", "lan", "up")
        _on(made.namespace, "addr", "add", f"{made.address}/24", "dev", inner)
        _on(made.namespace, "link", "set", inner, "up")
        made.prepare()
        return made


@contextmanager
def network() -> Iterator[Network]:
    """Make a network; this thread is on the machine at its middle. What runs on its machines is killed at the end."""
    with ExitStack() as stack:
        middle = _namespace(stack, "lan", _address(254))
        _on(middle.namespace, "link", "add", "lan", "type", "bridge")
        _on(middle.namespace, "addr", "add", f"{middle.address}/24", "dev", "lan")
        _on(middle.namespace, "link", "set", "lan", "up")
        stack.enter_context(middle.inside())
        yield Network(middle, stack)


def _address(last: int) -> str:
    return f"192.0.2.{last}"  # for documentation (RFC 5737): nobody has it


def _namespace(stack: ExitStack, name: str, address: str) -> Machine:
    machine = Machine(f"bm{os.getpid()}-{name}", name, address)
    _run("ip", "netns", "add", machine.namespace)
    stack.callback(_remove, machine)
    _on(machine.namespace, "link", "set", "lo", "up")
    return machine


def _remove(machine: Machine) -> None:
    ours = os.getpid()
    for pid in machine.processes():
        if pid != ours:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    _run("ip", "netns", "del", machine.namespace)


class _Namespace:
    """An open namespace."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __enter__(self) -> "_Namespace":
        self._descriptor = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def enter(self) -> None:
        if _LIBC.setns(self._descriptor, _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"cannot enter {self._path}")


def _on(namespace: str, *words: str) -> None:
    _run("ip", "-n", namespace, *words)


def _run(*words: str, given: str | None = None) -> None:
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()} {given or ''}")
