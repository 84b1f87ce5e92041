#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz; `tests/fuzz.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGETS=(manifests identities commits mirrors commands webhooks comments stores lists signatures renderings owners)
readonly USAGE=64
# Where cargo builds.
readonly folder=${CARGO_TARGET_DIR:-target}

help() {
    cat <<'HELP'
Runs each fuzz target for some time, guided by coverage, from the inputs in tests/fuzz/corpus.

Usage: tests/fuzz.sh [--seconds N | --minutes N | --kept] [TARGET...]

  --seconds N  how long each target runs (default 600)
  --minutes N  the same in minutes
  --kept       only the inputs of tests/fuzz/corpus, once each: needs no other build of these crates
  -h, --help   this text

Ends with 0 when no target found anything. A finding is kept in target/fuzz/<target>/ and its path printed; run it again
with the printed command. Inputs that reached new code are kept in target/fuzz/<target>/found and used next time.

Needs a C++ compiler beside Rust, for libFuzzer; no nightly. Only the crates of this repository are instrumented:
libraries come from the ordinary build.
HELP
}

seconds=600
kept=false
wanted=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        --seconds) seconds=${2:?--seconds needs a number} && shift 2 ;;
        --minutes) seconds=$((${2:?--minutes needs a number} * 60)) && shift 2 ;;
        --kept) kept=true && shift ;;
        -h | --help) help && exit 0 ;;
        -*) printf 'tests/fuzz.sh: unknown option %s\n' "$1" >&2 && exit "$USAGE" ;;
        *) wanted+=("$1") && shift ;;
    esac
done
[[ ${#wanted[@]} -gt 0 ]] || wanted=("${TARGETS[@]}")

# Cargo calls this for packages of the workspace only, and keeps what it builds apart from the ordinary build.
$kept || export RUSTC_WORKSPACE_WRAPPER="$PWD/tests/fuzz/rustc.sh"
cargo build -q --locked --workspace --example fuzz
readonly program="$folder/debug/examples/fuzz"

# Runs one target and writes what it says to its log. Leaks are not looked for: without the sanitizer nobody counts. Slow inputs and big
# ones are findings.
run() {
    local target=$1 own="$folder/fuzz/$1" code=0
    mkdir -p "$own/found"
    local inputs=("$own/found" "tests/fuzz/corpus/$target") stop=-max_total_time="$seconds"
    # Files are run, folders are searched from.
    if $kept; then inputs=("tests/fuzz/corpus/$target"/*) stop=-runs=1; fi
    GITFLEET_FUZZ_TARGET=$target "$program" "${inputs[@]}" "$stop" \
        -artifact_prefix="$own/" -max_len=16384 -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -verbosity=0 -print_funcs=0 >"$own/log" 2>&1 || code=$?
    printf '%s: ended with %d\n' "$target" "$code"
    sed '/^###### Recommended/,/^###### End/d' "$own/log"
    [[ $code -eq 0 ]] || printf 'Run a finding again: GITFLEET_FUZZ_TARGET=%s %s FILE\n' "$target" "$program"
    return "$code"
}
export -f run
export folder seconds kept program

# A program of Rust ignores it from its start on; one that libFuzzer starts would end where a process it talks to does.
trap '' PIPE
# One on each core. `xargs` fails where one of them does, after all have ended.
printf '%s\0' "${wanted[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'run "$1"' run
printf 'test result: ok. %d passed\n' "${#wanted[@]}"
