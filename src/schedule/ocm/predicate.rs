//! The first filter: a cluster passes if any predicate matches its labels, its claims and its expressions.

use fixedbitset::FixedBitSet;

use super::taint::slot_number;
use super::{Hub, Notice, Request};
use crate::cel;
use crate::cel::{Expressions, Subject};
use model::api::check::{FieldError, is_label_value, is_qualified_name};
use model::api::ocm::{ClaimSelector, OcmPlacementSpec};
use model::api::placement::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};

/// The variable of expressions that holds the cluster.
const CLUSTER: &str = "managedCluster";
/// The name of this filter.
pub(super) const PLUGIN: &str = "Predicate";

/// Checks the selectors of all predicates and compiles their expressions.
///
/// # Errors
/// The first unreadable one.
pub(super) fn prepare(spec: &OcmPlacementSpec) -> Result<Vec<Expressions>, Notice> {
    let mut prepared = Vec::with_capacity(spec.predicates.len());
    for predicate in &spec.predicates {
        let selector = &predicate.required_cluster_selector;
        if let Some(message) =
            selector_error(&selector.label_selector).or_else(|| selector_error(&claims(&selector.claim_selector)))
        {
            return Err(Notice::new(PLUGIN, message));
        }
        let expressions = Expressions::compile(CLUSTER, &selector.cel_selector.cel_expressions);
        prepared.push(expressions.map_err(|message| Notice::new(PLUGIN, message))?);
    }
    Ok(prepared)
}

/// Returns the errors in the predicates, by field.
pub(super) fn complaints(spec: &OcmPlacementSpec) -> Vec<FieldError> {
    let mut complaints = Vec::new();
    for (index, predicate) in spec.predicates.iter().enumerate() {
        let path = format!("spec.predicates[{index}].requiredClusterSelector");
        let selector = &predicate.required_cluster_selector;
        let selectors =
            [("labelSelector", &selector.label_selector), ("claimSelector", &claims(&selector.claim_selector))];
        for (field, selector) in selectors {
            complaints.extend(selector_error(selector).map(|m| FieldError::new(format!("{path}.{field}"), m)));
        }
        for (index, expression) in selector.cel_selector.cel_expressions.iter().enumerate() {
            let path = format!("{path}.celSelector.celExpressions[{index}]");
            complaints.extend(cel::complaint(CLUSTER, expression).map(|message| FieldError::new(path, message)));
        }
    }
    complaints
}

/// Returns the clusters among the candidates that pass.
///
/// # Errors
/// An unreadable predicate, if there are predicates and candidates.
///
/// Source: Open Cluster Management, plugin Predicate. Without predicates or candidates nothing is evaluated.
pub(super) fn filter(request: &Request<'_>, candidates: &FixedBitSet) -> Result<FixedBitSet, Notice> {
    let predicates = &request.policy.spec().predicates;
    if predicates.is_empty() || candidates.is_clear() {
        return Ok(candidates.clone());
    }
    let expressions = request.policy.expressions.as_ref().map_err(Clone::clone)?;
    let mut passed = request.hub.no_clusters();
    let mut with_expressions = Vec::new();
    for (predicate, expressions) in predicates.iter().zip(expressions) {
        let selector = &predicate.required_cluster_selector;
        let mut fitting = fitting(request.hub, &selector.label_selector, &selector.claim_selector);
        fitting.intersect_with(candidates);
        if expressions.is_empty() {
            passed.union_with(&fitting);
        } else {
            with_expressions.push((fitting, expressions));
        }
    }
    // Expressions are the most expensive: they run last, and only for clusters that no other predicate lets pass.
    for (mut fitting, expressions) in with_expressions {
        fitting.difference_with(&passed);
        passed.extend(matching(request.hub, expressions, &fitting));
    }
    Ok(passed)
}

/// Returns the clusters among those given on which every expression is true.
fn matching(hub: &Hub, expressions: &Expressions, clusters: &FixedBitSet) -> Vec<usize> {
    expressions.matching(clusters.ones(), |slot| {
        let subject = Subject::new(&hub.member(slot_number(*slot)).object);
        // Scores are copied to become values, so only if one may be read.
        if expressions.reads_scores() { subject.with_scores(hub.score_objects(&hub.names()[*slot])) } else { subject }
    })
}

/// Returns the clusters that fit a label selector and a claim selector.
pub(super) fn fitting(hub: &Hub, by_label: &LabelSelector, by_claim: &ClaimSelector) -> FixedBitSet {
    let mut fitting = hub.labels().matching(by_label);
    if !by_claim.match_expressions.is_empty() {
        fitting.intersect_with(&hub.claims().matching(&claims(by_claim)));
    }
    fitting
}

/// Returns a claim selector as a label selector over claims.
pub(super) fn claims(selector: &ClaimSelector) -> LabelSelector {
    LabelSelector { match_expressions: selector.match_expressions.clone(), ..LabelSelector::default() }
}

/// Returns why a selector is unreadable. Claims follow the rules of labels, although their values may be longer.
///
/// Source: Kubernetes apimachinery, label selector requirements.
pub(super) fn selector_error(selector: &LabelSelector) -> Option<String> {
    let equalities = selector.match_labels.iter().map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: LabelSelectorOperator::In,
        values: vec![value.clone()],
    });
    equalities.chain(selector.match_expressions.iter().cloned()).find_map(|requirement| requirement_error(&requirement))
}

fn requirement_error(requirement: &LabelSelectorRequirement) -> Option<String> {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    if !is_qualified_name(key) {
        return Some(format!("key: Invalid value: {key:?}: is not a label key"));
    }
    if let LabelSelectorOperator::Unknown(operator) = operator {
        return Some(format!("{operator:?} is not a valid label selector operator"));
    }
    let takes_values = matches!(operator, LabelSelectorOperator::In | LabelSelectorOperator::NotIn);
    if takes_values && values.is_empty() {
        return Some("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned());
    }
    if !takes_values && !values.is_empty() {
        return Some(format!(
            "values: Invalid value: {values:?}: values set must be empty for exists and does not exist"
        ));
    }
    let (index, value) = values.iter().enumerate().find(|(_, value)| !is_label_value(value))?;
    Some(format!("values[{index}][{key}]: Invalid value: {value:?}: is not a label value"))
}
