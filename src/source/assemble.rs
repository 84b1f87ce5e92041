//! The files of a commit together: identities, scopes, members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::blob::{ParsedBlob, ParsedDocument};
use super::budget::COMMIT;
use super::paths::Selection;
use crate::api::cluster::MemberCluster;
use crate::api::ocm::ManagedCluster;
use crate::api::table::{self, Checked, MEMBER_NAME_LABEL, PLACEMENT_GROUP};
use crate::api::unused::unused;
use crate::model::id::{BlobId, ClusterName, CommitId, ObjectKey, PlacementKey};
use crate::model::kinds;
use crate::model::manifest::{InputError, Manifest, Origin};
use crate::model::tree::{Placement, Scope, Skipped, Tree};

/// Bytes of all files of one source together.
pub const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Complaints about one commit that are listed: a person fixes a few, and the rest follows.
pub const ERRORS_MAX: usize = 1_000;

/// Warnings about fields of one commit that change nothing.
const UNUSED_MAX: usize = 100;

/// Returns the checked tree of a commit.
///
/// `files` are the files that `selection` says to read, in any order: path, blob id, content.
///
/// # Errors
/// Every complaint about the commit, sorted by path and line, at most about 1,000. A commit with any is refused whole.
/// Where it holds more than [`COMMIT`] allows, nothing else is looked at.
pub fn assemble(
    commit: Option<CommitId>,
    selection: &Selection,
    files: impl IntoIterator<Item = (Arc<str>, BlobId, Arc<ParsedBlob>)>,
) -> Result<Tree, Vec<InputError>> {
    let mut files: Vec<_> = files.into_iter().collect();
    // Which of two duplicates is the second, and which file is one too many, must not depend on who listed the files.
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let mut errors = selection.errors.clone();
    let bytes: usize = files.iter().map(|(_, _, blob)| blob.size_bytes).sum();
    if bytes > BYTES_MAX {
        errors.push(InputError {
            path: String::new(),
            line: 0,
            object: None,
            field: None,
            message: format!("the files have {bytes} bytes together, the limit is {BYTES_MAX}"),
            hint: Some("narrow `source.path`, or add folders to .gitfleetignore".to_owned()),
        });
    }
    // Where the meter ran over files are read in part, so every other complaint about them may be wrong.
    if let Some(refusal) = COMMIT.refusal(files.iter().map(|(path, _, blob)| (path.clone(), blob.weight))) {
        errors.push(refusal);
        return Err(limited(errors));
    }
    let mut tree = Tree::default();
    tree.commit = commit;
    let mut found = Vec::new();
    for (path, id, blob) in &files {
        tree.skipped.extend(skipped(path, blob));
        errors.extend(blob.errors.iter().map(|error| error.at(path)));
        tree.warnings.extend(blob.warnings.iter().map(|warning| warning.at(path)));
        found.extend(blob.documents.iter().map(|document| FoundObject {
            document,
            origin: Origin { path: path.clone(), line: document.line, blob: id.clone(), ordinal: document.ordinal },
        }));
    }
    duplicates(&found, &mut errors);
    tree.scopes = scopes(&found);
    namespaces(&found, &tree.scopes, &mut errors);
    overrides(&found, &mut errors);
    if !errors.is_empty() {
        return Err(limited(errors));
    }
    tree.warnings.extend(unused_fields(&found));
    fill(&mut tree, found);
    Ok(tree)
}

/// Returns the documents of a file that are no Kubernetes objects.
pub fn skipped<'a>(path: &'a str, blob: &'a ParsedBlob) -> impl Iterator<Item = Skipped> + 'a {
    blob.skipped.iter().map(move |(line, why)| Skipped { path: path.to_owned(), line: *line, why: *why })
}

/// Puts complaints in order, and leaves those out that are too many.
fn limited(mut errors: Vec<InputError>) -> Vec<InputError> {
    errors.sort();
    errors.dedup();
    let more = errors.len().saturating_sub(ERRORS_MAX);
    if more > 0 {
        errors.truncate(ERRORS_MAX);
        errors.push(InputError {
            path: ".".to_owned(),
            line: 0,
            object: None,
            field: None,
            message: format!("{more} more errors are not listed"),
            hint: Some("correct the others first".to_owned()),
        });
    }
    errors
}

struct FoundObject<'a> {
    document: &'a ParsedDocument,
    origin: Origin,
}

impl FoundObject<'_> {
    fn complain(&self, field: &str, message: String, hint: &str) -> InputError {
        InputError {
            path: self.origin.path.to_string(),
            line: self.origin.line,
            object: Some(self.document.id.to_string()),
            field: Some(field.to_owned()),
            message,
            hint: Some(hint.to_owned()),
        }
    }

    fn manifest(&self) -> Manifest {
        Manifest { id: self.document.id.clone(), object: self.document.object.clone(), origin: self.origin.clone() }
    }

    fn group_and_kind(&self) -> (String, String) {
        (self.document.id.group.clone(), self.document.id.kind.clone())
    }
}

fn duplicates(found: &[FoundObject<'_>], errors: &mut Vec<InputError>) {
    let mut first: BTreeMap<ObjectKey, &FoundObject<'_>> = BTreeMap::new();
    for item in found {
        match first.entry(item.document.id.key()) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(item);
            }
            std::collections::btree_map::Entry::Occupied(entry) => {
                let other = &entry.get().origin;
                let message = format!("the same object stands at {}:{} too", other.path, other.line);
                errors.push(item.complain("metadata.name", message, "remove or rename one of the two"));
            }
        }
    }
}

/// Returns the scope of every kind: of Kubernetes, of ours, of the definitions here, else as the documents have it.
fn scopes(found: &[FoundObject<'_>]) -> BTreeMap<(String, String), Scope> {
    let named = |group: &str, kind: &str, scope| ((group.to_owned(), kind.to_owned()), scope);
    let mut scopes = BTreeMap::new();
    for item in found {
        let is_namespaced = !item.document.id.namespace.is_empty();
        let scope = scopes.entry(item.group_and_kind()).or_insert(Scope::Cluster);
        if is_namespaced {
            *scope = Scope::Namespaced;
        }
    }
    // Each line may overrule those before it: what documents look like is a guess, what is built in is known.
    let defined = found.iter().filter_map(|item| item.document.defines.as_ref());
    scopes.extend(defined.map(|(group, kind, scope)| named(group, kind, *scope)));
    scopes.extend(table::KINDS.iter().map(|k| named(k.group, k.kind, k.scope)));
    scopes.extend(kinds::BUILT_IN.iter().map(|k| named(k.group, k.kind, k.scope)));
    scopes
}

fn namespaces(found: &[FoundObject<'_>], scopes: &BTreeMap<(String, String), Scope>, errors: &mut Vec<InputError>) {
    for item in found {
        let scope = scopes.get(&item.group_and_kind());
        let has_namespace = !item.document.id.namespace.is_empty();
        match (scope, has_namespace) {
            (Some(Scope::Namespaced), false) => {
                let message = format!("a {} lives in a namespace, and this one names none", item.document.id.kind);
                errors.push(item.complain("metadata.namespace", message, "add metadata.namespace"));
            }
            (Some(Scope::Cluster), true) => {
                let message = format!("a {} lives in no namespace", item.document.id.kind);
                errors.push(item.complain("metadata.namespace", message, "remove metadata.namespace"));
            }
            _ => {}
        }
    }
}

/// Complains where two overrides of one kind select one object: which of them came first would be an accident.
///
/// Source: KubeFleet's webhooks for ClusterResourceOverride (the whole hub) and ResourceOverride (one namespace).
fn overrides(found: &[FoundObject<'_>], errors: &mut Vec<InputError>) {
    let mut first: BTreeMap<[String; 5], &FoundObject<'_>> = BTreeMap::new();
    for item in found {
        let id = &item.document.id;
        let list = match id.kind.as_str() {
            "ClusterResourceOverride" => "clusterResourceSelectors",
            "ResourceOverride" => "resourceSelectors",
            _ => continue,
        };
        let selectors = item.document.object.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
        if id.group != PLACEMENT_GROUP {
            continue;
        }
        for (index, selector) in selectors.into_iter().flatten().enumerate() {
            let text = |field: &str| selector.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let key = [list.to_owned(), id.namespace.clone(), text("group"), text("kind"), text("name")];
            let object = format!("{} {}", key[3], key[4]);
            // An override that lists an object twice acts on it once all the same.
            if let Some(other) = first.insert(key, item)
                && other.document.id != item.document.id
            {
                let message = format!(
                    "{} at {}:{} overrides {object} too",
                    other.document.id.name, other.origin.path, other.origin.line
                );
                let field = format!("spec.{list}[{index}]");
                errors.push(item.complain(&field, message, "put the rules into one override"));
            }
        }
    }
}

/// Returns a warning for every field that changes nothing; of what all objects of a kind have, for the first only.
fn unused_fields(found: &[FoundObject<'_>]) -> Vec<InputError> {
    let mut said = BTreeSet::new();
    let mut warnings = Vec::new();
    for item in found {
        let id = &item.document.id;
        let Some(kind) = table::lookup(&id.group, &id.kind) else { continue };
        for (row, field) in unused(kind, &item.document.object) {
            if warnings.len() >= UNUSED_MAX {
                return warnings;
            }
            if !row.once || said.insert((id.kind.as_str(), row.path)) {
                let warning = item.complain(&field.field, field.message, "");
                warnings.push(InputError { hint: field.hint, ..warning });
            }
        }
    }
    warnings
}

fn fill(tree: &mut Tree, found: Vec<FoundObject<'_>>) {
    let mut payload = Vec::new();
    let mut managed: Vec<(ClusterName, ManagedCluster)> = Vec::new();
    for item in found {
        let id = &item.document.id;
        let name = || ClusterName::new(id.name.as_str());
        match &item.document.checked {
            None => payload.push(item.manifest()),
            // Envelopes are selected like payload, so that a selection that meets one can say what becomes of it.
            Some(Checked::Other) if id.group == PLACEMENT_GROUP && id.kind.ends_with("Envelope") => {
                payload.push(item.manifest());
            }
            Some(Checked::Other) => tree.inputs.push(item.manifest()),
            Some(Checked::Placement(spec)) => {
                let key = match id.namespace.as_str() {
                    "" => PlacementKey::cluster_scoped(&id.name),
                    namespace => PlacementKey::namespaced(namespace, &id.name),
                };
                let annotations = annotations(&item.document.object);
                let spec = spec.as_ref().clone();
                tree.inputs.push(item.manifest());
                tree.placements.insert(key.clone(), Placement { key, spec, annotations, origin: item.origin });
            }
            Some(Checked::MemberCluster(cluster)) => {
                tree.clusters.insert(name(), cluster.as_ref().clone());
            }
            Some(Checked::ManagedCluster(cluster)) => {
                managed.push((name(), cluster.as_ref().clone()));
                tree.inputs.push(item.manifest());
            }
        }
    }
    // After all documents: the MemberCluster of the same name may stand in a later file.
    for (name, cluster) in managed {
        let alone = || MemberCluster { only_managed: true, ..MemberCluster::default() };
        join(tree.clusters.entry(name.clone()).or_insert_with(alone), &name, cluster);
    }
    tree.inputs.sort_by(|a, b| a.id.cmp(&b.id));
    tree.set_manifests(payload);
}

/// Makes one member of a MemberCluster and a ManagedCluster of one name; what the MemberCluster says goes first.
fn join(member: &mut MemberCluster, name: &ClusterName, managed: ManagedCluster) {
    for (key, value) in &managed.labels {
        member.labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    for (key, value) in &managed.annotations {
        member.annotations.entry(key.clone()).or_insert_with(|| value.clone());
    }
    // Last, so that no document can give a cluster another name.
    member.labels.insert(MEMBER_NAME_LABEL.to_owned(), name.to_string());
    member.managed = Some(managed);
}

fn annotations(object: &Value) -> BTreeMap<String, String> {
    let map = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    map.into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
#[allow(clippy::type_complexity, clippy::format_push_string, reason = "tables read better so")]
mod tests;
