#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz; `tests/fuzz.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGETS=(manifests identities commits mirrors commands webhooks comments stores lists)
readonly USAGE=64
# Where cargo builds.
readonly folder=${CARGO_TARGET_DIR:-target}

help() {
    cat <<'HELP'
Runs each fuzz target for some time, guided by coverage, from the inputs in tests/fuzz/corpus.

Usage: tests/fuzz.sh [--seconds N | --minutes N] [TARGET...]

  --seconds N  how long each target runs (default 600)
  --minutes N  the same in minutes
  -h, --help   this text

Ends with 0 when no target found anything. A finding is kept in target/fuzz/<target>/ and its path printed; run it again
with the printed command. Inputs that reached new code are kept in target/fuzz/<target>/found and used next time.

Needs a C++ compiler beside Rust, for libFuzzer; no nightly. Only this package is instrumented: libraries come from the
ordinary build.
HELP
}

seconds=600
wanted=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        --seconds) seconds=${2:?--seconds needs a number} && shift 2 ;;
        --minutes) seconds=$((${2:?--minutes needs a number} * 60)) && shift 2 ;;
        -h | --help) help && exit 0 ;;
        -*) printf 'tests/fuzz.sh: unknown option %s\n' "$1" >&2 && exit "$USAGE" ;;
        *) wanted+=("$1") && shift ;;
    esac
done
[[ ${#wanted[@]} -gt 0 ]] || wanted=("${TARGETS[@]}")

# Cargo calls this for packages of the workspace only, and keeps what it builds apart from the ordinary build.
export RUSTC_WORKSPACE_WRAPPER="$PWD/tests/fuzz/rustc.sh"
examples=()
for target in "${wanted[@]}"; do examples+=(--example "fuzz-$target"); done
cargo build -q --locked "${examples[@]}"

# A program of Rust ignores it from its start on; one that libFuzzer starts would end where a process it talks to does.
trap '' PIPE
for target in "${wanted[@]}"; do
    own="$folder/fuzz/$target"
    mkdir -p "$own/found"
    # Leaks are not looked for: without the sanitizer nobody counts. Slow inputs and big ones are findings.
    "$folder/debug/examples/fuzz-$target" "$own/found" "tests/fuzz/corpus/$target" \
        -max_total_time="$seconds" -artifact_prefix="$own/" -max_len=16384 -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -verbosity=0 -print_funcs=0 2>&1 |
        sed '/^###### Recommended/,/^###### End/d'
done
printf 'test result: ok. %d passed; %s s each\n' "${#wanted[@]}" "$seconds"
