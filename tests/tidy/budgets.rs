//! Numbers that only fall: whoever adds to one says in the commit why, and whoever takes from one lowers its limit.

use std::fs;

use super::text::root;
use super::{circles, none, sources, words};

/// What is counted, at most how many there are, how they are counted, and what keeps them few.
type Budget = (&'static str, usize, fn() -> usize, &'static str);

const BUDGETS: &[Budget] = &[
    ("packages of others in Cargo.lock", 641, packages, "look for a feature to turn off or a library to do without"),
    (
        "lines of shipped code in src, without comments and blank lines",
        99_040,
        lines,
        "look for code that is there already",
    ),
    ("words of the documentation", 109_960, documented, "say it once, and link to it; take out what no reader needs"),
    ("`pub` items in src", 3472, public, "take the `pub` from what no other crate and no other file names"),
    ("files on circles in src", 269, circles::files_on_circles, "see tests/tidy/circles.rs"),
];

/// How far below its limit a number may fall before the limit has to follow, in percent.
const SLACK_PERCENT: usize = 1;

/// Words that follow `pub` where an item begins.
const ITEMS: [&str; 10] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "async", "unsafe"];

/// Returns how many packages Cargo.lock has; those of this repository come from nowhere.
fn packages() -> usize {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    lock.lines().filter(|line| line.starts_with("source = ")).count()
}

/// Returns how many lines are shipped; of a string over several lines, the first and the last.
fn lines() -> usize {
    let of_file = |shipped: &str| shipped.lines().filter(|line| !line.trim().is_empty()).count();
    sources().iter().map(|file| of_file(&file.shipped)).sum()
}

/// Returns how many words the pages have that people write: those of docs/reference are made from the code.
fn documented() -> usize {
    let pages = words::pages().into_iter().filter(|(path, _)| !path.starts_with("docs/reference/"));
    pages.map(|(_, text)| text.split_whitespace().count()).sum()
}

/// Returns how many items any crate or file may name.
fn public() -> usize {
    let of_file = |shipped: &str| {
        let words: Vec<&str> = shipped.split_whitespace().collect();
        words.windows(2).filter(|pair| pair[0] == "pub" && ITEMS.contains(&pair[1])).count()
    };
    sources().iter().map(|file| of_file(&file.shipped)).sum()
}

#[test]
fn numbers_only_fall() {
    let mut complaints = Vec::new();
    for (what, limit, count, advice) in BUDGETS {
        let found = count();
        if found > *limit {
            complaints.push(format!(
                "{what}: {found}, the limit is {limit}: {advice}; else raise it, and say in the commit why"
            ));
        } else if found * 100 < limit * (100 - SLACK_PERCENT) {
            complaints.push(format!("{what}: {found}, the limit is {limit}: lower it to {found}"));
        }
    }
    none(&complaints, "tests/tidy/budgets.rs has the limits.");
}
