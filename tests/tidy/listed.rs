//! Lists of what a rule still finds: each line is a place and a number, which only falls, and no line is added.

use std::collections::BTreeMap;
use std::fs;

use super::none;
use super::text::root;

/// Fails where a place has more than the list says. `UPDATE=1` writes the list again where places have less.
pub fn only_falls(list: &str, found: &BTreeMap<String, Vec<String>>, advice: &str) {
    let path = root().join("tests/tidy").join(list);
    let text = fs::read_to_string(&path).unwrap();
    let rows = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    let limits: BTreeMap<&str, usize> = rows.map(|(place, limit)| (place, limit.parse().unwrap())).collect();
    let mut complaints = Vec::new();
    for (place, parts) in found {
        let limit = limits.get(place.as_str()).copied().unwrap_or_default();
        if parts.len() > limit {
            complaints.push(format!("{place}: {}, the limit is {limit}: {}", parts.len(), parts.join(", ")));
        }
    }
    none(&complaints, advice);
    let lines = found.iter().map(|(place, parts)| [place, " ", &parts.len().to_string(), "\n"].concat());
    let fresh: String = lines.collect();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &fresh).unwrap();
        return;
    }
    assert!(text == fresh, "tests/tidy/{list} has too much: run `UPDATE=1 cargo test --test tidy` and commit it");
}
