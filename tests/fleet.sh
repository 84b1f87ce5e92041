#!/usr/bin/env bash
# The test fleet by hand; `tests/fleet.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The daemon too: `up --replicas` starts it.
if [[ " $* " == *" --replicas "* ]]; then cargo build -q; fi
exec cargo run -q --example fleet -- "$@"
