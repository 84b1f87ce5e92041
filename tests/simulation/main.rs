//! Whole fleets on virtual time, each from one seed: commits, faults and people in any order, and the promises of the design
//! checked after every step.
//!
//! `GITFLEET_SEEDS=20000 cargo test --test simulation` runs more of them, `GITFLEET_SEED_FIRST` begins elsewhere.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on shall fail")]

mod check;
mod forged;
mod story;

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gitfleet::config::Configuration;
use gitfleet::engine::simulation::{Detail, Dice, Fact, Faults, SimulatedMember, Simulation};
use gitfleet::model::commands::{Command, Person, Verb};
use gitfleet::model::id::{ClusterName, CommitId, PlacementKey};
use gitfleet::model::runs::Surface;
use jiff::{SignedDuration, Timestamp};

use check::Checker;
use story::{CLUSTERS_MAX, PLACEMENTS_MAX, Story, fate};

/// Seeds that are run where nobody says how many.
const SEEDS_DEFAULT: u64 = 2000;
/// Every so many seeds are run twice, and must be the same.
const TWICE_EVERY: u64 = 20;
/// Steps after which a seed counts as restless.
const STEPS_MAX: usize = 60_000;
/// After the last fault: time to come to rest, and time to stay there.
const SETTLE: Duration = Duration::from_hours(3);
const REST: Duration = Duration::from_hours(2);
/// How often a person looks after what waits, once faults have stopped.
const HELP_PAUSE: Duration = Duration::from_secs(30);
/// Failing seeds whose trace is shown; the others are named.
const REPORTS_MAX: usize = 1;
/// Lines of the trace that a failure shows.
const TRACE_LINES: usize = 60;

const CHANGE: u64 = 0;
const FAULT: u64 = 1;
const PERSON: u64 = 2;
const END: u64 = 3;
const HELP: u64 = 4;

/// What happened, in order; written out only where somebody reads it.
#[derive(Default)]
struct Trace(Vec<(Timestamp, Line)>);

enum Line {
    Seen(Fact),
    Said(String),
}

impl Trace {
    fn lines(&self) -> Vec<String> {
        let line = |(at, line): &(Timestamp, Line)| match line {
            Line::Seen(fact) => format!("{at} {fact}"),
            Line::Said(words) => format!("{at} {words}"),
        };
        self.0.iter().map(line).collect()
    }
}

struct Run {
    simulation: Simulation,
    story: Story,
    checker: Checker,
    trace: Trace,
    left: BTreeSet<ClusterName>,
    last: Option<CommitId>,
    clusters: BTreeSet<ClusterName>,
}

fn configuration() -> Configuration {
    let text = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
        members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]\nstore: {path: /state}\n";
    Configuration::parse(text, Path::new("/"), &std::collections::BTreeMap::new()).expect("it has no errors")
}

fn faults(dice: &mut Dice) -> Faults {
    let mut some = |most: u64| if dice.chance(400) { dice.between(1, most) } else { 0 };
    Faults {
        crash: some(60),
        store_refuses: some(150),
        store_crashes: some(60),
        step_lost: some(60),
        answer_lost: some(60),
        late_write: 0,
        report_twice: some(300),
        slow_delete: some(600),
        source_fails: some(200),
    }
}

impl Run {
    fn begin(seed: u64) -> Self {
        let mut story = Story::begin(Dice::new(seed ^ 0x5173));
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("an instant");
        let mut simulation = Simulation::new(configuration(), seed, start, Detail::Steps, Box::new(fate));
        simulation.faults = faults(&mut story.dice);
        let mut checker = Checker::default();
        if story.dice.chance(200) {
            simulation.faults.late_write = 500;
            checker.is_lenient = true;
        }
        let mut run = Self {
            simulation,
            story,
            checker,
            trace: Trace::default(),
            left: BTreeSet::new(),
            last: None,
            clusters: BTreeSet::new(),
        };
        run.push(false);
        for _ in 0..run.story.dice.between(3, 12) {
            let after = Duration::from_millis(run.story.dice.between(0, 600_000));
            let what = [CHANGE, CHANGE, FAULT, PERSON][usize::try_from(run.story.dice.below(4)).unwrap_or(0)];
            run.simulation.at(after, what);
        }
        run.simulation.at(Duration::from_mins(11), END);
        run
    }

    fn push(&mut self, may_be_bad: bool) {
        let (commit, tree, wish) = self.story.commit(may_be_bad);
        self.left.extend(self.clusters.difference(&wish.clusters).cloned());
        if wish.is_good {
            self.clusters.clone_from(&wish.clusters);
        }
        self.checker.wishes.insert(commit.clone(), wish);
        self.last = Some(commit.clone());
        self.simulation.push(commit, tree);
    }

    /// Lets one thing happen and looks at it. Returns whether anything was left to happen.
    fn step(&mut self) -> Result<bool, String> {
        let Some(mut facts) = self.simulation.step() else { return Ok(false) };
        while !facts.is_empty() {
            for fact in std::mem::take(&mut facts) {
                self.trace.0.push((self.simulation.now(), Line::Seen(fact.clone())));
                self.checker.see(&fact)?;
                if let Fact::Mark(mark) = fact {
                    self.mark(mark);
                }
            }
            facts = self.simulation.facts();
        }
        Ok(true)
    }

    fn mark(&mut self, mark: u64) {
        match mark {
            CHANGE => {
                self.story.change();
                self.push(true);
            }
            FAULT => self.fault(),
            PERSON => {
                let verb = *self.story.dice.pick(&VERBS).expect("there are some");
                let placement = format!("p{}", self.story.dice.below(PLACEMENTS_MAX));
                self.command(verb, &placement, None);
            }
            END => self.end(),
            _ => self.help(),
        }
    }

    fn fault(&mut self) {
        let cluster = ClusterName::new(format!("c{}", self.story.dice.below(CLUSTERS_MAX)));
        match self.story.dice.below(5) {
            0 | 1 => {
                let away = self.story.dice.chance(600);
                self.simulation.set_reachable(&cluster, !away);
            }
            2 => self.simulation.crash(),
            3 => {
                let jump = i64::try_from(self.story.dice.below(400)).unwrap_or(0);
                let back = self.story.dice.chance(300);
                let skew = if back { SignedDuration::from_secs(-jump / 20) } else { SignedDuration::from_secs(jump) };
                self.simulation.set_skew(skew);
            }
            _ => {
                let late_write = self.simulation.faults.late_write;
                self.simulation.faults = Faults { late_write, ..faults(&mut self.story.dice) };
            }
        }
    }

    fn command(&mut self, verb: Verb, target: &str, stage: Option<&str>) {
        let person = Person::of("ann", Surface::Api);
        let command = Command {
            verb,
            target: target.to_owned(),
            stage: stage.map(str::to_owned),
            to: None,
            to_commit: None,
            digest: None,
            reason: None,
            message: None,
        };
        if verb == Verb::Approve {
            self.note_digests(target);
        }
        let answer = match self.simulation.obey(&command, &person) {
            None => "no answer".to_owned(),
            Some(Ok(done)) => done.message,
            Some(Err(refusal)) => refusal.message,
        };
        self.trace.0.push((self.simulation.now(), Line::Said(format!("{verb:?} {target}: {answer}"))));
    }

    /// What is shown to the person who approves: the digests of everything that waits.
    fn note_digests(&mut self, target: &str) {
        let Some(core) = self.simulation.core() else { return };
        let Some(state) = core.placements().get(&PlacementKey::cluster_scoped(target)) else { return };
        let waiting = state
            .runs
            .values()
            .flat_map(|run| &run.stages)
            .filter(|stage| stage.phase.is_reached() || stage.since > Timestamp::UNIX_EPOCH);
        let digests = waiting.map(|stage| stage.digest.clone());
        let deletions = state.record.deletion_gate.as_ref().map(|gate| gate.digest.clone());
        self.checker.approved.extend(digests.chain(deletions));
    }

    /// Faults stop, and a good commit comes.
    fn end(&mut self) {
        self.simulation.faults = Faults::default();
        for number in 0..CLUSTERS_MAX {
            self.simulation.set_reachable(&ClusterName::new(format!("c{number}")), true);
        }
        self.story.make_good();
        self.push(false);
        self.simulation.at(Duration::from_secs(20), HELP);
    }

    /// A patient person lets everything on.
    fn help(&mut self) {
        for number in 0..PLACEMENTS_MAX {
            let placement = format!("p{number}");
            self.command(Verb::Resume, &placement, None);
            self.command(Verb::Approve, &placement, None);
            // Under `Queue` a newer run waits for the unfinished one. Who retries that whenever a cluster of it fails keeps it
            // unfinished for good, and rightly so: what it rolls out is what the newer run mends.
            if !self.is_queued(&placement) {
                self.command(Verb::Retry, &placement, None);
            }
            self.command(Verb::Approve, &placement, Some("deletion"));
        }
    }

    /// Tells whether a run of the placement waits for another.
    fn is_queued(&self, placement: &str) -> bool {
        let placements = self.simulation.core().map(gitfleet::engine::core::Core::placements);
        let state = placements.and_then(|placements| placements.get(&PlacementKey::cluster_scoped(placement)));
        state.is_some_and(|state| state.runs.values().filter(|run| !run.phase.is_final()).count() > 1)
    }

    /// Tells whether something may wait for a person.
    fn waits(&self) -> bool {
        let Some(core) = self.simulation.core() else { return true };
        core.placements().values().any(|state| {
            let record = &state.record;
            record.closed_gate().is_some()
                || record.paused.is_some()
                || record.held.is_some()
                || record.halted.is_some()
                || state.runs.values().any(|run| !run.phase.is_final())
        })
    }

    /// Runs to the end: everything has come to rest, and stays there.
    fn finish(&mut self) -> Result<(), String> {
        let settled = self.simulation.now() + SETTLE;
        let mut next_help = self.simulation.now() + Duration::from_mins(12);
        for steps in 0.. {
            if next_help < settled && self.waits() && self.simulation.next_at().is_none_or(|at| at >= next_help) {
                let after = next_help.duration_since(self.simulation.now());
                self.simulation.at(after.try_into().unwrap_or_default(), HELP);
                next_help += HELP_PAUSE;
            }
            if self.simulation.next_at().is_none_or(|at| at >= settled) {
                break;
            }
            self.step()?;
            if steps > STEPS_MAX {
                return Err(format!("6: it does not come to rest within {STEPS_MAX} steps"));
            }
        }
        let last = self.last.clone().expect("something was pushed");
        self.checker.is_at_rest(&self.simulation, &last, &self.left)?;
        let writes = |run: &Self| run.simulation.members().values().map(SimulatedMember::writes).sum::<u64>();
        let before = writes(self);
        while self.simulation.next_at().is_some_and(|at| at < settled + REST) {
            self.step()?;
        }
        let after = writes(self);
        if before == after { Ok(()) } else { Err(format!("6: {} writes though nothing happens", after - before)) }
    }
}

const VERBS: [Verb; 8] =
    [Verb::Approve, Verb::Approve, Verb::Approve, Verb::Reject, Verb::Pause, Verb::Resume, Verb::Retry, Verb::Rollback];

/// Runs a seed. Returns its trace.
fn run(seed: u64) -> Result<Trace, (String, Trace)> {
    let mut run = Run::begin(seed);
    match run.finish() {
        Ok(()) => Ok(run.trace),
        Err(why) => Err((why, run.trace)),
    }
}

fn report(seed: u64, why: &str, trace: &Trace) -> String {
    let lines = trace.lines();
    let tail: Vec<String> =
        lines[lines.len().saturating_sub(TRACE_LINES)..].iter().map(|line| line.chars().take(300).collect()).collect();
    format!(
        "seed {seed}: {why}\n  GITFLEET_SEED={seed} cargo test --test simulation -- --nocapture one_seed\n{}\n",
        tail.join("\n")
    )
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().expect("it is a number"))
}

/// The promises hold in every seed, and every seed is the same twice.
#[test]
fn seeds() {
    let first = number("GITFLEET_SEED_FIRST").unwrap_or(0);
    let count = number("GITFLEET_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let failure = match run(seed) {
                Err((why, trace)) => Some((why.clone(), report(seed, &why, &trace))),
                Ok(trace)
                    if seed.is_multiple_of(TWICE_EVERY)
                        && run(seed).ok().map(|again| again.lines()) != Some(trace.lines()) =>
                {
                    let why = "8: it is not the same twice";
                    Some((why.to_owned(), report(seed, why, &trace)))
                }
                Ok(_) => None,
            };
            failures.lock().unwrap().extend(failure.map(|(why, text)| (seed, why, text)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    let shown: Vec<&str> = failures.iter().take(REPORTS_MAX).map(|(_, _, text)| text.as_str()).collect();
    let all: Vec<String> = failures.iter().map(|(seed, why, _)| format!("{seed}: {why:.200}")).collect();
    assert!(failures.is_empty(), "{}\n{} of {count} seeds fail:\n{}", shown.join("\n"), all.len(), all.join("\n"));
}

/// One seed, with its whole trace where `--nocapture` shows it.
#[test]
fn one_seed() {
    let seed = number("GITFLEET_SEED").unwrap_or(1);
    let (trace, why) = match run(seed) {
        Ok(trace) => (trace, None),
        Err((why, trace)) => (trace, Some(why)),
    };
    let lines = trace.lines();
    println!("{}", lines.join("\n"));
    assert!(lines.iter().any(|line| line.contains("APPLIED")), "nothing happened in seed {seed}");
    assert_eq!(why, None, "seed {seed}");
}
