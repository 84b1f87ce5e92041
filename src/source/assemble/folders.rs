//! Folders for environments: one object may stand in several folders, as long as no placement could select two of them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::check::{FoundObject, Scopes};
use model::api::annotations::{DEFAULT_NAMESPACE, PATH};
use model::api::placement::{PlacementSpec, ResourceSelector, SelectionScope};
use model::api::table::Checked;
use model::folder::{folder_of, holding, holds};
use model::id::{ObjectId, ObjectKey};
use model::manifest::InputError;
use model::text::suggest;

/// Folders of one commit that are looked for where a name is misspelt: each is compared with every folder.
const SUGGESTED_MAX: usize = 10;

/// What to do where one object stands in several folders that no placement tells apart.
const ONE_OF_FOLDERS: &str = "remove one of the two, or leave a folder out with .gitfleetignore; where the folders are for different clusters, have the \
     placements name them: gitfleet.io/path";

/// What one placement sees.
pub(super) struct PlacementSight<'a> {
    placement: &'a FoundObject<'a>,
    spec: &'a PlacementSpec,
    /// The folder of the objects; `None` for all.
    pub(super) folder: Option<&'a str>,
    /// The namespace of namespaced objects that name none.
    pub(super) given: Option<&'a str>,
}

impl std::fmt::Display for PlacementSight<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = &self.placement.document.id;
        let origin = &self.placement.origin;
        let namespace = if id.namespace.is_empty() { String::new() } else { format!("{}/", id.namespace) };
        write!(f, "{} {namespace}{} ({}:{})", id.kind, id.name, origin.path, origin.line)
    }
}

/// Returns what each placement sees.
pub(super) fn sights<'a>(found: &'a [FoundObject<'a>]) -> Vec<PlacementSight<'a>> {
    let mut sights = Vec::new();
    for placement in found {
        if let Some(Checked::Placement(spec)) = &placement.document.checked {
            let folder = placement.annotation(PATH);
            let given = placement.annotation(DEFAULT_NAMESPACE);
            sights.push(PlacementSight { placement, spec, folder, given });
        }
    }
    sights
}

impl PlacementSight<'_> {
    /// Tells whether an object is in its folder.
    pub(super) fn sees(&self, item: &FoundObject<'_>) -> bool {
        self.folder.is_none_or(|folder| holds(folder, item.path))
    }

    /// Tells whether it sees an object and a selector could select it, whatever the labels of both. Never less than what is selected.
    fn could_select(&self, item: &FoundObject<'_>, scopes: &Scopes) -> bool {
        if !self.sees(item) {
            return false;
        }
        let id = &item.document.id;
        let namespace = if item.lacks_namespace(scopes) { self.given } else { Some(id.namespace.as_str()) };
        let Some(namespace) = namespace else { return false };
        let selectors = &self.spec.resource_selectors;
        let own = &self.placement.document.id.namespace;
        if !own.is_empty() && own != namespace {
            return false;
        }
        if !own.is_empty() || namespace.is_empty() {
            return selectors.iter().any(|selector| could_mean(selector, id));
        }
        // A cluster-scoped placement selects what is in a namespace through the namespace.
        let mut with_all = selectors.iter().filter(|it| it.selection_scope == SelectionScope::NamespaceWithResources);
        let mut with_selected =
            selectors.iter().filter(|it| it.selection_scope == SelectionScope::NamespaceWithResourceSelectors);
        with_all.any(|selector| could_mean_namespace(selector, namespace))
            || (with_selected.any(|selector| could_mean_namespace(selector, namespace))
                && selectors.iter().any(|selector| could_mean(selector, id)))
    }
}

/// Tells whether a selector could mean an object, whatever its labels.
fn could_mean(selector: &ResourceSelector, id: &ObjectId) -> bool {
    selector.group == id.group && selector.kind == id.kind && could_be_called(selector, &id.name)
}

fn could_mean_namespace(selector: &ResourceSelector, namespace: &str) -> bool {
    selector.group.is_empty() && selector.kind == "Namespace" && could_be_called(selector, namespace)
}

fn could_be_called(selector: &ResourceSelector, name: &str) -> bool {
    selector.name.is_empty() || selector.name == name
}

/// Tells whether two folders have something in common; `None` is the whole source.
pub(super) fn overlap(one: Option<&str>, other: Option<&str>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return true };
    holds(one, other) || holds(other, one)
}

/// Reports objects that are there twice: in one folder, or where one placement could select both. What configures gitfleet is there once.
pub(super) fn duplicates(
    found: &[FoundObject<'_>],
    scopes: &Scopes,
    sights: &[PlacementSight<'_>],
    errors: &mut Vec<InputError>,
) {
    let folders: BTreeSet<String> = sights.iter().filter_map(|sight| sight.folder).map(str::to_owned).collect();
    let mut first: BTreeMap<ObjectKey, &FoundObject<'_>> = BTreeMap::new();
    // Only of what is there more than once, which is little.
    let mut twins: BTreeMap<ObjectKey, Vec<&FoundObject<'_>>> = BTreeMap::new();
    for item in found {
        let key = item.document.id.key();
        let first = match first.entry(key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(item);
                continue;
            }
            Entry::Occupied(entry) => *entry.get(),
        };
        let known = twins.entry(key).or_insert_with(|| vec![first]);
        let is_payload = item.document.is_payload();
        let innermost = holding(&folders, item.path).next();
        if let Some(other) = known.iter().find(|other| !is_payload || holding(&folders, other.path).next() == innermost)
        {
            let message = format!("the same object stands at {} too", other.place());
            let is_elsewhere = is_payload && folder_of(other.path) != folder_of(item.path);
            let hint = if is_elsewhere { ONE_OF_FOLDERS } else { "remove or rename one of the two" };
            errors.push(item.complain("metadata.name", message, hint));
            continue;
        }
        let mut seeing = sights.iter().filter(|sight| sight.could_select(item, scopes));
        let both =
            seeing.find_map(|sight| Some((sight, known.iter().find(|other| sight.could_select(other, scopes))?)));
        if let Some((sight, other)) = both {
            errors.push(seen_twice(item, other, sight));
        }
        known.push(item);
    }
}

/// Reports objects without a namespace that are another object as soon as a placement gives them one.
pub(super) fn twins_in_given_namespaces(
    found: &[FoundObject<'_>],
    scopes: &Scopes,
    sights: &[PlacementSight<'_>],
    errors: &mut Vec<InputError>,
) {
    let giving: Vec<(&PlacementSight<'_>, &str)> =
        sights.iter().filter_map(|sight| Some((sight, sight.given?))).collect();
    if giving.is_empty() {
        return;
    }
    let mut named: BTreeMap<ObjectKey, Vec<&FoundObject<'_>>> = BTreeMap::new();
    for item in found.iter().filter(|item| item.document.is_payload() && !item.document.id.namespace.is_empty()) {
        named.entry(item.document.id.key()).or_default().push(item);
    }
    for item in found.iter().filter(|item| item.document.is_payload() && item.lacks_namespace(scopes)) {
        let clash = giving.iter().find_map(|(sight, given)| {
            let key = ObjectKey { namespace: (*given).into(), ..item.document.id.key() };
            let others = named.get(&key)?;
            if !sight.could_select(item, scopes) {
                return None;
            }
            Some((sight, others.iter().find(|other| sight.could_select(other, scopes))?))
        });
        if let Some((sight, other)) = clash {
            errors.push(seen_twice(item, other, sight));
        }
    }
}

fn seen_twice(item: &FoundObject<'_>, other: &FoundObject<'_>, sight: &PlacementSight<'_>) -> InputError {
    let given = sight.given.map(|namespace| format!(" in the namespace {namespace}")).unwrap_or_default();
    let given = if item.document.id.namespace == other.document.id.namespace { "" } else { &given };
    let message =
        format!("the same object{given} stands at {} too, and the {sight} selects from both files", other.place());
    let hint =
        format!("annotate the placement with {PATH} and the folder that it means, or remove or rename one of the two");
    item.complain("metadata.name", message, &hint)
}

/// Reports overrides of folders that no placement is about: they would change nothing.
pub(super) fn lost_overrides(found: &[FoundObject<'_>], sights: &[PlacementSight<'_>], errors: &mut Vec<InputError>) {
    for item in found {
        if item.document.is_payload() || !item.document.id.kind.ends_with("Override") {
            continue;
        }
        let Some(folder) = item.annotation(PATH) else { continue };
        let mut named = sights.iter().filter_map(|sight| sight.folder);
        if !named.clone().any(|seen| holds(folder, seen)) {
            let close = suggest(folder, named.by_ref());
            let hint = close.map_or_else(
                || format!("annotate the placement that it is for with {PATH}, too"),
                |close| format!("did you mean `{close}`?"),
            );
            let message = format!("no placement has the folder {folder} or one in it");
            errors.push(item.complain(&format!("metadata.annotations.{PATH}"), message, &hint));
        }
    }
}

/// Reports folders that placements name and of which no file is read: nothing is there, or a typing error.
pub(super) fn empty_folders<'a>(
    sights: &[PlacementSight<'_>],
    files: &(impl Iterator<Item = &'a str> + Clone),
    errors: &mut Vec<InputError>,
) {
    let mut empty = Vec::new();
    for sight in sights {
        let Some(folder) = sight.folder else { continue };
        // What is wrong in the folder may be why there is nothing.
        if files.clone().any(|path| holds(folder, path)) || errors.iter().any(|error| holds(folder, &error.path)) {
            continue;
        }
        let known = (empty.len() < SUGGESTED_MAX).then(|| files.clone().flat_map(folders_of).collect::<BTreeSet<_>>());
        let hint = match suggest(folder, known.into_iter().flatten()) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "name a folder with manifests; a base that others render is none".to_owned(),
        };
        let message = format!("no file of the source is read in {folder}");
        empty.push(sight.placement.complain(&format!("metadata.annotations.{PATH}"), message, &hint));
    }
    errors.extend(empty);
}

/// Returns the folders above a file, and the file: a rendered folder is listed by its own path.
fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(slash, _)| &path[..slash]).chain(std::iter::once(path))
}

#[cfg(test)]
mod tests;
