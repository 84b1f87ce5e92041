//! Label selectors, as Kubernetes has them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{FieldError, is_label_value, is_qualified_name, labels};

/// `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must be equal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements, ANDed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: LabelSelectorOperator,
    /// With what; empty for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelSelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// None that there is, and nothing fits it. The API's type is any text, so an OCM Placement is accepted with one and told
    /// so by its condition; [`check_selector`] refuses it everywhere else.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

impl LabelSelector {
    /// Returns the labels that it reads.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.match_labels.keys().chain(self.match_expressions.iter().map(|requirement| &requirement.key))
    }

    /// Tells whether labels fit: all equalities and all requirements; an empty selector fits everything.
    ///
    /// Source: Kubernetes API conventions, label selectors (`NotIn` holds for an absent label).
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.match_expressions.iter().all(|r| {
                let value = labels.get(&r.key);
                match &r.operator {
                    LabelSelectorOperator::In => value.is_some_and(|v| r.values.contains(v)),
                    LabelSelectorOperator::NotIn => value.is_none_or(|v| !r.values.contains(v)),
                    LabelSelectorOperator::Exists => value.is_some(),
                    LabelSelectorOperator::DoesNotExist => value.is_none(),
                    LabelSelectorOperator::Unknown(_) => false,
                }
            })
    }
}

/// Checks the requirements of a label selector.
///
/// Source: Kubernetes apimachinery, label selector validation.
pub fn check_selector(errors: &mut Vec<FieldError>, path: &str, selector: &LabelSelector) {
    labels(errors, &format!("{path}.matchLabels"), &selector.match_labels);
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        if !is_qualified_name(&requirement.key) {
            errors.push(FieldError::new(format!("{path}.key"), format!("{:?} is not a label key", requirement.key)));
        }
        if let LabelSelectorOperator::Unknown(operator) = &requirement.operator {
            let message = format!("{operator:?} is not one of In, NotIn, Exists, DoesNotExist");
            errors.push(FieldError::new(format!("{path}.operator"), message));
            // Whether an unknown operator takes values nobody can say.
            continue;
        }
        let with_values = matches!(requirement.operator, LabelSelectorOperator::In | LabelSelectorOperator::NotIn);
        if with_values == requirement.values.is_empty() {
            let message =
                if with_values { "In and NotIn need values" } else { "Exists and DoesNotExist take no values" };
            errors.push(FieldError::new(format!("{path}.values"), message));
        }
        for value in requirement.values.iter().filter(|v| !is_label_value(v)) {
            errors.push(FieldError::new(format!("{path}.values"), format!("{value:?} is not a label value")));
        }
    }
}
