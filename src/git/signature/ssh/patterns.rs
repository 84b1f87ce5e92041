//! Patterns of names, as the files of ssh have them.

/// Tells whether patterns with `*` and `?`, of which those after `!` exclude, have a text.
///
/// Source: ssh_config(5), PATTERNS: a pattern that excludes has the last word.
pub(super) fn is_among(patterns: &str, text: &str) -> bool {
    let mut is_included = false;
    for pattern in patterns.split(',') {
        if !matches(pattern.trim_start_matches('!').as_bytes(), text.as_bytes()) {
            continue;
        }
        if pattern.starts_with('!') {
            return false;
        }
        is_included = true;
    }
    is_included
}

/// Tells whether a pattern has a text, in steps of at most the length of one times that of the other.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut at = 0;
    let mut read = 0;
    // After the last `*`: the pattern that follows, and how much of the text the `*` stands for.
    let mut star = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, read));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || *wanted == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((after, end)) = star else { return false };
                star = Some((after, end + 1));
                at = after;
                read = end + 1;
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_texts_or_not() {
        for (patterns, text, wanted) in [
            ("git", "git", true),
            ("git", "gitt", false),
            ("g?t", "git", true),
            ("g?t", "gt", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?", "", false),
            ("*@example.com", "alice@example.com", true),
            ("*@example.com", "alice@example.com.evil.example", false),
            ("*a*b", "aXbXab", true),
            ("*a*b", "aXbXa", false),
            ("a*", "ba", false),
            ("*?", "a", true),
            ("**a", "a", true),
            ("*,!alice@*", "alice@example.com", false),
            ("!alice@*,*", "bob", true),
            ("bob,al*", "alice", true),
        ] {
            assert_eq!(is_among(patterns, text), wanted, "{patterns} {text}");
        }
        // With a step for each way to share the text among the stars, this would not end.
        assert!(!is_among(&format!("{}b", "*a".repeat(30)), &"a".repeat(10_000)));
    }
}
