use std::fmt::Write as _;

use model::records::{ApplyOutcome, ClusterRecord, MemberKind, WorkStatus};
use model::runs::{ClusterPhase, RunPhase};
use model::work::WorkOrder;
use testkit::records::{manifest, run, stage};
use testkit::trees::{member, tree};

use super::*;
use crate::hand_over::decide_each;
use crate::state::clusters;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const CLUSTERS: [&str; 2] = ["a", "b"];

/// Placements of Namespaces, some on one cluster alone, decided from commit to commit.
#[derive(Default)]
struct Fleet {
    shared: FleetState,
    placements: BTreeMap<PlacementKey, PlacementState>,
    /// More that every commit has.
    more: String,
}

/// A placement, the Namespaces that it selects, and the only cluster that it picks, if it picks one.
type Written = (&'static str, &'static [&'static str], Option<&'static str>);

/// What happens, the placements of each commit, and those that the last commit renames, each before its new name.
type Row<'a> = (&'a str, &'a [&'a [Written]], &'a [(&'a str, &'a str)]);

fn text(placements: &[Written], content: u8) -> String {
    let mut text: String = CLUSTERS.iter().map(|name| member(name, "")).collect();
    for namespace in ["one", "two"] {
        write!(
            text,
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}, labels: {{v: v{content}}}}}\n---\n"
        )
        .expect("a String takes it");
    }
    for (name, namespaces, cluster) in placements {
        let selector = |name: &&str| format!("{{group: '', version: v1, kind: Namespace, name: {name}}}");
        let selectors: Vec<String> = namespaces.iter().map(selector).collect();
        let policy = cluster.map_or(String::new(), |cluster| {
            format!("  policy: {{placementType: PickFixed, clusterNames: [{cluster}]}}\n")
        });
        write!(
            text,
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: {name}}}\n\
             spec:\n  resourceSelectors: [{}]\n{policy}---\n",
            selectors.join(", ")
        )
        .expect("a String takes it");
    }
    text
}

impl Fleet {
    fn begin() -> Self {
        let record =
            |name: &str| ClusterRecord { kind: MemberKind::Live, online: true, ..ClusterRecord::new(name.into(), NOW) };
        let records = CLUSTERS.iter().map(|name| (ClusterName::from(*name), record(name))).collect();
        let shared = FleetState { source: "s".into(), records, ..FleetState::default() };
        Self { shared, ..Self::default() }
    }

    /// Accepts a commit and decides. Returns the placements that continue under a new name, each after the one before. Members do what
    /// they are told, unless they are slow.
    fn push(&mut self, placements: &[Written], content: u8, is_slow: bool) -> Vec<(String, String)> {
        self.shared.tree = tree(&[("f.yaml", &(text(placements, content) + &self.more))]);
        self.shared.overrides.follow(&self.shared.tree, &named(self.placements.values()), NOW);
        self.shared.clusters = clusters(&self.shared.tree, &self.shared.records, NOW);
        let due: BTreeSet<PlacementKey> =
            self.shared.tree.placements.keys().chain(self.placements.keys()).cloned().collect();
        let before = |key: &PlacementKey| {
            let known = self.placements.get(key).cloned();
            known.or_else(|| Some(PlacementState::begin(self.shared.tree.placements.get(key)?, NOW)))
        };
        let mut decided = decide_each(&due, &self.placements, before, &self.shared, NOW);
        let renamed =
            decided.iter().filter_map(|(key, decision)| Some((decision.renamed_from()?.to_string(), key.to_string())));
        let renamed = renamed.collect();
        for decision in decided.values_mut().filter(|_| !is_slow) {
            for order in decision.orders.iter() {
                let work = Arc::new(holding(order));
                decision.state.works.insert(order.cluster.clone(), work);
            }
        }
        let kept = decided.into_iter().filter(|(_, decision)| !decision.finished);
        self.placements = kept.map(|(key, decision)| (key, decision.state)).collect();
        renamed
    }

    fn clusters_of(&self, name: &str) -> Vec<String> {
        let state = self.placements.get(&PlacementKey::cluster_scoped(name));
        let clusters = state.into_iter().flat_map(PlacementState::bindings).filter(|binding| stays(binding));
        clusters.map(|binding| format!("{} {:?}", binding.cluster, binding.snapshot)).collect()
    }
}

fn holding(order: &WorkOrder) -> WorkStatus {
    let inventory = order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect();
    WorkStatus { generation: order.generation, complete: true, inventory, ..WorkStatus::default() }
}

#[test]
fn a_placement_is_renamed_where_nothing_else_can_be_meant() {
    let (p, q, r): (Written, Written, Written) = (("p", &["one"], None), ("q", &["one"], None), ("r", &["two"], None));
    let whole: Written = ("q", &["one", "two"], None);
    let rows: &[Row<'_>] = &[
        ("renamed", &[&[p], &[q]], &[("p", "q")]),
        ("nothing changes", &[&[p], &[p]], &[]),
        ("a copy", &[&[p], &[p, q]], &[]),
        ("a copy, and the first is removed later", &[&[p], &[p, q], &[q]], &[("p", "q")]),
        ("two are renamed", &[&[p, r], &[q, ("s", &["two"], None)]], &[("p", "q"), ("r", "s")]),
        ("split", &[&[("p", &["one", "two"], None)], &[q, r]], &[]),
        ("renamed, with less", &[&[("p", &["one", "two"], None)], &[q]], &[("p", "q")]),
        ("renamed, with more", &[&[p], &[whole]], &[("p", "q")]),
        ("two become one", &[&[p, r], &[whole]], &[]),
        ("another that stays takes it", &[&[p, r], &[("r", &["one", "two"], None)]], &[]),
        ("another has nothing of it", &[&[p], &[r]], &[]),
    ];
    for (what, commits, wanted) in rows {
        let mut fleet = Fleet::begin();
        let mut renamed = Vec::new();
        for (number, placements) in commits.iter().enumerate() {
            renamed = fleet.push(placements, 1, number > 0);
        }
        let wanted: Vec<_> = wanted.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        assert_eq!(renamed, wanted, "{what}");
    }
}

#[test]
fn a_rename_that_is_taken_back_gives_the_first_name_everything() {
    let mut fleet = Fleet::begin();
    fleet.push(&[("p", &["one"], None)], 1, false);
    assert_eq!(fleet.push(&[("q", &["one"], None)], 1, true).len(), 1);
    let back = fleet.push(&[("p", &["one"], None)], 1, true);
    assert_eq!(back, [("q".to_owned(), "p".to_owned())]);
    assert_eq!(fleet.clusters_of("p"), ["a Some(0)", "b Some(0)"]);
}

#[test]
fn a_snapshot_that_could_be_read_for_one_name_is_readable_under_the_name_that_comes_back() {
    let mut fleet = Fleet::begin();
    fleet.push(&[("p", &["one"], None)], 1, false);
    assert_eq!(fleet.push(&[("q", &["one"], None)], 1, true).len(), 1);
    for (readable, wanted) in [("p", true), ("q", true), ("neither", false)] {
        let [q, p] = ["q", "p"].map(|name| {
            let mut state = fleet.placements[&PlacementKey::cluster_scoped(name)].clone();
            if name != readable {
                state.payloads.clear();
                state.unreadable.insert(0);
            }
            state
        });
        let back = moved(&q, &p, &BTreeSet::new(), NOW);
        let is_there = back.payloads.contains_key(&0);
        assert_eq!((is_there, back.unreadable.contains(&0)), (wanted, !wanted), "readable: {readable}");
    }
}

/// Members hold everything under the first name still, so that nothing changes hands when it comes back.
#[test]
fn what_protected_clusters_does_so_where_the_first_name_comes_back_in_part() {
    let mut fleet = Fleet::begin();
    fleet.push(&[("p", &["one", "two"], None)], 1, false);
    let p = fleet.placements.get_mut(&PlacementKey::cluster_scoped("p")).expect("it is there");
    p.record.asked_before.insert("a".into(), 2);
    assert_eq!(fleet.push(&[("q", &["one", "two"], None)], 1, true).len(), 1);
    assert!(fleet.push(&[("p", &["one"], None), ("r", &["two"], None)], 1, true).is_empty(), "split");
    for name in ["p", "r"] {
        let record = &fleet.placements[&PlacementKey::cluster_scoped(name)].record;
        assert!(record.paused.is_some(), "{name} moves, and approvals protected it");
    }
}

#[test]
fn clusters_that_the_new_policy_does_not_pick_stay_with_the_old_name() {
    let mut fleet = Fleet::begin();
    fleet.push(&[("p", &["one"], None)], 1, false);
    assert_eq!(fleet.push(&[("q", &["one"], Some("a"))], 1, true).len(), 1);
    assert_eq!(fleet.clusters_of("q"), ["a Some(0)"]);
    let old = &fleet.placements[&PlacementKey::cluster_scoped("p")];
    let going: Vec<String> = old.bindings().map(|binding| binding.cluster.to_string()).collect();
    assert!(old.record.removed && going.contains(&"b".to_owned()), "{going:?}");
}

#[test]
fn no_index_means_two_contents_under_the_new_name() {
    let (p, q): (Written, Written) = (("p", &["one"], None), ("q", &["one"], None));
    let mut fleet = Fleet::begin();
    fleet.push(&[p], 1, false);
    // A copy with a content of its own, which never got anything.
    fleet.push(&[p, q], 2, true);
    let indexes = |fleet: &Fleet| -> Vec<u64> {
        fleet.placements[&PlacementKey::cluster_scoped("q")].snapshots.keys().copied().collect()
    };
    assert_eq!(indexes(&fleet), [0]);
    assert_eq!(fleet.push(&[q], 2, true), [("p".to_owned(), "q".to_owned())]);
    assert_eq!(indexes(&fleet), [0, 1, 2], "snapshots 0 and 1 of p follow after the one of q");
}

/// An override of Namespace `one` for a placement.
fn override_for(placement: &str, value: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourceOverride\nmetadata: {{name: o}}\nspec:\n  \
         placement: {{name: {placement}}}\n  clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: one}}]\n  \
         policy: {{overrideRules: [{{clusterSelector: {{}}, jsonPatchOverrides: [{{op: add, path: /metadata/labels/o, value: \
         {value}}}]}}]}}\n---\n"
    )
}

/// A run that brought snapshot 0 of a placement by stages, and that ended because cluster `a` failed.
fn failed_run(state: &PlacementState) -> RunRecord {
    let binding = state.bindings().find(|binding| binding.cluster == "a".into()).expect("it is bound");
    let stages = vec![stage("one", &["a"], &[])];
    let mut run = RunRecord { placement: state.record.key.clone(), phase: RunPhase::Failed, stages, ..run() };
    let frozen = run.frozen.as_mut().expect("it is frozen");
    (frozen.snapshot, frozen.apply_strategy) = (0, binding.apply_strategy.clone());
    let cluster = &mut run.stages[0].clusters[0];
    (cluster.phase, cluster.overrides) = (ClusterPhase::Failed, binding.overrides.clone());
    run
}

/// Cluster `a` failed. The commit that renames the placement changes the name in its override as well, and perhaps what that does.
#[test]
fn an_override_that_names_the_placement_follows_its_new_name() {
    let (p, q): (Written, Written) = (("p", &["one"], None), ("q", &["one"], None));
    for (value, is_staged) in [("x", false), ("x", true), ("z", false), ("z", true)] {
        let mut fleet = Fleet::begin();
        fleet.more = override_for("p", "x");
        fleet.push(&[p], 1, false);
        let old = fleet.placements.get_mut(&PlacementKey::cluster_scoped("p")).expect("it is there");
        if is_staged {
            let run = failed_run(old);
            old.runs.insert(run);
        } else {
            let refused = vec![manifest("one", ApplyOutcome::ManifestApplyFailed, None)];
            let work = WorkStatus { manifests: refused.into(), ..WorkStatus::clone(&old.works["a"]) };
            old.works.insert("a".into(), Arc::new(work));
            fleet.push(&[p], 1, true);
        }
        fleet.more = override_for("q", value);
        assert_eq!(fleet.push(&[q], 1, true).len(), 1);
        let new = &fleet.placements[&PlacementKey::cluster_scoped("q")];
        let does_the_same = value == "x";
        assert_eq!(new.record.halted.is_some(), does_the_same, "{value} {is_staged}: {:?}", new.record.halted);
        let has_it = |binding: &Binding| binding.overrides.ids().all(|id| id.index == 1) && binding.generation == 1;
        assert!(!does_the_same || new.bindings().all(has_it), "nothing is rolled out: {:?}", new.bindings);
    }
}

/// Members still hold what `q` had, which git has no more, when `p` gets that name.
#[test]
fn what_protected_clusters_under_the_new_name_does_so_where_the_old_one_does_not_know_them() {
    let rows = [
        ("the old name knows nothing of them", false, false, true),
        ("the last run was one of the old name", true, false, false),
        ("all of it went to the old name before", false, true, false),
    ];
    for (what, has_run, went_there, is_asked) in rows {
        let mut fleet = Fleet::begin();
        fleet.push(&[("p", &["one"], None), ("q", &["two"], None)], 1, false);
        fleet.push(&[("p", &["one"], None)], 1, true);
        let [p, q] = ["p", "q"].map(PlacementKey::cluster_scoped);
        let new = &mut fleet.placements.get_mut(&q).expect("members hold something of it").record;
        new.asked_before.insert("a".into(), 1);
        new.renamed_to = Some(p.clone()).filter(|_| went_there);
        let old = fleet.placements.get_mut(&p).expect("it is there");
        if has_run {
            let run = failed_run(old);
            old.runs.insert(run);
        }
        assert_eq!(fleet.push(&[("q", &["one"], None)], 1, true).len(), 1, "{what}");
        assert_eq!(fleet.placements[&q].record.paused.is_some(), is_asked, "{what}");
    }
}
