//! Which sign stands at which cluster.

use super::*;
use model::api::condition::{Condition, ConditionStatus, set_condition};
use model::conditions::{ConditionType, Reason};

#[test]
fn m14_a_cross_is_where_something_failed_and_only_there() {
    let mut case = Case::healthy(&["east", "north-1", "west"]);
    case.work("east").manifests[1] = manifest("b", ApplyOutcome::Applied, Some(Availability::Failed));
    case.record.behind.insert("north-1".into());
    case.settle();
    let waits = Condition::new(
        ConditionType::RolloutStarted,
        ConditionStatus::False,
        Reason::RolloutNotStartedYet,
        "its turn has not come".to_owned(),
        case.binding("west").generation,
        at(0),
    );
    set_condition(&mut case.binding("west").conditions, waits);
    let (source, view) = (source(), case.view());
    let row = PlacementRow::of(&view, source.approvers.as_deref());
    let lines: Vec<String> = row.lines(at(60)).into_iter().map(text).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    ↻ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 1 of 3 clusters up to date: in progress
    ├─ ✗ east     snapshot 3  1 of 2 objects available
    │      ConfigMap web/b: ManifestNotAvailableYet: the object failed
    ├─ · north-1  snapshot 3  holds snapshot 3 with earlier overrides or another apply strategy; waits for its turn
    └─ · west     snapshot 3  its turn has not come
    ");
}
