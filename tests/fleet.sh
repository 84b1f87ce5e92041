#!/usr/bin/env bash
# The test fleet by hand; `tests/fleet.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The daemon and the agent too: `up --replicas` and `up --agents` start them.
if [[ " $* " == *" --replicas "* || " $* " == *" --agents "* ]]; then cargo build -q; fi
exec cargo run -q --example fleet -- "$@"
