#!/usr/bin/env bash
# Builds the image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly USAGE=64

help() {
    cat <<'HELP'
Builds the image of the daemon.

Usage: deploy/build.sh [--push] [--platforms LIST] [--programs FOLDER] IMAGE[:TAG]

  --push             pushes it as well
  --platforms LIST   for these platforms, such as linux/amd64,linux/arm64; needs --push
  --programs FOLDER  compiles no program, but takes the files in FOLDER/amd64 and FOLDER/arm64
  -h, --help         this text

Needs docker with buildx.
HELP
}

push=false
platforms=
programs=
image=
while [[ $# -gt 0 ]]; do
    case "$1" in
        --push) push=true && shift ;;
        --platforms) platforms=${2:?--platforms needs a list} && shift 2 ;;
        --programs) programs=${2:?--programs needs a folder} && shift 2 ;;
        -h | --help) help && exit 0 ;;
        -*) printf 'deploy/build.sh: unknown option %s; see --help\n' "$1" >&2 && exit "$USAGE" ;;
        *) image=$1 && shift ;;
    esac
done
[[ -n $image ]] || { help >&2 && exit "$USAGE"; }

base=$(sed -n 's/^FROM \(.*\) AS distroless$/\1/p' deploy/Containerfile)
# A folder under the name of a stage stands in for it.
docker buildx build --file deploy/Containerfile --tag "$image" ${platforms:+--platform "$platforms"} \
    ${programs:+--build-context build="$programs"} \
    --build-arg GITFLEET_COMMIT="$(git rev-parse HEAD)" \
    --label org.opencontainers.image.source="$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)" \
    --label org.opencontainers.image.base.name="${base%@*}" \
    --label org.opencontainers.image.base.digest="${base#*@}" \
    --sbom "$push" --provenance "$push" "$($push && echo --push || echo --load)" .
