//! 4: what changes hands between placements is not deleted, and nobody is asked about it: docs/design/024.

use std::collections::{BTreeMap, BTreeSet};

use engine::store::records::snapshot_key;
use jiff::{SignedDuration, Timestamp};
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::records::{BindingState, ClusterRecord, HeldSnapshot, Pause, ResourceSnapshot};
use model::work::WorkOrder;
use serde_json::Value;
use simulated::Fact;

use super::Run;
use super::check::{Checker, Spot, Verdict, Who};
use super::records::{Binding, PlacementRecord};
use super::timeline::PLACEMENTS_MAX;

/// What was sent before a commit was accepted may land for so long.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(30);

/// Since when the accepted commits have wanted a placement on a cluster, without a break.
pub type WantedSince = BTreeMap<Spot, Timestamp>;

/// What people said of placements: pauses and holds.
pub type SaidOfGone = BTreeMap<PlacementKey, (Option<Pause>, Option<HeldSnapshot>)>;

/// The snapshots of overrides, by override and index: what each does whatever placement it names, and the first of those in a row that do the
/// same.
pub type Overrides = BTreeMap<(String, u64), (Value, u64)>;

fn name_of(id: &Value) -> String {
    format!("{} {}", id["namespace"], id["name"])
}

/// Tells whether two names are of one placement, as the timeline gives names: `p1`, `p1r1`, `p1r2`.
pub fn is_same_thing(one: &PlacementKey, other: &PlacementKey) -> bool {
    one.namespace == other.namespace && one.name.chars().take(2).eq(other.name.chars().take(2))
}

impl Checker {
    /// Tells whether a cluster has what a snapshot holds from a placement that has another name now.
    pub(super) fn had_under_another_name(&self, cluster: &ClusterName, snapshot: &ResourceSnapshot) -> bool {
        let is_other = |of: &PlacementKey| *of != snapshot.placement && is_same_thing(of, &snapshot.placement);
        let has_it = |binding: &Binding| {
            let assigned = binding.snapshot.map(|index| snapshot_key(&binding.placement, index));
            assigned.and_then(|key| self.snapshots.get(&key)).is_some_and(|other| other.hash == snapshot.hash)
        };
        self.bindings.values().any(|b| b.cluster == *cluster && is_other(&b.placement) && has_it(b))
    }

    /// Notes what a snapshot of an override does.
    pub(super) fn note_override(&mut self, snapshot: &Value) {
        let Some(index) = snapshot["index"].as_u64() else { return };
        let (name, mut spec) = (name_of(snapshot), snapshot["spec"].clone());
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("placement");
        }
        let before = index.checked_sub(1).and_then(|before| self.overrides.get(&(name.clone(), before)));
        let first = before.filter(|(does, _)| *does == spec).map_or(index, |(_, first)| *first);
        self.overrides.insert((name, index), (spec, first));
    }

    /// Returns overrides by what they do: one that names a placement has another snapshot when the placement gets another name.
    pub(super) fn by_effect(&self, overrides: &Value) -> Value {
        let mut overrides = overrides.clone();
        for of in ["cluster", "namespaced"] {
            for id in overrides.get_mut(of).and_then(Value::as_array_mut).into_iter().flatten() {
                let index = id["index"].as_u64().unwrap_or_default();
                if let Some((_, first)) = self.overrides.get(&(name_of(id), index)) {
                    id["index"] = (*first).into();
                }
            }
        }
        overrides
    }

    /// Returns where a cluster has the same under another name of its placement: content, overrides and apply strategy.
    pub(super) fn same_under_other_names(&self, binding: &Binding) -> Vec<Spot> {
        let hash = |b: &Binding| {
            let assigned = b.snapshot.map(|index| snapshot_key(&b.placement, index));
            assigned.and_then(|key| self.snapshots.get(&key)).map(|snapshot| snapshot.hash.clone())
        };
        let wanted = hash(binding);
        let is_former = |b: &&Binding| {
            b.cluster == binding.cluster
                && b.placement != binding.placement
                && is_same_thing(&b.placement, &binding.placement)
                && wanted.is_some()
                && hash(b) == wanted
                && self.by_effect(&b.overrides) == self.by_effect(&binding.overrides)
                && b.apply_strategy == binding.apply_strategy
        };
        self.bindings.values().filter(is_former).map(|b| (b.placement.clone(), b.cluster.clone())).collect()
    }

    /// Notes when a cluster was given what it has. Under another name of its placement it had that before.
    pub(super) fn note_given(&mut self, spot: &Spot) {
        let Some(binding) = self.binding(spot) else { return };
        let former = self.same_under_other_names(binding);
        let at = if former.is_empty() {
            binding.started_at
        } else {
            former.iter().filter_map(|spot| self.given.get(spot)).min().copied()
        };
        self.given.remove(spot);
        self.given.extend(at.map(|at| (spot.clone(), at)));
    }

    /// 7: what people said of a placement stands under its new name. Asked when a whole batch is kept.
    pub(super) fn words_stand(&mut self) -> Verdict {
        for (gone, (paused, held)) in std::mem::take(&mut self.said_of_gone) {
            let stays = |record: &PlacementRecord| record.paused == paused && record.held.is_some() == held.is_some();
            if self.placements.get(&gone).is_some_and(stays) {
                continue;
            }
            let is_there = |(key, record): &(&PlacementKey, &PlacementRecord)| {
                **key != gone && is_same_thing(key, &gone) && !record.removed
            };
            let Some((heir, record)) = self.placements.iter().find(is_there) else {
                return Err(format!("7: what was said of {gone} is lost, and nothing took its place"));
            };
            if record.paused.is_none() && paused.is_some() {
                return Err(format!("7: {gone} was paused, and {heir} is not"));
            }
            let hash = held.as_ref().map(|held| &held.hash);
            let newest = self.newest_snapshot(heir).and_then(|index| self.snapshots.get(&snapshot_key(heir, index)));
            let newest = newest.map(|snapshot| &snapshot.hash);
            if record.held.is_none()
                && hash.is_some()
                && hash == newest
                && held.is_some_and(|held| held.inputs.is_none())
            {
                return Err(format!("7: the newest snapshot of {gone} was held, and that of {heir} is not"));
            }
        }
        Ok(())
    }

    /// 7: a placement that comes back to git has its runs, unless another one takes its name and brings its own. Asked when a whole batch
    /// is kept.
    pub(super) fn returns_with_runs(&mut self) -> Verdict {
        for (placement, forgotten) in std::mem::take(&mut self.returned) {
            let is_renamed = self
                .placements
                .iter()
                .any(|(key, record)| *key != placement && is_same_thing(key, &placement) && record.removed);
            if let Some(why) = forgotten.into_iter().next().filter(|_| !is_renamed) {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Returns the other placement that is to hold an object on a cluster, as far as is stored.
    fn claims(&self, placement: &PlacementKey, cluster: &ClusterName, key: &ObjectKey) -> Option<&PlacementKey> {
        let is_other = |of: &&PlacementKey| *of != placement;
        self.placements.iter().filter(|(_, record)| record.takes_over()).map(|(of, _)| of).filter(is_other).find(|of| {
            let newest = self.newest_snapshot(of);
            self.spots(of, cluster).any(|(state, snapshot)| {
                let mut indexes = newest.into_iter().chain(snapshot);
                state != BindingState::Unscheduled && indexes.any(|index| self.snapshot_has(of, index, key))
            })
        })
    }

    /// Tells whether an object that a snapshot of a placement has is another one's now: the newest snapshot has it no more, and the other one
    /// is bound to it. A rollback, or a run that was queued before, does not take it back.
    pub(super) fn has_changed_hands(&self, placement: &PlacementKey, cluster: &ClusterName, key: &ObjectKey) -> bool {
        let newest = self.newest_snapshot(placement);
        let has_it = |b: &Binding| {
            let record = self.placements.get(&b.placement);
            record.is_some_and(PlacementRecord::takes_over)
                && b.snapshot.is_some_and(|index| self.snapshot_has(&b.placement, index, key))
        };
        let is_other = |b: &&Binding| {
            b.placement != *placement && b.cluster == *cluster && b.state == BindingState::Bound && !b.deleting
        };
        !newest.is_some_and(|newest| self.snapshot_has(placement, newest, key))
            && self.bindings.values().filter(is_other).any(has_it)
    }

    /// 4: no member has the order to delete what another placement is to hold there.
    fn prunes_nothing_claimed(&self, order: &WorkOrder) -> Verdict {
        let claimed = |key: &&ObjectKey| self.claims(&order.placement, &order.cluster, key).is_some();
        match order.prune.iter().find(claimed) {
            Some(key) if !order.abandon => Err(format!(
                "4: {} has the order to delete {key} of {}, and another placement is to hold it there",
                order.cluster, order.placement
            )),
            _ => Ok(()),
        }
    }

    /// 3: a gate asks nobody about what another placement is to hold. Asked when a whole batch is kept.
    pub(super) fn asks_about_no_hand_over(&self) -> Verdict {
        for (placement, record) in &self.placements {
            let gate = record.deletion_gate.as_ref().filter(|gate| gate.opened_at.is_none());
            let asked = gate.into_iter().flat_map(|gate| &gate.deletions);
            for (cluster, key) in asked.flat_map(|(cluster, keys)| keys.iter().map(move |key| (cluster, key))) {
                if let Some(other) = self.claims(placement, cluster, key) {
                    return Err(format!(
                        "3: a gate of {placement} asks about {key} on {cluster}, which {other} is to hold"
                    ));
                }
            }
        }
        Ok(())
    }

    pub(super) fn hands_over(&mut self, fact: &Fact) -> Verdict {
        match fact {
            Fact::Accepted(commit) => {
                let wish = self.wishes.get(commit);
                let wanted: BTreeSet<Spot> = wish
                    .into_iter()
                    .flat_map(|wish| {
                        wish.placements.iter().flat_map(|(placement, want)| {
                            let Who::Exactly(clusters) = &want.who else { return Vec::new() };
                            let clusters =
                                clusters.iter().filter(|name| !want.evicted.contains(*name) && !want.reports);
                            clusters.map(|cluster| (placement.clone(), cluster.clone())).collect()
                        })
                    })
                    .collect();
                self.wanted_since.retain(|spot, _| wanted.contains(spot));
                for spot in wanted {
                    self.wanted_since.entry(spot).or_insert(self.now);
                }
                Ok(())
            }
            Fact::Ordered(order) => self.prunes_nothing_claimed(order),
            Fact::Deleted { order, object, .. } => self.deletes_nothing_wanted(order, object),
            _ => Ok(()),
        }
    }

    /// Notes which namespaces a cluster has by its record.
    pub(super) fn note_namespaces(&mut self, record: &ClusterRecord) {
        let Some(found) = &record.namespaces else {
            self.namespaces.remove(&record.name);
            return;
        };
        let known = self.namespaces.entry(record.name.clone()).or_default();
        known.retain(|namespace, _| found.contains(namespace));
        for namespace in found {
            known.entry(namespace.clone()).or_insert(self.now);
        }
    }

    /// 4: what the accepted commit wants on a cluster is not deleted there, whatever placement has held it. Where nobody knew of
    /// the cluster since, nothing could be placed there, and no ResourcePlacement where nobody knew that its Namespace is there: a list may
    /// show what was there a while ago, and simulated members say nothing of a Namespace that somebody else made.
    fn deletes_nothing_wanted(&self, order: &WorkOrder, object: &ObjectKey) -> Verdict {
        let Some(wish) = self.accepted().and_then(|commit| self.wishes.get(commit)) else { return Ok(()) };
        for (placement, want) in wish.placements.iter().filter(|(of, _)| **of != order.placement) {
            let spot = (placement.clone(), order.cluster.clone());
            let is_for_long = |since: &Timestamp| self.now.duration_since(*since.max(&self.calm_since)) > UNDER_WAY;
            let wants = want.objects.contains_key(object) && self.wanted_since.get(&spot).is_some_and(is_for_long);
            let found = self.namespaces.get(&order.cluster);
            let namespace = placement.namespace.as_deref().zip(found);
            let may_go = namespace.is_none_or(|(name, found)| found.get(name).is_some_and(is_for_long));
            if wants && may_go && !self.silent.contains(&order.cluster) && !self.is_lenient {
                return Err(format!(
                    "4: {object} of {} was deleted on {}, and {placement} is to have it there",
                    order.placement, order.cluster
                ));
            }
        }
        Ok(())
    }
}

impl Run {
    /// A placement gets another name, and nothing else changes.
    pub(super) fn rename(&mut self) {
        let Some(dice) = &mut self.twists.renames else { return };
        let number = dice.below(PLACEMENTS_MAX);
        self.timeline.rename(number);
        self.push(false);
    }
}

/// Only a new name of the placement makes no other override: what is said again after something else may need another approval.
#[test]
fn an_override_for_a_new_name_does_the_same() {
    use serde_json::json;

    let mut checker = Checker::default();
    for (index, placement, value) in [(0, "p", "x"), (1, "q", "x"), (2, "q", "y"), (3, "q", "x")] {
        let spec = json!({"placement": {"name": placement}, "policy": value});
        checker.note_override(&json!({"name": "o", "index": index, "spec": spec}));
    }
    let overrides = |index: u64| json!({"cluster": [{"name": "o", "index": index}], "labels": {"env": "a"}});
    let by_effect: Vec<Value> = (0..4).map(|index| checker.by_effect(&overrides(index))).collect();
    assert_eq!(by_effect, [0, 0, 2, 3].map(overrides));
    assert_eq!(checker.by_effect(&Value::Null), Value::Null);
}

/// Forged violations are caught.
#[test]
fn w16_who_deletes_what_changes_hands_is_caught() {
    use std::sync::Arc;

    use serde_json::json;

    use super::forged::{at_rest, kept, object, order};
    // `q` has left; `p` is on both clusters and holds the object.
    let gone = |gate: &serde_json::Value| {
        let record = json!({
            "key": "q", "spec": {"resourceSelectors": [], "strategy": {"type": "RollingUpdate"}}, "annotations": {},
            "generation": 1, "createdAt": "2026-01-01T00:00:00Z", "removed": true, "deletionGate": gate,
        });
        kept("placement/q", &record)
    };
    let asks = |key: &ObjectKey| json!({"digest": "g", "reason": "", "deletions": {"a": [key]}, "since": "2026-01-01T00:00:00Z"});
    let other = || ObjectKey { name: "another".into(), ..object() };
    let leaving = |key: ObjectKey| {
        let placement = PlacementKey::cluster_scoped("q");
        Arc::new(WorkOrder { placement, prune: [key].into(), remove: true, ..WorkOrder::clone(&order("a", 1)) })
    };
    let deleted = |key: ObjectKey| Fact::Deleted {
        order: leaving(key.clone()),
        object: key,
        holder: Some(PlacementKey::cluster_scoped("q")),
        is_shared: false,
    };
    let rows = [
        ("a gate asks about something else", vec![gone(&asks(&other())), Fact::Mark(0)], None),
        ("a gate asks about what changes hands", vec![gone(&asks(&object())), Fact::Mark(0)], Some("3: a gate of q")),
        ("something else is to go", vec![Fact::Ordered(leaving(other()))], None),
        ("what changes hands is to go", vec![Fact::Ordered(leaving(object()))], Some("4: a has the order to delete")),
        ("something else is deleted", vec![deleted(other())], None),
        ("what changes hands is deleted", vec![deleted(object())], Some("4:")),
    ];
    for (name, facts, wanted) in rows {
        let mut checker = at_rest();
        checker.now += SignedDuration::from_mins(5);
        let verdict = facts.iter().try_for_each(|fact| match fact {
            Fact::Ordered(_) | Fact::Deleted { .. } => checker.hands_over(fact),
            fact => checker.see(fact),
        });
        match (verdict, wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
}
