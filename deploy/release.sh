#!/usr/bin/env bash
# Builds the binary of a release for this machine's architecture, with its checksum and the list of the packages in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly USAGE=64

help() {
    cat <<'HELP'
Builds the release binary and puts it into a folder: gitfleet-VERSION-ARCH-linux.tar.gz, its .sha256, and the same name
with .packages.json, which lists every package that is built in with version, licence and source.

Usage: deploy/release.sh FOLDER

Needs Rust, git and jq.
HELP
}

case "${1-}" in
    -h | --help) help && exit 0 ;;
    "" | -*) help >&2 && exit "$USAGE" ;;
esac
folder=$1

GITFLEET_COMMIT=$(git rev-parse HEAD) cargo build --release --locked --bin gitfleet
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
architecture=$(uname -m)
name="gitfleet-$version-$architecture-linux"

mkdir -p "$folder"
tar --create --gzip --file "$folder/$name.tar.gz" --owner 0 --group 0 --mtime "@$(git log -1 --format=%ct)" \
    --directory target/release gitfleet
(cd "$folder" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
cargo metadata --locked --format-version 1 --filter-platform "$architecture-unknown-linux-gnu" |
    jq '[.packages[] | select(.source != null) | {name, version, license, source}]' >"$folder/$name.packages.json"
