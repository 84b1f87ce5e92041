#!/usr/bin/env bash
# The benchmarks, as a release build; `tests/bench.sh --help` says which. docs/benchmarks.md has figures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build -q --release --workspace --bin gitfleet --example apiserver --example bench
exec "${CARGO_TARGET_DIR:-target}/release/examples/bench" "$@"
