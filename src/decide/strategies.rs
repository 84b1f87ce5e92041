//! Staged update strategies and runs of a commit: pure.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use model::api::annotations::{APPROVERS, CLUSTERS_IN_NO_STAGE, InNoStage};
use model::api::object::{Object, without_nulls};
use model::api::stage_checks;
use model::api::stage_checks::StageChecks;
use model::api::staged::{StagedUpdateRunSpec, StagedUpdateStrategySpec};
use model::api::table::PLACEMENT_GROUP;
use model::id::PlacementKey;
use model::manifest::{InputError, Manifest, Origin};
use model::tree::Tree;
use model::yaml;

/// Strategies by namespace (absent for cluster-scoped ones) and name, and runs by the placement they move.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Staged {
    strategies: BTreeMap<(Option<String>, String), Strategy>,
    runs: BTreeMap<PlacementKey, BTreeMap<String, WrittenRun>>,
    /// The placement that each run moves, by namespace and name of the run.
    moved_by: BTreeMap<(Option<String>, String), PlacementKey>,
}

/// A ClusterStagedUpdateStrategy or StagedUpdateStrategy.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// Its stages.
    pub spec: StagedUpdateStrategySpec,
    /// Who may approve, by its annotation; absent means no restriction.
    pub approvers: Option<String>,
    /// What becomes of picked clusters in no stage, by its annotation.
    pub in_no_stage: InNoStage,
    /// The checks of its stages, by its annotation.
    pub checks: StageChecks,
}

/// A ClusterStagedUpdateRun or StagedUpdateRun in git.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenRun {
    /// Its spec.
    pub spec: StagedUpdateRunSpec,
    /// Where it stands.
    pub origin: Origin,
}

impl Staged {
    /// Collects those of a commit.
    pub fn of(tree: &Tree) -> Self {
        let mut staged = Self::default();
        for manifest in tree.inputs.iter().filter(|manifest| manifest.id.group == PLACEMENT_GROUP) {
            let namespace = Some(manifest.id.namespace.clone()).filter(|namespace| !namespace.is_empty());
            let name = manifest.id.name.clone();
            match manifest.id.kind.as_str() {
                "ClusterStagedUpdateStrategy" | "StagedUpdateStrategy" => {
                    let Some(object) = read_object::<StagedUpdateStrategySpec>(manifest) else { continue };
                    let annotations = object.metadata.annotations;
                    let strategy = Strategy {
                        spec: object.spec,
                        approvers: annotations.get(APPROVERS).cloned(),
                        in_no_stage: InNoStage::of(annotations.get(CLUSTERS_IN_NO_STAGE).map(String::as_str)),
                        checks: stage_checks::parse(&annotations).unwrap_or_default(),
                    };
                    staged.strategies.insert((namespace, name), strategy);
                }
                "ClusterStagedUpdateRun" | "StagedUpdateRun" => {
                    let Some(spec) = read::<StagedUpdateRunSpec>(manifest) else { continue };
                    let placement = PlacementKey { namespace, name: spec.placement_name.clone() };
                    let run = WrittenRun { spec, origin: manifest.origin.clone() };
                    let scoped = (placement.namespace.clone(), name.clone());
                    staged.moved_by.insert(scoped, placement.clone());
                    staged.runs.entry(placement).or_default().insert(name, run);
                }
                _ => {}
            }
        }
        staged
    }

    /// Returns a strategy that a placement can use by its name: in its namespace, or cluster-scoped.
    pub fn strategy(&self, placement: &PlacementKey, name: &str) -> Option<&Strategy> {
        self.strategies.get(&(placement.namespace.clone(), name.to_owned()))
    }

    /// Returns the servers that checks name.
    pub fn metric_servers(&self) -> impl Iterator<Item = &str> {
        let checks = self.strategies.values().flat_map(|strategy| strategy.checks.values());
        checks.flat_map(|checks| &checks.metrics).filter_map(|metric| metric.server.as_deref())
    }

    /// Returns complaints about runs that name a placement which the commit does not have.
    pub fn orphans<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = InputError> + 'a {
        let orphans = self.runs.iter().filter(|(placement, _)| !tree.placements.contains_key(placement));
        let named = orphans.flat_map(|(placement, runs)| runs.iter().map(move |(name, run)| (placement, name, run)));
        named.map(|(placement, name, run)| InputError {
            path: run.origin.path.to_string(),
            line: run.origin.line,
            object: None,
            field: None,
            message: format!(
                "the run {name} names the {} {placement}, which the source does not have, and never begins",
                placement.kind()
            ),
            hint: Some("add the placement, or remove the run".to_owned()),
        })
    }

    /// Tells whether the commit has a run of a name in a placement's scope that moves another placement.
    pub fn writes_beside(&self, placement: &PlacementKey, name: &str) -> bool {
        let moved = self.moved_by.get(&(placement.namespace.clone(), name.to_owned()));
        moved.is_some_and(|moved| moved != placement)
    }

    /// Returns the runs that name a placement, by name.
    pub fn runs(&self, placement: &PlacementKey) -> impl Iterator<Item = (&String, &WrittenRun)> {
        self.runs.get(placement).into_iter().flatten()
    }
}

/// Reads a document of a tree, which was checked.
pub(super) fn read<S: DeserializeOwned>(manifest: &Manifest) -> Option<S> {
    read_object(manifest).map(|object| object.spec)
}

fn read_object<S: DeserializeOwned>(manifest: &Manifest) -> Option<Object<S>> {
    yaml::typed(&without_nulls(&manifest.object)).ok()
}
