//! Selectors of labels and fields.

use super::answer::{Status, bad_request};
use super::body::{Body, Name};

/// What an object must be like to be listed or watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl Selector {
    /// Reads both selectors of a request.
    pub(super) fn read(labels: Option<&str>, fields: Option<&str>) -> Result<Self, Status> {
        let labels = split(labels.unwrap_or_default()).map(requirement).collect::<Option<_>>();
        let fields = split(fields.unwrap_or_default()).map(|text| {
            let (name, value) = text.split_once('=')?;
            let (name, is_equal) = name.strip_suffix('!').map_or((name, true), |name| (name, false));
            Some((name.to_owned(), is_equal, value.trim_start_matches('=').to_owned()))
        });
        Ok(Self {
            labels: labels.ok_or_else(|| bad_request("unable to parse requirement"))?,
            fields: fields.collect::<Option<_>>().ok_or_else(|| bad_request("invalid field selector"))?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, name: &Name, body: &Body) -> bool {
        self.labels.iter().all(|requirement| match requirement {
            Requirement::Exists(label) => body.label(label).is_some(),
            Requirement::Absent(label) => body.label(label).is_none(),
            Requirement::In(label, values) => body.label(label).is_some_and(|v| values.iter().any(|value| value == v)),
            Requirement::NotIn(label, values) => {
                !body.label(label).is_some_and(|v| values.iter().any(|value| value == v))
            }
        }) && self.fields.iter().all(|(field, is_equal, wanted)| {
            let found = match field.as_str() {
                "metadata.name" => name.name.to_string(),
                "metadata.namespace" => name.namespace.to_string(),
                path => {
                    let pointer = format!("/{}", path.replace('.', "/"));
                    body.content().pointer(&pointer).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
                }
            };
            (found == *wanted) == *is_equal
        })
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let parts = text.split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn requirement(text: &str) -> Option<Requirement> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '!', '(', ')', ' ']);
    let name = |name: &str| Some(name.trim().to_owned()).filter(|name| is_name(name));
    if let Some((left, right)) = text.split_once('=') {
        let value = right.strip_prefix('=').unwrap_or(right).trim().to_owned();
        if value.contains('=') {
            return None;
        }
        return Some(match left.strip_suffix('!') {
            Some(left) => Requirement::NotIn(name(left)?, vec![value]),
            None => Requirement::In(name(left)?, vec![value]),
        });
    }
    if let Some((left, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = left.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(label), Some("in"), None) => Some(Requirement::In(name(label)?, values)),
            (Some(label), Some("notin"), None) => Some(Requirement::NotIn(name(label)?, values)),
            _ => None,
        };
    }
    match text.strip_prefix('!') {
        Some(label) => Some(Requirement::Absent(name(label)?)),
        None => Some(Requirement::Exists(name(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::manifest::Manifest;
    use super::*;

    #[test]
    fn selectors_select() {
        let content = json!({"metadata": {"labels": {"a": "1", "b.io/c": "2"}}, "spec": {"nodeName": "n"}});
        let body = Body::of(&Manifest { content, managers: Vec::new() });
        let name = Name::new("x", "y");
        let matches = |labels: &str, fields: &str| {
            Selector::read(Some(labels), Some(fields)).map(|selector| selector.matches(&name, &body)).ok()
        };
        for (labels, fields, wanted) in [
            ("", "", Some(true)),
            ("a", "", Some(true)),
            ("a=1,b.io/c==2", "", Some(true)),
            ("a!=1", "", Some(false)),
            ("d!=1,!d", "", Some(true)),
            ("a in (2, 1),b.io/c", "", Some(true)),
            ("a notin (2,1)", "", Some(false)),
            ("a===1", "", None),
            ("a of (1)", "", None),
            ("", "metadata.name=y,metadata.namespace!=z", Some(true)),
            ("", "spec.nodeName!=,status.phase!=Failed", Some(true)),
            ("", "spec.nodeName=", Some(false)),
            ("", "nothing", None),
        ] {
            assert_eq!(matches(labels, fields), wanted, "{labels} {fields}");
        }
    }
}
