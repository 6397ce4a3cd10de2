#!/bin/bash
# get-prometheus.sh [PREFIX]: put Prometheus' promtool under PREFIX, by default build/prometheus: it tests alerting rules.
#
# How it comes, what is needed, settings and exit codes: debian.sh.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")/.." && pwd -P)
name=prometheus
prefix=${1:-$here/build/prometheus}
wanted="prometheus"
programs="promtool"
# shellcheck source=tools/debian.sh
. "$here/tools/debian.sh"

get_programs
