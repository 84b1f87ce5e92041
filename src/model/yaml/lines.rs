//! Finds the line of a field in a document.

use serde_yaml::granit_parser::{Event, Span};

use super::{Meter, TEXT_COST_MAX, YamlError, YamlReader, chunks};

/// Returns the line of a field of a document, for users: that of the deepest part of the path in the document.
///
/// `path` is a JSON path such as `spec.policy.clusterNames[0]`; `first_line` is the [`super::Document::line`] that the search is
/// for. Reads the text again, which only complaints pay for.
pub fn line_of(text: &str, first_line: u32, path: &str) -> u32 {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let segments: Vec<&str> =
        path.split(['.', '[']).map(|s| s.trim_end_matches(']')).filter(|s| !s.is_empty()).collect();
    let chunk = chunks(text).into_iter().take_while(|(_, line)| *line <= first_line).last();
    chunk.and_then(|(chunk, first)| walk_to(chunk, first, &segments).ok().flatten()).unwrap_or(first_line)
}

fn walk_to(chunk: &str, first_line: u32, segments: &[&str]) -> Result<Option<u32>, YamlError> {
    // What is read here is thrown away at once.
    let meter = Meter::new(TEXT_COST_MAX);
    let mut reader = YamlReader::new(chunk, first_line, &meter);
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) => {}
            _ => return reader.descend(&event, span, segments).map(Some),
        }
    }
    Ok(None)
}

impl<'t> YamlReader<'t> {
    /// Returns the line of the deepest part of a path, consuming events of the node that `event` starts.
    fn descend(&mut self, event: &Event<'t>, span: Span, path: &[&str]) -> Result<u32, YamlError> {
        let here = self.line(span.start.line());
        let Some((first, rest)) = path.split_first() else { return Ok(here) };
        let is_list = matches!(event, Event::SequenceStart(..));
        if !is_list && !matches!(event, Event::MappingStart(..)) {
            return Ok(here);
        }
        let mut position = 0usize;
        // Keys may hold the characters that separate segments: the longest joined prefix that fits wins.
        let joined: Vec<String> = (1..=path.len()).map(|n| path[..n].join(".")).collect();
        loop {
            let (event, span) = self.expect()?;
            let line = self.line(span.start.line());
            if matches!(event, Event::SequenceEnd | Event::MappingEnd) {
                return Ok(here);
            }
            if is_list {
                if first.parse() == Ok(position) {
                    return self.descend(&event, span, rest);
                }
                position += 1;
                self.node(event, span, 0)?;
                continue;
            }
            let key = self.key(event, line)?.unwrap_or_default();
            let (event, span) = self.expect()?;
            if let Some(n) = joined.iter().position(|j| *j == key) {
                let rest = &path[n + 1..];
                return if rest.is_empty() { Ok(line) } else { self.descend(&event, span, rest) };
            }
            self.node(event, span, 0)?;
        }
    }
}
