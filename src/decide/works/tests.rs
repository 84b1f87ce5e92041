use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::render::named;
use crate::state::{FleetState, PlacementState, clusters};
use crate::{Decision, decide};
use model::api::condition::find_condition;
use model::conditions::{ConditionType, Reason};
use model::id::{ClusterName, ObjectKey};
use model::records::{
    ApplyOutcome, Availability, Binding, BindingState, ClusterRecord, Glimpse, Inventory, ManifestStatus, MemberKind,
    WorkStatus,
};
use model::work::{Desired, WorkOrder};
use testkit::trees::{member, payload, placement, tree};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];

/// One placement of Namespace `a` on four clusters, which hold at once what they are told.
struct Fleet {
    shared: FleetState,
    state: PlacementState,
    orders: BTreeMap<ClusterName, Arc<WorkOrder>>,
}

/// A fleet with zones, at most two clusters unavailable, and what else a commit has.
fn commit(zones: [&str; 4], annotations: &str, more: &str) -> Vec<(&'static str, String)> {
    let zone = |zone: &str| if zone.is_empty() { String::new() } else { format!("labels: {{zone: {zone}}}") };
    let members = CLUSTERS.iter().zip(zones).map(|(name, of)| member(name, &zone(of)));
    let strategy = ", strategy: {rollingUpdate: {maxUnavailable: 2}}";
    vec![
        ("c.yaml", members.collect()),
        ("d.yaml", payload("1")),
        ("o.yaml", more.to_owned()),
        ("p.yaml", placement("p", annotations, strategy)),
    ]
}

/// A ResourceOverride of the ConfigMap with these rules.
fn override_of(rules: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {{name: o, namespace: a}}\nspec:\n  \
         resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: m}}]\n  policy: {{overrideRules: [{rules}]}}\n"
    )
}

const BY_ZONE: &str = "{clusterSelector: {}, jsonPatchOverrides: [{op: add, path: /data/zone, value: '${MEMBER-CLUSTER-LABEL-KEY-zone}'}]}";

impl Fleet {
    fn begin(files: &[(&'static str, String)]) -> Self {
        let record =
            |name: &str| ClusterRecord { kind: MemberKind::Live, online: true, ..ClusterRecord::new(name.into(), NOW) };
        let records = CLUSTERS.iter().map(|name| (ClusterName::from(*name), record(name))).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let tree = tree(&files);
        let state = PlacementState::begin(tree.placements.values().next().expect("a placement"), NOW);
        let mut fleet = Self {
            shared: FleetState { source: "s".into(), records, ..FleetState::default() },
            state,
            orders: BTreeMap::new(),
        };
        fleet.accept(&files);
        fleet
    }

    fn accept(&mut self, files: &[(&str, &str)]) {
        let files: Vec<_> = files.iter().copied().filter(|(_, text)| !text.is_empty()).collect();
        self.shared.tree = tree(&files);
        self.shared.overrides.follow(&self.shared.tree, &named([&self.state]), NOW);
        self.shared.clusters = clusters(&self.shared.tree, &self.shared.records, NOW);
    }

    fn push(&mut self, files: &[(&'static str, String)]) -> &mut Self {
        self.accept(&files.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>());
        self
    }

    /// Decides once; returns the clusters whose generation grew.
    fn decide(&mut self) -> Vec<String> {
        let generations = |state: &PlacementState| -> BTreeMap<ClusterName, i64> {
            state.bindings().map(|b| (b.cluster.clone(), b.generation)).collect()
        };
        let before = generations(&self.state);
        let Decision { state, orders, .. } = decide(self.state.clone(), &self.shared, NOW);
        self.state = state;
        self.orders = orders.iter().map(|order| (order.cluster.clone(), Arc::clone(order))).collect();
        let moved = generations(&self.state).into_iter().filter(|(name, new)| before.get(name) != Some(new));
        moved.map(|(name, _)| name.to_string()).collect()
    }

    fn hold(&mut self) {
        for (cluster, order) in &self.orders {
            let manifest = |desired: &Desired| ManifestStatus {
                id: desired.id.clone(),
                applied: ApplyOutcome::Applied,
                message: String::new(),
                availability: Some(Availability::Available),
                generation: None,
                manifest: None,
                owned: None,
                differences: Vec::new(),
                differs_since: None,
                observed_at: None,
            };
            let work = WorkStatus {
                generation: order.generation,
                complete: true,
                manifests: order.manifests.iter().map(manifest).collect(),
                available_since: Some(NOW),
                inventory: order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect(),
                ..WorkStatus::default()
            };
            self.state.works.insert(cluster.clone(), Arc::new(work));
        }
    }

    /// A list of some kind fails on a cluster: only these of its objects are seen.
    fn glimpse(&mut self, cluster: &str, seen: BTreeSet<ObjectKey>) {
        let unlisted = BTreeMap::from([("Secret".to_owned(), "403 Forbidden".to_owned())]);
        let inventory = Inventory::Unknown(Glimpse { seen, unlisted });
        let work = self.state.works.get(cluster).map(|work| WorkStatus::clone(work)).unwrap_or_default();
        self.state.works.insert(cluster.into(), Arc::new(WorkStatus { inventory, ..work }));
    }

    /// Decides and holds until nothing moves.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..20 {
            self.hold();
            if self.decide().is_empty() {
                return self;
            }
        }
        unreachable!("it does not settle: {:#?}", self.state.bindings)
    }

    fn binding(&self, cluster: &str) -> &Binding {
        self.state.bindings().find(|b| b.cluster.as_str() == cluster).expect("it is picked")
    }

    /// The zones that clusters are assigned; `-` without one, `?` without an order.
    fn zones(&self) -> String {
        let zone = |cluster: &&str| {
            let Some(order) = self.orders.get(*cluster) else { return "?".to_owned() };
            let map = order.manifests.iter().find(|desired| desired.id.kind == "ConfigMap");
            map.and_then(|map| Some(map.object.pointer("/data/zone")?.as_str()?.to_owned())).unwrap_or("-".to_owned())
        };
        CLUSTERS.iter().map(zone).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn an_override_rolls_out_like_content() {
    let mut fleet = Fleet::begin(&commit(["x", "x", "w", "w"], "", ""));
    assert_eq!(fleet.settle().zones(), "- - - -");
    let says = |fleet: &Fleet| {
        find_condition(&fleet.binding("c").conditions, &ConditionType::Overridden).map(|c| c.reason.clone())
    };
    assert_eq!(says(&fleet), Some(Reason::NoOverrideSpecified));
    fleet.push(&commit(["x", "x", "w", "w"], "", &override_of(BY_ZONE)));
    assert_eq!((fleet.decide().len(), fleet.state.snapshots.len()), (2, 1), "two at a time, the same snapshot");
    assert_eq!(fleet.settle().zones(), "x x w w");
    assert_eq!(says(&fleet), Some(Reason::OverriddenSucceeded));
    assert!(fleet.decide().is_empty(), "quiet");
    fleet.push(&commit(["x", "x", "w", "w"], "", ""));
    assert_eq!(fleet.decide().len(), 2);
    assert_eq!(fleet.settle().zones(), "- - - -", "gone with its file");
    assert_eq!(says(&fleet), Some(Reason::NoOverrideSpecified));
}

#[test]
fn a_cluster_relabelled_rolls_out_within_the_limits() {
    let files = |zones| commit(zones, "", &override_of(BY_ZONE));
    let mut fleet = Fleet::begin(&files(["x", "x", "x", "x"]));
    fleet.settle();
    fleet.push(&files(["x", "w", "w", "w"]));
    assert_eq!(fleet.decide().len(), 2, "maxUnavailable");
    let told: BTreeSet<String> = fleet.zones().split(' ').map(str::to_owned).collect();
    assert_eq!(told, BTreeSet::from(["x".to_owned(), "w".to_owned()]), "the others keep what they have");
    assert_eq!(fleet.settle().zones(), "x w w w");
    // A label that nobody reads moves nothing.
    let mut more = files(["x", "w", "w", "w"]);
    more[0].1 = more[0].1.replace("{zone: w}", "{zone: w, unread: z}");
    assert!(fleet.push(&more).decide().is_empty());
}

#[test]
fn a_patch_that_fails_on_one_cluster_fails_that_cluster() {
    let rows = [("gitfleet.io/max-failures: '1'", "x x ? x", false), ("gitfleet.io/max-failures: '0'", "", true)];
    for (annotations, wanted, halts) in rows {
        // It has run before, so that limits count.
        let mut fleet = Fleet::begin(&commit(["x", "x", "", "x"], annotations, ""));
        fleet.settle();
        fleet.push(&commit(["x", "x", "", "x"], annotations, &override_of(BY_ZONE)));
        fleet.settle();
        if !wanted.is_empty() {
            assert_eq!(fleet.zones(), wanted, "{annotations}");
            let condition =
                find_condition(&fleet.binding("c").conditions, &ConditionType::Overridden).expect("it was evaluated");
            assert_eq!(
                (condition.reason.as_str(), condition.observed_generation),
                ("OverriddenFailed", fleet.binding("c").generation)
            );
            assert!(condition.message.contains("ResourceOverride a/o rule 1: add /data/zone on ConfigMap a/m"));
        }
        assert_eq!(fleet.state.record.halted.is_some(), halts, "{annotations}: {:?}", fleet.state.record.halted);
        // It holds what it had, and comes along with the fix.
        assert!(fleet.state.works.contains_key("c"));
        fleet.push(&commit(["x", "x", "w", "x"], annotations, &override_of(BY_ZONE))).settle();
        assert_eq!((fleet.zones().as_str(), fleet.state.record.halted.is_some()), ("x x w x", false), "{annotations}");
    }
}

#[test]
fn a_delete_rule_is_a_deletion_on_its_clusters() {
    let delete = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceOverride\nmetadata: {name: gone}\nspec:\n  \
        clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: a}]\n  policy: {overrideRules: [\
        {clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {zone: w}}}]}, overrideType: Delete}]}\n";
    let mut fleet = Fleet::begin(&commit(["x", "x", "x", "w"], "", ""));
    fleet.settle().push(&commit(["x", "x", "x", "w"], "", delete));
    assert_eq!(fleet.decide(), ["d"], "the others are not concerned");
    let gate = fleet.state.record.closed_gate().expect("a Namespace would go");
    assert_eq!(gate.deletions.keys().map(ClusterName::as_str).collect::<Vec<_>>(), ["d"]);
    assert_eq!(gate.deletions["d"].len(), 2, "the ConfigMap in it, too");
}

/// Another placement may be to have what a cluster loses: it takes that over, and brings it to no new cluster.
#[test]
fn w16_what_is_seen_is_lost_though_a_kind_cannot_be_listed() {
    let mut fleet = Fleet::begin(&commit(["x", "x", "x", "x"], "", ""));
    fleet.settle();
    let seen = fleet.state.works["a"].inventory.seen().clone();
    fleet.glimpse("a", seen);
    let mut files = commit(["x", "x", "x", "x"], "", "");
    files[1].1 = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n".to_owned();
    fleet.push(&files).decide();
    let lost: Vec<&str> = fleet.state.given_up["a"].iter().map(|key| &*key.name).collect();
    assert_eq!(lost, ["m"]);
    assert_eq!(fleet.orders["a"].prune, BTreeSet::new(), "nothing is deleted before all is known");
}

/// What an earlier store left on clusters is updated two at a time, also where not all of it is seen.
#[test]
fn w16_a_cluster_that_has_something_is_updated_though_a_kind_cannot_be_listed() {
    let object =
        ObjectKey { kind: "ConfigMap".into(), namespace: "a".into(), name: "m".into(), ..ObjectKey::default() };
    for (seen, wanted) in [(BTreeSet::new(), 4), (BTreeSet::from([object]), 2)] {
        let mut fleet = Fleet::begin(&commit(["x", "x", "x", "x"], "", ""));
        for cluster in CLUSTERS {
            fleet.glimpse(cluster, seen.clone());
        }
        fleet.decide();
        let bound = fleet.state.bindings().filter(|binding| binding.state == BindingState::Bound);
        assert_eq!(bound.count(), wanted, "{seen:?}");
    }
}

#[test]
fn objects_are_made_once() {
    let files = commit(["x", "x", "w", "w"], "", &override_of(BY_ZONE));
    let mut fleet = Fleet::begin(&files);
    fleet.settle();
    let before = fleet.orders.clone();
    fleet.decide();
    assert!(before.iter().all(|(cluster, order)| Arc::ptr_eq(&order.manifests, &fleet.orders[cluster].manifests)));
    assert!(Arc::ptr_eq(&before["a"].manifests[0].object, &before["c"].manifests[0].object), "the Namespace is shared");
    // From the records alone the same objects come again.
    fleet.state.memo.rendered = crate::overrides::Rendered::default();
    fleet.decide();
    assert!(before.iter().all(|(cluster, order)| order == &fleet.orders[cluster]));
}

#[test]
fn envelopes_are_delivered_open() {
    let envelope = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: env, namespace: a, annotations: \
        {kubernetes-fleet.io/envelope-configmap: 'true'}}\ndata:\n  quota: |\n    apiVersion: v1\n    kind: ResourceQuota\n    \
        metadata: {name: q, namespace: a}\n    spec: {hard: {pods: '1'}}\n";
    let patch = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {name: q, namespace: a}\nspec:\n  \
        resourceSelectors: [{group: '', version: v1, kind: ResourceQuota, name: q}]\n  policy: {overrideRules: [\
        {clusterSelector: {}, jsonPatchOverrides: [{op: replace, path: /spec/hard/pods, value: '2'}]}]}\n";
    let mut fleet = Fleet::begin(&commit(["x", "x", "w", "w"], "", &format!("{envelope}---\n{patch}")));
    fleet.settle();
    let names: Vec<String> = fleet.orders["a"].manifests.iter().map(|desired| desired.id.to_string()).collect();
    assert_eq!(names, ["Namespace a", "ConfigMap a/m", "ResourceQuota a/q"]);
    assert_eq!(fleet.orders["a"].manifests[2].object["spec"]["hard"]["pods"], "2");
    let kept: Vec<String> = fleet.state.newest().expect("frozen").resources.iter().map(|r| r.id.to_string()).collect();
    assert_eq!(kept, ["Namespace a", "ConfigMap a/env", "ConfigMap a/m"], "the snapshot has the envelope");
    // An entry that does not fit is the placement's error, and clusters keep what they have.
    let wrong = envelope.replace("namespace: a}\n    spec", "namespace: b}\n    spec");
    fleet.push(&commit(["x", "x", "w", "w"], "", &wrong)).decide();
    let error = fleet.state.record.error.clone().unwrap_or_default();
    assert!(error.contains("ConfigMap a/env, entry quota: is in namespace \"b\""), "{error}");
    assert_eq!(fleet.orders["a"].manifests.len(), 3);
}
