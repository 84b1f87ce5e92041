//! The progress tree of `gitfleet status`: source, placements, clusters, in words.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::table::age;
use crate::api::condition::{Condition, ConditionStatus, find_condition};
use crate::model::conditions::{ConditionType, Reason};
use crate::model::id::{ClusterName, CommitId};
use crate::model::manifest::InputError;
use crate::model::ocm::OcmPlacementRecord;
use crate::model::records::{Binding, ClusterDecision, ClusterRecord, DeletionGate, SourceRecord};
use crate::model::runs::DELETION_GATE;
use crate::status::binding::binding_lists;
use crate::status::fleet::{fleet_warnings, unwatched_messages};
use crate::status::placement::{PlacementView, chain, waiting_message, why};
use crate::status::rollout::{Failure, PersonWait, RolloutState, rollout_state};
use crate::status::work::{Mode, NAMED_OBJECTS_MAX, counted, listing};

mod staged;

/// Errors of a refused commit that are shown; the rest is counted. `validate` shows all.
pub const REFUSED_ERRORS_MAX: usize = 20;

/// How long `status` names a cluster that left the fleet.
pub const LEFT_SHOWN_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Shown digits of a digest; enough to name a gate.
const DIGEST_SHOWN: usize = 12;

/// The meaning of a piece of text; the terminal turns it into colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Nothing in particular.
    Plain,
    /// A heading.
    Strong,
    /// In the desired state.
    Ok,
    /// In progress, or waiting.
    Progressing,
    /// Wrong.
    Bad,
    /// Of less interest.
    Muted,
}

/// A piece of text with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its meaning.
    pub style: Style,
    /// The text.
    pub text: String,
}

/// One line of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its pieces, from left to right.
    pub spans: Vec<Span>,
}

impl Line {
    /// Adds a piece at the end.
    #[must_use]
    pub fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.spans.push(Span { style, text: text.into() });
        self
    }
}

/// Says that a tree is refused, and every reason.
pub fn refused_lines(errors: &[InputError]) -> Vec<Line> {
    let heading = format!("the tree is refused, it has {}:", counted(errors.len(), "error"));
    let heading = Line::default().with(Style::Bad, "✗ ").with(Style::Strong, heading);
    let error = |error: &InputError| Line::default().with(Style::Bad, format!("    {error}"));
    std::iter::once(heading).chain(errors.iter().map(error)).collect()
}

/// Everything `gitfleet status` shows.
#[derive(Clone, Copy, Debug)]
pub struct StatusView<'a> {
    /// The source.
    pub source: &'a SourceRecord,
    /// The branch that is followed, where one is configured.
    pub branch: Option<&'a str>,
    /// The placements, in display order.
    pub placements: &'a [PlacementView<'a>],
    /// Clusters, including those that left.
    pub clusters: &'a BTreeMap<ClusterName, ClusterRecord>,
    /// OCM Placements, by namespace and name.
    pub ocm: &'a [OcmPlacementRecord],
    /// The moment of the view.
    pub now: Timestamp,
}

/// Returns the tree, line by line: problems of the source first, then each placement with its clusters.
pub fn status_lines(view: &StatusView) -> Vec<Line> {
    let warnings = fleet_warnings(view.clusters.values());
    let mut lines: Vec<Line> =
        warnings.iter().map(|warning| Line::default().with(Style::Bad, format!("! {warning}"))).collect();
    lines.extend(source_lines(view));
    let unwatched = unwatched_messages(view.clusters.values()).into_iter();
    lines.extend(unwatched.map(|description| Line::default().with(Style::Progressing, format!("! {description}"))));
    if view.placements.is_empty() {
        lines.push(Line::default());
        lines.push(Line::default().with(Style::Muted, "no placements"));
    }
    for placement in view.placements {
        lines.push(Line::default());
        lines.extend(placement_lines(placement, view.source.approvers.as_deref()));
    }
    if !view.ocm.is_empty() {
        lines.push(Line::default());
    }
    lines.extend(view.ocm.iter().flat_map(ocm_lines));
    lines
}

/// Describes an OCM Placement: its clusters, and its errors.
fn ocm_lines(record: &OcmPlacementRecord) -> Vec<Line> {
    let satisfied = find_condition(&record.conditions, &ConditionType::PlacementSatisfied);
    let (style, mark) = if record.is_satisfied() { (Style::Ok, "✓ ") } else { (Style::Progressing, "! ") };
    let clusters = counted(record.clusters().count(), "cluster");
    let mut lines = vec![
        Line::default()
            .with(style, mark)
            .with(Style::Strong, format!("Placement {}/{}", record.namespace, record.name))
            .with(Style::Plain, format!("  {clusters} decided")),
    ];
    let complaint = satisfied.filter(|_| !record.is_satisfied()).map(|condition| &condition.message);
    let misconfigured = find_condition(&record.conditions, &ConditionType::PlacementMisconfigured)
        .filter(|condition| condition.status == ConditionStatus::True)
        .map(|condition| &condition.message);
    for text in complaint.into_iter().chain(misconfigured).chain(&record.error).chain(&record.warning) {
        lines.push(Line::default().with(Style::Bad, format!("    {text}")));
    }
    lines
}

fn source_lines(view: &StatusView) -> Vec<Line> {
    let source = view.source;
    let short = |commit: &Option<CommitId>| commit.as_ref().map_or("none", CommitId::short).to_owned();
    let mut lines = Vec::new();
    if let Some(why) = &source.unrestored {
        let description = format!(
            "✗ the accepted commit cannot be read: {why}; nothing is decided, and clusters keep what they have"
        );
        lines.push(Line::default().with(Style::Bad, description));
    }
    if !source.refused.is_empty() {
        let seen = short(&source.seen);
        let heading = if source.seen == source.accepted {
            format!("commit {seen} is refused now")
        } else {
            format!("commit {seen} is refused; {} stays accepted", short(&source.accepted))
        };
        lines.push(Line::default().with(Style::Bad, "✗ ").with(Style::Strong, heading));
        for error in source.refused.iter().take(REFUSED_ERRORS_MAX) {
            lines.push(Line::default().with(Style::Plain, "    ").with(Style::Bad, error.to_string()));
        }
        if let Some(rest) = source.refused.len().checked_sub(REFUSED_ERRORS_MAX).filter(|n| *n > 0) {
            lines.push(Line::default().with(Style::Muted, format!("    and {}", counted(rest, "more error"))));
        }
    }
    if let Some(failure) = &source.failure {
        lines.push(Line::default().with(Style::Bad, format!("✗ the source cannot be read: {failure}")));
    }
    if let Some(why) = &source.unwatched {
        let description = "! the source cannot be watched for changes, gitfleet polls it every second: ";
        lines.push(Line::default().with(Style::Progressing, format!("{description}{why}")));
    }
    if let Some(held) = &source.held_rewrite {
        let held = held.short();
        let description = match &source.held_why {
            Some(why) => format!("! {why}; {held} waits for `gitfleet resume`"),
            None => {
                format!("! {held} does not descend from {}; it waits for `gitfleet resume`", short(&source.accepted))
            }
        };
        lines.push(Line::default().with(Style::Progressing, description));
    }
    let branch = view.branch.map(|b| format!(" ({b})")).unwrap_or_default();
    lines.push(Line::default().with(Style::Strong, "source ").with(Style::Plain, format!("{}{branch}", source.url)));
    let mut commits = Line::default().with(Style::Muted, "  accepted ").with(Style::Plain, short(&source.accepted));
    if source.seen != source.accepted {
        commits = commits.with(Style::Muted, ", seen ").with(Style::Plain, short(&source.seen));
    }
    lines.push(commits);
    lines.extend(left_lines(view));
    lines
}

/// Names the clusters that left recently, by reason: no other line names them, because their bindings are gone.
fn left_lines(view: &StatusView) -> Vec<Line> {
    let is_new = |c: &&ClusterRecord| c.left && view.now.duration_since(c.since) < LEFT_SHOWN_MAX;
    let mut left: BTreeMap<&str, Vec<&ClusterRecord>> = BTreeMap::new();
    for cluster in view.clusters.values().filter(is_new) {
        left.entry(cluster.message.as_deref().unwrap_or("left the fleet")).or_default().push(cluster);
    }
    let description = |(why, clusters): (&str, Vec<&ClusterRecord>)| {
        let names = listing(clusters.iter().map(|cluster| cluster.name.to_string()));
        let last = clusters.iter().map(|cluster| cluster.since).max().unwrap_or(view.now);
        format!("  {names}: {why} (since {})", age(last, view.now))
    };
    left.into_iter().map(description).map(|description| Line::default().with(Style::Muted, description)).collect()
}

/// Lines with their branches.
struct Node {
    lines: Vec<Line>,
    children: Vec<Node>,
}

impl Node {
    fn leaf(lines: Vec<Line>) -> Self {
        Self { lines, children: Vec::new() }
    }

    /// Returns all lines, with the branches drawn.
    fn drawn(self) -> Vec<Line> {
        let mut lines = self.lines;
        let last = self.children.len();
        for (position, child) in self.children.into_iter().enumerate() {
            let (first, below) = if position + 1 == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            for (number, mut line) in child.drawn().into_iter().enumerate() {
                let branch = if number == 0 { first } else { below };
                line.spans.insert(0, Span { style: Style::Muted, text: branch.to_owned() });
                lines.push(line);
            }
        }
        lines
    }
}

fn placement_lines(view: &PlacementView, approvers: Option<&str>) -> Vec<Line> {
    let mut children: Vec<Node> = note_lines(view).into_iter().map(|line| Node::leaf(vec![line])).collect();
    let warnings = view.record.warnings.iter().map(|w| Line::default().with(Style::Progressing, format!("! {w}")));
    children.extend(warnings.map(|line| Node::leaf(vec![line])));
    children.extend(gate_lines(view, approvers).map(Node::leaf));
    children.extend(view.is_external().then(|| staged::run_node(view, approvers)).flatten());
    let is_shown = |cluster: &ClusterName| !(view.is_external() && staged::is_in_run(view, cluster.as_str()));
    let width = view.bindings().map(|b| b.cluster.as_str().chars().count());
    let width = width.chain(view.selected().map(|d| d.cluster_name.as_str().chars().count())).max().unwrap_or(0);
    let picked = view.picked();
    let done = picked.iter().filter(|(_, binding)| binding.is_some_and(|b| view.is_up_to_date(b))).count();
    let heading = heading(view, done, picked.len());
    let own = picked.into_iter().filter(|(decision, _)| is_shown(&decision.cluster_name));
    children.extend(own.map(|(decision, binding)| Node::leaf(cluster_lines(view, decision, binding, width))));
    let leftovers = view.leftovers().into_iter().filter(|binding| is_shown(&binding.cluster));
    children.extend(leftovers.map(|binding| Node::leaf(leftover_line(view, binding, width))));
    Node { lines: vec![heading], children }.drawn()
}

/// Describes commands of people about the placement as a whole, and what they must know of it.
fn note_lines(view: &PlacementView) -> Vec<Line> {
    let record = view.record;
    let mut lines = Vec::new();
    if let Some(pause) = &record.paused {
        let reason = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let since = age(pause.at, view.now);
        let description = format!("! paused by {} {since} ago{reason}; gitfleet resume {}", pause.by, record.key);
        lines.push(Line::default().with(Style::Progressing, description));
    }
    if let Some(held) = &record.held {
        let since = age(held.since, view.now);
        let description =
            format!("✗ snapshot {} is held since {since}: it {}; gitfleet retry {}", held.index, held.why, record.key);
        lines.push(Line::default().with(Style::Bad, description));
    }
    if record.superseded > 0 {
        let count = usize::try_from(record.superseded).unwrap_or(usize::MAX);
        let description = format!("superseded {} before a rollout finished", counted(count, "time"));
        lines.push(Line::default().with(Style::Muted, description));
    }
    lines
}

fn heading(view: &PlacementView, done: usize, total: usize) -> Line {
    let record = view.record;
    let newest = view.newest();
    let snapshot = newest.map_or_else(|| "no snapshot".to_owned(), |index| format!("snapshot {index}"));
    let commit = view.snapshot.map(|s| format!(" ({})", s.commit.short())).unwrap_or_default();
    let state = rollout_state(view);
    let is_shown_below = is_shown_below(&state);
    let (style, glyph, description) = match state {
        RolloutState::AllAtTarget if record.removed => (Style::Ok, "✓", "removed".to_owned()),
        RolloutState::AllAtTarget => (Style::Ok, "✓", String::new()),
        RolloutState::Progressing if record.removed => (Style::Progressing, "↻", "being removed".to_owned()),
        RolloutState::Progressing => (Style::Progressing, "↻", "in progress".to_owned()),
        RolloutState::WaitingForTime(until) => {
            let description = match until {
                None => "waits".to_owned(),
                Some(until) if until > view.now => format!("waits {} more", age(view.now, until)),
                // The decision that continues the rollout is still to come.
                Some(_) => "the wait is over".to_owned(),
            };
            (Style::Progressing, "↻", description)
        }
        // The branches already say it.
        RolloutState::WaitingForPerson(_) if is_shown_below => {
            (Style::Progressing, "!", "waits for a person".to_owned())
        }
        RolloutState::Failed(_) if is_shown_below => (Style::Bad, "✗", "cannot continue".to_owned()),
        RolloutState::WaitingForPerson(wait) => (Style::Progressing, "!", wait.to_string()),
        RolloutState::Unreachable(text) => (Style::Progressing, "!", format!("waits for offline clusters: {text}")),
        RolloutState::Failed(failure) => (Style::Bad, "✗", failure.to_string()),
    };
    let colon = if description.is_empty() { "" } else { ": " };
    Line::default()
        .with(style, format!("{glyph} "))
        .with(Style::Muted, format!("{} ", record.key.kind()))
        .with(Style::Strong, record.key.to_string())
        .with(Style::Plain, format!("  {snapshot}{commit}, {done} of {} up to date{colon}", counted(total, "cluster")))
        .with(style, description)
}

/// Tells whether the branches contain what a heading would say: the placement's notes and gate, or the run.
fn is_shown_below(state: &RolloutState) -> bool {
    use {Failure as F, PersonWait as P};
    match state {
        RolloutState::WaitingForPerson(P::Deletions(_) | P::Paused(_) | P::Approval(_) | P::Run(_))
        | RolloutState::Failed(F::Held(_) | F::RunRefused(_) | F::RunHalted(_)) => true,
        RolloutState::WaitingForPerson(P::NoRun | P::Store(_))
        | RolloutState::Failed(
            F::Payload(_) | F::Invalid(_) | F::Halted(_) | F::Clusters(_) | F::Unfulfilled | F::Source(_),
        )
        | RolloutState::AllAtTarget
        | RolloutState::WaitingForTime(_)
        | RolloutState::Unreachable(_)
        | RolloutState::Progressing => false,
    }
}

fn gate_lines(view: &PlacementView, approvers: Option<&str>) -> Option<Vec<Line>> {
    let gate = view.record.closed_gate()?;
    let DeletionGate { digest, reason, deletions, leaving, since, .. } = gate;
    let digest: String = digest.as_str().chars().take(DIGEST_SHOWN).collect();
    let what = gate.what();
    let description = format!("! {what} wait for a person since {}: {reason}, digest {digest}", age(*since, view.now));
    let mut lines = vec![
        Line::default().with(Style::Progressing, description),
        Line::default().with(Style::Muted, format!("    by {}", staged::who_may(gate.approvers.as_deref(), approvers))),
        Line::default().with(Style::Strong, format!("    gitfleet approve {} {DELETION_GATE}", view.record.key)),
    ];
    for (cluster, objects) in deletions {
        for object in objects.iter().take(NAMED_OBJECTS_MAX) {
            lines.push(Line::default().with(Style::Muted, format!("    {cluster}: {object}")));
        }
        if let Some(rest) = objects.len().checked_sub(NAMED_OBJECTS_MAX).filter(|n| *n > 0) {
            lines.push(Line::default().with(Style::Muted, format!("    {cluster}: and {rest} more")));
        }
    }
    if !leaving.is_empty() {
        let names = listing(leaving.iter().map(ToString::to_string));
        lines.push(Line::default().with(Style::Muted, format!("    {names}: what they hold stays there")));
    }
    Some(lines)
}

fn cluster_lines(
    view: &PlacementView,
    decision: &ClusterDecision,
    binding: Option<&Binding>,
    width: usize,
) -> Vec<Line> {
    let name = &decision.cluster_name;
    let held = binding.and_then(|b| b.snapshot).map_or_else(|| "-".to_owned(), |index| index.to_string());
    let (style, glyph, description) = picked_state(view, decision, binding);
    let mut lines = vec![
        Line::default()
            .with(style, format!("{glyph} "))
            .with(Style::Plain, format!("{:width$}  ", name.as_str()))
            .with(Style::Muted, format!("snapshot {held}  "))
            .with(style, description),
    ];
    lines.extend(binding.into_iter().flat_map(|binding| object_lines(view, binding)));
    lines
}

/// Names the objects that keep a cluster from its desired state, and counts those that drifted or differ.
fn object_lines(view: &PlacementView, binding: &Binding) -> Vec<Line> {
    let mut lines = Vec::new();
    let lists = binding_lists(binding, view.work(&binding.cluster));
    for failed in lists.failed.iter().take(NAMED_OBJECTS_MAX) {
        let description = format!("    {}: {}: {}", failed.id, failed.condition.reason, failed.condition.message);
        let style = if failed.condition.type_ == ConditionType::Applied { Style::Bad } else { Style::Progressing };
        lines.push(Line::default().with(style, description));
    }
    if let Some(rest) = lists.failed.len().checked_sub(NAMED_OBJECTS_MAX).filter(|n| *n > 0) {
        lines.push(Line::default().with(Style::Muted, format!("    and {rest} more")));
    }
    for (count, one, several) in
        [(lists.drifted.len(), "drifted", "drifted"), (lists.diffed.len(), "differs from git", "differ from git")]
    {
        if count > 0 {
            let verb = if count == 1 { one } else { several };
            lines.push(Line::default().with(Style::Progressing, format!("    {} {verb}", counted(count, "object"))));
        }
    }
    lines
}

/// Returns the state of a picked cluster, in one phrase.
fn picked_state(
    view: &PlacementView,
    decision: &ClusterDecision,
    binding: Option<&Binding>,
) -> (Style, &'static str, String) {
    let offline = view.offline(&decision.cluster_name);
    let Some(binding) = binding else {
        let description = offline.map_or_else(|| "picked; not bound yet".to_owned(), |c| format!("offline{}", why(c)));
        return (Style::Muted, "·", description);
    };
    if binding.snapshot.is_none() || binding.snapshot != view.newest() {
        return (Style::Muted, if offline.is_some() { "?" } else { "·" }, waiting_message(view, binding));
    }
    cluster_state(view, &decision.cluster_name, binding)
}

/// Returns the state of a cluster whose update began, in one phrase.
fn cluster_state(view: &PlacementView, cluster: &ClusterName, binding: &Binding) -> (Style, &'static str, String) {
    let offline = view.offline(cluster);
    let since = |condition: &Condition| age(condition.last_transition_time, view.now);
    let (style, glyph, mut description) = match standing(binding, view.mode()) {
        None => (Style::Progressing, "↻", "begins".to_owned()),
        Some(c) if c.status == ConditionStatus::True => {
            let word = match (&c.type_, &c.reason) {
                (ConditionType::DiffReported, _) => "compared",
                (_, Reason::NotAllWorkAreAvailabilityTrackable) => "applied, not every object reports availability,",
                _ => "available",
            };
            (Style::Ok, "✓", format!("{word} since {}", since(c)))
        }
        Some(c) => {
            let moving = matches!(
                c.reason,
                Reason::ApplyInProgress | Reason::DiffReportInProgress | Reason::NotAllWorkAreAvailable
            );
            // Objects are listed below the cluster: the phrase keeps only the count.
            let count = c.message.split(": ").next().unwrap_or_default();
            let description =
                if moving || c.type_ == ConditionType::Applied { count.to_owned() } else { c.message.clone() };
            if moving { (Style::Progressing, "↻", description) } else { (Style::Bad, "✗", description) }
        }
    };
    if let Some(offline) = offline {
        // The condition's message already says it.
        if description.contains("the cluster is offline") {
            return (Style::Muted, "?", description);
        }
        description = format!("{description}; offline{} since {}", why(offline), age(offline.since, view.now));
        return (Style::Muted, "?", description);
    }
    (style, glyph, description)
}

/// Returns the condition that shows a binding's progress: the first of the chain that is not true, or the last.
fn standing(binding: &Binding, mode: Mode) -> Option<&Condition> {
    let mut standing = None;
    for link in chain(mode) {
        // A condition of an older generation describes the earlier target.
        let current = |c: &&Condition| c.observed_generation == binding.generation;
        let condition = find_condition(&binding.conditions, &link.type_).filter(current)?;
        standing = Some(condition);
        if condition.status != ConditionStatus::True {
            break;
        }
    }
    standing
}

/// Returns the line of a binding without a picked cluster.
fn leftover_line(view: &PlacementView, binding: &Binding, width: usize) -> Vec<Line> {
    // In a mass removal, bindings stay until a person has agreed.
    let gone = view.clusters.get(&binding.cluster).is_none_or(|c| c.left);
    let held = view.work(&binding.cluster).map_or(0, |w| w.held_deletions.len());
    let description = match (gone, view.offline(&binding.cluster)) {
        (true, _) => "left the fleet; what is there stays".to_owned(),
        (_, Some(offline)) => format!("no longer picked; removed when it answers{}", why(offline)),
        _ if held > 0 => format!("no longer picked; {} held", counted(held, "deletion")),
        _ if binding.deleting => "no longer picked; being removed".to_owned(),
        _ => match view.work(&binding.cluster).and_then(|work| work.inventory.complaint()) {
            Some(complaint) => format!("no longer picked; {complaint}"),
            None => "no longer picked; waits for its removal".to_owned(),
        },
    };
    let name = format!("{:width$}  ", binding.cluster.as_str());
    vec![Line::default().with(Style::Muted, "- ").with(Style::Plain, name).with(Style::Muted, description)]
}

#[cfg(test)]
mod tests;
