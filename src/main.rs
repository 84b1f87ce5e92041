//! The `gitfleet` binary.

fn main() {}
