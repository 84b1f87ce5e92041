//! `describe` of a placement, as a page that a person can read: what it is, how its rollout stands, and its clusters.

use super::table::{Table, age};
use super::tree::{LISTED_MAX, Line, Node, PlacementRow, StagedNode, Style, all_clusters};
use decide::status::placement::PlacementView;
use decide::status::staged_run::active_run;
use decide::status::work::{counted, objects};
use model::api::annotations::{OCM_PLACEMENT, STAGED_UPDATE_STRATEGY};
use model::api::placement::PlacementType;
use model::id::CommitId;

/// A placement as a page.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementPage {
    /// What it is, and how its rollout stands.
    pub head: Vec<Line>,
    /// Its clusters: those that are not as they are to be, where they are many.
    pub clusters: Table,
    /// How many clusters are not in the table.
    pub unlisted: usize,
}

/// Describes a placement. `approvers` are those of the configuration; `subject` says what a commit is about.
pub fn placement_page(
    view: &PlacementView,
    approvers: Option<&str>,
    subject: &dyn Fn(&CommitId) -> Option<String>,
) -> PlacementPage {
    let mut status = PlacementRow::of(view, approvers);
    without_clusters(&mut status.below);
    let mut head = status.lines(view.now);
    head.push(Line::default());
    let facts = facts(view, subject);
    let width = facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0) + 1;
    head.extend(facts.into_iter().map(|(label, text)| {
        let label = format!("{label}:");
        Line::default().with(Style::Strong, format!("{label:width$}  ")).with(Style::Plain, text)
    }));
    let mut listed = all_clusters(view);
    let all = listed.len();
    if all > LISTED_MAX {
        listed.retain(|staged| !staged.node.is_right());
        listed.truncate(LISTED_MAX);
    }
    let unlisted = all - listed.len();
    PlacementPage { head, clusters: clusters(view, &listed), unlisted }
}

fn without_clusters(node: &mut Node) {
    node.clusters.clear();
    node.unlisted = 0;
    node.children.iter_mut().for_each(without_clusters);
}

fn facts(view: &PlacementView, subject: &dyn Fn(&CommitId) -> Option<String>) -> Vec<(&'static str, String)> {
    let record = view.record;
    let snapshot = view.snapshot.map(|snapshot| {
        let subject = subject(&snapshot.commit).map(|subject| format!(", {subject:?}")).unwrap_or_default();
        let commit = snapshot.commit.short();
        let age = age(snapshot.created_at, view.now);
        format!("{} of commit {commit}{subject}, {age} ago, {}", snapshot.index, objects(snapshot.resources.len()))
    });
    let file = record.origin.as_ref().map(|origin| format!("{}:{}", origin.path, origin.line));
    let all = [
        ("Snapshot", snapshot),
        ("Picks", Some(picks(view))),
        ("Strategy", Some(strategy(view))),
        ("File", file),
        ("Age", Some(age(record.created_at, view.now))),
    ];
    all.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
}

fn picks(view: &PlacementView) -> String {
    if let Some(key) = view.record.annotations.get(OCM_PLACEMENT) {
        return format!("the clusters of the OCM Placement {key}");
    }
    let policy = view.record.spec.policy.as_ref();
    match policy.map(|policy| policy.placement_type) {
        None | Some(PlacementType::PickAll) => "all clusters that fit".to_owned(),
        Some(PlacementType::PickFixed) => "clusters by name".to_owned(),
        Some(PlacementType::PickN) => {
            let count = policy.and_then(|policy| policy.number_of_clusters).unwrap_or_default();
            counted(usize::try_from(count).unwrap_or_default(), "cluster")
        }
    }
}

fn strategy(view: &PlacementView) -> String {
    if !view.is_external() {
        return "rolling update".to_owned();
    }
    let named = view.record.annotations.get(STAGED_UPDATE_STRATEGY);
    match named.or_else(|| active_run(view.runs).map(|run| &run.strategy)) {
        Some(name) => format!("staged update by {name}"),
        None => "staged update runs in git".to_owned(),
    }
}

fn clusters(view: &PlacementView, listed: &[StagedNode]) -> Table {
    let has_stages = listed.iter().any(|staged| staged.stage.is_some());
    let mut table = Table::default();
    table.headers.push("CLUSTER".to_owned());
    table.headers.extend(has_stages.then(|| "STAGE".to_owned()));
    table.headers.extend(["SNAPSHOT", "STATE"].map(str::to_owned));
    for StagedNode { stage, node } in listed {
        let state = format!("{} {}", node.state.1, node.words.at(view.now));
        let mut row = vec![node.cluster.clone()];
        row.extend(has_stages.then(|| stage.unwrap_or_default().to_owned()));
        row.extend([node.snapshot.clone().unwrap_or_else(|| "-".to_owned()), state]);
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Case, CaseStatus as _, run_at_approval};

    fn text(page: &PlacementPage) -> String {
        let head = page.head.iter().map(|line| line.spans.iter().map(|span| span.text.as_str()).collect::<String>());
        let rows = std::iter::once(&page.clusters.headers).chain(&page.clusters.rows).map(|row| row.join(" | "));
        let lines: Vec<String> = head.chain(rows).map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n")
    }

    #[test]
    fn a_page_says_what_it_is_and_how_it_stands() {
        let mut case = Case::healthy(&["east", "west"]);
        case.offline("west");
        let subject = |_: &CommitId| Some("Bump the image".to_owned());
        insta::assert_snapshot!(text(&placement_page(&case.view(), None, &subject)), @r#"
        ✓ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 2 of 2 clusters up to date

        Snapshot:  3 of commit 1a2b3c4, "Bump the image", 60s ago, 2 objects
        Picks:     all clusters that fit
        Strategy:  rolling update
        Age:       60s
        CLUSTER | SNAPSHOT | STATE
        east | 3 | ✓ available for 50s
        west | 3 | ? available when it answered last; offline (connection refused) for 60s
        "#);
    }

    #[test]
    fn a_staged_page_names_the_stage_of_each_cluster() {
        let case = Case::healthy(&["east", "west"]).with_run(run_at_approval());
        insta::assert_snapshot!(text(&placement_page(&case.view(), Some("user:ann"), &|_| None)), @r"
        ! ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 2 of 2 clusters up to date: waits for a person
        └─ ! run web-3  to snapshot 3 by three-stages  waits
           ├─ ✓ stage staging  1 of 1 cluster done, ended 41s ago
           ├─ ! stage canary  2 of 2 clusters done
           │      waits for approval before the next stage, for 30s, digest canary-0a1b2
           │      by user:ann by comment, or a token of the API
           │      gitfleet approve web-3 canary
           └─ · stage production  1 cluster

        Snapshot:  3 of commit 1a2b3c4, 60s ago, 2 objects
        Picks:     all clusters that fit
        Strategy:  staged update by three-stages
        Age:       60s
        CLUSTER | STAGE | SNAPSHOT | STATE
        east | staging | 3 | ✓ done 53s ago
        north | canary | - | ✓ done 35s ago
        south | canary | - | ✓ done 35s ago
        west | production | 3 | · waits for its turn
        ");
    }
}
