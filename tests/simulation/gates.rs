//! 14: before a cluster gets what no approval covers, every approval that protected it in its last run is asked, whatever its stage
//! holds. Judged by the records alone.

use std::collections::{BTreeMap, BTreeSet};

use model::api::staged::StageTaskType;
use model::commands::Verb;
use model::id::{ClusterName, PlacementKey};
use model::records::BindingState;
use model::runs::{ClusterPhase, RunCause, RunRecord, StageRecord, TaskRecord, WantedBy, WhileEmpty};
use serde_json::Value;

use super::check::{Checker, Spot, Verdict};
use super::hand_over::is_same_thing;

/// What a cluster holds of a placement: snapshot, overrides, apply strategy.
type Content = (u64, String, String);

/// What gates protected, and what was let past them.
#[derive(Default)]
pub struct Gates {
    /// Clusters that were given something since the last look, with the count of facts.
    pub(super) moved: Vec<(Spot, Option<u64>)>,
    /// Approvals that stood before clusters in their last run, with the run's sequence.
    before: BTreeMap<Spot, (u64, usize)>,
    /// What clusters were given, by the stage that they were in then.
    given: BTreeMap<(PlacementKey, Option<String>), BTreeSet<Content>>,
    /// What single clusters were given.
    had: BTreeMap<Spot, BTreeSet<Content>>,
}

fn text(value: &Value) -> String {
    if value.is_null() { "{}".to_owned() } else { value.to_string() }
}

fn count(tasks: &[TaskRecord], of: impl Fn(&TaskRecord) -> bool) -> usize {
    tasks.iter().filter(|task| task.type_ == StageTaskType::Approval && of(task)).count()
}

/// Approvals that a later run is to ask as well: an approval that the strategy has lost is asked once.
fn lasts(task: &TaskRecord) -> bool {
    match task.wanted_by {
        WantedBy::Strategy => true,
        WantedBy::RunBefore => task.done_at.is_none(),
        WantedBy::Configuration => false,
    }
}

/// Returns how many approvals stand before a cluster of a run.
fn before(run: &RunRecord, cluster: &ClusterName, of: impl Fn(&TaskRecord) -> bool + Copy) -> Option<usize> {
    let is_in = |stage: &StageRecord| stage.clusters.iter().any(|c| c.name == *cluster);
    let at = run.stages.iter().position(is_in)?;
    let earlier: usize = run.stages[..at].iter().map(|stage| count(&stage.before, of) + count(&stage.after, of)).sum();
    Some(earlier + count(&run.stages[at].before, of))
}

fn is_it(one: &PlacementKey, other: &PlacementKey) -> bool {
    one == other || is_same_thing(one, other)
}

impl Checker {
    /// 14: asked when a whole batch is kept.
    pub(super) fn asks_before_all(&mut self) -> Verdict {
        for (spot, seen) in std::mem::take(&mut self.gates.moved) {
            self.note_given(&spot);
            seen.map_or(Ok(()), |seen| self.stays_halted(&spot, seen))?;
            self.asks_before(&spot)?;
        }
        let runs = self.runs.values().filter(|run| run.frozen.is_some());
        for run in runs.filter(|run| !matches!(run.cause, RunCause::Rollback { .. })) {
            // A stage that no cluster belonged to from the start protects nobody.
            let stands = |stage: &&StageRecord| !stage.clusters.is_empty() || stage.while_empty.is_some();
            let standing = RunRecord { stages: run.stages.iter().filter(stands).cloned().collect(), ..run.clone() };
            for cluster in run.stages.iter().flat_map(|stage| &stage.clusters) {
                let spot = (run.placement.clone(), cluster.name.clone());
                let known = self.gates.before.get(&spot).map_or(0, |(sequence, _)| *sequence);
                let asked = before(&standing, &cluster.name, lasts).unwrap_or(0);
                if run.sequence >= known {
                    self.gates.before.insert(spot, (run.sequence, asked));
                }
            }
        }
        let placements = &self.placements;
        self.gates.before.retain(|(placement, _), _| placements.contains_key(placement));
        Ok(())
    }

    /// A run that goes to another name of its placement is the last run of its clusters there: what earlier runs of that name asked protects
    /// them no more. Another placement may have had a run of the same name.
    pub(super) fn take_protection(&mut self, former: &RunRecord, run: &RunRecord) {
        if former.placement == run.placement || former.created_at != run.created_at {
            return;
        }
        for cluster in run.stages.iter().flat_map(|stage| &stage.clusters) {
            let asked = self.gates.before.get(&(former.placement.clone(), cluster.name.clone())).copied();
            self.gates.before.extend(asked.map(|asked| ((run.placement.clone(), cluster.name.clone()), asked)));
        }
    }

    /// Returns how many approvals before a cluster earlier runs of the same snapshot have: where the stage that asked them has no clusters any
    /// more and passes, or where the cluster left the run that asked them and is back.
    fn given_before(&self, run: &RunRecord, cluster: &ClusterName) -> usize {
        let is_done = |task: &TaskRecord| task.done_at.is_some();
        let is_earlier = |of: &&RunRecord| {
            is_it(&of.placement, &run.placement) && of.sequence < run.sequence && of.snapshot() == run.snapshot()
        };
        let had_left = |of: &RunRecord| {
            let mut clusters = of.stages.iter().flat_map(|stage| &stage.clusters);
            clusters.any(|c| c.name == *cluster && c.phase == ClusterPhase::Skipped)
        };
        let left = self.runs.values().filter(is_earlier).filter(|of| had_left(of));
        let back = left.filter_map(|of| before(of, cluster, is_done)).max().unwrap_or(0);
        let given = |name: &str| {
            let stages = self.runs.values().filter(is_earlier).flat_map(|run| &run.stages).filter(|of| of.name == name);
            stages.map(|stage| count(&stage.before, is_done) + count(&stage.after, is_done)).max().unwrap_or(0)
        };
        let earlier = run.stages.iter().take_while(|stage| stage.clusters.iter().all(|c| c.name != *cluster));
        let passed = earlier.filter(|stage| stage.while_empty == Some(WhileEmpty::Passed));
        back.max(passed.map(|stage| given(&stage.name)).sum())
    }

    fn asks_before(&mut self, spot: &Spot) -> Verdict {
        let (placement, cluster) = spot;
        let Some(binding) = self.binding(spot).filter(|b| b.state == BindingState::Bound && !b.deleting) else {
            return Ok(());
        };
        let Some(snapshot) = binding.snapshot else { return Ok(()) };
        let content: Content = (snapshot, text(&self.by_effect(&binding.overrides)), text(&binding.apply_strategy));
        let has_it =
            |run: &&RunRecord| run.placement == *placement && run.frozen.is_some() && run.snapshot() == Some(snapshot);
        let runs = self.runs.values().filter(has_it);
        // A run that takes over at the same instant, because the cluster failed at once, has not brought it.
        let began = |run: &RunRecord| {
            let mut clusters = run.stages.iter().flat_map(|stage| &stage.clusters);
            clusters.any(|c| c.name == *cluster && c.started_at.is_some() && c.started_at >= binding.started_at)
        };
        let bringing =
            runs.filter(|run| before(run, cluster, |_| true).is_some()).max_by_key(|run| (began(run), run.sequence));
        let stage = bringing.and_then(|run| run.stages.iter().find(|s| s.clusters.iter().any(|c| c.name == *cluster)));
        let of_stage = (placement.clone(), stage.map(|stage| stage.name.clone()));
        let is_rollback = bringing.is_some_and(|run| matches!(run.cause, RunCause::Rollback { .. }));
        // Under a new name it is the same.
        let given = self.gates.given.iter().filter(|((of, stage), _)| is_it(of, placement) && *stage == of_stage.1);
        let had = self.gates.had.iter().filter(|((of, at), _)| is_it(of, placement) && at == cluster);
        let is_known = given.map(|(_, of)| of).chain(had.map(|(_, of)| of)).any(|of| of.contains(&content));
        // Its snapshots may have other indexes there.
        let is_known = is_known || !self.same_under_other_names(binding).is_empty();
        // What a later run asks protects from that one, not from an earlier one whose turn the cluster has.
        let is_earlier = |sequence: u64| bringing.is_none_or(|run| sequence <= run.sequence);
        let asked = self.gates.before.get(spot).filter(|(sequence, _)| is_earlier(*sequence));
        let asked = asked.map_or(0, |(_, asked)| *asked);
        let given = bringing.and_then(|run| before(run, cluster, |task| task.done_at.is_some())).unwrap_or(0);
        let given = given + bringing.map_or(0, |run| self.given_before(run, cluster));
        // A stage asks once before it begins, however many approvals stood before a cluster that came from a later stage: the same people
        // would say yes to the same digest. All that stands before the cluster has to be given for that.
        let standing = bringing.and_then(|run| before(run, cluster, |_| true)).unwrap_or(0);
        let is_asked_once =
            given == standing && stage.is_some_and(|stage| count(&stage.before, |task| task.done_at.is_some()) > 0);
        // Who resumes a placement that lost its stages says yes to all of it.
        let is_rolling = self.placements.get(placement).is_some_and(|record| !record.is_external());
        let is_said = |(of, verb): &(PlacementKey, Verb)| *verb == Verb::Resume && is_it(of, placement);
        let is_resumed = is_rolling && self.commands.iter().any(is_said);
        if given < asked && !is_asked_once && !is_known && !is_rollback && !is_resumed && !self.is_lenient {
            let by = bringing.map_or("no run", |run| run.name.as_str());
            return Err(format!(
                "14: {cluster} gets snapshot {snapshot} of {placement} by {by} after {given} approvals, and {asked} protected it"
            ));
        }
        self.gates.given.entry(of_stage).or_default().insert(content.clone());
        self.gates.had.entry(spot.clone()).or_default().insert(content);
        Ok(())
    }
}

/// A checker of a placement that was `p1`, then `p1r1`, and is `p1` again, where an approval protected cluster `a`. There its snapshot 0 has
/// index 1, and `a` has it with these overrides.
fn named_again(hash: &str, overrides: &Value) -> Checker {
    use engine::store::records::snapshot_key;
    use serde_json::json;

    use super::check::parse;
    let mut checker = Checker::default();
    let names = [("p1r1", 0, "Unscheduled", "x", &Value::Null), ("p1", 1, "Bound", hash, overrides)];
    for (name, index, state, hash, overrides) in names {
        let snapshot = json!({
            "placement": name, "index": index, "commit": "1", "hash": hash, "resources": [], "parts": [],
            "createdAt": "2026-01-01T00:00:00Z",
        });
        let key = snapshot_key(&PlacementKey::cluster_scoped(name), index);
        let snapshot = parse(&key, snapshot.to_string().as_bytes()).unwrap();
        checker.snapshots.insert(key, snapshot);
        let binding = json!({
            "placement": name, "cluster": "a", "state": state, "snapshot": index, "generation": 1, "deleting": false,
            "overrides": overrides,
        });
        let key = format!("binding/{name}/a");
        let binding = parse(&key, binding.to_string().as_bytes()).unwrap();
        checker.bindings.insert(key, binding);
    }
    let spot: Spot = (PlacementKey::cluster_scoped("p1"), "a".into());
    checker.gates.before.insert(spot.clone(), (0, 1));
    checker.gates.moved.push((spot, None));
    checker
}

/// Forged violations are caught.
#[test]
fn w14_what_a_cluster_has_under_another_name_is_not_asked_for_again() {
    let overrides = serde_json::json!({"cluster": [{"name": "o", "index": 0}]});
    let rows = [
        ("the same", "x", &Value::Null, true),
        ("another content", "y", &Value::Null, false),
        ("other overrides", "x", &overrides, false),
    ];
    for (what, hash, overrides, is_right) in rows {
        let verdict = named_again(hash, overrides).asks_before_all();
        assert_eq!(verdict.is_ok(), is_right, "{what}: {verdict:?}");
    }
}

/// Its first run under the other name is not the one that asked. Another placement's run of that name changes nothing.
#[test]
fn w14_the_last_run_is_the_last_one_under_another_name() {
    let run = |name: &str, index: u64, at: &str| {
        let stage = serde_json::json!({
            "name": "first", "maxConcurrency": 1, "phase": "Pending", "since": at, "digest": "g",
            "clusters": [{"name": "a", "phase": "Pending", "since": at}],
        });
        let frozen = serde_json::json!({
            "snapshot": index, "hash": "y", "policy": 0, "policyClusters": -1, "applyStrategy": {},
            "strategy": {"stages": []}, "at": at,
        });
        let run = serde_json::json!({
            "name": "r", "placement": name, "cause": {"type": "snapshot"}, "strategy": "s", "generation": 1,
            "createdAt": at, "sequence": 0, "phase": "Updating", "since": at, "frozen": frozen, "stages": [stage],
        });
        run.to_string().into_bytes()
    };
    let first = "2026-01-01T00:00:00Z";
    for (at, is_right) in [(first, true), ("2026-01-01T00:01:00Z", false)] {
        let mut checker = named_again("y", &Value::Null);
        checker.gates.before.insert((PlacementKey::cluster_scoped("p1r1"), "a".into()), (0, 0));
        checker.keep_run("run/p1r1/r", Some(&run("p1r1", 0, first))).unwrap();
        checker.keep_run("run/p1/r", Some(&run("p1", 1, at))).unwrap();
        let verdict = checker.asks_before_all();
        assert_eq!(verdict.is_ok(), is_right, "{at}: {verdict:?}");
    }
}
