//! The second filter: a cluster passes if the placement tolerates each of its taints.

use fixedbitset::FixedBitSet;
use jiff::{SignedDuration, Timestamp};

use super::hub::TaintText;
use super::{Notice, Request};
use model::api::check::FieldError;
use model::api::ocm::{ManagedClusterTaint, ManagedTaintEffect, OcmPlacementSpec, OcmToleration};

/// The name of this filter.
pub(super) const PLUGIN: &str = "TaintToleration";

/// How a placement tolerates a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bearing {
    /// As long as it exists.
    Always,
    /// Until then.
    Until(Timestamp),
    /// Not, or no longer.
    Not,
}

/// Removes the clusters with a taint that is not tolerated.
///
/// # Errors
/// An unreadable toleration, if there are clusters left.
///
/// Source: Open Cluster Management, plugin TaintToleration. `PreferNoSelect` rejects no cluster and does not change scores.
pub(super) fn filter(request: &Request<'_>, passed: &mut FixedBitSet) -> Result<(), Notice> {
    if passed.is_clear() {
        return Ok(());
    }
    let tolerations = &request.policy.spec().tolerations;
    if let Some(message) = tolerations.iter().find_map(toleration_error) {
        return Err(Notice::new(PLUGIN, message));
    }
    let held = request.hub.held(request.key);
    for (text, clusters) in request.hub.taints() {
        let mut clusters = clusters & &*passed;
        if text.2 == ManagedTaintEffect::NoSelectIfNew
            && let Some(held) = held
        {
            clusters.difference_with(held);
        }
        match tolerances(tolerations, text) {
            Tolerances::None => passed.difference_with(&clusters),
            Tolerances::Always => {}
            Tolerances::ByTime => {
                // The same taint has another date on each cluster, so each is evaluated.
                for slot in clusters.ones() {
                    let taints = request.hub.member(slot_number(slot)).taints.iter();
                    let mut same = taints.filter(|taint| is(taint, text));
                    if same.any(|taint| bearing(tolerations, taint, request.now) == Bearing::Not) {
                        passed.remove(slot);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns when the first toleration of a present or picked candidate ends.
///
/// Source: Open Cluster Management evaluates only the clusters of the decisions, and its own writes trigger it again. It also
/// evaluates clusters that are no candidates any more, without effect.
pub(super) fn ends(request: &Request<'_>, candidates: &FixedBitSet, selected: &FixedBitSet) -> Option<Timestamp> {
    let tolerations = &request.policy.spec().tolerations;
    if tolerations.iter().all(|toleration| toleration.toleration_seconds.is_none()) {
        return None;
    }
    let mut clusters = selected.clone();
    let held = request.hub.held(request.key);
    clusters.union_with(held.unwrap_or(&request.hub.no_clusters()));
    let mut tainted = request.hub.no_clusters();
    request.hub.taints().values().for_each(|with| tainted.union_with(with));
    clusters.intersect_with(&tainted);
    clusters.intersect_with(candidates);
    let ends = clusters.ones().flat_map(|slot| {
        let is_held = held.is_some_and(|held| held.contains(slot));
        request.hub.member(slot_number(slot)).taints.iter().filter_map(move |taint| {
            // It is tolerated because the cluster is held, so the end of a toleration changes nothing.
            if is_held && taint.effect == ManagedTaintEffect::NoSelectIfNew {
                return None;
            }
            match bearing(tolerations, taint, request.now) {
                Bearing::Until(end) => Some(end),
                Bearing::Always | Bearing::Not => None,
            }
        })
    });
    ends.min()
}

/// Returns the first taint of a cluster that rejects the placement.
pub(super) fn repelling<'a>(request: &'a Request<'_>, slot: u32) -> Option<&'a ManagedClusterTaint> {
    let held = request.hub.held(request.key).is_some_and(|held| held.contains(slot as usize));
    request.hub.member(slot).taints.iter().find(|taint| {
        let bearing = bearing(&request.policy.spec().tolerations, taint, request.now);
        bearing == Bearing::Not && !(held && taint.effect == ManagedTaintEffect::NoSelectIfNew)
    })
}

/// Returns the errors in the tolerations, by field.
pub(super) fn complaints(spec: &OcmPlacementSpec) -> Vec<FieldError> {
    let mut complaints = Vec::new();
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        if let Some(error) = toleration_error(toleration) {
            complaints.push(FieldError::new(format!("spec.tolerations[{index}]"), error));
        }
    }
    complaints
}

fn toleration_error(toleration: &OcmToleration) -> Option<&'static str> {
    let exists = toleration.operator.as_deref() == Some("Exists");
    if toleration.key.is_empty() && !exists {
        return Some("If the key is empty, operator must be Exists.");
    }
    (exists && !toleration.value.is_empty()).then_some("If the operator is Exists, the value should be empty.")
}

/// The time limits of the tolerations that match a taint.
enum Tolerances {
    /// None matches.
    None,
    /// A matching one has no limit: the taint is tolerated whatever its date.
    Always,
    /// The time decides.
    ByTime,
}

fn tolerances(tolerations: &[OcmToleration], text: &TaintText) -> Tolerances {
    let (key, value, effect) = text;
    if *effect == ManagedTaintEffect::PreferNoSelect {
        return Tolerances::Always;
    }
    let matching: Vec<&OcmToleration> = tolerations.iter().filter(|t| matches(t, key, value, *effect)).collect();
    match matching.iter().any(|toleration| toleration.toleration_seconds.is_none()) {
        true => Tolerances::Always,
        false if matching.is_empty() => Tolerances::None,
        false => Tolerances::ByTime,
    }
}

/// Returns how a taint is tolerated: by the first matching toleration that has not ended. A toleration with seconds has already
/// ended for a taint without a date, because the original reads an absent date as year 1.
fn bearing(tolerations: &[OcmToleration], taint: &ManagedClusterTaint, now: Timestamp) -> Bearing {
    if taint.effect == ManagedTaintEffect::PreferNoSelect {
        return Bearing::Always;
    }
    let matching = tolerations.iter().filter(|t| matches(t, &taint.key, &taint.value, taint.effect));
    let mut bearings = matching.map(|toleration| {
        let Some(seconds) = toleration.toleration_seconds else { return Bearing::Always };
        let Some(added) = taint.time_added else { return Bearing::Not };
        // An instant after the valid range is never reached, and one before it always was.
        match added.checked_add(SignedDuration::from_secs(seconds)) {
            Ok(end) if now < end => Bearing::Until(end),
            Err(_) if seconds > 0 => Bearing::Always,
            _ => Bearing::Not,
        }
    });
    bearings.find(|bearing| *bearing != Bearing::Not).unwrap_or(Bearing::Not)
}

/// Tells whether a toleration matches a taint. An unknown operator matches nothing.
fn matches(toleration: &OcmToleration, key: &str, value: &str, effect: ManagedTaintEffect) -> bool {
    toleration.effect.is_none_or(|wanted| wanted == effect)
        && (toleration.key.is_empty() || toleration.key == key)
        && match toleration.operator.as_deref() {
            None | Some("" | "Equal") => toleration.value == value,
            Some("Exists") => true,
            Some(_) => false,
        }
}

fn is(taint: &ManagedClusterTaint, text: &TaintText) -> bool {
    taint.key == text.0 && taint.value == text.1 && taint.effect == text.2
}

/// Returns a position in a set of clusters as a slot.
pub(super) fn slot_number(position: usize) -> u32 {
    u32::try_from(position).expect("a hub has fewer than four billion clusters")
}
