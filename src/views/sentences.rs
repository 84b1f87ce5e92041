//! Entries of the journal as sentences.

use jiff::Timestamp;
use serde_json::Value;

use super::table::{Table, age, text};
use model::journal::JournalKind as K;
use model::records::JournalEntry;

/// Returns what happened, as a sentence. `commit` names the commit of a snapshot of the entry's placement, where it is known.
pub fn sentence(entry: &JournalEntry, commit: &dyn Fn(u64) -> Option<String>) -> String {
    let Some(template) = template(entry) else { return other(entry) };
    let mut sentence = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        sentence.push_str(before);
        sentence.push_str(&filled(entry, name, commit));
        rest = after;
    }
    sentence.push_str(rest);
    // A template without the message leaves room for one at its end.
    let message = fact(entry, "message").filter(|message| !message.is_empty() && !template.contains("{message}"));
    match message {
        Some(message) if !sentence.contains(&message) => format!("{sentence}: {message}"),
        _ => sentence,
    }
}

/// Returns what stands for a name: a snapshot with its commit after `@`, else a fact.
fn filled(entry: &JournalEntry, name: &str, commit: &dyn Fn(u64) -> Option<String>) -> String {
    let Some(name) = name.strip_prefix('@') else { return fact(entry, name).unwrap_or_default() };
    let Some(index) = entry.facts.get(name).and_then(Value::as_u64) else { return "none".to_owned() };
    match commit(index) {
        Some(commit) => format!("{index} ({commit})"),
        None => index.to_string(),
    }
}

fn fact(entry: &JournalEntry, name: &str) -> Option<String> {
    match name {
        "cluster" => entry.cluster.as_ref().map(ToString::to_string),
        "placement" => entry.placement.as_ref().map(ToString::to_string),
        name => entry.facts.get(name).filter(|value| !value.is_null()).map(|value| text(Some(value))),
    }
}

fn has(entry: &JournalEntry, name: &str) -> bool {
    fact(entry, name).is_some_and(|value| !value.is_empty())
}

/// Returns the sentence of a command: of a placement as a whole, or at one of its stages.
fn command_template(entry: &JournalEntry) -> &'static str {
    match (has(entry, "stage"), has(entry, "reason")) {
        (true, true) => "{person} said: {verb} {target} {stage} ({reason})",
        (true, false) => "{person} said: {verb} {target} {stage}",
        (false, true) => "{person} said: {verb} {target} ({reason})",
        (false, false) => "{person} said: {verb} {target}",
    }
}

/// Returns the sentence of an entry with the names of its facts in braces; `None` for what another version wrote.
fn template(entry: &JournalEntry) -> Option<&'static str> {
    // Where not every entry of a kind has a fact, the guard chooses a sentence without a gap.
    Some(match &entry.event {
        K::SnapshotCreated => "snapshot {@index} with {objects} objects",
        K::SnapshotFound => "snapshot {@index} was found on members, because the store was lost",
        K::PauseFound => "paused by {by}, found on members, because the store was lost",
        K::Renamed => "was {from} before: it continues under the new name",
        K::HoldFound => "snapshot {@index} is held, found on members, because the store was lost: {why}",
        K::NewerSnapshotFound => "{cluster} holds snapshot {@from}, which is newer than the restored store",
        K::SnapshotHeld => "snapshot {@index} is held: it {why}",
        K::ClusterPicked => "{cluster} was picked",
        K::ClusterDropped => "{cluster} is not picked any more",
        K::RolloutStarted if has(entry, "from") => "{cluster} moves from snapshot {@from} to snapshot {@to}",
        K::RolloutStarted => "{cluster} gets snapshot {@to}",
        K::RolledBack => "rolled back to snapshot {@to}: {why}",
        K::RemovalStarted => "removal from {cluster} began",
        K::BindingRemoved => "everything is removed from {cluster}",
        K::ClusterLeft => "{cluster} left the fleet; what it holds stays there",
        K::EvictionJudged if entry.facts["executed"] == true => "eviction {eviction} from {cluster} was executed",
        K::EvictionJudged => "eviction {eviction} from {cluster} was not executed",
        K::PlacementRolloutStarted => "every cluster was assigned snapshot {@snapshot}",
        K::PlacementOverriddenSucceeded => "overrides of snapshot {@snapshot} were applied for every cluster",
        K::PlacementWorkSynchronized => "snapshot {@snapshot} was handed over to every cluster",
        K::PlacementApplied => "every object of snapshot {@snapshot} is applied on every cluster",
        K::PlacementRolloutCompleted => "every object of snapshot {@snapshot} is available on every cluster",
        K::RunCreated => "run {run} was made for snapshot {@snapshot}, by {strategy}",
        K::RunStarted => "run {run} begins with snapshot {@snapshot}",
        K::RunRefused => "run {run} cannot begin",
        K::RunMoved => "run {run}",
        K::RunEnded => "run {run} ended before it was done",
        K::RunRemoved => "run {run} was removed from git; clusters stay as they are",
        K::StageStarted => "stage {stage} of {run} begins",
        K::StageSkipped => "stage {stage} of {run} is skipped",
        K::StageWaiting => "stage {stage} of {run}: its clusters are done, and tasks are left",
        K::StageSucceeded => "stage {stage} of {run} is done",
        K::ApprovalRequested => "stage {stage} of {run} waits for approval",
        K::TaskDone => "stage {stage} of {run}: {message}",
        K::ChecksRepeated => "stage {stage} of {run}: checks are asked again",
        K::ApprovalKept if has(entry, "paused") => "paused: {paused}",
        K::ApprovalKept => "stage {stage} of {run}: the approval is still asked for, by {wantedBy}",
        K::ClusterStarted => "{cluster} begins, in stage {stage} of {run}",
        K::ClusterSucceeded => "{cluster} is done, in stage {stage} of {run}",
        K::ClusterFailed => "{cluster} failed, in stage {stage} of {run}",
        K::ClusterDeferred => "{cluster} is deferred, in stage {stage} of {run}",
        K::ClusterSkipped => "{cluster} is skipped, in stage {stage} of {run}",
        K::ClusterRetried => "{cluster} is tried again, in stage {stage} of {run}",
        K::Commanded => command_template(entry),
        K::Approved if entry.facts["opened"] == true => "{person} approved stage {stage}, and the gate is open",
        K::Approved => "{person} approved stage {stage}; more people must approve",
        K::DecisionCreate | K::DecisionUpdate | K::DecisionDelete => "{message}",
        K::ScoreUpdate => "scores that decided",
        K::ScoresExpired => "scores expired",
        K::PlacementRemoved => "{ocmPlacement} is gone from git",
        K::DeletionsHeld => "deletions wait for approval",
        K::RolloutHalted if has(entry, "snapshot") => "the rollout of snapshot {@snapshot} has halted",
        K::RolloutHalted => "the rollout has halted",
        K::RolloutSucceeded => "snapshot {@snapshot} is available on every cluster",
        K::CommitRefused => "commit {commit} is refused: {errors} errors",
        K::CommitHeld => "commit {commit} waits for a person",
        K::StoreAdopted => "{by} let a new store take over what {members} hold",
        K::ClockCorrected => "the machine's clock was set, or another machine leads: its clock is {by}",
        K::WentOnWithoutSource => "{by} let gitfleet continue though the source was not read",
        K::AgentEnrolled => "{by} made a token for agent {agent}",
        K::AgentRevoked => "{by} made the token of agent {agent} invalid",
        K::Other(_) => return None,
    })
}

/// Returns what another version wrote: the kind and its facts by name.
fn other(entry: &JournalEntry) -> String {
    let facts = entry.facts.as_object().into_iter().flatten();
    let facts = facts.map(|(name, value)| format!(" {name}={}", text(Some(value))));
    entry
        .cluster
        .iter()
        .map(|cluster| format!(" cluster={cluster}"))
        .chain(facts)
        .fold(entry.event.to_string(), |all, one| all + &one)
}

/// Returns the newest `max` of a placement's entries as a table, oldest first.
pub fn recent(entries: &[JournalEntry], max: usize, commit: &dyn Fn(u64) -> Option<String>, now: Timestamp) -> Table {
    let shown = &entries[entries.len().saturating_sub(max)..];
    let rows = shown.iter().map(|entry| vec![age(entry.at, now), sign(entry).to_owned(), sentence(entry, commit)]);
    Table { headers: ["AGE", "", "EVENT"].map(str::to_owned).to_vec(), rows: rows.collect() }
}

/// Returns entries as a table with the time of each, in UTC.
pub fn dated(entries: &[&JournalEntry], commit: &dyn Fn(&JournalEntry, u64) -> Option<String>) -> Table {
    let mut table = Table::default();
    table.headers.extend(["TIME", "PLACEMENT", "", "EVENT"].map(str::to_owned));
    for entry in entries {
        let placement = fact(entry, "placement").or_else(|| fact(entry, "ocmPlacement"));
        let placement = placement.unwrap_or_else(|| "-".to_owned());
        let sentence = sentence(entry, &|index| commit(entry, index));
        table.rows.push(vec![format!("{:.0}", entry.at), placement, sign(entry).to_owned(), sentence]);
    }
    table
}

fn sign(entry: &JournalEntry) -> &'static str {
    if entry.is_warning() { "!" } else { " " }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::at;

    fn entry(event: K, cluster: Option<&str>, facts: Value) -> JournalEntry {
        JournalEntry { at: at(0), event, placement: "web".parse().ok(), cluster: cluster.map(Into::into), facts }
    }

    #[test]
    fn every_kind_has_a_sentence_of_its_facts() {
        for known in K::ALL {
            let facts: Value =
                known.fields.iter().map(|name| ((*name).to_owned(), json!(format!("<{name}>")))).collect();
            let entry = entry(known.value.clone(), Some("east"), facts);
            let template = template(&entry).expect("a sentence");
            let names = template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
            for name in names.map(|name| name.trim_start_matches('@')).filter(|name| *name != "cluster") {
                assert!(known.fields.contains(&name), "{}: {name} is no fact of it", known.value);
            }
        }
    }

    #[test]
    fn sentences_name_commits_and_leave_out_what_is_not_known() {
        let rows = [
            (
                entry(K::RolloutStarted, Some("east"), json!({"binding": "b", "from": null, "to": 0})),
                "east gets snapshot 0 (c0)",
            ),
            (
                entry(K::RolloutStarted, Some("east"), json!({"from": 0, "to": 1})),
                "east moves from snapshot 0 (c0) to snapshot 1",
            ),
            (
                entry(K::TaskDone, None, json!({"run": "web-0", "stage": "dev", "message": "its wait is over"})),
                "stage dev of web-0: its wait is over",
            ),
            (
                entry(K::RunMoved, None, json!({"run": "web-0", "message": "Waiting: a gate is closed"})),
                "run web-0: Waiting: a gate is closed",
            ),
            (
                entry(
                    K::ClusterFailed,
                    Some("east"),
                    json!({"run": "web-0", "stage": "dev", "message": "field is immutable"}),
                ),
                "east failed, in stage dev of web-0: field is immutable",
            ),
            (
                entry(
                    K::Commanded,
                    None,
                    json!({"verb": "approve", "target": "web-0", "stage": "dev", "person": "ann", "reason": "tried it"}),
                ),
                "ann said: approve web-0 dev (tried it)",
            ),
            (entry("Later".into(), Some("east"), json!({"a": 1})), "Later cluster=east a=1"),
        ];
        let commit = |index: u64| (index == 0).then(|| "c0".to_owned());
        for (entry, expected) in rows {
            assert_eq!(sentence(&entry, &commit), expected);
        }
    }
}
