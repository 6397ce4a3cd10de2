#!/bin/bash
# get-browser.sh [PREFIX]: what `make check-report` opens pages with, by default under build/browser.
#
#   chromium              that of the PATH or of $CHROMIUM; else Debian's package, where apt-get may install it (root)
#   PREFIX/node_modules   playwright-core, which drives it: version and hash in browser/package-lock.json
#
# Needs Node.js 20 and npm. Exit: 0 both are there, 1 one could not be had: it is named.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")/.." && pwd -P)
mkdir -p "${1:-$here/build/browser}"
home=$(cd "${1:-$here/build/browser}" && pwd -P)

say() { echo "get-browser: $*" >&2; }

if ! command -v "${CHROMIUM:-chromium}" >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "no Chromium: install it (apt-get install chromium), or say where it is: CHROMIUM=/path/to/chromium"
    exit 1
  fi
  say "apt-get install chromium"
  apt-get -qq update </dev/null >&2 || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium </dev/null >&2
fi
if ! command -v npm >/dev/null; then
  say "needs Node.js and npm"
  exit 1
fi
if ! cmp -s "$here/tools/browser/package-lock.json" "$home/.done"; then
  cp "$here"/tools/browser/package.json "$here"/tools/browser/package-lock.json "$home"
  npm --prefix "$home" ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  cp "$here/tools/browser/package-lock.json" "$home/.done"
fi
say "ready: $home"
