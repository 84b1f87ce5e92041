//! The output of `gitfleet schedule`: a row per cluster, and the placements with too few clusters.

use std::collections::BTreeMap;

use serde_json::Value;

use super::table::{Table, text};
use decide::status::work::counted;
use model::api::ocm::{GROUP_INDEX_LABEL, GROUP_NAME_LABEL};
use model::api::scheduling::PARENT_LABEL;
use model::conditions::ConditionType;

/// Rows of one placement in the table; the rest is counted. `-o wide` shows all.
const ROWS_MAX: usize = 50;

/// The decision about one placement.
pub struct Scheduled<'a> {
    /// The policy snapshot, or the OCM Placement: the object with the conditions.
    object: &'a Value,
    /// The decision group of each cluster that an OCM Placement has.
    groups: BTreeMap<String, String>,
}

impl<'a> Scheduled<'a> {
    /// Returns the placements of a list, in its order: policy snapshots, and PlacementDecisions each followed by their Placement.
    pub fn of(objects: &'a [Value]) -> Vec<Self> {
        let mut all = Vec::new();
        let mut groups = BTreeMap::new();
        for object in objects {
            if object["kind"] == "PlacementDecision" {
                let clusters = list(object, "/status/decisions").iter();
                groups.extend(clusters.map(|decision| (text(decision.get("clusterName")), group(object))));
            } else {
                all.push(Self { object, groups: std::mem::take(&mut groups) });
            }
        }
        all
    }

    /// Returns `NAME` or `NAMESPACE/NAME` of the placement.
    fn name(&self) -> String {
        let label = self.object.pointer("/metadata/labels").and_then(|labels| labels.get(PARENT_LABEL));
        let name = text(label.or_else(|| self.object.pointer("/metadata/name")));
        match self.object.pointer("/metadata/namespace") {
            Some(namespace) => format!("{}/{name}", text(Some(namespace))),
            None => name,
        }
    }

    fn kind(&self) -> &'static str {
        match text(self.object.get("kind")).as_str() {
            "Placement" => "Placement",
            "ClusterSchedulingPolicySnapshot" => "ClusterResourcePlacement",
            _ => "ResourcePlacement",
        }
    }

    /// Describes why the placement got too few clusters; `None` if it got enough.
    pub fn shortfall(&self) -> Option<String> {
        let description = self.complaint()?;
        Some(format!("{} {}: {description}", self.kind(), self.name()))
    }

    fn complaint(&self) -> Option<String> {
        // A misconfigured Placement also reports that no cluster matches, which explains nothing.
        if let Some(message) = self.message(&ConditionType::PlacementMisconfigured, "True") {
            // Source: OCM, whose message begins with a plugin's name and a colon. The name may be empty.
            return Some(message.trim_start_matches(':').to_owned());
        }
        for type_ in [ConditionType::PlacementSatisfied, ConditionType::Scheduled] {
            if let Some(message) = self.message(&type_, "False") {
                return Some(message);
            }
        }
        match list(self.object, "/status/conditions") {
            [] if self.kind() == "Placement" => Some("scheduling is disabled, what it has stays".to_owned()),
            [] => Some("the policy names no cluster".to_owned()),
            _ => None,
        }
    }

    /// Returns the message of a condition with this status.
    fn message(&self, type_: &ConditionType, status: &str) -> Option<String> {
        let mut conditions = list(self.object, "/status/conditions").iter();
        let found = conditions.find(|found| found["type"] == type_.as_str() && found["status"] == status)?;
        Some(text(found.get("message")))
    }

    /// Returns cluster, whether it is picked, score and reason; best first.
    fn rows(&self) -> Vec<[String; 4]> {
        let mut rows: Vec<[String; 4]> = match self.kind() {
            "Placement" if self.object.pointer("/status/scores").is_some() => self.ranked(),
            "Placement" => self.groups.keys().map(|cluster| self.row(cluster, String::new())).collect(),
            _ => list(self.object, "/status/targetClusters").iter().map(target).collect(),
        };
        if rows.is_empty() {
            let why = self.complaint().unwrap_or_else(|| "no cluster is asked for".to_owned());
            rows.push([String::new(), "no".to_owned(), String::new(), why]);
        }
        rows
    }

    /// Returns the clusters that passed the filters of an OCM Placement, in the order of their ranks.
    fn ranked(&self) -> Vec<[String; 4]> {
        let scores = list(self.object, "/status/scores").iter();
        let mut scores: Vec<(i64, String)> =
            scores.map(|entry| (entry["score"].as_i64().unwrap_or_default(), text(entry.get("clusterName")))).collect();
        scores.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scores.into_iter().map(|(score, cluster)| self.row(&cluster, score.to_string())).collect()
    }

    fn row(&self, cluster: &str, score: String) -> [String; 4] {
        let (picked, reason) = match self.groups.get(cluster) {
            Some(group) => ("yes", group.clone()),
            None => ("no", "not picked: clusters that rank higher fill the number asked for".to_owned()),
        };
        [cluster.to_owned(), picked.to_owned(), score, reason]
    }
}

/// Returns one row per cluster: picked ones, and the others with the reason. A placement without clusters gets one row with the
/// reason. `wide` also shows the kind of the placement, and every cluster.
pub fn table(objects: &[Value], wide: bool) -> Table {
    let mut table = Table::default();
    table.headers.push("PLACEMENT".to_owned());
    table.headers.extend(wide.then(|| "KIND".to_owned()));
    table.headers.extend(["CLUSTER", "PICKED", "SCORE", "REASON"].map(str::to_owned));
    for scheduled in Scheduled::of(objects) {
        let mut rows = scheduled.rows();
        if !wide && rows.len() > ROWS_MAX {
            let rest = counted(rows.len() - ROWS_MAX, "more cluster");
            rows.truncate(ROWS_MAX);
            rows.push([String::new(), String::new(), String::new(), format!("and {rest}; -o wide shows all")]);
        }
        for row in rows {
            let mut cells = vec![scheduled.name()];
            cells.extend(wide.then(|| scheduled.kind().to_owned()));
            cells.extend(row);
            table.rows.push(cells);
        }
    }
    table
}

fn target(decision: &Value) -> [String; 4] {
    let topology = text(decision.pointer("/clusterScore/priorityScore"));
    let affinity = text(decision.pointer("/clusterScore/affinityScore"));
    let is_scored = !topology.is_empty() || !affinity.is_empty();
    let scores = if is_scored { format!("{topology}/{affinity}") } else { String::new() };
    let picked = if decision["selected"] == true { "yes" } else { "no" };
    [text(decision.get("clusterName")), picked.to_owned(), scores, text(decision.get("reason"))]
}

/// Names the decision group of a page: `decision group 0 (canary)`.
fn group(page: &Value) -> String {
    let labels = &page["metadata"]["labels"];
    let index = text(labels.get(GROUP_INDEX_LABEL));
    let name = text(labels.get(GROUP_NAME_LABEL));
    if name.is_empty() { format!("decision group {index}") } else { format!("decision group {index} ({name})") }
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
