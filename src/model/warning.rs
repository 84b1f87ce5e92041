//! Warnings: problems that refuse nothing and must be visible.

use serde::{Deserialize, Serialize};

use super::manifest::InputError;

/// The kind of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WarningKind {
    /// No entry of `members:` reaches clusters of the source.
    NoAccess,
    /// Two clusters lead to one API server.
    SameServer,
    /// Clusters have never answered.
    NeverAnswered,
    /// Fewer clusters fit than a policy asks for.
    PolicyUnfulfilled,
    /// `maxUnavailable: 0`.
    NoUpdateStarts,
    /// A placement selects Pods.
    PodsNotDelivered,
    /// A selector names a missing object, or all selectors select nothing.
    NothingSelected,
    /// Objects are in no namespace, and nothing says whether they belong into one.
    NamespaceUnknown,
    /// A Namespace or a definition is not deleted, because another placement has objects in it, or is to have some.
    // The name in stores of an earlier version, whose placements would not be read otherwise.
    #[serde(alias = "namespaceInUse")]
    StillInUse,
    /// Nothing moves the clusters of an External placement.
    NoRun,
    /// Clusters are in no stage, and their strategy ignores them.
    ClustersIgnored,
}

/// One warning about the fleet or about a placement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// Its kind.
    pub kind: WarningKind,
    /// The field of the placement, as a JSON path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The problem, as text for users.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Warning {
    /// Creates a warning.
    pub fn new(kind: WarningKind, message: impl Into<String>) -> Self {
        Self { kind, field: None, message: message.into(), hint: None }
    }

    /// Adds the field.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Turns it into an error in the source.
    pub fn of(&self, path: &str, line: u32, object: String) -> InputError {
        let Self { field, message, hint, .. } = self.clone();
        InputError { path: path.to_owned(), line, object: Some(object), field, message, hint }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_by_its_earlier_name() {
        let read: WarningKind = serde_json::from_str(r#""namespaceInUse""#).expect("it is known");
        assert_eq!(read, WarningKind::StillInUse);
    }
}
