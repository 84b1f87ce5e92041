#!/usr/bin/env bash
# Builds the image on base images named by digest: looks up what the tags in deploy/Containerfile stand for at this moment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly USAGE=64

help() {
    cat <<'HELP'
Builds the image of the daemon.

Usage: deploy/build.sh [--push] [--platforms LIST] IMAGE[:TAG]

  --push            pushes it as well
  --platforms LIST  for these platforms, such as linux/amd64,linux/arm64; needs --push
  -h, --help        this text

Needs docker with buildx. Prints the digests of the base images it was built on; the image carries them as labels
org.opencontainers.image.base.digest, gitfleet.build.digest and gitfleet.tools.digest.
HELP
}

push=false
platforms=
image=
while [[ $# -gt 0 ]]; do
    case "$1" in
        --push) push=true && shift ;;
        --platforms) platforms=${2:?--platforms needs a list} && shift 2 ;;
        -h | --help) help && exit 0 ;;
        -*) printf 'deploy/build.sh: unknown option %s; see --help\n' "$1" >&2 && exit "$USAGE" ;;
        *) image=$1 && shift ;;
    esac
done
[[ -n $image ]] || { help >&2 && exit "$USAGE"; }

# The base image that a build argument of the Containerfile names, with the digest the registry gives for it.
pinned() {
    local reference digest
    reference=$(sed -n "s/^ARG $1=//p" deploy/Containerfile)
    digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$reference")
    [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || { printf 'no digest of %s: %s\n' "$reference" "$digest" >&2 && return 1; }
    printf '%s@%s\n' "$reference" "$digest"
}

build_image=$(pinned BUILD_IMAGE)
tools_image=$(pinned TOOLS_IMAGE)
run_image=$(pinned RUN_IMAGE)
printf 'built on %s\nand %s\nruns on %s\n' "$build_image" "$tools_image" "$run_image"
docker buildx build --file deploy/Containerfile --tag "$image" ${platforms:+--platform "$platforms"} \
    --build-arg BUILD_IMAGE="$build_image" --build-arg TOOLS_IMAGE="$tools_image" --build-arg RUN_IMAGE="$run_image" \
    --build-arg GITFLEET_COMMIT="$(git rev-parse HEAD)" \
    --label org.opencontainers.image.base.name="${run_image%@*}" \
    --label org.opencontainers.image.base.digest="${run_image#*@}" \
    --label gitfleet.build.digest="${build_image#*@}" \
    --label gitfleet.tools.digest="${tools_image#*@}" \
    --sbom "$push" --provenance "$push" "$($push && echo --push || echo --load)" .
