//! Which features met: how often two of them had to do with one placement between one commit and the next, as commits and the journal say.
//!
//! `GITFLEET_PAIRS=write GITFLEET_SEEDS=20000 cargo test --test simulation` counts them again, into `pairs/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use engine::store::records::{BINDING_PREFIX, CLUSTER_PREFIX, PLACEMENT_PREFIX, RUN_PREFIX};
use engine::store::{MemoryStore, Store as _};
use model::api::staged::StageTaskType;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::journal::JournalKind;
use model::records::{ClusterRecord, JournalEntry};
use model::runs::{RunCause, RunRecord, StagePhase, StageRecord};
use serde::Deserialize;
use simulated::{Fact, MachineFact};
use testservers::repository;

use super::approvers::Named as Approvers;
use super::check::{Wish, parse};
use super::digests::Fleet;
use super::hand_over::is_same_thing;
use super::records::{Binding, PlacementRecord};
use super::seeds_count;

/// A pair counts as tried where so many seeds hit it so often.
const HITS_MIN: u64 = 500;
const SEEDS: u64 = 20_000;

/// What is played, in the order of the table.
const FEATURES: [&str; 29] = [
    CLUSTER_SCOPED,
    NAMESPACED,
    STAGED,
    ROLLING,
    OVERRIDES,
    HAND_OVER,
    ROLLBACK,
    HOLD,
    PAUSE,
    DELETION_GATE,
    LEAVE,
    JOIN,
    RELABEL,
    EVICT,
    SUSPEND,
    OFFLINE,
    TENANT,
    FOLLOW_UP,
    WRITTEN_RUN,
    SUPERSEDED,
    RENAME,
    EXPIRED,
    APPROVERS,
    FAILURE,
    RESTART,
    LOST_STORE,
    SHARED_STORE,
    STAND_BY,
    AGENT,
];
pub const CLUSTER_SCOPED: &str = "ClusterResourcePlacement";
pub const NAMESPACED: &str = "ResourcePlacement";
pub const STAGED: &str = "staged";
pub const ROLLING: &str = "rolling";
pub const OVERRIDES: &str = "overrides";
pub const HAND_OVER: &str = "hand-over";
pub const ROLLBACK: &str = "rollback";
pub const HOLD: &str = "hold";
pub const PAUSE: &str = "pause";
pub const DELETION_GATE: &str = "deletion gate";
pub const LEAVE: &str = "cluster leaves";
pub const JOIN: &str = "cluster joins";
pub const RELABEL: &str = "cluster relabelled";
pub const EVICT: &str = "eviction";
pub const SUSPEND: &str = "suspended";
pub const OFFLINE: &str = "offline";
pub const TENANT: &str = "tenant";
pub const FOLLOW_UP: &str = "follow-up run";
pub const WRITTEN_RUN: &str = "written run";
pub const SUPERSEDED: &str = "superseded run";
pub const RENAME: &str = "rename";
pub const EXPIRED: &str = "approval expires";
pub const APPROVERS: &str = "approvers";
pub const FAILURE: &str = "failed cluster";
pub const RESTART: &str = "restart";
pub const LOST_STORE: &str = "lost store";
pub const SHARED_STORE: &str = "store in PostgreSQL";
pub const STAND_BY: &str = "stand-by takes over";
pub const AGENT: &str = "agent";

/// Pairs that cannot meet, each with the reason.
const IMPOSSIBLE: [(&str, &[&str], &str); 7] = [
    (CLUSTER_SCOPED, &[NAMESPACED], "a placement is of one kind"),
    (STAGED, &[ROLLING], "a placement has one strategy at a time"),
    (
        ROLLING,
        &[SUPERSEDED, EXPIRED, APPROVERS],
        "a run gives way to another where both are of stages, the approval of a stage expires, and a strategy of stages names approvers: \
         the commit that takes the stages away ends the runs",
    ),
    (NAMESPACED, &[EVICT], "KubeFleet evicts ClusterResourcePlacements alone"),
    (LOST_STORE, &[SHARED_STORE, STAND_BY, AGENT], "the fleets that lose a store have one daemon with a file"),
    (LOST_STORE, &[EXPIRED], "the fleets that lose a store have no git host, whose approvals expire"),
    (LOST_STORE, &[TENANT], "the fleets that lose a store have no tenant"),
];

/// Tells whether two features can meet.
pub fn can_meet(one: &str, other: &str) -> bool {
    let is_it = |a: &str, b: &str| IMPOSSIBLE.iter().any(|(of, others, _)| *of == a && others.contains(&b));
    !is_it(one, other) && !is_it(other, one)
}

/// Features that no seed plays, each with the reason and where they are tried.
const NOT_PLAYED: [(&str, &str); 2] = [
    ("several sources", "deciding gets one joined tree: `it scenarios::`, `engine/tests/sources.rs`"),
    ("render", "deciding gets rendered objects: `it scenarios::`, `engine/tests/variants.rs`"),
];

/// What acts on each placement since the commit.
#[derive(Default)]
pub struct Pairs {
    has_tenant: bool,
    is_shared: bool,
    commit: Option<CommitId>,
    wish: Option<Wish>,
    /// Clusters that the commit added, labelled or suspended otherwise than the one before.
    joined: BTreeSet<ClusterName>,
    relabelled: BTreeSet<ClusterName>,
    /// Placements for whose strategy the commit named other approvers.
    relisted: BTreeSet<PlacementKey>,
    /// What happened to each placement, and to all of them.
    acting: BTreeMap<PlacementKey, BTreeSet<&'static str>>,
    on_all: BTreeSet<&'static str>,
    lives: usize,
    /// The last entry of the journal that was read.
    noted: u64,
    placements: BTreeMap<PlacementKey, PlacementRecord>,
    bindings: BTreeMap<String, Binding>,
    offline: BTreeSet<ClusterName>,
    agents: BTreeSet<ClusterName>,
    /// How often two were seen together.
    hits: Hits,
}

/// How often two features met, the one that is first in the table first.
pub type Hits = BTreeMap<(usize, usize), u64>;

impl Pairs {
    /// Begins to count in a fleet with a tenant or without, and with a store that daemons share or one of its own.
    pub fn of(has_tenant: bool, is_shared: bool) -> Self {
        Self { has_tenant, is_shared, ..Self::default() }
    }

    /// Takes in what happened.
    pub fn see(&mut self, fact: &Fact, wishes: &BTreeMap<CommitId, Wish>, store: &MemoryStore) {
        match fact {
            Fact::Accepted(commit) if self.commit.as_ref() != Some(commit) => {
                self.count();
                self.accept(commit, wishes.get(commit));
            }
            Fact::Began => {
                self.lives += 1;
                if self.lives > 1 {
                    self.on_all.insert(RESTART);
                }
            }
            Fact::Own(MachineFact::StoreLost(_)) => {
                self.noted = 0;
                self.on_all.insert(LOST_STORE);
            }
            Fact::Own(MachineFact::Led { epoch, .. }) if *epoch > 1 => {
                self.on_all.insert(STAND_BY);
            }
            Fact::Own(MachineFact::Given { agent, cluster }) => {
                is_in(&mut self.agents, cluster, agent.is_some());
            }
            Fact::Kept { key, value } => {
                // Not later: what the journal says beside the next commit comes after that.
                self.read(store);
                match value {
                    Some(value) => self.kept(key, value),
                    None => drop(self.bindings.remove(key)),
                }
            }
            _ => {}
        }
    }

    /// A person was told that an approval is too old.
    pub fn note_expired(&mut self, placement: &PlacementKey) {
        self.acts(placement, EXPIRED);
    }

    fn acts(&mut self, placement: &PlacementKey, feature: &'static str) {
        self.acting.entry(placement.clone()).or_default().insert(feature);
    }

    fn kept(&mut self, key: &str, value: &[u8]) {
        if key.starts_with(PLACEMENT_PREFIX) {
            let Ok(Named { key: placement }) = parse(key, value) else { return };
            let Ok(record) = parse::<PlacementRecord>(key, value) else { return };
            let facts = [
                (PAUSE, record.paused.is_some()),
                (HOLD, record.held.is_some()),
                (DELETION_GATE, record.deletion_gate.is_some()),
                (HAND_OVER, !record.handing_over.is_empty() || !record.inherited.is_empty()),
            ];
            facts.iter().filter(|(_, is_so)| *is_so).for_each(|(feature, _)| self.acts(&placement, feature));
            self.placements.insert(placement, record);
        } else if key.starts_with(BINDING_PREFIX) {
            let Ok(binding) = parse::<Binding>(key, value) else { return };
            self.bindings.insert(key.to_owned(), binding);
        } else if let Some(name) = key.strip_prefix(CLUSTER_PREFIX) {
            let Ok(record) = parse::<ClusterRecord>(key, value) else { return };
            let name = ClusterName::new(name);
            is_in(&mut self.offline, &name, !record.online);
        } else if key.starts_with(RUN_PREFIX) {
            let Ok(run) = parse::<RunRecord>(key, value) else { return };
            // What is decided has waited.
            if self.relisted.contains(&run.placement) && run.stages.iter().any(waits_for_people) {
                self.acts(&run.placement, APPROVERS);
            }
            match run.cause {
                RunCause::FollowUp { .. } => self.acts(&run.placement, FOLLOW_UP),
                RunCause::Written { .. } => self.acts(&run.placement, WRITTEN_RUN),
                RunCause::Rollback { .. } => self.acts(&run.placement, ROLLBACK),
                RunCause::Snapshot => {}
            }
        }
    }

    fn note(&mut self, entry: &JournalEntry) {
        let Some(placement) = &entry.placement else { return };
        let is_new = |clusters: &BTreeSet<ClusterName>| entry.cluster.as_ref().is_some_and(|of| clusters.contains(of));
        let says = |fact: &str, value: &str| entry.facts.get(fact).and_then(|said| said.as_str()) == Some(value);
        let feature = match entry.event {
            JournalKind::RolledBack => ROLLBACK,
            JournalKind::ClusterLeft => LEAVE,
            JournalKind::ClusterPicked if is_new(&self.joined) => JOIN,
            JournalKind::EvictionJudged if entry.facts["executed"] == true => EVICT,
            JournalKind::RunEnded if says("phase", "Superseded") => SUPERSEDED,
            JournalKind::ClusterFailed | JournalKind::RolloutHalted => FAILURE,
            _ => return,
        };
        self.acts(placement, feature);
    }

    /// A commit ends what acted together under the one before.
    fn accept(&mut self, commit: &CommitId, wish: Option<&Wish>) {
        (self.acting, self.on_all, self.relisted) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        self.commit = Some(commit.clone());
        let (Some(before), Some(wish)) = (std::mem::replace(&mut self.wish, wish.cloned()), wish) else { return };
        let is_other = |cluster: &&ClusterName| before.labels.get(*cluster) != wish.labels.get(*cluster);
        self.joined = wish.clusters.difference(&before.clusters).cloned().collect();
        self.relabelled = wish.clusters.intersection(&before.clusters).filter(is_other).cloned().collect();
        self.relisted = wish.placements.keys().filter(|key| is_relisted(key, &before, wish)).cloned().collect();
        let number = |key: &PlacementKey| key.name.chars().take(2).collect::<String>();
        let new = wish.placements.keys().filter(|key| !before.placements.contains_key(key));
        let gone = before.placements.keys().filter(|key| !wish.placements.contains_key(key));
        let gone: Vec<&PlacementKey> = gone.collect();
        for key in new {
            for was in gone.iter().filter(|was| number(was) == number(key)) {
                self.acts(key, RENAME);
                self.acts(was, RENAME);
            }
        }
    }

    /// Reads the journal as far as it goes: a store that is about to be lost, too.
    pub fn read(&mut self, store: &MemoryStore) {
        let newest = store.journal_back(None, 1).unwrap_or_default();
        if newest.first().is_none_or(|(number, _)| *number <= self.noted) {
            return;
        }
        for (number, entry) in store.journal(self.noted, usize::MAX).unwrap_or_default() {
            self.noted = number;
            self.note(&entry);
        }
    }

    /// Counts what met since the commit.
    fn count(&mut self) {
        for (placement, record) in &self.placements {
            let mut acting = self.acting.get(placement).cloned().unwrap_or_default();
            let bindings = || self.bindings.values().filter(|binding| binding.placement == *placement);
            // What is gone is touched by nothing.
            if acting.is_empty() && bindings().next().is_none() {
                continue;
            }
            let is_on =
                |clusters: &BTreeSet<ClusterName>| bindings().any(|binding| clusters.contains(&binding.cluster));
            let is_tenants = self.has_tenant && placement.name.chars().nth(1) == Some('0');
            let suspended = self.wish.as_ref().map(|wish| &wish.suspended);
            let has_overrides =
                |binding: &Binding| ["cluster", "namespaced"].iter().any(|of| binding.overrides.get(of).is_some());
            let states = [
                (CLUSTER_SCOPED, placement.namespace.is_none()),
                (NAMESPACED, placement.namespace.is_some()),
                (STAGED, record.is_external()),
                (ROLLING, !record.is_external()),
                (OVERRIDES, bindings().any(has_overrides)),
                (RELABEL, is_on(&self.relabelled)),
                (SUSPEND, suspended.is_some_and(is_on)),
                (OFFLINE, is_on(&self.offline)),
                (AGENT, is_on(&self.agents)),
                (TENANT, is_tenants),
                (SHARED_STORE, self.is_shared),
            ];
            acting.extend(states.iter().filter(|(_, is_so)| *is_so).map(|(feature, _)| *feature));
            acting.extend(&self.on_all);
            let found: Vec<usize> = (0..FEATURES.len()).filter(|at| acting.contains(FEATURES[*at])).collect();
            for (at, first) in found.iter().enumerate() {
                for second in &found[at + 1..] {
                    *self.hits.entry((*first, *second)).or_default() += 1;
                }
            }
        }
    }

    /// Returns what was counted, the last commit included.
    pub fn end(mut self, store: &MemoryStore) -> Hits {
        self.read(store);
        self.count();
        self.hits
    }
}

fn is_in(clusters: &mut BTreeSet<ClusterName>, name: &ClusterName, is_so: bool) {
    if is_so {
        clusters.insert(name.clone());
    } else {
        clusters.remove(name);
    }
}

/// Tells whether a commit names other approvers for a placement than the one before, maybe under another name.
fn is_relisted(key: &PlacementKey, before: &Wish, wish: &Wish) -> bool {
    let former = before.placements.iter().find(|(was, _)| is_same_thing(was, key)).map(|(_, want)| want);
    let was = before.placements.get(key).or(former).map(|want| &want.approvers);
    let now = &wish.placements[key].approvers;
    was.is_some_and(|was| was != now && *was != Approvers::Unknown) && *now != Approvers::Unknown
}

/// Tells whether a stage waits for people.
fn waits_for_people(stage: &StageRecord) -> bool {
    let tasks = match stage.phase {
        StagePhase::WaitingBefore => &stage.before,
        StagePhase::WaitingAfter => &stage.after,
        _ => return false,
    };
    tasks.iter().any(|task| task.type_ == StageTaskType::Approval && task.done_at.is_none())
}

#[derive(Deserialize)]
struct Named {
    key: PlacementKey,
}

fn file(fleet: Fleet) -> PathBuf {
    repository().join("tests/simulation/pairs").join(fleet.name()).with_extension("txt")
}

/// Tells whether pairs are to be counted again.
pub fn are_written() -> bool {
    env::var("GITFLEET_PAIRS").as_deref() == Ok("write")
}

/// Adds up what seeds of a kind of fleet hit, and writes it where somebody asks for that.
pub fn write(fleet: Fleet, all: impl IntoIterator<Item = Hits>) {
    if !are_written() {
        return;
    }
    let mut sum = Hits::new();
    for (pair, count) in all.into_iter().flatten() {
        *sum.entry(pair).or_default() += count;
    }
    let mut text = format!("{} seeds\n", seeds_count());
    for ((first, second), count) in sum {
        writeln!(text, "{count:>7} {} + {}", FEATURES[first], FEATURES[second]).expect("a String takes it");
    }
    fs::create_dir_all(file(fleet).parent().expect("it is in a folder")).expect("the folder can be made");
    fs::write(file(fleet), text).expect("the file can be written");
}

/// Every two features that can meet did so often enough in the seeds that were counted last, but for those that `pairs/rare.txt` names: it
/// only becomes shorter. `UPDATE=1` writes it.
#[test]
fn every_pair_was_hit() {
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    let mut seeds = SEEDS;
    for fleet in [Fleet::OneDaemon, Fleet::Replicas, Fleet::Agents, Fleet::LostStore] {
        let text = fs::read_to_string(file(fleet)).expect("the pairs of each fleet are counted");
        for line in text.lines() {
            let (count, pair) = line.trim().split_once(' ').expect("a line has a count and a pair");
            let count = count.parse::<u64>().expect("it is a number");
            if pair == "seeds" {
                seeds = count;
            } else {
                *sum.entry(pair.to_owned()).or_default() += count;
            }
        }
    }
    let mut rare = String::new();
    for (at, first) in FEATURES.iter().enumerate() {
        for second in &FEATURES[at + 1..] {
            let pair = format!("{first} + {second}");
            let count = sum.get(&pair).copied().unwrap_or(0);
            println!("{count:>7} {pair}");
            if !can_meet(first, second) {
                assert_eq!(count, 0, "{pair} was hit, and counts as impossible");
            } else if count * SEEDS < HITS_MIN * seeds {
                writeln!(rare, "{pair}").expect("a String takes it");
            }
        }
    }
    for (one, others, why) in IMPOSSIBLE {
        println!("impossible: {one} with {}: {why}", others.join(", "));
    }
    for (feature, why) in NOT_PLAYED {
        println!("not played: {feature}: {why}");
    }
    let kept = repository().join("tests/simulation/pairs/rare.txt");
    if env::var_os("UPDATE").is_some() {
        fs::write(&kept, &rare).expect("the file can be written");
    }
    let kept = fs::read_to_string(kept).expect("the pairs that are hit too seldom are kept");
    assert_eq!(rare, kept, "of {seeds} seeds other pairs are hit too seldom than pairs/rare.txt says");
}
