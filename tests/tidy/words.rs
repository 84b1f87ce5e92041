//! Words that a reader from outside cannot understand, in code, tests and documentation; docs/glossary.md has those to use.

use std::fs;
use std::path::Path;

use super::none;
use super::text::{files, root};

/// Word, or two, in lower case; and what to write.
const BANNED: &[(&str, &str)] = &[
    ("hall", "daemon, or event loop"),
    ("books", "records"),
    ("obey", "execute"),
    ("obeys", "executes"),
    ("obeyed", "executed"),
    ("story", "commit rollout; in tests: case, scenario"),
    ("stories", "commit rollouts; in tests: cases, scenarios"),
    ("weigh", "compare, evaluate"),
    ("weighed", "compared, evaluated"),
    ("mend", "fix, repair"),
    ("mends", "fixes, repairs"),
    ("mended", "fixed, repaired"),
    ("doors", "imports, handles"),
    ("agenda", "queue"),
    ("in force", "accepted"),
    ("let in", "accepted, admitted"),
    ("passed over", "skipped"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("went on", "continued"),
    ("looked at", "checked, read, polled"),
    ("written down", "stored, recorded"),
    ("acted on", "executed; it has an effect"),
    ("heard of", "noticed, known"),
    ("hears of", "notices"),
    ("as wished", "as declared, converged"),
    ("anew", "again"),
    ("our house", "the project"),
];

/// Words that are kept all the same: file and line as it is written there.
const KEPT: &[(&str, &str)] = &[
    // The key under which stores have kept commit rollouts since the first version.
    ("src/bot/records.rs", "const ROLLOUT: &str = \"story/\";"),
    ("src/server/tests.rs", "put(\"forge/story/c1\")"),
    ("tests/tidy/words.rs", "(\""),
];

/// Returns the pages of the documentation, with their texts.
pub fn pages() -> Vec<(String, String)> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/design", "docs/reference"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "md"));
        pages.extend(names.map(|name| format!("{folder}/{}", name.to_string_lossy())));
    }
    pages.sort();
    let read = |page: String| (page.clone(), fs::read_to_string(root().join(&page)).unwrap());
    pages.into_iter().map(read).collect()
}

/// Returns the words of a line, in lower case.
fn words_of(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[test]
fn no_word_is_a_riddle() {
    let mut complaints = Vec::new();
    let code = ["src", "tests"].into_iter().flat_map(files).map(|file| (file.path, file.text));
    for (path, text) in code.chain(pages()) {
        let lines: Vec<&str> = text.lines().collect();
        for (number, &line) in lines.iter().enumerate() {
            if KEPT.iter().any(|(of, kept)| *of == path && line.contains(kept)) {
                continue;
            }
            // `let in_flight = ...` is Rust.
            let line = line.replace("let in_", "let ");
            let mut words = words_of(&line);
            let own = words.len();
            // The second of two words may stand on the next line.
            words.extend(lines.get(number + 1).and_then(|next| words_of(next).into_iter().next()));
            for (banned, instead) in BANNED {
                let banned: Vec<&str> = banned.split(' ').collect();
                let searched = if banned.len() > 1 { &words[..] } else { &words[..own] };
                if searched.windows(banned.len()).any(|window| window == banned) {
                    complaints.push(format!("{}:{}: {:?}; write: {instead}", path, number + 1, banned.join(" ")));
                }
            }
        }
    }
    none(&complaints, "docs/glossary.md has the words of this project (tests/tidy/words.rs, BANNED).");
}
