//! Every metric of the daemon, in one list.
//!
//! Labels come from closed sets, so the number of series does not grow with the fleet.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

/// What a metric counts how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends in `_total` when it is read.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size.
    Histogram,
}

impl Kind {
    /// Returns the word of the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric as the reference page lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// The name without `_total`.
    pub name: &'static str,
    /// What it tells, one sentence without a full stop.
    pub help: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
}

macro_rules! label_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns the label's text.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
                encoder.write_str(self.as_str())
            }
        }
    };
}

label_values!(
    /// How something ended.
    Outcome {
        /// As wished.
        Ok = "ok",
        /// Not as wished.
        Error = "error",
    }
);

label_values!(
    /// What a decision led to.
    Decision {
        /// Nothing had to change.
        Unchanged = "unchanged",
        /// Records or works changed.
        Changed = "changed",
        /// A gate waits for a person.
        Waiting = "waiting",
        /// The placement has an error of its own.
        Error = "error",
    }
);

label_values!(
    /// What was done to an object of a member.
    Verb {
        /// Server-side apply.
        Apply = "apply",
        /// Deletion.
        Delete = "delete",
        /// Giving up what stays.
        Release = "release",
    }
);

label_values!(
    /// What a member answered to a write.
    WriteOutcome {
        /// Done.
        Ok = "ok",
        /// Somebody else owns it or changed it meanwhile.
        Conflict = "conflict",
        /// Refused for good.
        Refused = "refused",
        /// No answer, or one that says to try again.
        Unavailable = "unavailable",
    }
);

label_values!(
    /// How a member stands.
    MemberState {
        /// Answers.
        Online = "online",
        /// Does not answer.
        Offline = "offline",
        /// Suspended in git.
        Suspended = "suspended",
        /// No `members:` entry names it.
        Unreachable = "unreachable",
    }
);

label_values!(
    /// What came of asking the source.
    Poll {
        /// Nothing new.
        Unchanged = "unchanged",
        /// A new commit was accepted.
        Accepted = "accepted",
        /// A new commit was refused for its errors.
        Refused = "refused",
        /// A rewritten history waits for a person.
        Held = "held",
        /// The source could not be read.
        Error = "error",
    }
);

label_values!(
    /// What was done about drift.
    Drift {
        /// Put back.
        PutBack = "put_back",
        /// Reported and left: as the placement wishes, or because it was put back too often.
        Reported = "reported",
    }
);

label_values!(
    /// What came of a delivery over a webhook.
    Delivered {
        /// Its hint waits to be taken.
        Queued = "queued",
        /// Its hint found the queue full.
        Dropped = "dropped",
        /// Nothing in it is of interest.
        Ignored = "ignored",
        /// It is not signed with a secret of ours.
        Unsigned = "unsigned",
        /// It is of another host or about another repository.
        Foreign = "foreign",
        /// It is too large, too slow, or no JSON of a webhook.
        Malformed = "malformed",
    }
);

label_values!(
    /// How the git host was asked.
    ForgeMethod {
        /// To read.
        Get = "get",
        /// To add.
        Post = "post",
        /// To change.
        Patch = "patch",
        /// Otherwise.
        Other = "other",
    }
);

label_values!(
    /// What the git host answered.
    ForgeAnswer {
        /// Done.
        Ok = "ok",
        /// What we have is still right.
        Unchanged = "unchanged",
        /// It wants a pause.
        Limited = "limited",
        /// It says no, or knows nothing of it.
        Refused = "refused",
        /// No answer, or one of a host that is broken.
        Failed = "failed",
    }
);

label_values!(
    /// A task or thread of the daemon.
    Part {
        /// Follows the source.
        Source = "source",
        /// Reads payloads from git.
        Payloads = "payloads",
        /// Talks with the git host.
        Console = "console",
        /// Writes decisions to the hub.
        Hub = "hub",
        /// Delivers to one member.
        Member = "member",
        /// Serves the HTTP interface.
        Http = "http",
    }
);

macro_rules! label_sets {
    ($($(#[$doc:meta])* $name:ident { $($label:ident: $values:ty),+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
            pub struct $name {
                $(#[doc = concat!("The label `", stringify!($label), "`.")] pub $label: $values,)+
            }

            impl $name {
                /// The labels' names.
                pub const NAMES: &'static [&'static str] = &[$(stringify!($label)),+];
            }
        )+
    };
}

label_sets! {
    /// Labels of what ends well or not.
    ByOutcome { result: Outcome }
    /// Labels of decisions.
    ByDecision { result: Decision }
    /// Labels of writes to members.
    ByWrite { verb: Verb, result: WriteOutcome }
    /// Labels of the members' gauge.
    ByMemberState { state: MemberState }
    /// Labels of source polls.
    ByPoll { result: Poll }
    /// Labels of drift.
    ByDrift { result: Drift }
    /// Labels of webhooks.
    ByDelivery { result: Delivered }
    /// Labels of tasks.
    ByPart { part: Part }
    /// Labels of requests to the git host.
    ByForgeCall { method: ForgeMethod, result: ForgeAnswer }
}

/// Smallest bucket in seconds: a pass over one unchanged placement.
const SECONDS_BUCKET_MIN: f64 = 0.0005;
/// Each bucket is so much wider than the one before.
const SECONDS_BUCKET_FACTOR: f64 = 2.0;
/// Up to 16 seconds.
const SECONDS_BUCKETS: u16 = 16;

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(SECONDS_BUCKET_MIN, SECONDS_BUCKET_FACTOR, SECONDS_BUCKETS))
}

/// Declares the list: each line is a field of `Metrics`, an entry of `METRICS` and a registration, so that none can be missing
/// from another.
macro_rules! metrics {
    ($($field:ident: $type:ty = $make:expr, $kind:ident, $name:literal, $labels:expr, $help:literal;)+) => {
        /// All metrics: the reference page is made from this list.
        pub const METRICS: &[MetricInfo] =
            &[$(MetricInfo { name: $name, help: $help, kind: Kind::$kind, labels: $labels }),+];

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
        "gitfleet_engine_decisions", ByDecision::NAMES, "Decisions about a placement by what they led to";
    queue_depth: Gauge = Gauge::default(), Gauge,
        "gitfleet_engine_queue_depth", &[], "Placements that wait for a pass";
    member_writes: Family<ByWrite, Counter> = Family::default(), Counter,
        "gitfleet_cluster_writes", ByWrite::NAMES, "Writes to members by verb and answer";
    members: Family<ByMemberState, Gauge> = Family::default(), Gauge,
        "gitfleet_cluster_members", ByMemberState::NAMES, "Members by state";
    drift: Family<ByDrift, Counter> = Family::default(), Counter,
        "gitfleet_cluster_drift", ByDrift::NAMES, "Objects found changed on a member by what was done about it";
    source_polls: Family<ByPoll, Counter> = Family::default(), Counter,
        "gitfleet_source_polls", ByPoll::NAMES, "Times the source was asked by what came of it";
    connections: Gauge = Gauge::default(), Gauge,
        "gitfleet_http_connections", &[], "Connections to the daemon that are open";
    connections_closed: Counter = Counter::default(), Counter,
        "gitfleet_http_connections_closed", &[], "Connections that were closed to make room for a new one: the daemon is asked by too many at a time";
    webhooks: Family<ByDelivery, Counter> = Family::default(), Counter,
        "gitfleet_http_webhooks", ByDelivery::NAMES, "Deliveries of the git host by what came of them";
    webhook_last_verified: Gauge = Gauge::default(), Gauge,
        "gitfleet_http_webhook_last_verified_timestamp", &[], "When the last delivery with a right signature came, in seconds since 1970; 0 for never";
    forge_calls: Family<ByForgeCall, Counter> = Family::default(), Counter,
        "gitfleet_forge_calls", ByForgeCall::NAMES, "Requests to the git host's API by method and answer; fetching from git is not one";
    task_restarts: Family<ByPart, Counter> = Family::default(), Counter,
        "gitfleet_task_restarts", ByPart::NAMES, "Tasks and threads that ended by an error of gitfleet's own and were begun again";
    store_waits: Gauge = Gauge::default(), Gauge,
        "gitfleet_store_waits_for_adoption", &[], "1 while the store is new though members hold inventories of this source, and nothing begins until a person adopts it";
    store_commits: Family<ByOutcome, Counter> = Family::default(), Counter,
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
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn touched() -> Metrics {
        let metrics = Metrics::new();
        metrics.pass_seconds.get_or_create(&ByOutcome { result: Outcome::Ok }).observe(0.25);
        metrics.decisions.get_or_create(&ByDecision { result: Decision::Changed }).inc();
        metrics.queue_depth.set(3);
        for &verb in Verb::ALL {
            metrics.member_writes.get_or_create(&ByWrite { verb, result: WriteOutcome::Ok }).inc();
        }
        metrics.members.get_or_create(&ByMemberState { state: MemberState::Online }).set(2);
        metrics.drift.get_or_create(&ByDrift { result: Drift::PutBack }).inc();
        metrics.source_polls.get_or_create(&ByPoll { result: Poll::Accepted }).inc();
        metrics.webhooks.get_or_create(&ByDelivery { result: Delivered::Queued }).inc();
        let call = ByForgeCall { method: ForgeMethod::Get, result: ForgeAnswer::Ok };
        metrics.forge_calls.get_or_create(&call).inc();
        metrics.task_restarts.get_or_create(&ByPart { part: Part::Source }).inc();
        metrics.store_commits.get_or_create(&ByOutcome { result: Outcome::Ok }).inc();
        metrics.store_commit_seconds.observe(0.001);
        metrics
    }

    #[test]
    fn the_list_is_what_is_served() {
        let text = touched().encode();
        let served: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let listed: Vec<String> = METRICS.iter().map(|m| format!("{} {}", m.name, m.kind.as_str())).collect();
        assert_eq!(served, listed.iter().map(String::as_str).collect());
        for metric in METRICS {
            assert!(text.contains(&format!("# HELP {} {}.", metric.name, metric.help)), "{}", metric.name);
            let sample = text.lines().find(|line| line.starts_with(metric.name)).unwrap();
            for label in metric.labels {
                assert!(sample.contains(&format!("{label}=\"")), "{sample}");
            }
            assert_eq!(sample.contains("result=\""), metric.labels.contains(&"result"), "{sample}");
        }
    }

    #[test]
    fn names_follow_the_rules() {
        for metric in METRICS {
            assert!(metric.name.starts_with("gitfleet_") && !metric.name.ends_with("_total"), "{}", metric.name);
            assert!(metric.kind != Kind::Histogram || metric.name.ends_with("_seconds"), "{}", metric.name);
            assert!(!metric.help.ends_with('.'), "{}", metric.help);
        }
    }

    #[test]
    fn values_are_counted() {
        let text = touched().encode();
        for line in [
            "gitfleet_engine_queue_depth 3",
            "gitfleet_cluster_writes_total{verb=\"delete\",result=\"ok\"} 1",
            "gitfleet_cluster_members{state=\"online\"} 2",
            "gitfleet_cluster_drift_total{result=\"put_back\"} 1",
            "gitfleet_engine_pass_seconds_count{result=\"ok\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
