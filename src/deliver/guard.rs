//! The deletion guard: how much may be deleted without an approval.
//!
//! It compares the new works with the inventory, never with the previous commit: a first commit, an unrelated history or a lost
//! store neither triggers nor bypasses it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use model::id::{ClusterName, Digest, ObjectKey, PlacementKey};
use model::records::MassLeave;

/// Kinds whose deletion also deletes data or whole trees of objects: (group, kind).
const PRECIOUS_KINDS: &[(&str, &str)] =
    &[("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition"), ("", "PersistentVolumeClaim")];

/// A member's present and desired objects.
#[derive(Clone, Debug)]
pub enum GuardedMember<'a> {
    /// The inventory is completely known.
    Known {
        /// The present objects.
        inventory: Cow<'a, BTreeSet<ObjectKey>>,
        /// The desired objects; empty if the placement leaves the member.
        desired: Cow<'a, BTreeSet<ObjectKey>>,
        /// The placement leaves this member.
        leaves: bool,
    },
    /// The inventory is unknown: nothing is deleted there, and the member makes no other deletion look small.
    Unknown {
        /// The placement leaves this member.
        leaves: bool,
    },
}

impl GuardedMember<'_> {
    /// Returns the present and the desired objects, if known.
    fn known(&self) -> Option<(&BTreeSet<ObjectKey>, &BTreeSet<ObjectKey>)> {
        match self {
            Self::Known { inventory, desired, .. } => Some((inventory, desired)),
            Self::Unknown { .. } => None,
        }
    }

    fn leaves(&self) -> bool {
        matches!(self, Self::Known { leaves: true, .. } | Self::Unknown { leaves: true })
    }

    /// Tells whether it counts among the members with objects. An unknown member counts only if the placement leaves it: then
    /// it cannot make the leaving part look smaller.
    fn holds(&self) -> bool {
        self.known().map_or(self.leaves(), |(inventory, _)| !inventory.is_empty())
    }
}

/// Deletions that need an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The reason, as text for users.
    pub reason: String,
    /// The objects to delete, by member.
    pub deletions: BTreeMap<ClusterName, BTreeSet<ObjectKey>>,
    /// Clusters whose bindings would go in a mass removal.
    pub leaving: BTreeSet<ClusterName>,
    /// SHA-256 over placement, deletions and leaving clusters; an approval names it.
    pub digest: Digest,
}

/// Returns the deletions that need an approval, or `None`.
///
/// They need one if a Namespace, CustomResourceDefinition or PersistentVolumeClaim is deleted, if the placement becomes empty
/// or is removed, if it loses more than half of its objects, or if it leaves more than half of its members. The same holds for
/// its clusters that are `leaving` with more than half of the fleet, although nothing on them is deleted.
pub fn guarded(
    placement: &PlacementKey,
    removed: bool,
    members: &BTreeMap<ClusterName, GuardedMember<'_>>,
    leaving: &BTreeMap<ClusterName, MassLeave>,
) -> Option<Guarded> {
    let deletions: BTreeMap<ClusterName, BTreeSet<ObjectKey>> = members
        .iter()
        .filter_map(|(name, member)| Some((name, member.known()?)))
        .map(|(name, (inventory, desired))| {
            (name.clone(), inventory.difference(desired).cloned().collect::<BTreeSet<_>>())
        })
        .filter(|(_, gone)| !gone.is_empty())
        .collect();
    let mass = leaving.values().next().map(|with| leave_message(*with, leaving.len()));
    let reasons: Vec<String> = mass.into_iter().chain(reason(removed, members, &deletions)).collect();
    if reasons.is_empty() {
        return None;
    }
    // Everything is sorted: the same deletions have the same digest in whatever order members answered.
    let mut text = format!("{placement}\n");
    for (cluster, keys) in &deletions {
        for key in keys {
            writeln!(text, "{cluster} {key}").expect("writing to a string cannot fail");
        }
    }
    for cluster in leaving.keys() {
        writeln!(text, "{cluster} leaves").expect("writing to a string cannot fail");
    }
    Some(Guarded {
        reason: reasons.join("; "),
        deletions,
        leaving: leaving.keys().cloned().collect(),
        digest: Digest::new(format!("{:x}", Sha256::digest(text))),
    })
}

/// Describes a mass removal: how many clusters left the fleet, and how many of the placement's are among them.
pub fn leave_message(MassLeave { left, of }: MassLeave, of_placement: usize) -> String {
    format!(
        "{left} of the {of} clusters of the fleet left it in one commit, {of_placement} of this placement among them"
    )
}

fn reason(
    removed: bool,
    members: &BTreeMap<ClusterName, GuardedMember<'_>>,
    deletions: &BTreeMap<ClusterName, BTreeSet<ObjectKey>>,
) -> Option<String> {
    if deletions.is_empty() {
        return None;
    }
    let deleted = deletions.values().flatten();
    let precious: BTreeSet<&ObjectKey> =
        deleted.filter(|key| PRECIOUS_KINDS.contains(&(key.group.as_str(), key.kind.as_str()))).collect();
    let amount = amount(deletions, &precious);
    if removed {
        return Some(format!("the placement was removed: {amount}"));
    }
    if !precious.is_empty() {
        return Some(amount);
    }
    let holding = members.values().filter(|m| m.holds());
    let left = holding.clone().filter(|m| m.leaves()).count();
    if left * 2 > holding.clone().count() {
        return Some(format!("the placement would leave {left} of {} clusters: {amount}", holding.count()));
    }
    // Leaving members were evaluated above: this counts the losses of those that stay.
    let staying = holding.filter(|m| !m.leaves()).filter_map(GuardedMember::known);
    // An object counts once and not once per cluster: a large fleet must not make a large change look small.
    let before: BTreeSet<_> = staying.clone().flat_map(|(inventory, _)| inventory).collect();
    let after: BTreeSet<_> = staying.flat_map(|(inventory, desired)| inventory.intersection(desired)).collect();
    let gone = before.len() - after.len();
    if after.is_empty() && gone > 0 {
        return Some(format!("all {gone} objects of the placement would be deleted"));
    }
    (gone * 2 > before.len()).then(|| format!("{gone} of {} objects of the placement would be deleted", before.len()))
}

/// Counts the deletions, and names the first of a precious kind.
fn amount(deletions: &BTreeMap<ClusterName, BTreeSet<ObjectKey>>, precious: &BTreeSet<&ObjectKey>) -> String {
    let objects = counted(deletions.values().map(BTreeSet::len).sum(), "object");
    let clusters = match deletions.keys().next() {
        Some(only) if deletions.len() == 1 => only.to_string(),
        _ => counted(deletions.len(), "cluster"),
    };
    let with = match precious.first() {
        None => String::new(),
        Some(first) if precious.len() == 1 => format!(", with {first}"),
        Some(first) => format!(", with {first} and {} more of such kinds", precious.len() - 1),
    };
    format!("{objects} on {clusters} would be deleted{with}")
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
