"""A proxy between a client and a server that cuts connections, after any number of bytes and in several ways."""

import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

WAYS: Final = ("close", "reset", "half to the client", "half to the server", "silence")
LEAST, MOST = 100, 3_000_000
"""Bytes from the server after which a connection is cut."""
SILENCE: Final = 5.0
"""Seconds for which a connection that has fallen silent stays open."""


class Proxy:
    """Listens on `port` of this machine and hands connections on to port `target`.

    While it is `cutting`, each connection is cut in one of WAYS, after LEAST to MOST bytes from the server, each order
    of magnitude as often; or after as many as `budgets` say, in turn, by closing it. `cuts` counts them.
    """

    def __init__(self, target: int, seed: str, budgets: Sequence[int] = ()) -> None:
        self.cutting = True
        self.cuts: Counter[str] = Counter()
        self._target = target
        self._budgets = list(budgets)
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._open: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        _begin(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut_all(self) -> int:
        """Cut all that are open, at once. Returns how many were."""
        with self._lock:
            for pair in self._open:
                for one in pair:
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
            return len(self._open)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                _begin(lambda client=client: self._connect(client))

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target), 10)
        except OSError:
            client.close()
            return
        for one in (client, server):
            one.settimeout(None)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            if self._budgets:
                budget, way = self._budgets.pop(0), "close"
            else:
                budget, way = int(LEAST * (MOST / LEAST) ** self._random.random()), self._random.choice(WAYS)
            self._open.add((client, server))
        with suppress(OSError):
            self._serve(client, server, budget, way)
        with self._lock:
            self._open.discard((client, server))
        client.close()
        server.close()

    def _serve(self, client: socket.socket, server: socket.socket, budget: int, way: str) -> None:
        """Hand on what both sides send, until one ends or the connection is to be cut."""
        poll = select.poll()  # select() knows no more than 1024 descriptors
        for one in (client, server):
            poll.register(one, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if client.fileno() in ready:
                if not (data := client.recv(1 << 16)):
                    return
                server.sendall(data)
            if server.fileno() in ready:
                if not (data := server.recv(1 << 16)):
                    return
                if self.cutting and len(data) >= budget:
                    client.sendall(data[:budget])
                    self.cuts[way] += 1
                    _cut(client, server, way)
                    return
                budget = max(1, budget - len(data))
                client.sendall(data)


def _cut(client: socket.socket, server: socket.socket, way: str) -> None:
    """Cut a connection, but for closing it."""
    if way == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif way == "half to the client":
        client.shutdown(socket.SHUT_WR)
        time.sleep(SILENCE)
    elif way == "half to the server":
        server.shutdown(socket.SHUT_WR)
        time.sleep(SILENCE)
    elif way == "silence":
        time.sleep(SILENCE)


def _begin(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()
