//! The history of a placement: its snapshots, who approved them, and what became of each.

use jiff::Timestamp;
use serde::Serialize;

use super::comments::style::state_text;
use super::rows::snapshot_state;
use super::table::{Table, age};
use decide::status::placement::PlacementView;
use decide::status::progress::progress;
use model::id::CommitId;
use model::runs::{ApprovalRules, RunRecord};

/// One snapshot of a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PastSnapshot {
    /// Its index.
    pub index: u64,
    /// The commit of its objects.
    pub commit: CommitId,
    /// What the commit is about; absent where the history of the source is not at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it was frozen.
    pub created_at: Timestamp,
    /// How many clusters have it now.
    pub clusters: usize,
    /// What became of it, in words.
    pub result: String,
    /// Who approved it, with the stages.
    pub approved_by: Vec<String>,
    /// The runs that moved clusters to it.
    pub runs: Vec<String>,
}

/// Returns the kept snapshots of a placement, the newest first.
pub fn history(view: &PlacementView, subject: &dyn Fn(&CommitId) -> Option<String>) -> Vec<PastSnapshot> {
    // What the rules say of approvals that are still to come is of no interest here.
    let ways = progress(view, ApprovalRules::default());
    let past = view.history.values().rev().map(|snapshot| {
        let index = Some(snapshot.index);
        let clusters = view.bindings().filter(|binding| binding.snapshot == index && !binding.deleting).count();
        let runs: Vec<&RunRecord> = view.runs.values().filter(|run| run.snapshot() == index).collect();
        PastSnapshot {
            index: snapshot.index,
            commit: snapshot.commit.clone(),
            subject: subject(&snapshot.commit),
            created_at: snapshot.created_at,
            clusters,
            result: match ways.iter().find(|way| way.snapshot == index) {
                Some(way) => state_text(&way.state),
                None => snapshot_state(snapshot, Some(view.record), view.newest(), clusters).to_owned(),
            },
            approved_by: runs.iter().flat_map(|run| approvals(run)).collect(),
            runs: runs.iter().map(|run| run.name.clone()).collect(),
        }
    });
    past.collect()
}

/// Names who approved the stages of a run.
fn approvals(run: &RunRecord) -> Vec<String> {
    let of_stages = run.stages.iter().flat_map(|stage| {
        let tasks = stage.before.iter().chain(&stage.after);
        tasks.flat_map(|task| &task.approvals).map(|approval| format!("{} ({})", approval.by.name, stage.name))
    });
    of_stages.collect()
}

/// Returns the table of a history.
pub fn history_table(past: &[PastSnapshot], now: Timestamp) -> Table {
    let rows = past.iter().map(|snapshot| {
        vec![
            snapshot.index.to_string(),
            snapshot.commit.short().to_owned(),
            age(snapshot.created_at, now),
            snapshot.clusters.to_string(),
            snapshot.result.clone(),
            snapshot.approved_by.join(", "),
            snapshot.subject.clone().unwrap_or_default(),
        ]
    });
    let headers = ["SNAPSHOT", "COMMIT", "AGE", "CLUSTERS", "RESULT", "APPROVED-BY", "SUBJECT"];
    Table { headers: headers.map(str::to_owned).to_vec(), rows: rows.collect() }
}
