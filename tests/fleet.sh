#!/usr/bin/env bash
# The test fleet by hand; `tests/fleet.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# It builds the daemon and the agent itself where `up --replicas` or `up --agents` start them.
exec cargo run -q --package gitfleet-tests --example fleet -- "$@"
