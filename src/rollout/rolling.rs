//! Rolling update: which bindings move now.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::id::ClusterName;
use crate::model::records::{Binding, BindingState};

use super::{Health, Limits, Readiness};

/// Failed clusters a message names; the others are counted.
const NAMED_FAILURES_MAX: usize = 5;

/// A binding as the rollout sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each true or false of any binding")]
pub struct BindingView {
    /// Its name: bindings move in order of name.
    pub name: String,
    /// Its cluster.
    pub cluster: ClusterName,
    /// How far it is.
    pub state: BindingState,
    /// It is being removed.
    pub deleting: bool,
    /// Whether its cluster is available.
    pub ready: Readiness,
    /// Whether it failed, in the snapshot it is to hold.
    pub failed: bool,
    /// It reports differences instead of applying.
    pub diff_reported: bool,
    /// It was seen to be unavailable with what it is to hold.
    pub seen_unavailable: bool,
    /// It was told once to hold something.
    pub told: bool,
    /// It is to hold something other than the current snapshot, overrides and apply strategy.
    pub outdated: bool,
    /// Its cluster is offline or suspended: nothing can be started there.
    pub deferred: bool,
    /// After which time alone `ready` or `failed` changes.
    pub changes_in: Option<Duration>,
}

impl BindingView {
    /// Views a binding with what was found out about it.
    pub fn new(binding: &Binding, health: Health, outdated: bool, deferred: bool) -> Self {
        Self {
            name: binding.name.clone(),
            cluster: binding.cluster.clone(),
            state: binding.state,
            deleting: binding.deleting,
            ready: health.ready,
            failed: health.failed,
            diff_reported: health.diff_reported,
            seen_unavailable: health.seen_unavailable,
            told: binding.snapshot.is_some(),
            outdated,
            deferred,
            changes_in: health.changes_in,
        }
    }

    fn is_ready(&self) -> bool {
        self.ready == Readiness::Ready
    }

    /// Tells whether the cluster may count towards the surge: nothing says that it will not become ready.
    fn can_be_ready(&self) -> bool {
        !self.failed && !self.diff_reported
    }

    /// Tells whether the cluster is skipped, because it cannot be reached and something would have to start there.
    ///
    /// What holds the current snapshot was started: it counts as it is, and fails by its deadline.
    fn is_skipped(&self) -> bool {
        self.deferred && (self.state != BindingState::Bound || self.outdated)
    }

    /// Tells whether something we started there is still on its way.
    fn is_in_flight(&self) -> bool {
        self.state == BindingState::Bound && !self.is_ready() && !self.failed
    }
}

/// What a rollout does now. All lists hold binding names in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Bound bindings to move to the current snapshot.
    pub update: Vec<String>,
    /// Scheduled bindings to bind to the current snapshot.
    pub bind: Vec<String>,
    /// Unscheduled bindings to remove.
    pub remove: Vec<String>,
    /// Bindings that are to be updated or bound and have to wait, deferred ones included.
    pub stale: Vec<String>,
    /// Those of `stale` whose cluster cannot be reached.
    pub deferred: Vec<String>,
    /// Why nothing new starts, for people: too many clusters of the current snapshot failed.
    pub halted: Option<String>,
    /// After which time alone another answer is possible. Without it only an event changes the answer.
    pub wait: Option<Duration>,
}

/// Bindings by what may happen to them, and the counts the limits are about.
#[derive(Default)]
struct Buckets<'a> {
    /// To be removed, and nothing is given up with it.
    empty: Vec<&'a BindingView>,
    remove: Vec<&'a BindingView>,
    update: Vec<&'a BindingView>,
    update_failed: Vec<&'a BindingView>,
    update_unavailable: Vec<&'a BindingView>,
    bind: Vec<&'a BindingView>,
    ready: i64,
    can_be_ready: i64,
    can_be_unavailable: i64,
    /// Clusters of the target that are skipped.
    skipped: i64,
}

impl<'a> Buckets<'a> {
    fn count(&mut self, view: &'a BindingView) {
        if view.is_skipped() {
            // What was on its way there when contact was lost is unavailable by our doing until it fails or arrives.
            let counts = view.state != BindingState::Unscheduled && !view.is_in_flight();
            self.skipped += i64::from(counts);
            return;
        }
        // Nothing is there yet: it is neither ready nor on its way.
        if view.state == BindingState::Scheduled {
            self.bind.push(view);
            return;
        }
        if view.state == BindingState::Unscheduled && !view.told {
            self.empty.extend((!view.deleting).then_some(view));
            return;
        }
        self.ready += i64::from(view.is_ready());
        self.can_be_ready += i64::from(view.can_be_ready());
        // Ready still, but on its way out: the quota must not count on it.
        self.can_be_unavailable += i64::from(view.deleting && view.is_ready());
        if view.deleting {
            return;
        }
        match (view.state, view.outdated, view.failed) {
            (BindingState::Unscheduled, _, _) => self.remove.push(view),
            (_, true, true) => self.update_failed.push(view),
            (_, true, false) if view.seen_unavailable && !view.is_ready() => self.update_unavailable.push(view),
            (_, true, false) => self.update.push(view),
            (_, false, _) => {}
        }
    }
}

/// Picks the bindings that move now. The order of `views` does not matter: bindings move in order of name.
///
/// Updates in place and removals stay within `max_unavailable`, new clusters within `max_surge`. Removals come before
/// updates, and take quota even where the cluster is not ready; one that was never told to hold anything goes at once, and does
/// not count as a cluster that may become ready. Failed bindings of an older snapshot are updated whatever
/// the limits say: they are unavailable already, and the newer snapshot may be the fix. So are those that were seen to be
/// unavailable with an older snapshot and have not failed yet: their repair never waits for the share of the limit that they
/// take. While more than `max_failures`
/// clusters of the current snapshot have failed, no other binding is updated or bound; removals go on.
///
/// Clusters that cannot be reached are skipped: they are no candidates and count neither as ready nor as target, but
/// the limits are still resolved against all. A cluster that still has an older binding being removed is not bound until
/// that is gone, so that no cluster is written from two sides.
///
/// Source: KubeFleet's rollout controller. There what was never bound counts like what was, and whatever is in progress counts as failed and is updated past the limits,
/// failures never halt, and one cluster whose old binding is being removed holds up all others.
pub fn roll(views: &[BindingView], limits: &Limits) -> Roll {
    let mut sorted: Vec<&BindingView> = views.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut buckets = Buckets::default();
    for view in &sorted {
        buckets.count(view);
    }
    let halted = halted(&sorted, limits.max_failures);
    let may_start = halted.is_none();

    let target = count(limits.target) - buckets.skipped;
    let max_to_remove = (buckets.ready - buckets.can_be_unavailable) - (target - count(limits.max_unavailable));
    let max_to_add = target + count(limits.max_surge) - buckets.can_be_ready;
    // Negative where more is unavailable than may be: nothing ready is let go then.
    let quota = usize::try_from(max_to_remove).unwrap_or(0);

    let leaving: BTreeSet<&ClusterName> = sorted.iter().filter(|v| v.deleting).map(|v| &v.cluster).collect();
    let mut remove: Vec<&BindingView> = buckets.remove.iter().copied().take(quota).collect();
    let rest = if may_start { quota - remove.len() } else { 0 };
    // They hold nothing, so they take nothing of the quota that updates have left.
    remove.append(&mut buckets.empty);
    let surge = if may_start { usize::try_from(max_to_add).unwrap_or(0) } else { 0 };
    let mut update = buckets.update_failed.clone();
    // While clusters fail with the current snapshot, it is no repair for those of an older one.
    update.extend(buckets.update_unavailable.iter().filter(|_| may_start));
    update.extend(buckets.update.iter().take(rest));
    let bind =
        buckets.bind.iter().copied().filter(|view| !view.deleting && !leaving.contains(&view.cluster)).take(surge);
    let bind: Vec<&BindingView> = bind.collect();

    let started: BTreeSet<&str> = update.iter().chain(&bind).map(|view| view.name.as_str()).collect();
    let waits = |view: &&BindingView| {
        let wanted = view.state == BindingState::Scheduled || (view.state == BindingState::Bound && view.outdated);
        wanted && !view.deleting && !started.contains(view.name.as_str())
    };
    let stale: Vec<&BindingView> = sorted.iter().copied().filter(waits).collect();
    let deferred = stale.iter().copied().filter(|view| view.deferred).collect();
    Roll {
        update: names(update),
        bind: names(bind),
        remove: names(remove),
        deferred: names(deferred),
        stale: names(stale),
        halted,
        wait: sorted.iter().filter_map(|view| view.changes_in).min(),
    }
}

fn count(number: usize) -> i64 {
    // Sums of a few such numbers must not overflow.
    i64::try_from(number).unwrap_or(i64::MAX / 4)
}

fn names(views: Vec<&BindingView>) -> Vec<String> {
    let mut names: Vec<String> = views.into_iter().map(|view| view.name.clone()).collect();
    names.sort();
    names
}

/// Says why nothing new starts, if more clusters than allowed failed with the current snapshot.
fn halted(views: &[&BindingView], max_failures: usize) -> Option<String> {
    let failed: Vec<&str> = views
        .iter()
        .filter(|view| view.state == BindingState::Bound && !view.deleting && !view.outdated && view.failed)
        .map(|view| view.cluster.as_str())
        .collect();
    if failed.len() <= max_failures {
        return None;
    }
    let mut named = failed[..failed.len().min(NAMED_FAILURES_MAX)].join(", ");
    if failed.len() > NAMED_FAILURES_MAX {
        named = format!("{named} and {} more", failed.len() - NAMED_FAILURES_MAX);
    }
    Some(format!("clusters failed: {} ({named}), allowed: {max_failures}", failed.len()))
}
