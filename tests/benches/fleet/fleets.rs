//! Made-up commits: members in three stages, placements with a namespace of objects each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use config::Configuration;
use model::id::{BlobId, CommitId, PlacementKey};
use model::tree::Tree;

/// How a placement's clusters move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// A rolling update with so many percent unavailable; what is applied is available at once.
    Rolling(u8),
    /// Staged update runs that begin with every snapshot: three stages, half of the clusters at once.
    Staged,
}

/// A fleet and what is placed on all of it.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Members, of three stages: a tenth, three tenths, the others.
    pub clusters: usize,
    /// Placements, each taking every cluster.
    pub placements: usize,
    /// Objects of a placement, its namespace included.
    pub objects: usize,
    /// How they move.
    pub strategy: Strategy,
}

impl Plan {
    /// Returns a commit whose objects hold a value.
    pub fn commit(&self, value: usize) -> Arc<Tree> {
        let mut files = vec![("strategy.yaml".to_owned(), STAGES.to_owned())];
        files.extend((0..self.clusters).map(|number| (format!("members/{number}.yaml"), self.member(number))));
        for number in 0..self.placements {
            files.push((format!("placements/{number}.yaml"), self.placement(number)));
            files.push((format!("payload/{number}.yaml"), self.payload(number, value)));
        }
        files.sort();
        let selection = source::select(files.iter().map(|(path, _)| path.as_str()), None);
        let blob = |(path, text): &(String, String)| {
            (Arc::from(path.as_str()), BlobId::new(text.as_str()), Arc::new(source::parse_blob(text.as_bytes())))
        };
        let commit = CommitId::new(format!("{value:040x}"));
        Arc::new(source::assemble(Some(commit), &selection, files.iter().map(blob)).expect("the fleet has no errors"))
    }

    fn member(&self, number: usize) -> String {
        let stage = match number * 10 / self.clusters {
            0 => "one",
            1..=3 => "two",
            _ => "three",
        };
        format!(
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\n\
             metadata: {{name: member-{number:05}, labels: {{stage: {stage}}}}}\nspec: {{}}\n"
        )
    }

    fn placement(&self, number: usize) -> String {
        let (annotations, strategy) = match self.strategy {
            Strategy::Rolling(percent) => (
                String::new(),
                format!(
                    "{{type: RollingUpdate, rollingUpdate: {{maxUnavailable: {percent}%, unavailablePeriodSeconds: 0}}}}"
                ),
            ),
            Strategy::Staged => {
                (", annotations: {gitfleet.io/staged-update-strategy: s}".to_owned(), "{type: External}".to_owned())
            }
        };
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\n\
             metadata: {{name: p{number}{annotations}}}\nspec:\n  \
             resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: n{number}}}]\n  \
             policy: {{placementType: PickAll}}\n  strategy: {strategy}\n"
        )
    }

    fn payload(&self, number: usize, value: usize) -> String {
        let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n{number}}}\n");
        for object in 1..self.objects {
            write!(
                text,
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config-{object}, namespace: n{number}}}\n\
                 data: {{value: '{value}', place: 'object {object} of placement {number}'}}\n"
            )
            .expect("a String takes it");
        }
        text
    }
}

const STAGES: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
    metadata: {name: s}\nspec:\n  stages:\n    \
    - {name: one, maxConcurrency: 50%, labelSelector: {matchLabels: {stage: one}}}\n    \
    - {name: two, maxConcurrency: 50%, labelSelector: {matchLabels: {stage: two}}}\n    \
    - {name: three, maxConcurrency: 50%, labelSelector: {matchLabels: {stage: three}}}\n";

/// Returns a configuration that reaches every member.
pub fn configuration() -> Configuration {
    let text = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
        members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]\nstore: {path: /state}\n";
    Configuration::parse(text, Path::new("/"), &BTreeMap::new()).expect("it has no errors")
}

/// Returns a placement's key.
pub fn key(number: usize) -> PlacementKey {
    PlacementKey::cluster_scoped(format!("p{number}"))
}
