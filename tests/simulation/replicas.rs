//! 12: several daemons on one store: no batch of an old epoch is in it, and no two of them write to one member for longer than
//! docs/design/054 says. All other promises hold as with one daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::id::ClusterName;
use plan::simulate::Dice;
use simulated::{Fact, Guards, LATE_MAX, MachineFact};

use super::check::Verdict;
use super::digests::{self, Fleet};
use super::pairs;
use super::timeline::CLUSTERS_MAX;
use super::{Line, Run, is_each_missed, play_all};

/// Of the seeds of a run one of this number is run here.
const SHARE: u64 = 4;
/// The length of the lease.
pub const LEASE: Duration = Duration::from_secs(15);
/// How long something is wrong between replicas, in seconds.
const WRONG_S: (u64, u64) = (1, 60);
/// Faults come within so many milliseconds: see `END`.
const UNTIL_MS: u64 = 600_000;
/// How far clocks are set at most, in seconds.
const JUMP_S: u64 = 3600;
/// Seeds that are tried until a guard is missed that is switched off.
const FORGED_MAX: u64 = 100;

/// Something goes wrong between replicas.
pub const FAULT: u64 = 64;
/// Faults are over: the leader keeps its lease.
pub const KEEP: u64 = 65;

/// The replicas of a seed, and what was seen of them.
pub struct Watched {
    dice: Dice,
    /// When each epoch began; the last is the newest.
    led: BTreeMap<u64, Timestamp>,
    /// How far the database's clock was set ahead: the lease may have ended so much too early.
    ahead: Duration,
    /// Writes may arrive late at members.
    is_late: bool,
    /// The database's clock may be set.
    sets_database_clock: bool,
    guards: Guards,
    /// What the seed showed.
    shown: Shown,
}

/// What a seed has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    take_overs: usize,
    replaced: usize,
    /// Writes of an old epoch that reached a member after a newer one began.
    late_writes: usize,
}

impl Watched {
    fn of(seed: u64, guards: Guards) -> Self {
        let mut dice = Dice::new(seed ^ 0x12e9);
        let is_late = dice.chance(500);
        Self {
            dice,
            led: BTreeMap::new(),
            ahead: Duration::ZERO,
            is_late,
            sets_database_clock: true,
            guards,
            shown: Shown::default(),
        }
    }

    /// Returns those of a seed beside agents, with all guards. The database's clock stays right: 052 says that agents need it.
    pub fn beside_agents(seed: u64) -> Self {
        Self { sets_database_clock: false, ..Self::of(seed, GUARDED) }
    }

    fn see(&mut self, fact: &Fact, now: Timestamp) -> Verdict {
        let newest = self.led.last_key_value().map_or(0, |(epoch, _)| *epoch);
        match fact {
            Fact::Own(MachineFact::Led { epoch, .. }) if *epoch != newest + 1 => {
                Err(format!("12: epoch {epoch} comes after {newest}"))
            }
            Fact::Own(MachineFact::Led { epoch, .. }) => {
                self.shown.take_overs += usize::from(newest > 0);
                self.led.insert(*epoch, now);
                Ok(())
            }
            Fact::Own(MachineFact::Batch { epoch }) if *epoch != newest => {
                Err(format!("12: a batch of epoch {epoch} is in the store, and epoch {newest} has begun"))
            }
            Fact::Own(MachineFact::Replaced { .. }) => {
                self.shown.replaced += 1;
                Ok(())
            }
            // Writes of agents have promises of their own: `agents.rs`.
            Fact::Own(MachineFact::Wrote { agent: None, cluster, epoch, passed, left }) => {
                self.wrote(cluster, *epoch, (*passed, *left), now)
            }
            _ => Ok(()),
        }
    }

    /// A write of an old epoch began before the next epoch did, and arrived within its bound.
    fn wrote(
        &mut self,
        cluster: &ClusterName,
        epoch: u64,
        (passed, left): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> Verdict {
        if now > left + LATE_MAX {
            return Err(format!(
                "12: {cluster} is written under epoch {epoch} {} after the write left",
                now.duration_since(left)
            ));
        }
        let Some((next, began)) = self.led.range(epoch + 1..).next() else { return Ok(()) };
        self.shown.late_writes += 1;
        // A lease ends too early by as much as the database's clock was set ahead.
        let most = self.ahead.min(LEASE);
        if passed > *began + most {
            return Err(format!(
                "12: {cluster} is written under epoch {epoch} at {passed}, and epoch {next} began at {began}"
            ));
        }
        if !self.is_late && now > *began + most + LATE_MAX {
            return Err(format!(
                "12: a write under epoch {epoch} reaches {cluster} long after epoch {next} began at {began}"
            ));
        }
        Ok(())
    }
}

impl Run {
    /// Begins with several daemons.
    pub(super) fn replicate(&mut self, mut watched: Watched) {
        let dice = &mut watched.dice;
        let count = usize::try_from(dice.between(2, 3)).unwrap_or(2);
        self.simulation.replicate(count, LEASE);
        self.simulation.set_guards(watched.guards);
        let faults = &mut self.simulation.deployment.faults;
        let mut some = |most: u64| if dice.chance(500) { dice.between(1, most) } else { 0 };
        (faults.batch_late, faults.lease_unsure) = (some(100), some(300));
        if watched.guards.counts_from_answer {
            // It shows where answers are late.
            faults.lease_unsure = 900;
        }
        faults.late_write = if watched.is_late { 500 } else { 0 };
        faults.slow_write = if watched.is_late { some(200) } else { 0 };
        self.checker.is_lenient = watched.is_late;
        for _ in 0..dice.between(4, 12) {
            self.simulation.at(Duration::from_millis(dice.between(5_000, UNTIL_MS)), FAULT);
        }
        self.replicas = Some(watched);
    }

    pub(super) fn watch_replicas(&mut self, fact: &Fact) -> Verdict {
        let now = self.simulation.now;
        self.replicas.as_mut().map_or(Ok(()), |watched| watched.see(fact, now))
    }

    /// Something goes wrong between replicas, or between one and the database or a member.
    pub(super) fn fail_replica(&mut self) {
        let Some(watched) = &mut self.replicas else { return };
        let (dice, count, leader) = (&mut watched.dice, self.simulation.replicas(), self.simulation.leader());
        let other = usize::try_from(dice.below(count as u64)).unwrap_or(0);
        let replica = if dice.chance(700) { leader } else { other };
        let length = Duration::from_secs(dice.between(WRONG_S.0, WRONG_S.1));
        let seconds = SignedDuration::from_secs(i64::try_from(dice.below(JUMP_S)).unwrap_or(0));
        let words = match dice.below(9) {
            0 | 1 => {
                self.simulation.pause(replica, length);
                format!("replica {replica} is STOPPED for {length:?}")
            }
            2 => {
                self.simulation.kill(replica);
                format!("replica {replica} is KILLED")
            }
            3 | 4 => {
                self.simulation.cut_from_database(replica, length);
                format!("replica {replica} is cut off from the DATABASE for {length:?}")
            }
            5 => {
                let cluster = ClusterName::new(format!("c{}", dice.below(CLUSTERS_MAX)));
                self.simulation.cut_from_member(replica, &cluster, length);
                format!("replica {replica} is cut off from {cluster} for {length:?}")
            }
            6 => {
                self.simulation.cut_from_replica(leader, other, length);
                format!("replicas {leader} and {other} are cut off from each other for {length:?}")
            }
            7 => {
                let skew = if dice.chance(300) { -seconds } else { seconds };
                self.simulation.set_clock_of(replica, skew);
                format!("the wall clock of replica {replica} is set by {skew:#}")
            }
            _ if watched.is_late && watched.sets_database_clock && dice.chance(300) => {
                watched.ahead += length;
                // It measures what passes between two leaders, so waits end early by as much: docs/design/020.
                self.checker.early += SignedDuration::try_from(length).unwrap_or_default();
                self.simulation.set_database_clock(SignedDuration::try_from(watched.ahead).unwrap_or_default());
                format!("the DATABASE's clock is set ahead by {length:?}")
            }
            _ => {
                let down = length / 3;
                self.simulation.restart_database(down);
                format!("the DATABASE restarts and is away for {down:?}")
            }
        };
        self.say_that(words);
    }

    pub(super) fn heal_replicas(&mut self) {
        self.simulation.heal();
        if self.replicas.is_some() {
            self.simulation.at(2 * LEASE, KEEP);
        }
    }

    /// The leader keeps its lease for good, as soon as there is one.
    pub(super) fn keep_leader(&mut self) {
        if !self.simulation.keep_leader() {
            self.simulation.at(LEASE, KEEP);
        }
    }
}

const GUARDED: Guards = Guards { epoch: true, fence: true, counts_from_answer: false };

/// Returns what a seed has shown, and the digest of its trace.
fn play(seed: u64, guards: Guards) -> Result<(Shown, String, pairs::Hits), String> {
    let mut run = Run::begin_as(seed, Some(Watched::of(seed, guards)));
    run.finish()?;
    let digest = digests::of_run(&run);
    Ok((run.replicas.map(|watched| watched.shown).unwrap_or_default(), digest, run.pairs.end(&run.simulation.store)))
}

/// Every promise holds with replicas, too, and traces are as the kept digests say.
#[test]
fn replicas_keep_the_promises() {
    let (count, played) = play_all(SHARE, &[], |seed| match play(seed, GUARDED) {
        Ok((shown, digest, met)) => Ok(((shown, met), (seed, digest))),
        Err(why) => {
            let again = "cargo test --test simulation -- --nocapture one_seed_with_replicas";
            Err(format!("{why:.300}\n  GITFLEET_SEED={seed} {again}"))
        }
    });
    let (shown, digests): (Vec<_>, Vec<_>) = played.into_iter().unzip();
    let (shown, hits): (Vec<_>, Vec<_>) = shown.into_iter().unzip();
    pairs::write(Fleet::Replicas, hits);
    let sum = |of: fn(&Shown) -> usize| shown.iter().map(of).sum::<usize>();
    let (take_overs, replaced) = (sum(|s| s.take_overs), sum(|s| s.replaced));
    let late = sum(|s| s.late_writes);
    println!(
        "{count} seeds with replicas: {take_overs} take-overs, {replaced} batches of an old epoch refused, {late} late writes"
    );
    assert!(count < 50 || take_overs > 0 && replaced > 0, "the seeds show little");
    assert!(count < 100 || late > 0, "no seed shows a late write");
    digests::compare(Fleet::Replicas, digests);
}

/// One seed with replicas, with its whole trace where `--nocapture` shows it.
#[test]
fn one_seed_with_replicas() {
    let seed = super::number("GITFLEET_SEED").unwrap_or(1);
    let mut run = Run::begin_as(seed, Some(Watched::of(seed, GUARDED)));
    let verdict = run.finish();
    println!("{}", digests::text_of(&run));
    assert!(
        run.trace.0.iter().any(|(_, line)| matches!(line, Line::Seen(Fact::Own(MachineFact::Led { .. })))),
        "nobody led in seed {seed}"
    );
    assert_eq!(verdict, Ok(()), "seed {seed}");
}

#[test]
fn a_missing_guard_is_caught() {
    let rows = [
        ("the epoch is not checked", Guards { epoch: false, ..GUARDED }, "12: a batch of epoch", 1),
        ("there is no fence", Guards { fence: false, ..GUARDED }, "is written under epoch", 7),
        (
            "the lease is counted from the answer",
            Guards { counts_from_answer: true, ..GUARDED },
            "is written under epoch",
            31,
        ),
    ];
    is_each_missed("12:", FORGED_MAX, &rows, |seed, guards| play(seed, guards).map(drop));
}

/// A name, what happened at which second, and what the check says.
type ForgedRow = (&'static str, Vec<(i64, Fact)>, Option<&'static str>);

/// Forged facts are caught.
#[test]
fn a_forged_history_is_caught() {
    let at = |second: i64| Timestamp::from_second(1_000_000 + second).expect("an instant");
    let led = |epoch| Fact::Own(MachineFact::Led { replica: 0, epoch });
    let wrote = |epoch, passed, left| {
        Fact::Own(MachineFact::Wrote { agent: None, cluster: "a".into(), epoch, passed: at(passed), left: at(left) })
    };
    let rows: [ForgedRow; 8] = [
        (
            "batches in order",
            vec![
                (0, led(1)),
                (1, Fact::Own(MachineFact::Batch { epoch: 1 })),
                (20, led(2)),
                (21, Fact::Own(MachineFact::Batch { epoch: 2 })),
            ],
            None,
        ),
        (
            "a batch of an old epoch",
            vec![(0, led(1)), (20, led(2)), (21, Fact::Own(MachineFact::Batch { epoch: 1 }))],
            Some("12: a batch of epoch 1"),
        ),
        ("an epoch twice", vec![(0, led(1)), (20, led(1))], Some("12: epoch 1 comes after 1")),
        ("a write in its time", vec![(0, led(1)), (5, wrote(1, 4, 4)), (20, led(2))], None),
        ("a late write within its bound", vec![(0, led(1)), (20, led(2)), (25, wrote(1, 10, 10))], None),
        (
            "a write that began too late",
            vec![(0, led(1)), (20, led(2)), (25, wrote(1, 21, 21))],
            Some("12: a is written under epoch 1 at"),
        ),
        ("a write that took too long", vec![(0, led(1)), (35, wrote(1, 4, 4))], Some("12: a is written under epoch 1")),
        (
            "a write of a process that was stopped",
            vec![(0, led(1)), (20, led(2)), (50, wrote(1, 10, 50))],
            Some("12: a write under epoch 1 reaches a"),
        ),
    ];
    for (name, facts, wanted) in rows {
        let mut watched = Watched { is_late: false, ..Watched::of(0, GUARDED) };
        let verdict = facts.iter().try_for_each(|(second, fact)| watched.see(fact, at(*second)));
        match (verdict, wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
}
