//! The rules of OCM's kinds beyond their types: checks of the CRDs, which git does not run.
//!
//! What a CRD would let pass is the scheduler's to complain about (a wrong prioritizer mode, an unknown operator, a selector
//! or an expression of a Placement that cannot be read).

use super::check::{self, FieldError, count, range};
use super::object::Validate;
use super::ocm::{
    ADDON_SCORE_MAX, AddOnPlacementScore, ManagedClusterSetBindingSpec, ManagedClusterSetSpec, ManagedClusterSpec,
    OcmPlacementSpec, PRIORITIZER_WEIGHT_MAX, PrioritizerConfig, SPREAD_CONSTRAINTS_MAX, TAINT_KEY_LENGTH_MAX,
    TAINT_VALUE_LENGTH_MAX,
};
use super::placement_rules::int_or_percent;
use super::selector::check_selector;

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
            check_selector(&mut errors, "spec.clusterSelector.labelSelector", labels);
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
    }
}

/// The pattern of OCM takes a positive number in quotes, too.
fn int_or_percent_or_text(errors: &mut Vec<FieldError>, path: &str, value: &super::placement::IntOrPercent) {
    use super::placement::IntOrPercent;
    match value {
        // The pattern has neither signs nor zeros in front, which parsing would take.
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

#[cfg(test)]
#[allow(clippy::type_complexity, clippy::needless_pass_by_value, reason = "tables read better so")]
mod tests {
    use serde_json::{Value, json};

    use crate::api::table;

    fn errors(kind: &str, rest: Value) -> Vec<String> {
        let mut document = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": kind,
            "metadata": {"name": "a", "namespace": "n"}});
        document.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
        let kind = table::lookup("cluster.open-cluster-management.io", kind).expect("a kind of the group");
        kind.check(&document).err().into_iter().flatten().map(|error| error.to_string()).collect()
    }

    #[test]
    fn rules_of_the_crds_hold() {
        let weight = |weight: i32| json!({"spec": {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}, "weight": weight}]}}});
        let group = |name: &str| json!({"spec": {"decisionStrategy": {"groupStrategy": {"decisionGroups": [{"groupName": name, "groupClusterSelector": {}}]}}}});
        let length = |length: Value| json!({"spec": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": length}}}});
        let toleration = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
        let taint = |taint: Value| json!({"spec": {"taints": [taint]}});
        let score = |value: i32| json!({"status": {"scores": [{"name": "s", "value": value}]}});
        let long = "v".repeat(1025);
        let selector = json!({"labelSelector": {"matchExpressions": [{"key": "a b", "operator": "In"}]}, "celSelector": {"celExpressions": ["a."]}});
        let table: Vec<(&str, Value, &str)> = vec![
            ("Placement", weight(-10), ""),
            ("Placement", weight(-11), "spec.prioritizerPolicy.configurations[0].weight"),
            ("Placement", weight(11), "spec.prioritizerPolicy.configurations[0].weight"),
            ("Placement", json!({"spec": {"numberOfClusters": 0}}), ""),
            ("Placement", json!({"spec": {"numberOfClusters": -1}}), "spec.numberOfClusters"),
            ("Placement", group("aa"), ""),
            ("Placement", group("a"), "groupName"),
            ("Placement", group("-a"), "groupName"),
            ("Placement", length(json!("100%")), ""),
            ("Placement", length(json!("5")), ""),
            ("Placement", length(json!("0%")), "clustersPerDecisionGroup"),
            ("Placement", length(json!("101%")), "clustersPerDecisionGroup"),
            ("Placement", length(json!(0)), "clustersPerDecisionGroup"),
            ("Placement", toleration(json!({"operator": "Near"})), ""),
            ("Placement", toleration(json!({"operator": "Exists", "value": "v"})), ""),
            ("Placement", toleration(json!({"key": "a b", "operator": "Exists"})), "spec.tolerations[0].key"),
            ("Placement", toleration(json!({"key": "a", "value": long})), "spec.tolerations[0].value"),
            ("Placement", toleration(json!({"key": "a", "effect": "NoSchedule"})), "spec.tolerations[0].effect"),
            ("Placement", json!({"spec": {"predicates": [{"requiredClusterSelector": selector}]}}), ""),
            ("AddOnPlacementScore", score(100), ""),
            ("AddOnPlacementScore", score(101), "status.scores[0].value"),
            ("AddOnPlacementScore", score(-101), "status.scores[0].value"),
            ("ManagedCluster", taint(json!({"key": "a", "effect": "NoSelect"})), ""),
            ("ManagedCluster", taint(json!({"key": "", "effect": "NoSelect"})), "spec.taints[0].key"),
            ("ManagedCluster", taint(json!({"key": "a", "effect": "NoSchedule"})), "spec.taints[0].effect"),
            ("ManagedCluster", taint(json!({"key": "a", "value": long, "effect": "NoSelect"})), "spec.taints[0].value"),
        ];
        for (kind, rest, field) in table {
            let found = errors(kind, rest.clone());
            match field {
                "" => assert_eq!(found, Vec::<String>::new(), "{rest}"),
                _ => assert!(found.len() == 1 && found[0].contains(field), "{rest}: {found:?}"),
            }
        }
    }
}
