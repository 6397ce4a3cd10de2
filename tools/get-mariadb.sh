#!/bin/bash
# get-mariadb.sh [PREFIX]: put a real MariaDB (mariadbd and its clients) under PREFIX, by default build/mariadb.
#
# Debian's bookworm has 10.11, trixie 11.8: GET_MARIADB_SUITE says which. How it comes, what is needed, other settings and
# exit codes: debian.sh.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")/.." && pwd -P)
name=mariadb
prefix=${1:-$here/build/mariadb}
wanted="mariadb-server-core mariadb-client-core mariadb-client mariadb-server"
programs="mariadbd mariadb mariadb-admin mariadb-binlog"
GET_MYSQL_SUITE=${GET_MARIADB_SUITE:-bookworm}
# shellcheck source=tools/debian.sh
. "$here/tools/debian.sh"

get_programs
