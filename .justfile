# Lists the recipes.
default:
    @just --list

# Everything, as continuous integration runs it.
test *options:
    tests/run.sh {{ options }}

# What a change needs while it is being made: format, lints, unit tests.
check:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace --lib

# End-to-end tests, all or those whose name contains the filter.
e2e filter="":
    cargo test --test it -- e2e:: {{ filter }}

# Reviews changed snapshots (cargo install cargo-insta).
snap:
    cargo insta review

# gitfleet at work, in a temporary folder.
demo:
    cargo run -- demo

# The example fleet, into examples-repo/rendered.
example:
    cargo run -- run -c examples-repo/gitfleet.yaml
