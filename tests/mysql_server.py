"""The servers of tests are those of `tools/mysql_server.py`."""

from tools.mysql_server import MYSQL_MISSING, PREFIX, ROOT, MySqlServer, mysql_available, mysql_version, mysqlbinlog

__all__ = ["MYSQL_MISSING", "PREFIX", "ROOT", "MySqlServer", "mysql_available", "mysql_version", "mysqlbinlog"]
