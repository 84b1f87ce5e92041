#!/usr/bin/env bash
# Passes every check of this repository, on a fresh machine too. `tests/run.sh --help` says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Exit codes: a check failed, something is missing on this machine, wrong usage.
readonly FAILED=1 MISSING=2 USAGE=64
# Go fetches the version a module asks for by itself from this one on.
readonly GO_MINOR_MIN=21
# Playwright runs with this one or a newer one; the system's package may be older, npm's `node` has NODE_INSTALLED.
readonly NODE_MIN=20 NODE_INSTALLED=22

help() {
    cat <<'HELP'
Runs the checks that a change is made with: format, build, unit tests, the command line, deliveries to doubles of API servers, simulation, the
rules of the code, kept inputs of the fuzz targets, documentation. With --full everything: lints, the deliveries on real API servers, a Gitea,
PostgreSQL, an OCI registry, the page in a browser.

Usage: tests/run.sh [--full]

  --full      also what needs test servers, a browser or other programs
  -h, --help  this text

A check that passes prints one line with its time; one that fails prints all it said and ends the run.
Needs git, make, a C compiler and Rust; with --full a C++ compiler, ssh, gpg, openssl, Go, Chromium, Node, npm and PostgreSQL too. What it
builds goes to target/, to tests/page/node_modules and to the cache that tests/testservers/fleet/README.md describes; nothing is installed,
except the system's packages among these where they are missing and this runs as root on Debian. GITFLEET_CHROMIUM names a browser at
another place than /usr/bin/chromium.
HELP
}

say() { printf '%s\n' "$*"; }

missing() {
    printf 'tests/run.sh: %s\n' "$*" >&2
    exit "$MISSING"
}

full=false
for argument in "$@"; do
    case "$argument" in
        --full) full=true ;;
        -h | --help) help && exit 0 ;;
        *) printf 'tests/run.sh: unknown option %s; see tests/run.sh --help\n' "$argument" >&2 && exit "$USAGE" ;;
    esac
done

# The system's tools. They are in every distribution, so root on Debian gets them here; others are told.
system_tools() {
    local packages=()
    command -v git >/dev/null || packages+=(git)
    command -v cc >/dev/null && command -v make >/dev/null || packages+=(build-essential)
    if $full; then
        command -v c++ >/dev/null || packages+=(g++)
        command -v ssh-keygen >/dev/null || packages+=(openssh-client)
        [[ -x /usr/sbin/sshd ]] || packages+=(openssh-server)
        command -v gpg >/dev/null && command -v gpg-agent >/dev/null || packages+=(gnupg)
        command -v openssl >/dev/null || packages+=(openssl)
        [[ -x ${GITFLEET_CHROMIUM:-/usr/bin/chromium} ]] || packages+=(chromium fonts-dejavu-core)
        command -v npm >/dev/null || packages+=(npm)
        compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || packages+=(postgresql)
    fi
    [[ ${#packages[@]} -eq 0 ]] && return
    if [[ $(id -u) -eq 0 && -e /etc/debian_version ]]; then
        part "install ${packages[*]}" install "${packages[@]}"
    else
        missing "please install what is missing: sudo apt-get install -y ${packages[*]} (Debian, Ubuntu)"
    fi
}

install() {
    if [[ " $* " == *" postgresql "* ]]; then
        # The tests make servers of their own: the package shall neither make nor start one.
        mkdir -p /etc/postgresql-common
        [[ -e /etc/postgresql-common/createcluster.conf ]] \
            || printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.conf
    fi
    if [[ " $* " == *" openssh-server "* && ! -e /usr/sbin/policy-rc.d ]]; then
        # The tests start sshd themselves: the package shall start no service.
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    # rustup's default folder is on the PATH of login shells only.
    command -v cargo >/dev/null || export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    command -v cargo >/dev/null || missing "Rust $wanted or newer is missing; https://rustup.rs says how to get it"
    found=$(rustc --version | cut -d ' ' -f 2)
    if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
        missing "Rust $wanted or newer is needed, this is $found; get it with: rustup update stable"
    fi
    cargo fmt --version >/dev/null 2>&1 || missing "rustfmt is missing; get it with: rustup component add rustfmt"
    ! $full || cargo clippy --version >/dev/null 2>&1 || missing "clippy is missing; get it with: rustup component add clippy"
}

go_tools() {
    local found
    command -v go >/dev/null || export PATH="/usr/local/go/bin:$PATH"
    if ! command -v go >/dev/null; then
        # Servers that were built before need no Go.
        local cache=${GITFLEET_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gitfleet-tests}
        [[ -d $cache ]] && return
        missing "Go 1.26 or newer is missing: it builds the test servers. https://go.dev/dl has it; or run without --full"
    fi
    found=$(go env GOVERSION)
    if [[ $found =~ ^go1\.([0-9]+) && ${BASH_REMATCH[1]} -lt $GO_MINOR_MIN ]]; then
        missing "Go 1.26 or newer is needed, this is $found. https://go.dev/dl has it; or run without --full"
    fi
}

# Where npm finds the Node that it belongs to.
readonly NPM_PATH=$PATH

# Node for the tests of the page. npm's package brings the program where the system's is too old.
node_tools() {
    local found folder=$PWD/target/page-node
    found=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/' || true)
    [[ ${found:-0} -ge $NODE_MIN ]] && return
    part "install node $NODE_INSTALLED" npm install --no-save --prefix "$folder" "node@$NODE_INSTALLED"
    export PATH="$folder/node_modules/node/bin:$PATH"
    found=$(node --version 2>/dev/null || true)
    [[ $found == "v$NODE_INSTALLED."* ]] || missing "Node $NODE_MIN or newer is missing, and npm's package node did not bring it"
}

# The page in a browser: types of its script, then the script alone and the pages of a real daemon.
page_tests() {
    # The browser is the system's. A chain, because set -e does not end a function that is part of a condition.
    export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1
    cd tests/page && PATH=$NPM_PATH npm ci && node_modules/.bin/tsc -p . && node_modules/.bin/playwright test
}

# Where cargo builds, from every folder.
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
readonly built
export built

# All that the parts run, at once: alone, the largest of them keeps one core busy for minutes. Every part that follows asks for the whole
# workspace too: for a part of it, cargo would build libraries again with fewer features. The program of the fleet builds the servers.
build() { cargo build -q --locked --workspace --lib --bins --tests --example fleet --example fuzz; }

# The second time as `cargo demo` builds it.
lints() {
    cargo clippy -q --locked --workspace --all-targets -- -D warnings \
        && cargo clippy -q --locked --package gitfleet --no-default-features -- -D warnings
}

# Not by `cargo run`, which waits until no other cargo works in the target folder.
test_servers() { "$built/examples/fleet" build; }

# Both at a time: each alone leaves cores idle, while one crate is checked or one server is linked.
lints_and_test_servers() {
    export -f lints test_servers
    printf '%s\n' lints test_servers | xargs -n 1 -P 2 bash -c '"$1"' lints_and_test_servers
}

log=$(mktemp "${TMPDIR:-/tmp}/gitfleet-tests.XXXXXX")
trap 'rm -f "$log"' EXIT

passed=0
# How cargo and Playwright say how many tests passed.
readonly PASSED='s/^test result: ok\. \([0-9]*\) passed.*/\1/p; s/^ *\([0-9]*\) passed (.*/\1/p'

# Runs one part: one line if it passes, everything it said if it does not.
part() {
    local name=$1 start=$SECONDS code=0
    shift
    printf '%-44s' "$name"
    ("$@") </dev/null >"$log" 2>&1 || code=$?
    if [[ $code -eq 0 ]]; then
        passed=$((passed + $(sed -n "$PASSED" "$log" | paste -sd+ | sed 's/^$/0/')))
        printf ' ok      %4d s\n' "$((SECONDS - start))"
        return
    fi
    printf ' FAILED  %4d s\n\n' "$((SECONDS - start))"
    cat "$log"
    printf '\ntests/run.sh: %s failed with exit code %d after %d s: %s\n' "$name" "$code" "$SECONDS" "$*" >&2
    exit "$FAILED"
}

# Tests that say which program they need beside git are for --full.
ignored=()
if $full; then ignored=(--include-ignored); fi

# Snapshots are reviewed by people: a run here never writes any.
export INSTA_UPDATE=no CARGO_TERM_PROGRESS_WHEN=never
if [[ -t 1 ]]; then export CARGO_TERM_COLOR=always; fi
# Half as many tests at a time again as there are cores: many wait for servers and limits of time.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((($(nproc) * 3 + 1) / 2))}

system_tools
rust
if $full; then
    go_tools
    node_tools
fi

part "format" cargo fmt --check
part "build" build
# Tests, the page's too, run this one and build none.
export GITFLEET_PROGRAM=$built/gitfleet
if $full; then part "lints and test servers" lints_and_test_servers; fi
part "unit tests" cargo test --locked --workspace --lib -- "${ignored[@]}"
part "the command line" cargo test --locked --workspace --test it -- "${ignored[@]}" cli:: scenarios::
if $full; then
    part "members and end to end" cargo test --locked --workspace --test it -- "${ignored[@]}" members:: e2e::
    for servers in postgres artifacts; do
        part "$servers" cargo test --locked --workspace --test it -- "${ignored[@]}" "$servers::"
    done
fi
part "members, by doubles" env GITFLEET_FLEET_PROVIDER=doubles cargo test --locked --workspace --test it -- members::
part "simulation" cargo test --locked --workspace --test simulation
part "rules of the code" cargo test --locked --workspace --test tidy
if $full; then part "page in a browser" page_tests; fi
part "fuzz targets, inputs that are kept" tests/fuzz.sh --kept
part "documentation" env RUSTDOCFLAGS=-Dwarnings cargo doc -q --locked --workspace --no-deps

say "everything passed in $SECONDS s"
say "$passed passed, 0 failed"
