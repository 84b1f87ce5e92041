//! Which folders are rendered for which clusters, and what the results add to the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::blob::{ParsedBlob, ParsedDocument};
use super::rendering::ValuesTemplate;
use model::api::annotations::RENDER_FOR;
use model::folder::{holds, rendered_folder};
use model::id::{BlobId, ClusterName, ObjectId, ObjectKey};
use model::manifest::{InputError, Manifest, Origin};
use model::tree::{Placement, Scope, Tree, VariedFolder};
use model::variants::{
    ClusterField, ClusterInputs, VALUE_BYTES_MAX, VALUES_FILE, VARIANTS_IN_COMMIT_MAX, VARIANTS_MAX, described,
    inputs_of,
};

/// Errors of variants that are listed.
const ERRORS_MAX: usize = 100;

/// Warnings about variants that are listed, beside those about the folders without a cluster.
const WARNINGS_MAX: usize = 100;

/// What is rendered for a folder: each list of inputs, with the first cluster that has it.
pub type WantedVariants = BTreeMap<String, BTreeMap<ClusterInputs, ClusterName>>;

/// Returns which rendered folders some placement sees that is rendered for clusters.
pub fn asked_for<'a>(tree: &'a Tree, rendered: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    let placements: Vec<&Placement> = tree.placements.values().filter(|it| it.renders_for_cluster()).collect();
    let paths = rendered.iter().map(String::as_str);
    paths.filter(move |path| placements.iter().any(|placement| sees(placement, path)))
}

fn sees(placement: &Placement, path: &str) -> bool {
    placement.folder().is_none_or(|folder| holds(folder, path))
}

/// Returns what is to be rendered for clusters: for each folder the different inputs of the clusters that a placement could pick.
/// `templates` are the files of values of the folders, by the path of their objects.
///
/// # Errors
/// Placements that see no such file, or need more than [`VARIANTS_MAX`] variants; clusters that lack a value.
pub fn wanted_variants(
    tree: &Tree,
    templates: &BTreeMap<String, ValuesTemplate>,
) -> Result<WantedVariants, Vec<InputError>> {
    let mut wanted = WantedVariants::new();
    let mut errors = Vec::new();
    for placement in tree.placements.values().filter(|placement| placement.renders_for_cluster()) {
        let seen: Vec<_> = templates.iter().filter(|(path, _)| sees(placement, path)).collect();
        if seen.is_empty() {
            let place =
                placement.folder().map_or_else(|| "the source".to_owned(), |folder| format!("the folder {folder}"));
            let message = format!("no rendered folder in {place} has a file {VALUES_FILE}");
            errors.push(complaint(placement, message, "add it beside the Chart.yaml or the kustomization.yaml"));
            continue;
        }
        let could: Vec<_> = tree.clusters.iter().filter(|(name, member)| placement.could_pick(name, member)).collect();
        let reads: BTreeSet<ClusterField> = seen.iter().flat_map(|(_, of)| of.reads.iter().cloned()).collect();
        // Clusters with equal inputs share a rendering, so it is the different ones that cost.
        let distinct: BTreeSet<ClusterInputs> =
            could.iter().map(|(name, member)| inputs_of(&reads, name, member)).collect();
        let mut values = distinct.iter().flatten();
        if let Some((field, value)) = values.find(|(_, value)| value.len() > VALUE_BYTES_MAX) {
            let message = format!("a cluster has a {field} of {} bytes, the limit is {VALUE_BYTES_MAX}", value.len());
            errors.push(complaint(placement, message, "ask for a shorter value"));
            continue;
        }
        if distinct.len() > VARIANTS_MAX {
            errors.push(too_many(placement, &reads, &distinct));
            continue;
        }
        for (path, template) in seen {
            let of_folder = wanted.entry(path.clone()).or_default();
            for (name, member) in &could {
                of_folder.entry(inputs_of(&template.reads, name, member)).or_insert_with(|| (*name).clone());
            }
        }
    }
    let all: usize = wanted.values().map(BTreeMap::len).sum();
    if all > VARIANTS_IN_COMMIT_MAX {
        let message =
            format!("the folders would be rendered {all} times for clusters, the limit is {VARIANTS_IN_COMMIT_MAX}");
        let hint = "ask for fewer fields in values.gitfleet.yaml: clusters with equal values share one rendering";
        errors.push(InputError {
            path: ".".to_owned(),
            line: 0,
            object: None,
            field: None,
            message,
            hint: Some(hint.to_owned()),
        });
    }
    if errors.is_empty() { Ok(wanted) } else { Err(errors) }
}

fn complaint(placement: &Placement, message: String, hint: &str) -> InputError {
    InputError {
        path: placement.origin.path.to_string(),
        line: placement.origin.line,
        object: Some(format!("{} {}", placement.key.kind(), placement.key)),
        field: Some(format!("metadata.annotations.{RENDER_FOR}")),
        message,
        hint: Some(hint.to_owned()),
    }
}

/// Says how many variants there would be, and which values make them many.
fn too_many(placement: &Placement, reads: &BTreeSet<ClusterField>, distinct: &BTreeSet<ClusterInputs>) -> InputError {
    let mut counts: Vec<(usize, &ClusterField)> = Vec::new();
    for field in reads {
        let values: BTreeSet<_> = distinct.iter().map(|inputs| inputs.get(field)).collect();
        counts.push((values.len(), field));
    }
    counts.sort_by(|a, b| b.cmp(a));
    let counts: Vec<String> = counts.iter().take(3).map(|(count, field)| format!("{field}: {count}")).collect();
    let message = format!(
        "its clusters would get {} variants, the limit is {VARIANTS_MAX}; different values of {}",
        distinct.len(),
        counts.join(", ")
    );
    complaint(placement, message, "ask for fewer fields, or use overrides for what each cluster has of its own")
}

/// A result for clusters.
#[derive(Debug)]
pub struct VariantFiles {
    /// The folder, as the path of its objects.
    pub folder: String,
    /// The inputs.
    pub inputs: ClusterInputs,
    /// Its parts, in order.
    pub parts: Vec<(Arc<str>, BlobId, Arc<ParsedBlob>)>,
}

/// Adds results for clusters to the tree, after checks like those of files.
///
/// # Errors
/// What is wrong with them, with the inputs.
pub fn add_variants(
    tree: &mut Tree,
    templates: &BTreeMap<String, ValuesTemplate>,
    results: Vec<VariantFiles>,
) -> Result<(), Vec<InputError>> {
    let mut varied: BTreeMap<String, VariedFolder> = templates
        .iter()
        .map(|(path, template)| {
            (path.clone(), VariedFolder { reads: template.reads.clone(), ..VariedFolder::default() })
        })
        .collect();
    let mut errors = Vec::new();
    let mut warnings = BTreeSet::new();
    for result in results {
        warnings.extend(result.parts.iter().flat_map(|(path, _, blob)| blob.warnings.iter().map(|of| of.at(path))));
        let manifests = manifests(tree, &result, &mut errors);
        if let Some(folder) = varied.get_mut(&result.folder) {
            folder.variants.insert(result.inputs, manifests);
        }
        if errors.len() > ERRORS_MAX {
            errors.truncate(ERRORS_MAX);
            break;
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    tree.varied = varied;
    let known: BTreeSet<InputError> = tree.warnings.iter().cloned().collect();
    tree.warnings.extend(warnings.into_iter().filter(|warning| !known.contains(warning)).take(WARNINGS_MAX));
    Ok(())
}

/// Returns the payload of a result.
fn manifests(tree: &Tree, result: &VariantFiles, errors: &mut Vec<InputError>) -> Vec<Manifest> {
    let VariantFiles { folder, inputs, parts } = result;
    let gives = tree.placements.values().filter(|placement| placement.renders_for_cluster() && sees(placement, folder));
    let gives_namespace = gives.into_iter().any(|placement| placement.default_namespace().is_some());
    let mut manifests = Vec::new();
    let mut first: BTreeMap<ObjectKey, u32> = BTreeMap::new();
    for (path, blob, parsed) in parts {
        errors.extend(parsed.errors.iter().map(|error| for_clusters(inputs, error.at(path))));
        for document in &parsed.documents {
            let origin =
                Origin { path: path.clone(), line: document.line, blob: blob.clone(), ordinal: document.ordinal };
            let refuse = |field: &str, message: String| {
                let error = InputError {
                    path: path.to_string(),
                    line: document.line,
                    object: Some(document.id.to_string()),
                    field: Some(field.to_owned()),
                    message,
                    hint: None,
                };
                for_clusters(inputs, error)
            };
            if !document.is_payload() {
                if !is_shared(tree, folder, document) {
                    let message = format!("a {} cannot differ by cluster", document.id.kind);
                    errors.push(refuse("kind", message));
                }
                continue;
            }
            if let Some(line) = first.insert(document.id.key(), document.line) {
                errors.push(refuse("metadata.name", format!("the same object stands at line {line} too")));
            }
            let id = &document.id;
            match (tree.scopes.get(&(id.group.clone(), id.kind.clone())), id.namespace.is_empty()) {
                (Some(Scope::Namespaced), true) if !gives_namespace => {
                    let message = format!("a {} is namespaced, and this one names no namespace", id.kind);
                    errors.push(refuse("metadata.namespace", message));
                }
                (Some(Scope::Cluster), false) => {
                    errors.push(refuse("metadata.namespace", format!("a {} is cluster-scoped", id.kind)));
                }
                _ => {}
            }
            manifests.push(manifest(tree, folder, document, origin));
        }
    }
    manifests.sort_by(|a, b| a.id.cmp(&b.id));
    manifests
}

/// Adds to an error which clusters it is about.
fn for_clusters(inputs: &ClusterInputs, error: InputError) -> InputError {
    let message = format!("for clusters with {}: {}", described(inputs), error.message);
    InputError { message, ..error }
}

/// Returns what the tree has of an object of a folder.
fn known<'a>(tree: &'a Tree, folder: &str, id: &ObjectId) -> Option<&'a Manifest> {
    tree.at(id).iter().find(|manifest| rendered_folder(&manifest.origin.path) == folder)
}

/// Takes an object; one that is as it is without a cluster is in memory once.
fn manifest(tree: &Tree, folder: &str, document: &ParsedDocument, origin: Origin) -> Manifest {
    let same = known(tree, folder, &document.id).filter(|known| known.object == document.object);
    let object = same.map_or_else(|| Arc::clone(&document.object), |same| Arc::clone(&same.object));
    Manifest { id: document.id.clone(), object, origin, encrypted: document.encrypted.clone() }
}

/// Tells whether what configures gitfleet is the same without a cluster.
fn is_shared(tree: &Tree, folder: &str, document: &ParsedDocument) -> bool {
    let mut inputs = tree.inputs.iter();
    let known = inputs.find(|input| input.id == document.id && rendered_folder(&input.origin.path) == folder);
    known.is_some_and(|input| input.object == document.object)
}

#[cfg(test)]
mod tests;
