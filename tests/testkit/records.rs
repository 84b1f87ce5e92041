//! Small records for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use model::api::condition::{Condition, ConditionStatus};
use model::api::placement::{ApplyStrategy, PlacementPolicy, PlacementSpec, PlacementType, StrategyType};
use model::api::stage_checks::{Checks, MetricCheck};
use model::api::staged::{StageTaskType, StagedUpdateStrategySpec};
use model::commands::Person;
use model::id::{BlobId, ClusterName, CommitId, Digest, ObjectId, PlacementKey};
use model::manifest::Origin;
use model::records::{
    ApplyOutcome, Availability, Binding, BindingState, ClusterDecision, ClusterRecord, ClusterScore, Kept,
    ManifestStatus, MemberKind, PlacementRecord, PolicySnapshot, ResourceSnapshot, SnapshotResource, WorkStatus,
};
use model::runs::{
    Approval, Channel, ChecksRecord, ClusterPhase, DELETION_STAGE, Frozen, MetricAnswer, MetricState, RunCause,
    RunCluster, RunPhase, RunRecord, Runs, StagePhase, StageRecord, TaskRecord, WantedBy,
};
use model::work::WorkOrder;

/// Returns a moment `seconds` after the tests' beginning of time.
pub fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T12:00:00Z".parse().expect("a timestamp");
    start + SignedDuration::from_secs(seconds)
}

/// Returns an order without objects: of the placement p for the member m, in its first generation.
pub fn work_order() -> WorkOrder {
    WorkOrder {
        placement: PlacementKey::cluster_scoped("p"),
        cluster: "m".into(),
        generation: 1,
        source: "s".into(),
        snapshot: 0,
        commit: "c0ffee".into(),
        digest: "hash".into(),
        strategy: ApplyStrategy::default(),
        manifests: Arc::default(),
        held: BTreeSet::new(),
        prune: BTreeSet::new(),
        kept: Kept::default(),
        user: None,
        tenant: None,
        remove: false,
        abandon: false,
    }
}

pub fn object(name: &str) -> ObjectId {
    ObjectId {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: "web".into(),
        name: name.into(),
    }
}

pub fn manifest(name: &str, applied: ApplyOutcome, availability: Option<Availability>) -> ManifestStatus {
    ManifestStatus {
        id: object(name),
        applied,
        message: String::new(),
        availability,
        generation: None,
        manifest: None,
        owned: None,
        differences: vec![],
        differs_since: None,
        observed_at: None,
    }
}

pub fn work(generation: i64, manifests: Vec<ManifestStatus>) -> WorkStatus {
    let inventory = manifests.iter().map(|manifest| manifest.id.key()).collect();
    WorkStatus { generation, complete: true, manifests: manifests.into(), inventory, ..WorkStatus::default() }
}

pub fn condition(type_: &str, status: ConditionStatus, reason: &str, generation: i64) -> Condition {
    Condition {
        type_: type_.into(),
        status,
        reason: reason.into(),
        message: format!("{type_} says {reason}"),
        observed_generation: generation,
        last_transition_time: at(0),
    }
}

pub fn decision(cluster: &str, selected: bool) -> ClusterDecision {
    ClusterDecision {
        cluster_name: cluster.into(),
        selected,
        cluster_score: selected.then(ClusterScore::default),
        reason: if selected { format!("picked {cluster}") } else { format!("{cluster} has a taint") }.into(),
    }
}

/// A binding of placement `web`, generation 7, bound to a snapshot.
pub fn binding(cluster: &str, snapshot: u64) -> Binding {
    Binding {
        name: format!("web-{cluster}-0a1b2c3d"),
        placement: PlacementKey::cluster_scoped("web"),
        cluster: cluster.into(),
        state: BindingState::Bound,
        previous_state: None,
        policy_index: 0,
        decision: decision(cluster, true),
        snapshot: Some(snapshot),
        apply_strategy: model::api::placement::ApplyStrategy::default(),
        overrides: model::overrides::PickedOverrides::default(),
        created_at: Some(at(0)),
        started_at: Some(at(0)),
        generation: 7,
        conditions: vec![],
        deleting: false,
        removes: std::collections::BTreeSet::new(),
        abandons: false,
    }
}

pub fn snapshot(index: u64, names: &[&str]) -> ResourceSnapshot {
    let resource = |name: &&str| SnapshotResource {
        id: object(name),
        origin: Origin { path: "web/all.yaml".into(), line: 4, blob: BlobId::new("b10b"), ordinal: 0 },
        digest: Digest::new("d1"),
    };
    ResourceSnapshot {
        placement: PlacementKey::cluster_scoped("web"),
        index,
        commit: CommitId::new("1a2b3c4d5e6f"),
        changed_sources: Vec::new(),
        encrypted_at: None,
        hash: Digest::new("abc123"),
        resources: names.iter().map(resource).collect(),
        parts: vec![names.len()],
        variants: None,
        created_at: at(0),
    }
}

pub fn cluster(name: &str, online: bool) -> ClusterRecord {
    ClusterRecord {
        kind: MemberKind::Live,
        online,
        message: (!online).then(|| "connection refused".to_owned()),
        answered: true,
        ..ClusterRecord::new(name.into(), at(0))
    }
}

/// A stage with clusters that have not moved; `after` waits an hour where it is a `TimedWait`.
pub fn stage(name: &str, clusters: &[&str], after: &[StageTaskType]) -> StageRecord {
    let cluster = |name: &&str| RunCluster {
        name: (*name).into(),
        phase: ClusterPhase::Pending,
        since: at(0),
        started_at: None,
        overrides: model::overrides::PickedOverrides::default(),
        message: String::new(),
    };
    let task = |type_: &StageTaskType| TaskRecord {
        type_: *type_,
        wanted_by: WantedBy::Strategy,
        wait: (*type_ == StageTaskType::TimedWait).then(|| std::time::Duration::from_hours(1)),
        expired: false,
        asked_at: None,
        done_at: None,
        approvals: vec![],
    };
    StageRecord {
        name: name.into(),
        max_concurrency: 1,
        phase: StagePhase::Pending,
        since: at(0),
        started_at: None,
        ended_at: None,
        digest: Digest::new(format!("{name}-0a1b2c3d4e5f60718293")),
        before: vec![],
        after: after.iter().map(task).collect(),
        checks: None,
        clusters: clusters.iter().map(cluster).collect(),
        while_empty: None,
    }
}

/// A run `web-3` of placement `web` to snapshot 3, prepared: staging waits an hour at its end, canary for a person.
pub fn run() -> RunRecord {
    let strategy = serde_json::json!({"stages": [
        {"name": "staging", "labelSelector": {"matchLabels": {"environment": "staging"}},
         "afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]},
        {"name": "canary", "sortingLabelKey": "name", "afterStageTasks": [{"type": "Approval"}]},
        {"name": "production", "maxConcurrency": "50%"},
    ]});
    let strategy: StagedUpdateStrategySpec = serde_json::from_value(strategy).expect("a strategy");
    RunRecord {
        name: "web-3".into(),
        placement: PlacementKey::cluster_scoped("web"),
        cause: RunCause::Snapshot,
        strategy: "three-stages".into(),
        approvers: None,
        approvers_before: None,
        wanted_snapshot: Some(3),
        state: None,
        generation: 4,
        created_at: at(0),
        sequence: 1,
        phase: RunPhase::Initialized,
        since: at(1),
        message: String::new(),
        refused: false,
        without_clusters: false,
        frozen: Some(Frozen {
            snapshot: 3,
            hash: Digest::new("abc123"),
            policy: 0,
            policy_clusters: -1,
            apply_strategy: model::api::placement::ApplyStrategy::default(),
            strategy,
            at: at(1),
        }),
        stages: vec![
            stage("staging", &["east"], &[StageTaskType::TimedWait]),
            stage("canary", &["north", "south"], &[StageTaskType::Approval]),
            stage("production", &["west"], &[]),
        ],
        deletion: Some(stage(DELETION_STAGE, &[], &[])),
    }
}

/// Brings a run to the approval after its second stage; the clusters until then are done.
pub fn run_at_approval() -> RunRecord {
    let mut run = run();
    (run.phase, run.since) = (RunPhase::Waiting, at(30));
    for (number, stage) in run.stages.iter_mut().take(2).enumerate() {
        let begin = if number == 0 { 2 } else { 20 };
        (stage.phase, stage.since) = (StagePhase::WaitingAfter, at(begin + 10));
        stage.started_at = Some(at(begin));
        for cluster in &mut stage.clusters {
            (cluster.phase, cluster.since, cluster.started_at) =
                (ClusterPhase::Succeeded, at(begin + 5), Some(at(begin)));
        }
        stage.after[0].asked_at = Some(at(begin + 10));
    }
    let staging = &mut run.stages[0];
    staging.phase = StagePhase::Succeeded;
    (staging.since, staging.ended_at, staging.after[0].done_at) = (at(19), Some(at(19)), Some(at(19)));
    run
}

/// Brings a run to the checks after its second stage: a minute of availability since second 30, and an error rate of at most
/// 0.01 that was answered in this way.
pub fn run_at_checks(state: MetricState) -> RunRecord {
    let mut run = run_at_approval();
    let check = MetricCheck {
        name: "error-rate".into(),
        server: None,
        query: "sum(rate(errors[5m]))".into(),
        min: None,
        max: Some(0.01),
    };
    let given = Checks { healthy_for: Some("1m".into()), metrics: vec![check] };
    let canary = &mut run.stages[1];
    canary.after.clear();
    canary.checks = Some(ChecksRecord {
        asked_at: Some(at(30)),
        healthy_since: Some(at(30)),
        metrics: [("error-rate".to_owned(), state)].into(),
        ..ChecksRecord::new(given)
    });
    run
}

/// A metric that is asked since second 30 and answered this at second 50.
pub fn answered(value: f64) -> MetricState {
    let answer = MetricAnswer { at: at(50), value };
    let failed = Some(answer).filter(|answer| answer.value > 0.01);
    MetricState { answer: Some(answer), failed, ..MetricState::asked(at(30)) }
}

/// Brings a run into its last stage, which moves; a person opened the gate before it.
pub fn run_in_production() -> RunRecord {
    let mut run = run_at_approval();
    (run.phase, run.since) = (RunPhase::Updating, at(40));
    let canary = &mut run.stages[1];
    (canary.phase, canary.since, canary.ended_at) = (StagePhase::Succeeded, at(40), Some(at(40)));
    canary.after[0].done_at = Some(at(40));
    canary.after[0].approvals = vec![approval("ann")];
    let production = &mut run.stages[2];
    (production.phase, production.since, production.started_at) = (StagePhase::Updating, at(40), Some(at(41)));
    let west = &mut production.clusters[0];
    (west.phase, west.since, west.started_at) = (ClusterPhase::Updating, at(41), Some(at(41)));
    run
}

/// A yes to the canary stage.
pub fn approval(person: &str) -> Approval {
    Approval {
        by: Person::of(person, Channel::Api),
        at: at(39),
        digest: Digest::new("canary-0a1b2c3d4e5f60718293"),
        reason: Some("lgtm".into()),
        message: Some("error rates are flat".into()),
    }
}

/// A whole placement `web` with its records, from which views are made.
pub struct Case {
    pub record: PlacementRecord,
    pub policy: Option<PolicySnapshot>,
    pub snapshot: Option<ResourceSnapshot>,
    pub history: BTreeMap<u64, std::sync::Arc<ResourceSnapshot>>,
    pub bindings: Vec<std::sync::Arc<Binding>>,
    pub works: BTreeMap<ClusterName, std::sync::Arc<WorkStatus>>,
    pub runs: Runs,
    pub clusters: BTreeMap<ClusterName, ClusterRecord>,
    pub now: Timestamp,
}

impl Case {
    /// Every named cluster online and holding an available snapshot 3, the latest; bindings have no conditions yet.
    pub fn of(clusters: &[&str]) -> Self {
        let record = PlacementRecord {
            key: PlacementKey::cluster_scoped("web"),
            spec: PlacementSpec {
                policy: Some(PlacementPolicy { placement_type: PlacementType::PickAll, ..PlacementPolicy::default() }),
                ..PlacementSpec::default()
            },
            annotations: BTreeMap::new(),
            generation: 2,
            origin: None,
            created_at: at(0),
            conditions: vec![],
            error: None,
            warnings: vec![],
            deletion_gate: None,
            unreadable: BTreeSet::new(),
            guard_off_at: None,
            asked_before: BTreeMap::new(),
            renamed_to: None,
            ignored: BTreeSet::new(),
            behind: BTreeSet::new(),
            removed: false,
            halted: None,
            paused: None,
            held: None,
            goal: None,
            succeeded: Vec::new(),
            back: None,
            failed: None,
            inherited: BTreeMap::new(),
            handing_over: BTreeSet::new(),
            last_succeeded: None,
            last_automatic: None,
            runs_from: 0,
            approvers: None,
            digest_required: false,
            journaled: None,
            owners: Vec::new(),
            narrowed: None,
            replaced: Vec::new(),
            superseded: 0,
            evictions: BTreeMap::new(),
        };
        let policy = PolicySnapshot {
            placement: record.key.clone(),
            index: 0,
            hash: Digest::new("ff00"),
            policy: record.spec.policy.clone(),
            number_of_clusters: None,
            observed_generation: 2,
            fulfilled: true,
            target_clusters: clusters.iter().map(|name| decision(name, true)).collect(),
            created_at: at(0),
        };
        let mut case = Self {
            record,
            policy: Some(policy),
            snapshot: Some(snapshot(3, &["a", "b"])),
            history: BTreeMap::from([(2, std::sync::Arc::new(snapshot(2, &["a"])))]),
            bindings: clusters.iter().map(|name| binding(name, 3).into()).collect(),
            works: BTreeMap::new(),
            runs: Runs::default(),
            clusters: clusters.iter().map(|name| ((*name).into(), cluster(name, true))).collect(),
            now: at(60),
        };
        for name in clusters {
            let available = |name| manifest(name, ApplyOutcome::Applied, Some(Availability::Available));
            case.works.insert((*name).into(), work(7, vec![available("a"), available("b")]).into());
        }
        case
    }

    pub fn bindings_mut(&mut self) -> impl Iterator<Item = &mut Binding> {
        self.bindings.iter_mut().map(std::sync::Arc::make_mut)
    }

    pub fn binding(&mut self, cluster: &str) -> &mut Binding {
        self.bindings_mut().find(|b| b.cluster.as_str() == cluster).expect("the case has the binding")
    }

    pub fn work(&mut self, cluster: &str) -> &mut WorkStatus {
        std::sync::Arc::make_mut(self.works.get_mut(cluster).expect("the case has the work"))
    }

    pub fn offline(&mut self, cluster: &str) {
        self.clusters.insert(cluster.into(), self::cluster(cluster, false));
    }

    pub fn gate(&mut self, clusters: &[&str]) {
        let deletions = clusters.iter().map(|name| ((*name).into(), BTreeSet::from([object("old").key()])));
        self.record.deletion_gate = Some(model::records::DeletionGate {
            digest: Digest::new("9f8e7d6c5b4a39281706f5e4d3c2b1a0"),
            reason: "more than half of the objects would go".into(),
            deletions: deletions.collect(),
            leaving: BTreeSet::new(),
            since: at(0),
            approvers: None,
            approvals: vec![],
            opened_at: None,
        });
    }

    /// Makes the placement External, with a run.
    #[must_use]
    pub fn with_run(mut self, run: RunRecord) -> Self {
        self.record.spec.strategy.type_ = StrategyType::External;
        self.runs.insert(run);
        self
    }
}
