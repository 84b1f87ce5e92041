//! The store's own record, and the decisions that members keep in case it is lost.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{HeldSnapshot, JournalEntry, Pause, PlacementRecord};
use crate::id::ClusterName;
use crate::journal::JournalKind;

/// Characters of a person's text that an inventory keeps.
pub const KEPT_WORDS_MAX: usize = 256;
/// Members that a complaint names; the others are counted.
const NAMED_MAX: usize = 5;

/// The store's own record. Absent before its first decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRecord {
    /// Since when it is used.
    pub since: Timestamp,
    /// Members that have not answered since the store was created or restored: one with an unknown inventory shows that an
    /// earlier store was lost, or was newer.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unseen: BTreeSet<ClusterName>,
    /// Members with inventories of this source that this store never wrote, with their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<ClusterName, usize>,
    /// Who adopted the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adoption>,
    /// The next decisions take over pauses and holds that members keep.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_over: bool,
}

/// A person's consent that a new store continues with what members hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adoption {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

impl StoreRecord {
    /// Creates the record of a store that knows all inventories of members.
    pub fn new(since: Timestamp) -> Self {
        Self { since, unseen: BTreeSet::new(), found: BTreeMap::new(), adopted: None, takes_over: false }
    }

    /// Tells whether nothing starts before a person has adopted it.
    pub fn waits(&self) -> bool {
        !self.found.is_empty() && self.adopted.is_none()
    }

    /// Records a person's adoption.
    pub fn adopt(&mut self, by: &str, now: Timestamp) {
        self.adopted = Some(Adoption { by: by.to_owned(), at: now });
        self.takes_over = true;
    }

    /// Returns the journal entry of its adoption, if it was adopted.
    pub fn adoption_entry(&self) -> Option<JournalEntry> {
        let adopted = self.adopted.as_ref()?;
        let members: Vec<&ClusterName> = self.found.keys().collect();
        Some(JournalEntry {
            at: adopted.at,
            event: JournalKind::StoreAdopted,
            placement: None,
            cluster: None,
            facts: json!({"by": adopted.by, "members": members}),
        })
    }

    /// Marks its records as those of a backup: these members may hold something newer, and are checked when they answer.
    pub fn restore(&mut self, members: impl IntoIterator<Item = ClusterName>, by: &str, now: Timestamp) {
        self.adopt(by, now);
        self.unseen.extend(members);
    }

    /// Returns the problem and its solution, as text for users; `None` if no adoption is pending.
    pub fn complaint(&self) -> Option<String> {
        if !self.waits() {
            return None;
        }
        let mut names: Vec<String> = self.found.keys().take(NAMED_MAX).map(ToString::to_string).collect();
        if self.found.len() > NAMED_MAX {
            names.push(format!("{} more", self.found.len() - NAMED_MAX));
        }
        Some(format!(
            "the store is new, but {} hold what this source delivered before: an earlier store was lost, so nothing begins. \
             Restore a backup with `gitfleet store restore FILE`, or continue from what members hold with `gitfleet store adopt`",
            names.join(", ")
        ))
    }
}

/// Decisions of people about a placement, as its inventories keep them, so that they survive a lost store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// It is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The held snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldSnapshot>,
}

impl Kept {
    /// Returns the decisions that inventories keep of a placement; long texts are truncated.
    pub fn of(record: &PlacementRecord) -> Self {
        let paused = record.paused.as_ref().map(|pause| Pause {
            by: cut(&pause.by),
            at: pause.at,
            reason: pause.reason.as_deref().map(cut),
        });
        let held = record.held.as_ref().map(|held| HeldSnapshot { why: cut(&held.why), ..held.clone() });
        Self { paused, held }
    }

    /// Tells whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.paused.is_none() && self.held.is_none()
    }

    /// Joins what another member keeps: any pause counts, and the newest held snapshot.
    pub fn join(&mut self, other: Self) {
        self.paused = self.paused.take().or(other.paused);
        if let Some(held) = other.held
            && self.held.as_ref().is_none_or(|known| known.index < held.index)
        {
            self.held = Some(held);
        }
    }
}

fn cut(text: &str) -> String {
    // Characters and not bytes: truncating inside a character would panic.
    text.chars().take(KEPT_WORDS_MAX).collect()
}
