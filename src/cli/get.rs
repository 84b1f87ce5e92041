//! `gitfleet get`: records as tables and objects.

use std::path::PathBuf;

use anyhow::bail;
use serde_json::Value;

use super::Daemon;
use super::exit::Exit;
use super::kinds::{GetKind, Listing};
use super::manifests::Manifests;
use super::output::{self, Format, Terminal};
use super::records::locate;
use super::wanted::ShownPart;
use crate::clock;
use crate::model::id::PlacementKey;
use crate::model::overrides::OverrideSnapshot;
use crate::model::records::Binding;
use crate::status::placement::PlacementView;
use crate::store::saved::Records;
use crate::views::objects::{
    binding_object, eviction_objects, member_cluster_object, member_namespace, override_snapshot_object,
    placement_object, policy_snapshot_object, resource_snapshot_objects, work_name, work_object,
};
use crate::views::ocm;
use crate::views::runs::{approval_request_objects, deletion_gate_object, run_object};
use crate::views::table::table;

/// Options of `get`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to show: one of these words, or a kind by its name, plural or short name, such as clusterresourceplacements, rp or
    /// csur.placement.kubernetes-fleet.io.
    #[arg(value_parser = GetKind::parser())]
    kind: GetKind,
    /// Only the object of this name.
    name: Option<String>,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// With works and -o json or yaml: show the objects themselves, as the cluster is to hold them, instead of their names.
    #[arg(long)]
    manifests: bool,
    /// With --manifests: a clone of the source that has the commits of the snapshots.
    #[arg(long, value_name = "DIR", default_value = ".", requires = "manifests")]
    repo: PathBuf,
    /// With --manifests: print secret values, which are masked otherwise.
    #[arg(long, requires = "manifests")]
    show_secrets: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let detail = if matches!(args.output, Format::Json | Format::Yaml) { ShownPart::Whole } else { ShownPart::Line };
    let source = locate(&args.daemon)?;
    let name = args.name.as_deref();
    let lines = if detail == ShownPart::Line { source.lines(args.kind.listing, name)? } else { None };
    let saved = match (args.manifests, &lines) {
        (true, _) => source.read()?,
        (false, Some(_)) => Records::default(),
        (false, None) => source.read_for(args.kind.listing, detail, name)?,
    };
    let all = lines.unwrap_or_else(|| listed(&saved, args.kind.listing));
    let mut objects = meant(all, args.kind, name)?;
    if args.manifests {
        if args.kind.listing != Listing::Works || !matches!(args.output, Format::Json | Format::Yaml) {
            bail!("--manifests shows the objects of works: `gitfleet get works NAME -o yaml --manifests`");
        }
        let mut manifests = Manifests::open(&saved, &args.repo, args.show_secrets)?;
        for object in &mut objects {
            let binding = saved.bindings.values().flatten().find(|binding| is_work_of(object, binding));
            object["spec"]["workload"]["manifests"] = binding.map_or(Ok(Vec::new()), |b| manifests.of(b))?.into();
        }
    }
    let text = match args.output {
        Format::Json => output::render_json(&objects),
        Format::Yaml => output::render_yaml(&objects),
        Format::Name => output::render_names(&objects),
        Format::Table | Format::Wide => {
            let wide = args.output == Format::Wide;
            output::render_table(&table(args.kind.listing.table(), &objects, wide, clock::now()), Terminal::of_stdout())
        }
    };
    output::print(&text)
}

/// Returns the objects of a name: of `name` alone those of every namespace.
///
/// # Errors
/// There is none.
pub fn named(saved: &Records, kind: GetKind, name: &str) -> anyhow::Result<Vec<Value>> {
    meant(listed(saved, kind.listing), kind, Some(name))
}

/// Returns those objects of a listing that a kind and a name mean.
fn meant(mut objects: Vec<Value>, kind: GetKind, name: Option<&str>) -> anyhow::Result<Vec<Value>> {
    objects.retain(|object| kind.only.is_none_or(|only| object["kind"] == only));
    if let Some(name) = name {
        objects.retain(|object| is_named(object, name));
        if objects.is_empty() {
            bail!("there is no {name} among the {}", kind.name());
        }
    }
    Ok(objects)
}

/// Accepts `name` and, for what is namespaced, `namespace/name`.
fn is_named(object: &Value, name: &str) -> bool {
    let metadata = &object["metadata"];
    match name.split_once('/') {
        Some((namespace, name)) => metadata["namespace"] == namespace && metadata["name"] == name,
        None => metadata["name"] == name,
    }
}

/// Tells whether a Work is that of a binding: both have the names that follow from placement and cluster.
fn is_work_of(work: &Value, binding: &Binding) -> bool {
    work["metadata"]["namespace"] == member_namespace(&binding.cluster)
        && work["metadata"]["name"] == work_name(&binding.placement)
}

fn listed(saved: &Records, listing: Listing) -> Vec<Value> {
    let now = clock::now();
    match listing {
        Listing::Placements => views(saved).iter().map(placement_object).collect(),
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
            let newest = |snapshot: &OverrideSnapshot| {
                let of = saved.overrides.iter().filter(|other| other.id.key == snapshot.id.key);
                of.map(|other| other.id.index).max() == Some(snapshot.id.index)
            };
            saved.overrides.iter().map(|snapshot| override_snapshot_object(snapshot, newest(snapshot))).collect()
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
    }
}

fn is_last<T>(of: &std::collections::BTreeMap<u64, T>, index: u64) -> bool {
    of.last_key_value().is_some_and(|(last, _)| *last == index)
}

fn work<'a>(
    saved: &'a Records,
    placement: &PlacementKey,
    binding: &Binding,
) -> Option<&'a crate::model::records::WorkStatus> {
    saved.works.get(placement)?.get(&binding.cluster).map(AsRef::as_ref)
}

/// Returns a view of every placement.
pub fn views(saved: &Records) -> Vec<PlacementView<'_>> {
    static NO_SNAPSHOTS: std::collections::BTreeMap<u64, std::sync::Arc<crate::model::records::ResourceSnapshot>> =
        std::collections::BTreeMap::new();
    static NO_WORKS: std::collections::BTreeMap<
        crate::model::id::ClusterName,
        std::sync::Arc<crate::model::records::WorkStatus>,
    > = std::collections::BTreeMap::new();
    static NO_RUNS: crate::model::runs::Runs = crate::model::runs::Runs::new();
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
            now: clock::now(),
        })
        .collect()
}
