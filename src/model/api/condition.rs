//! Conditions as the Kubernetes API conventions define them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::{ConditionType, Reason};

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is not known yet.
    Unknown,
}

impl ConditionStatus {
    /// Returns the spelling of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One condition of an object's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, such as `Available`.
    #[serde(rename = "type")]
    #[schemars(with = "String")]
    pub type_: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// PascalCase reason.
    #[schemars(with = "String")]
    pub reason: Reason,
    /// A sentence for people.
    #[serde(default)]
    pub message: String,
    /// The generation of the object that this was said of.
    #[serde(default)]
    pub observed_generation: i64,
    /// When `status` last changed.
    #[schemars(with = "String")]
    pub last_transition_time: Timestamp,
}

impl Condition {
    /// Makes a condition that was observed of a generation and came to be so at a time.
    pub fn new(
        type_: ConditionType,
        status: impl Into<ConditionStatus>,
        reason: Reason,
        message: impl Into<String>,
        observed_generation: i64,
        last_transition_time: Timestamp,
    ) -> Self {
        let status = status.into();
        let message = message.into();
        Self { type_, status, reason, message, observed_generation, last_transition_time }
    }

    /// Tells whether the condition holds for this very generation, which is the only way KubeFleet counts it.
    pub fn is(&self, status: ConditionStatus, generation: i64) -> bool {
        self.status == status && self.observed_generation == generation
    }
}

/// Sets a condition, keeping the transition time where type and status stay as they were.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) {
    match conditions.iter_mut().find(|c| c.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// Returns the condition of a type.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &ConditionType) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == *type_)
}
