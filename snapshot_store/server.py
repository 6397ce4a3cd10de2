"""Where a MySQL server is, and how to reach it.

PyMySQL is imported when a server is first spoken to; nothing else in this package needs it.
"""

import os
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

CONNECTION_LOST: Final = frozenset({1053, 1152, 1153, 1184, 2003, 2006, 2013, 2055, 3169, 4031})
"""Errors of a connection that is gone: https://dev.mysql.com/doc/mysql-errors/en/."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is and who asks; the password stays out of what is printed."""

    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "root"
    password: str = ""
    socket: str | None = None

    @classmethod
    def parse(cls, url: str, password: str | None = None) -> "ServerAddress":
        """Read mysql://user@host:3306 or mysql://user@localhost/?socket=/run/mysqld/mysqld.sock; raises ValueError.

        The password is the one given, else that of the URL, else MYSQL_PWD of the environment.
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
        """Return a session in autocommit mode; `ssl_ca`: encrypted, with a server that this CA vouches for.

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
            ssl_verify_cert=ssl_ca is not None,  # as VERIFY_CA: the client library's own default is not
            # As MySQL's own clients: a socket of this machine needs no encryption, unless it is asked for.
            ssl_disabled=self.socket is not None and ssl_ca is None,
            max_allowed_packet=1 << 30,
        )

    def __str__(self) -> str:
        return f"mysql://{self.user}@{self.socket or f'{self.host}:{self.port}'}"

    def __repr__(self) -> str:
        return f"ServerAddress({str(self)!r})"


def message_of(error: Exception) -> str:
    """Return the message of an error of PyMySQL: what the server, or the client library, says."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.rsplit(':', 1)[0] if head.count(':') > 1 else head}{at}{tail}"
