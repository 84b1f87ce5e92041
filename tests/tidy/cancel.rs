//! Futures that others may drop say what is lost then.

use std::collections::BTreeMap;

use super::listed::only_falls;
use super::sources;
use super::text::{File, Function, item_end};

/// The section of the documentation.
const SECTION: &str = "/// # Cancel safety";

/// Returns where the function is documented that others may call and drop: itself, and the trait that has it.
fn documented_at(file: &File, function: &Function) -> Option<Vec<usize>> {
    let start = function.place.start;
    match file.line_before(start).trim() {
        "pub async" => Some(vec![start]),
        "async" => {
            let mut traits = file.shipped.match_indices("pub trait ").map(|(at, _)| at);
            let of = traits.find(|at| (*at..*at + item_end(&file.shipped[*at..])).contains(&start))?;
            Some(vec![start, of])
        }
        _ => None,
    }
}

#[test]
fn public_async_functions_say_what_is_lost_where_they_are_dropped() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut read = 0;
    for file in sources() {
        for function in file.functions() {
            let Some(places) = documented_at(file, &function) else { continue };
            read += 1;
            if !places.iter().any(|at| file.above(*at).any(|line| line == SECTION)) {
                found.entry(file.path.clone()).or_default().push(function.name);
            }
        }
    }
    assert!(read > 30, "the functions are found");
    only_falls(
        "cancel.txt",
        &found,
        &format!(
            "A public async function, or its trait, has a section `{SECTION}`: may it be dropped, and what is lost?"
        ),
    );
}
