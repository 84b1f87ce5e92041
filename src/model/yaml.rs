//! YAML as kubectl reads it: only this module depends on the YAML crate.
//!
//! A manifest must mean here what it means to kubectl, or a file mode, a port or a flag would change. The crate provides syntax
//! events; `scalar` determines the value of a plain scalar, by the rules of kubectl's own reader.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use serde_yaml::granit_parser::{ErrorKind, Event, Options, Parser, ScanError, Span, StrInput};

mod keys;
mod lines;
mod meter;
pub mod outline;
mod scalar;
mod typed;

pub use keys::TruthKey;
use keys::{Inside, TruthKeys};
pub use lines::line_of;
pub use meter::{Cost, DOCUMENT_BYTES, Meter};
pub use typed::{FieldError, typed};

/// Nesting levels a document may have. CustomResourceDefinitions, the deepest manifests known, need about 60.
pub const NESTING_MAX: usize = 200;

/// Nodes that aliases and anchors of one document may copy; a bomb needs millions.
pub const ALIAS_NODES_MAX: usize = 100_000;

/// Bytes of memory that aliases and anchors of one document may copy.
pub const ALIAS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Nodes of one document.
pub const NODES_MAX: usize = 1_000_000;

/// What one text may cost where nobody says otherwise.
pub const TEXT_COST_MAX: Cost = Cost { nodes: 2_000_000, bytes: 192 * 1024 * 1024 };

/// How much a reader holds back before it counts: one count for each value would slow threads that share a meter.
const UNCOUNTED_MAX: Cost = Cost { nodes: 256, bytes: 64 * 1024 };

/// One document of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// One-based line of the document's first content, comments not counted.
    pub line: u32,
    /// What it says.
    pub value: Value,
    /// One-based lines of the elements of a list under the key `items`, which is where a List has its objects.
    pub item_lines: Vec<u32>,
    /// The keys that are words to people and truth values to kubectl, from the outside in.
    pub truth_keys: Vec<TruthKey>,
}

/// Says why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    /// One-based line of the place.
    pub line: u32,
    /// What is wrong there.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl YamlError {
    fn new(line: u32, message: impl Into<String>) -> Self {
        Self { line, message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns the documents of a YAML or JSON text, each by itself: an error in one does not hide the others.
///
/// Empty documents are left out. A line that starts with `---` always separates documents, as YAML has it and as kubectl
/// cuts its input, so the text is cut there before it is parsed.
pub fn parse_documents(text: &str) -> Vec<Result<Document, YamlError>> {
    documents(text, &Meter::new(TEXT_COST_MAX)).collect()
}

/// Returns the documents one by one, as [`parse_documents`] does, and counts what they cost. The document with which the
/// meter runs over is an error, and so are those after it.
pub fn documents<'a>(text: &'a str, meter: &'a Meter<'a>) -> impl Iterator<Item = Result<Document, YamlError>> + 'a {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    chunks(text).into_iter().flat_map(|(chunk, first_line)| parse_chunk(chunk, first_line, meter))
}

/// Returns the YAML of a value, as `-o yaml` prints it.
///
/// Numbers and words in strings are quoted, so that [`parse_documents`] reads the same value back.
///
/// # Panics
/// Never: the keys of JSON are strings and its numbers are finite.
pub fn to_string(value: &Value) -> String {
    serde_yaml::to_string(value).expect("a JSON value is always representable in YAML")
}

/// Cuts a text at its document markers; each piece with the line it starts on.
fn chunks(text: &str) -> Vec<(&str, u32)> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut start_line = 1;
    let mut has_content = false;
    let mut position = 0;
    for (number, line) in (1u32..).zip(text.split_inclusive('\n')) {
        let is_marker =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if is_marker && has_content {
            pieces.push((&text[start..position], start_line));
            start = position;
            start_line = number;
            has_content = false;
        }
        // Directives belong to the document whose marker follows them.
        has_content |= is_marker || !(line.trim_end().is_empty() || line.starts_with(['#', '%']));
        position += line.len();
    }
    pieces.push((&text[start..], start_line));
    pieces
}

fn parse_chunk(chunk: &str, first_line: u32, meter: &Meter<'_>) -> Vec<Result<Document, YamlError>> {
    let mut reader = YamlReader::new(chunk, first_line, meter);
    let mut documents = Vec::new();
    loop {
        match reader.document() {
            Ok(Some(document)) if document.value.is_null() => {}
            Ok(Some(document)) => documents.push(Ok(document)),
            Ok(None) => return documents,
            Err(error) => {
                documents.push(json_fallback(chunk, first_line, meter).ok_or(error));
                return documents;
            }
        }
    }
}

/// Reads what is JSON but not YAML: escaped surrogate pairs, tabs for indentation.
fn json_fallback(chunk: &str, first_line: u32, meter: &Meter<'_>) -> Option<Document> {
    if !chunk.trim_start().starts_with('{') || chunk.contains("\n---") {
        return None;
    }
    // What YAML refuses although its syntax is right (duplicate keys, numbers) must stay refused.
    let strict = chunk.replace('\t', " ").replace("\\ud", "d");
    // It counts the values, too: only then are they made.
    YamlReader::new(&strict, first_line, meter).document().ok()?;
    let value = serde_json::from_str(chunk).ok()?;
    Some(Document { line: first_line, value, item_lines: Vec::new(), truth_keys: Vec::new() })
}

struct Anchored {
    value: Value,
    /// What a copy of it costs.
    cost: Cost,
    /// The keys in it that are truth values.
    keys: Inside,
}

struct YamlReader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Lines before the text.
    offset: u32,
    anchors: BTreeMap<usize, Anchored>,
    meter: &'t Meter<'t>,
    /// What the document has cost so far, and how much of that the meter knows.
    seen: Cost,
    counted: Cost,
    copied: Cost,
    /// Lines of the elements of the last list directly below the root mapping.
    element_lines: Vec<u32>,
    item_lines: Vec<u32>,
    truth_keys: TruthKeys,
}

impl<'t> YamlReader<'t> {
    fn new(text: &'t str, first_line: u32, meter: &'t Meter<'t>) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        options.flow_nesting_limit = NESTING_MAX;
        options.block_nesting_limit = NESTING_MAX;
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            offset: first_line - 1,
            anchors: BTreeMap::new(),
            meter,
            seen: Cost::default(),
            counted: Cost::default(),
            copied: Cost::default(),
            element_lines: Vec::new(),
            item_lines: Vec::new(),
            truth_keys: TruthKeys::default(),
        }
    }

    fn line(&self, line: usize) -> u32 {
        u32::try_from(line).unwrap_or(u32::MAX).saturating_add(self.offset)
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, YamlError> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(self.syntax(&error)),
        }
    }

    fn syntax(&self, error: &ScanError) -> YamlError {
        let line = self.line(error.marker().line());
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => too_deep(line),
            kind => YamlError::new(line, format!("not YAML: {kind}")),
        }
    }

    /// Returns the event that must follow.
    fn expect(&mut self) -> Result<(Event<'t>, Span), YamlError> {
        self.next()?.ok_or_else(|| YamlError::new(self.offset + 1, "not YAML: the text ends too early"))
    }

    fn document(&mut self) -> Result<Option<Document>, YamlError> {
        loop {
            let Some((event, span)) = self.next()? else { return Ok(None) };
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {
                    self.anchors.clear();
                    (self.seen, self.counted, self.copied) = Default::default();
                    self.spend(Cost { nodes: 0, bytes: DOCUMENT_BYTES }, self.line(span.start.line()))?;
                }
                Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(None),
                event => {
                    let line = self.line(span.start.line());
                    let value = self.node(event, span, 0)?;
                    // What was held back is counted before the document is handed out.
                    self.count(line)?;
                    let item_lines = std::mem::take(&mut self.item_lines);
                    return Ok(Some(Document { line, value, item_lines, truth_keys: self.truth_keys.take() }));
                }
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Value, YamlError> {
        let line = self.line(span.start.line());
        // The parser limits block and flow nesting each by itself; mixed, they go deeper.
        if depth > NESTING_MAX {
            return Err(too_deep(line));
        }
        let before = self.seen;
        let known = self.truth_keys.len();
        self.spend(Cost::node(), line)?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(Cost::text(&text), line)?;
                (scalar::value(text, style, tag.as_deref()).map_err(|m| YamlError::new(line, m))?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(id) => return self.alias(id, line),
            _ => return Err(YamlError::new(line, "not YAML: a value was expected")),
        };
        if anchor != 0 {
            let cost = self.seen.since(before);
            // The anchor keeps a copy, which takes as much as one that an alias makes.
            self.pay(cost, line)?;
            let keys = self.truth_keys.inside(known);
            self.anchors.insert(anchor, Anchored { value: value.clone(), cost, keys });
        }
        Ok(value)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        let mut lines = Vec::new();
        loop {
            let (event, span) = self.expect()?;
            if event == Event::SequenceEnd {
                break;
            }
            if depth == 1 {
                lines.push(self.line(span.start.line()));
            }
            let known = self.truth_keys.len();
            items.push(self.node(event, span, depth + 1)?);
            self.truth_keys.lead(known, || format!("[{}]", items.len() - 1));
        }
        if depth == 1 {
            // The key of this list is not known here: the mapping around it takes the lines if it is `items`.
            self.element_lines = lines;
        }
        // Lists are kept as long as their commit, and room to spare would be kept with them.
        items.shrink_to_fit();
        Ok(Value::Array(items))
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut entries: Vec<(String, u32, Value)> = Vec::new();
        let mut merges = Vec::new();
        loop {
            let (event, span) = self.expect()?;
            if event == Event::MappingEnd {
                break;
            }
            let line = self.line(span.start.line());
            let key = self.key(event, line)?;
            let (event, span) = self.expect()?;
            let known = self.truth_keys.len();
            let value = self.node(event, span, depth + 1)?;
            match &key {
                Some(key) => self.truth_keys.lead(known, || key.clone()),
                None => self.truth_keys.merge(known, value.is_array()),
            }
            match key {
                Some(key) => {
                    // Of a List each element is an object, with a line of its own.
                    if depth == 0 && key == "items" {
                        self.item_lines = std::mem::take(&mut self.element_lines);
                    }
                    entries.push((key, line, value));
                }
                None => merges.push((entries.len(), line, value)),
            }
        }
        // Before merges are put in: they may repeat what is written out.
        if let Some((key, first, second)) = duplicate(&entries) {
            return Err(YamlError::new(second, format!("key {key:?} stands here and on line {first}"))
                .hint("remove one of the two"));
        }
        self.spend(Cost::mapping(entries.len()), entries.first().map_or(self.offset + 1, |(_, line, _)| *line))?;
        let mut map = Map::new();
        let mut merges = merges.into_iter().peekable();
        for (position, (key, _, value)) in entries.into_iter().enumerate() {
            while let Some((_, line, source)) = merges.next_if(|(before, ..)| *before <= position) {
                merge(&mut map, line, source)?;
            }
            map.insert(key, value);
        }
        for (_, line, source) in merges {
            merge(&mut map, line, source)?;
        }
        Ok(Value::Object(map))
    }

    /// Returns a key as JSON spells it; `None` for a merge key.
    fn key(&mut self, event: Event<'t>, line: u32) -> Result<Option<String>, YamlError> {
        let value = match event {
            Event::Scalar(text, style, anchor, tag) => {
                if scalar::is_merge_key(&text, style, tag.as_deref()) {
                    return Ok(None);
                }
                let cost = Cost::text(&text);
                self.spend(cost, line)?;
                if let Some(read) = scalar::truth(&text, style, tag.as_deref()) {
                    self.truth_keys.add(&text, read, line);
                }
                let value = scalar::value(text, style, tag.as_deref()).map_err(|m| YamlError::new(line, m))?;
                if anchor != 0 {
                    self.pay(cost, line)?;
                    let keys = self.truth_keys.inside(self.truth_keys.len());
                    self.anchors.insert(anchor, Anchored { value: value.clone(), cost, keys });
                }
                value
            }
            Event::Alias(id) => self.alias(id, line)?,
            _ => return Err(YamlError::new(line, "a key is a list or a mapping; JSON knows only text keys")),
        };
        scalar::key(value).map(Some).ok_or_else(|| YamlError::new(line, "a key is null, a list or a mapping"))
    }

    fn alias(&mut self, id: usize, line: u32) -> Result<Value, YamlError> {
        let Some(found) = self.anchors.get(&id) else {
            return Err(YamlError::new(line, "an alias stands inside the value it names"));
        };
        self.pay(found.cost, line)?;
        // Paid for first: it is there still.
        let found = &self.anchors[&id];
        self.truth_keys.copy(found.keys);
        Ok(found.value.clone())
    }

    /// Takes in what a value costs, before it is made.
    fn spend(&mut self, cost: Cost, line: u32) -> Result<(), YamlError> {
        self.seen = self.seen.and(cost);
        if self.seen.nodes > NODES_MAX {
            return Err(YamlError::new(line, format!("the document has more than {NODES_MAX} values")));
        }
        if self.seen.since(self.counted).exceeds(UNCOUNTED_MAX) { self.count(line) } else { Ok(()) }
    }

    fn count(&mut self, line: u32) -> Result<(), YamlError> {
        let new = self.seen.since(std::mem::replace(&mut self.counted, self.seen));
        if self.meter.count(new) {
            return Ok(());
        }
        Err(YamlError::new(line, "all documents together have more values than can be read"))
    }

    /// Takes in what a copy costs, before it is made.
    fn pay(&mut self, cost: Cost, line: u32) -> Result<(), YamlError> {
        self.spend(cost, line)?;
        self.copied = self.copied.and(cost);
        if self.copied.nodes > ALIAS_NODES_MAX || self.copied.bytes > ALIAS_BYTES_MAX {
            let limits = format!("{ALIAS_NODES_MAX} values or {ALIAS_BYTES_MAX} bytes");
            return Err(YamlError::new(line, format!("the document's aliases expand to more than {limits}"))
                .hint("write the values out, or split the document"));
        }
        Ok(())
    }
}

fn too_deep(line: u32) -> YamlError {
    YamlError::new(line, format!("nested deeper than {NESTING_MAX} levels"))
}

/// Returns a key that stands twice, with both lines.
fn duplicate(entries: &[(String, u32, Value)]) -> Option<(&str, u32, u32)> {
    let mut order: Vec<(&str, u32)> = entries.iter().map(|(key, line, _)| (key.as_str(), *line)).collect();
    order.sort_unstable();
    order.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0].0, pair[0].1, pair[1].1))
}

/// Puts what a `<<` key names into a mapping. Of several sources the first wins.
///
/// Keys that stand above the `<<` are overwritten and those below it overwrite, as kubectl has it; YAML's own rule, that
/// the mapping's keys always win, agrees only where the `<<` stands first.
fn merge(map: &mut Map<String, Value>, line: u32, source: Value) -> Result<(), YamlError> {
    let sources = match source {
        Value::Array(items) => items,
        other => vec![other],
    };
    for source in sources.into_iter().rev() {
        let Value::Object(source) = source else {
            return Err(YamlError::new(line, "`<<` merges mappings, and this is none"));
        };
        map.extend(source);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::format_push_string, reason = "short")]
mod tests;
