//! OCM Placements: from clusters, sets, scores and earlier decisions to decisions and status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::complain;
use model::api::FieldError;
use model::api::condition::Condition;
use model::api::object::{Object, without_nulls};
use model::api::ocm::{GROUP_NAME_LABEL, OcmPlacementSpec, PLACEMENT_LABEL};
use model::api::table::OCM_GROUP;
use model::facts::stated;
use model::id::ClusterName;
use model::manifest::{InputError, Manifest};
use model::tree::Tree;
use model::yaml;
use schedule::ocm::{
    Hub, Key, OcmMember, OcmOutcome, OcmPolicy, OnMisconfigured, Page, Request, is_disabled, schedule,
};

/// Group and version of the output, whatever the version of the input.
const API_VERSION: &str = "cluster.open-cluster-management.io/v1beta1";

/// The results for the Placements.
pub(super) struct Decided {
    /// PlacementDecisions and Placements.
    pub objects: Vec<Value>,
    /// The clusters of each Placement, with the name of their group.
    pub clusters: BTreeMap<Key, BTreeMap<ClusterName, String>>,
}

/// Returns the decisions of every OCM Placement, in order of namespace and name, each followed by the Placement with its status.
///
/// A Placement sees the decisions of those before it, like with one worker of the original. A misconfigured one withdraws its
/// decisions, as there. A disabled one decides nothing: its decisions are returned unchanged. One that is being deleted is left
/// out, with its decisions.
///
/// # Errors
/// Documents that cannot be read.
pub(super) fn decisions(tree: &Tree, now: Timestamp) -> Result<Decided, Vec<InputError>> {
    let documents: Vec<&Manifest> = tree.inputs.iter().filter(|manifest| manifest.id.group == OCM_GROUP).collect();
    let mut hub = Hub::read(documents.iter().map(|manifest| manifest.object.as_ref()))
        .map_err(|(position, errors)| complaints(documents[position], errors))?;
    state_properties(&mut hub, tree, &documents);
    let mut decided = Decided { objects: Vec::new(), clusters: BTreeMap::new() };
    let mut placements: Vec<&Manifest> =
        documents.iter().copied().filter(|manifest| manifest.id.kind == "Placement").collect();
    placements.sort_by_key(|manifest| (&manifest.id.namespace, &manifest.id.name));
    for manifest in placements {
        let object = read(manifest).map_err(|errors| complaints(manifest, errors))?;
        let key = Key::new(&object.metadata.namespace, &object.metadata.name);
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        if is_disabled(&object.metadata.annotations) {
            let standing = standing(&documents, &key);
            decided.clusters.insert(key.clone(), standing.iter().flat_map(|page| decisions_of(page)).collect());
            decided.objects.extend(standing.into_iter().cloned());
            decided.objects.push(as_it_stands(&object, manifest, &key));
            continue;
        }
        let policy = OcmPolicy::new(object.spec.clone());
        let request =
            Request { key: &key, policy: &policy, hub: &hub, now, on_misconfigured: OnMisconfigured::Withdraw };
        let outcome =
            schedule(&request).map_err(|error| complaints(manifest, vec![FieldError::new("", error.to_string())]))?;
        let pages = outcome.pages(&key, &hub).unwrap_or_default();
        decided.clusters.insert(key.clone(), grouped(&pages));
        decided.objects.extend(pages.iter().map(|page| page_object(&key, page)));
        decided.objects.push(placement_object(&object, manifest, &outcome, &key, &hub, now));
        // For the next Placements: the prioritizer `Balance` counts the picks of earlier ones.
        hub.set_selected(&key, &outcome.selected);
    }
    Ok(decided)
}

fn complaints(manifest: &Manifest, errors: Vec<FieldError>) -> Vec<InputError> {
    errors.into_iter().map(|error| complain(manifest, error)).collect()
}

/// Ranks clusters by properties that git states by hand.
fn state_properties(hub: &mut Hub, tree: &Tree, documents: &[&Manifest]) {
    for manifest in documents.iter().filter(|manifest| manifest.id.kind == "ManagedCluster") {
        let properties = tree.clusters.get(manifest.id.name.as_str()).map(stated).unwrap_or_default();
        if properties.is_empty() {
            continue;
        }
        if let Ok((name, mut member)) = OcmMember::read(&manifest.object) {
            member.fill_resources(&properties);
            hub.set_cluster(&name, Some(member));
        }
    }
}

fn read(manifest: &Manifest) -> Result<Object<OcmPlacementSpec>, Vec<FieldError>> {
    let mut document = without_nulls(&manifest.object);
    if let Some(fields) = document.as_object_mut() {
        fields.entry("spec").or_insert_with(|| json!({}));
    }
    yaml::typed(&document)
}

fn grouped(pages: &[Page]) -> BTreeMap<ClusterName, String> {
    let mut groups = BTreeMap::new();
    for page in pages {
        let group = page.labels.get(GROUP_NAME_LABEL).cloned().unwrap_or_default();
        groups.extend(page.clusters.iter().map(|cluster| (cluster.clone(), group.clone())));
    }
    groups
}

fn page_object(key: &Key, page: &Page) -> Value {
    let decisions: Vec<Value> =
        page.clusters.iter().map(|cluster| json!({"clusterName": cluster, "reason": ""})).collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": "PlacementDecision",
        "metadata": {"name": page.name, "namespace": key.namespace, "labels": page.labels},
        "status": {"decisions": decisions},
    })
}

/// Returns the PlacementDecisions of a Placement, by name.
fn standing<'d>(documents: &[&'d Manifest], key: &Key) -> Vec<&'d Value> {
    let pages = documents.iter().filter(|document| {
        let labels = &document.object["metadata"]["labels"];
        document.id.kind == "PlacementDecision"
            && document.id.namespace == key.namespace
            && labels[PLACEMENT_LABEL].as_str() == Some(key.name.as_str())
    });
    let mut pages: Vec<&&Manifest> = pages.collect();
    pages.sort_by_key(|page| &page.id.name);
    pages.into_iter().map(|page| page.object.as_ref()).collect()
}

/// Returns the clusters that a PlacementDecision names, with the name of their group.
fn decisions_of(page: &Value) -> impl Iterator<Item = (ClusterName, String)> {
    let group = page["metadata"]["labels"][GROUP_NAME_LABEL].as_str().unwrap_or_default();
    let decisions = page.pointer("/status/decisions").and_then(Value::as_array).into_iter().flatten();
    let names = decisions.filter_map(|decision| decision["clusterName"].as_str());
    names.map(move |name| (ClusterName::from(name), group.to_owned()))
}

/// Returns an undecided Placement with its present status.
fn as_it_stands(object: &Object<OcmPlacementSpec>, manifest: &Manifest, key: &Key) -> Value {
    let mut shown = shown(object, manifest, key);
    if let Some(status) = &object.status {
        shown["status"] = status.clone();
    }
    shown
}

/// Returns the Placement with its new status, and the totals of the decision.
fn placement_object(
    object: &Object<OcmPlacementSpec>,
    manifest: &Manifest,
    outcome: &OcmOutcome,
    key: &Key,
    hub: &Hub,
    now: Timestamp,
) -> Value {
    let before: Vec<Condition> = object
        .status
        .as_ref()
        .and_then(|status| serde_json::from_value(status.get("conditions")?.clone()).ok())
        .unwrap_or_default();
    let mut status = serde_json::to_value(outcome.status(key, &before, now)).unwrap_or_default();
    let scores = outcome.scores.iter();
    let scores = scores.map(|&(slot, score)| json!({"clusterName": hub.names()[slot as usize], "score": score}));
    status["scores"] = scores.collect();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        // The original sets none.
        condition.as_object_mut().and_then(|fields| fields.remove("observedGeneration"));
    }
    let mut shown = shown(object, manifest, key);
    shown["status"] = status;
    shown
}

/// Returns a Placement as in its document, in the spelling of [`API_VERSION`].
fn shown(object: &Object<OcmPlacementSpec>, manifest: &Manifest, key: &Key) -> Value {
    let mut metadata = json!({"name": key.name, "namespace": key.namespace});
    for (field, value) in [("labels", &object.metadata.labels), ("annotations", &object.metadata.annotations)] {
        if !value.is_empty() {
            metadata[field] = json!(value);
        }
    }
    let mut spec = manifest.object.get("spec").cloned().unwrap_or_else(|| json!({}));
    let configurations = spec.pointer_mut("/prioritizerPolicy/configurations").and_then(Value::as_array_mut);
    for configuration in configurations.into_iter().flatten().filter_map(Value::as_object_mut) {
        // v1alpha1 had only the name at first, and the coordinate wins if both are given.
        if let Some(name) = configuration.remove("name") {
            configuration.entry("scoreCoordinate").or_insert_with(|| json!({"type": "BuiltIn", "builtIn": name}));
        }
    }
    json!({"apiVersion": API_VERSION, "kind": "Placement", "metadata": metadata, "spec": spec})
}
