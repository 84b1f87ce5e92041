#!/usr/bin/env bash
# The benchmarks, in the profile that is shipped; `tests/bench.sh --help` says which. docs/benchmarks.md has figures.
# `tests/bench.sh build` measures what builds cost, and builds nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1-} == build ]]; then
    shift
    exec tests/bench/build.sh "$@"
fi
cargo build -q --profile dist --workspace --bin gitfleet --example apiserver --example bench
# The one that was built: for its package alone, cargo would build libraries again with fewer features.
built=$(realpath "${CARGO_TARGET_DIR:-target}/dist")
GITFLEET_PROGRAM=$built/gitfleet exec "$built/examples/bench" "$@"
