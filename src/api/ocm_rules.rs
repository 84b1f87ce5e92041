//! The rules of OCM's kinds that their types cannot say: what the CRDs check, which git does not.
//!
//! What a CRD would let pass is the scheduler's to complain about (a wrong prioritizer mode, an unknown operator).

use super::check::{self, FieldError, count, range};
use super::object::Validate;
use super::ocm::{
    ADDON_SCORE_MAX, AddOnPlacementScore, ClaimSelector, ManagedClusterSetBindingSpec, ManagedClusterSetSpec,
    ManagedClusterSpec, OcmPlacementSpec, PRIORITIZER_WEIGHT_MAX, PrioritizerConfig, SPREAD_CONSTRAINTS_MAX,
    TAINT_KEY_LENGTH_MAX, TAINT_VALUE_LENGTH_MAX,
};
use super::placement::LabelSelectorOperator;
use super::placement_rules::int_or_percent;

impl Validate for ManagedClusterSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (index, config) in self.managed_cluster_client_configs.iter().enumerate() {
            if !config.url.starts_with("https://") {
                let path = format!("spec.managedClusterClientConfigs[{index}].url");
                errors.push(FieldError::new(path, format!("{:?} is not an https address", config.url)));
            }
        }
        for (index, taint) in self.taints.iter().enumerate() {
            taint_text(&mut errors, &format!("spec.taints[{index}]"), &taint.key, &taint.value, false);
        }
        errors
    }
}

fn taint_text(errors: &mut Vec<FieldError>, path: &str, key: &str, value: &str, may_be_empty: bool) {
    if !(check::is_qualified_name(key) || (key.is_empty() && may_be_empty)) || key.len() > TAINT_KEY_LENGTH_MAX {
        errors.push(FieldError::new(format!("{path}.key"), format!("{key:?} is not a taint key")));
    }
    if value.len() > TAINT_VALUE_LENGTH_MAX {
        let message = format!("has {} characters, the limit is {TAINT_VALUE_LENGTH_MAX}", value.len());
        errors.push(FieldError::new(format!("{path}.value"), message));
    }
}

impl Validate for ManagedClusterSetSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(labels) = &self.cluster_selector.label_selector {
            check::label_selector(&mut errors, "spec.clusterSelector.labelSelector", labels);
        }
        errors
    }
}

impl Validate for ManagedClusterSetBindingSpec {
    fn validate(&self) -> Vec<FieldError> {
        if self.cluster_set.is_empty() {
            return vec![FieldError::new("spec.clusterSet", "must not be empty")];
        }
        Vec::new()
    }
}

impl Validate for OcmPlacementSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(n) = self.number_of_clusters {
            range(&mut errors, "spec.numberOfClusters", n, 0, i32::MAX);
        }
        for (index, predicate) in self.predicates.iter().enumerate() {
            let path = format!("spec.predicates[{index}].requiredClusterSelector");
            let selector = &predicate.required_cluster_selector;
            check::label_selector(&mut errors, &format!("{path}.labelSelector"), &selector.label_selector);
            claims(&mut errors, &format!("{path}.claimSelector"), &selector.claim_selector);
        }
        for (index, config) in self.prioritizer_policy.configurations.iter().enumerate() {
            prioritizer(&mut errors, &format!("spec.prioritizerPolicy.configurations[{index}]"), config);
        }
        for (index, toleration) in self.tolerations.iter().enumerate() {
            let path = format!("spec.tolerations[{index}]");
            taint_text(&mut errors, &path, &toleration.key, &toleration.value, true);
        }
        spread(&mut errors, self);
        groups(&mut errors, self);
        if let Some(limit) = &self.score_rate_limit {
            let digits = limit.strip_suffix(['h', 'm', 's']).unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                errors
                    .push(FieldError::new("spec.scoreRateLimit", format!("{limit:?} is not a number with h, m or s")));
            }
        }
        errors
    }
}

fn claims(errors: &mut Vec<FieldError>, path: &str, selector: &ClaimSelector) {
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let with_values = matches!(requirement.operator, LabelSelectorOperator::In | LabelSelectorOperator::NotIn);
        if with_values == requirement.values.is_empty() {
            let message =
                if with_values { "In and NotIn need values" } else { "Exists and DoesNotExist take no values" };
            errors.push(FieldError::new(format!("{path}.matchExpressions[{index}].values"), message));
        }
    }
}

fn prioritizer(errors: &mut Vec<FieldError>, path: &str, config: &PrioritizerConfig) {
    if config.score_coordinate.is_none() && config.name.is_none() {
        errors.push(FieldError::new(format!("{path}.scoreCoordinate"), "required and missing"));
    }
    if let Some(weight) = config.weight {
        range(errors, &format!("{path}.weight"), weight, -PRIORITIZER_WEIGHT_MAX, PRIORITIZER_WEIGHT_MAX);
    }
}

fn spread(errors: &mut Vec<FieldError>, spec: &OcmPlacementSpec) {
    let Some(policy) = &spec.spread_policy else { return };
    let path = "spec.spreadPolicy.spreadConstraints";
    count(errors, path, policy.spread_constraints.len(), 0, SPREAD_CONSTRAINTS_MAX);
    for (index, constraint) in policy.spread_constraints.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if !check::is_qualified_name(&constraint.topology_key) {
            let message = format!("{:?} is not a label key", constraint.topology_key);
            errors.push(FieldError::new(format!("{path}.topologyKey"), message));
        }
        if !matches!(constraint.topology_key_type.as_str(), "Label" | "Claim") {
            let message = format!("{:?} is not one of Label, Claim", constraint.topology_key_type);
            errors.push(FieldError::new(format!("{path}.topologyKeyType"), message));
        }
        range(errors, &format!("{path}.maxSkew"), constraint.max_skew.unwrap_or(1), 1, i32::MAX);
    }
}

fn groups(errors: &mut Vec<FieldError>, spec: &OcmPlacementSpec) {
    let strategy = &spec.decision_strategy.group_strategy;
    let path = "spec.decisionStrategy.groupStrategy";
    if let Some(size) = &strategy.clusters_per_decision_group {
        int_or_percent_or_text(errors, &format!("{path}.clustersPerDecisionGroup"), size);
    }
    for (index, group) in strategy.decision_groups.iter().enumerate() {
        let path = format!("{path}.decisionGroups[{index}]");
        if group.group_name.len() < 2 || !check::is_label_value(&group.group_name) {
            let message = format!("{:?} is not 2 to 63 letters, digits and -_.", group.group_name);
            errors.push(FieldError::new(format!("{path}.groupName"), message));
        }
        let selector = &group.group_cluster_selector;
        let path = format!("{path}.groupClusterSelector");
        check::label_selector(errors, &format!("{path}.labelSelector"), &selector.label_selector);
        claims(errors, &format!("{path}.claimSelector"), &selector.claim_selector);
    }
}

/// The pattern of OCM takes a positive number in quotes, too.
fn int_or_percent_or_text(errors: &mut Vec<FieldError>, path: &str, value: &super::placement::IntOrPercent) {
    use super::placement::IntOrPercent;
    match value {
        IntOrPercent::Text(text) if text.parse().is_ok_and(|n: u32| n >= 1) && !text.starts_with(['0', '+']) => {}
        value => int_or_percent(errors, path, value, 1),
    }
}

impl Validate for AddOnPlacementScore {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (index, score) in self.status.scores.iter().enumerate() {
            let path = format!("status.scores[{index}].value");
            range(&mut errors, &path, score.value, -ADDON_SCORE_MAX, ADDON_SCORE_MAX);
        }
        check::unique(&mut errors, "status.scores", self.status.scores.iter().map(|s| s.name.as_str()));
        errors
    }
}
