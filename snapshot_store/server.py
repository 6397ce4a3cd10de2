"""The address of a MySQL server, and connecting to it.

PyMySQL is imported at the first connection; nothing else in this package needs it.
"""

import os
import socket
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

CONNECTION_LOST: Final = frozenset({1053, 1152, 1153, 1184, 2003, 2006, 2013, 2055, 3169, 4031})
"""Error numbers of a lost connection: https://dev.mysql.com/doc/mysql-errors/en/."""

NO_CONNECTION: Final = 2003
"""The error number of the client library where nothing answers under an address."""

_DENIED: Final = 1045
_WHOLE_TABLES: Final = "SET SESSION autocommit = 1 /*!80030 , show_gipk_in_create_table_and_information_schema = 1 */"
"""Definitions are asked for whole: a server may be set to keep the invisible primary keys that it made to itself."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's host and port or socket, and the user's login. Printing it does not show the password."""

    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "root"
    password: str = ""
    socket: str | None = None

    @classmethod
    def parse(cls, url: str, password: str | None = None) -> "ServerAddress":
        """Parse mysql://user@host:3306 or mysql://user@localhost/?socket=/run/mysqld/mysqld.sock; raises ValueError.

        The password is `password`, else that of the URL, else MYSQL_PWD of the environment.
        """
        parts = urlsplit(url if "://" in url else f"mysql://{url}")
        if parts.scheme != "mysql" or not (parts.hostname or parts.query):
            raise ValueError(f"{_without_password(url)!r} is no server: write mysql://user@host:3306")
        socket = parse_qs(parts.query).get("socket", [None])[0]
        if password is None:
            password = unquote(parts.password) if parts.password is not None else os.environ.get("MYSQL_PWD", "")
        user = unquote(parts.username) if parts.username else "root"
        return cls(parts.hostname or "localhost", parts.port or 3306, user, password, socket)

    def connect(self, ssl_ca: str | None = None, read_timeout: float | None = None) -> Any:
        """Return a session in autocommit mode; with `ssl_ca` it is encrypted, and the server's certificate is verified.

        `read_timeout`: how many seconds the server may be silent. Raises what PyMySQL raises.
        """
        import pymysql

        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            unix_socket=self.socket,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
            read_timeout=read_timeout,
            ssl_ca=ssl_ca,
            ssl_verify_cert=ssl_ca is not None,  # as VERIFY_CA; the client library's own default does not verify
            # As in MySQL's own clients, a Unix socket is not encrypted unless requested.
            ssl_disabled=self.socket is not None and ssl_ca is None,
            max_allowed_packet=1 << 30,
            init_command=_WHOLE_TABLES,
        )

    def __str__(self) -> str:
        return f"mysql://{self.user}@{self.socket or f'{self.host}:{self.port}'}"

    def __repr__(self) -> str:
        return f"ServerAddress({str(self)!r})"


def message_of(error: Exception) -> str:
    """Return the message of a PyMySQL error, as the server or the client library wrote it."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def connect_remedy(error: Exception, address: ServerAddress) -> str:
    """Return what to do about an error of PyMySQL's where a session could not be opened."""
    number = error.args[0] if error.args else 0
    if number == _DENIED and not address.password:
        # Without a scheme, or what is printed would have it hidden as a secret.
        return "no password was given: give --password-file, set MYSQL_PWD, or write USER:PASSWORD@HOST in the URL"
    if number == _DENIED:
        return "check user and password, and from which hosts the server lets the user in"
    if number == NO_CONNECTION and isinstance(getattr(error, "original_exception", None), socket.gaierror):
        return f"check the host's name, {address.host}: nobody knows it here"
    if number == NO_CONNECTION:
        return "check host and port, that the server runs, and that it listens on this address"
    return "check address, user and password"


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.rsplit(':', 1)[0] if head.count(':') > 1 else head}{at}{tail}"
