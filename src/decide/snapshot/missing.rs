//! Warnings about what a selection leaves out: names that nothing has, Pods, objects without a namespace.

use super::select::{Selection, elsewhere};
use model::api::placement::{ResourceSelector, SelectionScope};
use model::manifest::Manifest;
use model::names::first_of;
use model::text::suggest;
use model::tree::{Placement, Tree};
use model::warning::{Warning, WarningKind};

/// Objects in a warning; the rest is counted.
const NAMED_MAX: usize = 3;

/// Returns the warnings about a successful selection: Pods, which are never delivered, names that select nothing, and objects that
/// are left out because no namespace is known for them.
pub fn not_selected(tree: &Tree, placement: &Placement) -> Vec<Warning> {
    // A failed selection is reported as the placement's error.
    let Ok(selection) = Selection::new(tree, placement) else { return Vec::new() };
    let selectors = &placement.spec.resource_selectors;
    let mut pods: Vec<&Manifest> = selectors.iter().flat_map(|selector| pods(&selection, selector)).collect();
    pods.sort_by(|a, b| a.id.cmp(&b.id));
    pods.dedup_by(|a, b| a.id == b.id);
    let place = placement.folder().map_or_else(|| "the source".to_owned(), |folder| format!("the folder {folder}"));
    let named = selectors.iter().enumerate();
    let mut warnings: Vec<Warning> =
        named.filter_map(|(index, selector)| nothing_named(&selection, &place, index, selector)).collect();
    // Warnings about names or Pods were added above; this is for labels and whole kinds.
    if warnings.is_empty() && pods.is_empty() && selectors.iter().all(|s| selection.found(s).next().is_none()) {
        let message = "the selectors select nothing, so nothing is delivered";
        warnings.push(Warning::new(WarningKind::NothingSelected, message).at("spec.resourceSelectors"));
    }
    warnings.extend(pods_warning(&pods));
    warnings.extend(without_namespace(tree, placement, &selection));
    warnings
}

/// Warns about objects that are in no namespace and may belong into one: of a placement that sees a folder and gives no namespace those
/// of namespaced kinds, of one that gives a namespace those of unknown kinds that no selector names.
fn without_namespace(tree: &Tree, placement: &Placement, selection: &Selection<'_>) -> Option<Warning> {
    let gives = placement.default_namespace().is_some();
    if !gives && placement.folder().is_none() {
        return None;
    }
    let seen = selection.seen.manifests().iter();
    let objects: Vec<&Manifest> = if gives {
        seen.filter(|manifest| is_of_unknown_kind(manifest, tree, placement)).collect()
    } else {
        seen.filter(|manifest| tree.lacks_namespace(manifest)).collect()
    };
    if objects.is_empty() {
        return None;
    }
    let (names, verb) = listed(&objects);
    let (why, hint) = if gives {
        (
            "whether the kind has namespaces is not known",
            "add its CustomResourceDefinition, or write metadata.namespace",
        )
    } else {
        ("no namespace is named there or by the placement", "annotate the placement with gitfleet.io/default-namespace")
    };
    let message = format!("{names} {verb} in no namespace: {why}");
    Some(Warning::new(WarningKind::NamespaceUnknown, message).hint(hint))
}

/// Tells whether the scope of an object's kind was guessed, and no selector of the placement names the kind.
fn is_of_unknown_kind(manifest: &Manifest, tree: &Tree, placement: &Placement) -> bool {
    let id = &manifest.id;
    let mut selectors = placement.spec.resource_selectors.iter();
    tree.guessed.contains(&(id.group.clone(), id.kind.clone()))
        && !selectors.any(|selector| selector.group == id.group && selector.kind == id.kind)
}

/// Names objects with their files, and says which form of the verb follows.
fn listed(objects: &[&Manifest]) -> (String, &'static str) {
    let names: Vec<String> = objects.iter().map(|object| format!("{} ({})", object.id, object.origin.path)).collect();
    let verb = if objects.len() == 1 { "is" } else { "are" };
    (first_of(names.iter().map(String::as_str), NAMED_MAX), verb)
}

/// Returns the Pods that a selector would select.
fn pods<'a>(selection: &'a Selection<'_>, selector: &'a ResourceSelector) -> Vec<&'a Manifest> {
    if !selector.group.is_empty() {
        return Vec::new();
    }
    match selector.kind.as_str() {
        "Pod" => selection.found(selector).collect(),
        "Namespace" if selector.selection_scope == SelectionScope::NamespaceWithResources => {
            let objects = selection.found(selector).flat_map(|ns| selection.seen.in_namespace(&ns.id.name));
            objects.filter(|object| object.id.group.is_empty() && object.id.kind == "Pod").collect()
        }
        _ => Vec::new(),
    }
}

fn pods_warning(pods: &[&Manifest]) -> Option<Warning> {
    if pods.is_empty() {
        return None;
    }
    let (names, verb) = listed(pods);
    let message = format!("{names} {verb} not delivered: Pods never are, as on a KubeFleet hub");
    Some(Warning::new(WarningKind::PodsNotDelivered, message).hint("write a Deployment, a Job or the like"))
}

/// Warns about a name that no object has.
fn nothing_named(selection: &Selection<'_>, place: &str, index: usize, selector: &ResourceSelector) -> Option<Warning> {
    if selector.name.is_empty() || selection.found(selector).next().is_some() {
        return None;
    }
    let anybody = ResourceSelector { name: String::new(), ..selector.clone() };
    let names: Vec<&str> = selection.found(&anybody).map(|manifest| manifest.id.name.as_str()).collect();
    let elsewhere = elsewhere(selection.tree, &selector.group, &selector.kind, &selector.name);
    let message = format!("selects nothing: {place} has no {} {}{elsewhere}", selector.kind, selector.name);
    let warning = Warning::new(WarningKind::NothingSelected, message).at(format!("spec.resourceSelectors[{index}]"));
    Some(match suggest(&selector.name, names) {
        Some(close) => warning.hint(format!("did you mean `{close}`?")),
        None => warning,
    })
}
