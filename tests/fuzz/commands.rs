//! Fuzz target: whatever somebody comments, it holds at most five commands, and none out of places that are no commands.

use model::chat::Chat;
use model::chat::grammar::{COMMANDS_MAX, COMMENT_BYTES_MAX, parse};

pub(super) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for short in [true, false] {
        let said = parse(&text, "gitfleet", short);
        assert_eq!(said, parse(&text, "gitfleet", short), "one comment, one meaning");
        if let Chat::Commands(commands) = &said {
            assert!(!commands.is_empty() && commands.len() <= COMMANDS_MAX, "{commands:?}");
            assert!(text.len() <= COMMENT_BYTES_MAX, "a long comment says nothing");
        }
        // To markdown a lone carriage return ends a line, too.
        let quoted: Vec<String> = text.split(['\r', '\n']).map(|line| format!("> {line}")).collect();
        let quoted = quoted.join("\n");
        assert!(
            !matches!(parse(&quoted, "gitfleet", short), Chat::Commands(_)),
            "a quote commands nothing: {quoted:?}"
        );
    }
}
