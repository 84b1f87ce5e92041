//! Warnings about selectors that name objects which do not exist.

use super::select::Selection;
use crate::api::check::suggest;
use crate::api::placement::{ResourceSelector, SelectionScope};
use crate::model::manifest::Manifest;
use crate::model::names::first_of;
use crate::model::tree::{Placement, Tree};
use crate::model::warning::{Warning, WarningKind};

/// Pods in a warning; the rest is counted.
const NAMED_MAX: usize = 3;

/// Returns the warnings about a successful selection: Pods, which are never delivered, and names that select nothing.
pub fn not_selected(tree: &Tree, placement: &Placement) -> Vec<Warning> {
    // A failed selection is reported as the placement's error.
    let Ok(selection) = Selection::new(tree, placement) else { return Vec::new() };
    let selectors = &placement.spec.resource_selectors;
    let mut pods: Vec<&Manifest> = selectors.iter().flat_map(|selector| pods(&selection, selector)).collect();
    pods.sort_by(|a, b| a.id.cmp(&b.id));
    pods.dedup_by(|a, b| a.id == b.id);
    let named = selectors.iter().enumerate();
    let mut warnings: Vec<Warning> =
        named.filter_map(|(index, selector)| nothing_named(&selection, index, selector)).collect();
    let is_empty = |selector: &ResourceSelector| selection.found(selector).next().is_none();
    // Warnings about names or Pods were added above; this is for labels and whole kinds.
    if warnings.is_empty() && pods.is_empty() && selectors.iter().all(is_empty) {
        let message = "the selectors select nothing, so nothing is delivered";
        warnings.push(Warning::new(WarningKind::NothingSelected, message).at("spec.resourceSelectors"));
    }
    warnings.extend(pods_warning(&pods));
    warnings
}

/// Returns the Pods that a selector would select.
fn pods<'a>(selection: &Selection<'a>, selector: &ResourceSelector) -> Vec<&'a Manifest> {
    if !selector.group.is_empty() {
        return Vec::new();
    }
    match selector.kind.as_str() {
        "Pod" => selection.found(selector).collect(),
        "Namespace" if selector.selection_scope == SelectionScope::NamespaceWithResources => {
            let is_pod = |manifest: &&Manifest| manifest.id.group.is_empty() && manifest.id.kind == "Pod";
            selection.found(selector).flat_map(|ns| selection.tree.in_namespace(&ns.id.name)).filter(is_pod).collect()
        }
        _ => Vec::new(),
    }
}

fn pods_warning(pods: &[&Manifest]) -> Option<Warning> {
    if pods.is_empty() {
        return None;
    }
    let names: Vec<String> = pods.iter().map(|pod| format!("{} ({})", pod.id, pod.origin.path)).collect();
    let names = first_of(names.iter().map(String::as_str), NAMED_MAX);
    let verb = if pods.len() == 1 { "is" } else { "are" };
    let message = format!("{names} {verb} not delivered: Pods never are, as on a KubeFleet hub");
    Some(Warning::new(WarningKind::PodsNotDelivered, message).hint("write a Deployment, a Job or the like"))
}

/// Warns about a name that no object has.
fn nothing_named(selection: &Selection<'_>, index: usize, selector: &ResourceSelector) -> Option<Warning> {
    if selector.name.is_empty() || selection.found(selector).next().is_some() {
        return None;
    }
    let anybody = ResourceSelector { name: String::new(), ..selector.clone() };
    let names: Vec<&str> = selection.found(&anybody).map(|manifest| manifest.id.name.as_str()).collect();
    let message = format!("selects nothing: the source has no {} {}", selector.kind, selector.name);
    let warning = Warning::new(WarningKind::NothingSelected, message).at(format!("spec.resourceSelectors[{index}]"));
    Some(match suggest(&selector.name, names) {
        Some(close) => warning.hint(format!("did you mean `{close}`?")),
        None => warning,
    })
}
