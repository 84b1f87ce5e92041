//! The result of `gitfleet simulate`: JSON here, a timeline in [`timeline`], a chart in [`gantt`]. All three depend only on
//! these values.

use std::time::Duration;

use serde::{Serialize, Serializer};

use model::id::{ClusterName, PlacementKey};
use model::manifest::InputError;
use model::runs::ClusterPhase;

pub mod gantt;
#[cfg(test)]
mod tests;
pub mod timeline;

/// How long after it is asked for an approval comes in predictions, and in words.
pub const APPROVED_AFTER: (Duration, &str) = (Duration::from_mins(5), "5 minutes");

/// A time since the push of the commit, in milliseconds; JSON shows seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(pub i64);

impl Offset {
    /// Returns a time so long after the push.
    pub fn of(after: Duration) -> Self {
        Self(i64::try_from(after.as_millis()).unwrap_or(i64::MAX))
    }

    /// Returns the duration from an earlier time.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }

    /// Returns the time as a duration for users: at most two units, `0s` below a tenth of a second.
    pub fn text(self) -> String {
        let tenths = (self.0 + 50) / 100;
        let seconds = tenths / 10;
        let (big, unit, small, small_unit) = match seconds {
            ..60 if tenths % 10 == 0 => return format!("{seconds}s"),
            ..60 => return format!("{seconds}.{}s", tenths % 10),
            60..3600 => (seconds / 60, "m", seconds % 60, "s"),
            3600..86_400 => (seconds / 3600, "h", seconds % 3600 / 60, "m"),
            _ => (seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
        };
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
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
    /// The time limit of the simulation.
    pub until: Offset,
    /// When nothing more could happen, or the limit was reached.
    pub ended_at: Offset,
    /// The requested placements, by name.
    pub placements: Vec<SimulatedPlacement>,
    /// What happened, in order.
    pub events: Vec<SimulatedEvent>,
    /// Why the tree is refused; nothing was simulated then.
    pub errors: Vec<InputError>,
}

impl Simulated {
    /// Returns the result for a refused tree.
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
    /// The reason, or what it waits for; empty if it is done.
    pub message: String,
    /// When the update of its first cluster began; `null` if none was.
    pub started_at: Option<Offset>,
    /// When something last happened to it; `null` if nothing did.
    pub ended_at: Option<Offset>,
    /// Clusters that were picked for it at the end.
    pub clusters_picked: usize,
    /// Its staged update runs, in order of creation.
    pub runs: Vec<SimulatedRun>,
    /// Moves of clusters outside runs: those of a rolling update, and removals. A cluster may move more than once.
    pub clusters: Vec<SimulatedCluster>,
    /// Gates of the placement as a whole: deletions that wait for a person.
    pub gates: Vec<SimulatedGate>,
    /// Its longest wait; absent if there was none.
    pub longest_wait: Option<Wait>,
    /// When a cluster failed, the rollout halted or a rollback started, for the first time.
    pub failed_at: Option<Offset>,
    /// The clusters whose update had begun by then, by name.
    pub touched_at_failure: Vec<ClusterName>,
    /// The greatest number of clusters at one instant whose update had begun and that were not available yet.
    pub max_unavailable: usize,
}

impl SimulatedPlacement {
    /// Returns what names it.
    pub fn key(&self) -> PlacementKey {
        PlacementKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// The outcome of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// Every picked cluster has the pushed content.
    Done,
    /// It waits for a person.
    WaitsForPerson,
    /// It waits for clusters that do not answer.
    Offline,
    /// It was still in progress when the simulation ended.
    NotFinished,
    /// More clusters failed than allowed.
    Halted,
    /// It was rolled back to an earlier snapshot.
    RolledBack,
    /// It cannot continue.
    Failed,
}

/// One staged update run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedRun {
    /// Its name.
    pub name: String,
    /// Its strategy.
    pub strategy: String,
    /// Its snapshot, if known.
    pub snapshot: Option<u64>,
    /// Its last phase, as in docs/rollouts.md.
    pub phase: String,
    /// The reason, as text for users.
    pub message: String,
    /// The run that it rolls back, for a rollback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<String>,
    /// When it was prepared; `null` where it was not.
    pub started_at: Option<Offset>,
    /// When it ended; `null` where it did not.
    pub ended_at: Option<Offset>,
    /// Its stages in order; the deletion stage comes last, if it has clusters.
    pub stages: Vec<SimulatedStage>,
}

/// One stage of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedStage {
    /// Its name.
    pub name: String,
    /// Its last phase, as in docs/rollouts.md.
    pub phase: String,
    /// Clusters that may move at the same time.
    pub max_concurrency: usize,
    /// When the update of its first cluster began; `null` where none was.
    pub started_at: Option<Offset>,
    /// When it was done; `null` where it was not.
    pub ended_at: Option<Offset>,
    /// Its clusters in order.
    pub clusters: Vec<SimulatedCluster>,
    /// Its gates, before its first cluster and after its last.
    pub gates: Vec<SimulatedGate>,
}

/// The move of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedCluster {
    /// The cluster.
    pub name: ClusterName,
    /// When its turn came while it did not answer; absent where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred_at: Option<Offset>,
    /// When its update began; `null` where it was not.
    pub started_at: Option<Offset>,
    /// When it was available, or failed, or got another snapshot; `null` if that did not happen.
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
    /// Who may open it, by the strategy; absent if it does not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// When a rollout reached it; `null` if none did.
    pub asked_at: Option<Offset>,
    /// When it opened; `null` where it did not.
    pub opened_at: Option<Offset>,
    /// How long the rollout waited; `null` if it did not open.
    pub waited: Option<Offset>,
    /// Checks whose queries nobody asked: their answers are taken as within the limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
}

impl SimulatedGate {
    /// Returns the gate of deletions that wait for a person.
    pub fn of_deletions(asked_at: Offset) -> Self {
        Self {
            type_: GateType::Deletion,
            when: None,
            approvers: None,
            asked_at: Some(asked_at),
            opened_at: None,
            waited: None,
            assumed: Vec::new(),
        }
    }
}

/// What a gate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum GateType {
    /// An approval.
    Approval,
    /// A timer.
    TimedWait,
    /// The checks of a stage.
    Checks,
    /// An approval of deletions.
    Deletion,
}

/// The side of a stage that a gate is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GateSide {
    /// Before the stage's first cluster.
    Before,
    /// After the stage's last cluster.
    After,
}

/// A wait of a rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The kind of the wait.
    #[serde(rename = "for")]
    pub for_: WaitFor,
    /// The run, where one waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The stage, where one waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The cluster, if it waited for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// When the wait began.
    pub started_at: Offset,
    /// When it was over; `null` where it was not.
    pub ended_at: Option<Offset>,
    /// How long it was; `null` if it did not end.
    pub seconds: Option<Offset>,
}

/// The kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitFor {
    /// A cluster whose update began, until it is available.
    Cluster,
    /// A cluster that does not answer.
    OfflineCluster,
    /// A timer of the strategy.
    Time,
    /// A person.
    Person,
}

/// One event.
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
    /// More, as text for users.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum EventKind {
    /// The commit was pushed.
    Pushed,
    /// A cluster stopped answering.
    ClusterOffline,
    /// A cluster answers again.
    ClusterOnline,
    /// A run was prepared.
    RunBegan,
    /// A run cannot begin.
    RunRefused,
    /// The update of a cluster began.
    ClusterBegan,
    /// A cluster is available at the snapshot.
    ClusterSucceeded,
    /// A cluster failed.
    ClusterFailed,
    /// A cluster's turn came while it did not answer.
    ClusterDeferred,
    /// A cluster was skipped.
    ClusterSkipped,
    /// The removal from a cluster started.
    RemovalBegan,
    /// The removal from a cluster is complete.
    ClusterRemoved,
    /// A gate waits.
    GateAsked,
    /// A gate is open.
    GateOpened,
    /// A requested approval opened nothing.
    ApprovalRefused,
    /// More clusters failed than allowed.
    Halted,
    /// A rollback to an earlier snapshot started.
    RollbackBegan,
    /// A run ended.
    RunEnded,
}

/// Returns the longest wait of a placement. A wait that does not end is longer than any other; in a tie the first one counts.
pub fn longest_wait(placement: &SimulatedPlacement) -> Option<Wait> {
    let of_runs = placement.runs.iter().flat_map(|run| {
        run.stages.iter().flat_map(|stage| {
            let gates = stage.gates.iter().filter_map(gate_wait);
            let named = gates.chain(stage.clusters.iter().flat_map(cluster_waits));
            named.map(|wait| Wait { run: Some(run.name.clone()), stage: Some(stage.name.clone()), ..wait })
        })
    });
    let own = placement.gates.iter().filter_map(gate_wait).chain(placement.clusters.iter().flat_map(cluster_waits));

    let mut longest: Option<Wait> = None;
    for wait in of_runs.chain(own) {
        if longest.as_ref().is_none_or(|known| length(&wait) > length(known)) {
            longest = Some(wait);
        }
    }
    longest.filter(|wait| length(wait) > 0)
}

/// Returns the milliseconds of a wait; one without end is longer than any other.
fn length(wait: &Wait) -> i64 {
    wait.seconds.map_or(i64::MAX, |seconds| seconds.0)
}

fn wait(for_: WaitFor, cluster: Option<&ClusterName>, started_at: Offset, ended_at: Option<Offset>) -> Wait {
    let seconds = ended_at.map(|end| end.since(started_at));
    Wait { for_, run: None, stage: None, cluster: cluster.cloned(), started_at, ended_at, seconds }
}

fn gate_wait(gate: &SimulatedGate) -> Option<Wait> {
    let for_ = match gate.type_ {
        GateType::TimedWait | GateType::Checks => WaitFor::Time,
        GateType::Approval | GateType::Deletion => WaitFor::Person,
    };
    gate.asked_at.map(|asked| wait(for_, None, asked, gate.opened_at))
}

fn cluster_waits(cluster: &SimulatedCluster) -> impl Iterator<Item = Wait> {
    // One that is deferred to the last has not returned, though the simulation ended.
    let ended = if cluster.outcome == ClusterPhase::Deferred { None } else { cluster.ended_at };
    let returned = cluster.started_at.or(ended);
    let deferred = cluster.deferred_at.map(|at| wait(WaitFor::OfflineCluster, Some(&cluster.name), at, returned));
    let moved = cluster.started_at.map(|at| wait(WaitFor::Cluster, Some(&cluster.name), at, cluster.ended_at));
    deferred.into_iter().chain(moved)
}
