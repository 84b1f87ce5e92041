//! Stores that are lost: nothing begins before a person adopts the new one, and what people decided before stands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deliver::inventory::Parent;
use engine::Core;
use model::commands::{Command, Done, Refusal, Verb};
use model::id::{ClusterName, CommitId, Digest, PlacementKey};
use model::runs::DELETION_GATE;
use plan::simulate::Dice;
use simulated::{Fact, MachineFact, SimulatedFleet};

use super::check::{Verdict, Wish};
use super::digests::{self, Fleet, TraceDigest};
use super::meetings::{Meetings, Step, Themes};
use super::pairs::{self, EXPIRED, Pairs, TENANT};
use super::timeline::{PLACEMENTS_MAX, Timeline};
use super::{faults, order, person, play_all, simulation};

/// Of the seeds of a run so many are run here: one of this number.
const SHARE: u64 = 4;
/// The first second in which a store is lost: features meet before.
const FIRST_LOSS_S: u64 = 140;
const CHANGE: u64 = 0;
const PERSON: u64 = 1;
const LOSE: u64 = 2;
const ADOPT: u64 = 3;
const END: u64 = 4;

/// What was lost, and what has to stand all the same.
#[derive(Default)]
struct Lost {
    /// What members held then; `None` while no store was lost.
    holders: Option<BTreeMap<ClusterName, BTreeMap<PlacementKey, Parent>>>,
    adopted: bool,
    /// Placements that were paused as members know it that are of the fleet.
    paused: BTreeSet<PlacementKey>,
    /// What was not to be rolled out again, likewise; unless a member holds it.
    held: BTreeMap<PlacementKey, Digest>,
}

impl Lost {
    fn see(&mut self, fact: &Fact) -> Verdict {
        if let Fact::Own(MachineFact::StoreLost(holders)) = fact {
            *self = Self { holders: Some(holders.clone()), ..Self::default() };
        }
        let (Fact::Ordered(order), Some(holders)) = (fact, &self.holders) else { return Ok(()) };
        let (placement, cluster) = (&order.placement, &order.cluster);
        if !self.adopted && holders.contains_key(cluster) {
            return Err(format!(
                "{placement} begins on {cluster}, which held something, before anybody adopted the store"
            ));
        }
        if !order.remove && self.held.get(placement) == Some(&order.digest) {
            return Err(format!(
                "{placement} goes to {cluster} as {}, which was held before the store was lost",
                order.digest
            ));
        }
        Ok(())
    }

    /// A person adopted the store: what the members say that can be asked has to stand.
    fn adopt(&mut self, core: &Core) {
        self.adopted = true;
        let holders = self.holders.iter().flatten();
        let records = &core.fleet().records;
        let asked: Vec<_> =
            holders.filter(|(name, _)| records.get(*name).is_some_and(|record| record.online)).collect();
        let parents = || asked.iter().flat_map(|(_, parents)| parents.iter());
        self.paused =
            parents().filter(|(_, parent)| parent.kept.paused.is_some()).map(|(key, _)| key.clone()).collect();
        let is_there = |key: &PlacementKey, hash: &Digest| {
            parents().any(|(of, parent)| of == key && parent.holds.as_ref().is_some_and(|holds| holds.digest == *hash))
        };
        let held = parents().filter_map(|(key, parent)| Some((key.clone(), parent.kept.held.clone()?)));
        let mut newest: BTreeMap<PlacementKey, (u64, Digest)> = BTreeMap::new();
        for (key, held) in held {
            let known = newest.entry(key).or_insert((held.index, held.hash.clone()));
            if known.0 < held.index {
                *known = (held.index, held.hash);
            }
        }
        let newest = newest.into_iter().filter(|(key, (_, hash))| !is_there(key, hash));
        self.held = newest.map(|(key, (_, hash))| (key, hash)).collect();
    }

    /// A pause stands until somebody says otherwise, which nobody does here.
    fn stands(&self, core: &Core) -> Verdict {
        for key in &self.paused {
            let Some(state) = core.placements().get(key).filter(|state| state.record.generation > 0) else { continue };
            if state.record.paused.is_none() {
                return Err(format!("{key} was paused before the store was lost, and is not any more"));
            }
        }
        Ok(())
    }
}

/// What a seed has shown.
#[derive(Default)]
struct Shown {
    adopted: bool,
    paused: usize,
    held: usize,
}

/// What a seed has shown and which features met, and the digest of its trace.
type Played = ((Shown, pairs::Hits), (u64, String));

fn play(seed: u64) -> Result<Played, String> {
    let mut timeline = Timeline::begin(Dice::new(seed ^ 0x105e));
    let mut simulation = simulation(None, seed);
    simulation.deployment.faults = faults(&mut timeline.dice);
    let (mut lost, mut digest) = (Lost::default(), TraceDigest::default());
    let (mut met, mut wishes) = (Pairs::of(false, false), BTreeMap::new());
    let mut dice = Dice::new(seed ^ 0x3ee7_105e);
    if dice.chance(250) {
        timeline.split(&mut dice);
    }
    let themes = Themes::of(seed, &[TENANT, EXPIRED]);
    themes.suit(&mut timeline);
    let mut meetings = Meetings::of(themes, dice);
    wishes.extend([push(&mut simulation, &mut timeline)]);
    let lose_at = timeline.dice.between(FIRST_LOSS_S, 700);
    for _ in 0..timeline.dice.between(4, 14) {
        let what = if timeline.dice.chance(400) { CHANGE } else { PERSON };
        simulation.at(Duration::from_secs(timeline.dice.below(lose_at)), what);
    }
    // What the commit before it does acts together with the loss.
    let before = meetings.dice.between(8, 40);
    for (at, mark) in meetings.plan_one(Duration::from_secs(lose_at - before)) {
        simulation.at(at, mark);
    }
    simulation.at(Duration::from_secs(lose_at), LOSE);
    simulation.at(Duration::from_secs(lose_at + timeline.dice.between(1, 300)), ADOPT);
    for _ in 0..meetings.dice.between(0, 2) {
        simulation.at(Duration::from_secs(lose_at + meetings.dice.between(300, 900)), CHANGE);
    }
    simulation.at(Duration::from_secs(lose_at + 1800), END);
    while let Some(mut facts) = simulation.step() {
        let mut is_over = false;
        while !facts.is_empty() {
            for fact in std::mem::take(&mut facts) {
                digest.see(simulation.now, &fact);
                met.see(&fact, &wishes, &simulation.store);
                lost.see(&fact)?;
                match fact {
                    Fact::Mark(CHANGE) => {
                        timeline.change();
                        wishes.extend([push(&mut simulation, &mut timeline)]);
                    }
                    Fact::Mark(PERSON) => {
                        let verbs = [Verb::Pause, Verb::Rollback, Verb::Rollback, Verb::Rollback, Verb::Reject];
                        let verb = *timeline.dice.pick(&verbs).ok_or("there are some")?;
                        let placement = format!("p{}", timeline.dice.below(PLACEMENTS_MAX));
                        let answer = simulation.execute(&order(verb, &placement), &person(0));
                        digest.say(&format!("{verb:?} {placement} {answer:?}"));
                    }
                    Fact::Mark(LOSE) => {
                        digest.note_store(&simulation.store);
                        // What the store kept without saying so would be an adoption that nobody here knows of.
                        (simulation.deployment.faults.store_unsure, simulation.deployment.faults.store_crashes) =
                            (0, 0);
                        met.read(&simulation.store);
                        simulation.lose_store();
                    }
                    Fact::Mark(ADOPT) => adopt(&mut simulation, &mut lost),
                    Fact::Mark(END) => is_over = true,
                    Fact::Mark(mark) => {
                        let Some(step) = meetings.at(mark) else { continue };
                        if meetings.write(&step, &mut timeline) {
                            wishes.extend([push(&mut simulation, &mut timeline)]);
                        }
                        for (command, answer) in meet(&step, &mut meetings, &timeline, &mut simulation) {
                            digest.say(&format!("{command:?} {answer:?}"));
                        }
                    }
                    _ => {}
                }
            }
            facts = simulation.facts();
        }
        if let Some(core) = simulation.core() {
            lost.stands(core)?;
        }
        if is_over {
            break;
        }
    }
    let shown = Shown { adopted: lost.adopted, paused: lost.paused.len(), held: lost.held.len() };
    let digest = digest.finish(&simulation);
    Ok(((shown, met.end(&simulation.store)), (seed, digest)))
}

/// One thing happens before the store is lost. Nobody lets on what is paused or held: that is to stand. Returns what was said, and the
/// answers.
fn meet(
    step: &Step,
    meetings: &mut Meetings,
    timeline: &Timeline,
    simulation: &mut SimulatedFleet,
) -> Vec<(Command, Option<Result<Done, Refusal>>)> {
    let mut commands = Vec::new();
    match step {
        Step::LetOn(number) => {
            for stage in ["first", "second", DELETION_GATE] {
                let target = meetings.target(*number, timeline);
                commands.push(Command { stage: Some(stage.to_owned()), ..order(Verb::Approve, &target) });
            }
        }
        Step::Say(number, verb) => {
            let target = meetings.target(*number, timeline);
            commands.push(meetings.word(*verb, &target, simulation.core()));
        }
        Step::Away(number) => {
            let cluster = timeline.any_of(*number, &mut meetings.dice);
            simulation.set_reachable(&ClusterName::new(format!("c{cluster}")), false);
        }
        Step::Crash => simulation.crash(),
        Step::Repair | Step::Commit(_) | Step::TakeOver => {}
    }
    let say = |command: Command| {
        let answer = simulation.execute(&command, &person(0));
        (command, answer)
    };
    commands.into_iter().map(say).collect()
}

/// Pushes what the source says now. Returns the commit with what it asks for.
pub(super) fn push(simulation: &mut SimulatedFleet, timeline: &mut Timeline) -> (CommitId, Wish) {
    let (commit, tree, wish) = timeline.commit(false);
    simulation.push(commit.clone(), tree);
    (commit, wish)
}

/// A person adopts the store as soon as it says that it waits for that; else looks again later.
fn adopt(simulation: &mut SimulatedFleet, lost: &mut Lost) {
    let waits = simulation.core().and_then(Core::adoption_complaint).is_some();
    let answer = if waits { simulation.execute(&order(Verb::Adopt, ""), &person(0)) } else { None };
    match (answer, simulation.core()) {
        (Some(Ok(_)), Some(core)) => lost.adopt(core),
        // It was stored, and the daemon ended at the next effect.
        (Some(Ok(_)), None) => lost.adopted = true,
        _ => simulation.at(Duration::from_secs(10), ADOPT),
    }
}

/// D11: in every seed nothing begins before the adoption, and pauses and holds stand after it.
#[test]
fn d11_a_lost_store_undoes_nothing() {
    let (count, played) = play_all(SHARE, &[], play);
    let (shown, digests): (Vec<_>, Vec<_>) = played.into_iter().unzip();
    let (shown, hits): (Vec<Shown>, Vec<_>) = shown.into_iter().unzip();
    pairs::write(Fleet::LostStore, hits);
    let adopted = shown.iter().filter(|shown| shown.adopted).count();
    let paused: usize = shown.iter().map(|shown| shown.paused).sum();
    let held: usize = shown.iter().map(|shown| shown.held).sum();
    let shown = (adopted, paused, held);
    println!("of {count} seeds {} adopted; {} pauses and {} holds stood", shown.0, shown.1, shown.2);
    assert!(shown.0 > 0 && shown.1 > 0 && shown.2 > 0, "the seeds show little: {shown:?}");
    digests::compare(Fleet::LostStore, digests);
}

/// Forged violations are caught.
#[test]
fn d11_what_begins_too_early_is_caught() {
    let told = super::forged::order("a", 1);
    let parent = Parent { placement: Some(told.placement.clone()), ..Parent::default() };
    let holders = BTreeMap::from([(told.cluster.clone(), BTreeMap::from([(told.placement.clone(), parent)]))]);
    let mut lost = Lost::default();
    lost.see(&Fact::Ordered(told.clone())).expect("nothing was lost");
    lost.see(&Fact::Own(MachineFact::StoreLost(holders))).expect("that happens");
    let early = lost.see(&Fact::Ordered(told.clone())).expect_err("nobody adopted it");
    assert!(early.contains("before anybody adopted"), "{early}");
    lost.adopted = true;
    lost.see(&Fact::Ordered(told.clone())).expect("somebody did");
    lost.held.insert(told.placement.clone(), told.digest.clone());
    let again = lost.see(&Fact::Ordered(told)).expect_err("it was held");
    assert!(again.contains("was held before"), "{again}");
}
