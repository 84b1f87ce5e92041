//! Escapes foreign text in gitfleet's markdown, so that it is shown as text and has no effect: no link, image, mention, markup,
//! hidden comment or command, on GitHub, Gitea and Forgejo alike.
//!
//! | function | gives | stands |
//! |---|---|---|
//! | [`code`] | a code span | within a line |
//! | [`code_cell`] | a code span without pipes | in a table |
//! | [`fenced`] | a code block | at the beginning of a line, after an empty one |
//! | [`prose`] | text | within a line, in a table, in a `<summary>` |
//! | [`cell`] | text, shorter | the same |
//! | [`plain`] | text as it is, in one line | where there is no markup |
//!
//! Limits count characters of the foreign text; the escaped text may be up to six times longer.
//!
//! Source: CommonMark 0.31 and GitHub's extensions of it; Gitea's and GitHub's own links to people, issues and pages.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation as _;

use model::text::is_unseen;

/// Characters that [`code`] and [`code_cell`] take.
pub const CODE_CHARS_MAX: usize = 200;
/// Characters that [`fenced`] takes.
pub const FENCED_CHARS_MAX: usize = 20_000;
/// Characters that [`prose`] takes.
pub const PROSE_CHARS_MAX: usize = 500;
/// Characters that [`cell`] takes.
pub const CELL_CHARS_MAX: usize = 120;

/// Breaks text that hosts would link, and is invisible.
const BREAK: char = '\u{200b}';
/// Precedes a slash at the beginning of a line. Not [`BREAK`]: the parser of comments removes that one.
const JOINER: char = '\u{2060}';
/// The digest part of an image name: no mention, and often copied.
const DIGEST_MARK: &str = "@sha256:";

/// Truncates a text to that many characters, the last of them `…`. Characters that form one glyph stay together.
pub fn shorten(text: &str, chars: usize) -> String {
    if text.chars().nth(chars).is_none() {
        return text.to_owned();
    }
    let Some(mut room) = chars.checked_sub(1) else { return String::new() };
    let mut short = String::new();
    for grapheme in text.graphemes(true) {
        let Some(left) = room.checked_sub(grapheme.chars().count()) else { break };
        room = left;
        short.push_str(grapheme);
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// Returns a text for places without markup, such as a title or a commit status: one line of visible characters, truncated to
/// that many.
pub fn plain(text: &str, chars: usize) -> String {
    shorten(&one_line(text), chars)
}

/// Returns a text as a code span, in one line. An empty text gives a span with a blank.
pub fn code(text: &str) -> String {
    span(&line(text))
}

/// Returns a text as a code span that does not end a table's cell: a pipe becomes a broken bar, because hosts read no escape in
/// a code span alike.
pub fn code_cell(text: &str) -> String {
    span(&line(text).replace('|', "¦"))
}

/// Returns a text as a code block of whole lines. The language colours it; only a plain word is used.
pub fn fenced(language: &str, text: &str) -> String {
    let text = shorten(&block(text), FENCED_CHARS_MAX);
    // Longer than any run of backticks inside, so that none of them ends the block.
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let language = if language.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') { language } else { "" };
    let mut fenced = format!("{fence}{language}\n");
    for line in text.trim_end_matches('\n').split('\n') {
        if line.trim_start().starts_with('/') {
            fenced.push(JOINER);
        }
        fenced.push_str(&unmentioned(line));
        fenced.push('\n');
    }
    fenced.push_str(&fence);
    fenced.push('\n');
    fenced
}

/// Returns a text in one line, escaped for markdown, for a cell of a table and for HTML.
pub fn prose(text: &str) -> String {
    escaped(&shorten(&one_line(text), PROSE_CHARS_MAX))
}

/// Returns a text for a cell of a table: [`prose`], shorter.
pub fn cell(text: &str) -> String {
    escaped(&shorten(&one_line(text), CELL_CHARS_MAX))
}

/// Returns the words of a text, one blank between them.
fn one_line(text: &str) -> String {
    let seen: String = text.chars().filter(|c| !is_unseen(*c)).collect();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line(text: &str) -> String {
    shorten(&one_line(text), CODE_CHARS_MAX)
}

/// Returns the lines of a text; blanks and tabs stay.
fn block(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let seen = text.chars().filter(|c| !is_unseen(*c));
    let plain = seen.map(|c| match c {
        '\n' | '\t' => c,
        // Some readers end a line there, so a command could start after any of them.
        '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
        c => c,
    });
    plain.collect()
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn span(text: &str) -> String {
    let text = unmentioned(text);
    let mark = "`".repeat(longest_run(&text) + 1);
    match text.as_str() {
        "" => "` `".to_owned(),
        // Hosts do not show a blank on both sides.
        text if text.starts_with('`') || text.ends_with('`') => format!("{mark} {text} {mark}"),
        text => format!("{mark}{text}{mark}"),
    }
}

/// Breaks mentions in code. Hosts ignore them there; bots that read comments without markup do not.
fn unmentioned(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        safe.push(c);
        if c == '@' && !text[at..].starts_with(DIGEST_MARK) {
            safe.push(BREAK);
        }
    }
    safe
}

/// Replaces characters with a meaning in markdown or HTML by references, and breaks text that hosts would link.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() * 2);
    if text.starts_with('/') {
        safe.push(JOINER);
    }
    let number = text.bytes().take_while(u8::is_ascii_digit).count();
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        // These characters have a meaning only at the beginning of a line: a list, or a heading of the line above.
        let begins = at == 0 && matches!(c, '-' | '+' | '=' | ':');
        let ends_number = at > 0 && at == number && matches!(c, '.' | ')');
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '|' | '~' | '$' | '#' | '^' | '"' => reference(&mut safe, c),
            c if begins || ends_number => reference(&mut safe, c),
            c => safe.push(c),
        }
        let next_is_digit = rest.starts_with(|c: char| c.is_ascii_digit());
        let is_link = match c {
            '@' => true,
            // Both hosts link `#7`; Gitea links `!7` to a pull request, too.
            '#' | '!' => next_is_digit,
            ':' => rest.starts_with("//"),
            'w' | 'W' => rest.starts_with('.') && text[..=at].to_ascii_lowercase().ends_with("www"),
            // `GH-7` is an issue on GitHub.
            '-' => next_is_digit && text[..at].to_ascii_lowercase().ends_with("gh"),
            _ => false,
        };
        if is_link {
            safe.push(BREAK);
        }
    }
    safe
}

fn reference(safe: &mut String, c: char) {
    write!(safe, "&#{};", u32::from(c)).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests;
