//! Answers: the Status objects of refusals, in the shape that API servers give them.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};

use super::kinds::Kind;

/// A refusal.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Value>,
    pub retry_after: Option<u32>,
}

impl Status {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, retry_after: None }
    }

    fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns the object as it is sent.
    pub(super) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// What a request is answered with.
pub(super) struct Answer {
    pub code: u16,
    pub body: Bytes,
    pub content_type: &'static str,
    pub retry_after: Option<u32>,
}

/// Stands for the reason where there is no path.
const NO_PATH: &str = "NoPath";

pub(super) const JSON: &str = "application/json";

impl Answer {
    pub(super) fn json(value: &Value) -> Self {
        Self::bytes(200, value.to_string().into_bytes())
    }

    pub(super) fn bytes(code: u16, body: impl Into<Bytes>) -> Self {
        Self { code, body: body.into(), content_type: JSON, retry_after: None }
    }

    pub(super) fn text(code: u16, text: &'static str) -> Self {
        Self { content_type: "text/plain; charset=utf-8", ..Self::bytes(code, text) }
    }
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        if status.reason == NO_PATH {
            return Self::text(status.code, "404 page not found\n");
        }
        let body = status.to_json().to_string().into_bytes();
        Self { retry_after: status.retry_after, ..Self::bytes(status.code, body) }
    }
}

fn named(kind: &str, group: &str, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind});
    if !group.is_empty() {
        details["group"] = json!(group);
    }
    details
}

/// No version of a group that is served: API servers do not even say so in JSON.
pub(super) fn no_path() -> Status {
    Status::new(404, NO_PATH, "")
}

pub(super) fn not_served() -> Status {
    Status::new(404, "NotFound", "the server could not find the requested resource").with(json!({}))
}

pub(super) fn not_found(kind: &Kind, name: &str) -> Status {
    let message = format!("{} {name:?} not found", kind.resource());
    Status::new(404, "NotFound", message).with(named(&kind.plural, &kind.group, name))
}

pub(super) fn namespace_not_found(name: &str) -> Status {
    Status::new(404, "NotFound", format!("namespaces {name:?} not found")).with(named("namespaces", "", name))
}

pub(super) fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Status {
    let message = format!(
        "{} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
        kind.resource()
    );
    let mut details = named(&kind.plural, &kind.group, name);
    details["causes"] = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace",
        "message": format!("namespace {namespace} is being terminated")}]);
    Status::new(403, "Forbidden", message).with(details)
}

pub(super) fn already_exists(kind: &Kind, name: &str) -> Status {
    let message = format!("{} {name:?} already exists", kind.resource());
    Status::new(409, "AlreadyExists", message).with(named(&kind.plural, &kind.group, name))
}

/// A conflict about one object; deletions name the kind where other requests name the resource.
pub(super) fn conflict(resource: &str, kind: &Kind, name: &str, why: &str) -> Status {
    let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
    let short = resource.split('.').next().unwrap_or_default();
    Status::new(409, "Conflict", message).with(named(short, &kind.group, name))
}

pub(super) fn modified(kind: &Kind, name: &str) -> Status {
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    conflict(&kind.resource(), kind, name, why)
}

/// An object that its kind does not allow.
pub(super) fn invalid(kind: &Kind, name: &str, field: &str, why: &str) -> Status {
    let of_group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    let message = format!("{}{of_group} {name:?} is invalid: {field}: {why}", kind.name);
    let mut details = named(&kind.name, &kind.group, name);
    details["causes"] = json!([{"reason": "FieldValueInvalid", "message": why, "field": field}]);
    Status::new(422, "Invalid", message).with(details)
}

/// Options that a request may not have.
pub(super) fn invalid_options(options: &str, field: &str, why: &str) -> Status {
    let message = format!("{options}.meta.k8s.io \"\" is invalid: {field}: {why}");
    let causes = json!([{"reason": "FieldValueInvalid", "message": why, "field": field}]);
    let details = json!({"group": "meta.k8s.io", "kind": options, "causes": causes});
    Status::new(422, "Invalid", message).with(details)
}

pub(super) fn bad_request(message: impl Into<String>) -> Status {
    Status::new(400, "BadRequest", message)
}

pub(super) fn method_not_allowed() -> Status {
    Status::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        .with(json!({}))
}

pub(super) fn expired(message: impl Into<String>) -> Status {
    Status::new(410, "Expired", message)
}

/// Other managers own fields with other values: manager as messages name it, and its fields.
pub(super) fn apply_conflict(conflicts: &[(String, Vec<String>)]) -> Status {
    let count: usize = conflicts.iter().map(|(_, fields)| fields.len()).sum();
    let plural = if count == 1 { "" } else { "s" };
    let mut message = format!("Apply failed with {count} conflict{plural}: ");
    for (position, (manager, fields)) in conflicts.iter().enumerate() {
        let line_break = if position == 0 { "" } else { "\n" };
        let written = match fields.as_slice() {
            [field] if count == 1 => write!(message, "conflict with {manager}: {field}"),
            fields => write!(message, "{line_break}conflicts with {manager}:\n- {}", fields.join("\n- ")),
        };
        written.expect("a string takes everything");
    }
    let causes: Vec<Value> = conflicts
        .iter()
        .flat_map(|(manager, fields)| fields.iter().map(move |field| (manager, field)))
        .map(|(manager, field)| {
            json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": field})
        })
        .collect();
    Status::new(409, "Conflict", message).with(json!({"causes": causes}))
}
