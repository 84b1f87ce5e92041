#!/usr/bin/env bash
# Compiles everything with the oldest Rust that Cargo.toml promises.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
rustup toolchain install "$version" --profile minimal
cargo "+$version" check --locked --workspace --all-targets
