#!/bin/bash
# setup.sh: make .venv from uv.lock, and find (or install) Java 17 or newer for Spark.
# Writes build/env.sh, which the Makefile's recipes read. Idempotent. PYTHON=/path/to/python3 chooses another Python.
set -euo pipefail
cd "$(dirname "$0")/.."
UV_VERSION=0.13.8
PYTHON=${PYTHON:-python3}

say() { echo "setup: $*" >&2; }

apt_install() { # the first of these packages that apt knows, where we may
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ -z "${NO_APT:-}" ] || return 1
  local updated= package
  for package in "$@"; do
    if [ -z "$(apt-cache policy "$package" 2>/dev/null | grep 'Candidate: [0-9]')" ] && [ -z "$updated" ]; then
      apt-get -qq update </dev/null >&2 || true; updated=1
    fi
    if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
      say "apt-get install $package"
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" </dev/null >&2 && return 0
    fi
  done
  return 1
}

# --- Python -----------------------------------------------------------------------------------------------------------
good_python() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; }
if ! good_python .venv/bin/python; then
  command -v "$PYTHON" >/dev/null || {
    say "no $PYTHON; install Python 3.11 or newer: apt-get install python3 python3-venv"
    exit 3
  }
  good_python "$PYTHON" || {
    say "$("$PYTHON" --version 2>&1) will not do: Python 3.11, 3.12 or 3.13 is needed"
    say "name another one: make setup PYTHON=/usr/bin/python3.12"
    exit 3
  }
  if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    apt_install "python$version-venv" python3-venv || {
      say "Python's venv module is missing: apt-get install python3-venv"
      exit 3
    }
  fi
  say "new .venv"
  "$PYTHON" -m venv --clear .venv
fi
if ! .venv/bin/uv --version 2>/dev/null | grep -qF "uv $UV_VERSION"; then
  say "uv $UV_VERSION"
  .venv/bin/python -m pip --disable-pip-version-check install -q "uv==$UV_VERSION"
fi
say "packages of uv.lock"
# With bytecode: a shell that sets PYTHONDONTWRITEBYTECODE would compile what it imports at every command.
UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON=.venv/bin/python UV_PYTHON_DOWNLOADS=never \
  .venv/bin/uv sync --frozen --quiet --compile-bytecode

# --- Java -------------------------------------------------------------------------------------------------------------
java_major() { # of the java at $1, or nothing
  "$1" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n1
}
find_java() { # print the home of the first Java that is new enough
  local java major
  for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
    [ -n "$java" ] && [ -x "$java" ] || continue
    major=$(java_major "$java")
    if [ -n "$major" ] && [ "$major" -ge 17 ]; then
      dirname "$(dirname "$(readlink -f "$java")")"
      return 0
    fi
  done
  return 1
}
home=$(find_java) || {
  apt_install openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless || true
  home=$(find_java) || {
    say "Spark needs Java 17 or newer, and none was found (JAVA_HOME, PATH, /usr/lib/jvm)"
    say "install one: apt-get install openjdk-17-jre-headless"
    exit 4
  }
}
mkdir -p build
printf 'export JAVA_HOME=%q\n' "$home" >build/env.sh
say "ready: $(.venv/bin/python --version), Java $(java_major "$home/bin/java") in $home"
