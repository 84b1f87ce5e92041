//! The progress of a placement towards each recent commit.
//!
//! A [`Progress`] belongs to a commit and is shown on the pull request that brought the commit. A rollback is therefore shown
//! as the end of the progress that it reverts, and not as a second progress towards the earlier commit.

use std::collections::BTreeMap;

use super::placement::{PlacementView, why};
use super::rollout::{ClusterState, Failure, PersonWait, RolloutState, bound_state, rollout_state};
use super::staged_run::{closed_gates, command_name, end_message};
use super::work::{counted, listing};
use model::id::{ClusterName, CommitId};
use model::moment::moment;
use model::progress::{ClusterProgress, GateProgress, Progress, ProgressState};
use model::records::ResourceSnapshot;
use model::runs::{Approval, ApprovalRules, DELETION_GATE, RunCause, RunPhase, RunRecord};

mod stages;

/// Ended progresses of one placement that are still shown.
pub const ENDED_WAYS_MAX: usize = 4;
/// The greatest number of cluster lines of one stage, or of a placement without stages.
pub const CLUSTERS_MAX: usize = 20;
/// The greatest number of cluster lines of a deletion gate.
pub const DELETION_LINES_MAX: usize = 20;

/// Returns the progress of a placement towards each recent commit, newest first: every unfinished one, the one towards the
/// newest snapshot, and the last [`ENDED_WAYS_MAX`] others. A placement that is gone from git has one, without a commit.
///
/// A placement without a snapshot has none. For `RollingUpdate` the records only say whether an earlier snapshot succeeded: a
/// snapshot that was rolled back is shown as superseded once there is a newer one, so a final state stays final.
pub fn progress(view: &PlacementView, rules: ApprovalRules) -> Vec<Progress> {
    if view.record.removed {
        return vec![removal(view, rules)];
    }
    let Some(newest) = view.snapshot else {
        let error = view.record.error.as_ref();
        return error
            .map(|error| Progress { message: error.clone(), ..blank(view, ProgressState::Error) })
            .into_iter()
            .collect();
    };
    let mut ways = if view.is_external() { staged_ways(view, rules) } else { earlier_snapshots(view, newest) };
    if !ways.iter().any(|way| way.commit.as_ref() == Some(&newest.commit)) {
        ways.push(rolling(view, newest));
    }
    ways.sort_by_key(|way| std::cmp::Reverse(way.snapshot));
    if let Some(first) = ways.iter_mut().find(|way| way.snapshot == Some(newest.index)) {
        first.deletions = deletions(view, rules);
        if let Some(error) = &view.record.error {
            first.state = ProgressState::Error;
            first.message.clone_from(error);
        }
    }
    let mut ended = 0;
    // The newest snapshot is shown however it ended.
    ways.retain(|way| {
        let is_over =
            way.snapshot != Some(newest.index) && (way.state.is_final() || way.state == ProgressState::Failed);
        if is_over {
            ended += 1;
        }
        !is_over || ended <= ENDED_WAYS_MAX
    });
    ways
}

fn blank(view: &PlacementView, state: ProgressState) -> Progress {
    Progress {
        placement: view.record.key.clone(),
        snapshot: None,
        commit: None,
        run: None,
        state,
        message: String::new(),
        done: 0,
        total: 0,
        stages: vec![],
        clusters: vec![],
        deletions: None,
    }
}

fn way(view: &PlacementView, snapshot: &ResourceSnapshot, state: ProgressState) -> Progress {
    Progress { snapshot: Some(snapshot.index), commit: Some(snapshot.commit.clone()), ..blank(view, state) }
}

/// Returns the progress of removing a placement that git does not have any more.
fn removal(view: &PlacementView, rules: ApprovalRules) -> Progress {
    let (state, message) = whole(view);
    let deletions = deletions(view, rules);
    Progress { message, total: view.bindings.len(), deletions, ..blank(view, state) }
}

/// Returns the state of the placement as a whole, with its reason: its rollout state in the forge's terms.
fn whole(view: &PlacementView) -> (ProgressState, String) {
    match rollout_state(view) {
        RolloutState::AllAtTarget => (ProgressState::Done, String::new()),
        RolloutState::Progressing => (ProgressState::Moving, String::new()),
        RolloutState::WaitingForPerson(wait) => waiting(view, &wait),
        RolloutState::WaitingForTime(until) => {
            (ProgressState::Waiting, until.map(|at| format!("until {}", moment(at))).unwrap_or_default())
        }
        RolloutState::Unreachable(text) => unreachable(&text),
        RolloutState::Failed(Failure::Invalid(text)) => (ProgressState::Error, text),
        // Statuses are short, and their state already says that it failed.
        RolloutState::Failed(Failure::Halted(text)) => (ProgressState::Failed, text),
        RolloutState::Failed(failure) => (ProgressState::Failed, failure.to_string()),
    }
}

/// Describes what a person must do; the commands are in the gate's section, and below the comment.
fn waiting(view: &PlacementView, wait: &PersonWait) -> (ProgressState, String) {
    match wait {
        PersonWait::Deletions(_) => (ProgressState::WaitingForPerson, "deletions wait for approval".to_owned()),
        PersonWait::Paused(_) => (ProgressState::Paused, paused_message(view)),
        PersonWait::Approval(_) | PersonWait::Run(_) | PersonWait::NoRun | PersonWait::Store(_) => {
            (ProgressState::WaitingForPerson, wait.to_string())
        }
    }
}

fn unreachable(clusters: &str) -> (ProgressState, String) {
    (ProgressState::Waiting, format!("does not answer: {clusters}"))
}

fn paused_message(view: &PlacementView) -> String {
    let Some(pause) = &view.record.paused else { return String::new() };
    let reason = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("paused by {}{reason}", pause.by)
}

/// Returns the progress towards the newest snapshot without a run.
fn rolling(view: &PlacementView, newest: &ResourceSnapshot) -> Progress {
    let (state, message) = whole(view);
    let mut progress = Progress { message, ..way(view, newest, state) };
    let mut lines = Vec::new();
    for (decision, binding) in view.picked() {
        progress.total += 1;
        let cluster = &decision.cluster_name;
        let standing = match (binding, view.offline(cluster)) {
            (Some(binding), _) => bound_state(view, binding),
            (None, Some(offline)) => ClusterState::Offline(format!("{cluster}{}", why(offline))),
            (None, None) => ClusterState::Queued,
        };
        // Only what keeps the rollout from its end gets a line; those that wait for their turn are too many.
        let (rank, state, message) = match standing {
            ClusterState::Right => {
                progress.done += 1;
                continue;
            }
            ClusterState::Failed(text) => (0, ProgressState::Failed, without_name(&text, cluster)),
            ClusterState::Moving => (1, ProgressState::Moving, stages::blocked(view, cluster)),
            ClusterState::Offline(text) => (2, ProgressState::Waiting, without_name(&text, cluster)),
            ClusterState::Queued | ClusterState::AwaitsRun => continue,
            // It never moves, and must not keep the progress from being complete.
            ClusterState::Ignored => {
                progress.total -= 1;
                continue;
            }
        };
        lines.push((rank, ClusterProgress { name: cluster.clone(), state, message }));
    }
    progress.clusters = worst(lines);
    if let Some(held) = view.record.held.as_ref().filter(|held| held.index == newest.index || held.hash == newest.hash)
    {
        let to = view.goal().filter(|to| *to != newest.index).or(view.record.last_succeeded);
        let to = to.and_then(|to| view.snapshot_at(to)).filter(|to| to.index != newest.index);
        let (state, message) = match (to, progress.state) {
            (Some(to), ProgressState::Moving | ProgressState::Waiting) => {
                (ProgressState::Moving, format!("rolling back to {}: {}", to.commit.short(), held.why))
            }
            (Some(to), _) => (ProgressState::RolledBack { to: to.commit.clone() }, held.why.clone()),
            (None, _) => (ProgressState::Rejected, held.why.clone()),
        };
        progress.state = state;
        progress.message = message;
    }
    progress
}

/// Returns the text about a cluster without its name, which its line has already.
fn without_name(text: &str, cluster: &ClusterName) -> String {
    text.strip_prefix(cluster.as_str()).map_or(text, |rest| rest.trim_start_matches([':', ' '])).to_owned()
}

/// Returns the first [`CLUSTERS_MAX`] lines, the worst first.
fn worst(mut lines: Vec<(u8, ClusterProgress)>) -> Vec<ClusterProgress> {
    lines.sort_by_key(|(rank, _)| *rank);
    lines.into_iter().take(CLUSTERS_MAX).map(|(_, line)| line).collect()
}

/// Returns the results of earlier snapshots of a rolling update, back to the last that succeeded. Whether older ones succeeded
/// before they were replaced is not recorded.
fn earlier_snapshots(view: &PlacementView, newest: &ResourceSnapshot) -> Vec<Progress> {
    let mut next = &newest.commit;
    let mut ways = Vec::new();
    let first = view.record.last_succeeded.unwrap_or(0);
    if first >= newest.index {
        return ways;
    }
    for (index, snapshot) in view.history.range(first..newest.index).rev().take(ENDED_WAYS_MAX) {
        if snapshot.commit == *next {
            continue;
        }
        let succeeded = view.record.last_succeeded == Some(*index);
        let state = if succeeded { ProgressState::Done } else { ProgressState::Superseded { by: next.clone() } };
        ways.push(way(view, snapshot, state));
        next = &snapshot.commit;
    }
    ways
}

/// Returns the progress of runs: for each commit that of its newest run.
fn staged_ways(view: &PlacementView, rules: ApprovalRules) -> Vec<Progress> {
    let mut runs: Vec<&RunRecord> = view.runs.values().collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.sequence));
    let mut ways: BTreeMap<&CommitId, Progress> = BTreeMap::new();
    for run in runs.iter().filter(|run| !is_return(run)) {
        let snapshot = match run.snapshot() {
            Some(index) => view.snapshot_at(index),
            None => view.snapshot,
        };
        let Some(snapshot) = snapshot.filter(|snapshot| !ways.contains_key(&snapshot.commit)) else { continue };
        let teller = Teller { view, rules, runs: &runs };
        ways.insert(&snapshot.commit, teller.staged(run, snapshot));
    }
    ways.into_values().collect()
}

fn is_return(run: &RunRecord) -> bool {
    matches!(run.cause, RunCause::Rollback { .. })
}

/// Builds the progress of runs.
struct Teller<'a> {
    view: &'a PlacementView<'a>,
    rules: ApprovalRules,
    /// All runs, the newest first.
    runs: &'a [&'a RunRecord],
}

impl Teller<'_> {
    fn staged(&self, run: &RunRecord, snapshot: &ResourceSnapshot) -> Progress {
        let (shown, state, message) = if let Some((back, to)) = self.last_return(run) {
            self.returning(run, back, to)
        } else {
            let (state, message) = self.state(run, snapshot);
            (run, state, message)
        };
        Progress {
            run: Some(command_name(&shown.placement, &shown.name)),
            message,
            done: shown.stages.iter().map(stages::done).sum(),
            total: shown.stages.iter().map(|stage| stage.clusters.len()).sum(),
            stages: stages::stages(self.view, self.rules, shown, &state),
            ..way(self.view, snapshot, state)
        }
    }

    /// Returns the run that rolled back a run, the last one if a rollback was itself rolled back, and its target.
    fn last_return(&self, run: &RunRecord) -> Option<(&RunRecord, &ResourceSnapshot)> {
        let mut found: Option<&RunRecord> = None;
        // Newer runs roll back older ones: one pass, from old to new, follows the chain.
        for back in self.runs.iter().rev() {
            let last = found.map_or(&run.name, |found| &found.name);
            if matches!(&back.cause, RunCause::Rollback { of, .. } if of == last) {
                found = Some(back);
            }
        }
        let back = found?;
        Some((back, self.view.snapshot_at(back.snapshot()?)?))
    }

    /// Describes a rollout that is rolled back: through the rollback run while that is active, then again through its own run.
    fn returning<'r>(
        &self,
        run: &'r RunRecord,
        back: &'r RunRecord,
        to: &ResourceSnapshot,
    ) -> (&'r RunRecord, ProgressState, String) {
        if back.phase.is_final() {
            let message = if run.phase == RunPhase::RolledBack { end_message(run) } else { String::new() };
            if matches!(back.phase, RunPhase::Failed | RunPhase::Rejected) {
                let message = format!("the return to {} ended: {}", to.commit.short(), end_message(back));
                return (back, ProgressState::Failed, message);
            }
            return (run, ProgressState::RolledBack { to: to.commit.clone() }, message);
        }
        let (state, text) = self.state(back, to);
        // The rollback is decided, though no cluster moves yet.
        let state = if state == ProgressState::Queued { ProgressState::Moving } else { state };
        let text = if text.is_empty() { text } else { format!(": {text}") };
        (back, state, format!("rolling back to {}{text}", to.commit.short()))
    }

    /// Returns the state of a run, with its reason.
    fn state(&self, run: &RunRecord, snapshot: &ResourceSnapshot) -> (ProgressState, String) {
        use ProgressState as S;
        let view = self.view;
        // What only a person can end is shown before a wait that ends by itself.
        match run.phase {
            RunPhase::Pending if run.refused => (S::Error, run.message.clone()),
            RunPhase::Pending => (S::Queued, run.message.clone()),
            RunPhase::Initialized => (S::Paused, "prepared; starts when its `state` says Run".to_owned()),
            RunPhase::Updating => self.updating(run),
            RunPhase::Waiting if closed_gates(run).iter().any(super::staged_run::ClosedGate::is_approval) => {
                (S::WaitingForPerson, run.message.clone())
            }
            RunPhase::Waiting if view.record.closed_gate().is_some() && closed_gates(run).is_empty() => {
                (S::WaitingForPerson, "deletions wait for approval".to_owned())
            }
            RunPhase::Waiting | RunPhase::Stopping | RunPhase::Stopped if view.record.paused.is_some() => {
                (S::Paused, paused_message(view))
            }
            RunPhase::Waiting => (S::Waiting, run.message.clone()),
            RunPhase::Halted => (S::Failed, run.message.clone()),
            RunPhase::Stopping | RunPhase::Stopped => {
                (S::Paused, "stopped; continues when its `state` says Run".to_owned())
            }
            RunPhase::Succeeded => (S::Done, run.message.clone()),
            RunPhase::Failed => (S::Failed, end_message(run)),
            RunPhase::Rejected => (S::Rejected, end_message(run)),
            RunPhase::Superseded => (S::Superseded { by: self.newer(run, snapshot) }, String::new()),
            RunPhase::RolledBack => {
                let to = view.record.last_succeeded.and_then(|to| view.snapshot_at(to));
                match to.filter(|to| to.index != snapshot.index) {
                    Some(to) => (S::RolledBack { to: to.commit.clone() }, end_message(run)),
                    None => (S::Failed, end_message(run)),
                }
            }
        }
    }

    fn updating(&self, run: &RunRecord) -> (ProgressState, String) {
        let view = self.view;
        let moves = super::staged_run::active_run(view.runs).is_some_and(|active| active.name == run.name);
        match rollout_state(view) {
            RolloutState::Unreachable(text) if moves => unreachable(&text),
            RolloutState::WaitingForPerson(wait) if moves => waiting(view, &wait),
            _ => (ProgressState::Moving, run.message.clone()),
        }
    }

    /// Returns the commit that superseded a run: that of the next run to another snapshot, else the newest. The next one, so
    /// that an earlier answer stays true.
    fn newer(&self, run: &RunRecord, snapshot: &ResourceSnapshot) -> CommitId {
        let later = self.runs.iter().rev().filter(|later| later.sequence > run.sequence && !is_return(later));
        let mut commits = later.filter_map(|later| Some(&self.view.snapshot_at(later.snapshot()?)?.commit));
        let next = commits.find(|commit| **commit != snapshot.commit);
        next.or(self.view.snapshot.map(|newest| &newest.commit)).unwrap_or(&snapshot.commit).clone()
    }
}

/// Returns a placement's closed deletion gate.
fn deletions(view: &PlacementView, rules: ApprovalRules) -> Option<GateProgress> {
    let gate = view.record.closed_gate()?;
    let mut what = vec![gate.reason.clone()];
    let lines = gate.deletions.iter().take(DELETION_LINES_MAX);
    what.extend(lines.map(|(cluster, objects)| {
        format!("{cluster}: {}: {}", counted(objects.len(), "object"), listing(objects.iter().map(ToString::to_string)))
    }));
    let more = gate.deletions.len().saturating_sub(DELETION_LINES_MAX);
    if more > 0 {
        what.push(format!("and {}", counted(more, "more cluster")));
    }
    if !gate.leaving.is_empty() {
        let names = listing(gate.leaving.iter().map(ToString::to_string));
        what.push(format!("{names}: what they hold stays there, and gitfleet no longer manages it"));
    }
    let given = gate
        .approvals
        .iter()
        .filter(|approval| approval.digest == gate.digest && counts(approval, rules, view))
        .count();
    Some(GateProgress {
        stage: DELETION_GATE.to_owned(),
        digest: gate.digest.clone(),
        since: gate.since,
        given: u32::try_from(given).unwrap_or(u32::MAX),
        required: rules.required.max(1),
        approvers: gate.approvers.clone().or_else(|| view.record.approvers.clone()),
        owners: view.record.all_owners(),
        what,
    })
}

/// Tells whether an approval is still valid.
fn counts(approval: &Approval, rules: ApprovalRules, view: &PlacementView) -> bool {
    let age = view.now.duration_since(approval.at);
    jiff::SignedDuration::try_from(rules.expire_after).is_ok_and(|limit| age < limit)
}

#[cfg(test)]
mod tests;
