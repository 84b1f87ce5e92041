//! The progress tree of `gitfleet status`: source, placements, clusters, in words.
//!
//! [`PlacementRow`] is what is shown of one placement, without the time: it stays as it is while the placement does.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::timed::{TimedLine, Words};

use decide::status::work::counted;
use model::manifest::InputError;

mod row;
mod source;
mod staged;

pub use row::{LISTED_MAX, PlacementRow, StagedNode, all_clusters, cluster_on, unhealthy};
pub use source::{REFUSED_ERRORS_MAX, SourceView, ocm_lines, source_lines};
pub use staged::{StageCell, who_may};

/// The meaning of a piece of text; the terminal turns it into colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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

/// Says that a tree is refused, and the first reasons.
pub fn refused_lines(errors: &[InputError]) -> Vec<Line> {
    let heading = format!("the tree is refused, it has {}:", counted(errors.len(), "error"));
    let mut lines = vec![Line::default().with(Style::Bad, "✗ ").with(Style::Strong, heading)];
    for error in errors.iter().take(REFUSED_ERRORS_MAX) {
        lines.push(Line::default().with(Style::Bad, format!("    {error}")));
    }
    let more = errors.len().saturating_sub(REFUSED_ERRORS_MAX);
    if more > 0 {
        let words = format!("    and {}; gitfleet validate, or -o json, shows all", counted(more, "more error"));
        lines.push(Line::default().with(Style::Muted, words));
    }
    lines
}

/// A branch: lines with branches below, and then clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<TimedLine>,
    /// The branches below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
    /// The clusters below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterNode>,
    /// Clusters that are not as they are to be, and are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: usize,
    /// Characters that the names of clusters take.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub width: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// One cluster of a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// Its name.
    pub cluster: String,
    /// What kind of state it is in, and the sign for it.
    pub state: (Style, String),
    /// The snapshot it is assigned, or a dash; absent where it is about to lose what it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Its state, in one phrase.
    pub words: Words,
    /// The objects that keep it from its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<TimedLine>,
}

impl ClusterNode {
    /// Tells whether it is as it is to be.
    pub fn is_right(&self) -> bool {
        self.state.0 == Style::Ok
    }

    fn lines(&self, width: usize, now: Timestamp) -> Vec<Line> {
        let (style, glyph) = &self.state;
        let mut line =
            Line::default().with(*style, format!("{glyph} ")).with(Style::Plain, format!("{:width$}  ", self.cluster));
        if let Some(snapshot) = &self.snapshot {
            line = line.with(Style::Muted, format!("snapshot {snapshot}  "));
        }
        let mut lines = vec![line.with(*style, self.words.at(now))];
        lines.extend(self.objects.iter().map(|line| line.at(now)));
        lines
    }
}

impl Node {
    fn leaf(lines: Vec<TimedLine>) -> Self {
        Self { lines, ..Self::default() }
    }

    /// Adds clusters: all, or where they are many at most [`LISTED_MAX`] of those that are not as they are to be.
    fn with_clusters(mut self, clusters: Vec<ClusterNode>, width: usize) -> Self {
        self.width = width;
        self.clusters = clusters;
        self.limit(LISTED_MAX);
        self
    }

    /// Lists no more than so many clusters at each branch.
    pub fn limit(&mut self, max: usize) {
        if self.clusters.len() > max {
            self.clusters.retain(|cluster| !cluster.is_right());
            self.unlisted += self.clusters.len().saturating_sub(max);
            self.clusters.truncate(max);
        }
        self.children.iter_mut().for_each(|child| child.limit(max));
    }

    /// Returns the single lines below it that say what is wrong: warnings, a pause, a snapshot that is held, a run that ended.
    pub fn complaints(&self) -> impl Iterator<Item = &TimedLine> {
        let single = self.children.iter().filter(|child| child.children.is_empty() && child.clusters.is_empty());
        let lines = single.filter_map(|child| if let [line] = &child.lines[..] { Some(line) } else { None });
        lines.filter(|line| matches!(line.style(), Some(Style::Bad | Style::Progressing)))
    }

    /// Returns the clusters that are listed in it or below it.
    pub fn listed(&self) -> Vec<&ClusterNode> {
        self.children.iter().flat_map(Self::listed).chain(&self.clusters).collect()
    }

    /// Returns its lines and those below it, without clusters.
    pub fn all_lines(&self) -> Vec<&TimedLine> {
        self.lines.iter().chain(self.children.iter().flat_map(Self::all_lines)).collect()
    }

    /// Returns all lines, with the branches drawn.
    pub fn drawn(&self, now: Timestamp) -> Vec<Line> {
        let mut lines: Vec<Line> = self.lines.iter().map(|line| line.at(now)).collect();
        let mut branches: Vec<Vec<Line>> = self.children.iter().map(|child| child.drawn(now)).collect();
        branches.extend(self.clusters.iter().map(|cluster| cluster.lines(self.width, now)));
        if self.unlisted > 0 {
            let words = format!("and {} not up to date", counted(self.unlisted, "more cluster"));
            branches.push(vec![Line::default().with(Style::Muted, words)]);
        }
        let last = branches.len();
        for (position, branch) in branches.into_iter().enumerate() {
            let (first, below) = if position + 1 == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            for (number, mut line) in branch.into_iter().enumerate() {
                let branch = if number == 0 { first } else { below };
                line.spans.insert(0, Span { style: Style::Muted, text: branch.to_owned() });
                lines.push(line);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests;
