//! What happens in a seed: a small fleet in git that changes, and everything that goes wrong meanwhile.

mod acts;
mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use decide::snapshot;
use model::id::{BlobId, ClusterName, CommitId, Digest, ObjectKey, PlacementKey};
use model::manifest::Manifest;
use model::tree::Tree;
use model::work::Desired;
use plan::simulate::{Dice, Fate};
use source::ParsedBlob;

use serde_json::json;

use super::approvers::Named;
use super::check::{Want, Who, Wish};

pub use acts::Act;

/// Names the clusters on which an object is never available, or refused, joined by dots.
const NEVER_ON: &str = "example.org/never-on";
const REFUSED_ON: &str = "example.org/refused-on";
/// Clusters that a fleet may have.
pub const CLUSTERS_MAX: u64 = 6;
/// Placements that a fleet may have.
pub const PLACEMENTS_MAX: u64 = 3;
/// The placement that is of a tenant, where there is one.
const TENANT: u64 = 0;
/// Lists of approvers that a strategy may have: none, who is on each, both people, and one more.
const LISTS: u64 = 4;
const BOTH: u64 = 2;

/// A cluster as git has it.
#[derive(Clone)]
struct Cluster {
    env: &'static str,
    suspended: bool,
    /// The label that orders clusters in a stage; now and then no number.
    order: &'static str,
}

/// A placement as git has it.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own that a seed throws")]
struct Placement {
    policy: Policy,
    staged: Option<Staged>,
    max_unavailable: u64,
    max_surge: u64,
    max_failures: Option<&'static str>,
    deadline_s: u64,
    guard_off: bool,
    queue: bool,
    history: u64,
    rolls_back: bool,
    reports_only: bool,
}

#[derive(Clone)]
enum Policy {
    All,
    Env(&'static str),
    Fixed(BTreeSet<u64>),
    Number(u64),
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own that a seed throws")]
struct Staged {
    max_concurrency: &'static str,
    after_first: &'static str,
    before_second: bool,
    has_third: bool,
    /// What becomes of clusters of env `c` without that stage.
    in_no_stage: &'static str,
    sorted: bool,
    /// Every snapshot gets a run; else somebody writes one.
    automatic: bool,
    /// Its document is not there.
    missing: bool,
}

/// A run that somebody wrote.
#[derive(Clone)]
struct Written {
    name: u64,
    state: &'static str,
    index: Option<u64>,
}

#[derive(Clone)]
struct Object {
    kind: &'static str,
    value: u64,
    never_on: BTreeSet<u64>,
    refused_on: BTreeSet<u64>,
}

/// The source as people write it.
pub struct Timeline {
    pub dice: Dice,
    clusters: BTreeMap<u64, Cluster>,
    placements: BTreeMap<u64, Placement>,
    /// By namespace and number.
    objects: BTreeMap<(u64, u64), Object>,
    /// Written runs, by placement.
    runs: BTreeMap<u64, Written>,
    /// What overrides write on clusters of env `a`, by placement.
    overrides: BTreeMap<u64, u64>,
    /// The same on clusters of env `b`.
    overrides_of_b: BTreeMap<u64, u64>,
    /// Placements with an override that fits nothing: it fails on clusters of env `b`.
    bad_overrides: BTreeSet<u64>,
    /// Placements whose namespace has a ResourcePlacement for what is in it.
    splits: BTreeSet<u64>,
    /// One placement is of a tenant.
    pub has_tenant: bool,
    /// ClusterRoles, each with the placement that selects it and its value.
    roles: BTreeMap<u64, (u64, u64)>,
    /// How often placements were renamed, and how often at most.
    names: BTreeMap<u64, u64>,
    most_names: BTreeMap<u64, u64>,
    /// Placements that leave objects behind, and those that may own objects together with somebody else.
    abandons: BTreeSet<u64>,
    shares: BTreeSet<u64>,
    /// The list of approvers of the strategy of a placement, and the one before.
    approvers: BTreeMap<u64, (u64, u64)>,
    /// Who is on each list.
    pub keepers: &'static [&'static str],
    /// Placements, the clusters they were evicted from, and how often they had been renamed then.
    evictions: BTreeSet<(u64, u64, u64)>,
    /// The objects as they were, commit by commit: somebody may go back.
    past: Vec<BTreeMap<(u64, u64), Object>>,
    value: u64,
    commits: u64,
    /// By text, with the blob's id.
    parsed: BTreeMap<String, (BlobId, Arc<ParsedBlob>)>,
}

fn cluster(number: u64) -> String {
    format!("c{number}")
}

/// Returns the name of a placement that was renamed so many times.
fn named(number: u64, times: u64) -> String {
    if times == 0 { format!("p{number}") } else { format!("p{number}r{times}") }
}

/// Returns how people name the ResourcePlacement of a placement's namespace.
fn within(number: u64, name: &str) -> String {
    format!("rp/n{number}/{}", name.replacen('p', "q", 1))
}

impl Timeline {
    /// Begins with a fleet as the dice fall.
    pub fn begin(mut dice: Dice) -> Self {
        let mut timeline = Self {
            clusters: BTreeMap::new(),
            placements: BTreeMap::new(),
            objects: BTreeMap::new(),
            runs: BTreeMap::new(),
            overrides: BTreeMap::new(),
            overrides_of_b: BTreeMap::new(),
            bad_overrides: BTreeSet::new(),
            splits: BTreeSet::new(),
            has_tenant: false,
            roles: BTreeMap::new(),
            names: BTreeMap::new(),
            most_names: BTreeMap::new(),
            abandons: BTreeSet::new(),
            shares: BTreeSet::new(),
            approvers: BTreeMap::new(),
            keepers: &["ann"],
            evictions: BTreeSet::new(),
            past: Vec::new(),
            value: 0,
            commits: 0,
            parsed: BTreeMap::new(),
            dice: dice.clone(),
        };
        for number in 0..dice.between(2, CLUSTERS_MAX) {
            timeline.clusters.insert(number, Cluster::any(&mut dice));
        }
        for number in 0..dice.between(1, PLACEMENTS_MAX) {
            timeline.dice = dice.clone();
            let placement = timeline.placement();
            timeline.placements.insert(number, placement);
            dice = timeline.dice.clone();
            for object in 0..dice.between(1, 5) {
                timeline.value += 1;
                let kind = one_of(&mut dice, ["ConfigMap", "Deployment", "Deployment", "Job"]);
                let object_of =
                    Object { kind, value: timeline.value, never_on: BTreeSet::new(), refused_on: BTreeSet::new() };
                timeline.objects.insert((number, object), object_of);
            }
        }
        timeline.dice = dice;
        timeline
    }

    fn placement(&mut self) -> Placement {
        let dice = &mut self.dice;
        let policy = match dice.below(6) {
            0..3 => Policy::All,
            3 => Policy::Env(env(dice)),
            4 => Policy::Fixed((0..CLUSTERS_MAX).filter(|_| dice.chance(500)).chain([0]).collect()),
            _ => Policy::Number(dice.between(1, 4)),
        };
        let staged = dice.chance(400).then(|| Staged {
            max_concurrency: one_of(dice, ["1", "2", "2", "50%", "100%"]),
            after_first: one_of(dice, ["", "Approval", "TimedWait"]),
            before_second: dice.chance(300),
            has_third: dice.chance(300),
            in_no_stage: "Refuse",
            sorted: dice.chance(300),
            automatic: dice.chance(900),
            missing: dice.chance(30),
        });
        let mut placement = Placement {
            policy,
            staged,
            max_unavailable: dice.between(1, 2),
            max_surge: dice.between(1, 3),
            max_failures: one_of(dice, [None, None, Some("1"), Some("100%")]),
            deadline_s: dice.between(20, 300),
            guard_off: dice.chance(700),
            queue: dice.chance(200),
            history: dice.between(1, 10),
            rolls_back: dice.chance(300),
            reports_only: dice.chance(100),
        };
        if let Some(staged) = &mut placement.staged {
            // Without a throw, so that all other seeds stay as they are.
            staged.in_no_stage = match placement.deadline_s % 4 {
                0 => "Refuse",
                1 => "First",
                2 => "Last",
                _ => "Ignore",
            };
        }
        placement
    }

    /// Changes something, as the dice fall.
    pub fn change(&mut self) {
        let number = self.dice.below(CLUSTERS_MAX);
        let placement = self.dice.below(PLACEMENTS_MAX);
        match self.dice.below(26) {
            0..6 => self.write(placement),
            6..8 => self.break_something(placement),
            8 => self.repair(),
            9 => {
                if self.clusters.len() > 1 {
                    self.clusters.remove(&number);
                }
            }
            10 => {
                let cluster = Cluster::any(&mut self.dice);
                self.clusters.insert(number, cluster);
            }
            11 => {
                if let Some(cluster) = self.clusters.get_mut(&number) {
                    cluster.suspended = !cluster.suspended;
                }
            }
            12 => drop(self.placements.remove(&placement)),
            13..15 => {
                let new = self.placement();
                self.placements.insert(placement, new);
            }
            15 => {
                let key = (placement, self.dice.below(8));
                self.objects.remove(&key);
            }
            16 => {
                let key = (placement, self.dice.below(8));
                self.value += 1;
                let object = Object {
                    kind: "Deployment",
                    value: self.value,
                    never_on: BTreeSet::new(),
                    refused_on: BTreeSet::new(),
                };
                self.objects.insert(key, object);
            }
            17 => {
                if let Some(past) = self.dice.pick(&self.past).cloned() {
                    self.objects = past;
                }
            }
            18..20 => self.write_run(placement),
            20 => {
                self.value += 1;
                self.overrides.insert(placement, self.value);
            }
            21 => drop(self.overrides.remove(&placement)),
            22 => self.evict(placement, number),
            _ => {
                let (max_unavailable, max_surge) = (self.dice.between(1, 2), self.dice.between(1, 3));
                if let Some(placement) = self.placements.get_mut(&placement) {
                    (placement.max_unavailable, placement.max_surge) = (max_unavailable, max_surge);
                }
            }
        }
    }

    /// Returns what a placement is called.
    pub fn name(&self, number: u64) -> String {
        named(number, self.times(number))
    }

    /// Returns how often a placement was renamed.
    fn times(&self, number: u64) -> u64 {
        self.names.get(&number).copied().unwrap_or(0)
    }

    /// Returns the clusters that a placement was evicted from under the name that it has.
    fn evictions_of(&self, number: u64) -> impl Iterator<Item = u64> {
        let is_of = move |(of, _, times): &&(u64, u64, u64)| (*of, *times) == (number, self.times(number));
        self.evictions.iter().filter(is_of).map(|(_, from, _)| *from)
    }

    /// Returns what the ResourcePlacement in the namespace of one is called.
    fn within(&self, number: u64) -> String {
        self.name(number).replacen('p', "q", 1)
    }

    /// Returns what placements were ever called, as people name them.
    pub fn names(&self) -> Vec<String> {
        let later =
            self.most_names.iter().flat_map(|(number, times)| (1..=*times).map(|time| (*number, named(*number, time))));
        let own: Vec<(u64, String)> =
            (0..PLACEMENTS_MAX).map(|number| (number, format!("p{number}"))).chain(later).collect();
        let within = own.iter().map(|(number, name)| within(*number, name));
        own.iter().map(|(_, name)| name.clone()).chain(within).collect()
    }

    /// Returns whom a person names who means a placement: the one for what is in its namespace now and then.
    pub fn meant(&self, number: u64, is_within: bool) -> String {
        if is_within && self.splits.contains(&number) { within(number, &self.name(number)) } else { self.name(number) }
    }

    /// Lets some placements bring their Namespace alone, and others what is in it.
    pub fn split(&mut self, dice: &mut Dice) {
        self.splits = (0..PLACEMENTS_MAX).filter(|_| dice.chance(500)).collect();
    }

    /// Gives a placement another name; everything else stays as it is. Runs that somebody wrote for it are gone.
    pub fn rename(&mut self, number: u64) {
        if self.placements.contains_key(&number) {
            let times = self.names.entry(number).or_default();
            *times += 1;
            let most = self.most_names.entry(number).or_default();
            *most = (*most).max(*times);
            self.runs.remove(&number);
        }
    }

    /// Gives a placement its last name back.
    pub fn rename_back(&mut self, number: u64) {
        let Some(times) = self.names.get_mut(&number) else { return };
        *times -= 1;
        if *times == 0 {
            self.names.remove(&number);
        }
        self.runs.remove(&number);
    }

    /// Takes a placement away.
    pub fn remove(&mut self, number: u64) {
        self.placements.remove(&number);
    }

    /// Evicts a placement from a cluster.
    pub fn evict(&mut self, number: u64, from: u64) {
        self.evictions.insert((number, from, self.times(number)));
    }

    /// Names the clusters of a placement, all that there are but one.
    pub fn deselect(&mut self, number: u64, without: u64) {
        let rest = self.clusters.keys().copied().filter(|cluster| *cluster != without).collect();
        if let Some(placement) = self.placements.get_mut(&number) {
            placement.policy = Policy::Fixed(rest);
        }
    }

    /// Lets a placement leave its objects behind from now on, or not any more.
    pub fn abandon(&mut self, number: u64, is_so: bool) {
        let _: bool = if is_so { self.abandons.insert(number) } else { self.abandons.remove(&number) };
    }

    /// Lets a placement own objects together with somebody else, or not any more.
    pub fn share(&mut self, number: u64, is_so: bool) {
        let _: bool = if is_so { self.shares.insert(number) } else { self.shares.remove(&number) };
    }

    /// Gives some objects of a namespace new content.
    fn write(&mut self, namespace: u64) {
        for ((of, _), object) in &mut self.objects {
            if *of == namespace && self.dice.chance(600) {
                self.value += 1;
                object.value = self.value;
            }
        }
    }

    /// Gives most objects new content, and takes one away now and then.
    pub fn write_all(&mut self) {
        (0..PLACEMENTS_MAX).for_each(|namespace| self.write(namespace));
        let key = (self.dice.below(PLACEMENTS_MAX), self.dice.below(8));
        if self.dice.chance(500) {
            self.objects.remove(&key);
        }
    }

    /// Somebody writes a run, or lets it go or stop.
    fn write_run(&mut self, placement: u64) {
        let state = one_of(&mut self.dice, ["", "Run", "Initialize", "Stop"]);
        let index = self.dice.chance(300).then(|| self.dice.below(4));
        if self.dice.chance(500)
            && let Some(run) = self.runs.get_mut(&placement)
        {
            run.state = state;
            return;
        }
        self.value += 1;
        self.runs.insert(placement, Written { name: self.value, state, index });
    }

    /// Breaks the first object of a namespace on some clusters.
    pub fn break_something(&mut self, namespace: u64) {
        self.write(namespace);
        let on: BTreeSet<u64> = (0..CLUSTERS_MAX).filter(|_| self.dice.chance(400)).collect();
        let refused = self.dice.chance(400);
        if let Some((_, object)) = self.objects.iter_mut().find(|((of, _), _)| *of == namespace) {
            self.value += 1;
            object.value = self.value;
            *(if refused { &mut object.refused_on } else { &mut object.never_on }) = on;
        }
    }

    /// Repairs what is broken.
    pub fn repair(&mut self) {
        for object in self.objects.values_mut() {
            if !object.never_on.is_empty() || !object.refused_on.is_empty() {
                self.value += 1;
                object.value = self.value;
                object.never_on.clear();
                object.refused_on.clear();
            }
        }
    }

    /// Tells whether a fleet comes to rest with what the source says now.
    pub fn is_good(&self) -> bool {
        let is_whole = |object: &Object| object.never_on.is_empty() && object.refused_on.is_empty();
        let is_filled = |placement: &Placement| match &placement.policy {
            Policy::Fixed(fixed) => fixed.iter().all(|number| self.clusters.contains_key(number)),
            Policy::Number(count) => *count <= self.clusters.len() as u64,
            Policy::All | Policy::Env(_) => true,
        };
        let is_simple = |placement: &Placement| {
            let staged = placement.staged.as_ref();
            !placement.reports_only && staged.is_none_or(|staged| staged.automatic && !staged.missing)
        };
        let is_known = |cluster: &Cluster| !cluster.suspended && cluster.env != "c" && cluster.order != "x";
        self.runs.is_empty()
            && self.bad_overrides.is_empty()
            && self.placements.values().all(is_simple)
            && self.objects.values().all(is_whole)
            && self.clusters.values().all(is_known)
            && self.placements.values().all(is_filled)
    }

    /// The last commit: everything is new and good, and nobody is suspended.
    pub fn make_good(&mut self) {
        for object in self.objects.values_mut() {
            self.value += 1;
            object.value = self.value;
            object.never_on.clear();
            object.refused_on.clear();
        }
        for cluster in self.clusters.values_mut() {
            cluster.suspended = false;
            if cluster.env == "c" {
                cluster.env = "a";
            }
            if cluster.order == "x" {
                cluster.order = "0";
            }
        }
        self.runs.clear();
        self.bad_overrides.clear();
        for placement in self.placements.values_mut() {
            placement.reports_only = false;
            let Some(staged) = &mut placement.staged else { continue };
            staged.missing = false;
            // A run that somebody writes leaves clusters out that join later.
            staged.automatic = true;
        }
        // A place that cannot be filled counts as unavailable, and may leave no room for any move.
        let known: BTreeSet<u64> = self.clusters.keys().copied().collect();
        for placement in self.placements.values_mut() {
            match &mut placement.policy {
                Policy::Fixed(fixed) => fixed.clone_from(&known),
                Policy::Number(count) => *count = (*count).min(known.len() as u64),
                Policy::All | Policy::Env(_) => {}
            }
        }
    }

    /// Returns the source as a commit, and what it asks for. Now and then it has an error, and no tree.
    pub fn commit(
        &mut self,
        may_be_bad: bool,
    ) -> (CommitId, Result<Arc<Tree>, Vec<model::manifest::InputError>>, Wish) {
        self.commits += 1;
        self.past.push(self.objects.clone());
        let id = CommitId::new(format!("{:08x}", self.commits));
        let mut files = self.files();
        if may_be_bad && self.dice.chance(50) {
            files.push(("broken.yaml".to_owned(), "apiVersion: v1\nkind: [".to_owned()));
        }
        for (_, text) in &files {
            if !self.parsed.contains_key(text) {
                let id = BlobId::new(format!("b{}", self.parsed.len()));
                self.parsed.insert(text.clone(), (id, Arc::new(source::parse_blob(text.as_bytes()))));
            }
        }
        let selection = source::select(files.iter().map(|(path, _)| path.as_str()), None);
        let blobs = files.iter().map(|(path, text)| {
            let (id, parsed) = &self.parsed[text];
            (Arc::from(path.as_str()), id.clone(), Arc::clone(parsed))
        });
        let tree = source::assemble(Some(id.clone()), &selection, blobs).map(Arc::new);
        let wish = self.wish(tree.as_ref().ok().map(AsRef::as_ref));
        (id, tree, wish)
    }

    fn wish(&self, tree: Option<&Tree>) -> Wish {
        let clusters = self.clusters.keys().map(|number| ClusterName::new(cluster(*number))).collect();
        let labels = self.clusters.iter();
        let labels =
            labels.map(|(number, of)| (ClusterName::new(cluster(*number)), format!("{} {}", of.env, of.order)));
        let suspended = self.clusters.iter().filter(|(_, of)| of.suspended);
        let suspended = suspended.map(|(number, _)| ClusterName::new(cluster(*number))).collect();
        let mut placements = BTreeMap::new();
        for (number, placement) in &self.placements {
            let those = |keep: &dyn Fn(u64, &Cluster) -> bool| {
                let kept = self.clusters.iter().filter(|(number, cluster)| keep(**number, cluster));
                kept.map(|(number, _)| ClusterName::new(cluster(*number))).collect::<BTreeSet<_>>()
            };
            let who = match &placement.policy {
                Policy::All => Who::Exactly(those(&|_, _| true)),
                Policy::Env(env) => Who::AtLeast(those(&|_, cluster| cluster.env == *env)),
                Policy::Fixed(fixed) => Who::Exactly(those(&|number, _| fixed.contains(&number))),
                Policy::Number(count) => Who::So(usize::try_from(*count).unwrap_or(0).min(self.clusters.len())),
            };
            let namespace = format!("n{number}");
            let roles: Vec<String> = self.roles_of(*number).map(|(role, _)| role_name(role)).collect();
            let is_split = self.splits.contains(number);
            let is_selected = |key: &ObjectKey| {
                key.namespace == namespace && !is_split
                    || key.kind == "Namespace" && key.name == namespace
                    || key.kind == "ClusterRole" && roles.iter().any(|role| key.name == *role)
            };
            let manifests = || tree.into_iter().flat_map(|tree| &tree.manifests);
            let within = manifests().filter(|m| is_split && m.id.namespace == *namespace).map(snapshot::sanitised);
            let within: Vec<Manifest> = within.collect();
            let manifests: Vec<Manifest> =
                manifests().filter(|m| is_selected(&m.id.key())).map(snapshot::sanitised).collect();
            let digests = |manifests: &[Manifest]| -> BTreeMap<ObjectKey, Digest> {
                manifests.iter().map(|manifest| (manifest.id.key(), snapshot::object_digest(manifest))).collect()
            };
            let objects = digests(&manifests);
            let patched = |manifests: &[Manifest], value: u64| {
                let patched = manifests.iter().map(|manifest| {
                    let mut manifest = manifest.clone();
                    if manifest.id.kind != "ClusterRole" {
                        Arc::make_mut(&mut manifest.object)["metadata"]["labels"] = json!({"v": format!("v{value}")});
                    }
                    manifest
                });
                digests(&patched.collect::<Vec<_>>())
            };
            let overridden_in = |manifests: &[Manifest]| -> BTreeMap<ClusterName, BTreeMap<ObjectKey, Digest>> {
                let values = [("a", self.overrides.get(number)), ("b", self.overrides_of_b.get(number))];
                let of_envs = values.into_iter().filter_map(|(env, value)| Some((env, patched(manifests, *value?))));
                let of_env = |(env, objects): (&'static str, BTreeMap<ObjectKey, Digest>)| {
                    let clusters = those(&|_, cluster| cluster.env == env);
                    clusters.into_iter().map(move |cluster| (cluster, objects.clone()))
                };
                of_envs.flat_map(of_env).collect()
            };
            // Evictions name a placement as it was called then.
            let evicted = self.evictions_of(*number).map(|of| ClusterName::new(cluster(of)));
            let want = Want {
                objects,
                who,
                overridden: overridden_in(&manifests),
                rules: [self.overrides.get(number).copied(), self.overrides_of_b.get(number).copied()],
                evicted: evicted.collect(),
                shares: self.shares.contains(number),
                reports: placement.reports_only,
                failing: self.bad_overrides.contains(number),
                approvers: self.named(*number, placement),
            };
            if is_split {
                let objects = digests(&within);
                let overridden = overridden_in(&within);
                let of_namespace = Want { objects, overridden, evicted: BTreeSet::new(), ..want.clone() };
                placements.insert(PlacementKey::namespaced(&namespace, self.within(*number)), of_namespace);
            }
            placements.insert(PlacementKey::cluster_scoped(self.name(*number)), want);
        }
        Wish {
            clusters,
            labels: labels.collect(),
            suspended,
            placements,
            is_good: tree.is_some(),
            number: self.commits,
        }
    }
}

impl Timeline {
    /// Returns which list of approvers the strategy of a placement has.
    fn list(&self, number: u64) -> u64 {
        self.approvers.get(&number).map_or(0, |(now, _)| *now)
    }

    /// Returns that list, as people write it.
    fn list_text(&self, number: u64) -> Option<String> {
        let list = |kind: &str, people: &[&str]| {
            let entries: Vec<String> = people.iter().map(|name| format!("{kind}:{name}")).collect();
            Some(entries.join(", "))
        };
        match self.list(number) {
            0 => None,
            1 => list("token", self.keepers),
            BOTH => list("user", &["ann", "bob"]),
            _ => list("user", &["ann", "bob", "cyd"]),
        }
    }

    /// Returns whom the strategy of a placement names. One that it does not name itself may have none for it.
    fn named(&self, number: u64, placement: &Placement) -> Named {
        let has_it = placement.staged.as_ref().is_some_and(|staged| staged.automatic && !staged.missing);
        match self.list_text(number) {
            _ if !has_it => Named::Unknown,
            None => Named::Everybody,
            Some(list) => Named::Only(list),
        }
    }

    /// Returns the ClusterRoles that a placement selects, with their values.
    fn roles_of(&self, placement: u64) -> impl Iterator<Item = (u64, u64)> {
        let roles = self.roles.iter().filter(move |(_, (of, _))| *of == placement);
        roles.map(|(role, (_, value))| (*role, *value))
    }
}

fn role_name(role: u64) -> String {
    format!("role{role}")
}

impl Cluster {
    fn any(dice: &mut Dice) -> Self {
        let order = if dice.chance(20) { "x" } else { one_of(dice, ["1", "2", "3"]) };
        let env = if dice.chance(30) { "c" } else { env(dice) };
        Self { env, suspended: false, order }
    }
}

fn env(dice: &mut Dice) -> &'static str {
    if dice.chance(500) { "a" } else { "b" }
}

/// Decides how an object turns out, as its annotations say.
pub fn fate(cluster: &ClusterName, desired: &Desired) -> Fate {
    let is_on = |annotation: &str| {
        let named = desired.object.pointer("/metadata/annotations").and_then(|all| all.get(annotation)?.as_str());
        named.unwrap_or_default().split('.').any(|name| name == cluster.as_str())
    };
    match (is_on(REFUSED_ON), is_on(NEVER_ON)) {
        (true, _) => Fate::Refused,
        (_, true) => Fate::NeverAvailable,
        _ => Fate::Good,
    }
}

/// Throws for one of several.
fn one_of<T: Copy, const N: usize>(dice: &mut Dice, all: [T; N]) -> T {
    let at = usize::try_from(dice.below(N as u64)).expect("it is below the number of them");
    all[at]
}
