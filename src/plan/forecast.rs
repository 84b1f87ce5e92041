//! Predicts the times of one staged run, for the page: `gitfleet simulate` with the run's placement and clusters alone. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::simulate::scenario::{Scenario, simulate};
use decide::snapshot;
use model::api::annotations::{DEFAULT_NAMESPACE, PATH};
use model::api::envelope::is_envelope;
use model::api::placement::{PlacementPolicy, PlacementType};
use model::id::{ClusterName, PlacementKey};
use model::manifest::Manifest;
use model::runs::RunRecord;
use model::tree::Tree;
use views::simulation::SimulatedRun;

/// Clusters of a run that are simulated: a page waits for the answer.
const CLUSTERS_MAX: usize = 100;
/// Objects that are simulated on all clusters of a run together.
const OBJECTS_MAX: usize = 1_000;

/// Returns the run as the simulation predicts it, from clusters that hold nothing. `None` where the tree has another placement or other
/// stages by now, or there is more than `CLUSTERS_MAX` and `OBJECTS_MAX` allow.
pub fn forecast(tree: &Tree, run: &RunRecord) -> Option<SimulatedRun> {
    let clusters: BTreeSet<&ClusterName> =
        run.stages.iter().flat_map(|stage| &stage.clusters).map(|c| &c.name).collect();
    if clusters.is_empty() || clusters.len() > CLUSTERS_MAX {
        return None;
    }
    let head = narrowed(tree, &run.placement, &clusters)?;
    if head.manifests.len() * clusters.len() > OBJECTS_MAX {
        return None;
    }
    let placements = [run.placement.clone()].into();
    let simulated = simulate(&Scenario::undisturbed(None, Arc::new(head), placements));
    let mut runs = simulated.placements.into_iter().flat_map(|placement| placement.runs);
    runs.rfind(|predicted| is_of(predicted, run))
}

/// Tells whether a predicted run has the stages of a real one.
fn is_of(predicted: &SimulatedRun, run: &RunRecord) -> bool {
    let stages = predicted.stages.iter().map(|stage| (&stage.name, stage.max_concurrency, stage.clusters.len()));
    let wanted = run.stages.iter().map(|stage| (&stage.name, stage.max_concurrency, stage.clusters.len()));
    predicted.strategy == run.strategy && stages.eq(wanted)
}

/// Returns a tree with this placement, its objects and these clusters. A fixed policy picks them: the real decision used facts that no
/// tree has.
fn narrowed(tree: &Tree, key: &PlacementKey, clusters: &BTreeSet<&ClusterName>) -> Option<Tree> {
    let mut placement = tree.placements.get(key)?.clone();
    let mut head = Tree::default();
    let mut objects = snapshot::select(tree, &placement).ok()?;
    // They are all of its folder and in their namespaces.
    placement.annotations.retain(|key, _| key != PATH && key != DEFAULT_NAMESPACE);
    // Selectors of a ResourcePlacement name objects one by one: each must be there.
    if key.namespace.is_none() {
        thin_out(&mut objects);
    }
    head.set_manifests(objects);
    placement.spec.policy = Some(PlacementPolicy {
        placement_type: PlacementType::PickFixed,
        cluster_names: clusters.iter().map(ToString::to_string).collect(),
        ..PlacementPolicy::default()
    });
    head.commit.clone_from(&tree.commit);
    head.placements = [(key.clone(), placement)].into();
    let named = tree.clusters.iter().filter(|(name, _)| clusters.contains(name));
    head.clusters = named.map(|(name, cluster)| (name.clone(), cluster.clone())).collect();
    head.scopes.clone_from(&tree.scopes);
    head.inputs.clone_from(&tree.inputs);
    Some(head)
}

/// Drops objects that take no time of their own: those of one kind are written together, and become available together.
fn thin_out(objects: &mut Vec<Manifest>) {
    let mut kinds = BTreeSet::new();
    objects.retain(|manifest| {
        let id = &manifest.id;
        // An envelope holds objects of other kinds.
        let is_needed = id.namespace.is_empty() || is_envelope(&manifest.object);
        kinds.insert((id.group.clone(), id.kind.clone())) || is_needed
    });
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use model::runs::ClusterPhase;
    use testkit::records::run_in_production;
    use testkit::trees::{member, payload, placement, tree};
    use views::simulation::Offset;

    const STAGES: [(&str, &[&str], &str); 3] = [
        ("staging", &["east"], ", afterStageTasks: [{type: TimedWait, waitTime: 10m}]"),
        ("canary", &["north", "south"], ", afterStageTasks: [{type: Approval}]"),
        ("production", &["west"], ""),
    ];

    /// The tree of the run of the fixtures, in which another placement and another cluster stand beside it.
    fn files(more: &str) -> Arc<Tree> {
        let mut text = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
                        metadata: {name: three-stages}\nspec:\n  stages:\n"
            .to_owned();
        for (stage, _, tasks) in STAGES {
            writeln!(text, "    - {{name: {stage}, labelSelector: {{matchLabels: {{stage: {stage}}}}}{tasks}}}")
                .expect("a String");
        }
        let mut members = member("elsewhere", "labels: {stage: staging}");
        for (stage, clusters, _) in STAGES {
            members.extend(clusters.iter().map(|cluster| member(cluster, &format!("labels: {{stage: {stage}}}"))));
        }
        let staged = "gitfleet.io/staged-update-strategy: three-stages";
        let placements =
            placement("web", staged, &format!(", strategy: {{type: External}}{more}")) + &placement("other", "", "");
        tree(&[
            ("members.yaml", &members),
            ("strategy.yaml", &text),
            ("objects.yaml", &payload("1")),
            ("p.yaml", &placements),
        ])
    }

    #[test]
    fn a_run_takes_what_simulate_says_of_its_stages() {
        let run = run_in_production();
        let predicted =
            forecast(&files(", policy: {placementType: PickN, numberOfClusters: 1}"), &run).expect("it is simulated");
        let spans: Vec<_> =
            predicted.stages.iter().map(|stage| (stage.name.as_str(), stage.started_at, stage.ended_at)).collect();
        let at = |millis| Some(Offset(millis));
        // A cluster takes ten writes of 100 ms, and an approval comes 5 minutes after it is asked for.
        let wanted = [
            ("staging", at(0), at(601_000)),
            ("canary", at(601_000), at(903_000)),
            ("production", at(903_000), at(904_000)),
        ];
        assert_eq!(spans, wanted);
        let clusters = predicted.stages.iter().flat_map(|stage| &stage.clusters);
        assert!(clusters.clone().all(|cluster| cluster.outcome == ClusterPhase::Succeeded), "{predicted:?}");
        assert_eq!(clusters.count(), 4, "where the placement is was decided before: {predicted:?}");
    }

    #[test]
    fn only_the_first_object_of_a_kind_takes_time() {
        let one = files("");
        let more = (0..40).map(|number| payload("1").replace("name: m,", &format!("name: m-{number},")));
        let more: Vec<String> = more.map(|text| text.split_once("---\n").expect("two objects").1.to_owned()).collect();
        let mut many = Tree::clone(&one);
        let more = tree(&[("more.yaml", &more.concat())]);
        many.set_manifests(one.manifests.iter().chain(&more.manifests).cloned().collect());
        let run = run_in_production();
        assert_eq!(many.manifests.len(), one.manifests.len() + 40);
        assert_eq!(forecast(&many, &run), forecast(&one, &run));
        let clusters = run.stages.iter().flat_map(|stage| &stage.clusters).map(|cluster| &cluster.name).collect();
        let narrow = narrowed(&many, &run.placement, &clusters).expect("it is there");
        assert_eq!((narrow.manifests.len(), narrow.clusters.len()), (one.manifests.len(), 4));
    }

    #[test]
    fn a_run_of_other_stages_or_of_too_many_clusters_is_not_predicted() {
        let tree = files("");
        let mut other = run_in_production();
        other.stages[1].max_concurrency += 1;
        let mut gone = run_in_production();
        gone.placement = PlacementKey::cluster_scoped("gone");
        let mut without = run_in_production();
        without.stages.iter_mut().for_each(|stage| stage.clusters.clear());
        let mut large = run_in_production();
        let cluster = large.stages[0].clusters[0].clone();
        large.stages[0].clusters = (0..=CLUSTERS_MAX)
            .map(|number| model::runs::RunCluster { name: ClusterName::new(format!("c-{number}")), ..cluster.clone() })
            .collect();
        for run in [other, gone, without, large] {
            assert_eq!(forecast(&tree, &run), None);
        }
    }
}
