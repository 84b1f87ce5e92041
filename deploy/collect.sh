#!/usr/bin/env bash
# Makes the rest of a release of its archives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly USAGE=64

help() {
    cat <<'HELP'
Adds to a folder, which has the archives that deploy/release.sh made on each system: the chart, the formula for Homebrew, the manifest for
krew, and SHA256SUMS of every file.

Usage: deploy/collect.sh FOLDER

Needs helm.
HELP
}

case "${1-}" in
    -h | --help) help && exit 0 ;;
    "" | -*) help >&2 && exit "$USAGE" ;;
esac
folder=$1

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
repository=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)
filled=(-e "s|@VERSION@|$version|" -e "s|@REPOSITORY@|$repository|" -e "s|@RELEASE@|$repository/releases/download/v$version|")
for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu aarch64-apple-darwin; do
    sum=$(sha256sum "$folder/gitfleet-$target.tar.gz" | cut -d ' ' -f 1)
    filled+=(-e "s|@SUM $target@|$sum|")
done
for file in deploy/packages/*; do sed "${filled[@]}" "$file" >"$folder/${file##*/}"; done

helm package deploy/chart --destination "$folder"

rm -f "$folder/SHA256SUMS"
sums=$(cd "$folder" && sha256sum -- *)
printf '%s\n' "$sums" >"$folder/SHA256SUMS"
