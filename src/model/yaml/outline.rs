//! Where the parts of a document stand in its text, for edits that leave everything else as it is.

use std::ops::Range;

use serde_yaml::granit_parser::{Event, Span, StructureStyle};

use super::{Meter, NESTING_MAX, TEXT_COST_MAX, YamlError, YamlReader, chunks};

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPart {
    /// Its bytes in the text; those of a mapping or list in block style end with its last entry.
    pub range: Range<usize>,
    /// The column it begins in, from 0: that of the keys, or of the dashes.
    pub column: usize,
    /// What it is.
    pub content: Content,
}

/// What a part of a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A mapping.
    Mapping {
        /// The entries, as they stand.
        entries: Vec<TextEntry>,
        /// Written with braces.
        is_flow: bool,
    },
    /// A list.
    List {
        /// The items, as they stand.
        items: Vec<TextPart>,
        /// Written with brackets.
        is_flow: bool,
    },
    /// A scalar's text.
    Scalar(String),
    /// A part that stands elsewhere.
    Alias,
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEntry {
    /// The key; empty for one that is no text.
    pub key: String,
    /// Where the key ends in the text.
    pub key_end: usize,
    /// The value.
    pub value: TextPart,
}

impl TextPart {
    /// Returns the value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the entry of a key of a mapping.
    pub fn entry(&self, key: &str) -> Option<&TextEntry> {
        let Content::Mapping { entries, .. } = &self.content else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    /// Tells whether it is the scalar of a text.
    pub fn is_text(&self, text: &str) -> bool {
        matches!(&self.content, Content::Scalar(found) if found == text)
    }
}

/// Returns the root of each document of a text, as it stands there. A document that cannot be read has none, nor have those after
/// it in the same piece of text.
pub fn outline(text: &str) -> Vec<TextPart> {
    let mut roots = Vec::new();
    for (chunk, first_line) in chunks(text) {
        let start = chunk.as_ptr() as usize - text.as_ptr() as usize;
        let meter = Meter::new(TEXT_COST_MAX);
        let mut outliner = Outliner { reader: YamlReader::new(chunk, first_line, &meter), text, start };
        while let Ok(Some((event, span))) = outliner.reader.next() {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => match outliner.part(&event, span, 0) {
                    Ok(part) => roots.push(part),
                    Err(_) => break,
                },
            }
        }
    }
    roots
}

/// Reads the parts of one piece of a text, which begins at `start`.
struct Outliner<'t> {
    reader: YamlReader<'t>,
    text: &'t str,
    start: usize,
}

impl Outliner<'_> {
    /// Reads the part that an event starts.
    fn part(&mut self, event: &Event<'_>, span: Span, depth: usize) -> Result<TextPart, YamlError> {
        if depth > NESTING_MAX {
            return Err(YamlError::new(self.reader.line(span.start.line()), "too deep to be edited"));
        }
        let range = self.range(span);
        let column = span.start.col();
        match event {
            Event::MappingStart(style, ..) => {
                let is_flow = *style == StructureStyle::Flow;
                let (entries, end) = self.entries(is_flow, range.end, depth)?;
                Ok(TextPart { range: range.start..end, column, content: Content::Mapping { entries, is_flow } })
            }
            Event::SequenceStart(style, ..) => {
                let is_flow = *style == StructureStyle::Flow;
                let (items, end) = self.items(is_flow, range.end, depth)?;
                // The parser says where the first item begins; the list does with its dash.
                let first = if is_flow { None } else { items.first() };
                let dash = first.map(|item| item.range.start).and_then(|first| self.text[..first].rfind('-'));
                let begin = dash.unwrap_or(range.start);
                let column = dash.map_or(column, |dash| self.column(dash));
                Ok(TextPart { range: begin..end, column, content: Content::List { items, is_flow } })
            }
            Event::Scalar(text, ..) => Ok(TextPart { range, column, content: Content::Scalar(text.to_string()) }),
            _ => Ok(TextPart { range, column, content: Content::Alias }),
        }
    }

    fn entries(&mut self, is_flow: bool, mut end: usize, depth: usize) -> Result<(Vec<TextEntry>, usize), YamlError> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.reader.expect()?;
            if event == Event::MappingEnd {
                return Ok((entries, if is_flow { self.range(span).end } else { end }));
            }
            let key = self.part(&event, span, depth + 1)?;
            let (event, span) = self.reader.expect()?;
            let value = self.part(&event, span, depth + 1)?;
            end = value.range.end.max(key.range.end);
            let text = if let Content::Scalar(text) = key.content { text } else { String::new() };
            entries.push(TextEntry { key: text, key_end: key.range.end, value });
        }
    }

    fn items(&mut self, is_flow: bool, mut end: usize, depth: usize) -> Result<(Vec<TextPart>, usize), YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.reader.expect()?;
            if event == Event::SequenceEnd {
                return Ok((items, if is_flow { self.range(span).end } else { end }));
            }
            let item = self.part(&event, span, depth + 1)?;
            end = item.range.end;
            items.push(item);
        }
    }

    /// Returns the bytes of a span in the text.
    fn range(&self, span: Span) -> Range<usize> {
        let bytes = span.byte_range().expect("a text that is read whole has offsets");
        self.start + bytes.start..self.start + bytes.end
    }

    /// Returns the column of a place in the text.
    fn column(&self, at: usize) -> usize {
        let line = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        self.text[line..at].chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_where_they_say() {
        let text =
            "# ü\na: 1\n---\nspec: # here\n  taints:\n  - key: \"x\" # why\n    value: y\n  flow: {b: [1, 2]}\n# end\n";
        let roots = outline(text);
        assert_eq!(roots.len(), 2);
        let spec = roots[1].get("spec").expect("a mapping");
        let taints = spec.get("taints").expect("a list");
        let shown = |part: &TextPart| (part.column, text[part.range.clone()].to_owned());
        assert_eq!(shown(taints), (2, "- key: \"x\" # why\n    value: y".to_owned()));
        let flow = spec.get("flow").expect("a mapping");
        assert_eq!(shown(flow), (8, "{b: [1, 2]}".to_owned()));
        assert_eq!(shown(flow.get("b").expect("a list")), (12, "[1, 2]".to_owned()));
        let Content::List { items, is_flow: false } = &taints.content else { panic!("{taints:?}") };
        assert!(items[0].get("key").is_some_and(|key| key.is_text("x")));
        assert_eq!(
            &text[..spec.entry("taints").expect("it is there").key_end][text.find("taints").unwrap_or(0)..],
            "taints"
        );
        assert_eq!(outline("a: [").len(), 0);
    }
}
