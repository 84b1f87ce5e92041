//! The table of a rollout, with a row for each placement and a column for each stage, and the details that are folded below it.

use super::escape::{cell, code_cell, prose, shorten};
use super::style::{sign, state_text, when};
use super::totals::doing;
use model::progress::{ClusterProgress, Progress, ProgressState, StageProgress};

/// Stages that have a column; the details have all of them.
pub const STAGES_MAX: usize = 8;
/// Characters of a placement's message in the table; the details have the rest.
const MESSAGE_CHARS_MAX: usize = 60;

/// Returns the table. A placement without stages fills only the last column, which is about all of its clusters.
pub fn matrix(placements: &[&Progress]) -> String {
    let mut columns = columns(placements);
    let more = columns.len().saturating_sub(STAGES_MAX);
    columns.truncate(STAGES_MAX);
    let names: Vec<String> = columns.iter().map(|name| format!(" {} |", cell(name))).collect();
    let rule = "---|".repeat(columns.len() + 2);
    let rows: Vec<String> = placements.iter().map(|placement| row(placement, &columns)).collect();
    let more = if more > 0 { format!("\nand {more} more stages\n") } else { String::new() };
    format!("\n| placement |{} clusters |\n|{rule}\n{}{more}", names.concat(), rows.concat())
}

/// Returns the names of all stages, each after those that come before it in its placement.
fn columns<'a>(placements: &[&'a Progress]) -> Vec<&'a str> {
    let mut columns: Vec<&str> = Vec::new();
    for placement in placements {
        let is_known = placement.stages.iter().any(|stage| columns.contains(&stage.name.as_str()));
        let mut next = if is_known { 0 } else { columns.len() };
        for stage in &placement.stages {
            let known = columns.iter().position(|name| *name == stage.name);
            let at = known.unwrap_or(next);
            if known.is_none() {
                columns.insert(at, &stage.name);
            }
            next = at + 1;
        }
    }
    columns
}

fn row(placement: &Progress, columns: &[&str]) -> String {
    let is_left = matches!(placement.state, ProgressState::Superseded { .. });
    let cells = columns.iter().map(|name| match placement.stages.iter().find(|stage| stage.name == *name) {
        Some(stage) if !is_left => format!(" {} {}/{} |", sign(&stage.state), stage.done, stage.total),
        _ => " |".to_owned(),
    });
    let name = code_cell(&placement.placement.to_string());
    format!("| {name} |{} {} |\n", cells.collect::<Vec<_>>().concat(), standing(placement))
}

/// Describes all clusters of a placement: how many are done, and what it does.
fn standing(placement: &Progress) -> String {
    let sign = sign(&placement.state);
    let count = format!("{}/{}", placement.done, placement.total);
    let words = match &placement.state {
        ProgressState::Done => return format!("{sign} {count}"),
        ProgressState::Superseded { .. } => return format!("{sign} {}", state_text(&placement.state)),
        ProgressState::RolledBack { .. } => state_text(&placement.state),
        _ => cell(&doing(placement)[0]),
    };
    // What a gate waits for is in the request above the table.
    let is_asked = placement.state == ProgressState::WaitingForPerson;
    let message = Some(&placement.message).filter(|message| !message.is_empty() && !is_asked);
    let message = message.map(|message| format!(": {}", cell(&shorten(message, MESSAGE_CHARS_MAX))));
    format!("{sign} {count}, {words}{}", message.unwrap_or_default())
}

/// Returns what there is to say about a placement's stages and clusters, folded; `None` if the table says it all.
pub fn details(placement: &Progress) -> Option<String> {
    let is_left = matches!(placement.state, ProgressState::Superseded { .. });
    let clusters: Vec<&ClusterProgress> =
        placement.stages.iter().flat_map(|stage| &stage.clusters).chain(&placement.clusters).collect();
    if is_left || (placement.stages.is_empty() && clusters.is_empty()) {
        return None;
    }
    let stages = placement.stages.iter().map(stage_row);
    let stages = table("| stage | clusters | state | who and when |\n|---|---|---|---|", stages);
    let clusters = clusters.into_iter().map(cluster_row);
    let clusters = table("| cluster | state | message |\n|---|---|---|", clusters);
    let title = prose(&placement.placement.to_string());
    Some(format!("\n<details><summary>{title}: stages and clusters</summary>\n\n{stages}{clusters}</details>\n"))
}

/// Returns a table, or nothing where it has no rows.
fn table(head: &str, rows: impl Iterator<Item = String>) -> String {
    let rows: String = rows.collect();
    if rows.is_empty() { rows } else { format!("{head}\n{rows}\n") }
}

fn stage_row(stage: &StageProgress) -> String {
    let people: Vec<String> = stage.approved_by.iter().map(|person| code_cell(person)).collect();
    let people = if people.is_empty() { None } else { Some(format!("approved by {}", people.join(", "))) };
    let time = match (stage.started_at, stage.ended_at) {
        (_, Some(at)) => Some(format!("ended {}", when(at))),
        (Some(at), None) => Some(format!("since {}", when(at))),
        (None, None) => None,
    };
    let facts: Vec<String> = people.into_iter().chain(time).collect();
    let is_said_by_message = matches!(stage.state, ProgressState::WaitingForPerson | ProgressState::Waiting);
    let description = match &*stage.message {
        "" => state_text(&stage.state),
        message if is_said_by_message => cell(message),
        message => format!("{}: {}", state_text(&stage.state), cell(message)),
    };
    let name = code_cell(&stage.name);
    let sign = sign(&stage.state);
    format!("| {name} | {}/{} | {sign} {description} | {} |\n", stage.done, stage.total, facts.join(", "))
}

fn cluster_row(cluster: &ClusterProgress) -> String {
    let name = code_cell(cluster.name.as_str());
    let sign = sign(&cluster.state);
    format!("| {name} | {sign} {} | {} |\n", state_text(&cluster.state), prose(&cluster.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comments::fixtures::{halted, stage, waiting};
    use model::id::PlacementKey;

    #[test]
    fn stages_of_several_strategies_keep_their_order() {
        use ProgressState::{Done, Moving, Queued};
        let staged = |name: &str, stages: &[&str]| Progress {
            placement: PlacementKey::cluster_scoped(name),
            stages: stages.iter().map(|name| stage(name, Queued, 0, 1)).collect(),
            ..waiting()
        };
        let rolling = Progress { state: Moving, stages: vec![], ..waiting() };
        let all = [staged("api", &["dev", "prod"]), staged("web", &["dev", "canary", "prod"]), staged("x", &["last"])];
        let names = columns(&all.iter().collect::<Vec<_>>());
        assert_eq!(names, ["dev", "canary", "prod", "last"]);
        insta::assert_snapshot!(matrix(&[&halted(), &waiting(), &rolling, &Progress { state: Done, ..rolling.clone() }]), @r"
        | placement | staging | canary | production | clusters |
        |---|---|---|---|---|
        | `web` | ✅ 1/1 | ❌ 1/2 | ⚪ 0/1 | ❌ 2/4, failed: 1 cluster of stage canary failed |
        | `web` | ✅ 1/1 | ✋ 2/2 | ⚪ 0/1 | ✋ 3/4, waits at canary |
        | `web` | | | | 🔵 3/4, on the way |
        | `web` | | | | ✅ 3/4 |
        ");
    }

    #[test]
    fn many_stages_are_counted() {
        let names: Vec<String> = (0..STAGES_MAX + 3).map(|number| format!("s{number:02}")).collect();
        let stages = names.iter().map(|name| stage(name, ProgressState::Queued, 0, 1)).collect();
        let text = matrix(&[&Progress { stages, ..waiting() }]);
        assert!(text.contains("| s07 | clusters |") && text.ends_with("and 3 more stages\n"), "{text}");
    }
}
