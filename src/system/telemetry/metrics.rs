//! Every metric of the daemon, in one list.
//!
//! Labels come from closed sets, so the number of series does not grow with the fleet; only the list of placements does, up to a limit.

use std::hash::Hash;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

mod info;
mod labels;
mod process;

pub use info::{MetricInfo, MetricKind};
pub use labels::*;
pub use process::PROCESS_METRICS;

/// Smallest bucket in seconds: a pass over one unchanged placement.
const SECONDS_BUCKET_MIN: f64 = 0.0005;
/// Each bucket is so much wider than the one before.
const SECONDS_BUCKET_FACTOR: f64 = 2.0;
/// Up to 16 seconds.
const SECONDS_BUCKETS: u16 = 16;

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(SECONDS_BUCKET_MIN, SECONDS_BUCKET_FACTOR, SECONDS_BUCKETS))
}

/// What rollouts and people take, in seconds: from one second to about twelve days.
const WAIT_BUCKETS: u16 = 11;
const WAIT_BUCKET_FACTOR: f64 = 4.0;

fn waits() -> Histogram {
    Histogram::new(exponential_buckets(1.0, WAIT_BUCKET_FACTOR, WAIT_BUCKETS))
}

/// Makes a counter that has each of these series from the start: the first count of one that appears later is no increase to
/// Prometheus.
fn from_zero<L: Clone + Hash + Eq>(series: impl IntoIterator<Item = L>) -> Family<L, Counter> {
    let family = Family::default();
    series.into_iter().for_each(|labels| drop(family.get_or_create(&labels)));
    family
}

/// The version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that this binary was built from, where the build said so.
pub const COMMIT: Option<&str> = option_env!("GITFLEET_COMMIT");

fn build() -> Family<Build, Gauge> {
    let info = Family::<Build, Gauge>::default();
    info.get_or_create(&Build { version: VERSION, commit: COMMIT.unwrap_or_default() }).set(1);
    info
}

/// Declares the list: each line is a field of `Metrics`, an entry of `METRICS` and a registration, so that none can be missing
/// from another.
macro_rules! metrics {
    ($($field:ident: $type:ty = $make:expr, $kind:ident, $name:literal, $labels:expr, $help:literal;)+) => {
        /// All metrics: the reference page is made from this list.
        pub const METRICS: &[MetricInfo] =
            &[$(MetricInfo { name: $name, field: stringify!($field), help: $help, kind: MetricKind::$kind, labels: $labels }),+];

        /// The metrics of one daemon. Counting is lock-free or nearly so and never fails.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $(#[doc = $help] pub $field: $type,)+
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::default();
                $(let $field: $type = registered(&mut registry, $name, $help, $make);)+
                registry.register_collector(Box::new(process::Process));
                Self { registry, $($field),+ }
            }
        }
    };
}

fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

metrics! {
    pass_seconds: Family<ByOutcome, Histogram, fn() -> Histogram> = Family::new_with_constructor(seconds), Histogram,
        "gitfleet_engine_pass_seconds", ByOutcome::NAMES, "Duration of one reconcile pass, including the store commit";
    decisions: Family<ByDecision, Counter> = Family::default(), Counter,
        "gitfleet_engine_decisions", ByDecision::NAMES, "Decisions about a placement by result";
    queue_depth: Gauge = Gauge::default(), Gauge,
        "gitfleet_engine_queue_depth", &[], "Placements that wait for a pass";
    placements: Family<ByPlacementState, Gauge> = Family::default(), Gauge,
        "gitfleet_rollout_placements", ByPlacementState::NAMES, "Placements by their state at their last decision";
    placement_info: Family<OfPlacement, Gauge> = Family::default(), Gauge,
        "gitfleet_placement_info", OfPlacement::NAMES, "1, for each of the first 500 placements by name, with its state at its last decision";
    gates: Family<ByGate, Gauge> = Family::default(), Gauge,
        "gitfleet_rollout_gates_waiting", ByGate::NAMES, "Closed gates of rollouts by what they hold back";
    oldest_gate: Family<ByGate, Gauge> = Family::default(), Gauge,
        "gitfleet_rollout_oldest_gate_timestamp_seconds", ByGate::NAMES, "Since when the oldest closed gate waits, in seconds since 1970; absent while none waits";
    runs: Family<ByPhase, Gauge> = Family::default(), Gauge,
        "gitfleet_rollout_runs", ByPhase::NAMES, "Staged update runs by phase, ended ones that are still recorded included";
    available_seconds: Histogram = waits(), Histogram,
        "gitfleet_rollout_commit_to_available_seconds", &[], "Time from when a commit was seen until its snapshot was available on all clusters of a placement, and the run that brought it, if any, had succeeded";
    approval_seconds: Family<ByGate, Histogram, fn() -> Histogram> = Family::new_with_constructor(waits), Histogram,
        "gitfleet_rollout_approval_seconds", ByGate::NAMES, "Time from when a gate closed until enough people had approved";
    commit_seen: Gauge = Gauge::default(), Gauge,
        "gitfleet_source_commit_seen_timestamp_seconds", &[], "When the newest commit of the source was seen, in seconds since 1970; later than the accepted timestamp while it is not accepted; 0 for unknown";
    commit_accepted: Gauge = Gauge::default(), Gauge,
        "gitfleet_source_commit_accepted_timestamp_seconds", &[], "When the newest accepted commit was accepted, in seconds since 1970; 0 for unknown";
    member_writes: Family<ByWrite, Counter> = Family::default(), Counter,
        "gitfleet_cluster_writes", ByWrite::NAMES, "Writes to members by verb and answer";
    member_write_seconds: Family<ByWrite, Histogram, fn() -> Histogram> = Family::new_with_constructor(seconds), Histogram,
        "gitfleet_cluster_write_seconds", ByWrite::NAMES, "Duration of writes to members by verb and answer";
    members: Family<ByMemberState, Gauge> = Family::default(), Gauge,
        "gitfleet_cluster_members", ByMemberState::NAMES, "Members by state";
    oldest_offline: Gauge = Gauge::default(), Gauge,
        "gitfleet_cluster_oldest_offline_timestamp_seconds", &[], "Since when the member that is offline longest does not answer, in seconds since 1970; 0 while none is offline";
    drift: Family<ByDrift, Counter> = Family::default(), Counter,
        "gitfleet_cluster_drift", ByDrift::NAMES, "Objects found changed on a member by what gitfleet did about it";
    source_polls: Family<ByPoll, Counter> = from_zero(Poll::ALL.iter().map(|&result| ByPoll { result })), Counter,
        "gitfleet_source_polls", ByPoll::NAMES, "Polls of the source by result";
    connections: Gauge = Gauge::default(), Gauge,
        "gitfleet_http_connections", &[], "Connections to the daemon that are open";
    connections_closed: Counter = Counter::default(), Counter,
        "gitfleet_http_connections_closed", &[], "Connections that were closed to make room for a new one: too many clients are connected at a time";
    webhooks: Family<ByDelivery, Counter> = from_zero(Delivered::ALL.iter().map(|&result| ByDelivery { result })), Counter,
        "gitfleet_http_webhooks", ByDelivery::NAMES, "Deliveries of the git host by result";
    webhook_last_verified: Gauge = Gauge::default(), Gauge,
        "gitfleet_http_webhook_last_verified_timestamp", &[], "When the last delivery with a right signature came, in seconds since 1970; 0 for never";
    forge_calls: Family<ByForgeCall, Counter> = Family::default(), Counter,
        "gitfleet_forge_calls", ByForgeCall::NAMES, "Requests to the git host's API by method and answer; fetching from git is not one";
    agents: Gauge = Gauge::default(), Gauge,
        "gitfleet_agents", &[], "Agents that are connected";
    agent_sessions: Counter = Counter::default(), Counter,
        "gitfleet_agent_sessions", &[], "Sessions that agents began";
    agent_refused: Counter = Counter::default(), Counter,
        "gitfleet_agent_refused_events", &[], "Events that agents reported about members that are not theirs, and that had no effect";
    agent_received: Counter = Counter::default(), Counter,
        "gitfleet_agent_received_bytes", &[], "Bytes of bodies that agents sent, compressed";
    agent_sent: Counter = Counter::default(), Counter,
        "gitfleet_agent_sent_bytes", &[], "Bytes of bodies that were sent to agents, compressed";
    notifications: Family<ByNotification, Counter> = from_zero(Notified::ALL.iter().map(|&result| ByNotification { result })), Counter,
        "gitfleet_notifications", ByNotification::NAMES, "Tries to tell a receiver something by result";
    task_restarts: Family<ByPart, Counter> = from_zero(Part::ALL.iter().map(|&part| ByPart { part })), Counter,
        "gitfleet_task_restarts", ByPart::NAMES, "Tasks and threads that ended because of an error in gitfleet that gitfleet started again";
    channel_depth: Family<ByChannel, Gauge> = Family::default(), Gauge,
        "gitfleet_channel_depth", ByChannel::NAMES, "Messages that wait in a channel between tasks, when its reader last looked";
    build: Family<Build, Gauge> = build(), Gauge,
        "gitfleet_build_info", Build::NAMES, "1, with what this daemon was built from";
    started: Gauge = Gauge::default(), Gauge,
        "process_start_time_seconds", &[], "When this process started, in seconds since 1970";
    leading: Gauge = Gauge::default(), Gauge,
        "gitfleet_leading", &[], "1 while this daemon leads, which one that has its store for itself does, and 0 while it follows another";
    leading_epoch: Gauge = Gauge::default(), Gauge,
        "gitfleet_leading_epoch", &[], "The epoch of the leader as far as this daemon knows it; 0 for unknown, and where the store has one daemon";
    store_waits: Gauge = Gauge::default(), Gauge,
        "gitfleet_store_waits_for_adoption", &[], "1 while the store is new though members hold inventories of this source, and nothing begins until a person adopts it";
    store_commits: Family<ByOutcome, Counter> = from_zero(Outcome::ALL.iter().map(|&result| ByOutcome { result })), Counter,
        "gitfleet_store_commits", ByOutcome::NAMES, "Batches written to the store";
    store_commit_seconds: Histogram = seconds(), Histogram,
        "gitfleet_store_commit_seconds", &[], "How long writing a batch to the store took, until it was safe on disk";
}

/// The content type of `encode`'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Metrics {
    /// Makes metrics that stand at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all metrics in the `OpenMetrics` text format.
    #[expect(clippy::missing_panics_doc, reason = "writing to a String cannot fail")]
    pub fn encode(&self) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.registry).expect("writing to a String cannot fail");
        out
    }
}

#[cfg(test)]
mod tests;
