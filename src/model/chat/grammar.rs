//! Commands in comments: finds the command lines of a comment, and parses them.
//!
//! ```text
//! line    = prefix command { " " argument } [ " -- " reason ]
//! prefix  = "/" | "/gitfleet " | "@<our name> "
//! command = approve | reject | pause | resume | rollback | retry | status | help
//! ```
//!
//! A comment is read as markdown, as the host shows it: a command is a line of a paragraph that stands in nothing else. What is
//! quoted, code, a list, a heading, a table, a formula or marked up, and what stands in any element of HTML, commands nothing:
//! people show each other commands that way, replies by mail quote them, and hosts hide some of it from its readers. `docs/comments.md` says the same to people.
//!
//! Source: bors (a command is markdown's text and nothing else), Prow (an exact word at the beginning of a line).

mod arguments;
mod html;
mod lines;

use self::lines::spoken_lines;
use crate::chat::{Chat, ChatCommand, ChatVerb, SHA_CHARS_MIN};
use crate::text::distance;

/// The largest parsed comment in bytes; a longer one contains no command.
pub const COMMENT_BYTES_MAX: usize = 16 << 10;
/// Commands that one comment may hold.
pub const COMMANDS_MAX: usize = 5;
/// Characters of a reason that are kept.
pub const REASON_CHARS_MAX: usize = 500;

/// Blanks before a line that markdown takes for none.
const INDENT_MAX: usize = 3;
/// Stands in a line for what is more than text: markup, an escape. In no name.
const MARKUP: char = '\u{fffc}';
const VERBS: [(&str, ChatVerb); 8] = [
    ("approve", ChatVerb::Approve),
    ("reject", ChatVerb::Reject),
    ("pause", ChatVerb::Pause),
    ("resume", ChatVerb::Resume),
    ("rollback", ChatVerb::Rollback),
    ("retry", ChatVerb::Retry),
    ("status", ChatVerb::Status),
    ("help", ChatVerb::Help),
];

/// Returns the commands of a comment. `bot` is our account; with `short` lines may begin with a slash only.
///
/// All commands of a comment are returned or none: if one is invalid, or there are too many, the answer explains why. A line
/// that may be meant for another bot is ignored: an unknown word after the slash, or after our name. If nothing else is said, a word
/// that is one letter away from a command is told apart. `approve` and `reject`
/// without a stage are commands here; the caller, who knows the waiting stages, asks for one.
pub fn parse(body: &str, bot: &str, short: bool) -> Chat {
    if body.len() > COMMENT_BYTES_MAX {
        return Chat::Silence;
    }
    // People write the name of an App without the suffix that GitHub adds to its account.
    let prefixes = Prefixes { bot: bot.strip_suffix("[bot]").unwrap_or(bot), short };
    let mut commands = Vec::new();
    let mut mistake = None;
    let mut is_misspelt = false;
    for line in spoken_lines(body) {
        match prefixes.read(&line) {
            Chat::Silence => {}
            Chat::Misspelt => is_misspelt = true,
            Chat::Commands(read) => commands.extend(read),
            Chat::Mistake(why) => mistake = mistake.or(Some(why)),
        }
    }
    match mistake {
        Some(why) => Chat::Mistake(why),
        None if commands.len() > COMMANDS_MAX => Chat::Mistake(format!(
            "a comment may hold at most {COMMANDS_MAX} commands; this one has {}",
            commands.len()
        )),
        None if commands.is_empty() && is_misspelt => Chat::Misspelt,
        None if commands.is_empty() => Chat::Silence,
        None => Chat::Commands(commands),
    }
}

/// The prefix of a gitfleet command.
struct Prefixes<'a> {
    bot: &'a str,
    short: bool,
}

impl Prefixes<'_> {
    fn read(&self, line: &str) -> Chat {
        let seen: String = line.chars().filter(|c| !turns(*c)).collect();
        match self.command(&seen) {
            // Readers may have seen another line than the one that would be executed.
            Chat::Commands(_) if seen.len() < line.len() => Chat::Mistake(
                "the command has invisible characters that change the direction of reading; type it by hand".to_owned(),
            ),
            chat => chat,
        }
    }

    fn command(&self, line: &str) -> Chat {
        let (first, rest) = split(line);
        let is_bot = !self.bot.is_empty() && first.strip_prefix('@').is_some_and(|n| n.eq_ignore_ascii_case(self.bot));
        let is_long = first.eq_ignore_ascii_case("/gitfleet");
        let (word, arguments) = if is_bot || is_long { split(rest) } else { (first, rest) };
        let word = match word.strip_prefix('/') {
            _ if is_bot || is_long => word,
            Some(word) if self.short => word,
            _ => return Chat::Silence,
        };
        match VERBS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)) {
            Some((name, verb)) => arguments::read(name, *verb, arguments),
            None if is_long => {
                let known: Vec<String> = VERBS.iter().map(|(name, _)| format!("`{name}`")).collect();
                Chat::Mistake(format!("this command is not known; known are {}", known.join(", ")))
            }
            None if is_near(word) => Chat::Misspelt,
            None => Chat::Silence,
        }
    }
}

/// Tells whether a word is a command with one letter too many, missing, other or exchanged with the next. Inflected words are meant.
fn is_near(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    VERBS.iter().any(|(name, _)| {
        let is_inflected = word.strip_prefix(name).is_some_and(|rest| matches!(rest, "d" | "s"));
        !is_inflected && word.bytes().all(|byte| byte.is_ascii_alphabetic()) && distance(&word, name) == 1
    })
}

/// Splits the first word off.
fn split(line: &str) -> (&str, &str) {
    line.split_once([' ', '\t']).map_or((line, ""), |(word, rest)| (word, rest.trim()))
}

/// Invisible characters that copying and mail programs add.
fn is_dropped(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{feff}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Characters that make a line display differently from its text.
fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests;
