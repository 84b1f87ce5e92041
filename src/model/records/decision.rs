//! Whether a cluster was picked, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ClusterName;

/// One cluster in a policy snapshot's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// Whether it was picked.
    pub selected: bool,
    /// Its scores, where it was scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_score: Option<ClusterScore>,
    /// Why.
    pub reason: PickReason,
}

/// The scores of a cluster. `priorityScore` is the API's name of the topology spread score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterScore {
    /// Sum of the preferred terms' weights.
    pub affinity_score: i32,
    /// Topology spread.
    pub priority_score: i32,
}

/// Why a cluster was picked or not. Records hold the text that people read, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum PickReason {
    /// The policy names a cluster that the fleet does not have.
    NotInFleet(ClusterName),
    /// The policy names a cluster that may take no placement, and why it may not.
    NotEligible(ClusterName, String),
    /// Nothing follows from it.
    Other(String),
}

const NAMED: &str = "not picked: the policy names ";
const NOT_IN_FLEET: &str = ", which is not in the fleet";
const NOT_ELIGIBLE: &str = ", which is not eligible: ";

impl PickReason {
    /// Says the same without that the policy names the cluster and that it was not picked.
    pub fn of_named(&self) -> String {
        match self {
            Self::NotInFleet(name) => format!("{name}{NOT_IN_FLEET}"),
            Self::NotEligible(name, why) => format!("{name}{NOT_ELIGIBLE}{why}"),
            Self::Other(text) => text.clone(),
        }
    }
}

impl fmt::Display for PickReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInFleet(_) | Self::NotEligible(..) => write!(f, "{NAMED}{}", self.of_named()),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<PickReason> for String {
    fn from(reason: PickReason) -> Self {
        reason.to_string()
    }
}

impl From<String> for PickReason {
    fn from(text: String) -> Self {
        let Some(named) = text.strip_prefix(NAMED) else { return Self::Other(text) };
        // A name holds no comma, and the words of a cluster may hold anything.
        match (named.split_once(NOT_ELIGIBLE), named.strip_suffix(NOT_IN_FLEET)) {
            (Some((name, why)), _) => Self::NotEligible(name.into(), why.to_owned()),
            (None, Some(name)) => Self::NotInFleet(name.into()),
            (None, None) => Self::Other(text),
        }
    }
}

impl From<&str> for PickReason {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::PickReason::{NotEligible, NotInFleet, Other};
    use super::*;

    #[test]
    fn records_hold_the_text_and_give_the_reason_back() {
        let reasons = [
            (NotInFleet("a".into()), "not picked: the policy names a, which is not in the fleet"),
            (NotEligible("a".into(), String::new()), "not picked: the policy names a, which is not eligible: "),
            (
                NotEligible("a".into(), "x, which is not in the fleet".into()),
                "not picked: the policy names a, which is not eligible: x, which is not in the fleet",
            ),
            (Other("picked: the policy names a".into()), "picked: the policy names a"),
            (Other("not picked: the policy names a".into()), "not picked: the policy names a"),
        ];
        for (reason, text) in reasons {
            assert_eq!(serde_json::to_value(&reason).expect("JSON"), text);
            assert_eq!(serde_json::from_value::<PickReason>(text.into()).expect("a reason"), reason);
        }
    }
}
