#!/bin/bash
# get-mariadb.sh [PREFIX]: put a real MariaDB 10.11 (mariadbd and its clients) under PREFIX, by default build/mariadb.
#
# The same as get-mysql.sh in all else: nothing is installed, and a finished PREFIX is kept. MariaDB is in Debian's stable
# suites; bookworm has 10.11, trixie 11.8. Settings: GET_MARIADB_SUITE, GET_MYSQL_MIRROR, GET_MYSQL_KEYRING.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd -P)
export GET_SERVER_NAME=mariadb
export GET_SERVER_PACKAGES="mariadb-server-core mariadb-client-core mariadb-client mariadb-server"
export GET_SERVER_PROGRAMS="mariadbd mariadb mariadb-admin mariadb-binlog"
export GET_MYSQL_SUITE=${GET_MARIADB_SUITE:-bookworm}
exec "$here/tools/get-mysql.sh" "${1:-$here/build/mariadb}"
