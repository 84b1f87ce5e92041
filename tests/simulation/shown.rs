//! What people see: the fleet that is kept as it changes is the one that all records make.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex};

use daemon::published::changes;
use decide::decide;
use decide::rollout::staged::waits_for_person;
use decide::state::PlacementState;
use engine::execute::{execute, resolve};
use engine::{Changed, Core};
use jiff::Timestamp;
use model::commands::{Command, Person, RefusalReason, Verb};
use model::id::PlacementKey;
use model::runs::{Channel, DELETION_GATE};
use regex::Regex;
use simulated::{Fact, SimulatedFleet};
use views::fleet::{FleetView, Shown};
use views::summary::Summary;

use super::check::Verdict;

/// Steps between two comparisons with everything: comparing costs as much as deciding.
const COMPARE_EVERY: u64 = 17;

/// The fleet that is kept as it changes.
#[derive(Default)]
pub struct Published {
    fleet: FleetView,
    steps: u64,
    /// What was shown of each placement when it was compared, as far as it was new then.
    said: String,
    last_said: BTreeMap<PlacementKey, String>,
}

impl Published {
    /// A step was taken: takes in what changed, and now and then compares with what the core has.
    pub fn follow(&mut self, simulation: &mut SimulatedFleet, facts: &[Fact]) -> Verdict {
        if facts.iter().any(|fact| matches!(fact, Fact::Began)) {
            self.fleet = FleetView::default();
        }
        let Some(changed) = simulation.take_changed() else { return Ok(()) };
        let Some(core) = simulation.core() else { return Ok(()) };
        let new = changes(core, changed);
        // Heartbeats of agents are most steps of a seed with agents, and change nothing.
        if facts.is_empty() && new.is_empty() {
            return Ok(());
        }
        if !new.is_empty() {
            self.fleet = self.fleet.with(new);
        }
        self.steps += 1;
        if !self.steps.is_multiple_of(COMPARE_EVERY) {
            return Ok(());
        }
        let now = simulation.clock();
        self.note_said(now);
        for (key, placed) in &self.fleet.placements {
            let stored = core.placements().get(key).map(PlacementState::records);
            if stored.as_ref() != Some(&*placed.records) {
                return Err(format!("what is shown of {key} is not what is stored"));
            }
            let shown = placed.shown(&self.fleet, now);
            self.is_said(key, &shown, &Shown::of(&placed.records, &self.fleet, now))?;
            lines_work(core, key, &shown, now)?;
        }
        if *self.fleet.clusters != *core.stored_clusters() {
            return Err("the clusters that are shown are not those that are stored".to_owned());
        }
        if *self.fleet.source != *core.stored_source() {
            return Err("the source that is shown is not the one that is stored".to_owned());
        }
        Ok(())
    }

    fn note_said(&mut self, now: Timestamp) {
        for (key, placed) in &self.fleet.placements {
            let shown = placed.shown(&self.fleet, now);
            let row = serde_json::to_string(&shown.row).expect("a row can be written");
            let said = format!("{row} {} {}", shown.waiting.len(), shown.line);
            if self.last_said.get(key) != Some(&said) {
                writeln!(self.said, "shown {now} {key} {said}").expect("a text can be written to");
                self.last_said.insert(key.clone(), said);
            }
        }
    }

    /// Returns what was shown of placements, and what is shown of the fleet now.
    pub fn said(&self, simulation: &SimulatedFleet) -> String {
        let summary = Summary::of(&self.fleet, simulation.clock());
        let summary = serde_json::to_string(&summary).expect("a summary can be written");
        format!("{}shown at the end {summary}", self.said)
    }

    fn is_said(&self, key: &impl std::fmt::Display, kept: &Shown, new: &Shown) -> Verdict {
        if kept.row == new.row && kept.line == new.line {
            return Ok(());
        }
        Err(format!("version {}: of {key} is said {:?} and would be {:?}", self.fleet.version, kept.row, new.row))
    }

    /// Nothing happens any more: what is shown is what all records make. They are the core's: a store that gave no answer may hold a
    /// batch that counts as refused.
    pub fn is_whole(&self, simulation: &SimulatedFleet) -> Verdict {
        let Some(core) = simulation.core() else { return Ok(()) };
        let everything = Changed {
            placements: core.placements().keys().map(|key| (key.clone(), true)).collect(),
            clusters: core.stored_clusters().keys().cloned().collect(),
            source: true,
            store: true,
            ocm: true,
        };
        let now = simulation.clock();
        let whole = Summary::of(&FleetView::whole(changes(core, everything)), now);
        let shown = Summary::of(&self.fleet, now);
        if shown == whole { Ok(()) } else { Err(format!("what is shown is {shown:?}, and should be {whole:?}")) }
    }
}

/// Invariant 18: each line that is shown of a placement is one of the command line's own, is accepted, means this placement, and what it
/// says happens.
fn lines_work(core: &Core, key: &PlacementKey, shown: &Shown, now: Timestamp) -> Verdict {
    static LINES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"gitfleet (?:approve|reject|pause|resume|retry|rollback)[^;"`(]*"#).unwrap());
    let row = serde_json::to_string(&shown.row).expect("a row can be written");
    let texts = shown.waiting.iter().flat_map(|waiting| &waiting.commands).map(String::as_str).chain([row.as_str()]);
    let lines: BTreeSet<&str> =
        texts.flat_map(|text| LINES.find_iter(text)).map(|found| found.as_str().trim()).collect();
    for line in lines {
        // The rewritten history of the source is resumed without a name.
        if line != "gitfleet resume" {
            works(core, key, line, now).map_err(|why| format!("18: {key} shows `{line}`: {why}"))?;
        }
    }
    Ok(())
}

/// The command that a line is, if it is one, or why the command line refuses it.
type Parsed = Result<Option<Command>, String>;

/// Returns what the command line makes of a line. Kept: lines repeat, and its parser is built each time.
fn parsed(line: &str) -> Parsed {
    static PARSED: LazyLock<Mutex<BTreeMap<String, Parsed>>> = LazyLock::new(Mutex::default);
    let mut parsed = PARSED.lock().expect("nobody panics with it");
    if let Some(known) = parsed.get(line) {
        return known.clone();
    }
    let new = gitfleet::told(line).map_err(|error| error.to_string());
    parsed.insert(line.to_owned(), new.clone());
    new
}

fn works(core: &Core, key: &PlacementKey, line: &str, now: Timestamp) -> Verdict {
    let Some(command) = parsed(line)? else { return Ok(()) };
    let target = resolve(core.placements(), &command).map_err(|refusal| refusal.message)?;
    if target.placement != *key {
        return Err(format!("it means {}", target.placement));
    }
    let (state, person) = (&core.placements()[key], Person::of("copier", Channel::CommandLine));
    let executed = match execute(state, core.fleet(), &target, &command, &person, now) {
        Ok(executed) => executed,
        // The line is for somebody else.
        Err(refusal) if refusal.reason == RefusalReason::NotAllowed => return Ok(()),
        // It expires at this very instant, and the refusal says what asks again.
        Err(refusal) if refusal.reason == RefusalReason::Expired => return Ok(()),
        Err(refusal) => return Err(refusal.message),
    };
    let said = executed.done.message;
    // More people are to approve.
    if command.verb == Verb::Approve && (said.contains(" approvals of stage ") || said.starts_with("approved; ")) {
        return Ok(());
    }
    let after = decide(executed.state, core.fleet(), now).state;
    let gate = |of: &PlacementState, name: &str| {
        let run = target.run.as_ref().and_then(|run| of.runs.get(run));
        let named = run.and_then(|run| run.stages.iter().find(|stage| stage.name == name));
        named.filter(|stage| waits_for_person(stage)).map(|stage| stage.phase)
    };
    // A commit was accepted and is to be decided: this instant, or once the payloads are read after a restart. What it deletes, and what it
    // pauses for, nobody was told yet.
    let decided = || decide(state.clone(), core.fleet(), now).state;
    let gated = |of: &PlacementState| of.record.closed_gate().map(|gate| gate.digest.clone());
    let is_outdated = || gated(&decided()) != gated(state);
    // The commit that is to be decided may pause it, or pause again what is paused.
    let is_paused_again = || {
        let is_new = after.record.paused.as_ref().is_some_and(|paused| paused.at == now);
        let decided = decided().record;
        decided.paused != state.record.paused || is_new && decided != state.record
    };
    let leave = || state.record.closed_gate().is_some_and(|gate| !gate.leaving.is_empty());
    let happens = match (command.verb, target.stage.as_deref()) {
        // Where clusters leave, what is deleted on the others is asked next.
        (Verb::Approve, Some(DELETION_GATE)) => {
            gated(&after).is_none() || leave() && gated(&after) != gated(state) || is_outdated()
        }
        // The gate at the other side of the stage may be the next.
        (Verb::Approve, Some(name)) => gate(&after, name).is_none_or(|phase| Some(phase) != gate(state, name)),
        (Verb::Resume, _) => after.record.paused.is_none() || is_paused_again(),
        // It may fail again at once, and be rolled back again.
        (Verb::Retry, _) if said.contains("is rolled out again") => {
            after.record.held.as_ref().is_none_or(|held| held.since == now)
        }
        _ => true,
    };
    if happens { Ok(()) } else { Err(format!("it answers {said:?}, and that does not happen")) }
}
