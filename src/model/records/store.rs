//! What the store says of itself, and what members keep for the day it is lost.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{HeldSnapshot, JournalEntry, Pause, PlacementRecord};
use crate::model::id::ClusterName;
use crate::model::journal::JournalKind;

/// Characters of a person's words that an inventory keeps.
pub const KEPT_WORDS_MAX: usize = 256;
/// Members that a complaint names; the others are counted.
const NAMED_MAX: usize = 5;

/// What the store says of itself. Absent in one that nothing was decided with yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRecord {
    /// Since when it is used.
    pub since: Timestamp,
    /// Members that have not answered since it was begun or restored: what one of them turns out to hold shows that an earlier
    /// store was lost, or was newer.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unseen: BTreeSet<ClusterName>,
    /// Members that hold inventories of this source though this store never wrote one, with the number of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<ClusterName, usize>,
    /// Who said that it may go on with what members hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adoption>,
    /// The next decisions take over what members keep of pauses and holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_over: bool,
}

/// A person's word that a new store may go on with what members hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adoption {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

impl StoreRecord {
    /// Begins a store in which everything that members hold is known.
    pub fn new(since: Timestamp) -> Self {
        Self { since, unseen: BTreeSet::new(), found: BTreeMap::new(), adopted: None, takes_over: false }
    }

    /// Tells whether nothing begins before a person has adopted it.
    pub fn waits(&self) -> bool {
        !self.found.is_empty() && self.adopted.is_none()
    }

    /// Says that a person lets it go on.
    pub fn adopt(&mut self, by: &str, now: Timestamp) {
        self.adopted = Some(Adoption { by: by.to_owned(), at: now });
        self.takes_over = true;
    }

    /// Returns what the journal says of its adoption, where it was adopted.
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

    /// Says that its records are those of a backup: what these members hold may be newer, and is looked at when they answer.
    pub fn restore(&mut self, members: impl IntoIterator<Item = ClusterName>, by: &str, now: Timestamp) {
        self.adopt(by, now);
        self.unseen.extend(members);
    }

    /// Returns what is wrong and what to do, for people; `None` where nothing waits.
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
             Restore a backup with `gitfleet store restore FILE`, or go on from what members hold with `gitfleet store adopt`",
            names.join(", ")
        ))
    }
}

/// What people decided of a placement, as its inventories keep it: with it, a lost store does not undo what they decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// It is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The snapshot that is not rolled out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldSnapshot>,
}

impl Kept {
    /// Returns what inventories are to keep of a placement; long words are cut.
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

    /// Takes in what another member keeps: a pause of any counts, and the newest of held snapshots.
    pub fn join(&mut self, other: Self) {
        self.paused = self.paused.take().or(other.paused);
        let is_newer = |held: &HeldSnapshot| self.held.as_ref().is_none_or(|known| known.index < held.index);
        if let Some(held) = other.held.filter(is_newer) {
            self.held = Some(held);
        }
    }
}

fn cut(words: &str) -> String {
    // Characters and not bytes: a cut inside of one would panic.
    words.chars().take(KEPT_WORDS_MAX).collect()
}
