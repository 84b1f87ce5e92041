//! Log messages about journal entries.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use decide::status::work::counted;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::records::JournalEntry;

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
    use jiff::Timestamp;

    use super::*;
    use model::id::PlacementKey;

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
