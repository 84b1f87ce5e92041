//! The promises of the design, checked against what is seen to happen: members, the store and git. Nothing here asks the code
//! that decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deliver::inventory::applyset_id;
use deliver::live::LiveObject;
use engine::store::records::{
    BINDING_PREFIX, CLUSTER_PREFIX, OVERRIDE_PREFIX, PLACEMENT_PREFIX, RUN_PREFIX, SNAPSHOT_PREFIX, SOURCE_PREFIX,
    WORK_PREFIX, cluster_of, placement_of, snapshot_key,
};
use engine::waits::{STEP_MIN, shift_run};
use jiff::{SignedDuration, Timestamp};
use model::api::condition::ConditionStatus;
use model::api::placement::{ApplyStrategyType, IntOrPercent};
use model::commands::Verb;
use model::id::{ClusterName, CommitId, Digest, ObjectKey, PlacementKey};
use model::records::{Availability, BindingState, ClusterRecord, HeldSnapshot, ResourceSnapshot, SourceRecord};
use model::runs::{ClusterPhase, RunCluster, RunRecord, StageRecord};
use model::work::{Desired, WorkOrder};
use simulated::{Fact, MachineFact};

use super::hand_over::is_same_thing;
use super::records::{Binding, Condition, PlacementRecord, Work};
use super::restored::Fleet;
use super::runs::{Rules, Word};

/// What a commit asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The clusters of the fleet.
    pub clusters: BTreeSet<ClusterName>,
    /// The labels of clusters, and those that are suspended.
    pub labels: BTreeMap<ClusterName, String>,
    pub suspended: BTreeSet<ClusterName>,
    /// The placements.
    pub placements: BTreeMap<PlacementKey, Want>,
    /// It has no errors.
    pub is_good: bool,
    /// Later ones have larger numbers.
    pub number: u64,
}

/// What a placement asks for.
#[derive(Clone, Debug, Default)]
pub struct Want {
    /// Its objects, as they are to be.
    pub objects: BTreeMap<ObjectKey, Digest>,
    /// Where they are to be.
    pub who: Who,
    /// The objects as they are to be on clusters where overrides change them.
    pub overridden: BTreeMap<ClusterName, BTreeMap<ObjectKey, Digest>>,
    /// The values of its override's rules, also of those that fit no cluster.
    pub rules: [Option<u64>; 2],
    /// Clusters it is to leave once, though it may come back.
    pub evicted: BTreeSet<ClusterName>,
    /// It may own objects together with somebody else.
    pub shares: bool,
    /// It only reports differences.
    pub reports: bool,
    /// It has an override that fails.
    pub failing: bool,
    /// Whom its strategy names as approvers.
    pub approvers: super::approvers::Named,
}

/// Where something is to be.
#[derive(Clone, Debug)]
pub enum Who {
    /// On these clusters.
    Exactly(BTreeSet<ClusterName>),
    /// On these, and it may stay on others: scheduling does not look again at labels of clusters that were picked.
    AtLeast(BTreeSet<ClusterName>),
    /// On so many.
    So(usize),
}

impl Default for Who {
    fn default() -> Self {
        Self::So(0)
    }
}

/// Returns what made members say of the fields we own where nobody else touched them.
pub(super) fn owned(manifest: &Digest) -> Digest {
    Digest::new(format!("owned-{manifest}"))
}

/// Says in what objects differ.
fn unlike(found: &BTreeMap<ObjectKey, Digest>, wanted: &BTreeMap<ObjectKey, Digest>) -> String {
    let keys: BTreeSet<&ObjectKey> = found.keys().chain(wanted.keys()).collect();
    let differing = keys.into_iter().filter(|key| found.get(*key) != wanted.get(*key)).map(|key| {
        let what = match (found.contains_key(key), wanted.contains_key(key)) {
            (true, true) => "is another",
            (true, false) => "is too much",
            _ => "is missing",
        };
        format!("{key} {what}")
    });
    differing.collect::<Vec<_>>().join(", ")
}

/// A placement on a cluster.
pub(super) type Spot = (PlacementKey, ClusterName);

/// What has been seen so far.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is seen by itself")]
pub struct Checker {
    /// What commits ask for.
    pub wishes: BTreeMap<CommitId, Wish>,
    /// What people said yes to and were not refused.
    pub words: Vec<Word>,
    /// What people commanded since it was last needed, and were not refused.
    pub commands: BTreeSet<(PlacementKey, Verb)>,
    /// What a gate asks for.
    pub rules: Rules,
    /// The true time.
    pub now: Timestamp,
    /// The time as the daemon has it.
    pub clock: Timestamp,
    /// How much too early a wait may end: what a clock was set by that nobody could tell from time.
    pub early: SignedDuration,
    /// Waits for time and the true time they began at.
    pub(super) began: BTreeMap<(String, String, usize), Timestamp>,
    /// Since when nothing went wrong.
    pub calm_since: Timestamp,
    /// The life has ended, and the next has not begun.
    has_ended: bool,
    /// This life has told no member yet what to hold, so none has said how it stands.
    pub(super) is_blind: bool,
    /// Writes may arrive long after their connection was given up: then nobody can promise how many clusters are down.
    pub is_lenient: bool,
    accepted: Option<CommitId>,
    /// As it was stored last: what the next life begins with.
    stored: Option<CommitId>,
    pub(super) bindings: BTreeMap<String, Binding>,
    pub(super) snapshots: BTreeMap<String, ResourceSnapshot>,
    indexes: BTreeMap<PlacementKey, u64>,
    pub(super) placements: BTreeMap<PlacementKey, PlacementRecord>,
    pub(super) runs: BTreeMap<String, RunRecord>,
    /// What the store kept though it answered with an error: the next life begins with it.
    unsaid: BTreeMap<String, Option<Arc<[u8]>>>,
    /// Snapshots that were held, and are not any more though nobody said so.
    pub(super) released: Vec<(PlacementKey, HeldSnapshot)>,
    /// When clusters were given what they have. A binding begins again with another name, policy or deadline as well, and its cluster
    /// gets nothing by that.
    pub(super) given: BTreeMap<Spot, Timestamp>,
    /// Bindings that were given a snapshot since the last look at them.
    pub(super) moves: Vec<(Spot, u64)>,
    /// What was written on members, and when the last of it was, or became available.
    pub(super) written: BTreeMap<Spot, (BTreeMap<ObjectKey, Digest>, Timestamp)>,
    /// The placement that wrote each object last.
    pub(super) writers: BTreeMap<(ClusterName, ObjectKey), PlacementKey>,
    /// What was written on members that were restored since and have not answered again: what they reported of it still counts.
    pub(super) unheard: BTreeMap<Spot, (BTreeMap<ObjectKey, Digest>, Timestamp)>,
    /// Clusters that may be down at once, as records said it one after the other.
    limits: BTreeMap<PlacementKey, Vec<(u64, usize)>>,
    /// When each binding was last given something new, by the count of facts.
    moved: BTreeMap<Spot, u64>,
    /// When failed clusters were last to be tried again, likewise.
    pub(super) tried_again: BTreeMap<Spot, u64>,
    pub(super) unavailable: BTreeMap<Spot, BTreeSet<ObjectKey>>,
    /// Bindings that had all of their orders, each with the generation of the last one that was complete.
    pub(super) was_complete: BTreeMap<Spot, i64>,
    pub(super) down: BTreeSet<Spot>,
    /// Unavailable objects that a cluster is not to have any more: their deletion waits.
    unwanted: BTreeMap<Spot, BTreeSet<ObjectKey>>,
    /// What restored members may keep, and what an agent put back that had not noticed its removal: nobody decides about it any more.
    pub(super) forgotten: BTreeSet<Spot>,
    /// Clusters that do not answer, or are suspended: nobody hears how they are.
    pub(super) silent: BTreeSet<ClusterName>,
    /// The namespaces that clusters have, as far as records say, and since when they say it.
    pub(super) namespaces: BTreeMap<ClusterName, BTreeMap<String, Timestamp>>,
    in_flight: BTreeMap<Spot, ((u64, u64), i64, usize)>,
    /// What a life may begin with.
    pub(super) start: super::starts::Start,
    /// Clusters on which somebody else works: nobody can say how they are to be until that ends.
    pub(super) disturbed: BTreeSet<ClusterName>,
    /// Objects of ours that somebody else came to own.
    pub(super) owned: super::owners::Owned,
    /// Objects that somebody changed: a cluster that is down while they are put back is not down by our doing.
    pub(super) changed: BTreeSet<(ClusterName, ObjectKey)>,
    /// Objects that somebody had changed when their cluster left: it returns with them as they are, as docs/design/003 says.
    pub(super) left_changed: BTreeSet<(ClusterName, ObjectKey)>,
    /// Lists may show what was there a while ago.
    pub is_stale: bool,
    /// Since when placements are to be where they are to be.
    pub(super) wanted_since: super::hand_over::WantedSince,
    /// Placements that came back to git with this batch, each with the unfinished runs that it has no more.
    pub(super) returned: BTreeMap<PlacementKey, Vec<String>>,
    /// Runs that are gone, by name.
    pub(super) forgotten_runs: BTreeMap<String, RunRecord>,
    /// Runs that are gone, each with the clusters that nothing has moved since: what it brought may still fail or become available.
    pub(super) gone_runs: Vec<RunRecord>,
    /// What people said of placements that are gone, until the batch is kept.
    pub(super) said_of_gone: super::hand_over::SaidOfGone,
    /// Clusters that wait for a fix.
    pub(super) fixes: super::fixes::Waiting,
    /// Bindings that go, each with whether their placement left its objects behind then.
    pub(super) abandoned: BTreeMap<String, bool>,
    /// Records were kept since the last look at all of them.
    is_changed: bool,
    /// What failed, and counts.
    pub(super) halts: super::halts::Halts,
    /// What gates protected, and what was let past them.
    pub(super) gates: super::gates::Gates,
    /// What overrides do.
    pub(super) overrides: super::hand_over::Overrides,
    /// What may be deleted, as far as it needs a person.
    pub(super) deletions: super::deletions::Deletions,
    /// Who may approve.
    pub(super) approvers: super::approvers::Approvers,
    /// Placements wait to be decided about: what a person changes now says nothing about the accepted commit.
    pub(super) is_behind: bool,
    /// Facts so far.
    pub(super) seen: u64,
}

impl Checker {
    /// Looks at a batch once it is whole.
    pub(super) fn see_whole(&mut self) -> Verdict {
        if std::mem::take(&mut self.is_changed) { self.see_batch() } else { Ok(()) }
    }
}

pub(super) type Verdict = Result<(), String>;

pub(super) fn parse<T: serde::de::DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|error| format!("{key} cannot be read: {error}"))
}

/// Returns whose work a key names.
fn spot_of(key: &str) -> Option<Spot> {
    Some((placement_of(key, WORK_PREFIX)?, cluster_of(key, WORK_PREFIX)?))
}

fn spot(order: &WorkOrder) -> Spot {
    (order.placement.clone(), order.cluster.clone())
}

impl Checker {
    /// Returns the accepted commit.
    pub fn accepted(&self) -> Option<&CommitId> {
        self.accepted.as_ref()
    }

    /// What was under way to a member was given up.
    pub fn give_up(&mut self, cluster: &ClusterName) {
        self.in_flight.retain(|(_, of), _| of != cluster);
    }

    /// Looks at one thing that happened.
    pub fn see(&mut self, fact: &Fact) -> Verdict {
        self.seen += 1;
        self.note_life(fact)?;
        if !matches!(fact, Fact::Kept { .. }) {
            self.may_begin()?;
        }
        self.see_beside(fact)?;
        match fact {
            Fact::Kept { key, value } => {
                self.unsaid.remove(key);
                self.kept(key, value.as_deref())
            }
            Fact::Own(MachineFact::KeptUnsaid { key, value }) => {
                self.calm_since = self.now;
                self.unsaid.insert(key.clone(), value.clone());
                Ok(())
            }
            Fact::Accepted(commit) => {
                self.calm_since = self.now;
                self.accept(commit)
            }
            Fact::PayloadGone(commit) => Err(format!("7: the payload of {commit} was needed, and let go")),
            Fact::Ordered(order) => {
                if std::mem::take(&mut self.is_blind) {
                    self.calm_since = self.now;
                }
                self.ordered(order)?;
                self.may_prune(order)
            }
            Fact::Sent { order, connection } => self.sent(order, *connection),
            Fact::Answered { order, connection } => {
                if let Some((_, _, count)) = self.in_flight.get_mut(&spot(order)).filter(|(on, ..)| on == connection) {
                    *count = count.saturating_sub(1);
                }
                Ok(())
            }
            Fact::Applied { order, object, available, digest, was_foreign: _ } => {
                let was_others = self.taken_over(&spot(order), object);
                // It had all of this generation, and gets back what another placement held meanwhile: as what somebody changed.
                if was_others && self.was_complete.get(&spot(order)) == Some(&order.generation) {
                    self.changed.insert((order.cluster.clone(), object.clone()));
                }
                let (written, at) = self.written.entry(spot(order)).or_default();
                written.insert(object.clone(), digest.clone());
                *at = self.now;
                self.applied(order, object, *available)
            }
            Fact::Available { cluster, object } => {
                self.arrived(cluster, object);
                Ok(())
            }
            Fact::Deleted { order, object, .. } if order.abandon => {
                Err(format!("4: {object} was deleted on {}, which {} abandons", order.cluster, order.placement))
            }
            Fact::Deleted { order, object, holder, .. } => self.deleted(order, object, holder.as_ref()),
            Fact::Released { order, object, is_shared } => {
                super::deletions::was_decided(order, object)?;
                self.forget(order, object);
                let may_stay = order.abandon || *is_shared;
                may_stay
                    .then_some(())
                    .ok_or_else(|| format!("4: {object} was given up on {} and is to go", order.cluster))
            }
            Fact::Inventory { order, holds } => {
                self.note_complete(order, *holds);
                Ok(())
            }
            Fact::Disconnected { cluster, connection } => {
                self.calm_since = self.now;
                self.in_flight.retain(|(_, of), (at, ..)| (of, &*at) != (cluster, connection));
                Ok(())
            }
            Fact::Own(MachineFact::Corrected(by)) => {
                self.corrected(*by);
                Ok(())
            }
            Fact::Began
            | Fact::Reachable(..)
            | Fact::Own(MachineFact::Crashed | MachineFact::StoreRefused | MachineFact::ListFailed { .. }) => {
                self.calm_since = self.now;
                Ok(())
            }
            Fact::Own(MachineFact::Restored { cluster, objects, inventories }) => {
                self.note_restored(cluster, objects, inventories);
                Ok(())
            }
            // Stores are lost in `lost.rs` alone, and replicas are watched in `replicas.rs`, agents in `agents.rs`: they have promises of their own.
            Fact::Mark(_)
            | Fact::SourceSeen
            | Fact::Own(
                MachineFact::StoreLost(_)
                | MachineFact::Led { .. }
                | MachineFact::Batch { .. }
                | MachineFact::Replaced { .. }
                | MachineFact::Given { .. }
                | MachineFact::Told { .. }
                | MachineFact::Executed { .. }
                | MachineFact::Heard { .. }
                | MachineFact::DiskLost(_)
                | MachineFact::Wrote { .. },
            ) => Ok(()),
        }
    }

    /// Notes where a work is complete by its inventory and by what was written.
    fn note_complete(&mut self, order: &WorkOrder, holds: Option<u64>) {
        if holds != Some(order.snapshot) {
            return;
        }
        if !order.remove {
            self.note_unwanted(order);
        }
        // What is refused to a placement counts as held, and was not written, or only as it was before.
        let written = self.written.get(&spot(order)).map(|(written, _)| written);
        let has = |desired: &Desired| written.and_then(|written| written.get(&desired.key)) == Some(&desired.digest);
        let is_whole = order.manifests.iter().all(has);
        if is_whole && self.is_up(&spot(order)) {
            self.was_complete.insert(spot(order), order.generation);
        }
    }

    /// Notes what a cluster is not to have any more: a person has not agreed to its deletion yet, or another placement takes it over later.
    fn note_unwanted(&mut self, order: &WorkOrder) {
        let spot = spot(order);
        let is_wanted = |object: &ObjectKey| order.manifests.iter().any(|desired| *desired.key == *object);
        let unavailable = self.unavailable.get(&spot).into_iter().flatten();
        let unwanted = unavailable.filter(|object| !is_wanted(object)).cloned().collect();
        self.unwanted.insert(spot.clone(), unwanted);
        if self.is_up(&spot) {
            self.down.remove(&spot);
        }
    }

    /// Tells whether what was written on a cluster is available there. What is wanted no longer keeps no cluster down.
    fn is_up(&self, spot: &Spot) -> bool {
        let unwanted = self.unwanted.get(spot);
        let is_wanted = |object: &ObjectKey| !unwanted.is_some_and(|unwanted| unwanted.contains(object));
        !self.unavailable.get(spot).into_iter().flatten().any(is_wanted)
    }

    /// A life moved every instant that something is measured from.
    fn corrected(&mut self, by: SignedDuration) {
        let moved = |at: &mut Timestamp| *at = at.checked_add(by).unwrap_or(*at);
        self.words.iter_mut().for_each(|word| moved(&mut word.at));
        self.runs.values_mut().chain(&mut self.gone_runs).for_each(|run| shift_run(run, by));
        self.bindings.values_mut().filter_map(|binding| binding.started_at.as_mut()).for_each(moved);
        self.given.values_mut().for_each(moved);
        for record in self.placements.values_mut() {
            record.held.iter_mut().for_each(|held| moved(&mut held.since));
            record.paused.iter_mut().for_each(|pause| moved(&mut pause.at));
            let gate = record.deletion_gate.iter_mut();
            gate.for_each(|gate| {
                gate.opened_at.iter_mut().for_each(moved);
                gate.approvals.iter_mut().for_each(|approval| moved(&mut approval.at));
            });
        }
    }

    /// Notes where a life ends and where the next begins.
    fn note_life(&mut self, fact: &Fact) -> Verdict {
        match fact {
            Fact::Own(MachineFact::Crashed) => {
                self.has_ended = true;
                self.in_flight.clear();
                Ok(())
            }
            Fact::Began => {
                self.is_blind = true;
                self.early += STEP_MIN;
                if std::mem::take(&mut self.has_ended) { self.begins_again() } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// The next life begins with what the store has, whether it said so or not. Not as soon as the one before ends: a batch of that may
    /// still arrive in the store.
    fn begins_again(&mut self) -> Verdict {
        let mut unsaid = std::mem::take(&mut self.unsaid);
        // What the rest of a batch does is right by the commit that the same batch accepts.
        for (key, value) in unsaid.extract_if(SOURCE_PREFIX.to_owned().., |key, _| key.starts_with(SOURCE_PREFIX)) {
            let Some(value) = value else { continue };
            let source: SourceRecord = parse(&key, &value)?;
            self.stored = source.accepted;
        }
        self.accepted.clone_from(&self.stored);
        // As in a batch: the record of a placement comes first, and its moves are judged with all of the rest.
        let (first, rest): (Vec<_>, Vec<_>) =
            unsaid.into_iter().partition(|(key, _)| key.starts_with(PLACEMENT_PREFIX));
        for (key, value) in first.into_iter().chain(rest) {
            self.kept(&key, value.as_deref())?;
        }
        Ok(())
    }

    fn kept(&mut self, key: &str, value: Option<&[u8]>) -> Verdict {
        // The record of a placement comes before its bindings: another one is of another batch.
        if placement_of(key, PLACEMENT_PREFIX).is_some_and(|of| self.moves.iter().any(|((moved, _), _)| *moved == of)) {
            self.may_begin()?;
        }
        self.is_changed = true;
        if key.starts_with(BINDING_PREFIX) {
            return self.keep_binding(key, value);
        }
        if key.starts_with(SNAPSHOT_PREFIX) {
            return self.keep_snapshot(key, value);
        }
        if key.starts_with(RUN_PREFIX) {
            return self.keep_run(key, value);
        }
        if key.starts_with(PLACEMENT_PREFIX) {
            return self.keep_placement(key, value);
        }
        if let Some(value) = value.filter(|_| key.starts_with(SOURCE_PREFIX)) {
            let source: SourceRecord = parse(key, value)?;
            if source.accepted != self.accepted {
                let (says, is) = (source.accepted, &self.accepted);
                return Err(format!("7: the source's record says {says:?}, accepted is {is:?}"));
            }
            self.stored = source.accepted;
        }
        if let Some(value) = value.filter(|_| key.starts_with(OVERRIDE_PREFIX)) {
            self.note_override(&parse(key, value)?);
        }
        if let Some(value) = value.filter(|_| key.starts_with(WORK_PREFIX)) {
            self.keep_work(key, value)?;
        }
        if let Some(value) = value.filter(|_| key.starts_with(CLUSTER_PREFIX)) {
            let record: ClusterRecord = parse(key, value)?;
            self.note_namespaces(&record);
            if record.online {
                self.silent.remove(&record.name);
                // Before this life has told any member what to hold, one that answers has compared nothing.
                self.unheard.retain(|(_, cluster), _| self.is_blind || *cluster != record.name);
            } else {
                self.silent.insert(record.name);
            }
        }
        Ok(())
    }

    fn keep_placement(&mut self, key: &str, value: Option<&[u8]>) -> Verdict {
        let placement = placement_of(key, PLACEMENT_PREFIX).ok_or("a key without a placement")?;
        let Some(value) = value else {
            self.placements.remove(&placement);
            self.forget_failed(&placement);
            self.indexes.remove(&placement);
            self.limits.remove(&placement);
            return Ok(());
        };
        let record: PlacementRecord = parse(key, value)?;
        if let Some(before) = self.placements.get(&placement)
            && before.generation > record.generation
        {
            return Err(format!(
                "7: {placement} goes back from generation {} to {}",
                before.generation, record.generation
            ));
        }
        if let Some((gate, at)) = record.deletion_gate.as_ref().and_then(|gate| Some((gate, gate.opened_at?)))
            && self.voices(&gate.approvals, &gate.digest, at) < self.rules.required
        {
            return Err(format!("3: the deletion gate of {placement} is open, and nobody approved {}", gate.digest));
        }
        self.keeps_word(&placement, &record)?;
        if !record.removed && self.placements.get(&placement).is_some_and(|before| before.removed) {
            self.returned.entry(placement.clone()).or_default();
        }
        self.note_guard(&placement, &record);
        if let Some(IntOrPercent::Int(limit)) =
            record.spec.strategy.rolling_update.as_ref().and_then(|rolling| rolling.max_unavailable.clone())
        {
            let limit = usize::try_from(limit).unwrap_or(0);
            self.limits.entry(placement.clone()).or_default().push((self.seen, limit));
        }
        self.placements.insert(placement.clone(), record);
        self.note_halt(&placement);
        Ok(())
    }

    /// 7: what a person said stands until a person says otherwise.
    fn keeps_word(&mut self, placement: &PlacementKey, record: &PlacementRecord) -> Verdict {
        let Some(before) = self.placements.get(placement) else { return Ok(()) };
        let was_said = |verb: Verb| self.commands.contains(&(placement.clone(), verb));
        let is_renamed = record.removed && !before.removed;
        if is_renamed && (before.paused.is_some() || before.held.is_some()) {
            self.said_of_gone.insert(placement.clone(), (before.paused.clone(), before.held.clone()));
        } else if before.paused.is_some() && record.paused.is_none() && !was_said(Verb::Resume) {
            return Err(format!("7: {placement} is paused no more, and nobody resumed it"));
        }
        let is_released = record.held.is_none() && !is_renamed && !was_said(Verb::Retry);
        // Where overrides, apply strategy or policy alone were rolled back, a commit with others ends that.
        let of_content = before.held.clone().filter(|held| held.inputs.is_none());
        self.released.extend(of_content.filter(|_| is_released).map(|held| (placement.clone(), held)));
        if record.paused.is_some() && before.paused != record.paused {
            self.commands.remove(&(placement.clone(), Verb::Resume));
        }
        if record.held.is_some() && before.held != record.held {
            self.commands.remove(&(placement.clone(), Verb::Retry));
        }
        Ok(())
    }

    fn keep_snapshot(&mut self, key: &str, value: Option<&[u8]>) -> Verdict {
        let Some(value) = value else {
            self.snapshots.remove(key);
            return Ok(());
        };
        let snapshot: ResourceSnapshot = parse(key, value)?;
        if let Some(before) = self.snapshots.get(key) {
            return if *before == snapshot { Ok(()) } else { Err(format!("7: snapshot {key} was changed")) };
        }
        let placement = &snapshot.placement;
        // What comes back to a name that it had keeps its index.
        let is_it = |known: &ResourceSnapshot| {
            is_same_thing(&known.placement, placement) && (known.index, &known.hash) == (snapshot.index, &snapshot.hash)
        };
        let returns = self.snapshots.values().any(is_it);
        if let Some(last) = self.indexes.get(placement).filter(|last| **last >= snapshot.index && !returns) {
            return Err(format!("7: {placement} has a new snapshot {} after {last}", snapshot.index));
        }
        let last = self.indexes.get(placement).copied().unwrap_or_default();
        self.indexes.insert(placement.clone(), snapshot.index.max(last));
        // It may have had another name then.
        let named = |wish: &Wish| {
            let former = wish.placements.iter().find(|(key, _)| is_same_thing(key, placement));
            wish.placements.get(placement).or(former.map(|(_, want)| want)).cloned()
        };
        if let Some(want) = self.wishes.get(&snapshot.commit).and_then(named) {
            let found = snapshot.resources.iter().map(|r| (r.id.key(), r.digest.clone())).collect();
            if want.objects != found {
                return Err(format!("4: snapshot {key} holds {found:?}, its commit {:?}", want.objects));
            }
        } else {
            return Err(format!("4: snapshot {key} is of a commit that has no such placement"));
        }
        self.snapshots.insert(key.to_owned(), snapshot);
        Ok(())
    }

    /// Of a binding that was removed nothing is left on its cluster: what comes next is a first delivery.
    fn forget_binding(&mut self, key: &str) {
        let Some(gone) = self.bindings.remove(key) else { return };
        let is_there = |b: &Binding| (&b.placement, &b.cluster) == (&gone.placement, &gone.cluster);
        if gone.deleting || !self.bindings.values().any(is_there) {
            let spot = (gone.placement, gone.cluster);
            self.was_complete.remove(&spot);
            self.down.remove(&spot);
        }
    }

    fn keep_binding(&mut self, key: &str, value: Option<&[u8]>) -> Verdict {
        let Some(value) = value else {
            self.forget_binding(key);
            return Ok(());
        };
        let binding: Binding = parse(key, value)?;
        // One that is being removed stays so until it is gone: this is another one, and its cluster was picked again meanwhile. Or it
        // continues from what the cluster holds, because other placements were to have all of it.
        if !binding.deleting && self.bindings.get(key).is_some_and(|before| before.deleting) {
            let before = &self.bindings[key];
            let is_later = before.generation < binding.generation;
            let continues = is_later && before.snapshot.is_some() && before.snapshot == binding.snapshot;
            if !continues {
                self.forget_binding(key);
            }
        }
        if binding.deleting {
            self.note_removal((binding.placement.clone(), binding.cluster.clone()), &binding.removes);
        }
        let before = self.bindings.get(key);
        if let Some(before) = before.filter(|before| before.generation > binding.generation) {
            return Err(format!("7: binding {key} goes back from {} to {}", before.generation, binding.generation));
        }
        let (is_new, is_leaving) = (before.is_none_or(|b| b.generation != binding.generation), binding.deleting);
        // What was seen to be down when it was moved, and came back unseen, is not down by our doing.
        let was_down = before.is_some_and(|b| {
            let is_down = |c: &Condition| c.status == ConditionStatus::False && c.observed_generation == b.generation;
            // One that refused objects does not hold its snapshot, whatever of it is available.
            let refused = |c: &Condition| c.type_ == "Applied" && c.reason == "NotAllWorkHaveBeenApplied";
            b.conditions.iter().any(|c| (c.type_ == "Available" || refused(c)) && is_down(c))
        });
        if is_new && was_down {
            self.was_complete.remove(&(binding.placement.clone(), binding.cluster.clone()));
        }
        let was_leaving = before.is_some_and(|before| before.deleting);
        if is_leaving && !was_leaving {
            self.may_leave(&binding)?;
        }
        if let Some(snapshot) = binding.snapshot.filter(|_| before.and_then(|b| b.snapshot) != binding.snapshot) {
            self.moves.push(((binding.placement.clone(), binding.cluster.clone()), snapshot));
        }
        if !binding.deleting {
            self.forgotten.remove(&(binding.placement.clone(), binding.cluster.clone()));
        }
        let content = |b: &Binding| (b.snapshot, b.overrides.clone(), b.apply_strategy.clone());
        if binding.state == BindingState::Bound && !binding.deleting && before.map(content) != Some(content(&binding)) {
            // What failed already is repaired although others have failed.
            let is_repair = before.is_some_and(|before| before.has_failed() || self.was_late(before, &binding));
            let spot = (binding.placement.clone(), binding.cluster.clone());
            self.gates.moved.push((spot, Some(self.seen).filter(|_| !is_repair)));
        }
        if is_new {
            self.leave_gone_runs(&binding);
            self.moved.insert((binding.placement.clone(), binding.cluster.clone()), self.seen);
        }
        self.note_recovery(&binding);
        self.bindings.insert(key.to_owned(), binding);
        Ok(())
    }

    /// What was down before it was given something new is not down by our doing. The report that says so may be kept with the
    /// very move that it led to.
    fn keep_work(&mut self, key: &str, value: &[u8]) -> Verdict {
        let work: Work = parse(key, value)?;
        let Some(spot) = spot_of(key) else { return Ok(()) };
        if self.binding(&spot).is_some_and(|binding| work.was_down_before(binding)) {
            self.was_complete.remove(&spot);
            self.halts.repaired.insert(spot);
        } else {
            self.halts.repaired.remove(&spot);
        }
        Ok(())
    }

    /// What is taken off a cluster must be unwanted there, by the accepted commit. A cluster that lacks the Namespace of a
    /// ResourcePlacement may leave with another policy, even if it was given a snapshot before anybody knew that: nothing can be there
    /// without the Namespace, and the cluster is picked again with it.
    fn may_leave(&self, binding: &Binding) -> Verdict {
        let namespace = binding.placement.namespace.as_deref();
        let found = self.namespaces.get(&binding.cluster);
        if namespace.zip(found).is_some_and(|(namespace, found)| !found.contains_key(namespace)) {
            return Ok(());
        }
        let wish = self.accepted.as_ref().and_then(|commit| self.wishes.get(commit));
        let want = wish.and_then(|wish| wish.placements.get(&binding.placement));
        // A rollback takes the policy back as well.
        let is_held = self.placements.get(&binding.placement).is_some_and(|record| record.held.is_some());
        match want.map(|want| &want.who).filter(|_| !is_held) {
            Some(Who::Exactly(clusters) | Who::AtLeast(clusters))
                if clusters.contains(&binding.cluster)
                    && want.is_none_or(|want| !want.evicted.contains(&binding.cluster)) =>
            {
                Err(format!(
                    "4: {} is taken off {}, where the accepted commit wants it",
                    binding.placement, binding.cluster
                ))
            }
            _ => Ok(()),
        }
    }

    fn accept(&mut self, commit: &CommitId) -> Verdict {
        let number = |commit: &CommitId| self.wishes.get(commit).map(|wish| (wish.number, wish.is_good));
        let before = self.stored.as_ref().and_then(number).map_or(0, |(number, _)| number);
        match number(commit) {
            None | Some((_, false)) => return Err(format!("commit {commit} has errors and is accepted")),
            Some((number, true)) if number < before => {
                return Err(format!("7: {commit} is accepted again after a newer one was stored"));
            }
            Some(_) => {}
        }
        self.accepted = Some(commit.clone());
        Ok(())
    }

    /// What a member receives is stored before.
    fn ordered(&self, order: &WorkOrder) -> Verdict {
        let of_spot = |b: &&Binding| b.placement == order.placement && b.cluster == order.cluster;
        let is_meant = |b: &Binding| {
            b.generation == order.generation
                && b.deleting == order.remove
                && (order.remove
                    || b.snapshot == Some(order.snapshot)
                    || b.snapshot.is_none() && order.manifests.is_empty())
        };
        if self.bindings.values().filter(of_spot).any(is_meant) {
            return self.may_delete(order);
        }
        Err(format!(
            "7: {} is told generation {} of {}, snapshot {}, and no record says so",
            order.cluster, order.generation, order.placement, order.snapshot
        ))
    }

    /// 3: no member has the order to delete what waits behind a closed gate.
    fn may_delete(&self, order: &WorkOrder) -> Verdict {
        let gate = self.placements.get(&order.placement).and_then(|record| record.deletion_gate.as_ref());
        let waiting = gate.filter(|gate| gate.opened_at.is_none()).and_then(|gate| gate.deletions.get(&order.cluster));
        // What turned up after the removal was decided is not named, and stays.
        let goes = |key: &ObjectKey| order.prune.contains(key) && !order.held.contains(key);
        match waiting.into_iter().flatten().find(|key| goes(key)) {
            None => Ok(()),
            Some(key) => Err(format!(
                "3: {} has the order to delete {key} of {}, and the gate is closed",
                order.cluster, order.placement
            )),
        }
    }

    fn sent(&mut self, order: &WorkOrder, connection: (u64, u64)) -> Verdict {
        let entry = self.in_flight.entry(spot(order)).or_insert((connection, order.generation, 0));
        let (on, generation, count) = *entry;
        if count > 0 && (on, generation) != (connection, order.generation) {
            return Err(format!(
                "5: {} is written on {} by generation {} while {generation} is under way",
                order.placement, order.cluster, order.generation
            ));
        }
        *entry = (connection, order.generation, count + 1);
        Ok(())
    }

    fn applied(&mut self, order: &WorkOrder, object: &ObjectKey, available: bool) -> Verdict {
        if order.strategy.type_ == ApplyStrategyType::ReportDiff {
            return Err(format!(
                "4: {object} of {} is written on {}, and only a report is wanted",
                order.placement, order.cluster
            ));
        }
        let spot = spot(order);
        // It has compared what it has with what it is to have.
        self.unheard.remove(&spot);
        if let Some(unwanted) = self.unwanted.get_mut(&spot) {
            unwanted.remove(object);
        }
        let unavailable = self.unavailable.entry(spot.clone()).or_default();
        if available {
            unavailable.remove(object);
            if self.is_up(&spot) {
                self.down.remove(&spot);
            }
            return self.may_move(order);
        }
        unavailable.insert(object.clone());
        self.may_move(order)?;
        if self.changed.remove(&(order.cluster.clone(), object.clone())) {
            return Ok(());
        }
        if !self.was_complete.contains_key(&spot) || !self.down.insert(spot.clone()) {
            return Ok(());
        }
        self.few_are_down(&spot)
    }

    /// Notes who writes an object. What another placement writes is not down by the doing of the one that wrote it before. Tells whether
    /// another one did.
    fn taken_over(&mut self, by: &Spot, object: &ObjectKey) -> bool {
        self.writers.insert((by.1.clone(), object.clone()), by.0.clone());
        let others = self
            .written
            .iter()
            .filter(|(spot, (written, _))| spot.1 == by.1 && spot.0 != by.0 && written.contains_key(object));
        let others: Vec<Spot> = others.map(|(spot, _)| spot.clone()).collect();
        for spot in &others {
            self.was_complete.remove(spot);
            self.down.remove(spot);
        }
        !others.is_empty()
    }

    fn arrived(&mut self, cluster: &ClusterName, object: &ObjectKey) {
        for (spot, unavailable) in self.unavailable.iter_mut().filter(|((_, of), _)| of == cluster) {
            if unavailable.remove(object)
                && let Some((_, at)) = self.written.get_mut(spot)
            {
                *at = self.now;
            }
        }
        let down = std::mem::take(&mut self.down);
        self.down = down.into_iter().filter(|spot| spot.1 != *cluster || !self.is_up(spot)).collect();
    }

    pub(super) fn binding(&self, spot: &Spot) -> Option<&Binding> {
        let here = |b: &&Binding| (&b.placement, &b.cluster) == (&spot.0, &spot.1);
        self.bindings.values().filter(here).min_by_key(|binding| binding.deleting)
    }

    /// Tells whether a placement is to be on a cluster, as far as is stored.
    pub(super) fn is_bound(&self, spot: &Spot) -> bool {
        self.binding(spot).is_some_and(|binding| !binding.deleting)
    }

    /// 1: as many clusters of a placement may be down as a limit said since the first of them was moved.
    fn few_are_down(&self, spot: &Spot) -> Verdict {
        let placement = &spot.0;
        // Clusters of a run count by stage, after the newest run that has the cluster.
        let runs = self.runs.values().filter(|run| run.placement == *placement);
        let mut stages: Vec<(u64, &StageRecord)> =
            runs.flat_map(|run| run.stages.iter().map(|stage| (run.sequence, stage))).collect();
        stages.sort_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
        let is_in = |stage: &StageRecord, cluster: &ClusterName| stage.clusters.iter().any(|c| c.name == *cluster);
        let gone = self.gone_runs.iter().filter(|run| run.placement == *placement).flat_map(|run| &run.stages);
        let told_by: Vec<&StageRecord> = gone.chain(stages.iter().rev().map(|(_, stage)| *stage)).collect();
        // The run that told the cluster to move last says whether it failed; it need not be the newest.
        let failed = |cluster: &ClusterName| {
            let all = told_by.iter().flat_map(|stage| &stage.clusters);
            let of =
                all.filter(|c| c.name == *cluster && c.phase != ClusterPhase::Pending).max_by_key(|c| c.started_at);
            of.is_some_and(|c| c.phase == ClusterPhase::Failed)
        };
        // One that is to be tried again since then was a failed one when all the others were told to move, and waits for its turn.
        let of_placement = self.down.iter().filter(|(of, _)| of == placement);
        let told = of_placement.filter_map(|spot| self.moved.get(spot)).max();
        let was_failed = |spot: &Spot| self.tried_again.get(spot) > told;
        let stage = stages.iter().map(|(_, stage)| *stage).find(|stage| is_in(stage, &spot.1));
        let counts = |spot: &&Spot| {
            let binding = self.binding(spot);
            let is_near = stage.is_none_or(|stage| is_in(stage, &spot.1));
            let has_failed = failed(&spot.1) || was_failed(spot);
            binding.is_some_and(|b| b.state == BindingState::Bound && !b.deleting) && is_near && !has_failed
        };
        let down: Vec<&Spot> = self.down.iter().filter(|(of, _)| of == placement).filter(counts).collect();
        let since = down.iter().filter_map(|spot| self.moved.get(*spot)).min().copied().unwrap_or(0);
        let limits = self.limits.get(placement).map(Vec::as_slice).unwrap_or_default();
        let before = limits.iter().rev().find(|(at, _)| *at <= since).into_iter();
        let rolling = before.chain(limits.iter().filter(|(at, _)| *at > since)).map(|(_, limit)| *limit).max();
        // Clusters that an older run had begun with do not hold up a newer one.
        let began = |stage: &StageRecord| {
            let is_down = |c: &RunCluster| c.started_at.is_some() && down.iter().any(|(_, name)| *name == c.name);
            stage.clusters.iter().any(is_down)
        };
        let concurrency = told_by.iter().filter(|stage| began(stage)).map(|stage| stage.max_concurrency).max();
        // A failure that is tolerated uses no budget.
        let record = self.placements.get(placement);
        let tolerated = record.map_or(0, |record| record.failures_allowed().unwrap_or(usize::from(u16::MAX)));
        let rolling = rolling.map(|limit| limit + tolerated);
        let limit = rolling.into_iter().chain(concurrency).max().unwrap_or(0);
        if down.len() > limit && !self.is_lenient {
            let names: Vec<&str> = down.iter().map(|(_, cluster)| cluster.as_str()).collect();
            return Err(format!(
                "1: {} of {placement} are down by our doing, {limit} may be: {}",
                names.len(),
                names.join(", ")
            ));
        }
        Ok(())
    }

    /// 2: a cluster moves to the snapshot of a run only when its stage is reached.
    fn may_move(&self, order: &WorkOrder) -> Verdict {
        if order.remove || self.is_lenient {
            return Ok(());
        }
        let binding = self.binding(&spot(order));
        if binding.is_none_or(|binding| binding.generation != order.generation) {
            return Ok(());
        }
        let is_current = |run: &&RunRecord| {
            run.placement == order.placement && !run.phase.is_final() && run.snapshot() == Some(order.snapshot)
        };
        let runs: Vec<&RunRecord> = self.runs.values().filter(is_current).collect();
        let brought = self.snapshots.get(&snapshot_key(&order.placement, order.snapshot));
        if brought.is_some_and(|brought| self.had_under_another_name(&order.cluster, brought)) {
            return Ok(());
        }
        let [run] = runs[..] else { return Ok(()) };
        let given = self.given.get(&spot(order));
        // An ended run gave it to the cluster, which was offline at its turn: the gates of that run were open for it.
        let gave = |c: &RunCluster| c.name == order.cluster && c.started_at.as_ref() >= given;
        let is_before = |other: &&RunRecord| {
            other.placement == order.placement && other.phase.is_final() && other.snapshot() == Some(order.snapshot)
        };
        let mut reached = self.runs.values().filter(is_before).flat_map(|run| &run.stages);
        if reached.any(|stage| stage.phase.is_reached() && stage.clusters.iter().any(gave)) {
            return Ok(());
        }
        for stage in run.stages.iter().filter(|stage| !stage.phase.is_reached()) {
            let is_early =
                |c: &RunCluster| c.name == order.cluster && given > run.frozen.as_ref().map(|frozen| &frozen.at);
            if stage.clusters.iter().any(is_early) {
                return Err(format!("2: {} moves in {} before stage {}", order.cluster, run.name, stage.name));
            }
        }
        Ok(())
    }

    /// 4: what is deleted carried our label, and the order did not want it.
    fn deleted(&mut self, order: &WorkOrder, object: &ObjectKey, holder: Option<&PlacementKey>) -> Verdict {
        super::deletions::was_decided(order, object)?;
        if holder != Some(&order.placement) {
            return Err(format!("4: {object} was deleted on {} and is not of {}", order.cluster, order.placement));
        }
        if order.manifests.iter().any(|desired| *desired.key == *object) || order.held.contains(object) {
            return Err(format!("4: {object} was deleted on {} though {} wants it", order.cluster, order.placement));
        }
        self.forget(order, object);
        self.note_taken_off(order);
        Ok(())
    }

    fn forget(&mut self, order: &WorkOrder, object: &ObjectKey) {
        if let Some(unavailable) = self.unavailable.get_mut(&spot(order)) {
            unavailable.remove(object);
        }
        if self.is_up(&spot(order)) {
            self.down.remove(&spot(order));
        }
        if let Some((written, _)) = self.written.get_mut(&spot(order)) {
            written.remove(object);
        }
    }

    /// Tells whether an object is a Namespace that a placement of that namespace is to have objects in: it stays.
    fn is_inhabited(&self, cluster: &ClusterName, key: &ObjectKey) -> bool {
        let is_in =
            |b: &Binding| b.cluster == *cluster && !b.deleting && b.placement.namespace.as_deref() == Some(&*key.name);
        key.kind == "Namespace" && self.bindings.values().any(is_in)
    }

    /// 6: everything that the accepted commit wants is where it wants it, available, and nothing else is.
    pub fn is_at_rest(&self, fleet: &Fleet<'_>, last: &CommitId, returned: &BTreeSet<ClusterName>) -> Verdict {
        if self.accepted.as_ref() != Some(last) {
            return Err(format!("6: {last} is not accepted, {:?} is", self.accepted));
        }
        let wish = &self.wishes[last];
        for (placement, want) in &wish.placements {
            let label = applyset_id(placement);
            let mut holders = BTreeSet::new();
            for cluster in &wish.clusters {
                let Some(member) = fleet.get(cluster) else {
                    return Err(format!("6: nobody ever talked to {cluster}"));
                };
                let held = member.objects.iter().filter(|(_, live)| *live.applyset == *label);
                let held: BTreeMap<_, _> = held.map(|(key, live)| (key.clone(), live)).collect();
                let spot = (placement.clone(), cluster.clone());
                let is_bound = self.is_bound(&spot);
                let wanted = match &want.who {
                    Who::Exactly(clusters) => clusters.contains(cluster),
                    Who::AtLeast(clusters) => clusters.contains(cluster) || is_bound,
                    Who::So(_) => is_bound,
                };
                if !wanted {
                    let too_much: Vec<&ObjectKey> =
                        held.keys().filter(|key| !self.is_inhabited(cluster, key)).collect();
                    if !too_much.is_empty() && !returned.contains(cluster) && !self.forgotten.contains(&spot) {
                        return Err(format!("6: {cluster} still holds {too_much:?} of {placement}"));
                    }
                    continue;
                }
                holders.insert(cluster);
                let found =
                    held.iter().map(|(key, live)| (key.clone(), live.manifest.clone().unwrap_or_else(|| "".into())));
                let found: BTreeMap<ObjectKey, Digest> = found.collect();
                let objects = want.overridden.get(cluster).unwrap_or(&want.objects);
                if found != *objects {
                    let unlike = unlike(&found, objects);
                    return Err(format!("6: {placement} on {cluster} is not as declared: {unlike}"));
                }
                let is_other = |key: &ObjectKey, live: &LiveObject| {
                    Some(&live.owned) != live.manifest.as_ref().map(owned).as_ref()
                        && !self.left_changed.contains(&(cluster.clone(), key.clone()))
                };
                if let Some((_, live)) = held.iter().find(|(key, live)| is_other(key, live)) {
                    return Err(format!("6: {} on {cluster} was changed by somebody, and is not put back", live.id));
                }
                let binding = self.binding(&spot);
                let holds = member.inventories.get(placement).and_then(|parent| parent.holds.as_ref());
                if holds.map(|holds| holds.index) != binding.and_then(|b| b.snapshot) {
                    return Err(format!("6: the inventory of {placement} on {cluster} does not say what it holds"));
                }
                let late = held.values().find(|live| live.availability == Availability::ManifestNotAvailableYet);
                if let Some(live) = late {
                    return Err(format!("6: {} on {cluster} is not available", live.id));
                }
            }
            if let Who::So(count) = want.who
                && holders.len() != count
            {
                return Err(format!("6: {placement} is on {holders:?}, wanted on {count} clusters"));
            }
        }
        for (cluster, member) in fleet.iter().filter(|(name, _)| wish.clusters.contains(**name)) {
            if returned.contains(*cluster) {
                continue;
            }
            let inhabited = |of: &PlacementKey| {
                let label = applyset_id(of);
                let held = || member.objects.iter().filter(|(_, live)| *live.applyset == *label);
                held().next().is_some() && held().all(|(key, _)| self.is_inhabited(cluster, key))
            };
            let may_stay =
                |of: &PlacementKey| self.forgotten.contains(&(of.clone(), (*cluster).clone())) || inhabited(of);
            let is_known = |of: &&PlacementKey| wish.placements.contains_key(*of);
            if let Some(gone) = member.inventories.keys().find(|of| !is_known(of) && !may_stay(of)) {
                return Err(format!("6: {cluster} still has the inventory of {gone}, which is gone"));
            }
            let stay = self.forgotten.iter().filter(|(_, at)| at == *cluster).map(|(of, _)| of);
            let known = wish.placements.keys().chain(stay).map(applyset_id).chain([String::new()]);
            let known: BTreeSet<String> = known.collect();
            let is_gone = |key: &ObjectKey, of: &str| !known.contains(of) && !self.is_inhabited(cluster, key);
            if let Some((_, live)) = member.objects.iter().find(|(key, live)| is_gone(key, &live.applyset)) {
                return Err(format!("6: {cluster} still holds {} of a placement that is gone", live.id));
            }
        }
        self.claims_are_true(fleet, wish, returned)
    }
}
