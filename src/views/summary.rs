//! What `gitfleet status` shows, as one answer of limited size.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::fleet::{FleetView, LENGTHS, Shown};
use super::lists::placement_place;
use super::timed::TimedLine;
use super::tree::{Line, PlacementRow, SourceView, Style, is_zero, ocm_lines, source_lines};
use super::waiting::{Waiting, grouped};
use decide::status::fleet::fleet_states;
use decide::status::rollout::{RolloutState, StateKind};
use decide::status::work::counted;
use model::id::CommitId;
use model::records::StoreRecord;

/// Bytes that all placements of a summary take as JSON. Where they take more, clusters are left out, and then placements.
pub const PLACEMENTS_BYTES_MAX: usize = 48 * 1024;
/// OCM Placements that a summary describes.
pub const OCM_LISTED_MAX: usize = 50;

/// What `gitfleet status` shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// What a person must do before anything is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
    /// What needs a person, the oldest first.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
    /// How many more such entries there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting_unlisted: usize,
    /// The states of what the fleet consists of, its source and its clusters included.
    pub standing: BTreeSet<StateKind>,
    /// How many placements are in each state.
    pub states: BTreeMap<StateKind, usize>,
    /// The source, and what is wrong with it and with clusters.
    pub source: Vec<TimedLine>,
    /// The placements.
    pub placements: Vec<PlacementRow>,
    /// How many placements of each state are not among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unlisted: BTreeMap<StateKind, usize>,
    /// OCM Placements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ocm: Vec<TimedLine>,
    /// How far the clock of the daemon that made it is ahead of the reader's.
    #[serde(skip)]
    pub clock_ahead: SignedDuration,
}

/// Which placements a question is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusPart {
    /// All.
    #[default]
    Everything,
    /// Those that wait for a person.
    Waiting,
    /// Those that failed, or wait for clusters that do not answer.
    Failed,
}

impl StatusPart {
    fn has(self, kind: StateKind) -> bool {
        match self {
            Self::Everything => true,
            Self::Waiting => kind == StateKind::WaitingForPerson,
            Self::Failed => matches!(kind, StateKind::Failed | StateKind::Unreachable),
        }
    }
}

/// Numbers of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// The states of what the fleet consists of, its source and its clusters included.
    pub standing: BTreeSet<StateKind>,
    /// How many placements are in each state.
    pub states: BTreeMap<StateKind, usize>,
    /// The accepted commit.
    pub accepted: Option<CommitId>,
    /// The newest commit that was seen.
    pub seen: Option<CommitId>,
}

impl Totals {
    /// Counts a fleet at a moment.
    pub fn of(fleet: &FleetView, now: Timestamp) -> Self {
        let shown: Vec<_> = fleet.shown(now).map(|(_, shown)| shown).collect();
        Self::counted(fleet, &shown.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    fn counted(fleet: &FleetView, shown: &[&Shown]) -> Self {
        let states = shown.iter().map(|shown| shown.row.state.clone());
        let states = fleet_states(fleet.store.as_deref(), &fleet.source, fleet.clusters.values(), states);
        Self {
            standing: states.iter().map(RolloutState::kind).collect(),
            states: tally(shown.iter().copied()),
            accepted: fleet.source.accepted.clone(),
            seen: fleet.source.seen.clone(),
        }
    }
}

impl Summary {
    /// Describes a fleet at a moment.
    pub fn of(fleet: &FleetView, now: Timestamp) -> Self {
        Self::with_subject(fleet, None, now)
    }

    /// Describes a fleet at a moment, with what the accepted commit is about.
    pub fn with_subject(fleet: &FleetView, subject: Option<&str>, now: Timestamp) -> Self {
        let mut shown: Vec<_> = fleet.shown(now).map(|(_, shown)| shown).collect();
        shown.sort_by_cached_key(|shown| placement_place(&shown.row.placement));
        let shown: Vec<&Shown> = shown.iter().map(AsRef::as_ref).collect();
        let Totals { standing, states, .. } = Totals::counted(fleet, &shown);
        let (waiting, waiting_unlisted) = grouped(shown.iter().flat_map(|shown| shown.waiting.iter().cloned()));
        let (placements, unlisted) = fitting(&shown, PLACEMENTS_BYTES_MAX);
        let mut ocm: Vec<TimedLine> =
            fleet.ocm.iter().take(OCM_LISTED_MAX).flat_map(|record| ocm_lines(record)).collect();
        if let Some(rest) = fleet.ocm.len().checked_sub(OCM_LISTED_MAX).filter(|rest| *rest > 0) {
            let words = format!("and {}; gitfleet get ocmplacements", counted(rest, "more OCM Placement"));
            ocm.push(TimedLine::default().with(Style::Muted, words));
        }
        Self {
            complaint: fleet.store.as_deref().and_then(StoreRecord::complaint),
            waiting,
            waiting_unlisted,
            standing,
            states,
            source: source_lines(&SourceView {
                source: &fleet.source,
                branch: None,
                subject,
                clusters: &fleet.clusters,
                now,
            }),
            placements,
            unlisted,
            ocm,
            clock_ahead: SignedDuration::ZERO,
        }
    }

    /// Returns the moment that its times are counted to: what the daemon's clock shows when the reader's shows `here`.
    pub fn now(&self, here: Timestamp) -> Timestamp {
        here.checked_add(self.clock_ahead).unwrap_or(here)
    }

    /// Keeps only the placements, and what needs a person, that a question is about.
    pub fn keep(&mut self, part: StatusPart) {
        self.placements.retain(|row| part.has(row.state.kind()));
        self.unlisted.retain(|kind, _| part.has(*kind));
        if part == StatusPart::Failed {
            self.waiting = Vec::new();
            self.waiting_unlisted = 0;
        }
    }

    /// Keeps what is said of these placements alone, and of the source.
    pub fn narrow(&mut self, rows: Vec<PlacementRow>) {
        self.standing = rows.iter().map(|row| row.state.kind()).collect();
        self.states = BTreeMap::new();
        for row in &rows {
            *self.states.entry(row.state.kind()).or_default() += 1;
        }
        self.waiting.retain(|waiting| rows.iter().any(|row| waiting.concerns(&row.placement)));
        self.waiting_unlisted = 0;
        self.unlisted = BTreeMap::new();
        self.ocm = Vec::new();
        self.placements = rows;
    }

    /// Tells whether nothing moves and nothing waits for time: what is left waits for people or clusters, or failed.
    pub fn is_settled(&self) -> bool {
        !self.standing.iter().any(|kind| matches!(kind, StateKind::Progressing | StateKind::WaitingForTime))
    }

    /// Returns how many placements are not listed, in which states.
    pub(super) fn unlisted_line(&self) -> Option<Line> {
        let count: usize = self.unlisted.values().sum();
        if count == 0 {
            return None;
        }
        let more = counted(count, "more placement");
        let states = tally_text(&self.unlisted);
        Some(Line::default().with(Style::Muted, format!("and {more}: {states}; gitfleet get placements")))
    }

    /// Returns the tree, line by line.
    pub fn lines(&self, now: Timestamp) -> Vec<Line> {
        let complaint = self.complaint.iter().map(|text| Line::default().with(Style::Progressing, format!("! {text}")));
        let mut lines: Vec<Line> = complaint.collect();
        lines.extend(self.source.iter().map(|line| line.at(now)));
        if self.placements.is_empty() && self.unlisted.is_empty() {
            lines.push(Line::default());
            lines.push(Line::default().with(Style::Muted, "no placements"));
        }
        for row in &self.placements {
            lines.push(Line::default());
            lines.extend(row.lines(now));
        }
        if !self.unlisted.is_empty() {
            lines.push(Line::default());
            lines.extend(self.unlisted_line());
        }
        if !self.ocm.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(self.ocm.iter().map(|line| line.at(now)));
        lines
    }
}

/// Returns how many placements are in each state, as text for users.
pub(super) fn tally_text(states: &BTreeMap<StateKind, usize>) -> String {
    let states: Vec<String> = states.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    states.join(", ")
}

fn tally<'a>(shown: impl Iterator<Item = &'a Shown>) -> BTreeMap<StateKind, usize> {
    let mut counts = BTreeMap::new();
    for shown in shown {
        *counts.entry(shown.row.state.kind()).or_default() += 1;
    }
    counts
}

/// Returns as much of the placements as takes so many bytes, and what was left out: first clusters of all placements alike, then
/// placements, those last that have something to say.
fn fitting(shown: &[&Shown], bytes_max: usize) -> (Vec<PlacementRow>, BTreeMap<StateKind, usize>) {
    let mut lengths = 0..LENGTHS.len();
    let fitting = lengths.find(|length| shown.iter().map(|shown| shown.bytes[*length]).sum::<usize>() <= bytes_max);
    let length = fitting.unwrap_or(LENGTHS.len() - 1);
    let mut in_need: Vec<usize> = (0..shown.len()).collect();
    in_need.sort_by_key(|position| shown[*position].row.state.kind() == StateKind::AtTarget);
    let mut left = bytes_max;
    let mut listed = BTreeSet::new();
    for position in in_need {
        let Some(rest) = left.checked_sub(shown[position].bytes[length]) else { break };
        left = rest;
        listed.insert(position);
    }
    let rows = listed.iter().map(|position| {
        let mut row = shown[*position].row.clone();
        row.below.limit(LENGTHS[length]);
        row
    });
    let unlisted = (0..shown.len()).filter(|position| !listed.contains(position)).map(|position| shown[position]);
    (rows.collect(), tally(unlisted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Case, CaseStatus as _, at};
    use crate::fixtures::{fleet, records};
    use crate::tree::LISTED_MAX;

    fn names(count: usize, prefix: &str) -> Vec<String> {
        (0..count).map(|number| format!("{prefix}-{number:04}")).collect()
    }

    fn case(clusters: usize) -> Case {
        let names = names(clusters, "cluster");
        Case::healthy(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn text(summary: &Summary) -> String {
        let lines = summary.lines(at(60)).into_iter();
        let lines: Vec<String> = lines.map(|line| line.spans.into_iter().map(|span| span.text).collect()).collect();
        lines.join("\n")
    }

    #[test]
    fn of_many_clusters_those_are_listed_that_are_not_up_to_date() {
        let healthy = Summary::of(&fleet(&["web"], &case(LISTED_MAX)), at(60));
        assert_eq!(healthy.placements[0].below.clusters.len(), LISTED_MAX);
        let healthy = Summary::of(&fleet(&["web"], &case(LISTED_MAX + 1)), at(60));
        assert!(text(&healthy).ends_with("snapshot 3 (1a2b3c4), 51 of 51 clusters up to date"), "{}", text(&healthy));
        let mut some = case(2 * LISTED_MAX);
        for cluster in names(LISTED_MAX + 7, "cluster") {
            some.work(&cluster).complete = false;
        }
        some.settle();
        let text = text(&Summary::of(&fleet(&["web"], &some), at(60)));
        assert!(text.contains("43 of 100 clusters up to date: in progress"), "{text}");
        assert_eq!(text.matches("objects applied so far").count(), LISTED_MAX, "{text}");
        assert!(text.ends_with("└─ and 7 more clusters not up to date"), "{text}");
    }

    #[test]
    fn a_summary_has_a_size_and_names_those_in_need() {
        for (placements, clusters) in [(3, 1000), (100, 100), (2000, 3)] {
            let mut broken = case(clusters);
            for cluster in names(clusters, "cluster") {
                broken.work(&cluster).complete = false;
            }
            broken.settle();
            let all = names(placements, "app");
            let mut whole = fleet(&all.iter().map(String::as_str).collect::<Vec<_>>(), &case(clusters));
            let in_need = all.iter().skip(placements / 2).take(placements / 3);
            let moved = in_need.map(|name| (name.parse().expect("a key"), Some(records(&broken, name))));
            whole = whole.with(crate::fleet::Changes { placements: moved.collect(), ..Default::default() });
            let summary = Summary::of(&whole, at(60));
            let bytes = serde_json::to_vec(&summary.placements).expect("JSON").len();
            assert!(bytes <= PLACEMENTS_BYTES_MAX + 2 * placements, "{placements} x {clusters}: {bytes}");
            let listed = |kind| summary.placements.iter().filter(|row| row.state.kind() == kind).count();
            assert!(listed(StateKind::Progressing) > 0, "{placements} x {clusters}");
            let unlisted: usize = summary.unlisted.values().sum();
            assert_eq!(summary.placements.len() + unlisted, placements);
            if placements < 200 {
                assert_eq!(unlisted, 0, "{placements} x {clusters}");
            } else {
                assert_eq!(listed(StateKind::AtTarget), 0, "those first that something is to be said of");
                assert!(text(&summary).contains("more placements: "), "{}", text(&summary));
            }
        }
    }
}
