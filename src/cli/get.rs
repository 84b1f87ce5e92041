//! `gitfleet get`: records as tables and objects.

use anyhow::bail;
use serde_json::Value;

use super::Daemon;
use super::exit::Exit;
use super::output::{self, Format, Terminal};
use super::records::locate;
use crate::clock;
use crate::model::id::PlacementKey;
use crate::status::placement::PlacementView;
use crate::store::saved::Records;
use crate::views::objects::{
    binding_object, eviction_objects, member_cluster_object, placement_object, policy_snapshot_object,
    resource_snapshot_objects, work_object,
};
use crate::views::ocm;
use crate::views::runs::{approval_request_objects, deletion_gate_object, run_object};
use crate::views::table::{TableKind, table};

/// Options of `get`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to show.
    #[arg(value_enum)]
    kind: GetKind,
    /// Only the object of this name.
    name: Option<String>,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    daemon: Daemon,
}

/// Kinds of objects that records are shown as.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum GetKind {
    /// ClusterResourcePlacements and ResourcePlacements.
    #[value(alias = "placement", alias = "crp", alias = "rp")]
    Placements,
    /// Resource snapshots.
    #[value(alias = "snapshot", alias = "crs")]
    Snapshots,
    /// Policy snapshots.
    #[value(alias = "policy", alias = "csps")]
    Policies,
    /// Bindings.
    #[value(alias = "binding", alias = "crb")]
    Bindings,
    /// Staged update runs.
    #[value(alias = "run", alias = "csur", alias = "sur")]
    Runs,
    /// Approval requests of staged update runs, and closed deletion gates.
    #[value(alias = "approval", alias = "careq", alias = "areq")]
    Approvals,
    /// Works: what each cluster holds.
    #[value(alias = "work")]
    Works,
    /// OCM Placements.
    #[value(name = "ocmplacements", alias = "ocmplacement")]
    OcmPlacements,
    /// PlacementDecisions of OCM Placements.
    #[value(name = "placementdecisions", alias = "placementdecision", alias = "decisions")]
    PlacementDecisions,
    /// Evictions that were evaluated.
    #[value(alias = "eviction", alias = "crpe")]
    Evictions,
    /// Member clusters.
    #[value(alias = "cluster", alias = "members")]
    Clusters,
}

impl GetKind {
    fn table(self) -> TableKind {
        match self {
            Self::Placements => TableKind::Placements,
            Self::Snapshots | Self::Policies => TableKind::Snapshots,
            Self::Bindings => TableKind::Bindings,
            Self::Works => TableKind::Works,
            Self::Clusters => TableKind::Clusters,
            Self::OcmPlacements => TableKind::OcmPlacements,
            Self::PlacementDecisions => TableKind::Decisions,
            Self::Evictions => TableKind::Evictions,
            Self::Runs => TableKind::Runs,
            Self::Approvals => TableKind::Approvals,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let saved = locate(&args.daemon)?.read()?;
    let objects = match &args.name {
        Some(name) => named(&saved, args.kind, name)?,
        None => objects(&saved, args.kind),
    };
    let text = match args.output {
        Format::Json => output::render_json(&objects),
        Format::Yaml => output::render_yaml(&objects),
        Format::Name => output::render_names(&objects),
        Format::Table | Format::Wide => {
            let wide = args.output == Format::Wide;
            output::render_table(&table(args.kind.table(), &objects, wide, clock::now()), Terminal::of_stdout())
        }
    };
    output::print(&text)
}

/// Returns the objects of a name: of `name` alone those of every namespace.
///
/// # Errors
/// There is none.
pub fn named(saved: &Records, kind: GetKind, name: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = objects(saved, kind);
    objects.retain(|object| is_named(object, name));
    if objects.is_empty() {
        bail!("there is no {name} among the {}", format!("{kind:?}").to_lowercase());
    }
    Ok(objects)
}

/// Accepts `name` and, for what lives in namespaces, `namespace/name`.
fn is_named(object: &Value, name: &str) -> bool {
    let metadata = &object["metadata"];
    match name.split_once('/') {
        Some((namespace, name)) => metadata["namespace"] == namespace && metadata["name"] == name,
        None => metadata["name"] == name,
    }
}

fn objects(saved: &Records, kind: GetKind) -> Vec<Value> {
    let now = clock::now();
    match kind {
        GetKind::Placements => views(saved).iter().map(placement_object).collect(),
        GetKind::Snapshots => saved
            .snapshots
            .values()
            .flat_map(|of| of.values().map(|s| resource_snapshot_objects(s, is_last(of, s.index))))
            .flatten()
            .collect(),
        GetKind::Policies => saved
            .policies
            .values()
            .flat_map(|of| of.values().map(|p| policy_snapshot_object(p, is_last(of, p.index))))
            .collect(),
        GetKind::Bindings => {
            saved.bindings.values().flatten().map(|b| binding_object(b, work(saved, &b.placement, b))).collect()
        }
        GetKind::Works => saved
            .bindings
            .values()
            .flatten()
            .filter_map(|b| Some(work_object(b, work(saved, &b.placement, b)?, now)))
            .collect(),
        GetKind::OcmPlacements => saved.ocm.iter().map(ocm::placement_object).collect(),
        GetKind::PlacementDecisions => saved.ocm.iter().flat_map(ocm::decision_objects).collect(),
        GetKind::Evictions => saved.placements.iter().flat_map(eviction_objects).collect(),
        GetKind::Runs => saved.runs.values().flat_map(|of| of.values().map(|run| run_object(run, now))).collect(),
        GetKind::Approvals => {
            let requests = saved.runs.values().flat_map(|of| of.values().flat_map(approval_request_objects));
            requests.chain(saved.placements.iter().filter_map(deletion_gate_object)).collect()
        }
        GetKind::Clusters => saved.clusters.values().map(|c| member_cluster_object(c, now)).collect(),
    }
}

fn is_last<T>(of: &std::collections::BTreeMap<u64, T>, index: u64) -> bool {
    of.last_key_value().is_some_and(|(last, _)| *last == index)
}

fn work<'a>(
    saved: &'a Records,
    placement: &PlacementKey,
    binding: &crate::model::records::Binding,
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
