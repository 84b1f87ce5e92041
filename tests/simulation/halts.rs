//! 16: no cluster begins with what too many clusters failed with, until a person, other content or recovery, whoever leaves meanwhile.
//! Judged by the records alone.

use std::collections::{BTreeMap, BTreeSet};

use engine::store::records::snapshot_key;
use jiff::Timestamp;
use model::api::condition::ConditionStatus;
use model::commands::Verb;
use model::id::{ClusterName, PlacementKey};
use model::records::BindingState;
use model::runs::{ClusterPhase, RunCause, RunPhase, RunRecord};

use super::check::{Checker, Spot, Verdict};
use super::records::Binding;

/// What was wanted when a cluster failed, the count of facts then, and the stage, if it was in one.
type Failure = (String, u64, String);

/// The clusters that failed, by placement and snapshot.
#[derive(Default)]
pub struct Halts {
    failed: BTreeMap<(PlacementKey, u64), BTreeMap<ClusterName, Failure>>,
    /// The newest run of each snapshot: one that begins again has other overrides, apply strategy or stages.
    newest: BTreeMap<(PlacementKey, u64), u64>,
    /// When somebody asked for it once more: what is recorded at that instant says what was before.
    asked: BTreeMap<PlacementKey, Timestamp>,
    /// Clusters that were down with what they held before.
    pub(super) repaired: BTreeSet<Spot>,
}

/// Returns what became of a run and of its clusters.
fn outcome(run: &RunRecord) -> (RunPhase, Vec<(&ClusterName, ClusterPhase)>) {
    let clusters = run.stages.iter().flat_map(|stage| &stage.clusters);
    (run.phase, clusters.map(|cluster| (&cluster.name, cluster.phase)).collect())
}

impl Checker {
    /// Takes over what failed under the former name of a placement.
    pub(super) fn take_failures(&mut self, former: &RunRecord, run: &RunRecord) {
        let (Some(then), Some(now)) = (former.snapshot(), run.snapshot()) else { return };
        let failed = self.halts.failed.get(&(former.placement.clone(), then)).cloned();
        let newest = self.halts.newest.get(&(former.placement.clone(), then)).copied();
        let key = (run.placement.clone(), now);
        self.halts.failed.extend(failed.map(|failed| (key.clone(), failed)));
        self.halts.newest.extend(newest.map(|newest| (key, newest)));
    }

    /// Takes in what a run says of its clusters. The record of one that is over is kept again by another clock, and under another name of
    /// its placement: that is nothing new, and a person may have asked for the snapshot once more since.
    pub(super) fn note_failures(&mut self, run: &RunRecord, before: Option<&RunRecord>) {
        let Some(snapshot) = run.frozen.as_ref().map(|frozen| frozen.snapshot) else { return };
        if before.is_some_and(|before| before.phase.is_final() && outcome(before) == outcome(run)) {
            return;
        }
        let key = (run.placement.clone(), snapshot);
        let wanted = (self.wanted_of(&run.placement), self.seen);
        let newest = self.halts.newest.entry(key.clone()).or_default();
        let failed = self.halts.failed.entry(key).or_default();
        // A follow-up run is another matter: what failed before it counts, unless it begins again with other inputs.
        let begins_again = run.sequence > *newest && !matches!(run.cause, RunCause::FollowUp { .. });
        if begins_again || run.phase == RunPhase::Superseded {
            failed.clear();
            if run.phase == RunPhase::Superseded {
                return;
            }
        }
        *newest = run.sequence.max(*newest);
        let clusters = run.stages.iter().flat_map(|stage| stage.clusters.iter().map(move |cluster| (stage, cluster)));
        for (stage, cluster) in clusters {
            let failure = || (wanted.0.clone(), wanted.1, stage.name.clone());
            match cluster.phase {
                ClusterPhase::Failed => drop(failed.entry(cluster.name.clone()).or_insert_with(failure)),
                ClusterPhase::Skipped => {}
                ClusterPhase::Succeeded | ClusterPhase::Updating | ClusterPhase::Pending | ClusterPhase::Deferred => {
                    failed.remove(&cluster.name);
                }
            }
        }
    }

    /// Takes in why a rolling update halted.
    pub(super) fn note_halt(&mut self, placement: &PlacementKey) {
        let Some(record) = self.placements.get(placement).filter(|record| !record.is_external()) else { return };
        if self.halts.asked.get(placement) == Some(&self.now) {
            return;
        }
        let Some(snapshot) = self.newest_snapshot(placement) else { return };
        let is_down = |cluster: &&ClusterName| {
            let binding = self.binding(&(placement.clone(), (*cluster).clone()));
            binding.is_some_and(|b| {
                let says = |type_: &str| b.says(ConditionStatus::False, type_, None);
                b.snapshot == Some(snapshot) && (says("Available") || says("Applied") || says("Overridden"))
            })
        };
        let bound = self.bindings.values().filter(|b| b.placement == *placement).map(|b| &b.cluster);
        // What is on its way has not failed.
        let bound = bound.filter(|cluster| record.says_failed(cluster));
        let down: BTreeSet<ClusterName> = bound.filter(is_down).cloned().collect();
        let wanted = (self.wanted_of(placement), self.seen);
        let failed = self.halts.failed.entry((placement.clone(), snapshot)).or_default();
        for cluster in down {
            failed.entry(cluster).or_insert_with(|| (wanted.0.clone(), wanted.1, String::new()));
        }
    }

    /// A cluster on which it is available has recovered, whatever it gets after that.
    pub(super) fn note_recovery(&mut self, binding: &Binding) {
        let is_up = binding.says(ConditionStatus::True, "Available", None);
        let Some(snapshot) = binding.snapshot.filter(|_| is_up) else { return };
        if let Some(failed) = self.halts.failed.get_mut(&(binding.placement.clone(), snapshot)) {
            failed.remove(&binding.cluster);
        }
    }

    /// Returns what the accepted commit wants of a placement, whichever cluster gets it: something else is other content, and so is another
    /// rule of an override, whether or not it fits a cluster.
    fn wanted_of(&self, placement: &PlacementKey) -> String {
        let wish = self.accepted().and_then(|commit| self.wishes.get(commit));
        let Some(want) = wish.and_then(|wish| wish.placements.get(placement)) else { return String::new() };
        let overridden: BTreeSet<String> = want.overridden.values().map(|of| format!("{of:?}")).collect();
        let (objects, rules) = (&want.objects, want.rules);
        format!("{objects:?} {overridden:?} {rules:?} {} {} {:?}", want.shares, want.reports, want.failing)
    }

    /// A person asks for it once more.
    pub fn forget_failures(&mut self, placement: &PlacementKey, verb: Verb) {
        if matches!(verb, Verb::Retry | Verb::Resume | Verb::Rollback) {
            self.forget_failed(placement);
            self.halts.asked.insert(placement.clone(), self.now);
        }
    }

    /// A placement is gone with all that was kept of it: one of the same name is another. Or a person said so.
    pub(super) fn forget_failed(&mut self, placement: &PlacementKey) {
        self.halts.failed.retain(|(of, _), _| of != placement);
    }

    /// 16: asked of each cluster that was given something.
    pub(super) fn stays_halted(&mut self, spot: &Spot, seen: u64) -> Verdict {
        let (placement, cluster) = spot;
        let Some(binding) = self.binding(spot).filter(|b| b.state == BindingState::Bound && !b.deleting) else {
            return Ok(());
        };
        let (Some(snapshot), Some(record)) = (binding.snapshot, self.placements.get(placement)) else { return Ok(()) };
        let Some(allowed) = record.failures_allowed() else { return Ok(()) };
        let brought = self.snapshots.get(&snapshot_key(placement, snapshot));
        if brought.is_some_and(|brought| self.had_under_another_name(cluster, brought)) {
            return Ok(());
        }
        let has_recovered = |name: &ClusterName| {
            let at = self.binding(&(placement.clone(), name.clone()));
            at.is_some_and(|b| b.snapshot == Some(snapshot) && b.says(ConditionStatus::True, "Available", None))
        };
        // What failed with an earlier snapshot is repaired.
        let of_placement = self.halts.failed.iter().filter(|((of, index), _)| of == placement && *index != snapshot);
        if of_placement.into_iter().any(|(_, failed)| failed.contains_key(cluster))
            || self.halts.repaired.contains(spot)
        {
            return Ok(());
        }
        let wanted = self.wanted_of(placement);
        let failed = self.halts.failed.get(&(placement.clone(), snapshot)).into_iter().flatten();
        // What is kept together was decided together.
        let failed = failed.filter(|(_, (with, at, _))| *with == wanted && *at < seen);
        let failed = failed.filter(|(name, _)| *name != cluster && !has_recovered(name));
        // So many may in each stage.
        let mut by_stage: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, (_, _, stage)) in failed {
            by_stage.entry(stage).or_default().push(name.as_str());
        }
        let counting = by_stage.into_values().max_by_key(Vec::len).unwrap_or_default();
        let goes_back = self.runs.values().any(|run| {
            let is_rollback = matches!(run.cause, RunCause::Rollback { .. });
            run.placement == *placement && is_rollback && run.snapshot() == Some(snapshot)
        });
        if counting.len() > allowed && !goes_back && !self.is_lenient {
            let names = counting.join(", ");
            return Err(format!(
                "16: {cluster} gets snapshot {snapshot} of {placement}, with which {names} failed, and {allowed} may"
            ));
        }
        Ok(())
    }
}

/// A run that is over fails once, however often its record is kept.
#[test]
fn what_a_person_forgave_does_not_count_again() {
    use simulated::Fact;

    let run_of = |sequence: u64, phase: RunPhase, cluster: &str| {
        let Fact::Kept { key, value } = super::forged::frozen(cluster) else { unreachable!() };
        let run: RunRecord = super::check::parse(&key, &value.unwrap()).unwrap();
        RunRecord { sequence, phase, ..run }
    };
    let over = run_of(0, RunPhase::RolledBack, "Failed");
    let (replaced, continues) = (run_of(0, RunPhase::Superseded, "Failed"), run_of(0, RunPhase::Updating, "Failed"));
    let (again, newer) = (run_of(0, RunPhase::Succeeded, "Pending"), run_of(1, RunPhase::Halted, "Failed"));
    let ended = run_of(0, RunPhase::Succeeded, "Failed");
    // what was kept of the run before that a person forgave, what is kept of it then, and how many have failed by that
    let forgiven = [
        (&over, &over, 0),
        (&continues, &continues, 1),
        (&continues, &over, 1),
        (&ended, &ended, 0),
        (&again, &ended, 1),
        (&again, &again, 0),
    ];
    let p = PlacementKey::cluster_scoped("p");
    let count = |checker: &Checker| checker.halts.failed.get(&(p.clone(), 0)).map_or(0, BTreeMap::len);
    for (before, run, wanted) in forgiven {
        let mut checker = Checker::default();
        checker.note_failures(before, None);
        checker.forget_failures(&p, Verb::Retry);
        checker.note_failures(run, Some(before));
        assert_eq!(count(&checker), wanted, "{:?} after {:?}", outcome(run), outcome(before));
    }
    // One that was replaced long ago takes nothing back of what failed since.
    let mut checker = Checker::default();
    checker.note_failures(&replaced, None);
    checker.note_failures(&newer, None);
    checker.note_failures(&replaced, Some(&replaced));
    assert_eq!(count(&checker), 1);
}
