//! The state of placements and the fleet, and the log messages about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Core, Effect, MemberCommand, Sent, SourceLook};
use decide::state::PlacementState;
use decide::status::fleet::{fleet_states, source_failure};
use decide::status::placement::why;
use decide::status::rollout::{RolloutState, rollout_state};
use decide::status::work::{counted, listing};
use model::api::placement::ApplyStrategyType;
use model::id::{ClusterName, ObjectId, ObjectKey, PlacementKey};
use model::journal::JournalKind;
use model::records::{ApplyOutcome, JournalEntry};
use model::work::WorkOrder;

impl Core {
    /// Logs once that a placement has settled, and in which state.
    pub(super) fn announce(&mut self, key: &PlacementKey, now: Timestamp) {
        let Some(state) = self.placements.get(key) else { return };
        let standing = self.rollout_state(state, now);
        self.measures.count(state, &standing);
        let text = match &standing {
            RolloutState::Progressing => String::new(),
            RolloutState::AllAtTarget if state.record.removed => String::new(),
            RolloutState::AllAtTarget => rolled_out(state),
            other => other.to_string(),
        };
        let before = self.settled.insert(key.clone(), text.clone());
        if text.is_empty() || before.as_ref() == Some(&text) {
            return;
        }
        match standing {
            RolloutState::AllAtTarget => tracing::info!(about = %text, "rolled out"),
            RolloutState::WaitingForTime(_) => tracing::info!("waits for time to pass"),
            RolloutState::WaitingForPerson(wait) => tracing::warn!(about = %wait, "waits for a person"),
            RolloutState::Unreachable(why) => tracing::warn!(about = %why, "waits for clusters"),
            RolloutState::Failed(why) => tracing::error!(about = %why, "cannot continue"),
            RolloutState::Progressing => {}
        }
    }

    /// Counts the placements, and notes which of them an earlier process left rolled out: it has said so.
    pub(super) fn note_rolled_out(&mut self, now: Timestamp) {
        self.count_all(now);
        let mut settled = BTreeMap::new();
        for (key, state) in &self.placements {
            let bindings = state.shared_bindings();
            if rollout_state(&state.view(&bindings, &self.fleet, now)) == RolloutState::AllAtTarget {
                settled.insert(key.clone(), rolled_out(state));
            }
        }
        self.settled = settled;
    }

    pub(super) fn rollout_state(&self, state: &PlacementState, now: Timestamp) -> RolloutState {
        let bindings = state.shared_bindings();
        let standing = rollout_state(&state.view(&bindings, &self.fleet, now));
        match self.not_seen(state).filter(|_| standing == RolloutState::AllAtTarget) {
            Some(clusters) => RolloutState::Unreachable(clusters),
            None => standing,
        }
    }

    /// Names the clusters of a placement that have not answered this process: what was stored of them may not be true any more.
    fn not_seen(&self, state: &PlacementState) -> Option<String> {
        let is_silent =
            |cluster: &&ClusterName| self.members.contains_key(*cluster) && !self.answered.contains(*cluster);
        let mut silent = state.bindings().map(|binding| &binding.cluster).filter(is_silent).peekable();
        silent.peek()?;
        let named = silent.map(|cluster| {
            let why = self.fleet.records.get(cluster).map(why).unwrap_or_default();
            format!("{cluster}{why}")
        });
        Some(format!("not seen since gitfleet started: {}", listing(named)))
    }

    /// Returns the state of the whole fleet: the worst of its placements, or of the source.
    pub fn standing(&self, now: Timestamp) -> RolloutState {
        let placements = self.placements.values().map(|state| self.rollout_state(state, now));
        let parts = placements.chain([self.hub_standing()]);
        let worst = fleet_states(self.store.as_ref(), &self.source, self.fleet.records.values(), parts)
            .into_iter()
            .fold(RolloutState::AllAtTarget, RolloutState::or_worse);
        let is_stopped = self.adoption_complaint().is_some() || source_failure(&self.source).is_some();
        if !is_stopped && (self.fleet.tree.commit.is_none() || !self.queue.is_empty() || !self.reading.is_empty()) {
            return RolloutState::Progressing;
        }
        worst
    }

    /// Returns the orders that members were given last.
    pub fn orders(&self) -> impl Iterator<Item = &Arc<WorkOrder>> {
        self.sent.values().flat_map(|sent| sent.values()).map(|sent| &sent.order)
    }

    /// Tells whether an online member was ordered to keep a pause or hold, or to drop it, and has not confirmed that yet.
    fn is_keeping(&self) -> bool {
        let is_untold = |placement: &PlacementKey, order: &WorkOrder| {
            let reported = self.reports.get(placement).and_then(|reports| reports.get(&order.cluster));
            let written = || self.placements.get(placement).and_then(|state| state.works.get(&order.cluster));
            let work = reported.or_else(written);
            let writes = !order.remove && order.strategy.type_ != ApplyStrategyType::ReportDiff;
            let is_failing = work.is_none_or(|work| work.failure.is_some());
            writes
                && !is_failing
                && work.is_some_and(|work| work.kept != order.kept)
                && self.fleet.is_online(&order.cluster)
        };
        self.sent.iter().any(|(placement, sent)| sent.values().any(|sent| is_untold(placement, &sent.order)))
    }

    /// Tells whether an online member has not yet reported, in this process, the result of all its orders.
    fn is_trying(&self) -> bool {
        let is_untried = |(cluster, sent): (&ClusterName, &Sent)| !sent.is_tried && self.fleet.is_online(cluster);
        self.sent.values().any(|sent| sent.iter().any(is_untried))
    }

    /// Returns what a member with an order of a placement was last seen to hold of it.
    fn held(&self, placement: &PlacementKey, cluster: &ClusterName) -> Option<&BTreeSet<ObjectKey>> {
        self.sent.get(placement).filter(|sent| sent.contains_key(cluster))?;
        Some(self.placements.get(placement)?.works.get(cluster)?.inventory.seen())
    }

    /// Tells whether a placement still has a record only because an online member has not reported yet that another placement has taken
    /// over its objects: an object has one label, so of two reports that name it one is out of date.
    fn awaits_old_holder(&self) -> bool {
        let is_taken = |old: &PlacementKey, cluster: &ClusterName| {
            let Some(left) = self.held(old, cluster) else { return false };
            let mut others = self.sent.keys().filter(|other| *other != old);
            others.any(|other| self.held(other, cluster).is_some_and(|taken| !taken.is_disjoint(left)))
        };
        self.placements.iter().any(|(key, state)| {
            let mut leaving = state.record.handing_over.iter().filter(|cluster| self.fleet.is_online(cluster));
            leaving.any(|cluster| is_taken(key, cluster))
        })
    }

    /// Has members try again what they refused, before a single pass ends with a failure: what an object needs may have come with another
    /// placement meanwhile, as the right of a tenant's account to write it. Nothing if all that was tried again last is refused still, so
    /// that a pass ends. Agents try again by themselves.
    pub fn try_again(&mut self) -> Vec<Effect> {
        let refused = self.refused_objects();
        let is_first = self.tried_again.is_empty();
        if refused.is_empty() || !is_first && self.tried_again.is_subset(&refused) {
            return Vec::new();
        }
        let mut effects = BTreeMap::new();
        for (placement, cluster, _) in &refused {
            if let Some(sent) = self.sent.get_mut(placement).and_then(|sent| sent.get_mut(cluster)) {
                sent.is_tried = false;
            }
            let command = MemberCommand::TryAgain(placement.clone());
            effects.insert((placement.clone(), cluster.clone()), Effect::Command(cluster.clone(), command));
        }
        self.tried_again = refused;
        effects.into_values().collect()
    }

    /// Returns the objects that members refused, and are tried again after a pause.
    fn refused_objects(&self) -> BTreeSet<(PlacementKey, ClusterName, ObjectId)> {
        let mut refused = BTreeSet::new();
        for (placement, sent) in &self.sent {
            let Some(state) = self.placements.get(placement) else { continue };
            let is_here = |cluster: &ClusterName| {
                let access = self.members.get(cluster);
                self.fleet.is_online(cluster) && access.is_some_and(|access| access.agent().is_none())
            };
            for cluster in sent.keys().filter(|cluster| is_here(cluster)) {
                let Some(work) = state.works.get(cluster) else { continue };
                // What belonged to another placement may be free by now.
                let is_refused =
                    |applied: ApplyOutcome| applied.is_tried_again() || applied == ApplyOutcome::FailedToTakeOver;
                let of = work.manifests.iter().filter(|manifest| is_refused(manifest.applied));
                refused.extend(of.map(|manifest| (placement.clone(), cluster.clone(), manifest.id.clone())));
            }
        }
        refused
    }

    /// Returns the state if nothing is left to wait for before the deadline of a single pass.
    pub fn finished(&self, now: Timestamp, deadline: Timestamp) -> Option<RolloutState> {
        if self.source_look != SourceLook::Seen || !self.unseen.is_empty() {
            return None;
        }
        // Without the source OCM Placements stay queued: a pass would wait for them without end.
        let has_work = if self.fleet.source_unread { self.is_due() } else { !self.queue.is_empty() };
        // A store that nobody has adopted writes only one record: its own.
        if has_work && (self.adoption_complaint().is_none() || self.store != self.stored_store) {
            return None;
        }
        if self.is_keeping() || self.is_hub_tried_again() {
            return None;
        }
        match self.standing(now) {
            RolloutState::Progressing => None,
            // Failures that an earlier process stored may be over, and members may have lost something beside a gate.
            RolloutState::AllAtTarget | RolloutState::Failed(_) | RolloutState::WaitingForPerson(_)
                if self.is_trying() =>
            {
                None
            }
            RolloutState::AllAtTarget if self.awaits_old_holder() => None,
            RolloutState::WaitingForTime(Some(at)) if at < deadline => None,
            standing => Some(standing),
        }
    }

    /// Returns the state of a single pass that is ended before it has finished: work without a report does not count as done.
    pub fn cut_short(&self, now: Timestamp) -> RolloutState {
        match self.standing(now) {
            RolloutState::AllAtTarget => self.finished(now, now).unwrap_or(RolloutState::Progressing),
            standing => standing,
        }
    }
}

/// Says that a placement is rolled out.
fn rolled_out(state: &PlacementState) -> String {
    let index = state.newest().map_or(0, |s| s.index);
    let ignored = state.record.ignored.len();
    let others = if ignored > 0 { format!("; {ignored} in no stage are left as they are") } else { String::new() };
    let on = match state.bindings.len().saturating_sub(ignored) {
        0 => "has no cluster to go to".to_owned(),
        1 => "is available on its cluster".to_owned(),
        reached => format!("is available on all {reached} clusters"),
    };
    format!("snapshot {index} {on}{others}")
}

/// Facts of a journal entry that people read, and the words before them.
const TOLD: [(&str, &str); 9] = [
    ("stage", "stage "),
    ("index", "snapshot "),
    ("to", "snapshot "),
    ("snapshot", "snapshot "),
    ("person", "by "),
    ("by", "by "),
    ("phase", ""),
    ("message", ""),
    ("why", ""),
];

/// Returns the facts of an entry that its log line has beside its sentence; the whole is in the journal.
fn about(facts: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let told = TOLD.iter().filter_map(|(name, words)| Some(format!("{words}{}", text(facts.get(name)?)?)));
    Some(told.collect::<Vec<_>>().join(", ")).filter(|told| !told.is_empty())
}

/// Clusters that one line of the log names.
const CLUSTERS_NAMED_MAX: usize = 5;

/// Logs journal entries of one decision.
pub(super) fn log_entries(entries: &[JournalEntry]) {
    entries.iter().for_each(log_entry);
    for (snapshot, clusters) in rollout_steps(entries) {
        let about = step_text(snapshot, &clusters);
        let facts = json!({"snapshot": snapshot, "clusters": clusters.len()});
        tracing::info!(%about, %facts, "rolling out");
    }
}

/// Returns the clusters that move to each snapshot in one decision: a large fleet would fill the log with a line for each cluster.
fn rollout_steps(entries: &[JournalEntry]) -> BTreeMap<Option<u64>, Vec<&ClusterName>> {
    let mut steps: BTreeMap<Option<u64>, Vec<&ClusterName>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.event == JournalKind::RolloutStarted) {
        steps.entry(entry.facts["to"].as_u64()).or_default().extend(&entry.cluster);
    }
    steps
}

/// Says which clusters move to a snapshot; of many, the first.
fn step_text(snapshot: Option<u64>, clusters: &[&ClusterName]) -> String {
    let named: Vec<&str> = clusters.iter().take(CLUSTERS_NAMED_MAX).map(|cluster| cluster.as_str()).collect();
    let rest = clusters.len() - named.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let what = snapshot.map(|snapshot| format!("snapshot {snapshot} ")).unwrap_or_default();
    format!("{what}to {} ({}{more})", counted(clusters.len(), "cluster"), named.join(", "))
}

/// Logs a journal entry.
fn log_entry(entry: &JournalEntry) {
    let Some(sentence) = log_sentence(&entry.event) else { return };
    let ocm_placement = || entry.facts["ocmPlacement"].as_str().map(str::to_owned);
    let placement = entry.placement.as_ref().map(ToString::to_string).or_else(ocm_placement).unwrap_or_default();
    let cluster = entry.cluster.as_ref().map(ToString::to_string);
    // An absent field is not written.
    let facts = entry.facts.as_object().map(|_| tracing::field::display(&entry.facts));
    let cluster = cluster.map(tracing::field::display);
    let about = about(&entry.facts).map(tracing::field::display);
    if entry.event == JournalKind::RolloutStarted {
        // One line for all clusters of the step says it, too.
        tracing::debug!(%placement, cluster, about, facts, "{sentence}");
    } else {
        tracing::info!(%placement, cluster, about, facts, "{sentence}");
    }
}

/// Returns what the log says of a kind of entry; `None` where other log entries say it.
fn log_sentence(kind: &JournalKind) -> Option<&str> {
    use JournalKind as K;
    Some(match kind {
        // The log entries of the cluster's rollout, of the placement's state and of the source cover these; conditions are for
        // `get` and `describe`.
        K::PlacementRolloutStarted
        | K::PlacementOverriddenSucceeded
        | K::PlacementWorkSynchronized
        | K::PlacementApplied
        | K::PlacementRolloutCompleted
        | K::PlacementRemoved
        | K::ClusterPicked
        | K::ClusterStarted
        | K::ClusterSucceeded
        | K::DeletionsHeld
        | K::RolloutHalted
        | K::RolloutSucceeded
        | K::CommitRefused
        | K::CommitHeld
        | K::TaskDone
        | K::Commanded => return None,
        K::SnapshotCreated => "snapshot created",
        K::SnapshotFound => "snapshot found on members",
        K::PauseFound => "paused, as members keep it",
        K::NewerSnapshotFound => "a newer snapshot found on a member; it stays until the rollout comes to it",
        K::Renamed => "continues under a new name",
        K::HoldFound => "snapshot held, as members keep it",
        K::SnapshotHeld => "snapshot held: it is not rolled out again by itself",
        K::ClusterDropped => "cluster no longer picked",
        K::RolloutStarted => "rolling out to cluster",
        K::RolledBack => "rolling back",
        K::RemovalStarted => "removing from cluster",
        K::BindingRemoved => "removed from cluster",
        K::ClusterLeft => "cluster left the fleet",
        K::RunCreated => "run created",
        K::RunStarted => "run begins",
        K::RunRefused => "run cannot begin",
        K::RunMoved => "run continues",
        K::RunEnded => "run ends",
        K::RunRemoved => "run removed from the source",
        K::StageStarted => "stage begins",
        K::StageSkipped => "stage skipped: it has no clusters",
        K::StageWaiting => "stage waits",
        K::StageSucceeded => "stage is done",
        K::ChecksRepeated => "checks are asked again",
        K::ApprovalRequested => "approval requested",
        K::Approved => "approved",
        K::ClusterFailed => "cluster failed",
        K::ClusterDeferred => "cluster deferred: it does not answer",
        K::ClusterSkipped => "cluster skipped",
        K::ClusterRetried => "cluster is tried again",
        K::ApprovalKept => "approval is still asked for",
        other @ (K::EvictionJudged
        | K::DecisionCreate
        | K::DecisionUpdate
        | K::DecisionDelete
        | K::ScoreUpdate
        | K::ScoresExpired
        | K::StoreAdopted
        | K::ClockCorrected
        | K::WentOnWithoutSource
        | K::AgentEnrolled
        | K::AgentRevoked
        | K::Other(_)) => other.as_str(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line_with_a_few_names() {
        let entry = |event: JournalKind, cluster: &str, to: u64| JournalEntry {
            at: Timestamp::UNIX_EPOCH,
            event,
            placement: Some(PlacementKey::cluster_scoped("web")),
            cluster: Some(ClusterName::from(cluster)),
            facts: json!({"to": to}),
        };
        let mut entries = vec![entry(JournalKind::ClusterFailed, "z", 1), entry(JournalKind::RolloutStarted, "old", 1)];
        let texts = |entries: &[JournalEntry]| -> Vec<String> {
            rollout_steps(entries).iter().map(|(snapshot, clusters)| step_text(*snapshot, clusters)).collect()
        };
        assert_eq!(texts(&entries), ["snapshot 1 to 1 cluster (old)"]);
        entries.extend(["a", "b", "c", "d", "e", "f", "g"].map(|name| entry(JournalKind::RolloutStarted, name, 2)));
        assert_eq!(texts(&entries)[1..], ["snapshot 2 to 7 clusters (a, b, c, d, e and 2 more)"]);
        assert!(rollout_steps(&entries[..1]).is_empty());
    }
}
