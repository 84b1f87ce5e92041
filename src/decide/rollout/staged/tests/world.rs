//! A run and its clusters, written and read as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::rollout::staged::*;
use crate::rollout::{Health, MaxFailures, Readiness};
use model::api::stage_checks::{Checks, MetricCheck};
use model::api::staged::{RunState, StageTaskType, StagedUpdateStrategySpec};
use model::commands::{Command, Person, Refusal, Verb};
use model::id::{ClusterName, Digest, PlacementKey};
use model::overrides::PickedOverrides;
use model::rights::Policy;
use model::runs::*;

/// What a stage's digest begins with.
pub(super) const DIGEST: &str = "0123456789abcdef";

/// A run, what is seen of its clusters, and the time.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub run: RunRecord,
    pub clusters: BTreeMap<ClusterName, Seen>,
    pub stop: bool,
    pub max_failures: MaxFailures,
    pub rules: ApprovalRules,
    pub asks_no_gate: bool,
    pub servers: MetricServers,
    pub replies: BTreeMap<MetricQuery, MetricReply>,
    pub now: Timestamp,
}

pub(super) fn minute(minute: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
}

fn task(word: &str) -> TaskRecord {
    let wait = word.strip_prefix("wait=").map(|minutes| Duration::from_mins(minutes.parse().unwrap()));
    let type_ = if wait.is_some() { StageTaskType::TimedWait } else { StageTaskType::Approval };
    TaskRecord {
        type_,
        wait,
        wanted_by: WantedBy::Strategy,
        expired: false,
        asked_at: None,
        done_at: None,
        approvals: Vec::new(),
    }
}

/// The checks among the words of a stage: `healthy=MINUTES`, and `metric=NAME`, whose answer may be 1 at most.
fn checks(words: &[&str]) -> Option<ChecksRecord> {
    let metric = |name: &str| {
        let query = format!("sum({name})");
        MetricCheck { name: name.to_owned(), server: None, query, min: None, max: Some(1.0) }
    };
    let given = Checks {
        healthy_for: words.iter().find_map(|word| word.strip_prefix("healthy=")).map(|minutes| format!("{minutes}m")),
        metrics: words.iter().filter_map(|word| word.strip_prefix("metric=")).map(metric).collect(),
    };
    (given != Checks::default()).then(|| ChecksRecord::new(given))
}

/// `NAME[/MAX-CONCURRENCY] [before] [after] [wait=MINUTES] [healthy=MINUTES] [metric=NAME]: CLUSTER...`
fn stage(text: &str) -> StageRecord {
    let (head, clusters) = text.split_once(':').unwrap();
    let mut words = head.split_whitespace();
    let (name, max) = words.next().map(|word| word.split_once('/').unwrap_or((word, "1"))).unwrap();
    let is_check = |word: &&str| word.starts_with("healthy=") || word.starts_with("metric=");
    let (checked, words): (Vec<&str>, Vec<&str>) = words.partition(is_check);
    let words = words.into_iter();
    let (before, after): (Vec<&str>, Vec<&str>) = words.partition(|word| *word == "before");
    StageRecord {
        name: if name == "delete" { DELETION_STAGE.to_owned() } else { name.to_owned() },
        max_concurrency: max.parse().unwrap(),
        phase: StagePhase::Pending,
        since: minute(0),
        started_at: None,
        ended_at: None,
        digest: Digest::new(format!("{DIGEST}-{name}")),
        before: before.into_iter().map(task).collect(),
        after: after.into_iter().map(task).collect(),
        checks: checks(&checked),
        clusters: clusters
            .split_whitespace()
            .map(|name| RunCluster {
                name: name.into(),
                phase: ClusterPhase::Pending,
                since: minute(0),
                started_at: None,
                overrides: PickedOverrides::default(),
                message: String::new(),
            })
            .collect(),
        while_empty: None,
    }
}

fn health(ready: bool, failed: bool) -> Health {
    let ready = if ready { Readiness::Ready } else { Readiness::NotYet(None) };
    Health { ready, failed, undelivered: false, diff_reported: false, seen_unavailable: false, changes_in: None }
}

fn seen(picked: bool) -> Seen {
    Seen {
        in_fleet: true,
        picked,
        bound_to: false,
        leaving: false,
        online: true,
        health: health(true, false),
        failure: String::new(),
        unavailable: false,
        taken: false,
        removed: false,
        held: false,
        kept: false,
    }
}

impl World {
    /// Stages in order, separated by `;`; the one named `delete` is the deletion stage, which is there in any case.
    pub(super) fn new(text: &str) -> Self {
        let (deletion, stages): (Vec<StageRecord>, Vec<StageRecord>) =
            text.split(';').map(|text| stage(text.trim())).partition(|stage| stage.name == DELETION_STAGE);
        let deletion = deletion.into_iter().next().unwrap_or_else(|| stage("delete:"));
        let names = |stages: &[StageRecord], picked| -> Vec<(ClusterName, Seen)> {
            stages.iter().flat_map(|stage| &stage.clusters).map(|c| (c.name.clone(), seen(picked))).collect()
        };
        let mut clusters: BTreeMap<ClusterName, Seen> = names(&stages, true).into_iter().collect();
        clusters.extend(names(std::slice::from_ref(&deletion), false));
        let run = RunRecord {
            name: "run".to_owned(),
            placement: PlacementKey { namespace: None, name: "web".to_owned() },
            cause: RunCause::Snapshot,
            strategy: "careful".to_owned(),
            approvers: None,
            approvers_before: None,
            wanted_snapshot: None,
            state: None,
            generation: 1,
            created_at: minute(0),
            sequence: 0,
            phase: RunPhase::Pending,
            since: minute(0),
            message: String::new(),
            refused: false,
            without_clusters: false,
            frozen: Some(Frozen {
                snapshot: 1,
                hash: Digest::new("hash"),
                policy: 0,
                policy_clusters: -1,
                apply_strategy: model::api::placement::ApplyStrategy::default(),
                strategy: StagedUpdateStrategySpec::default(),
                at: minute(0),
            }),
            stages,
            deletion: Some(deletion),
        };
        let (max_failures, rules) = (MaxFailures::default(), ApprovalRules::default());
        // Asked once a minute: an answer counts for two.
        let servers = MetricServers::from([("main".to_owned(), Duration::from_mins(1))]);
        Self {
            run,
            clusters,
            stop: false,
            max_failures,
            rules,
            asks_no_gate: false,
            servers,
            replies: BTreeMap::new(),
            now: minute(0),
        }
    }

    /// Does what a text says: commands of [`World::command`], separated by commas.
    pub(super) fn tell(&mut self, commands: &str) {
        for command in commands.split(',').map(str::trim).filter(|command| !command.is_empty()) {
            let words: Vec<&str> = command.split_whitespace().collect();
            self.command(&words);
        }
    }

    fn command(&mut self, words: &[&str]) {
        match words {
            ["stop"] => self.stop = true,
            ["resume"] => self.stop = false,
            ["state", "Stop"] => self.run.state = Some(RunState::Stop),
            ["state", "Run"] => self.run.state = Some(RunState::Run),
            ["state", _] => self.run.state = Some(RunState::Initialize),
            ["ungated"] => self.asks_no_gate = true,
            ["retry"] => _ = retry(&mut self.run, self.rules, self.now),
            ["superseded"] => phases::end_run(&mut self.run, RunPhase::Superseded, "", self.now),
            ["rolled-back"] => phases::end_run(&mut self.run, RunPhase::RolledBack, "", self.now),
            ["at", at] => self.now = minute(at.parse().unwrap()),
            ["failures", at_most] => {
                let percent = at_most.strip_suffix('%').map(|percent| MaxFailures::Percent(percent.parse().unwrap()));
                self.max_failures = percent.unwrap_or_else(|| MaxFailures::Number(at_most.parse().unwrap()));
            }
            ["quorum", required] => self.rules.required = required.parse().unwrap(),
            ["answer", answer] => self.answer(answer),
            ["server", name] => _ = self.servers.insert((*name).to_owned(), Duration::from_mins(1)),
            ["servers", "gone"] => self.servers.clear(),
            ["approve", stage, person] => _ = self.approve(stage, None, person, None).unwrap(),
            [cluster, word] => self.see(cluster, word),
            other => panic!("{other:?}"),
        }
    }

    /// Answers a query that is asked: `METRIC=NUMBER`, or `METRIC=?` without a number.
    fn answer(&mut self, answer: &str) {
        let (metric, value) = answer.split_once('=').unwrap();
        let value = value.parse().map_err(|_| "no data".to_owned());
        for query in queries(&self.run, &self.servers).into_iter().filter(|query| query.metric == metric) {
            self.replies.insert(query, MetricReply { at: self.now, value: value.clone() });
        }
    }

    /// Changes what is seen of a cluster.
    pub(super) fn see(&mut self, cluster: &str, word: &str) {
        let seen = self.clusters.get_mut(cluster).unwrap();
        match word {
            "ready" => (seen.health, seen.unavailable) = (health(true, false), false),
            "right" => (seen.bound_to, seen.health, seen.unavailable) = (true, health(true, false), false),
            "failed" => {
                (seen.health, seen.unavailable) = (health(false, true), false);
                "its image is missing".clone_into(&mut seen.failure);
            }
            "broken" => {
                (seen.health, seen.unavailable) = (health(false, false), true);
                seen.health.seen_unavailable = true;
            }
            "untold" => (seen.health, seen.unavailable) = (health(false, false), true),
            "lost" => (seen.bound_to, seen.health, seen.unavailable) = (false, health(false, false), false),
            "offline" => seen.online = false,
            "online" => seen.online = true,
            "gone" => seen.in_fleet = false,
            "unpicked" => seen.picked = false,
            "picked" => seen.picked = true,
            "taken" => (seen.taken, seen.bound_to) = (true, false),
            "removed" => seen.removed = true,
            "held" => seen.held = true,
            "free" => seen.held = false,
            "kept" => seen.kept = true,
            _ => {
                let minutes = word.strip_prefix("in=").unwrap().parse().unwrap();
                seen.health.changes_in = Some(Duration::from_mins(minutes));
            }
        }
    }

    pub(super) fn approve(
        &mut self,
        stage: &str,
        gate: Option<Gate>,
        person: &str,
        shown: Option<&str>,
    ) -> Result<Approved, Refusal> {
        let at = GateName { run: self.run.name.clone(), stage: stage.to_owned(), gate };
        let (person, command) = said(Verb::Approve, person, shown);
        let policy = Policy { rules: self.rules, ..Policy::default() };
        approve(&mut self.run, &at, &person, &command, &policy, self.now)
    }

    /// Advances the run and moves bindings as it says.
    pub(super) fn advance(&mut self) -> Step {
        record_replies(&mut self.run, &self.replies);
        let situation = Situation {
            clusters: &self.clusters,
            stop: self.stop,
            max_failures: self.max_failures,
            rules: self.rules,
            asks_no_gate: self.asks_no_gate,
            servers: &self.servers,
            failed_elsewhere: &BTreeMap::new(),
        };
        let step = advance(&mut self.run, &situation, self.now);
        for cluster in &step.start {
            let seen = self.clusters.get_mut(cluster).unwrap();
            (seen.bound_to, seen.health, seen.unavailable) = (true, health(false, false), true);
        }
        step
    }

    /// Advances until nothing changes at this instant, which is after one call.
    pub(super) fn settle(&mut self) -> Step {
        let step = self.advance();
        let mut again = self.clone();
        let second = again.advance();
        assert_eq!(again.run, self.run, "a second call changes the record");
        assert_eq!((second.start, second.remove, second.notes), Default::default(), "a second call does something");
        assert_eq!(second.wake_at, step.wake_at, "a second call waits for something else");
        step
    }

    /// Writes the run as `PHASE | STAGE PHASE CLUSTER=P ...`, clusters with the first letter of their phase and `x` for
    /// skipped ones. A deletion stage without clusters is left out.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{:?}", self.run.phase);
        let deletion = self.run.deletion.iter().filter(|stage| !stage.clusters.is_empty());
        for stage in self.run.stages.iter().chain(deletion) {
            let name = if stage.name == DELETION_STAGE { "delete" } else { &stage.name };
            write!(text, " | {name} {:?}", stage.phase).unwrap();
            for cluster in &stage.clusters {
                let phase = format!("{:?}", cluster.phase);
                let letter = if cluster.phase == ClusterPhase::Skipped { "x" } else { &phase[..1] };
                write!(text, " {}={letter}", cluster.name).unwrap();
            }
        }
        text
    }
}

pub(super) fn said(verb: Verb, person: &str, shown: Option<&str>) -> (Person, Command) {
    let person = Person::of(person, Channel::Api);
    let command =
        Command { digest: shown.map(str::to_owned), reason: Some("seen".to_owned()), ..Command::new(verb, "run") };
    (person, command)
}

/// What is told before each advance, and how the run stands after it.
pub(super) type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Plays cases, each a name, stages and steps.
pub(super) fn play(cases: &[Case]) {
    for (name, stages, steps) in cases {
        let mut world = World::new(stages);
        for (index, (commands, expected)) in steps.iter().enumerate() {
            world.tell(commands);
            world.settle();
            assert_eq!(world.text(), *expected, "{name}, step {index} ({commands}): {}", world.run.message);
        }
    }
}
