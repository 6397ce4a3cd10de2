"""The MariaDB servers of tests are those of `tools/mariadb_server.py`."""

from tools.mariadb_server import MARIADB_MISSING, PREFIX, MariaDbServer, mariadb_available

__all__ = ["MARIADB_MISSING", "PREFIX", "MariaDbServer", "mariadb_available"]
