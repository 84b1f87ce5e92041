//! Finds the target of a rollback again after the store and its snapshots were lost. Pure.
//!
//! The inventories on members name the snapshot, and git has its content. The hold continues with this snapshot only if overrides, apply
//! strategy and policy of its commit equal those of the accepted commit: a difference may be what was rolled back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::overrides::Overrides;
use super::payload::Payload;
use crate::snapshot::{Frozen, freeze, select};
use deliver::inventory::Held;
use jiff::Timestamp;
use model::api::placement::PlacementSpec;
use model::id::{ClusterName, Digest, PlacementKey};
use model::overrides::OverrideKey;
use model::records::HeldSnapshot;
use model::tree::{Placement, Tree};

/// What members hold of a placement, as their inventories say.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    /// By cluster: the index of the hold that it keeps, if any, and the snapshot that it holds.
    clusters: BTreeMap<ClusterName, (Option<u64>, Held)>,
    /// What they agree on, read again; `Some(None)` where that cannot be read.
    pub found: Option<Option<Arc<FoundSnapshot>>>,
}

impl Holders {
    /// Notes what a cluster holds, and the hold that it keeps.
    pub fn note(&mut self, cluster: &ClusterName, hold: Option<&HeldSnapshot>, has: &Held) {
        self.clusters.insert(cluster.clone(), (hold.map(|hold| hold.index), has.clone()));
    }

    /// Returns what a held placement was rolled back to: the earlier snapshot that all have which keep the hold and do not hold what is held.
    /// Nothing where they differ, or are not more than all others: one member alone could say anything.
    pub fn agreed(&self, hold: &HeldSnapshot) -> Option<&Held> {
        let keeping = self.clusters.values().filter(|(kept, _)| *kept == Some(hold.index)).map(|(_, has)| has);
        let back: Vec<&Held> = keeping.filter(|has| has.digest != hold.hash && has.index < hold.index).collect();
        // If only overrides, apply strategy or policy were rolled back, every member holds the same snapshot.
        let are_most = hold.inputs.is_none() && back.len() * 2 > self.clusters.len();
        back.first().copied().filter(|first| are_most && back.iter().all(|other| other == first))
    }

    /// Tells whether a cluster holds this.
    pub(super) fn has(&self, cluster: &ClusterName, held: &Held) -> bool {
        self.clusters.get(cluster).is_some_and(|(_, of_cluster)| of_cluster == held)
    }
}

/// A snapshot that members hold, read again from its commit.
#[derive(Debug)]
pub struct FoundSnapshot {
    /// What inventories say of it.
    pub held: Held,
    /// Its objects.
    pub frozen: Frozen,
    /// Its payload.
    pub payload: Arc<Payload>,
    spec: PlacementSpec,
    overrides: BTreeMap<OverrideKey, Digest>,
    /// What these read of clusters.
    labels: BTreeMap<ClusterName, BTreeMap<String, String>>,
}

impl FoundSnapshot {
    /// Finds what members hold of a placement in the tree of its commit.
    ///
    /// # Errors
    /// The commit has something else, as text for users.
    pub fn read(tree: &Tree, key: &PlacementKey, held: &Held) -> Result<Self, String> {
        // It may have had another name.
        let named = tree.placements.get(key).into_iter();
        let others = tree.placements.values().filter(|other| other.key != *key && other.key.namespace == key.namespace);
        let mut same = named.chain(others).filter_map(|placement| {
            let manifests = select(tree, placement).ok()?;
            let frozen = freeze(&manifests, None);
            (frozen.hash == held.digest).then_some((placement, manifests, frozen))
        });
        let (placement, manifests, frozen) = same.next().ok_or("its commit has no placement with this content")?;
        let payload = Arc::new(Payload::of(manifests, &frozen, key)?);
        let mut then = Overrides::default();
        then.follow(tree, &BTreeSet::new(), Timestamp::UNIX_EPOCH);
        let overrides = concerning(&then, placement, &payload);
        let labels = labels_read(&then, tree, placement, &payload);
        Ok(Self { held: held.clone(), frozen, payload, spec: placement.spec.clone(), overrides, labels })
    }

    /// Tells whether a commit has the same beside content.
    pub(super) fn is_as(&self, placement: &Placement, overrides: &Overrides, tree: &Tree) -> bool {
        let today = labels_read(overrides, tree, placement, &self.payload);
        today.iter().all(|(cluster, read)| self.labels.get(cluster).is_none_or(|then| then == read))
            && self.spec.policy == placement.spec.policy
            && self.spec.strategy.apply_strategy == placement.spec.strategy.apply_strategy
            && self.overrides == concerning(overrides, placement, &self.payload)
    }
}

/// Returns what the overrides that concern what a placement delivers read of each cluster of a commit.
fn labels_read(
    overrides: &Overrides,
    tree: &Tree,
    placement: &Placement,
    payload: &Payload,
) -> BTreeMap<ClusterName, BTreeMap<String, String>> {
    let found = overrides.candidates(&placement.key, &placement.annotations, payload);
    tree.clusters.iter().map(|(name, of)| (name.clone(), found.pick(name, &of.labels).labels)).collect()
}

/// Returns the hashes of the overrides that concern what a placement delivers.
fn concerning(overrides: &Overrides, placement: &Placement, payload: &Payload) -> BTreeMap<OverrideKey, Digest> {
    let found = overrides.candidates(&placement.key, &placement.annotations, payload);
    found.ids().filter_map(|id| Some((id.key.clone(), overrides.get(id)?.hash.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(index: u64, inputs: Option<&str>) -> HeldSnapshot {
        let hash = Digest::from("bad");
        let why = String::new();
        HeldSnapshot {
            index,
            hash,
            why,
            since: Timestamp::UNIX_EPOCH,
            returns: true,
            inputs: inputs.map(|_| model::records::HeldInputs::default()),
        }
    }

    /// What it is, the inputs of the hold, what members keep and hold, what they agree on.
    type Row = (&'static str, Option<&'static str>, Vec<(Option<u64>, Held)>, Option<Held>);

    #[test]
    fn most_members_agree_on_what_was_rolled_back_to() {
        let at = |index, digest: &str| Held { index, commit: "c".into(), digest: Digest::from(digest) };
        let (good, other, bad) = (|| at(0, "good"), || at(1, "other"), || at(2, "bad"));
        let rows: [Row; 9] = [
            ("none has said", None, vec![], None),
            ("all have the same", None, vec![(Some(2), good()), (Some(2), good())], Some(good())),
            (
                "one is still to go back",
                None,
                vec![(Some(2), good()), (Some(2), good()), (Some(2), bad())],
                Some(good()),
            ),
            (
                "one was away all the time",
                None,
                vec![(Some(2), good()), (Some(2), good()), (None, other())],
                Some(good()),
            ),
            ("half of them is not enough", None, vec![(Some(2), good()), (None, bad())], None),
            (
                "they went back to different ones",
                None,
                vec![(Some(2), good()), (Some(2), good()), (Some(2), other())],
                None,
            ),
            ("an earlier hold says nothing", None, vec![(Some(1), good()), (Some(1), good())], None),
            ("it was not rolled back to something newer", None, vec![(Some(2), at(3, "new"))], None),
            ("overrides alone were rolled back", Some("x"), vec![(Some(2), good())], None),
        ];
        for (name, inputs, members, wanted) in rows {
            let mut holders = Holders::default();
            for (place, (index, has)) in members.iter().enumerate() {
                let of_cluster = index.map(|index| hold(index, None));
                holders.note(&ClusterName::new(format!("c{place}")), of_cluster.as_ref(), has);
            }
            assert_eq!(holders.agreed(&hold(2, inputs)), wanted.as_ref(), "{name}");
        }
    }
}
