//! The output of `gitfleet explain`: why clusters were picked or not.

use super::table::Table;
use super::tree::{Line, Style};
use decide::status::work::counted;
use model::explanation::{ClusterExplanation, Explanation, Moved, Refusal, ScoreTerm};

/// Clusters in the table of a placement; the rest is counted. `-o wide` shows all.
pub const EXPLAINED_MAX: usize = 60;

/// Returns the heading: the desired clusters, and the result.
pub fn heading(explanation: &Explanation) -> Vec<Line> {
    let Explanation { kind, namespace, name, wanted, fulfilled, message, clusters } = explanation;
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let (style, mark) = if *fulfilled { (Style::Ok, "✓ ") } else { (Style::Progressing, "! ") };
    let picked = clusters.iter().filter(|cluster| cluster.picked).count();
    vec![
        Line::default().with(style, mark).with(Style::Strong, format!("{kind} {namespace}{name}")),
        fact("wanted", wanted),
        fact("outcome", message),
        fact("picked", &format!("{picked} of {}", counted(clusters.len(), "cluster"))),
    ]
}

/// Returns one row per cluster, in the order of the explanation; `wide` also shows the score terms, the tie breaks, and every
/// cluster.
pub fn table(explanation: &Explanation, wide: bool) -> Table {
    let mut headers: Vec<String> = ["CLUSTER", "PICKED", "RANK", "SCORE"].map(str::to_owned).to_vec();
    let moved = explanation.clusters.iter().any(|cluster| cluster.decided_score.is_some());
    headers.extend(moved.then(|| "DECIDED".to_owned()));
    let terms: Vec<&str> = if wide { term_names(explanation) } else { Vec::new() };
    // Unchanged names: labels and scores are case-sensitive.
    headers.extend(terms.iter().map(|name| (*name).to_owned()));
    headers.push("WHY".to_owned());
    let shown = if wide { usize::MAX } else { EXPLAINED_MAX };
    let rows = explanation.clusters.iter().take(shown).map(|cluster| {
        let mut row = vec![
            cluster.cluster_name.to_string(),
            if cluster.picked { "yes" } else { "no" }.to_owned(),
            cluster.rank.map(|rank| rank.to_string()).unwrap_or_default(),
            number(cluster.total()),
        ];
        row.extend(moved.then(|| number(cluster.decided_score.or(cluster.total()))));
        row.extend(terms.iter().map(|name| {
            let term = cluster.scores.iter().find(|term| term.name == **name);
            number(term.map(|term| term.score))
        }));
        // The column PICKED shows the rest.
        let prefix = if cluster.picked { "picked: " } else { "not picked: " };
        let reason = cluster.reason.strip_prefix(prefix).unwrap_or(&cluster.reason);
        let since = cluster.picked_at.map(|at| format!("kept since {at:.0}"));
        let tie_break = if wide { cluster.tie_break.clone() } else { None };
        let all: Vec<String> = std::iter::once(reason.to_owned()).chain(since).chain(tie_break).collect();
        row.push(all.join("; "));
        row
    });
    Table { rows: rows.collect(), headers }
}

fn number(number: Option<i64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn term_names(explanation: &Explanation) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for term in explanation.clusters.iter().flat_map(|cluster| &cluster.scores) {
        if !names.contains(&term.name.as_str()) {
            names.push(&term.name);
        }
    }
    names
}

/// Returns the details of one cluster: the filter that rejected it with the compared values, or each score term, the rank and
/// the tie break.
pub fn cluster_lines(cluster: &ClusterExplanation) -> Vec<Line> {
    let style = if cluster.picked { Style::Ok } else { Style::Muted };
    let mark = if cluster.picked { "✓ " } else { "· " };
    let head = Line::default().with(style, mark).with(Style::Strong, cluster.cluster_name.as_str());
    let mut lines = vec![head.with(Style::Plain, format!("  {}", cluster.reason))];
    if let Some(at) = cluster.picked_at {
        lines.push(fact("kept since", &format!("{at:.0}")));
    }
    if let Some(Refusal { filter, subject, observed, wanted }) = &cluster.rejected {
        let observed = observed.as_deref().unwrap_or("absent");
        lines.push(fact("filter", filter));
        lines.push(fact("checked", subject));
        lines.push(fact("observed", observed));
        lines.push(fact("wanted", wanted));
    }
    lines.extend(score_lines(&cluster.scores));
    if let Some(score) = cluster.decided_score {
        lines.push(fact("decided", &format!("with {score}, when the clusters last changed")));
    }
    if let Some(rank) = cluster.rank {
        lines.push(fact("rank", &rank.to_string()));
    }
    if let Some(tie_break) = &cluster.tie_break {
        lines.push(fact("tie-break", tie_break));
    }
    lines
}

/// Returns the terms of a score and their sum, in columns.
fn score_lines(scores: &[ScoreTerm]) -> Vec<Line> {
    if scores.is_empty() {
        return Vec::new();
    }
    let width = scores.iter().map(|term| term.name.chars().count()).max().unwrap_or_default().max("term".len());
    let head = format!("    {:<width$}  {:>6}  {:>6}  observed", "term", "score", "weight");
    let mut lines = vec![Line::default().with(Style::Muted, head)];
    lines.extend(scores.iter().map(|ScoreTerm { name, weight, observed, score }| {
        let weight = weight.map(|weight| weight.to_string()).unwrap_or_default();
        let observed = observed.as_deref().unwrap_or_default();
        let text = format!("    {name:<width$}  {score:>6}  {weight:>6}  {observed}");
        Line::default().with(Style::Plain, text.trim_end())
    }));
    let sum: i64 = scores.iter().map(|term| term.score).sum();
    lines.push(Line::default().with(Style::Plain, format!("    {:<width$}  {sum:>6}", "sum")));
    lines
}

fn fact(name: &str, value: &str) -> Line {
    Line::default().with(Style::Muted, format!("    {name:<11}")).with(Style::Plain, value)
}

/// Returns the clusters that changed between two commits, one line each.
pub fn moved_lines(changes: &[Moved]) -> Vec<Line> {
    if changes.is_empty() {
        return vec![Line::default().with(Style::Muted, "no cluster moves from base to head")];
    }
    let heading = Line::default().with(Style::Strong, "from base to head");
    let moves = changes.iter().map(|moved| Line::default().with(Style::Plain, format!("    {}", moved.text)));
    std::iter::once(heading).chain(moves).collect()
}
