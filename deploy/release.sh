#!/usr/bin/env bash
# Builds the archive of a release for this machine's system, and says what is in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly USAGE=64 REFUSED=1
# The oldest glibc that a released program starts on: RHEL 8. The newest that it asks for is read from its symbols.
readonly GLIBC_MAX=${GITFLEET_GLIBC_MAX:-2.28}
# Bytes of the program. Larger: look what came in, with `cargo tree` and `cargo bloat`, before this is raised.
readonly PROGRAM_BYTES_MAX=66000000

help() {
    cat <<'HELP'
Builds the program as it is shipped and puts two files into a folder: gitfleet-TARGET.tar.gz with the program, licences, manual pages and
completions, and gitfleet-TARGET.cdx.json, which lists every package that is built in, in the format CycloneDX. TARGET is Rust's name of
this system, such as x86_64-unknown-linux-gnu. `deploy/collect.sh` makes the rest of a release of these.

Usage: deploy/release.sh FOLDER

Needs Rust, git, jq and GNU tar, which is gtar on macOS; on Linux objdump, too. Fails where the program needs a newer glibc than 2.28;
GITFLEET_GLIBC_MAX names another limit.
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

commit=$(git rev-parse HEAD)
GITFLEET_COMMIT=$commit cargo build --profile dist --locked --package gitfleet
program=${CARGO_TARGET_DIR:-target}/dist/gitfleet
target=$(rustc -vV | sed -n 's/^host: //p')
name="gitfleet-$target"

if [[ $target == *-linux-gnu ]]; then
    needed=$(objdump -T "$program" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
    [[ $(printf '%s\n' "$needed" "$GLIBC_MAX" | sort -V | tail -n 1) == "$GLIBC_MAX" ]] ||
        refuse "the program needs glibc $needed, and shall start on $GLIBC_MAX: build it on an older system"
fi
bytes=$(wc -c <"$program")
[[ $bytes -le $PROGRAM_BYTES_MAX ]] || refuse "the program has $bytes bytes, more than $PROGRAM_BYTES_MAX"
[[ $("$program" version) == *"commit $commit"* ]] || refuse "the program does not know its commit: $("$program" version)"

mkdir -p "$folder"
content=$(mktemp -d "${TMPDIR:-/tmp}/gitfleet-release.XXXXXX")
trap 'rm -rf "$content"' EXIT
mkdir "$content/man" "$content/completions"
cp "$program" LICENSE README.md "$content"
"$program" man "$content/man"
for shell in bash zsh fish; do "$program" completion "$shell" >"$content/completions/gitfleet.$shell"; done

# Packages that are built in, and what each needs, by their package URLs.
tree=$(cargo tree --locked --edges normal --package gitfleet --prefix none --format '{p}' | cut -d ' ' -f 1,2 | sort -u)
packages=$(cargo metadata --locked --format-version 1 --filter-platform "$target" | jq --arg built "$tree" '
    ($built | split("\n")) as $built | .resolve.nodes as $nodes
    | [.packages[] | select("\(.name) v\(.version)" | IN($built[])) | .purl = "pkg:cargo/\(.name)@\(.version)"]
    | (map({key: .id, value: .purl}) | from_entries) as $purls
    | map(.needs = [.id as $id | $nodes[] | select(.id == $id).dependencies[] | $purls[.] // empty])')

# Source: CycloneDX 1.6. A slash is how old packages write OR.
jq 'map({type: "library", "bom-ref": .purl, name, version, purl,
        licenses: [{expression: (.license // empty | gsub("/"; " OR "))}]}) as $components
    | {bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
        metadata: {component: ($components[] | select(.name == "gitfleet") | .type = "application")},
        components: [$components[] | select(.name != "gitfleet")],
        dependencies: map({ref: .purl, dependsOn: .needs})}' <<<"$packages" >"$folder/$name.cdx.json"

# The licences of the packages ask for their texts. A few packages have none: their authors and where they are have to do.
jq -r '.[] | select(.source != null)
    | [(.manifest_path | rtrimstr("/Cargo.toml")), ([.name, .version, .license, .repository, .authors[]] | join(" | "))]
    | @tsv' <<<"$packages" |
    while IFS=$'\t' read -r place package; do
        printf '\n==== %s\n' "$package"
        find "$place" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort |
            while read -r file; do printf '\n' && cat "$file"; done
    done >"$content/THIRD-PARTY.txt"

tar=$(command -v gtar || command -v tar)
"$tar" --create --gzip --file "$folder/$name.tar.gz" --owner 0 --group 0 --mtime "@$(git log -1 --format=%ct)" --sort name \
    --directory "$content" .
