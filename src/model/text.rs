//! Text: foreign text where people read lines, logs and errors, in which what would not be seen, or would begin a line that nobody wrote, is
//! shown as an escape; bytes as digits; and which name was meant.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Tells whether a character is not seen, turns text around or moves what stands beside it.
pub fn is_unseen(c: char) -> bool {
    let is_format = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    is_format || (c.is_control() && !c.is_whitespace())
}

/// Tells whether a character ends a line for somebody who reads it.
fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns a text as one line, with what is unseen and what would end it as escapes: `\n`, `\u{1b}`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// As [`one_line`], but lines stay lines: for texts whose line ends are our own.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n')
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| (is_unseen(c) || ends_line(c) || c == '\t') && !keep(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    Cow::Owned(line)
}

/// What libraries say on the way to a cause, and that tells nobody anything.
const EMPTY_WORDS: [&str; 6] = [
    "client error (Connect)",
    "client error (SendRequest)",
    "tcp connect error",
    "connection error",
    "error sending request",
    "error trying to connect",
];

/// Returns an error with its causes on one line: what says nothing, or was said before, is left out.
pub fn causes(chain: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for link in chain {
        let link = link.strip_prefix("ServiceError: ").unwrap_or(&link);
        // The number is for machines.
        let link = link.rsplit_once(" (os error ").map_or(link, |(words, _)| words);
        if EMPTY_WORDS.contains(&link) || text.contains(link) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(link);
    }
    text
}

/// Returns bytes as lowercase hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}

/// How much of a name may be mistyped for it to be meant all the same: one letter of so many.
const LETTERS_FOR_A_MISTAKE: usize = 4;

/// Returns how many letters two words differ by. One too many, missing, other or exchanged with the next counts as one.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(one, other)
}

/// Returns the candidate that a misspelt name is likely to mean; capital letters do not count.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let measured = candidates.into_iter().map(|candidate| {
        let known = candidate.to_lowercase();
        let letters = lower.chars().count().max(known.chars().count());
        (distance(&lower, &known), letters, candidate)
    });
    // The nearest, by the share of its letters that is right.
    measured
        .filter(|(mistakes, letters, _)| mistakes * LETTERS_FOR_A_MISTAKE <= *letters)
        .max_by(|one, other| (other.0 * one.1).cmp(&(one.0 * other.1)))
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_begin_a_line_or_is_not_seen_is_an_escape() {
        for (text, line) in [
            ("plain ünïcode 漢字", "plain ünïcode 漢字"),
            ("a\nb\r\n", "a\\nb\\r\\n"),
            ("tab\there", "tab\\there"),
            ("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}"),
            ("a\u{2028}b\u{85}c", "a\\u{2028}b\\u{85}c"),
            ("user\u{202e}nimda", "user\\u{202e}nimda"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
        ] {
            assert_eq!(one_line(text), line);
            assert_eq!(one_line(line), line, "an escape stays what it is");
        }
        assert_eq!(lines("a\nb\u{1b}"), "a\nb\\u{1b}");
    }

    #[test]
    fn a_name_is_meant_where_one_letter_of_four_is_wrong() {
        let rows: [(&str, &[&str], Option<&str>); 8] = [
            ("wst", &["east", "west"], Some("west")),
            ("PickAl", &["PickN", "PickAll"], Some("PickAll")),
            ("tokenfile", &["token", "tokenFile"], Some("tokenFile")),
            ("directroy", &["directory"], Some("directory")),
            ("sorce", &["source", "store"], Some("source")),
            ("eu1", &["eu2", "us"], None),
            ("strategy", &["policy"], None),
            ("west", &[], None),
        ];
        for (name, known, meant) in rows {
            assert_eq!(suggest(name, known.iter().copied()), meant, "{name}");
        }
    }

    #[test]
    fn ux1b_26_a_cause_is_told_once() {
        let rows: [(&[&str], &str); 4] = [
            (
                &[
                    "ServiceError: client error (Connect)",
                    "client error (Connect)",
                    "tcp connect error",
                    "Connection refused (os error 111)",
                ],
                "Connection refused",
            ),
            (
                &["asking the daemon", "client error (Connect)", "invalid peer certificate"],
                "asking the daemon: invalid peer certificate",
            ),
            (&["reading a.yaml: no such file", "no such file"], "reading a.yaml: no such file"),
            (&["alone"], "alone"),
        ];
        for (chain, text) in rows {
            assert_eq!(causes(chain.iter().map(|link| (*link).to_owned())), text);
        }
    }
}
