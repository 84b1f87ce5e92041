//! Meetings: features act on a placement between one commit and the next. Which ones is the theme of the placement in that seed: a pair that the
//! number of the seed names, so that each pair gets its seeds, and beside it something that meets others seldom.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Core;
use model::commands::{Command, Verb};
use model::id::ClusterName;
use plan::simulate::Dice;

use super::check::Verdict;
use super::pairs::{
    self, APPROVERS, CLUSTER_SCOPED, DELETION_GATE, EVICT, EXPIRED, FAILURE, FOLLOW_UP, HAND_OVER, HOLD, JOIN, LEAVE,
    NAMESPACED, OFFLINE, OVERRIDES, PAUSE, RELABEL, RENAME, RESTART, ROLLBACK, ROLLING, STAGED, SUPERSEDED, SUSPEND,
    TENANT, WRITTEN_RUN,
};
use super::timeline::{Act, PLACEMENTS_MAX, Timeline};
use super::{Run, key_of, order, person};

/// Marks from this one on are steps of meetings.
pub const STEP: u64 = 1000;
/// The placement that is of the tenant, where there is one.
const TENANTS: u64 = 0;
/// When the commits in which features meet come, in seconds.
const MAINS: [u64; 3] = [95, 285, 475];
/// How long before that everything is repaired, and how long before that people let on what waits.
const REPAIR: i64 = -90;
const LET_ON: [i64; 3] = [-82, -72, -62];
/// Of a thousand placements in a meeting one more thing happens to so many.
const MORE: u64 = 100;
/// Of a thousand meetings of several daemons another takes over in so many.
const TAKE_OVER: u64 = 800;
/// Of a thousand who roll back so many name the snapshot.
const BY_NAME: u64 = 600;

/// What is done for a feature.
#[derive(Clone, Copy)]
enum What {
    Act(Act),
    Say(Verb),
    LetOn,
    /// A cluster of the placement does not answer.
    Away,
    Crash,
}

/// What is done, and how many seconds after the commit in which it is to meet something.
type Way = &'static [(i64, What)];

use What::{Away, Crash, LetOn, Say};

const fn act(act: Act) -> What {
    What::Act(act)
}

/// What provokes each feature: one of these ways. Where there is none, the placement only is so.
const WAYS: [(&str, &[Way]); 25] = [
    (CLUSTER_SCOPED, &[]),
    (NAMESPACED, &[]),
    (STAGED, &[]),
    (ROLLING, &[&[(0, act(Act::Unstage))]]),
    (OVERRIDES, &[&[(0, act(Act::Override))], &[]]),
    (
        HAND_OVER,
        &[
            &[(-56, Say(Verb::Pause)), (-52, act(Act::Split)), (-42, LetOn), (-34, LetOn), (-26, LetOn)],
            &[(0, act(Act::Split))],
            &[(-4, act(Act::Split))],
        ],
    ),
    (
        ROLLBACK,
        &[&[(0, act(Act::Renew)), (5, Say(Verb::Rollback))], &[(0, act(Act::Renew)), (12, Say(Verb::Rollback))]],
    ),
    (
        HOLD,
        &[
            &[(-30, act(Act::Renew)), (-22, Say(Verb::Rollback))],
            &[(0, act(Act::Renew)), (5, Say(Verb::Rollback))],
            &[(-30, act(Act::Renew)), (-18, Say(Verb::Reject))],
        ],
    ),
    (PAUSE, &[&[(-6, Say(Verb::Pause))], &[(3, Say(Verb::Pause))], &[(15, Say(Verb::Pause))]]),
    (DELETION_GATE, &[&[(0, act(Act::RemoveGuarded))], &[(-15, act(Act::RemoveGuarded))]]),
    (LEAVE, &[&[(0, act(Act::Leave))]]),
    (JOIN, &[&[(0, act(Act::Join))]]),
    (RELABEL, &[&[(0, act(Act::Relabel))]]),
    (EVICT, &[&[(0, act(Act::Evict))]]),
    (SUSPEND, &[&[(0, act(Act::Suspend))]]),
    (OFFLINE, &[&[(-10, Away)], &[(4, Away)]]),
    (TENANT, &[]),
    (FOLLOW_UP, &[&[(-12, act(Act::Join))], &[(-12, act(Act::Override))], &[(0, act(Act::Join))]]),
    (WRITTEN_RUN, &[&[(0, act(Act::WriteRun))], &[(-8, act(Act::WriteRun))]]),
    (SUPERSEDED, &[&[(-8, act(Act::Renew)), (0, act(Act::Renew))]]),
    (RENAME, &[&[(0, act(Act::Rename))], &[(-10, act(Act::Rename)), (0, act(Act::RenameBack))]]),
    (
        EXPIRED,
        &[&[(-52, act(Act::Renew)), (5, Say(Verb::Approve)), (58, Say(Verb::Approve)), (75, Say(Verb::Approve))]],
    ),
    (
        APPROVERS,
        &[
            &[(0, act(Act::Renew)), (0, act(Act::Approvers)), (8, Say(Verb::Approve)), (16, Say(Verb::Approve))],
            &[(-12, act(Act::Renew)), (0, act(Act::Approvers)), (4, Say(Verb::Approve)), (12, Say(Verb::Approve))],
            &[(-8, act(Act::Approvers)), (0, act(Act::Renew)), (8, Say(Verb::Approve)), (16, Say(Verb::Approve))],
            &[
                (-12, act(Act::Renew)),
                (-12, act(Act::Approvers)),
                (-2, Say(Verb::Approve)),
                (0, act(Act::ApproversBack)),
                (8, Say(Verb::Approve)),
            ],
        ],
    ),
    (FAILURE, &[&[(0, act(Act::Break))], &[(-15, act(Act::Break))]]),
    (RESTART, &[&[(3, Crash)]]),
];

/// What meets often by itself: no seed is about two of these.
const EASY: [&str; 8] = [CLUSTER_SCOPED, STAGED, ROLLING, RELABEL, SUSPEND, OFFLINE, TENANT, RESTART];

/// What meets seldom: each placement has one of these beside its pair.
const HARD: [&str; 10] =
    [ROLLBACK, HOLD, DELETION_GATE, EVICT, WRITTEN_RUN, EXPIRED, HAND_OVER, JOIN, FOLLOW_UP, APPROVERS];

/// What meets too seldom although seeds are about it (`pairs/rare.txt`): several times as many seeds are about these pairs as about others.
const RARE: [[&str; 2]; 4] =
    [[HAND_OVER, ROLLBACK], [HAND_OVER, EVICT], [HAND_OVER, WRITTEN_RUN], [HAND_OVER, FAILURE]];
/// So many seeds more are about each of them.
const RARE_MORE: usize = 4;

fn ways(feature: &str) -> &'static [Way] {
    WAYS.iter().find(|(of, _)| *of == feature).map_or(&[], |(_, ways)| ways)
}

/// The themes of a seed, by placement: features that are to meet.
#[derive(Clone)]
pub struct Themes(BTreeMap<u64, Vec<&'static str>>);

impl Themes {
    /// Returns those of a seed of a kind of fleet that has no such features.
    pub fn of(seed: u64, without: &[&str]) -> Self {
        let all = WAYS.iter().map(|(feature, _)| *feature).filter(|feature| !without.contains(feature));
        let all: Vec<&str> = all.collect();
        let pairs = all.iter().enumerate().flat_map(|(at, first)| all[at + 1..].iter().map(|second| [*first, *second]));
        let is_one = |[first, second]: &[&'static str; 2]| {
            !(EASY.contains(first) && EASY.contains(second)) && pairs::can_meet(first, second)
        };
        let mut pairs: Vec<[&str; 2]> = pairs.filter(is_one).collect();
        let rare = RARE.iter().filter(|pair| pair.iter().all(|feature| !without.contains(feature)));
        pairs.extend(rare.copied().collect::<Vec<_>>().repeat(RARE_MORE));
        let count = pairs.len() as u64;
        // Seeds that follow one another are about other features, and another placement gets the pair the next time.
        let theme = |number: u64| {
            let place = seed * PLACEMENTS_MAX + number;
            let stride = (count / 3..count).find(|stride| are_coprime(*stride, count)).unwrap_or(1);
            let mut theme = pairs[usize::try_from((place + place / count) * stride % count).unwrap_or(0)].to_vec();
            let fits =
                |one: &&&str| !without.contains(*one) && theme.iter().all(|of| of != *one && pairs::can_meet(of, one));
            let hard: Vec<&&str> = HARD.iter().filter(fits).collect();
            theme.extend(Dice::new(place ^ 0x7e3e_0000).pick(&hard).copied().copied());
            theme
        };
        let mut themes: Vec<Vec<&str>> = (0..PLACEMENTS_MAX).map(theme).collect();
        if let Some(of_tenant) = themes.iter().position(|theme| theme.contains(&TENANT)) {
            themes.swap(of_tenant, usize::try_from(TENANTS).unwrap_or(0));
        }
        Self((0..).zip(themes).collect())
    }

    /// Tells whether one is about a feature.
    pub fn has(&self, feature: &str) -> bool {
        self.0.values().any(|theme| theme.contains(&feature))
    }

    /// Lets the placements of a fleet be such that the features can act on them.
    pub fn suit(&self, timeline: &mut Timeline) {
        for (number, theme) in &self.0 {
            timeline.suit(*number, theme);
        }
    }

    fn is_within(&self, number: u64, dice: &mut Dice) -> bool {
        let theme = &self.0[&number];
        theme.contains(&NAMESPACED) || !theme.contains(&CLUSTER_SCOPED) && !theme.contains(&EVICT) && dice.chance(300)
    }
}

fn are_coprime(one: u64, other: u64) -> bool {
    if other == 0 { one == 1 } else { are_coprime(other, one % other) }
}

/// One thing that happens for a meeting.
#[derive(Clone)]
pub enum Step {
    /// What is broken is repaired.
    Repair,
    /// People let on what waits.
    LetOn(u64),
    Commit(Vec<(u64, Act)>),
    Say(u64, Verb),
    Away(u64),
    Crash,
    /// The daemon that leads is gone for a while.
    TakeOver,
}

/// The meetings of a seed.
#[derive(Clone)]
pub struct Meetings {
    pub themes: Themes,
    pub dice: Dice,
    pub steps: Vec<Step>,
}

impl Meetings {
    pub fn of(themes: Themes, dice: Dice) -> Self {
        Self { themes, dice, steps: Vec::new() }
    }

    /// Plans a seed: each step with its instant; what comes then is the mark of it.
    pub fn plan(&mut self, is_shared: bool) -> Vec<(Duration, u64)> {
        let mut marks = Vec::new();
        for main in MAINS {
            let main = Duration::from_millis(main * 1000 + self.dice.below(8000));
            marks.extend(self.plan_one(main));
            if is_shared && self.dice.chance(TAKE_OVER) {
                let at = main + Duration::from_secs(self.dice.below(6));
                marks.push(self.step(at, 0, Step::TakeOver));
            }
        }
        marks
    }

    fn step(&mut self, main: Duration, at: i64, step: Step) -> (Duration, u64) {
        self.steps.push(step);
        let after = Duration::from_secs(at.unsigned_abs());
        let instant = if at < 0 { main.saturating_sub(after) } else { main + after };
        (instant, STEP + self.steps.len() as u64 - 1)
    }

    /// Plans one meeting with its commit at an instant.
    pub fn plan_one(&mut self, main: Duration) -> Vec<(Duration, u64)> {
        let mut marks = vec![self.step(main, REPAIR, Step::Repair)];
        let mut commits: BTreeMap<i64, Vec<(u64, Act)>> = BTreeMap::from([(0, Vec::new())]);
        for (number, theme) in self.themes.0.clone() {
            marks.extend(LET_ON.map(|at| self.step(main, at, Step::LetOn(number))));
            for feature in theme {
                let way = self.dice.pick(ways(feature)).copied().unwrap_or_default();
                for (at, what) in way {
                    let step = match what {
                        What::Act(act) => {
                            commits.entry(*at).or_default().push((number, *act));
                            continue;
                        }
                        Say(verb) => Step::Say(number, *verb),
                        LetOn => Step::LetOn(number),
                        Away => Step::Away(number),
                        Crash => Step::Crash,
                    };
                    marks.push(self.step(main, *at, step));
                }
            }
            if self.dice.chance(MORE) {
                let act = *self.dice.pick(&Act::ALL).expect("there are some");
                commits.entry(0).or_default().push((number, act));
            }
        }
        for (at, mut acts) in commits {
            // What names a placement names it as it is called then.
            acts.sort_by_key(|(_, act)| !matches!(act, Act::Rename | Act::RenameBack));
            marks.push(self.step(main, at, Step::Commit(acts)));
        }
        marks
    }

    /// Tells whether objects go from one placement to another in one of them.
    pub fn hand_over(&self) -> bool {
        let hands_over = |act: &Act| matches!(act, Act::Rename | Act::RenameBack | Act::HandOver | Act::Split);
        let does = |step: &Step| matches!(step, Step::Commit(acts) if acts.iter().any(|(_, act)| hands_over(act)));
        self.steps.iter().any(does)
    }

    /// Returns a step, where a mark is one.
    pub fn at(&self, mark: u64) -> Option<Step> {
        let at = mark.checked_sub(STEP)?;
        self.steps.get(usize::try_from(at).ok()?).cloned()
    }

    /// Lets what a step says be in the next commit. Returns whether there is one.
    pub fn write(&mut self, step: &Step, timeline: &mut Timeline) -> bool {
        match step {
            Step::Repair => {
                for (number, theme) in &self.themes.0 {
                    timeline.make_ready(*number, theme, &mut self.dice);
                }
            }
            Step::Commit(acts) => {
                for (number, act) in acts {
                    timeline.act(*act, *number, &mut self.dice);
                }
            }
            _ => return false,
        }
        true
    }

    /// Returns what a person says. Who rolls back names the snapshot before the newest now and then: none may have succeeded yet.
    pub fn word(&mut self, verb: Verb, target: &str, core: Option<&Core>) -> Command {
        let state = core.and_then(|core| core.placements().get(&key_of(target)));
        let before = state.and_then(|state| state.snapshots.keys().rev().nth(1).copied());
        let to = before.filter(|_| verb == Verb::Rollback && self.dice.chance(BY_NAME));
        Command { to, ..order(verb, target) }
    }

    /// Returns whom a person means by a placement of a theme.
    pub fn target(&mut self, number: u64, timeline: &Timeline) -> String {
        let is_within = self.themes.is_within(number, &mut self.dice);
        timeline.meant(number, is_within)
    }
}

impl Run {
    /// One thing happens for a meeting.
    pub(super) fn meet(&mut self, mark: u64) -> Verdict {
        let Some(step) = self.meetings.at(mark) else { return Ok(()) };
        if self.meetings.write(&step, &mut self.timeline) {
            self.push(false);
        }
        match step {
            Step::Repair => {
                for number in 0..super::timeline::CLUSTERS_MAX {
                    self.simulation.set_reachable(&ClusterName::new(format!("c{number}")), true);
                }
            }
            Step::LetOn(number) => {
                for is_within in [false, true] {
                    let target = self.timeline.meant(number, is_within);
                    if self.waits_at(&target) {
                        self.let_on(&target)?;
                    }
                }
            }
            Step::Commit(_) => self.say_that("features meet in one commit".to_owned()),
            Step::Say(number, verb) => {
                let target = self.meetings.target(number, &self.timeline);
                let stage = self.waiting(&target).filter(|_| verb == Verb::Approve);
                let word = self.meetings.word(verb, &target, self.simulation.core());
                // Who approves first is sometimes the one who is not named.
                let by = if verb == Verb::Approve { self.checker.seen % 2 } else { 0 };
                return self.command(&Command { stage, ..word }, &person(by));
            }
            Step::Away(number) => {
                let cluster = self.timeline.any_of(number, &mut self.meetings.dice);
                self.checker.calm_since = self.simulation.now;
                self.simulation.set_reachable(&ClusterName::new(format!("c{cluster}")), false);
            }
            Step::Crash => {
                self.checker.calm_since = self.simulation.now;
                self.simulation.crash();
            }
            Step::TakeOver => {
                let leader = self.simulation.leader();
                if self.meetings.dice.chance(500) {
                    self.simulation.kill(leader);
                } else {
                    self.simulation.pause(leader, Duration::from_secs(30));
                }
                self.say_that(format!("replica {leader} leads no more"));
            }
        }
        Ok(())
    }
}
