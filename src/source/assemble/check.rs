//! Checks the documents of a commit: errors, and fields without effect.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::api::table::{self, PLACEMENT_GROUP};
use crate::api::unused::unused;
use crate::model::id::ObjectKey;
use crate::model::kinds;
use crate::model::manifest::{InputError, Manifest, Origin};
use crate::model::tree::Scope;
use crate::source::blob::ParsedDocument;

/// Warnings about fields of one commit that change nothing.
const UNUSED_MAX: usize = 100;

pub(super) struct FoundObject<'a> {
    pub(super) document: &'a ParsedDocument,
    pub(super) origin: Origin,
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

    pub(super) fn manifest(&self) -> Manifest {
        Manifest {
            id: self.document.id.clone(),
            object: self.document.object.clone(),
            origin: self.origin.clone(),
            encrypted: self.document.encrypted.clone(),
        }
    }

    pub(super) fn group_and_kind(&self) -> (String, String) {
        (self.document.id.group.clone(), self.document.id.kind.clone())
    }
}

pub(super) fn duplicates(found: &[FoundObject<'_>], errors: &mut Vec<InputError>) {
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

/// Returns the scope of every kind: of Kubernetes, of gitfleet, of the tree's definitions, else by its documents.
pub(super) fn scopes(found: &[FoundObject<'_>]) -> BTreeMap<(String, String), Scope> {
    let named = |group: &str, kind: &str, scope| ((group.to_owned(), kind.to_owned()), scope);
    let mut scopes = BTreeMap::new();
    for item in found {
        let is_namespaced = !item.document.id.namespace.is_empty();
        let scope = scopes.entry(item.group_and_kind()).or_insert(Scope::Cluster);
        if is_namespaced {
            *scope = Scope::Namespaced;
        }
    }
    // Each line may override the earlier ones: the scope by documents is a guess, that of a built-in kind is known.
    let defined = found.iter().filter_map(|item| item.document.defines.as_ref());
    scopes.extend(defined.map(|(group, kind, scope)| named(group, kind, *scope)));
    scopes.extend(table::KINDS.iter().map(|k| named(k.group, k.kind, k.scope)));
    scopes.extend(kinds::BUILT_IN.iter().map(|k| named(k.group, k.kind, k.scope)));
    scopes
}

pub(super) fn namespaces(
    found: &[FoundObject<'_>],
    scopes: &BTreeMap<(String, String), Scope>,
    errors: &mut Vec<InputError>,
) {
    for item in found {
        let scope = scopes.get(&item.group_and_kind());
        let has_namespace = !item.document.id.namespace.is_empty();
        match (scope, has_namespace) {
            (Some(Scope::Namespaced), false) => {
                let message = format!("a {} is namespaced, and this one names no namespace", item.document.id.kind);
                errors.push(item.complain("metadata.namespace", message, "add metadata.namespace"));
            }
            (Some(Scope::Cluster), true) => {
                let message = format!("a {} is cluster-scoped", item.document.id.kind);
                errors.push(item.complain("metadata.namespace", message, "remove metadata.namespace"));
            }
            _ => {}
        }
    }
}

/// Reports two overrides of one kind that select one object: their order would be random.
///
/// Source: KubeFleet's webhooks for ClusterResourceOverride (the whole hub) and ResourceOverride (one namespace).
pub(super) fn overrides(found: &[FoundObject<'_>], errors: &mut Vec<InputError>) {
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
