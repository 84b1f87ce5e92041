//! 3: whoever approves is named by the strategy of the accepted commit, and by the one that counted before a commit changed that, until
//! the rollout has succeeded and another commit was accepted, also where something else has begun in between: no commit chooses its own
//! approvers. Whom all these lists name is not refused for them. Judged by commits, runs and gates.
//!
//! Silent about lists that went with objects from another placement or with another name, and about a placement without a strategy. What
//! changed while a rollout was open is no list before: nobody who counts has agreed to it.

use std::collections::{BTreeMap, BTreeSet};

use engine::store::records::{PLACEMENT_PREFIX, RUN_PREFIX, placement_of, snapshot_key};
use model::commands::{Command, Person};
use model::id::{CommitId, PlacementKey};
use model::runs::{RunCause, RunPhase, RunRecord};
use simulated::{Fact, MachineFact};

use super::check::{Checker, Verdict};
use super::hand_over::is_same_thing;
use super::{Run, person};

/// Whom the strategy of a placement names.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Named {
    /// The commit has no strategy for it.
    #[default]
    Unknown,
    Everybody,
    Only(String),
}

/// The lists that count for each placement.
pub type Approvers = BTreeMap<PlacementKey, Lists>;

/// The lists that count for a placement.
#[derive(Default)]
pub struct Lists {
    /// The commit that it was decided about last, and whom that names.
    commit: Option<CommitId>,
    now: Named,
    /// The list before the first change that is not rolled out, and the commit that made it. No list where nobody can say which it was.
    before: Option<(CommitId, Option<String>)>,
    /// All lists since then: no other counts.
    since: BTreeSet<String>,
    /// The commit since which others may count.
    unsure: Option<CommitId>,
    /// What the commit brought was rolled out: with the next commit the list before it ends, whatever is open then.
    is_rolled_out: bool,
    inherited: BTreeMap<PlacementKey, u64>,
}

impl Lists {
    fn list(&self) -> Option<&String> {
        if let Named::Only(list) = &self.now { Some(list) } else { None }
    }

    /// All is rolled out: what a commit before this one replaced does not count any more.
    fn settle(&mut self) {
        let Self { commit, before, unsure, .. } = self;
        before.take_if(|(by, _)| commit.as_ref() != Some(&*by));
        unsure.take_if(|by| commit.as_ref() != Some(&*by));
        self.forget_between();
    }

    /// Another commit is accepted. Those before the last one have agreed to what it brought, though something else is open.
    fn forget_agreed(&mut self) {
        if std::mem::take(&mut self.is_rolled_out) {
            self.before = None;
            self.forget_between();
        }
    }

    fn forget_between(&mut self) {
        if self.before.is_none() {
            self.since = self.list().cloned().into_iter().collect();
        }
    }

    fn follow(&mut self, commit: CommitId, named: Named, is_fresh: bool) {
        let was = std::mem::replace(&mut self.now, named);
        let is_other = was != self.now;
        match was {
            _ if is_fresh || !is_other => {}
            // The list of its last strategy may count.
            Named::Unknown => (self.before, self.unsure) = (Some((commit.clone(), None)), Some(commit.clone())),
            Named::Only(list) if self.before.is_none() => self.before = Some((commit.clone(), Some(list))),
            Named::Only(_) | Named::Everybody => {}
        }
        if let Some((by, None)) = self.before.as_mut().filter(|_| is_other) {
            by.clone_from(&commit);
        }
        self.since.extend(self.list().cloned());
        self.commit = Some(commit);
    }
}

fn names(list: &str, person: &str) -> bool {
    list.split(", ").filter_map(|entry| entry.split_once(':')).any(|(_, name)| name == person)
}

/// Returns who is on each list of a seed, so that the lists before and after any change have enough people in common: else nobody may open
/// a gate again, and that is right.
pub fn keepers(seed: u64, required: usize) -> &'static [&'static str] {
    match (required, seed.is_multiple_of(2)) {
        (2.., _) => &["ann", "bob"],
        (_, true) => &["ann"],
        (_, false) => &["bob"],
    }
}

impl Checker {
    /// Follows what is kept: a placement is decided about the accepted commit as soon as a record of it changes by a decision.
    pub(super) fn note_approvers(&mut self, fact: &Fact) {
        let (Fact::Kept { key, value } | Fact::Own(MachineFact::KeptUnsaid { key, value })) = fact else { return };
        // The record of a placement is the first of its batch: until then all is as the batch before left it.
        if let Some(placement) = placement_of(key, PLACEMENT_PREFIX) {
            if value.is_none() {
                // It may continue under another name.
                self.approvers.insert(placement, Lists::default());
                return;
            }
            self.settle(&placement);
            self.follow(&placement);
        } else if let Some(placement) = placement_of(key, RUN_PREFIX) {
            self.follow(&placement);
        }
    }

    /// Asked when a whole batch is kept.
    pub(super) fn settle_approvers(&mut self) {
        for placement in self.approvers.keys().cloned().collect::<Vec<_>>() {
            self.settle(&placement);
            let inherited = self.placements.get(&placement).map(|record| &record.inherited);
            let Some((lists, inherited)) = self.approvers.get_mut(&placement).zip(inherited) else { continue };
            if lists.inherited != *inherited {
                lists.inherited.clone_from(inherited);
                lists.unsure.clone_from(&lists.commit);
            }
        }
    }

    fn settle(&mut self, placement: &PlacementKey) {
        let is_open = |lists: &Lists| lists.before.is_some() || lists.unsure.is_some() || lists.since.len() > 1;
        if self.approvers.get(placement).is_some_and(is_open) && self.is_settled(placement) {
            let brought = self.brought_last(placement).filter(|_| self.decides()).cloned();
            let Some(lists) = self.approvers.get_mut(placement) else { return };
            lists.settle();
            lists.is_rolled_out |= brought.is_some() && brought == lists.commit;
        }
    }

    /// Returns the run that rolls out the newest content.
    fn newest_rollout(&self, placement: &PlacementKey) -> Option<&RunRecord> {
        let rolls_out = |run: &&RunRecord| run.frozen.is_some() && run.cause.brings_a_snapshot();
        let runs = self.runs.values().filter(|run| run.placement == *placement);
        runs.filter(rolls_out).max_by_key(|run| run.sequence)
    }

    /// Returns the commit that brought the content of the newest rollout. Right after another commit it is still one before.
    fn brought_last(&self, placement: &PlacementKey) -> Option<&CommitId> {
        let index = self.newest_rollout(placement)?.snapshot()?;
        self.snapshots.get(&snapshot_key(placement, index)).map(|snapshot| &snapshot.commit)
    }

    /// Tells whether the newest rollout of a placement has succeeded and nothing of it is open.
    fn is_settled(&self, placement: &PlacementKey) -> bool {
        let Some(record) = self.placements.get(placement) else { return false };
        let mut runs = self.runs.values().filter(|run| run.placement == *placement);
        let is_agreed = if record.is_external() {
            self.newest_rollout(placement).is_none_or(|run| run.phase == RunPhase::Succeeded)
        } else {
            record.paused.is_none()
        };
        let is_closed = record.deletion_gate.as_ref().is_some_and(|gate| gate.opened_at.is_none());
        is_agreed && !is_closed && runs.all(|run| run.phase.is_final())
    }

    /// A life that waits for its source decides nothing about the commit, nor does a command while decisions wait.
    fn decides(&self) -> bool {
        !self.start.is_unseen() && !self.is_behind
    }

    fn follow(&mut self, placement: &PlacementKey) {
        let Some(commit) = self.accepted().filter(|_| self.decides()).cloned() else { return };
        let lists = self.approvers.get(placement);
        if lists.is_some_and(|lists| lists.commit.as_ref() == Some(&commit)) {
            return;
        }
        // Under another name it had lists, too.
        let is_fresh = lists.is_none() && !self.approvers.keys().any(|key| is_same_thing(key, placement));
        let (named, is_settled) = (self.named(placement), self.is_settled(placement));
        let lists = self.approvers.entry(placement.clone()).or_default();
        lists.forget_agreed();
        lists.commit = Some(commit.clone());
        if is_settled {
            lists.settle();
        }
        lists.follow(commit, named, is_fresh);
    }

    /// Returns whom the accepted commit names.
    fn named(&self, placement: &PlacementKey) -> Named {
        let wish = self.accepted().and_then(|commit| self.wishes.get(commit));
        let want = wish.and_then(|wish| wish.placements.get(placement));
        want.map(|want| want.approvers.clone()).unwrap_or_default()
    }

    /// 3: whose approval was taken is named.
    pub(super) fn may_approve(&self, placement: &PlacementKey, person: &str) -> Verdict {
        let Some(lists) = self.approvers.get(placement) else { return Ok(()) };
        // Until a commit that names others is decided about, those of the one before approve what that one brought.
        let now = lists.list().filter(|_| self.named(placement) == lists.now);
        let before = lists.before.as_ref().and_then(|(_, list)| list.as_ref());
        match now.into_iter().chain(before).find(|list| !names(list, person)) {
            None => Ok(()),
            Some(list) => Err(format!("3: {person} approved {placement}, and {list} are to")),
        }
    }

    /// 3: who was refused is not named by some list.
    pub(super) fn may_be_refused(&self, placement: &PlacementKey, person: &str) -> Verdict {
        if self.is_on_all_lists(placement, person) {
            return Err(format!("3: {person} is refused at a gate of {placement}, and every list says {person}"));
        }
        Ok(())
    }

    /// Tells whether all lists that may count for a placement name a person.
    pub(super) fn is_on_all_lists(&self, placement: &PlacementKey, person: &str) -> bool {
        let is_sure = |lists: &&Lists| {
            lists.unsure.is_none() && lists.now != Named::Unknown && lists.commit.as_ref() == self.accepted()
        };
        if let Some(lists) = self.approvers.get(placement).filter(is_sure) {
            return lists.since.iter().all(|list| names(list, person));
        }
        let mut all = self.wishes.values().flat_map(|wish| wish.placements.values());
        all.all(|want| !matches!(&want.approvers, Named::Only(list) if !names(list, person)))
    }
}

impl Run {
    /// A person says something. Where the strategy names others, the other of two people says it at once.
    pub(super) fn command(&mut self, command: &Command, by: &Person) -> Verdict {
        if self.say_as(command, by)? {
            return Ok(());
        }
        let other = match by.name.as_str() {
            "ann" => person(1),
            "bob" => person(0),
            _ => return Ok(()),
        };
        self.say_as(command, &other)?;
        Ok(())
    }
}

/// Returns commits with a list each, of which the first is decided about.
fn with_lists(key: &PlacementKey) -> Checker {
    let mut checker = super::forged::at_rest();
    for (commit, number, list) in [("3", 3, "user:ann"), ("4", 4, "token:bob"), ("5", 5, "user:ann, user:bob")] {
        let mut wish = checker.wishes[&CommitId::from("3")].clone();
        wish.number = number;
        wish.placements.entry(key.clone()).or_default().approvers = Named::Only(list.to_owned());
        checker.wishes.insert(commit.into(), wish);
    }
    checker.approvers.clear();
    checker.follow(key);
    checker
}

/// A command while decisions wait decides nothing about the accepted commit: those of the one before still approve.
#[test]
fn w3_what_a_person_changes_while_decisions_wait_brings_no_list() {
    let key = PlacementKey::cluster_scoped("p");
    for is_behind in [true, false] {
        let mut checker = with_lists(&key);
        checker.see(&Fact::Accepted("4".into())).unwrap();
        checker.is_behind = is_behind;
        checker.see(&super::forged::frozen("Updating")).unwrap();
        assert_eq!(checker.may_approve(&key, "ann").is_ok(), is_behind);
    }
}

/// The rollout of the second commit, or of the first, has succeeded, and another run has begun. Then a third commit is accepted.
#[test]
fn w3_whom_a_rolled_out_commit_named_is_the_list_before_though_a_run_is_open() {
    let key = PlacementKey::cluster_scoped("p");
    for (brought_by, named) in [("4", "bob"), ("3", "ann")] {
        let mut checker = with_lists(&key);
        for snapshot in checker.snapshots.values_mut() {
            snapshot.commit = brought_by.into();
        }
        checker.see(&Fact::Accepted("4".into())).unwrap();
        checker.see(&super::forged::external()).unwrap();
        let Fact::Kept { key: name, value: Some(run) } = super::forged::frozen("Succeeded") else { unreachable!() };
        let mut run: RunRecord = super::check::parse(&name, &run).unwrap();
        run.phase = RunPhase::Succeeded;
        checker.runs.insert(name, run.clone());
        checker.settle_approvers();
        let cause = RunCause::FollowUp { of: run.name.clone() };
        let joined = RunRecord { name: "r-2".to_owned(), cause, sequence: 1, phase: RunPhase::Waiting, ..run };
        checker.runs.insert("run/p/r-2".to_owned(), joined);
        checker.see(&Fact::Accepted("5".into())).unwrap();
        checker.follow(&key);
        for person in ["ann", "bob"] {
            assert_eq!(checker.may_approve(&key, person).is_ok(), person == named, "{brought_by}: {person}");
        }
    }
}

/// Forged violations are caught.
#[test]
fn w3_who_is_not_named_and_approves_is_caught() {
    use super::forged::{frozen, removed};
    // What is kept after each commit: something is open then, or nothing.
    let (open, done) = (|| frozen("Updating"), || removed(false));
    let rows = [
        ("the first list", vec![], "ann", true, true),
        ("the first list", vec![], "bob", false, false),
        ("other people", vec![("4", open())], "ann", false, false),
        ("other people", vec![("4", open())], "bob", false, false),
        ("more people, and the first list counts", vec![("5", open())], "ann", true, true),
        ("more people, and the first list counts", vec![("5", open())], "bob", false, false),
        ("a list between the two", vec![("4", open()), ("5", open())], "ann", true, false),
        ("a list between the two", vec![("4", open()), ("5", open())], "bob", false, false),
        ("the second list was rolled out", vec![("4", done()), ("5", done())], "ann", false, false),
        ("the second list was rolled out", vec![("4", done()), ("5", done())], "bob", true, true),
    ];
    for (name, commits, person, may, has_to) in rows {
        let key = PlacementKey::cluster_scoped("p");
        let mut checker = with_lists(&key);
        for (commit, fact) in commits {
            checker.see(&Fact::Accepted(commit.into())).unwrap();
            checker.see(&fact).unwrap();
        }
        assert_eq!(checker.may_approve(&key, person).is_ok(), may, "{name}: {person}");
        assert_eq!(checker.may_be_refused(&key, person).is_err(), has_to, "{name}: {person}");
    }
}
