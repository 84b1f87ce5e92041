//! How gitfleet decides whether objects are available, as the file says it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::complaint;
use model::manifest::InputError;
use model::yaml::line_of;
use schedule::cel::ObjectExpression;

/// How gitfleet decides whether objects are available, beside KubeFleet's rules.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct HealthSection {
    /// What holds for objects whose kind has no rule, neither here nor of KubeFleet.
    pub others: OtherKinds,
    /// Rules for kinds, before all others.
    pub kinds: Vec<KindSection>,
}

/// What holds for objects whose kind has no rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum OtherKinds {
    /// Their status does: a Job's conditions; observedGeneration, Ready, Reconciling and Stalled of any other.
    #[default]
    Conditions,
    /// Nothing: they count as available after `unavailablePeriodSeconds`, as in KubeFleet.
    NotTrackable,
}

/// When objects of one kind are available, and when they failed: one of the two at least.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KindSection {
    /// The group of the kind; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The kind, in any version.
    pub kind: String,
    /// An expression in CEL over `object` that is true when it is available, and not before; absent: as without this rule. A field that
    /// is not there makes it false.
    #[serde(default)]
    pub available: Option<String>,
    /// An expression in CEL over `object` that is true when it failed: its cluster has failed at once.
    #[serde(default)]
    pub failed: Option<String>,
}

/// How gitfleet decides whether objects are available, beside KubeFleet's rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthSettings {
    /// What holds for objects whose kind has no rule.
    pub others: OtherKinds,
    /// Rules for kinds, before all others.
    pub kinds: Vec<KindHealth>,
}

/// When objects of one kind are available, and when they failed.
#[derive(Clone, Debug, PartialEq)]
pub struct KindHealth {
    /// The group of the kind.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// True when an object is available.
    pub available: Option<ObjectExpression>,
    /// True when an object failed.
    pub failed: Option<ObjectExpression>,
}

impl HealthSection {
    /// Compiles the expressions. `text` is the whole file: complaints name the line.
    pub(super) fn compiled(self, text: &str, errors: &mut Vec<InputError>) -> HealthSettings {
        let mut kinds: Vec<KindHealth> = Vec::new();
        for (position, section) in self.kinds.into_iter().enumerate() {
            let place = format!("health.kinds[{position}]");
            let mut complain = |field: &str, message: String| {
                let path = format!("{place}{field}");
                errors.push(InputError { line: line_of(text, 1, &path), ..complaint(&path, message) });
            };
            let mut compiled = |field: &str, text: Option<&str>| {
                let compiled = ObjectExpression::compile(text?);
                compiled.map_err(|message| complain(field, message)).ok()
            };
            let available = compiled(".available", section.available.as_deref());
            let failed = compiled(".failed", section.failed.as_deref());
            let KindSection { group, kind, .. } = section;
            if section.available.is_none() && section.failed.is_none() {
                complain("", "says neither when the kind is available nor when it failed".to_owned());
            }
            if kinds.iter().any(|other| other.group == group && other.kind == kind) {
                complain("", format!("is a second rule for {kind}"));
            }
            kinds.push(KindHealth { group, kind, available, failed });
        }
        HealthSettings { others: self.others, kinds }
    }
}
