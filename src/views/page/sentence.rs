//! Entries of the journal as sentences.

use serde_json::Value;

use crate::table::text;
use model::journal::JournalKind;
use model::records::JournalEntry;

/// Returns an entry as a sentence without its placement and cluster, which stand beside it.
pub(super) fn sentence(entry: &JournalEntry) -> String {
    match pattern(&entry.event) {
        Some(pattern) => filled(pattern, &entry.facts),
        None => plain(entry),
    }
}

/// Returns the sentence for a kind; `{name}` is the fact of that name, and `[...]` is left out where a fact in it is absent.
fn pattern(kind: &JournalKind) -> Option<&'static str> {
    use JournalKind as K;
    Some(match kind {
        K::SnapshotCreated => "snapshot {index} was frozen[: {objects} objects]",
        K::SnapshotFound => "members hold snapshot {index}: it keeps its index",
        K::PauseFound => "members keep the pause by {by}[: {reason}]",
        K::Renamed => "was {from} before",
        K::HoldFound => "members keep that snapshot {index} is held: {why}",
        K::NewerSnapshotFound => "holds a newer snapshot than the store knew[: {from}]",
        K::SnapshotHeld => "snapshot {index} is not rolled out again by itself: {why}",
        K::ClusterPicked => "was picked",
        K::ClusterDropped => "is not picked any more",
        K::RolloutStarted => "moves to snapshot {to}[, from {from}]",
        K::RolledBack => "returned to snapshot {to}: {why}",
        K::RemovalStarted => "its objects are being removed",
        K::BindingRemoved => "everything is gone from it",
        K::ClusterLeft => "left the fleet; what it holds stays",
        K::EvictionJudged => "eviction {eviction} was evaluated; executed: {executed}",
        K::PlacementRolloutStarted => "every cluster was assigned snapshot {snapshot}",
        K::PlacementOverriddenSucceeded => "overrides of snapshot {snapshot} are applied for every cluster",
        K::PlacementWorkSynchronized => "snapshot {snapshot} was handed over to every cluster",
        K::PlacementApplied => "snapshot {snapshot} is applied on every cluster",
        K::PlacementRolloutCompleted => "snapshot {snapshot} is available on every cluster",
        K::RunCreated => "run {run} was created[ by strategy {strategy}][, for snapshot {snapshot}]",
        K::RunStarted => "run {run} begins[ with snapshot {snapshot}]",
        K::RunRefused => "run {run} cannot begin: {message}",
        K::RunMoved => "run {run}: {message}",
        K::RunEnded => "run {run} ended[, {phase}][: {message}]",
        K::RunRemoved => "run {run} was removed from git; clusters stay as they are",
        K::StageStarted => "stage {stage} begins",
        K::StageSkipped => "stage {stage} has no clusters",
        K::StageWaiting => "the clusters of stage {stage} are done; it waits",
        K::StageSucceeded => "stage {stage} is done",
        K::ApprovalRequested => "stage {stage} waits for an approval[: {message}]",
        K::TaskDone => "stage {stage}: {message}",
        K::ChecksRepeated => "the checks of stage {stage} are asked again[: {message}]",
        K::ApprovalKept => "the approval of stage {stage} is still asked for[, by {wantedBy}]",
        K::ClusterStarted => "begins in stage {stage}[: {message}]",
        K::ClusterSucceeded => "done in stage {stage}[: {message}]",
        K::ClusterFailed => "failed in stage {stage}[: {message}]",
        K::ClusterDeferred => "did not answer at its turn in stage {stage}[: {message}]",
        K::ClusterSkipped => "is skipped in stage {stage}[: {message}]",
        K::ClusterRetried => "is tried again in stage {stage}[: {message}]",
        K::Commanded => "{person} said {verb}[ {target}][ {stage}][ ({reason})][: {message}]",
        K::Approved => "{person} approved stage {stage}[, digest {digest}]",
        _ => return None,
    })
}

fn filled(pattern: &str, facts: &Value) -> String {
    let mut sentence = String::new();
    for part in pattern.split_inclusive(['[', ']']) {
        let is_optional = part.ends_with(']');
        let part = part.trim_end_matches(['[', ']']);
        let filled = with_facts(part, facts);
        sentence.push_str(
            &filled.unwrap_or_else(|| if is_optional { String::new() } else { part.replace(['{', '}'], "") }),
        );
    }
    sentence
}

/// Fills in the facts; `None` where one is absent.
fn with_facts(part: &str, facts: &Value) -> Option<String> {
    let mut filled = String::new();
    for piece in part.split_inclusive('}') {
        let Some((before, name)) = piece.strip_suffix('}').and_then(|piece| piece.split_once('{')) else {
            filled.push_str(piece);
            continue;
        };
        let fact = facts.get(name).map(|fact| text(Some(fact))).filter(|fact| !fact.is_empty())?;
        filled.push_str(before);
        filled.push_str(&fact);
    }
    Some(filled)
}

/// Returns the message of an entry, else its facts by name.
fn plain(entry: &JournalEntry) -> String {
    if let Some(message) = entry.facts.get("message") {
        return text(Some(message));
    }
    let facts =
        entry.facts.as_object().into_iter().flatten().map(|(name, value)| format!("{name} {}", text(Some(value))));
    let facts = facts.collect::<Vec<_>>().join(", ");
    if facts.is_empty() { entry.event.to_string() } else { format!("{}: {facts}", entry.event) }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn said(event: &str, facts: Value) -> String {
        let entry =
            JournalEntry { at: Timestamp::UNIX_EPOCH, event: event.into(), placement: None, cluster: None, facts };
        sentence(&entry)
    }

    #[test]
    fn an_entry_is_a_sentence_without_what_is_not_known() {
        for (event, facts, expected) in [
            ("SnapshotCreated", json!({"index": 3, "objects": 2}), "snapshot 3 was frozen: 2 objects"),
            ("SnapshotCreated", json!({"index": 3}), "snapshot 3 was frozen"),
            ("RunCreated", json!({"run": "web-3", "snapshot": 3}), "run web-3 was created, for snapshot 3"),
            ("StageSucceeded", json!({"stage": "canary", "run": "web-3"}), "stage canary is done"),
            ("StageSucceeded", Value::Null, "stage stage is done"),
            ("Commanded", json!({"person": "ann", "verb": "pause", "target": "web"}), "ann said pause web"),
            (
                "Approved",
                json!({"person": "ann", "stage": "{digest}", "digest": "1a2b"}),
                "ann approved stage {digest}, digest 1a2b",
            ),
            ("StoreAdopted", json!({"by": "ann", "members": 3}), "StoreAdopted: by ann, members 3"),
            ("Unheard", json!({"message": "of something"}), "of something"),
        ] {
            assert_eq!(said(event, facts), expected, "{event}");
        }
    }
}
