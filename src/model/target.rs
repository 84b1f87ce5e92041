//! How a word of a command names a placement or a run.

use super::id::PlacementKey;
use crate::api::table;

/// What a word of a command names: `NAME`, `NAMESPACE/NAME`, `/NAME` for what is cluster-scoped, or `KIND/NAME` and
/// `KIND/NAMESPACE/NAME` with the kind of a placement or a run, such as `crp/web`, `rp/shop/web` and `csur/web-3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetWord<'a> {
    kind: Option<TargetKind>,
    scope: Scope<'a>,
    name: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    Placement,
    Run,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope<'a> {
    /// The word does not say.
    Any,
    /// Cluster-scoped.
    Cluster,
    /// In any namespace.
    Namespaces,
    /// In this namespace.
    Namespace(&'a str),
}

/// Returns what a word for a kind stands for.
fn kind(word: &str) -> Option<(TargetKind, Scope<'static>)> {
    Some(match table::named(word)?.kind {
        "ClusterResourcePlacement" => (TargetKind::Placement, Scope::Cluster),
        "ResourcePlacement" => (TargetKind::Placement, Scope::Namespaces),
        "ClusterStagedUpdateRun" => (TargetKind::Run, Scope::Cluster),
        "StagedUpdateRun" => (TargetKind::Run, Scope::Namespaces),
        _ => return None,
    })
}

impl<'a> TargetWord<'a> {
    /// Reads a word. A kind goes before a namespace of the same name.
    pub fn read(word: &'a str) -> Self {
        let Some((first, rest)) = word.split_once('/') else {
            return Self { kind: None, scope: Scope::Any, name: word };
        };
        match (kind(first), rest.split_once('/')) {
            (Some((kind, Scope::Cluster)), None) => Self { kind: Some(kind), scope: Scope::Cluster, name: rest },
            (Some((kind, scope)), None) => Self { kind: Some(kind), scope, name: rest },
            (Some((kind, Scope::Namespaces)), Some((namespace, name))) => {
                Self { kind: Some(kind), scope: Scope::Namespace(namespace), name }
            }
            _ if first.is_empty() => Self { kind: None, scope: Scope::Cluster, name: rest },
            _ => Self { kind: None, scope: Scope::Namespace(first), name: rest },
        }
    }

    /// Returns the name alone.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Tells whether it may be the name of something else than a placement or a run, such as an approval request.
    pub fn is_of_any_kind(&self) -> bool {
        self.kind.is_none()
    }

    /// Tells whether things of a placement are in the scope that the word names.
    pub fn has_scope_of(&self, placement: &PlacementKey) -> bool {
        match self.scope {
            Scope::Any => true,
            Scope::Cluster => placement.namespace.is_none(),
            Scope::Namespaces => placement.namespace.is_some(),
            Scope::Namespace(namespace) => placement.namespace.as_deref() == Some(namespace),
        }
    }

    /// Tells whether it names a placement.
    pub fn is_placement(&self, key: &PlacementKey) -> bool {
        self.kind != Some(TargetKind::Run) && self.name == key.name && self.has_scope_of(key)
    }

    /// Tells whether it names a run of a placement.
    pub fn is_run(&self, placement: &PlacementKey, run: &str) -> bool {
        self.kind != Some(TargetKind::Placement) && self.name == run && self.has_scope_of(placement)
    }

    /// Returns the placement that it names where only the word decides: `NAME` alone is the cluster-scoped one.
    pub fn placement(&self) -> PlacementKey {
        match self.scope {
            Scope::Namespace(namespace) => PlacementKey::namespaced(namespace, self.name),
            Scope::Any | Scope::Cluster | Scope::Namespaces => PlacementKey::cluster_scoped(self.name),
        }
    }
}

/// Tells whether a namespace is called as a kind that [`TargetWord::read`] knows, so that `NAMESPACE/NAME` is read as `KIND/NAME`.
pub fn is_kind_word(namespace: &str) -> bool {
    kind(namespace).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_placements_and_runs() {
        let keys = [
            PlacementKey::cluster_scoped("web"),
            PlacementKey::namespaced("shop", "web"),
            PlacementKey::namespaced("rp", "web"),
        ];
        // word, the placements that it names, the placements whose run `web` it names
        let rows: [(&str, &[usize], &[usize]); 13] = [
            ("web", &[0, 1, 2], &[0, 1, 2]),
            ("/web", &[0], &[0]),
            ("shop/web", &[1], &[1]),
            ("crp/web", &[0], &[]),
            ("ClusterResourcePlacement/web", &[0], &[]),
            ("clusterresourceplacements.placement.kubernetes-fleet.io/web", &[0], &[]),
            ("rp/shop/web", &[1], &[]),
            ("rp/web", &[1, 2], &[]),
            ("rp/rp/web", &[2], &[]),
            ("csur/web", &[], &[0]),
            ("sur/shop/web", &[], &[1]),
            ("crp/shop/web", &[], &[]),
            ("api", &[], &[]),
        ];
        for (word, placements, runs) in rows {
            let target = TargetWord::read(word);
            let of = |is_meant: &dyn Fn(&PlacementKey) -> bool| -> Vec<usize> {
                (0..keys.len()).filter(|at| is_meant(&keys[*at])).collect()
            };
            assert_eq!(of(&|key| target.is_placement(key)), placements, "{word}");
            assert_eq!(of(&|key| target.is_run(key, "web")), runs, "{word}");
        }
    }

    #[test]
    fn every_placement_has_a_word_that_names_it_alone() {
        for key in [
            PlacementKey::cluster_scoped("web"),
            PlacementKey::namespaced("shop", "web"),
            PlacementKey::namespaced("crp", "web"),
        ] {
            let word = key.qualified();
            let target = TargetWord::read(&word);
            assert!(target.is_placement(&key), "{word}");
            assert_eq!(target.placement(), key, "{word}");
            assert!(!target.is_run(&key, "web"), "{word}");
        }
    }
}
