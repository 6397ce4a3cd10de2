"""An HTTP server that shows a cluster's status: /metrics, /health, /live, /leader, /status.json, /history.json, and a
page at /.

A thread looks at the cluster once a second, and less often where a look takes long; requests get what it saw last.
Nothing can be changed over HTTP.
"""

import ipaddress
import json
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, not_listening
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.observe.status.health import Limits, problem
from binlog_merge.observe.status.metrics import exposition
from binlog_merge.observe.status.observer import Observer
from binlog_merge.observe.status.values import ComponentStatus, Status

_LOG = logging.getLogger(__name__)
_EVERY: Final = 1.0
_HANGS: Final = 300.0
"""After how many seconds without a look this process hangs."""
_MOST_LOOKING: Final = 0.1
_HISTORY: Final = 900
_REQUEST_TIMEOUT: Final = 10.0
_JOIN_SECONDS: Final = 5.0
_SPARE: Final = 16
_MOST_CLIENTS: Final = 64
_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
        "frame-ancestors 'none'",
    ),
)


class StatusServer:
    """The status of a cluster over HTTP: `start`, then `stop`; a context manager does both.

    `listen` is HOST:PORT, or PORT for the loopback address; port 0 is any that is free. `start` raises ConfigError for
    what is no address or is taken, ServerRefused for one that cannot be bound; `address` is then the one in use.
    """

    def __init__(
        self,
        config: MergeConfig,
        out: Path | LogFolder,
        listen: str,
        limits: Limits | None = None,
        components: Callable[[], tuple[ComponentStatus, ...]] = tuple,
        leads: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self._host, self._port = parse_listen(listen)
        self._observer = Observer(config, out, limits, components, leads)
        self._history: deque[dict[str, Any]] = deque(maxlen=_HISTORY)
        self._ended = Event()
        self._threads: list[Thread] = []
        self._server: _Server | None = None
        self._status: Status | None = None
        self._looked = time.monotonic()
        self.address: tuple[str, int] = (self._host, self._port)

    def __enter__(self) -> "StatusServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return the address of the page."""
        host, port = self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def start(self) -> None:
        """Listen, look for the first time, and answer requests in threads of its own."""
        self._server = _bound(self._host, self._port, self)
        self.address = self._server.server_address[:2]  # type: ignore[assignment]
        self.look()
        for name, target in (("status looks", self._look_on), ("status answers", self._server.serve_forever)):
            thread = Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        _LOG.info("status is served", extra={"url": self.url})

    def stop(self) -> None:
        """Answer no more requests, and wait for the threads. Stopping twice is allowed."""
        self._ended.set()
        server, self._server = self._server, None
        if server is not None:
            if self._threads:
                server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        self._threads.clear()

    def look(self) -> Status:
        """Look at the cluster now, and keep what is seen for requests."""
        status = self._observer.look()
        self._status, self._looked = status, time.monotonic()
        self._history.append(_history_entry(status))
        return status

    def status(self) -> Status:
        """Return what was seen last."""
        return self.look() if self._status is None else self._status

    @property
    def silence(self) -> float:
        """Return for how many seconds no look has come to its end."""
        return time.monotonic() - self._looked

    def history(self, since: float) -> list[dict[str, Any]]:
        """Return the entries of the last minutes that are later than a time."""
        return [entry for entry in list(self._history) if entry["at"] > since]

    def _look_on(self) -> None:
        took = 0.0
        while not self._ended.wait(max(_EVERY, took / _MOST_LOOKING)):
            begun = time.monotonic()
            try:
                check_descriptors()
                self.look()
            except Exception as error:  # a fault of ours: whoever watches must learn of it, and go on watching
                _LOG.exception("the status cannot be taken")
                self._fail(error)
            took = time.monotonic() - begun

    def _fail(self, error: Exception) -> None:
        if (last := self._status) is not None:
            said = error.strerror if isinstance(error, OSError) and error.strerror else error
            fault = problem("status-failed", f"the status cannot be taken: {type(error).__name__}: {said}")
            kept = tuple(known for known in last.problems if known.code != fault.code)
            self._status = replace(last, problems=(*kept, fault))


def check_descriptors(spare: int = _SPARE) -> None:
    """Raise OSError if this process may open no more files: all that it would then say of a cluster were untrue."""
    with Path(os.devnull).open("rb") as null, ExitStack() as stack:
        for _ in range(spare):
            stack.callback(os.close, os.dup(null.fileno()))


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, [::1]:PORT, or PORT on the loopback address. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16) or (":" in bare and bare == host):
        raise ConfigError(
            f"--listen {text!r} is no address", remedy="write it as HOST:PORT, [::1]:PORT, or PORT for this machine"
        )
    return bare or "127.0.0.1", int(port)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CLIENTS

    def __init__(self, address: tuple[str, int], family: int, source: StatusServer) -> None:
        self.address_family = family
        self.source = source
        self._lock = Lock()
        self._clients: dict[Any, None] = {}
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer's asks for the name of the address, which may take long and is not used.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own. Of many clients at once the oldest is left: it is slow, or wants nothing."""
        with self._lock:
            self._clients[request] = None
            too_many = list(self._clients)[: max(0, len(self._clients) - _MOST_CLIENTS)]
        for client in too_many:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Take leave of a client."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOG.debug("a request failed", exc_info=True)


def _bound(host: str, port: int, source: StatusServer) -> _Server:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return _Server((str(address[0]), port), family, source)
    except OSError as error:
        raise not_listening(error, f"{host}:{port}", "choose another --listen") from None


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; the rest is refused by the base class (501)."""

    server: _Server
    server_version = "binlog-merge"
    sys_version = ""
    timeout = _REQUEST_TIMEOUT

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: Any) -> None:
        _LOG.debug("request", extra={"peer": self.client_address[0], "line": format % args})

    def _answer(self, body: bool) -> None:
        parts = urlsplit(self.path)
        page = _PAGES.get(parts.path)
        host = self.headers.get("Host")
        if not _is_ours(host, str(self.connection.getsockname()[0])):
            text = (
                f"{str(host)[:200]!r} is no name of this machine's own address. Ask for 127.0.0.1 or localhost; "
                "a proxy that hands the name on must not, or --listen another address\n"
            )
            code, content, data = HTTPStatus.MISDIRECTED_REQUEST, _TEXT, text.encode("utf-8", "replace")
        elif page is None:
            text = f"there is no {parts.path[:200]!r}; there are {', '.join(_PAGES)}\n"
            code, content, data = HTTPStatus.NOT_FOUND, _TEXT, text.encode("utf-8", "replace")
        else:
            code, content, data = page(self.server.source, parts.query, self.headers.get("Accept") or "")
        self.send_response(code)
        for name, value in (("Content-Type", content), ("Content-Length", str(len(data))), *_HEADERS):
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


def _is_ours(host: str | None, address: str) -> bool:
    """Return whether a request at an address may have this Host.

    A web page may have a name of its own lead to 127.0.0.1, and would then read what only this machine is to see: there
    the name must be an address, or this machine's.
    """
    if host is None or not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return True
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    if name.lower().rstrip(".") in ("localhost", socket.gethostname().lower()):
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


Answer = tuple[HTTPStatus, str, bytes]
_JSON, _TEXT = "application/json; charset=utf-8", "text/plain; charset=utf-8"


def _metrics(source: StatusServer, query: str, accept: str) -> Answer:
    data, content = exposition(source.status(), accept)
    return HTTPStatus.OK, content, data


def _health(source: StatusServer, query: str, accept: str) -> Answer:
    status = source.status()
    warnings = [p.text for p in status.problems if p not in status.reasons]
    document = {"healthy": status.healthy, "reasons": [p.text for p in status.reasons], "warnings": warnings}
    return HTTPStatus.OK if status.healthy else HTTPStatus.SERVICE_UNAVAILABLE, _JSON, _json(document)


def _live(source: StatusServer, query: str, accept: str) -> Answer:
    """Say whether this process works: not whether all is well, which starting it anew would not change."""
    live = source.silence < _HANGS
    document = {"live": live, "looked_seconds_ago": round(source.silence, 1)}
    return HTTPStatus.OK if live else HTTPStatus.SERVICE_UNAVAILABLE, _JSON, _json(document)


def _leader(source: StatusServer, query: str, accept: str) -> Answer:
    """Say whether this run leads. Where there is no lease it does."""
    lease = source.status().lease
    leads = lease is None or lease.leads is True
    document = {"leads": leads, "holder": None if lease is None else lease.holder}
    return HTTPStatus.OK if leads else HTTPStatus.SERVICE_UNAVAILABLE, _JSON, _json(document)


def _status(source: StatusServer, query: str, accept: str) -> Answer:
    return HTTPStatus.OK, _JSON, _json(source.status().to_dict())


def _history(source: StatusServer, query: str, accept: str) -> Answer:
    since = parse_qs(query).get("since", ["0"])[-1]
    try:
        entries = source.history(float(since))
    except ValueError:
        return HTTPStatus.BAD_REQUEST, _TEXT, b"since is a time in seconds since 1970\n"
    return HTTPStatus.OK, _JSON, _json({"entries": entries})


def _page(source: StatusServer, query: str, accept: str) -> Answer:
    return HTTPStatus.OK, "text/html; charset=utf-8", files(__package__).joinpath("page.html").read_bytes()


_PAGES: Final[dict[str, Callable[[StatusServer, str, str], Answer]]] = {
    "/": _page,
    "/metrics": _metrics,
    "/health": _health,
    "/live": _live,
    "/leader": _leader,
    "/status.json": _status,
    "/history.json": _history,
}


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _history_entry(status: Status) -> dict[str, Any]:
    merged = status.merged
    return {
        "at": status.at,
        "lag_seconds": status.lag_seconds,
        "transactions": None if merged is None else merged.transactions,
        "input_bytes": None if merged is None else merged.totals.get("input_bytes", 0),
        "nodes": {
            name: None if node.watermark is None else node.watermark.lag_seconds for name, node in status.nodes.items()
        },
    }
