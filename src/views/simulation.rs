//! What a simulated rollout came to, as `gitfleet simulate` shows it: JSON here, a timeline in [`timeline`], a chart in
//! [`gantt`]. All of it follows from these values alone.

use serde::{Serialize, Serializer};

use crate::model::id::{ClusterName, PlacementKey};
use crate::model::manifest::InputError;
use crate::model::runs::ClusterPhase;

pub mod gantt;
#[cfg(test)]
mod tests;
pub mod timeline;

/// A time since the push of the commit, in milliseconds; JSON shows seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(pub i64);

impl Offset {
    /// Returns how long it is from another time to this one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }

    /// Returns the time as a person reads a duration: at most two units, `0s` below a tenth of a second.
    pub fn words(self) -> String {
        let tenths = (self.0 + 50) / 100;
        let seconds = tenths / 10;
        let two = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
            0 => format!("{big}{unit}"),
            _ => format!("{big}{unit}{small}{small_unit}"),
        };
        match seconds {
            ..60 if tenths % 10 == 0 => format!("{seconds}s"),
            ..60 => format!("{seconds}.{}s", tenths % 10),
            60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
            3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
            _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
        }
    }
}

impl Serialize for Offset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1000 == 0 {
            return serializer.serialize_i64(self.0 / 1000);
        }
        // Below 2^53 milliseconds, which are 285,000 years, nothing is lost.
        #[expect(clippy::cast_precision_loss, reason = "see above")]
        serializer.serialize_f64(self.0 as f64 / 1000.0)
    }
}

/// A whole simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulated {
    /// When it was given up, at the latest.
    pub until: Offset,
    /// When nothing more was left to happen, or it was given up.
    pub ended_at: Offset,
    /// The placements that were asked for, by name.
    pub placements: Vec<SimulatedPlacement>,
    /// What happened, in order.
    pub events: Vec<SimulatedEvent>,
    /// Why the tree is refused; nothing was simulated then.
    pub errors: Vec<InputError>,
}

impl Simulated {
    /// Returns what a refused tree comes to.
    pub fn refused(errors: Vec<InputError>) -> Self {
        Self { errors, ..Self::default() }
    }
}

/// One placement from the push to the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedPlacement {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The index of its newest snapshot; `null` where it has none.
    pub snapshot: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, or who is waited for; empty where it is done.
    pub message: String,
    /// When its first cluster was told to move; `null` where none was.
    pub started_at: Option<Offset>,
    /// When something last happened to it; `null` where nothing did.
    pub ended_at: Option<Offset>,
    /// Clusters that were picked for it at the end.
    pub clusters_picked: usize,
    /// Its staged update runs, in the order they were made.
    pub runs: Vec<SimulatedRun>,
    /// Moves of clusters outside runs: those of a rolling update, and removals. A cluster may move more than once.
    pub clusters: Vec<SimulatedCluster>,
    /// Gates of the placement as a whole: deletions that wait for a person.
    pub gates: Vec<SimulatedGate>,
    /// What took longest; absent where nothing was waited for.
    pub longest_wait: Option<Wait>,
    /// When a cluster failed, the rollout halted or a rollback began, for the first time.
    pub failed_at: Option<Offset>,
    /// The clusters that had been told to move by then, by name.
    pub touched_at_failure: Vec<ClusterName>,
    /// Clusters that were told to move and not available yet, the most at one instant.
    pub max_unavailable: usize,
}

impl SimulatedPlacement {
    /// Returns what names it.
    pub fn key(&self) -> PlacementKey {
        PlacementKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// How a placement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// Every picked cluster holds what was pushed.
    Done,
    /// A person is waited for.
    WaitsForPerson,
    /// Clusters are waited for that do not answer.
    Offline,
    /// It was still on its way when the simulation ended.
    NotFinished,
    /// More clusters failed than may.
    Halted,
    /// It returned to an earlier snapshot.
    RolledBack,
    /// It cannot go on.
    Failed,
}

/// One staged update run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedRun {
    /// Its name.
    pub name: String,
    /// The strategy it moves by.
    pub strategy: String,
    /// The snapshot it moves to, where that is known.
    pub snapshot: Option<u64>,
    /// How far it came: a phase, as in docs/rollouts.md.
    pub phase: String,
    /// Why, for people.
    pub message: String,
    /// The run that it takes back, for a rollback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<String>,
    /// When it was prepared; `null` where it was not.
    pub started_at: Option<Offset>,
    /// When it ended; `null` where it did not.
    pub ended_at: Option<Offset>,
    /// Its stages in order; the stage that removes comes last, where it has clusters.
    pub stages: Vec<SimulatedStage>,
}

/// One stage of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedStage {
    /// Its name.
    pub name: String,
    /// How far it came: a phase, as in docs/rollouts.md.
    pub phase: String,
    /// Clusters that may be on their way at once.
    pub max_concurrency: usize,
    /// When its first cluster was told to move; `null` where none was.
    pub started_at: Option<Offset>,
    /// When it was done; `null` where it was not.
    pub ended_at: Option<Offset>,
    /// Its clusters in order.
    pub clusters: Vec<SimulatedCluster>,
    /// What had to be done before its first cluster moved, and after its last.
    pub gates: Vec<SimulatedGate>,
}

/// One cluster on its way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedCluster {
    /// The cluster.
    pub name: ClusterName,
    /// When its turn came while it did not answer; absent where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred_at: Option<Offset>,
    /// When it was told to move; `null` where it was not.
    pub started_at: Option<Offset>,
    /// When it was available, or failed, or was given to another snapshot; `null` where that did not happen.
    pub ended_at: Option<Offset>,
    /// What came of it.
    pub outcome: ClusterPhase,
    /// Why it failed, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Something that had to be done before clusters could move on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedGate {
    /// What it waits for.
    #[serde(rename = "type")]
    pub type_: GateType,
    /// Before or after the clusters of its stage; absent for deletions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<GateSide>,
    /// Who may open it, as the strategy says; absent where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// When it was reached; `null` where it was not.
    pub asked_at: Option<Offset>,
    /// When it opened; `null` where it did not.
    pub opened_at: Option<Offset>,
    /// How long it was waited for; `null` where it did not open.
    pub waited: Option<Offset>,
}

/// What a gate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum GateType {
    /// A person.
    Approval,
    /// Time.
    TimedWait,
    /// A person who approves deletions.
    Deletion,
}

/// Where a gate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GateSide {
    /// Before the stage's first cluster.
    Before,
    /// After the stage's last cluster.
    After,
}

/// What a rollout waited for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// What was waited for.
    #[serde(rename = "for")]
    pub for_: WaitFor,
    /// The run, where one waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The stage, where one waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The cluster that was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// When the wait began.
    pub started_at: Offset,
    /// When it was over; `null` where it was not.
    pub ended_at: Option<Offset>,
    /// How long it was; `null` where it was not over.
    pub seconds: Option<Offset>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitFor {
    /// A cluster that was told to move, until it is available.
    Cluster,
    /// A cluster that does not answer.
    OfflineCluster,
    /// The time that a strategy waits.
    Time,
    /// A person.
    Person,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedEvent {
    /// When.
    pub at: Offset,
    /// What.
    pub event: EventKind,
    /// The placement, `NAME` or `NAMESPACE/NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// More, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum EventKind {
    /// The commit was pushed.
    Pushed,
    /// A cluster answers no more.
    ClusterOffline,
    /// A cluster answers again.
    ClusterOnline,
    /// A run was prepared.
    RunBegan,
    /// A run cannot begin.
    RunRefused,
    /// A cluster was told to move.
    ClusterBegan,
    /// A cluster is available at the snapshot.
    ClusterSucceeded,
    /// A cluster failed.
    ClusterFailed,
    /// A cluster's turn came while it did not answer.
    ClusterDeferred,
    /// A cluster was skipped.
    ClusterSkipped,
    /// A cluster is being freed of the placement.
    RemovalBegan,
    /// A cluster is free of the placement.
    ClusterRemoved,
    /// A gate waits.
    GateAsked,
    /// A gate is open.
    GateOpened,
    /// An approval that was asked for opened nothing.
    ApprovalRefused,
    /// More clusters failed than may.
    Halted,
    /// A return to an earlier snapshot began.
    RollbackBegan,
    /// A run ended.
    RunEnded,
}

/// Returns what a placement waited for longest. A wait that does not end is longer than any other; of several the first.
pub fn longest_wait(placement: &SimulatedPlacement) -> Option<Wait> {
    let of_runs = placement.runs.iter().flat_map(|run| {
        run.stages.iter().flat_map(|stage| {
            let gates = stage.gates.iter().filter_map(gate_wait);
            let named = gates.chain(stage.clusters.iter().flat_map(cluster_waits));
            named.map(|wait| Wait { run: Some(run.name.clone()), stage: Some(stage.name.clone()), ..wait })
        })
    });
    let own = placement.gates.iter().filter_map(gate_wait).chain(placement.clusters.iter().flat_map(cluster_waits));
    let length = |wait: &Wait| wait.seconds.map_or(i64::MAX, |seconds| seconds.0);
    let mut longest: Option<Wait> = None;
    for wait in of_runs.chain(own) {
        if longest.as_ref().is_none_or(|known| length(&wait) > length(known)) {
            longest = Some(wait);
        }
    }
    longest.filter(|wait| length(wait) > 0)
}

fn wait(for_: WaitFor, cluster: Option<&ClusterName>, started_at: Offset, ended_at: Option<Offset>) -> Wait {
    let seconds = ended_at.map(|end| end.since(started_at));
    Wait { for_, run: None, stage: None, cluster: cluster.cloned(), started_at, ended_at, seconds }
}

fn gate_wait(gate: &SimulatedGate) -> Option<Wait> {
    let for_ = if gate.type_ == GateType::TimedWait { WaitFor::Time } else { WaitFor::Person };
    gate.asked_at.map(|asked| wait(for_, None, asked, gate.opened_at))
}

fn cluster_waits(cluster: &SimulatedCluster) -> impl Iterator<Item = Wait> {
    let is_out = cluster.outcome == ClusterPhase::Deferred;
    // One that is deferred to the last has not returned, though the simulation ended.
    let returned = cluster.started_at.or(cluster.ended_at.filter(|_| !is_out));
    let deferred = cluster.deferred_at.map(|at| wait(WaitFor::OfflineCluster, Some(&cluster.name), at, returned));
    let moved = cluster.started_at.map(|at| wait(WaitFor::Cluster, Some(&cluster.name), at, cluster.ended_at));
    deferred.into_iter().chain(moved)
}
