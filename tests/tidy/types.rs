//! Types that a reader can keep in mind: few fields, and all methods in one file.

use std::collections::{BTreeMap, BTreeSet};

use super::listed::only_falls;
use super::sources;

/// Fields that a struct may have.
const FIELDS_MAX: usize = 12;
/// How the line above a struct begins that says why it has more.
const REASON: &str = "// More than 12 fields: ";

#[test]
fn structs_have_few_fields() {
    let mut found = BTreeMap::new();
    for file in sources() {
        for item in file.structs().into_iter().filter(|item| item.fields.len() > FIELDS_MAX) {
            if !file.above(item.start).any(|line| line.starts_with(REASON)) {
                found.insert(format!("{}: {}", file.path, item.name), item.fields);
            }
        }
    }
    only_falls(
        "structs.txt",
        &found,
        &format!("A struct has at most {FIELDS_MAX} fields, or a line `{REASON}REASON` above it."),
    );
}

/// Blocks of traits may stand anywhere. Where types of a crate share a name, a file that defines one of them has the blocks of that one, and
/// the others count as those of one type.
#[test]
fn methods_of_a_type_stand_in_one_file() {
    let mut files: BTreeMap<String, (Option<String>, BTreeSet<String>)> = BTreeMap::new();
    for file in sources() {
        let (name, _) = file.path["src/".len()..].split_once('/').unwrap();
        for implemented in file.implemented() {
            let (own, others) = files.entry(format!("{name}: {implemented}")).or_default();
            if file.defines(&implemented) {
                *own = Some(file.path.clone());
            } else {
                others.insert(file.path.clone());
            }
        }
    }
    assert!(files.len() > 500, "the blocks are found");
    let found =
        files.into_iter().map(|(name, (own, others))| (name, own.into_iter().chain(others).collect::<Vec<_>>()));
    let found = found.filter(|(_, files)| files.len() > 1).collect();
    only_falls(
        "methods.txt",
        &found,
        "Write the methods of a type into one file; split the type where that is too long, or write plain functions.",
    );
}
