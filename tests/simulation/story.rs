//! What happens in a seed: a small fleet in git that changes, and everything that goes wrong meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use gitfleet::engine::simulation::{Dice, Fate};
use gitfleet::model::id::{BlobId, ClusterName, CommitId, ObjectKey, PlacementKey};
use gitfleet::model::tree::Tree;
use gitfleet::model::work::Desired;
use gitfleet::snapshot;
use gitfleet::source::{self, ParsedBlob};

use super::check::{Want, Who, Wish};

/// Names the clusters on which an object is never available, or refused, joined by dots.
const NEVER_ON: &str = "example.org/never-on";
const REFUSED_ON: &str = "example.org/refused-on";
/// Clusters that a fleet may have.
pub const CLUSTERS_MAX: u64 = 6;
/// Placements that a fleet may have.
pub const PLACEMENTS_MAX: u64 = 3;

/// A cluster as git has it.
#[derive(Clone)]
struct Cluster {
    env: &'static str,
    suspended: bool,
}

/// A placement as git has it.
#[derive(Clone)]
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
}

#[derive(Clone)]
enum Policy {
    All,
    Env(&'static str),
    Fixed(BTreeSet<u64>),
    Number(u64),
}

#[derive(Clone)]
struct Staged {
    max_concurrency: u64,
    after_first: &'static str,
    before_second: bool,
}

#[derive(Clone)]
struct Object {
    kind: &'static str,
    value: u64,
    never_on: BTreeSet<u64>,
    refused_on: BTreeSet<u64>,
}

/// The source as people write it.
pub struct Story {
    pub dice: Dice,
    clusters: BTreeMap<u64, Cluster>,
    placements: BTreeMap<u64, Placement>,
    /// By namespace and number.
    objects: BTreeMap<(u64, u64), Object>,
    value: u64,
    commits: u64,
    /// By text, with the blob's id.
    parsed: BTreeMap<String, (BlobId, Arc<ParsedBlob>)>,
}

fn cluster(number: u64) -> String {
    format!("c{number}")
}

impl Story {
    /// Begins with a fleet as the dice fall.
    pub fn begin(mut dice: Dice) -> Self {
        let mut story = Self {
            clusters: BTreeMap::new(),
            placements: BTreeMap::new(),
            objects: BTreeMap::new(),
            value: 0,
            commits: 0,
            parsed: BTreeMap::new(),
            dice: dice.clone(),
        };
        for number in 0..dice.between(2, CLUSTERS_MAX) {
            story.clusters.insert(number, Cluster { env: env(&mut dice), suspended: false });
        }
        for number in 0..dice.between(1, PLACEMENTS_MAX) {
            story.dice = dice.clone();
            let placement = story.placement();
            story.placements.insert(number, placement);
            dice = story.dice.clone();
            for object in 0..dice.between(1, 5) {
                story.value += 1;
                let kind = one_of(&mut dice, ["ConfigMap", "Deployment", "Deployment", "Job"]);
                let object_of =
                    Object { kind, value: story.value, never_on: BTreeSet::new(), refused_on: BTreeSet::new() };
                story.objects.insert((number, object), object_of);
            }
        }
        story.dice = dice;
        story
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
            max_concurrency: dice.between(1, 2),
            after_first: one_of(dice, ["", "Approval", "TimedWait"]),
            before_second: dice.chance(300),
        });
        Placement {
            policy,
            staged,
            max_unavailable: dice.between(1, 2),
            max_surge: dice.between(1, 3),
            max_failures: one_of(dice, [None, None, Some("1"), Some("100%")]),
            deadline_s: dice.between(20, 300),
            guard_off: dice.chance(700),
            queue: dice.chance(200),
            history: dice.between(1, 10),
        }
    }

    /// Changes something, as the dice fall.
    pub fn change(&mut self) {
        let number = self.dice.below(CLUSTERS_MAX);
        let placement = self.dice.below(PLACEMENTS_MAX);
        match self.dice.below(20) {
            0..6 => self.write(placement),
            6..8 => self.break_something(placement),
            8 => self.mend(),
            9 => {
                if self.clusters.len() > 1 {
                    self.clusters.remove(&number);
                }
            }
            10 => {
                let env = env(&mut self.dice);
                self.clusters.insert(number, Cluster { env, suspended: false });
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
            _ => {
                let (max_unavailable, max_surge) = (self.dice.between(1, 2), self.dice.between(1, 3));
                if let Some(placement) = self.placements.get_mut(&placement) {
                    (placement.max_unavailable, placement.max_surge) = (max_unavailable, max_surge);
                }
            }
        }
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

    fn break_something(&mut self, namespace: u64) {
        self.write(namespace);
        let on: BTreeSet<u64> = (0..CLUSTERS_MAX).filter(|_| self.dice.chance(400)).collect();
        let refused = self.dice.chance(400);
        if let Some((_, object)) = self.objects.iter_mut().find(|((of, _), _)| *of == namespace) {
            self.value += 1;
            object.value = self.value;
            *(if refused { &mut object.refused_on } else { &mut object.never_on }) = on;
        }
    }

    fn mend(&mut self) {
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
        self.objects.values().all(is_whole)
            && self.clusters.values().all(|cluster| !cluster.suspended)
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
    ) -> (CommitId, Result<Arc<Tree>, Vec<gitfleet::model::manifest::InputError>>, Wish) {
        self.commits += 1;
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

    fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (number, Cluster { env, suspended }) in &self.clusters {
            let name = cluster(*number);
            let text = format!(
                "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {name}\n  \
                 labels: {{env: {env}}}\n  annotations: {{gitfleet.io/suspended: '{suspended}'}}\nspec: {{}}\n"
            );
            files.push((format!("clusters/{name}.yaml"), text));
        }
        for (number, placement) in &self.placements {
            files.push((format!("placements/p{number}.yaml"), placement.text(*number)));
            files.extend(
                placement.staged.as_ref().map(|staged| (format!("strategies/s{number}.yaml"), staged.text(*number))),
            );
        }
        for namespace in 0..PLACEMENTS_MAX {
            let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n{namespace}}}\n");
            for ((_, number), object) in self.objects.range((namespace, 0)..(namespace + 1, 0)) {
                text.push_str(&object.text(namespace, *number));
            }
            files.push((format!("payload/n{namespace}.yaml"), text));
        }
        files
    }

    fn wish(&self, tree: Option<&Tree>) -> Wish {
        let clusters = self.clusters.keys().map(|number| ClusterName::new(cluster(*number))).collect();
        let mut placements = BTreeMap::new();
        for (number, placement) in &self.placements {
            let named = |keep: &dyn Fn(u64, &Cluster) -> bool| {
                let kept = self.clusters.iter().filter(|(number, cluster)| keep(**number, cluster));
                kept.map(|(number, _)| ClusterName::new(cluster(*number))).collect::<BTreeSet<_>>()
            };
            let who = match &placement.policy {
                Policy::All => Who::Exactly(named(&|_, _| true)),
                Policy::Env(env) => Who::AtLeast(named(&|_, cluster| cluster.env == *env)),
                Policy::Fixed(fixed) => Who::Exactly(named(&|number, _| fixed.contains(&number))),
                Policy::Number(count) => Who::So(usize::try_from(*count).unwrap_or(0).min(self.clusters.len())),
            };
            let namespace = format!("n{number}");
            let is_selected =
                |key: &ObjectKey| key.namespace == namespace || key.kind == "Namespace" && key.name == namespace;
            let manifests = tree.into_iter().flat_map(|tree| &tree.manifests);
            let objects = manifests
                .filter(|manifest| is_selected(&manifest.id.key()))
                .map(|manifest| (manifest.id.key(), snapshot::object_digest(&snapshot::sanitised(manifest))));
            let want = Want { objects: objects.collect(), who };
            placements.insert(PlacementKey::cluster_scoped(format!("p{number}")), want);
        }
        Wish { clusters, placements, is_good: tree.is_some(), number: self.commits }
    }
}

impl Placement {
    fn text(&self, number: u64) -> String {
        let policy = match &self.policy {
            Policy::All => "{placementType: PickAll}".to_owned(),
            Policy::Env(env) => format!(
                "{{placementType: PickAll, affinity: {{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
                 {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{env: {env}}}}}}}]}}}}}}}}"
            ),
            Policy::Fixed(fixed) => {
                let names: Vec<String> = fixed.iter().map(|number| cluster(*number)).collect();
                format!("{{placementType: PickFixed, clusterNames: [{}]}}", names.join(", "))
            }
            Policy::Number(count) => format!("{{placementType: PickN, numberOfClusters: {count}}}"),
        };
        let mut annotations = format!("gitfleet.io/progress-deadline: {}s", self.deadline_s);
        if let Some(max) = self.max_failures {
            write!(annotations, ", gitfleet.io/max-failures: '{max}'").expect("a String takes it");
        }
        if self.guard_off {
            annotations.push_str(", gitfleet.io/deletion-guard: 'Off'");
        }
        let strategy = if self.staged.is_some() {
            write!(annotations, ", gitfleet.io/staged-update-strategy: s{number}").expect("a String takes it");
            if self.queue {
                annotations.push_str(", gitfleet.io/when-superseded: Queue");
            }
            "{type: External}".to_owned()
        } else {
            format!(
                "{{type: RollingUpdate, rollingUpdate: {{maxUnavailable: {}, maxSurge: {}, unavailablePeriodSeconds: 5}}}}",
                self.max_unavailable, self.max_surge
            )
        };
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: p{number}\n  \
             annotations: {{{annotations}}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: \
             n{number}}}]\n  policy: {policy}\n  strategy: {strategy}\n  revisionHistoryLimit: {}\n",
            self.history
        )
    }
}

impl Staged {
    fn text(&self, number: u64) -> String {
        let after = match self.after_first {
            "" => String::new(),
            "TimedWait" => "\n      afterStageTasks: [{type: TimedWait, waitTime: 30s}]".to_owned(),
            type_ => format!("\n      afterStageTasks: [{{type: {type_}}}]"),
        };
        let before = if self.before_second { "\n      beforeStageTasks: [{type: Approval}]" } else { "" };
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: s{number}}}\n\
             spec:\n  stages:\n    - name: first\n      maxConcurrency: {max}\n      labelSelector: {{matchLabels: {{env: a}}}}{after}\n    \
             - name: second\n      maxConcurrency: {max}\n      labelSelector: {{matchLabels: {{env: b}}}}{before}\n",
            max = self.max_concurrency
        )
    }
}

impl Object {
    fn text(&self, namespace: u64, number: u64) -> String {
        let on = |clusters: &BTreeSet<u64>| clusters.iter().map(|n| cluster(*n)).collect::<Vec<_>>().join(".");
        let (version, body) = match self.kind {
            "ConfigMap" => ("v1", format!("data: {{v: '{}'}}", self.value)),
            "Job" => ("batch/v1", format!("spec: {{backoffLimit: {}}}", self.value)),
            _ => ("apps/v1", format!("spec: {{replicas: {}}}", 1 + self.value)),
        };
        format!(
            "---\napiVersion: {version}\nkind: {}\nmetadata: {{name: o{number}, namespace: n{namespace}, annotations: \
             {{{NEVER_ON}: '{}', {REFUSED_ON}: '{}'}}}}\n{body}\n",
            self.kind,
            on(&self.never_on),
            on(&self.refused_on),
        )
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
