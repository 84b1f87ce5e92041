//! What else happens in a share of the seeds, each kind from dice of its own: all other seeds stay as they are.

use std::collections::BTreeSet;
use std::time::Duration;

use plan::simulate::Dice;
use simulated::{Fact, MachineFact, SimulatedFleet};

use super::check::Verdict;
use super::meetings::STEP;
use super::{Line, Run, Trace};

/// Of a thousand seeds so many have one kind of twist.
const SHARE: u64 = 150;
/// Twists come within so many milliseconds, as faults do: see `END`.
const UNTIL_MS: u64 = 600_000;

/// Somebody else comes to own an object.
pub const OWN: u64 = 16;
/// Placements leave their objects behind from now on, or do not.
pub const ABANDON: u64 = 17;
/// A placement is renamed.
pub const RENAME: u64 = 18;
/// Somebody pushes while the daemon is down.
pub const START: u64 = 19;
/// A source that was away is back.
pub const BACK: u64 = 20;
/// Something breaks, and is fixed a moment later.
pub const BREAK: u64 = 21;
/// The fix comes.
pub const FIX: u64 = 22;
/// Somebody changes an object, and the API server refuses to put it back.
pub const REFUSE: u64 = 23;
/// The daemon ends while an object is refused.
pub const END_LIFE: u64 = 24;
/// The API server refuses nothing any more.
pub const RELENT: u64 = 25;
/// Another branch is checked out.
pub const SWITCH: u64 = 26;

/// Most objects get new content.
pub const CONTENT: u64 = 27;

/// What traces say when one comes.
const NAMES: [(u64, &str); 8] = [
    (OWN, "an object has another owner"),
    (ABANDON, "placements leave objects behind, or do not"),
    (RENAME, "a placement is renamed"),
    (START, "somebody pushes while the daemon is down"),
    (BREAK, "something breaks and is fixed"),
    (REFUSE, "a put-back is refused"),
    (SWITCH, "another branch is checked out"),
    (STEP, "features meet in one commit"),
];

/// The dice of each kind of twist that a seed has.
pub struct Twists {
    pub owners: Option<Dice>,
    pub abandons: Option<Dice>,
    pub renames: Option<Dice>,
    pub starts: Option<Dice>,
    pub fixes: Option<Dice>,
    pub put_backs: Option<Dice>,
    pub switches: Option<Dice>,
}

impl Twists {
    /// Throws for the twists of a seed; many have none.
    pub fn of(seed: u64) -> Self {
        let some = |salt: u64| {
            let mut dice = Dice::new(seed ^ salt);
            dice.chance(SHARE).then_some(dice)
        };
        Self {
            owners: some(0x0077_6e65),
            abandons: some(0x00ab_a4d0),
            renames: some(0x0e4a_e000),
            starts: some(0x57a4_7000),
            fixes: some(0x0f1e_d000),
            put_backs: some(0x9070_bac0),
            switches: some(0x5317_c400),
        }
    }

    /// Says when they come.
    pub fn plan(&mut self, simulation: &mut SimulatedFleet) {
        let all = [
            (&mut self.owners, OWN, 4),
            (&mut self.abandons, ABANDON, 3),
            (&mut self.renames, RENAME, 3),
            (&mut self.starts, START, 3),
            (&mut self.fixes, BREAK, 2),
            (&mut self.put_backs, REFUSE, 3),
            (&mut self.switches, SWITCH, 1),
        ];
        for (dice, mark, most) in all {
            let Some(dice) = dice else { continue };
            for _ in 0..dice.between(1, most) {
                simulation.at(Duration::from_millis(dice.below(UNTIL_MS)), mark);
            }
        }
    }
}

/// Returns which of them a trace shows, and what came of them.
pub fn shown(trace: &Trace) -> BTreeSet<&'static str> {
    let of_line = |line: &Line| match line {
        Line::Said(words) => NAMES.iter().map(|(_, name)| *name).find(|name| words == name),
        Line::Seen(Fact::Applied { was_foreign: true, .. }) => Some("a shared object is written"),
        Line::Seen(Fact::Released { order, .. }) if order.abandon => Some("an object is left behind"),
        Line::Seen(Fact::Released { .. }) => Some("a shared object is given up"),
        Line::Seen(Fact::Own(MachineFact::Restored { .. })) => Some("a member is restored from a backup"),
        Line::Seen(_) => None,
    };
    trace.0.iter().filter_map(|(_, line)| of_line(line)).collect()
}

/// How many things [`shown`] can name.
pub const SHOWN: usize = NAMES.len() + 4;

impl Run {
    /// Lets a twist come.
    pub(super) fn twist(&mut self, mark: u64) -> Verdict {
        if let Some((_, name)) = NAMES.iter().find(|(of, _)| *of == mark) {
            self.say_that((*name).to_owned());
        }
        match mark {
            OWN => self.own(),
            ABANDON => self.abandon(),
            RENAME => self.rename(),
            START => self.start_with_newer(),
            BACK => return self.source_returns(),
            BREAK => self.break_something(),
            FIX => self.fix(),
            REFUSE => self.refuse_put_back(),
            END_LIFE => self.simulation.crash(),
            RELENT => self.relent(),
            SWITCH => self.switch(),
            STEP.. => return self.meet(mark),
            CONTENT => {
                self.timeline.write_all();
                self.push(true);
            }
            _ => {}
        }
        Ok(())
    }

    /// Another branch is checked out: its tip waits for a person.
    fn switch(&mut self) {
        self.timeline.change();
        self.push_as(false, true);
    }
}
