//! Fuzz target: whatever a CODEOWNERS file says, its owners are accounts and teams, or each line that cannot be read is named.

use source::{CodeOwners, OwnersSyntax};

const PATHS: [&str; 4] = ["a.yaml", "apps/shop/placement.yaml", "apps/shop", "docs/\u{e4} b.yaml"];

pub(super) fn run(input: &[u8]) {
    for syntax in [OwnersSyntax::GitHub, OwnersSyntax::Gitea] {
        match CodeOwners::read(syntax, "CODEOWNERS", input) {
            Ok(owners) => {
                for owner in PATHS.iter().flat_map(|path| owners.of(path)) {
                    let name = ["user:", "team:", "email:"].into_iter().find_map(|kind| owner.strip_prefix(kind));
                    assert!(name.is_some_and(|name| !name.is_empty()), "{owner} is nobody");
                }
            }
            Err(errors) => {
                assert!(!errors.is_empty(), "a refusal has a reason");
                let lines = input.split(|byte| *byte == b'\n').count();
                for error in errors {
                    assert!(error.line as usize <= lines && !error.message.is_empty(), "{error:?}");
                }
            }
        }
    }
}
