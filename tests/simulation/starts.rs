//! 7: a life begins nothing before it has seen its source, nor anything of a commit that a newer one had replaced by then.

use std::time::Duration;

use model::commands::Verb;
use model::id::CommitId;
use simulated::Fact;

use super::check::{Checker, Spot, Verdict};
use super::twists::BACK;
use super::{Run, order, person};

/// Of a thousand starts with a newer commit so many find their source away.
const AWAY: u64 = 400;
/// How long a source is away at most, in seconds.
const AWAY_MAX_S: u64 = 60;
/// Of a thousand sources that are away, people continue without so many.
const WITHOUT: u64 = 250;

/// What a life may begin with.
#[derive(Default)]
pub struct Start {
    /// Every push, each with whether it does not descend from the one before.
    pushed: Vec<(CommitId, bool)>,
    /// The source was not seen in this life, and nobody said to continue without it.
    is_unseen: bool,
    /// The commit that was there when this life began, newer than the accepted one.
    waiting: Option<CommitId>,
}

impl Start {
    /// Tells whether a life waits for its source.
    pub fn is_unseen(&self) -> bool {
        self.is_unseen
    }
}

impl Checker {
    /// Somebody pushed; `is_held` where history was rewritten, or another branch checked out.
    pub fn note_push(&mut self, commit: &CommitId, is_held: bool) {
        let is_good = self.wishes.get(commit).is_some_and(|wish| wish.is_good);
        self.start.pushed.push((commit.clone(), is_held));
        // What is read next is this one, which does not be accepted.
        if is_held || !is_good {
            self.start.waiting = None;
        }
    }

    /// A person lets the accepted commit continue without its source.
    pub fn continue_unread(&mut self) {
        (self.start.is_unseen, self.start.waiting) = (false, None);
    }

    pub(super) fn note_start(&mut self, fact: &Fact) {
        match fact {
            Fact::Began => {
                self.start.is_unseen = true;
                self.start.waiting = self.newer();
            }
            Fact::SourceSeen => self.start.is_unseen = false,
            Fact::Accepted(commit) => {
                let number = |commit: &CommitId| self.wishes.get(commit).map(|wish| wish.number);
                let is_reached = self.start.waiting.as_ref().is_some_and(|waiting| number(waiting) <= number(commit));
                self.start.waiting.take_if(|_| is_reached);
            }
            _ => {}
        }
    }

    /// Returns the newest commit, where it is good, newer than the accepted one, and waits for nobody.
    fn newer(&self) -> Option<CommitId> {
        let (tip, _) = self.start.pushed.last()?;
        let accepted = self.start.pushed.iter().position(|(commit, _)| Some(commit) == self.accepted());
        let is_held = accepted.is_some_and(|at| self.start.pushed[at + 1..].iter().any(|(_, is_held)| *is_held));
        let is_good = self.wishes.get(tip).is_some_and(|wish| wish.is_good);
        Some(tip.clone()).filter(|tip| is_good && !is_held && Some(tip) != self.accepted())
    }

    /// 7: a cluster begins to move to a snapshot only when the source was seen, and what it had then is accepted.
    pub(super) fn may_move_yet(&self, (placement, cluster): &Spot, index: u64) -> Verdict {
        let what = format!("7: {cluster} goes to snapshot {index} of {placement}");
        match &self.start.waiting {
            Some(newer) => Err(format!("{what}, and {newer} was there before this life began")),
            None if self.start.is_unseen => Err(format!("{what}, and the source was not seen in this life")),
            None => Ok(()),
        }
    }
}

impl Run {
    /// Somebody pushes while the daemon is down. Now and then the source is away when it is back.
    pub(super) fn start_with_newer(&mut self) {
        let Some(dice) = &mut self.twists.starts else { return };
        let is_away = dice.chance(AWAY);
        let back = Duration::from_secs(dice.between(1, AWAY_MAX_S));
        self.simulation.crash();
        self.timeline.change();
        self.push(true);
        if is_away {
            self.simulation.deployment.faults.source_fails = 1000;
            self.simulation.at(back, BACK);
        }
    }

    /// The source is back, or a person continues without it.
    pub(super) fn source_returns(&mut self) -> Verdict {
        let continues = self.twists.starts.as_mut().is_some_and(|dice| dice.chance(WITHOUT));
        if continues {
            self.command(&order(Verb::Resume, ""), &person(0))?;
        }
        self.simulation.deployment.faults.source_fails = 0;
        Ok(())
    }
}

/// Forged violations are caught.
#[test]
fn w01_who_begins_too_early_is_caught() {
    use super::forged::{binding, checker};
    let began = [Fact::Accepted("1".into()), Fact::Began];
    let seen = || Fact::SourceSeen;
    let moves = || vec![binding("a", 1, false), Fact::Mark(0)];
    let rows: [(&str, &str, Vec<Fact>, Option<&str>); 7] = [
        ("the source was seen, and nothing is newer", "1", vec![seen()], None),
        ("the source was not seen", "1", vec![], Some("the source was not seen in this life")),
        ("what is newer was seen and is not accepted", "3", vec![seen()], Some("3 was there before this life began")),
        ("what is newer is accepted", "3", vec![Fact::Accepted("3".into()), seen()], None),
        ("what is newer has errors", "2", vec![seen()], None),
        ("the accepted one is read again", "3", vec![Fact::Accepted("1".into()), seen()], Some("3 was there")),
        (
            "a life after it",
            "3",
            vec![Fact::Accepted("3".into()), seen(), Fact::Began],
            Some("the source was not seen"),
        ),
    ];
    for (name, tip, then, wanted) in rows {
        let mut checker = checker();
        checker.note_push(&"1".into(), false);
        if tip != "1" {
            checker.note_push(&tip.into(), false);
        }
        let verdict = began.iter().chain(&then).chain(&moves()).try_for_each(|fact| checker.see(fact));
        match (verdict, wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with("7:") && why.contains(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
}

/// A commit that waits for a person holds nobody up, and who continues without the source may.
#[test]
fn w01_what_waits_for_a_person_holds_nobody_up() {
    use super::forged::{binding, checker};
    let mut checker = checker();
    checker.note_push(&"1".into(), false);
    checker.note_push(&"3".into(), true);
    let facts = [Fact::Accepted("1".into()), Fact::Began, Fact::SourceSeen, binding("a", 1, false), Fact::Mark(0)];
    assert_eq!(facts.iter().try_for_each(|fact| checker.see(fact)), Ok(()));
    checker.see(&Fact::Began).unwrap();
    checker.continue_unread();
    assert_eq!([binding("b", 1, false), Fact::Mark(0)].iter().try_for_each(|fact| checker.see(fact)), Ok(()));
}
