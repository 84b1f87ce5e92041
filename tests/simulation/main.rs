//! Whole fleets on virtual time, each from one seed: commits, faults and people in any order, and the promises of the design
//! checked after every step.
//!
//! `GITFLEET_SEEDS=20000 cargo test --test simulation` runs more of them, `GITFLEET_SEED_FIRST` begins elsewhere, and
//! `GITFLEET_SEEDS_STOP=977,1010` stops at the first that fails and leaves out those: `tests/mutants.sh`. The digests of the traces of the
//! first 120 seeds are kept: `digests.rs`.

#![allow(unreachable_pub, reason = "nothing is outside of a test binary")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue shall fail")]

mod agent_conversation;
mod agents;
mod approvers;
mod at_rest;
mod check;
mod contested;
mod deletions;
mod digests;
mod faults;
mod fixes;
mod forged;
mod gates;
mod halts;
mod hand_over;
mod lost;
mod meetings;
mod owners;
mod pairs;
mod put_backs;
mod records;
mod replicas;
mod restored;
mod restored_store;
mod runs;
mod shown;
mod starts;
mod timeline;
mod twists;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::Configuration;
use decide::state::PlacementState;
use deliver::inventory::applyset_id;
use deliver::live::LiveObject;
use engine::store::records::{PLACEMENT_PREFIX, placement_of};
use jiff::Timestamp;
use model::commands::{Command, Person, RefusalReason, Verb};
use model::forge::{Credentials, Permission};
use model::id::{ClusterName, CommitId, Digest, ObjectKey, PlacementKey};
use model::runs::{Channel, ClusterPhase, DELETION_GATE, RunCause, RunPhase, RunRecord, StagePhase};
use plan::simulate::{Dice, FateOf};
use simulated::{Fact, Faults, SimulatedFleet};

use check::{Checker, Verdict};
use put_backs::fate_with;
use runs::{Rules, Word};
use timeline::{CLUSTERS_MAX, PLACEMENTS_MAX, Timeline, fate};
use twists::Twists;

/// Seeds that are run where nobody says how many.
const SEEDS_DEFAULT: u64 = 120;
/// Every so many seeds are run twice, and must be the same.
const TWICE_EVERY: u64 = 20;
/// Steps after which a seed counts as restless.
const STEPS_MAX: usize = 60_000;
/// After the last fault: time to come to rest, and time to stay there.
const SETTLE: Duration = Duration::from_hours(3);
const REST: Duration = Duration::from_hours(2);
/// The same with agents, whose heartbeats continue for ever.
const SETTLE_WITH_AGENTS: Duration = Duration::from_mins(35);
const REST_WITH_AGENTS: Duration = Duration::from_mins(10);
/// How often a person looks after what waits, once faults have stopped.
const HELP_PAUSE: Duration = Duration::from_secs(30);
/// How far the machine's clock is set at most, ahead and back. No wait becomes longer or shorter by it.
const JUMP_MAX_S: u64 = 400 * 24 * 3600;
const JUMP_BACK_MAX_S: u64 = 400 * 24 * 3600;
/// So many seeds show everything that may happen in one.
const SHOWN_BY: u64 = 400;
/// Failing seeds whose trace is shown; the others are named.
const REPORTS_MAX: usize = 1;
/// Lines of the trace that a failure shows.
const TRACE_LINES: usize = 60;

const CHANGE: u64 = 0;
const FAULT: u64 = 1;
const PERSON: u64 = 2;
const END: u64 = 3;
const HELP: u64 = 4;
const BACK_UP: u64 = 5;
const RESTORE: u64 = 6;
const WRITE: u64 = 7;

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
    simulation: SimulatedFleet,
    timeline: Timeline,
    checker: Checker,
    trace: Trace,
    left: BTreeSet<ClusterName>,
    last: Option<CommitId>,
    clusters: BTreeSet<ClusterName>,
    /// Objects that were changed or taken behind the daemon's back: each once.
    meddled: BTreeSet<(ClusterName, ObjectKey)>,
    /// A member that is restored from a backup.
    restored: Option<restored::Plan>,
    /// An approval came too late: it is to be asked for again.
    expired: bool,
    /// What else happens, until the end.
    twists: Twists,
    is_over: bool,
    /// What API servers refuse.
    refused: put_backs::Refused,
    /// What somebody changed and nobody has put back.
    changed: put_backs::Changed,
    /// What people see.
    published: shown::Published,
    /// Several daemons on one store.
    replicas: Option<replicas::Watched>,
    /// Agents that deliver to members.
    agents: Option<agents::WatchedAgents>,
    /// Features that are to meet.
    meetings: meetings::Meetings,
    /// Which features met.
    pairs: pairs::Pairs,
    /// The snapshots that inventories said last that members hold.
    inventories: BTreeMap<(PlacementKey, ClusterName), u64>,
}

/// The tenant whose folder one placement is in.
const TENANTS: &str = "tenants: [{name: t, path: tenant, namespaces: [n0], clusterKinds: [Namespace, \
                       ClusterRole.rbac.authorization.k8s.io], overrides: [ClusterResourceOverride]}]\n";

fn configuration(rules: Option<Rules>, has_tenant: bool) -> Configuration {
    configuration_of("members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]", rules, has_tenant)
}

/// Returns the configuration with these members, and what else is written beside them.
fn configuration_of(members: &str, rules: Option<Rules>, has_tenant: bool) -> Configuration {
    let mut text = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: /fleet, branch: main}}\n{members}\n\
         store: {{path: /state}}\n"
    );
    if has_tenant {
        text.push_str(TENANTS);
    }
    if let Some(Rules { required, expire_after }) = rules {
        let seconds = expire_after.as_secs();
        let forge = format!(
            "forge: {{type: gitea, url: 'https://git.example', repository: a/b, tokenFile: /token, approvals: {{required: \
             {required}, expireAfter: {seconds}s}}}}\n"
        );
        text.push_str(&forge);
    }
    Configuration::parse(&text, Path::new("/"), &std::collections::BTreeMap::new()).expect("it has no errors")
}

fn simulation(rules: Option<Rules>, seed: u64) -> SimulatedFleet {
    simulation_with(rules, false, seed, Box::new(fate))
}

fn simulation_with(rules: Option<Rules>, has_tenant: bool, seed: u64, fate: FateOf) -> SimulatedFleet {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("an instant");
    SimulatedFleet::new(configuration(rules, has_tenant), seed, start, fate)
}

/// The people of the fleet: two over the API, and by comment one who may push, one who may read, and one who pushed the change.
fn person(number: u64) -> Person {
    let by_comment = |name: &str, id: u64, permission, took_part: Option<&str>| Person {
        credentials: Some(Credentials {
            id,
            permission,
            teams: BTreeSet::new(),
            took_part: took_part.map(str::to_owned),
            comment: String::new(),
        }),
        ..Person::of(name, Channel::Comment)
    };
    match number {
        0 => Person::of("ann", Channel::Api),
        1 => Person::of("bob", Channel::Api),
        2 => by_comment("cyd", 3, Permission::Write, None),
        3 => by_comment("dan", 4, Permission::Write, Some("pushed a commit of #7")),
        _ => by_comment("eve", 5, Permission::Read, None),
    }
}

/// Tells whether a person may never approve.
fn is_stranger(person: &Person) -> bool {
    matches!(person.name.as_str(), "dan" | "eve")
}

fn faults(dice: &mut Dice) -> Faults {
    let mut some = |most: u64| if dice.chance(400) { dice.between(1, most) } else { 0 };
    Faults {
        crash: some(60),
        store_refuses: some(150),
        store_unsure: some(60),
        store_crashes: some(60),
        step_lost: some(60),
        answer_lost: some(60),
        late_write: 0,
        report_twice: some(300),
        slow_delete: some(600),
        stale_list: some(600),
        list_fails: some(500),
        watch_ends: 0,
        source_fails: some(200),
        restore_fails: some(500),
        payload_late: some(300),
        ..Faults::default()
    }
}

impl Run {
    fn begin(seed: u64) -> Self {
        Self::begin_as(seed, None)
    }

    fn begin_as(seed: u64, replicas: Option<replicas::Watched>) -> Self {
        Self::begin_with(seed, replicas, None)
    }

    /// Begins with one daemon, or with several, and with agents or without.
    fn begin_with(seed: u64, replicas: Option<replicas::Watched>, agents: Option<agents::WatchedAgents>) -> Self {
        let mut timeline = Timeline::begin(Dice::new(seed ^ 0x5173));
        let themes = meetings::Themes::of(seed, &[]);
        let expires = themes.has(pairs::EXPIRED);
        let has_rules = timeline.dice.chance(300) || expires;
        let expire_after = if seed.is_multiple_of(3) && !expires { 120 } else { 45 };
        let rules = has_rules.then_some(Rules { required: 2, expire_after: Duration::from_secs(expire_after) });
        // Dice of their own leave all other seeds as they are.
        let mut kinds = Dice::new(seed ^ 0x5c0b_e000);
        if kinds.chance(250) {
            timeline.split(&mut kinds);
        }
        timeline.has_tenant = kinds.chance(200) || themes.has(pairs::TENANT);
        timeline.keepers = approvers::keepers(seed, rules.map_or(1, |rules| rules.required));
        themes.suit(&mut timeline);
        let refused = put_backs::Refused::default();
        let mut simulation = simulation_with(rules, timeline.has_tenant, seed, Box::new(fate_with(&refused)));
        simulation.deployment.faults = faults(&mut timeline.dice);
        let mut checker = Checker::default();
        checker.rules = rules.unwrap_or_default();
        if timeline.dice.chance(200) {
            simulation.deployment.faults.late_write = 500;
            checker.is_lenient = true;
        }
        let mut run = Self {
            pairs: pairs::Pairs::of(timeline.has_tenant, replicas.is_some()),
            inventories: BTreeMap::new(),
            meetings: meetings::Meetings::of(themes, Dice::new(seed ^ 0x3ee7_0000)),
            simulation,
            timeline,
            checker,
            trace: Trace::default(),
            left: BTreeSet::new(),
            last: None,
            clusters: BTreeSet::new(),
            meddled: BTreeSet::new(),
            restored: restored::Plan::of(seed),
            expired: false,
            twists: Twists::of(seed),
            is_over: false,
            refused,
            changed: BTreeMap::new(),
            published: shown::Published::default(),
            replicas: None,
            agents: None,
        };
        if let Some(watched) = replicas {
            run.replicate(watched);
        }
        if let Some(watched) = agents {
            run.employ(watched, rules);
        }
        // Dice of its own leave all other seeds as they are.
        let mut dice = Dice::new(seed ^ 0x3a7c);
        if dice.chance(200) {
            run.simulation.deployment.faults.watch_ends = dice.between(1, 100);
        }
        run.share_some();
        run.push(false);
        run.own_some();
        run.twists.plan(&mut run.simulation);
        for (at, mark) in run.meetings.plan(run.replicas.is_some()) {
            run.simulation.at(at, mark);
        }
        for _ in 0..run.timeline.dice.between(3, 12) {
            let after = Duration::from_millis(run.timeline.dice.between(0, 600_000));
            let what =
                [CHANGE, CHANGE, FAULT, PERSON, PERSON][usize::try_from(run.timeline.dice.below(5)).unwrap_or(0)];
            run.simulation.at(after, what);
        }
        if let Some(plan) = &run.restored {
            run.simulation.at(plan.backed_up, BACK_UP);
            run.simulation.at(plan.written, WRITE);
            run.simulation.at(plan.restored, RESTORE);
        }
        run.simulation.at(Duration::from_mins(11), END);
        run
    }

    fn push(&mut self, may_be_bad: bool) {
        self.push_as(may_be_bad, false);
    }

    /// Pushes what the source says now, or checks it out as another branch.
    fn push_as(&mut self, may_be_bad: bool, is_switch: bool) {
        let (commit, tree, wish) = self.timeline.commit(may_be_bad);
        self.left.extend(self.clusters.difference(&wish.clusters).cloned());
        if wish.is_good {
            self.clusters.clone_from(&wish.clusters);
        }
        self.checker.wishes.insert(commit.clone(), wish);
        self.last = Some(commit.clone());
        let is_rewritten = !is_switch && may_be_bad && self.timeline.dice.chance(50);
        self.checker.note_push(&commit, is_switch || is_rewritten);
        if is_switch {
            self.simulation.switch(commit, tree);
        } else if is_rewritten {
            self.simulation.rewrite(commit, tree);
        } else {
            self.simulation.push(commit, tree);
        }
    }

    /// Lets one thing happen and looks at it. Returns whether anything was left to happen.
    fn step(&mut self) -> Result<bool, String> {
        let Some(mut facts) = self.simulation.step() else { return Ok(false) };
        if self.simulation.is_divided() {
            self.checker.calm_since = self.simulation.now;
        }
        self.checker.is_stale = self.simulation.deployment.faults.stale_list > 0;
        self.published.follow(&mut self.simulation, &facts)?;
        while !facts.is_empty() {
            // What people do then comes after what had happened.
            let (marks, seen): (Vec<Fact>, Vec<Fact>) =
                std::mem::take(&mut facts).into_iter().partition(|fact| matches!(fact, Fact::Mark(_)));
            for fact in seen.into_iter().chain(marks) {
                self.trace.0.push((self.simulation.now, Line::Seen(fact.clone())));
                self.pairs.see(&fact, &self.checker.wishes, &self.simulation.store);
                (self.checker.now, self.checker.clock) = (self.simulation.now, self.simulation.clock());
                self.watch_replicas(&fact)?;
                self.watch_agents(&fact)?;
                if self.is_of_untold(&fact) {
                    self.note_untold(&fact);
                } else {
                    self.checker.see(&fact)?;
                }
                self.note_late(&fact);
                self.is_true(&fact)?;
                self.goes_last(&fact)?;
                match fact {
                    Fact::Mark(mark) => self.mark(mark)?,
                    Fact::Kept { key, value: None } => self.is_gone(&key)?,
                    _ => {}
                }
            }
            facts = self.simulation.facts();
        }
        self.checker.may_begin()?;
        self.checker.now = self.simulation.now;
        self.checker.fixes_arrive()?;
        self.changes_are_told()?;
        Ok(true)
    }

    fn say_that(&mut self, words: String) {
        self.trace.0.push((self.simulation.now, Line::Said(words)));
    }

    /// 6: an inventory that is written on a member that was restored claims what is there. Lists that show what was there a while
    /// ago, and what somebody takes away, may be seen too late for that.
    fn is_true(&mut self, fact: &Fact) -> Verdict {
        let Fact::Inventory { order, holds: Some(index) } = fact else { return Ok(()) };
        // What it held last is still written while something else arrives, and may be what is ordered again.
        let before = self.inventories.insert((order.placement.clone(), order.cluster.clone()), *index);
        if before == Some(*index) {
            return Ok(());
        }
        // What is somebody else's, or another placement's as yet, is refused: the rest counts as all there is to hold.
        let is_refused = self.twists.owners.is_some() || self.twists.renames.is_some() || self.meetings.hand_over();
        let is_exact =
            self.simulation.deployment.faults.stale_list == 0 && !self.checker.is_lenient && self.meddled.is_empty();
        let is_exact = is_exact && !is_refused;
        let is_restored = self.restored.as_ref().is_some_and(|plan| plan.cluster == order.cluster);
        let Some(member) = self.simulation.members.get(&order.cluster).filter(|_| is_exact && is_restored) else {
            return Ok(());
        };
        if *index == order.snapshot {
            return restored::has_all(order, &member.objects);
        }
        Ok(())
    }

    /// 6: a Namespace goes after what the same order takes out of it, and after what other placements have in it. A list that shows the
    /// Namespace and is older than what is in it hides that, and all of it is to go.
    fn goes_last(&self, fact: &Fact) -> Verdict {
        let Fact::Deleted { order, object, .. } = fact else { return Ok(()) };
        let Some(member) = self.simulation.members.get(&order.cluster) else { return Ok(()) };
        if !object.is_namespace() {
            return Ok(());
        }
        let label = applyset_id(&order.placement);
        let is_stale = self.simulation.deployment.faults.stale_list > 0;
        let is_listed = !is_stale && !self.checker.is_lenient;
        let others: BTreeSet<String> = self
            .checker
            .bindings
            .values()
            .filter(|binding| is_listed && binding.cluster == order.cluster && binding.placement != order.placement)
            .map(|binding| applyset_id(&binding.placement))
            .collect();
        let is_in = |(key, live): &(&ObjectKey, &LiveObject)| {
            let is_ours = !is_stale && order.prune.contains(key) && *live.applyset == *label;
            key.is_inside(object) && !live.terminating && (is_ours || others.contains(&*live.applyset))
        };
        match member.objects.iter().find(is_in) {
            Some((key, _)) => Err(format!("6: {object} is deleted on {} before {key}", order.cluster)),
            None => Ok(()),
        }
    }

    /// 4: a placement that is removed everywhere is on no member any more; one that left the fleet keeps what it has.
    fn is_gone(&self, key: &str) -> Verdict {
        let Some(placement) = placement_of(key, PLACEMENT_PREFIX) else { return Ok(()) };
        let label = applyset_id(&placement);
        let members = self.simulation.members.iter().filter(|(name, _)| !self.left.contains(*name));
        let left = members.flat_map(|(name, member)| {
            let ours = member.objects.iter().filter(|(_, live)| *live.applyset == *label);
            ours.map(move |(key, _)| (name, key))
        });
        let left = left.filter(|(name, _)| !self.checker.forgotten.contains(&(placement.clone(), (*name).clone())));
        self.checker.is_gone(&placement, left)
    }

    fn mark(&mut self, mark: u64) -> Verdict {
        match mark {
            CHANGE => {
                self.timeline.change();
                self.push(true);
            }
            FAULT => self.fault(),
            PERSON => {
                let verb = *self.timeline.dice.pick(&VERBS).expect("there are some");
                let number = self.timeline.dice.below(PLACEMENTS_MAX);
                let placement = self.timeline.meant(number, self.checker.seen.is_multiple_of(2));
                return self.say(verb, &placement);
            }
            END => self.end(),
            WRITE => {
                self.timeline.write_all();
                self.push(true);
            }
            BACK_UP => self.restored.iter().for_each(|plan| plan.back_up(&mut self.simulation)),
            RESTORE => self.restored.iter().for_each(|plan| plan.restore(&mut self.simulation)),
            HELP => return self.help(),
            replicas::KEEP => self.keep_leader(),
            _ if self.is_over => {}
            replicas::FAULT => self.fail_replica(),
            agents::FAULT => self.fail_agent(),
            _ => return self.twist(mark),
        }
        Ok(())
    }

    /// A person says something, as the dice fall.
    fn say(&mut self, verb: Verb, placement: &str) -> Verdict {
        let dice = &mut self.timeline.dice;
        let person = person(dice.below(5));
        let mut command = order(verb, placement);
        match verb {
            // A rewritten history is accepted.
            Verb::Resume if dice.chance(200) => command.target.clear(),
            Verb::Approve if dice.chance(150) => command.stage = Some("second".to_owned()),
            Verb::Rollback if dice.chance(400) => command.to = Some(dice.below(5)),
            _ => {}
        }
        let (with_digest, is_wrong) = (dice.chance(300), dice.chance(300));
        if verb == Verb::Approve && with_digest {
            let shown = self.shown(placement, command.stage.as_deref());
            let wrong = "0000000".to_owned();
            command.digest =
                shown.filter(|_| !is_wrong).map(|digest| digest.as_str().chars().take(12).collect()).or(Some(wrong));
        }
        self.command(&command, &person)
    }

    /// A person says something. Returns whether the strategy names the person, as far as that was asked.
    fn say_as(&mut self, command: &Command, person: &Person) -> Result<bool, String> {
        let mut command = command.clone();
        // Most people name the stage that waits.
        if command.verb == Verb::Approve && command.stage.is_none() && self.timeline.dice.chance(900) {
            command.stage = self.waiting(&command.target);
        }
        let (verb, target) = (command.verb, &command.target);
        let placement = key_of(target);
        let shown = self.shown(target, command.stage.as_deref()).filter(|_| verb == Verb::Approve);
        let answer = self.simulation.execute(&command, person);
        let words = match &answer {
            None => "no answer",
            Some(Ok(done)) => done.message.as_str(),
            Some(Err(refusal)) => refusal.message.as_str(),
        };
        let line = format!("{} says {verb:?} {target} {:?} {:?}: {words}", person.name, command.stage, command.digest);
        self.trace.0.push((self.simulation.now, Line::Said(line)));
        if let Some(Err(refusal)) = answer {
            if refusal.reason == RefusalReason::Expired {
                self.expired = true;
                self.pairs.note_expired(&placement);
            }
            let is_named = !refusal.message.contains("may not approve here");
            if !is_named && shown.is_some() && command.stage.is_some() {
                self.checker.may_be_refused(&placement, &person.name)?;
            }
            return Ok(is_named);
        }
        let is_taken = matches!(answer, Some(Ok(_)));
        if verb == Verb::Approve && is_taken && command.stage.is_none() {
            return Err(format!("3: {} approved {target} without naming a stage: {words}", person.name));
        }
        if verb == Verb::Approve && is_taken && (is_stranger(person) || command.digest.as_deref() == Some("0000000")) {
            return Err(format!("3: {} approved {target}: {words}", person.name));
        }
        if verb == Verb::Approve && is_taken {
            self.checker.may_approve(&placement, &person.name)?;
        }
        if verb == Verb::Resume && target.is_empty() {
            self.checker.continue_unread();
        }
        if is_taken {
            self.is_back(verb, &placement)?;
        }
        let word = shown.map(|digest| Word { person: person.name.clone(), digest, at: self.simulation.clock() });
        self.checker.words.extend(word.clone());
        (self.checker.now, self.checker.clock) = (self.simulation.now, self.simulation.clock());
        self.checker.forget_failures(&placement, verb);
        self.checker.commands.insert((placement.clone(), verb));
        self.checker.is_behind = self.simulation.core().is_none_or(|core| core.queue_depth() > 0);
        for fact in self.simulation.facts() {
            self.trace.0.push((self.simulation.now, Line::Seen(fact.clone())));
            self.pairs.see(&fact, &self.checker.wishes, &self.simulation.store);
            self.watch_replicas(&fact)?;
            self.watch_agents(&fact)?;
            self.checker.see(&fact)?;
        }
        self.checker.is_behind = false;
        word.filter(|_| is_taken).map_or(Ok(()), |word| self.checker.has_word(&placement, &word))?;
        Ok(true)
    }

    /// 7: after a rollback that was not refused, clusters are to have what they had, or a run brings it that nothing overtook.
    fn is_back(&self, verb: Verb, placement: &PlacementKey) -> Verdict {
        let Some(core) = self.simulation.core().filter(|_| verb == Verb::Rollback) else { return Ok(()) };
        let now = self.simulation.clock();
        let brings = |run: &RunRecord| {
            matches!(run.cause, RunCause::Rollback { .. }) && run.created_at == now && run.phase != RunPhase::Superseded
        };
        let returns = |state: &PlacementState| state.record.held.is_some() || state.runs.values().any(brings);
        if core.placements().get(placement).is_some_and(returns) {
            return Ok(());
        }
        Err(format!("7: {placement} was rolled back, and nothing of it is held"))
    }

    /// Returns the stage of a placement that waits for a person, or for time.
    fn waiting(&self, target: &str) -> Option<String> {
        let placement = self.simulation.core()?.placements().get(&key_of(target))?;
        let runs = placement.runs.values().filter(|run| run.frozen.is_some() && !run.phase.is_final());
        let mut stages = runs.flat_map(|run| &run.stages);
        let waits = |phase| matches!(phase, StagePhase::WaitingBefore | StagePhase::WaitingAfter);
        stages.find(|stage| waits(stage.phase)).map(|stage| stage.name.clone())
    }

    /// Returns the digest of what a person is shown who asks what waits: a stage, or else the deletions.
    fn shown(&self, target: &str, stage: Option<&str>) -> Option<Digest> {
        let placement = self.simulation.core()?.placements().get(&key_of(target))?;
        let run = placement
            .runs
            .values()
            .find(|run| run.frozen.is_some() && !run.phase.is_final() && !placement.record.removed);
        let waits = |phase| matches!(phase, StagePhase::WaitingBefore | StagePhase::WaitingAfter);
        let mut stages = run.into_iter().flat_map(|run| &run.stages);
        let waiting = stages.find(|s| waits(s.phase) && stage.is_none_or(|stage| stage == s.name));
        let waiting = waiting.map(|stage| stage.digest.clone());
        let deletion = || placement.record.closed_gate().map(|gate| gate.digest.clone());
        waiting.or_else(|| deletion().filter(|_| stage.is_none_or(|stage| stage == DELETION_GATE)))
    }

    /// Faults stop. A good commit comes where the last one cannot come to rest; else it is the last.
    fn end(&mut self) {
        self.checker.calm_since = self.simulation.now;
        self.simulation.deployment.faults = Faults::default();
        for number in 0..CLUSTERS_MAX {
            self.simulation.set_reachable(&ClusterName::new(format!("c{number}")), true);
        }
        self.is_over = true;
        self.heal_replicas();
        self.relent();
        let takes_commit = self.end_owners();
        let is_good = self.last.as_ref().is_some_and(|last| self.checker.wishes[last].is_good);
        if takes_commit || !is_good || !self.timeline.is_good() {
            self.timeline.make_good();
            self.push(false);
        }
        self.simulation.at(Duration::from_secs(20), HELP);
    }

    /// A patient person lets everything on. What was not taken by mistake of a person or of a cluster is not tried again: it is
    /// to come to rest by itself.
    fn help(&mut self) -> Verdict {
        for placement in self.timeline.names() {
            self.let_on(&placement)?;
        }
        self.command(&order(Verb::Resume, ""), &person(0))
    }

    /// A patient person lets a placement on.
    fn let_on(&mut self, placement: &str) -> Verdict {
        let people = [person(0), person(1)];
        self.expired = false;
        self.command(&order(Verb::Resume, placement), &people[0])?;
        for one in &people {
            self.command(&order(Verb::Approve, placement), one)?;
            self.command(&Command { stage: Some(DELETION_GATE.to_owned()), ..order(Verb::Approve, placement) }, one)?;
        }
        // Under `Queue` a newer run waits for the unfinished one. Who retries that whenever a cluster of it fails keeps it
        // unfinished for good, and rightly so: what it rolls out is what the newer run repairs.
        if self.expired || self.needs_retry(placement) && !self.is_queued(placement) {
            self.command(&order(Verb::Retry, placement), &people[0])?;
        }
        Ok(())
    }

    /// Tells whether something of a placement failed, was rolled back or rejected.
    fn needs_retry(&self, placement: &str) -> bool {
        let placements = self.simulation.core().map(engine::Core::placements);
        let state = placements.and_then(|placements| placements.get(&key_of(placement)));
        let has_failed = |run: &RunRecord| {
            let clusters = run.stages.iter().flat_map(|stage| &stage.clusters);
            run.phase == RunPhase::Halted || clusters.into_iter().any(|cluster| cluster.phase == ClusterPhase::Failed)
        };
        state.is_some_and(|state| state.runs.values().any(|run| is_rejected(run, state.runs.values())))
            || state.is_some_and(|state| {
                state.record.held.is_some() || state.record.halted.is_some() || state.runs.values().any(has_failed)
            })
    }

    /// Tells whether a run of the placement waits for another.
    fn is_queued(&self, placement: &str) -> bool {
        let placements = self.simulation.core().map(engine::Core::placements);
        let state = placements.and_then(|placements| placements.get(&key_of(placement)));
        state.is_some_and(|state| state.runs.values().filter(|run| !run.phase.is_final()).count() > 1)
    }

    /// Tells whether something may wait for a person.
    fn waits(&self) -> bool {
        let Some(core) = self.simulation.core().filter(|_| self.checker.accepted() == self.last.as_ref()) else {
            return true;
        };
        core.placements().values().any(waits_for_somebody)
    }

    /// Tells whether something of a placement may wait for a person.
    fn waits_at(&self, target: &str) -> bool {
        let placements = self.simulation.core().map(engine::Core::placements);
        placements.and_then(|placements| placements.get(&key_of(target))).is_some_and(waits_for_somebody)
    }

    /// Runs to the end, and once more where a member that is at rest is restored from its backup.
    fn finish(&mut self) -> Result<(), String> {
        self.come_to_rest(self.simulation.now + Duration::from_mins(12))?;
        // A leader that keeps its lease for good is not ended again.
        let again = self.restored.as_ref().filter(|plan| plan.again && self.replicas.is_none());
        let Some(plan) = again else { return Ok(()) };
        plan.restore(&mut self.simulation);
        self.come_to_rest(self.simulation.now + HELP_PAUSE)
    }

    /// Runs until everything has come to rest, and stays there. From an instant on a person helps.
    fn come_to_rest(&mut self, mut next_help: Timestamp) -> Result<(), String> {
        let (settle, rest) =
            if self.agents.is_some() { (SETTLE_WITH_AGENTS, REST_WITH_AGENTS) } else { (SETTLE, REST) };
        let settled = self.simulation.now + settle;
        for steps in 0.. {
            if next_help < settled && self.waits() && self.simulation.queue.next_at().is_none_or(|at| at >= next_help) {
                let after = next_help.duration_since(self.simulation.now);
                self.simulation.at(after.try_into().unwrap_or_default(), HELP);
                next_help += HELP_PAUSE;
            }
            if self.simulation.queue.next_at().is_none_or(|at| at >= settled) {
                break;
            }
            self.step()?;
            if steps > STEPS_MAX {
                return Err(format!("6: it does not come to rest within {STEPS_MAX} steps"));
            }
        }
        let last = self.last.clone().expect("something was pushed");
        self.checker.is_at_rest(&restored::fleet(&self.simulation), &last, &self.left)?;
        // A person's command may have been the last thing that happened.
        self.published.follow(&mut self.simulation, &[])?;
        self.published.is_whole(&self.simulation)?;
        self.simulation.core().map_or(Ok(()), |core| at_rest::says_so(core, &self.simulation, &last))?;
        let writes = |run: &Self| run.simulation.members.values().map(|member| member.writes).sum::<u64>();
        let before = writes(self);
        while self.simulation.queue.next_at().is_some_and(|at| at < settled + rest) {
            self.step()?;
        }
        let after = writes(self);
        if before == after { Ok(()) } else { Err(format!("6: {} writes though nothing happens", after - before)) }
    }
}

fn waits_for_somebody(state: &PlacementState) -> bool {
    let record = &state.record;
    record.closed_gate().is_some()
        || record.paused.is_some()
        || record.held.is_some()
        || record.halted.is_some()
        || state.runs.values().any(|run| !run.phase.is_final() || is_rejected(run, state.runs.values()))
}

/// Tells whether the no that somebody said to a run stands: to all it was to do, until that is asked for again or a run through
/// all stages comes after it.
fn is_rejected<'a>(run: &RunRecord, runs: impl IntoIterator<Item = &'a RunRecord>) -> bool {
    let is_overtaken = |later: &RunRecord| match &later.cause {
        RunCause::FollowUp { of } => *of == run.name,
        _ => later.phase == RunPhase::Succeeded,
    };
    let mut later = runs.into_iter().filter(|later| later.sequence > run.sequence);
    run.phase == RunPhase::Rejected && !later.any(is_overtaken)
}

const VERBS: [Verb; 8] =
    [Verb::Approve, Verb::Approve, Verb::Approve, Verb::Reject, Verb::Pause, Verb::Resume, Verb::Retry, Verb::Rollback];

/// Returns whom a person means.
fn key_of(target: &str) -> PlacementKey {
    let within = target.strip_prefix("rp/").and_then(|rest| rest.split_once('/'));
    within.map_or_else(
        || PlacementKey::cluster_scoped(target),
        |(namespace, name)| PlacementKey::namespaced(namespace, name),
    )
}

/// What a person says, with nothing beside.
fn order(verb: Verb, target: &str) -> Command {
    Command::new(verb, target)
}

/// Runs a seed. Returns its trace with the digest of it, and which features met.
fn run(seed: u64) -> Result<(Trace, String, pairs::Hits), (String, Trace)> {
    let mut run = Run::begin(seed);
    // A panic is what one seed does, too: it is named.
    let verdict = catch_unwind(AssertUnwindSafe(|| run.finish())).unwrap_or_else(|_| Err("it panics".to_owned()));
    match verdict {
        Ok(()) => {
            let digest = digests::of_run(&run);
            let hits = run.pairs.end(&run.simulation.store);
            Ok((run.trace, digest, hits))
        }
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

/// Returns the seeds to leave out where the first of the others that fails is enough.
fn left_out() -> Option<BTreeSet<u64>> {
    let text = env::var("GITFLEET_SEEDS_STOP").ok()?;
    Some(text.split_terminator(',').map(|seed| seed.parse().expect("it is a seed")).collect())
}

/// Returns how many seeds are run.
fn seeds_count() -> u64 {
    let default = if digests::are_written() { digests::SEEDS_KEPT } else { SEEDS_DEFAULT };
    number("GITFLEET_SEEDS").unwrap_or(default)
}

/// Plays one of so many seeds of a run on all cores; fails where one does. Returns how many were played, and what they showed.
fn play_all<Shown: Send>(
    one_of: u64,
    known: &[(u64, &str)],
    play: impl Fn(u64) -> Result<Shown, String> + Sync,
) -> (u64, Vec<Shown>) {
    let first = number("GITFLEET_SEED_FIRST").unwrap_or(0);
    let count = seeds_count() / one_of;
    let next = AtomicU64::new(first);
    let (failures, shown) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            match play(seed) {
                Ok(_) if known.iter().any(|(of, _)| *of == seed) => {
                    let why = "it is known to fail, and passes: take it out of the list";
                    failures.lock().unwrap().push((seed, why.to_owned()));
                }
                Ok(of_seed) => shown.lock().unwrap().push(of_seed),
                Err(why) if known.contains(&(seed, why.lines().next().unwrap_or_default())) => {}
                Err(why) => failures.lock().unwrap().push((seed, why)),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().unwrap();
    if pairs::are_written() && !digests::are_written() {
        // Who counts pairs learns what the other seeds hit, too; without that the same run fails.
        for (seed, why) in &failures {
            println!("seed {seed} fails: {why}");
        }
        return (count, shown.into_inner().unwrap());
    }
    assert!(failures.is_empty(), "{} of {count} seeds fail: {:?}", failures.len(), &failures[..failures.len().min(5)]);
    (count, shown.into_inner().unwrap())
}

/// A missing guard: what is wrong then, the guards without it, what a failure says, and the first seed that is tried, since those before
/// it pass.
type MissingGuard<Guards> = (&'static str, Guards, &'static str, u64);

/// What each guard prevents is noticed where it is missing: one of so many seeds fails, and says so.
fn is_each_missed<Guards: Copy>(
    promise: &str,
    seeds: u64,
    rows: &[MissingGuard<Guards>],
    play: impl Fn(u64, Guards) -> Verdict,
) {
    for (name, guards, wanted, first) in rows {
        let caught = (*first..first + seeds).find_map(|seed| {
            let why = play(seed, *guards).err()?;
            why.contains(wanted).then_some((seed, why))
        });
        let (seed, why) = caught.unwrap_or_else(|| panic!("{name}: no seed of {seeds} from {first} on fails"));
        println!("{name}: seed {seed} fails: {why}");
        assert!(why.starts_with(promise), "{name}: {why}");
    }
}

/// The promises hold in every seed, and every seed is the same twice, and as the kept digests say.
#[test]
fn seeds() {
    let first = number("GITFLEET_SEED_FIRST").unwrap_or(0);
    let count = seeds_count();
    let left_out = left_out();
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let shown: Mutex<BTreeMap<&str, u64>> = Mutex::default();
    let (found, hits) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            if left_out.as_ref().is_some_and(|left_out| left_out.contains(&seed)) {
                continue;
            }
            let failure = match run(seed) {
                Err((why, trace)) => Some((why.clone(), report(seed, &why, &trace))),
                Ok((trace, digest, _))
                    if seed.is_multiple_of(TWICE_EVERY)
                        && run(seed).ok().map(|(_, again, _)| again) != Some(digest.clone()) =>
                {
                    let why = "8: it is not the same twice";
                    Some((why.to_owned(), report(seed, why, &trace)))
                }
                Ok((trace, digest, met)) => {
                    found.lock().unwrap().push((seed, digest));
                    hits.lock().unwrap().push(met);
                    let mut shown = shown.lock().unwrap();
                    for what in twists::shown(&trace) {
                        *shown.entry(what).or_insert(0) += 1;
                    }
                    None
                }
            };
            if failure.is_some() && left_out.is_some() {
                next.store(first + count, Ordering::Relaxed);
            }
            failures.lock().unwrap().extend(failure.map(|(why, text)| (seed, why, text)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    pairs::write(digests::Fleet::OneDaemon, hits.into_inner().unwrap());
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    let first: Vec<&str> = failures.iter().take(REPORTS_MAX).map(|(_, _, text)| text.as_str()).collect();
    let all: Vec<String> = failures.iter().map(|(seed, why, _)| format!("{seed}: {why:.200}")).collect();
    assert!(failures.is_empty(), "{}\n{} of {count} seeds fail:\n{}", first.join("\n"), all.len(), all.join("\n"));
    let shown = shown.into_inner().unwrap();
    println!("of {count} seeds so many show that: {shown:#?}");
    assert!(shown.len() == twists::SHOWN || count < SHOWN_BY, "the seeds show little: {shown:?}");
    digests::compare(digests::Fleet::OneDaemon, found.into_inner().unwrap());
}

/// One seed, with its whole trace where `--nocapture` shows it.
#[test]
fn one_seed() {
    let seed = number("GITFLEET_SEED").unwrap_or(1);
    let mut run = Run::begin(seed);
    let verdict = run.finish();
    println!("{}", digests::text_of(&run));
    assert!(run.trace.lines().iter().any(|line| line.contains("APPLIED")), "nothing happened in seed {seed}");
    assert_eq!(verdict, Ok(()), "seed {seed}");
}
