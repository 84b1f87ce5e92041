//! Comments with reasons where branches are many.

use super::sources;
use super::text::File;

/// How many functions are read together: those with most branches.
const FUNCTIONS: usize = 40;
/// Lines with a comment that they have for 1,000 lines of code. It only rises.
const COMMENTS_MIN: usize = 42;

/// What is counted of a function.
struct Counted {
    branches: usize,
    /// Its path and name.
    place: String,
    /// Lines with a comment, from the signature to the closing brace; what stands above the signature is none.
    comments: usize,
    /// Lines with code.
    lines: usize,
}

/// Returns how many branches a text has: `if`, also in guards, `else` of a `let`, arms, loops, `&&`, `||` and `?`, in macros too.
fn branches(code: &str) -> usize {
    let mut count = 0;
    let mut previous = "";
    for word in code.split_whitespace() {
        let is_branch = match word {
            "else" => previous != "}",
            // What is no operand before it begins a closure without parameters.
            "||" => !previous.ends_with(['=', ',', '(', '{', ';']) && previous != "move",
            "&&" | "=>" => true,
            _ => matches!(word.rsplit('(').next(), Some("if" | "for" | "while" | "loop")),
        };
        // A letter follows the `?` of `?Sized`, and of fields of log messages.
        let tries = word.split('?').skip(1).filter(|rest| !rest.starts_with(char::is_alphanumeric));
        count += usize::from(is_branch) + tries.count();
        previous = word;
    }
    count
}

/// Returns the functions of a file with what is counted of each.
fn counted(file: &File) -> impl Iterator<Item = Counted> {
    file.functions().into_iter().map(|function| {
        let lines = file.text[function.place.clone()].lines().zip(file.uncommented[function.place.clone()].lines());
        Counted {
            branches: branches(&file.shipped[function.place.clone()]),
            place: format!("{}: {}", file.path, function.name),
            comments: lines.clone().filter(|(text, uncommented)| text != uncommented).count(),
            lines: lines.filter(|(_, uncommented)| !uncommented.trim().is_empty()).count(),
        }
    })
}

#[test]
fn where_branches_are_many_reasons_are_written() {
    let mut functions: Vec<Counted> = sources().iter().flat_map(counted).collect();
    functions.sort_by(|a, b| b.branches.cmp(&a.branches).then_with(|| a.place.cmp(&b.place)));
    functions.truncate(FUNCTIONS);
    let comments: usize = functions.iter().map(|function| function.comments).sum();
    let lines: usize = functions.iter().map(|function| function.lines).sum();
    let found = comments * 1000 / lines;
    let rows = functions
        .iter()
        .map(|Counted { branches, place, comments, lines }| format!("{branches:4} {comments:3} {lines:3} {place}"));
    let table = rows.collect::<Vec<_>>().join("\n");
    println!("branches, lines with a comment, lines of code:\n{table}");
    assert!(
        found >= COMMENTS_MIN,
        "{comments} of {lines} lines have comments, {found} in 1,000; the limit is {COMMENTS_MIN}: say why these branches are there"
    );
}

#[test]
fn branches_are_found() {
    for (code, expected) in [
        ("fn f() { g(|| h(), x) }", 0),
        ("if a && b || c { d } else { e }", 3),
        ("let Some(a) = b else { return };", 1),
        ("match a { B if c => d?, _ => e()?.f(if g { h } else { i }), }", 6),
        ("for a in b { while c { loop { spawn(async move || d); debug!(?e); } } }", 3),
    ] {
        assert_eq!(branches(code), expected, "{code}");
    }
}
