//! Names that a reader meets often enough to be told apart.

use std::collections::BTreeMap;

use super::{none, sources};

/// Types that one name may stand for: who meets it knows which of two it is, by the folder.
const NAMESAKES_MAX: usize = 2;
/// Names whose module always stands before them.
const EXEMPT: [&str; 3] = ["Error", "Result", "Args"];

#[test]
fn type_names_stand_for_few_types() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources() {
        for line in file.shipped.lines() {
            let line = line
                .strip_prefix("pub")
                .map_or(line, |rest| rest.trim_start_matches("(super)").trim_start_matches("(crate)"));
            let mut words = line.split_whitespace();
            if !line.starts_with("    ") && matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
                let name: String =
                    words.next().unwrap_or_default().chars().take_while(|c| c.is_alphanumeric()).collect();
                places.entry(name).or_default().push(file.path.clone());
            }
        }
    }
    assert!(places.len() > 500, "the definitions are found");
    let is_too_many =
        |(name, files): &(String, Vec<String>)| files.len() > NAMESAKES_MAX && !EXEMPT.contains(&name.as_str());
    let complaints = places.into_iter().filter(is_too_many);
    let complaints: Vec<String> =
        complaints.map(|(name, files)| format!("{name} names {} types: {}", files.len(), files.join(", "))).collect();
    none(&complaints, "Name the rarer ones after what they are of, such as PatchFailure (tests/tidy/names.rs).");
}
