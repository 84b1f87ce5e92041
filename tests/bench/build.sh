#!/usr/bin/env bash
# What builds cost: processor time, clock, and the memory of the largest compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly USAGE=64

help() {
    cat <<'HELP'
Builds as people do, each from an empty cargo home and an empty target folder, and prints processor time, clock and the memory of the
largest compiler. Then changes a function in each crate that decides, and in the crate of the command line, and runs one test of it.

Usage: tests/bench.sh build [demo | release | decide | edits]...

Without a name all of them. Needs GNU time (Debian's package time), and the package registry. Downloads are not measured: they come first.
HELP
}

for wanted in "$@"; do
    case $wanted in
        -h | --help) help && exit 0 ;;
        demo | release | decide | edits) ;;
        *) help >&2 && exit "$USAGE" ;;
    esac
done
[[ $# -gt 0 ]] || set -- demo release decide edits

if ! command -v /usr/bin/time >/dev/null; then
    echo 'tests/bench.sh build: GNU time is missing; install the package time' >&2
    exit 2
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/gitfleet-build.XXXXXX")
edited=
# A file that is being changed is put back, whatever ends this.
restore() {
    [[ -z $edited ]] || cp "$folder/original" "$edited"
    edited=
}
trap 'restore; rm -rf "$folder"' EXIT

# Runs a command, and prints one line about it.
measure() {
    local name=$1
    shift
    /usr/bin/time -o "$folder/time" -f '%U %S %e %M' "$@" >"$folder/log" 2>&1 || { cat "$folder/log" && exit 1; }
    awk -v name="$name" '{ printf "%-34s %6.0f s of processor  %6.0f s of clock  %5.2f GB the largest process\n", name, $1 + $2, $3, $4 / 1e6 }' \
        "$folder/time"
}

# An empty cargo home with the packages, and an empty target folder.
empty() {
    rm -rf "$folder/home" "$folder/target"
    export CARGO_HOME=$folder/home CARGO_TARGET_DIR=$folder/target
    # What the person's cargo is told about registries is about this machine, not about builds.
    local own=${HOME}/.cargo/config.toml
    mkdir -p "$CARGO_HOME"
    [[ ! -e $own ]] || cp "$own" "$CARGO_HOME/"
    cargo fetch -q --locked
}

# The crates that decide, then that of the command line; with a file of each, and one of its tests.
readonly EDITS="
gitfleet-model src/model/text.rs text
gitfleet-source src/source/paths.rs paths
gitfleet-schedule src/schedule/filter.rs filter
gitfleet-deliver src/deliver/waves.rs waves
gitfleet-decide src/decide/works.rs works
gitfleet-engine src/engine/queue.rs queue
gitfleet-wire src/wire/frame.rs tests
gitfleet-views src/views/rows.rs rows
gitfleet-plan src/plan/needs.rs needs
gitfleet src/gitfleet/exit.rs exit
"

# Changes the body of a function: a statement that does nothing at the begin of the first one with a body of several lines.
edit() {
    awk '!done && /^ *(pub(\([a-z]+\))? )?fn .*\{$/ { print; print "    std::hint::black_box(());"; done = 1; next } { print }' "$1" >"$folder/edited"
    cp "$1" "$folder/original"
    edited=$1
    cp "$folder/edited" "$1"
}

for wanted in "$@"; do
    case $wanted in
        demo)
            empty
            measure "cargo demo, until it can start" cargo build -q --locked --package gitfleet --profile quick --no-default-features
            ;;
        release)
            empty
            measure "cargo build --release" cargo build -q --locked --release
            ;;
        decide)
            empty
            measure "cargo test -p gitfleet-decide" cargo test -q --locked -p gitfleet-decide
            ;;
        edits)
            unset CARGO_HOME
            export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
            while read -r package file name; do
                [[ -n $package ]] || continue
                cargo test -q --locked -p "$package" --lib "$name" >/dev/null
                edit "$file"
                measure "$package, after a change" cargo test -q --locked -p "$package" --lib "$name"
                restore
            done <<<"$EDITS"
            ;;
    esac
done
