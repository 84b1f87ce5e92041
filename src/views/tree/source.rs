//! What `status` says of the source, of OCM Placements and of the fleet as a whole.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Style, TimedLine, Words};
use crate::subjects::quoted;
use decide::status::fleet::{fleet_warnings, unwatched_messages};
use decide::status::work::{counted, listing};
use model::api::condition::{ConditionStatus, find_condition};
use model::conditions::ConditionType;
use model::id::{ClusterName, CommitId};
use model::ocm::OcmPlacementRecord;
use model::records::{ClusterRecord, SourceRecord};

/// Errors of a refused commit that are shown; the rest is counted. `validate` shows all.
pub const REFUSED_ERRORS_MAX: usize = 20;

/// How long `status` names a cluster that left the fleet.
pub(super) const LEFT_SHOWN_MAX: SignedDuration = SignedDuration::from_hours(24);

/// What is shown beside placements.
#[derive(Clone, Copy, Debug)]
pub struct SourceView<'a> {
    /// The source.
    pub source: &'a SourceRecord,
    /// The branch that is followed, where one is configured.
    pub branch: Option<&'a str>,
    /// What the accepted commit is about, where that is known.
    pub subject: Option<&'a str>,
    /// Clusters, including those that left.
    pub clusters: &'a BTreeMap<ClusterName, ClusterRecord>,
    /// The moment of the view.
    pub now: Timestamp,
}

/// Returns what comes before the placements: problems of the fleet first, then the source.
pub fn source_lines(view: &SourceView) -> Vec<TimedLine> {
    let warnings = fleet_warnings(view.clusters.values());
    let mut lines: Vec<TimedLine> =
        warnings.iter().map(|warning| TimedLine::default().with(Style::Bad, format!("! {warning}"))).collect();
    lines.extend(own_lines(view));
    let unwatched = unwatched_messages(view.clusters.values()).into_iter();
    lines
        .extend(unwatched.map(|description| TimedLine::default().with(Style::Progressing, format!("! {description}"))));
    lines
}

/// Describes an OCM Placement: its clusters, and its errors.
pub fn ocm_lines(record: &OcmPlacementRecord) -> Vec<TimedLine> {
    let satisfied = find_condition(&record.conditions, &ConditionType::PlacementSatisfied);
    let (style, mark) = if record.is_satisfied() { (Style::Ok, "✓ ") } else { (Style::Progressing, "! ") };
    let clusters = counted(record.clusters().count(), "cluster");
    let mut lines = vec![
        TimedLine::default()
            .with(style, mark)
            .with(Style::Strong, format!("Placement {}/{}", record.namespace, record.name))
            .with(Style::Plain, format!("  {clusters} decided")),
    ];
    let complaint = if record.is_satisfied() { None } else { satisfied.map(|condition| &condition.message) };
    let misconfigured = find_condition(&record.conditions, &ConditionType::PlacementMisconfigured)
        .filter(|condition| condition.status == ConditionStatus::True)
        .map(|condition| &condition.message);
    for text in complaint.into_iter().chain(misconfigured).chain(&record.error).chain(&record.warning) {
        lines.push(TimedLine::default().with(Style::Bad, format!("    {text}")));
    }
    lines
}

fn own_lines(view: &SourceView) -> Vec<TimedLine> {
    let source = view.source;
    let mut lines = Vec::new();
    if let Some(why) = &source.unrestored {
        let description = format!(
            "✗ the accepted commit cannot be read: {why}; nothing is decided, and clusters keep what they have"
        );
        lines.push(TimedLine::default().with(Style::Bad, description));
    }
    if source.sources.is_empty() {
        lines.extend(refused_lines("", source));
    }
    for (name, one) in &source.sources {
        lines.extend(refused_lines(&format!("source {name}: "), one));
    }
    lines.extend(without_effect_lines(source));
    if let Some(failure) = &source.failure {
        lines.push(TimedLine::default().with(Style::Bad, format!("✗ the source cannot be read: {failure}")));
    }
    if let Some(why) = &source.unwatched {
        let description = "! the source cannot be watched for changes, gitfleet polls it every second: ";
        lines.push(TimedLine::default().with(Style::Progressing, format!("{description}{why}")));
    }
    if let Some(why) = &source.unkept {
        lines.push(TimedLine::default().with(Style::Bad, format!("✗ {why}")));
    }
    if let Some(complaint) = &source.configuration {
        lines.push(TimedLine::default().with(Style::Progressing, format!("! the configuration changed: {complaint}")));
    }
    if let Some(held) = &source.held_rewrite {
        let held = held.short();
        let description = match &source.held_why {
            Some(why) => format!("! {why}; {held} waits for `gitfleet resume`"),
            None => {
                format!(
                    "! {held} does not descend from {}; it waits for `gitfleet resume`",
                    short(source.accepted.as_ref())
                )
            }
        };
        lines.push(TimedLine::default().with(Style::Progressing, description));
    }

    if source.sources.is_empty() {
        let branch = view.branch.map(|b| format!(" ({b})")).unwrap_or_default();
        lines.push(url_line("", &format!("{}{branch}", source.url)));
        lines.push(commits(TimedLine::default(), source, view.subject));
    }
    for (name, one) in &source.sources {
        lines.push(commits(url_line(&format!("{name} "), &one.url), one, None));
    }
    lines.extend(left_lines(view));
    lines
}

fn url_line(name: &str, url: &str) -> TimedLine {
    TimedLine::default().with(Style::Strong, format!("source {name}")).with(Style::Plain, url.to_owned())
}

/// Says that a commit of a source is refused, and why.
fn refused_lines(of: &str, source: &SourceRecord) -> Vec<TimedLine> {
    if source.refused.is_empty() {
        return Vec::new();
    }
    let seen = short(source.seen.as_ref());
    let heading = match &source.accepted {
        accepted if *accepted == source.seen => format!("{of}commit {seen} is refused now"),
        Some(accepted) => format!("{of}commit {seen} is refused; {} stays accepted", accepted.short()),
        None => format!("{of}commit {seen} is refused; no commit is accepted yet"),
    };
    let mut lines = vec![TimedLine::default().with(Style::Bad, "✗ ").with(Style::Strong, heading)];
    for error in source.refused.iter().take(REFUSED_ERRORS_MAX) {
        lines.push(TimedLine::default().with(Style::Plain, "    ").with(Style::Bad, error.to_string()));
    }
    if let Some(rest) = source.refused.len().checked_sub(REFUSED_ERRORS_MAX).filter(|n| *n > 0) {
        lines.push(TimedLine::default().with(Style::Muted, format!("    and {}", counted(rest, "more error"))));
    }
    lines
}

/// Names documents of the accepted commit that do nothing, because they name what is not there.
fn without_effect_lines(source: &SourceRecord) -> Vec<TimedLine> {
    let shown = source.without_effect.iter().take(REFUSED_ERRORS_MAX);
    let mut texts: Vec<String> = shown.map(|document| format!("! {document}")).collect();
    let rest = source.without_effect.len().saturating_sub(REFUSED_ERRORS_MAX);
    if rest > 0 {
        texts.push(format!("! and {}; gitfleet validate names all of them", counted(rest, "more warning")));
    }
    texts.into_iter().map(|text| TimedLine::default().with(Style::Progressing, text)).collect()
}

/// Adds at which commits a source is.
fn commits(line: TimedLine, source: &SourceRecord, subject: Option<&str>) -> TimedLine {
    let mut line = match &source.accepted {
        Some(accepted) => line.with(Style::Muted, "  accepted ").with(Style::Plain, accepted.short().to_owned()),
        None => line.with(Style::Muted, "  no commit is accepted yet"),
    };
    if let Some(subject) = subject
        && source.accepted.is_some()
    {
        line = line.with(Style::Muted, format!(" {}", quoted(subject)));
    }
    if source.seen != source.accepted {
        line = line.with(Style::Muted, ", seen ").with(Style::Plain, short(source.seen.as_ref()).to_owned());
    }
    line
}

fn short(commit: Option<&CommitId>) -> &str {
    commit.map_or("none", CommitId::short)
}

/// Names the clusters that left recently, by reason: no other line names them, because their bindings are gone.
fn left_lines(view: &SourceView) -> Vec<TimedLine> {
    let mut left: BTreeMap<&str, Vec<&ClusterRecord>> = BTreeMap::new();
    for cluster in view.clusters.values().filter(|cluster| cluster.left) {
        if view.now.duration_since(cluster.since) < LEFT_SHOWN_MAX {
            left.entry(cluster.message.as_deref().unwrap_or("left the fleet")).or_default().push(cluster);
        }
    }
    let mut lines = Vec::new();
    for (why, clusters) in left {
        let names = listing(clusters.iter().map(|cluster| cluster.name.to_string()));
        let last = clusters.iter().map(|cluster| cluster.since).max().unwrap_or(view.now);
        let words = Words::from(format!("  {names}: {why} (since ")).since(last).then(")");
        lines.push(TimedLine::default().with(Style::Muted, words));
    }
    lines
}

#[cfg(test)]
mod tests;
