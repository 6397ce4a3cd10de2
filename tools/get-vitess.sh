#!/bin/bash
# get-vitess.sh [PREFIX]: put the programs of a small Vitess under PREFIX, by default build/clients/vitess, for
# tests/clients/test_vitess.py. They are built of their Go modules: some 500 MB are fetched, and two cores are busy for
# a quarter of an hour, so get-clients.sh does this only with WITH_VITESS=1. Needs Go.
#
# vttablet, vtgate, vtctld, vtctldclient (Vitess) and etcd. What is there already is kept. Exit: 0 all are there.
set -euo pipefail
export LC_ALL=C GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -modcacherw ${GOFLAGS:-}"

here=$(cd "$(dirname "$0")/.." && pwd -P)
mkdir -p "${1:-$here/build/clients/vitess}"
home=$(cd "${1:-$here/build/clients/vitess}" && pwd -P)
vitess=v0.24.4 etcd=v3.6.10
export GOMODCACHE=${GET_VITESS_STORE:-$home/store}

missing=()
for program in vttablet vtgate vtctld vtctldclient; do
  [ -x "$home/$program" ] || missing+=("$program")
done

# `go install PACKAGE@VERSION` refuses modules whose go.mod excludes or replaces others; in its own folder it builds.
if [ ${#missing[@]} -gt 0 ]; then
  folder=$(cd / && go mod download -json "vitess.io/vitess@$vitess" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
  for program in "${missing[@]}"; do
    (cd "$folder" && go build -mod=readonly -ldflags '-s -w' -o "$home/$program" "./go/cmd/$program") >&2
  done
fi
if [ ! -x "$home/etcd" ]; then
  module=$(mktemp -d)
  printf 'module etcd\n\ngo 1.24\n\nrequire go.etcd.io/etcd/server/v3 %s\n' "$etcd" >"$module/go.mod"
  (cd "$module" && go build -mod=mod -ldflags '-s -w' -o "$home/etcd" go.etcd.io/etcd/server/v3) >&2
  rm -rf "$module"
fi
[ -n "${GET_VITESS_STORE:-}" ] || rm -rf "$home/store"
echo "get-vitess: ready: $home" >&2
