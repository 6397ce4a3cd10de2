#!/bin/bash
# get-schema-changers.sh [PREFIX]: put programs that alter tables while they are written to under PREFIX, by default
# build/clients, for `make check-clients`; get-clients.sh runs it.
#
#   PREFIX/percona-toolkit  pt-online-schema-change, with its Perl   of Debian's unstable suite (debian.sh)
#   PREFIX/gh-ost           gh-ost, of the Go proxy, or made of the checkout that GH_OST_SOURCE names
#   PREFIX/spirit           spirit, made of the checkout that SPIRIT_SOURCE names: the Go proxy has none
#
# What is there already is kept. Needs what debian.sh needs, and Go. Exit: 0 all are there, 1 some could not be had.
set -uo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")/.." && pwd -P)
mkdir -p "${1:-$here/build/clients}"
home=$(cd "${1:-$here/build/clients}" && pwd -P)
gh_ost=v1.1.9
lacking=()

# Perl comes along, since DBD::mysql is made for one version of it.
percona_toolkit() (
  set -e
  name=percona-toolkit
  prefix=$home/percona-toolkit
  program=$prefix/bin/pt-online-schema-change
  if [ -x "$program" ] && "$program" --version >/dev/null 2>&1; then
    echo "get-schema-changers: already there: $prefix" >&2
    exit
  fi
  rm -rf "$prefix"
  mkdir -p "$prefix/bin"
  # shellcheck disable=SC2034  # debian.sh reads them
  wanted=percona-toolkit programs=
  # shellcheck source=tools/debian.sh
  . "$here/tools/debian.sh"
  # shellcheck disable=SC2034
  unneeded='^(gdb|libdebuginfod.*|libipt2|libpython.*|libsource-highlight.*|libdw1.*|libelf1.*|tzdata|fdisk|sensible-utils|debconf|media-types|netbase|procps|libproc2.*|mount|util-linux.*|libcurl4.*|libsystemd0|libc-gconv.*)$'
  root=$prefix/root
  private_apt "$prefix/apt" "${GET_MYSQL_MIRROR:-$(find_mirror)}"
  export APT_CONFIG=$prefix/apt/apt.conf
  download "$prefix/apt"
  unpack "$prefix/apt"
  rm -rf "$prefix/apt"
  libraries=$(find "$root/usr/lib" -maxdepth 1 -name '*-linux-gnu*')
  loader=$(find "$root" -name 'ld-linux*.so.*' | head -n1)
  modules=$(find "$root"/usr/lib/*/perl5/5.* "$root"/usr/lib/*/perl/5.* "$root/usr/share/perl" -maxdepth 0 -type d;
    find "$root"/usr/share/perl/5.* -maxdepth 0; echo "$root/usr/share/perl5"
    find "$root"/usr/lib/*/perl-base -maxdepth 0)
  cat >"$program" <<RUN
#!/bin/sh
# written by tools/get-schema-changers.sh
export PERL5LIB='$(paste -sd: <<<"$modules")' MARIADB_PLUGIN_DIR='$libraries/libmariadb3/plugin'
exec '$loader' --library-path '$libraries' '$root/usr/bin/perl' '$root/usr/bin/pt-online-schema-change' "\$@"
RUN
  chmod +x "$program"
  "$program" --version >&2
)

go_program() { # NAME VERSION PACKAGE SOURCE
  local folder=$home/$1
  if [ -x "$folder/$1" ]; then
    echo "get-schema-changers: already there: $folder" >&2
    return
  fi
  command -v go >/dev/null || {
    echo "get-schema-changers: needs go" >&2
    return 1
  }
  mkdir -p "$folder"
  if [ -n "$4" ]; then
    (cd "$4" && GOTOOLCHAIN=local go build -ldflags "-X main.AppVersion=${2#v}" -o "$folder/$1" "./${3#*/*/*/}") >&2
  else
    GOBIN=$folder GOFLAGS=-modcacherw GOMODCACHE=$folder/store GOTOOLCHAIN=local go install "$3@$2" >&2
  fi
  local done=$?
  rm -rf "$folder/store"
  return $done
}

# The parser of a checkout without large files is made of its grammar.
spirit() {
  local folder=$home/spirit
  if [ -x "$folder/spirit" ]; then
    echo "get-schema-changers: already there: $folder" >&2
    return
  fi
  [ -n "${SPIRIT_SOURCE:-}" ] && command -v go >/dev/null || {
    echo "get-schema-changers: spirit needs go, and SPIRIT_SOURCE, a checkout of github.com/block/spirit" >&2
    return 1
  }
  mkdir -p "$folder"
  (
    cd "$SPIRIT_SOURCE" || exit
    export GOTOOLCHAIN=local
    [ -e pkg/parser/parser.go ] || make -C pkg/parser parser.go || exit
    go build -o "$folder/spirit" ./cmd/spirit
  ) >&2
}

percona_toolkit || lacking+=("pt-online-schema-change (Debian)")
go_program gh-ost $gh_ost github.com/github/gh-ost/go/cmd/gh-ost "${GH_OST_SOURCE:-}" || lacking+=("gh-ost (Go)")
spirit || lacking+=("spirit (SPIRIT_SOURCE)")
for found in ${lacking[@]+"${lacking[@]}"}; do echo "get-schema-changers: could not be had: $found" >&2; done
[ ${#lacking[@]} = 0 ]
