#!/usr/bin/env bash
# The test fleet by hand; `tests/fleet.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec cargo run -q --example fleet -- "$@"
