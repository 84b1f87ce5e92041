//! The rules of a placement that its types cannot say.
//!
//! Source: KubeFleet's CRD validations and admission webhooks, as far as they concern one object alone. Rules about
//! changes (immutable fields, tolerations that may only be added) do not hold between commits.

use std::collections::BTreeMap;

use super::annotations;
use super::check::{self, FieldError, count, range, unique};
use super::object::{Metadata, Validate};
use super::placement::{
    ApplyStrategy, ApplyStrategyType, ClusterSelectorTerm, IntOrPercent, PlacementPolicy, PlacementSpec, PlacementType,
    PropertySelector, PropertySelectorOperator, ReportBackType, ResourceSelector, RolloutStrategy, SelectionScope,
    StatusReportingScope, StrategyType, Toleration, TolerationOperator,
};
use super::selector::check_selector;

/// Selectors of one placement.
pub(super) const SELECTORS_MAX: usize = 100;
/// Names in `clusterNames`.
pub(super) const CLUSTER_NAMES_MAX: usize = 100;
/// Terms of a required affinity.
pub(super) const AFFINITY_TERMS_MAX: usize = 10;
/// Tolerations of one placement.
pub(super) const TOLERATIONS_MAX: usize = 100;
/// The largest `revisionHistoryLimit`.
pub(super) const REVISION_HISTORY_LIMIT_MAX: i32 = 1000;
/// The largest weight of a preference; the smallest is its negative.
pub(super) const PREFERENCE_WEIGHT_MAX: i32 = 100;

/// Prefix of the properties that say how much of a resource a cluster has.
const RESOURCE_PROPERTY_PREFIX: &str = "resources.kubernetes-fleet.io/";

impl Validate for PlacementSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        count(&mut errors, "spec.resourceSelectors", self.resource_selectors.len(), 1, SELECTORS_MAX);
        range(&mut errors, "spec.revisionHistoryLimit", self.revision_history_limit, 1, REVISION_HISTORY_LIMIT_MAX);
        for (index, selector) in self.resource_selectors.iter().enumerate() {
            resource_selector(&mut errors, &format!("spec.resourceSelectors[{index}]"), selector);
        }
        selection_scopes(&mut errors, &self.resource_selectors);
        if let Some(policy) = &self.policy {
            validate_policy(&mut errors, policy);
        }
        validate_strategy(&mut errors, &self.strategy);
        errors
    }
}

/// Checks the one rule that a ClusterResourcePlacement has and a ResourcePlacement has not.
pub(super) fn cluster_scope_errors(spec: &PlacementSpec) -> Vec<FieldError> {
    let is_one_namespace = spec.resource_selectors.len() == 1 && is_namespace(&spec.resource_selectors[0]);
    if spec.status_reporting_scope != StatusReportingScope::NamespaceAccessible || is_one_namespace {
        return Vec::new();
    }
    let message = "NamespaceAccessible needs exactly one selector, of kind Namespace";
    vec![FieldError::new("spec.statusReportingScope", message)]
}

/// Checks a placement's extensions, which depend on its spec.
pub(super) fn extension_errors(metadata: &Metadata, spec: &PlacementSpec) -> Vec<FieldError> {
    let mut errors = annotations::validate(&metadata.annotations, annotations::ON_PLACEMENT);
    let given = &metadata.annotations;
    if given.contains_key(annotations::STAGED_UPDATE_STRATEGY) && spec.strategy.type_ != StrategyType::External {
        let field = annotation_field(annotations::STAGED_UPDATE_STRATEGY);
        let error = FieldError::new(field, "needs strategy.type External");
        errors.push(error.hint("set `spec.strategy.type: External`, or remove the annotation"));
    }
    if given.contains_key(annotations::OCM_PLACEMENT) && spec.policy.is_some() {
        let message = "an OCM Placement picks the clusters, and the placement has a policy of its own";
        let field = annotation_field(annotations::OCM_PLACEMENT);
        errors.push(FieldError::new(field, message).hint("remove one of the two"));
    }
    if let Some(namespace) = given.get(annotations::DEFAULT_NAMESPACE)
        && !metadata.namespace.is_empty()
        && *namespace != metadata.namespace
    {
        let message =
            format!("a ResourcePlacement places objects of its own namespace, which is {}", metadata.namespace);
        let field = annotation_field(annotations::DEFAULT_NAMESPACE);
        errors.push(FieldError::new(field, message).hint("name that one"));
    }
    errors
}

fn annotation_field(key: &str) -> String {
    format!("metadata.annotations.{key}")
}

fn is_namespace(selector: &ResourceSelector) -> bool {
    selector.group.is_empty() && selector.version == "v1" && selector.kind == "Namespace"
}

fn resource_selector(errors: &mut Vec<FieldError>, path: &str, selector: &ResourceSelector) {
    for (field, value) in [("version", &selector.version), ("kind", &selector.kind)] {
        if value.is_empty() {
            errors.push(FieldError::new(format!("{path}.{field}"), "must not be empty"));
        }
    }
    if !selector.name.is_empty() && selector.label_selector.is_some() {
        errors.push(FieldError::new(path, "name and labelSelector exclude each other").hint("keep one of them"));
    }
    if let Some(labels) = &selector.label_selector {
        check_selector(errors, &format!("{path}.labelSelector"), labels);
    }
}

fn selection_scopes(errors: &mut Vec<FieldError>, selectors: &[ResourceSelector]) {
    let mut with_scope = selectors
        .iter()
        .enumerate()
        .filter(|(_, selector)| selector.selection_scope == SelectionScope::NamespaceWithResourceSelectors);
    let Some((index, selector)) = with_scope.next() else { return };
    let path = format!("spec.resourceSelectors[{index}]");
    if let Some((second, _)) = with_scope.next() {
        let path = format!("spec.resourceSelectors[{second}].selectionScope");
        errors.push(FieldError::new(path, "only one selector may use NamespaceWithResourceSelectors"));
    }
    if selector.name.is_empty() || selector.label_selector.is_some() {
        errors.push(FieldError::new(&path, "NamespaceWithResourceSelectors needs a name and no labelSelector"));
    }
    if selectors.iter().filter(|s| is_namespace(s)).count() > 1 {
        let message = "with NamespaceWithResourceSelectors there may be no other Namespace selector";
        errors.push(FieldError::new(path, message));
    }
}

fn validate_policy(errors: &mut Vec<FieldError>, policy: &PlacementPolicy) {
    let kind = policy.placement_type;
    // (field, is set, may be set)
    let table = [
        ("clusterNames", !policy.cluster_names.is_empty(), kind == PlacementType::PickFixed),
        ("numberOfClusters", policy.number_of_clusters.is_some(), kind == PlacementType::PickN),
        ("affinity", policy.affinity.is_some(), kind != PlacementType::PickFixed),
        ("topologySpreadConstraints", !policy.topology_spread_constraints.is_empty(), kind == PlacementType::PickN),
        ("tolerations", !policy.tolerations.is_empty(), kind != PlacementType::PickFixed),
    ];
    for (field, is_set, allowed) in table {
        if is_set && !allowed {
            let error = FieldError::new(format!("spec.policy.{field}"), format!("not allowed with {kind:?}"));
            errors.push(error.hint("remove it, or change placementType"));
        }
    }
    match kind {
        PlacementType::PickN => match policy.number_of_clusters {
            None => errors.push(FieldError::new("spec.policy.numberOfClusters", "PickN needs it")),
            Some(n) => range(errors, "spec.policy.numberOfClusters", n, 0, i32::MAX),
        },
        PlacementType::PickFixed | PlacementType::PickAll => {}
    }
    cluster_names(errors, &policy.cluster_names);
    affinity(errors, policy);
    for (index, spread) in policy.topology_spread_constraints.iter().enumerate() {
        let path = format!("spec.policy.topologySpreadConstraints[{index}]");
        range(errors, &format!("{path}.maxSkew"), spread.max_skew.unwrap_or(1), 1, i32::MAX);
        if spread.topology_key.is_empty() {
            errors.push(FieldError::new(format!("{path}.topologyKey"), "must not be empty"));
        }
    }
    tolerations(errors, &policy.tolerations);
}

fn cluster_names(errors: &mut Vec<FieldError>, names: &[String]) {
    let path = "spec.policy.clusterNames";
    count(errors, path, names.len(), 0, CLUSTER_NAMES_MAX);
    unique(errors, path, names.iter().map(String::as_str));
    for (index, name) in names.iter().enumerate() {
        if !check::is_dns_subdomain(name) || name.len() > check::LABEL_LENGTH_MAX {
            errors.push(FieldError::new(format!("{path}[{index}]"), format!("{name:?} is not a cluster name")));
        }
    }
}

fn affinity(errors: &mut Vec<FieldError>, policy: &PlacementPolicy) {
    let Some(affinity) = policy.affinity.as_ref().and_then(|a| a.cluster_affinity.as_ref()) else { return };
    let base = "spec.policy.affinity.clusterAffinity";
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = format!("{base}.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms");
        count(errors, &path, required.cluster_selector_terms.len(), 0, AFFINITY_TERMS_MAX);
        for (index, term) in required.cluster_selector_terms.iter().enumerate() {
            let path = format!("{path}[{index}]");
            cluster_term(errors, &path, term);
            if term.property_sorter.is_some() {
                let error = FieldError::new(format!("{path}.propertySorter"), "a required term cannot rank");
                errors.push(error.hint("put it into a preferred term"));
            }
        }
    }
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    let path = format!("{base}.preferredDuringSchedulingIgnoredDuringExecution");
    if policy.placement_type == PlacementType::PickAll && !preferred.is_empty() {
        errors.push(FieldError::new(&path, "PickAll takes every cluster that fits and prefers none"));
    }
    for (index, term) in preferred.iter().enumerate() {
        let path = format!("{path}[{index}]");
        range(errors, &format!("{path}.weight"), term.weight, -PREFERENCE_WEIGHT_MAX, PREFERENCE_WEIGHT_MAX);
        cluster_term(errors, &format!("{path}.preference"), &term.preference);
        if term.preference.property_selector.is_some() {
            let error =
                FieldError::new(format!("{path}.preference.propertySelector"), "a preferred term cannot filter");
            errors.push(error.hint("put it into a required term, or rank with propertySorter"));
        }
    }
}

fn cluster_term(errors: &mut Vec<FieldError>, path: &str, term: &ClusterSelectorTerm) {
    if let Some(labels) = &term.label_selector {
        check_selector(errors, &format!("{path}.labelSelector"), labels);
    }
    if let Some(properties) = &term.property_selector {
        property_selector(errors, &format!("{path}.propertySelector.matchExpressions"), properties);
    }
    if let Some(sorter) = &term.property_sorter {
        property_name(errors, &format!("{path}.propertySorter.name"), &sorter.name);
    }
}

fn property_name(errors: &mut Vec<FieldError>, path: &str, name: &str) {
    // The Azure provider's names have more than one slash: `kubernetes.azure.com/vm-sizes/SKU/count`.
    let segments_fit = !name.is_empty() && name.split('/').all(|s| !s.is_empty() && check::is_label_value(s));
    if !check::is_qualified_name(name) && !segments_fit {
        errors.push(FieldError::new(path, format!("{name:?} is not a property name")));
    }
    if let Some(resource) = name.strip_prefix(RESOURCE_PROPERTY_PREFIX) {
        let known = ["total-", "allocatable-", "available-"];
        if !known.iter().any(|kind| resource.strip_prefix(kind).is_some_and(|r| !r.is_empty())) {
            let message = format!("{name:?} is not total-, allocatable- or available- and a resource");
            errors.push(FieldError::new(path, message));
        }
    }
}

/// What the requirements on one property leave over.
#[derive(Default)]
struct Interval {
    /// Lower bound and whether it is excluded.
    low: Option<(i128, bool)>,
    high: Option<(i128, bool)>,
    equal: Option<i128>,
    unequal: Vec<i128>,
    contradiction: bool,
}

impl Interval {
    fn add(&mut self, operator: PropertySelectorOperator, value: i128) {
        use PropertySelectorOperator::{Eq, Ge, Gt, Le, Lt, Ne};
        match operator {
            // These pairs compare as bounds do: the larger is tighter, and of two equal ones the excluding one.
            Gt | Ge => self.low = self.low.max(Some((value, operator == Gt))),
            Lt | Le => {
                let new = (value, operator == Lt);
                // The smaller bound is tighter; of two equal ones, the excluding one.
                if self.high.is_none_or(|old| new.0 < old.0 || (new.0 == old.0 && new.1)) {
                    self.high = Some(new);
                }
            }
            Eq => {
                self.contradiction |= self.equal.is_some_and(|old| old != value);
                self.equal = Some(value);
            }
            Ne => self.unequal.push(value),
        }
    }

    fn is_empty(&self) -> bool {
        let crossed = matches!((self.low, self.high), (Some(l), Some(h)) if l.0 > h.0 || (l.0 == h.0 && (l.1 || h.1)));
        self.contradiction || crossed || self.equal.is_some_and(|value| self.excludes(value))
    }

    fn excludes(&self, value: i128) -> bool {
        let is_below = self.low.is_some_and(|(low, excluded)| value < low || (excluded && value == low));
        let is_above = self.high.is_some_and(|(high, excluded)| value > high || (excluded && value == high));
        is_below || is_above || self.unequal.contains(&value)
    }
}

fn property_selector(errors: &mut Vec<FieldError>, path: &str, selector: &PropertySelector) {
    let mut intervals: BTreeMap<&str, Interval> = BTreeMap::new();
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        property_name(errors, &format!("{path}.name"), &requirement.name);
        let [value] = requirement.values.as_slice() else {
            let message = format!("takes exactly one value, has {}", requirement.values.len());
            errors.push(FieldError::new(format!("{path}.values"), message));
            continue;
        };
        if let Some(nanos) = check::quantity_nanos(value) {
            intervals.entry(&requirement.name).or_default().add(requirement.operator, nanos);
        } else {
            let message = format!("{value:?} is not a quantity");
            errors.push(FieldError::new(format!("{path}.values[0]"), message));
        }
    }
    for (name, _) in intervals.iter().filter(|(_, interval)| interval.is_empty()) {
        errors.push(FieldError::new(path, format!("no value of {name:?} can meet all its requirements")));
    }
}

fn tolerations(errors: &mut Vec<FieldError>, tolerations: &[Toleration]) {
    let path = "spec.policy.tolerations";
    count(errors, path, tolerations.len(), 0, TOLERATIONS_MAX);
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let operator = toleration.operator.unwrap_or_default();
        if !toleration.key.is_empty() && !check::is_qualified_name(&toleration.key) {
            errors.push(FieldError::new(format!("{path}.key"), format!("{:?} is not a label key", toleration.key)));
        }
        if toleration.key.is_empty() && operator != TolerationOperator::Exists {
            errors.push(FieldError::new(format!("{path}.operator"), "an empty key needs operator Exists"));
        }
        if operator == TolerationOperator::Exists && !toleration.value.is_empty() {
            errors.push(FieldError::new(format!("{path}.value"), "operator Exists takes no value"));
        }
        if !check::is_label_value(&toleration.value) {
            errors
                .push(FieldError::new(format!("{path}.value"), format!("{:?} is not a label value", toleration.value)));
        }
        if tolerations[..index].contains(toleration) {
            errors.push(FieldError::new(path, "the toleration is listed twice"));
        }
    }
}

fn validate_strategy(errors: &mut Vec<FieldError>, strategy: &RolloutStrategy) {
    if let Some(rolling) = &strategy.rolling_update {
        let path = "spec.strategy.rollingUpdate";
        if strategy.type_ == StrategyType::External {
            let error = FieldError::new(path, "not allowed with type External");
            errors.push(error.hint("stages limit an External rollout; remove the block"));
        }
        for (field, value) in [("maxUnavailable", &rolling.max_unavailable), ("maxSurge", &rolling.max_surge)] {
            if let Some(value) = value {
                int_or_percent(errors, &format!("{path}.{field}"), value, 0);
            }
        }
        let period = rolling.unavailable_period_seconds.unwrap_or_default();
        range(errors, &format!("{path}.unavailablePeriodSeconds"), period, 0, i32::MAX);
    }
    if let Some(apply) = &strategy.apply_strategy {
        apply_strategy(errors, "spec.strategy.applyStrategy", apply);
    }
    if let Some(report) = &strategy.report_back_strategy
        && report.type_ == ReportBackType::Mirror
        && report.destination.is_none()
    {
        errors.push(FieldError::new("spec.strategy.reportBackStrategy.destination", "Mirror needs it"));
    }
}

fn apply_strategy(errors: &mut Vec<FieldError>, path: &str, apply: &ApplyStrategy) {
    if apply.server_side_apply_config.is_some() && apply.type_ != ApplyStrategyType::ServerSideApply {
        let error = FieldError::new(format!("{path}.serverSideApplyConfig"), "only for type ServerSideApply");
        errors.push(error.hint("remove it, or set type: ServerSideApply"));
    }
}

/// Checks a number or percentage; `min` is the smallest number, and with 1 also the smallest percentage.
pub(super) fn int_or_percent(errors: &mut Vec<FieldError>, path: &str, value: &IntOrPercent, min: i32) {
    let fits = match value {
        IntOrPercent::Int(n) => *n >= min,
        IntOrPercent::Text(text) => match check::percent(text) {
            Some(percent) => i32::from(percent) >= min,
            None => min == 0 && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()),
        },
    };
    if !fits {
        let found = match value {
            IntOrPercent::Int(n) => n.to_string(),
            IntOrPercent::Text(text) => format!("{text:?}"),
        };
        let message = format!("{found} is neither a number from {min} nor a percentage up to 100%");
        errors.push(FieldError::new(path, message));
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, clippy::too_many_lines, reason = "tables read better so")]
mod tests;
