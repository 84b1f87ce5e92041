//! The file of values by cluster of a rendered folder: YAML in whose texts fields of the cluster stand.
//!
//! It is read as YAML first, and what stands in a text is put in afterwards: whatever a label holds, it stays in that text. So the file is
//! no template of YAML, and a value with quotes, line breaks or braces cannot become another field.

mod grammar;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use self::grammar::{Operand, TextPart, ValueAction, ValueKind, parts};
use model::manifest::InputError;
use model::variants::{ClusterField, ClusterInputs};
use model::yaml;

/// The largest file of values by cluster, in bytes.
pub const VALUES_BYTES_MAX: usize = 256 * 1024;

/// The most that such a file may become with the values of a cluster, in bytes.
pub const FILLED_BYTES_MAX: usize = 1024 * 1024;

/// Complaints of one file for which the exact line is looked up.
const EXACT_LINES_MAX: usize = 50;

/// A file of values by cluster.
#[derive(Clone, Debug)]
pub struct ValuesTemplate {
    path: String,
    text: String,
    documents: Vec<(u32, ValueNode)>,
    /// What it asks of a cluster.
    pub reads: BTreeSet<ClusterField>,
}

#[derive(Clone, Debug)]
enum ValueNode {
    Plain(Value),
    Text(Vec<TextPart>),
    List(Vec<ValueNode>),
    Map(Vec<(String, ValueNode)>),
}

impl ValuesTemplate {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything in it that is no YAML, or no field of a cluster between braces.
    pub fn read(path: &str, content: &[u8]) -> Result<Self, Vec<InputError>> {
        let complaint = |line: u32, field: Option<String>, message: String, hint: Option<String>| InputError {
            path: path.to_owned(),
            line,
            object: None,
            field,
            message,
            hint,
        };
        if content.len() > VALUES_BYTES_MAX {
            let message = format!("has {} bytes, the limit for values by cluster is {VALUES_BYTES_MAX}", content.len());
            return Err(vec![complaint(0, None, message, Some("keep here what differs by cluster".to_owned()))]);
        }
        let Ok(text) = std::str::from_utf8(content) else {
            return Err(vec![complaint(0, None, "is not UTF-8 text".to_owned(), None)]);
        };
        let mut template =
            Self { path: path.to_owned(), text: text.to_owned(), documents: Vec::new(), reads: BTreeSet::new() };
        let mut errors = Vec::new();
        for document in yaml::parse_documents(text) {
            match document {
                Ok(document) => {
                    errors.extend(document.truth_keys.into_iter().map(|key| {
                        let message = format!("the key {} is read as \"{}\"", key.written, key.read);
                        complaint(key.line, None, message, Some(format!("put it in quotes: \"{}\"", key.written)))
                    }));
                    let mut wrong = Vec::new();
                    let node = read(document.value, "", &mut template.reads, &mut wrong);
                    errors.extend(wrong.into_iter().enumerate().map(|(position, (field, message))| {
                        let is_exact = position < EXACT_LINES_MAX;
                        let line = if is_exact { yaml::line_of(text, document.line, &field) } else { document.line };
                        complaint(line, (!field.is_empty()).then_some(field), message, None)
                    }));
                    template.documents.push((document.line, node));
                }
                Err(error) => {
                    let quotes = "a text with {{ }} needs quotes, such as region: '{{ .Cluster.Labels.region }}'";
                    let hint = if text.contains("{{") { Some(quotes.to_owned()) } else { error.hint };
                    errors.push(complaint(error.line, None, error.message, hint));
                }
            }
        }
        if errors.is_empty() { Ok(template) } else { Err(errors) }
    }

    /// Returns the file for clusters with these inputs: JSON, which is YAML too. It depends on nothing else.
    ///
    /// # Errors
    /// Each value that the inputs lack or that is of another kind, with its line; where it becomes too large, that alone.
    pub fn filled(&self, inputs: &ClusterInputs) -> Result<Vec<u8>, Vec<InputError>> {
        let mut filling = Filling { inputs, bytes: self.text.len(), wrong: Vec::new() };
        let mut filled = Vec::new();
        let mut errors = Vec::new();
        for (line, node) in &self.documents {
            let value = filling.value(node, "");
            if filling.bytes > FILLED_BYTES_MAX {
                let message = format!("has more than {FILLED_BYTES_MAX} bytes with the values of a cluster");
                let field = None;
                return Err(vec![InputError {
                    path: self.path.clone(),
                    line: 0,
                    object: None,
                    field,
                    message,
                    hint: None,
                }]);
            }
            errors.extend(filling.wrong.drain(..).enumerate().map(|(position, (field, message, hint))| {
                let is_exact = position < EXACT_LINES_MAX;
                let line = if is_exact { yaml::line_of(&self.text, *line, &field) } else { *line };
                let field = (!field.is_empty()).then_some(field);
                InputError { path: self.path.clone(), line, object: None, field, message, hint: Some(hint) }
            }));
            if !filled.is_empty() {
                filled.extend_from_slice(b"---\n");
            }
            // On several lines: readers of YAML have limits for one.
            filled.extend_from_slice(escaped(&format!("{value:#}")).as_bytes());
            filled.push(b'\n');
        }
        if errors.is_empty() { Ok(filled) } else { Err(errors) }
    }
}

/// Reads a value, with what it asks for and what is wrong, by field.
fn read(value: Value, field: &str, reads: &mut BTreeSet<ClusterField>, wrong: &mut Vec<(String, String)>) -> ValueNode {
    match value {
        Value::String(text) if text.contains("{{") => match parts(&text) {
            Ok(parts) => {
                let actions = parts.iter().filter_map(|part| match part {
                    TextPart::Action(ValueAction { operand: Operand::Field(field), .. }) => Some(field.clone()),
                    _ => None,
                });
                reads.extend(actions);
                ValueNode::Text(parts)
            }
            Err(why) => {
                wrong.push((field.to_owned(), why));
                ValueNode::Plain(Value::Null)
            }
        },
        Value::Array(items) => {
            let each = items.into_iter().enumerate();
            ValueNode::List(each.map(|(index, item)| read(item, &format!("{field}[{index}]"), reads, wrong)).collect())
        }
        Value::Object(fields) => {
            let mut all = Vec::with_capacity(fields.len());
            for (key, value) in fields {
                let below = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
                if key.contains("{{") {
                    wrong.push((below.clone(), "the name of a field cannot differ by cluster".to_owned()));
                }
                let node = read(value, &below, reads, wrong);
                all.push((key, node));
            }
            ValueNode::Map(all)
        }
        other => ValueNode::Plain(other),
    }
}

struct Filling<'a> {
    inputs: &'a ClusterInputs,
    /// How large the result is at most, so far.
    bytes: usize,
    /// Field, what is wrong, what to do.
    wrong: Vec<(String, String, String)>,
}

impl Filling<'_> {
    fn value(&mut self, node: &ValueNode, field: &str) -> Value {
        match node {
            ValueNode::Plain(value) => value.clone(),
            ValueNode::Text(parts) => self.text(parts, field),
            ValueNode::List(items) => {
                let each = items.iter().enumerate();
                Value::Array(each.map(|(index, item)| self.value(item, &format!("{field}[{index}]"))).collect())
            }
            ValueNode::Map(fields) => {
                let mut all = Map::new();
                for (key, node) in fields {
                    let below = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
                    let value = self.value(node, &below);
                    all.insert(key.clone(), value);
                }
                Value::Object(all)
            }
        }
    }

    fn text(&mut self, parts: &[TextPart], field: &str) -> Value {
        let mut text = String::new();
        for part in parts {
            let (more, kind) = match part {
                TextPart::Literal(literal) => (literal.clone(), ValueKind::Text),
                TextPart::Action(action) => match self.made(action, field) {
                    Some(made) => (made, action.kind),
                    None => return Value::Null,
                },
            };
            self.bytes = self.bytes.saturating_add(more.len());
            // Nothing is added any more once it is too much.
            if self.bytes > FILLED_BYTES_MAX {
                return Value::Null;
            }
            let (value, wanted) = match kind {
                ValueKind::Text => {
                    text.push_str(&more);
                    continue;
                }
                ValueKind::Int => (more.parse::<i64>().map(Value::from).ok(), "a whole number"),
                ValueKind::Bool => (more.parse::<bool>().map(Value::from).ok(), "true or false"),
            };
            return value.unwrap_or_else(|| {
                let message = format!("{} is {more:?}, which is not {wanted}", asked(part));
                self.wrong.push((field.to_owned(), message, "change it, or write it as text".to_owned()));
                Value::Null
            });
        }
        Value::String(text)
    }

    fn made(&mut self, action: &ValueAction, field: &str) -> Option<String> {
        let of = match &action.operand {
            Operand::Text(text) => return Some(text.clone()),
            Operand::Field(of) => of,
        };
        let value = self.inputs.get(of).or(action.default.as_ref()).cloned();
        if value.is_none() {
            let hint = "give it one, or add `| default \"TEXT\"`".to_owned();
            self.wrong.push((field.to_owned(), format!("the cluster has no {of}"), hint));
        }
        value
    }
}

/// Escapes what JSON allows in texts and YAML does not. In JSON it stands nowhere else.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text
}

/// Names what an action asks for.
fn asked(part: &TextPart) -> String {
    match part {
        TextPart::Action(ValueAction { operand: Operand::Field(field), .. }) => format!("the {field}"),
        _ => "the text".to_owned(),
    }
}

#[cfg(test)]
mod tests;
