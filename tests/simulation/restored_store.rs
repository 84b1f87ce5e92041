//! D11: stores that are put back to a backup older than what members hold: nobody is sent back, and pauses stay.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deliver::inventory::Parent;
use engine::Core;
use engine::store::backup;
use engine::store::records::STORE_KEY;
use model::commands::Verb;
use model::id::{ClusterName, PlacementKey};
use model::records::StoreRecord;
use model::runs::RunCause;
use plan::simulate::Dice;
use simulated::{Fact, SimulatedFleet};

use super::check::{Spot, Verdict};
use super::digests::{self, Fleet, TraceDigest};
use super::lost::push;
use super::timeline::{PLACEMENTS_MAX, Timeline};
use super::{faults, order, person, play_all, simulation};

/// Of the seeds of a run so many are run here: one of this number.
const SHARE: u64 = 4;
const CHANGE: u64 = 0;
const PERSON: u64 = 1;
const BACK_UP: u64 = 2;
const WRITE: u64 = 3;
const RESTORE: u64 = 4;
const END: u64 = 5;

/// What members held when the store was put back, and what has to stand.
#[derive(Default)]
struct Restored {
    /// The snapshots that members held then, as long as nobody said that they go back.
    floors: BTreeMap<Spot, u64>,
    /// Spots whose member held something that the backup did not know of.
    ahead: usize,
    /// Placements that were paused, with the members that know it.
    paused: BTreeMap<PlacementKey, BTreeSet<ClusterName>>,
    /// The members that have not said yet what they keep, once the store has taken over what the others do.
    unseen: Option<BTreeSet<ClusterName>>,
}

impl Restored {
    fn begin(holders: &BTreeMap<ClusterName, BTreeMap<PlacementKey, Parent>>) -> Self {
        let all = || holders.iter().flat_map(|(name, parents)| parents.iter().map(move |(key, of)| (name, key, of)));
        // What was rolled back or rejected before the store was lost goes back after it, too.
        let held: BTreeSet<&PlacementKey> =
            all().filter(|(_, _, of)| of.kept.held.is_some()).map(|(_, key, _)| key).collect();
        let stays = all().filter(|(_, key, _)| !held.contains(key));
        let floors = stays.filter_map(|(name, key, of)| Some(((key.clone(), name.clone()), of.holds.as_ref()?.index)));
        let mut paused: BTreeMap<PlacementKey, BTreeSet<ClusterName>> = BTreeMap::new();
        for (name, key, _) in all().filter(|(_, _, of)| of.kept.paused.is_some()) {
            paused.entry(key.clone()).or_default().insert(name.clone());
        }
        Self { floors: floors.collect(), paused, ..Self::default() }
    }

    fn see(&mut self, fact: &Fact) -> Verdict {
        match fact {
            Fact::Ordered(order) => {
                let spot = (order.placement.clone(), order.cluster.clone());
                if order.remove {
                    // What comes there next is a first delivery.
                    self.floors.remove(&spot);
                }
                match self.floors.get(&spot) {
                    Some(floor) if order.snapshot < *floor => Err(format!(
                        "{} on {} is told snapshot {}, and held {floor} when the store was put back",
                        spot.0, spot.1, order.snapshot
                    )),
                    _ => Ok(()),
                }
            }
            Fact::Kept { key, value: Some(value) } if key == STORE_KEY => {
                let store: StoreRecord = super::check::parse(key, value)?;
                self.unseen = Some(store.unseen).filter(|_| !store.takes_over);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A snapshot that people or a failed rollout said no to is left, and whoever writes a run in git names the snapshot.
    fn note_commands(&mut self, core: &Core) {
        let is_said = |key: &PlacementKey| {
            let Some(state) = core.placements().get(key) else { return true };
            let is_written = |cause: &RunCause| matches!(cause, RunCause::Written { .. });
            state.record.held.is_some() || state.runs.values().any(|run| is_written(&run.cause))
        };
        self.floors.retain(|(key, _), _| !is_said(key));
    }

    /// Returns the placements whose pause is known: some member that knows it has said so.
    fn heard(&self) -> impl Iterator<Item = &PlacementKey> {
        let is_heard = |members: &BTreeSet<ClusterName>| {
            self.unseen.as_ref().is_some_and(|unseen| members.iter().any(|member| !unseen.contains(member)))
        };
        self.paused.iter().filter(move |(_, members)| is_heard(members)).map(|(key, _)| key)
    }

    /// A pause stands until somebody says otherwise, which nobody does here.
    fn stands(&self, core: &Core) -> Verdict {
        for key in self.heard() {
            let Some(state) = core.placements().get(key).filter(|state| state.record.generation > 0) else { continue };
            if state.record.paused.is_none() {
                return Err(format!("{key} was paused before the store was put back, and is not any more"));
            }
        }
        Ok(())
    }
}

/// Members that held something newer than the backup, and pauses.
type Shown = (usize, usize);

/// Returns what a seed has shown, and the digest of its trace.
fn play(seed: u64) -> Result<(Shown, (u64, String)), String> {
    let mut timeline = Timeline::begin(Dice::new(seed ^ 0xbac2));
    let mut simulation = simulation(None, seed);
    simulation.deployment.faults = faults(&mut timeline.dice);
    push(&mut simulation, &mut timeline);
    let backed_up = timeline.dice.between(30, 400);
    let written = timeline.dice.between(backed_up, backed_up + 100);
    let restored = timeline.dice.between(written + 5, written + 300);
    for _ in 0..timeline.dice.between(2, 8) {
        let what = if timeline.dice.chance(600) { CHANGE } else { PERSON };
        simulation.at(Duration::from_secs(timeline.dice.below(restored)), what);
    }
    let marks = [(backed_up, BACK_UP), (written, WRITE), (restored, RESTORE), (restored + 900, END)];
    for (at, mark) in marks {
        simulation.at(Duration::from_secs(at), mark);
    }
    if timeline.dice.chance(400) {
        simulation.at(Duration::from_secs(restored + timeline.dice.between(30, 300)), CHANGE);
    }
    let (mut saved, mut state, mut digest) = (None, Restored::default(), TraceDigest::default());
    while let Some(mut facts) = simulation.step() {
        while !facts.is_empty() {
            for fact in std::mem::take(&mut facts) {
                if let Some(core) = simulation.core() {
                    state.note_commands(core);
                }
                state.see(&fact)?;
                digest.see(simulation.now, &fact);
                match fact {
                    Fact::Mark(CHANGE) => {
                        timeline.change();
                        push(&mut simulation, &mut timeline);
                    }
                    Fact::Mark(WRITE) => {
                        timeline.write_all();
                        push(&mut simulation, &mut timeline);
                    }
                    Fact::Mark(PERSON) => {
                        let verb = *timeline.dice.pick(&[Verb::Pause, Verb::Approve, Verb::Rollback]).ok_or("some")?;
                        let placement = format!("p{}", timeline.dice.below(PLACEMENTS_MAX));
                        let answer = simulation.execute(&order(verb, &placement), &person(0));
                        digest.say(&format!("{verb:?} {placement} {answer:?}"));
                    }
                    Fact::Mark(BACK_UP) => saved = Some(save(&simulation)?),
                    Fact::Mark(RESTORE) => {
                        let (text, known) = saved.take().ok_or("it was saved before")?;
                        digest.note_store(&simulation.store);
                        digest.say(&text);
                        simulation.restore_store(&text)?;
                        state = Restored::begin(&holders(&simulation));
                        state.ahead = state.floors.iter().filter(|(spot, at)| known.get(spot) < Some(at)).count();
                    }
                    Fact::Mark(END) => {
                        let shown = (state.ahead, state.paused.len());
                        return Ok((shown, (seed, digest.finish(&simulation))));
                    }
                    _ => {}
                }
            }
            facts = simulation.facts();
        }
        if let Some(core) = simulation.core() {
            state.stands(core)?;
        }
    }
    Ok(((0, 0), (seed, digest.finish(&simulation))))
}

fn holders(simulation: &SimulatedFleet) -> BTreeMap<ClusterName, BTreeMap<PlacementKey, Parent>> {
    let members = simulation.members.iter();
    members.map(|(name, member)| (name.clone(), member.inventories.clone())).collect()
}

/// Makes a backup of the store. Returns it with what members held meanwhile.
fn save(simulation: &SimulatedFleet) -> Result<(String, BTreeMap<Spot, u64>), String> {
    let text = backup::write(&simulation.store).map_err(|error| error.to_string())?;
    Ok((text, Restored::begin(&holders(simulation)).floors))
}

/// D11: in every seed nobody is sent back by a store that was put back, and what was paused stays so.
#[test]
fn d11_an_older_store_sends_nobody_back() {
    let (count, played) = play_all(SHARE, &[], play);
    let (shown, digests): (Vec<(usize, usize)>, Vec<_>) = played.into_iter().unzip();
    let ahead = shown.iter().filter(|(ahead, _)| *ahead > 0).count();
    let shown = (ahead, shown.iter().map(|(_, paused)| paused).sum::<usize>());
    println!("in {} of {count} seeds members were ahead of the store; {} pauses stood", shown.0, shown.1);
    assert!(shown.0 > 0 && shown.1 > 0, "the seeds show little: {shown:?}");
    digests::compare(Fleet::RestoredStore, digests);
}

/// Forged violations are caught.
#[test]
fn d11_who_is_sent_back_is_caught() {
    let told = super::forged::order("a", 1);
    let spot = (told.placement.clone(), told.cluster.clone());
    let mut state = Restored { floors: [(spot.clone(), 0)].into(), ..Restored::default() };
    state.see(&Fact::Ordered(told.clone())).expect("it is what it holds");
    state.floors.insert(spot, 1);
    let back = state.see(&Fact::Ordered(told)).expect_err("it held something newer");
    assert!(back.contains("told snapshot 0, and held 1"), "{back}");
}

/// A pause is asked for as soon as one of the members that know it was heard.
#[test]
fn d11_a_pause_is_asked_for_when_a_member_has_said_it() {
    let key = PlacementKey::cluster_scoped("p");
    let known_by = BTreeMap::from([(key.clone(), BTreeSet::from(["a".into(), "b".into()]))]);
    let rows: [(&str, bool, &[&str], bool); 4] = [
        ("it takes over still", true, &[], false),
        ("nobody who knows it has answered", false, &["a", "b", "c"], false),
        ("one has answered", false, &["b"], true),
        ("all have answered", false, &[], true),
    ];
    for (name, takes_over, unseen, is_heard) in rows {
        let mut state = Restored { paused: known_by.clone(), ..Restored::default() };
        let unseen = unseen.iter().map(|name| ClusterName::from(*name)).collect();
        let store = StoreRecord { takes_over, unseen, ..StoreRecord::new(jiff::Timestamp::UNIX_EPOCH) };
        let value = serde_json::to_vec(&store).expect("a record can be written");
        state.see(&Fact::Kept { key: STORE_KEY.to_owned(), value: Some(value.into()) }).expect("it is a record");
        assert_eq!(state.heard().next(), Some(&key).filter(|_| is_heard), "{name}");
    }
}
