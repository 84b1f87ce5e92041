//! Which of several placements an object on a member belongs to. The records and the object's label decide it, never the order in which
//! orders arrive after a start.

use std::sync::Arc;

use super::live::LiveObject;
use super::progress::Progress;
use super::step::MemberView;
use model::api::placement::ApplyStrategyType;
use model::id::{ObjectKey, PlacementKey};
use model::records::ApplyOutcome;
use model::work::{Desired, WorkOrder};

/// The other placements of a member, as far as they are known.
pub trait Peers: Sync {
    /// Returns the placement that a label on an object names.
    fn holder(&self, label: &str) -> Holder<'_>;

    /// Returns the order of a placement and its progress.
    fn delivery(&self, placement: &PlacementKey) -> Option<(&WorkOrder, &Progress)>;

    /// Tells whether the member knows which placements it has.
    fn are_known(&self) -> bool;

    /// Tells whether placements other than the one of a label may have objects in a Namespace or of a definition that are not seen: their
    /// kinds are not listed completely, or their orders bring them.
    fn may_have_unseen(&self, container: &ObjectKey, ours: &str) -> bool;
}

/// The placement that a label names.
#[derive(Clone, Copy, Debug)]
pub enum Holder<'a> {
    /// It has an order.
    Ordered(&'a WorkOrder),
    /// It may get an order, which has not come yet; `None` where the label names no known placement.
    Awaited(Option<&'a PlacementKey>),
    /// Its inventory belongs to another source, of this name.
    OfSource(&'a PlacementKey, &'a str),
    /// No placement of this member.
    Nobody,
}

/// Why a placement may not apply an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Another placement has it, as the text for users says.
    Taken(String),
    /// Whether another placement still has it is not known yet, as the text for users says.
    Awaited(String),
}

/// Returns why a placement may not apply an object that it wants; `None` where the object is its own, nobody's, or handed over to it.
///
/// The label on the member decides: who holds the object keeps it as long as its own order wants it. An object without a label belongs to
/// the placement that applied it before, else to the first by name. What a placement of no tenant wants is never a tenant's.
pub(super) fn claim(
    order: &WorkOrder,
    desired: &Desired,
    live: Option<&LiveObject>,
    view: &MemberView<'_>,
    progress: &Progress,
) -> Option<Claim> {
    let others = view.wanted.by(&desired.key).iter().map(Arc::as_ref).filter(|other| **other != order.placement);
    let rivals = others
        .filter_map(|other| view.peers.delivery(other))
        .filter(|(other, _)| other.strategy.type_ != ApplyStrategyType::ReportDiff);
    let of_all = rivals.clone().find(|(other, _)| order.tenant.is_some() && other.tenant.is_none());
    if let Some((other, _)) = of_all {
        return Some(Claim::Taken(format!(
            "{} on {} is delivered by placement {}, which is no tenant's: a tenant's placement never takes it",
            desired.id, order.cluster, other.placement
        )));
    }
    let label = live.map(|live| live.applyset.as_ref()).filter(|label| !label.is_empty());
    if label == Some(view.ours) {
        return None;
    }
    match label.map_or(Holder::Nobody, |label| view.peers.holder(label)) {
        Holder::OfSource(other, source) => {
            return Some(Claim::Taken(format!(
                "{} on {} belongs to placement {other} of another source ({source})",
                desired.id, order.cluster
            )));
        }
        Holder::Awaited(other) => {
            let other = other.map_or_else(|| "another placement".to_owned(), |other| format!("placement {other}"));
            return Some(Claim::Awaited(format!(
                "{} on {} belongs to {other}; it is applied when that placement gives it up",
                desired.id, order.cluster
            )));
        }
        Holder::Ordered(other) => {
            let wants = view.wanted.by(&desired.key).iter().any(|wanting| **wanting == other.placement);
            let is_taken = wants && (order.tenant.is_some() || other.tenant.is_none());
            return is_taken.then(|| {
                Claim::Taken(format!("{} on {} belongs to placement {}", desired.id, order.cluster, other.placement))
            });
        }
        Holder::Nobody if may_be_anothers(desired, view, progress) => {
            return Some(Claim::Awaited(format!(
                "which placements {} has is not known yet; {} may belong to another",
                order.cluster, desired.id
            )));
        }
        Holder::Nobody => {}
    }
    let own = rank(order, progress, &desired.key);
    let first = rivals.map(|(other, of)| rank(other, of, &desired.key)).min().filter(|first| *first < own)?;
    Some(Claim::Taken(format!(
        "{} on {} is also selected by placement {}, which has it",
        desired.id, order.cluster, first.2
    )))
}

/// Tells whether another placement may have applied an object that has no label: not all placements of the member are known yet, and this
/// one has not applied it.
fn may_be_anothers(desired: &Desired, view: &MemberView<'_>, progress: &Progress) -> bool {
    let is_new = progress
        .attempt(desired)
        .is_none_or(|attempt| attempt.is_of_before() && attempt.outcome == ApplyOutcome::FailedToTakeOver);
    !view.peers.are_known() && is_new && !progress.baselines.contains_key(&desired.key)
}

/// Orders the placements that want an object without a label: the lowest has it.
fn rank<'a>(order: &'a WorkOrder, progress: &Progress, key: &ObjectKey) -> (bool, bool, &'a PlacementKey) {
    let attempt = progress.attempts.get(key);
    let has_applied =
        progress.baselines.contains_key(key) || attempt.is_some_and(|attempt| attempt.outcome == ApplyOutcome::Applied);
    (order.tenant.is_some(), !has_applied, &order.placement)
}
