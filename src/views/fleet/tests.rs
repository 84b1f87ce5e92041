//! What is shared between two fleets, and when something else is said.

use super::*;
use crate::fixtures::{Case, CaseStatus as _, at, decision};
use crate::fixtures::{fleet, records};
use crate::rows::cluster_counts;
use decide::status::rollout::StateKind;

fn shown(fleet: &FleetView, name: &str) -> Arc<Shown> {
    fleet.placements[&PlacementKey::cluster_scoped(name)].shown(fleet, at(60))
}

#[test]
fn what_did_not_change_is_shared_with_what_is_said_of_it() {
    let case = Case::healthy(&["east", "west"]);
    let before = fleet(&["api", "web"], &case);
    let (api, web) = (shown(&before, "api"), shown(&before, "web"));
    let key = PlacementKey::cluster_scoped("web");
    let changes = Changes { placements: [(key, Some(records(&case, "web")))].into(), ..Changes::default() };
    let after = before.with(changes);
    assert!(Arc::ptr_eq(&api, &shown(&after, "api")));
    assert!(!Arc::ptr_eq(&web, &shown(&after, "web")));
    assert!(Arc::ptr_eq(&web, &shown(&before, "web")), "whoever holds the older fleet sees no change");
    assert_eq!((before.version, after.version), (1, 2));
}

#[test]
fn only_what_a_placement_says_of_a_cluster_makes_it_say_something_else() {
    let case = Case::healthy(&["east"]);
    let mut elsewhere = Case::healthy(&["north"]);
    elsewhere.clusters.extend(case.clusters.clone());
    let web = (PlacementKey::cluster_scoped("web"), Some(records(&case, "web")));
    let before = fleet(&["api"], &elsewhere).with(Changes { placements: [web].into(), ..Changes::default() });
    let (api, web) = (shown(&before, "api"), shown(&before, "web"));
    let with = |change: fn(&mut ClusterRecord)| {
        let mut east = before.clusters["east"].clone();
        change(&mut east);
        before.with(Changes { clusters: vec![east], ..Changes::default() })
    };
    let facts = with(|east| drop(east.properties.insert("nodes".into(), "7".into())));
    assert!(Arc::ptr_eq(&web, &shown(&facts, "web")), "its nodes are shown elsewhere");
    assert_eq!(facts.cluster_versions["east"], 3);
    let offline = with(|east| (east.online, east.message) = (false, Some("refused".into())));
    assert!(Arc::ptr_eq(&api, &shown(&offline, "api")));
    let after = shown(&offline, "web");
    let words = after.row.below.clusters[0].words.at(at(60));
    assert!(words.contains("offline (refused)"), "{words}");
}

#[test]
fn a_cluster_counts_the_placements_that_picked_it_and_those_that_it_is_behind_with() {
    let mut case = Case::healthy(&["east", "west"]);
    case.binding("west").snapshot = Some(2);
    case.policy.as_mut().expect("a policy").target_clusters.push(decision("north", false));
    let before = fleet(&["api", "web"], &case);
    let counts = |fleet: &FleetView| ["east", "north", "west", "gone"].map(|name| cluster_counts(fleet, &name.into()));
    assert_eq!(counts(&before), [(2, 0), (0, 0), (2, 2), (0, 0)]);
    let web = records(&Case::healthy(&["east", "west"]), "web");
    let after =
        before.with(Changes { placements: [("web".parse().expect("a key"), Some(web))].into(), ..Changes::default() });
    assert_eq!(counts(&after), [(2, 0), (0, 0), (2, 1), (0, 0)]);
    assert_eq!(counts(&before)[2], (2, 2), "whoever holds the older fleet sees no change");
}

#[test]
fn time_alone_changes_what_is_said_at_a_deadline() {
    let mut case = Case::healthy(&["east"]);
    case.work("east").complete = false;
    case.settle();
    let fleet = fleet(&["web"], &case);
    let placed = &fleet.placements[&PlacementKey::cluster_scoped("web")];
    let kind = |seconds| placed.shown(&fleet, at(seconds)).row.state.kind();
    assert_eq!(kind(60), StateKind::Progressing);
    assert_eq!(kind(599), StateKind::Progressing);
    assert_eq!(kind(600), StateKind::Failed, "it is not done within 10 minutes");
}

#[test]
fn removals_are_remembered_up_to_a_limit() {
    let case = Case::healthy(&["east"]);
    let mut fleet = fleet(&[], &case);
    for number in 0..REMOVALS_MAX + 2 {
        let name = format!("app-{number}");
        let key = PlacementKey::cluster_scoped(name.as_str());
        fleet = fleet
            .with(Changes { placements: [(key.clone(), Some(records(&case, &name)))].into(), ..Changes::default() });
        fleet = fleet.with(Changes { placements: [(key, None)].into(), ..Changes::default() });
    }
    assert!(fleet.placements.is_empty());
    assert_eq!(fleet.removals.len(), REMOVALS_MAX);
    assert_eq!(fleet.removals.front().map(|(_, key)| key.name.as_str()), Some("app-2"));
}
