//! One pass: reads the hub and makes the necessary writes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::HubSettings;
use crate::hub_writer::settings::is_passing;
use cluster::Error;
use cluster::hub::{Change, Hub, HubKind};
use decide::status::decision_pages::{page_name, page_of, page_writes, retiring_writes};
use decide::status::decisions::{Exports, reads};
use model::api::annotations::SOURCE;
use model::api::ocm::{GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, SCHEDULING_DISABLED};
use model::api::table::OCM_GROUP;
use model::decisions::{DecisionsRecord, Page, PageWrite};
use system::fence;
use system::fence::Fence;

/// The label that marks our objects, with [`MANAGER`] as value.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
const MANAGER: &str = "gitfleet";
/// The annotation that makes the ApplicationSet controller run immediately; the controller removes it afterwards.
///
/// Source: Argo CD.
const REFRESH: &str = "argocd.argoproj.io/application-set-refresh";

/// The versions last read or written: a watch event with one of them is no change.
#[derive(Default)]
pub(super) struct KnownObjects {
    versions: BTreeMap<(HubKind, String), String>,
}

impl KnownObjects {
    fn note(&mut self, kind: HubKind, object: &Value) {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        self.versions.insert((kind, text("/metadata/name")), text("/metadata/resourceVersion"));
    }

    pub(super) fn is_news(&self, change: &Change) -> bool {
        match change {
            Change::Is { kind, name, version } => {
                let known = self.versions.get(&(*kind, name.clone()));
                known.is_none_or(|known| {
                    // A watch may report late what our own write replaced. If versions are no numbers, any other version is a
                    // change.
                    known != version && !is_older(version, known)
                })
            }
            // Our own deletions removed the version, so their events are no change.
            Change::Gone { kind, name } => self.versions.contains_key(&(*kind, name.clone())),
            Change::Failed(_) => true,
        }
    }
}

/// One pass over the hub.
pub(super) struct HubPass<'a> {
    hub: &'a Hub,
    settings: &'a HubSettings,
    fence: &'a Fence,
    pub known: KnownObjects,
    pub problems: Vec<String>,
    /// Another writer was faster: read again.
    pub again: bool,
    /// A write failed that may succeed at the next try.
    pub failed_for_now: bool,
    /// Names and labels of the pages that changed.
    changed: Vec<(String, BTreeMap<String, String>)>,
}

impl<'a> HubPass<'a> {
    pub(super) fn new(hub: &'a Hub, settings: &'a HubSettings, fence: &'a Fence) -> Self {
        Self {
            hub,
            settings,
            fence,
            known: KnownObjects::default(),
            problems: Vec::new(),
            again: false,
            failed_for_now: false,
            changed: Vec::new(),
        }
    }

    /// Makes a write while the fence is open.
    async fn fenced<T>(&self, write: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let cut = |cut: fence::Cut| Error::Unreachable { cluster: "hub".to_owned(), reason: cut.to_string() };
        Box::pin(self.fence.run(write)).await.map_err(cut)?
    }

    /// # Errors
    /// Writes the exports. Fails if the hub as a whole cannot be used now.
    pub(super) async fn make_so(&mut self, exports: &Exports) -> Result<(), Error> {
        let objects = self.hub.list(HubKind::PlacementDecision).await?;
        for object in &objects {
            self.known.note(HubKind::PlacementDecision, object);
        }
        let placements = self.placements().await?;
        let sets = self.application_sets().await?;
        let mut by_label: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for object in &objects {
            // By name and by label: Argo CD reads pages with our label, and our writes hit pages with our name.
            let page = page_of(name(object)).map(|(label, _)| label);
            let labels: BTreeSet<&str> = page.into_iter().chain(label(object, PLACEMENT_LABEL)).collect();
            for label in labels {
                by_label.entry(label).or_default().push(object);
            }
        }
        for record in exports.values() {
            if let Some(problem) = &record.problem {
                self.problems.push(problem.clone());
            }
            let Some(label) = record.label.as_deref() else { continue };
            let found = by_label.get(label).map_or(&[][..], Vec::as_slice);
            self.one(record, label, found, &placements, sets.as_deref()).await?;
        }
        let exported: BTreeSet<&str> = exports.values().filter_map(|record| record.label.as_deref()).collect();
        let is_left =
            |object: &&Value| self.is_ours(object) && page_of(name(object)).is_none_or(|(l, _)| !exported.contains(l));
        let left: Vec<String> = objects.iter().filter(is_left).map(|object| name(object).to_owned()).collect();
        self.problems.extend(left.into_iter().map(|name| {
            format!("PlacementDecision {name} belongs to gitfleet but has no placement; it was not deleted. Delete it if unused")
        }));
        self.config_map().await?;
        if let Some(sets) = sets {
            self.refresh(&sets).await?;
        }
        Ok(())
    }

    /// Updates the pages of one placement.
    async fn one(
        &mut self,
        record: &DecisionsRecord,
        value: &str,
        found: &[&Value],
        placements: &BTreeSet<String>,
        sets: Option<&[Value]>,
    ) -> Result<(), Error> {
        // Two writers would list every cluster twice, so this placement is not written.
        if let Some(other) = found.iter().find(|object| !self.is_ours(object)) {
            let of = other.pointer("/metadata/annotations").and_then(|a| a.get(SOURCE)).and_then(Value::as_str);
            let owner = of.map_or_else(String::new, |source| format!(" (its source is {source})"));
            self.problems.push(format!(
                "{} has no decisions on the hub: PlacementDecision {} is not ours{owner} and is left; delete it, or rename the \
                 placement",
                record.key,
                name(other)
            ));
            return Ok(());
        }
        if placements.contains(value) {
            self.problems.push(format!(
                "{} has no decisions on the hub: an OCM Placement {value} lives there, whose controller would delete them; \
                 annotate it with {SCHEDULING_DISABLED}: \"true\", or rename one of them",
                record.key
            ));
            return Ok(());
        }
        let pages: BTreeMap<u32, &Value> = found
            .iter()
            .filter_map(|o| page_of(name(o)).filter(|(label, _)| *label == value).map(|(_, n)| (n, *o)))
            .collect();
        let existing: Vec<Page> = pages.iter().map(|(number, object)| page(*number, value, object)).collect();
        let writes = if record.removed {
            let named: Vec<(String, BTreeMap<String, String>)> =
                pages.values().map(|object| (name(object).to_owned(), labels(object))).collect();
            let named: Vec<(&str, BTreeMap<String, String>)> =
                named.iter().map(|(name, labels)| (name.as_str(), labels.clone())).collect();
            // If nobody can tell, assume that somebody reads them: without any page Argo CD keeps every Application.
            let is_read = sets.is_none_or(|sets| sets.iter().any(|set| reads(set, &self.settings.config_map, &named)));
            retiring_writes(&existing, is_read)
        } else {
            page_writes(&existing, &record.groups)
        };
        if !writes.is_empty() {
            tracing::info!(placement = %record.key, writes = writes.len(), "writing decisions to the hub");
        }
        for write in writes {
            if let Err(error) = self.write(value, &pages, &write).await {
                if error.is_offline() {
                    return Err(error);
                }
                // The other writes wait: their order keeps clusters from vanishing. Somebody created or deleted a page since
                // the list was read, so the writes must be planned again.
                self.again |= matches!(error, Error::Refused { code: 404 | 409, .. });
                self.failed_for_now |= is_passing(&error);
                self.problems.push(format!("{}: {error}", record.key));
                return Ok(());
            }
        }
        Ok(())
    }

    async fn write(&mut self, value: &str, pages: &BTreeMap<u32, &Value>, write: &PageWrite) -> Result<(), Error> {
        let kind = HubKind::PlacementDecision;
        let (PageWrite::Create { number }
        | PageWrite::Status { number, .. }
        | PageWrite::Label { number, .. }
        | PageWrite::Delete { number }) = write;
        let name = page_name(value, *number);
        let mut labels = pages.get(number).map_or_else(BTreeMap::new, |object| labels(object));
        let answer = match write {
            // Without the placement's label: until it has a status Argo CD would read it as an empty list.
            PageWrite::Create { .. } => {
                let metadata =
                    json!({"labels": {MANAGED_BY: MANAGER}, "annotations": {SOURCE: self.settings.source.name}});
                self.fenced(self.hub.create(kind, &name, json!({"metadata": metadata}))).await?
            }
            PageWrite::Status { clusters, .. } => {
                // Only strings: older versions of Argo CD crash on anything else.
                let decisions: Vec<Value> =
                    clusters.iter().map(|cluster| json!({"clusterName": cluster, "reason": ""})).collect();
                self.fenced(self.hub.patch_status(kind, &name, &json!({"decisions": decisions}))).await?
            }
            PageWrite::Label { index, group, .. } => {
                let index = index.to_string();
                let wanted = json!({PLACEMENT_LABEL: value, GROUP_INDEX_LABEL: index, GROUP_NAME_LABEL: group});
                self.fenced(self.hub.patch(kind, &name, &json!({"metadata": {"labels": wanted}}))).await?
            }
            PageWrite::Delete { number } => {
                let uid = pages.get(number).and_then(|object| object.pointer("/metadata/uid")).and_then(Value::as_str);
                self.fenced(self.hub.delete(kind, &name, uid.unwrap_or_default())).await?;
                self.known.versions.remove(&(kind, name.clone()));
                self.changed.push((name, labels));
                return Ok(());
            }
        };
        self.known.note(kind, &answer);
        labels.extend(self::labels(&answer));
        self.changed.push((name, labels));
        Ok(())
    }

    fn is_ours(&self, object: &Value) -> bool {
        let source = object.pointer("/metadata/annotations").and_then(|a| a.get(SOURCE)).and_then(Value::as_str);
        label(object, MANAGED_BY) == Some(MANAGER) && source.is_some_and(|source| self.settings.source.is(source))
    }

    /// Returns the OCM Placements on the hub with an active controller.
    async fn placements(&mut self) -> Result<BTreeSet<String>, Error> {
        let live = |object: &&Value| {
            let annotations = object.pointer("/metadata/annotations");
            annotations.and_then(|a| a.get(SCHEDULING_DISABLED)).and_then(Value::as_str) != Some("true")
        };
        match self.hub.list(HubKind::Placement).await {
            Ok(objects) => Ok(objects.iter().filter(live).map(|object| name(object).to_owned()).collect()),
            Err(error) if error.is_not_found() => Ok(BTreeSet::new()),
            // The controller would delete pages that were written on a guess.
            Err(error) if error.is_offline() || is_passing(&error) => Err(error),
            // The right to list them is optional: without it such a Placement is not detected.
            Err(error) => {
                tracing::debug!(%error, "whether OCM Placements live on the hub cannot be seen");
                Ok(BTreeSet::new())
            }
        }
    }

    /// Returns the ApplicationSets; `None` if they cannot be read, which only delays Argo CD.
    async fn application_sets(&mut self) -> Result<Option<Vec<Value>>, Error> {
        match self.hub.list(HubKind::ApplicationSet).await {
            Ok(sets) => Ok(Some(sets)),
            Err(error) if error.is_offline() => Err(error),
            Err(error) => {
                tracing::debug!(%error, "ApplicationSets cannot be listed; they find changes at their next refresh");
                Ok(None)
            }
        }
    }

    /// Writes the ConfigMap, all keys at once and after the pages: a part of it could delete Applications, and without it
    /// nobody reads incomplete pages.
    async fn config_map(&mut self) -> Result<(), Error> {
        let wanted = json!({
            "apiVersion": format!("{OCM_GROUP}/v1beta1"), "kind": "placementdecisions",
            "statusListKey": "decisions", "matchKey": "clusterName",
        });
        let kind = HubKind::ConfigMap;
        let name = self.settings.config_map.as_str();
        let found = self.hub.get(kind, name).await;
        let written = match &found {
            // Whoever created it: it contains what Argo CD needs.
            Ok(Some(object)) if object.get("data") == Some(&wanted) => {
                self.known.note(kind, object);
                return Ok(());
            }
            Ok(Some(object)) if !self.is_ours(object) => {
                self.known.note(kind, object);
                self.problems.push(format!(
                    "ConfigMap {name} on the hub is not ours and has other data than Argo CD needs; it is left; delete \
                     it, set its data to {wanted}, or name another as decisions.configMap"
                ));
                return Ok(());
            }
            Ok(Some(_)) => self.fenced(self.hub.patch(kind, name, &json!({"data": wanted}))).await,
            Ok(None) => {
                let metadata =
                    json!({"labels": {MANAGED_BY: MANAGER}, "annotations": {SOURCE: self.settings.source.name}});
                self.fenced(self.hub.create(kind, name, json!({"metadata": metadata, "data": wanted}))).await
            }
            Err(_) => found.map(Option::unwrap_or_default),
        };
        match written {
            Ok(object) => self.known.note(kind, &object),
            Err(error) if error.is_offline() => return Err(error),
            Err(error) => {
                self.failed_for_now |= is_passing(&error);
                self.problems.push(error.to_string());
            }
        }
        Ok(())
    }

    /// Makes the ApplicationSets that read a changed page run immediately; otherwise they run every few minutes.
    async fn refresh(&mut self, sets: &[Value]) -> Result<(), Error> {
        let changed: Vec<(&str, BTreeMap<String, String>)> =
            self.changed.iter().map(|(name, labels)| (name.as_str(), labels.clone())).collect();
        for set in sets.iter().filter(|set| reads(set, &self.settings.config_map, &changed)) {
            let patch = json!({"metadata": {"annotations": {REFRESH: "true"}}});
            match self.fenced(self.hub.patch(HubKind::ApplicationSet, name(set), &patch)).await {
                Ok(_) => {}
                Err(error) if error.is_offline() => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "an ApplicationSet cannot be refreshed; it refreshes by itself later");
                }
            }
        }
        Ok(())
    }
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn cluster_name(decision: &Value) -> String {
    decision["clusterName"].as_str().unwrap_or_default().to_owned()
}

/// Tells whether a version is an older one, or the same; if versions are no numbers that is not known.
fn is_older(version: &str, known: &str) -> bool {
    match (version.parse::<u64>(), known.parse::<u64>()) {
        (Ok(version), Ok(known)) => version <= known,
        _ => false,
    }
}

/// Reads a page of a placement.
fn page(number: u32, value: &str, object: &Value) -> Page {
    let index = label(object, GROUP_INDEX_LABEL).and_then(|index| index.parse().ok());
    let group = index.zip(label(object, GROUP_NAME_LABEL).map(str::to_owned));
    let list = object.pointer("/status/decisions").and_then(Value::as_array);
    Page {
        number,
        visible: label(object, PLACEMENT_LABEL) == Some(value),
        group,
        // `None` without a status: one must be written, also for a page without clusters.
        clusters: list.map(|items| items.iter().map(cluster_name).collect()),
    }
}
