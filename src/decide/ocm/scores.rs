//! Scores of add-ons as Placements read them: what git writes, and over it what machines push.

use std::collections::{BTreeMap, BTreeSet};

use super::{Facts, Ocm, of_kind};
use model::api::object::without_nulls;
use model::api::ocm::AddOnPlacementScore;
use model::id::ClusterName;
use model::tree::Tree;
use model::yaml;
use schedule::ocm::Key;

/// Name of an AddOnPlacementScore, and the cluster it is of.
pub(super) type ScoreKey = (String, ClusterName);

impl Ocm {
    /// Takes the scores of a commit. Returns the Placements that decide again.
    pub(super) fn follow_scores(&mut self, tree: &Tree) -> BTreeSet<Key> {
        let mut written = BTreeMap::new();
        for manifest in of_kind(tree, "AddOnPlacementScore") {
            let Ok(score) = yaml::typed::<AddOnPlacementScore>(&without_nulls(&manifest.object)) else { continue };
            let key = (score.metadata.name, ClusterName::new(score.metadata.namespace.as_str()));
            written.insert(key, score.status);
        }
        let before = std::mem::replace(&mut self.written_scores, written);
        // Those that were pushed, too: a new hub has none.
        let pushed =
            self.facts.iter().flat_map(|(cluster, facts)| facts.scores.keys().map(move |name| (name, cluster)));
        let pushed = pushed.map(|(name, cluster)| (name.clone(), cluster.clone()));
        let known = before.into_keys().chain(self.written_scores.keys().cloned());
        let keys: BTreeSet<ScoreKey> = known.chain(pushed).collect();
        self.put_scores(keys)
    }

    /// Takes what was pushed about a cluster after its facts changed. Returns the Placements that decide again.
    pub(super) fn follow_pushed_scores(&mut self, cluster: &ClusterName, before: &Facts) -> BTreeSet<Key> {
        let now = self.facts.get(cluster).map(|facts| &facts.scores);
        let names: BTreeSet<String> =
            before.scores.keys().chain(now.into_iter().flat_map(BTreeMap::keys)).cloned().collect();
        self.put_scores(names.into_iter().map(|name| (name, cluster.clone())).collect())
    }

    /// Puts scores on the hub as they stand.
    fn put_scores(&mut self, keys: BTreeSet<ScoreKey>) -> BTreeSet<Key> {
        let mut changes = Vec::new();
        for key in keys {
            let pushed = self.facts.get(&key.1).and_then(|facts| facts.scores.get(&key.0));
            let status = pushed.or_else(|| self.written_scores.get(&key)).cloned();
            changes.push(self.hub.set_score(&key.0, &key.1, status));
        }
        self.affected(&changes)
    }
}
