//! A simulated member: it stores objects, executes steps, and makes objects available after a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::fact::Fact;
use deliver::health::{HealthRules, health};
use deliver::inventory::{Parent, applyset_id};
use deliver::live::{LiveContent, LiveObject, Uid};
use deliver::plan::owned_by_another;
use deliver::step::Found;
use deliver::step::Step;
use engine::member::Task;
use engine::member::result::{Answer, StepResult, tried};
use model::api::placement::WhenToTakeOver;
use model::id::{ClusterName, Digest, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, Availability};
use model::work::{Desired, WorkOrder};

/// The behaviour of an object on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It becomes available like its kind: immediately, or after a while.
    Good,
    /// It is applied and never available.
    NeverAvailable,
    /// The API server refuses it.
    Refused,
}

/// A watch event.
#[derive(Clone, Debug)]
pub enum Sight {
    /// The state of an object.
    There(Box<LiveObject>),
    /// An object was deleted, at this version.
    Gone(ObjectKey, u64),
}

/// One member of the fleet.
#[derive(Debug, Default)]
pub struct SimulatedMember {
    /// It cannot be reached.
    pub away: bool,
    /// Its objects.
    pub objects: BTreeMap<ObjectKey, LiveObject>,
    /// Its inventories.
    pub inventories: BTreeMap<PlacementKey, Parent>,
    /// The version of each inventory's last write or removal; none since a restore from a backup.
    pub inventory_versions: BTreeMap<PlacementKey, u64>,
    /// Its newest version.
    pub version: u64,
    /// The number of writes and deletions here, inventories included.
    pub writes: u64,
}

/// Returns the digest of the fields that gitfleet owns of an applied object.
fn owned(desired: &Desired) -> Digest {
    Digest::new(format!("owned-{}", desired.digest))
}

impl SimulatedMember {
    /// Executes a step. Returns its answer, the changed objects, and the facts.
    pub(super) fn perform<O>(
        &mut self,
        task: &Task,
        fate: impl Fn(&Desired) -> Fate,
        deletes_slowly: bool,
        now: Timestamp,
    ) -> (StepResult, Option<ObjectKey>, Vec<Fact<O>>) {
        let Task { order, step, before } = task;
        match step {
            Step::WriteParent(parent) => {
                let version = self.note_parent(&order.placement);
                let parent = Parent::clone(parent);
                self.inventories.insert(order.placement.clone(), parent.clone());
                let holds = parent.holds.as_ref().map(|held| held.index);
                let fact = Fact::Inventory { order: Arc::clone(order), holds };
                (StepResult::Parent(Some(parent), version), None, vec![fact])
            }
            Step::DeleteParent => {
                self.note_parent(&order.placement);
                self.inventories.remove(&order.placement);
                let fact = Fact::Inventory { order: Arc::clone(order), holds: None };
                (StepResult::Parent(None, 0), None, vec![fact])
            }
            Step::Delete { object } => self.delete(order, object, deletes_slowly),
            Step::Release { object, .. } => self.release(order, object),
            Step::Apply { position, put_back, probe } => {
                let desired = &order.manifests[*position];
                let (answer, facts) = self.apply(order, desired, *probe, fate(desired));
                let changed = answer.live.is_some().then(|| ObjectKey::clone(&desired.key));
                (tried(desired, answer, *put_back, before.as_deref(), now), changed, facts)
            }
            Step::Compare { position } => {
                let desired = &order.manifests[*position];
                // Nothing merges here: equal digests mean a dry run without differences.
                let same = self.objects.get(&desired.key).is_some_and(|o| o.manifest.as_ref() == Some(&desired.digest));
                let outcome = if same { ApplyOutcome::NoDiffFound } else { ApplyOutcome::FoundDiff };
                let answer = Answer::refused(outcome, String::new());
                (tried(desired, answer, false, before.as_deref(), now), None, Vec::new())
            }
            Step::ShowDrift { position, seen } => {
                let desired = &order.manifests[*position];
                let drifted = seen.owned != owned(desired);
                let result = StepResult::Drift {
                    key: desired.key.clone(),
                    manifest: desired.digest.clone(),
                    seen: seen.clone(),
                    found: Ok(Found { drifted, differences: Vec::new() }),
                };
                (result, None, Vec::new())
            }
        }
    }

    /// Counts a write of an inventory. Returns its version.
    fn note_parent(&mut self, placement: &PlacementKey) -> u64 {
        self.writes += 1;
        self.version += 1;
        self.inventory_versions.insert(placement.clone(), self.version);
        self.version
    }

    /// Returns the inventories, each with the version of its last write.
    pub(super) fn parents_seen(&self) -> impl Iterator<Item = (&Parent, u64)> {
        self.inventories.iter().map(|(placement, parent)| (parent, self.inventory_version(placement)))
    }

    fn inventory_version(&self, placement: &PlacementKey) -> u64 {
        self.inventory_versions.get(placement).copied().unwrap_or_default()
    }

    /// Returns an inventory as it is now, `None` where there is none, and the version of its last write or removal.
    pub(super) fn parent_seen(&self, placement: &PlacementKey) -> (Option<Parent>, u64) {
        (self.inventories.get(placement).cloned(), self.inventory_version(placement))
    }

    fn delete<O>(
        &mut self,
        order: &Arc<WorkOrder>,
        named: &LiveObject,
        slowly: bool,
    ) -> (StepResult, Option<ObjectKey>, Vec<Fact<O>>) {
        let key = named.id.key();
        let uid = named.uid.clone();
        let Some(live) = self.objects.get_mut(&key).filter(|live| !live.applyset.is_empty()) else {
            return (StepResult::Deleted { key, uid, gone: true }, None, Vec::new());
        };
        // Like preconditions: what was recreated or changed since it was listed is not hit.
        if live.uid != uid || live.resource_version != named.resource_version {
            return (StepResult::Changed { live: live.clone() }, None, Vec::new());
        }
        self.writes += 1;
        self.version += 1;
        // The inventory may be gone already: a stale list did not show some objects.
        let mut named = self.inventories.keys().chain([&order.placement]);
        let holder = named.find(|placement| applyset_id(placement) == *live.applyset).cloned();
        let is_shared = live.owner.is_some();
        let fact = Fact::Deleted { order: Arc::clone(order), object: key.clone(), holder, is_shared };
        if slowly {
            live.change(|content| content.terminating = true);
            live.resource_version = self.version;
        } else {
            self.objects.remove(&key);
        }
        (StepResult::Deleted { key: key.clone(), uid, gone: !slowly }, Some(key), vec![fact])
    }

    fn release<O>(
        &mut self,
        order: &Arc<WorkOrder>,
        named: &LiveObject,
    ) -> (StepResult, Option<ObjectKey>, Vec<Fact<O>>) {
        let key = named.id.key();
        let uid = named.uid.clone();
        let answer = StepResult::Deleted { key: key.clone(), uid: uid.clone(), gone: true };
        let Some(live) = self.objects.get_mut(&key).filter(|live| live.uid == uid) else {
            return (answer, None, Vec::new());
        };
        self.writes += 1;
        self.version += 1;
        // Planned for an object that had another owner; that owner may have left it meanwhile.
        let is_shared = live.owner.is_some() || named.owner.is_some();
        live.change(|content| (content.applyset, content.manifest) = ("".into(), None));
        live.resource_version = self.version;
        let fact = Fact::Released { order: Arc::clone(order), object: key.clone(), is_shared };
        (answer, Some(key), vec![fact])
    }

    fn apply<O>(
        &mut self,
        order: &Arc<WorkOrder>,
        desired: &Desired,
        probe: bool,
        fate: Fate,
    ) -> (Answer, Vec<Fact<O>>) {
        let known = self.objects.get(&desired.key);
        let ours = applyset_id(&order.placement);
        if let Some(known) = known
            && probe
            && *known.applyset != *ours
            && let Some(refused) = not_taken_over(order, desired, known)
        {
            return (refused, Vec::new());
        }
        if fate == Fate::Refused {
            let text = format!("{}: the API server refused it (422 Invalid)", desired.id);
            return (Answer::refused(ApplyOutcome::ManifestApplyFailed, text), Vec::new());
        }
        self.writes += 1;
        self.version += 1;
        let by_kind = health(&desired.id, &desired.object, &HealthRules::default()).availability;
        let was_foreign = known.is_some_and(|known| *known.applyset != *ours && known.owner.is_some());
        let same = known.filter(|known| known.manifest.as_ref() == Some(&desired.digest));
        // Versions go back with a backup, so they identify nothing permanently.
        let uid = known.map_or_else(|| Uid::from(&*format!("u{}", self.writes)), |known| known.uid.clone());
        let content = LiveContent {
            id: desired.id.clone(),
            applyset: ours.into(),
            manifest: Some(desired.digest.clone()),
            owned: owned(desired),
            owner: known.and_then(|known| known.owner.clone()),
            terminating: known.is_some_and(|known| known.terminating),
            availability: match (fate, same) {
                (Fate::NeverAvailable, _) => Availability::ManifestNotAvailableYet,
                // An unchanged object does not restart.
                (_, Some(same)) => same.availability,
                (_, None) => by_kind,
            },
            unavailable_because: None,
        };
        let live = LiveObject::new(content, uid, self.version);
        self.objects.insert(ObjectKey::clone(&desired.key), live.clone());
        let available = live.availability != Availability::ManifestNotAvailableYet;
        let fact = Fact::Applied {
            order: Arc::clone(order),
            object: ObjectKey::clone(&desired.key),
            digest: desired.digest.clone(),
            available,
            was_foreign,
        };
        let answer = Answer {
            outcome: ApplyOutcome::Applied,
            message: String::new(),
            live: Some(live),
            differences: Vec::new(),
        };
        (answer, vec![fact])
    }

    /// Makes an object available, or removes it if it is being deleted, unless it was changed since.
    pub(super) fn ripen<O>(
        &mut self,
        cluster: &ClusterName,
        key: &ObjectKey,
        version: u64,
    ) -> Option<(Sight, Option<Fact<O>>)> {
        let live = self.objects.get_mut(key).filter(|live| live.resource_version == version)?;
        self.version += 1;
        if live.terminating {
            self.objects.remove(key);
            return Some((Sight::Gone(key.clone(), self.version), None));
        }
        live.change(|content| content.availability = Availability::Available);
        live.resource_version = self.version;
        let fact = Fact::Available { cluster: cluster.clone(), object: key.clone() };
        Some((Sight::There(Box::new(live.clone())), Some(fact)))
    }

    /// Returns the event for an object's present state; a missing one is gone at the member's newest version.
    pub fn sight(&self, key: &ObjectKey) -> Sight {
        match self.objects.get(key) {
            Some(live) => Sight::There(Box::new(live.clone())),
            None => Sight::Gone(key.clone(), self.version),
        }
    }
}

/// Returns why an object that another has is not taken over; `None` if it is.
///
/// In the order of `probe_take_over` in members' tasks: another owner first, then existing objects.
fn not_taken_over(order: &WorkOrder, desired: &Desired, known: &LiveObject) -> Option<Answer> {
    if let Some(owner) = known.owner.as_deref()
        && !order.strategy.allow_co_ownership
    {
        return Some(Answer::refused(ApplyOutcome::FailedToTakeOver, owned_by_another(owner)));
    }
    let differs = known.manifest.as_ref() != Some(&desired.digest);
    match order.strategy.when_to_take_over {
        WhenToTakeOver::Never => Some(Answer::refused(ApplyOutcome::NotTakenOver, "it was there before".to_owned())),
        WhenToTakeOver::IfNoDiff if differs => {
            Some(Answer::refused(ApplyOutcome::FailedToTakeOver, "it was there before and differs".to_owned()))
        }
        WhenToTakeOver::IfNoDiff | WhenToTakeOver::Always => None,
    }
}

#[cfg(test)]
mod tests;
