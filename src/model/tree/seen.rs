//! What a placement sees of a tree: all of it, or the objects of one folder.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::varied::replace;
use super::{Placement, Tree};
use crate::folder::{holding, holds, rendered_folder};
use crate::manifest::Manifest;

/// Positions in a list of manifests.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    by_namespace: BTreeMap<String, Vec<usize>>,
    by_kind: BTreeMap<(String, String), Vec<usize>>,
}

impl Index {
    pub(super) fn of(manifests: &[Manifest]) -> Self {
        let mut index = Self::default();
        for (position, manifest) in manifests.iter().enumerate() {
            let id = &manifest.id;
            if !id.namespace.is_empty() {
                index.by_namespace.entry(id.namespace.clone()).or_default().push(position);
            }
            index.by_kind.entry((id.group.clone(), id.kind.clone())).or_default().push(position);
        }
        index
    }

    pub(super) fn of_kind<'a>(
        &'a self,
        manifests: &'a [Manifest],
        group: &str,
        kind: &str,
    ) -> impl Iterator<Item = &'a Manifest> {
        let positions = self.by_kind.get(&(group.to_owned(), kind.to_owned()));
        positions.into_iter().flatten().map(|&position| &manifests[position])
    }
}

/// The payload that the selectors of one placement see, ordered by identity.
#[derive(Clone, Debug)]
pub struct SeenObjects<'a> {
    manifests: Cow<'a, [Manifest]>,
    index: Cow<'a, Index>,
}

impl SeenObjects<'_> {
    /// Returns all objects, in order of identity.
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// Returns the objects of a kind, in order of identity.
    pub fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Manifest> {
        self.index.of_kind(&self.manifests, group, kind)
    }

    /// Returns the objects in a namespace (without the Namespace object), in order of identity.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Manifest> {
        let positions = self.index.by_namespace.get(namespace);
        positions.into_iter().flatten().map(|&position| &self.manifests[position])
    }
}

impl Tree {
    /// Returns the payload that a placement sees: with `gitfleet.io/path` the objects of that folder and the Namespaces around it that
    /// they need, else all; with `gitfleet.io/default-namespace` each namespaced object that names no namespace is in that one.
    pub fn seen_by(&self, placement: &Placement) -> SeenObjects<'_> {
        self.seen_with(placement, &BTreeMap::new())
    }

    /// As [`Tree::seen_by`], with other objects of some folders.
    pub(super) fn seen_with(&self, placement: &Placement, instead: &BTreeMap<&str, &[Manifest]>) -> SeenObjects<'_> {
        let folder = placement.folder();
        let given = placement.default_namespace();
        if folder.is_none() && given.is_none() && instead.is_empty() {
            return SeenObjects { manifests: Cow::Borrowed(&self.manifests), index: Cow::Borrowed(&self.index) };
        }
        let mut manifests = match folder {
            Some(folder) => self.in_folder(folder),
            None => self.manifests.clone(),
        };
        replace(&mut manifests, instead);
        if let Some(namespace) = given {
            for manifest in manifests.iter_mut().filter(|manifest| self.lacks_namespace(manifest)) {
                *manifest = manifest.in_namespace(namespace);
            }
        }
        if let Some(folder) = folder {
            let around = self.namespaces_around(folder, &manifests);
            manifests.extend(around);
        }
        manifests.sort_by(|a, b| a.id.cmp(&b.id));
        SeenObjects { index: Cow::Owned(Index::of(&manifests)), manifests: Cow::Owned(manifests) }
    }

    /// Returns the objects in the namespaces that placements give them, where they name none themselves. Each object is there once for each
    /// of these namespaces.
    pub fn in_given_namespaces(&self) -> Vec<Manifest> {
        let giving = self.placements.values().filter(|placement| placement.default_namespace().is_some());
        let given = giving.flat_map(|placement| {
            let seen = self.seen_by(placement).manifests.into_owned();
            seen.into_iter().filter(|manifest| !manifest.id.namespace.is_empty())
        });
        given.collect()
    }

    /// Returns the objects in a folder and below it.
    fn in_folder(&self, folder: &str) -> Vec<Manifest> {
        let path = |position: usize| &*self.manifests[position].origin.path;
        let by_path = self.by_path.get_or_init(|| {
            let mut positions: Vec<usize> = (0..self.manifests.len()).collect();
            positions.sort_by(|a, b| path(*a).cmp(path(*b)).then(a.cmp(b)));
            positions
        });
        // What is below a folder need not follow it at once: `apps-old/a.yaml` stands between `apps` and `apps/a.yaml`.
        let exactly =
            by_path.partition_point(|at| path(*at) < folder)..by_path.partition_point(|at| path(*at) <= folder);
        // A dollar sign is the character after the number sign of further parts of a result, and a zero the one after the slash.
        let between = |first: char, end: char| {
            let first = format!("{folder}{first}");
            let end = format!("{folder}{end}");
            by_path.partition_point(|at| *path(*at) < *first)..by_path.partition_point(|at| *path(*at) < *end)
        };
        let parts = by_path[between('#', '$')].iter().filter(|at| rendered_folder(path(**at)) == folder);
        let below = &by_path[between('/', '0')];
        by_path[exactly].iter().chain(parts).chain(below).map(|at| self.manifests[*at].clone()).collect()
    }

    /// Returns the Namespaces outside a folder that its objects are in and that it has no document of.
    ///
    /// A folder that a placement names is closed to others, unless it encloses theirs; of several documents the nearest counts.
    fn namespaces_around(&self, folder: &str, manifests: &[Manifest]) -> Vec<Manifest> {
        let namespaces = manifests.iter().filter(|found| found.id.group.is_empty() && found.id.kind == "Namespace");
        let there: BTreeSet<&str> = namespaces.map(|found| found.id.name.as_str()).collect();
        let needed: BTreeSet<&str> = manifests.iter().map(|manifest| manifest.id.namespace.as_str()).collect();
        let needed: BTreeSet<&str> = needed.difference(&there).copied().collect();
        let mut nearest: BTreeMap<&str, (usize, &Manifest)> = BTreeMap::new();
        for found in self.of_kind("", "Namespace").filter(|found| needed.contains(found.id.name.as_str())) {
            let mut around = holding(&self.folders, &found.origin.path).peekable();
            let depth = around.peek().map_or(0, |innermost| innermost.len());
            let is_closer = nearest.get(found.id.name.as_str()).is_none_or(|(known, _)| *known < depth);
            if is_closer && around.all(|outer| holds(outer, folder)) {
                nearest.insert(&found.id.name, (depth, found));
            }
        }
        nearest.into_values().map(|(_, found)| found.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
