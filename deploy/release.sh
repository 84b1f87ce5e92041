#!/usr/bin/env bash
# Builds the archive of a release for this machine's architecture, with its checksum and the list of the packages in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly USAGE=64 REFUSED=1
# The oldest glibc that a released program starts on: RHEL 8. The newest that it asks for is read from its symbols.
readonly GLIBC_MAX=${GITFLEET_GLIBC_MAX:-2.28}
# Bytes of the program. Larger: look what came in, with `cargo tree` and `cargo bloat`, before this is raised.
readonly PROGRAM_BYTES_MAX=66000000

help() {
    cat <<'HELP'
Builds the program as it is shipped and puts it into a folder: gitfleet-VERSION-ARCH-linux.tar.gz with the program, licences, manual pages and
completions; its .sha256; and the same name with .packages.json, which lists every package that is built in with version, licence and source.

Usage: deploy/release.sh FOLDER

Needs Rust, git, jq and objdump. Fails where the program needs a newer glibc than 2.28; GITFLEET_GLIBC_MAX names another limit.
HELP
}

case "${1-}" in
    -h | --help) help && exit 0 ;;
    "" | -*) help >&2 && exit "$USAGE" ;;
esac
folder=$1

refuse() {
    printf 'deploy/release.sh: %s\n' "$*" >&2
    exit "$REFUSED"
}

GITFLEET_COMMIT=$(git rev-parse HEAD) cargo build --profile dist --locked --package gitfleet
program=${CARGO_TARGET_DIR:-target}/dist/gitfleet
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
architecture=$(uname -m)
name="gitfleet-$version-$architecture-linux"

needed=$(objdump -T "$program" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
[[ $(printf '%s\n' "$needed" "$GLIBC_MAX" | sort -V | tail -n 1) == "$GLIBC_MAX" ]] ||
    refuse "the program needs glibc $needed, and shall start on $GLIBC_MAX: build it on an older system"
bytes=$(stat --format %s "$program")
[[ $bytes -le $PROGRAM_BYTES_MAX ]] || refuse "the program has $bytes bytes, more than $PROGRAM_BYTES_MAX"

mkdir -p "$folder"
content=$(mktemp -d "${TMPDIR:-/tmp}/gitfleet-release.XXXXXX")
trap 'rm -rf "$content"' EXIT
mkdir "$content/man" "$content/completions"
cp "$program" LICENSE README.md "$content"
"$program" man "$content/man"
for shell in bash zsh fish; do "$program" completion "$shell" >"$content/completions/gitfleet.$shell"; done

# The licences of the packages that are built in ask for their texts.
tree=$(cargo tree --locked --edges normal --package gitfleet --prefix none --format '{p}' | cut -d ' ' -f 1,2 | sort -u)
metadata=$(cargo metadata --locked --format-version 1 --filter-platform "$architecture-unknown-linux-gnu")
jq --arg built "$tree" '($built | split("\n")) as $built
    | [.packages[] | select(.source != null) | select("\(.name) v\(.version)" | IN($built[])) | {name, version, license, source}]' \
    <<<"$metadata" >"$folder/$name.packages.json"
jq -r --arg built "$tree" '($built | split("\n")) as $built
    | .packages[] | select(.source != null) | select("\(.name) v\(.version)" | IN($built[]))
    | "\(.name) \(.version)\t\(.license // "see the package")\t\(.manifest_path | rtrimstr("/Cargo.toml"))"' <<<"$metadata" |
    while IFS=$'\t' read -r package licence place; do
        printf '\n==== %s, %s\n' "$package" "$licence"
        find "$place" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort |
            while read -r file; do printf '\n' && cat "$file"; done
    done >"$content/THIRD-PARTY.txt"

tar --create --gzip --file "$folder/$name.tar.gz" --owner 0 --group 0 --mtime "@$(git log -1 --format=%ct)" --sort name \
    --directory "$content" .
(cd "$folder" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
