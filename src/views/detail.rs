//! One placement in full, except that clusters which are as they are to be are only counted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::conventions::conventional;
use super::fleet::{FleetView, Placed};
use super::objects::placement_head;
use super::tree::{ClusterNode, LISTED_MAX, PlacementRow, unhealthy};
use decide::status::rollout::cluster_tally;
use decide::status::rollup::placement_conditions;
use decide::status::staged_run::{active_run, closed_gates};
use model::records::{HeldSnapshot, Pause};
use model::runs::{ClusterPhase, RunRecord, StagePhase, StageRecord};
use model::warning::Warning;

/// One placement.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDetail<'a> {
    /// As `get` shows it, with all conditions and no lists of clusters and objects.
    pub object: Value,
    /// What `status` shows.
    pub rollout: PlacementRow,
    /// Its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// Its warnings.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub warnings: &'a [Warning],
    /// A person's pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<&'a Pause>,
    /// A snapshot that is not rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<&'a HeldSnapshot>,
    /// The stages of the run that moves it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageDetail<'a>>,
    /// How many clusters are in each state.
    pub clusters: BTreeMap<&'static str, usize>,
    /// The first clusters that are not as they are to be.
    pub unhealthy: Vec<ClusterNode>,
    /// How many more there are.
    pub unhealthy_unlisted: usize,
}

/// A stage of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageDetail<'a> {
    /// Its run.
    pub run: &'a str,
    /// Its name.
    pub name: &'a str,
    /// How far it is.
    pub phase: StagePhase,
    /// How many clusters are in each phase.
    pub clusters: BTreeMap<ClusterPhase, usize>,
    /// Gates that it waits at: what they are and the digest to approve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Value>,
}

impl<'a> PlacementDetail<'a> {
    /// Describes a placement of a fleet at a moment.
    pub fn of(placed: &'a Placed, fleet: &FleetView, now: Timestamp) -> Self {
        let record = &placed.records.record;
        let view = placed.records.view(&fleet.clusters, now);
        let mut object = placement_head(record);
        object["status"] = json!({"conditions": placement_conditions(&view)});
        let object = conventional(object);
        let (unhealthy, unhealthy_unlisted) = unhealthy(&view, LISTED_MAX);
        let stages = match active_run(&placed.records.runs) {
            Some(run) => run.stages.iter().chain(&run.deletion).map(|stage| stage_detail(run, stage)).collect(),
            None => Vec::new(),
        };
        Self {
            object,
            rollout: placed.shown(fleet, now).row.clone(),
            error: record.error.as_deref(),
            warnings: &record.warnings,
            paused: record.paused.as_ref(),
            held: record.held.as_ref(),
            stages,
            clusters: cluster_tally(&view),
            unhealthy,
            unhealthy_unlisted,
        }
    }
}

fn stage_detail<'a>(run: &'a RunRecord, stage: &'a StageRecord) -> StageDetail<'a> {
    let mut clusters = BTreeMap::new();
    for cluster in &stage.clusters {
        *clusters.entry(cluster.phase).or_default() += 1;
    }
    let gates = closed_gates(run).into_iter().filter(|gate| gate.stage.name == stage.name).map(|gate| {
        json!({
            "before": gate.before, "approval": gate.is_approval(), "since": gate.since(), "opensAt": gate.opens_at(),
            "digest": gate.stage.digest,
        })
    });
    StageDetail { run: &run.name, name: &stage.name, phase: stage.phase, clusters, gates: gates.collect() }
}
