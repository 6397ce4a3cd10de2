"""What `capture` uses of its two libraries that is not their public interface; pyproject.toml bounds their versions."""

from importlib.metadata import version
from typing import Any, Final

from binlog_merge.errors import ConfigError

_OF_CONNECTION: Final = ("_sock", "_rfile", "_force_close")
_OF_READER: Final = ("_BinLogStreamReader__connect_to_stream",)


def check_libraries() -> None:
    """Raise ConfigError if PyMySQL or mysql-replication is a version without the private names that are used."""
    from pymysql.connections import Connection
    from pymysqlreplication import BinLogStreamReader

    _check("PyMySQL", Connection, _OF_CONNECTION, "PyMySQL[rsa]>=1.2,<2")
    _check("mysql-replication", BinLogStreamReader, _OF_READER, "mysql-replication>=1.0.17,<1.1")


def _check(package: str, owner: Any, names: tuple[str, ...], wanted: str) -> None:
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        raise ConfigError(
            f"{package} {version(package)} has no {owner.__name__}.{missing[0]}, by which a node's log is read",
            remedy=f"pip install '{wanted}'",
        )
