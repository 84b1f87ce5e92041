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
        101_860,
        lines,
        "look for code that is there already",
    ),
    ("words of the documentation", 111_080, documented, "say it once, and link to it; take out what no reader needs"),
    ("`pub` items in src", 3391, public, "take the `pub` from what no other crate and no other file names"),
    ("closures with a name in src", 265, closures, "write a function or a method with that name"),
    ("`let (a, b) = (x, y);` in src", 0, tuple_lets, "write a `let` for each"),
    ("`.filter(|_| condition)` in src", 20, blind_filters, "write an `if`"),
    ("files on circles in src", 236, circles::files_on_circles, "see tests/tidy/circles.rs"),
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

/// Returns how many closures of the shipped code have a name: `let NAME = |..|`, also with `mut`, a type, `&`, `async` or `move`. A closure
/// inside a call has none: `let a = f(|x| ..)`.
fn closures() -> usize {
    sources().iter().flat_map(|file| file.shipped.split("let ").skip(1)).filter(|rest| is_closure(rest)).count()
}

/// Tells whether a `let` gives a closure a name, from what follows it.
fn is_closure(rest: &str) -> bool {
    let Some((left, right)) = rest.split_once('=') else { return false };
    let name = left.split(':').next().unwrap_or(left).trim().trim_start_matches("mut ");
    let mut right = right.trim_start().trim_start_matches('&');
    for word in ["mut ", "async ", "move "] {
        right = right.trim_start_matches(word);
    }
    name.chars().all(|c| c.is_alphanumeric() || c == '_') && !left.contains(';') && right.starts_with('|')
}

/// Returns how many `let (a, b) = (x, y);` the shipped code has, over several lines too, with a type too. No call and no macro is one,
/// nor a tuple that something follows: `if let (a, b) = (x, y) {`, `let (Some(a), Some(b)) = (x, y) else {`.
fn tuple_lets() -> usize {
    sources().iter().flat_map(|file| file.shipped.split("let (").skip(1)).filter(|rest| is_tuple(rest)).count()
}

/// Tells whether a `let (` takes a tuple apart that is written out, from what follows it.
fn is_tuple(rest: &str) -> bool {
    let Some((_, right)) = rest.split_once('=') else { return false };
    let right = right.trim_start();
    let mut depth = 0;
    let end = right.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    end.is_some_and(|end| right[end..].starts_with(");"))
}

/// Returns how many `.filter(|_| ..)` the shipped code has: each is an `if` about something other than what is filtered.
fn blind_filters() -> usize {
    sources().iter().map(|file| file.shipped.matches(".filter(|_| ").count()).sum()
}

#[test]
fn what_compresses_code_is_found() {
    for (rest, expected) in [
        ("f = |x| x;", true),
        ("mut f: &dyn Fn(A) -> B =\n    &move || x;", true),
        ("f = async move |x| x;", true),
        ("f = g(|x| x);", false),
        ("f = a || b;", false),
        ("Some(f) = |x| x;", false),
        ("f;\nf = |x| x;", false),
    ] {
        assert_eq!(is_closure(rest), expected, "let {rest}");
    }
    for (rest, expected) in [
        ("a, b) = (x, y);", true),
        ("mut a, (b, c)): (A, B) =\n    (f(x), {\n        (1, 2)\n    });", true),
        ("a, b) = f(x, y);", false),
        ("a, b) = (x, y).swapped();", false),
        ("a, b) = vec![(x, y)].remove(0);", false),
        ("Some(a), Some(b)) = (x, y) else { return };", false),
        ("a, b) = (x, y) {", false),
        ("a, b);", false),
    ] {
        assert_eq!(is_tuple(rest), expected, "let ({rest}");
    }
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
