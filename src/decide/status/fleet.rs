//! How the fleet itself stands, and what is odd about it: clusters that nothing reaches and clusters that have never answered.

use std::collections::BTreeMap;

use super::rollout::{Failure, PersonWait, RolloutState};
use super::work::{counted, listing};
use model::records::{ClusterRecord, MemberKind, SourceRecord, StoreRecord};
use model::warning::{Warning, WarningKind};

/// Returns how the parts of the fleet stand: its placements, what else is delivered to, its clusters and its source. Where a store
/// waits to be adopted it is that alone: nothing is decided until then, so placements say nothing of now.
pub fn fleet_states<'a>(
    store: Option<&StoreRecord>,
    source: &SourceRecord,
    clusters: impl Iterator<Item = &'a ClusterRecord>,
    placements: impl Iterator<Item = RolloutState>,
) -> Vec<RolloutState> {
    if let Some(complaint) = store.and_then(StoreRecord::complaint) {
        return vec![RolloutState::WaitingForPerson(PersonWait::Store(complaint))];
    }
    let warnings: Vec<String> = fleet_warnings(clusters).into_iter().map(|warning| warning.message).collect();
    let mut states: Vec<RolloutState> = placements.collect();
    if !warnings.is_empty() {
        states.push(RolloutState::Unreachable(warnings.join("; ")));
    }
    states.extend(source_failure(source));
    states
}

/// Says why the source does not lead to the commit that people want: it cannot be read or followed, or is refused.
pub fn source_failure(source: &SourceRecord) -> Option<RolloutState> {
    // The first keeps the fleet from any commit, the others only from the newest.
    let why = if let Some(reason) = &source.unrestored {
        format!("the accepted commit cannot be read: {reason}")
    } else if let Some(failure) = &source.failure {
        failure.clone()
    } else if source.held_rewrite.is_some() {
        source.held_why.clone().unwrap_or_else(|| "history was rewritten".to_owned())
    } else if !source.refused.is_empty() {
        "the newest commit is refused".to_owned()
    } else {
        return None;
    };
    Some(RolloutState::Failed(Failure::Source(why)))
}

/// Returns what is odd about the clusters that git names, for everybody who says how the fleet stands.
///
/// They do not depend on whether a placement wants the cluster: nobody can tell for a cluster that was never seen. Suspend a
/// cluster to leave it alone on purpose.
pub fn fleet_warnings<'a>(clusters: impl Iterator<Item = &'a ClusterRecord>) -> Vec<Warning> {
    let mut unreached = Vec::new();
    let mut silent = BTreeMap::<&str, Vec<String>>::new();
    let mut same = Vec::new();
    for cluster in clusters.filter(|cluster| !cluster.left && !cluster.is_suspended()) {
        // One warning each: what is wrong with its entry explains why it does not answer.
        if let Some(message) = cluster.same_server() {
            same.push(Warning::new(WarningKind::SameServer, message));
        } else if cluster.kind == MemberKind::Unreachable {
            unreached.push(cluster.name.to_string());
        } else if let Some(why) = cluster.message.as_deref()
            && !cluster.has_answered()
        {
            silent.entry(why).or_default().push(cluster.name.to_string());
        }
    }
    let mut warnings = same;
    if !unreached.is_empty() {
        let verb = if unreached.len() == 1 { "has" } else { "have" };
        let count = counted(unreached.len(), "cluster");
        let message = format!("{count} {verb} no entry in `members:`: {}", listing(unreached.into_iter()));
        let hint = "add one, or suspend them with the annotation gitfleet.io/suspended; gitfleet get clusters";
        warnings.push(Warning::new(WarningKind::NoAccess, message).hint(hint));
    }
    for (why, names) in silent {
        let verb = if names.len() == 1 { "has" } else { "have" };
        let count = counted(names.len(), "cluster");
        let message = format!("{count} {verb} never answered: {}: {why}", listing(names.into_iter()));
        warnings.push(Warning::new(WarningKind::NeverAnswered, message));
    }
    warnings
}

/// Describes on which clusters changes by hand are not noticed, and why. Nothing waits for them: deliveries arrive.
pub fn unwatched_messages<'a>(clusters: impl Iterator<Item = &'a ClusterRecord>) -> Vec<String> {
    let mut unwatched = BTreeMap::<&str, Vec<String>>::new();
    for cluster in clusters.filter(|cluster| cluster.answers()) {
        if let Some(why) = &cluster.unwatched {
            unwatched.entry(why).or_default().push(cluster.name.to_string());
        }
    }
    let messages = unwatched.into_iter().map(|(why, names)| {
        let folders = if names.len() == 1 { "the folder" } else { "the folders" };
        let names = listing(names.into_iter());
        format!("{folders} of {names} cannot be watched, changes by hand are seen at the next start: {why}")
    });
    messages.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::fixtures::at;
    use model::records::SUSPENDED_WORDS;

    #[test]
    fn point_12_folders_that_cannot_be_watched_are_named_together() {
        let cluster = |name: &str, online: bool, why: Option<&str>| {
            let mut record = ClusterRecord::new(name.into(), at(0));
            (record.online, record.unwatched) = (online, why.map(str::to_owned));
            record
        };
        let clusters = [
            cluster("a", true, Some("too many")),
            cluster("b", true, None),
            cluster("c", true, Some("too many")),
            cluster("d", false, Some("too many")),
            cluster("e", true, Some("no such folder")),
        ];
        let found = unwatched_messages(clusters.iter());
        let expected = [
            "the folder of e cannot be watched, changes by hand are seen at the next start: no such folder",
            "the folders of a, c cannot be watched, changes by hand are seen at the next start: too many",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn ux1a_2_and_3_who_is_not_reached_and_who_never_answered() {
        let cluster = |name: &str, change: fn(&mut ClusterRecord)| {
            let mut record = ClusterRecord::new(name.into(), at(0));
            change(&mut record);
            record
        };
        let refused = |c: &mut ClusterRecord| (c.kind, c.message) = (MemberKind::Live, Some("refused".into()));
        let clusters = [
            cluster("a", |_| ()),
            cluster("b", |c| c.left = true),
            cluster("c", |c| c.message = Some(SUSPENDED_WORDS.into())),
            cluster("d", refused),
            cluster("e", |c| c.kind = MemberKind::Live),
            cluster("f", |c| (c.kind, c.message, c.answered) = (MemberKind::Live, Some("refused".into()), true)),
            cluster("g", refused),
            cluster("h", |c| (c.kind, c.online) = (MemberKind::Directory, true)),
        ];
        let found: Vec<String> = fleet_warnings(clusters.iter()).iter().map(ToString::to_string).collect();
        let hint = "add one, or suspend them with the annotation gitfleet.io/suspended; gitfleet get clusters";
        let expected = [
            format!("1 cluster has no entry in `members:`: a ({hint})"),
            "2 clusters have never answered: d, g: refused".into(),
        ];
        assert_eq!(found, expected);
    }
}
