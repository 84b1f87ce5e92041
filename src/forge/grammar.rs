//! Commands in comments: which lines of a comment are any, and what they ask for.
//!
//! ```text
//! line    = prefix command { " " argument } [ " -- " reason ]
//! prefix  = "/" | "/gitfleet " | "@<our name> "
//! command = approve | reject | pause | resume | rollback | retry | status | help
//! ```
//!
//! A comment is read as markdown, as the host shows it: a command is a line of a paragraph that stands in nothing else. What is
//! quoted, code, a list, a heading, a table, a formula or marked up, and what stands in any element of HTML, commands nothing:
//! people show each other commands that way, replies by mail quote them, and hosts hide some of it from its readers. `docs/commands.md` says the same to people.
//!
//! Source: bors (a command is markdown's text and nothing else), Prow (an exact word at the beginning of a line).

use std::mem;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::model::chat::{Chat, ChatCommand, ChatVerb, SHA_CHARS_MIN};
use html::Apart;

mod arguments;
mod html;

/// Bytes of a comment that is read; a longer one says nothing.
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

/// Returns what a comment asks for. `bot` is the account we write with; `short` lets lines begin with a mere slash.
///
/// All commands of a comment are taken or none: of one that is wrong, or of too many, nothing is done and the person is told.
/// What could be meant for somebody else is silence: an unknown word after the slash, an unknown word to our name. `approve`
/// and `reject` without a stage are commands here; whoever knows which stages wait asks for one of them.
pub fn parse(body: &str, bot: &str, short: bool) -> Chat {
    if body.len() > COMMENT_BYTES_MAX {
        return Chat::Silence;
    }
    // People write the name of an App without the suffix that GitHub adds to its account.
    let prefixes = Prefixes { bot: bot.strip_suffix("[bot]").unwrap_or(bot), short };
    let mut commands = Vec::new();
    let mut mistake = None;
    for line in spoken_lines(body) {
        match prefixes.read(&line) {
            Chat::Silence => {}
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
        None if commands.is_empty() => Chat::Silence,
        None => Chat::Commands(commands),
    }
}

/// How a line of ours begins.
struct Prefixes<'a> {
    bot: &'a str,
    short: bool,
}

impl Prefixes<'_> {
    fn read(&self, line: &str) -> Chat {
        let seen: String = line.chars().filter(|c| !turns(*c)).collect();
        match self.command(&seen) {
            // Its readers may have seen another line than the one that would be carried out.
            Chat::Commands(_) if seen.len() < line.len() => Chat::Mistake(
                "the command holds signs that are not seen and change the direction of reading; write it by hand"
                    .to_owned(),
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
            None => Chat::Silence,
        }
    }
}

/// Splits the first word off.
fn split(line: &str) -> (&str, &str) {
    line.split_once([' ', '\t']).map_or((line, ""), |(word, rest)| (word, rest.trim()))
}

/// Signs that copying and mail programs add, and that show nothing.
fn is_dropped(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{feff}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Signs that let a line read otherwise than it is.
fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the lines of paragraphs that stand in nothing else, with [`MARKUP`] where they are more than text.
fn spoken_lines(body: &str) -> Vec<String> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM;
    let mut reader = Reader { body, ..Reader::default() };
    for (event, at) in Parser::new_ext(body, options).into_offset_iter() {
        reader.take(event, at);
    }
    reader.lines
}

#[derive(Default)]
struct Reader<'a> {
    body: &'a str,
    /// Elements of markdown that are open.
    level: usize,
    /// The line of a paragraph, while in one.
    line: Option<String>,
    /// Where in the body it was read to.
    read: usize,
    /// HTML of the block that is being read.
    html: String,
    /// Elements of HTML that are open and set apart what is in them.
    apart: Apart,
    lines: Vec<String>,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, at: Range<usize>) {
        match event {
            Event::Start(Tag::Paragraph) if self.level == 0 => {
                self.level += 1;
                self.read = at.start;
                self.begin_line();
            }
            Event::Start(_) => {
                self.level += 1;
                self.mark();
                self.read = self.read.max(at.start);
            }
            Event::End(end) => {
                self.level = self.level.saturating_sub(1);
                match end {
                    TagEnd::Paragraph if self.level == 0 => self.end_line(),
                    TagEnd::HtmlBlock => self.end_html(),
                    _ => self.mark(),
                }
                // What ends an element, such as the address of a link, is not of the line.
                self.read = self.read.max(at.end);
            }
            Event::Text(text) => {
                self.skip_to(at.start);
                // Written as a reference: somebody took care that it is not what it looks like.
                if self.body.get(at.clone()) != Some(&*text) {
                    self.mark();
                }
                self.say(&text);
                self.read = at.end;
            }
            // Each line of a paragraph may be a command; elsewhere, such as in a quote, a break begins none.
            Event::SoftBreak | Event::HardBreak if self.line.is_some() => {
                self.end_line();
                self.read = at.end;
                self.begin_line();
            }
            Event::Html(html) => self.html.push_str(&html),
            Event::InlineHtml(html) => {
                self.mark();
                self.apart.read(&html);
                self.read = at.end;
            }
            // Marked on both sides, so that it commands nothing; its text is kept, because a reason may hold code.
            Event::Code(text) => {
                self.mark();
                self.say(&text);
                self.mark();
                self.read = at.end;
            }
            _ => {
                self.mark();
                self.read = at.end;
            }
        }
    }

    fn begin_line(&mut self) {
        self.line = Some(String::new());
        // An element that an earlier block opened may hide this line from its readers.
        if self.apart.is_open() {
            self.mark();
        }
    }

    fn end_line(&mut self) {
        self.lines.extend(self.line.take().map(|line| line.chars().filter(|c| !is_dropped(*c)).collect()));
    }

    fn end_html(&mut self) {
        self.apart.read(&mem::take(&mut self.html));
    }

    fn mark(&mut self) {
        self.say(&MARKUP.to_string());
    }

    fn say(&mut self, text: &str) {
        self.line.iter_mut().for_each(|line| line.push_str(text));
    }

    /// Marks what markdown took away between two texts: the mark of an escape; blanks that are too many to begin a line.
    fn skip_to(&mut self, at: usize) {
        let gap = self.body.get(self.read..at).unwrap_or_default();
        if gap.chars().any(|c| c != ' ') || gap.len() > INDENT_MAX {
            self.mark();
        }
    }
}

#[cfg(test)]
mod tests;
