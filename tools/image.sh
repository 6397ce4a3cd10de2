#!/bin/bash
# image.sh [TAG]: build the image of deploy/Containerfile with buildah, and try it: `binlog-merge --version`, and a merge.
#
# Where no registry can be reached, the base image is made of Debian's packages first: DEBIAN=bookworm tools/image.sh.
# That needs root, buildah and debootstrap: apt-get install buildah debootstrap. DEBIAN_MIRROR names another mirror,
# BUILD_ARGS more options of `buildah build` (volumes, certificates, proxies).
# The steps run under chroot, which needs nothing of the kernel: it works in a container, too.
set -euo pipefail
cd "$(dirname "$0")/.."
TAG=${1:-localhost/binlog-merge}
HOME_OF_BASE=${IMAGE_HOME:-$PWD/build/image}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}

say() { echo "image: $*" >&2; }

for program in buildah ${DEBIAN:+debootstrap}; do
  command -v "$program" >/dev/null || { say "no $program: apt-get install $program"; exit 3; }
done

base=()
if [ -n "${DEBIAN:-}" ]; then
  root=$HOME_OF_BASE/$DEBIAN
  if [ ! -e "$root/.made" ]; then
    say "Debian $DEBIAN in $root"
    rm -rf "$root"; mkdir -p "$root"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$DEBIAN" "$root" ${DEBIAN_MIRROR:-} >&2
    # As in the images of Python: python3 and pip under /usr/local.
    chroot "$root" python3 -m venv /usr/local
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    touch "$root/.made"
  fi
  say "a base image of it"
  made=$(buildah from scratch)
  buildah add --quiet "$made" "$root" / >&2
  buildah config --env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$made"
  buildah commit --quiet --rm "$made" "localhost/binlog-merge-base-$DEBIAN" >&2
  base=(--build-arg "BASE=localhost/binlog-merge-base-$DEBIAN")
fi

say "$TAG"
# shellcheck disable=SC2086 # more options
buildah build "${base[@]}" ${BUILD_ARGS:-} --file deploy/Containerfile --tag "$TAG" . >&2

say "$(buildah images --format '{{.Name}} {{.Size}}' "$TAG")"
tried=$(buildah from "$TAG")
trap 'buildah rm "$tried" >/dev/null' EXIT
buildah run "$tried" -- binlog-merge --version
buildah run "$tried" -- sh -c 'cd /tmp && binlog-merge demo --merged demo >/dev/null && binlog-merge verify demo'
