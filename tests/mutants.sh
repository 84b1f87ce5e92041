#!/usr/bin/env bash
# Tries mutants of the code that decides on the seeds of the simulation; `tests/mutants.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Exit codes: too few are noticed, something is missing or wrong, wrong usage.
readonly FAILED=1 BROKEN=2 USAGE=64
# What is to be noticed, in percent.
readonly NOTICED_MIN=95
# What decides, and what of it only shows, keeps or counts.
readonly CRATES=(deliver decide schedule engine)
readonly SHOWN=('src/schedule/explain.rs' 'src/schedule/ocm/explain.rs' 'src/engine/store/**' 'src/engine/measures.rs')
# What is optimised, because seeds compute with it.
readonly FAST=(model source schedule config deliver decide engine wire views plan simulated tests)
# A run that takes so many times as long as one without a mutant, and so many seconds more, does not end.
readonly TIMES_MAX=3 SECONDS_MORE=60
# Kilobytes of memory that a run may have.
readonly MEMORY_MAX=8000000

help() {
    cat <<'HELP'
Draws mutants by lot from the comparisons, guards and joined conditions of the code that decides, as `cargo mutants --list` names them, builds
all of them at once, each behind a switch, and says which of them make a seed of the simulation break a promise, panic or not end. Unit tests
and kept digests do not count; of those that nothing notices it says in how many kept traces they differ.

Usage: tests/mutants.sh [OPTION...] [MUTANT...]

  --count N       so many mutants are drawn (default 64)
  --lot N         the number that the lot depends on (default 1)
  --first N       the first seed (default 0)
  --seeds N       so many seeds are run with each mutant, up to the first that fails (default 600)
  --without N,N   seeds that are left out, because they fail without a mutant
  --test NAME     a test of tests/simulation (default seeds)
  --whole         runs all seeds with each mutant, and says how many fail: where it is one or two of the last hundreds, a mistake may show
                  that is there without the mutant, too, and needs only other luck
  --again         draws and builds nothing: runs what was built last
  -h, --help      this text

Ends with 0 when 95 percent are noticed. Numbers of mutants name those to run. What each run says is in target/mutants/NUMBER.log, what was
drawn in target/mutants/drawn; tests/mutants/survivors.txt says of survivors what is to be done about them. Needs `cargo install cargo-mutants`.
HELP
}

count=64 lot=1 first=0 seeds=600 without='' test=seeds again=false whole=false
wanted=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        --count | --lot | --first | --seeds | --without | --test) declare "${1#--}=${2:?$1 needs a value}" && shift 2 ;;
        --again) again=true && shift ;;
        --whole) whole=true && shift ;;
        -h | --help) help && exit 0 ;;
        -*) printf 'tests/mutants.sh: unknown option %s\n' "$1" >&2 && exit "$USAGE" ;;
        *) wanted+=("$1") && shift ;;
    esac
done

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
readonly target folder=$target/mutants
readonly tree=$folder/tree drawn=$folder/drawn program=$folder/simulation

broken() {
    printf 'tests/mutants.sh: %s\n' "$*" >&2
    exit "$BROKEN"
}

# Copies the tree with what is not committed yet, and changes the copy.
draw() {
    cargo mutants --version >/dev/null 2>&1 || broken 'cargo-mutants is missing; get it with: cargo install cargo-mutants --locked'
    rm -rf "$tree" && mkdir -p "$tree"
    # With new times, or cargo would keep what it built of another lot.
    git ls-files -z --cached --others --exclude-standard --deduplicate \
        | tar --create --null --files-from=- --ignore-failed-read | tar --extract --touch --directory="$tree"
    local listed=()
    for crate in "${CRATES[@]}"; do listed+=(--file "src/$crate/**"); done
    for file in "${SHOWN[@]}"; do listed+=(--exclude "$file"); done
    (cd "$tree" && cargo mutants --list --json --no-config --dir . --workspace "${listed[@]}") >"$folder/list.json"
    cargo build -q --locked --package gitfleet-mutants
    "$target/debug/mutants" "$tree" "$folder/list.json" "$count" "$lot" >"$drawn"
}

build() {
    local fast=()
    for crate in "${FAST[@]}"; do fast+=(--config "profile.dev.package.gitfleet-$crate.opt-level=2"); done
    (cd "$tree" && CARGO_TARGET_DIR=$target CARGO_INCREMENTAL=0 nice cargo test -q --locked --no-run --package gitfleet-tests \
        --test simulation --message-format=json "${fast[@]}") >"$folder/build.json" \
        || broken "the mutants cannot be built: see $folder/build.json"
    local built
    built=$(sed -n 's/.*"executable":"\([^"]*\/simulation-[^"]*\)".*/\1/p' "$folder/build.json")
    [[ -n $built ]] || broken "cargo does not say what it built: see $folder/build.json"
    cp "$built" "$program"
}

# Runs the seeds with a mutant, for so many seconds at most.
run() (
    ulimit -v "$MEMORY_MAX"
    cd "$tree/tests"
    $whole || export GITFLEET_SEEDS_STOP=$without
    GITFLEET_MUTANT=$1 GITFLEET_SEED_FIRST=$first GITFLEET_SEEDS=$seeds RUST_BACKTRACE=0 \
        nice timeout "$2" "$program" --exact "$test" --nocapture >"$folder/$1.log" 2>&1
)

# Says what noticed a mutant; fails where nothing did.
noticed() {
    local code=$1 log=$2
    if grep -Eq '^[0-9]+ of [0-9]+ seeds fail' "$log"; then
        sed -En '/^[0-9]+ of [0-9]+ seeds fail/{s/:$//;N;s/\n([0-9]+): /, seed \1, /;p;q}' "$log"
    elif [[ $code -eq 124 ]]; then
        printf 'does not end\n'
    elif [[ $code -ne 0 ]] && ! grep -Eq 'seeds have another trace|the seeds show little' "$log"; then
        printf 'ends with %d\n' "$code"
    else
        return 1
    fi
}

$again || { draw && build; }
[[ -x $program && -s $drawn ]] || broken 'nothing was built yet'
[[ ${#wanted[@]} -gt 0 ]] || mapfile -t wanted < <(cut -f 1 "$drawn")

begun=$SECONDS
run 0 3600 || ! noticed "$?" "$folder/0.log" || broken "seeds fail without a mutant: see $folder/0.log"
readonly limit=$(((SECONDS - begun) * TIMES_MAX + SECONDS_MORE))
printf 'without a mutant: %d seconds\n' "$((SECONDS - begun))"

survivors=0
for number in "${wanted[@]}"; do
    line=$(grep -P "^$number\t" "$drawn") || broken "no mutant has the number $number"
    code=0 begun=$SECONDS
    run "$number" "$limit" || code=$?
    if by=$(noticed "$code" "$folder/$number.log"); then
        printf 'noticed\t%s\t%d s\t%s\n' "$line" "$((SECONDS - begun))" "$by"
    else
        IFS=$'\t' read -r _ place function change <<<"$line"
        # What is known of it is kept by file, function and change.
        known=$(grep -F "${place%%:*}"$'\t'"$function"$'\t'"$change"$'\t' tests/mutants/survivors.txt | cut -f 4 | head -n 1 || true)
        differing=$(sed -En 's/^([0-9]+ of [0-9]+ seeds) have another trace.*/\1/p' "$folder/$number.log")
        printf 'SURVIVES\t%s\t%d s\tother traces: %s\t%s\n' "$line" "$((SECONDS - begun))" "${differing:-none}" \
            "${known:-NOT JUDGED}"
        survivors=$((survivors + 1))
    fi
done
all=${#wanted[@]}
printf '%d of %d mutants are noticed\n' "$((all - survivors))" "$all"
[[ $(((all - survivors) * 100)) -ge $((all * NOTICED_MIN)) ]] || exit "$FAILED"
