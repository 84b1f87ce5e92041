//! What needs a person: the gates of all placements, the oldest first. Gates that one answer opens are one entry.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::timed::{TimedLine, Words};
use super::tree::{Style, is_zero, who_may};
use decide::status::placement::PlacementView;
use decide::status::rollout::{PersonWait, RolloutState, deletion_line};
use decide::status::staged_run::{ClosedGate, active_run, approve_line, asks, closed_gates};
use decide::status::work::counted;
use model::id::{CommitId, PlacementKey};
use model::records::DeletionGate;
use model::runs::{DELETION_GATE, RunRecord};

/// Entries that a summary lists.
pub const WAITING_MAX: usize = 50;
/// Why a gate is not opened by an approval now.
const EXPIRED: &str = "the request has expired";
/// Placements that one entry names.
const NAMED_MAX: usize = 10;

/// What a person is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AwaitedAnswer {
    /// An approval at the gate of a stage.
    Approval,
    /// An approval of deletions, or of clusters that left.
    Deletion,
    /// To resume what a person paused.
    Resume,
    /// To start a run, or to let it continue, in git.
    Run,
}

/// Something that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What.
    pub answer: AwaitedAnswer,
    /// Why, as text for users; of the gate of a stage only why it is not to be approved now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The stage of the gate; `deletion` for deletions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Whether the gate is before its stage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before: bool,
    /// The stage that the gate opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<String>,
    /// How many clusters are behind the gate, those of each placement counted.
    pub clusters: usize,
    /// The commit that is rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// Since when, the longest.
    pub since: Timestamp,
    /// Who may answer; absent where git answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How the digest of the gate begins; only of a single gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The first placements.
    pub placements: Vec<PlacementKey>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The commands that answer, one for each placement that is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Returns what one placement waits for. `approvers` are those of the configuration.
pub fn waiting_of(view: &PlacementView, approvers: Option<&str>, state: &RolloutState) -> Vec<Waiting> {
    let approvers = view.record.approvers.as_deref().or(approvers);

    let mut all: Vec<Waiting> = Vec::new();
    if let Some(run) = active_run(view.runs).filter(|run| view.is_external() && asks(view.record, run)) {
        let gates = closed_gates(run).into_iter().filter(ClosedGate::is_approval);
        all.extend(gates.map(|gate| Waiting {
            commands: vec![approve_line(run, &gate, Some(view.record), view.shared_name)],
            reason: if gate.task.expired { EXPIRED.to_owned() } else { String::new() },
            // The run may be older than the newest snapshot, or go back.
            commit: run.snapshot().and_then(|index| view.snapshot_at(index)).map(|snapshot| snapshot.commit.clone()),
            ..at_stage(one(view, AwaitedAnswer::Approval, gate.since()), run, &gate, approvers)
        }));
    }
    all.extend(view.record.closed_gate().map(|gate| Waiting {
        commands: vec![deletion_line(view, gate)],
        ..at_deletions(one(view, AwaitedAnswer::Deletion, gate.since), gate, approvers)
    }));
    let since = view.record.paused.as_ref().map(|pause| pause.at);
    let since = since.or_else(|| active_run(view.runs).map(|run| run.since)).unwrap_or(view.record.created_at);
    match state {
        RolloutState::WaitingForPerson(PersonWait::Paused(_)) => {
            let pause = view.record.paused.as_ref();
            let reason = pause.map(|pause| match &pause.reason {
                Some(reason) => format!("paused by {} ({reason})", pause.by),
                None => format!("paused by {}", pause.by),
            });
            let command = format!("gitfleet resume {}", view.word());
            all.push(Waiting {
                reason: reason.unwrap_or_default(),
                commands: vec![command],
                ..one(view, AwaitedAnswer::Resume, since)
            });
        }
        RolloutState::WaitingForPerson(wait @ (PersonWait::Run(_) | PersonWait::NoRun)) => {
            all.push(Waiting { reason: wait.to_string(), ..one(view, AwaitedAnswer::Run, since) });
        }
        _ => {}
    }
    all
}

/// Returns what one placement waits for, without what only some of it has.
fn one(view: &PlacementView, answer: AwaitedAnswer, since: Timestamp) -> Waiting {
    Waiting {
        answer,
        reason: String::new(),
        stage: None,
        before: false,
        opens: None,
        clusters: 0,
        commit: view.snapshot.map(|snapshot| snapshot.commit.clone()),
        since,
        by: None,
        digest: None,
        placements: vec![view.record.key.clone()],
        more: 0,
        commands: Vec::new(),
    }
}

fn at_stage(one: Waiting, run: &RunRecord, gate: &ClosedGate, approvers: Option<&str>) -> Waiting {
    let place = run.stages.iter().position(|stage| stage.name == gate.stage.name);
    let next = place.map(|place| if gate.before { place } else { place + 1 });
    let opened = next.and_then(|place| run.stages.get(place));
    Waiting {
        stage: Some(gate.stage.name.clone()),
        before: gate.before,
        opens: opened.map(|stage| stage.name.clone()),
        clusters: opened.map_or(0, |stage| stage.remaining().count()),
        by: Some(who_may(run.approvers.as_deref(), approvers)),
        digest: Some(gate.stage.digest.short().to_owned()),
        ..one
    }
}

fn at_deletions(one: Waiting, gate: &DeletionGate, approvers: Option<&str>) -> Waiting {
    Waiting {
        reason: format!("{} wait for a person: {}", gate.what(), gate.reason),
        stage: Some(DELETION_GATE.to_owned()),
        clusters: gate.deletions.len(),
        by: Some(who_may(gate.approvers.as_deref(), approvers)),
        digest: Some(gate.digest.short().to_owned()),
        ..one
    }
}

/// Returns what needs a person, the oldest first: gates of the same stage that hold up the same commit and that the same
/// people open count as one. At most [`WAITING_MAX`], and how many more there are.
pub fn grouped(all: impl IntoIterator<Item = Waiting>) -> (Vec<Waiting>, usize) {
    let mut groups: Vec<Waiting> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|group| is_same_approval(group, &one)) {
            Some(group) => group.join(one),
            None => groups.push(one),
        }
    }
    groups.sort_by_key(|group| group.since);
    let more = groups.len().saturating_sub(WAITING_MAX);
    groups.truncate(WAITING_MAX);
    (groups, more)
}

/// Tells whether the same people approve both at the same place of the same commit.
fn is_same_approval(one: &Waiting, other: &Waiting) -> bool {
    // What has a reason is asked again by itself.
    if !one.reason.is_empty() || !other.reason.is_empty() {
        return false;
    }
    one.answer == AwaitedAnswer::Approval
        && other.answer == AwaitedAnswer::Approval
        && one.stage == other.stage
        && one.before == other.before
        && one.commit == other.commit
        && one.by == other.by
}

impl Waiting {
    fn join(&mut self, one: Self) {
        self.since = self.since.min(one.since);
        self.clusters += one.clusters;
        self.digest = None;
        if self.opens != one.opens {
            self.opens = None;
        }
        if self.placements.len() < NAMED_MAX {
            self.placements.extend(one.placements);
            self.commands.extend(one.commands);
        } else {
            self.more += one.placements.len();
        }
    }

    /// Tells whether it is about a placement. Of many placements only the first are known.
    pub fn concerns(&self, placement: &PlacementKey) -> bool {
        self.placements.contains(placement)
    }

    /// Returns it in a few lines: what, since when and with which digest; what it opens and who may; the commands.
    pub fn lines(&self) -> Vec<TimedLine> {
        let mut lines = vec![TimedLine::default().with(Style::Progressing, self.heading())];
        let mut details: Vec<String> = Vec::new();
        if self.placements.len() > 1 {
            let names: Vec<String> = self.placements.iter().map(ToString::to_string).collect();
            let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
            lines.push(TimedLine::default().with(Style::Plain, format!("    {}{more}", names.join(", "))));
        }
        details.extend(self.opens.iter().map(|stage| format!("opens {stage}: {}", counted(self.clusters, "cluster"))));
        details.extend(self.by.iter().map(|by| format!("by {by}")));
        if !details.is_empty() {
            lines.push(TimedLine::default().with(Style::Muted, format!("    {}", details.join("; "))));
        }
        let commands = self.shown_commands().into_iter();
        lines.extend(commands.map(|line| TimedLine::default().with(Style::Strong, format!("    {line}"))));
        lines
    }

    /// Returns the command for a single placement, or one for all gates of the commit and the stage.
    fn shown_commands(&self) -> Vec<String> {
        match (&self.commit, &self.stage) {
            (Some(commit), Some(stage)) if self.placements.len() > 1 => {
                vec![format!("gitfleet approve --commit {} --stage {stage}", commit.short())]
            }
            _ => self.commands.clone(),
        }
    }

    fn heading(&self) -> Words {
        let count = self.placements.len() + self.more;
        let mut digest = self.digest.as_ref().map(|digest| format!(", digest {digest}")).unwrap_or_default();
        let subject = match self.placements.first() {
            Some(only) if count == 1 => format!("{only}: "),
            _ => String::new(),
        };
        if self.answer != AwaitedAnswer::Approval {
            let reason = Words::from(format!("! {subject}{}, for ", self.reason)).since(self.since);
            return reason.then(digest);
        }
        if !self.reason.is_empty() {
            digest = format!("{digest}; {}", self.reason);
        }
        let place = if self.before { "before" } else { "after" };
        let stage = self.stage.as_deref().unwrap_or_default();
        let commit = self.commit.as_ref().map(|commit| format!(" of {}", commit.short())).unwrap_or_default();
        let who = if count == 1 { format!("{subject}waits") } else { format!("{count} placements wait") };
        Words::from(format!("! {who} for approval {place} stage {stage}{commit}, for ")).since(self.since).then(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Case, CaseStatus as _, at, run_at_approval, run_in_production};
    use crate::layout::plain;
    use decide::status::rollout::rollout_state;
    use model::records::Pause;
    use model::runs::RunPhase;

    fn of(case: &mut Case, name: &str) -> Vec<Waiting> {
        case.record.key = PlacementKey::cluster_scoped(name);
        case.settle();
        let view = case.view();
        waiting_of(&view, Some("user:ann"), &rollout_state(&view))
    }

    fn text(all: &[Waiting]) -> String {
        let lines = all.iter().flat_map(Waiting::lines).map(|line| plain(&line.at(at(60))));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn staged(run: RunRecord) -> Case {
        Case::healthy(&["east", "north", "south", "west"]).with_run(run)
    }

    #[test]
    fn gates_of_one_commit_and_stage_are_one_and_the_oldest_comes_first() {
        let mut all: Vec<Waiting> = Vec::new();
        for name in ["api", "billing", "cart"] {
            let mut run = run_at_approval();
            run.name = format!("{name}-3");
            all.extend(of(&mut staged(run), name));
        }
        let mut guarded = staged(run_in_production());
        guarded.gate(&["west"]);
        guarded.record.deletion_gate.as_mut().expect("it was closed").since = at(5);
        all.extend(of(&mut guarded, "web"));
        let (groups, more) = grouped(all);
        assert_eq!(more, 0);
        insta::assert_snapshot!(text(&groups), @r#"
        ! web: deletions wait for a person: more than half of the objects would go, for 55s, digest 9f8e7d6c5b4a
            by user:ann by comment, or a token of the API
            gitfleet approve web deletion
        ! 3 placements wait for approval after stage canary of 1a2b3c4, for 30s
            api, billing, cart
            opens production: 3 clusters; by user:ann by comment, or a token of the API
            gitfleet approve --commit 1a2b3c4 --stage canary
        "#);
    }

    #[test]
    fn other_waits_say_why() {
        let mut paused = Case::healthy(&["east", "west"]);
        paused.binding("west").snapshot = Some(2);
        paused.record.paused = Some(Pause { by: "ann".into(), at: at(9), reason: Some("a freeze".into()) });
        let stopped = RunRecord { phase: RunPhase::Stopped, ..run_in_production() };
        let mut all = of(&mut paused, "web");
        all.extend(of(&mut staged(stopped), "api"));
        insta::assert_snapshot!(text(&grouped(all).0), @r#"
    ! web: paused by ann (a freeze), for 51s
        gitfleet resume web
    ! api: run web-3 is stopped and continues when its `state` says Run, for 20s
    "#);
    }

    #[test]
    fn a_line_is_for_what_can_be_done_now() {
        let mut shared = staged(run_at_approval());
        shared.gate(&["west"]);
        shared.settle();
        let view = PlacementView { shared_name: true, ..shared.view() };
        let all = waiting_of(&view, None, &rollout_state(&view));
        let lines: Vec<&str> = all.iter().flat_map(|one| &one.commands).map(String::as_str).collect();
        assert_eq!(
            lines,
            ["gitfleet approve crp/web canary --digest canary-0a1b2", "gitfleet approve crp/web deletion"]
        );

        let mut expired = run_at_approval();
        expired.stages[1].after[0].expired = true;
        let found = of(&mut staged(expired), "web").remove(0);
        assert_eq!((found.commands, found.reason.as_str()), (vec!["gitfleet retry web-3".to_owned()], EXPIRED));

        let stopped = RunRecord { phase: RunPhase::Stopped, ..run_at_approval() };
        assert!(of(&mut staged(stopped), "web").iter().all(|one| one.answer == AwaitedAnswer::Run));
        let mut gone = staged(run_at_approval());
        gone.record.removed = true;
        assert!(of(&mut gone, "web").iter().all(|one| one.answer != AwaitedAnswer::Approval), "git has it no longer");
    }

    #[test]
    fn a_summary_lists_no_more_than_it_may() {
        let one = of(&mut staged(run_at_approval()), "web").remove(0);
        let named = |number: usize| {
            let commit = Some(CommitId::new(format!("{number:07}")));
            Waiting { commit, placements: vec![PlacementKey::cluster_scoped(format!("p{number}"))], ..one.clone() }
        };
        let (groups, more) = grouped((0..WAITING_MAX + 3).map(named));
        assert_eq!((groups.len(), more), (WAITING_MAX, 3));
        let same = (0..30).map(|number| Waiting { commit: one.commit.clone(), ..named(number) });
        let (groups, _) = grouped(same);
        assert_eq!((groups.len(), groups[0].placements.len(), groups[0].more), (1, NAMED_MAX, 20));
    }
}
