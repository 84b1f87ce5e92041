//! What happened to an OCM Placement, for the journal: in the words of Open Cluster Management's events.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use super::entry;
use crate::status::decision_pages::page_name;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::ocm::OcmPlacementRecord;
use model::records::JournalEntry;
use schedule::ocm::{Key, Notice};

/// What came of an evaluation, beside the record.
pub(super) struct Evaluated {
    /// The totals as the ScoreUpdate event has them.
    pub scores: Option<String>,
    /// What is to be known and changes nothing.
    pub warning: Option<Notice>,
    /// When.
    pub now: Timestamp,
}

/// Returns what happened to each PlacementDecision between two states of a Placement, and to its scores.
///
/// Source: OCM, events of its scheduling controller. There the totals are said again with each page that changed; here once.
pub(super) fn between(
    key: &Key,
    before: Option<&OcmPlacementRecord>,
    after: &OcmPlacementRecord,
    evaluated: &Evaluated,
) -> Vec<JournalEntry> {
    let held: Vec<&[ClusterName]> =
        before.into_iter().flat_map(OcmPlacementRecord::pages).map(|(_, page)| page).collect();
    let wanted: Vec<&[ClusterName]> = after.pages().map(|(_, page)| page).collect();
    let now = evaluated.now;
    let mut entries = Vec::new();
    let mut updated = false;
    for (position, page) in wanted.iter().enumerate() {
        let old = held.get(position).copied();
        if old.is_none() {
            let facts = json!({"message": page_message(key, position, "created")});
            entries.push(entry(key, now, JournalKind::DecisionCreate, facts));
        }
        // A new page without clusters is created and not updated.
        let old = old.unwrap_or_default();
        if old == *page {
            continue;
        }
        updated = true;
        let had: BTreeSet<_> = old.iter().collect();
        let has: BTreeSet<_> = page.iter().collect();
        let gained: Vec<_> = has.difference(&had).collect();
        let lost: Vec<_> = had.difference(&has).collect();
        let updated_page = page_message(key, position, "updated");
        let mut facts = json!({"gained": gained, "lost": lost, "message": updated_page});
        if let Some(Notice { plugin, message }) = &evaluated.warning {
            facts["message"] = json!(format!("{updated_page}: {message} in plugin {plugin}"));
            facts["warning"] = json!(message);
        }
        entries.push(entry(key, now, JournalKind::DecisionUpdate, facts));
    }
    if updated && let Some(scores) = &evaluated.scores {
        entries.push(entry(key, now, JournalKind::ScoreUpdate, json!({"message": scores})));
    }
    for position in wanted.len()..held.len() {
        let facts = json!({"message": page_message(key, position, "deleted")});
        entries.push(entry(key, now, JournalKind::DecisionDelete, facts));
    }
    let known = before.and_then(|record| record.warning.as_ref());
    // An update says it, too.
    if let Some(notice) = evaluated.warning.as_ref().filter(|notice| !updated && Some(&notice.message) != known) {
        entries.push(entry(key, now, JournalKind::ScoresExpired, json!({"message": notice.message})));
    }
    entries
}

/// Describes what happened to a page of decisions, in the words of OCM.
fn page_message(key: &Key, position: usize, verb: &str) -> String {
    let page = page_name(&key.name, u32::try_from(position + 1).unwrap_or(u32::MAX));
    format!("Decision {page} is {verb} with placement {} in namespace {}", key.name, key.namespace)
}
