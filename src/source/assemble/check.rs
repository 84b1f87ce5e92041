//! Checks the documents of a commit: errors, and fields without effect.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::folders::{PlacementSight, overlap};
use crate::blob::ParsedDocument;
use model::api::annotations::{DEFAULT_NAMESPACE, PATH};
use model::api::table;
use model::api::table::PLACEMENT_GROUP;
use model::api::unused::unused;
use model::kinds;
use model::manifest::{InputError, Manifest, Origin};
use model::tree::Scope;

/// Warnings about fields of one commit that change nothing.
const UNUSED_MAX: usize = 100;

/// The scope of each group and kind.
pub(super) type Scopes = BTreeMap<(String, String), Scope>;

pub(super) struct FoundObject<'a> {
    pub(super) document: &'a ParsedDocument,
    pub(super) origin: Origin,
    /// Its file, as `gitfleet.io/path` counts it.
    pub(super) path: &'a str,
}

impl FoundObject<'_> {
    pub(super) fn complain(&self, field: &str, message: String, hint: &str) -> InputError {
        InputError {
            path: self.origin.path.to_string(),
            line: self.origin.line,
            object: Some(self.document.id.to_string()),
            field: Some(field.to_owned()),
            message,
            hint: Some(hint.to_owned()),
        }
    }

    /// Returns file and line.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.origin.path, self.origin.line)
    }

    pub(super) fn manifest(&self) -> Manifest {
        Manifest {
            id: self.document.id.clone(),
            object: self.document.object.clone(),
            origin: self.origin.clone(),
            encrypted: self.document.encrypted.clone(),
        }
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.document.object.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    /// Tells whether it is of a namespaced kind and names no namespace.
    pub(super) fn lacks_namespace(&self, scopes: &Scopes) -> bool {
        self.document.id.namespace.is_empty() && scopes.get(&self.group_and_kind()) == Some(&Scope::Namespaced)
    }

    pub(super) fn group_and_kind(&self) -> (String, String) {
        (self.document.id.group.clone(), self.document.id.kind.clone())
    }
}

/// Returns the scope of every kind: of Kubernetes, of gitfleet, of the tree's definitions, else by its documents. Beside it the kinds
/// whose documents alone tell, and have no namespace.
pub(super) fn scopes(found: &[FoundObject<'_>]) -> (Scopes, BTreeSet<(String, String)>) {
    let mut scopes = BTreeMap::new();
    for item in found {
        let is_namespaced = !item.document.id.namespace.is_empty();
        let scope = scopes.entry(item.group_and_kind()).or_insert(Scope::Cluster);
        if is_namespaced {
            *scope = Scope::Namespaced;
        }
    }
    // Each line may override the earlier ones: the scope by documents is a guess, that of a built-in kind is known.
    let mut known = Scopes::new();
    let defined = found.iter().filter_map(|item| item.document.defines.as_ref());
    known.extend(defined.map(|(group, kind, scope)| named(group, kind, *scope)));
    known.extend(table::KINDS.iter().map(|k| named(k.group, k.kind, k.scope)));
    known.extend(kinds::BUILT_IN.iter().map(|k| named(k.group, k.kind, k.scope)));
    let mut guessed = BTreeSet::new();
    for (kind, scope) in &scopes {
        if *scope == Scope::Cluster && !known.contains_key(kind) {
            guessed.insert(kind.clone());
        }
    }
    scopes.extend(known);
    (scopes, guessed)
}

fn named(group: &str, kind: &str, scope: Scope) -> ((String, String), Scope) {
    ((group.to_owned(), kind.to_owned()), scope)
}

/// Reports objects whose namespace does not fit their kind. An object that no placement gives a namespace must name one.
pub(super) fn namespaces(
    found: &[FoundObject<'_>],
    scopes: &Scopes,
    sights: &[PlacementSight<'_>],
    errors: &mut Vec<InputError>,
) {
    for item in found {
        let scope = scopes.get(&item.group_and_kind());
        let has_namespace = !item.document.id.namespace.is_empty();
        match (scope, has_namespace) {
            (Some(Scope::Namespaced), false) => {
                let is_payload = item.document.is_payload();
                let mut seeing = sights.iter().filter(|sight| is_payload && sight.sees(item));
                if seeing.clone().any(|sight| sight.given.is_some()) {
                    continue;
                }
                // Only a placement that names a folder means this object in particular.
                let hint = match seeing.find(|sight| sight.folder.is_some()) {
                    Some(sight) => format!("add metadata.namespace, or {DEFAULT_NAMESPACE} to the {sight}"),
                    None => "add metadata.namespace".to_owned(),
                };
                let message = format!("a {} is namespaced, and this one names no namespace", item.document.id.kind);
                errors.push(item.complain("metadata.namespace", message, &hint));
            }
            (Some(Scope::Cluster), true) => {
                let message = format!("a {} is cluster-scoped", item.document.id.kind);
                errors.push(item.complain("metadata.namespace", message, "remove metadata.namespace"));
            }
            _ => {}
        }
    }
}

/// Reports two overrides of one kind that select one object in one folder: their order would be random.
///
/// Source: KubeFleet's webhooks for ClusterResourceOverride (the whole hub) and ResourceOverride (one namespace).
pub(super) fn overrides(found: &[FoundObject<'_>], errors: &mut Vec<InputError>) {
    let mut known: BTreeMap<[String; 5], Vec<&FoundObject<'_>>> = BTreeMap::new();
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
            let [group, kind, name] =
                ["group", "kind", "name"].map(|field| selector.get(field).and_then(Value::as_str).unwrap_or_default());
            let key = [list, id.namespace.as_str(), group, kind, name].map(str::to_owned);
            let object = format!("{} {}", key[3], key[4]);
            let others = known.entry(key).or_default();
            let earlier = others.iter().rfind(|other| overlap(other.annotation(PATH), item.annotation(PATH)));
            // An override that lists an object twice acts on it once all the same.
            if let Some(other) = earlier.filter(|other| other.document.id != item.document.id) {
                let message = format!(
                    "{} at {}:{} overrides {object} too",
                    other.document.id.name, other.origin.path, other.origin.line
                );
                let field = format!("spec.{list}[{index}]");
                errors.push(item.complain(&field, message, "put the rules into one override"));
            }
            others.push(item);
        }
    }
}

/// Returns a warning for every field without effect; for a field of all objects of a kind only the first one.
pub(super) fn unused_fields(found: &[FoundObject<'_>]) -> Vec<InputError> {
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
