//! Rolling update: picks the bindings to move now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::id::ClusterName;
use model::records::{Binding, BindingState};

use super::{Health, Limits, Readiness};

/// Failed clusters in a message; the others are counted.
const NAMED_FAILURES_MAX: usize = 5;

/// A binding for the rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each true or false of any binding")]
pub struct BindingView {
    /// Its name: bindings move in the order of names.
    pub name: String,
    /// Its cluster.
    pub cluster: ClusterName,
    /// Its state.
    pub state: BindingState,
    /// It is being removed.
    pub deleting: bool,
    /// Whether its cluster is available.
    pub ready: Readiness,
    /// Whether it failed with its assigned snapshot.
    pub failed: bool,
    /// It failed before anything was delivered: its cluster holds what it held.
    pub undelivered: bool,
    /// It reports differences instead of applying.
    pub diff_reported: bool,
    /// Its assigned content was observed to be unavailable.
    pub seen_unavailable: bool,
    /// It was assigned a snapshot before.
    pub assigned: bool,
    /// Its cluster had something of it before it was picked.
    pub had_before: bool,
    /// Its assignment differs from the current snapshot, overrides or apply strategy.
    pub outdated: bool,
    /// Its cluster is offline or suspended: nothing can start there.
    pub deferred: bool,
    /// After which time alone `ready` or `failed` changes.
    pub changes_in: Option<Duration>,
}

impl BindingView {
    /// Creates the view of a binding from its evaluation.
    pub fn new(binding: &Binding, health: Health, outdated: bool, deferred: bool) -> Self {
        Self {
            name: binding.name.clone(),
            cluster: binding.cluster.clone(),
            state: binding.state,
            deleting: binding.deleting,
            ready: health.ready,
            failed: health.failed,
            undelivered: health.undelivered,
            diff_reported: health.diff_reported,
            seen_unavailable: health.seen_unavailable,
            assigned: binding.snapshot.is_some(),
            had_before: false,
            outdated,
            deferred,
            changes_in: health.changes_in,
        }
    }

    fn is_ready(&self) -> bool {
        self.ready == Readiness::Ready || self.undelivered
    }

    /// Tells whether the cluster may count towards the surge: it can still become ready.
    fn can_be_ready(&self) -> bool {
        !self.failed && !self.diff_reported
    }

    /// Tells whether the cluster is skipped, because it is unreachable and something would have to start there.
    ///
    /// A cluster that was assigned the current snapshot has started: it counts, and fails at its deadline.
    fn is_skipped(&self) -> bool {
        self.deferred && (self.state != BindingState::Bound || self.outdated)
    }

    /// Tells whether the cluster failed with the current snapshot.
    fn has_failed(&self) -> bool {
        self.state == BindingState::Bound && !self.deleting && !self.outdated && self.failed
    }

    /// Tells whether the cluster is to get the current snapshot.
    fn is_to_move(&self) -> bool {
        let is_to_update = self.state == BindingState::Bound && self.outdated;
        (is_to_update || self.state == BindingState::Scheduled) && !self.deleting
    }

    /// Tells whether a started move is still in progress.
    fn is_in_flight(&self) -> bool {
        self.state == BindingState::Bound && !self.is_ready() && !self.failed
    }
}

/// The moves of a rollout now. All lists contain binding names in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Bound bindings to move to the current snapshot.
    pub update: Vec<String>,
    /// Scheduled bindings to bind to the current snapshot.
    pub bind: Vec<String>,
    /// Unscheduled bindings to remove.
    pub remove: Vec<String>,
    /// Bindings that have to wait for their update or their first snapshot, deferred ones included.
    pub stale: Vec<String>,
    /// Bindings of `stale` whose cluster is unreachable.
    pub deferred: Vec<String>,
    /// Why nothing new starts, as text for users: too many clusters of the current snapshot failed.
    pub halted: Option<String>,
    /// After which time alone the result may change. Without it only an event changes it.
    pub wait: Option<Duration>,
}

/// Bindings by possible move, and the counts for the limits.
#[derive(Default)]
struct Buckets<'a> {
    /// To remove, without giving up a ready cluster.
    empty: Vec<&'a BindingView>,
    remove: Vec<&'a BindingView>,
    update: Vec<&'a BindingView>,
    update_failed: Vec<&'a BindingView>,
    update_unavailable: Vec<&'a BindingView>,
    bind: Vec<&'a BindingView>,
    ready: i64,
    can_be_ready: i64,
    can_be_unavailable: i64,
    /// Skipped clusters of the target.
    skipped: i64,
}

impl<'a> Buckets<'a> {
    fn count(&mut self, view: &'a BindingView) {
        if view.is_skipped() {
            // A move in progress when the cluster became unreachable counts as unavailable because of the rollout, until it
            // fails or succeeds.
            let counts = view.state != BindingState::Unscheduled && !view.is_in_flight();
            self.skipped += i64::from(counts);
            return;
        }
        // Nothing is there yet: it is neither ready nor moving.
        if view.state == BindingState::Scheduled && !view.had_before {
            self.bind.push(view);
            return;
        }
        // What it had counts as ready until something else is known.
        if view.state == BindingState::Scheduled {
            self.ready += 1;
            self.can_be_ready += 1;
            if !view.deleting {
                self.update.push(view);
            }
            return;
        }
        if view.state == BindingState::Unscheduled && !view.assigned {
            if !view.deleting {
                self.empty.push(view);
            }
            return;
        }
        self.ready += i64::from(view.is_ready());
        self.can_be_ready += i64::from(view.can_be_ready());
        // Still ready, but leaving: the quota must not count on it.
        self.can_be_unavailable += i64::from(view.deleting && view.is_ready());
        if view.deleting {
            return;
        }
        match (view.state, view.outdated, view.failed) {
            (BindingState::Unscheduled, _, _) => self.remove.push(view),
            (_, true, true) if !view.undelivered => self.update_failed.push(view),
            (_, true, false) if view.seen_unavailable && !view.is_ready() => self.update_unavailable.push(view),
            (_, true, _) => self.update.push(view),
            (_, false, _) => {}
        }
    }
}

/// Picks the bindings to move now. The order of `views` does not matter: bindings move in the order of names.
///
/// Updates in place and removals stay within `max_unavailable`, new clusters within `max_surge`. Removals come before updates,
/// and use quota even if the cluster is not ready; a binding without any assignment is removed immediately, and does not count
/// as a cluster that may become ready. Failed bindings of an older snapshot are updated beyond the limits: they are already
/// unavailable, and the newer snapshot may be the fix. The same holds for bindings that were observed to be unavailable with an
/// older snapshot and have not failed yet: their repair must not wait for the quota that they use. A binding whose objects could not be
/// rendered counts as ready, because its cluster holds what it held. While more than
/// `max_failures` clusters of the current snapshot have failed, no other binding is updated or bound; removals continue.
///
/// Unreachable clusters are skipped: they are no candidates and count neither as ready nor as target, but the limits are still
/// resolved against all. A cluster with an older binding that is being removed is not bound until that is gone, so that only
/// one binding writes to a cluster.
///
/// Source: KubeFleet's rollout controller. There a binding that was never bound counts like a bound one, a binding in progress
/// counts as failed and is updated beyond the limits, failures never halt, and one cluster whose old binding is being removed
/// blocks all others.
///
/// Clusters that `failed_before` with the current snapshot, and have left or wait for something else, count among the failed ones. Failed clusters within
/// `max_failures` use no budget, or the rollout would stand where it may continue.
pub fn roll(views: &[BindingView], failed_before: &BTreeSet<ClusterName>, limits: &Limits) -> Roll {
    let mut sorted: Vec<&BindingView> = views.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut buckets = Buckets::default();
    for view in &sorted {
        buckets.count(view);
    }
    let failed: Vec<&BindingView> = sorted.iter().copied().filter(|view| view.has_failed()).collect();
    let mut before = BTreeMap::new();
    for cluster in failed_before {
        let is_there = sorted.iter().any(|view| view.cluster == *cluster && !view.deleting);
        before.insert(cluster, is_there);
    }
    let halted = halted(&failed, &before, limits.max_failures);
    let may_start = halted.is_none();

    let target = count(limits.target) - buckets.skipped;
    let tolerated = if may_start { count(failed.iter().filter(|view| !view.is_ready()).count()) } else { 0 };
    let wanted = target - tolerated - count(limits.max_unavailable);
    let max_to_remove = (buckets.ready - buckets.can_be_unavailable) - wanted;
    let max_to_add = target + count(limits.max_surge) - buckets.can_be_ready;
    // Negative if more is unavailable than allowed: then no ready cluster is given up.
    let quota = usize::try_from(max_to_remove).unwrap_or(0);

    let leaving: BTreeSet<&ClusterName> = sorted.iter().filter(|v| v.deleting).map(|v| &v.cluster).collect();
    let mut remove: Vec<&BindingView> = buckets.remove.iter().copied().take(quota).collect();
    let rest = if may_start { quota - remove.len() } else { 0 };
    // They have nothing assigned, so they use none of the quota for updates.
    remove.append(&mut buckets.empty);
    let surge = if may_start { usize::try_from(max_to_add).unwrap_or(0) } else { 0 };
    let mut update = buckets.update_failed.clone();
    // While clusters fail with the current snapshot, it is no repair for those of an older one.
    if may_start {
        update.extend(&buckets.update_unavailable);
    }
    // What is no repair for others is one for the cluster that failed. A new binding would get what it failed with.
    let (repaired, others): (Vec<&BindingView>, Vec<&BindingView>) =
        buckets.update.iter().partition(|view| view.assigned && failed_before.contains(&view.cluster));
    update.extend(repaired);
    update.extend(others.into_iter().take(rest));
    let bind =
        buckets.bind.iter().copied().filter(|view| !view.deleting && !leaving.contains(&view.cluster)).take(surge);
    let bind: Vec<&BindingView> = bind.collect();

    let started: BTreeSet<&str> = update.iter().chain(&bind).map(|view| view.name.as_str()).collect();
    let to_move = sorted.iter().copied().filter(|view| view.is_to_move());
    let stale: Vec<&BindingView> = to_move.filter(|view| !started.contains(view.name.as_str())).collect();
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

/// Describes why nothing new starts, if more clusters than allowed failed with the current snapshot. `before` says of each that failed before
/// whether it is still there.
fn halted(failed: &[&BindingView], before: &BTreeMap<&ClusterName, bool>, max_failures: usize) -> Option<String> {
    let count = failed.len() + before.len();
    if count <= max_failures {
        return None;
    }
    let before = before.iter().map(|(cluster, is_there)| match is_there {
        true => cluster.to_string(),
        false => format!("{cluster}, which left"),
    });
    let said: Vec<String> = failed.iter().map(|view| view.cluster.to_string()).chain(before).collect();
    let mut named = said[..count.min(NAMED_FAILURES_MAX)].join(", ");
    if count > NAMED_FAILURES_MAX {
        named = format!("{named} and {} more", count - NAMED_FAILURES_MAX);
    }
    Some(format!("clusters failed: {count} ({named}), allowed: {max_failures}"))
}
