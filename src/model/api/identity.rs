//! Valid identities: group, version, kind, namespace and name, by Kubernetes' own rules.
//!
//! An identity becomes a file name, a URL, a record key and a label. So every object from git, in a file or in an envelope,
//! gets its identity only here; an API server would refuse an invalid one too.

use serde_json::Value;

use super::check::{FieldError, LABEL_LENGTH_MAX, NAME_LENGTH_MAX, is_dns_label, is_dns_subdomain};
use crate::id::ObjectId;
use crate::kinds;

/// What the name of an object may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameRule {
    /// A DNS label.
    Label,
    /// A DNS subdomain.
    Subdomain,
    /// Anything that can stand between two slashes of a URL.
    PathSegment,
}

/// Built-in kinds whose names are no DNS subdomains.
///
/// Source: Kubernetes 1.36, `ValidateObjectMeta` of each kind in `pkg/apis/*/validation` and of kube-aggregator. Of rules that
/// changed between versions the wider one counts: a Service was a DNS-1035 label before 1.36, a StatefulSet a subdomain
/// before 1.27. A CSIDriver may have capital letters, an IPAddress colons, an APIService a dot at its end.
const NAME_RULES: &[(&str, &str, NameRule)] = &[
    ("", "Namespace", NameRule::Label),
    ("", "Service", NameRule::Label),
    ("", "Event", NameRule::PathSegment),
    ("apiregistration.k8s.io", "APIService", NameRule::PathSegment),
    ("certificates.k8s.io", "CertificateSigningRequest", NameRule::PathSegment),
    ("certificates.k8s.io", "ClusterTrustBundle", NameRule::PathSegment),
    ("events.k8s.io", "Event", NameRule::PathSegment),
    ("networking.k8s.io", "IPAddress", NameRule::PathSegment),
    ("rbac.authorization.k8s.io", "ClusterRole", NameRule::PathSegment),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", NameRule::PathSegment),
    ("rbac.authorization.k8s.io", "Role", NameRule::PathSegment),
    ("rbac.authorization.k8s.io", "RoleBinding", NameRule::PathSegment),
    ("storage.k8s.io", "CSIDriver", NameRule::PathSegment),
];

/// Returns the rule for a kind's names. A kind that is not built in may be served by an API server of its own, with rules of
/// its own; what every API server asks for is a segment of a path.
fn name_rule(group: &str, kind: &str) -> NameRule {
    if let Some((_, _, rule)) = NAME_RULES.iter().find(|(g, k, _)| *g == group && *k == kind) {
        return *rule;
    }
    match kinds::lookup(group, kind) {
        Some(_) => NameRule::Subdomain,
        None => NameRule::PathSegment,
    }
}

impl NameRule {
    /// Says what is wrong with a name.
    ///
    /// Source: Kubernetes apimachinery 0.36, `IsDNS1123Label`, `IsDNS1123Subdomain` and `IsPathSegmentName`. The last one
    /// sets no length and allows control characters; no tool takes those, and a URL has an end.
    fn complaint(self, name: &str) -> Option<&'static str> {
        match self {
            Self::Label if !is_dns_label(name) => Some(
                "is no DNS label: at most 63 lowercase letters, digits and `-`, beginning and ending with a letter or digit",
            ),
            Self::Subdomain if !is_dns_subdomain(name) => Some(
                "is no DNS subdomain: at most 253 lowercase letters, digits, `-` and `.`, beginning and ending with a letter or digit",
            ),
            Self::PathSegment if matches!(name, "." | "..") => Some("means a folder in a path"),
            Self::PathSegment if name.contains(['/', '%']) => {
                Some("has a `/` or `%`, which mean something else in a path")
            }
            Self::PathSegment if name.contains(char::is_control) => Some("has a control character"),
            Self::PathSegment if name.len() > NAME_LENGTH_MAX => Some("has more than 253 bytes"),
            _ => None,
        }
    }
}

/// Returns the identity of an object, checked.
///
/// # Errors
/// The part that is missing or that breaks Kubernetes' rules, with its field.
pub fn identify(object: &Value) -> Result<ObjectId, FieldError> {
    let api_version = text(object, "apiVersion", "apiVersion")?;
    let kind = text(object, "kind", "kind")?;
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let name = text(metadata, "name", "metadata.name")?;
    let namespace = text(metadata, "namespace", "metadata.namespace")?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    for (field, part) in [("kind", kind), ("apiVersion", version)] {
        if part.is_empty() {
            return Err(FieldError::new(field, "must not be empty"));
        }
    }
    if name.is_empty() {
        if !text(metadata, "generateName", "metadata.generateName")?.is_empty() {
            let error =
                FieldError::new("metadata.generateName", "a name that changes with every apply cannot be kept in git");
            return Err(error.hint("set metadata.name"));
        }
        return Err(FieldError::new("metadata.name", "required and missing"));
    }
    check_type(api_version, group, version, kind)?;
    if !namespace.is_empty() && !is_dns_label(namespace) {
        let message = format!(
            "{} is no namespace: at most 63 lowercase letters, digits and `-`, beginning and ending with a letter or digit",
            quoted(namespace)
        );
        return Err(FieldError::new("metadata.namespace", message).hint("correct the namespace"));
    }
    if let Some(complaint) = name_rule(group, kind).complaint(name) {
        let message = format!("{} cannot be the name of a {kind}: it {complaint}", quoted(name));
        return Err(FieldError::new("metadata.name", message).hint("rename the object"));
    }
    let own = str::to_owned;
    Ok(ObjectId {
        group: own(group),
        version: own(version),
        kind: own(kind),
        namespace: own(namespace),
        name: own(name),
    })
}

/// Checks group, version and kind.
///
/// Source: Kubernetes 1.36, the rules of apiextensions for a CustomResourceDefinition; aggregated groups have the same.
fn check_type(api_version: &str, group: &str, version: &str, kind: &str) -> Result<(), FieldError> {
    // `/v1` has an empty group, too, and is not the core group.
    let is_group = if group.is_empty() { !api_version.contains('/') } else { is_dns_subdomain(group) };
    if !is_group || !is_dns_1035_label(version) {
        let message = format!("{} is no API version", quoted(api_version));
        return Err(
            FieldError::new("apiVersion", message).hint("write `v1`, or a group and a version, such as `apps/v1`")
        );
    }
    // A kind is such a label but for its capital letters.
    if !is_dns_1035_label(&kind.to_ascii_lowercase()) {
        let message =
            format!("{} is no kind: at most 63 letters, digits and `-`, beginning with a letter", quoted(kind));
        return Err(FieldError::new("kind", message).hint("correct the kind"));
    }
    // A built-in kind in other letters is a typing mistake: API servers know it by its exact name alone.
    let twin = kinds::BUILT_IN.iter().find(|known| known.group == group && known.kind.eq_ignore_ascii_case(kind));
    match twin {
        Some(known) if known.kind != kind => {
            let message = format!("{api_version} has no kind {kind}");
            Err(FieldError::new("kind", message).hint(format!("did you mean {}?", known.kind)))
        }
        _ => Ok(()),
    }
}

/// Tells whether a text is a DNS label that begins with a letter.
fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

fn text<'a>(value: &'a Value, key: &str, field: &str) -> Result<&'a str, FieldError> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(FieldError::new(field, format!("{other} is not text")).hint("put it in quotes")),
    }
}

/// Returns a text for a message: what would break the line is escaped, and what is long is cut.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(LABEL_LENGTH_MAX + 1) {
        Some((end, _)) => format!("{:?} and more", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests;
