//! One placement in `status`: a heading, and below it what a person must know and the clusters.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ClusterNode, Line, Node, StageCell, Style, TimedLine, Words, staged};
use crate::table::age;
use decide::status::binding::binding_lists;
use decide::status::placement::{PlacementView, chain, waiting_message, why};
use decide::status::rollout::{Failure, PersonWait, RolloutState, deletion_line, has_failed, rollout_state, way_out};
use decide::status::work::{Mode, NAMED_OBJECTS_MAX, counted, listing};
use model::api::condition::{Condition, ConditionStatus, find_condition};
use model::conditions::{ConditionType, Reason};
use model::id::{ClusterName, CommitId, PlacementKey};
use model::records::{Binding, ClusterDecision, DeletionGate};

/// Clusters that are listed of a placement, or of a stage. Where there are more, those that are as they are to be are only counted.
pub const LISTED_MAX: usize = 50;

/// What `status` shows of one placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRow {
    /// The placement.
    pub placement: PlacementKey,
    /// The index of its newest snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The commit of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// When its newest snapshot was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Gone from git.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The state of its rollout.
    pub state: RolloutState,
    /// How many clusters it picked.
    pub clusters: usize,
    /// How many of them have the newest snapshot, available or compared.
    pub up_to_date: usize,
    /// The stages of the run that moves it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageCell>,
    /// What is below its heading.
    pub below: Node,
}

impl PlacementRow {
    /// Describes a placement. `approvers` are those of the configuration.
    pub fn of(view: &PlacementView, approvers: Option<&str>) -> Self {
        let approvers = view.record.approvers.as_deref().or(approvers);
        let picked = view.picked();
        let mut notes = note_lines(view);
        let warnings = view.record.warnings.iter();
        notes.extend(warnings.map(|warning| TimedLine::default().with(Style::Progressing, format!("! {warning}"))));
        let mut children: Vec<Node> = notes.into_iter().map(|line| Node::leaf(vec![line])).collect();
        children.extend(gate_lines(view, approvers).map(Node::leaf));
        children.extend(view.is_external().then(|| staged::run_node(view, approvers)).flatten());
        let in_run: BTreeSet<&ClusterName> =
            if view.is_external() { staged::clusters_in_run(view) } else { BTreeSet::new() };
        let selected = view.selected().map(|decision| &decision.cluster_name);
        let names = view.bindings().map(|binding| &binding.cluster).chain(selected);
        let width = names.map(|name| name.as_str().chars().count()).max().unwrap_or(0);
        let leftovers = view.leftovers_of(&picked);
        let own = picked.iter().filter(|(decision, _)| !in_run.contains(&decision.cluster_name));
        let own = own.map(|(decision, binding)| cluster_node(view, decision, *binding));
        let left = leftovers.into_iter().filter(|binding| !in_run.contains(&binding.cluster));
        let clusters = own.chain(left.map(|binding| leftover_node(view, binding))).collect();
        Self {
            placement: view.record.key.clone(),
            snapshot: view.newest(),
            commit: view.snapshot.map(|snapshot| snapshot.commit.clone()),
            since: view.snapshot.map(|snapshot| snapshot.created_at),
            removed: view.record.removed,
            state: rollout_state(view),
            clusters: picked.len(),
            up_to_date: picked.iter().filter(|(_, b)| b.is_some_and(|b| view.is_up_to_date(b))).count(),
            stages: staged::stage_cells(view),
            below: Node { children, ..Node::default() }.with_clusters(clusters, width),
        }
    }

    /// Returns the heading and what is below it.
    pub fn lines(&self, now: Timestamp) -> Vec<Line> {
        std::iter::once(self.heading(now)).chain(self.below.drawn(now)).collect()
    }

    fn heading(&self, now: Timestamp) -> Line {
        let snapshot = self.snapshot.map_or_else(|| "no snapshot".to_owned(), |index| format!("snapshot {index}"));
        let commit = self.commit.as_ref().map(|commit| format!(" ({})", commit.short())).unwrap_or_default();
        let (style, glyph, description) = self.standing(now);
        let colon = if description.is_empty() { "" } else { ": " };
        let key = &self.placement;
        let done = self.up_to_date;
        let total = counted(self.clusters, "cluster");
        Line::default()
            .with(style, format!("{glyph} "))
            .with(Style::Muted, format!("{} ", key.kind()))
            .with(Style::Strong, key.to_string())
            .with(Style::Plain, format!("  {snapshot}{commit}, {done} of {total} up to date{colon}"))
            .with(style, description)
    }

    /// Returns the state with the sign for it, and in a phrase unless it is as it is to be.
    pub fn standing(&self, now: Timestamp) -> (Style, &'static str, String) {
        let is_shown_below = is_shown_below(&self.state);
        match &self.state {
            RolloutState::AllAtTarget if self.removed => (Style::Ok, "✓", "removed".to_owned()),
            RolloutState::AllAtTarget => (Style::Ok, "✓", String::new()),
            RolloutState::Progressing if self.removed => (Style::Progressing, "↻", "being removed".to_owned()),
            RolloutState::Progressing => (Style::Progressing, "↻", "in progress".to_owned()),
            RolloutState::WaitingForTime(until) => {
                let description = match until {
                    None => "waits".to_owned(),
                    Some(until) if *until > now => format!("waits {} more", age(now, *until)),
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
        }
    }
}

/// Describes commands of people about the placement as a whole, and what they must know of it.
fn note_lines(view: &PlacementView) -> Vec<TimedLine> {
    let record = view.record;
    let mut lines = Vec::new();
    if let Some(pause) = &record.paused {
        let reason = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let description = Words::from(format!("! paused by {} ", pause.by)).since(pause.at);
        let description = description.then(format!(" ago{reason}; gitfleet resume {}", view.word()));
        lines.push(TimedLine::default().with(Style::Progressing, description));
    }
    if let Some(held) = &record.held
        && !record.removed
    {
        let description = Words::from(format!("✗ snapshot {} is held, for ", held.index)).since(held.since);
        let description = description.then(format!(
            ": it {}; {}",
            held.why,
            way_out(view, held).unwrap_or_else(|run| format!("write {run}"))
        ));
        lines.push(TimedLine::default().with(Style::Bad, description));
    }
    if record.superseded > 0 {
        let count = usize::try_from(record.superseded).unwrap_or(usize::MAX);
        let description = format!("superseded {} before a rollout finished", counted(count, "time"));
        lines.push(TimedLine::default().with(Style::Muted, description));
    }
    lines
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

fn gate_lines(view: &PlacementView, approvers: Option<&str>) -> Option<Vec<TimedLine>> {
    let gate = view.record.closed_gate()?;
    let DeletionGate { digest, reason, deletions, leaving, since, .. } = gate;
    let digest = digest.short();
    let what = gate.what();
    let description = Words::from(format!("! {what} wait for a person, for ")).since(*since);
    let description = description.then(format!(": {reason}, digest {digest}"));
    let mut lines = vec![
        TimedLine::default().with(Style::Progressing, description),
        TimedLine::default()
            .with(Style::Muted, format!("    by {}", staged::who_may(gate.approvers.as_deref(), approvers))),
        TimedLine::default().with(Style::Strong, format!("    {}", deletion_line(view, gate))),
    ];
    for (cluster, objects) in deletions.iter().take(LISTED_MAX) {
        for object in objects.iter().take(NAMED_OBJECTS_MAX) {
            lines.push(TimedLine::default().with(Style::Muted, format!("    {cluster}: {object}")));
        }
        if let Some(rest) = objects.len().checked_sub(NAMED_OBJECTS_MAX).filter(|n| *n > 0) {
            lines.push(TimedLine::default().with(Style::Muted, format!("    {cluster}: and {rest} more")));
        }
    }
    if let Some(rest) = deletions.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
        lines.push(TimedLine::default().with(Style::Muted, format!("    and {}", counted(rest, "more cluster"))));
    }
    if !leaving.is_empty() {
        let names = listing(leaving.iter().map(ToString::to_string));
        lines.push(TimedLine::default().with(Style::Muted, format!("    {names}: what they hold stays there")));
    }
    Some(lines)
}

/// A cluster of a placement, with its stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StagedNode<'a> {
    /// The stage of the run that moves the placement, else of the last one; absent where none has it.
    pub stage: Option<&'a str>,
    /// The cluster.
    pub node: ClusterNode,
}

/// Returns every cluster of a placement: those of the run that moves it in the order of its stages, then the others that were picked,
/// then those that are no longer picked.
pub fn all_clusters<'a>(view: &PlacementView<'a>) -> Vec<StagedNode<'a>> {
    clusters_where(view, |_| true)
}

/// Returns what a placement says of one cluster; `None` where the two have nothing to do with each other.
pub fn cluster_on<'a>(view: &PlacementView<'a>, cluster: &ClusterName) -> Option<StagedNode<'a>> {
    clusters_where(view, |name| name == cluster).into_iter().next()
}

fn clusters_where<'a>(view: &PlacementView<'a>, is_meant: impl Fn(&ClusterName) -> bool) -> Vec<StagedNode<'a>> {
    let of_run = if view.is_external() { staged::run_clusters(view, &is_meant) } else { Vec::new() };
    let mut nodes: Vec<StagedNode> =
        of_run.into_iter().map(|(stage, node)| StagedNode { stage: Some(stage), node }).collect();
    let in_run = if view.is_external() { staged::clusters_in_run(view) } else { BTreeSet::new() };
    // A rolling update has no stages, whatever an earlier run had.
    let last = if view.is_external() { view.runs.values().max_by_key(|run| run.sequence) } else { None };
    let stages: BTreeMap<&ClusterName, (usize, &str)> = last
        .into_iter()
        .flat_map(|run| run.stages.iter().enumerate())
        .flat_map(|(place, stage)| {
            stage.clusters.iter().map(move |cluster| (&cluster.name, (place, stage.name.as_str())))
        })
        .filter(|(name, _)| is_meant(name))
        .collect();
    let picked = view.picked();
    let own = picked.iter().filter(|(decision, _)| is_meant(&decision.cluster_name));
    let mut own: Vec<_> = own.filter(|(decision, _)| !in_run.contains(&decision.cluster_name)).collect();
    own.sort_by_key(|(decision, _)| stages.get(&decision.cluster_name).map_or(usize::MAX, |(place, _)| *place));
    nodes.extend(own.into_iter().map(|(decision, binding)| StagedNode {
        stage: stages.get(&decision.cluster_name).map(|(_, name)| *name),
        node: cluster_node(view, decision, *binding),
    }));
    let left = view.leftovers_of(&picked).into_iter().filter(|binding| is_meant(&binding.cluster));
    let left = left.filter(|binding| !in_run.contains(&binding.cluster));
    nodes.extend(left.map(|binding| StagedNode { stage: None, node: leftover_node(view, binding) }));
    nodes
}

/// Returns the first picked clusters that are not as they are to be, and how many more there are.
pub fn unhealthy(view: &PlacementView, max: usize) -> (Vec<ClusterNode>, usize) {
    let picked = view.picked();
    let nodes = picked.iter().map(|(decision, binding)| cluster_node(view, decision, *binding));
    let mut nodes: Vec<ClusterNode> = nodes.filter(|node| !node.is_right()).collect();
    let more = nodes.len().saturating_sub(max);
    nodes.truncate(max);
    (nodes, more)
}

fn cluster_node(view: &PlacementView, decision: &ClusterDecision, binding: Option<&Binding>) -> ClusterNode {
    let (style, glyph, words) = picked_state(view, decision, binding);
    ClusterNode {
        cluster: decision.cluster_name.to_string(),
        state: (style, glyph.to_owned()),
        snapshot: Some(held(binding)),
        words,
        objects: binding.into_iter().flat_map(|binding| object_lines(view, binding)).collect(),
    }
}

/// Returns the snapshot that a cluster is assigned, as text.
pub(super) fn held(binding: Option<&Binding>) -> String {
    binding.and_then(|b| b.snapshot).map_or_else(|| "-".to_owned(), |index| index.to_string())
}

/// Names the objects that keep a cluster from its desired state, and counts those that drifted or differ.
pub(super) fn object_lines(view: &PlacementView, binding: &Binding) -> Vec<TimedLine> {
    let mut lines = Vec::new();
    let lists = binding_lists(binding, view.work(&binding.cluster));
    for failed in lists.failed.iter().take(NAMED_OBJECTS_MAX) {
        let description = format!("    {}: {}: {}", failed.id, failed.condition.reason, failed.condition.message);
        let style = if failed.condition.type_ == ConditionType::Applied { Style::Bad } else { Style::Progressing };
        lines.push(TimedLine::default().with(style, description));
    }
    if let Some(rest) = lists.failed.len().checked_sub(NAMED_OBJECTS_MAX).filter(|n| *n > 0) {
        lines.push(TimedLine::default().with(Style::Muted, format!("    and {rest} more")));
    }
    for (count, one, several) in
        [(lists.drifted.len(), "drifted", "drifted"), (lists.diffed.len(), "differs from git", "differ from git")]
    {
        if count > 0 {
            let verb = if count == 1 { one } else { several };
            lines.push(
                TimedLine::default().with(Style::Progressing, format!("    {} {verb}", counted(count, "object"))),
            );
        }
    }
    lines
}

/// Returns the state of a picked cluster, in one phrase.
fn picked_state(
    view: &PlacementView,
    decision: &ClusterDecision,
    binding: Option<&Binding>,
) -> (Style, &'static str, Words) {
    let offline = view.offline(&decision.cluster_name);
    let Some(binding) = binding else {
        let description = offline.map_or_else(|| "picked; not bound yet".to_owned(), |c| format!("offline{}", why(c)));
        return (Style::Muted, "·", description.into());
    };
    if binding.snapshot.is_none() || binding.snapshot != view.newest() || is_behind(view, binding) {
        let (style, glyph) = match offline {
            Some(_) => (Style::Muted, "?"),
            // It goes back to an earlier snapshot, and gets no further.
            None if binding.snapshot == view.goal() && has_failed(view, binding) => (Style::Bad, "✗"),
            None => (Style::Muted, "·"),
        };
        return (style, glyph, waiting_message(view, binding).into());
    }
    cluster_state(view, &decision.cluster_name, binding)
}

/// Tells whether a cluster holds the newest snapshot, and waits for its turn to get it as the accepted commit wants it.
fn is_behind(view: &PlacementView, binding: &Binding) -> bool {
    view.has_newest(binding) && !view.is_up_to_date(binding)
}

/// Returns the state of a cluster whose update began, in one phrase.
pub(super) fn cluster_state(
    view: &PlacementView,
    cluster: &ClusterName,
    binding: &Binding,
) -> (Style, &'static str, Words) {
    let offline = view.offline(cluster);
    let mut says_offline = false;
    let (style, glyph, description) = match standing(binding, view.mode()) {
        None => (Style::Progressing, "↻", Words::from("begins")),
        // Whether it still is nobody knows.
        Some(c) if c.status == ConditionStatus::True && offline.is_some() => {
            (Style::Ok, "✓", Words::from("available when it answered last"))
        }
        Some(c) if c.status == ConditionStatus::True => {
            let word = match (&c.type_, &c.reason) {
                (ConditionType::DiffReported, _) => "compared",
                (_, Reason::NotAllWorkAreAvailabilityTrackable) => "applied, not every object reports availability,",
                _ => "available",
            };
            (Style::Ok, "✓", Words::from(format!("{word} for ")).since(c.last_transition_time))
        }
        Some(c) => {
            let moving = matches!(
                c.reason,
                Reason::ApplyInProgress | Reason::DiffReportInProgress | Reason::NotAllWorkAreAvailable
            );
            // Objects are listed below the cluster: the phrase keeps only the count.
            let count = c.message.split(": ").next().unwrap_or_default();
            let description = if moving || c.type_ == ConditionType::Applied { count } else { c.message.as_str() };
            says_offline = description.contains("the cluster is offline");
            let description = Words::from(description);
            match c.reason {
                Reason::RolloutNotStartedYet => (Style::Muted, "·", description),
                _ if moving && !has_failed(view, binding) => (Style::Progressing, "↻", description),
                _ => (Style::Bad, "✗", description),
            }
        }
    };
    match offline {
        None => (style, glyph, description),
        // The condition's message already says it.
        Some(_) if says_offline => (Style::Muted, "?", description),
        Some(offline) => {
            let description = description.then(format!("; offline{} for ", why(offline))).since(offline.since);
            (Style::Muted, "?", description)
        }
    }
}

/// Returns the condition that shows a binding's progress: the first of the chain that is not true, or the last.
fn standing(binding: &Binding, mode: Mode) -> Option<&Condition> {
    let mut standing = None;
    for link in chain(mode) {
        let condition = find_condition(&binding.conditions, &link.type_)?;
        // A condition of an older generation describes the earlier target.
        if condition.observed_generation != binding.generation {
            return None;
        }
        standing = Some(condition);
        if condition.status != ConditionStatus::True {
            break;
        }
    }
    standing
}

/// Describes a binding without a picked cluster.
fn leftover_node(view: &PlacementView, binding: &Binding) -> ClusterNode {
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
    ClusterNode {
        cluster: binding.cluster.to_string(),
        state: (Style::Muted, "-".to_owned()),
        snapshot: None,
        words: description.into(),
        objects: Vec::new(),
    }
}
