#!/bin/bash
# get-mysql.sh [PREFIX]: put a real MySQL 9.7 (mysqld and its clients) under PREFIX, by default build/mysql.
#
# Only Debian's unstable suite carries MySQL, so the version is the mirror's: today some 9.7, tomorrow perhaps another.
# How it comes, what is needed, settings and exit codes: debian.sh.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")/.." && pwd -P)
name=mysql
prefix=${1:-$here/build/mysql}
wanted="mysql-server-core mysql-client-core"
programs="mysqld mysql mysqladmin mysqlbinlog mysqldump"
# shellcheck source=tools/debian.sh
. "$here/tools/debian.sh"

get_programs
