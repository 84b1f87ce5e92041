//! Filters: the set of clusters that each filter lets pass, and on demand the reason for a refusal.

use fixedbitset::FixedBitSet;

use model::api::check;
use model::api::cluster::Taint;
use model::api::placement::{
    ClusterAffinity, ClusterSelectorTerm, LabelSelector, LabelSelectorOperator, PlacementPolicy,
    PropertySelectorOperator, PropertySelectorRequirement, Toleration, TolerationOperator,
};
use model::cluster::Cluster;
use model::explanation::Refusal;
use model::tenants::Tenant;

use super::fleet::Fleet;
use super::labels::all;
use super::{BadValues, Error, Request, properties};

const AFFINITY: &str = "spec.policy.affinity.clusterAffinity";

/// Returns the affinity of a policy.
pub(super) fn affinity(policy: Option<&PlacementPolicy>) -> Option<&ClusterAffinity> {
    policy?.affinity.as_ref()?.cluster_affinity.as_ref()
}

/// Returns the terms of which a cluster must match one; empty if every cluster matches.
pub(super) fn required_terms(policy: Option<&PlacementPolicy>) -> &[ClusterSelectorTerm] {
    affinity(policy)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref())
        .map_or(&[], |selector| &selector.cluster_selector_terms)
}

/// Returns the path of a preferred term in a placement.
pub(super) fn preferred_path(index: usize) -> String {
    format!("{AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference")
}

fn requirements(term: &ClusterSelectorTerm) -> &[PropertySelectorRequirement] {
    term.property_selector.as_ref().map_or(&[], |selector| &selector.match_expressions)
}

/// The fleet after the filters that depend on clusters alone: those of the tenant, then affinity, then eligibility, then namespace, then
/// taints.
///
/// Source: KubeFleet, the order of its filter plugins; tenants are gitfleet's own.
pub(super) struct Filter<'a> {
    fleet: &'a Fleet,
    policy: Option<&'a PlacementPolicy>,
    namespace: Option<&'a str>,
    fitting: FixedBitSet,
    eligible: FixedBitSet,
    tolerated: FixedBitSet,
    tenant: Option<&'a Tenant>,
    permitted: FixedBitSet,
    /// The clusters that every filter lets pass.
    pub passed: FixedBitSet,
}

impl<'a> Filter<'a> {
    /// Filters a fleet. The clusters in `held` count as eligible whatever their status.
    pub(crate) fn of(request: &Request<'a>, held: &FixedBitSet) -> Result<Self, Error> {
        let fleet = request.clusters;
        let policy = request.policy;
        let mut eligible = fleet.eligible().clone();
        eligible.union_with(held);
        let mut tolerated = all(fleet.len());
        let tolerations = policy.map_or(&[][..], |policy| &policy.tolerations);
        for (_, slots) in fleet.taints().iter().filter(|(taint, _)| !is_tolerated(tolerations, taint)) {
            slots.take_from(&mut tolerated);
        }
        let fitting = fitting(fleet, required_terms(policy), request.bad_values)?;
        let selector = request.tenant.and_then(|tenant| tenant.clusters.as_ref());
        let permitted = selector.map_or_else(|| all(fleet.len()), |selector| fleet.labels().matching(selector));
        let mut passed = fitting.clone();
        passed.intersect_with(&permitted);
        passed.intersect_with(&eligible);
        passed.intersect_with(&tolerated);
        let namespace = request.placement.namespace.as_deref();
        if let Some(namespace) = namespace {
            passed.intersect_with(&fleet.with_namespace(namespace));
        }
        let tenant = request.tenant;
        Ok(Self { fleet, policy, namespace, fitting, eligible, tolerated, tenant, permitted, passed })
    }

    /// Returns the first filter that rejects a cluster.
    pub(crate) fn refusal(&self, slot: usize) -> Option<Refusal> {
        let cluster = self.fleet.cluster(slot);
        if self.passed.contains(slot) {
            return None;
        }
        if let Some(tenant) = self.tenant
            && !self.permitted.contains(slot)
        {
            let wanted = format!("to be one of tenant {}", tenant.name);
            return Some(refusal("TenantClusters", format!("cluster {}", self.fleet.name(slot)), None, wanted));
        }
        if !self.fitting.contains(slot) {
            return Some(misfit(required_terms(self.policy), cluster));
        }
        if !self.eligible.contains(slot) {
            let why = cluster.eligible.clone().err();
            return Some(refusal("ClusterEligibility", "eligibility".into(), why, "joined and healthy".into()));
        }
        if let Some(namespace) = self.namespace
            && cluster.namespaces.as_ref().is_some_and(|found| !found.contains(namespace))
        {
            return Some(refusal("NamespaceAffinity", format!("namespace {namespace}"), None, "to exist".into()));
        }
        debug_assert!(!self.tolerated.contains(slot), "a cluster that does not pass is stopped by one of the filters");
        let tolerations = self.policy.map_or(&[][..], |policy| &policy.tolerations);
        let taint = cluster.taints.iter().find(|taint| !is_tolerated(tolerations, taint))?;
        Some(refusal("TaintToleration", "taint".into(), Some(taint_text(taint)), "a toleration".into()))
    }
}

fn refusal(filter: &str, subject: String, observed: Option<String>, wanted: String) -> Refusal {
    Refusal { filter: filter.to_owned(), subject, observed, wanted }
}

fn taint_text(Taint { key, value, .. }: &Taint) -> String {
    if value.is_empty() { format!("{key}:NoSchedule") } else { format!("{key}={value}:NoSchedule") }
}

fn is_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let matches = match toleration.operator.unwrap_or_default() {
        TolerationOperator::Exists => toleration.key.is_empty() || toleration.key == taint.key,
        TolerationOperator::Equal => toleration.key == taint.key && toleration.value == taint.value,
    };
    matches && toleration.effect.is_none_or(|effect| effect == taint.effect)
}

/// Returns the clusters that match one of the terms; all of them if there are none.
fn fitting(fleet: &Fleet, terms: &[ClusterSelectorTerm], bad_values: BadValues) -> Result<FixedBitSet, Error> {
    if terms.is_empty() {
        return Ok(all(fleet.len()));
    }
    let mut found = FixedBitSet::with_capacity(fleet.len());
    for (index, term) in terms.iter().enumerate() {
        let mut fits = match &term.label_selector {
            Some(selector) => fleet.labels().matching(selector),
            None => all(fleet.len()),
        };
        // In KubeFleet the first matching term ends the search, so a bad value after it has no effect.
        fits.difference_with(&found);
        for (number, requirement) in requirements(term).iter().enumerate() {
            if bad_values == BadValues::Error {
                refuse_bad(fleet, requirement, &fits, || {
                    format!(
                        "{AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[{index}].\
                         propertySelector.matchExpressions[{number}]"
                    )
                })?;
            }
            match wanted(requirement).and_then(|wanted| Some((fleet.property(&requirement.name)?, wanted))) {
                Some((column, wanted)) => fits.intersect_with(&column.matching(requirement.operator, wanted)),
                // A missing value matches no operator in KubeFleet, `Ne` included.
                None => fits.clear(),
            }
        }
        found.union_with(&fits);
    }
    Ok(found)
}

/// Returns the quantity of a requirement; `None` if the requirement can never be met: an unreadable name, not exactly one
/// value, or no quantity.
fn wanted(requirement: &PropertySelectorRequirement) -> Option<i128> {
    let [value] = requirement.values.as_slice() else { return None };
    properties::unreadable(&requirement.name).is_none().then_some(())?;
    check::quantity_nanos(value)
}

/// Fails if the original would: one of the clusters has a value that cannot be compared.
fn refuse_bad(
    fleet: &Fleet,
    requirement: &PropertySelectorRequirement,
    asked: &FixedBitSet,
    field: impl Fn() -> String,
) -> Result<(), Error> {
    // The original evaluates a bad requirement only if a cluster met all requirements before it.
    if asked.is_clear() {
        return Ok(());
    }
    if let Some(why) = properties::unreadable(&requirement.name) {
        return Err(Error::BadRequirement { field: format!("{}.name", field()), why });
    }
    let Some(column) = fleet.property(&requirement.name) else { return Ok(()) };
    // It reads the cluster's value first: without it the wanted value is never read.
    if wanted(requirement).is_none() && column.present().intersection(asked).next().is_some() {
        let why = format!("{:?} is not one quantity", requirement.values);
        return Err(Error::BadRequirement { field: format!("{}.values", field()), why });
    }
    match column.bad().intersection(asked).next() {
        Some(slot) => Err(properties::bad_value(fleet, slot, &requirement.name, field())),
        None => Ok(()),
    }
}

/// Returns the unmet requirement of a cluster, in the term of which it meets most.
fn misfit(terms: &[ClusterSelectorTerm], cluster: &Cluster) -> Refusal {
    let mut nearest: Option<(usize, Refusal)> = None;
    for term in terms {
        let mut met = 0;
        let found = first_unmet(term, cluster, &mut met);
        if let Some(refusal) = found
            && nearest.as_ref().is_none_or(|(furthest, _)| met > *furthest)
        {
            nearest = Some((met, refusal));
        }
    }
    // Never the default: the caller knows that the cluster matches none of the terms, and there are terms.
    let (_, mut refusal) = nearest.unwrap_or_default();
    if terms.len() > 1 {
        refusal.wanted = format!("{} (the nearest of {} terms)", refusal.wanted, terms.len());
    }
    refusal
}

/// Returns the first requirement of a term that a cluster does not meet, and counts those before.
fn first_unmet(term: &ClusterSelectorTerm, cluster: &Cluster, met: &mut usize) -> Option<Refusal> {
    let nothing = LabelSelector::default();
    let selector = term.label_selector.as_ref().unwrap_or(&nothing);
    for (key, value) in &selector.match_labels {
        let observed = cluster.labels.get(key);
        if observed != Some(value) {
            return Some(refusal("ClusterAffinity", format!("label {key}"), observed.cloned(), format!("{value:?}")));
        }
        *met += 1;
    }
    for requirement in &selector.match_expressions {
        // The same code evaluates whole selectors, so that explanation and decision agree.
        let alone = LabelSelector { match_expressions: vec![requirement.clone()], ..LabelSelector::default() };
        if !alone.matches(&cluster.labels) {
            let values = requirement.values.join(", ");
            let wanted = match &requirement.operator {
                LabelSelectorOperator::In => format!("In [{values}]"),
                LabelSelectorOperator::NotIn => format!("NotIn [{values}]"),
                LabelSelectorOperator::Exists => "to exist".to_owned(),
                LabelSelectorOperator::DoesNotExist => "not to exist".to_owned(),
                LabelSelectorOperator::Unknown(operator) => format!("{operator} [{values}]"),
            };
            let observed = cluster.labels.get(&requirement.key).cloned();
            return Some(refusal("ClusterAffinity", format!("label {}", requirement.key), observed, wanted));
        }
        *met += 1;
    }
    for requirement in requirements(term) {
        let observed = cluster.properties.get(&requirement.name);
        let nanos = observed.and_then(|text| check::quantity_nanos(text));
        let fits = nanos
            .zip(wanted(requirement))
            .is_some_and(|(observed, wanted)| super::column::compares(requirement.operator, observed, wanted));
        if !fits {
            let value = requirement.values.first().map_or("a quantity", String::as_str);
            let mut wanted = format!("{} {value}", symbol(requirement.operator));
            if let Some(why) = properties::unreadable(&requirement.name) {
                wanted = format!("{wanted}; {why}");
            } else if observed.is_some() && nanos.is_none() {
                wanted.push_str(", and it is no quantity");
            }
            let subject = format!("property {}", requirement.name);
            return Some(refusal("ClusterAffinity", subject, observed.cloned(), wanted));
        }
        *met += 1;
    }
    None
}

fn symbol(operator: PropertySelectorOperator) -> &'static str {
    match operator {
        PropertySelectorOperator::Gt => ">",
        PropertySelectorOperator::Ge => ">=",
        PropertySelectorOperator::Eq => "=",
        PropertySelectorOperator::Ne => "!=",
        PropertySelectorOperator::Lt => "<",
        PropertySelectorOperator::Le => "<=",
    }
}
