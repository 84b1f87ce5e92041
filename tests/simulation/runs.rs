//! What is promised of staged runs, gates and people's words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::store::records::snapshot_key;
use jiff::{SignedDuration, Timestamp};
use model::api::placement::ApplyStrategyType;
use model::api::staged::StageTaskType;
use model::id::{ClusterName, Digest, ObjectKey, PlacementKey};
use model::records::{HeldSnapshot, SnapshotResource};
use model::runs::{Approval, ClusterPhase, RunCause, RunCluster, RunRecord, StagePhase, StageRecord, TaskRecord};

use super::check::{Checker, Verdict, parse};
use super::hand_over::is_same_thing;
use super::records::Binding;

/// A cluster that was whole and in calm for so long is not to be called failed.
const CALM: SignedDuration = SignedDuration::from_secs(90);

/// Somebody said yes, and was not refused.
#[derive(Clone, Debug)]
pub struct Word {
    /// Who.
    pub person: String,
    /// To what.
    pub digest: Digest,
    /// When, by the daemon's clock.
    pub at: Timestamp,
}

/// What a gate asks for.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// People who must say yes.
    pub required: usize,
    /// How long a word counts.
    pub expire_after: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { required: 1, expire_after: Duration::from_hours(72) }
    }
}

fn tasks(stage: &StageRecord) -> impl Iterator<Item = &TaskRecord> {
    stage.before.iter().chain(&stage.after)
}

impl Checker {
    /// Returns how many people's words an open gate cites: said by somebody who was let, for this digest, and not too old.
    pub(super) fn voices(&self, cited: &[Approval], digest: &Digest, opened_at: Timestamp) -> usize {
        let was_said = |approval: &&Approval| {
            let said = |word: &Word| {
                (&word.person, &word.digest, word.at) == (&approval.by.name, &approval.digest, approval.at)
            };
            let age = opened_at.duration_since(approval.at);
            approval.digest == *digest
                && age <= SignedDuration::try_from(self.rules.expire_after).unwrap_or(SignedDuration::MAX)
                && self.words.iter().any(said)
        };
        cited.iter().filter(was_said).map(|approval| &approval.by.name).collect::<BTreeSet<_>>().len()
    }

    pub(super) fn keep_run(&mut self, key: &str, value: Option<&[u8]>) -> Verdict {
        let before = self.runs.remove(key);
        let Some(value) = value else {
            let Some(run) = before else { return Ok(()) };
            let verdict = self.may_forget(&run);
            self.gone_runs.push(run.clone());
            self.forgotten_runs.insert(run.name.clone(), run);
            return verdict;
        };
        let run: RunRecord = parse(key, value)?;
        // It continues under the new name of its placement.
        let before = before.or_else(|| {
            let is_it = |other: &&RunRecord| other.name == run.name && is_same_thing(&other.placement, &run.placement);
            let former = self.runs.values().chain(self.forgotten_runs.values()).find(is_it).cloned()?;
            self.take_failures(&former, &run);
            self.take_protection(&former, &run);
            Some(former)
        });
        // A document that names another snapshot or strategy is another run of the same name.
        self.gone_runs.extend(before.as_ref().filter(|before| before.sequence != run.sequence).cloned());
        let before = before.filter(|before| before.sequence == run.sequence);
        let mut all_done = true;
        for stage in run.stages.iter().chain(&run.deletion) {
            let known = before.iter().flat_map(|run| run.stages.iter().chain(&run.deletion));
            let known = known.into_iter().find(|known| known.name == stage.name);
            in_turn(&run, stage, all_done)?;
            few_move(&run, stage, known)?;
            self.gates(&run, stage)?;
            if let Some(known) = known {
                self.keeps_approvals(&run, stage, known)?;
            }
            self.turns_out(&run, stage, known)?;
            self.takes_its_time(key, &run, stage, known)?;
            all_done &= stage.phase.is_done()
                && stage.after.iter().all(|task| task.done_at.is_some() || stage.clusters.is_empty());
        }
        self.note_tried_again(&run, before.as_ref());
        self.note_failures(&run, before.as_ref());
        self.runs.insert(key.to_owned(), run);
        Ok(())
    }

    /// A cluster has something else than what runs brought that are gone.
    pub(super) fn leave_gone_runs(&mut self, binding: &Binding) {
        let gone = self.gone_runs.iter_mut().filter(|run| run.placement == binding.placement);
        for stage in gone.flat_map(|run| &mut run.stages) {
            stage.clusters.retain(|cluster| cluster.name != binding.cluster);
        }
    }

    /// Notes which failed clusters of a run are to be tried again.
    fn note_tried_again(&mut self, run: &RunRecord, before: Option<&RunRecord>) {
        let clusters = |run: &RunRecord, phase: ClusterPhase| -> BTreeSet<ClusterName> {
            let all = run.stages.iter().flat_map(|stage| &stage.clusters).filter(|cluster| cluster.phase == phase);
            all.map(|cluster| cluster.name.clone()).collect()
        };
        let Some(before) = before else { return };
        for cluster in clusters(before, ClusterPhase::Failed).intersection(&clusters(run, ClusterPhase::Pending)) {
            self.tried_again.insert((run.placement.clone(), cluster.clone()), self.seen);
        }
    }

    /// 2: a wait lasts as long as it is to, by the true time, whatever the clock was set to.
    fn takes_its_time(
        &mut self,
        key: &str,
        run: &RunRecord,
        stage: &StageRecord,
        known: Option<&StageRecord>,
    ) -> Verdict {
        for (at, task) in tasks(stage).enumerate().filter(|_| !stage.clusters.is_empty()) {
            let Some((wait, asked)) = task.wait.zip(task.asked_at) else { continue };
            let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
            let place = (key.to_owned(), stage.name.clone(), at);
            let before = known.and_then(|known| tasks(known).nth(at));
            let is_new = before.is_none_or(|before| before.asked_at != task.asked_at);
            match task.done_at {
                // What the store kept unsaid is seen late.
                None if is_new && asked == self.clock => {
                    self.began.insert(place, self.now);
                }
                None if is_new => {
                    self.began.remove(&place);
                }
                None => {}
                Some(_) => {
                    let Some(began) = self.began.remove(&place) else { continue };
                    let lasted = self.now.duration_since(began);
                    if lasted + self.early < wait {
                        let (stage, run) = (&stage.name, &run.name);
                        return Err(format!("2: stage {stage} of {run} waited {lasted:#} instead of {wait:#}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// 7: a run that is not over goes only with its document or its placement.
    fn may_forget(&mut self, run: &RunRecord) -> Verdict {
        let is_written = matches!(run.cause, RunCause::Written { .. });
        let is_removed = self.placements.get(&run.placement).is_none_or(|record| record.removed);
        if run.phase.is_final() || is_written || is_removed {
            return Ok(());
        }
        let why = format!("7: the run {} is forgotten, and it was {:?}", run.name, run.phase);
        // It was gone when this batch began. Whether another one came back under its name is seen when the batch is whole.
        if let Some(forgotten) = self.returned.get_mut(&run.placement) {
            forgotten.push(why);
            return Ok(());
        }
        Err(why)
    }

    /// 3: an open gate cites approvals of exactly its digest, which people gave who may, as many as it takes.
    fn gates(&self, run: &RunRecord, stage: &StageRecord) -> Verdict {
        for task in tasks(stage).filter(|task| task.type_ == StageTaskType::Approval) {
            let Some(at) = task.done_at.filter(|_| !stage.clusters.is_empty()) else { continue };
            let voices = self.voices(&task.approvals, &stage.digest, at);
            if voices < self.rules.required {
                let (stage, run, of) = (&stage.name, &run.name, self.rules.required);
                return Err(format!("3: a gate of stage {stage} of {run} is open with {voices} of {of} approvals"));
            }
        }
        Ok(())
    }

    /// 7: a word that was given stays until it is too old, and a gate that is open stays open.
    fn keeps_approvals(&self, run: &RunRecord, stage: &StageRecord, known: &StageRecord) -> Verdict {
        let expire = SignedDuration::try_from(self.rules.expire_after).unwrap_or(SignedDuration::MAX);
        for (before, after) in tasks(known).zip(tasks(stage)) {
            if before.done_at.is_some() && before.done_at != after.done_at {
                return Err(format!("7: a gate of stage {} of {} closes again", stage.name, run.name));
            }
            let is_lost = |word: &&Approval| {
                let is_there = after.approvals.iter().any(|other| other.by.name == word.by.name);
                // Asked again, or pushed out by a later word: the time of that is the newest there is.
                let newest = after.approvals.iter().map(|a| a.at).chain(after.asked_at).max();
                let is_due = newest.is_none_or(|newest| newest.duration_since(word.at) < expire);
                // The next approval takes those away that do not count any more.
                !is_there && is_due && self.is_on_all_lists(&run.placement, &word.by.name)
            };
            if let Some(word) = before.approvals.iter().find(is_lost).filter(|_| known.digest == stage.digest) {
                let (who, stage, run) = (&word.by.name, &stage.name, &run.name);
                return Err(format!("7: the approval of stage {stage} of {run} by {who} is lost"));
            }
        }
        Ok(())
    }

    /// A cluster that is called done holds what the run brings, and one that is called failed does not for long already.
    fn turns_out(&self, run: &RunRecord, stage: &StageRecord, known: Option<&StageRecord>) -> Verdict {
        let Some(frozen) = run.frozen.as_ref().filter(|_| !self.is_lenient) else { return Ok(()) };
        let is_known = !self.is_blind;
        let is_deletion = run.deletion.as_ref().is_some_and(|deletion| deletion.name == stage.name);
        let writes = frozen.apply_strategy.type_ != ApplyStrategyType::ReportDiff;
        let Some(snapshot) = self.snapshots.get(&snapshot_key(&run.placement, frozen.snapshot)) else { return Ok(()) };
        for cluster in stage.clusters.iter().filter(|cluster| cluster.overrides.is_empty() && writes && !is_deletion) {
            let before = known.and_then(|known| known.clusters.iter().find(|c| c.name == cluster.name));
            if before.is_some_and(|before| before.phase == cluster.phase) {
                continue;
            }
            let spot = (run.placement.clone(), cluster.name.clone());
            let written = self.written.get(&spot);
            let has = |written: &BTreeMap<ObjectKey, Digest>, of: &SnapshotResource| {
                written.get(&of.id.key()) == Some(&of.digest)
            };
            // What a later commit gives to another placement has changed hands while a run that was queued before it continues.
            let here =
                || self.written.iter().filter(|((_, of), _)| *of == cluster.name).map(|(_, (written, _))| written);
            let is_whole = snapshot.resources.iter().all(|resource| {
                here().any(|written| has(written, resource))
                    || self.has_changed_hands(&run.placement, &cluster.name, &resource.id.key())
            });
            let was_whole = self
                .unheard
                .get(&spot)
                .is_some_and(|(written, _)| snapshot.resources.iter().all(|resource| has(written, resource)));
            if cluster.phase == ClusterPhase::Succeeded && !is_whole && !was_whole {
                let (stage, run) = (&stage.name, &run.name);
                return Err(format!("2: {} is done in stage {stage} of {run}, and does not hold it", cluster.name));
            }
            let is_up = self.unavailable.get(&spot).is_none_or(BTreeSet::is_empty);
            let since = written.map_or(self.now, |(_, at)| *at).max(self.calm_since);
            // What another placement has there it may keep, also if it took that over from this one: a rollback does not get it back, and
            // fails.
            let wrote_last =
                |of: &SnapshotResource| self.writers.get(&(cluster.name.clone(), of.id.key())) == Some(&run.placement);
            let is_own =
                written.is_some_and(|(own, _)| snapshot.resources.iter().all(|of| has(own, of) && wrote_last(of)));
            if cluster.phase == ClusterPhase::Failed
                && is_known
                && is_own
                && is_up
                && !self.silent.contains(&cluster.name)
                && !self.disturbed.contains(&cluster.name)
                && self.now.duration_since(since) > CALM
            {
                let (cluster, run, why) = (&cluster.name, &run.name, &cluster.message);
                return Err(format!(
                    "6: {cluster} is called failed in {run} though it is available since {since}: {why}"
                ));
            }
        }
        Ok(())
    }

    /// 2 and 7: what moves a cluster of an External placement is a run whose stage is reached, and nothing moves to what a
    /// person said no to. Asked when a whole batch is kept.
    pub(super) fn may_begin(&mut self) -> Verdict {
        for (placement, held) in std::mem::take(&mut self.released) {
            let newest = self.snapshots.values().filter(|s| s.placement == placement).max_by_key(|s| s.index);
            if newest.is_some_and(|newest| newest.hash == held.hash) && self.placements.contains_key(&placement) {
                return Err(format!("7: snapshot {} of {placement} is held no more, and nobody said so", held.index));
            }
        }
        for ((placement, cluster), index) in std::mem::take(&mut self.moves) {
            self.may_move_yet(&(placement.clone(), cluster.clone()), index)?;
            let Some(record) = self.placements.get(&placement) else { continue };
            let snapshot = self.snapshots.get(&snapshot_key(&placement, index));
            if snapshot.is_some_and(|snapshot| self.had_under_another_name(&cluster, snapshot)) {
                continue;
            }
            // Who writes a run with an index says that the snapshot goes out; only what begins by itself leaves it.
            let is_asked_for = |run: &RunRecord| {
                let is_written = matches!(run.cause, RunCause::Written { .. });
                run.placement == placement && is_written && run.wanted_snapshot == Some(index) && !run.phase.is_final()
            };
            // Where overrides alone were rolled back, the snapshot goes out with those of before.
            let is_held = |held: &&HeldSnapshot| held.inputs.is_none() && snapshot.is_some_and(|s| s.hash == held.hash);
            if let Some(held) = record.held.as_ref().filter(is_held)
                && !self.runs.values().any(is_asked_for)
            {
                return Err(format!(
                    "7: {cluster} goes to snapshot {index} of {placement}, which is held: {}",
                    held.why
                ));
            }
            let moves = |run: &&RunRecord| run.placement == placement && run.snapshot() == Some(index);
            // A person may have it tried again in the same instant.
            let is_tried = |c: &RunCluster| c.phase != ClusterPhase::Pending || c.message == "to be tried again";
            let has_begun = |c: &RunCluster| c.name == cluster && is_tried(c);
            let reached = |stage: &StageRecord| stage.phase.is_reached() && stage.clusters.iter().any(has_begun);
            let mut runs = self.runs.values().filter(moves);
            if record.is_external() && !runs.any(|run| run.stages.iter().any(reached)) {
                return Err(format!(
                    "2: {cluster} goes to snapshot {index} of {placement}, and no run brings it there"
                ));
            }
        }
        self.see_whole()
    }

    /// 7: a command that was accepted is stored. A deletion gate may be gone as soon as it is open.
    pub fn has_word(&self, placement: &PlacementKey, word: &Word) -> Verdict {
        let is_it = |a: &Approval| (&a.by.name, &a.digest, a.at) == (&word.person, &word.digest, word.at);
        let runs = self.runs.values().filter(|run| run.placement == *placement);
        let mut stages = runs.flat_map(|run| &run.stages);
        let is_there = |stage: &StageRecord| tasks(stage).flat_map(|task| &task.approvals).any(is_it);
        let is_of_stage = self.runs.values().flat_map(|run| &run.stages).any(|stage| stage.digest == word.digest);
        if !is_of_stage || stages.any(is_there) {
            return Ok(());
        }
        Err(format!("7: {} approved {} of {placement}, and no record says so", word.person, word.digest))
    }
}

/// 2: clusters begin when every earlier stage is done and the gates before them are open; a stage is done when its clusters are,
/// and a wait that was asked for was waited.
fn in_turn(run: &RunRecord, stage: &StageRecord, all_done: bool) -> Verdict {
    let has_begun = |c: &RunCluster| c.started_at.is_some();
    let before_done = stage.before.iter().all(|task| task.done_at.is_some());
    if stage.clusters.iter().any(has_begun) && !(all_done && before_done) {
        return Err(format!("2: stage {} of {} has begun before its time", stage.name, run.name));
    }
    for task in tasks(stage).filter(|_| !stage.clusters.is_empty()) {
        let Some((wait, done)) = task.wait.zip(task.done_at) else { continue };
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        if task.asked_at.is_none_or(|asked| done.duration_since(asked) < wait) {
            return Err(format!("2: stage {} of {} waited from {:?} to {done}", stage.name, run.name, task.asked_at));
        }
    }
    Ok(())
}

/// 1 and 2: no more clusters are on their way than may be, and none when the stage ends.
fn few_move(run: &RunRecord, stage: &StageRecord, known: Option<&StageRecord>) -> Verdict {
    let moving = |stage: &StageRecord| stage.clusters.iter().filter(|c| c.phase == ClusterPhase::Updating).count();
    let (count, before) = (moving(stage), known.map_or(0, moving));
    if count > before && count > stage.max_concurrency {
        let (stage, run, may) = (&stage.name, &run.name, stage.max_concurrency);
        return Err(format!("1: {count} clusters of stage {stage} of {run} are on their way, {may} may be"));
    }
    let is_over = |phase: StagePhase| matches!(phase, StagePhase::Succeeded | StagePhase::WaitingAfter);
    let is_left = |c: &&RunCluster| matches!(c.phase, ClusterPhase::Pending | ClusterPhase::Updating);
    if is_over(stage.phase)
        && known.is_none_or(|known| !is_over(known.phase))
        && let Some(left) = stage.clusters.iter().find(is_left)
    {
        return Err(format!("2: stage {} of {} is over, and {} is {:?}", stage.name, run.name, left.name, left.phase));
    }
    Ok(())
}
