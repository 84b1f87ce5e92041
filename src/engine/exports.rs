//! Exports: decision records for other tools, and the state of the hub that holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::batch::{Batch, BatchChange, DecidedPlacement};
use crate::event::HubReport;
use crate::store::{Expected, Op, Result, records};
use config::Configuration;
use decide::ocm::Ocm;
use decide::state::FleetState;
use decide::status::decisions::{self, Decided as ExportedBy, Exports, Pick, assign_labels, record, removed};
use decide::status::rollout::RolloutState;
use model::decisions::{DecisionsKey, DecisionsRecord, HubRecord};
use model::id::ClusterName;
use model::ocm::OcmPlacementRecord;
use schedule::ocm::Key;

/// The kind of an OCM Placement.
const OCM_KIND: &str = "Placement";

/// What is exported, and the state of the hub that it is written to.
#[derive(Debug)]
pub(super) struct HubExports {
    /// The hub's namespace, if decisions are written to one.
    namespace: Option<String>,
    /// The exported decisions, as stored.
    pub decisions: Arc<Exports>,
    hub: Option<HubRecord>,
    /// As stored.
    stored_hub: Option<HubRecord>,
    /// What the hub's task said last; `None` before its first answer.
    report: Option<HubReport>,
}

impl HubExports {
    /// Begins with what an earlier process exported, and with what it knew of the hub.
    pub(super) fn begin(configuration: &Configuration, decisions: Exports, hubs: &BTreeMap<String, HubRecord>) -> Self {
        let configured = configuration.decisions.as_ref().filter(|decisions| decisions.kubeconfig.is_some());
        let namespace = configured.map(|decisions| decisions.namespace.clone());
        let hub = namespace.as_ref().and_then(|namespace| hubs.get(namespace).cloned());
        Self { namespace, decisions: Arc::new(decisions), stored_hub: hub.clone(), hub, report: None }
    }

    /// Returns the exports after decisions about placements and OCM Placements, and the writes for them. Unchanged exports stay the same
    /// `Arc`.
    ///
    /// # Errors
    /// A record cannot be written as JSON, or is too large.
    pub(super) fn after(
        &self,
        decided: &[DecidedPlacement],
        picked: &BTreeSet<Key>,
        fleet: &FleetState,
        now: Timestamp,
    ) -> Result<(Arc<Exports>, Vec<Op>)> {
        let before = &self.decisions;
        let mut changed = Exports::new();
        for DecidedPlacement { key, decision, .. } in decided {
            let key = DecisionsKey::from(key);
            let known = before.get(&key);
            if decision.finished {
                // An empty page stays: without any page Argo CD would keep the Applications forever.
                if known.is_some_and(|known| !known.removed) {
                    changed.insert(key.clone(), Arc::new(removed(key)));
                }
                continue;
            }
            let state = &decision.state;
            let bindings = state.shared_bindings();
            if let Some(decided) = decisions::decided(&state.view(&bindings, fleet, now)) {
                take_new(&mut changed, known, record(key, &decided, known.map(AsRef::as_ref)));
            }
        }
        changed.extend(changed_by_ocm(before, &fleet.ocm, picked));
        if changed.is_empty() {
            return Ok((Arc::clone(before), Vec::new()));
        }
        let mut after = Exports::clone(before);
        after.extend(changed);
        assign_labels(&mut after);
        let ops = changes(before, &after)?;
        Ok((Arc::new(after), ops))
    }

    /// Handles a report of the hub's task.
    pub(super) fn handle(&mut self, report: HubReport, now: Timestamp) {
        let Some(namespace) = self.namespace.clone() else { return };
        let online = report.failure.is_none();
        let since = self.hub.as_ref().filter(|known| known.online == online).map_or(now, |known| known.since);
        let problems = if online { report.problems.clone() } else { Vec::new() };
        let message = report.failure.clone();
        self.hub = Some(HubRecord { namespace, online, message, problems, since });
        self.report = Some(report);
    }

    /// Records the state of the hub if it changed.
    pub(super) fn write_hub(&self, batch: &mut Batch) {
        if self.hub == self.stored_hub {
            return;
        }
        if let Some(hub) = &self.hub
            && batch.write(records::hub_key(&hub.namespace), hub)
        {
            batch.changes.push(BatchChange::Hub(hub.clone()));
        }
    }

    /// Notes that the store has a record of the hub.
    pub(super) fn keep_hub(&mut self, hub: HubRecord) {
        self.stored_hub = Some(hub);
    }

    /// Tells whether decisions are written to a hub.
    fn is_wanted(&self) -> bool {
        self.namespace.is_some() && !self.decisions.is_empty()
    }

    /// Tells whether the hub failed and will be retried automatically; a single pass waits for that until its timeout.
    pub(super) fn is_tried_again(&self) -> bool {
        self.is_wanted() && self.report.as_ref().is_some_and(|report| report.failure.is_some() && report.is_passing)
    }

    /// Returns the state of the hub for a single pass, which waits while the hub is being written to.
    pub(super) fn standing(&self) -> RolloutState {
        match &self.report {
            _ if !self.is_wanted() => RolloutState::AllAtTarget,
            Some(HubReport { failure: Some(failure), .. }) => {
                RolloutState::Unreachable(format!("the hub of `decisions:`: {failure}"))
            }
            // Unchanged exports are the same `Arc`, so identity tells whether the hub has the newest exports.
            Some(HubReport { done: Some(done), .. }) if Arc::ptr_eq(done, &self.decisions) => RolloutState::AllAtTarget,
            None | Some(_) => RolloutState::Progressing,
        }
    }
}

/// Updates the export of a placement if it changed. Labels depend on the set of placements only, so they change only when one
/// is added or removed.
fn take_new(changed: &mut Exports, known: Option<&Arc<DecisionsRecord>>, mut record: DecisionsRecord) {
    if let Some(known) = known {
        (record.label, record.problem) = (known.label.clone(), known.problem.clone());
    }
    if known.is_none_or(|known| **known != record) {
        changed.insert(record.key.clone(), Arc::new(record));
    }
}

/// Returns the exports that decisions of OCM Placements change: those decided now and those that are gone. A process that ended
/// between the removal of a Placement and its export leaves such an export behind.
fn changed_by_ocm(before: &Exports, ocm: &Ocm, decided: &BTreeSet<Key>) -> Exports {
    let mut changed = Exports::new();
    for placement in decided {
        // A Placement that was never decided has no page: an empty page would delete Applications.
        let Some(found) = ocm.record(placement).filter(|found| !found.groups.is_empty()) else { continue };
        let key = DecisionsKey {
            kind: OCM_KIND.to_owned(),
            namespace: Some(placement.namespace.clone()),
            name: placement.name.clone(),
        };
        let known = before.get(&key);
        take_new(&mut changed, known, record(key, &decided_by_ocm(found), known.map(AsRef::as_ref)));
    }
    for (key, _) in before.iter().filter(|(key, export)| key.kind == OCM_KIND && !export.removed) {
        if ocm.record(&Key::new(key.namespace.as_deref().unwrap_or_default(), &key.name)).is_none() {
            changed.insert(key.clone(), Arc::new(removed(key.clone())));
        }
    }
    changed
}

/// Returns the decision of an OCM Placement. It delivers nothing, so every picked cluster counts as reached.
fn decided_by_ocm(record: &OcmPlacementRecord) -> ExportedBy {
    let pick = |cluster: &ClusterName| Pick { cluster: cluster.clone(), reason: String::new(), reached: true };
    let groups = record.groups.iter().map(|group| (group.name.clone(), group.clusters.iter().map(pick).collect()));
    ExportedBy { annotations: record.annotations.clone(), groups: groups.collect(), held: BTreeSet::new() }
}

fn changes(before: &Exports, after: &Exports) -> Result<Vec<Op>> {
    let is_same = |key: &DecisionsKey, record: &Arc<DecisionsRecord>| {
        before.get(key).is_some_and(|known| Arc::ptr_eq(known, record) || known == record)
    };
    let changed: BTreeMap<_, _> = after.iter().filter(|(key, record)| !is_same(key, record)).collect();
    changed.into_iter().map(|(key, record)| records::put(records::decisions_key(key), record, Expected::Any)).collect()
}

#[cfg(test)]
mod tests;
