# debian.sh: programs of Debian packages under a prefix of their own; sourced by the scripts get-*.sh.
#
# Nothing outside the prefix is touched and no root is needed:
#   * packages come through apt's own machinery (signed index, hash-checked .debs) with a private apt state directory;
#     the mirror is read at run time from this machine's apt configuration, or from $GET_MYSQL_MIRROR;
#   * packages are unpacked with dpkg -x, so no maintainer script runs, and there is no chroot;
#   * PREFIX/bin/* are wrappers that start each program with the unpacked ld.so and the unpacked libraries.
# A finished prefix is checked and kept, so running this twice costs nothing. Do not move it: the wrappers hold its path.
#
# Needs apt-get, dpkg, gpgv and debian-archive-keyring. Settings: GET_MYSQL_MIRROR, GET_MYSQL_SUITE, GET_MYSQL_KEYRING.
# Exit: 3 a tool is missing, 4 no mirror known, 5 no keyring, 6 package not found, 7 program not found, 8 a program does not start.
#
# Who sources it says: name (in messages), prefix, wanted (packages), programs, the first of them telling the version.

suite=${GET_MYSQL_SUITE:-sid}
keyring=${GET_MYSQL_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}

say() { echo "$name: $*" >&2; }
die() { local code=$1; shift; say "$*"; exit "$code"; }

# Every program answers --version through its wrapper.
check() {
  local program said
  for program in $programs; do
    said=$(version_of "$program" 2>&1) || { say "$program: $said"; return 1; }
  done
}

# MySQL's programs read no option files; others take --version alone.
version_of() {
  "$prefix/bin/$1" --no-defaults --version 2>/dev/null || "$prefix/bin/$1" --version
}

# The first Debian mirror of this machine's apt configuration; empty where there is none (an Ubuntu host, for one).
find_mirror() {
  local found
  # apt-get itself replaces $(REPO_URI) and its kin.
  # shellcheck disable=SC2016
  found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk '$1 !~ /security/ && $1 ~ /debian\/?$/ {print $1; exit}')
  if [ -z "$found" ]; then
    found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
      grep -Ev '^[[:space:]]*#' | grep -Eo '(https?|file|copy|mirror(\+[a-z]+)?):[^ ]+' |
      grep -v security | grep -E 'debian/?$' | head -n1 || true)
  fi
  echo "$found"
}

# A private apt with an empty dpkg status: the resolver then names the whole closure, libc6 included.
private_apt() {
  local apt=$1 mirror=$2 architecture host_options
  architecture=$(dpkg --print-architecture)
  host_options=$(apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|Check-|Retries)' | grep -v '""' || true)
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/none.d,debs}
  : >"$apt/state/status"
  cat >"$apt/apt.conf" <<CONF
Dir::State "$apt/state"; Dir::State::status "$apt/state/status"; Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/etc/sources.list"; Dir::Etc::sourceparts "$apt/etc/none.d";
Dir::Etc::preferences "$apt/etc/none"; Dir::Etc::preferencesparts "$apt/etc/none.d";
APT::Architecture "$architecture"; APT::Architectures { "$architecture"; };
APT::Install-Recommends "false"; APT::Sandbox::User "";
Acquire::Languages "none"; Acquire::Retries "3"; Acquire::PDiffs "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false"; Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
$host_options
CONF
  echo "deb [signed-by=$keyring] $mirror $suite main" >"$apt/etc/sources.list"
}

# What only maintainer scripts and Perl tools want is left out: it would double the size.
unneeded='^(perl|perl-base|libperl.*|perl-modules.*|lib.*-perl|libgdbm.*|libdb5.*|debconf|debianutils|dpkg|tar|bash|coreutils'
unneeded+='|sed|grep|gawk|mawk|rsync|socat|lsof|psmisc|procps|passwd|adduser|login.*|init-system-helpers|sysvinit.*'
unneeded+='|libc-gconv.*|base-passwd|mount|util-linux.*|udev|systemd.*)$'

download() {
  local apt=$1 packages package
  say "index of $suite"
  apt-get -qq update
  # shellcheck disable=SC2086
  packages=$(apt-get install -y -s -o Debug::NoLocking=1 $wanted | awk '$1=="Inst"{print $2}' | grep -Ev "$unneeded" || true)
  for package in $wanted; do
    grep -qx "$package" <<<"$packages" || die 6 "$package is not to be had from $suite"
  done
  say "download of $(wc -l <<<"$packages") packages"
  # shellcheck disable=SC2086
  (cd "$apt/debs" && rm -f ./*.deb && apt-get -qq download $packages)
}

unpack() {
  local apt=$1 package
  rm -rf "$root"
  mkdir -p "$root" "$prefix/bin"
  for package in "$apt"/debs/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$root"/usr/share/{doc,man,locale,info,lintian}
}

wrap() {
  local loader libraries program file directory
  loader=$(find "$root" -name 'ld-linux*.so.*' -not -type l | head -n1)
  [ -n "$loader" ] || loader=$(readlink -f "$(find "$root" -name 'ld-linux*.so.*' | head -n1)")
  libraries=$(for directory in "$root"/lib/*-linux-gnu* "$root"/usr/lib/*-linux-gnu*; do
    [ ! -d "$directory" ] || echo "$directory"
  done | paste -sd:)
  for program in $programs; do
    file=
    for directory in usr/sbin usr/bin; do
      if [ -z "$file" ] && [ -e "$root/$directory/$program" ]; then file=$root/$directory/$program; fi
    done
    [ -n "$file" ] || die 7 "no $program in the packages"
    {
      echo '#!/bin/sh'
      echo '# written by tools/debian.sh'
      if "$loader" --verify "$file"; then
        echo "exec '$loader' --library-path '$libraries' --argv0 '$file' '$file' \"\$@\""
      else # it is linked statically
        echo "exec '$file' \"\$@\""
      fi
    } >"$prefix/bin/$program"
    chmod +x "$prefix/bin/$program"
  done
}

# Bring all of that to the prefix, unless it is there.
get_programs() {
  local tool mirror
  mkdir -p "$prefix"
  prefix=$(cd "$prefix" && pwd -P)
  root=$prefix/root
  stamp=$prefix/.done-$name
  if [ -f "$stamp" ] && check 2>/dev/null; then
    say "already there: $(cat "$stamp")"
    return
  fi
  for tool in apt-get apt-cache dpkg; do command -v "$tool" >/dev/null || die 3 "needs $tool"; done
  mirror=${GET_MYSQL_MIRROR:-$(find_mirror)}
  [ -n "$mirror" ] || die 4 "no Debian mirror in this machine's apt configuration; set GET_MYSQL_MIRROR"
  [ -r "$keyring" ] || die 5 "no $keyring; install debian-archive-keyring or set GET_MYSQL_KEYRING"

  private_apt "$prefix/apt" "$mirror"
  export APT_CONFIG=$prefix/apt/apt.conf
  download "$prefix/apt"
  unset APT_CONFIG
  unpack "$prefix/apt"
  wrap
  check || die 8 "a program does not start"
  version_of "${programs%% *}" | head -n1 >"$stamp"
  [ -n "${GET_MYSQL_KEEP:-}" ] || rm -rf "$prefix/apt"
  say "ready: $(cat "$stamp") ($(du -sh "$prefix" | cut -f1))"
}
