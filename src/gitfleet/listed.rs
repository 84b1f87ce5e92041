//! What a listing shows, from records: whole objects, or lines of a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::bail;
use jiff::Timestamp;
use serde_json::Value;

use super::kinds::{GetKind, Listing};
use super::subjects::Subjects;
use decide::names::Names;
use decide::status::placement::PlacementView;
use engine::store::saved::Records;
use model::id::PlacementKey;
use model::overrides::OverrideSnapshot;
use model::records::{Binding, PlacementRecord, WorkStatus};
use model::runs::Runs;
use model::target::TargetWord;
use model::text;
use views::conventions::conventional;
use views::objects::{
    binding_object, eviction_objects, member_cluster_object, override_snapshot_object, placement_object,
    policy_snapshot_object, resource_snapshot_objects, work_object,
};
use views::ocm;
use views::rows::{approval_lines, deletion_gate_line, eviction_lines, is_waiting, run_line, snapshot_line};
use views::runs::{approval_request_objects, deletion_gate_object, run_object};
use views::table::Columns;

/// Returns the objects of a listing.
pub(crate) fn objects(saved: &Records, listing: Listing, now: Timestamp) -> Vec<Value> {
    let all: Vec<Value> = match listing {
        Listing::Placements => views(saved, &names(saved), now).iter().map(placement_object).collect(),
        Listing::Snapshots => saved
            .snapshots
            .values()
            .flat_map(|of| of.values().map(|s| resource_snapshot_objects(s, is_last(of, s.index))))
            .flatten()
            .collect(),
        Listing::Policies => saved
            .policies
            .values()
            .flat_map(|of| of.values().map(|p| policy_snapshot_object(p, is_last(of, p.index))))
            .collect(),
        Listing::Overrides => {
            let all = saved.overrides.iter();
            all.map(|snapshot| override_snapshot_object(snapshot, is_newest(saved, snapshot))).collect()
        }
        Listing::Bindings => {
            saved.bindings.values().flatten().map(|b| binding_object(b, work(saved, &b.placement, b))).collect()
        }
        Listing::Works => saved
            .bindings
            .values()
            .flatten()
            .filter_map(|b| Some(work_object(b, work(saved, &b.placement, b)?, now)))
            .collect(),
        Listing::OcmPlacements => saved.ocm.iter().map(ocm::placement_object).collect(),
        Listing::PlacementDecisions => saved.ocm.iter().flat_map(ocm::decision_objects).collect(),
        Listing::Evictions => saved.placements.iter().flat_map(eviction_objects).collect(),
        Listing::Runs => saved.runs.values().flat_map(|of| of.values().map(|run| run_object(run, now))).collect(),
        Listing::Approvals => {
            let requests = saved.runs.values().flat_map(|of| of.values().flat_map(approval_request_objects));
            requests.chain(saved.placements.iter().filter_map(deletion_gate_object)).collect()
        }
        Listing::Clusters => saved.clusters.values().map(|c| member_cluster_object(c, now)).collect(),
    };
    all.into_iter().map(conventional).collect()
}

/// Tells whether a snapshot is the last one of its override.
fn is_newest(saved: &Records, snapshot: &OverrideSnapshot) -> bool {
    let of = saved.overrides.iter().filter(|other| other.id.key == snapshot.id.key);
    of.map(|other| other.id.index).max() == Some(snapshot.id.index)
}

/// Returns what a table shows of a kind that the daemon has no list of.
pub(crate) fn lines(saved: &Records, kind: GetKind, subjects: Option<&Subjects>, now: Timestamp) -> Vec<Value> {
    if kind.columns() == Columns::KubeFleet {
        return objects(saved, kind.listing, now);
    }
    let approvers = saved.source.as_ref().and_then(|source| source.approvers.as_deref());
    match kind.listing {
        Listing::Snapshots => snapshot_lines(saved, subjects),
        Listing::Runs => run_lines(saved, now),
        Listing::Approvals => {
            let records = records(saved);
            let runs = saved.runs.values().flat_map(Runs::values);
            let requests = runs.flat_map(|run| approval_lines(run, records.get(&run.placement).copied(), approvers));
            let gates = saved.placements.iter().filter_map(|record| deletion_gate_line(record, approvers));
            let mut all: Vec<Value> = requests.chain(gates).collect();
            // Pending approvals come first.
            all.sort_by_key(|line| !is_waiting(line));
            all
        }
        Listing::Evictions => saved.placements.iter().flat_map(eviction_lines).collect(),
        _ => objects(saved, kind.listing, now),
    }
}

fn records(saved: &Records) -> BTreeMap<&PlacementKey, &PlacementRecord> {
    saved.placements.iter().map(|record| (&record.key, record)).collect()
}

/// Returns the names of all placements and runs that were read.
pub(crate) fn names(saved: &Records) -> Names {
    Names::of(saved.placements.iter().map(|record| (&record.key, saved.runs.get(&record.key).unwrap_or(&NO_RUNS))))
}

fn run_lines(saved: &Records, now: Timestamp) -> Vec<Value> {
    let records = records(saved);
    let names = names(saved);
    let mut lines = Vec::new();
    for (key, of) in &saved.runs {
        let record = records.get(key).copied();
        let is_shared = names.is_shared(key, of);
        lines.extend(of.values().map(|run| run_line(run, record, is_shared, saved.snapshots.get(key), now)));
    }
    lines
}

fn snapshot_lines(saved: &Records, subjects: Option<&Subjects>) -> Vec<Value> {
    let records = records(saved);
    let mut lines = Vec::new();
    for (key, of) in &saved.snapshots {
        let bindings = saved.bindings.get(key).map_or(&[][..], Vec::as_slice);
        let newest = of.last_key_value().map(|(index, _)| *index);
        for snapshot in of.values() {
            let subject = subjects.and_then(|subjects| subjects.of(&snapshot.commit));
            lines.push(snapshot_line(snapshot, records.get(key).copied(), bindings, newest, subject.as_deref()));
        }
    }
    lines
}

/// Tells whether a name means a placement: `NAME` those of every namespace, `NAMESPACE/NAME` or `crp/NAME` one.
pub(crate) fn is_meant(key: &PlacementKey, name: &str) -> bool {
    TargetWord::read(name).is_placement(key)
}

/// Returns the one placement that a name means.
///
/// # Errors
/// None has the name, or several have; for people.
pub(crate) fn one_placement<'a>(saved: &'a Records, name: &str) -> anyhow::Result<&'a PlacementRecord> {
    let mut meant = saved.placements.iter().filter(|record| is_meant(&record.key, name));
    match (meant.next(), meant.next()) {
        (Some(record), None) => Ok(record),
        (Some(one), Some(other)) => bail!(
            "{name} fits {} {one_key} and {} {other_key}; write {} or {}",
            one.key.kind(),
            other.key.kind(),
            one.key.qualified(),
            other.key.qualified(),
            one_key = one.key,
            other_key = other.key,
        ),
        (None, _) => {
            let known: Vec<String> = saved.placements.iter().map(|record| record.key.to_string()).collect();
            let near = text::suggest(name, known.iter().map(String::as_str));
            bail!(
                "there is no placement {name}{}",
                near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
            )
        }
    }
}

fn is_last<T>(of: &BTreeMap<u64, T>, index: u64) -> bool {
    of.last_key_value().is_some_and(|(last, _)| *last == index)
}

fn work<'a>(saved: &'a Records, placement: &PlacementKey, binding: &Binding) -> Option<&'a WorkStatus> {
    saved.works.get(placement)?.get(&binding.cluster).map(AsRef::as_ref)
}

static NO_RUNS: Runs = Runs::new();

/// Returns a view of every placement; `names` are those of all placements and runs.
pub(crate) fn views<'a>(saved: &'a Records, names: &Names, now: Timestamp) -> Vec<PlacementView<'a>> {
    static NO_SNAPSHOTS: BTreeMap<u64, Arc<model::records::ResourceSnapshot>> = BTreeMap::new();
    static NO_WORKS: BTreeMap<model::id::ClusterName, Arc<WorkStatus>> = BTreeMap::new();
    saved
        .placements
        .iter()
        .map(|record| PlacementView {
            record,
            policy: saved.policies.get(&record.key).and_then(|of| of.values().next_back()).map(AsRef::as_ref),
            snapshot: saved.snapshots.get(&record.key).and_then(|of| of.values().next_back()).map(AsRef::as_ref),
            history: saved.snapshots.get(&record.key).unwrap_or(&NO_SNAPSHOTS),
            bindings: saved.bindings.get(&record.key).map_or(&[], Vec::as_slice),
            works: saved.works.get(&record.key).unwrap_or(&NO_WORKS),
            runs: saved.runs.get(&record.key).unwrap_or(&NO_RUNS),
            clusters: &saved.clusters,
            shared_name: names.is_shared(&record.key, saved.runs.get(&record.key).unwrap_or(&NO_RUNS)),
            now,
        })
        .collect()
}
