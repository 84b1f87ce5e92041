//! The lines of a comment that its author wrote as plain text: no quotes, no code, no comments of HTML.

use super::html::Apart;
use super::{INDENT_MAX, MARKUP, is_dropped};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::mem;
use std::ops::Range;

/// Returns the lines of top-level paragraphs, with [`MARKUP`] in place of markup.
pub(super) fn spoken_lines(body: &str) -> Vec<String> {
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
                // Written as a character reference: the author did not want plain text.
                if self.body.get(at.clone()) != Some(&*text) {
                    self.mark();
                }
                self.push(&text);
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
                self.push(&text);
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
        // An element of an earlier block may hide this line from readers.
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
        self.push(&MARKUP.to_string());
    }

    fn push(&mut self, text: &str) {
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
