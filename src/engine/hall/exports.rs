//! What the hall exports: records of decisions for other tools, and the hub that holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::clock;
use super::super::decide::Decision;
use super::super::hub::{HubReport, HubSettings, HubTask};
use super::super::ocm::Ocm;
use super::Hall;
use crate::config::Configuration;
use crate::model::decisions::{DecisionsKey, DecisionsRecord, HubRecord};
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::ocm::OcmPlacementRecord;
use crate::report::converge::Converged;
use crate::report::decisions::{Decided as ExportedBy, Exports, Pick, assign_labels, decided, record, removed};
use crate::schedule::ocm::Key;
use crate::store::records::{self, DECISIONS_PREFIX};
use crate::store::{Expected, Op, Result, Store};

/// The kind of an OCM Placement.
const OCM_KIND: &str = "Placement";

/// What is exported, and who is told.
pub(super) struct Desk {
    /// As the store has it.
    pub(super) exports: Arc<Exports>,
    hub: Option<HubTask>,
    /// How the hub stands; `None` where there is none, or it has not answered yet.
    standing: Option<HubReport>,
}

impl Desk {
    /// Reads what was exported last. The hub is told at once: it may have been changed meanwhile.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(super) fn open(store: &dyn Store, hub: Option<HubTask>) -> Result<Self> {
        let exports = records::load_all::<DecisionsRecord>(store, DECISIONS_PREFIX)?;
        let exports = exports.into_iter().map(|record| (record.value.key.clone(), Arc::new(record.value)));
        let desk = Self { exports: Arc::new(exports.collect()), hub, standing: None };
        if !desk.exports.is_empty() {
            desk.tell();
        }
        Ok(desk)
    }

    fn tell(&self) {
        if let Some(hub) = &self.hub {
            hub.tell(Arc::clone(&self.exports));
        }
    }

    /// Takes in what is written down now; the hub is told where it is new.
    pub(super) fn publish(&mut self, exports: Arc<Exports>) {
        if !Arc::ptr_eq(&self.exports, &exports) {
            self.exports = exports;
            self.tell();
        }
    }

    /// Returns how the hub stands, for a single pass: a hub that is being written to is waited for, one that does not
    /// answer is not.
    pub(super) fn standing(&self) -> Converged {
        match &self.standing {
            _ if self.hub.is_none() || self.exports.is_empty() => Converged::AllAtTarget,
            Some(HubReport { failure: Some(failure), .. }) => {
                Converged::Unreachable(format!("the hub of `decisions:`: {failure}"))
            }
            Some(HubReport { done: Some(done), .. }) if Arc::ptr_eq(done, &self.exports) => Converged::AllAtTarget,
            None | Some(_) => Converged::Progressing,
        }
    }
}

/// Returns where the hub is, where the configuration names one.
pub(super) fn hub_settings(configuration: &Configuration, source: &str) -> Option<HubSettings> {
    let decisions = configuration.decisions.as_ref()?;
    let kubeconfig = decisions.kubeconfig.as_ref()?;
    Some(HubSettings {
        kubeconfig: kubeconfig.path.clone(),
        context: kubeconfig.context.clone(),
        namespace: decisions.namespace.clone(),
        config_map: decisions.config_map.clone(),
        source: source.to_owned(),
    })
}

impl Hall {
    /// Returns what is exported once these decisions hold, and what to write for it. Unchanged exports are the same `Arc`.
    ///
    /// # Errors
    /// A record cannot be written as JSON, or is too large.
    pub(super) fn exports_after(
        &self,
        decisions: &[(PlacementKey, Decision)],
        picked: &BTreeSet<Key>,
    ) -> Result<(Arc<Exports>, Vec<Op>)> {
        let before = &self.desk.exports;
        let mut after = Exports::clone(before);
        for (placement, decision) in decisions {
            let key = DecisionsKey::from(placement);
            if decision.finished {
                if let Some(known) = after.get_mut(&key).filter(|known| !known.removed) {
                    *known = Arc::new(removed(key));
                }
                continue;
            }
            let state = &decision.state;
            let bindings: Vec<_> = state.bindings.values().cloned().collect();
            let decided = decided(&state.view(&bindings, &self.world, clock::now()));
            if let Some(decided) = decided {
                let known = before.get(&key).map(AsRef::as_ref);
                after.insert(key.clone(), Arc::new(record(key, &decided, known)));
            }
        }
        export_ocm(&mut after, &self.world.ocm, picked);
        assign_labels(&mut after);
        let ops = changes(before, &after)?;
        Ok(if ops.is_empty() { (Arc::clone(before), ops) } else { (Arc::new(after), ops) })
    }

    /// Takes in what the hub's task says.
    pub(super) fn hear_hub(&mut self, report: HubReport) {
        let namespace = self.configuration.decisions.as_ref().map(|d| d.namespace.clone()).unwrap_or_default();
        let online = report.failure.is_none();
        let key = records::hub_key(&namespace);
        let known = records::load::<HubRecord>(self.store.as_ref(), &key).ok().flatten().map(|record| record.value);
        let since = known.as_ref().filter(|known| known.online == online).map_or_else(clock::now, |known| known.since);
        let problems = if online { report.problems.clone() } else { Vec::new() };
        let record = HubRecord { namespace, online, message: report.failure.clone(), problems, since };
        self.desk.standing = Some(report);
        if known.as_ref() == Some(&record) {
            return;
        }
        match records::put(key, &record, Expected::Any).and_then(|op| self.store.batch(vec![op])) {
            Ok(_) => self.changes.send_modify(|version| *version += 1),
            Err(error) => tracing::error!(%error, "the hub's record cannot be written"),
        }
    }
}

/// Brings to what OCM Placements decided those that were decided now, and those that are gone: a life that ended between
/// forgetting one and exporting that leaves the export behind.
fn export_ocm(exports: &mut Exports, ocm: &Ocm, decided: &BTreeSet<Key>) {
    for placement in decided {
        let Some(found) = ocm.record(placement).filter(|found| !found.groups.is_empty()) else { continue };
        let key = DecisionsKey {
            kind: OCM_KIND.to_owned(),
            namespace: Some(placement.namespace.clone()),
            name: placement.name.clone(),
        };
        let known = exports.get(&key).map(AsRef::as_ref);
        let exported = record(key.clone(), &decided_by_ocm(found), known);
        exports.insert(key, Arc::new(exported));
    }
    let of_ocm = exports.iter_mut().filter(|(key, export)| key.kind == OCM_KIND && !export.removed);
    for (key, export) in of_ocm {
        if ocm.record(&Key::new(key.namespace.as_deref().unwrap_or_default(), &key.name)).is_none() {
            *export = Arc::new(removed(key.clone()));
        }
    }
}

/// Returns what an OCM Placement decided. It delivers nothing, so every cluster is reached as soon as it is picked.
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
mod tests {
    use jiff::Timestamp;

    use super::super::super::fixtures::{BOUND, managed, ocm_placement, tree};
    use super::*;

    #[test]
    fn what_ocm_placements_decided_is_exported_and_withdrawn() {
        let fleet = [BOUND, &managed("a", "{}", "[]")].concat();
        let mut ocm = Ocm::default();
        let mut exports = Exports::default();
        let listed = |exports: &Exports| {
            let names = |record: &DecisionsRecord| {
                record.groups.iter().flat_map(|g| &g.clusters).map(|c| c.cluster_name.to_string()).collect::<Vec<_>>()
            };
            exports.iter().map(|(key, r)| (key.name.clone(), names(r), r.removed)).collect::<Vec<_>>()
        };
        let both = [ocm_placement("p", "{}"), ocm_placement("q", "{}")].concat();
        let due = ocm.follow(&tree(&[("f.yaml", &fleet), ("p.yaml", &both)]));
        ocm.decide_each(due.clone(), Timestamp::UNIX_EPOCH);
        export_ocm(&mut exports, &ocm, &due);
        let on_a = || vec!["a".to_owned()];
        assert_eq!(listed(&exports), [("p".to_owned(), on_a(), false), ("q".to_owned(), on_a(), false)]);
        // Forgotten in a life that exported nothing any more.
        let due = ocm.follow(&tree(&[("f.yaml", &fleet), ("p.yaml", &ocm_placement("p", "{}"))]));
        ocm.decide_each(due, Timestamp::UNIX_EPOCH);
        export_ocm(&mut exports, &ocm, &BTreeSet::new());
        assert_eq!(listed(&exports), [("p".to_owned(), on_a(), false), ("q".to_owned(), Vec::new(), true)]);
    }
}
