//! What people see: the fleet that is kept as it changes is the one that all records make.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use daemon::published::changes;
use decide::state::PlacementState;
use engine::Changed;
use jiff::Timestamp;
use model::id::PlacementKey;
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
            self.is_said(key, &placed.shown(&self.fleet, now), &Shown::of(&placed.records, &self.fleet, now))?;
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
